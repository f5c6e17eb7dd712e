//! Publisher confirms of this shard: which publishes wait for other shards or the store, and which confirms are due.

use crate::channel::ChannelMode;
use crate::channel_confirms::ChannelConfirms;
use crate::channels::Channels;
use crate::effects::{Confirm, ConfirmOutcome, Effects};
use crate::ids::{ChannelKey, ConnectionSlot, PublishKey};
use crate::shard_answers::{RemoteResult, ShardAnswers};
use catalog::ShardId;
use queues::StoredPosition;
use slotmap::SlotMap;
use std::collections::VecDeque;
use wire::{ChannelNumber, DeliveryTag};

slotmap::new_key_type! {
    /// A message in the store that goes on as others.
    pub struct SourceKey;
}

/// A message in the store that goes on as others: it is forgotten once they are where they go.
struct StoredSource {
    stored: StoredPosition,
    /// Answers of other shards that it waits for, and one until it is forwarded.
    answers: u32,
    /// A queue that it goes to is closed.
    is_kept: bool,
}

/// What another shard will accept or refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AwaitedAnswer {
    /// A publish of a channel.
    Publish(PublishKey),
    /// What a message in the store goes on as.
    Source(SourceKey),
}

const _: () = assert!(size_of::<AwaitedAnswer>() == size_of::<PublishKey>());

/// Confirms to send, and publishes that await an answer.
pub(crate) struct PublisherConfirms {
    /// Channels with publishes to confirm.
    due: VecDeque<ChannelKey>,
    is_unfinished: bool,
    /// Publishes that each shard has not accepted yet, in the order they were sent.
    awaiting_shards: Vec<VecDeque<AwaitedAnswer>>,
    sources: SlotMap<SourceKey, StoredSource>,
    /// Tickets that the store has not made durable yet, in their order, each with a channel of which a run of publishes waits for
    /// it first.
    awaiting_store: VecDeque<(u64, ChannelKey)>,
    /// The last ticket that anybody waits for.
    last_ticket: u64,
    /// The same when the last tick ended.
    sealed_ticket: u64,
    /// The answers to publishes of each shard.
    answers: Vec<ShardAnswers>,
}

impl PublisherConfirms {
    pub fn new(shards: u16) -> Self {
        let shards = usize::from(shards);
        PublisherConfirms {
            due: VecDeque::new(),
            is_unfinished: false,
            awaiting_shards: (0..shards).map(|_| VecDeque::new()).collect(),
            sources: SlotMap::with_key(),
            awaiting_store: VecDeque::new(),
            last_ticket: 0,
            sealed_ticket: 0,
            answers: (0..shards).map(|_| ShardAnswers::default()).collect(),
        }
    }

    /// Has the confirms of a channel sent with the next flush.
    #[inline]
    pub fn mark_due(&mut self, key: ChannelKey, confirms: &mut ChannelConfirms) {
        if !confirms.due {
            confirms.due = true;
            self.due.push_back(key);
        }
    }

    /// A publish was sent to another shard, which will accept or refuse it.
    #[inline]
    pub fn await_shard(&mut self, shard: ShardId, publish: PublishKey) {
        self.awaiting_shards[usize::from(shard.0)].push_back(AwaitedAnswer::Publish(publish));
    }

    /// A message in the store begins to be forwarded. The store keeps it until [`release_source`](Self::release_source) is called
    /// once for this, and once for each answer of another shard.
    pub fn hold_source(&mut self, stored: StoredPosition) -> SourceKey {
        self.sources.insert(StoredSource { stored, answers: 1, is_kept: false })
    }

    /// What a message in the store goes on as was sent to another shard, which will accept or refuse it.
    pub fn await_shard_for(&mut self, shard: ShardId, key: SourceKey) {
        if let Some(source) = self.sources.get_mut(key) {
            source.answers += 1;
            self.awaiting_shards[usize::from(shard.0)].push_back(AwaitedAnswer::Source(key));
        }
    }

