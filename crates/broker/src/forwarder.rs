//! Forwarding: a routed message goes to its queues here, to the shards of its other queues, and to the exchanges that delay it.

use crate::confirms::{PublisherConfirms, SourceKey};
use crate::dispatcher::{Dispatcher, EnqueueResult};
use crate::effects::Effects;
use crate::ids::{PublishKey, ShardIdentity};
use crate::limits::{DELAYED_MESSAGES_MAX, DELAYED_PER_CHECK};
use crate::mail_tally::MailTally;
use crate::shard_message::{ShardMessage, ShardPayload};
use crate::stamps::MessageStamps;
use catalog::{Catalog, KeyedRoute, QueueId, QueueRoute, QueueUid, RoutedQueue, ShardId};
use queues::carbon_copies::{continue_search, find_again};
use queues::delayed_record::{delayed_uid, delaying_shard};
use queues::{
    AppendResult, BodyRef, Content, DelayedMessage, DelayedMessages, Message, QueuePosition, StoredPosition,
    TimerTarget, delayed_record, negate_delay,
};
use slab::Pool;
use std::sync::Arc;
use wire::RawProperties;

/// What became of a publish.
#[derive(Default)]
pub(crate) struct ForwardResult {
    /// Answers of other shards that it waits for.
    pub answers_awaited: u32,
    /// The last ticket of the store that it waits for.
    pub ticket: Option<u64>,
    /// A queue or a delaying exchange had no capacity.
    pub refused: bool,
    /// The message, if the budget of the turn is spent and its queues from this index on have not got it.
    pub rest: Option<(Message, usize)>,
}

/// The queues of a message of which nobody awaits anything.
pub(crate) struct RoutePart<'a, W> {
    pub queues: &'a [RoutedQueue],
    /// Those before this index have it.
    pub from: usize,
    /// Which of them get it.
    pub is_wanted: W,
    /// Units of work of finding out for one of them.
    pub work_each: usize,
    /// The message in the store that goes on as this one.
    pub source: Option<SourceKey>,
}

/// A message whose delay is over. The next has its turn once it is in its queues.
enum ReleasedMessage {
    Due(DelayedMessage),
    /// Its queues are being searched for.
    Searching {
        message: Message,
        search: Box<KeyedRoute>,
    },
    /// The queues from this index on have not got it.
    Routed {
        message: Message,
        route: Arc<QueueRoute>,
        next: usize,
    },
}

/// Forwards routed messages; holds those that exchanges delay.
pub(crate) struct Forwarder {
    identity: ShardIdentity,
    pub delayed: DelayedMessages,
    /// What the budget of a turn has left of the message whose delay was over.
    released: Option<(ReleasedMessage, Option<SourceKey>)>,
    pub stamps: MessageStamps,
    /// Messages that no queue took.
    pub unroutable: u64,
    pub mail_tally: MailTally,
}

impl Forwarder {
    pub fn new(identity: ShardIdentity) -> Self {
        Forwarder {
            identity,
            delayed: DelayedMessages::new(DELAYED_MESSAGES_MAX),
            released: None,
            stamps: MessageStamps::new(identity.shard),
            unroutable: 0,
            mail_tally: MailTally::default(),
        }
    }

    /// Forwards a publish whose route is not empty. `publish` names it if its channel awaits an answer.
    #[inline]
    pub fn forward<E: Effects>(
        &mut self,
        route: &QueueRoute,
        content: &Content<'_>,
        publish: Option<PublishKey>,
        (dispatcher, confirms): (&mut Dispatcher, &mut PublisherConfirms),
        catalog: &Catalog,
        fx: &mut E,
    ) -> ForwardResult {
        let mut kept: Option<Message> = None;
        let mut result = ForwardResult { answers_awaited: 0, ticket: None, rest: None, refused: false };
        if !route.held.is_empty() {
            result.note(self.delay(route, content, dispatcher, catalog, fx));
        }
        match &*route.queues {
            [] => {}
            [only] if !self.identity.is_home(only.home) => {
                self.mail_tally.note(only.home, 1, content.body.len());
                send_publish(only.home, std::iter::once(only.id), content, &mut kept, publish.is_some(), fx);
                result.await_shard(only.home, publish, confirms);
            }
            queues => {
                let count = queues.len();
                let body = content.share_body(fx.pool());
                let content = &Content { body: body.as_ref().map_or(content.body, BodyRef::Large), ..*content };
                let mut end = count;
                for (at, queue) in queues.iter().enumerate() {
                    if dispatcher.work.is_spent() && count - at > dispatcher.work.grace() {
                        end = at;
                        break;
                    }
                    if !self.identity.is_home(queue.home) {
                        dispatcher.work.draw(1);
                        continue;
                    }
                    let enqueued = dispatcher.enqueue_or_deliver(queue.id, content, &mut kept, at + 1 == count, fx);
                    result.note(enqueued);
                }
                if end < count {
                    result.rest = Some((kept.get_or_insert_with(|| content.keep(fx.pool())).clone(), end));
                }
                if self.identity.shards > 1 {
                    let confirm = publish.is_some();
                    self.send_to_others(&queues[..end], content, &mut kept, confirm, fx, |shard| {
                        result.await_shard(shard, publish, confirms);
                    });
                }
            }
        }
        result
    }

