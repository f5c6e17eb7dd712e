//! Dead letters: what queues gave up is routed to the exchanges that they name.
//!
//! A dead letter that finds no queue is dropped, as in RabbitMQ. What the store has of a message is forgotten once its letter is
//! in its queues, on other shards durably: a crash may leave both, and never neither.
//!
//! While memory is short, letters that several queues would get wait: one of these takes what the message took before, and each
//! further one takes more.

use crate::confirms::{PublisherConfirms, SourceKey};
use crate::dispatcher::{Dispatcher, EnqueueResult};
use crate::effects::Effects;
use crate::forwarder::{Forwarder, RoutePart};
use crate::limits::{DEAD_LETTER_PROPERTIES_BYTES_MAX, DEAD_LETTER_RUN_BYTES_KEPT, DEAD_LETTER_RUN_BYTES_MAX};
use crate::run_lists::RunTerms;
use catalog::{Catalog, KeyedRoute, QueueRoute, RouteDependence, RoutedQueue};
use queues::carbon_copies::{continue_search, find_again};
use queues::limits::PROPERTIES_BYTES_PER_WORK;
use queues::{
    BodyRef, CachedDeadLetterRoute, Content, DeadLetter, DeadLetterGroup, DeadLetterReason, DeadLetterTarget,
    DeathHistory, DeathHistoryWriter, Message, SettledRun, StoredPosition, WorkBudget,
};
use std::ops::ControlFlow;
use std::sync::Arc;
use wire::BodyRun;

/// A dead letter of which some queues have not got it yet.
struct UnfinishedLetter {
    target: Arc<DeadLetterTarget>,
    reason: DeadLetterReason,
    /// The message had not died before.
    first: bool,
    /// The message that it goes on as.
    message: Message,
    route: Arc<QueueRoute>,
    /// The queues from this index on have not got it.
    next: usize,
    /// The message in the store that it comes from.
    source: Option<SourceKey>,
}

/// Where dead letters go.
pub(crate) struct DeadLetterPaths<'a> {
    pub dispatcher: &'a mut Dispatcher,
    pub forwarder: &'a mut Forwarder,
    pub confirms: &'a mut PublisherConfirms,
}

/// Routes dead letters.
pub(crate) struct DeadLetterRouter {
    /// Seconds from 1970 to the moment from which the dispatcher's time counts.
    epoch_unix_s: u64,
    /// Bytes of a dead letter's properties.
    pub properties_bytes_max: usize,
    /// Letters without room for their history.
    pub dropped: u64,
    /// The search for the queues of the next letter, begun in an earlier turn.
    search: Option<Box<KeyedRoute>>,
    /// The letter that an earlier turn has left between two of its queues.
    unfinished: Option<Box<UnfinishedLetter>>,
    writer: Option<Box<DeathHistoryWriter>>,
    /// The bodies of a run of letters, one behind another.
    bodies: Vec<u8>,
}

impl DeadLetterRouter {
    pub fn new(epoch_unix_s: u64) -> Self {
        let properties_bytes_max = DEAD_LETTER_PROPERTIES_BYTES_MAX;
        DeadLetterRouter {
            epoch_unix_s,
            properties_bytes_max,
            dropped: 0,
            search: None,
            unfinished: None,
            writer: None,
            bodies: Vec::new(),
        }
    }

