//! Purges under way: messages that are dropped in turns, and requesters who wait until the store is done with them.

use crate::ids::Requester;
use crate::message_storage::{AppendResult, MessageStorage};
use crate::purged_messages::PurgedMessages;
use crate::queues::QueueTable;
use crate::work_budget::WorkBudget;
use catalog::QueueId;
use std::collections::{BTreeMap, VecDeque};

/// A purge that is not over.
pub struct PendingPurge {
    purged: PurgedMessages,
    /// How many messages there were.
    messages: u32,
    /// Who awaits a response, unless it was sent.
    requester: Option<Requester>,
}

impl PendingPurge {
    pub fn new(purged: PurgedMessages, messages: u32, requester: Requester) -> Self {
        PendingPurge { purged, messages, requester: Some(requester) }
    }

    /// The number of messages, where nothing of the purge has to be durable: its requester need not wait until they are dropped.
    fn respond_early(&mut self) -> Option<u32> {
        let requester = self.requester.take_if(|_| !self.purged.may_be_stored());
        requester.map(|_| self.messages)
    }
}

struct WaitingPurge {
    ticket: u64,
    requester: Requester,
    messages: u32,
}

/// The purges of a shard.
#[derive(Default)]
pub struct Purges {
    /// Those that have messages left to drop, by queue, in their order: a later one has found fewer messages, or none, and they
    /// are gone only when those of the earlier ones are.
    under_way: BTreeMap<QueueId, VecDeque<PendingPurge>>,
    /// Requesters whose purges the store has not made durable, in the order of their tickets: one for each connection at most.
    waiting: VecDeque<WaitingPurge>,
}

impl Purges {
    /// Begins a purge, and drops its messages as far as the budget of the turn allows. Returns the number of messages, unless its
    /// requester has to wait, and whether this queue's purges are to be run in other turns from now on.
    pub fn begin<S: MessageStorage>(
        &mut self,
        queue: QueueId,
        mut purge: PendingPurge,
        queues: &mut QueueTable,
        work: &mut WorkBudget,
        storage: &mut S,
    ) -> (Option<u32>, bool) {
        let early = purge.respond_early();
        // One that has its response waits for nobody: its requester may send any number of them.
        let is_behind = early.is_none() && self.under_way.contains_key(&queue);
        if !is_behind && purge.purged.drop_some(queues.features_mut(queue), work, storage) {
            let finished = self.finish(purge, storage).map(|(_, messages)| messages);
            return (early.or(finished), false);
        }
        let purges = self.under_way.entry(queue).or_default();
        let is_first = purges.is_empty();
        purges.push_back(purge);
        (early, is_first)
    }

    /// Goes on with the first purge of a queue. Returns who may be told now how many messages there were, and whether anything is
    /// left.
    pub fn run<S: MessageStorage>(
        &mut self,
        queue: QueueId,
        queues: &mut QueueTable,
        work: &mut WorkBudget,
        storage: &mut S,
    ) -> (Option<(Requester, u32)>, bool) {
        let Some(purges) = self.under_way.get_mut(&queue) else { return (None, false) };
        if purges.front_mut().is_some_and(|first| !first.purged.drop_some(queues.features_mut(queue), work, storage)) {
            return (None, true);
        }
        let finished = purges.pop_front();
        let is_unfinished = !purges.is_empty();
        if !is_unfinished {
            self.under_way.remove(&queue);
        }
        (finished.and_then(|purge| self.finish(purge, storage)), is_unfinished)
    }

    /// All messages of a purge are dropped. Returns who is told so, unless it was told before or has to wait for the store: also
    /// where there was nothing to drop, since what another purge or an acknowledgement has taken before may not be durable.
    fn finish<S: MessageStorage>(&mut self, purge: PendingPurge, storage: &mut S) -> Option<(Requester, u32)> {
        let PendingPurge { messages, requester, .. } = purge;
        // That of a queue that is not stored has its response.
        let requester = requester?;
        match storage.settled() {
            AppendResult::Durable => Some((requester, messages)),
            AppendResult::Pending(ticket) => {
                storage.await_durable(ticket);
                self.waiting.push_back(WaitingPurge { ticket, requester, messages });
                None
            }
        }
    }

    /// Takes the next requester that may be told once everything up to this ticket is durable, with its number of messages.
    pub fn next_durable(&mut self, ticket: u64) -> Option<(Requester, u32)> {
        let waiting = self.waiting.pop_front_if(|waiting| waiting.ticket <= ticket)?;
        Some((waiting.requester, waiting.messages))
    }

    /// How many are not over.
    pub fn count(&self) -> usize {
        self.waiting.len() + self.under_way.values().map(VecDeque::len).sum::<usize>()
    }
}
