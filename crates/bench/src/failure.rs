//! The ways a command fails, and their exit statuses: 1 failed, 2 usage error, 3 INVALID figures or missed objectives,
//! 130 interrupted.

use std::fmt;
use std::process::ExitCode;

use crate::arguments::UsageError;
use crate::interrupt;

/// Why a command did not do what was asked. A plain text (`?` on a `Result<_, String>`) is a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandFailure {
    /// The run could not be made, or was cut short.
    Failed(String),
    /// The command line asks for something that does not exist, or that cannot be read or understood.
    Usage(String),
    /// The run was made, and its figures must not be trusted.
    Invalid(String),
    /// The run was made, and what was asked of it was not reached.
    Missed(String),
    /// Somebody pressed Ctrl-C.
    Interrupted,
    /// Of a run on many ranks: it has been told already, with this status.
    Reported(u8),
}

impl CommandFailure {
    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Invalid(_) | Self::Missed(_) => 3,
            Self::Interrupted => 130,
            Self::Reported(status) => *status,
        }
    }

    /// The exit status for `main`.
    pub fn exit(&self) -> ExitCode {
        ExitCode::from(self.status())
    }

    /// What is left of a failure once Ctrl-C is known: waits that were cut off by it fail with texts of their own.
    pub fn or_interrupted(self) -> Self {
        if interrupt::requested() && !matches!(self, Self::Reported(_)) { Self::Interrupted } else { self }
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) | Self::Usage(why) => f.write_str(why),
            Self::Invalid(why) => write!(f, "INVALID: {why}"),
            Self::Missed(why) => write!(f, "objective {why}"),
            Self::Interrupted => f.write_str(interrupt::MESSAGE),
            Self::Reported(status) => write!(f, "told already, with status {status}"),
        }
    }
}

impl CommandFailure {
    /// A figure that must not be trusted is marked where it stands, and no reason to end here.
    ///
    /// # Errors
    /// Every other failure, in words.
    pub fn tolerated(outcome: Result<(), Self>) -> Result<(), String> {
        match outcome {
            Ok(()) | Err(Self::Invalid(_)) => Ok(()),
            Err(failure) => Err(failure.to_string()),
        }
    }
}

impl From<String> for CommandFailure {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<UsageError> for CommandFailure {
    fn from(wrong: UsageError) -> Self {
        Self::Usage(wrong.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_status() {
        let shown = |failure: CommandFailure| format!("{} {failure}", failure.status());
        assert_eq!(shown("no broker".to_owned().into()), "1 no broker");
        assert_eq!(shown(UsageError("no such option".to_owned()).into()), "2 no such option");
        assert_eq!(shown(CommandFailure::Invalid("3 lost".to_owned())), "3 INVALID: 3 lost");
        assert_eq!(shown(CommandFailure::Missed("p99".to_owned())), "3 objective p99");
        assert_eq!(shown(CommandFailure::Interrupted), "130 interrupted");
    }
}
