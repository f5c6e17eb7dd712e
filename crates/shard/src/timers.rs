//! Timers: when a connection must be looked at.
//!
//! Enters: an instant for a connection.  Leaves: the connections whose instant has come.
//! Owns:   the entries; one that was set anew is ignored by its owner when it comes up.
//! Never:  reads a clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// The timers of one shard.
#[derive(Default)]
pub struct ConnectionTimers {
    heap: BinaryHeap<Reverse<(Instant, u32, u32)>>,
}

impl ConnectionTimers {
    /// Looks at a connection then.
    pub fn set(&mut self, at: Instant, slot: u32, serial: u32) {
        self.heap.push(Reverse((at, slot, serial)));
    }

    /// The next connection whose time has come.
    pub fn next_due(&mut self, now: Instant) -> Option<(Instant, u32, u32)> {
        let &Reverse((at, slot, serial)) = self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some((at, slot, serial))
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}
