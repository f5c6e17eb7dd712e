//! Which messages of a level are alive in the log, by runs of positions, and in which group they are.
//!
//! Enters: messages that were written, in the order of their positions but for those that were moved.
//! Leaves: what is settled, by groups.

use std::collections::VecDeque;

/// Messages of neighbouring positions that were written by one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LiveRun {
    pub first: u64,
    pub count: u64,
    /// The group: `SegmentUses` knows its segment.
    pub group: u64,
    pub bytes: u64,
}

impl LiveRun {
    pub fn end(&self) -> u64 {
        self.first + self.count
    }

    /// Takes the first `count` messages off. Their bytes are a share, so that those of all messages are what was written.
    fn split_front(&mut self, count: u64) -> LiveRun {
        let bytes = (u128::from(self.bytes) * u128::from(count) / u128::from(self.count)) as u64;
        let front = LiveRun { count, bytes, ..*self };
        self.first += count;
        self.count -= count;
        self.bytes -= bytes;
        front
    }
}

/// The runs of a level, by their positions.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct LiveRuns {
    runs: VecDeque<LiveRun>,
}

impl LiveRuns {
    /// Messages were written. Returns by how much the number of runs has changed.
    #[inline]
    pub fn push(&mut self, run: LiveRun) -> isize {
        let before = self.runs.len();
        self.put(run);
        self.runs.len() as isize - before as isize
    }

    #[inline]
    fn put(&mut self, run: LiveRun) {
        if let Some(last) = self.runs.back_mut() {
            if last.end() == run.first && last.group == run.group {
                last.count += run.count;
                last.bytes += run.bytes;
                return;
            }
            if last.end() > run.first {
                return self.insert(run);
            }
        }
        self.runs.push_back(run);
    }

    /// Messages were found, behind those before them.
    pub fn push_run(&mut self, run: LiveRun) {
        debug_assert!(self.runs.back().is_none_or(|last| last.end() <= run.first), "runs come in their order");
        self.runs.push_back(run);
    }

    /// Messages that are in the middle of others: they were written again, or out of order.
    #[cold]
    fn insert(&mut self, run: LiveRun) {
        self.take(run.first, run.end(), |_| {});
        let at = self.index_of(run.first);
        if let Some(before) = at.checked_sub(1).and_then(|before| self.runs.get_mut(before))
            && (before.end(), before.group) == (run.first, run.group)
        {
            before.count += run.count;
            before.bytes += run.bytes;
            return;
        }
        self.runs.insert(at, run);
    }

    /// The first run that ends behind a position.
    fn index_of(&self, position: u64) -> usize {
        if self.runs.front().is_none_or(|front| front.end() > position) {
            return 0;
        }
        self.runs.partition_point(|run| run.end() <= position)
    }

    /// The group that has the message of this position, if that is alive.
    pub fn group_of(&self, position: u64) -> Option<u64> {
        self.runs.get(self.index_of(position)).filter(|run| run.first <= position).map(|run| run.group)
    }

    /// The first position that is alive.
    pub fn first(&self) -> Option<u64> {
        self.runs.front().map(|run| run.first)
    }

    /// What is alive from `first` to before `end`, as the smallest range that has all of it.
    #[inline]
    pub fn range_within(&self, first: u64, end: u64) -> Option<(u64, u64)> {
        let at = self.index_of(first);
        let run = self.runs.get(at).filter(|run| run.first < end)?;
        let first = first.max(run.first);
        if run.end() >= end {
            return Some((first, end));
        }
        let last = self.runs.partition_point(|run| run.first < end) - 1;
        Some((first, end.min(self.runs[last].end())))
    }

    /// Takes everything from `first` to before `end` out, and tells the parts by their groups. Returns by how much the number
    /// of runs has changed.
    #[inline]
    pub fn remove(&mut self, first: u64, end: u64, removed: impl FnMut(LiveRun)) -> isize {
        let before = self.runs.len();
        self.take(first, end, removed);
        self.runs.len() as isize - before as isize
    }

    #[inline]
    fn take(&mut self, first: u64, end: u64, mut removed: impl FnMut(LiveRun)) {
        let at = self.index_of(first);
        while let Some(run) = self.runs.get_mut(at).filter(|run| run.first < end) {
            if run.first >= first && run.end() <= end {
                removed(*run);
                if at == 0 {
                    self.runs.pop_front();
                } else {
                    self.runs.remove(at);
                }
            } else if run.first >= first {
                removed(run.split_front(end - run.first));
                return;
            } else {
                return self.remove_behind(at, first, end, removed);
            }
        }
    }

    /// The same where a run begins before what is taken out.
    #[cold]
    fn remove_behind(&mut self, at: usize, first: u64, end: u64, removed: impl FnMut(LiveRun)) {
        let run = &mut self.runs[at];
        let kept = run.split_front(first - run.first);
        self.runs.insert(at, kept);
        self.take(first, end, removed);
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// The runs that have something from `first` to before `end`, whole.
    pub fn within(&self, first: u64, end: u64) -> impl Iterator<Item = &LiveRun> + Clone {
        self.runs.range(self.index_of(first)..).take_while(move |run| run.first < end)
    }

    /// The runs, in the order of their positions.
    pub fn iter(&self) -> impl Iterator<Item = &LiveRun> {
        self.runs.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn runs_know_what_a_map_of_positions_knows(
            steps in prop::collection::vec((0u8..4, 0u64..60, 1u64..12, 0u64..3), 1..120),
        ) {
            let mut runs = LiveRuns::default();
            let mut map: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
            let mut next = 0;
            for (step, position, count, group) in steps {
                match step {
                    0 | 1 => {
                        // Positions that are new, or some before them.
                        let first = if step == 0 { next + position % 3 } else { position };
                        next = next.max(first + count);
                        runs.push(LiveRun { first, count, group, bytes: 5 * count });
                        map.extend((first..first + count).map(|at| (at, (group, 5))));
                    }
                    2 => {
                        let end = position + count;
                        let found = map.range(position..end);
                        let keys: Vec<u64> = found.map(|(&at, _)| at).collect();
                        let expected = keys.first().zip(keys.last()).map(|(&first, &last)| (first, last + 1));
                        let range = runs.range_within(position, end);
                        prop_assert_eq!(range.is_some(), expected.is_some());
                        if let (Some(range), Some(expected)) = (range, expected) {
                            prop_assert!(range.0 <= expected.0 && range.1 >= expected.1);
                            prop_assert!(range.0 >= position && range.1 <= end);
                        }
                        let mut removed = BTreeMap::new();
                        runs.remove(position, end, |run| {
                            *removed.entry(run.group).or_insert(0) += run.count;
                        });
                        let mut expected = BTreeMap::new();
                        for at in keys {
                            *expected.entry(map.remove(&at).expect("it is there").0).or_insert(0) += 1;
                        }
                        prop_assert_eq!(removed, expected);
                    }
                    _ => {}
                }
                for at in 0..80 {
                    prop_assert_eq!(runs.group_of(at), map.get(&at).map(|entry| entry.0), "position {}", at);
                }
                prop_assert_eq!(runs.first(), map.keys().next().copied());
                prop_assert_eq!(runs.iter().map(|run| run.bytes).sum::<u64>(), 5 * map.len() as u64);
                prop_assert!(runs.iter().zip(runs.iter().skip(1)).all(|(a, b)| a.end() <= b.first));
            }
        }
    }
}
