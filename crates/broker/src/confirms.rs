//! Publisher confirms of this shard: which publishes wait for other shards or the store, and which confirms are due.

use crate::channel::ChannelMode;
use crate::channel_confirms::ChannelConfirms;
use crate::channels::Channels;
use crate::effects::{Confirm, ConfirmOutcome, Effects};
use crate::ids::{ChannelKey, ConnectionSlot, PublishKey};
use crate::shard_message::ShardMessage;
use catalog::ShardId;
use std::collections::VecDeque;
use wire::{ChannelNumber, DeliveryTag};

/// Confirms to send, and publishes that await an answer.
pub(crate) struct PublisherConfirms {
    /// Channels with publishes to confirm.
    due: Vec<ChannelKey>,
    /// Publishes that each shard has not accepted yet, in the order they were sent.
    awaiting_shards: Vec<VecDeque<PublishKey>>,
    /// Publishes that the store has not made durable yet, with their tickets.
    awaiting_store: VecDeque<(u64, PublishKey)>,
    /// Publishes accepted from each shard since it was told.
    accepted: Vec<u32>,
}

impl PublisherConfirms {
    pub fn new(shards: u16) -> Self {
        let shards = usize::from(shards);
        PublisherConfirms {
            due: Vec::new(),
            awaiting_shards: (0..shards).map(|_| VecDeque::new()).collect(),
            awaiting_store: VecDeque::new(),
            accepted: vec![0; shards],
        }
    }

    /// Has the confirms of a channel sent with the next flush.
    #[inline]
    pub fn mark_due(&mut self, key: ChannelKey, confirms: &mut ChannelConfirms) {
        if !confirms.due {
            confirms.due = true;
            self.due.push(key);
        }
    }

    /// A publish was sent to another shard, which will accept or refuse it.
    #[inline]
    pub fn await_shard(&mut self, shard: ShardId, publish: PublishKey) {
        self.awaiting_shards[usize::from(shard.0)].push_back(publish);
    }

    /// A publish was appended to the store, which will report its ticket durable.
    #[inline]
    pub fn await_store(&mut self, ticket: u64, publish: PublishKey) {
        self.awaiting_store.push_back((ticket, publish));
    }

    /// Takes the publish that another shard has answered: it answers in order.
    pub fn next_answered(&mut self, shard: ShardId) -> Option<PublishKey> {
        self.awaiting_shards[usize::from(shard.0)].pop_front()
    }

    /// Takes the next publish that is durable, of those up to a ticket.
    pub fn next_durable(&mut self, ticket: u64) -> Option<PublishKey> {
        self.awaiting_store.front().filter(|(at, _)| *at <= ticket)?;
        self.awaiting_store.pop_front().map(|(_, publish)| publish)
    }

    pub fn awaiting_shards_len(&self) -> usize {
        self.awaiting_shards.iter().map(VecDeque::len).sum()
    }

    pub fn awaiting_store_len(&self) -> usize {
        self.awaiting_store.len()
    }

    /// A publish of another shard is in its queues here, or one of them refused it. Answers are in order.
    pub fn answer_shard<E: Effects>(&mut self, from: ShardId, accepted: bool, fx: &mut E) {
        let count = &mut self.accepted[usize::from(from.0)];
        if accepted {
            *count += 1;
            return;
        }
        let publishes = std::mem::take(count);
        let batch = fx.batch(from);
        if publishes > 0 {
            batch.push(ShardMessage::PublishesAccepted { publishes });
        }
        batch.push(ShardMessage::PublishRefused);
    }

    /// Tells the other shards how many of their publishes were accepted.
    pub fn flush_accepted<E: Effects>(&mut self, fx: &mut E) {
        for shard in 0..self.accepted.len() {
            let publishes = std::mem::take(&mut self.accepted[shard]);
            if publishes > 0 {
                fx.batch(ShardId(shard as u16)).push(ShardMessage::PublishesAccepted { publishes });
            }
        }
    }

    /// Confirms what has become safe, one `basic.ack` per channel, up to each publish that a queue refused: that one gets a
    /// `basic.nack`.
    pub fn flush<E: Effects>(&mut self, channels: &mut Channels, fx: &mut E) {
        while let Some(key) = self.due.pop() {
            let Some(channel) = channels.get_mut(key) else { continue };
            let confirms = &mut channel.confirms;
            confirms.due = false;
            let safe = confirms.last_safe();
            if !matches!(channel.mode, ChannelMode::Confirm) || safe <= confirms.confirmed {
                continue;
            }
            let (slot, number) = (channel.slot, channel.number);
            let mut confirmed = confirms.confirmed;
            confirms.confirmed = safe;
            while let Some(refused) = confirms.next_refused(safe) {
                accept(slot, number, confirmed, refused - 1, fx);
                let outcome = ConfirmOutcome::Refused;
                fx.confirm(slot, number, Confirm { delivery_tag: DeliveryTag(refused), multiple: false, outcome });
                confirmed = refused;
            }
            accept(slot, number, confirmed, safe, fx);
        }
    }
}

/// One confirm for all publishes behind `confirmed` up to `safe`.
fn accept<E: Effects>(slot: ConnectionSlot, channel: ChannelNumber, confirmed: u64, safe: u64, fx: &mut E) {
    if safe > confirmed {
        let multiple = safe - confirmed > 1;
        fx.confirm(
            slot,
            channel,
            Confirm { delivery_tag: DeliveryTag(safe), multiple, outcome: ConfirmOutcome::Accepted },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::PublisherConfirms;
    use crate::channels::Channels;
    use crate::effects::Effects;
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
        confirms.flush(&mut channels, &mut fx);
        assert_eq!(fx.take(), "8: ack 2+ | 8: nack 3 | 8: ack 5+");
        assert!(confirms.next_answered(ShardId(1)).is_none());
        let publish = confirms.next_answered(ShardId(2)).expect("it waits for that shard");
        let channel = channels.get_mut(key).expect("open");
        channel.confirms.on_answer(publish.number);
        confirms.mark_due(key, &mut channel.confirms);
        confirms.flush(&mut channels, &mut fx);
        assert_eq!((fx.take().as_str(), confirms.awaiting_shards_len()), ("8: ack 6", 0));
    }

    #[test]
    fn the_store_reports_tickets_in_order_and_shards_hear_of_refusals_in_order() {
        let mut confirms = PublisherConfirms::new(2);
        let mut fx = RecordedEffects::default();
        let publish = |number| PublishKey { channel: Default::default(), number };
        confirms.await_store(10, publish(1));
        confirms.await_store(20, publish(2));
        assert_eq!((confirms.next_durable(9), confirms.next_durable(10)), (None, Some(publish(1))));
        assert_eq!((confirms.next_durable(10), confirms.awaiting_store_len()), (None, 1));
        for accepted in [true, true, false, true] {
            confirms.answer_shard(ShardId(1), accepted, &mut fx);
        }
        confirms.flush_accepted(&mut fx);
        let sent: Vec<String> = fx.batch(ShardId(1)).messages.iter().map(|message| format!("{message:?}")).collect();
        let expect = ["PublishesAccepted { publishes: 2 }", "PublishRefused", "PublishesAccepted { publishes: 1 }"];
        assert_eq!(sent, expect);
    }
}
