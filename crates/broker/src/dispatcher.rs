//! Dispatch: which consumer gets the next message of a queue, and what a settlement or a woken consumer makes possible.
//!
//! Messages of a queue leave it for a consumer here and nowhere else.

use crate::channels::Channels;
use crate::deferred_work::DeferredWork;
use crate::effects::Effects;
use crate::flow_control::FlowControl;
use crate::ids::{ChannelKey, ConnectionSlot, ShardIdentity};
use crate::limits::{CONSUMER_REMOVAL_WORK, CONSUMERS_ASKED_BEYOND_MAX, DEAD_LETTER_THROTTLE_US};
use crate::payload::{DispatchSource, Payload};
use crate::queue_demand::QueueDemand;
use crate::run_lists::RunLists;
use crate::sessions::Sessions;
use crate::shard_message::{ShardMessage, ShardPayload};
use catalog::QueueId;
use queues::{
    AppendResult, ConsumerAnswer, ConsumerKey, ConsumerRef, Content, Message, Pager, Queue, QueueEntry, QueuePosition,
    Queues, RemoteConsumerKey, RemoteConsumers, WorkBudget,
};
use slab::Pool;

/// What a queue did with a new message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EnqueueResult {
    /// The queue or a consumer has it, or it expired at once.
    Accepted(AppendResult),
    /// The queue has no capacity.
    Refused,
    /// The queue is closed: what is in the store of the message stays there.
    Closed,
}

/// The consumer that gets the next message of a queue.
#[derive(Clone, Copy)]
enum NextConsumer {
    Local { key: ConsumerKey, ack_required: bool },
    Remote(RemoteConsumerKey),
}

/// What became of a message that has left its queue for a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DispatchResult {
    /// A consumer of this shard has it, and sends no acknowledgement.
    Taken,
    /// An acknowledgement is required.
    Unsettled,
    /// It is on its way to a consumer of another shard that sends no acknowledgement. It may return.
    Sent,
}

/// Queues, consumers, and the flow control between them.
pub(crate) struct Dispatcher {
    pub(crate) identity: ShardIdentity,
    pub queues: Queues,
    pub channels: Channels,
    pub remotes: RemoteConsumers,
    pub flow: FlowControl,
    pub demand: QueueDemand,
    /// The work of the turn at hand.
    pub work: WorkBudget,
    /// Microseconds since a moment that is the same for all shards.
    pub now_us: u64,
    pub run_lists: RunLists,
}

impl Dispatcher {
    pub fn new(identity: ShardIdentity, queue_bytes_max: u64, work_per_turn: u32) -> Self {
        Dispatcher {
            identity,
            queues: Queues::default(),
            channels: Channels::new(identity.shard),
            remotes: RemoteConsumers::default(),
            flow: FlowControl::new(identity, queue_bytes_max),
            demand: QueueDemand::new(identity),
            work: WorkBudget::new(work_per_turn),
            now_us: 0,
            run_lists: RunLists::default(),
        }
    }

