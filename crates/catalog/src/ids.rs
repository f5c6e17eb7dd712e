//! Who is who: small copyable names for shards, sessions, vhosts, exchanges, queues and users.
//!
//! Leaves: identifiers, each a type of its own.
//! Owns:   nothing; the tables give them out.

use std::fmt;
use std::num::NonZeroU64;

/// A shard: one thread of the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// A connection's index in the tables of its shard. Reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionSlot(u32);

impl ConnectionSlot {
    #[inline]
    pub const fn new(number: u32) -> Self {
        ConnectionSlot(number)
    }

    /// The plain number, for logs.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }

    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ConnectionSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A session: one connection. `slot` is reused on its shard, `serial` tells the users of a slot apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId {
    /// The shard that owns the connection.
    pub shard: ShardId,
    /// Its place there.
    pub slot: ConnectionSlot,
    /// Which user of that place.
    pub serial: u32,
}

/// A virtual host. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VhostId(pub u32);

/// A user. Never reused; a user deleted and made again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(pub u32);

/// An exchange. `index` is dense and reused, `serial` tells the users of an index apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId {
    /// Its place, from 0 and as low as is free.
    pub index: u32,
    /// Which user of that place.
    pub serial: u32,
}

/// A queue. `index` is dense and reused, `serial` tells the users of an index apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    /// Its place, from 0 and as low as is free.
    pub index: u32,
    /// Which user of that place.
    pub serial: u32,
}

/// A durable queue in the store. Never used twice, not even after a restart, so that what is left of a queue that is gone is
/// never taken for another's of its name. `QueueId` is reused and stays out of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueUid(NonZeroU64);

impl QueueUid {
    pub const FIRST: QueueUid = QueueUid(NonZeroU64::MIN);

    /// `None` for 0, which no queue has.
    pub const fn new(number: u64) -> Option<QueueUid> {
        match NonZeroU64::new(number) {
            Some(number) => Some(QueueUid(number)),
            None => None,
        }
    }

    pub const fn number(self) -> u64 {
        self.0.get()
    }

    /// The one that is given out next.
    pub(crate) const fn next(self) -> QueueUid {
        QueueUid(self.0.saturating_add(1))
    }
}