    /// Adds a publish to its queues from the one at an index on. Returns the index of those that are left for another turn.
    #[expect(clippy::too_many_arguments, reason = "a publish, its route, and what its channel awaits")]
    pub fn forward_rest<E: Effects>(
        &mut self,
        route: &QueueRoute,
        from: usize,
        message: &Message,
        publish: Option<PublishKey>,
        (dispatcher, confirms): (&mut Dispatcher, &mut PublisherConfirms),
        result: &mut ForwardResult,
        fx: &mut E,
    ) -> Option<usize> {
        let mut kept = Some(message.clone());
        let mut end = route.queues.len();
        for (at, queue) in route.queues.iter().enumerate().skip(from) {
            if dispatcher.work.is_spent() {
                end = at;
                break;
            }
            if !self.identity.is_home(queue.home) {
                dispatcher.work.draw(1);
                continue;
            }
            let enqueued = dispatcher.enqueue_or_deliver(queue.id, &message.content(), &mut kept, false, fx);
            result.note(enqueued);
        }
        if self.identity.shards > 1 {
            let queues = &route.queues[from..end];
            self.send_to_others(queues, &message.content(), &mut kept, publish.is_some(), fx, |shard| {
                result.await_shard(shard, publish, confirms);
            });
        }
        (end < route.queues.len()).then_some(end)
    }

    /// Sends a message to the shards of others of its queues.
    fn send_to_others<E: Effects>(
        &self,
        queues: &[RoutedQueue],
        content: &Content<'_>,
        kept: &mut Option<Message>,
        confirm: bool,
        fx: &mut E,
        mut on_sent: impl FnMut(ShardId),
    ) {
        for shard in self.identity.others() {
            let mut queues = queues.iter().filter(|queue| queue.home == shard).map(|queue| queue.id).peekable();
            if queues.peek().is_none() {
                continue;
            }
            send_publish(shard, queues, content, kept, confirm, fx);
            on_sent(shard);
        }
    }

    /// Holds a message in the exchanges of its route that delay it, if they have capacity.
    #[cold]
    pub fn delay<E: Effects>(
        &mut self,
        route: &QueueRoute,
        content: &Content<'_>,
        dispatcher: &mut Dispatcher,
        catalog: &Catalog,
        fx: &mut E,
    ) -> EnqueueResult {
        let delay_ms = catalog::delay_ms(content.properties()).unwrap_or_default();
        if !self.delayed.has_capacity(route.held.len()) {
            return EnqueueResult::Refused;
        }
        let at_us = dispatcher.now_us.saturating_add(u64::from(delay_ms) * 1_000);
        let properties = negate_delay(content.properties(), delay_ms);
        // Its time to live in queues begins when the delay is over.
        let message = Content { properties: &properties, arrived_us: at_us, ..*content }.keep(fx.pool());
        let is_stored = dispatcher.queues.has_store && message.is_persistent();
        let mut append = AppendResult::Durable;
        for exchange in route.held.iter().filter_map(|&id| catalog.exchange_info(id)) {
            let is_stored = is_stored && exchange.durable;
            let (vhost, exchange, message) = (exchange.vhost, exchange.name.clone(), message.clone());
            let delayed = DelayedMessage { vhost, exchange, message };
            let mut stored = None;
            if is_stored {
                let position = self.delayed.next_position;
                self.delayed.next_position = QueuePosition(position.0 + 1);
                let uid = delayed_uid(self.identity.shard);
                // The last ticket is durable after the others.
                append = fx.append(uid, position, delayed_record::record(&delayed, catalog, fx.pool()));
                stored = Some(StoredPosition { uid, position });
            }
            self.delayed.insert(at_us, delayed, stored);
        }
        let timers = &mut dispatcher.queues.housekeeping.timers;
        timers.set(TimerTarget::Delayed, &mut self.delayed.timer_us, at_us);
        EnqueueResult::Accepted(append)
    }