    /// What paging touches.
    pub fn pager(&mut self) -> Pager<'_> {
        Pager { queues: &mut self.queues, work: &mut self.work, now_us: self.now_us }
    }

    /// Delivers a new message of a queue of this shard, or lets it wait. `kept` is the message once somebody had to keep it;
    /// `last`: no other queue will want it.
    #[inline]
    pub fn enqueue_or_deliver<E: Effects>(
        &mut self,
        id: QueueId,
        content: &Content<'_>,
        kept: &mut Option<Message>,
        last: bool,
        fx: &mut E,
    ) -> EnqueueResult {
        let Some(queue) = self.queues.table.get_mut(id) else {
            return EnqueueResult::Accepted(AppendResult::Durable);
        };
        self.work.draw(1);
        let uid = queue.uid.filter(|_| content.is_persistent());
        let (mut level, mut has_upstreams) = (0, false);
        if let Some(features) = &queue.features {
            if features.refuses(&queue.ready, content) {
                if features.is_closed {
                    return EnqueueResult::Closed;
                }
                self.queues.refuse(id, content, kept, fx);
                return EnqueueResult::Refused;
            }
            level = features.level(content);
            has_upstreams = features.is_federated;
        }
        let is_next = queue.ready.is_empty();
        let mut consumer = None;
        if is_next {
            consumer = next_consumer(queue, &mut self.channels, &mut self.remotes, &mut self.work, fx);
            if consumer.is_none() && queue.consumers.has_active() && queue.keeps_nothing(content) {
                consumer = later_consumer(queue, &mut self.channels, &mut self.remotes, &mut self.work, fx);
            }
        }
        if let Some(consumer) = consumer {
            self.work.draw(content.copying_work());
            let position = queue.ready.bypass(level, 1);
            let source = DispatchSource::Passing { content, kept, last };
            let (channels, remotes) = (&mut self.channels, &mut self.remotes);
            queue.stats.publish += 1;
            queue.note_change(&mut self.queues.changes);
            let result = deliver_or_send(channels, remotes, queue, consumer, position, false, source, fx);
            if has_upstreams {
                self.review_demand(id, fx);
            }
            if let Some(uid) = uid.filter(|_| result != DispatchResult::Taken) {
                let message = keep(content, kept, last, fx.pool());
                let append = fx.append(uid, position, message);
                fx.mark_delivered(uid, position, 1);
                return EnqueueResult::Accepted(append);
            }
            return EnqueueResult::Accepted(AppendResult::Durable);
        }
        queue.stats.publish += 1;
        queue.note_change(&mut self.queues.changes);
        let time_to_live_us = queue.time_to_live_us(content);
        if time_to_live_us == Some(0) && queue.ready.is_empty() {
            return EnqueueResult::Accepted(self.queues.expire_at_once(id, content, level, kept, fx));
        }
        let message = keep(content, kept, last, fx.pool());
        let append = match uid {
            Some(uid) => fx.append(uid, queue.ready.next_position(level), message.clone()),
            None => AppendResult::Durable,
        };
        self.queues.housekeeping.note_waiting(&message);
        queue.ready.push(level, message);
        // More consumers are looked at in another turn.
        let mut more = is_next && queue.consumers.has_active();
        if time_to_live_us.is_some() || queue.features.is_some() {
            let expires = time_to_live_us.is_some();
            more |= self.queues.housekeeping.after_push(queue, level, expires, &mut self.work, fx);
        }
        self.flow.after_push(queue, &self.channels, self.now_us, fx);
        let has_pages = queue.ready.has_pages();
        if more {
            self.queues.mark_due(id);
        }
        if has_upstreams {
            self.review_demand(id, fx);
        }
        if has_pages || self.queues.housekeeping.exceeds_memory() {
            self.pager().after_push(id, level, fx);
        }
        EnqueueResult::Accepted(append)
    }

    /// Delivers what waits in a queue, as far as its consumers accept it.
    pub fn dispatch<E: Effects>(&mut self, id: QueueId, sessions: &mut Sessions, fx: &mut E) {
        self.work.draw(1);
        let Some(queue) = self.queues.table.get_mut(id) else { return };
        queue.due = false;
        queue.note_change(&mut self.queues.changes);
        let has_upstreams = queue.has_upstreams();
        if queue.is_closed() {
            return;
        }
        let housekeeping = &mut self.queues.housekeeping;
        if queue.expiring && self.flow.holds_expired(queue, self.now_us) {
            return housekeeping.postpone(queue, self.now_us + DEAD_LETTER_THROTTLE_US);
        }
        let keeps_expired = queue.expiring && housekeeping.keeps_expired(queue, self.now_us);
        let (mut checks, mut more, mut interrupted) = (0, false, false);
        loop {
            // What waits behind that stays, too.
            if keeps_expired {
                break;
            }
            // The rest has a turn once others had theirs.
            if self.work.is_spent() {
                interrupted = true;
                break;
            }
            if queue.expiring && housekeeping.drop_expired(queue, self.now_us, &mut checks, fx) {
                more = true;
                break;
            }
            if !queue.ready.has_head() {
                break;
            }
            let next = next_consumer(queue, &mut self.channels, &mut self.remotes, &mut self.work, fx);
            let Some(consumer) = next else {
                interrupted = queue.consumers.has_active();
                break;
            };
            let Some(QueueEntry { position, message, redelivered }) = queue.ready.pop() else { break };
            housekeeping.note_taken(&message);
            self.work.draw(1 + message.content().copying_work());
            let uid = queue.uid.filter(|_| message.is_persistent());
            let source = DispatchSource::Kept(message);
            let (channels, remotes) = (&mut self.channels, &mut self.remotes);
            let result = deliver_or_send(channels, remotes, queue, consumer, position, redelivered, source, fx);
            if result != DispatchResult::Unsettled
                && let Some(features) = &mut queue.features
            {
                features.forget_returns(position);
            }
            match uid {
                Some(uid) if result == DispatchResult::Taken => fx.forget(uid, position, 1),
                // One that returns was marked when it was delivered first.
                Some(uid) if !redelivered => fx.mark_delivered(uid, position, 1),
                _ => {}
            }
        }
        if queue.expiring || queue.features.is_some() {
            self.work.draw(checks);
            interrupted |= housekeeping.after_dispatch(queue, more, self.now_us, &mut self.work, fx);
        }
        self.flow.after_dispatch(queue, sessions, &mut self.work, fx);
        if queue.ready.has_pages() {
            housekeeping.ask_for_pages(queue, self.now_us, fx);
        }
        if housekeeping.paging.has_gets() && !queue.ready.awaits_page() {
            sessions.deferred.leave_gets(id, housekeeping.paging.take_gets(id));
        }
        if interrupted {
            self.queues.mark_due(id);
        }
        if has_upstreams {
            self.review_demand(id, fx);
        }
    }

    /// A connection has capacity again: the consumers that waited for it get deliveries, channel by channel.
    #[inline]
    pub fn wake_connection<E: Effects>(&mut self, slot: ConnectionSlot, sessions: &mut Sessions, fx: &mut E) {
        for _ in 0..self.channels.awaiting_output_len(slot) {
            if !fx.has_capacity(slot) {
                return;
            }
            if let Some(key) = self.channels.next_awaiting_output(slot) {
                self.wake_channel(key, sessions, fx);
            }
        }
    }

    /// A channel may accept more deliveries. Those that have waited longest get them: each has its turn before the next is woken.
    #[inline]
    pub fn wake_channel<E: Effects>(&mut self, key: ChannelKey, sessions: &mut Sessions, fx: &mut E) {
        self.wake_settled(sessions, fx);
        while let Some(consumer) = self.channels.next_waiting(key, fx) {
            self.wake_consumer(consumer, sessions, fx);
            if self.work.is_spent() {
                return self.defer_wake(key, sessions);
            }
        }
    }

    /// Consumers whose own prefetch counts allow deliveries again get them, as far as the budget of the turn allows. The others have
    /// other turns ([`Broker::has_deferred`](crate::Broker::has_deferred)).
    #[inline]
    pub fn wake_settled<E: Effects>(&mut self, sessions: &mut Sessions, fx: &mut E) {
        while let Some(consumer) = self.channels.next_settled() {
            self.wake_consumer(consumer, sessions, fx);
            if self.work.is_spent() {
                return;
            }
        }
    }

    /// A consumer of this shard is gone: its parked deliveries return to its queue.
    pub fn drop_from_channel<E: Effects>(&mut self, key: ConsumerKey, fx: &mut E) {
        self.work.draw(self.channels.remove_consumer(key, fx));
    }

    /// More consumers of a channel are woken in another turn.
    #[cold]
    fn defer_wake(&mut self, key: ChannelKey, sessions: &mut Sessions) {
        if let Some(channel) = self.channels.get_mut(key)
            && !channel.waiting.is_empty()
            && !std::mem::replace(&mut channel.wake_deferred, true)
        {
            sessions.defer(channel.slot, DeferredWork::Wake { channel: key });
        }
    }

    fn wake_consumer<E: Effects>(&mut self, key: ConsumerKey, sessions: &mut Sessions, fx: &mut E) {
        self.work.draw(1);
        let Some(consumer) = self.channels.end_wait(key) else { return };
        let (home, queue, priority) = (consumer.home, consumer.queue, consumer.priority);
        if !self.channels.accepts(key, fx) {
            self.channels.await_capacity(key, fx);
        } else if self.identity.is_home(home) {
            self.queues.activate(queue, ConsumerRef::Local(key), priority);
            self.dispatch(queue, sessions, fx);
        } else {
            self.work.draw(self.channels.deliver_parked(key, fx));
        }
    }

    /// Removes a consumer from a queue of this shard; where one at a time is served, the next takes over. Returns whether the
    /// queue is to be deleted, as it was the last consumer of an auto-delete queue.
    pub fn remove_consumer(&mut self, id: QueueId, consumer: ConsumerRef) -> bool {
        let Some(queue) = self.queues.table.get_mut(id) else { return false };
        self.work.draw(CONSUMER_REMOVAL_WORK);
        let Some(removed) = queue.consumers.remove(consumer) else { return false };
        queue.note_change(&mut self.queues.changes);
        if queue.has_upstreams() {
            self.queues.mark_due(id);
        }
        let Some(queue) = self.queues.table.get_mut(id) else { return false };
        if queue.consumers.is_empty() {
            let auto_delete = queue.auto_delete;
            self.queues.note_use(id, self.now_us);
            return auto_delete;
        }
        if let Some(next) = queue.successor(removed) {
            let priority = match next {
                ConsumerRef::Local(key) => self.channels.consumer(key).map(|consumer| consumer.priority),
                ConsumerRef::Remote(key) => self.remotes.get(key).map(|remote| remote.priority),
            };
            self.queues.activate(id, next, priority.unwrap_or(0));
        }
        false
    }
}

