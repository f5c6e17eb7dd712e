//! What a consumer has seen of a stream: every message once, or what else.
//!
//! Enters: runs as they arrive.  Leaves: how many are new, came again, are missing, or came behind newer ones.
//! Owns:   the highest number seen, and the gaps below it.
//! Never:  trusts a mark: a message is there twice if its number was there before.

use crate::sequence_ranges::SequenceRange;

/// The account of one consumer, or of identical ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceTracker {
    /// Behind the highest number seen.
    end: u32,
    /// What is missing below, as first and end, ascending.
    gaps: Vec<(u32, u32)>,
    pub unique: u64,
    pub redelivered: u64,
    /// Messages that are new, and came behind newer ones.
    pub late: u64,
    /// Messages that came again, and were not marked.
    pub unmarked: u64,
}

impl SequenceTracker {
    /// Takes a run in. What of it is beyond everything seen before comes back; it may be empty.
    pub fn receive(&mut self, run: SequenceRange) -> SequenceRange {
        let (mut first, end) = (run.first, run.end());
        if first < self.end {
            let old_end = end.min(self.end);
            let filled = self.fill(first, old_end);
            self.unique += filled;
            self.late += filled;
            let again = u64::from(old_end - first) - filled;
            self.redelivered += again;
            self.unmarked += if run.is_redelivered { 0 } else { again };
            first = old_end;
        }
        if first < end {
            if first > self.end {
                self.gaps.push((self.end, first));
            }
            self.unique += u64::from(end - first);
            self.end = end;
        }
        SequenceRange { first, count: end - first.min(end), ..run }
    }

    /// Takes what is missing between two numbers as come; how many.
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

    fn seen(runs: &[(u32, u32, bool)]) -> SequenceTracker {
        let mut seen = SequenceTracker::default();
        for &(first, count, again) in runs {
            seen.receive(SequenceRange { first, count, is_redelivered: again });
        }
        seen
    }

    #[track_caller]
    fn check(runs: &[(u32, u32, bool)], unique: u64, again: u64, late: u64, unmarked: u64) {
        let seen = seen(runs);
        assert_eq!((seen.unique, seen.redelivered, seen.late, seen.unmarked), (unique, again, late, unmarked), "{runs:?}");
    }

    #[test]
    fn only_what_is_beyond_all_others_comes_back() {
        let mut seen = seen(&[(0, 5, false)]);
        let run = |first, count| SequenceRange { first, count, is_redelivered: true };
        assert_eq!(seen.receive(run(3, 4)), run(5, 2));
        assert_eq!(seen.receive(run(1, 2)).count, 0);
        assert_eq!(seen.end, 7);
    }

    #[test]
    fn every_case_has_its_count() {
        check(&[(0, 5, false), (5, 5, false)], 10, 0, 0, 0);
        check(&[(0, 5, false), (3, 4, true)], 7, 2, 0, 0);
        check(&[(0, 5, false), (3, 4, false)], 7, 2, 0, 2);
        // A gap that stays, and one that is filled in its middle.
        check(&[(0, 5, false), (8, 2, false)], 7, 0, 0, 0);
        check(&[(0, 2, false), (8, 2, false), (4, 2, true)], 6, 0, 2, 0);
        check(&[(0, 2, false), (8, 2, false), (4, 2, true), (0, 12, true)], 12, 6, 6, 0);
    }
}
