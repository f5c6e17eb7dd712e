//! What links ask: which federated queues want messages of their upstreams.

use super::Broker;
use catalog::QueueId;

impl Broker {
    /// Whether queues, on whatever shard, have begun to want messages of their upstreams, or have ceased to, since
    /// [`Broker::take_demand_changes`]. Whoever has links asks with each turn.
    #[inline]
    pub fn has_demand_change(&self) -> bool {
        self.data.dispatcher.demand.has_changed()
    }

    /// These queues. Some of them may be as they were.
    pub fn take_demand_changes(&mut self) -> Vec<QueueId> {
        self.data.dispatcher.demand.take_changed()
    }

    /// Whether a federated queue has consumers who would take more, and nothing for them.
    pub fn wants_messages(&self, queue: QueueId) -> bool {
        self.data.dispatcher.demand.contains(queue)
    }
}
