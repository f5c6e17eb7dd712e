//! Routes: to which queues a message goes.
//!
//! Enters: queues as exchanges find them.  Leaves: a shared, immutable list with each queue once.
//! Owns:   the shape of a route.
//! Never:  finds one itself.

use crate::ids::{QueueId, ShardId};

/// A queue to which a message goes, and where that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutedQueue {
    /// The queue.
    pub id: QueueId,
    /// Its shard.
    pub home: ShardId,
}

/// Where a message goes: each queue once, in the order of their indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The queues.
    pub queues: Box<[RoutedQueue]>,
    /// Whether exchange and routing key alone decide it, so that it holds until the catalog's version changes.
    /// False where a headers exchange was asked.
    pub cacheable: bool,
}

impl Route {
    /// Whether the message goes nowhere.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}