    /// A message in the store is forwarded, or another shard has answered: after the last of these the store forgets it.
    pub fn release_source<E: Effects>(&mut self, key: SourceKey, fx: &mut E) {
        let Some(source) = self.sources.get_mut(key) else { return };
        source.answers -= 1;
        if source.answers == 0
            && let Some(StoredSource { stored: StoredPosition { uid, position }, is_kept, .. }) =
                self.sources.remove(key)
            && !is_kept
        {
            fx.forget(uid, position, 1);
        }
    }

    /// A queue that a message in the store goes to is closed: the store keeps the message, which is in its old queue again at the
    /// next start.
    pub fn keep_source(&mut self, key: SourceKey) {
        if let Some(source) = self.sources.get_mut(key) {
            source.is_kept = true;
        }
    }

    /// A publish of a channel waits for a ticket of the store, which will report it durable.
    #[inline]
    pub fn await_store<E: Effects>(
        &mut self,
        ticket: u64,
        publish: PublishKey,
        confirms: &mut ChannelConfirms,
        fx: &mut E,
    ) {
        self.await_store_run(ticket, 1, publish, confirms, fx);
    }

    /// So many publishes of a channel from this one on wait for as many tickets, which follow one another.
    #[inline]
    pub fn await_store_run<E: Effects>(
        &mut self,
        ticket: u64,
        count: u64,
        first: PublishKey,
        confirms: &mut ChannelConfirms,
        fx: &mut E,
    ) {
        let last = ticket + count.saturating_sub(1);
        if confirms.await_tickets(first.number, ticket..=last, self.sealed_ticket) {
            self.awaiting_store.push_back((ticket, first.channel));
        }
        self.note_ticket(last, fx);
    }

    /// A run of publishes of a channel is durable in part: it waits for this ticket next.
    #[cold]
    pub fn await_rest(&mut self, ticket: u64, key: ChannelKey) {
        let at = self.awaiting_store.partition_point(|&(before, _)| before <= ticket);
        self.awaiting_store.insert(at, (ticket, key));
    }

    #[inline]
    fn note_ticket<E: Effects>(&mut self, ticket: u64, fx: &mut E) {
        self.last_ticket = self.last_ticket.max(ticket);
        fx.await_durable(ticket);
    }

    /// Takes what another shard has answered: it answers in order.
    pub fn next_answered(&mut self, shard: ShardId) -> Option<AwaitedAnswer> {
        self.awaiting_shards[usize::from(shard.0)].pop_front()
    }

    /// Takes the next channel of which publishes are durable, of those that wait for tickets up to this one.
    pub fn next_durable(&mut self, ticket: u64) -> Option<ChannelKey> {
        self.awaiting_store.front().filter(|(at, _)| *at <= ticket)?;
        self.awaiting_store.pop_front().map(|(_, key)| key)
    }

    pub fn awaiting_shards_len(&self) -> usize {
        self.awaiting_shards.iter().map(VecDeque::len).sum()
    }

    /// What waits for the store: channels and runs of other shards' publishes, once for each ticket.
    pub fn awaiting_store_len(&self) -> usize {
        self.awaiting_store.len() + self.answers.iter().map(ShardAnswers::waiting_len).sum::<usize>()
    }

    /// A publish of another shard is in its queues here, or one of them refused it. Answers are in order, and an acceptance waits
    /// for the store.
    #[inline]
    pub fn answer_shard<E: Effects>(&mut self, from: ShardId, result: RemoteResult, fx: &mut E) {
        self.answers[usize::from(from.0)].push(from, result, self.sealed_ticket, fx);
        if let RemoteResult::Pending(ticket) = result {
            self.note_ticket(ticket, fx);
        }
    }

    /// The part of a commit of another shard has begun, or ended.
    pub fn set_commit_open(&mut self, from: ShardId, is_open: bool) {
        self.answers[usize::from(from.0)].is_commit_open = is_open;
    }

