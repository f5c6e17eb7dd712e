//! Consumers: `basic.consume`, `basic.cancel`, `basic.get`, and what happens when a channel or a queue goes.
//!
//! Enters: subscriptions.  Leaves: consumers in their places, questions to the shards where their queues live.
//! Owns:   the life of a consumer.
//! Never:  hands out a message.

use super::time::drop_expired;
use super::{Broker, ReadControl, find, no_channel};
use crate::channel::{ChannelKey, SettlementOutcome, ChannelMode, TransactionOperation};
use crate::consumer::{Consumer, ConsumerKey};
use crate::direct_reply::{ReplyConsumer, PSEUDO_QUEUE};
use crate::effects::{Effects, ConnectionSlot};
use crate::shard_message::{QueueResponse, QueueRequest, Requester, ShardMessage, Subscription};
use crate::limits::{CONSUMERS_PER_CHANNEL_MAX, REMOTE_WINDOW_MESSAGES};
use crate::session_state::PendingReply;
use crate::queue::ConsumerRef;
use crate::ready_messages::QueueEntry;
use crate::queue_timers::TimerTarget;
use catalog::{Definition, Operation, QueueId, Refusal, Resource};
use std::collections::VecDeque;
use wire::method::{Method, basic};
use wire::{ReplyCode, ShortStr, TableRef};

const PRIORITY: &str = "x-priority";
/// Checked, and without effect: there are no mirrors.
const CANCEL_ON_FAILOVER: &str = "x-cancel-on-ha-failover";
/// Only streams have it.
const STREAM_OFFSET: &str = "x-stream-offset";