    /// Whether delayed messages with this number in the store are of this shard. If there are fewer shards than there were, each
    /// has those of several.
    pub fn delays(&self, uid: QueueUid) -> bool {
        delaying_shard(uid).is_some_and(|shard| self.identity.is_home(ShardId(shard.0 % self.identity.shards)))
    }

    /// A delayed message of an earlier life of the broker.
    pub fn restore_delayed(&mut self, stored: StoredPosition, record: &Message, catalog: &Catalog, pool: &Pool) {
        let delayed = delayed_record::delayed(record, catalog, pool);
        self.delayed.restore(record.arrived_us(), delayed, Some(stored));
    }

    /// The delayed messages with this number are restored; positions go on from one.
    pub fn finish_restore(&mut self, uid: QueueUid, next: &[QueuePosition], dispatcher: &mut Dispatcher) {
        if uid == delayed_uid(self.identity.shard) {
            self.delayed.next_position = next.iter().copied().fold(self.delayed.next_position, QueuePosition::max);
        }
        if let Some(at_us) = self.delayed.next() {
            let timers = &mut dispatcher.queues.housekeeping.timers;
            timers.set(TimerTarget::Delayed, &mut self.delayed.timer_us, at_us);
        }
    }

    /// Forwards the messages whose delay is over, as far as the budget of the turn allows.
    pub fn release_delayed<E: Effects>(
        &mut self,
        (dispatcher, confirms): (&mut Dispatcher, &mut PublisherConfirms),
        catalog: &mut Catalog,
        fx: &mut E,
    ) {
        self.delayed.timer_us = 0;
        for _ in 0..DELAYED_PER_CHECK {
            if dispatcher.work.is_spent() {
                break;
            }
            let due = self.released.take().or_else(|| {
                let (message, stored) = self.delayed.pop_due(dispatcher.now_us)?;
                Some((ReleasedMessage::Due(message), stored.map(|stored| confirms.hold_source(stored))))
            });
            let Some((released, source)) = due else { break };
            dispatcher.work.draw(1);
            let to = (&mut *dispatcher, &mut *confirms);
            match (self.forward_delayed(released, source, to, catalog, fx), source) {
                (Some(rest), source) => self.released = Some((rest, source)),
                (None, Some(source)) => confirms.release_source(source, fx),
                (None, None) => {}
            }
        }
        // These have no publisher to throttle.
        dispatcher.flow.slow_queue = None;
        let next_us = if self.released.is_some() { Some(0) } else { self.delayed.next() };
        if let Some(next_us) = next_us {
            let timers = &mut dispatcher.queues.housekeeping.timers;
            let next_us = next_us.max(dispatcher.now_us + 1);
            timers.set(TimerTarget::Delayed, &mut self.delayed.timer_us, next_us);
        }
    }

    /// Messages that are delayed, and the one whose delay is over and that is under way.
    pub fn delayed_len(&self) -> usize {
        self.delayed.count() + usize::from(self.released.is_some())
    }

    /// Routes a delayed message by what is defined now. Its exchange is looked up by name, as in RabbitMQ's plugin, so that one
    /// that was declared again routes what waited. Returns what the budget of the turn leaves.
    fn forward_delayed<E: Effects>(
        &mut self,
        released: ReleasedMessage,
        source: Option<SourceKey>,
        (dispatcher, confirms): (&mut Dispatcher, &mut PublisherConfirms),
        catalog: &mut Catalog,
        fx: &mut E,
    ) -> Option<ReleasedMessage> {
        let (message, route) = match released {
            ReleasedMessage::Routed { message, route, next } => {
                return self.forward_released((message, source), route, next, (dispatcher, confirms), fx);
            }
            ReleasedMessage::Searching { message, mut search } => {
                let properties = RawProperties::new(message.content().properties);
                match continue_search(&mut search, properties, catalog, &mut dispatcher.work) {
                    Some(route) => (message, route),
                    None => return Some(ReleasedMessage::Searching { message, search }),
                }
            }
            ReleasedMessage::Due(DelayedMessage { vhost, exchange, message }) => {
                let Some(exchange) = catalog.exchange(vhost, exchange.as_bytes()) else {
                    self.unroutable += 1;
                    return None;
                };
                match find_again(exchange, &message.content(), catalog, &mut dispatcher.work) {
                    Ok(route) => (message, route),
                    Err(search) => return Some(ReleasedMessage::Searching { message, search }),
                }
            }
        };
        if route.is_empty() {
            self.unroutable += 1;
            return None;
        }
        let mut message = message;
        if route.stamped
            && let Some(changed) = self.stamps.stamp(message.content().properties())
        {
            message = Content { properties: &changed, ..message.content() }.keep(fx.pool());
        }
        self.forward_released((message, source), route, 0, (dispatcher, confirms), fx)
    }

