//! Exit statuses of `harrier ctl`, which are those of sysexits.h, and the errors that lead to them.

use admin::{RequestError, RequestErrorKind};
use std::fmt;
use std::process::ExitCode;

/// An exit status of sysexits.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SysExit {
    /// 64: the command line is wrong.
    Usage,
    /// 65: what was given is wrong, or names what is not there.
    Data,
    /// 67: there is no such user.
    NoUser,
    /// 69: no broker answers.
    Unavailable,
    /// 70: the broker cannot do it.
    Software,
    /// 73: a file cannot be created.
    CannotCreate,
    /// 74: a file cannot be read or written.
    InputOutput,
    /// 75: it took too long; it may succeed later.
    Temporary,
    /// 77: the user may not do it, or the login is refused.
    NoPermission,
    /// 78: the broker's configuration does not allow it.
    Config,
}

impl SysExit {
    pub const fn number(self) -> u8 {
        match self {
            SysExit::Usage => 64,
            SysExit::Data => 65,
            SysExit::NoUser => 67,
            SysExit::Unavailable => 69,
            SysExit::Software => 70,
            SysExit::CannotCreate => 73,
            SysExit::InputOutput => 74,
            SysExit::Temporary => 75,
            SysExit::NoPermission => 77,
            SysExit::Config => 78,
        }
    }
}

impl From<SysExit> for ExitCode {
    fn from(status: SysExit) -> Self {
        ExitCode::from(status.number())
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtlError {
    pub status: SysExit,
    /// For people; without passwords.
    pub text: String,
}

impl CtlError {
    pub fn new(status: SysExit, text: impl Into<String>) -> Self {
        CtlError { status, text: text.into() }
    }

    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(SysExit::Usage, text)
    }

    pub fn data(text: impl Into<String>) -> Self {
        Self::new(SysExit::Data, text)
    }
}

impl fmt::Display for CtlError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl From<RequestError> for CtlError {
    fn from(RequestError { kind, text }: RequestError) -> Self {
        let status = match &kind {
            RequestErrorKind::Unreachable | RequestErrorKind::NotAmqp | RequestErrorKind::NotHarrier => {
                SysExit::Unavailable
            }
            RequestErrorKind::Login | RequestErrorKind::NotAllowed => SysExit::NoPermission,
            RequestErrorKind::TimedOut => SysExit::Temporary,
            RequestErrorKind::Refused(code) => match &**code {
                "stopping" => SysExit::Unavailable,
                "not-found" | "too-long" | "malformed" => SysExit::Data,
                "no-state" | "no-store" => SysExit::Config,
                _ => SysExit::Software,
            },
            RequestErrorKind::Other => SysExit::Software,
        };
        CtlError { status, text }
    }
}
