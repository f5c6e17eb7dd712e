//! Timers of connections. An entry is never removed: the connection table ignores those that were replaced.

use broker::ConnectionSlot;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// The timers of one shard, by slot and serial number of the connection.
#[derive(Default)]
pub struct ConnectionTimers {
    heap: BinaryHeap<Reverse<(Instant, ConnectionSlot, u32)>>,
}

impl ConnectionTimers {
    pub fn set(&mut self, at: Instant, slot: ConnectionSlot, serial: u32) {
        self.heap.push(Reverse((at, slot, serial)));
    }

    /// The next timer that has expired.
    pub fn next_due(&mut self, now: Instant) -> Option<(Instant, ConnectionSlot, u32)> {
        let &Reverse((at, slot, serial)) = self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some((at, slot, serial))
    }

    /// When the next timer expires.
    pub fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}
