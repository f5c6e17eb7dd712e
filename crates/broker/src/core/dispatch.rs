//! Who gets the next message: queues hand over, consumers take.
//!
//! Enters: a message for a queue, or room at a consumer.  Leaves: deliveries, and mail to consumers on other shards.
//! Owns:   the one place where a message leaves a queue for a consumer.
//! Never:  routes, settles.

use super::bury::make_room;
use super::time::{drop_expired, rearm};
use super::{Broker, Tables, find};
use crate::consumer::{ConsumerKey, ParkedDelivery};
use crate::effects::{Delivery, Effects, ConnectionSlot, AppendResult};
use crate::ledger::UnsettledDelivery;
use crate::shard_message::{ShardMessage, ShardPayload};
use crate::limits::{THROTTLE_BYTES, THROTTLE_PROGRESS_BYTES_MIN, QUEUE_RESUME_TENTHS, REMOTE_WINDOW_BYTES};
use crate::message::{Content, Message};
use crate::queue::{Queue, ConsumerRef};
use crate::ready_messages::QueuePosition;
use crate::queue_timers::TimerTarget;
use catalog::{QueueId, ShardId};

/// Consumers of a queue that are looked at to see whether it waits for room.
const PACED_TAKERS: usize = 4;

impl Tables {
    #[inline]
    fn can_take<E: Effects>(&self, taker: ConsumerRef, fx: &E) -> bool {
        match taker {
            ConsumerRef::Local(key) => self.consumer_can_take(key, fx),
            ConsumerRef::Remote(key) => {
                self.remotes.get(key).is_some_and(|remote| remote.credit_messages > 0 && remote.credit_bytes > 0)
            }
        }
    }

    #[inline]
    pub(super) fn consumer_can_take<E: Effects>(&self, key: ConsumerKey, fx: &E) -> bool {
        let Some(consumer) = self.consumers.get(key) else {
            return false;
        };
        let Some(channel) = self.channels.get(consumer.channel) else {
            return false;
        };
        consumer.has_credit() && channel.allows(consumer.no_ack) && fx.has_capacity(consumer.slot)
    }

    pub(super) fn set_idle(&mut self, key: ConsumerKey, idle: bool) {
        let Some(consumer) = self.consumers.get_mut(key) else {
            return;
        };
        if consumer.idle == idle {
            return;
        }
        consumer.idle = idle;
        let change = |count: &mut u32| if idle { *count += 1 } else { *count -= 1 };
        if let Some(channel) = self.channels.get_mut(consumer.channel) {
            change(&mut channel.idle_consumers);
        }
        if let Some(Some(peer)) = self.peers.get_mut(consumer.slot as usize) {
            change(&mut peer.idle_consumers);
        }
    }

    /// Whether a queue waits for consumers that would take more if only their connections did.
    fn waits_for_room<E: Effects>(&self, queue: &Queue, fx: &E) -> bool {
        queue.consumers.iter().take(PACED_TAKERS).any(|taker| match *taker {
            ConsumerRef::Local(key) => {
                let consumer = self.consumers.get(key);
                let channel = consumer.and_then(|consumer| self.channels.get(consumer.channel));
                consumer.zip(channel).is_some_and(|(consumer, channel)| {
                    consumer.has_credit() && channel.allows(consumer.no_ack) && !fx.has_capacity(consumer.slot)
                })
            }
            ConsumerRef::Remote(_) => false,
        })
    }

    /// The consumer whose turn it is in a queue.
    #[inline]
    fn next_taker<E: Effects>(&mut self, queue: &mut Queue, fx: &E) -> Option<ConsumerRef> {
        let tables = std::cell::RefCell::new(self);
        queue.next_consumer(
            |taker| tables.borrow().can_take(taker, fx),
            |taker| match taker {
                ConsumerRef::Local(key) => tables.borrow_mut().set_idle(key, true),
                ConsumerRef::Remote(key) => {
                    if let Some(remote) = tables.borrow_mut().remotes.get_mut(key) {
                        remote.idle = true;
                    }
                }
            },
        )
    }

