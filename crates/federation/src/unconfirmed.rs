//! Unconfirmed stamps: which stamped messages of a route this broker has not answered for yet.
//!
//! Enters: publishes with their numbers, and what became of them.  Leaves: the stamps that must go out of the window again.
//! Owns:   stamps in the order of their publishes, no more than a route has messages under way.
//! Never:  touches the window, which is behind a lock.
//!
//! A message that was refused comes again, and must not be taken for a duplicate. The same is true of all that is unanswered
//! when a connection breaks: it may have been refused, and twice is better than never.

use catalog::MessageStamp;
use std::collections::VecDeque;

/// The stamps of one route.
#[derive(Debug, Default)]
pub struct Unconfirmed {
    stamps: VecDeque<(u64, MessageStamp)>,
}

impl Unconfirmed {
    /// A publish of this number, which is higher than all before, has a stamp that is new to the window.
    pub fn push(&mut self, number: u64, stamp: MessageStamp) {
        debug_assert!(
            self.stamps.back().is_none_or(|&(last, _)| last < number),
            "publishes are numbered in their order"
        );
        self.stamps.push_back((number, stamp));
    }

    /// `basic.ack` of the broker core: these are safe.
    #[inline]
    pub fn confirmed(&mut self, number: u64, multiple: bool) {
        if !self.stamps.is_empty() {
            self.answered(number, multiple, |_| {});
        }
    }

    /// `basic.nack` of the broker core: these stamps are to be taken out of the window.
    #[cold]
    pub fn refused(&mut self, number: u64, multiple: bool, take_out: impl FnMut(MessageStamp)) {
        self.answered(number, multiple, take_out);
    }

    /// The connection is gone: the stamps of all that was not answered.
    pub fn drain(&mut self) -> impl Iterator<Item = MessageStamp> {
        self.stamps.drain(..).map(|(_, stamp)| stamp)
    }

    fn answered(&mut self, number: u64, multiple: bool, mut each: impl FnMut(MessageStamp)) {
        if !multiple {
            if let Ok(at) = self.stamps.binary_search_by_key(&number, |&(number, _)| number) {
                self.stamps.remove(at).into_iter().for_each(|(_, stamp)| each(stamp));
            }
            return;
        }
        while let Some(&(first, stamp)) = self.stamps.front()
            && first <= number
        {
            self.stamps.pop_front();
            each(stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Unconfirmed;
    use catalog::MessageStamp;

    fn stamp(number: u64) -> MessageStamp {
        MessageStamp::new(1, 0, number)
    }

    #[test]
    fn what_is_refused_or_unanswered_is_said_and_nothing_else() {
        let mut unconfirmed = Unconfirmed::default();
        // 3 and 6 had no stamps.
        [1, 2, 4, 5, 7, 8, 9].iter().for_each(|&number| unconfirmed.push(number, stamp(number)));
        let mut out = Vec::new();
        unconfirmed.confirmed(1, false);
        unconfirmed.refused(2, false, |stamp| out.push(stamp));
        unconfirmed.refused(3, false, |stamp| out.push(stamp));
        assert_eq!(out, [stamp(2)]);
        unconfirmed.confirmed(5, true);
        unconfirmed.refused(7, true, |stamp| out.push(stamp));
        assert_eq!(out, [stamp(2), stamp(7)]);
        // One in the middle, before those in front of it.
        unconfirmed.confirmed(9, false);
        assert_eq!(unconfirmed.drain().collect::<Vec<_>>(), [stamp(8)]);
        unconfirmed.confirmed(9, true);
        assert_eq!(unconfirmed.drain().count(), 0);
    }
}