    /// Routes the dead letters of a group, which are the next of those pending, as far as the budget of the turn allows. Counts
    /// the rest in the group.
    pub fn route_group<E: Effects>(
        &mut self,
        group: &mut DeadLetterGroup,
        paths: &mut DeadLetterPaths<'_>,
        catalog: &mut Catalog,
        fx: &mut E,
    ) {
        let mut writer = self.writer.take().unwrap_or_default();
        let now_us = paths.dispatcher.now_us;
        let now_s = self.epoch_unix_s + now_us / 1_000_000;
        let version = catalog.version();
        // Dead letters throttle a publisher only if it publishes nothing else: it looks at `slow_dead_letter_queue`.
        let slow_queue = paths.dispatcher.flow.slow_queue.take();
        while group.messages > 0 {
            let dispatcher = &mut *paths.dispatcher;
            let next = dispatcher.queues.housekeeping.dead_letters.next(group.is_stored);
            let Some((message, source)) = next else { break };
            group.messages -= 1;
            if dispatcher.queues.housekeeping.dead_letters.is_held(group) {
                if hold(group, message, source, dispatcher).is_break() {
                    break;
                }
                continue;
            }
            let dead_letter = DeadLetter { message: &message, reason: group.reason, target: &group.target };
            let history = writer.write(dead_letter, now_s, self.properties_bytes_max);
            let first = history == DeathHistory::First;
            // Only a message that has died before, or has further keys, can have another route than the one before it.
            let plain = first && content(dead_letter, &writer, now_us).bcc.is_empty();
            let looked_up = if history == DeathHistory::Full {
                self.dropped += 1;
                None
            } else if plain && writer.cached_route(version).is_some() {
                None
            } else {
                match self.look_up(dead_letter, plain, &mut writer, now_us, catalog, &mut dispatcher.work) {
                    Ok(route) => route,
                    Err(search) => {
                        // The search goes on in another turn, with the same letter.
                        self.search = Some(search);
                        group.messages += 1;
                        dispatcher.queues.housekeeping.dead_letters.put_back(message, source);
                        break;
                    }
                }
            };
            // Also of a letter that nothing gets: its headers were read.
            dispatcher.work.draw(writer.work());
            if let Some(route) = looked_up.as_ref().or(writer.cached_route(version).filter(|_| plain)) {
                if dispatcher.queues.housekeeping.dead_letters.is_holding() && route.queues.len() > 1 {
                    if hold(group, message, source, dispatcher).is_break() {
                        break;
                    }
                    continue;
                }
                let content = content(dead_letter, &writer, now_us);
                let source = source.map(|source| paths.confirms.hold_source(source));
                self.forward(dead_letter, route, content, first, source, paths, catalog, fx);
            } else {
                forget(source, fx);
            }
            let has_caused = paths.dispatcher.queues.housekeeping.dead_letters.has_caused();
            if !has_caused && plain && writer.serves_repeats() {
                self.route_repeats(group, &message, &writer, paths, catalog, fx);
            }
            // The letter of a search that an earlier turn has begun ends its turn: others have theirs.
            let has_ended = paths.dispatcher.queues.housekeeping.dead_letters.turn_has_ended();
            if has_caused || has_ended || paths.dispatcher.work.is_spent() {
                break;
            }
        }
        let flow = &mut paths.dispatcher.flow;
        flow.slow_dead_letter_queue = std::mem::replace(&mut flow.slow_queue, slow_queue);
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
        let (route, holds) = match self.search.take() {
            Some(mut search) => match continue_search(&mut search, content.properties(), catalog, work) {
                Some(route) => (route, search.holds_at(catalog.version())),
                None => return Err(search),
            },
            None => {
                let exchange = catalog.exchange(dead_letter.target.vhost, &dead_letter.target.exchange);
                let Some(exchange) = exchange else { return Ok(None) };
                (find_again(exchange, &content, catalog, work)?, true)
            }
        };
        if plain {
            let cached = CachedDeadLetterRoute { version: catalog.version(), route: Arc::clone(&route) };
            writer.cache_route((route.decided == RouteDependence::ByKey && holds).then_some(cached));
        }
        Ok(Some(route))
    }

    /// Routes the letters behind one that was just routed which differ from it in their bodies alone: as many as consumers take at
    /// once. The others are routed one by one.
    fn route_repeats<E: Effects>(
        &mut self,
        group: &mut DeadLetterGroup,
        letter: &Message,
        writer: &DeathHistoryWriter,
        paths: &mut DeadLetterPaths<'_>,
        catalog: &Catalog,
        fx: &mut E,
    ) {
        let dispatcher = &mut *paths.dispatcher;
        let Some(route) = writer.cached_route(catalog.version()) else { return };
        let dead_letter = DeadLetter { message: letter, reason: group.reason, target: &group.target };
        let content = content(dead_letter, writer, dispatcher.now_us);
        let body_bytes = content.body.len();
        let most = group.messages.min(DEAD_LETTER_RUN_BYTES_MAX.checked_div(body_bytes).unwrap_or_default());
        let pending = &dispatcher.queues.housekeeping.dead_letters;
        if most == 0 || !pending.following().next().is_some_and(|next| next.repeats(letter)) {
            return;
        }
        if route.stamped
            || !route.held.is_empty()
            || !route.queues.iter().all(|queue| dispatcher.identity.is_home(queue.home))
        {
            return;
        }
        let is_cycle = |queue: &RoutedQueue| {
            let definition = catalog.queue_definition(queue.id);
            definition.is_none_or(|definition| dead_letter.is_cycle(None, &definition.name))
        };
        if route.queues.iter().any(is_cycle) {
            return;
        }
        let queues = route.queues.iter().map(|queue| queue.id);
        // What a letter causes goes before the letters behind it.
        let terms = RunTerms { more_work: writer.work(), may_drop: false };
        let most = dispatcher.plan_run(queues.clone(), &content, most, terms, fx);
        let pending = &mut dispatcher.queues.housekeeping.dead_letters;
        self.bodies.clear();
        let mut count = 0;
        for next in pending.following().take(most).take_while(|next| next.repeats(letter)) {
            let BodyRef::Small(body) = next.content().body else { break };
            self.bodies.extend_from_slice(body);
            count += 1;
        }
        if count == 0 {
            return;
        }
        let mut done = SettledRun::default();
        let bodies = BodyRun::new(&self.bodies, body_bytes, 0, body_bytes);
        dispatcher.work.draw(count * writer.work());
        dispatcher.deliver_planned(queues, &content, bodies, fx);
        self.bodies.clear();
        self.bodies.shrink_to(DEAD_LETTER_RUN_BYTES_KEPT);
        group.messages -= count;
        let pending = &mut dispatcher.queues.housekeeping.dead_letters;
        pending.drop_following(count, group.is_stored, |source| done.push(source, 1, fx));
        done.forget(fx);
    }

