//! The words of a tool's command: options and their values as numbers within bounds, lists and choices.
//!
//! Unknown options are usage errors; numbers and lists are checked against bounds.

use cli::WordsError;
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

impl OptionSpec {
    /// The option as declared; of one given several times all values are kept.
    pub fn declared(&self) -> cli::Arg {
        let option = match self.value {
            "" => cli::flag(self.name, self.help),
            value => {
                let option = cli::valued(self.name, value, self.help).action(cli::ArgAction::Append);
                option.value_parser(cli::value_parser!(String))
            }
        };
        match self.letter {
            Some(letter) => option.short(letter),
            None => option,
        }
    }
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
        let known = known_once(known);
        let command = cli::Command::new("").args_override_self(true).args(known.iter().map(OptionSpec::declared));
        let found = cli::parse(command.arg(cli::word("[WORDS...]", "")), words).map_err(|error| match error {
            WordsError::Usage(why) => UsageError(with_placeholder(why, &known)),
            WordsError::Words(text) | WordsError::Help(text) => UsageError(text),
        })?;
        let mut given = Self::default();
        given.bare.extend(cli::texts(&found, "WORDS").into_iter().map(str::to_owned));
        for option in known.iter().filter(|option| cli::has(&found, option.name)) {
            let values = match option.value {
                "" => vec![String::new()],
                _ => cli::texts(&found, option.name).into_iter().map(str::to_owned).collect(),
            };
            given.values.insert(option.name, values);
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

/// The options of some lists, each once.
pub(crate) fn known_once(lists: &[&[OptionSpec]]) -> Vec<OptionSpec> {
    let mut known: Vec<OptionSpec> = Vec::new();
    for option in lists.iter().flat_map(|options| options.iter()) {
        if known.iter().all(|other| other.name != option.name) {
            known.push(*option);
        }
    }
    known
}

/// A missing value with what it would be.
fn with_placeholder(why: String, known: &[OptionSpec]) -> String {
    let Some(word) = why.strip_suffix(" needs a value") else { return why };
    let is_it = |option: &&OptionSpec| {
        word.strip_prefix("--")
            .map_or_else(|| option.letter.is_some_and(|letter| word.ends_with(letter)), |name| option.name == name)
    };
    let option = known.iter().find(is_it);
    option.map_or(why.clone(), |option| format!("--{} needs a value ({})", option.name, option.value))
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
        check("-sizes 1", "unknown option '-s'");
        check("-m1:8", r#"{"sizes": "1:8"}"#);
        check("-m", "--sizes needs a value (MIN:MAX)");
        check("--sizes --quick", r#"{"sizes": "--quick"}"#);
        check("--quick --quick", r#"{"quick": "yes"}"#);
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
}
