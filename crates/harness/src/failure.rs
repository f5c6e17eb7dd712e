//! The ways a command fails, and their exit statuses: 1 failed, 2 usage error, 3 INVALID figures or missed objectives,
//! 130 interrupted.

use std::fmt;
use std::process::ExitCode;

use crate::arguments::UsageError;
use crate::interrupt;

/// Why a command failed. A plain text (`?` on a `Result<_, String>`) becomes `Failed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandFailure {
    /// The run failed or was cut short.
    Failed(String),
    /// A usage error, or a file that cannot be read.
    Usage(String),
    /// The run completed, but its figures are INVALID.
    Invalid(String),
    /// The run completed, but missed an objective.
    Missed(String),
    /// Interrupted by Ctrl-C.
    Interrupted,
    /// The failure is already reported by another rank, with this status.
    Reported(u8),
}

impl CommandFailure {
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

    /// After Ctrl-C, reports the interruption instead of the errors of waits that it cut off.
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
    /// Tolerates INVALID figures, which are marked in the output.
    ///
    /// # Errors
    /// Every other failure, as text.
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
