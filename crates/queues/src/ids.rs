//! The keys of consumers, positions in a queue, and requesters of a queue.
//!
//! They have a file of their own so that the modules of queues, consumers and deliveries need not import one another.

use catalog::{QueueUid, SessionId};
use wire::ChannelNumber;

slotmap::new_key_type! {
    /// A consumer in the table of its connection's shard.
    pub struct ConsumerKey;
    /// A consumer of another shard, in the table of its queue's shard.
    pub struct RemoteConsumerKey;
    /// A place in the rotation of a queue's consumers.
    pub(crate) struct PlaceKey;
}

/// A consumer, as its queue refers to it.
#[derive(Clone, Copy, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(not(test), derive(PartialEq))]
pub enum ConsumerRef {
    /// A consumer of this shard.
    Local(ConsumerKey),
    /// A consumer of another shard.
    Remote(RemoteConsumerKey),
}

/// The same, and counted: a search for a consumer among all of a queue is many comparisons.
#[cfg(test)]
impl PartialEq for ConsumerRef {
    fn eq(&self, other: &Self) -> bool {
        crate::test_visits::note();
        match (self, other) {
            (ConsumerRef::Local(a), ConsumerRef::Local(b)) => a == b,
            (ConsumerRef::Remote(a), ConsumerRef::Remote(b)) => a == b,
            _ => false,
        }
    }
}

/// Bits of a position below its priority level.
const LEVEL_SHIFT: u32 = 56;

/// A message's position in its queue: within a level, smaller is older. A requeued message returns to its position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct QueuePosition(pub u64);

impl QueuePosition {
    #[inline]
    pub(crate) fn new(level: u8, number: u64) -> QueuePosition {
        QueuePosition(number | u64::from(level) << LEVEL_SHIFT)
    }

    /// The priority among the queue's messages.
    #[inline]
    pub fn level(self) -> u8 {
        (self.0 >> LEVEL_SHIFT) as u8
    }

    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0 & ((1 << LEVEL_SHIFT) - 1)
    }
}

/// A message in the store: its queue and its position there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredPosition {
    pub uid: QueueUid,
    pub position: QueuePosition,
}

/// Messages of a queue that follow one another, and that it is done with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettledMessages {
    pub first: QueuePosition,
    pub count: u32,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Clients did not want them, and they are no dead letters; the others are acknowledged.
    pub are_rejected: bool,
}

/// The channel that awaits a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requester {
    pub session: SessionId,
    pub channel: ChannelNumber,
    /// The number of the request on its shard; zero if nobody awaits a response.
    pub request: u32,
}
