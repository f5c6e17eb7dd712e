//! When the queues of a shard must be looked at.
//!
//! Enters: a time for a queue.  Leaves: the queues whose time has come.
//! Owns:   one entry a queue at most, in the order of time.
//! Never:  reads a clock, is looked through: what is idle costs nothing.
//!
//! A queue's entry is set when its head changes to one that expires earlier, and left as it is when the head expires later: the
//! queue then finds nothing to do and sets it anew. So a queue whose messages live equally long sets it once in that time, however
//! many messages pass, and a tree of entries serves as well as a wheel (an entry set and taken among 100,000: 0.7 µs) and
//! knows when to wake up, which a wheel does not.

use std::collections::BTreeSet;

/// Microseconds to which times are rounded up, so that what expires together is looked at once.
const STEP_US: u64 = 1_000;

/// The times of a shard's queues, by the queues' indexes.
#[derive(Default)]
pub struct Timers(BTreeSet<(u64, u32)>);

impl Timers {
    /// Sets a queue's time, unless an earlier one is set: `at_us` is the queue's note of it, zero for none.
    pub fn set(&mut self, queue: u32, noted_us: &mut u64, at_us: u64) {
        let at_us = at_us.div_ceil(STEP_US).saturating_mul(STEP_US).max(1);
        if *noted_us != 0 && *noted_us <= at_us {
            return;
        }
        self.clear(queue, noted_us);
        self.0.insert((at_us, queue));
        *noted_us = at_us;
    }

    /// Has a queue looked at again as soon as others had their turn.
    pub fn set_now(&mut self, queue: u32, noted_us: &mut u64, now_us: u64) {
        self.set(queue, noted_us, now_us / STEP_US * STEP_US);
    }

    /// Forgets a queue's time.
    pub fn clear(&mut self, queue: u32, noted_us: &mut u64) {
        if *noted_us != 0 {
            self.0.remove(&(*noted_us, queue));
            *noted_us = 0;
        }
    }

    /// The earliest time.
    pub fn next(&self) -> Option<u64> {
        self.0.first().map(|&(at_us, _)| at_us)
    }

    /// Takes the next queue whose time has come; its note is to be zero then.
    pub fn take_due(&mut self, now_us: u64) -> Option<u32> {
        let &(at_us, queue) = self.0.first()?;
        if at_us > now_us {
            return None;
        }
        self.0.pop_first();
        Some(queue)
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;

    #[test]
    fn a_queue_has_one_time_the_earliest() {
        let mut timers = Timers::default();
        let (mut a, mut b) = (0, 0);
        timers.set(1, &mut a, 5_001);
        timers.set(2, &mut b, 9_000);
        timers.set(1, &mut a, 7_000);
        assert_eq!((timers.next(), timers.len(), a), (Some(6_000), 2, 6_000));
        timers.set(2, &mut b, 3_000);
        assert_eq!((timers.take_due(2_999), timers.take_due(3_000), timers.take_due(3_000)), (None, Some(2), None));
        timers.set_now(1, &mut a, 5_999);
        assert_eq!((a, timers.take_due(5_999)), (5_000, Some(1)));
        timers.clear(1, &mut a);
        assert_eq!((timers.next(), a), (None, 0));
    }
}
