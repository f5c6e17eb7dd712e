//! Dispatch of runs: how many messages that are alike the consumers of their queues take at once, and their delivery.
//!
//! First every queue is asked how many it would pass on, and nothing changes. Then each of them gets all of the run, so that the
//! consumers' state and outputs are touched once for a run and not once for a message.

use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::ids::ConsumerRef;
use crate::limits::{INLINE_BODY_BYTES_MAX, SHARED_BODY_BYTES_MIN};
use crate::message::Content;
use crate::run_lists::RunLists;
use catalog::QueueId;
use wire::BodyRun;

impl Dispatcher {
    /// Delivers messages that are alike to the only consumer of each of their queues, which are of this shard. Returns how many: those
    /// behind them are to be looked at one by one. None are delivered where a message would do anything else than pass through its
    /// queue. What the store says of them is in `run_lists.append`.
    pub fn deliver_run<E: Effects>(
        &mut self,
        queues: impl ExactSizeIterator<Item = QueueId> + Clone,
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) -> usize {
        let mut lists = std::mem::take(&mut self.run_lists);
        lists.append = None;
        let most = self.plan_run(queues.clone(), content, bodies, &mut lists.consumers, fx);
        if let Some(bodies) = bodies.take(most) {
            let count = queues.len();
            for (at, queue) in queues.enumerate() {
                let is_last = at + 1 == count;
                self.pass_run((queue, lists.consumers[at]), content, bodies, &mut lists, is_last, fx);
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
        queues: impl ExactSizeIterator<Item = QueueId>,
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        consumers: &mut Vec<ConsumerRef>,
        fx: &E,
    ) -> usize {
        // What goes to several is shared from this size on.
        if queues.len() > 1 && bodies.body_bytes() >= SHARED_BODY_BYTES_MIN {
            return 0;
        }
        // The store has the body of a message of several queues once, if they get it behind one another.
        let count = queues.len();
        let may_be_shared = count > 1 && content.is_persistent();
        let work_each = count * work_of(content);
        let mut most = bodies.len().min(self.work.room_for(work_each));
        self.channels.run_outputs.begin();
        for queue in queues {
            if most == 0 {
                return 0;
            }
            let Some(consumer) = self.only_consumer(queue, content) else { return 0 };
            if may_be_shared && self.is_appended(queue, consumer) {
                return 0;
            }
            // Where queues share a connection, their messages alternate: which one it is on another shard is not known here.
            most = match consumer {
                ConsumerRef::Local(key) => self.channels.accepted_of_run(key, content, most, fx),
                ConsumerRef::Remote(key) if count == 1 && bodies.body_bytes() <= INLINE_BODY_BYTES_MAX => {
                    self.remotes.accepted_of_run(key, content.bytes(), most)
                }
                ConsumerRef::Remote(_) => 0,
            };
            consumers.push(consumer);
        }
        most
    }

    /// The consumer that gets every message of this kind from a queue in which none waits.
    #[inline]
    fn only_consumer(&self, id: QueueId, content: &Content<'_>) -> Option<ConsumerRef> {
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
        queue.consumers.only_active()
    }

    /// Whether the store gets the persistent messages that a queue passes to a consumer.
    #[inline]
    fn is_appended(&self, id: QueueId, consumer: ConsumerRef) -> bool {
        self.queues.table.get(id).is_some_and(|queue| queue.uid.is_some()) && !self.takes_at_once(consumer)
    }

    /// Whether a consumer has what it is sent without an acknowledgement, and before anything else happens.
    #[inline]
    fn takes_at_once(&self, consumer: ConsumerRef) -> bool {
        match consumer {
            ConsumerRef::Local(key) => self.channels.consumer(key).is_none_or(|consumer| consumer.no_ack),
            // It may return.
            ConsumerRef::Remote(_) => false,
        }
    }

    /// Passes a run through a queue, to a consumer that accepts all of it.
    fn pass_run<E: Effects>(
        &mut self,
        (id, consumer): (QueueId, ConsumerRef),
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        lists: &mut RunLists,
        is_last: bool,
        fx: &mut E,
    ) {
        let takes_at_once = self.takes_at_once(consumer);
        let Some(queue) = self.queues.table.get_mut(id) else { return };
        let messages = bodies.len();
        self.work.draw(messages * work_of(content));
        let level = queue.features.as_ref().map_or(0, |features| features.level(content));
        let first = queue.ready.bypass(level, messages);
        queue.stats.publish += messages as u64;
        queue.note_change(&mut self.queues.changes);
        let ack_required = match consumer {
            ConsumerRef::Local(_) => !takes_at_once,
            ConsumerRef::Remote(key) => self.remotes.get(key).is_some_and(|remote| !remote.no_ack),
        };
        queue.count_deliveries(ack_required, messages, bodies.body_bytes());
        let uid = queue.uid.filter(|_| !takes_at_once && content.is_persistent());
        let is_kept = uid.is_some() || ack_required && matches!(consumer, ConsumerRef::Local(_));
        if is_kept && lists.kept.is_empty() {
            content.keep_all(bodies, &mut lists.kept, fx.pool());
        }
        if let Some(uid) = uid {
            lists.append = Some(fx.append_run(uid, first, &lists.kept));
            fx.mark_delivered(uid, first, messages as u32);
        }
        match consumer {
            ConsumerRef::Local(key) => {
                self.channels.deliver_run(key, first, content, bodies, (&mut lists.kept, is_last), fx);
            }
            ConsumerRef::Remote(key) => {
                self.channels.delivered += messages as u64;
                self.remotes.send_run(key, (id, first), content, bodies, fx);
            }
        }
    }
}

/// Units of work of a message in one queue: as many as one that comes alone draws.
#[inline]
fn work_of(content: &Content<'_>) -> usize {
    1 + content.copying_work()
}