impl Broker {
    /// `basic.consume`.
    pub(super) fn consume<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        key: ChannelKey,
        consume: basic::Consume<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let tag: Box<[u8]> = match consume.consumer_tag.as_bytes() {
            [] => format!("amq.ctag-{}", self.random_name(fx)).into_bytes().into(),
            tag => tag.into(),
        };
        self.check_tag_is_new(key, &tag)?;
        if consume.queue.as_bytes() == PSEUDO_QUEUE.as_bytes() {
            return self.consume_replies(slot, number, key, consume, tag, fx);
        }
        let name = self.queue_name(key, consume.queue.as_bytes())?;
        let (id, home) = self.queue_for(slot, &name, Operation::Read)?;
        let priority = self.check_arguments(id, consume.arguments)?;
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        if channel.consumers.len() >= CONSUMERS_PER_CHANNEL_MAX {
            return Err(Refusal::channel(
                ReplyCode::ResourceError,
                "RESOURCE_ERROR - too many consumers on this channel",
            ));
        }
        let prefetch = channel.prefetch;
        let shared = channel.prefetch_shared;
        let window = window_of(prefetch, shared, consume.no_ack);
        let consumer = self.tables.consumers.insert(Consumer {
            slot,
            channel_number: number,
            channel: key,
            tag,
            queue: id,
            home,
            no_ack: consume.no_ack,
            prefetch,
            unsettled: 0,
            priority,
            idle: false,
            parked: VecDeque::new(),
            credit_due_messages: 0,
            credit_due_bytes: 0,
            credit_listed: false,
            window,
        });
        if let Some(channel) = self.tables.channels.get_mut(key) {
            channel.consumers.push(consumer);
        }
        let subscription = Subscription {
            consumer,
            no_ack: consume.no_ack,
            exclusive: consume.exclusive,
            priority,
            credit_messages: window,
        };
        let then = PendingReply::Consuming { no_wait: consume.no_wait, consumer };
        self.ask(slot, number, basic::Consume::ID, id, home, QueueRequest::Consume(subscription), then, fx)
    }

    /// A consumer of direct replies.
    fn consume_replies<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        key: ChannelKey,
        consume: basic::Consume<'_>,
        tag: Box<[u8]>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        if !consume.no_ack {
            return Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - reply consumer cannot acknowledge",
            ));
        }
        let nonce = fx.random();
        let channel = self.tables.channels.get_mut(key).ok_or_else(no_channel)?;
        if channel.reply_consumer.is_some() {
            return Err(Refusal::channel(
                ReplyCode::PreconditionFailed,
                "PRECONDITION_FAILED - reply consumer already set",
            ));
        }
        if !consume.no_wait {
            fx.reply(slot, number, Method::BasicConsumeOk(basic::ConsumeOk { consumer_tag: short(&tag) }));
        }
        channel.reply_consumer = Some(ReplyConsumer { consumer_tag: tag, nonce });
        Ok(ReadControl::Continue)
    }

    /// Refuses what a consumer's arguments may not be; answers its `x-priority`, RabbitMQ's consumer priority.
    fn check_arguments(&self, queue: QueueId, arguments: TableRef<'_>) -> Result<i32, Refusal> {
        let invalid = |argument: &str, why: String| {
            let detail = format!("invalid arg '{argument}' for {}{why}", self.name_of(queue));
            Refusal::detail(ReplyCode::PreconditionFailed, detail)
        };
        let priority = match arguments.get(PRIORITY) {
            None => 0,
            // Priorities beyond 32 bits serve the same order as the nearest that fits.
            Some(value) => match value.as_i64() {
                Some(priority) => priority.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
                None => {
                    return Err(invalid(PRIORITY, format!(": \"expected integer, got {}\"", value.type_name())));
                }
            },
        };
        if let Some(value) = arguments.get(CANCEL_ON_FAILOVER)
            && value.as_bool().is_none()
        {
            return Err(invalid(CANCEL_ON_FAILOVER, format!(": {{unacceptable_type,{}}}", value.type_name())));
        }
        if arguments.get(STREAM_OFFSET).is_some() && !self.catalog.takes_types_as_classic() {
            return Err(invalid(STREAM_OFFSET, " of queue type rabbit_classic_queue".into()));
        }
        Ok(priority)
    }

    fn check_tag_is_new(&self, key: ChannelKey, tag: &[u8]) -> Result<(), Refusal> {
        let channel = self.tables.channels.get(key).ok_or_else(no_channel)?;
        let replies = channel.reply_consumer.as_ref().is_some_and(|mailbox| *mailbox.consumer_tag == *tag);
        if replies || self.consumer_by_tag(key, tag).is_some() {
            let text = format!("NOT_ALLOWED - attempt to reuse consumer tag '{}'", String::from_utf8_lossy(tag));
            return Err(Refusal::connection(ReplyCode::NotAllowed, text));
        }
        Ok(())
    }

    fn consumer_by_tag(&self, key: ChannelKey, tag: &[u8]) -> Option<ConsumerKey> {
        let consumers = &self.tables.channels.get(key)?.consumers;
        consumers
            .iter()
            .copied()
            .find(|&consumer| self.tables.consumers.get(consumer).is_some_and(|consumer| *consumer.tag == *tag))
    }

    /// `basic.cancel`; an unknown tag is answered as a known one, as RabbitMQ does.
    pub(super) fn cancel<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        key: ChannelKey,
        cancel: basic::Cancel<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let tag = cancel.consumer_tag.as_bytes();
        if let Some(consumer) = self.consumer_by_tag(key, tag) {
            let Some(found) = self.tables.consumers.get(consumer) else {
                return Ok(ReadControl::Continue);
            };
            let (queue, home) = (found.queue, found.home);
            let then = PendingReply::Cancelled { no_wait: cancel.no_wait, consumer, tag: tag.into() };
            return self.ask(slot, number, basic::Cancel::ID, queue, home, QueueRequest::Cancel(consumer), then, fx);
        }
        if let Some(channel) = self.tables.channels.get_mut(key)
            && channel.reply_consumer.as_ref().is_some_and(|mailbox| *mailbox.consumer_tag == *tag)
        {
            channel.reply_consumer = None;
        }
        if !cancel.no_wait {
            fx.reply(slot, number, Method::BasicCancelOk(basic::CancelOk { consumer_tag: cancel.consumer_tag }));
        }
        Ok(ReadControl::Continue)
    }

    /// `basic.get`.
    pub(super) fn get<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        number: u16,
        key: ChannelKey,
        get: basic::Get<'_>,
        fx: &mut E,
    ) -> Result<ReadControl, Refusal> {
        let name = self.queue_name(key, get.queue.as_bytes())?;
        let (id, home) = self.queue_for(slot, &name, Operation::Read)?;
        self.ask(
            slot,
            number,
            basic::Get::ID,
            id,
            home,
            QueueRequest::Get { no_ack: get.no_ack },
            PendingReply::Get { no_ack: get.no_ack },
            fx,
        )
    }

    /// The queue of a name, if the connection may do this with it.
    pub(super) fn queue_for(
        &mut self,
        slot: ConnectionSlot,
        name: &[u8],
        operation: Operation,
    ) -> Result<(QueueId, catalog::ShardId), Refusal> {
        let Some(Some(peer)) = self.tables.peers.get(slot as usize) else {
            return Err(no_channel());
        };
        let (user, vhost, session) = (peer.user, peer.vhost, peer.session);
        self.catalog.check(user, vhost, operation, Resource::Queue, name)?;
        let id = self.catalog.queue_for(vhost, name, session)?;
        let definition = self.catalog.queue_definition(id).ok_or_else(|| self.catalog.no_queue(vhost, name))?;
        Ok((id, definition.home))
    }

    /// The queue a method means: the one it names, or the one declared last on the channel.
    pub(super) fn queue_name(&self, key: ChannelKey, name: &[u8]) -> Result<Box<[u8]>, Refusal> {
        if !name.is_empty() {
            return Ok(name.into());
        }
        let channel = self.tables.channels.get(key).ok_or_else(no_channel)?;
        if channel.last_queue.is_empty() {
            return Err(Refusal::channel(ReplyCode::NotFound, "NOT_FOUND - no previously declared queue"));
        }
        Ok(channel.last_queue.as_bytes().into())
    }

    pub(super) fn random_name<E: Effects>(&self, fx: &mut E) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let (a, b) = (fx.random(), fx.random());
        (0..22)
            .map(|at| if at < 11 { a >> (6 * at % 64) } else { b >> (6 * (at - 11) % 64) })
            .map(|bits| LETTERS[(bits & 63) as usize] as char)
            .collect()
    }

    /// A channel goes: what it has out returns, its consumers leave.
    pub(super) fn drop_channel<E: Effects>(&mut self, key: ChannelKey, fx: &mut E) {
        let Some(channel) = self.tables.channels.get(key) else {
            return;
        };
        for consumer in channel.consumers.clone() {
            self.leave(consumer, fx);
        }
        // What is owed returns after its consumers have left, so that it cannot come back to them.
        let Some(channel) = self.tables.channels.get_mut(key) else {
            return;
        };
        let mut ledger = std::mem::take(&mut channel.ledger);
        if let ChannelMode::Transaction(steps) = &mut channel.mode {
            // What was not committed has not happened.
            ledger.restore(std::mem::take(steps).into_iter().flat_map(TransactionOperation::deliveries));
        }
        ledger.settle_through(0, |delivery| self.release(key, delivery, SettlementOutcome::Requeued, fx));
        self.tables.channels.remove(key);
    }

    /// A consumer of this shard leaves its queue, wherever that is.
    fn leave<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        let Some(consumer) = self.tables.consumers.get(key) else {
            return;
        };
        let (queue, home, slot, channel) = (consumer.queue, consumer.home, consumer.slot, consumer.channel_number);
        let asker = Requester { session: self.session_of(slot), channel, request: 0 };
        if self.is_home(home) {
            self.remove_taker(queue, ConsumerRef::Local(key), asker, fx);
        } else {
            fx.batch(home).push(ShardMessage::Request { requester: asker, queue, request: QueueRequest::Cancel(key) });
        }
        self.forget_consumer(key, fx);
    }

    /// A consumer is out of its queue: its parked deliveries return, its entry goes.
    pub(super) fn forget_consumer<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        self.tables.set_idle(key, false);
        let Some(consumer) = self.tables.consumers.remove(key) else {
            return;
        };
        for parked in consumer.parked {
            fx.batch(consumer.home).push(ShardMessage::Returned {
                queue: consumer.queue,
                position: parked.position,
                message: parked.message,
                redelivered: parked.redelivered,
                seen: false,
                owed: !consumer.no_ack,
            });
        }
        if let Some(channel) = self.tables.channels.get_mut(consumer.channel) {
            channel.consumers.retain(|&other| other != key);
        }
    }

    /// A consumer leaves a queue of this shard. The last one takes an auto-delete queue with it, and hears that it is done once
    /// the queue is gone on every shard.
    pub(super) fn remove_taker<E: Effects>(&mut self, id: QueueId, taker: ConsumerRef, asker: Requester, fx: &mut E) -> QueueResponse {
        let Some(queue) = find(&mut self.queues, id) else {
            return QueueResponse::Done;
        };
        let Some(left) = queue.remove_consumer(taker) else {
            return QueueResponse::Done;
        };
        let unused = queue.consumers.is_empty();
        let goes = unused && queue.auto_delete;
        if unused {
            self.note_use(id);
        } else if let Some(next) = queue.successor(left) {
            let priority = match next {
                ConsumerRef::Local(key) => self.tables.consumers.get(key).map(|consumer| consumer.priority),
                ConsumerRef::Remote(key) => self.tables.remotes.get(key).map(|remote| remote.priority),
            };
            queue.activate(next, priority.unwrap_or(0));
            self.make_due(id);
        }
        if !goes || self.catalog.queue_definition(id).is_none() {
            return QueueResponse::Done;
        }
        let definition = Definition::RemoveQueue { id };
        if asker.request == 0 || self.options.shards == 1 {
            self.define_unasked(definition, fx);
            return QueueResponse::Done;
        }
        self.send_definition(Some(asker), definition, fx);
        QueueResponse::Deferred
    }

    /// The queue of a consumer of this shard was deleted.
    pub(super) fn consumer_cancelled<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        let Some(consumer) = self.tables.consumers.get(key) else {
            return;
        };
        let (slot, number) = (consumer.slot, consumer.channel_number);
        let notify = self
            .tables
            .peers
            .get(slot as usize)
            .and_then(|peer| peer.as_ref())
            .is_some_and(|peer| peer.capabilities.consumer_cancel_notify);
        if notify {
            let consumer_tag = short(&consumer.tag);
            fx.reply(slot, number, Method::BasicCancel(basic::Cancel { consumer_tag, no_wait: true }));
        }
        self.forget_consumer(key, fx);
    }

    /// A queue that lived here is gone.
    pub(super) fn drop_queue<E: Effects>(&mut self, id: QueueId, fx: &mut E) {
        let Some(place) = self.queues.get_mut(id.index as usize) else {
            return;
        };
        if place.as_ref().is_none_or(|queue| queue.id != id) {
            return;
        }
        let Some(mut queue) = place.take() else { return };
        self.timers.clear(TimerTarget::Queue(id.index), &mut queue.timer_us);
        self.rooms.remove_queue(&mut queue);
        self.waiting -= queue.ready.len();
        for taker in queue.consumers {
            match taker {
                ConsumerRef::Local(key) => self.consumer_cancelled(key, fx),
                ConsumerRef::Remote(key) => {
                    if let Some(remote) = self.tables.remotes.remove(key) {
                        self.remote_keys.remove(&(remote.shard, remote.consumer));
                        fx.batch(remote.shard).push(ShardMessage::ConsumerCancelled { consumer: remote.consumer });
                    }
                }
            }
        }
        for slot in queue.throttled {
            self.unpace(slot, fx);
        }
        if queue.full {
            self.tell_full(id, false, fx);
        }
    }

    /// Takes one message for `basic.get`.
    pub(super) fn take_one<E: Effects>(&mut self, id: QueueId, no_ack: bool, fx: &mut E) -> Option<(QueueEntry, u32)> {
        let queue = find(&mut self.queues, id)?;
        while queue.expiring && drop_expired(queue, self.now_us, &mut 0, &mut self.waiting, &mut self.dead, fx) {}
        let taken = queue.ready.pop()?;
        self.waiting -= 1;
        match &mut queue.features {
            _ if !no_ack => queue.unsettled += 1,
            Some(features) => _ = features.forget_returns(taken.position),
            None => {}
        }
        let left = count(queue.ready.len());
        self.make_due(id);
        Some((taken, left))
    }
}

/// How many messages a queue on another shard may send ahead to a consumer.
pub(super) fn window_of(prefetch: u32, prefetch_shared: u32, no_ack: bool) -> u32 {
    let limits = [prefetch, prefetch_shared].into_iter().filter(|&limit| limit > 0 && !no_ack);
    limits.min().unwrap_or(REMOTE_WINDOW_MESSAGES).min(REMOTE_WINDOW_MESSAGES)
}

/// A tag that came as a short string, or was made as short as one.
pub(super) fn short(bytes: &[u8]) -> ShortStr<'_> {
    ShortStr::new(bytes).unwrap_or(ShortStr::EMPTY)
}

/// A count as AMQP carries it.
pub(super) fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
