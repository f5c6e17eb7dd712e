//! Errors of the libraries' calls, with what is missing and how to install it.
//!
//! The status of a completion is a value of `completion`, not an error of a call.

use std::fmt;
use std::io;

use libc::c_int;

/// A library that cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingLibrary {
    /// The library's file.
    pub file: &'static str,
    /// The Debian packages with the library and what it loads itself.
    pub package: &'static str,
    /// The loader's message.
    pub why: String,
}

/// An error of a call of this crate.
#[derive(Debug)]
pub enum IbError {
    /// A library is not installed.
    MissingLibrary(MissingLibrary),
    /// There is no device that can be used.
    NoDevice(NoDeviceReason),
    /// The library, the kernel or the device has refused a call.
    CallFailed {
        /// The C function.
        call: &'static str,
        error: io::Error,
    },
    /// A limit of this crate is exceeded.
    Limit {
        /// What the limit is for.
        what: &'static str,
        requested: usize,
        max: usize,
    },
    /// The queue has no free slot; completions free them.
    QueueFull,
    /// The memory is not registered with this key.
    NotRegistered,
    /// The completion belongs to another queue.
    WrongQueue,
    /// The call is not possible in this state, such as making a queue pair before the address is resolved.
    InvalidState(&'static str),
}

/// Why there is no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDeviceReason {
    /// The kernel has no RDMA support, or its modules are not loaded.
    NoKernel,
    /// The kernel supports RDMA and has no device.
    None,
    /// The kernel has devices that libibverbs cannot use.
    NoProvider,
}

impl IbError {
    /// The error of a call that just failed, from `errno`.
    pub(crate) fn last_os_error(call: &'static str) -> Self {
        IbError::CallFailed { call, error: io::Error::last_os_error() }
    }

    /// For calls that return 0, or -1 with `errno`, or an error number: the manual pages do not agree which.
    pub(crate) fn check(call: &'static str, answer: c_int) -> Result<(), Self> {
        match answer {
            0 => Ok(()),
            number if number > 0 => Err(IbError::CallFailed { call, error: io::Error::from_raw_os_error(number) }),
            _ => Err(IbError::last_os_error(call)),
        }
    }

    pub(crate) fn check_limit(what: &'static str, requested: usize, max: usize) -> Result<(), Self> {
        if requested <= max { Ok(()) } else { Err(IbError::Limit { what, requested, max }) }
    }

    /// The operating system's error number, if it is an error of a call.
    pub fn os_error(&self) -> Option<i32> {
        match self {
            IbError::CallFailed { error, .. } => error.raw_os_error(),
            _ => None,
        }
    }
}

impl fmt::Display for NoDeviceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoDeviceReason::NoKernel => {
                "there is no RDMA device, and the kernel's RDMA modules are not loaded: a card's driver loads them, \
                 and `modprobe rdma_rxe` and `rdma link add rxe0 type rxe netdev INTERFACE` create a software device"
            }
            NoDeviceReason::None => {
                "there is no RDMA device: a card's driver provides one, and `rdma link add rxe0 type rxe netdev INTERFACE` \
                 creates a software device"
            }
            NoDeviceReason::NoProvider => {
                "the kernel has RDMA devices that libibverbs cannot open: install ibverbs-providers, and check the permissions of /dev/infiniband"
            }
        })
    }
}

impl fmt::Display for IbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IbError::MissingLibrary(MissingLibrary { file, package, why }) => {
                write!(f, "{file} cannot be used ({why}): install the packages {package}")
            }
            IbError::NoDevice(why) => why.fmt(f),
            IbError::CallFailed { call, error } => {
                write!(f, "{call}: {error}")?;
                if error.raw_os_error() == Some(libc::ENOMEM) {
                    // By far the most frequent cause.
                    f.write_str(" (is the limit of locked memory, `ulimit -l`, high enough?)")?;
                }
                Ok(())
            }
            IbError::Limit { what, requested, max } => write!(f, "{what}: {requested}, and at most {max} are possible"),
            IbError::QueueFull => f.write_str("the queue has no free slot"),
            IbError::NotRegistered => f.write_str("the memory is not registered with this key"),
            IbError::WrongQueue => f.write_str("the completion belongs to another queue"),
            IbError::InvalidState(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for IbError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            IbError::CallFailed { error, .. } => Some(error),
            _ => None,
        }
    }
}
