//! The ids of what a broker keeps in its tables: connections, sessions, channels, publishes.
//!
//! They have a file of their own so that the modules of channels, sessions and effects need not import one another.

pub use catalog::ConnectionSlot;
use catalog::{SessionId, ShardId, UserId, VhostId};

slotmap::new_key_type! {
    /// A channel in the table of its connection's shard.
    pub struct ChannelKey;
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
