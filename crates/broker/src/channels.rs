//! The channels of this shard and their consumers: who accepts a delivery, and what was delivered and not settled.

use crate::channel::{Channel, not_open};
use crate::consumer::{Consumer, ParkedDelivery, window_of};
use crate::direct_reply::ReplyAddress;
use crate::effects::{Delivery, Effects};
use crate::ids::{ChannelKey, ConnectionSlot, ConsumerKey, QueuePosition};
use crate::ledger::UnsettledDelivery;
use crate::message::Content;
use crate::payload::Payload;
use crate::shard_message::ShardMessage;
use catalog::{Refusal, ShardId};
use slotmap::SlotMap;
use wire::{ChannelNumber, ReplyCode};

/// The channels of this shard and their consumers.
pub(crate) struct Channels {
    shard: ShardId,
    table: SlotMap<ChannelKey, Channel>,
    consumers: SlotMap<ConsumerKey, Consumer>,
    /// Consumers that owe credit to queues of other shards.
    credits_due: Vec<ConsumerKey>,
    /// How many consumers of each connection are idle.
    idle_by_connection: Vec<u32>,
    /// Deliveries that wait for settlement, on all channels.
    unsettled: usize,
    /// Messages delivered or sent to consumers since the start.
    pub delivered: u64,
}

impl Channels {
    pub fn new(shard: ShardId) -> Self {
        Channels {
            shard,
            table: SlotMap::with_key(),
            consumers: SlotMap::with_key(),
            credits_due: Vec::new(),
            idle_by_connection: Vec::new(),
            unsettled: 0,
            delivered: 0,
        }
    }

    pub fn open(&mut self, slot: ConnectionSlot, number: ChannelNumber) -> ChannelKey {
        self.table.insert(Channel::new(slot, number))
    }

    /// Removes a channel, whose consumers are gone.
    pub fn remove(&mut self, key: ChannelKey) {
        self.table.remove(key);
    }

    #[inline]
    pub fn get(&self, key: ChannelKey) -> Option<&Channel> {
        self.table.get(key)
    }

    #[inline]
    pub fn get_mut(&mut self, key: ChannelKey) -> Option<&mut Channel> {
        self.table.get_mut(key)
    }

    /// The channel of a command.
    #[inline]
    pub fn open_channel(&mut self, key: ChannelKey) -> Result<&mut Channel, Refusal> {
        self.table.get_mut(key).ok_or_else(not_open)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.table.values_mut()
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    #[inline]
    pub fn consumer(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.consumers.get(key)
    }

    /// Every consumer of this shard's connections.
    pub fn consumer_keys(&self) -> impl Iterator<Item = ConsumerKey> {
        self.consumers.keys()
    }

    pub fn consumers_len(&self) -> usize {
        self.consumers.len()
    }

    /// Deliveries that wait for settlement, on all channels.
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    pub fn consumer_by_tag(&self, key: ChannelKey, tag: &[u8]) -> Option<ConsumerKey> {
        let consumers = &self.table.get(key)?.consumers;
        let has_tag = |consumer: &ConsumerKey| self.consumers.get(*consumer).is_some_and(|found| *found.tag == *tag);
        consumers.iter().copied().find(has_tag)
    }

    pub fn check_tag_is_new(&self, key: ChannelKey, tag: &[u8]) -> Result<(), Refusal> {
        let channel = self.table.get(key).ok_or_else(not_open)?;
        let replies = channel.reply_consumer.as_ref().is_some_and(|consumer| *consumer.tag == *tag);
        if replies || self.consumer_by_tag(key, tag).is_some() {
            let text = format!("NOT_ALLOWED - attempt to reuse consumer tag '{}'", String::from_utf8_lossy(tag));
            return Err(Refusal::connection(ReplyCode::NotAllowed, text));
        }
        Ok(())
    }

    pub fn add_consumer(&mut self, consumer: Consumer) -> ConsumerKey {
        let channel = consumer.channel;
        let key = self.consumers.insert(consumer);
        if let Some(channel) = self.table.get_mut(channel) {
            channel.consumers.push(key);
        }
        key
    }

    /// Removes a consumer that its queue no longer serves: its parked deliveries return to the queue.
    pub fn remove_consumer<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        self.set_idle(key, false);
        let Some(consumer) = self.consumers.remove(key) else { return };
        for parked in consumer.parked {
            fx.batch(consumer.home).push(ShardMessage::Returned {
                queue: consumer.queue,
                position: parked.position,
                message: parked.message,
                redelivered: parked.redelivered,
                was_delivered: false,
                ack_required: !consumer.no_ack,
            });
        }
        if let Some(channel) = self.table.get_mut(consumer.channel) {
            channel.consumers.retain(|&other| other != key);
        }
    }