    /// Adds a message whose delay is over to its queues from the one at an index on.
    fn forward_released<E: Effects>(
        &mut self,
        (message, source): (Message, Option<SourceKey>),
        route: Arc<QueueRoute>,
        from: usize,
        (dispatcher, confirms): (&mut Dispatcher, &mut PublisherConfirms),
        fx: &mut E,
    ) -> Option<ReleasedMessage> {
        let is_wanted = |_: &RoutedQueue| true;
        let part = RoutePart { queues: &route.queues, from, is_wanted, work_each: 0, source };
        let mut kept = Some(message.clone());
        let next = self.forward_part(&part, &message.content(), &mut kept, (dispatcher, confirms), fx)?;
        Some(ReleasedMessage::Routed { message, route, next })
    }

    /// Adds a message of which no publisher awaits anything to queues, as far as the budget of the turn allows; one has it in any case.
    /// Returns the index of those that are left.
    pub fn forward_part<E: Effects, W: Fn(&RoutedQueue) -> bool>(
        &self,
        RoutePart { queues, from, is_wanted, work_each, source }: &RoutePart<'_, W>,
        content: &Content<'_>,
        kept: &mut Option<Message>,
        (dispatcher, confirms): (&mut Dispatcher, &mut PublisherConfirms),
        fx: &mut E,
    ) -> Option<usize> {
        let (count, mut end) = (queues.len(), queues.len());
        for (at, queue) in queues.iter().enumerate().skip(*from) {
            if dispatcher.work.is_spent() && at > *from && count - at > dispatcher.work.grace() {
                end = at;
                break;
            }
            dispatcher.work.draw(*work_each);
            if !self.identity.is_home(queue.home) {
                dispatcher.work.draw(1);
            } else if is_wanted(queue) {
                let enqueued = dispatcher.enqueue_or_deliver(queue.id, content, kept, at + 1 == count, fx);
                if let Some(source) = source.filter(|_| enqueued == EnqueueResult::Closed) {
                    confirms.keep_source(source);
                }
            }
        }
        if self.identity.shards > 1 {
            for shard in self.identity.others() {
                let there = queues[*from..end].iter().filter(|queue| queue.home == shard && is_wanted(queue));
                let mut there = there.map(|queue| queue.id).peekable();
                if there.peek().is_some() {
                    send_publish(shard, there, content, kept, source.is_some(), fx);
                    if let Some(source) = *source {
                        confirms.await_shard_for(shard, source);
                    }
                }
            }
        }
        (end < count).then_some(end)
    }
}

impl ForwardResult {
    /// Of a publish to one queue of this shard.
    pub fn of(enqueued: EnqueueResult) -> Self {
        let mut result = ForwardResult::default();
        result.note(enqueued);
        result
    }

    #[inline]
    fn note(&mut self, enqueued: EnqueueResult) {
        match enqueued {
            EnqueueResult::Refused | EnqueueResult::Closed => self.refused = true,
            // Tickets are durable in their order.
            EnqueueResult::Accepted(AppendResult::Pending(ticket)) => self.ticket = self.ticket.max(Some(ticket)),
            EnqueueResult::Accepted(AppendResult::Durable) => {}
        }
    }

    #[inline]
    fn await_shard(&mut self, shard: ShardId, publish: Option<PublishKey>, confirms: &mut PublisherConfirms) {
        if let Some(publish) = publish {
            confirms.await_shard(shard, publish);
            self.answers_awaited += 1;
        }
    }
}