    /// A delivery to a consumer of this shard, which can take it.
    #[inline]
    pub(super) fn deliver<E: Effects>(
        &mut self,
        key: ConsumerKey,
        place: QueuePosition,
        redelivered: bool,
        goods: Payload<'_>,
        fx: &mut E,
    ) {
        let Some(consumer) = self.consumers.get_mut(key) else {
            return;
        };
        let Some(channel) = self.channels.get_mut(consumer.channel) else {
            return;
        };
        let tag = if consumer.no_ack { channel.ledger.assign_settled() } else { channel.ledger.next_tag() };
        let content = goods.content();
        fx.deliver(
            consumer.slot,
            consumer.channel_number,
            Delivery { consumer_tag: &consumer.tag, tag, redelivered, content },
        );
        if !consumer.no_ack {
            consumer.unsettled += 1;
            channel.unsettled += 1;
            let message = goods.keep(fx.pool());
            self.unsettled += 1;
            channel.ledger.assign_unsettled(UnsettledDelivery {
                queue: consumer.queue,
                home: consumer.home,
                position: place,
                message,
                consumer: Some(key),
            });
        }
    }
}

/// A message on its way to a consumer.
pub(super) enum Payload<'a> {
    /// Straight from its publisher; kept already, perhaps.
    Passing(Content<'a>, Option<Message>),
    /// It has waited, and nobody else has it.
    Kept(Message),
}

impl Payload<'_> {
    #[inline]
    fn content(&self) -> Content<'_> {
        match self {
            Payload::Passing(content, _) => *content,
            Payload::Kept(message) => message.content(),
        }
    }

    #[inline]
    fn keep(self, pool: &slab::Pool) -> Message {
        match self {
            Payload::Passing(_, Some(message)) | Payload::Kept(message) => message,
            Payload::Passing(content, None) => content.keep(pool),
        }
    }
}

/// What a queue did with a new message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EnqueueResult {
    /// It has it, a consumer has it, or its time was over at once.
    Taken(AppendResult),
    /// It has no room.
    Declined,
}

/// A message leaving a queue.
enum DispatchSource<'a> {
    /// It passes through; `kept` once somebody had to keep it, `last` if nobody else will want it.
    Passing { content: &'a Content<'a>, kept: &'a mut Option<Message>, last: bool },
    /// It has waited.
    Kept(Message),
}

impl Broker {
    /// A new message for a queue that lives here. `kept` is the message once somebody had to keep it; `last`: nobody else will want it.
    #[inline]
    pub(super) fn offer<E: Effects>(
        &mut self,
        id: QueueId,
        content: &Content<'_>,
        kept: &mut Option<Message>,
        last: bool,
        fx: &mut E,
    ) -> EnqueueResult {
        let Some(queue) = find(&mut self.queues, id) else {
            return EnqueueResult::Taken(AppendResult::Durable);
        };
        let durable = queue.durable && content_is_persistent(content);
        let mut level = 0;
        if let Some(features) = &queue.features {
            if features.refuses(&queue.ready, content) {
                self.decline(id, content, kept, fx);
                return EnqueueResult::Declined;
            }
            level = features.level(content);
        }
        if queue.ready.is_empty()
            && let Some(taker) = self.tables.next_taker(queue, fx)
        {
            let place = queue.ready.bypass(level);
            self.counters.delivered += 1;
            let owed = hand(&mut self.tables, queue, taker, place, false, DispatchSource::Passing { content, kept, last }, fx);
            if durable && owed {
                let message = kept.get_or_insert_with(|| content.keep(fx.pool()));
                return EnqueueResult::Taken(fx.append(id, place, message));
            }
            return EnqueueResult::Taken(AppendResult::Durable);
        }
        let life_us = queue.time_to_live_us(content);
        if life_us == Some(0) && queue.ready.is_empty() {
            self.expire_at_once(id, content, kept, fx);
            return EnqueueResult::Taken(AppendResult::Durable);
        }
        let message = match (kept.as_ref(), last) {
            (Some(message), false) => message.clone(),
            (None, false) => kept.insert(content.keep(fx.pool())).clone(),
            (_, true) => kept.take().unwrap_or_else(|| content.keep(fx.pool())),
        };
        let stored = if durable { fx.append(id, queue.ready.next_position(level), &message) } else { AppendResult::Durable };
        queue.ready.push(level, message);
        self.waiting += 1;
        if life_us.is_some() || queue.features.is_some() {
            queue.expiring |= life_us.is_some();
            let new_head = level > 0 || queue.ready.len() == 1;
            if make_room(queue, &mut self.waiting, &mut self.dead, fx) || new_head {
                rearm(&mut self.timers, queue);
            }
            self.rooms.update(queue);
        }
        if self.outrun.is_none() && queue.memory_bytes() > queue.throttle_at_bytes && self.tables.waits_for_room(queue, fx) {
            self.outrun = Some(id);
        }
        if !queue.full && queue.memory_bytes() > self.options.queue_bytes_max {
            queue.full = true;
            self.tell_full(id, true, fx);
        }
        EnqueueResult::Taken(stored)
    }

