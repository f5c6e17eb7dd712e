//! Waiting for descriptors, and an eventfd by which one thread wakes another.

use crate::device::DeviceError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

fn os_error(what: &str, error: Errno) -> DeviceError {
    DeviceError(format!("{what}: {}", std::io::Error::from(error)))
}

/// Waits until one of them is readable, or for `patience`. Returns which are; after a signal none.
pub(super) fn poll_readable<const N: usize>(
    which: &[BorrowedFd<'_>; N],
    patience: Option<Duration>,
) -> Result<[bool; N], DeviceError> {
    let mut entries = which.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut entries, patience.map(time).as_ref()) {
        Ok(_) => Ok(entries.map(|entry| !entry.revents().is_empty())),
        Err(Errno::INTR) => Ok([false; N]),
        Err(error) => Err(os_error("poll", error)),
    }
}

fn time(patience: Duration) -> Timespec {
    let tv_sec = i64::try_from(patience.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: patience.subsec_nanos().into() }
}

/// An epoll instance for a fixed set of descriptors: less work in the kernel for each wait than [`poll_readable`].
pub(super) struct EpollSet(OwnedFd);

impl EpollSet {
    pub fn new<const N: usize>(which: &[BorrowedFd<'_>; N]) -> Result<Self, DeviceError> {
        let made = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| os_error("epoll_create", error))?;
        for (number, fd) in which.iter().enumerate() {
            let data = epoll::EventData::new_u64(number as u64);
            // Edge-triggered: the caller has taken everything before it waits, or has noted that there is more.
            epoll::add(&made, fd, data, epoll::EventFlags::IN | epoll::EventFlags::ET)
                .map_err(|error| os_error("epoll_ctl", error))?;
        }
        Ok(EpollSet(made))
    }

    /// Waits for an edge of one of them, or for `patience`. Returns which have one, by their index in
    /// [`new`](Self::new); after a signal none.
    pub fn wait<const N: usize>(&self, patience: Option<Duration>) -> Result<[bool; N], DeviceError> {
        let nothing = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [nothing; N];
        let mut came = [false; N];
        match epoll::wait(&self.0, &mut events, patience.map(time).as_ref()) {
            Ok(count) => {
                for event in &events[..count] {
                    let data = event.data;
                    if let Some(place) = came.get_mut(data.u64() as usize) {
                        *place = true;
                    }
                }
                Ok(came)
            }
            Err(Errno::INTR) => Ok(came),
            Err(error) => Err(os_error("epoll_wait", error)),
        }
    }
}

/// A descriptor that another thread can make readable.
pub(super) struct EventFd(OwnedFd);

impl EventFd {
    pub fn new() -> Result<Self, DeviceError> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(EventFd)
            .map_err(|error| os_error("eventfd", error))
    }

    pub fn signal(&self) {
        let rung = rustix::io::write(&self.0, &1u64.to_ne_bytes());
        // A counter at its maximum is readable, too.
        debug_assert!(matches!(rung, Ok(8) | Err(Errno::AGAIN)), "an event descriptor takes a number: {rung:?}");
    }

    pub fn clear(&self) {
        let mut count = [0; 8];
        let cleared = rustix::io::read(&self.0, &mut count[..]);
        debug_assert!(matches!(cleared, Ok(8) | Err(Errno::AGAIN)), "an event descriptor gives a number: {cleared:?}");
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{EpollSet, EventFd, poll_readable};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_wake_is_readable_until_it_is_cleared() {
        let wake = EventFd::new().expect("a descriptor");
        let is_readable = || poll_readable(&[wake.as_fd()], Some(Duration::ZERO)).expect("it can be polled") == [true];
        assert!(!is_readable());
        wake.signal();
        wake.signal();
        assert!(is_readable());
        wake.clear();
        assert!(!is_readable());
        wake.clear();
    }

    #[test]
    fn a_watch_tells_once_of_what_came() {
        let wakes = [EventFd::new().expect("a descriptor"), EventFd::new().expect("a descriptor")];
        wakes[1].signal();
        let watch = EpollSet::new(&[wakes[0].as_fd(), wakes[1].as_fd()]).expect("a watch");
        let news = || watch.wait::<2>(Some(Duration::ZERO)).expect("it can be waited for");
        assert_eq!(news(), [false, true], "what was there before");
        assert_eq!(news(), [false, false]);
        wakes[0].signal();
        wakes[1].signal();
        assert_eq!(news(), [true, true], "again, although the first was not taken");
        wakes[0].clear();
        wakes[0].signal();
        wakes[0].clear();
        assert_eq!(news(), [false, false], "what was taken meanwhile is no news");
    }
}
