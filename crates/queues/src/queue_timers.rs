//! The timers of a shard's queues, and one for all its delayed messages.
//!
//! A queue's timer is set when a head arrives that expires earlier, and stays when the head expires later: the queue then finds
//! nothing to do and sets it again. So a queue whose messages live equally long sets it once in that time, however many messages
//! pass. A tree of entries serves as well as a timer wheel (an entry set and taken among 100,000: 0.7 µs), and knows when to wake
//! up, which a wheel does not.

use std::collections::BTreeSet;

/// Times are rounded up to this many microseconds, so that one timer serves messages that expire together.
const RESOLUTION_US: u64 = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TimerTarget {
    /// A queue, by its index.
    Queue(u32),
    /// The first of the delayed messages.
    Delayed,
}

/// The timers of a shard, in the order of time.
#[derive(Default)]
pub struct QueueTimers(BTreeSet<(u64, TimerTarget)>);

const _: () = assert!(size_of::<(u64, TimerTarget)>() == 16);

impl QueueTimers {
    /// Sets a timer, unless an earlier one is set: `noted_us` is its owner's note of the time, zero without a timer.
    pub fn set(&mut self, due: TimerTarget, noted_us: &mut u64, at_us: u64) {
        let at_us = at_us.div_ceil(RESOLUTION_US).saturating_mul(RESOLUTION_US).max(1);
        if *noted_us != 0 && *noted_us <= at_us {
            return;
        }
        self.clear(due, noted_us);
        self.0.insert((at_us, due));
        *noted_us = at_us;
    }

    /// Has a timer fire as soon as others had their turn.
    pub fn set_now(&mut self, due: TimerTarget, noted_us: &mut u64, now_us: u64) {
        self.set(due, noted_us, now_us / RESOLUTION_US * RESOLUTION_US);
    }

    pub fn clear(&mut self, due: TimerTarget, noted_us: &mut u64) {
        if *noted_us != 0 {
            self.0.remove(&(*noted_us, due));
            *noted_us = 0;
        }
    }

    #[inline]
    pub fn next(&self) -> Option<u64> {
        self.0.first().map(|&(at_us, _)| at_us)
    }

    /// Takes the next timer that is due; its owner must set the note to zero.
    pub fn pop_due(&mut self, now_us: u64) -> Option<TimerTarget> {
        let &(at_us, due) = self.0.first()?;
        if at_us > now_us {
            return None;
        }
        self.0.pop_first();
        Some(due)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::QueueTimers;
    use super::TimerTarget::{Delayed, Queue};

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