    /// Looks at every queue that a command has touched, and routes what they gave up.
    #[inline]
    pub(super) fn dispatch_due<E: Effects>(&mut self, fx: &mut E) {
        loop {
            while let Some(id) = self.due.pop() {
                self.dispatch(id, fx);
            }
            let Some(run) = self.dead.next_group() else { return };
            self.bury(&run, fx);
            self.dead.finish_group(run);
        }
    }

    /// Notes that a queue must be looked at.
    #[inline]
    pub(super) fn make_due(&mut self, id: QueueId) {
        if let Some(queue) = find(&mut self.queues, id)
            && !queue.due
        {
            queue.due = true;
            self.due.push(id);
        }
    }

    fn dispatch<E: Effects>(&mut self, id: QueueId, fx: &mut E) {
        let Some(queue) = find(&mut self.queues, id) else {
            return;
        };
        queue.due = false;
        let (mut looks, mut more) = (0, false);
        loop {
            if queue.expiring && drop_expired(queue, self.now_us, &mut looks, &mut self.waiting, &mut self.dead, fx) {
                // The rest has its turn when others have had theirs.
                more = true;
                break;
            }
            if queue.ready.is_empty() {
                break;
            }
            let Some(taker) = self.tables.next_taker(queue, fx) else {
                break;
            };
            let Some(taken) = queue.ready.pop() else {
                break;
            };
            self.waiting -= 1;
            self.counters.delivered += 1;
            let source = DispatchSource::Kept(taken.message);
            let owed = hand(&mut self.tables, queue, taker, taken.position, taken.redelivered, source, fx);
            if !owed && let Some(features) = &mut queue.features {
                features.forget_returns(taken.position);
            }
        }
        if queue.expiring || queue.features.is_some() {
            // What came back may be too much.
            make_room(queue, &mut self.waiting, &mut self.dead, fx);
            rearm(&mut self.timers, queue);
            if more {
                self.timers.set_now(TimerTarget::Queue(queue.id.index), &mut queue.timer_us, self.now_us);
            }
            self.rooms.update(queue);
        }
        if (!queue.throttled.is_empty() || queue.throttle_at_bytes > THROTTLE_BYTES) && queue.memory_bytes() < THROTTLE_BYTES / 2 {
            queue.throttle_at_bytes = THROTTLE_BYTES;
            for slot in std::mem::take(&mut queue.throttled) {
                self.unpace(slot, fx);
            }
        }
        let Some(queue) = find(&mut self.queues, id) else { return };
        if queue.full && queue.memory_bytes() < self.options.queue_bytes_max / 10 * QUEUE_RESUME_TENTHS {
            queue.full = false;
            self.tell_full(id, false, fx);
        }
    }

