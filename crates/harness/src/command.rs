//! Runs one command of `harrier bench`, `harrier topology` or `harrier market`: signal handling, error output, exit status.

use std::process::ExitCode;

use crate::failure::CommandFailure;
use crate::interrupt;

/// Splits off the command's name, which may be empty.
pub fn split(words: &[String]) -> (&str, &[String]) {
    match words.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", words),
    }
}

/// Runs a command of a family.
pub fn run(family: &str, command: impl FnOnce() -> Result<(), CommandFailure>) -> ExitCode {
    match interrupt::listen().map_err(CommandFailure::from).and_then(|()| command()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure @ CommandFailure::Reported(_)) => failure.exit(),
        Err(failure) => {
            let failure = failure.or_interrupted();
            cli::print_error_lines(&format!("{family}: {failure}"));
            failure.exit()
        }
    }
}
