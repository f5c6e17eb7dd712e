//! A set of positions, kept as runs: messages come and go one behind the other.

use std::collections::BTreeMap;

/// Positions of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PositionRuns {
    /// The end of each run by its first position.
    runs: BTreeMap<u64, u64>,
}

impl PositionRuns {
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|(first, end)| end - first).sum()
    }

    pub fn first(&self) -> Option<u64> {
        self.runs.first_key_value().map(|(first, _)| *first)
    }

    pub fn last(&self) -> Option<u64> {
        self.runs.last_key_value().map(|(_, end)| end - 1)
    }

    /// Adds a position, which may be there.
    pub fn insert(&mut self, position: u64) {
        let next = position.saturating_add(1);
        let before = self.runs.range_mut(..=position).next_back();
        let first = match before {
            Some((_, end)) if *end > position => return,
            Some((first, end)) if *end == position => {
                *end = next;
                *first
            }
            _ => {
                self.runs.insert(position, next);
                position
            }
        };
        if let Some(end) = self.runs.remove(&next) {
            self.runs.insert(first, end);
        }
    }

    /// Removes a position. Returns whether it was there.
    pub fn take(&mut self, position: u64) -> bool {
        let Some((_, &end)) = self.runs.range(..=position).next_back() else { return false };
        if end <= position {
            return false;
        }
        self.remove(position, 1);
        true
    }

    /// Removes `count` positions from `from` on, as far as they are there.
    pub fn remove(&mut self, from: u64, count: u64) {
        let to = from.saturating_add(count);
        while let Some((&first, &end)) = self.runs.range(..to).next_back()
            && end > from
            && count > 0
        {
            self.runs.remove(&first);
            if end > to {
                self.runs.insert(to, end);
            }
            if first < from {
                self.runs.insert(first, from);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PositionRuns;
    use std::collections::BTreeSet;

    #[test]
    fn runs_are_the_set_that_they_stand_for() {
        for seed in 1..200_u64 {
            let mut state = seed;
            let mut below = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let (mut runs, mut set) = (PositionRuns::default(), BTreeSet::new());
            for _ in 0..100 {
                let position = below(40);
                match below(4) {
                    0 => {
                        let count = below(8);
                        runs.remove(position, count);
                        set.retain(|one| !(position..position + count).contains(one));
                    }
                    1 => assert_eq!(runs.take(position), set.remove(&position), "seed {seed}"),
                    _ => {
                        runs.insert(position);
                        set.insert(position);
                    }
                }
                let found = (runs.count(), runs.first(), runs.last());
                let expect = (set.len() as u64, set.first().copied(), set.last().copied());
                assert_eq!(found, expect, "seed {seed}");
                assert!(runs.runs.iter().zip(runs.runs.keys().skip(1)).all(|((_, end), next)| end < next));
            }
        }
    }
}
