//! Command lines: one declaration, a clap [`Command`], is the parser, the help, the manual page and the completions.
//!
//! Enters: a declaration, words.  Leaves: what was given, or one sentence about what is wrong; texts, and what is printed of them.
//! Owns:   the sentences, and the form of the help and of the pages.
#![forbid(unsafe_code)]

mod aligned_table;
mod completion_script;
mod help_text;
mod manual_page;
mod terminal;
mod word_parser;

pub use aligned_table::{Column, table};
pub use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
pub use completion_script::{Shell, completion_script};
pub use help_text::help;
pub use manual_page::{ManualPage, manual_pages};
pub use terminal::{
    USAGE_STATUS, given, is_terminal_error, is_terminal_output, print, print_error, print_error_lines, print_or,
    usage_error, usage_failure,
};
pub use word_parser::{WordsError, parse};

use clap::ValueHint;
use clap::builder::{NonEmptyStringValueParser, Str};

/// An option without a value.
pub fn flag(name: impl Into<Str>, help: impl Into<String>) -> Arg {
    named(name.into(), help.into()).action(ArgAction::SetTrue)
}

/// An option with a value, which may begin with a dash and is not empty; given twice it is an error.
pub fn valued(name: impl Into<Str>, value: &'static str, help: impl Into<String>) -> Arg {
    let option = takes(named(name.into(), help.into()), value).action(ArgAction::Set).allow_hyphen_values(true);
    option.value_parser(NonEmptyStringValueParser::new())
}

/// A word without dashes; optional if its name is in brackets, as many as there are if it ends in dots.
pub fn word(name: &'static str, help: impl Into<String>) -> Arg {
    let plain = name.trim_matches(['[', ']']).trim_end_matches("...");
    let help = help.into();
    let word = takes(Arg::new(plain), plain).required(!name.starts_with('['));
    // An empty text would be an empty line of the page.
    let word = if help.is_empty() { word } else { word.help(help) };
    if name.contains("...") { word.num_args(1..) } else { word }
}

fn named(name: Str, help: String) -> Arg {
    Arg::new(name.clone()).long(name).help(help)
}

fn takes(arg: Arg, value: &'static str) -> Arg {
    let hint = match value {
        "FILE" => ValueHint::FilePath,
        "DIR" | "FOLDER" | "STATE" => ValueHint::DirPath,
        "HOST" => ValueHint::Hostname,
        // Without a hint the shells complete files.
        _ => ValueHint::Other,
    };
    arg.value_name(value).value_hint(hint)
}

/// Whether a flag or a valued option was given.
pub fn has(given: &ArgMatches, name: &str) -> bool {
    given.try_contains_id(name).unwrap_or(false)
        && given.value_source(name) == Some(clap::parser::ValueSource::CommandLine)
}

/// The value of an option, or a word, by its name.
pub fn text<'a>(given: &'a ArgMatches, name: &str) -> Option<&'a str> {
    given.try_get_one::<String>(name).ok().flatten().map(String::as_str)
}

/// All values of one, in their order.
pub fn texts<'a>(given: &'a ArgMatches, name: &str) -> Vec<&'a str> {
    let values = given.try_get_many::<String>(name).ok().flatten().unwrap_or_default();
    values.map(String::as_str).collect()
}

#[cfg(test)]
mod tests;
