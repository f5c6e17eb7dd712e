//! Dead letters: what queues gave up is routed to the exchanges that they name.
//!
//! A dead letter that finds no queue is dropped, as in RabbitMQ.

use crate::carbon_copies::{continue_search, search_again};
use crate::death_history::{CachedDeadLetterRoute, DeadLetter, DeathHistory, DeathHistoryWriter};
use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::forwarder::{Forwarder, send_publish};
use crate::ids::ShardIdentity;
use crate::limits::{DEAD_LETTER_PROPERTIES_BYTES_MAX, DEAD_LETTER_PROPERTIES_BYTES_PER_WORK, DEAD_LETTER_WORK};
use crate::message::Content;
use crate::pending_dead_letters::DeadLetterGroup;
use crate::work_budget::WorkBudget;
use catalog::{Catalog, KeyedRoute, QueueRoute, RouteDependence};
use std::sync::Arc;

/// Routes dead letters.
pub(crate) struct DeadLetterRouter {
    identity: ShardIdentity,
    /// Seconds from 1970 to the moment from which the dispatcher's time counts.
    epoch_unix_s: u64,
    /// Bytes of a dead letter's properties.
    pub properties_bytes_max: usize,
    /// Letters without room for their history.
    pub dropped: u64,
    /// The search for the queues of the next letter, begun in an earlier turn.
    search: Option<Box<KeyedRoute>>,
    writer: Option<Box<DeathHistoryWriter>>,
}

impl DeadLetterRouter {
    pub fn new(identity: ShardIdentity, epoch_unix_s: u64) -> Self {
        let properties_bytes_max = DEAD_LETTER_PROPERTIES_BYTES_MAX;
        DeadLetterRouter { identity, epoch_unix_s, properties_bytes_max, dropped: 0, search: None, writer: None }
    }

    /// Routes the dead letters of a group, which are the next of those pending, as far as the budget of the turn allows. Counts
    /// the rest in the group.
    pub fn route_group<E: Effects>(
        &mut self,
        group: &mut DeadLetterGroup,
        dispatcher: &mut Dispatcher,
        forwarder: &mut Forwarder,
        catalog: &mut Catalog,
        fx: &mut E,
    ) {
        let mut writer = self.writer.take().unwrap_or_default();
        let now_us = dispatcher.now_us;
        let now_s = self.epoch_unix_s + now_us / 1_000_000;
        let version = catalog.version();
        // Dead letters throttle a publisher only if it publishes nothing else: it looks at `slow_dead_letter_queue`.
        let slow_queue = dispatcher.flow.slow_queue.take();
        while group.messages > 0 {
            let Some(message) = dispatcher.queues.housekeeping.dead_letters.next() else { break };
            group.messages -= 1;
            let dead_letter = DeadLetter { message: &message, reason: group.reason, target: &group.target };
            let first = match writer.write(dead_letter, now_s, self.properties_bytes_max) {
                DeathHistory::First => true,
                DeathHistory::Continued => false,
                DeathHistory::Full => {
                    self.dropped += 1;
                    dispatcher.work.draw(DEAD_LETTER_WORK);
                    continue;
                }
            };
            // Only a message that has died before, or has further keys, can have another route than the one before it.
            let plain = first && content(dead_letter, &writer, now_us).bcc.is_empty();
            let looked_up = if plain && writer.cached_route(version).is_some() {
                None
            } else {
                match self.look_up(dead_letter, plain, &mut writer, now_us, catalog, &mut dispatcher.work) {
                    Ok(route) => route,
                    Err(search) => {
                        // The search goes on in another turn, with the same letter.
                        self.search = Some(search);
                        group.messages += 1;
                        dispatcher.queues.housekeeping.dead_letters.put_back(message);
                        break;
                    }
                }
            };
            if let Some(route) = looked_up.as_deref().or(writer.cached_route(version).filter(|_| plain)) {
                let content = content(dead_letter, &writer, now_us);
                let work = DEAD_LETTER_WORK + content.properties.len() / DEAD_LETTER_PROPERTIES_BYTES_PER_WORK;
                dispatcher.work.draw(work);
                self.forward(dead_letter, route, content, first, (dispatcher, forwarder), catalog, fx);
            }
            if dispatcher.queues.housekeeping.dead_letters.has_caused() || dispatcher.work.is_spent() {
                break;
            }
        }
        dispatcher.flow.slow_dead_letter_queue = std::mem::replace(&mut dispatcher.flow.slow_queue, slow_queue);
        self.writer = Some(writer);
    }

