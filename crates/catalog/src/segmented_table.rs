//! A hash table that grows a little at a time: linear hashing over small tables.
//!
//! Enters: values with their hashes.  Leaves: the values again.
//! Owns:   which of its segments a hash belongs to.
//!
//! A table that doubles in one piece holds everybody for as long as it takes to hash a million entries anew. Here one segment
//! after the other is split, each when as many values have come as one segment holds.

use crate::copy_budget::CopyBudget;
use hashbrown::HashTable;

/// Values that a segment holds on average.
const SEGMENT_VALUES: usize = 400;

/// A segment that is filled to less than this part, one eighth, gives memory back.
const SPARSE_DIVISOR: usize = 8;

/// Hash bits below these place a value in its segment, those far above tell values there apart.
const SEGMENT_SHIFT: u32 = 24;

/// A hash table. It takes no longer to add a value than to split one of its segments.
#[derive(Clone)]
pub(crate) struct SegmentedTable<T> {
    /// `1 << level` of them, and one more for each that is split.
    segments: Vec<HashTable<T>>,
    level: u32,
    len: usize,
    /// Bytes of the segments.
    segments_bytes: usize,
}

impl<T> Default for SegmentedTable<T> {
    fn default() -> Self {
        Self { segments: vec![HashTable::new()], level: 0, len: 0, segments_bytes: 0 }
    }
}

impl<T> SegmentedTable<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap.
    pub fn allocation_size(&self) -> usize {
        self.segments.capacity() * size_of::<HashTable<T>>() + self.segments_bytes
    }

    #[inline]
    fn segment(&self, hash: u64) -> usize {
        let bits = (hash >> SEGMENT_SHIFT) as usize;
        let number = bits & ((2 << self.level) - 1);
        // The segments at the end are those that were split off.
        if number < self.segments.len() { number } else { bits & ((1 << self.level) - 1) }
    }

    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        self.segments[self.segment(hash)].find(hash, is_it)
    }

    #[inline]
    pub fn find_mut(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        let segment = self.segment(hash);
        self.segments[segment].find_mut(hash, is_it)
    }

    /// Adds a value that is not there. `hash_of` is that of a value here.
    pub fn insert_unique(&mut self, hash: u64, value: T, hash_of: impl Fn(&T) -> u64) {
        if self.len >= self.segments.len() * SEGMENT_VALUES {
            self.split(&hash_of);
        }
        let segment = self.segment(hash);
        let segment = &mut self.segments[segment];
        let before = segment.allocation_size();
        segment.insert_unique(hash, value, hash_of);
        self.segments_bytes += segment.allocation_size() - before;
        self.len += 1;
    }

    /// Takes a value out. `hash_of` is that of another value here.
    pub fn remove(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool, hash_of: impl Fn(&T) -> u64) -> Option<T> {
        let segment = self.segment(hash);
        let segment = &mut self.segments[segment];
        let (value, _) = segment.find_entry(hash, is_it).ok()?.remove();
        self.len -= 1;
        if segment.is_empty() || segment.len() < segment.capacity() / SPARSE_DIVISOR {
            let before = segment.allocation_size();
            segment.shrink_to(2 * segment.len(), hash_of);
            self.segments_bytes = self.segments_bytes + segment.allocation_size() - before;
        }
        Some(value)
    }

    /// Splits the next segment: those of its values that belong to a new one, at the end, go there.
    ///
    /// While segments are split one after the other, from the first to the last of a level, the values of one grow from the
    /// average to twice as many, and are halved. All would outgrow their memory at about the same time, so each gets what it
    /// needs for a whole level in its turn: in the second half of the one before.
    #[cold]
    fn split(&mut self, hash_of: &impl Fn(&T) -> u64) {
        let count = 1 << self.level;
        let at = self.segments.len() - count;
        let whole = std::mem::take(&mut self.segments[at]);
        self.segments_bytes -= whole.allocation_size();
        self.segments.push(HashTable::new());
        let is_second_half = at >= count / 2;
        let values = if is_second_half { 2 * SEGMENT_VALUES } else { SEGMENT_VALUES };
        for number in [at, at + count] {
            self.reserve(number, values, hash_of);
        }
        let before = self.segments[at].allocation_size() + self.segments[at + count].allocation_size();
        for value in whole {
            let hash = hash_of(&value);
            let segment = self.segment(hash);
            self.segments[segment].insert_unique(hash, value, hash_of);
        }
        // Hashes may be less even than one expects.
        self.segments_bytes +=
            self.segments[at].allocation_size() + self.segments[at + count].allocation_size() - before;
        if is_second_half {
            for number in [at - count / 2, at - count / 2 + count] {
                self.reserve(number, 2 * SEGMENT_VALUES, hash_of);
            }
        }
        if self.segments.len() == 2 * count {
            self.level += 1;
        }
    }

    /// Gives a segment memory for so many values.
    fn reserve(&mut self, number: usize, values: usize, hash_of: &impl Fn(&T) -> u64) {
        let segment = &mut self.segments[number];
        let before = segment.allocation_size();
        segment.reserve(values.saturating_sub(segment.len()), hash_of);
        self.segments_bytes += segment.allocation_size() - before;
    }
}