/// The message, for another holder; the last one takes `kept` itself.
#[inline]
fn keep(content: &Content<'_>, kept: &mut Option<Message>, last: bool, pool: &Pool) -> Message {
    match (kept.as_ref(), last) {
        (Some(message), false) => message.clone(),
        (None, false) => kept.insert(content.keep(pool)).clone(),
        (_, true) => kept.take().unwrap_or_else(|| content.keep(pool)),
    }
}

/// The consumer of a queue whose turn it is. Those that accept nothing now are idle until they are woken. If the budget of the turn
/// is spent before one accepts, the others stay in the rotation.
#[inline]
fn next_consumer<E: Effects>(
    queue: &mut Queue,
    channels: &mut Channels,
    remotes: &mut RemoteConsumers,
    work: &mut WorkBudget,
    fx: &E,
) -> Option<NextConsumer> {
    let mut ack_required = false;
    let consumer = queue.consumers.next(|consumer| {
        let accepts = match consumer {
            ConsumerRef::Local(key) => match channels.accepting(key, fx) {
                Some(consumer) => {
                    ack_required = !consumer.no_ack;
                    true
                }
                None => {
                    channels.await_capacity(key, fx);
                    false
                }
            },
            ConsumerRef::Remote(key) => remotes.accepts(key),
        };
        if accepts {
            return ConsumerAnswer::Accepts;
        }
        work.draw(1);
        if work.is_spent() { ConsumerAnswer::LastIdle } else { ConsumerAnswer::Idle }
    })?;
    Some(match consumer {
        ConsumerRef::Local(key) => NextConsumer::Local { key, ack_required },
        ConsumerRef::Remote(key) => NextConsumer::Remote(key),
    })
}

