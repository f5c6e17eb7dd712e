//! The command line of the benchmarks.
//!
//! Enters: words.  Leaves: options by name, checked for spelling.
//! Owns:   the notation `--name value`, `--name=value`, `-x value`, `--flag`.
//! Never:  knows what an option means.

use std::collections::BTreeMap;

/// An option a command takes.
pub struct Option_ {
    /// Its long name without dashes.
    pub name: &'static str,
    /// Its letter, if it has one.
    pub letter: Option<char>,
    /// What stands for its value in the help; empty for a flag.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// Shorthand for an option.
pub const fn option(name: &'static str, letter: Option<char>, value: &'static str, help: &'static str) -> Option_ {
    Option_ { name, letter, value, help }
}

/// The given options.
#[derive(Debug, Default)]
pub struct Given {
    values: BTreeMap<&'static str, String>,
}

impl Given {
    /// Takes the words apart.
    ///
    /// # Errors
    /// An unknown option, a missing value, or a word that is no option.
    pub fn parse(words: &[String], known: &[&[Option_]]) -> Result<Self, String> {
        let mut given = Self::default();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let (name, inline) = match word
                .strip_prefix("--")
                .map(|long| long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value))))
            {
                Some(parts) => parts,
                None => (word.strip_prefix('-').ok_or_else(|| format!("'{word}' is no option"))?, None),
            };
            let found = known.iter().flat_map(|options| options.iter()).find(|option| {
                option.name == name
                    || (!word.starts_with("--") && option.letter.is_some_and(|letter| name.chars().eq([letter])))
            });
            let option = found.ok_or_else(|| format!("unknown option '{word}'"))?;
            let value = match (option.value.is_empty(), inline) {
                (true, None) => String::new(),
                (true, Some(_)) => return Err(format!("--{} takes no value", option.name)),
                (false, Some(value)) => value.to_owned(),
                (false, None) => {
                    rest.next().cloned().ok_or_else(|| format!("--{} needs a value ({})", option.name, option.value))?
                }
            };
            given.values.insert(option.name, value);
        }
        Ok(given)
    }

    /// The value of an option.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Whether a flag is given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The value of an option as a number within bounds, or the usual one.
    ///
    /// # Errors
    /// No number, or out of bounds.
    pub fn number(&self, name: &str, usual: u64, least: u64, most: u64) -> Result<u64, String> {
        let Some(text) = self.text(name) else { return Ok(usual) };
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(format!("--{name} is a number from {least} to {most}, not '{text}'")),
        }
    }
}

/// The help on a command.
pub fn help(usage: &str, known: &[&[Option_]]) -> String {
    let mut text = format!("usage: {usage}\n\n");
    for option in known.iter().flat_map(|options| options.iter()) {
        let letter = option.letter.map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
        let name = format!("--{} {}", option.name, option.value);
        text.push_str(&format!("  {letter}{name:<28} {}\n", option.help));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Option_] = &[option("sizes", Some('m'), "MIN:MAX", "sizes"), option("quick", None, "", "less")];

    fn check(words: &str, expected: &str) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let shown = Given::parse(&words, &[KNOWN]).map_or_else(|error| error, |given| format!("{:?}", given.values));
        assert_eq!(shown, expected, "{words:?}");
    }

    #[test]
    fn command_lines() {
        check("-m 1:8 --quick", r#"{"quick": "", "sizes": "1:8"}"#);
        check("--sizes=1:8", r#"{"sizes": "1:8"}"#);
        check("--sizes", "--sizes needs a value (MIN:MAX)");
        check("--quick=1", "--quick takes no value");
        check("-x", "unknown option '-x'");
        check("--m 1", "unknown option '--m'");
        check("word", "'word' is no option");
    }

    #[test]
    fn numbers_have_bounds() {
        let given = Given::parse(&["-m".to_owned(), "7".to_owned()], &[KNOWN]).expect("known");
        assert_eq!(given.number("sizes", 1, 1, 9), Ok(7));
        assert_eq!(given.number("other", 1, 1, 9), Ok(1));
        assert_eq!(given.number("sizes", 1, 1, 6), Err("--sizes is a number from 1 to 6, not '7'".to_owned()));
    }
}
