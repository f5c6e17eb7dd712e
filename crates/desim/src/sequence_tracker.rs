//! Tracks which messages of a stream a consumer has received: new, redelivered, missing or out of order.
//!
//! A message counts as redelivered if its number was received before, whatever its mark says.

use crate::sequence_ranges::SequenceRange;

/// The state of one consumer, or of identical ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceTracker {
    /// One past the highest number received.
    end: u32,
    /// Ranges missing below `end`, as first and end, ascending.
    gaps: Vec<(u32, u32)>,
    pub unique: u64,
    pub redelivered: u64,
    /// New messages that arrived after newer ones.
    pub late: u64,
    /// Redelivered messages that were not marked.
    pub unmarked: u64,
}

impl SequenceTracker {
    /// Records a range, and returns the part of it beyond everything received before, which may be empty.
    pub fn receive(&mut self, range: SequenceRange) -> SequenceRange {
        let (mut first, end) = (range.first, range.end());
        if first < self.end {
            let old_end = end.min(self.end);
            let filled = self.fill(first, old_end);
            self.unique += filled;
            self.late += filled;
            let again = u64::from(old_end - first) - filled;
            self.redelivered += again;
            self.unmarked += if range.is_redelivered { 0 } else { again };
            first = old_end;
        }
        if first < end {
            if first > self.end {
                self.gaps.push((self.end, first));
            }
            self.unique += u64::from(end - first);
            self.end = end;
        }
        SequenceRange { first, count: end - first.min(end), ..range }
    }

    /// Records missing numbers in a range as received, and returns how many there were.
    fn fill(&mut self, first: u32, end: u32) -> u64 {
        let mut filled = 0;
        let mut left = Vec::new();
        for &(from, to) in &self.gaps {
            let (inside, until) = (from.max(first), to.min(end));
            if inside >= until {
                left.push((from, to));
                continue;
            }
            filled += u64::from(until - inside);
            left.extend([(from, inside), (until, to)].into_iter().filter(|(from, to)| from < to));
        }
        self.gaps = left;
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ranges: &[(u32, u32, bool)]) -> SequenceTracker {
        let mut seen = SequenceTracker::default();
        for &(first, count, again) in ranges {
            seen.receive(SequenceRange { first, count, is_redelivered: again });
        }
        seen
    }

    #[track_caller]
    fn check(ranges: &[(u32, u32, bool)], unique: u64, again: u64, late: u64, unmarked: u64) {
        let seen = seen(ranges);
        assert_eq!(
            (seen.unique, seen.redelivered, seen.late, seen.unmarked),
            (unique, again, late, unmarked),
            "{ranges:?}"
        );
    }

    #[test]
    fn only_what_is_beyond_all_others_comes_back() {
        let mut seen = seen(&[(0, 5, false)]);
        let range = |first, count| SequenceRange { first, count, is_redelivered: true };
        assert_eq!(seen.receive(range(3, 4)), range(5, 2));
        assert_eq!(seen.receive(range(1, 2)).count, 0);
        assert_eq!(seen.end, 7);
    }

    #[test]
    fn every_case_has_its_count() {
        check(&[(0, 5, false), (5, 5, false)], 10, 0, 0, 0);
        check(&[(0, 5, false), (3, 4, true)], 7, 2, 0, 0);
        check(&[(0, 5, false), (3, 4, false)], 7, 2, 0, 2);
        // One gap stays, and one is filled in its middle.
        check(&[(0, 5, false), (8, 2, false)], 7, 0, 0, 0);
        check(&[(0, 2, false), (8, 2, false), (4, 2, true)], 6, 0, 2, 0);
        check(&[(0, 2, false), (8, 2, false), (4, 2, true), (0, 12, true)], 12, 6, 6, 0);
    }
}
