//! The queues of this shard: their table, the list of those to dispatch, and what happens to a message outside a delivery.

use crate::change_list::ChangeList;
use crate::consumer_rotation::ConsumerRotation;
use crate::dead_letter_reason::DeadLetterReason;
use crate::delivery_count::{delivery_count, rewriting_work, with_delivery_count};
use crate::expiry_turns::ExpiryTurn;
use crate::features::FeatureState;
use crate::ids::{ConsumerRef, QueuePosition, SettledMessages};
use crate::message::{Content, Message};
use crate::message_storage::{AppendResult, MessageStorage};
use crate::purged_messages::PurgedMessages;
use crate::queue::Queue;
use crate::queue_entry::QueueEntry;
use crate::queue_housekeeping::QueueHousekeeping;
use crate::queue_timers::TimerTarget;
use crate::work_budget::WorkBudget;
use catalog::{OverflowPolicy, QueueDefinition, QueueId, QueueUid};
use std::collections::BTreeMap;
use std::collections::VecDeque;

/// The queues by the index in their ids.
#[derive(Default)]
pub struct QueueTable(Vec<Option<Box<Queue>>>);

impl QueueTable {
    /// The queue, if it lives here and is still the one meant.
    #[inline]
    pub fn get_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        match self.0.get_mut(id.index as usize) {
            Some(Some(queue)) if queue.id == id => Some(queue),
            _ => None,
        }
    }

    #[inline]
    pub fn get(&self, id: QueueId) -> Option<&Queue> {
        match self.0.get(id.index as usize) {
            Some(Some(queue)) if queue.id == id => Some(queue),
            _ => None,
        }
    }

    /// What a queue has beyond queueing.
    pub(crate) fn features_mut(&mut self, id: QueueId) -> Option<&mut FeatureState> {
        self.get_mut(id)?.features.as_deref_mut()
    }

    /// The queue at a place of the table.
    pub fn at(&self, place: usize) -> Option<&Queue> {
        self.0.get(place)?.as_deref()
    }

    /// The queue with this index.
    pub fn at_mut(&mut self, index: usize) -> Option<&mut Queue> {
        self.0.get_mut(index)?.as_deref_mut()
    }

    /// Behind the highest index.
    pub fn places(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.0.iter().flatten().map(|queue| &**queue)
    }
}

/// The number of a queue whose messages a store keeps: one that is durable, and does not end with its connection.
pub fn stored_uid(definition: &QueueDefinition) -> Option<QueueUid> {
    definition.uid.filter(|_| definition.exclusive.is_none())
}

/// What the timer of a queue has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueTimerResult {
    /// Its messages may have expired.
    Expiring(QueueId),
    /// Nobody has used it for as long as `x-expires`: it is to be deleted.
    Unused(QueueId),
}

/// What `basic.get` has found.
pub enum GetResult {
    /// A message, and how many wait behind it.
    Message(QueueEntry, usize),
    Empty,
    /// The next message is on a page.
    OnPage,
    /// The budget of the turn is spent, and there may be a message behind those that have expired.
    Unfinished,
}

/// The queues of this shard.
#[derive(Default)]
pub struct Queues {
    pub table: QueueTable,
    /// Queues to dispatch before the command ends.
    due: VecDeque<QueueId>,
    /// There is a store, which has the persistent messages of durable queues. Without one these are queues like any other.
    pub has_store: bool,
    /// The durable queues, and those with pages, by the numbers that the store knows.
    /// A tree: of a hash table all durable queues would be hashed anew at once.
    uids: BTreeMap<QueueUid, QueueId>,
    pub housekeeping: QueueHousekeeping,
    /// How many were ever closed.
    pub closed: u64,
    /// Declarations by clients of this shard, queues that have begun to live here, and ended.
    pub declared: u64,
    pub created: u64,
    pub deleted: u64,
    pub changes: ChangeList<QueueId>,
}

impl Queues {
    /// Creates a queue. `is_counted`: its virtual host has a quota.
    pub fn create(&mut self, id: QueueId, definition: &QueueDefinition, is_counted: bool, now_us: u64) {
        let uid = stored_uid(definition).filter(|_| self.has_store);
        let mut queue = Queue::new(id, definition.name.shared(), definition.vhost, uid, definition.auto_delete);
        queue.features = FeatureState::new(definition, is_counted, now_us);
        queue.expiring = queue.has_ttl();
        self.housekeeping.rearm(&mut queue);
        self.changes.note(id);
        let index = id.index as usize;
        if self.table.0.len() <= index {
            self.table.0.resize_with(index + 1, || None);
        }
        assert!(self.table.get(id).is_none(), "a queue is created once");
        if let Some(uid) = queue.uid {
            self.uids.insert(uid, id);
        }
        self.table.0[index] = Some(Box::new(queue));
    }

