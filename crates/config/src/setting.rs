//! A setting: what its values are, and how they are written.
//!
//! Enters: text of the command line or environment, a TOML value.  Leaves: a checked [`Value`], or why it is none.
//! Owns:   the kinds of values, their ranges and notations.

use crate::limits::{LIST_ITEMS_MAX, MEMORY_LIMIT_BYTES_LEAST, TEXT_BYTES_MAX};
use crate::{size, time};
use toml::de::DeValue;

/// One setting as declared.
pub struct Setting {
    /// Its heading in the help and in the reference.
    pub section: &'static str,
    /// Its key in the file. Options write `-` for `_`, variables are `HARRIER_` and the name in capitals.
    pub name: &'static str,
    /// What its values are.
    pub kind: SettingKind,
    /// Its default, as the command line would have it; items of a list are separated by commas.
    pub default: &'static str,
    /// What it does, in plain sentences.
    pub help: &'static str,
}

/// A kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A whole number.
    Number {
        /// What is counted, in the plural; empty if the name says it.
        unit: &'static str,
        least: u64,
        most: u64,
    },
    /// A number of bytes, units allowed.
    Bytes { least: u64, most: u64 },
    /// A whole percentage from 1 to 100, `%` optional.
    Percent,
    /// A whole percentage with `%`, or bytes with units allowed.
    Memory,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words, or a time in ms or s.
    ChoiceOrTime { words: &'static [&'static str], least_us: u64, most_us: u64 },
    /// Text; empty for none.
    Text,
    /// Texts, in any number from `least`.
    List {
        item: &'static str,
        /// How many there must be.
        least: usize,
    },
}

/// A checked value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingValue {
    /// Of a number, bytes or a percentage.
    Number(u64),
    /// Of a memory limit given as a percentage.
    Percent(u8),
    Flag(bool),
    /// Of a choice or text.
    Text(String),
    List(Vec<String>),
}

impl Setting {
    /// Its option on the command line: `--frame-bytes-max`.
    pub fn option(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// Its variable in the environment.
    pub fn variable(&self) -> String {
        format!("HARRIER_{}", self.name.to_ascii_uppercase())
    }

    /// Its default as a value. Declarations are tested, so each has one.
    pub fn default_value(&self) -> SettingValue {
        match (self.kind.read_listed(self.default), self.kind) {
            (Ok(value), _) => value,
            (Err(why), _) => unreachable!("the declared default of {} is sound: {why}", self.name),
        }
    }
}

impl SettingKind {
    /// A number without a unit.
    pub const fn number(least: u64, most: u64) -> SettingKind {
        SettingKind::Number { unit: "", least, most }
    }

    /// The largest number that a value can be.
    pub const fn most(self) -> u64 {
        match self {
            SettingKind::Number { most, .. } | SettingKind::Bytes { most, .. } => most,
            SettingKind::Percent => 100,
            SettingKind::Memory
            | SettingKind::Flag
            | SettingKind::Choice(_)
            | SettingKind::ChoiceOrTime { .. }
            | SettingKind::Text
            | SettingKind::List { .. } => 0,
        }
    }

    /// Whether the option may be repeated.
    pub const fn is_list(self) -> bool {
        matches!(self, SettingKind::List { .. })
    }

    /// What stands for a value in the help.
    pub const fn placeholder(self) -> &'static str {
        match self {
            SettingKind::Number { .. } => "N",
            SettingKind::Bytes { .. } => "BYTES",
            SettingKind::Percent => "PERCENT",
            SettingKind::Memory => "SIZE",
            SettingKind::Flag => "true|false",
            SettingKind::Choice(_) => "WORD",
            SettingKind::ChoiceOrTime { .. } => "WORD|TIME",
            SettingKind::Text => "TEXT",
            SettingKind::List { item, .. } => item,
        }
    }

    /// What its values are, in words: `a number from 0 to 256`.
    pub fn form(self) -> String {
        match self {
            SettingKind::Number { unit, least, most } => {
                let what = if unit.is_empty() { "a number".to_owned() } else { unit.to_owned() };
                format!("{what} from {least} to {most}")
            }
            SettingKind::Bytes { least, most } => {
                format!("bytes from {} to {}, units allowed", size::readable(least), size::readable(most))
            }
            SettingKind::Percent => "a percentage from 1% to 100%".to_owned(),
            SettingKind::Memory => format!(
                "a percentage from 1% to 100%, or bytes from {}, units allowed",
                size::readable(MEMORY_LIMIT_BYTES_LEAST)
            ),
            SettingKind::Flag => "true or false".to_owned(),
            SettingKind::Choice(words) => format!("one of {}", words.join(", ")),
            SettingKind::ChoiceOrTime { words, least_us, most_us } => {
                format!(
                    "{}, or a time from {} to {}",
                    words.join(", "),
                    time::readable(least_us),
                    time::readable(most_us)
                )
            }
            SettingKind::Text => "text, may be empty".to_owned(),
            SettingKind::List { least: 0, .. } => "a list, may be empty".to_owned(),
            SettingKind::List { .. } => "a list".to_owned(),
        }
    }

