//! The stamps of messages on one route for which this broker has not answered yet.
//!
//! Enters: publishes with their tags, and their confirms.  Leaves: stamps to remove from the duplicate window.
//! Owns:   stamps in the order of their publishes, at most as many as the route has messages in flight.
//!
//! A message that was refused arrives again and must not be taken for a duplicate. The same is true of all unanswered messages
//! when a connection breaks: they may have been refused, and twice is better than never.

use catalog::MessageStamp;
use std::collections::VecDeque;
use wire::DeliveryTag;

/// The unanswered stamps of one route, by delivery tag.
#[derive(Debug, Default)]
pub struct UnconfirmedStamps {
    stamps: VecDeque<(DeliveryTag, MessageStamp)>,
}

impl UnconfirmedStamps {
    /// A message with this tag, higher than all before, has a stamp that is new to the window.
    pub fn push(&mut self, tag: DeliveryTag, stamp: MessageStamp) {
        debug_assert!(self.stamps.back().is_none_or(|&(last, _)| last < tag), "publishes are numbered in their order");
        self.stamps.push_back((tag, stamp));
    }

    /// The broker core has accepted these messages (`basic.ack`).
    #[inline]
    pub fn confirmed(&mut self, tag: DeliveryTag, multiple: bool) {
        if !self.stamps.is_empty() {
            self.answered(tag, multiple, |_| {});
        }
    }

    /// The broker core has refused these messages (`basic.nack`): calls `remove` with their stamps.
    #[cold]
    pub fn refused(&mut self, tag: DeliveryTag, multiple: bool, remove: impl FnMut(MessageStamp)) {
        self.answered(tag, multiple, remove);
    }

    /// Removes and returns the stamps of all unanswered messages.
    pub fn drain(&mut self) -> impl Iterator<Item = MessageStamp> {
        self.stamps.drain(..).map(|(_, stamp)| stamp)
    }

    fn answered(&mut self, tag: DeliveryTag, multiple: bool, mut each: impl FnMut(MessageStamp)) {
        if !multiple {
            if let Ok(at) = self.stamps.binary_search_by_key(&tag, |&(tag, _)| tag) {
                self.stamps.remove(at).into_iter().for_each(|(_, stamp)| each(stamp));
            }
            return;
        }
        while let Some(&(first, stamp)) = self.stamps.front()
            && first <= tag
        {
            self.stamps.pop_front();
            each(stamp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::UnconfirmedStamps;
    use catalog::MessageStamp;
    use wire::DeliveryTag;

    fn stamp(number: u64) -> MessageStamp {
        MessageStamp::new(1, 0, number)
    }

    #[test]
    fn only_refused_and_unanswered_stamps_are_returned() {
        let mut unconfirmed = UnconfirmedStamps::default();
        // 3 and 6 had no stamps.
        [1, 2, 4, 5, 7, 8, 9].iter().for_each(|&number| unconfirmed.push(DeliveryTag(number), stamp(number)));
        let mut out = Vec::new();
        unconfirmed.confirmed(DeliveryTag(1), false);
        unconfirmed.refused(DeliveryTag(2), false, |stamp| out.push(stamp));
        unconfirmed.refused(DeliveryTag(3), false, |stamp| out.push(stamp));
        assert_eq!(out, [stamp(2)]);
        unconfirmed.confirmed(DeliveryTag(5), true);
        unconfirmed.refused(DeliveryTag(7), true, |stamp| out.push(stamp));
        assert_eq!(out, [stamp(2), stamp(7)]);
        // One in the middle, before those in front of it.
        unconfirmed.confirmed(DeliveryTag(9), false);
        assert_eq!(unconfirmed.drain().collect::<Vec<_>>(), [stamp(8)]);
        unconfirmed.confirmed(DeliveryTag(9), true);
        assert_eq!(unconfirmed.drain().count(), 0);
    }
}
