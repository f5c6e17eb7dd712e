//! The duplicate window: recognizes stamped messages that have arrived before.
//!
//! Owns:   the most recent stamps, of which the oldest is dropped first.
//!
//! All links of a broker share one window, since a message that takes two paths arrives at two shards, perhaps at the same time.
//! A link acknowledges and drops a message whose stamp is in the window. When this broker refuses a message, its stamp is removed,
//! or the source's next try would be dropped.

use catalog::MessageStamp;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// The stamps of messages that have arrived lately.
pub struct DuplicateWindow {
    /// Stamps in the order of arrival, starting at `oldest` and wrapping around; `None` where one was removed.
    stamps: Vec<Option<MessageStamp>>,
    oldest: usize,
    index: HashTable<u32>,
    stamps_max: usize,
    hash: FixedState,
}

impl DuplicateWindow {
    /// A window of `stamps_max` stamps ([`WINDOW_STAMPS_MAX`](crate::limits::WINDOW_STAMPS_MAX), except in tests). `hash_seed` is
    /// drawn at random, because peers choose the stamps.
    pub fn new(stamps_max: usize, hash_seed: u64) -> Self {
        assert!(stamps_max > 0 && u32::try_from(stamps_max).is_ok(), "a window of {stamps_max} stamps");
        Self {
            stamps: Vec::new(),
            oldest: 0,
            index: HashTable::new(),
            stamps_max,
            hash: FixedState::with_seed(hash_seed),
        }
    }

    /// Inserts the stamp of a message that arrived. Returns whether it is new. A full window drops its oldest stamp.
    pub fn insert(&mut self, stamp: MessageStamp) -> bool {
        let hash = self.hash.hash_one(stamp);
        if self.index.find(hash, |&at| self.stamps[at as usize] == Some(stamp)).is_some() {
            return false;
        }
        let at = if self.stamps.len() < self.stamps_max {
            self.stamps.push(None);
            self.stamps.len() - 1
        } else {
            let at = self.oldest;
            self.oldest = (at + 1) % self.stamps_max;
            if let Some(oldest) = self.stamps[at] {
                self.remove_at(oldest, at as u32);
            }
            at
        };
        self.stamps[at] = Some(stamp);
        let (stamps, state) = (&self.stamps, &self.hash);
        let again = |&at: &u32| stamps[at as usize].map_or(0, |stamp| state.hash_one(stamp));
        self.index.insert_unique(hash, at as u32, again);
        true
    }

    /// Removes the stamp of a message that this broker refused, so that it is new when it arrives again. Returns whether it was
    /// there.
    pub fn remove(&mut self, stamp: MessageStamp) -> bool {
        let hash = self.hash.hash_one(stamp);
        let Some(&at) = self.index.find(hash, |&at| self.stamps[at as usize] == Some(stamp)) else { return false };
        self.remove_at(stamp, at);
        true
    }

    fn remove_at(&mut self, stamp: MessageStamp, at: u32) {
        match self.index.find_entry(self.hash.hash_one(stamp), |&other| other == at) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => unreachable!("every stamp is in the index"),
        }
        self.stamps[at as usize] = None;
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::DuplicateWindow;
    use crate::limits::WINDOW_STAMPS_MAX;
    use catalog::MessageStamp;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn stamp(number: u64) -> MessageStamp {
        MessageStamp::new(77, 1, number)
    }

    #[test]
    fn duplicates_are_recognized_and_the_oldest_stamp_is_dropped_first() {
        let mut window = DuplicateWindow::new(3, 1);
        assert!(window.is_empty());
        assert_eq!(
            [1, 2, 1, 3, 2, 4, 1].map(|number| window.insert(stamp(number))),
            [true, true, false, true, false, true, true]
        );
        // 4 replaced 1, and 1 replaced 2.
        assert_eq!([3, 4, 1, 2].map(|number| window.insert(stamp(number))), [false, false, false, true]);
        assert_eq!(window.len(), 3);
    }

    #[test]
    fn a_removed_stamp_is_new_again() {
        let mut window = DuplicateWindow::new(2, 1);
        assert!(window.insert(stamp(1)) && window.insert(stamp(2)));
        assert!(window.remove(stamp(1)));
        assert!(!window.remove(stamp(1)), "it is removed");
        assert!(!window.remove(stamp(9)), "it was never there");
        assert!(window.insert(stamp(1)) && !window.insert(stamp(1)));
        assert!(!window.insert(stamp(2)), "it took the free place");
    }

    #[test]
    fn stamps_differ_by_broker_and_shard() {
        let mut window = DuplicateWindow::new(8, 1);
        for stamp in [
            MessageStamp::new(1, 0, 5),
            MessageStamp::new(2, 0, 5),
            MessageStamp::new(1, 1, 5),
            MessageStamp::new(1, 0, 6),
        ] {
            assert!(window.insert(stamp));
        }
    }

    #[test]
    fn a_full_window_does_not_grow() {
        let mut window = DuplicateWindow::new(WINDOW_STAMPS_MAX, 1);
        for number in 0..3 * WINDOW_STAMPS_MAX as u64 {
            assert!(window.insert(stamp(number)));
        }
        assert_eq!((window.len(), window.stamps.capacity()), (WINDOW_STAMPS_MAX, WINDOW_STAMPS_MAX));
        assert!(!window.insert(stamp(2 * WINDOW_STAMPS_MAX as u64)) && window.insert(stamp(0)));
    }

    proptest! {
        /// The window behaves like a list that is searched.
        #[test]
        fn behaves_like_a_list(stamps_max in 1..9_usize, steps in prop::collection::vec((0..12_u64, any::<bool>(), any::<bool>()), 0..200)) {
            let mut window = DuplicateWindow::new(stamps_max, 3);
            // A place that was freed in the middle stays one until it is its turn.
            let mut list: VecDeque<Option<u64>> = VecDeque::new();
            for (number, out, really) in steps {
                let place = list.iter().position(|&other| other == Some(number));
                if out && really {
                    prop_assert_eq!(window.remove(stamp(number)), place.is_some());
                    place.into_iter().for_each(|place| list[place] = None);
                    continue;
                }
                prop_assert_eq!(window.insert(stamp(number)), place.is_none());
                if place.is_none() {
                    if list.len() == stamps_max {
                        list.pop_front();
                    }
                    list.push_back(Some(number));
                }
                prop_assert_eq!(window.len(), list.iter().flatten().count());
            }
        }
    }
}