    /// Looks up the queues of a dead letter; the route is cached for the next if the letter is `plain`. Returns the search where
    /// the budget of the turn is spent before it has ended.
    fn look_up(
        &mut self,
        dead_letter: DeadLetter<'_>,
        plain: bool,
        writer: &mut DeathHistoryWriter,
        now_us: u64,
        catalog: &mut Catalog,
        work: &mut WorkBudget,
    ) -> Result<Option<Arc<QueueRoute>>, Box<KeyedRoute>> {
        let content = content(dead_letter, writer, now_us);
        let exchange = catalog.exchange(dead_letter.target.vhost, &dead_letter.target.exchange);
        let search = self.search.take().or_else(|| search_again(exchange?, &content).map(Box::new));
        if let Some(mut search) = search {
            return match continue_search(&mut search, content.properties(), catalog, work) {
                Some(route) => Ok(Some(route)),
                None => Err(search),
            };
        }
        let Some(exchange) = exchange else { return Ok(None) };
        let route = catalog.route(exchange, content.routing_key, content.properties());
        work.draw(catalog.take_work() as usize);
        if plain {
            let cached = CachedDeadLetterRoute { version: catalog.version(), route: Arc::clone(&route) };
            writer.cache_route((route.decided == RouteDependence::ByKey).then_some(cached));
        }
        Ok(Some(route))
    }

    /// Forwards a dead letter to its queues, but those that it would reach in a cycle, and to the exchanges that delay it.
    #[expect(clippy::too_many_arguments, reason = "a dead letter, its route, and where it goes")]
    fn forward<E: Effects>(
        &self,
        dead_letter: DeadLetter<'_>,
        route: &QueueRoute,
        content: Content<'_>,
        first: bool,
        (dispatcher, forwarder): (&mut Dispatcher, &mut Forwarder),
        catalog: &Catalog,
        fx: &mut E,
    ) {
        let stamped;
        let mut content = content;
        if route.stamped
            && let Some(changed) = forwarder.stamps.stamp(content.properties())
        {
            stamped = changed;
            content.properties = &stamped;
        }
        if !route.held.is_empty() && !forwarder.delay(route, &content, dispatcher, catalog, fx) {
            forwarder.unroutable += 1;
        }
        let earlier = (!first).then(|| content.properties());
        let mut kept = None;
        let count = route.queues.len();
        for (at, queue) in route.queues.iter().enumerate() {
            let name = catalog.queue_definition(queue.id).map(|definition| &*definition.name);
            if name.is_none_or(|name| dead_letter.is_cycle(earlier, name)) {
                continue;
            }
            if self.identity.is_home(queue.home) {
                let _enqueued = dispatcher.enqueue_or_deliver(queue.id, &content, &mut kept, at + 1 == count, fx);
            } else {
                send_publish(queue.home, std::iter::once(queue.id), &content, &mut kept, false, fx);
            }
        }
    }
}

/// The message that a dead letter goes on as.
#[inline]
fn content<'a>(dead_letter: DeadLetter<'a>, writer: &'a DeathHistoryWriter, now_us: u64) -> Content<'a> {
    let target = &**dead_letter.target;
    let content = dead_letter.message.content();
    Content {
        exchange: &target.exchange,
        routing_key: target.routing_key.as_deref().unwrap_or(content.routing_key),
        properties: writer.properties(),
        // The queue's routing key replaces all keys of the message.
        bcc: if target.routing_key.is_none() { content.bcc } else { &[] },
        arrived_us: now_us,
        ..content
    }
}
