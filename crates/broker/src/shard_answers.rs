//! Answers to the publishes of one other shard, in their order: those that wait for the store, and how many may be told.

use crate::effects::Effects;
use crate::shard_message::ShardMessage;
use catalog::ShardId;
use std::collections::VecDeque;

/// What became of a publish of another shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoteResult {
    /// Its queues have it, and it need not be durable, or is.
    Accepted,
    /// Its queues have it, and it is durable with this ticket.
    Pending(u64),
    /// A queue had no capacity.
    Refused,
    /// A queue is closed.
    Closed,
}

impl RemoteResult {
    /// What the other shard is told, if it is a refusal.
    fn refusal(self) -> Option<ShardMessage> {
        match self {
            RemoteResult::Accepted | RemoteResult::Pending(_) => None,
            RemoteResult::Refused => Some(ShardMessage::PublishRefused),
            RemoteResult::Closed => Some(ShardMessage::PublishKept),
        }
    }
}

/// Answers that follow one another and wait for the tickets of one tick.
struct WaitingAnswers {
    /// The last of them.
    ticket: u64,
    /// Publishes that are accepted then.
    accepted: u32,
    /// The refusal of one that follows them.
    then: Option<ShardMessage>,
}

/// The answers to one shard.
#[derive(Default)]
pub struct ShardAnswers {
    /// Publishes accepted since the shard was told.
    accepted: u32,
    /// The answers behind those.
    waiting: VecDeque<WaitingAnswers>,
    /// A part of a commit of that shard has begun, and its end has not come.
    pub is_commit_open: bool,
}

impl ShardAnswers {
    /// The next answer. Those that wait for tickets behind `sealed` are one run.
    #[inline]
    pub fn push<E: Effects>(&mut self, from: ShardId, result: RemoteResult, sealed: u64, fx: &mut E) {
        match (result, result.refusal()) {
            (RemoteResult::Accepted, _) if self.waiting.is_empty() => self.accepted += 1,
            (_, Some(refusal)) if self.waiting.is_empty() => self.refuse(from, refusal, fx),
            (result, refusal) => self.push_waiting(result, refusal, sealed),
        }
    }

    /// An answer that waits for the store, or follows one that does.
    fn push_waiting(&mut self, result: RemoteResult, then: Option<ShardMessage>, sealed: u64) {
        let last = self.waiting.back_mut();
        let before = last.as_ref().map_or(0, |run| run.ticket);
        let ticket = if let RemoteResult::Pending(ticket) = result { ticket.max(before) } else { before };
        let accepted = u32::from(then.is_none());
        match last {
            Some(run) if (before == ticket || before > sealed) && run.then.is_none() => {
                run.ticket = ticket;
                run.accepted += accepted;
                run.then = then;
            }
            _ => self.waiting.push_back(WaitingAnswers { ticket, accepted, then }),
        }
    }

    /// The store has made everything up to this ticket durable.
    pub fn on_durable<E: Effects>(&mut self, from: ShardId, ticket: u64, fx: &mut E) {
        while let Some(run) = self.waiting.pop_front_if(|run| run.ticket <= ticket) {
            self.accepted += run.accepted;
            if let Some(refusal) = run.then {
                self.refuse(from, refusal, fx);
            }
        }
    }

    fn refuse<E: Effects>(&mut self, from: ShardId, refusal: ShardMessage, fx: &mut E) {
        self.flush(from, fx);
        fx.batch(from).push(refusal);
    }

    /// Tells the shard how many of its publishes were accepted.
    #[inline]
    pub fn flush<E: Effects>(&mut self, from: ShardId, fx: &mut E) {
        let publishes = std::mem::take(&mut self.accepted);
        if publishes > 0 {
            fx.batch(from).push(ShardMessage::PublishesAccepted { publishes });
        }
    }

    pub fn waiting_len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::RemoteResult::{Accepted, Pending, Refused};
    use super::ShardAnswers;
    use crate::effects::Effects;
    use crate::test_effects::RecordedEffects;
    use catalog::ShardId;

    const SHARD: ShardId = ShardId(1);

    fn sent(fx: &mut RecordedEffects) -> Vec<String> {
        fx.batch(SHARD).messages.drain(..).map(|message| format!("{message:?}")).collect()
    }

    #[test]
    fn a_shard_is_told_of_refusals_in_their_order() {
        let (mut answers, mut fx) = (ShardAnswers::default(), RecordedEffects::default());
        for result in [Accepted, Accepted, Refused, Accepted] {
            answers.push(SHARD, result, 0, &mut fx);
        }
        answers.flush(SHARD, &mut fx);
        let expect = ["PublishesAccepted { publishes: 2 }", "PublishRefused", "PublishesAccepted { publishes: 1 }"];
        assert_eq!(sent(&mut fx), expect);
    }

    #[test]
    fn answers_wait_for_the_store_in_their_order_and_in_runs() {
        let (mut answers, mut fx) = (ShardAnswers::default(), RecordedEffects::default());
        for result in [Accepted, Pending(6), Pending(7), Accepted, Refused, Pending(7)] {
            answers.push(SHARD, result, 5, &mut fx);
        }
        for result in [Pending(8), Pending(9), Refused, Accepted] {
            answers.push(SHARD, result, 7, &mut fx);
        }
        assert_eq!(answers.waiting_len(), 4, "the second tick is another run, and what follows a refusal");
        answers.on_durable(SHARD, 6, &mut fx);
        answers.flush(SHARD, &mut fx);
        assert_eq!(sent(&mut fx), ["PublishesAccepted { publishes: 1 }"]);
        answers.on_durable(SHARD, 8, &mut fx);
        answers.flush(SHARD, &mut fx);
        let expect = ["PublishesAccepted { publishes: 3 }", "PublishRefused", "PublishesAccepted { publishes: 1 }"];
        assert_eq!(sent(&mut fx), expect);
        answers.on_durable(SHARD, 9, &mut fx);
        answers.flush(SHARD, &mut fx);
        let expect = ["PublishesAccepted { publishes: 2 }", "PublishRefused", "PublishesAccepted { publishes: 1 }"];
        assert_eq!((sent(&mut fx), answers.waiting_len()), (expect.map(String::from).to_vec(), 0));
    }
}
