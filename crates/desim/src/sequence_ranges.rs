//! Messages of a stream by their numbers: runs of those that follow one another, and queues of runs.
//!
//! Enters: runs, in the order in which they are to leave.  Leaves: runs, cut where there is no room for more.
//! Owns:   order within a queue, and how many messages there are.
//! Never:  holds a message of its own: a million that follow one another are one run.

use std::collections::VecDeque;

/// Messages that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceRange {
    pub first: u32,
    pub count: u32,
    /// They come again, after a connection that broke, and are marked.
    pub is_redelivered: bool,
}

impl SequenceRange {
    /// The number behind its last.
    pub fn end(self) -> u32 {
        self.first + self.count
    }
}

/// A queue of runs.
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

    /// Puts a run behind all others.
    pub fn push(&mut self, run: SequenceRange) {
        if run.count == 0 {
            return;
        }
        self.count += u64::from(run.count);
        match self.ranges.back_mut() {
            Some(last) if last.end() == run.first && last.is_redelivered == run.is_redelivered => last.count += run.count,
            _ => self.ranges.push_back(run),
        }
    }

    /// Takes the first run, or as much of it as there is room for.
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

    /// Forgets so many of the first.
    pub fn drop_first(&mut self, mut count: u64) {
        while count > 0 {
            let Some(run) = self.take(count) else { return };
            count -= u64::from(run.count);
        }
    }

    /// Puts what was under way back before everything else, marked.
    pub fn put_back(&mut self, mut under_way: SequenceRanges) {
        let behind = std::mem::take(self);
        while let Some(run) = under_way.take(u64::MAX) {
            self.push(SequenceRange { is_redelivered: true, ..run });
        }
        behind.ranges.into_iter().for_each(|run| self.push(run));
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u32, count: u32) -> SequenceRange {
        SequenceRange { first, count, is_redelivered: false }
    }

    #[test]
    fn what_follows_is_one_run_and_is_cut_where_room_ends() {
        let mut runs = SequenceRanges::default();
        runs.push(run(0, 10));
        runs.push(run(10, 5));
        runs.push(run(20, 5));
        assert_eq!(runs.len(), 20);
        assert_eq!(runs.take(12), Some(run(0, 12)));
        assert_eq!(runs.take(12), Some(run(12, 3)));
        assert_eq!((runs.take(0), runs.take(12), runs.take(1)), (None, Some(run(20, 5)), None));
    }

    #[test]
    fn what_was_under_way_comes_first_and_is_marked() {
        let (mut queue, mut under_way) = (SequenceRanges::default(), SequenceRanges::default());
        under_way.push(run(5, 5));
        queue.push(run(10, 2));
        queue.put_back(under_way);
        assert_eq!(queue.take(100), Some(SequenceRange { is_redelivered: true, ..run(5, 5) }));
        assert_eq!(queue.take(100), Some(run(10, 2)));
        assert!(queue.is_empty());
    }

    #[test]
    fn forgetting_crosses_runs() {
        let mut runs = SequenceRanges::default();
        runs.push(run(0, 2));
        runs.push(run(5, 3));
        runs.drop_first(3);
        assert_eq!((runs.len(), runs.take(9)), (2, Some(run(6, 2))));
        runs.drop_first(9);
        assert!(runs.is_empty());
    }
}
