//! Dispatch of runs: how many messages that are alike the consumers of their queues take at once, and their delivery.
//!
//! First every queue is asked how many it would pass on, and nothing changes. Then each of them gets all of the run, so that the
//! consumers' state and outputs are touched once for a run and not once for a message.

use crate::dispatcher::{Dispatcher, is_persistent};
use crate::effects::Effects;
use crate::ids::{ConsumerKey, ConsumerRef};
use crate::limits::SHARED_BODY_BYTES_MIN;
use crate::message::{BodyRef, Content, Message};
use catalog::{QueueId, RoutedQueue};
use slab::Pool;
use wire::BodyRun;

impl Dispatcher {
    /// Delivers messages that are alike to the only consumer of each of their queues, which all are of this shard. Returns how
    /// many: those behind them are to be looked at one by one. None are delivered where a message would do anything else than
    /// pass through its queue.
    pub fn deliver_run<E: Effects>(
        &mut self,
        queues: &[RoutedQueue],
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) -> usize {
        let mut lists = std::mem::take(&mut self.run_lists);
        let most = self.plan_run(queues, content, bodies, &mut lists.consumers, fx);
        if let Some(bodies) = bodies.take(most) {
            for (at, (queue, &consumer)) in queues.iter().zip(&lists.consumers).enumerate() {
                let is_last = at + 1 == queues.len();
                self.pass_run(queue.id, consumer, content, bodies, (&mut lists.kept, is_last), fx);
            }
        }
        lists.consumers.clear();
        lists.kept.clear();
        self.run_lists = lists;
        most
    }

    /// How many of the messages all queues pass on, each to the consumer that is noted for it.
    fn plan_run<E: Effects>(
        &mut self,
        queues: &[RoutedQueue],
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        consumers: &mut Vec<ConsumerKey>,
        fx: &E,
    ) -> usize {
        // What goes to several is shared from this size on.
        if queues.len() > 1 && bodies.body_bytes() >= SHARED_BODY_BYTES_MIN {
            return 0;
        }
        let work_each = queues.len() * work_of(content);
        let mut most = bodies.len().min(self.work.room_for(work_each));
        self.channels.run_outputs.begin();
        for queue in queues {
            if most == 0 || !self.identity.is_home(queue.home) {
                return 0;
            }
            let Some(consumer) = self.only_consumer(queue.id, content) else { return 0 };
            // Where queues share a connection, their messages alternate.
            most = self.channels.accepted_of_run(consumer, content, most, fx);
            consumers.push(consumer);
        }
        most
    }

    /// The consumer that gets every message of this kind from a queue in which none waits and which does nothing but queueing.
    #[inline]
    fn only_consumer(&self, id: QueueId, content: &Content<'_>) -> Option<ConsumerKey> {
        let queue = self.queues.table.get(id)?;
        let is_stored = queue.uid.is_some() && is_persistent(content);
        if is_stored || queue.features.is_some() || !queue.ready.is_empty() {
            return None;
        }
        match queue.consumers.only_active()? {
            ConsumerRef::Local(key) => Some(key),
            ConsumerRef::Remote(_) => None,
        }
    }

    /// Passes a run through a queue, to a consumer that accepts all of it.
    fn pass_run<E: Effects>(
        &mut self,
        id: QueueId,
        consumer: ConsumerKey,
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        (kept, is_last): (&mut Vec<Message>, bool),
        fx: &mut E,
    ) {
        let Some(queue) = self.queues.table.get_mut(id) else { return };
        let messages = bodies.len();
        self.work.draw(messages * work_of(content));
        let position = queue.ready.bypass(0, messages);
        queue.stats.publish += messages as u64;
        queue.note_change(&mut self.queues.changes);
        let ack_required = self.channels.consumer(consumer).is_some_and(|consumer| !consumer.no_ack);
        queue.count_deliveries(ack_required, messages, bodies.body_bytes());
        if ack_required && kept.is_empty() {
            keep_all(content, bodies, kept, fx.pool());
        }
        self.channels.deliver_run(consumer, position, content, bodies, (kept, is_last), fx);
    }
}

/// Units of work of a message in one queue: as many as one that comes alone draws.
#[inline]
fn work_of(content: &Content<'_>) -> usize {
    1 + content.copying_work()
}

#[inline]
fn keep_all(content: &Content<'_>, bodies: BodyRun<'_>, kept: &mut Vec<Message>, pool: &Pool) {
    kept.extend(bodies.iter().map(|body| Content { body: BodyRef::Small(body), ..*content }.keep(pool)));
}
