//! Waiting for descriptors, and one to be woken by.
//!
//! Enters: descriptors, a patience.  Leaves: whether one of them is readable.
//! Owns:   the descriptor that siblings wake each other by.
//! Never:  spins.

use crate::device::DeviceError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

fn told(what: &str, error: Errno) -> DeviceError {
    DeviceError(format!("{what}: {}", std::io::Error::from(error)))
}

/// Waits until one of them is readable; false after `patience`. A signal counts as nothing that happened.
pub(super) fn readable(which: &[BorrowedFd<'_>], patience: Option<Duration>) -> Result<bool, DeviceError> {
    let mut entries: Vec<_> = which.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let time = patience.map(|patience| Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    });
    match poll(&mut entries, time.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(told("poll", error)),
    }
}

/// A descriptor that becomes readable when another thread says so.
pub(super) struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> Result<Self, DeviceError> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Wake).map_err(|error| told("eventfd", error))
    }

    pub fn ring(&self) {
        let rung = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        // Full is rung, too.
        debug_assert!(matches!(rung, Ok(8) | Err(Errno::AGAIN)), "an event descriptor takes a number: {rung:?}");
    }

    pub fn clear(&self) {
        let mut count = [0; 8];
        let cleared = rustix::io::read(&self.0, &mut count[..]);
        debug_assert!(matches!(cleared, Ok(8) | Err(Errno::AGAIN)), "an event descriptor gives a number: {cleared:?}");
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Wake, readable};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_wake_is_readable_until_it_is_cleared() {
        let wake = Wake::new().expect("a descriptor");
        let is_readable = || readable(&[wake.as_fd()], Some(Duration::ZERO)).expect("it can be polled");
        assert!(!is_readable());
        wake.ring();
        wake.ring();
        assert!(is_readable());
        wake.clear();
        assert!(!is_readable());
        wake.clear();
    }
}
