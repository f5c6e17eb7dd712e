//! Command-line parser of the benchmarks: `--name value`, `--name=value`, `-x value`, `--flag`, `a,b,c`; also prints help.
//!
//! Unknown options are usage errors; numbers and lists are checked against bounds.

use std::collections::BTreeMap;
use std::fmt;

/// A usage error: exit status 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<UsageError> for String {
    fn from(wrong: UsageError) -> Self {
        wrong.0
    }
}

impl From<String> for UsageError {
    fn from(why: String) -> Self {
        Self(why)
    }
}

/// A command-line option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    pub name: &'static str,
    pub letter: Option<char>,
    /// Placeholder of its value in the help; empty for a flag.
    pub value: &'static str,
    pub help: &'static str,
}

pub const fn option(name: &'static str, letter: Option<char>, value: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec { name, letter, value, help }
}

/// The options given, each with its values in the order of the command line.
#[derive(Clone, Debug, Default)]
pub struct ParsedOptions {
    values: BTreeMap<&'static str, Vec<String>>,
    bare: Vec<String>,
}

impl ParsedOptions {
    /// Parses a command line without positional arguments.
    ///
    /// # Errors
    /// An unknown option, a missing value, or a positional argument.
    pub fn parse(words: &[String], known: &[&[OptionSpec]]) -> Result<Self, UsageError> {
        let given = Self::parse_with_bare(words, known)?;
        match given.bare.first() {
            Some(word) => Err(UsageError(format!("'{word}' is not an option"))),
            None => Ok(given),
        }
    }

    /// Parses a command line with positional arguments (`bare`).
    ///
    /// # Errors
    /// An unknown option, or a missing value.
    pub fn parse_with_bare(words: &[String], known: &[&[OptionSpec]]) -> Result<Self, UsageError> {
        let mut given = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let (name, inline) = match word.strip_prefix("--") {
                Some(long) => long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value))),
                None => match word.strip_prefix('-').filter(|letter| !letter.is_empty()) {
                    Some(letter) => (letter, None),
                    None => {
                        given.bare.push(word.clone());
                        continue;
                    }
                },
            };
            let is_long = word.starts_with("--");
            let found = known.iter().flat_map(|options| options.iter()).find(|option| {
                if is_long {
                    option.name == name
                } else {
                    option.letter.is_some_and(|letter| name.chars().eq([letter]))
                }
            });
            let option = found.ok_or_else(|| UsageError(format!("unknown option '{word}'")))?;
            let value = match (option.value.is_empty(), inline) {
                (true, None) => String::new(),
                (true, Some(_)) => return Err(UsageError(format!("--{} takes no value", option.name))),
                (false, Some(value)) => value.to_owned(),
                (false, None) => rest
                    .next()
                    .cloned()
                    .ok_or_else(|| UsageError(format!("--{} needs a value ({})", option.name, option.value)))?,
            };
            given.values.entry(option.name).or_default().push(value);
        }
        Ok(given)
    }

    /// The positional arguments.
    pub fn bare(&self) -> &[String] {
        &self.bare
    }

    /// The value of an option; the last one if it was given several times.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|values| values.last()).map(String::as_str)
    }

    /// Every value of an option.
    pub fn texts(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether an option is given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The value of an option as words.
    pub fn words(&self, name: &str) -> Vec<String> {
        self.text(name).unwrap_or("").split_whitespace().map(str::to_owned).collect()
    }

    /// The value of an option as a number within bounds, or the default.
    ///
    /// # Errors
    /// Not a number, or out of bounds.
    pub fn number(&self, name: &str, usual: u64, least: u64, most: u64) -> Result<u64, UsageError> {
        let Some(text) = self.text(name) else { return Ok(usual) };
        number(name, text, least, most)
    }

    /// The value of an option as a number within bounds, if it is given.
    ///
    /// # Errors
    /// As `number`.
    pub fn number_if_given(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, UsageError> {
        self.text(name).map(|text| number(name, text, least, most)).transpose()
    }

    /// The value of an option as a decimal number within bounds, or the default.
    ///
    /// # Errors
    /// Not a number, or out of bounds.
    pub fn decimal(&self, name: &str, usual: f64, least: f64, most: f64) -> Result<f64, UsageError> {
        let Some(text) = self.text(name) else { return Ok(usual) };
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(UsageError(format!("--{name} is a number from {least} to {most}, not '{text}'"))),
        }
    }

    /// The value of an option as a comma-separated list of distinct numbers within bounds, or the default.
    ///
    /// # Errors
    /// An element that is not a number, out of bounds, or repeated.
    pub fn list(&self, name: &str, usual: &[usize], least: usize, most: usize) -> Result<Vec<usize>, UsageError> {
        let Some(text) = self.text(name) else { return Ok(usual.to_vec()) };
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let one = number(name, part, least as u64, most as u64)? as usize;
            if numbers.contains(&one) {
                return Err(UsageError(format!("--{name}: {one} is given twice")));
            }
            numbers.push(one);
        }
        Ok(numbers)
    }

    /// The value of an option that must be one of some words; the first is the default.
    ///
    /// # Errors
    /// Another word.
    pub fn one_of(&self, name: &str, choices: &[&'static str]) -> Result<&'static str, UsageError> {
        let Some(text) = self.text(name) else { return Ok(choices.first().copied().unwrap_or_default()) };
        choices
            .iter()
            .copied()
            .find(|&choice| choice == text)
            .ok_or_else(|| UsageError(format!("--{name} is one of {}, not '{text}'", choices.join(", "))))
    }

    /// All options as text, for the document: several values are joined by spaces, flags are `yes`.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let text = |values: &[String]| {
            let joined = values.join(" ");
            if joined.is_empty() { "yes".to_owned() } else { joined }
        };
        self.values.iter().map(|(&name, values)| (name.to_owned(), text(values))).collect()
    }
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, UsageError> {
    match text.trim().parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(UsageError(format!("--{name} is a number from {least} to {most}, not '{text}'"))),
    }
}

