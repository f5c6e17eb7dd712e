//! Dead letters: what queues give up goes where they say.
//!
//! Enters: messages that expired, were rejected, or had no room.  Leaves: the same messages in other queues, here or elsewhere.
//! Owns:   the list of dead letters that are still to be routed, so that none is routed within another.
//! Never:  tells anybody that a dead letter found no queue: like RabbitMQ, it is dropped.

use super::settle::counted;
use super::{Broker, find};
use crate::pending_dead_letters::{PendingDeadLetters, DeadLetterGroup};
use crate::death_history::{DeadLetter, DeathHistoryWriter, DeadLetterReason, CachedDeadLetterRoute};
use crate::effects::Effects;
use crate::message::{Content, Message};
use crate::queue::Queue;
use crate::ready_messages::QueuePosition;
use catalog::{Decided, Overflow, QueueId, Route};
use std::sync::Arc;

/// A message has left its queue and no consumer got it.
pub(super) fn give_up<E: Effects>(
    queue: &mut Queue,
    place: QueuePosition,
    message: Message,
    reason: DeadLetterReason,
    dead: &mut PendingDeadLetters,
    fx: &mut E,
) {
    if queue.durable {
        fx.forget(queue.id, place);
    }
    let came_back = queue.features.as_mut().is_some_and(|features| features.forget_returns(place));
    if let Some(grave) = queue.dead_letter_target() {
        let says_so = came_back || reason == DeadLetterReason::DeliveryLimit;
        let message = if says_so { counted(&message, None, fx.pool()) } else { message };
        dead.push(grave, reason, message);
    }
}

/// The messages for which a queue has no room go, the next first. Answers whether any did.
#[inline]
pub(super) fn make_room<E: Effects>(
    queue: &mut Queue,
    waiting: &mut usize,
    dead: &mut PendingDeadLetters,
    fx: &mut E,
) -> bool {
    let mut any = false;
    while queue.features.as_ref().is_some_and(|features| features.overflows(&queue.ready))
        && let Some(taken) = queue.ready.pop()
    {
        *waiting -= 1;
        any = true;
        give_up(queue, taken.position, taken.message, DeadLetterReason::MaxLength, dead, fx);
    }
    any
}

impl Broker {
    /// A queue has no room for a message, and refuses it.
    #[cold]
    pub(super) fn decline<E: Effects>(
        &mut self,
        id: QueueId,
        content: &Content<'_>,
        kept: &mut Option<Message>,
        fx: &mut E,
    ) {
        let Some(features) = find(&mut self.queues, id).and_then(|queue| queue.features.as_ref()) else { return };
        if features.overflow == Overflow::RejectToDeadLetters
            && let Some(grave) = &features.dead_letter_target
        {
            let message = kept.get_or_insert_with(|| content.keep(fx.pool())).clone();
            self.dead.push(grave, DeadLetterReason::MaxLength, message);
        }
    }

    /// A message whose time is over before it waited: nobody could take it at once.
    #[cold]
    pub(super) fn expire_at_once<E: Effects>(
        &mut self,
        id: QueueId,
        content: &Content<'_>,
        kept: &mut Option<Message>,
        fx: &mut E,
    ) {
        if let Some(grave) = find(&mut self.queues, id).and_then(|queue| queue.dead_letter_target()) {
            let message = kept.get_or_insert_with(|| content.keep(fx.pool())).clone();
            self.dead.push(grave, DeadLetterReason::Expired, message);
        }
    }

    /// A consumer does not want a message of a queue of this shard.
    pub(super) fn rejected_at_home<E: Effects>(&mut self, id: QueueId, place: QueuePosition, message: Message, fx: &mut E) {
        let Some(queue) = find(&mut self.queues, id) else {
            return;
        };
        queue.unsettled -= 1;
        give_up(queue, place, message, DeadLetterReason::Rejected, &mut self.dead, fx);
    }

    /// Routes the dead letters of a run.
    pub(super) fn bury<E: Effects>(&mut self, run: &DeadLetterGroup, fx: &mut E) {
        let mut last = self.last_death.take().unwrap_or_default();
        let now_s = self.options.epoch_unix_s + self.now_us / 1_000_000;
        let version = self.catalog.version();
        // Only what is published at this moment gives its publisher's pace away; `publish` looks at this.
        let outrun = self.outrun.take();
        for _ in 0..run.messages {
            let Some(message) = self.dead.next() else { break };
            let dead = DeadLetter { message: &message, reason: run.reason, target: &run.target };
            let first = last.write(dead, now_s);
            // Only a message that has died before, or has further keys, can go another way than the one before it.
            let plain = first && letter(dead, &last, self.now_us).bcc.is_empty();
            let looked_up =
                if plain && last.cached_route(version).is_some() { None } else { self.route_letter(dead, plain, &mut last) };
            if let Some(route) = looked_up.as_deref().or(last.cached_route(version).filter(|_| plain)) {
                self.deliver_letter(dead, route, &last, first, fx);
            }
        }
        self.outrun_by_letters = std::mem::replace(&mut self.outrun, outrun);
        self.last_death = Some(last);
    }

    /// The queues for a dead letter, looked up; remembered for the next if it is `plain`.
    fn route_letter(&mut self, dead: DeadLetter<'_>, plain: bool, last: &mut DeathHistoryWriter) -> Option<Arc<Route>> {
        let exchange = self.catalog.exchange(dead.target.vhost, &dead.target.exchange)?;
        let route = self.route_again(exchange, &letter(dead, last, self.now_us));
        if plain {
            let version = self.catalog.version();
            last.cache_route((route.decided == Decided::ByKey).then(|| CachedDeadLetterRoute { version, route: Arc::clone(&route) }));
        }
        Some(route)
    }

    /// Hands a routed dead letter to its queues, and to the exchanges that delay it.
    fn deliver_letter<E: Effects>(&mut self, dead: DeadLetter<'_>, route: &Route, last: &DeathHistoryWriter, first: bool, fx: &mut E) {
        let mut content = letter(dead, last, self.now_us);
        let stamped;
        if route.stamped
            && let Some(changed) = self.stamp(content.properties())
        {
            stamped = changed;
            content.properties = &stamped;
        }
        if !route.held.is_empty() && !self.hold(route, &content, fx) {
            self.counters.unroutable += 1;
        }
        let earlier = (!first).then(|| content.properties());
        let mut kept = None;
        let count = route.queues.len();
        for (at, queue) in route.queues.iter().enumerate() {
            let name = self.catalog.queue_definition(queue.id).map(|definition| &*definition.name);
            if name.is_none_or(|name| dead.is_cycle(earlier, name)) {
                continue;
            }
            if self.is_home(queue.home) {
                let _taken = self.offer(queue.id, &content, &mut kept, at + 1 == count, fx);
            } else {
                self.send_abroad(queue.home, std::iter::once(queue.id), &content, &mut kept, None, fx);
            }
        }
    }
}

/// What goes on of a message that has died.
#[inline]
fn letter<'a>(dead: DeadLetter<'a>, last: &'a DeathHistoryWriter, now_us: u64) -> Content<'a> {
    let grave = &**dead.target;
    let content = dead.message.content();
    Content {
        exchange: &grave.exchange,
        routing_key: grave.routing_key.as_deref().unwrap_or(content.routing_key),
        properties: last.properties(),
        // A key of the queue's takes the place of all others.
        bcc: if grave.routing_key.is_none() { content.bcc } else { &[] },
        arrived_us: now_us,
        ..content
    }
}
