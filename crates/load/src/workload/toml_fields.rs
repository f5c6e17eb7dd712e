//! Reads the tables of a workload file by key. Unknown keys are errors, and each error names file, line and key.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::units;

/// The file being read.
pub struct WorkloadFile<'a> {
    /// Its name in messages.
    pub name: &'a str,
    pub text: &'a str,
}

impl WorkloadFile<'_> {
    /// An error at a position of the text.
    pub fn fault(&self, at: usize, path: &str, why: &str) -> String {
        let line = self.text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
        let colon = if path.is_empty() { "" } else { ": " };
        format!("{}:{line}: {path}{colon}{why}", self.name)
    }
}

type FieldEntry<'a, 'i> = (&'a str, usize, &'a Spanned<DeValue<'i>>);

/// A table whose keys are taken one at a time.
pub struct TomlFields<'a, 'i> {
    source: &'a WorkloadFile<'a>,
    path: String,
    at: usize,
    left: Vec<FieldEntry<'a, 'i>>,
    known: Vec<&'static str>,
}

#[derive(Clone)]
pub struct TomlField<'a, 'i> {
    source: &'a WorkloadFile<'a>,
    path: String,
    at: usize,
    value: &'a DeValue<'i>,
}

impl<'a, 'i> TomlFields<'a, 'i> {
    /// The root table of the file.
    pub fn of(source: &'a WorkloadFile<'a>, table: &'a DeTable<'i>) -> Self {
        Self::at(source, String::new(), 0, table)
    }

    fn at(source: &'a WorkloadFile<'a>, path: String, at: usize, table: &'a DeTable<'i>) -> Self {
        let left = table.iter().map(|(key, value)| (&**key.get_ref(), key.span().start, value)).collect();
        Self { source, path, at, left, known: Vec::new() }
    }

    /// Rejects all other keys before any is taken, so that a misspelt key is not reported as a missing one.
    pub fn only(&self, keys: &[&str]) -> Result<(), String> {
        match self.left.iter().find(|(name, ..)| !keys.contains(name)) {
            None => Ok(()),
            Some((name, at, _)) => Err(self.unknown(name, *at, &keys.join(", "))),
        }
    }

    pub fn has(&self, key: &str) -> bool {
        self.left.iter().any(|(name, ..)| *name == key)
    }

    fn unknown(&self, name: &str, at: usize, known: &str) -> String {
        self.source.fault(at, &self.path, &format!("unknown key '{name}'; there are {known}"))
    }

    /// The value of an optional key.
    pub fn take(&mut self, key: &'static str) -> Option<TomlField<'a, 'i>> {
        self.known.push(key);
        let index = self.left.iter().position(|(name, ..)| *name == key)?;
        let (name, _, value) = self.left.remove(index);
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Some(TomlField { source: self.source, path, at: value.span().start, value: value.get_ref() })
    }

    /// The value of a required key.
    pub fn need(&mut self, key: &'static str) -> Result<TomlField<'a, 'i>, String> {
        self.take(key).ok_or_else(|| self.fault(&format!("'{key}' is missing")))
    }

    /// The tables of an optional array of tables.
    pub fn tables(&mut self, key: &'static str) -> Result<Vec<TomlFields<'a, 'i>>, String> {
        match self.take(key) {
            Some(field) => field.list()?.into_iter().map(|one| one.table()).collect(),
            None => Ok(Vec::new()),
        }
    }

    /// Fails if keys are left.
    pub fn end(self) -> Result<(), String> {
        match self.left.first() {
            None => Ok(()),
            Some((name, at, _)) => Err(self.unknown(name, *at, &self.known.join(", "))),
        }
    }

    /// An error about the table.
    pub fn fault(&self, why: &str) -> String {
        self.source.fault(self.at, &self.path, why)
    }
}

impl<'a, 'i> TomlField<'a, 'i> {
    /// An error about this value.
    pub fn fault(&self, why: &str) -> String {
        self.source.fault(self.at, &self.path, why)
    }

    fn wrong(&self, wanted: &str) -> String {
        self.fault(&format!("expected {wanted}, not {}", kind(self.value)))
    }

    pub fn text(&self) -> Result<&'a str, String> {
        match self.value {
            DeValue::String(text) => Ok(text),
            _ => Err(self.wrong("a text in quotes")),
        }
    }

    pub fn boolean(&self) -> Result<bool, String> {
        match self.value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// An integer within bounds.
    pub fn whole(&self, least: u64, most: u64) -> Result<u64, String> {
        let DeValue::Integer(number) = self.value else {
            return Err(self.wrong(&format!("a whole number from {least} to {most}")));
        };
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.fault(&format!("expected a whole number from {least} to {most}, not {}", number.as_str()))),
        }
    }

    /// A number within bounds.
    pub fn number(&self, least: f64, most: f64) -> Result<f64, String> {
        let text = match self.value {
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => return Err(self.wrong(&format!("a number from {least} to {most}"))),
        };
        match text.parse::<f64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.fault(&format!("expected a number from {least} to {most}, not {text}"))),
        }
    }

    /// A duration: a string with a unit.
    pub fn duration_ns(&self) -> Result<u64, String> {
        let DeValue::String(text) = self.value else {
            return Err(self.wrong("a duration with its unit, as in \"250ms\""));
        };
        units::duration_ns(text).map_err(|why| self.fault(&why))
    }

    /// Bytes: an integer, or a string with a unit.
    pub fn bytes(&self) -> Result<usize, String> {
        let text: &str = match self.value {
            DeValue::String(text) => text,
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            _ => return Err(self.wrong("a number of bytes, as in 64 or \"16KiB\"")),
        };
        units::bytes(text).map_err(|why| self.fault(&why))
    }

    /// A share: a number from 0 to 1, or a percentage.
    pub fn share(&self) -> Result<f64, String> {
        match self.value {
            DeValue::String(text) => units::share(text).map_err(|why| self.fault(&why)),
            _ => self.number(0.0, 1.0),
        }
    }

    /// One of several words.
    pub fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, String> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let text = self.text()?;
        choices
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, choice)| *choice)
            .ok_or_else(|| self.fault(&format!("'{text}' is none of {}", names.join(", "))))
    }

    pub fn list(&self) -> Result<Vec<TomlField<'a, 'i>>, String> {
        let DeValue::Array(array) = self.value else { return Err(self.wrong("a list")) };
        let element = |(index, value): (usize, &'a Spanned<DeValue<'i>>)| TomlField {
            source: self.source,
            path: format!("{}[{index}]", self.path),
            at: value.span().start,
            value: value.get_ref(),
        };
        Ok(array.iter().enumerate().map(element).collect())
    }

    pub fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    pub fn is_text(&self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    pub fn table(&self) -> Result<TomlFields<'a, 'i>, String> {
        match self.value {
            DeValue::Table(table) => Ok(TomlFields::at(self.source, self.path.clone(), self.at, table)),
            _ => Err(self.wrong("a table")),
        }
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