/// The help text of a command.
pub fn help(usage: &str, known: &[&[OptionSpec]]) -> String {
    let mut text = format!("usage: {usage}\n\n");
    for option in known.iter().flat_map(|options| options.iter()) {
        let letter = option.letter.map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
        let name = format!("--{} {}", option.name, option.value);
        text.push_str(&format!("  {letter}{name:<28} {}\n", option.help));
    }
    text
}

/// The help text of a command, with a description and examples.
pub fn help_with(usage: &str, about: &str, known: &[&[OptionSpec]], examples: &[(&str, &str)]) -> String {
    let options = help(usage, known);
    let (usage, options) = options.split_once("\n\n").unwrap_or((&options, ""));
    let mut text = format!("{usage}\n\n{}\n\n{options}", about.trim());
    if !examples.is_empty() {
        text.push_str("\nExamples\n");
        for (command, what) in examples {
            text.push_str(&format!("  harrier bench {command}\n      {what}\n"));
        }
    }
    text
}

/// A decimal number within bounds.
pub fn decimal(name: &str, text: &str, least: f64, most: f64) -> Result<f64, UsageError> {
    match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(UsageError(format!("--{name} is a number from {least} to {most}, not '{text}'"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[OptionSpec] = &[
        option("sizes", Some('m'), "MIN:MAX", "sizes"),
        option("quick", None, "", "less"),
        option("against", None, "URL", "another"),
    ];

    fn words(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    fn check(line: &str, expected: &str) {
        let shown = ParsedOptions::parse(&words(line), &[KNOWN])
            .map_or_else(|error| error.0, |given| format!("{:?}", given.shown()));
        assert_eq!(shown, expected, "{line:?}");
    }

    #[test]
    fn command_lines() {
        check("-m 1:8 --quick", r#"{"quick": "yes", "sizes": "1:8"}"#);
        check("--sizes=1:8", r#"{"sizes": "1:8"}"#);
        check("--against a --against=b", r#"{"against": "a b"}"#);
        check("--sizes", "--sizes needs a value (MIN:MAX)");
        check("--quick=1", "--quick takes no value");
        check("-x", "unknown option '-x'");
        check("-sizes 1", "unknown option '-sizes'");
        check("--m 1", "unknown option '--m'");
        check("word", "'word' is not an option");
        // A dash alone is a word: standard input.
        check("-", "'-' is not an option");
    }

    #[test]
    fn bare_words_are_kept_where_they_are_wanted() {
        let given = ParsedOptions::parse_with_bare(&words("a.toml --quick b"), &[KNOWN]).expect("known");
        assert_eq!(given.bare(), ["a.toml", "b"]);
        assert!(given.has("quick"));
    }

    #[test]
    fn numbers_have_bounds() {
        let given = ParsedOptions::parse(&words("-m 7"), &[KNOWN]).expect("known");
        assert_eq!(given.number("sizes", 1, 1, 9), Ok(7));
        assert_eq!(given.number("other", 1, 1, 9), Ok(1));
        assert_eq!(given.number_if_given("other", 1, 9), Ok(None));
        assert_eq!(
            given.number("sizes", 1, 1, 6),
            Err(UsageError("--sizes is a number from 1 to 6, not '7'".to_owned()))
        );
    }

    #[test]
    fn lists_are_numbers_with_commas() {
        let list = |text: &str| {
            let given = ParsedOptions::parse(&words(&format!("-m {text}")), &[KNOWN]).expect("known");
            given.list("sizes", &[1], 1, 64).map_or_else(|wrong| wrong.0, |list| format!("{list:?}"))
        };
        assert_eq!(list("1,2,32"), "[1, 2, 32]");
        assert_eq!(list("1,,2"), "--sizes is a number from 1 to 64, not ''");
        assert_eq!(list("65"), "--sizes is a number from 1 to 64, not '65'");
        assert_eq!(list("2,2"), "--sizes: 2 is given twice");
    }

    #[test]
    fn a_choice_is_one_of_its_words() {
        let given = ParsedOptions::parse(&words("-m all"), &[KNOWN]).expect("known");
        assert_eq!(given.one_of("sizes", &["one", "all"]), Ok("all"));
        assert_eq!(given.one_of("other", &["one", "all"]), Ok("one"));
        assert_eq!(given.one_of("sizes", &["one"]), Err(UsageError("--sizes is one of one, not 'all'".to_owned())));
    }

    #[test]
    fn help_has_everything() {
        let text = help_with("harrier bench x [OPTIONS]", "Does x.", &[KNOWN], &[("x -m 1:8", "small ones")]);
        for part in ["usage: harrier bench x", "Does x.", "-m, --sizes MIN:MAX", "harrier bench x -m 1:8\n"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
