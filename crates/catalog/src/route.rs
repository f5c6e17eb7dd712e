//! Routes: to which queues a message goes.
//!
//! Enters: queues as exchanges find them.  Leaves: a shared, immutable list with each queue once.
//! Owns:   the shape of a route.

use crate::ids::{ExchangeId, QueueId, ShardId};

/// A queue to which a message goes, and where that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutedQueue {
    pub id: QueueId,
    /// Its shard.
    pub home: ShardId,
}

/// Where a message goes: each queue once, in the order of their indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRoute {
    pub queues: Box<[RoutedQueue]>,
    /// Exchanges that hold the message back (`x-delayed-message`): from there it goes on when its time has come.
    pub held: Box<[ExchangeId]>,
    /// What it followed from: for messages that are alike in this it holds until the catalog's version changes.
    pub decided: RouteDependence,
    /// Somebody on the way may get it twice, and wants to see that: it needs a [stamp](crate::MessageStamp).
    pub stamped: bool,
}

/// What of a message, besides its exchange, decided where it goes; what comes later decides more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteDependence {
    ByKey,
    /// The routing key, and through which brokers it has come (see [`crate::trace`]).
    ByKeyAndTrace,
    /// Other headers, or properties.
    ByMessage,
}

impl QueueRoute {
    /// Whether the message goes nowhere.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.held.is_empty()
    }
}