    /// Whether a consumer accepts one more delivery.
    #[inline]
    pub fn accepts<E: Effects>(&self, key: ConsumerKey, fx: &E) -> bool {
        let Some(consumer) = self.consumers.get(key) else { return false };
        let Some(channel) = self.table.get(consumer.channel) else { return false };
        consumer.has_credit() && channel.allows(consumer.no_ack) && fx.has_capacity(consumer.slot)
    }

    /// Whether a consumer would accept more if only its connection did.
    pub fn waits_for_output<E: Effects>(&self, key: ConsumerKey, fx: &E) -> bool {
        let consumer = self.consumers.get(key);
        let channel = consumer.and_then(|consumer| self.table.get(consumer.channel));
        consumer.zip(channel).is_some_and(|(consumer, channel)| {
            consumer.has_credit() && channel.allows(consumer.no_ack) && !fx.has_capacity(consumer.slot)
        })
    }

    /// Notes whether a consumer has left the rotation of its queue until it is woken.
    pub fn set_idle(&mut self, key: ConsumerKey, idle: bool) {
        let Some(consumer) = self.consumers.get_mut(key) else { return };
        if consumer.idle == idle {
            return;
        }
        consumer.idle = idle;
        let change = |count: &mut u32| if idle { *count += 1 } else { *count -= 1 };
        if let Some(channel) = self.table.get_mut(consumer.channel) {
            change(&mut channel.idle_consumers);
        }
        let index = consumer.slot.index();
        if self.idle_by_connection.len() <= index {
            self.idle_by_connection.resize(index + 1, 0);
        }
        change(&mut self.idle_by_connection[index]);
    }

    /// Whether any consumer of a connection is idle.
    #[inline]
    pub fn has_idle_consumers(&self, slot: ConnectionSlot) -> bool {
        self.idle_by_connection.get(slot.index()).is_some_and(|&idle| idle > 0)
    }

    /// Delivers a message to a consumer that accepts it.
    #[inline]
    pub fn deliver<E: Effects>(
        &mut self,
        key: ConsumerKey,
        position: QueuePosition,
        redelivered: bool,
        payload: Payload<'_>,
        fx: &mut E,
    ) {
        let Some(consumer) = self.consumers.get_mut(key) else { return };
        let Some(channel) = self.table.get_mut(consumer.channel) else { return };
        let tag = if consumer.no_ack { channel.ledger.assign_settled() } else { channel.ledger.next_tag() };
        let content = payload.content();
        fx.deliver(
            consumer.slot,
            consumer.channel_number,
            Delivery { consumer_tag: &consumer.tag, tag, redelivered, content },
        );
        if !consumer.no_ack {
            consumer.unsettled += 1;
            channel.unsettled += 1;
            let message = payload.keep(fx.pool());
            self.unsettled += 1;
            channel.ledger.assign_unsettled(UnsettledDelivery {
                queue: consumer.queue,
                home: consumer.home,
                position,
                message,
                consumer: Some(key),
            });
        }
    }

    /// Answers `basic.get` with a message.
    pub fn deliver_get<E: Effects>(
        &mut self,
        key: ChannelKey,
        delivery: UnsettledDelivery,
        ack_required: bool,
        redelivered: bool,
        messages_left: u32,
        fx: &mut E,
    ) {
        let Some(channel) = self.table.get_mut(key) else { return };
        let tag = if ack_required { channel.ledger.next_tag() } else { channel.ledger.assign_settled() };
        fx.get_ok(channel.slot, channel.number, tag, redelivered, messages_left, delivery.message.content());
        self.delivered += 1;
        if ack_required {
            channel.ledger.assign_unsettled(delivery);
            self.unsettled += 1;
        }
    }

