//! Which federated queues want messages of their upstreams.
//!
//! Owns:   the queues of all shards that do. The home of a queue tells the others when that changes.

use crate::effects::Effects;
use crate::ids::ShardIdentity;
use crate::shard_message::ShardMessage;
use catalog::QueueId;
use std::collections::BTreeSet;

/// The queues that want messages, here and on other shards.
pub(crate) struct QueueDemand {
    identity: ShardIdentity,
    wanting: BTreeSet<QueueId>,
    /// Those of them whose declarations have not arrived here yet: links are told when they have.
    undeclared: BTreeSet<QueueId>,
    /// Those for which that has changed since links were told.
    changed: Vec<QueueId>,
}

impl QueueDemand {
    pub fn new(identity: ShardIdentity) -> Self {
        QueueDemand { identity, wanting: BTreeSet::new(), undeclared: BTreeSet::new(), changed: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.wanting.len()
    }

    pub fn contains(&self, queue: QueueId) -> bool {
        self.wanting.contains(&queue)
    }

    #[inline]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The queues that want messages now and did not, or the other way round, or had changed their mind meanwhile.
    pub fn take_changed(&mut self) -> Vec<QueueId> {
        std::mem::take(&mut self.changed)
    }

    /// A queue wants messages, or does not any more.
    pub fn note(&mut self, queue: QueueId, is_wanting: bool) {
        let is_change = match is_wanting {
            true => self.wanting.insert(queue),
            false => self.wanting.remove(&queue),
        };
        if is_change {
            self.changed.push(queue);
        }
    }

    /// [`note`](Self::note) of a queue of another shard whose declaration is still under way here.
    pub fn note_early(&mut self, queue: QueueId, is_wanting: bool) {
        match is_wanting {
            true => _ = self.wanting.insert(queue) && self.undeclared.insert(queue),
            false => _ = self.wanting.remove(&queue) && self.undeclared.remove(&queue),
        }
    }

    /// A queue was declared.
    pub fn on_declared(&mut self, queue: QueueId) {
        if self.undeclared.remove(&queue) {
            self.changed.push(queue);
        }
    }

    /// [`note`](Self::note) of a queue of this shard, of which the others are told.
    pub fn tell<E: Effects>(&mut self, queue: QueueId, is_wanting: bool, fx: &mut E) {
        self.note(queue, is_wanting);
        for shard in self.identity.others() {
            fx.batch(shard).push(ShardMessage::QueueDemand { queue, is_wanting });
        }
    }
}