    /// A queue is durable, and there is a store now.
    pub fn store(&mut self, id: QueueId, uid: QueueUid) {
        if let Some(queue) = self.table.get_mut(id) {
            queue.uid = Some(uid);
            self.uids.insert(uid, id);
        }
    }

    /// A queue has a number for its pages.
    pub(crate) fn note_uid(&mut self, uid: QueueUid, id: QueueId) {
        self.uids.insert(uid, id);
    }

    /// The queue with this number.
    pub fn by_uid(&self, uid: QueueUid) -> Option<QueueId> {
        self.uids.get(&uid).copied()
    }

    /// Puts a queue under other policies, or has its bytes counted from now on, or no more.
    pub fn update(&mut self, id: QueueId, definition: &QueueDefinition, is_counted: bool, now_us: u64) {
        let mut features = FeatureState::new(definition, is_counted, now_us);
        let Some(queue) = self.table.get_mut(id) else { return };
        self.housekeeping.quotas.remove_queue(queue);
        if let Some(before) = queue.features.take() {
            if before.is_closed {
                features.get_or_insert_with(|| FeatureState::plain(now_us));
            }
            if let Some(features) = &mut features {
                features.inherit(*before);
            }
        }
        queue.features = features;
        queue.expiring |= queue.has_ttl();
        self.housekeeping.quotas.update(queue);
        // Messages over the new limits go at once, and the next may expire sooner.
        self.mark_due(id);
    }

    /// Removes a queue with its messages.
    pub fn remove(&mut self, id: QueueId) -> Option<Box<Queue>> {
        let entry = self.table.0.get_mut(id.index as usize)?;
        if entry.as_ref().is_none_or(|queue| queue.id != id) {
            return None;
        }
        let mut queue = entry.take()?;
        if let Some(uid) = queue.uid {
            self.uids.remove(&uid);
        }
        self.housekeeping.timers.clear(TimerTarget::Queue(id.index), &mut queue.timer_us);
        self.housekeeping.quotas.remove_queue(&mut queue);
        if let Some(uid) = queue.spill_uid {
            self.uids.remove(&uid);
        }
        self.housekeeping.note_emptied(&queue.ready);
        self.changes.note_gone(id);
        Some(queue)
    }

    /// Closes a queue: nothing of it is read, expires or is asked for. Returns its consumers, unless it was closed before.
    pub fn close(&mut self, id: QueueId, now_us: u64) -> Option<ConsumerRotation> {
        let queue = self.table.get_mut(id)?;
        let features = queue.features.get_or_insert_with(|| FeatureState::plain(now_us));
        if std::mem::replace(&mut features.is_closed, true) {
            return None;
        }
        self.closed += 1;
        self.housekeeping.paging.note_answered(queue.ready.asked_bytes());
        if let Some(pages) = queue.ready.pages_mut() {
            pages.withdraw();
        }
        self.housekeeping.timers.clear(TimerTarget::Queue(id.index), &mut queue.timer_us);
        Some(std::mem::take(&mut queue.consumers))
    }

    /// Has a queue dispatched before the command ends.
    #[inline]
    pub fn mark_due(&mut self, id: QueueId) {
        if let Some(queue) = self.table.get_mut(id)
            && !queue.due
        {
            queue.due = true;
            self.due.push_back(id);
        }
    }

    /// Takes the next queue to dispatch: one that is due, or one that has waited to give up what has expired.
    #[inline]
    pub fn next_due(&mut self) -> Option<QueueId> {
        if let Some(id) = self.due.pop_front() {
            return Some(id);
        }
        if self.housekeeping.expiry_turns.is_empty() { None } else { self.next_expiry() }
    }

    #[cold]
    fn next_expiry(&mut self) -> Option<QueueId> {
        if self.housekeeping.dead_letters.keeps_expired() {
            return None;
        }
        let id = self.housekeeping.expiry_turns.next()?;
        if let Some(queue) = self.table.get_mut(id) {
            queue.expiry = ExpiryTurn::Has;
        }
        Some(id)
    }

    /// Whether queues wait to be dispatched, or dead letters to be routed.
    #[inline]
    pub fn has_due_work(&self) -> bool {
        !self.due.is_empty() || !self.housekeeping.dead_letters.is_empty() || !self.housekeeping.expiry_turns.is_empty()
    }

