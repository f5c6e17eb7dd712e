//! Publishes of other shards for queues whose declaration has not arrived here yet.
//!
//! Enters: publishes that are early, and batches that arrive while a shard has as many of those as it may, or whose turn is over.
//! Leaves: the publishes in their order once their queues are declared, then the batches, as far as the budgets of turns allow.
//! Owns:   what each shard has here that is not carried out. A declaration comes from shard 0, whose publishes are never early
//!         because it makes every declaration first: what is held back of the others never holds back what it waits for.

use crate::shard_message::{ShardBatch, ShardMessage};
use catalog::{QueueId, ShardId};
use queues::Message;
use std::collections::VecDeque;

/// A publish that waits for the declaration of a queue.
pub(crate) struct EarlyPublish {
    pub message: Message,
    pub queues: Box<[QueueId]>,
    pub confirm: bool,
}

/// Of one shard. Its later publishes wait behind the early ones, so that none overtakes another.
#[derive(Default)]
struct EarlyShard {
    publishes: VecDeque<EarlyPublish>,
    /// The first of them, if any, waits for a turn with a budget and no longer for a declaration.
    is_released: bool,
    /// The batch that was begun at the limit, without what was carried out of it, and those behind it.
    held: VecDeque<ShardBatch>,
}

impl EarlyShard {
    fn awaits_turn(&self) -> bool {
        self.is_released || (!self.held.is_empty() && self.publishes.is_empty())
    }
}

/// Early publishes by the shard that they came from.
pub(crate) struct EarlyPublishes {
    shards: Vec<EarlyShard>,
    /// Publishes that one shard may have here.
    publishes_max: usize,
    /// Those of all shards.
    len: usize,
    /// Batches that are held back, of all shards.
    held: usize,
}

impl EarlyPublishes {
    pub fn new(shards: u16, publishes_max: usize) -> Self {
        EarlyPublishes { shards: (0..shards).map(|_| EarlyShard::default()).collect(), publishes_max, len: 0, held: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Publishes that wait, and messages that are held back behind them.
    pub fn len(&self) -> usize {
        let held = self.shards.iter().flat_map(|shard| &shard.held).map(|batch| batch.messages.len());
        self.len + held.sum::<usize>()
    }

    fn shard(&mut self, from: ShardId) -> &mut EarlyShard {
        &mut self.shards[usize::from(from.0)]
    }

    /// Whether publishes of a shard wait.
    #[inline]
    pub fn is_waiting(&self, from: ShardId) -> bool {
        self.len > 0 && !self.shards[usize::from(from.0)].publishes.is_empty()
    }

    /// Whether the messages of a shard are held back.
    #[inline]
    pub fn holds_back(&self, from: ShardId) -> bool {
        !self.shards[usize::from(from.0)].held.is_empty()
    }

    /// Whether publishes or messages of a shard wait although no declaration is missing: they await a turn with a budget.
    pub fn awaits_turn(&self, from: ShardId) -> bool {
        self.shards[usize::from(from.0)].awaits_turn()
    }

    /// Whether messages of any shard await a turn.
    #[inline]
    pub fn any_awaits_turn(&self) -> bool {
        (self.held > 0 || self.len > 0) && self.shards.iter().any(EarlyShard::awaits_turn)
    }

    /// The publishes of a shard that no longer wait for a declaration wait for a turn.
    pub fn await_turn(&mut self, from: ShardId) {
        let shard = self.shard(from);
        shard.is_released = !shard.publishes.is_empty();
    }

    /// Whether so many more publishes of a shard may wait.
    pub fn has_capacity(&self, from: ShardId, publishes: u32) -> bool {
        self.shards[usize::from(from.0)].publishes.len() + publishes as usize <= self.publishes_max
    }

    #[cold]
    pub fn push(&mut self, from: ShardId, publish: EarlyPublish) {
        self.shard(from).publishes.push_back(publish);
        self.len += 1;
    }

    /// Takes the first publish of a shard, if none of its queues `is_to_come` any more.
    pub fn next(&mut self, from: ShardId, is_to_come: impl Fn(QueueId) -> bool) -> Option<EarlyPublish> {
        let EarlyShard { publishes, is_released, .. } = self.shard(from);
        *is_released = false;
        publishes.front().filter(|early| !early.queues.iter().any(|&id| is_to_come(id)))?;
        let early = publishes.pop_front();
        self.len -= 1;
        early
    }

    /// Holds back a batch that has arrived behind others of its shard.
    #[cold]
    pub fn hold(&mut self, from: ShardId, batch: ShardBatch) {
        self.held += 1;
        self.shard(from).held.push_back(batch);
    }

    /// Holds back the rest of a batch: this message, and those behind it. It goes before the others of its shard.
    #[cold]
    pub fn hold_rest(
        &mut self,
        from: ShardId,
        first: ShardMessage,
        rest: impl Iterator<Item = ShardMessage>,
        mut batch: ShardBatch,
    ) {
        batch.messages = std::iter::once(first).chain(rest).collect();
        self.held += 1;
        self.shard(from).held.push_front(batch);
    }

    /// Takes the next batch of a shard that was held back.
    pub fn release(&mut self, from: ShardId) -> Option<ShardBatch> {
        let batch = self.shard(from).held.pop_front();
        self.held -= usize::from(batch.is_some());
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::{EarlyPublish, EarlyPublishes};
    use crate::shard_message::{ShardBatch, ShardMessage};
    use catalog::{QueueId, ShardId};
    use queues::Content;
    use slab::{Pool, PoolOptions};

    const FROM: ShardId = ShardId(1);

    #[test]
    fn publishes_leave_in_their_order_once_their_queues_are_declared() {
        let pool = Pool::new(PoolOptions::default());
        let mut early = EarlyPublishes::new(3, 2);
        for index in [5, 4] {
            let (queues, message) = ([QueueId { index, serial: 0 }].into(), Content::EMPTY.keep(&pool));
            assert!(early.has_capacity(FROM, 1));
            early.push(FROM, EarlyPublish { message, queues, confirm: false });
        }
        assert!(early.is_waiting(FROM) && !early.has_capacity(FROM, 1));
        assert!(!early.is_waiting(ShardId(2)) && early.has_capacity(ShardId(2), 2), "each shard has its own");
        assert!(early.next(FROM, |id| id.index == 5).is_none(), "the second waits behind the first");
        assert!(early.next(FROM, |id| id.index == 4).is_some() && early.next(FROM, |id| id.index == 4).is_none());
        assert!(early.next(FROM, |_| false).is_some() && early.is_empty() && !early.is_waiting(FROM));
    }

    #[test]
    fn the_rest_of_a_batch_goes_before_later_batches() {
        let batch = |publishes: u32| {
            let mut batch = ShardBatch::default();
            (0..publishes).for_each(|_| batch.push(ShardMessage::PublishRefused));
            batch
        };
        let pool = Pool::new(PoolOptions::default());
        let mut early = EarlyPublishes::new(2, 1);
        let queues = [QueueId { index: 0, serial: 0 }].into();
        early.push(FROM, EarlyPublish { message: Content::EMPTY.keep(&pool), queues, confirm: false });
        early.hold(FROM, batch(5));
        early.hold_rest(FROM, ShardMessage::PublishRefused, [ShardMessage::PublishRefused].into_iter(), batch(0));
        assert!(early.holds_back(FROM) && early.len() == 8);
        let released = [early.release(FROM), early.release(FROM), early.release(FROM)];
        assert_eq!(released.map(|batch| batch.map(|batch| batch.messages.len())), [Some(2), Some(5), None]);
        assert!(!early.holds_back(FROM));
    }
}
