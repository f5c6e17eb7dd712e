//! Purges under way: messages that are dropped in turns, and requesters who wait until the store is done with them.

use crate::effects::{AppendResult, Effects};
use crate::purged_messages::PurgedMessages;
use crate::shard_message::{QueueResponse, Requester};
use crate::work_budget::WorkBudget;
use std::collections::VecDeque;

/// A purge that is not over.
pub(crate) struct PendingPurge {
    purged: PurgedMessages,
    /// How many messages there were.
    messages: u32,
    /// Who awaits a response, unless it was sent.
    requester: Option<Requester>,
}

/// Where a purge is.
pub(crate) enum PurgeStep {
    /// Messages are left to drop.
    Unfinished(PendingPurge),
    /// All are dropped: this is the response, if it was not sent.
    Finished(Option<(Requester, QueueResponse)>),
}

impl PendingPurge {
    pub fn new(purged: PurgedMessages, messages: u32, requester: Requester) -> Self {
        PendingPurge { purged, messages, requester: Some(requester) }
    }

    /// The response, where nothing of the purge has to be durable: it need not wait until the messages are dropped.
    pub fn respond_early(&mut self) -> Option<QueueResponse> {
        let requester = self.requester.take_if(|_| !self.purged.may_be_stored());
        requester.map(|_| purged(self.messages))
    }

    /// Drops messages as far as the budget of the turn allows.
    pub fn run<E: Effects>(mut self, work: &mut WorkBudget, waiting: &mut WaitingPurges, fx: &mut E) -> PurgeStep {
        if !self.purged.drop_some(work, fx) {
            return PurgeStep::Unfinished(self);
        }
        let Some(requester) = self.requester else { return PurgeStep::Finished(None) };
        let settled = if self.purged.has_forgotten() { fx.settled() } else { AppendResult::Durable };
        match settled {
            AppendResult::Durable => PurgeStep::Finished(Some((requester, purged(self.messages)))),
            AppendResult::Pending(ticket) => {
                fx.await_durable(ticket);
                waiting.0.push_back(WaitingPurge { ticket, requester, messages: self.messages });
                PurgeStep::Finished(None)
            }
        }
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

/// Requesters whose purges the store has not made durable, in the order of their tickets: one for each connection at most.
#[derive(Default)]
pub(crate) struct WaitingPurges(VecDeque<WaitingPurge>);

impl WaitingPurges {
    /// Takes the next response that may be sent once everything up to this ticket is durable.
    pub fn next_durable(&mut self, ticket: u64) -> Option<(Requester, QueueResponse)> {
        let waiting = self.0.pop_front_if(|waiting| waiting.ticket <= ticket)?;
        Some((waiting.requester, purged(waiting.messages)))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}
