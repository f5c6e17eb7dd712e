//! The event list: events in the order of their times; events of equal times in the order in which they were scheduled,
//! so that a run is repeatable.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

struct ScheduledEvent<E> {
    at_ns: u64,
    sequence: u64,
    event: E,
}

impl<E> PartialEq for ScheduledEvent<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for ScheduledEvent<E> {}

impl<E> PartialOrd for ScheduledEvent<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for ScheduledEvent<E> {
    /// Reversed, because `BinaryHeap` pops the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_ns, other.sequence).cmp(&(self.at_ns, self.sequence))
    }
}

pub(crate) struct Calendar<E> {
    entries: BinaryHeap<ScheduledEvent<E>>,
    scheduled: u64,
    now_ns: u64,
}

impl<E> Calendar<E> {
    pub fn new() -> Self {
        Self { entries: BinaryHeap::new(), scheduled: 0, now_ns: 0 }
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub fn scheduled(&self) -> u64 {
        self.scheduled
    }

    pub fn schedule(&mut self, at_ns: u64, event: E) {
        assert!(at_ns >= self.now_ns, "an event at {at_ns} ns was made at {} ns", self.now_ns);
        self.entries.push(ScheduledEvent { at_ns, sequence: self.scheduled, event });
        self.scheduled += 1;
    }

    pub fn next_event_ns(&self) -> Option<u64> {
        self.entries.peek().map(|entry| entry.at_ns)
    }

    pub fn pop(&mut self) -> Option<E> {
        let entry = self.entries.pop()?;
        self.now_ns = entry.at_ns;
        Some(entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_first_and_then_by_their_making() {
        let mut calendar = Calendar::new();
        for (at, event) in [(5, 'b'), (1, 'a'), (5, 'c'), (9, 'd')] {
            calendar.schedule(at, event);
        }
        let found: String = std::iter::from_fn(|| calendar.pop()).collect();
        assert_eq!((found.as_str(), calendar.now_ns(), calendar.scheduled()), ("abcd", 9, 4));
    }
}