/// The next consumer of a queue that loses the message if nobody takes it now: some more are asked although the budget is spent,
/// with all queues of a turn together.
#[cold]
fn later_consumer<E: Effects>(
    queue: &mut Queue,
    channels: &mut Channels,
    remotes: &mut RemoteConsumers,
    work: &mut WorkBudget,
    fx: &E,
) -> Option<NextConsumer> {
    // One for each call, as the budget is spent.
    while work.allow_exception(CONSUMERS_ASKED_BEYOND_MAX) {
        let consumer = next_consumer(queue, channels, remotes, work, fx);
        if consumer.is_some() || !queue.consumers.has_active() {
            return consumer;
        }
    }
    None
}

/// Delivers a message to a consumer of this shard, or sends it to the shard of its consumer.
#[inline]
#[expect(clippy::too_many_arguments, reason = "a delivery names its queue, its consumer, its position and its message")]
fn deliver_or_send<E: Effects>(
    channels: &mut Channels,
    remotes: &mut RemoteConsumers,
    queue: &mut Queue,
    consumer: NextConsumer,
    position: QueuePosition,
    redelivered: bool,
    source: DispatchSource<'_>,
    fx: &mut E,
) -> DispatchResult {
    channels.delivered += 1;
    if redelivered {
        queue.stats.redeliver += 1;
    }
    match consumer {
        NextConsumer::Local { key, ack_required } => {
            let body_bytes = match &source {
                DispatchSource::Kept(message) => message.body_bytes(),
                DispatchSource::Passing { content, .. } => content.body.len(),
            };
            queue.count_delivery(ack_required, body_bytes);
            let payload = match source {
                DispatchSource::Kept(message) => Payload::Kept(message),
                DispatchSource::Passing { content, .. } if !ack_required => Payload::Passing(*content, None),
                DispatchSource::Passing { content, kept, last: true } if queue.uid.is_none() => {
                    Payload::Passing(*content, kept.take())
                }
                DispatchSource::Passing { content, kept, .. } => {
                    Payload::Passing(*content, Some(kept.get_or_insert_with(|| content.keep(fx.pool())).clone()))
                }
            };
            channels.deliver(key, position, redelivered, payload, fx);
            if ack_required { DispatchResult::Unsettled } else { DispatchResult::Taken }
        }
        NextConsumer::Remote(key) => {
            let content = match &source {
                DispatchSource::Passing { content, .. } => **content,
                DispatchSource::Kept(message) => message.content(),
            };
            let Some(remote) = remotes.draw_credit(key, 1, content.bytes() as i64) else { return DispatchResult::Sent };
            let (shard, consumer, ack_required) = (remote.shard, remote.consumer, !remote.no_ack);
            queue.count_delivery(ack_required, content.body.len());
            let queue = queue.id;
            if !fx.batch(shard).push_deliver(&content, (consumer, queue, position), redelivered, ack_required) {
                let payload = ShardPayload::Shared(match source {
                    DispatchSource::Passing { content, kept, .. } => {
                        kept.get_or_insert_with(|| content.keep(fx.pool())).clone()
                    }
                    DispatchSource::Kept(message) => message,
                });
                fx.batch(shard).push(ShardMessage::Deliver {
                    consumer,
                    queue,
                    position,
                    redelivered,
                    ack_required,
                    payload,
                    messages: 1,
                });
            }
            if ack_required { DispatchResult::Unsettled } else { DispatchResult::Sent }
        }
    }
}