    /// A connection's output has room again, a channel's prefetch or flow allows more: its idle consumers take their turn.
    pub fn output_ready<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        let Some(Some(peer)) = self.tables.peers.get(slot as usize) else {
            return;
        };
        if peer.idle_consumers == 0 {
            return;
        }
        for at in 0..peer.channels.len() {
            if let Some(key) =
                self.tables.peers.get(slot as usize).and_then(|peer| peer.as_ref()).and_then(|peer| peer.channels[at])
            {
                self.wake_channel(key, fx);
            }
        }
        self.dispatch_due(fx);
    }

    /// Whether a connection is held back and has queues of its own: if its client has gone, nobody can empty them, and it would
    /// be held for ever.
    pub fn is_blocked_by_own_queues(&self, slot: ConnectionSlot) -> bool {
        let peer = self.tables.peers.get(slot as usize).and_then(|peer| peer.as_ref());
        peer.is_some_and(|peer| peer.owns_queues && (peer.blocked_by.is_some() || (self.memory_alarm && peer.has_published)))
    }

    /// A paced publisher's moment is over.
    pub fn end_throttle<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        let paced_by = self.peer_mut(slot).and_then(|peer| peer.throttled_by);
        if let Some(queue) = paced_by.and_then(|id| find(&mut self.queues, id)) {
            queue.throttled.retain(|&paced| paced != slot);
            let bytes = queue.memory_bytes();
            if bytes + THROTTLE_PROGRESS_BYTES_MIN > queue.throttled_at_bytes {
                queue.throttle_at_bytes = bytes + THROTTLE_BYTES;
            }
        }
        self.unpace(slot, fx);
    }

    /// A paced publisher may go on.
    pub(super) fn unpace<E: Effects>(&mut self, slot: ConnectionSlot, fx: &mut E) {
        if let Some(peer) = self.peer_mut(slot)
            && peer.throttled_by.take().is_some()
        {
            fx.resume(slot);
        }
    }

    pub(super) fn wake_channel<E: Effects>(&mut self, key: crate::channel::ChannelKey, fx: &mut E) {
        let Some(channel) = self.tables.channels.get(key) else {
            return;
        };
        if channel.idle_consumers == 0 {
            return;
        }
        for at in 0..channel.consumers.len() {
            let Some(&consumer) = self.tables.channels.get(key).and_then(|channel| channel.consumers.get(at)) else {
                return;
            };
            self.wake_consumer(consumer, fx);
        }
    }

    fn wake_consumer<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        let Some(consumer) = self.tables.consumers.get(key).filter(|consumer| consumer.idle) else {
            return;
        };
        if !self.tables.consumer_can_take(key, fx) {
            return;
        }
        let (home, queue, priority) = (consumer.home, consumer.queue, consumer.priority);
        self.tables.set_idle(key, false);
        if !self.is_home(home) {
            self.drain_parked(key, fx);
        } else if let Some(found) = find(&mut self.queues, queue) {
            found.activate(ConsumerRef::Local(key), priority);
            self.make_due(queue);
        }
    }

    /// A delivery from a queue on another shard.
    pub(super) fn arrive<E: Effects>(
        &mut self,
        key: ConsumerKey,
        place: QueuePosition,
        redelivered: bool,
        goods: Payload<'_>,
        fx: &mut E,
    ) {
        let Some(consumer) = self.tables.consumers.get(key) else {
            return;
        };
        if consumer.parked.is_empty() && self.tables.consumer_can_take(key, fx) {
            let bytes = goods.content().bytes();
            self.tables.deliver(key, place, redelivered, goods, fx);
            self.counters.delivered += 1;
            self.earn_credit(key, bytes, fx);
            return;
        }
        let message = goods.keep(fx.pool());
        self.tables.consumers[key].parked.push_back(ParkedDelivery { position: place, message, redelivered });
        self.tables.set_idle(key, true);
    }

    fn drain_parked<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        while self.tables.consumer_can_take(key, fx) {
            let Some(parked) = self.tables.consumers.get_mut(key).and_then(|consumer| consumer.parked.pop_front())
            else {
                return;
            };
            let bytes = parked.message.bytes();
            self.tables.deliver(key, parked.position, parked.redelivered, Payload::Kept(parked.message), fx);
            self.counters.delivered += 1;
            self.earn_credit(key, bytes, fx);
        }
        if self.tables.consumers.get(key).is_some_and(|consumer| !consumer.parked.is_empty()) {
            self.tables.set_idle(key, true);
        }
    }

    /// A delivery has left: its queue may send more, and is told in strides.
    #[inline]
    fn earn_credit<E: Effects>(&mut self, key: ConsumerKey, bytes: usize, fx: &mut E) {
        let Some(consumer) = self.tables.consumers.get_mut(key) else {
            return;
        };
        consumer.credit_due_bytes += bytes as i64;
        if consumer.no_ack || consumer.prefetch == 0 {
            consumer.credit_due_messages += 1;
        }
        if consumer.credit_due_messages >= consumer.window.div_ceil(2)
            || consumer.credit_due_bytes >= REMOTE_WINDOW_BYTES / 2
        {
            self.send_credit(key, fx);
        }
    }

    /// Tells a consumer's queue what it may send.
    pub(super) fn send_credit<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        let Some(consumer) = self.tables.consumers.get_mut(key) else {
            return;
        };
        let messages = std::mem::take(&mut consumer.credit_due_messages);
        let bytes = std::mem::take(&mut consumer.credit_due_bytes);
        if messages > 0 || bytes > 0 {
            fx.batch(consumer.home).push(ShardMessage::Credit { queue: consumer.queue, consumer: key, messages, bytes });
        }
    }

    /// Tells every shard that a queue is full, or no more.
    pub(super) fn tell_full<E: Effects>(&mut self, queue: QueueId, full: bool, fx: &mut E) {
        for shard in (0..self.options.shards).map(ShardId).filter(|&shard| shard != self.options.shard) {
            fx.batch(shard).push(ShardMessage::QueueFull { queue, full });
        }
        self.note_full(queue, full, fx);
    }

    pub(super) fn note_full<E: Effects>(&mut self, queue: QueueId, full: bool, fx: &mut E) {
        if full {
            self.full.insert(queue);
            return;
        }
        self.full.remove(&queue);
        for slot in 0..self.tables.peers.len() as u32 {
            if let Some(peer) = self.peer_mut(slot)
                && peer.blocked_by == Some(queue)
            {
                peer.blocked_by = None;
                self.tell_blocked(slot, fx);
            }
        }
    }
}

