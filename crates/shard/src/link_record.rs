//! The record of a link: what it remembers of its connections.

use std::time::Instant;

/// What a link remembers of its connections.
pub(crate) struct LinkRecord {
    /// The state that was reported last, and since when.
    pub state: (&'static str, Instant),
    pub connections: u64,
    pub last_error: Option<Box<str>>,
    pub transport: &'static str,
}

impl LinkRecord {
    pub fn new(now: Instant) -> Self {
        LinkRecord { state: ("", now), connections: 0, last_error: None, transport: "" }
    }

    pub fn connected(&mut self, transport: &'static str) {
        self.connections += 1;
        self.transport = transport;
    }

    pub fn disconnected(&mut self, why: Option<Box<str>>) {
        self.last_error = why.or(self.last_error.take());
        self.transport = "";
    }
}
