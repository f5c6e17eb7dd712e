//! Ranges of consecutive sequence numbers, and queues of ranges.
//!
//! A million consecutive messages are one range; a range is split where the receiver has no capacity for all of it.

use std::collections::VecDeque;

/// Consecutive messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceRange {
    pub first: u32,
    pub count: u32,
    /// The messages are redelivered after a connection broke, and marked so.
    pub is_redelivered: bool,
}

impl SequenceRange {
    /// One past its last number.
    pub fn end(self) -> u32 {
        self.first + self.count
    }
}

/// A queue of ranges.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceRanges {
    ranges: VecDeque<SequenceRange>,
    count: u64,
}

impl SequenceRanges {
    pub fn len(&self) -> u64 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends a range.
    pub fn push(&mut self, range: SequenceRange) {
        if range.count == 0 {
            return;
        }
        self.count += u64::from(range.count);
        match self.ranges.back_mut() {
            Some(last) if last.end() == range.first && last.is_redelivered == range.is_redelivered => {
                last.count += range.count
            }
            _ => self.ranges.push_back(range),
        }
    }

    /// Takes the first range, or at most `most` messages of it.
    pub fn take(&mut self, most: u64) -> Option<SequenceRange> {
        let first = self.ranges.front_mut()?;
        let count = u64::from(first.count).min(most) as u32;
        if count == 0 {
            return None;
        }
        let taken = SequenceRange { count, ..*first };
        first.first += count;
        first.count -= count;
        if first.count == 0 {
            self.ranges.pop_front();
        }
        self.count -= u64::from(count);
        Some(taken)
    }

    /// Drops the first `count` messages.
    pub fn drop_first(&mut self, mut count: u64) {
        while count > 0 {
            let Some(range) = self.take(count) else { return };
            count -= u64::from(range.count);
        }
    }

    /// Puts what was in flight back in front, marked as redelivered.
    pub fn put_back(&mut self, mut in_flight: SequenceRanges) {
        let behind = std::mem::take(self);
        while let Some(range) = in_flight.take(u64::MAX) {
            self.push(SequenceRange { is_redelivered: true, ..range });
        }
        behind.ranges.into_iter().for_each(|range| self.push(range));
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u32, count: u32) -> SequenceRange {
        SequenceRange { first, count, is_redelivered: false }
    }

    #[test]
    fn what_follows_is_one_run_and_is_cut_where_room_ends() {
        let mut ranges = SequenceRanges::default();
        ranges.push(range(0, 10));
        ranges.push(range(10, 5));
        ranges.push(range(20, 5));
        assert_eq!(ranges.len(), 20);
        assert_eq!(ranges.take(12), Some(range(0, 12)));
        assert_eq!(ranges.take(12), Some(range(12, 3)));
        assert_eq!((ranges.take(0), ranges.take(12), ranges.take(1)), (None, Some(range(20, 5)), None));
    }

    #[test]
    fn what_was_under_way_comes_first_and_is_marked() {
        let (mut queue, mut in_flight) = (SequenceRanges::default(), SequenceRanges::default());
        in_flight.push(range(5, 5));
        queue.push(range(10, 2));
        queue.put_back(in_flight);
        assert_eq!(queue.take(100), Some(SequenceRange { is_redelivered: true, ..range(5, 5) }));
        assert_eq!(queue.take(100), Some(range(10, 2)));
        assert!(queue.is_empty());
    }

    #[test]
    fn forgetting_crosses_runs() {
        let mut ranges = SequenceRanges::default();
        ranges.push(range(0, 2));
        ranges.push(range(5, 3));
        ranges.drop_first(3);
        assert_eq!((ranges.len(), ranges.take(9)), (2, Some(range(6, 2))));
        ranges.drop_first(9);
        assert!(ranges.is_empty());
    }
}
