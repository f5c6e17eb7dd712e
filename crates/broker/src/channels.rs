//! The channels of this shard and their consumers: who accepts a delivery, and what was delivered and not settled.

use crate::channel::{Channel, not_open};
use crate::channel_counts::ChannelCounts;
use crate::consumer::{Consumer, ConsumerState, ParkedDelivery, window_of};
use crate::delivery_latency::DeliveryLatency;
use crate::direct_reply::ReplyAddress;
use crate::effects::{Delivery, Effects};
use crate::ids::{ChannelKey, ConnectionSlot};
use crate::payload::Payload;
use crate::rollback::Rollback;
use crate::shard_message::ShardMessage;
use catalog::{Refusal, ShardId};
use queues::{ConsumerKey, Content, PagedSlotMap, QueuePosition, UnsettledDelivery};
use run_deliveries::RunOutputs;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::method::basic;
use wire::{ChannelNumber, ReplyCode};

/// The channels of this shard and their consumers.
pub(crate) struct Channels {
    shard: ShardId,
    table: PagedSlotMap<ChannelKey, Channel>,
    consumers: PagedSlotMap<ConsumerKey, Consumer>,
    /// Consumers that owe credit to queues of other shards.
    credits_due: Vec<ConsumerKey>,
    /// Consumers whose own prefetch count allows deliveries again.
    settled: VecDeque<ConsumerKey>,
    /// The channels of each connection whose consumers wait for capacity in its output.
    awaiting_output: Vec<VecDeque<ChannelKey>>,
    /// Deliveries that wait for settlement, on all channels.
    unsettled: usize,
    /// Messages delivered or sent to consumers since the start.
    pub delivered: u64,
    pub latency: DeliveryLatency,
    pub counts: ChannelCounts,
    pub run_outputs: RunOutputs,
}

impl Channels {
    pub fn new(shard: ShardId) -> Self {
        Channels {
            shard,
            table: PagedSlotMap::new(),
            consumers: PagedSlotMap::new(),
            credits_due: Vec::new(),
            settled: VecDeque::new(),
            awaiting_output: Vec::new(),
            unsettled: 0,
            delivered: 0,
            latency: DeliveryLatency::default(),
            counts: ChannelCounts::default(),
            run_outputs: RunOutputs::default(),
        }
    }

    pub fn open(&mut self, slot: ConnectionSlot, number: ChannelNumber) -> ChannelKey {
        let key = self.table.insert(Channel::new(slot, number));
        self.counts.opened += 1;
        self.counts.changes.note(key);
        key
    }

    /// A channel has changed: whoever knew it as it was is to be told.
    #[inline]
    pub fn note_change(&mut self, key: ChannelKey) {
        if let Some(channel) = self.table.get_mut(key) {
            channel.note_change(key, &mut self.counts.changes);
        }
    }

    /// A channel, and what all of them count together.
    #[inline]
    pub fn get_with_counts(&mut self, key: ChannelKey) -> Option<(&mut Channel, &mut ChannelCounts)> {
        self.table.get_mut(key).map(|channel| (channel, &mut self.counts))
    }

    /// A channel is closed: it gets nothing more. Its consumers and deliveries are still to be taken from it, and what its transaction
    /// holds is to be rolled back before.
    pub fn close(&mut self, key: ChannelKey) -> Option<Box<Rollback>> {
        let operations = self.table.get_mut(key)?.close();
        let is_empty = operations.is_empty();
        (!is_empty).then(|| Box::new(Rollback { channel: key, operations: operations.into_iter(), is_asked: false }))
    }

