//! A command of one of this program's families (`harrier bench`, `harrier topology`, `harrier market`): its name, and how it ends.
//!
//! Enters: the family, the words behind it.  Leaves: an exit status; on standard error why a command failed.
//! Owns:   that Ctrl-C is listened for before anything is started, and that what has been told is not told again.
//! Never:  knows which commands there are.

use std::process::ExitCode;

use crate::failure::CommandFailure;
use crate::interrupt;

/// The name of the command, empty if there is none, and the words behind it.
pub(crate) fn split(words: &[String]) -> (&str, &[String]) {
    match words.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", words),
    }
}

/// Runs a command of a family.
pub(crate) fn run(family: &str, command: impl FnOnce() -> Result<(), CommandFailure>) -> ExitCode {
    match interrupt::listen().map_err(CommandFailure::from).and_then(|()| command()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure @ CommandFailure::Reported(_)) => failure.exit(),
        Err(failure) => {
            let failure = failure.or_interrupted();
            eprintln!("{family}: {failure}");
            failure.exit()
        }
    }
}