    /// A delivery from a queue of another shard: it is parked if its consumer does not accept it now.
    pub fn deliver_remote<E: Effects>(
        &mut self,
        key: ConsumerKey,
        position: QueuePosition,
        redelivered: bool,
        payload: Payload<'_>,
        fx: &mut E,
    ) {
        let Some(consumer) = self.consumers.get(key) else { return };
        if consumer.parked.is_empty() && self.accepts(key, fx) {
            let bytes = payload.content().bytes();
            self.deliver(key, position, redelivered, payload, fx);
            self.delivered += 1;
            self.consumers[key].earn_credit(key, bytes, fx);
            return;
        }
        let message = payload.keep(fx.pool());
        self.consumers[key].parked.push_back(ParkedDelivery { position, message, redelivered });
        self.set_idle(key, true);
    }

    /// Delivers what was parked, as far as the consumer accepts it.
    pub fn deliver_parked<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        while self.accepts(key, fx) {
            let Some(parked) = self.consumers.get_mut(key).and_then(|consumer| consumer.parked.pop_front()) else {
                return;
            };
            let bytes = parked.message.bytes();
            self.deliver(key, parked.position, parked.redelivered, Payload::Kept(parked.message), fx);
            self.delivered += 1;
            self.consumers[key].earn_credit(key, bytes, fx);
        }
        if self.consumers.get(key).is_some_and(|consumer| !consumer.parked.is_empty()) {
            self.set_idle(key, true);
        }
    }

    /// Grants all credit that is due.
    pub fn flush_credits<E: Effects>(&mut self, fx: &mut E) {
        while let Some(key) = self.credits_due.pop() {
            if let Some(consumer) = self.consumers.get_mut(key) {
                consumer.credit_listed = false;
                consumer.send_credit(key, fx);
            }
        }
    }

    /// Counts a delivery as settled: its channel and its consumer may get another.
    #[inline]
    pub fn count_settled(&mut self, key: ChannelKey, delivery: &UnsettledDelivery) {
        self.unsettled -= 1;
        let Some(consumer_key) = delivery.consumer else { return };
        if let Some(channel) = self.table.get_mut(key) {
            channel.unsettled -= 1;
        }
        if let Some(consumer) = self.consumers.get_mut(consumer_key) {
            consumer.unsettled -= 1;
            if consumer.prefetch > 0 && delivery.home != self.shard && consumer.owe_credit(1) {
                self.credits_due.push(consumer_key);
            }
        }
    }

    /// The shared prefetch count has changed: where it has grown, queues of other shards may send more. Credit granted under a
    /// larger count is not withdrawn; what it lets in is parked here.
    pub fn widen_windows(&mut self, key: ChannelKey) {
        let Some(channel) = self.table.get(key) else { return };
        for &consumer_key in &channel.consumers {
            let Some(consumer) = self.consumers.get_mut(consumer_key) else { continue };
            let window = window_of(consumer.prefetch, channel.prefetch_shared, consumer.no_ack);
            let more = window.saturating_sub(consumer.window);
            if more > 0 && consumer.home != self.shard {
                consumer.window = window;
                if consumer.owe_credit(more) {
                    self.credits_due.push(consumer_key);
                }
            }
        }
    }

    /// Where direct replies to a channel go, if it consumes them.
    pub fn reply_address(&self, key: ChannelKey) -> Option<ReplyAddress> {
        let consumer = self.table.get(key)?.reply_consumer.as_ref()?;
        Some(ReplyAddress { shard: self.shard, channel: key, nonce: consumer.nonce })
    }

    /// Delivers a direct reply, if its address is still somebody's.
    pub fn deliver_reply<E: Effects>(&mut self, address: ReplyAddress, content: &Content<'_>, fx: &mut E) {
        let Some(channel) = self.table.get_mut(address.channel) else { return };
        let Some(consumer) = channel.reply_consumer.as_ref().filter(|consumer| consumer.nonce == address.nonce) else {
            return;
        };
        let tag = channel.ledger.assign_settled();
        self.delivered += 1;
        let delivery = Delivery { consumer_tag: &consumer.tag, tag, redelivered: false, content: *content };
        fx.deliver(channel.slot, channel.number, delivery);
    }
}