    /// Puts a consumer (back) into the rotation of its queue.
    pub fn activate(&mut self, id: QueueId, consumer: ConsumerRef, priority: i32) {
        if let Some(queue) = self.table.get_mut(id) {
            queue.consumers.activate(consumer, priority);
            self.mark_due(id);
        }
    }

    /// A queue has no capacity for a new message, and refuses it.
    #[cold]
    pub fn refuse<S: MessageStorage>(
        &mut self,
        id: QueueId,
        content: &Content<'_>,
        kept: &mut Option<Message>,
        storage: &mut S,
    ) {
        let Some(features) = self.table.get(id).and_then(|queue| queue.features.as_ref()) else { return };
        if features.overflow == OverflowPolicy::RejectToDeadLetters
            && let Some(target) = &features.dead_letter_target
        {
            let message = kept.get_or_insert_with(|| content.keep(storage.pool())).clone();
            self.housekeeping.dead_letters.push(target, DeadLetterReason::MaxLength, message, None);
        }
    }

    /// A new message may not wait at all, and no consumer accepts it at once. The store has it until its dead letter is where it
    /// goes, as with any other, so that a publisher who waits for the store waits for one of both.
    #[cold]
    pub fn expire_at_once<S: MessageStorage>(
        &mut self,
        id: QueueId,
        content: &Content<'_>,
        level: u8,
        kept: &mut Option<Message>,
        storage: &mut S,
    ) -> AppendResult {
        let Some(queue) = self.table.get_mut(id).filter(|queue| queue.dead_letter_target().is_some()) else {
            return AppendResult::Durable;
        };
        let message = kept.get_or_insert_with(|| content.keep(storage.pool())).clone();
        let position = queue.ready.bypass(level, 1);
        let append = match queue.uid.filter(|_| message.is_persistent()) {
            Some(uid) => storage.append(uid, position, message.clone()),
            None => AppendResult::Durable,
        };
        self.housekeeping.dead_letter(queue, position, message, DeadLetterReason::Expired, storage);
        append
    }

    /// A queue is done with messages that follow one another: clients have acknowledged them, or rejected.
    #[inline]
    pub fn settle<S: MessageStorage>(&mut self, id: QueueId, run: SettledMessages, storage: &mut S) {
        if let Some(uid) = self.end_deliveries(id, run) {
            storage.forget(uid, run.first, run.count);
        }
    }

    /// Deliveries of messages that follow one another are settled. Returns the number of a durable queue.
    #[inline]
    pub fn end_deliveries(&mut self, id: QueueId, run: SettledMessages) -> Option<QueueUid> {
        let SettledMessages { first, count, bytes, are_rejected } = run;
        let queue = self.table.get_mut(id)?;
        queue.unsettled -= u64::from(count);
        queue.unsettled_bytes -= bytes;
        if are_rejected {
            self.housekeeping.dropped_dead.add(DeadLetterReason::Rejected, u64::from(count));
        } else {
            queue.stats.ack += u64::from(count);
        }
        queue.note_change(&mut self.changes);
        if let Some(features) = &mut queue.features
            && !features.returns.is_empty()
        {
            for position in first.0..first.0 + u64::from(count) {
                features.forget_returns(QueuePosition(position));
            }
        }
        queue.uid
    }

    /// A queue is done with messages that follow one another and were not acknowledged.
    pub fn forget<S: MessageStorage>(&mut self, id: QueueId, first: QueuePosition, count: u32, storage: &mut S) {
        if let Some(uid) = self.table.get(id).and_then(|queue| queue.uid) {
            storage.forget(uid, first, count);
        }
    }

    /// A consumer does not want a message. Returns the work of its count of returns.
    pub fn reject<S: MessageStorage>(
        &mut self,
        id: QueueId,
        position: QueuePosition,
        message: Message,
        storage: &mut S,
    ) -> usize {
        let Some(queue) = self.table.get_mut(id) else { return 0 };
        queue.unsettled -= 1;
        queue.unsettled_bytes -= message.body_bytes() as u64;
        queue.note_change(&mut self.changes);
        self.housekeeping.dead_letter(queue, position, message, DeadLetterReason::Rejected, storage)
    }

