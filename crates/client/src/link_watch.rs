//! A client's link, watched by a poll of its own: one descriptor for programs with a loop of their own.
//!
//! Enters: a client, for how long to wait.  Leaves: that descriptor; what ended a wait.
//! Owns:   the poll, and how long a wait lasts at most so that no heartbeat is late.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};

use crate::client::Client;
use crate::limits::{WAITS_A_HEARTBEAT, WATCH_EVENTS_MAX, WATCH_WAIT_MAX};

const LINK: Token = Token(0);
const WAKER: Token = Token(1);

/// What watches a client's link. Its descriptor is readable when the link may have something, or takes more.
#[derive(Debug)]
pub struct LinkWatch {
    poll: Poll,
    events: Events,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    Ready,
    TimedOut,
    Signal,
}

impl LinkWatch {
    /// Watches a client's link from now on.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(client: &mut Client) -> io::Result<Self> {
        let poll = Poll::new()?;
        client.register(poll.registry(), LINK)?;
        Ok(Self { poll, events: Events::with_capacity(WATCH_EVENTS_MAX) })
    }

    /// What ends a wait from other threads.
    ///
    /// # Errors
    /// What the system says.
    pub fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), WAKER)
    }

    /// Waits for the link, a wake-up or a signal. A wait of no time takes the edges: the descriptor is readable again only
    /// for what comes later.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<WaitEnd> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Ok(()) if self.events.is_empty() => Ok(WaitEnd::TimedOut),
            Ok(()) => Ok(WaitEnd::Ready),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(WaitEnd::Signal),
            Err(error) => Err(error),
        }
    }
}

impl AsRawFd for LinkWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }
}

impl Client {
    /// How long a program may leave its client alone, at most, so that no heartbeat is late.
    pub fn wait_max(&self) -> Duration {
        match self.tuning().heartbeat_s {
            0 => WATCH_WAIT_MAX,
            seconds => WATCH_WAIT_MAX.min(Duration::from_secs(seconds.into()) / WAITS_A_HEARTBEAT),
        }
    }
}