    /// Removes a channel, whose consumers are gone.
    pub fn remove(&mut self, key: ChannelKey) {
        if let Some(mut channel) = self.table.remove(key) {
            self.counts.fold(&mut channel);
            self.counts.closed += 1;
            self.counts.changes.note_gone(key);
        }
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

    /// The channels, to read.
    pub fn table(&self) -> &PagedSlotMap<ChannelKey, Channel> {
        &self.table
    }

    /// The consumers, to read.
    pub fn consumers(&self) -> &PagedSlotMap<ConsumerKey, Consumer> {
        &self.consumers
    }

    /// The channel at a place of the table.
    #[inline]
    pub fn at_mut(&mut self, place: usize) -> Option<&mut Channel> {
        self.table.value_at_mut(place)
    }

    pub fn len(&self) -> usize {
        self.table.count()
    }

    #[inline]
    pub fn consumer(&self, key: ConsumerKey) -> Option<&Consumer> {
        self.consumers.get(key)
    }

    pub fn consumers_len(&self) -> usize {
        self.consumers.count()
    }

    /// Deliveries that wait for settlement, on all channels.
    pub fn unsettled(&self) -> usize {
        self.unsettled
    }

    pub fn consumer_by_tag(&self, key: ChannelKey, tag: &[u8]) -> Option<ConsumerKey> {
        self.table.get(key)?.consumers.get(tag)
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
        let (channel, tag) = (consumer.channel, Arc::clone(&consumer.tag));
        let key = self.consumers.insert(consumer);
        if let Some(channel) = self.table.get_mut(channel) {
            channel.consumers.insert(tag, key);
        }
        self.counts.consumer_changes.note(key);
        self.note_change(channel);
        key
    }

    /// Removes a consumer that its queue no longer serves: its parked deliveries return to the queue. Returns the work of these.
    pub fn remove_consumer<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) -> usize {
        let Some(consumer) = self.consumers.remove(key) else { return 0 };
        self.counts.consumer_changes.note_gone(key);
        self.note_change(consumer.channel);
        let work = consumer.parked.len();
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
            channel.consumers.remove(&consumer.tag);
        }
        work
    }

    /// Whether a consumer accepts one more delivery.
    #[inline]
    pub fn accepts<E: Effects>(&self, key: ConsumerKey, fx: &E) -> bool {
        self.accepting(key, fx).is_some()
    }

    /// A consumer, if it accepts one more delivery.
    #[inline]
    pub fn accepting<E: Effects>(&self, key: ConsumerKey, fx: &E) -> Option<&Consumer> {
        let consumer = self.consumers.get(key)?;
        let channel = self.table.get(consumer.channel)?;
        let accepts = consumer.has_credit() && channel.allows_delivery() && fx.has_capacity(channel.slot);
        accepts.then_some(consumer)
    }

    /// Whether a consumer would accept more if only its connection did.
    pub fn waits_for_output<E: Effects>(&self, key: ConsumerKey, fx: &E) -> bool {
        let consumer = self.consumers.get(key);
        let channel = consumer.and_then(|consumer| self.table.get(consumer.channel));
        consumer.zip(channel).is_some_and(|(consumer, channel)| {
            consumer.has_credit() && channel.allows_delivery() && !fx.has_capacity(channel.slot)
        })
    }

    /// A consumer that does not accept a delivery has left the rotation of its queue: it waits for what stops it.
    ///
    /// Not inlined: the choice of the next consumer is made for each message, and is short without it.
    #[inline(never)]
    pub fn await_capacity<E: Effects>(&mut self, key: ConsumerKey, fx: &E) {
        let Some(consumer) = self.consumers.get_mut(key) else { return };
        if consumer.state != ConsumerState::Active {
            return;
        }
        if !consumer.has_credit() {
            consumer.state = ConsumerState::AwaitsSettlement;
            return;
        }
        consumer.state = ConsumerState::AwaitsChannel;
        let channel_key = consumer.channel;
        let Some(channel) = self.table.get_mut(channel_key) else { return };
        let consumers = &self.consumers;
        channel.waiting.push(key, |other| {
            consumers.get(other).is_some_and(|consumer| consumer.state == ConsumerState::AwaitsChannel)
        });
        if !fx.has_capacity(channel.slot) {
            self.await_output(channel_key);
        }
    }

    /// Lists a channel among those that wait for capacity in the output of their connection.
    fn await_output(&mut self, key: ChannelKey) {
        let Some(channel) = self.table.get_mut(key) else { return };
        if std::mem::replace(&mut channel.awaits_output, true) {
            return;
        }
        let index = channel.slot.index();
        if self.awaiting_output.len() <= index {
            self.awaiting_output.resize_with(index + 1, VecDeque::new);
        }
        self.awaiting_output[index].push_back(key);
    }

    /// How many channels of a connection wait for capacity in its output.
    #[inline]
    pub fn awaiting_output_len(&self, slot: ConnectionSlot) -> usize {
        self.awaiting_output.get(slot.index()).map_or(0, VecDeque::len)
    }

    /// Takes the channel of a connection that has waited longest for capacity in its output.
    pub fn next_awaiting_output(&mut self, slot: ConnectionSlot) -> Option<ChannelKey> {
        let key = self.awaiting_output.get_mut(slot.index())?.pop_front()?;
        if let Some(channel) = self.table.get_mut(key) {
            channel.awaits_output = false;
        }
        Some(key)
    }

    /// A connection is gone, and its slot will be another's.
    pub fn forget_output(&mut self, slot: ConnectionSlot) {
        if let Some(list) = self.awaiting_output.get_mut(slot.index()) {
            *list = VecDeque::new();
        }
    }

    /// Whether there are consumers whose own prefetch counts allow deliveries again.
    #[inline]
    pub fn any_settled(&self) -> bool {
        !self.settled.is_empty()
    }

    /// Takes a consumer whose own prefetch count allows deliveries again.
    #[inline]
    pub fn next_settled(&mut self) -> Option<ConsumerKey> {
        self.settled.pop_front()
    }

    /// Takes the consumer that has waited longest for a channel, if that allows a delivery now.
    pub fn next_waiting<E: Effects>(&mut self, key: ChannelKey, fx: &E) -> Option<ConsumerKey> {
        let channel = self.table.get_mut(key).filter(|channel| !channel.waiting.is_empty())?;
        if !channel.allows_delivery() {
            return None;
        }
        if !fx.has_capacity(channel.slot) {
            self.await_output(key);
            return None;
        }
        channel.waiting.pop()
    }

    /// A consumer does not wait any more. Returns it unless it is gone, or did not wait.
    pub fn end_wait(&mut self, key: ConsumerKey) -> Option<&Consumer> {
        let consumer = self.consumers.get_mut(key)?;
        let waited = std::mem::take(&mut consumer.state) != ConsumerState::Active;
        waited.then_some(&*consumer)
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
        fx.deliver(channel.slot, channel.number, Delivery { consumer_tag: &consumer.tag, tag, redelivered, content });
        if redelivered {
            channel.stats.redeliver += 1;
        } else {
            self.latency.count(content.arrived_us);
        }
        channel.note_change(consumer.channel, &mut self.counts.changes);
        if consumer.no_ack {
            channel.stats.deliver_no_ack += 1;
        } else {
            channel.stats.deliver += 1;
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
        self.count(key, |stats| {
            stats.redeliver += u64::from(redelivered);
            *if ack_required { &mut stats.get } else { &mut stats.get_no_ack } += 1;
        });
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
            let (bytes, reported) = (payload.content().bytes(), consumer.reports(&payload).then_some(position));
            self.deliver(key, position, redelivered, payload, fx);
            return self.count_remote(key, bytes, reported, fx);
        }
        let message = payload.keep(fx.pool());
        if let Some(consumer) = self.consumers.get_mut(key) {
            consumer.parked.push_back(ParkedDelivery { position, message, redelivered });
        }
        self.await_capacity(key, fx);
    }

    /// A message of another shard's queue is delivered: its consumer earns credit. The queue is told that the message at the
    /// `reported` position is taken.
    #[inline]
    fn count_remote<E: Effects>(
        &mut self,
        key: ConsumerKey,
        bytes: usize,
        reported: Option<QueuePosition>,
        fx: &mut E,
    ) {
        self.delivered += 1;
        if let Some(consumer) = self.consumers.get_mut(key) {
            if let Some(position) = reported {
                fx.batch(consumer.home).push_taken(consumer.queue, position);
            }
            consumer.earn_credit(key, 1, bytes, fx);
        }
    }

    /// Delivers what was parked, as far as the consumer accepts it: no more than its connection's output has room for. Returns the
    /// work of that.
    pub fn deliver_parked<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) -> usize {
        let mut work = 0;
        while self.accepts(key, fx) {
            let Some(consumer) = self.consumers.get_mut(key) else { return work };
            let Some(ParkedDelivery { position, message, redelivered }) = consumer.parked.pop_front() else {
                return work;
            };
            work += 1 + message.content().copying_work();
            let (bytes, payload) = (message.bytes(), Payload::Kept(message));
            let reported = consumer.reports(&payload).then_some(position);
            self.deliver(key, position, redelivered, payload, fx);
            self.count_remote(key, bytes, reported, fx);
        }
        if self.consumers.get(key).is_some_and(|consumer| !consumer.parked.is_empty()) {
            self.await_capacity(key, fx);
        }
        work
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

    /// Counts deliveries to one consumer as settled: its channel and it may get others.
    #[inline]
    pub fn count_settled(&mut self, key: ChannelKey, to: Option<ConsumerKey>, home: ShardId, count: u32) {
        self.unsettled -= count as usize;
        let Some(consumer_key) = to else { return };
        if let Some(channel) = self.table.get_mut(key) {
            channel.unsettled -= count;
        }
        if let Some(consumer) = self.consumers.get_mut(consumer_key) {
            if consumer.state == ConsumerState::AwaitsSettlement && consumer.unsettled == consumer.prefetch {
                self.settled.push_back(consumer_key);
            }
            consumer.unsettled -= count;
            if consumer.prefetch > 0 && home != self.shard && consumer.owe_credit(count) {
                self.credits_due.push(consumer_key);
            }
        }
    }

    /// The shared prefetch count has changed: where it has grown, queues of other shards may send more. Credit granted under a
    /// larger count is not withdrawn; what it lets in is parked here. Returns the work of that.
    pub fn widen_windows(&mut self, key: ChannelKey) -> usize {
        let Some(channel) = self.table.get(key) else { return 0 };
        for consumer_key in channel.consumers.iter() {
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
        channel.consumers.len()
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
        self.count(address.channel, |stats| stats.deliver_no_ack += 1);
    }

    /// Delivers the answer to an admin request.
    pub fn deliver_answer<E: Effects>(&mut self, address: ReplyAddress, answer: &Content<'_>, fx: &mut E) {
        let Some(channel) = self.table.get(address.channel) else { return };
        // Answers to a client that makes many requests and reads nothing would pile up here.
        if !fx.has_capacity(channel.slot) {
            let refusal =
                Refusal::channel(ReplyCode::ResourceError, "RESOURCE_ERROR - answers to requests are not read");
            return fx.refuse(channel.slot, channel.number, refusal, basic::Publish::ID);
        }
        self.deliver_reply(address, answer, fx);
    }
}

mod channel_moves;
mod run_deliveries;

#[cfg(test)]
mod tests {
    use super::Channels;
    use crate::consumer::{Consumer, ConsumerState};
    use crate::effects::Effects;
    use crate::ids::ChannelKey;
    use crate::ids::ConnectionSlot;
    use crate::payload::Payload;
    use crate::shard_message::ShardMessage;
    use crate::test_effects::RecordedEffects;
    use catalog::ShardId;
    use queues::{BodyRef, ConsumerKey, Content, QueuePosition};
    use wire::{ChannelNumber, DeliveryTag};

    fn consume(channels: &mut Channels, channel: ChannelKey, home: u16, prefetch: u32) -> ConsumerKey {
        let home = ShardId(home);
        channels.add_consumer(Consumer { home, prefetch, window: 2, ..Consumer::new(channel, b"tag") })
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
        let state = |channels: &Channels| channels.consumer(consumer).map(|consumer| consumer.state);
        assert_eq!(state(&channels), Some(ConsumerState::AwaitsSettlement));
        let delivery =
            channels.get_mut(channel).and_then(|channel| channel.ledger.settle(DeliveryTag(1))).expect("tag 1 is out");
        channels.count_settled(channel, delivery.consumer, delivery.home, 1);
        assert_eq!(channels.next_settled(), Some(consumer));
        assert!(channels.end_wait(consumer).is_some());
        assert_eq!(channels.deliver_parked(consumer, &mut fx), 1);
        assert_eq!((fx.take().as_str(), channels.unsettled(), channels.delivered), ("4: #2=b", 1, 2));
        channels.flush_credits(&mut fx);
        let granted = |message: &ShardMessage| match message {
            ShardMessage::Credit { messages, .. } => *messages,
            _ => 0,
        };
        assert_eq!(fx.batch(ShardId(1)).messages.iter().map(granted).sum::<u32>(), 1);
        assert_eq!(channels.remove_consumer(consumer, &mut fx), 0, "nothing is parked");
        assert_eq!(channels.consumers_len(), 0);
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