    /// A message returns to its position. `was_delivered`: a client had it; `ack_required`: it was unsettled. Returns the work of
    /// its count of returns.
    pub fn requeue<S: MessageStorage>(
        &mut self,
        id: QueueId,
        mut entry: QueueEntry,
        was_delivered: bool,
        ack_required: bool,
        storage: &mut S,
    ) -> usize {
        let Some(queue) = self.table.get_mut(id) else { return 0 };
        if ack_required {
            queue.unsettled -= 1;
            queue.unsettled_bytes -= entry.message.body_bytes() as u64;
        }
        let mut work = 0;
        queue.stats.returned_unseen += u64::from(!was_delivered);
        queue.note_change(&mut self.changes);
        if let Some(features) = queue.features.as_mut().filter(|features| features.delivery_limit.is_some()) {
            if !was_delivered {
                // It was on its way to a consumer that sends no acknowledgements, and its count was forgotten.
                if let Some(count) = delivery_count(&entry.message).filter(|_| entry.redelivered) {
                    features.restore_returns(entry.position, count);
                }
            } else {
                match features.count_return(entry.position) {
                    Some(count) => {
                        if let Some(uid) = queue.uid.filter(|_| entry.message.is_persistent()) {
                            storage.mark_returned(uid, entry.position, count);
                        }
                        work = rewriting_work(&entry.message);
                        entry.message = with_delivery_count(&entry.message, Some(count), storage.pool());
                    }
                    None => {
                        let (position, message) = (entry.position, entry.message);
                        let reason = DeadLetterReason::DeliveryLimit;
                        return self.housekeeping.dead_letter(queue, position, message, reason, storage);
                    }
                }
            }
        }
        queue.expiring |= entry.message.has_expiration();
        self.housekeeping.note_waiting(&entry.message);
        queue.ready.restore(entry);
        self.mark_due(id);
        work
    }

    /// Takes one message for `basic.get`. Those that have expired before it are dropped, as far as the budget of the turn allows.
    pub fn get<S: MessageStorage>(
        &mut self,
        id: QueueId,
        no_ack: bool,
        now_us: u64,
        work: &mut WorkBudget,
        storage: &mut S,
    ) -> GetResult {
        let Some(queue) = self.table.get_mut(id) else { return GetResult::Empty };
        let mut dropped = false;
        while queue.expiring && queue.has_expired(now_us) {
            if work.is_spent() {
                self.mark_due(id);
                return GetResult::Unfinished;
            }
            work.draw(1 + self.housekeeping.drop_head(queue, storage));
            dropped = true;
        }
        let Some(entry) = queue.ready.pop() else {
            if queue.ready.awaits_page() {
                // It is asked for when the queue is dispatched.
                self.mark_due(id);
                return GetResult::OnPage;
            }
            queue.stats.get_empty += 1;
            queue.note_change(&mut self.changes);
            if dropped {
                self.mark_due(id);
            }
            return GetResult::Empty;
        };
        self.housekeeping.note_taken(&entry.message);
        queue.note_get(&entry, no_ack);
        queue.note_change(&mut self.changes);
        match &mut queue.features {
            _ if !no_ack => queue.unsettled += 1,
            Some(features) => _ = features.forget_returns(entry.position),
            None => {}
        }
        if let Some(uid) = queue.uid.filter(|_| !entry.redelivered && entry.message.is_persistent()) {
            storage.mark_delivered(uid, entry.position, 1);
        }
        let left = queue.ready.len();
        self.mark_due(id);
        GetResult::Message(entry, left)
    }

    /// Takes the waiting messages out of a queue.
    pub fn purge(&mut self, id: QueueId) -> Option<PurgedMessages> {
        let queue = self.table.get_mut(id)?;
        if let Some(features) = &mut queue.features {
            // What could not be read is gone.
            features.is_closed = false;
        }
        self.housekeeping.note_emptied(&queue.ready);
        queue.note_change(&mut self.changes);
        let purged = PurgedMessages::new(queue.uid, queue.paged_uid(), queue.ready.take());
        self.mark_due(id);
        Some(purged)
    }

    /// A queue is used: it does not expire for a while.
    pub fn note_use(&mut self, id: QueueId, now_us: u64) {
        if let Some(queue) = self.table.get_mut(id)
            && let Some(features) = &mut queue.features
            && features.expires_us.is_some()
        {
            features.used_us = now_us;
            self.housekeeping.rearm(queue);
        }
    }

    /// The timer of a queue has fired.
    pub fn on_timer(&mut self, index: u32, now_us: u64) -> Option<QueueTimerResult> {
        let queue = self.table.0.get_mut(index as usize)?.as_mut()?;
        queue.timer_us = 0;
        if queue.is_closed() {
            return None;
        }
        // What has expired is not lost with it.
        let has_letters = queue.has_expired_letters(now_us);
        if has_letters && queue.awaits_expiry() {
            // It is dispatched when it has its turn.
            return None;
        }
        if has_letters || !queue.is_unused_since(now_us) {
            return Some(QueueTimerResult::Expiring(queue.id));
        }
        if let Some(features) = &mut queue.features {
            features.expires_us = None;
        }
        Some(QueueTimerResult::Unused(queue.id))
    }
}

