//! Runs of positions, each with a value: what is put in does not replace what is there.

use std::collections::BTreeMap;

/// Runs that do not overlap.
pub(crate) struct RunMap<T> {
    /// The end of each run, and its value, by its first position.
    runs: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for RunMap<T> {
    fn default() -> Self {
        RunMap { runs: BTreeMap::new() }
    }
}

impl<T: Copy> RunMap<T> {
    /// Puts a value at the positions from `first` to before `end` that have none.
    pub fn insert(&mut self, first: u64, end: u64, value: T) {
        let mut at = first;
        while at < end {
            match self.runs.range(..=at).next_back() {
                Some((_, &(covered, _))) if covered > at => at = covered,
                _ => {
                    let next = self.runs.range(at..).next().map_or(end, |(&next, _)| next.min(end));
                    self.runs.insert(at, (next, value));
                    at = next;
                }
            }
        }
    }

    /// Takes the values of the positions from `first` to before `end` out.
    pub fn remove(&mut self, first: u64, end: u64) {
        while let Some((&begin, &(until, value))) = self.runs.range(..end).next_back()
            && until > first
            && first < end
        {
            self.runs.remove(&begin);
            if until > end {
                self.runs.insert(end, (until, value));
            }
            if begin < first {
                self.runs.insert(begin, (first, value));
                return;
            }
        }
    }

    /// The runs from `first` to before `end`, cut off there.
    pub fn within(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, u64, T)> + '_ {
        let begin = self.runs.range(..=first).next_back().map_or(first, |(&begin, _)| begin);
        let runs = self
            .runs
            .range(begin..end.max(begin))
            .map(move |(&begin, &(until, value))| (begin.max(first), until.min(end), value));
        runs.filter(|(begin, until, _)| begin < until)
    }

    /// First position, end and value of each run, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, T)> + '_ {
        self.runs.iter().map(|(&first, &(end, value))| (first, end, value))
    }
}

#[cfg(test)]
mod tests {
    use super::RunMap;
    use std::collections::BTreeMap;

    #[test]
    fn runs_are_the_map_that_they_stand_for() {
        let (mut runs, mut expected) = (RunMap::default(), BTreeMap::new());
        // A row of numbers that repeats late, in place of chance.
        let mut state = 1u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for value in 0..4_000 {
            let first = next(60);
            let end = first + next(9);
            if next(3) == 0 {
                runs.remove(first, end);
                (first..end).for_each(|position| _ = expected.remove(&position));
            } else {
                runs.insert(first, end, value);
                (first..end).for_each(|position| _ = expected.entry(position).or_insert(value));
            }
            let found: Vec<(u64, i32)> =
                runs.iter().flat_map(|(first, end, value)| (first..end).map(move |at| (at, value))).collect();
            assert_eq!(found, expected.iter().map(|(at, value)| (*at, *value)).collect::<Vec<_>>(), "{first} to {end}");
            let within =
                runs.within(first, end).flat_map(|(first, end, value)| (first..end).map(move |at| (at, value)));
            let expected = expected.range(first..end).map(|(at, value)| (*at, *value));
            assert_eq!(within.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{first} to {end}");
        }
    }
}