    /// Whether the part of a commit of another shard has begun and not ended.
    #[inline]
    pub fn is_commit_open(&self, from: ShardId) -> bool {
        self.answers[usize::from(from.0)].is_commit_open
    }

    /// The store has made everything up to this ticket durable: publishes of other shards that waited for it are answered.
    pub fn answer_durable<E: Effects>(&mut self, ticket: u64, fx: &mut E) {
        for (shard, answers) in self.answers.iter_mut().enumerate() {
            answers.on_durable(ShardId(shard as u16), ticket, fx);
        }
    }

    /// Tells the other shards how many of their publishes were accepted. A tick ends.
    pub fn flush_accepted<E: Effects>(&mut self, fx: &mut E) {
        self.sealed_ticket = self.last_ticket;
        for (shard, answers) in self.answers.iter_mut().enumerate() {
            answers.flush(ShardId(shard as u16), fx);
        }
    }

    /// Whether the last flush has left confirms to the next: there were very many refusals.
    #[inline]
    pub fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Confirms what has become safe, one `basic.ack` per channel, up to each publish that a queue refused: that one gets a
    /// `basic.nack`. So many of these at most; a channel with more goes on behind the others.
    pub fn flush<E: Effects>(&mut self, channels: &mut Channels, refusals_max: usize, fx: &mut E) {
        let mut refusals_left = refusals_max;
        self.is_unfinished = false;
        while let Some(key) = self.due.pop_front() {
            let Some(channel) = channels.get_mut(key) else { continue };
            let confirms = &mut channel.confirms;
            confirms.due = false;
            let safe = confirms.last_safe();
            if !matches!(channel.mode, ChannelMode::Confirm) || safe <= confirms.confirmed {
                continue;
            }
            let (slot, number) = (channel.slot, channel.number);
            let (mut confirmed, mut accepted) = (confirms.confirmed, 0);
            while let Some(refused) = confirms.next_refused(safe) {
                accepted += accept(slot, number, confirmed, refused - 1, fx);
                let outcome = ConfirmOutcome::Refused;
                fx.confirm(slot, number, Confirm { delivery_tag: DeliveryTag(refused), multiple: false, outcome });
                confirmed = refused;
                refusals_left -= 1;
                if refusals_left == 0 {
                    break;
                }
            }
            self.is_unfinished = refusals_left == 0;
            if self.is_unfinished {
                self.mark_due(key, confirms);
            } else {
                accepted += accept(slot, number, confirmed, safe, fx);
                confirmed = safe;
            }
            channel.confirms.confirmed = confirmed;
            channel.stats.confirm += accepted;
            channels.note_change(key);
            if self.is_unfinished {
                return;
            }
        }
    }
}

/// One confirm for all publishes behind `confirmed` up to `safe`. Returns how many these are.
fn accept<E: Effects>(slot: ConnectionSlot, channel: ChannelNumber, confirmed: u64, safe: u64, fx: &mut E) -> u64 {
    if safe > confirmed {
        let multiple = safe - confirmed > 1;
        fx.confirm(
            slot,
            channel,
            Confirm { delivery_tag: DeliveryTag(safe), multiple, outcome: ConfirmOutcome::Accepted },
        );
    }
    safe - confirmed
}

#[cfg(test)]
mod tests {
    use super::{AwaitedAnswer, PublisherConfirms};
    use crate::channels::Channels;
    use crate::ids::ConnectionSlot;
    use crate::ids::PublishKey;
    use crate::test_effects::RecordedEffects;
    use catalog::ShardId;
    use wire::ChannelNumber;

