//! Purges under way: messages that are dropped in turns, and requesters who wait until the store is done with them.

use crate::effects::{AppendResult, Effects};
use crate::purged_messages::PurgedMessages;
use crate::queues::QueueTable;
use crate::shard_message::{QueueResponse, Requester};
use crate::work_budget::WorkBudget;
use catalog::QueueId;
use std::collections::{BTreeMap, VecDeque};

/// A purge that is not over.
pub(crate) struct PendingPurge {
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

    /// The response, where nothing of the purge has to be durable: it need not wait until the messages are dropped.
    fn respond_early(&mut self) -> Option<QueueResponse> {
        let requester = self.requester.take_if(|_| !self.purged.may_be_stored());
        requester.map(|_| purged(self.messages))
    }
}

fn purged(messages: u32) -> QueueResponse {
    QueueResponse::Counts { messages, consumers: 0 }
}

struct WaitingPurge {
    ticket: u64,
    requester: Requester,
    messages: u32,
}

/// The purges of a shard.
#[derive(Default)]
pub(crate) struct Purges {
    /// Those that have messages left to drop, by queue, in their order: a later one has found fewer messages, or none, and they
    /// are gone only when those of the earlier ones are.
    under_way: BTreeMap<QueueId, VecDeque<PendingPurge>>,
    /// Requesters whose purges the store has not made durable, in the order of their tickets: one for each connection at most.
    waiting: VecDeque<WaitingPurge>,
}

impl Purges {
    /// Begins a purge, and drops its messages as far as the budget of the turn allows. Returns its response, and whether this
    /// queue's purges are to be run in other turns from now on.
    pub fn begin<E: Effects>(
        &mut self,
        queue: QueueId,
        mut purge: PendingPurge,
        queues: &mut QueueTable,
        work: &mut WorkBudget,
        fx: &mut E,
    ) -> (QueueResponse, bool) {
        let early = purge.respond_early();
        // One that has its response waits for nobody: its requester may send any number of them.
        let is_behind = early.is_none() && self.under_way.contains_key(&queue);
        if !is_behind && purge.purged.drop_some(queues.features_mut(queue), work, fx) {
            let finished = self.finish(purge, fx).map(|(_, response)| response);
            return (early.or(finished).unwrap_or(QueueResponse::Deferred), false);
        }
        let purges = self.under_way.entry(queue).or_default();
        let is_first = purges.is_empty();
        purges.push_back(purge);
        (early.unwrap_or(QueueResponse::Deferred), is_first)
    }

    /// Goes on with the first purge of a queue. Returns a response that may be sent, and whether anything is left.
    pub fn run<E: Effects>(
        &mut self,
        queue: QueueId,
        queues: &mut QueueTable,
        work: &mut WorkBudget,
        fx: &mut E,
    ) -> (Option<(Requester, QueueResponse)>, bool) {
        let Some(purges) = self.under_way.get_mut(&queue) else { return (None, false) };
        if purges.front_mut().is_some_and(|first| !first.purged.drop_some(queues.features_mut(queue), work, fx)) {
            return (None, true);
        }
        let finished = purges.pop_front();
        let is_unfinished = !purges.is_empty();
        if !is_unfinished {
            self.under_way.remove(&queue);
        }
        (finished.and_then(|purge| self.finish(purge, fx)), is_unfinished)
    }

    /// All messages of a purge are dropped. Returns the response, unless it was sent or has to wait for the store: also where
    /// there was nothing to drop, since what another purge or an acknowledgement has taken before may not be durable.
    fn finish<E: Effects>(&mut self, purge: PendingPurge, fx: &mut E) -> Option<(Requester, QueueResponse)> {
        let PendingPurge { messages, requester, .. } = purge;
        // That of a queue that is not stored has its response.
        let requester = requester?;
        match fx.settled() {
            AppendResult::Durable => Some((requester, purged(messages))),
            AppendResult::Pending(ticket) => {
                fx.await_durable(ticket);
                self.waiting.push_back(WaitingPurge { ticket, requester, messages });
                None
            }
        }
    }

    /// Takes the next response that may be sent once everything up to this ticket is durable.
    pub fn next_durable(&mut self, ticket: u64) -> Option<(Requester, QueueResponse)> {
        let waiting = self.waiting.pop_front_if(|waiting| waiting.ticket <= ticket)?;
        Some((waiting.requester, purged(waiting.messages)))
    }

    /// How many are not over.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.under_way.values().map(VecDeque::len).sum::<usize>()
    }
}
