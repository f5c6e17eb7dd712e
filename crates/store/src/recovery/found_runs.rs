//! What is alive of a level, as far as the log has been read: runs of messages with the extents that have them.

use crate::footer::MessageRun;
use std::collections::BTreeMap;

/// Messages in their place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundRun {
    pub run: MessageRun,
    /// The extent that has them, and the one that has the end of the body, where that is large.
    pub extent: u32,
    pub last_extent: u32,
}

/// The runs of a level, by their first positions.
#[derive(Default)]
pub(crate) struct FoundRuns(BTreeMap<u64, FoundRun>);

impl FoundRuns {
    /// Messages were written: for the first time, or again when they were moved.
    pub fn insert(&mut self, found: FoundRun) {
        let (first, end) = (found.run.first.0, found.run.end());
        match self.0.last_entry() {
            Some(mut last) if last.get().run.end() <= first => {
                let last = last.get_mut();
                let is_same = [last.extent, last.last_extent, found.last_extent] == [found.extent; 3];
                if is_same && last.run.end() == first {
                    return last.run.extend(&found.run);
                }
            }
            Some(_) => self.remove(first, end),
            None => {}
        }
        self.0.insert(first, found);
    }

    /// Takes everything from `first` to before `end` out.
    pub fn remove(&mut self, first: u64, end: u64) {
        let before = self.0.range_mut(..first).next_back();
        if let Some((_, found)) = before.filter(|(_, found)| found.run.end() > first) {
            let count = first - found.run.first.0;
            let kept = FoundRun { run: found.run.split_front(count), ..*found };
            let rest = std::mem::replace(found, kept);
            self.0.insert(first, rest);
        }
        while let Some((&at, _)) = self.0.range(first..end).next() {
            let Some(mut found) = self.0.remove(&at) else { return };
            if found.run.end() > end {
                found.run.split_front(end - at);
                self.0.insert(end, found);
            }
        }
    }

    /// All of them, in the order of their positions.
    pub fn into_runs(self) -> Vec<FoundRun> {
        self.0.into_values().collect()
    }
}