    #[test]
    fn one_confirm_covers_what_is_safe_and_refused_publishes_get_their_own() {
        let mut confirms = PublisherConfirms::new(3);
        let mut channels = Channels::new(ShardId(0));
        let mut fx = RecordedEffects::default();
        let key = channels.open(ConnectionSlot::new(8), ChannelNumber(1));
        let channel = channels.get_mut(key).expect("open");
        channel.select_confirms().expect("plain before");
        channel.confirms.published = 6;
        channel.confirms.refused.insert(3);
        channel.confirms.pending.push_back((6, 1));
        confirms.await_shard(ShardId(2), PublishKey { channel: key, number: 6 });
        confirms.mark_due(key, &mut channel.confirms);
        confirms.mark_due(key, &mut channel.confirms);
        confirms.flush(&mut channels, 10, &mut fx);
        assert_eq!(fx.take(), "8: ack 2+ | 8: nack 3 | 8: ack 5+");
        assert!(confirms.next_answered(ShardId(1)).is_none());
        let Some(AwaitedAnswer::Publish(publish)) = confirms.next_answered(ShardId(2)) else {
            panic!("it waits for that shard")
        };
        let channel = channels.get_mut(key).expect("open");
        channel.confirms.on_answer(publish.number);
        confirms.mark_due(key, &mut channel.confirms);
        confirms.flush(&mut channels, 10, &mut fx);
        assert_eq!((fx.take().as_str(), confirms.awaiting_shards_len()), ("8: ack 6", 0));
    }

    #[test]
    fn very_many_refusals_are_told_with_several_flushes() {
        let (mut confirms, mut channels) = (PublisherConfirms::new(1), Channels::new(ShardId(0)));
        let mut fx = RecordedEffects::default();
        let key = channels.open(ConnectionSlot::new(8), ChannelNumber(1));
        let channel = channels.get_mut(key).expect("open");
        channel.select_confirms().expect("plain before");
        channel.confirms.published = 7;
        channel.confirms.refused.extend([2, 3, 5, 6]);
        confirms.mark_due(key, &mut channel.confirms);
        let sent = ["8: ack 1 | 8: nack 2 | 8: nack 3", "8: ack 4 | 8: nack 5 | 8: nack 6", "8: ack 7"];
        for (at, expected) in sent.into_iter().enumerate() {
            confirms.flush(&mut channels, 2, &mut fx);
            assert_eq!((fx.take().as_str(), confirms.is_unfinished()), (expected, at < 2));
        }
        let channel = channels.get_mut(key).expect("open");
        assert_eq!((channel.confirms.confirmed, channel.stats.confirm), (7, 3));
        confirms.flush(&mut channels, 2, &mut fx);
        assert_eq!((fx.take().as_str(), confirms.is_unfinished()), ("", false));
    }

    #[test]
    fn channels_whose_publishes_are_durable_are_told_in_the_order_of_tickets() {
        let mut confirms = PublisherConfirms::new(2);
        let mut channels = Channels::new(ShardId(0));
        let mut fx = RecordedEffects::default();
        let [first, second] = [1, 2].map(|number| channels.open(ConnectionSlot::new(8), ChannelNumber(number)));
        let mut publish = |channel, number, ticket, confirms: &mut PublisherConfirms, fx: &mut RecordedEffects| {
            let of_channel = &mut channels.get_mut(channel).expect("open").confirms;
            of_channel.published = number;
            confirms.await_store(ticket, PublishKey { channel, number }, of_channel, fx);
        };
        for (channel, number, ticket) in [(first, 1, 10), (second, 1, 20), (first, 2, 25)] {
            publish(channel, number, ticket, &mut confirms, &mut fx);
        }
        assert_eq!(fx.take(), "await 10 | await 20 | await 25");
        assert_eq!((confirms.next_durable(9), confirms.next_durable(10)), (None, Some(first)));
        assert_eq!((confirms.next_durable(10), confirms.awaiting_store_len()), (None, 1));
        confirms.await_rest(11, first);
        assert_eq!([(); 3].map(|()| confirms.next_durable(25)), [Some(first), Some(second), None]);
        confirms.flush_accepted(&mut fx);
        publish(first, 3, 26, &mut confirms, &mut fx);
        assert_eq!(confirms.next_durable(26), Some(first), "another tick, another run");
    }
}
