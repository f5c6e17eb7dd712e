//! Dispatch of runs: how many messages that are alike their queues take at once, for a consumer or to wait, and how they get them.
//!
//! First every queue is asked how many it would take, and nothing changes. Then each of them gets all of the run, so that the state
//! of queue and consumer and the output are touched once for a run and not once for a message.

use crate::dispatcher::Dispatcher;
use crate::effects::Effects;
use crate::limits::INLINE_BODY_BYTES_MAX;
use crate::run_lists::{RunLists, RunRecipient, RunTerms};
use catalog::QueueId;
use queues::limits::{MESSAGE_OVERHEAD_BYTES, SHARED_BODY_BYTES_MIN};
use queues::{BodyRef, ConsumerRef, Content, Message, QueuePosition, RemoteConsumer};
use wire::BodyRun;

impl Dispatcher {
    /// Gives messages that are alike to their queues, which are of this shard: to the only consumer of each, or behind others that
    /// wait in it. Returns how many: those behind them are to be looked at one by one. None are taken where a message would do anything
    /// else than pass through its queue, or wait while others may be dropped for it. What the store says of them is in
    /// `run_lists.append`.
    pub fn deliver_run<E: Effects>(
        &mut self,
        queues: impl ExactSizeIterator<Item = QueueId> + Clone,
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        fx: &mut E,
    ) -> usize {
        let terms = RunTerms { more_work: 0, may_drop: true };
        let most = self.plan_run(queues.clone(), content, bodies.len(), terms, fx);
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
        lists.append = None;
        let count = queues.len();
        for (at, queue) in queues.enumerate() {
            let is_last = at + 1 == count;
            match lists.recipients[at] {
                RunRecipient::Consumer(consumer) => {
                    self.pass_run((queue, consumer), content, bodies, &mut lists, is_last, fx);
                }
                RunRecipient::Queue | RunRecipient::FullQueue => {
                    self.add_run(queue, content, bodies, &mut lists, is_last, fx);
                }
            }
        }
        lists.kept.clear();
        self.run_lists = lists;
    }

    /// How many of so many messages like this one all queues take, each as is noted for it.
    pub fn plan_run<E: Effects>(
        &mut self,
        queues: impl ExactSizeIterator<Item = QueueId>,
        content: &Content<'_>,
        messages: usize,
        terms: RunTerms,
        fx: &E,
    ) -> usize {
        self.run_lists.recipients.clear();
        let (count, body_bytes) = (queues.len(), content.body.len());
        // What goes to several is shared from this size on.
        if count > 1 && body_bytes >= SHARED_BODY_BYTES_MIN {
            return 0;
        }
        // The store has the body of a message of several queues once, if they get it behind one another.
        let may_be_shared = count > 1 && content.is_persistent();
        let (mut most, mut work_each) = (messages, terms.more_work);
        self.channels.run_outputs.begin();
        for queue in queues {
            if most == 0 {
                return 0;
            }
            let Some(recipient) = self.recipient(queue, content, terms.may_drop) else { return 0 };
            if may_be_shared && self.is_appended(queue, recipient) {
                return 0;
            }
            // Where queues share a connection, their messages alternate: which one it is on another shard is not known here.
            most = match recipient {
                RunRecipient::Queue => {
                    let room = self.room_of_features(queue, content);
                    self.room_to_wait(queue, content, most.min(room), fx)
                }
                RunRecipient::FullQueue => {
                    let room = self.queues.housekeeping.dead_letters.room();
                    self.room_to_wait(queue, content, most.min(room), fx)
                }
                RunRecipient::Consumer(ConsumerRef::Local(key)) => {
                    self.channels.accepted_of_run(key, content, most, fx)
                }
                RunRecipient::Consumer(ConsumerRef::Remote(key))
                    if count == 1 && body_bytes <= INLINE_BODY_BYTES_MAX =>
                {
                    self.remotes.accepted_of_run(key, content.bytes(), most)
                }
                RunRecipient::Consumer(ConsumerRef::Remote(_)) => 0,
            };
            work_each += work_of(content, recipient);
            self.run_lists.recipients.push(recipient);
        }
        most.min(self.work.room_for(work_each))
    }

    /// What takes every message of this kind from now on: the only consumer of a queue in which none waits, or the queue in which
    /// others do, or that has no place for any and no consumer.
    #[inline]
    fn recipient(&self, id: QueueId, content: &Content<'_>, may_drop: bool) -> Option<RunRecipient> {
        let queue = self.queues.table.get(id)?;
        // What a queue does with messages that wait does not matter to one that passes.
        if let Some(features) = &queue.features
            && (features.is_federated || features.refuses(&queue.ready, content))
        {
            return None;
        }
        let is_full =
            may_drop && queue.features.as_ref().is_some_and(|features| features.drops_for(&queue.ready, content));
        if !queue.ready.is_empty() {
            return Some(if is_full { RunRecipient::FullQueue } else { RunRecipient::Queue });
        }
        // It keeps none of them: no head is left for which a timer would be set.
        if is_full && !queue.consumers.has_active() && queue.time_to_live_us(content) != Some(0) {
            return Some(RunRecipient::FullQueue);
        }
        queue.consumers.only_active().map(RunRecipient::Consumer)
    }