#[cfg(test)]
mod tests {
    use super::{GetResult, QueueTimerResult, Queues};
    use crate::ids::QueuePosition;
    use crate::message::{BodyRef, Content};
    use crate::message_storage::MessageStorage;
    use crate::queue_entry::QueueEntry;
    use crate::test_storage::{TestStorage, body_text, queue_definition};
    use crate::work_budget::WorkBudget;
    use catalog::QueueId;
    use wire::{Table, Value};

    const QUEUE: QueueId = QueueId { index: 2, serial: 7 };

    fn push(queues: &mut Queues, bodies: &[&str], storage: &mut TestStorage) {
        for body in bodies {
            let content = Content { body: BodyRef::Small(body.as_bytes()), ..Content::EMPTY };
            let queue = queues.table.get_mut(QUEUE).expect("created");
            queue.ready.push(0, content.keep(storage.pool()));
            queues.housekeeping.note_waiting(&content.keep(storage.pool()));
            queues.housekeeping.after_push(queue, 0, false, &mut WorkBudget::new(1_000), storage);
        }
    }

    fn get(queues: &mut Queues, no_ack: bool, storage: &mut TestStorage) -> (QueueEntry, usize) {
        match queues.get(QUEUE, no_ack, 0, &mut WorkBudget::new(1_000), storage) {
            GetResult::Message(entry, left) => (entry, left),
            GetResult::Empty | GetResult::OnPage | GetResult::Unfinished => panic!("a message waits"),
        }
    }

    #[test]
    fn a_message_is_taken_requeued_and_dead_lettered_after_too_many_returns() {
        let mut queues = Queues::default();
        let mut storage = TestStorage::default();
        let arguments = Table::new()
            .with("x-delivery-limit", Value::I32(1))
            .and_then(|table| table.with("x-dead-letter-exchange", Value::text("dead")))
            .expect("short");
        queues.create(QUEUE, &queue_definition("q", arguments), false, 0);
        push(&mut queues, &["a", "b"], &mut storage);
        for round in 0..2 {
            let (entry, left) = get(&mut queues, false, &mut storage);
            assert_eq!((body_text(&entry.message.content()).as_str(), left), ("a", 1), "round {round}");
            queues.requeue(QUEUE, entry, true, true, &mut storage);
        }
        assert_eq!((queues.housekeeping.waiting, queues.housekeeping.dead_letters.len()), (1, 1));
        let queue = queues.table.get(QUEUE).expect("created");
        assert_eq!((queue.unsettled, queue.ready.len()), (0, 1));
        assert_eq!((queues.next_due(), queues.next_due()), (Some(QUEUE), None));
        assert!(queues.purge(QUEUE).is_some());
        assert_eq!(queues.housekeeping.waiting, 0);
        assert!(queues.remove(QUEUE).is_some() && queues.remove(QUEUE).is_none());
    }

    #[test]
    fn overflow_leaves_at_the_head_and_unused_queues_are_reported_once() {
        let mut queues = Queues::default();
        let mut storage = TestStorage::default();
        let arguments = Table::new()
            .with("x-max-length", Value::I32(2))
            .and_then(|table| table.with("x-expires", Value::I32(5)))
            .expect("short");
        queues.create(QUEUE, &queue_definition("q", arguments), false, 0);
        push(&mut queues, &["a", "b", "c"], &mut storage);
        assert_eq!((queues.housekeeping.waiting, queues.housekeeping.timers.next()), (2, Some(5_000)));
        let (entry, _) = get(&mut queues, true, &mut storage);
        assert_eq!((body_text(&entry.message.content()).as_str(), entry.position), ("b", QueuePosition(1)));
        queues.note_use(QUEUE, 1_000);
        assert!(queues.housekeeping.timers.pop_due(5_000).is_some());
        assert_eq!(queues.on_timer(QUEUE.index, 5_000), Some(QueueTimerResult::Expiring(QUEUE)));
        assert_eq!(queues.on_timer(QUEUE.index, 6_000), Some(QueueTimerResult::Unused(QUEUE)));
        assert_eq!(queues.on_timer(QUEUE.index, 6_000), Some(QueueTimerResult::Expiring(QUEUE)));
        assert_eq!(queues.on_timer(9, 6_000), None);
    }
}
