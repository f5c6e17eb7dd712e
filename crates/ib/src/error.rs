//! What can go wrong before, beside and in a call of the libraries.
//!
//! Enters: error numbers and missing files.  Leaves: `Error`, which says what is missing and what would help.
//! Owns:   the words.
//! Never:  a completion's status: that is a value of `completion`, not an error of a call.

use std::fmt;
use std::io;

use libc::c_int;

/// A library that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The library's file.
    pub file: &'static str,
    /// The Debian packages that have it and what it opens in turn.
    pub package: &'static str,
    /// The loader's words.
    pub why: String,
}

/// Why something of this crate could not be done.
#[derive(Debug)]
pub enum Error {
    /// A library is not installed.
    Missing(Missing),
    /// The libraries are there, and no device is.
    NoDevice(NoDevice),
    /// A call was refused by the library, the kernel or the device.
    Refused {
        /// The C function.
        call: &'static str,
        /// What it said.
        error: io::Error,
    },
    /// Something asked for is beyond a limit of this crate.
    Limit {
        /// What was asked for.
        what: &'static str,
        /// How much of it.
        asked: usize,
        /// How much there may be.
        most: usize,
    },
    /// The queue holds as much work as it was made for; completions make room.
    Full,
    /// Memory that was not registered with the key that came along.
    NotRegistered,
    /// A completion of another queue.
    NotOurs,
    /// An id in a state in which this cannot be done, as a queue pair before its address is resolved.
    NotYet(&'static str),
}

/// Why there is no device, as far as the system shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDevice {
    /// The kernel has no RDMA at all, or its modules are not loaded.
    NoKernel,
    /// The kernel has RDMA, and no device.
    None,
    /// The kernel has devices that libibverbs cannot use.
    NoProvider,
}

impl Error {
    /// What `errno` says of a call that just failed.
    pub(crate) fn last(call: &'static str) -> Self {
        Error::Refused { call, error: io::Error::last_os_error() }
    }

    /// For calls that answer 0 or -1 with `errno`, or an error number: C's manual pages do not agree which.
    pub(crate) fn check(call: &'static str, answer: c_int) -> Result<(), Self> {
        match answer {
            0 => Ok(()),
            number if number > 0 => Err(Error::Refused { call, error: io::Error::from_raw_os_error(number) }),
            _ => Err(Error::last(call)),
        }
    }

    /// Whether `asked` is within the limit.
    pub(crate) fn within(what: &'static str, asked: usize, most: usize) -> Result<(), Self> {
        if asked <= most { Ok(()) } else { Err(Error::Limit { what, asked, most }) }
    }

    /// The system's number, if the system refused.
    pub fn os_error(&self) -> Option<i32> {
        match self {
            Error::Refused { error, .. } => error.raw_os_error(),
            _ => None,
        }
    }
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoDevice::NoKernel => {
                "there is no RDMA device, and the kernel's RDMA modules are not loaded: a card's driver loads them, \
                 and `modprobe rdma_rxe` and `rdma link add rxe0 type rxe netdev INTERFACE` make a device of software"
            }
            NoDevice::None => {
                "there is no RDMA device: a card's driver brings one, and `rdma link add rxe0 type rxe netdev INTERFACE` \
                 makes one of software"
            }
            NoDevice::NoProvider => {
                "the kernel has RDMA devices that libibverbs cannot open: install ibverbs-providers, and look at the rights of /dev/infiniband"
            }
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing(Missing { file, package, why }) => {
                write!(f, "{file} cannot be used ({why}): install the packages {package}")
            }
            Error::NoDevice(why) => why.fmt(f),
            Error::Refused { call, error } => {
                write!(f, "{call}: {error}")?;
                if error.raw_os_error() == Some(libc::ENOMEM) {
                    // The usual cause by far.
                    f.write_str(" (is the limit of locked memory, `ulimit -l`, large enough?)")?;
                }
                Ok(())
            }
            Error::Limit { what, asked, most } => write!(f, "{what}: {asked}, and at most {most} are possible"),
            Error::Full => f.write_str("the queue is full of work that has not completed"),
            Error::NotRegistered => f.write_str("memory that was not registered with this key"),
            Error::NotOurs => f.write_str("a completion of another queue"),
            Error::NotYet(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Refused { error, .. } => Some(error),
            _ => None,
        }
    }
}