    /// How many more messages like this one may wait in a queue by its own limits.
    fn room_of_features(&self, id: QueueId, content: &Content<'_>) -> usize {
        let features = self.queues.table.get(id).and_then(|queue| Some((queue, queue.features.as_ref()?)));
        features.map_or(usize::MAX, |(queue, features)| features.room(&queue.ready, content))
    }

    /// How many of so many messages like this one may be added to a queue, so that no publisher is throttled or blocked and nothing
    /// leaves the memory.
    fn room_to_wait<E: Effects>(&self, id: QueueId, content: &Content<'_>, most: usize, fx: &E) -> usize {
        let Some(queue) = self.queues.table.get(id).filter(|queue| !queue.ready.has_pages()) else { return 0 };
        let bytes_each = content.bytes() as u64 + MESSAGE_OVERHEAD_BYTES;
        let bytes = self.flow.room_to_wait(queue, most as u64 * bytes_each, &self.channels, self.now_us, fx);
        let bytes = bytes.min(self.queues.housekeeping.room_in_memory());
        usize::try_from(bytes / bytes_each).map_or(most, |room| room.min(most))
    }

    /// Whether the store gets the persistent messages that a queue takes.
    #[inline]
    fn is_appended(&self, id: QueueId, recipient: RunRecipient) -> bool {
        let takes_at_once = matches!(recipient, RunRecipient::Consumer(consumer) if self.takes_at_once(consumer));
        self.queues.table.get(id).is_some_and(|queue| queue.uid.is_some()) && !takes_at_once
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
        self.work.draw(messages * work_of(content, RunRecipient::Consumer(consumer)));
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
                let bytes = bodies.len() * content.bytes();
                if let Some(remote) = self.remotes.draw_credit(key, messages as u32, bytes as i64) {
                    send_run(remote, (id, first), content, bodies, fx);
                }
            }
        }
    }

    /// Adds a run to a queue, in which all of it may wait, or as much of it as is not dropped at once.
    fn add_run<E: Effects>(
        &mut self,
        id: QueueId,
        content: &Content<'_>,
        bodies: BodyRun<'_>,
        lists: &mut RunLists,
        is_last: bool,
        fx: &mut E,
    ) {
        let Some(queue) = self.queues.table.get_mut(id) else { return };
        self.work.draw(bodies.len() * work_of(content, RunRecipient::Queue));
        let level = queue.features.as_ref().map_or(0, |features| features.level(content));
        queue.stats.publish += bodies.len() as u64;
        queue.note_change(&mut self.queues.changes);
        if lists.kept.is_empty() {
            content.keep_all(bodies, &mut lists.kept, fx.pool());
        }
        let uid = queue.uid.filter(|_| content.is_persistent());
        let housekeeping = &mut self.queues.housekeeping;
        if let Some(uid) = uid {
            lists.append = Some(fx.append_run(uid, queue.ready.next_position(level), &lists.kept));
        }
        let mut add = |message: Message| {
            housekeeping.note_waiting(&message);
            queue.ready.push(level, message);
        };
        match is_last {
            true => lists.kept.drain(..).for_each(&mut add),
            false => lists.kept.iter().cloned().for_each(&mut add),
        }
        if housekeeping.after_push(queue, level, queue.has_ttl(), &mut self.work, fx) {
            self.queues.mark_due(id);
        }
    }
}

/// Units of work of a message in one queue: as many as one that comes alone draws.
#[inline]
fn work_of(content: &Content<'_>, recipient: RunRecipient) -> usize {
    match recipient {
        RunRecipient::Consumer(_) => 1 + content.copying_work(),
        RunRecipient::Queue => 1,
        RunRecipient::FullQueue => 2,
    }
}

/// Sends a consumer of another shard messages of a queue that are alike, from a position on.
fn send_run<E: Effects>(
    remote: &RemoteConsumer,
    (queue, first): (QueueId, QueuePosition),
    content: &Content<'_>,
    bodies: BodyRun<'_>,
    fx: &mut E,
) {
    let batch = fx.batch(remote.shard);
    for (position, body) in (first.0..).zip(bodies.iter()) {
        let content = Content { body: BodyRef::Small(body), ..*content };
        let recipient = (remote.consumer, queue, QueuePosition(position));
        let is_packed = batch.push_deliver(&content, recipient, false, !remote.no_ack);
        debug_assert!(is_packed, "it is small");
    }
}