    /// Forwards a dead letter to its queues, but those that it would reach in a cycle, and to the exchanges that delay it.
    #[expect(clippy::too_many_arguments, reason = "a dead letter, its route, and where it goes")]
    fn forward<E: Effects>(
        &mut self,
        dead_letter: DeadLetter<'_>,
        route: &Arc<QueueRoute>,
        content: Content<'_>,
        first: bool,
        source: Option<SourceKey>,
        paths: &mut DeadLetterPaths<'_>,
        catalog: &Catalog,
        fx: &mut E,
    ) {
        let stamped;
        let mut content = content;
        if route.stamped
            && let Some(changed) = paths.forwarder.stamps.stamp(content.properties())
        {
            stamped = changed;
            content.properties = &stamped;
        }
        if !route.held.is_empty()
            && paths.forwarder.delay(route, &content, paths.dispatcher, catalog, fx) == EnqueueResult::Refused
        {
            paths.forwarder.unroutable += 1;
        }
        let mut kept = None;
        let next = forward_from((0, source), dead_letter, route, &content, first, &mut kept, paths, catalog, fx);
        if let Some(next) = next {
            let DeadLetter { target, reason, .. } = dead_letter;
            let message = kept.unwrap_or_else(|| content.keep(fx.pool()));
            let (target, route) = (Arc::clone(target), Arc::clone(route));
            self.unfinished = Some(Box::new(UnfinishedLetter { target, reason, first, message, route, next, source }));
            paths.dispatcher.queues.housekeeping.dead_letters.suspend();
        } else if let Some(source) = source {
            paths.confirms.release_source(source, fx);
        }
    }

    /// Whether a letter is between two of its queues: it is finished before others are routed.
    #[inline]
    pub fn has_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Goes on with the letter that an earlier turn has left between two of its queues.
    #[cold]
    pub fn finish_letter<E: Effects>(&mut self, paths: &mut DeadLetterPaths<'_>, catalog: &Catalog, fx: &mut E) {
        let Some(mut letter) = self.unfinished.take() else { return };
        let slow_queue = paths.dispatcher.flow.slow_queue.take();
        paths.dispatcher.queues.housekeeping.dead_letters.resume();
        let dead_letter = DeadLetter { message: &letter.message, reason: letter.reason, target: &letter.target };
        let (content, mut kept) = (letter.message.content(), Some(letter.message.clone()));
        let from = (letter.next, letter.source);
        let next =
            forward_from(from, dead_letter, &letter.route, &content, letter.first, &mut kept, paths, catalog, fx);
        let dead_letters = &mut paths.dispatcher.queues.housekeeping.dead_letters;
        if let Some(next) = next {
            letter.next = next;
            self.unfinished = Some(letter);
            dead_letters.suspend();
        } else if let Some(source) = letter.source {
            paths.confirms.release_source(source, fx);
        }
        dead_letters.end_letter();
        let flow = &mut paths.dispatcher.flow;
        flow.slow_dead_letter_queue = std::mem::replace(&mut flow.slow_queue, slow_queue);
    }
}

/// Adds a dead letter to its queues from the one at an index on, but to those that it would reach in a cycle. Returns the index of
/// those that the budget of the turn leaves.
#[expect(clippy::too_many_arguments, reason = "a dead letter, its route, and where it goes")]
fn forward_from<E: Effects>(
    (from, source): (usize, Option<SourceKey>),
    dead_letter: DeadLetter<'_>,
    route: &QueueRoute,
    content: &Content<'_>,
    first: bool,
    kept: &mut Option<Message>,
    paths: &mut DeadLetterPaths<'_>,
    catalog: &Catalog,
    fx: &mut E,
) -> Option<usize> {
    let earlier = (!first).then(|| content.properties());
    let is_wanted = |queue: &RoutedQueue| {
        let name = catalog.queue_definition(queue.id).map(|definition| &*definition.name);
        name.is_some_and(|name| !dead_letter.is_cycle(earlier, name))
    };
    // Its deaths are looked through for each queue.
    let work_each = if first { 0 } else { content.properties.len() / PROPERTIES_BYTES_PER_WORK };
    let part = RoutePart { queues: &route.queues, from, is_wanted, work_each, source };
    let DeadLetterPaths { dispatcher, forwarder, confirms } = paths;
    forwarder.forward_part(&part, content, kept, (dispatcher, confirms), fx)
}

/// A dead letter waits until there is memory for what its queues would take. Breaks off where the budget of the turn is spent.
#[cold]
fn hold(
    group: &mut DeadLetterGroup,
    message: Message,
    source: Option<StoredPosition>,
    dispatcher: &mut Dispatcher,
) -> ControlFlow<()> {
    dispatcher.queues.housekeeping.dead_letters.hold(group, message, source);
    dispatcher.work.draw(1);
    if dispatcher.work.is_spent() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A dead letter is dropped: the store is done with the message that it comes from.
fn forget<E: Effects>(source: Option<StoredPosition>, fx: &mut E) {
    if let Some(StoredPosition { uid, position }) = source {
        fx.forget(uid, position, 1);
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
