//! The ids of what a broker keeps in its tables: connections, sessions, channels, consumers, positions in a queue, publishes.
//!
//! They have a file of their own so that the modules of channels, consumers, ledgers and effects need not import one another.

pub use catalog::ConnectionSlot;
use catalog::{QueueUid, SessionId, ShardId, UserId, VhostId};

slotmap::new_key_type! {
    /// A channel in the table of its connection's shard.
    pub struct ChannelKey;
    /// A consumer in the table of its connection's shard.
    pub struct ConsumerKey;
    /// A consumer of another shard, in the table of its queue's shard.
    pub struct RemoteConsumerKey;
    /// A place in the rotation of a queue's consumers.
    pub(crate) struct PlaceKey;
}

/// A consumer, as its queue refers to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ConsumerRef {
    /// A consumer of this shard.
    Local(ConsumerKey),
    /// A consumer of another shard.
    Remote(RemoteConsumerKey),
}

/// A user's session: what a command may do depends on it.
#[derive(Clone, Copy)]
pub(crate) struct SessionIdentity {
    pub session: SessionId,
    pub user: UserId,
    pub vhost: VhostId,
}

/// A publish of a channel in confirm or transaction mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishKey {
    pub channel: ChannelKey,
    /// Its number on that channel, from one.
    pub number: u64,
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

/// This shard, and how many shards the broker has.
#[derive(Clone, Copy, Debug)]
pub struct ShardIdentity {
    pub shard: ShardId,
    pub shards: u16,
}

impl ShardIdentity {
    /// Whether something that lives on `shard` lives here.
    #[inline]
    pub fn is_home(self, shard: ShardId) -> bool {
        shard == self.shard
    }

    pub fn others(self) -> impl Iterator<Item = ShardId> {
        (0..self.shards).map(ShardId).filter(move |&shard| shard != self.shard)
    }
}

/// Messages of a queue that follow one another, and that it is done with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SettledMessages {
    pub first: QueuePosition,
    pub count: u32,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Clients did not want them, and they are no dead letters; the others are acknowledged.
    pub are_rejected: bool,
}
