//! Parses words by a declaration, and says what is wrong with them in Harrier's words.

use crate::help_text::with_help;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};
use std::ffi::OsString;

/// Why there is nothing to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WordsError {
    /// Help was asked for: its text.
    Help(String),
    /// Wrong usage: one sentence.
    Usage(String),
    /// A word that belongs to the command is missing, or there is one too many.
    Words(String),
}

/// Parses the words behind a command.
///
/// # Errors
/// Help was asked for, or the words are not as declared.
pub fn parse<W>(command: Command, words: impl IntoIterator<Item = W>) -> Result<ArgMatches, WordsError>
where
    W: Into<OsString>,
{
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let name = command.get_name().to_owned();
    let command = with_help(command).no_binary_name(true);
    command.try_get_matches_from(&words).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp => WordsError::Help(error.to_string()),
        _ => sentence(&error, &name, words.last().and_then(|word| word.to_str()).unwrap_or_default()),
    })
}

fn sentence(error: &clap::Error, name: &str, last: &str) -> WordsError {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        Some(ContextValue::Strings(texts)) => texts.first().map_or("", String::as_str),
        _ => "",
    };
    let found = text(ContextKind::InvalidArg);
    // clap shows an option with the name of its value.
    let option = found.split([' ', '=']).next().unwrap_or_default();
    // Of short words many are like one another: one that begins otherwise is hardly meant.
    let first = |word: &str| word.trim_start_matches('-').chars().next();
    let similar = |kind, given: &str| match text(kind) {
        word if !word.is_empty() && first(word) == first(given) => format!(" (did you mean {word}?)"),
        _ => String::new(),
    };
    WordsError::Usage(match error.kind() {
        ErrorKind::UnknownArgument if found.starts_with('-') => {
            format!("unknown option '{option}'{}", similar(ContextKind::SuggestedArg, option))
        }
        ErrorKind::InvalidSubcommand => {
            let word = text(ContextKind::InvalidSubcommand);
            format!("unknown command '{name} {word}'{}", similar(ContextKind::SuggestedSubcommand, word))
        }
        // A value is missing at the end only, since any word can be one.
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue).is_empty() => match last.strip_prefix('-') {
            Some(letters) if !letters.starts_with('-') => {
                format!("-{} needs a value", letters.chars().next_back().unwrap_or_default())
            }
            _ => format!("{option} needs a value"),
        },
        ErrorKind::MissingSubcommand => format!("{name} needs a command"),
        ErrorKind::InvalidValue => {
            let choices = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(choices)) => choices.join(", "),
                _ => String::new(),
            };
            format!("{} is one of {choices}, not '{}'", plain(option), text(ContextKind::InvalidValue))
        }
        ErrorKind::TooManyValues => format!("{option} takes no value"),
        ErrorKind::ArgumentConflict => format!("{option} is given twice"),
        ErrorKind::InvalidUtf8 => "words are of UTF-8 only".to_owned(),
        ErrorKind::UnknownArgument => return WordsError::Words(format!("'{found}' is one word too many")),
        ErrorKind::MissingRequiredArgument => {
            return WordsError::Words(format!("{} is missing", plain(found)));
        }
        _ => error.to_string(),
    })
}

/// The name of a word as declared.
fn plain(name: &str) -> &str {
    name.trim_matches(['<', '>', '[', ']', '.'])
}
