//! The help of a command.

use clap::{Arg, ArgAction, Command};
use std::fmt::Write;

/// The longest line.
const COLUMNS: usize = 120;
/// Where the text of an option or a command begins; a longer name has a line of its own.
const TEXT_COLUMN: usize = 35;

/// What `--help` prints: usage, description, commands, options by heading, and what is behind them.
pub fn help(command: &Command) -> String {
    let usage = command.get_overridden_usage().map_or_else(|| command.get_name().to_owned(), ToString::to_string);
    let mut text = format!("usage: {}\n", usage.trim().replace('\n', "\n       "));
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        let _infallible = write!(text, "\n{}\n", about.to_string().trim_end());
    }
    let commands: Vec<_> = command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    for (at, command) in commands.iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { "" });
        entry(&mut text, command.get_name(), &command.get_about().map(ToString::to_string).unwrap_or_default());
    }
    let options: Vec<_> = command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set()).collect();
    let has_letters = options.iter().any(|arg| arg.get_short().is_some());
    let mut heading = None;
    for (at, option) in options.into_iter().enumerate() {
        if at == 0 || heading != option.get_help_heading() {
            heading = option.get_help_heading();
            text.push('\n');
            heading.iter().for_each(|heading| text.extend([heading, "\n"]));
        }
        let shown = option.get_help().map(ToString::to_string).unwrap_or_default();
        entry(&mut text, &shown_name(option, has_letters), &shown);
    }
    if let Some(after) = command.get_after_help() {
        let _infallible = write!(text, "\n{}\n", after.to_string().trim());
    }
    text
}

fn shown_name(option: &Arg, has_letters: bool) -> String {
    let letter = match (option.get_short(), has_letters) {
        (Some(letter), _) => format!("-{letter}, "),
        (None, true) => " ".repeat(4),
        (None, false) => String::new(),
    };
    let value = match option.get_value_names() {
        Some([value]) if option.get_action().takes_values() => format!(" {value}"),
        _ => String::new(),
    };
    format!("{letter}--{}{value}", option.get_long().unwrap_or_default())
}

fn entry(text: &mut String, name: &str, does: &str) {
    let mut place = format!("  {name}");
    let width = TEXT_COLUMN;
    if place.chars().count() >= width {
        text.extend([&place, "\n"]);
        place.clear();
    }
    let mut line = format!("{place:<width$}");
    let mut is_empty = true;
    for word in does.split_whitespace() {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            text.extend([line.trim_end(), "\n"]);
            line = " ".repeat(width);
            is_empty = true;
        }
        line.push_str(if is_empty { "" } else { " " });
        line.push_str(word);
        is_empty = false;
    }
    text.extend([line.trim_end(), "\n"]);
}

/// The command and all below it print [`help`] when they are asked for help. One with an option of that name acts on it itself.
pub(crate) fn with_help(command: Command) -> Command {
    let is_own = command.get_arguments().any(|arg| arg.get_long() == Some("help"));
    let text = help(&command);
    let command = command.override_help(text).disable_help_flag(true).disable_version_flag(true);
    let asked = Arg::new("help").long("help").short('h').action(ArgAction::Help).help("print this and end");
    let command = if is_own { command } else { command.arg(asked) };
    command.disable_help_subcommand(true).mut_subcommands(with_help)
}