    /// Reads a value of the command line: for a list, one item.
    pub fn read(self, text: &str) -> Result<SettingValue, String> {
        match self {
            SettingKind::Number { least, most, .. } => {
                let number = size::number(text).ok_or_else(|| {
                    let why = if text.starts_with('-') { "is negative" } else { "is no whole number" };
                    format!("'{}' {why}; it takes {}", shown(text), self.form())
                })?;
                self.within(number, least, most, &number.to_string())
            }
            SettingKind::Bytes { least, most } => self.within(size::parse(text)?, least, most, text),
            SettingKind::Percent => {
                let number = size::number(text.strip_suffix('%').unwrap_or(text));
                let number = number.ok_or_else(|| format!("'{}' is no whole percentage", shown(text)))?;
                self.within(number, 1, 100, text)
            }
            SettingKind::Memory => match text.strip_suffix('%') {
                Some(percent) => match SettingKind::Percent.read(percent) {
                    Ok(SettingValue::Number(percent)) => {
                        Ok(SettingValue::Percent(u8::try_from(percent).unwrap_or(100)))
                    }
                    _ => Err(format!("'{}' is no percentage from 1% to 100%", shown(text))),
                },
                None => self.within(size::parse(text)?, MEMORY_LIMIT_BYTES_LEAST, u64::MAX, text),
            },
            SettingKind::Flag => match text.parse() {
                Ok(flag) => Ok(SettingValue::Flag(flag)),
                Err(_) => Err(format!("'{}' is not {}", shown(text), self.form())),
            },
            SettingKind::Choice(words) if words.contains(&text) => Ok(SettingValue::Text(text.to_owned())),
            SettingKind::Choice(_) => Err(format!("'{}' is not {}", shown(text), self.form())),
            SettingKind::ChoiceOrTime { words, .. } if words.contains(&text) => Ok(SettingValue::Text(text.to_owned())),
            SettingKind::ChoiceOrTime { least_us, most_us, .. } => match time::parse_us(text) {
                Some(us) if (least_us..=most_us).contains(&us) => Ok(SettingValue::Text(time::readable(us))),
                _ => Err(format!("'{}' is not one of {}", shown(text), self.form())),
            },
            SettingKind::Text => {
                sound(text)?;
                Ok(SettingValue::Text(text.to_owned()))
            }
            SettingKind::List { least, .. } => {
                let items = if text.is_empty() { vec![] } else { vec![text.to_owned()] };
                list(items, least)
            }
        }
    }

    /// Reads a value of the environment: items of a list are separated by commas.
    pub(crate) fn read_listed(self, text: &str) -> Result<SettingValue, String> {
        match self {
            SettingKind::List { least, .. } => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                list(items.map(str::to_owned).collect(), least)
            }
            _ => self.read(text),
        }
    }

    /// Reads a value of a file.
    pub(crate) fn read_toml(self, value: &DeValue<'_>) -> Result<SettingValue, String> {
        let mismatch = || Err(format!("{} is needed, not {}", self.toml_form(), type_of(value)));
        match (self, value) {
            (
                SettingKind::Number { .. } | SettingKind::Bytes { .. } | SettingKind::Percent,
                DeValue::Integer(number),
            ) => {
                let text = if number.as_str().starts_with('-') { number.as_str() } else { &*decimal(number)? };
                self.read(text)
            }
            (SettingKind::Memory, DeValue::Integer(number)) => self.read(&decimal(number)?),
            (SettingKind::Flag, DeValue::Boolean(flag)) => Ok(SettingValue::Flag(*flag)),
            (SettingKind::Flag, _) => mismatch(),
            (SettingKind::Number { .. }, _) => mismatch(),
            (SettingKind::List { least, .. }, DeValue::Array(items)) => {
                let text = |item: &toml::Spanned<DeValue<'_>>| item.get_ref().as_str().map(str::to_owned);
                match items.iter().map(text).collect() {
                    Some(items) => list(items, least),
                    None => Err("a list of strings is needed".to_owned()),
                }
            }
            (SettingKind::List { .. }, _) => mismatch(),
            (_, DeValue::String(text)) => self.read(text),
            _ => mismatch(),
        }
    }

    const fn toml_form(self) -> &'static str {
        match self {
            SettingKind::Number { .. } => "an integer",
            SettingKind::Bytes { .. } | SettingKind::Percent | SettingKind::Memory => "an integer or a string",
            SettingKind::Flag => "a boolean",
            SettingKind::Choice(_) | SettingKind::ChoiceOrTime { .. } | SettingKind::Text => "a string",
            SettingKind::List { .. } => "a list of strings",
        }
    }

    fn within(self, number: u64, least: u64, most: u64, text: &str) -> Result<SettingValue, String> {
        if number < least || number > most {
            return Err(format!("{} is out of range; it takes {}", shown(text), self.form()));
        }
        Ok(SettingValue::Number(number))
    }
}

impl SettingValue {
    pub fn to_toml(&self) -> String {
        match self {
            SettingValue::Number(number) => number.to_string(),
            SettingValue::Percent(percent) => format!("\"{percent}%\""),
            SettingValue::Flag(flag) => flag.to_string(),
            SettingValue::Text(text) => quoted(text),
            SettingValue::List(items) => {
                format!("[{}]", items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A basic string of TOML: what it is written as reads as this text.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// What a TOML value is, with its article.
pub(crate) fn type_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Text that an error may show: the beginning of what was given.
fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(80).collect()
}

fn decimal(number: &toml::de::DeInteger<'_>) -> Result<String, String> {
    let value = u64::from_str_radix(number.as_str(), number.radix());
    value.map(|value| value.to_string()).map_err(|_| format!("{} is no number it takes", number.as_str()))
}

fn sound(text: &str) -> Result<(), String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("{} bytes are too long; {TEXT_BYTES_MAX} are the most", text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err("control characters have no place in it".to_owned());
    }
    Ok(())
}

fn list(items: Vec<String>, least: usize) -> Result<SettingValue, String> {
    if items.len() < least {
        return Err(format!("at least {least} is needed"));
    }
    if items.len() > LIST_ITEMS_MAX {
        return Err(format!("{} items are too many; {LIST_ITEMS_MAX} are the most", items.len()));
    }
    if items.iter().any(String::is_empty) {
        return Err("an item is empty".to_owned());
    }
    items.iter().try_for_each(|item| sound(item))?;
    Ok(SettingValue::List(items))
}
