//! Publishes of other shards for queues whose declaration has not arrived here yet.

use crate::limits::EARLY_PUBLISHES_MAX;
use crate::message::Message;
use catalog::{QueueId, ShardId};
use std::collections::VecDeque;

/// A publish that waits for the declaration of a queue.
pub(crate) struct EarlyPublish {
    pub from: ShardId,
    pub message: Message,
    pub queues: Box<[QueueId]>,
    pub confirm: bool,
}

/// They wait in their order, and later publishes wait behind them, so that none overtakes another.
#[derive(Default)]
pub(crate) struct EarlyPublishes(VecDeque<EarlyPublish>);

impl EarlyPublishes {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has_capacity(&self) -> bool {
        self.0.len() < EARLY_PUBLISHES_MAX
    }

    #[cold]
    pub fn push(&mut self, publish: EarlyPublish) {
        self.0.push_back(publish);
    }

    /// Takes the first, if none of its queues `is_to_come` any more.
    pub fn next(&mut self, is_to_come: impl Fn(QueueId) -> bool) -> Option<EarlyPublish> {
        self.0.front().filter(|early| !early.queues.iter().any(|&id| is_to_come(id)))?;
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::{EarlyPublish, EarlyPublishes};
    use crate::message::Content;
    use catalog::{QueueId, ShardId};
    use slab::{Pool, PoolOptions};

    #[test]
    fn publishes_leave_in_their_order_once_their_queues_are_declared() {
        let pool = Pool::new(PoolOptions::default());
        let mut early = EarlyPublishes::default();
        for index in [5, 4] {
            let (queues, message) = ([QueueId { index, serial: 0 }].into(), Content::EMPTY.keep(&pool));
            early.push(EarlyPublish { from: ShardId(1), message, queues, confirm: false });
        }
        assert!(early.next(|id| id.index == 5).is_none(), "the second waits behind the first");
        assert!(early.next(|id| id.index == 4).is_some() && early.next(|id| id.index == 4).is_none());
        assert!(early.next(|_| false).is_some() && early.is_empty() && early.has_capacity());
    }
}
