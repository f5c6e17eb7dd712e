//! When the queues of a shard, and its delayed messages, must be looked at.
//!
//! Enters: a time for what has one.  Leaves: whatever's time has come.
//! Owns:   one entry a queue at most, and one for all delayed messages, in the order of time.
//! Never:  reads a clock, is looked through: what is idle costs nothing.
//!
//! A queue's entry is set when its head changes to one that expires earlier, and left as it is when the head expires later: the
//! queue then finds nothing to do and sets it anew. So a queue whose messages live equally long sets it once in that time, however
//! many messages pass, and a tree of entries serves as well as a wheel (an entry set and taken among 100,000: 0.7 µs) and
//! knows when to wake up, which a wheel does not.

use std::collections::BTreeSet;

/// Microseconds to which times are rounded up, so that what expires together is looked at once.
const RESOLUTION_US: u64 = 1_000;

/// What has a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TimerTarget {
    /// A queue, by its index.
    Queue(u32),
    /// The first of the delayed messages.
    Delayed,
}

/// The times of a shard.
#[derive(Default)]
pub struct QueueTimers(BTreeSet<(u64, TimerTarget)>);

const _: () = assert!(size_of::<(u64, TimerTarget)>() == 16);

impl QueueTimers {
    /// Sets a time, unless an earlier one is set: `noted_us` is its owner's note of it, zero for none.
    pub fn set(&mut self, due: TimerTarget, noted_us: &mut u64, at_us: u64) {
        let at_us = at_us.div_ceil(RESOLUTION_US).saturating_mul(RESOLUTION_US).max(1);
        if *noted_us != 0 && *noted_us <= at_us {
            return;
        }
        self.clear(due, noted_us);
        self.0.insert((at_us, due));
        *noted_us = at_us;
    }

    /// Has a queue looked at again as soon as others had their turn.
    pub fn set_now(&mut self, due: TimerTarget, noted_us: &mut u64, now_us: u64) {
        self.set(due, noted_us, now_us / RESOLUTION_US * RESOLUTION_US);
    }

    /// Forgets a time.
    pub fn clear(&mut self, due: TimerTarget, noted_us: &mut u64) {
        if *noted_us != 0 {
            self.0.remove(&(*noted_us, due));
            *noted_us = 0;
        }
    }

    /// The earliest time.
    pub fn next(&self) -> Option<u64> {
        self.0.first().map(|&(at_us, _)| at_us)
    }

    /// Takes the next whose time has come; its owner's note is to be zero then.
    pub fn pop_due(&mut self, now_us: u64) -> Option<TimerTarget> {
        let &(at_us, due) = self.0.first()?;
        if at_us > now_us {
            return None;
        }
        self.0.pop_first();
        Some(due)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::TimerTarget::{Delayed, Queue};
    use super::QueueTimers;

    #[test]
    fn a_queue_has_one_time_the_earliest() {
        let mut timers = QueueTimers::default();
        let (mut a, mut b, mut delayed) = (0, 0, 0);
        timers.set(Queue(1), &mut a, 5_001);
        timers.set(Queue(2), &mut b, 9_000);
        timers.set(Queue(1), &mut a, 7_000);
        assert_eq!((timers.next(), timers.len(), a), (Some(6_000), 2, 6_000));
        timers.set(Delayed, &mut delayed, 4_000);
        timers.set(Queue(2), &mut b, 3_000);
        let due = [2_999, 3_000, 3_000, 4_000].map(|now_us| timers.pop_due(now_us));
        assert_eq!(due, [None, Some(Queue(2)), None, Some(Delayed)]);
        timers.set_now(Queue(1), &mut a, 5_999);
        assert_eq!((a, timers.pop_due(5_999)), (5_000, Some(Queue(1))));
        timers.clear(Queue(1), &mut a);
        assert_eq!((timers.next(), a), (None, 0));
    }
}
