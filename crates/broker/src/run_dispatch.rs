//! Dispatch of runs: how many messages that are alike the consumers of their queues take at once, and their delivery.
//!
//! First every queue is asked how many it would pass on, and nothing changes. Then each of them gets all of the run, so that the
//! consumers' state and outputs are touched once for a run and not once for a message.

use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::ids::{ConsumerRef, QueuePosition};
use crate::limits::{INLINE_BODY_BYTES_MAX, SHARED_BODY_BYTES_MIN};
use crate::message::Content;
use crate::run_lists::RunLists;
use catalog::QueueId;
use wire::BodyRun;

impl Dispatcher {
    /// Delivers messages that are alike to the only consumer of each of their queues, which are of this shard. Returns how many: those
    /// behind them are to be looked at one by one. None are delivered where a message would do anything else than pass through its
    /// queue. What the store has of them is in `run_lists.appends`.
    pub fn deliver_run<E: Effects>(
        &mut self,
        queues: impl ExactSizeIterator<Item = QueueId> + Clone,
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) -> usize {
        let most = self.plan_run(queues.clone(), content, bodies.len(), 0, fx);
        if let Some(bodies) = bodies.take(most) {
            self.deliver_planned(queues, content, bodies, fx);
        }
        most
    }

    /// Delivers a run as it was planned, or the first of it.
    pub fn deliver_planned<E: Effects>(
        &mut self,
        queues: impl ExactSizeIterator<Item = QueueId>,
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) {
        let mut lists = std::mem::take(&mut self.run_lists);
        lists.appends.clear();
        let count = queues.len();
        for (at, queue) in queues.enumerate() {
            let is_last = at + 1 == count;
            self.pass_run((queue, lists.consumers[at]), content, bodies, &mut lists, is_last, fx);
        }
        lists.kept.clear();
        self.run_lists = lists;
    }

    /// How many of so many messages like this one all queues pass on, each to the consumer that is noted for it. `more_work` is that of
    /// a message beside what its queues have of it.
    pub fn plan_run<E: Effects>(
        &mut self,
        queues: impl ExactSizeIterator<Item = QueueId>,
        content: &Content<'_>,
        messages: usize,
        more_work: usize,
        fx: &E,
    ) -> usize {
        self.run_lists.consumers.clear();
        let body_bytes = content.body.len();
        // What goes to several is shared from this size on.
        if queues.len() > 1 && body_bytes >= SHARED_BODY_BYTES_MIN {
            return 0;
        }
        // The store has the body of a message of several queues once, if they get it behind one another.
        let count = queues.len();
        let may_be_shared = count > 1 && content.is_persistent();
        let work_each = count * work_of(content) + more_work;
        let mut most = messages.min(self.work.room_for(work_each));
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
                ConsumerRef::Remote(key) if count == 1 && body_bytes <= INLINE_BODY_BYTES_MAX => {
                    self.remotes.accepted_of_run(key, content.bytes(), most)
                }
                ConsumerRef::Remote(_) => 0,
            };
            self.run_lists.consumers.push(consumer);
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
            let positions = (first.0..).map(QueuePosition);
            let appended = positions.zip(&lists.kept).map(|(at, message)| fx.append(uid, at, message.clone()));
            lists.appends.extend(appended);
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
