//! The messages of one queue that wait for a consumer, in the order of their arrival.
//!
//! Enters: new messages, and messages that come back.  Leaves: the oldest message, with its place and whether it was delivered before.
//! Owns:   the places (a number that grows with each arrival).
//! Never:  looks into a message, knows a consumer.

use crate::chain::Chain;
use crate::message::Message;
use std::collections::BTreeMap;

/// A message's place in its queue: smaller is older. A message that is requeued goes back to its place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Place(pub u64);

/// A message taken from the front.
pub struct Taken {
    /// Where it stood.
    pub place: Place,
    /// The message.
    pub message: Message,
    /// Whether it was handed to a consumer before.
    pub redelivered: bool,
}

struct Returned {
    message: Message,
    redelivered: bool,
}

/// Waiting messages. New ones stand in a list whose places follow one another, so that a waiting message costs one reference;
/// those that came back stand apart and are all older than the list.
#[derive(Default)]
pub struct Ready {
    list: Chain<Message>,
    list_front: u64,
    returned: BTreeMap<u64, Returned>,
    bytes: u64,
}

impl Ready {
    /// Messages waiting.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len() + self.returned.len()
    }

    /// Whether no message waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.returned.is_empty()
    }

    /// Bytes of the waiting messages as limits count them.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The place that the next new message will get.
    #[inline]
    pub fn next_place(&self) -> Place {
        Place(self.list_front + self.list.len() as u64)
    }

    /// A new message at the end.
    #[inline]
    pub fn push(&mut self, message: Message) -> Place {
        let place = self.list_front + self.list.len() as u64;
        self.bytes += message.bytes() as u64;
        self.list.push_back(message);
        Place(place)
    }

    /// A place for a message that never waits: it goes straight to a consumer, ahead of nobody.
    #[inline]
    pub fn pass(&mut self) -> Place {
        debug_assert!(self.is_empty(), "a message may pass only an empty list");
        self.list_front += 1;
        Place(self.list_front - 1)
    }

    /// The oldest message.
    #[inline]
    pub fn pop(&mut self) -> Option<Taken> {
        if let Some((place, returned)) = self.returned.pop_first() {
            self.bytes -= returned.message.bytes() as u64;
            return Some(Taken { place: Place(place), message: returned.message, redelivered: returned.redelivered });
        }
        let message = self.list.pop_front()?;
        let place = Place(self.list_front);
        self.list_front += 1;
        self.bytes -= message.bytes() as u64;
        Some(Taken { place, message, redelivered: false })
    }

    /// Puts a message back where it stood.
    pub fn restore(&mut self, taken: Taken) {
        assert!(taken.place.0 < self.list_front, "only a message that was taken can come back");
        self.bytes += taken.message.bytes() as u64;
        let twin =
            self.returned.insert(taken.place.0, Returned { message: taken.message, redelivered: taken.redelivered });
        assert!(twin.is_none(), "a message comes back once");
    }

    /// Drops everything; answers how many messages that were.
    pub fn clear(&mut self) -> usize {
        let count = self.len();
        self.list_front += self.list.len() as u64;
        self.list = Chain::default();
        self.returned.clear();
        self.bytes = 0;
        count
    }
}
