//! The duplicate window: which stamped messages this broker has had lately.
//!
//! Enters: stamps of messages that come over links.  Leaves: whether one has been here already.
//! Owns:   the last so many stamps, the oldest going first.
//! Never:  sees a message without a stamp; grows beyond its limit.
//!
//! All links of a broker share one: a message that comes by two paths comes to two shards, perhaps at once. Who finds a stamp in
//! it acknowledges the message and drops it; who was refused the message by this broker takes its stamp out, or the source's next
//! try would be dropped.

use catalog::MessageStamp;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

/// The window.
pub struct Window {
    /// Stamps in the order they came, from `oldest` around; `None` where one was taken out.
    stamps: Vec<Option<MessageStamp>>,
    oldest: usize,
    index: HashTable<u32>,
    stamps_max: usize,
    hash: FixedState,
}

impl Window {
    /// One of so many stamps ([`WINDOW_STAMPS_MAX`](crate::limits::WINDOW_STAMPS_MAX), but for tests). `hash_seed` is drawn at
    /// random: peers write stamps.
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

    /// A message with this stamp is here. Answers whether it is for the first time; the oldest stamp goes if there is no
    /// room.
    pub fn enter(&mut self, stamp: MessageStamp) -> bool {
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
                self.forget_at(oldest, at as u32);
            }
            at
        };
        self.stamps[at] = Some(stamp);
        let (stamps, state) = (&self.stamps, &self.hash);
        let again = |&at: &u32| stamps[at as usize].map_or(0, |stamp| state.hash_one(stamp));
        self.index.insert_unique(hash, at as u32, again);
        true
    }

    /// This broker did not take the message: when it comes again, it is as if for the first time. Answers whether it was there.
    pub fn take_out(&mut self, stamp: MessageStamp) -> bool {
        let hash = self.hash.hash_one(stamp);
        let Some(&at) = self.index.find(hash, |&at| self.stamps[at as usize] == Some(stamp)) else { return false };
        self.forget_at(stamp, at);
        true
    }

    fn forget_at(&mut self, stamp: MessageStamp, at: u32) {
        match self.index.find_entry(self.hash.hash_one(stamp), |&other| other == at) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => unreachable!("every stamp is in the index"),
        }
        self.stamps[at as usize] = None;
    }

    /// How many stamps there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Window;
    use crate::limits::WINDOW_STAMPS_MAX;
    use catalog::MessageStamp;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn stamp(number: u64) -> MessageStamp {
        MessageStamp::new(77, 1, number)
    }

    #[test]
    fn what_comes_twice_is_seen_and_the_oldest_goes_first() {
        let mut window = Window::new(3, 1);
        assert!(window.is_empty());
        assert_eq!(
            [1, 2, 1, 3, 2, 4, 1].map(|number| window.enter(stamp(number))),
            [true, true, false, true, false, true, true]
        );
        // 4 took the place of 1, and 1 that of 2.
        assert_eq!([3, 4, 1, 2].map(|number| window.enter(stamp(number))), [false, false, false, true]);
        assert_eq!(window.len(), 3);
    }

    #[test]
    fn a_refused_message_may_come_again() {
        let mut window = Window::new(2, 1);
        assert!(window.enter(stamp(1)) && window.enter(stamp(2)));
        assert!(window.take_out(stamp(1)));
        assert!(!window.take_out(stamp(1)), "it is out");
        assert!(!window.take_out(stamp(9)), "it was never in");
        assert!(window.enter(stamp(1)) && !window.enter(stamp(1)));
        assert!(!window.enter(stamp(2)), "it went into the place that was free");
    }

    #[test]
    fn brokers_and_shards_number_for_themselves() {
        let mut window = Window::new(8, 1);
        for stamp in [MessageStamp::new(1, 0, 5), MessageStamp::new(2, 0, 5), MessageStamp::new(1, 1, 5), MessageStamp::new(1, 0, 6)] {
            assert!(window.enter(stamp));
        }
    }

    #[test]
    fn a_full_window_stays_as_large_as_it_is() {
        let mut window = Window::new(WINDOW_STAMPS_MAX, 1);
        for number in 0..3 * WINDOW_STAMPS_MAX as u64 {
            assert!(window.enter(stamp(number)));
        }
        assert_eq!((window.len(), window.stamps.capacity()), (WINDOW_STAMPS_MAX, WINDOW_STAMPS_MAX));
        assert!(!window.enter(stamp(2 * WINDOW_STAMPS_MAX as u64)) && window.enter(stamp(0)));
    }

    proptest! {
        /// As a list that is looked through.
        #[test]
        fn as_a_list(stamps_max in 1..9_usize, steps in prop::collection::vec((0..12_u64, any::<bool>(), any::<bool>()), 0..200)) {
            let mut window = Window::new(stamps_max, 3);
            // A place that was freed in the middle stays one until it is its turn.
            let mut list: VecDeque<Option<u64>> = VecDeque::new();
            for (number, out, really) in steps {
                let place = list.iter().position(|&other| other == Some(number));
                if out && really {
                    prop_assert_eq!(window.take_out(stamp(number)), place.is_some());
                    place.into_iter().for_each(|place| list[place] = None);
                    continue;
                }
                prop_assert_eq!(window.enter(stamp(number)), place.is_none());
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