#[cfg(test)]
mod tests {
    use super::Channels;
    use crate::consumer::Consumer;
    use crate::effects::Effects;
    use crate::ids::ConnectionSlot;
    use crate::ids::{ChannelKey, ConsumerKey, QueuePosition};
    use crate::message::{BodyRef, Content};
    use crate::payload::Payload;
    use crate::shard_message::ShardMessage;
    use crate::test_effects::RecordedEffects;
    use catalog::{QueueId, ShardId};
    use std::collections::VecDeque;
    use wire::{ChannelNumber, DeliveryTag};

    fn consume(channels: &mut Channels, channel: ChannelKey, home: u16, prefetch: u32) -> ConsumerKey {
        channels.add_consumer(Consumer {
            slot: ConnectionSlot::new(4),
            channel_number: ChannelNumber(1),
            channel,
            tag: (*b"tag").into(),
            queue: QueueId { index: 0, serial: 0 },
            home: ShardId(home),
            no_ack: false,
            prefetch,
            unsettled: 0,
            priority: 0,
            idle: false,
            parked: VecDeque::new(),
            credit_due_messages: 0,
            credit_due_bytes: 0,
            credit_listed: false,
            window: 2,
        })
    }

    #[test]
    fn deliveries_of_other_shards_are_parked_until_they_are_accepted_and_earn_credit() {
        let mut channels = Channels::new(ShardId(0));
        let mut fx = RecordedEffects::default();
        let channel = channels.open(ConnectionSlot::new(4), ChannelNumber(1));
        let consumer = consume(&mut channels, channel, 1, 1);
        for (position, body) in [(1, b"a"), (2, b"b")] {
            let content = Content { body: BodyRef::Small(body), ..Content::EMPTY };
            channels.deliver_remote(consumer, QueuePosition(position), false, Payload::Passing(content, None), &mut fx);
        }
        assert_eq!((fx.take().as_str(), channels.unsettled()), ("4: #1=a", 1));
        assert!(channels.has_idle_consumers(ConnectionSlot::new(4)) && !channels.accepts(consumer, &fx));
        let delivery =
            channels.get_mut(channel).and_then(|channel| channel.ledger.settle(DeliveryTag(1))).expect("tag 1 is out");
        channels.count_settled(channel, &delivery);
        channels.set_idle(consumer, false);
        channels.deliver_parked(consumer, &mut fx);
        assert_eq!((fx.take().as_str(), channels.unsettled(), channels.delivered), ("4: #2=b", 1, 2));
        channels.flush_credits(&mut fx);
        let granted = |message: &ShardMessage| match message {
            ShardMessage::Credit { messages, .. } => *messages,
            _ => 0,
        };
        assert_eq!(fx.batch(ShardId(1)).messages.iter().map(granted).sum::<u32>(), 1);
        channels.remove_consumer(consumer, &mut fx);
        assert!(channels.consumers_len() == 0 && !channels.has_idle_consumers(ConnectionSlot::new(4)));
    }

    #[test]
    fn a_consumer_waits_for_its_output_only_when_nothing_else_stops_it() {
        let mut channels = Channels::new(ShardId(0));
        let mut fx = RecordedEffects::default();
        let channel = channels.open(ConnectionSlot::new(4), ChannelNumber(1));
        let consumer = consume(&mut channels, channel, 0, 0);
        assert!(channels.accepts(consumer, &fx) && !channels.waits_for_output(consumer, &fx));
        fx.blocked.insert(ConnectionSlot::new(4));
        assert!(!channels.accepts(consumer, &fx) && channels.waits_for_output(consumer, &fx));
        channels.get_mut(channel).expect("open").flow = false;
        assert!(!channels.waits_for_output(consumer, &fx));
        assert!(channels.check_tag_is_new(channel, b"tag").is_err());
        assert_eq!(channels.consumer_by_tag(channel, b"tag"), Some(consumer));
    }
}
