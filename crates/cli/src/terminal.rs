//! What a command prints, and the status that it ends with.
//!
//! Whatever a peer chose in a text leaves the terminal as it is.

use crate::{ArgMatches, Command, WordsError};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use wire::{Escaped, EscapedLines};

/// Exit status for wrong usage.
pub const USAGE_STATUS: u8 = 2;

/// The words behind a command as it declares them.
///
/// # Errors
/// The status, when help or what is wrong has been printed instead.
pub fn given(command: Command, words: &[OsString]) -> Result<ArgMatches, ExitCode> {
    let help = crate::help(&command);
    crate::parse(command, words).map_err(|error| match error {
        WordsError::Help(text) => print(&text),
        WordsError::Usage(why) | WordsError::Words(why) => usage_error(&format!("{why}\n{help}")),
    })
}

/// Says what is wrong with a command line.
pub fn usage_error(why: &str) -> ExitCode {
    usage_failure(why, ExitCode::from(USAGE_STATUS))
}

/// The same, with a status of its own.
pub fn usage_failure(why: &str, status: ExitCode) -> ExitCode {
    print_error_lines(&format!("harrier: {why}"));
    status
}

/// Whether people read standard output.
pub fn is_terminal_output() -> bool {
    io::stdout().is_terminal()
}

/// Whether people read standard error.
pub fn is_terminal_error() -> bool {
    io::stderr().is_terminal()
}

/// Writes a text to standard output. A closed pipe is not an error.
pub fn print(text: &str) -> ExitCode {
    print_or(text, ExitCode::FAILURE)
}

/// The same, with a status of its own if it fails.
pub fn print_or(text: &str, failure: ExitCode) -> ExitCode {
    match io::stdout().lock().write_all(EscapedLines(text).to_string().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("harrier: cannot write: {error}"));
            failure
        }
    }
}

/// Writes one line to standard error.
pub fn print_error(line: &str) {
    eprintln!("{}", Escaped(line));
}

/// Writes a text to standard error that may have several lines, as wrong usage does.
pub fn print_error_lines(text: &str) {
    eprintln!("{}", EscapedLines(text.trim_end()));
}