/// Hands a message to a consumer here or on another shard. Answers whether it is out under an acknowledgement.
#[inline]
fn hand<E: Effects>(
    tables: &mut Tables,
    queue: &mut Queue,
    taker: ConsumerRef,
    place: QueuePosition,
    redelivered: bool,
    source: DispatchSource<'_>,
    fx: &mut E,
) -> bool {
    match taker {
        ConsumerRef::Local(key) => {
            let owed = tables.consumers.get(key).is_some_and(|consumer| !consumer.no_ack);
            queue.unsettled += u64::from(owed);
            let goods = match source {
                DispatchSource::Kept(message) => Payload::Kept(message),
                DispatchSource::Passing { content, .. } if !owed => Payload::Passing(*content, None),
                DispatchSource::Passing { content, kept, last: true } if !queue.durable => {
                    Payload::Passing(*content, kept.take())
                }
                DispatchSource::Passing { content, kept, .. } => {
                    Payload::Passing(*content, Some(kept.get_or_insert_with(|| content.keep(fx.pool())).clone()))
                }
            };
            tables.deliver(key, place, redelivered, goods, fx);
            owed
        }
        ConsumerRef::Remote(key) => {
            let Some(remote) = tables.remotes.get_mut(key) else {
                return false;
            };
            let (shard, consumer, owed) = (remote.shard, remote.consumer, !remote.no_ack);
            queue.unsettled += u64::from(owed);
            let content = match &source {
                DispatchSource::Passing { content, .. } => **content,
                DispatchSource::Kept(message) => message.content(),
            };
            remote.credit_messages -= 1;
            remote.credit_bytes -= content.bytes() as i64;
            if !fx.batch(shard).push_deliver(&content, (consumer, queue.id, place), redelivered, owed) {
                let parcel = ShardPayload::Shared(match source {
                    DispatchSource::Passing { content, kept, .. } => {
                        kept.get_or_insert_with(|| content.keep(fx.pool())).clone()
                    }
                    DispatchSource::Kept(message) => message,
                });
                let queue = queue.id;
                fx.batch(shard).push(ShardMessage::Deliver {
                    consumer,
                    queue,
                    position: place,
                    redelivered,
                    owed,
                    payload: parcel,
                    messages: 1,
                });
            }
            owed
        }
    }
}

#[inline]
fn content_is_persistent(content: &Content<'_>) -> bool {
    wire::RawProperties::new(content.properties).is_persistent()
}
