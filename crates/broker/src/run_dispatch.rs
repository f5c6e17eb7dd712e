//! Dispatch of runs: how many messages that are alike the consumers of their queues take at once, and their delivery.
//!
//! First every queue is asked how many it would pass on, and nothing changes. Then each of them gets all of the run, so that the
//! consumers' state and outputs are touched once for a run and not once for a message.

use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::ids::{ConsumerKey, ConsumerRef, QueuePosition};
use crate::limits::SHARED_BODY_BYTES_MIN;
use crate::message::{BodyRef, Content, Message};
use crate::run_lists::RunLists;
use catalog::{QueueId, RoutedQueue};
use slab::Pool;
use wire::BodyRun;

impl Dispatcher {
    /// Delivers messages that are alike to the only consumer of each of their queues, which all are of this shard. Returns how
    /// many: those behind them are to be looked at one by one. None are delivered where a message would do anything else than
    /// pass through its queue. What the store has of them is in `run_lists.appends`.
    pub fn deliver_run<E: Effects>(
        &mut self,
        queues: &[RoutedQueue],
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) -> usize {
        let mut lists = std::mem::take(&mut self.run_lists);
        lists.appends.clear();
        let most = self.plan_run(queues, content, bodies, &mut lists.consumers, fx);
        if let Some(bodies) = bodies.take(most) {
            for (at, queue) in queues.iter().enumerate() {
                let is_last = at + 1 == queues.len();
                self.pass_run((queue.id, lists.consumers[at]), content, bodies, &mut lists, is_last, fx);
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
        // The store has the body of a message of several queues once, if they get it behind one another.
        let may_be_shared = queues.len() > 1 && content.is_persistent();
        let work_each = queues.len() * work_of(content);
        let mut most = bodies.len().min(self.work.room_for(work_each));
        self.channels.run_outputs.begin();
        for queue in queues {
            if most == 0 || !self.identity.is_home(queue.home) {
                return 0;
            }
            let Some(consumer) = self.only_consumer(queue.id, content) else { return 0 };
            if may_be_shared && self.is_appended(queue.id, consumer) {
                return 0;
            }
            // Where queues share a connection, their messages alternate.
            most = self.channels.accepted_of_run(consumer, content, most, fx);
            consumers.push(consumer);
        }
        most
    }

    /// The consumer that gets every message of this kind from a queue in which none waits.
    #[inline]
    fn only_consumer(&self, id: QueueId, content: &Content<'_>) -> Option<ConsumerKey> {
        let queue = self.queues.table.get(id)?;
        if !queue.ready.is_empty() {
            return None;
        }
        // What a queue does with messages that wait does not matter here.
        if let Some(features) = &queue.features
            && (features.is_federated || features.refuses(&queue.ready, content))
        {
            return None;
        }
        match queue.consumers.only_active()? {
            ConsumerRef::Local(key) => Some(key),
            ConsumerRef::Remote(_) => None,
        }
    }

    /// Whether the store gets the persistent messages that a queue passes to a consumer.
    #[inline]
    fn is_appended(&self, id: QueueId, consumer: ConsumerKey) -> bool {
        self.queues.table.get(id).is_some_and(|queue| queue.uid.is_some())
            && self.channels.consumer(consumer).is_some_and(|consumer| !consumer.no_ack)
    }

    /// Passes a run through a queue, to a consumer that accepts all of it.
    fn pass_run<E: Effects>(
        &mut self,
        (id, consumer): (QueueId, ConsumerKey),
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        lists: &mut RunLists,
        is_last: bool,
        fx: &mut E,
    ) {
        let Some(queue) = self.queues.table.get_mut(id) else { return };
        let messages = bodies.len();
        self.work.draw(messages * work_of(content));
        let level = queue.features.as_ref().map_or(0, |features| features.level(content));
        let first = queue.ready.bypass(level, messages);
        queue.stats.publish += messages as u64;
        queue.note_change(&mut self.queues.changes);
        let ack_required = self.channels.consumer(consumer).is_some_and(|consumer| !consumer.no_ack);
        queue.count_deliveries(ack_required, messages, bodies.body_bytes());
        if ack_required && lists.kept.is_empty() {
            keep_all(content, bodies, &mut lists.kept, fx.pool());
        }
        if let Some(uid) = queue.uid.filter(|_| ack_required && content.is_persistent()) {
            let positions = (first.0..).map(QueuePosition);
            let appended = positions.zip(&lists.kept).map(|(at, message)| fx.append(uid, at, message.clone()));
            lists.appends.extend(appended);
            fx.mark_delivered(uid, first, messages as u32);
        }
        self.channels.deliver_run(consumer, first, content, bodies, (&mut lists.kept, is_last), fx);
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
