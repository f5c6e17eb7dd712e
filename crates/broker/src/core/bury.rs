//! Dead letters: what queues give up goes where they say.
//!
//! Enters: messages that expired, were rejected, or had no room.  Leaves: the same messages in other queues, here or elsewhere.
//! Owns:   the list of dead letters that are still to be routed, so that none is routed within another.
//! Never:  tells anybody that a dead letter found no queue: like RabbitMQ, it is dropped.

use super::{Broker, find};
use crate::death::{Dead, Reason};
use crate::effects::Effects;
use crate::message::{Content, Message};
use crate::queue::Queue;
use crate::ready::Place;
use catalog::{Overflow, QueueId};
use std::collections::VecDeque;
use std::sync::Arc;

/// A message has left its queue and no consumer got it.
pub(super) fn give_up<E: Effects>(
    queue: &mut Queue,
    place: Place,
    message: Message,
    reason: Reason,
    dead: &mut VecDeque<Dead>,
    fx: &mut E,
) {
    if queue.durable {
        fx.forget(queue.id, place);
    }
    if let Some(features) = &mut queue.features {
        features.is_done(place);
    }
    if let Some(grave) = queue.grave() {
        dead.push_back(Dead { message, reason, grave: Arc::clone(grave) });
    }
}

/// The messages for which a queue has no room go, the next first. Answers whether any did.
#[inline]
pub(super) fn make_room<E: Effects>(
    queue: &mut Queue,
    waiting: &mut usize,
    dead: &mut VecDeque<Dead>,
    fx: &mut E,
) -> bool {
    let mut any = false;
    while queue.features.as_ref().is_some_and(|features| features.overflows(&queue.ready))
        && let Some(taken) = queue.ready.pop()
    {
        *waiting -= 1;
        any = true;
        give_up(queue, taken.place, taken.message, Reason::MaxLength, dead, fx);
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
            && let Some(grave) = &features.grave
        {
            let message = kept.get_or_insert_with(|| content.keep(fx.pool())).clone();
            self.dead.push_back(Dead { message, reason: Reason::MaxLength, grave: Arc::clone(grave) });
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
        if let Some(grave) = find(&mut self.queues, id).and_then(|queue| queue.grave()) {
            let message = kept.get_or_insert_with(|| content.keep(fx.pool())).clone();
            self.dead.push_back(Dead { message, reason: Reason::Expired, grave: Arc::clone(grave) });
        }
    }

    /// A consumer does not want a message of a queue of this shard.
    pub(super) fn rejected_at_home<E: Effects>(&mut self, id: QueueId, place: Place, message: Message, fx: &mut E) {
        let Some(queue) = find(&mut self.queues, id) else {
            return;
        };
        queue.unsettled -= 1;
        give_up(queue, place, message, Reason::Rejected, &mut self.dead, fx);
    }

    /// Routes a dead letter.
    pub(super) fn bury<E: Effects>(&mut self, dead: &Dead, fx: &mut E) {
        let grave = &*dead.grave;
        let Some(exchange) = self.catalog.exchange(grave.vhost, &grave.exchange) else {
            return;
        };
        let mut properties = std::mem::take(&mut self.properties);
        properties.clear();
        let now_s = self.options.epoch_unix_s + self.now_us / 1_000_000;
        let deaths = dead.properties(now_s, &mut self.last_death, &mut properties);
        let content = dead.message.content();
        let content = Content {
            exchange: &grave.exchange,
            routing_key: grave.routing_key.as_deref().unwrap_or(content.routing_key),
            properties: &properties,
            body: content.body,
            // A key of the queue's takes the place of all others.
            blind: if grave.routing_key.is_none() { content.blind } else { &[] },
            arrived_us: self.now_us,
        };
        let route = self.route_again(exchange, &content);
        if !route.held.is_empty() && !self.hold(&route, &content, fx) {
            self.counters.unroutable += 1;
        }
        let mut kept = None;
        // The publisher at hand, if any, outruns nobody by this.
        let outrun = self.outrun.take();
        for queue in &route.queues {
            let name = self.catalog.queue_definition(queue.id).map(|definition| &*definition.name);
            if name.is_none_or(|name| dead.is_cycle(&deaths, name)) {
                continue;
            }
            if self.is_home(queue.home) {
                let _taken = self.offer(queue.id, &content, &mut kept, false, fx);
            } else {
                self.send_abroad(queue.home, std::iter::once(queue.id), &content, &mut kept, None, fx);
            }
        }
        self.outrun = outrun;
        self.properties = properties;
    }
}