/// Sends a message to queues of another shard. `confirm`: that shard is to accept or refuse it.
#[inline]
pub(crate) fn send_publish<E: Effects>(
    shard: ShardId,
    queues: impl Iterator<Item = QueueId> + Clone,
    content: &Content<'_>,
    kept: &mut Option<Message>,
    confirm: bool,
    fx: &mut E,
) {
    if !fx.batch(shard).push_publish(content, queues.clone(), confirm) {
        let payload = ShardPayload::Shared(kept.get_or_insert_with(|| content.keep(fx.pool())).clone());
        let batch = fx.batch(shard);
        let queues = batch.push_queues(queues);
        batch.push(ShardMessage::Publish { payload, messages: 1, queues, confirm });
    }
}

#[cfg(test)]
mod tests {
    use super::Forwarder;
    use crate::confirms::PublisherConfirms;
    use crate::dispatcher::Dispatcher;
    use crate::effects::Effects;
    use crate::ids::{PublishKey, ShardIdentity};
    use crate::test_effects::{RecordedEffects, queue_definition};
    use catalog::{Catalog, CatalogLimits, QueueId, QueueRoute, RouteDependence, RoutedQueue, ShardId};
    use queues::{BodyRef, Content};
    use wire::{Table, Value};

    #[test]
    fn a_publish_goes_to_queues_here_and_to_other_shards_whose_answers_it_awaits() {
        let identity = ShardIdentity { shard: ShardId(0), shards: 3 };
        let (mut dispatcher, mut confirms) = (Dispatcher::new(identity, 1 << 20, 1_000), PublisherConfirms::new(3));
        let (mut forwarder, mut fx) = (Forwarder::new(identity), RecordedEffects::default());
        let catalog = Catalog::new(CatalogLimits::default());
        let id = |index| QueueId { index, serial: 0 };
        let arguments = |max| {
            let overflow = Value::text("reject-publish");
            let table = Table::new().with("x-max-length", Value::I32(max));
            table.and_then(|table| table.with("x-overflow", overflow)).expect("short")
        };
        dispatcher.queues.create(id(0), &queue_definition("q", arguments(1)), false, 0);
        let queues = [(0, 0), (1, 2), (2, 2)].map(|(index, home)| RoutedQueue { id: id(index), home: ShardId(home) });
        let route =
            QueueRoute { queues: queues.into(), held: Box::default(), decided: RouteDependence::ByKey, stamped: false };
        let content = Content { body: BodyRef::Small(b"m"), ..Content::EMPTY };
        let publish = Some(PublishKey { channel: Default::default(), number: 1 });
        for refused in [false, true] {
            let to = (&mut dispatcher, &mut confirms);
            let result = forwarder.forward(&route, &content, publish, to, &catalog, &mut fx);
            assert_eq!((result.answers_awaited, result.refused, result.rest.is_none()), (1, refused, true));
        }
        assert_eq!((dispatcher.queues.housekeeping.waiting, confirms.awaiting_shards_len()), (1, 2));
        assert!(fx.batch(ShardId(1)).is_empty() && fx.batch(ShardId(2)).messages.len() == 1, "packed into one");
    }

    #[test]
    fn the_last_queues_of_a_publish_get_it_although_the_budget_is_spent() {
        let identity = ShardIdentity { shard: ShardId(0), shards: 1 };
        let catalog = Catalog::new(CatalogLimits::default());
        let content = Content { body: BodyRef::Small(b"m"), ..Content::EMPTY };
        for beyond in [0, 1] {
            let (mut dispatcher, mut confirms) = (Dispatcher::new(identity, 1 << 20, 1_000), PublisherConfirms::new(1));
            let (mut forwarder, mut fx) = (Forwarder::new(identity), RecordedEffects::default());
            let count = dispatcher.work.grace() + beyond;
            let id = |index| QueueId { index: index as u32, serial: 0 };
            for index in 0..count {
                dispatcher.queues.create(id(index), &queue_definition(&format!("q{index}"), Table::new()), false, 0);
            }
            let queues = (0..count).map(|index| RoutedQueue { id: id(index), home: identity.shard }).collect();
            let (held, decided) = (Box::default(), RouteDependence::ByKey);
            let route = QueueRoute { queues, held, decided, stamped: false };
            dispatcher.work.draw(1_000);
            let to = (&mut dispatcher, &mut confirms);
            let result = forwarder.forward(&route, &content, None, to, &catalog, &mut fx);
            assert_eq!(result.rest.map(|(_, next)| next), (beyond > 0).then_some(0), "{count} queues");
        }
    }
}