impl<T: Clone> SegmentedTable<T> {
    /// One without segments, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        Self { segments: Vec::with_capacity(self.segments.len()), level: self.level, len: self.len, segments_bytes: 0 }
    }

    /// Copies more segments. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        while let Some(segment) = self.segments.get(copy.segments.len()) {
            if budget.is_spent() {
                return false;
            }
            let segment = segment.clone();
            budget.draw(size_of::<HashTable<T>>() + segment.allocation_size());
            copy.segments_bytes += segment.allocation_size();
            copy.segments.push(segment);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{SEGMENT_VALUES, SegmentedTable};
    use foldhash::fast::FixedState;
    use std::cell::Cell;
    use std::hash::BuildHasher;

    #[test]
    fn values_are_found_and_removed_whatever_segments_there_are() {
        let hash = FixedState::with_seed(7);
        let hash_of = |value: &u32| hash.hash_one(value);
        let mut table = SegmentedTable::default();
        for round in 0..2 {
            for value in 0..20_000_u32 {
                assert!(table.find(hash_of(&value), |&other| other == value).is_none());
                table.insert_unique(hash_of(&value), value, hash_of);
                assert!(table.find_mut(hash_of(&(value / 2)), |&other| other == value / 2).is_some());
            }
            assert_eq!(table.len(), 20_000);
            let bytes: usize = table.segments.iter().map(|segment| segment.allocation_size()).sum();
            assert_eq!(table.segments_bytes, bytes);
            assert!(table.segments.len() == 20_000 / SEGMENT_VALUES && bytes < 20 * 20_000, "{bytes} bytes");
            for value in 0..20_000_u32 {
                assert_eq!(
                    table.remove(hash_of(&value), |&other| other == value, hash_of),
                    Some(value),
                    "round {round}"
                );
                assert!(table.remove(hash_of(&value), |&other| other == value, hash_of).is_none());
            }
            assert!(table.is_empty());
            let bytes: usize = table.segments.iter().map(|segment| segment.allocation_size()).sum();
            assert_eq!((table.segments_bytes, bytes), (0, 0), "what is empty takes no memory");
        }
    }

    #[test]
    fn no_value_has_very_many_others_hashed_anew() {
        let hash = FixedState::with_seed(7);
        let hashed = Cell::new(0_usize);
        let hash_of = |value: &u32| {
            hashed.set(hashed.get() + 1);
            hash.hash_one(value)
        };
        let mut table = SegmentedTable::default();
        let (mut most, mut most_of_many) = (0, 0);
        for first in (0..300_000_u32).step_by(1_000) {
            let before = hashed.get();
            for value in first..first + 1_000 {
                let before = hashed.get();
                table.insert_unique(hash.hash_one(value), value, hash_of);
                most = most.max(hashed.get() - before);
            }
            most_of_many = most_of_many.max(hashed.get() - before);
        }
        // A table in one piece hashes 229,376 values anew when one comes.
        assert!(most <= 4 * SEGMENT_VALUES, "{most} hashed anew for one value");
        assert!(most_of_many <= 10_000, "{most_of_many} hashed anew for a thousand");
    }
}
