//! Flow control: which queues are full, and whose consumers are slower than their publishers.

use crate::channels::Channels;
use crate::effects::Effects;
use crate::ids::{ConnectionSlot, ShardIdentity};
use crate::limits::{QUEUE_RESUME_TENTHS, THROTTLE_PROGRESS_BYTES_MIN};
use crate::publisher_release::{PublisherRelease, ReleaseCause};
use crate::session_state::ReadControl;
use crate::sessions::Sessions;
use crate::shard_message::ShardMessage;
use catalog::{QueueId, QueueRoute};
use queues::limits::THROTTLE_BYTES;
use queues::{ConsumerRef, Queue, QueueTable, WorkBudget};
use std::collections::{BTreeMap, BTreeSet};

/// Consumers of a queue that are checked to see whether it waits for their outputs.
const SLOW_CONSUMERS_CHECKED: usize = 4;

/// Full queues, here and on other shards, and the queue that the publisher at hand is too fast for.
pub(crate) struct FlowControl {
    identity: ShardIdentity,
    /// Waiting bytes at which a queue is full, unless messages are paged out.
    queue_bytes_max: u64,
    is_paging: bool,
    /// With the publishers of this shard that are blocked by each. Some of them may not be any more.
    full: BTreeMap<QueueId, BTreeSet<ConnectionSlot>>,
    /// The queue whose consumers are slower than the publisher at hand.
    pub slow_queue: Option<QueueId>,
    /// The same of the dead letters routed last.
    pub slow_dead_letter_queue: Option<QueueId>,
}

impl FlowControl {
    pub fn new(identity: ShardIdentity, queue_bytes_max: u64) -> Self {
        let (full, slow_queue, slow_dead_letter_queue) = (BTreeMap::new(), None, None);
        FlowControl { identity, queue_bytes_max, is_paging: false, full, slow_queue, slow_dead_letter_queue }
    }

    /// Messages leave the memory before their queue is full, or do so no more.
    pub fn set_paging(&mut self, is_paging: bool) {
        self.is_paging = is_paging;
    }

    pub fn is_paging(&self) -> bool {
        self.is_paging
    }

    /// How many queues are full, here and on other shards.
    pub fn full_len(&self) -> usize {
        self.full.len()
    }

    #[inline]
    pub fn is_any_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// A message waits in a queue: its consumers may be too slow, or its messages expire faster than they can be removed, or it may
    /// be full.
    #[inline]
    pub fn after_push<E: Effects>(&mut self, queue: &mut Queue, channels: &Channels, now_us: u64, fx: &mut E) {
        if self.slow_queue.is_none()
            && queue.memory_bytes() > queue.throttle.at_bytes
            && (queue.expiring && queue.has_expired(now_us) || waits_for_outputs(queue, channels, fx))
        {
            self.slow_queue = Some(queue.id);
        }
        if !queue.full && queue.memory_bytes() > self.queue_bytes_max && !self.is_paging {
            queue.full = true;
            self.send_full(queue.id, true, fx);
            self.full.entry(queue.id).or_default();
        }
    }

    /// Bytes that may be added to a queue, of so many, before a publisher is throttled for it or it is full.
    pub fn room_to_wait<E: Effects>(&self, queue: &Queue, bytes: u64, channels: &Channels, now_us: u64, fx: &E) -> u64 {
        let before = queue.memory_bytes();
        let mut end = if self.is_paging { u64::MAX } else { self.queue_bytes_max };
        if queue.full {
            return 0;
        }
        if self.slow_queue.is_none()
            && before + bytes > queue.throttle.at_bytes
            && (queue.expiring && queue.has_expired(now_us) || waits_for_outputs(queue, channels, fx))
        {
            end = end.min(queue.throttle.at_bytes);
        }
        end.saturating_sub(before)
    }

    /// Whether what has expired in a queue without consumers is to stay for a moment: the consumers of the last dead letters are
    /// slower than these come. Says so once for each time that they were found to be.
    #[inline]
    pub fn holds_expired(&mut self, queue: &Queue, now_us: u64) -> bool {
        self.slow_dead_letter_queue.is_some()
            // One that waits for its turn keeps it anyway.
            && !queue.awaits_expiry()
            && !queue.consumers.has_active()
            && !queue.has_upstreams()
            && queue.dead_letter_target().is_some()
            && queue.has_expired(now_us)
            && self.slow_dead_letter_queue.take().is_some()
    }

    /// Messages have left a queue: publishers that waited for it may continue, as far as the budget of the turn allows.
    #[inline]
    pub fn after_dispatch<E: Effects>(
        &mut self,
        queue: &mut Queue,
        sessions: &mut Sessions,
        work: &mut WorkBudget,
        fx: &mut E,
    ) {
        if (!queue.throttle.connections.is_empty() || queue.throttle.at_bytes > THROTTLE_BYTES)
            && queue.memory_bytes() < THROTTLE_BYTES / 2
        {
            queue.throttle.at_bytes = THROTTLE_BYTES;
            end_throttles(queue, sessions);
            sessions.send_notices(work, fx);
        }
        if queue.full && queue.memory_bytes() < self.queue_bytes_max / 10 * QUEUE_RESUME_TENTHS {
            queue.full = false;
            self.send_full(queue.id, false, fx);
            self.set_full(queue.id, false, sessions, work, fx);
        }
    }

    /// A queue of this shard is deleted or closed: its publishers continue, as far as the budget of the turn allows.
    pub fn release<E: Effects>(
        &mut self,
        queue: &mut Queue,
        sessions: &mut Sessions,
        work: &mut WorkBudget,
        fx: &mut E,
    ) {
        end_throttles(queue, sessions);
        if std::mem::take(&mut queue.full) {
            self.send_full(queue.id, false, fx);
            self.set_full(queue.id, false, sessions, work, fx);
        }
        sessions.send_notices(work, fx);
    }

    /// Tells the other shards whether a queue is full.
    fn send_full<E: Effects>(&self, queue: QueueId, full: bool, fx: &mut E) {
        for shard in self.identity.others() {
            fx.batch(shard).push(ShardMessage::QueueFull { queue, full });
        }
    }

    /// A queue, here or on another shard, is full, or it is not any more or deleted: its publishers continue, as far as the budget
    /// of the turn allows.
    pub fn set_full<E: Effects>(
        &mut self,
        queue: QueueId,
        full: bool,
        sessions: &mut Sessions,
        work: &mut WorkBudget,
        fx: &mut E,
    ) {
        if full {
            self.full.entry(queue).or_default();
        } else if let Some(slots) = self.full.remove(&queue) {
            sessions.release(PublisherRelease { queue, cause: ReleaseCause::Drained, slots });
            sessions.send_notices(work, fx);
        }
    }

    /// A queue of a route that is full. The lesser number is gone through, that of full queues or of those of the route.
    fn full_of(&self, route: &QueueRoute) -> Option<QueueId> {
        let queues = &*route.queues;
        debug_assert!(queues.is_sorted_by_key(|queue| queue.id.index), "routes are sorted");
        if queues.len() <= self.full.len() {
            return queues.iter().map(|queue| queue.id).find(|id| self.full.contains_key(id));
        }
        let is_on_route = |id: &&QueueId| {
            let place = queues.binary_search_by_key(&id.index, |queue| queue.id.index);
            place.is_ok_and(|place| queues[place].id == **id)
        };
        self.full.keys().find(is_on_route).copied()
    }

    /// Blocks a publisher while a queue it feeds is full, or memory is low.
    pub fn block<E: Effects>(
        &mut self,
        slot: ConnectionSlot,
        route: &QueueRoute,
        sessions: &mut Sessions,
        fx: &mut E,
    ) -> ReadControl {
        if let Some(queue) = self.full_of(route)
            && let Some(session) = sessions.get_mut(slot)
        {
            session.blocked_by = Some(queue);
            self.full.entry(queue).or_default().insert(slot);
        }
        let _one = sessions.notify_blocked(slot, fx);
        sessions.read_control(slot)
    }

    /// Has a publisher wait a moment for the consumers of a queue.
    #[cold]
    pub fn throttle<E: Effects>(
        slot: ConnectionSlot,
        id: QueueId,
        queues: &mut QueueTable,
        sessions: &mut Sessions,
        fx: &mut E,
    ) {
        if let Some(queue) = queues.get_mut(id) {
            queue.throttle.connections.insert(slot);
            queue.throttle.since_bytes = queue.memory_bytes();
        }
        if let Some(session) = sessions.get_mut(slot) {
            session.throttled_by = Some(id);
            fx.throttle(slot);
        }
    }

    /// That moment is over. If the consumers took little, waiting for them is in vain until the queue has grown again.
    pub fn end_throttle<E: Effects>(
        slot: ConnectionSlot,
        queues: &mut QueueTable,
        sessions: &mut Sessions,
        fx: &mut E,
    ) {
        let throttled_by = sessions.get(slot).and_then(|session| session.throttled_by);
        if let Some(queue) = throttled_by.and_then(|id| queues.get_mut(id)) {
            queue.throttle.connections.remove(&slot);
            let bytes = queue.memory_bytes();
            if bytes + THROTTLE_PROGRESS_BYTES_MIN > queue.throttle.since_bytes {
                queue.throttle.at_bytes = bytes + THROTTLE_BYTES;
            }
        }
        sessions.end_throttle(slot, fx);
    }
}

/// The publishers that are throttled for a queue continue.
fn end_throttles(queue: &mut Queue, sessions: &mut Sessions) {
    let slots = std::mem::take(&mut queue.throttle.connections);
    sessions.release(PublisherRelease { queue: queue.id, cause: ReleaseCause::CaughtUp, slots });
}

/// Whether a queue waits for consumers that would accept more if only their connections did.
fn waits_for_outputs<E: Effects>(queue: &Queue, channels: &Channels, fx: &E) -> bool {
    queue.consumers.iter().take(SLOW_CONSUMERS_CHECKED).any(|consumer| match consumer {
        ConsumerRef::Local(key) => channels.waits_for_output(key, fx),
        ConsumerRef::Remote(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::{FlowControl, ReadControl, WorkBudget};
    use crate::channels::Channels;
    use crate::effects::Effects;
    use crate::ids::ConnectionSlot;
    use crate::ids::ShardIdentity;
    use crate::session_state::{ClientCapabilities, SessionLogin};
    use crate::sessions::Sessions;
    use crate::test_effects::{RecordedEffects, queue_definition};
    use catalog::{QueueId, QueueRoute, RouteDependence, RoutedQueue, SessionId, ShardId, UserId, VhostId};
    use queues::{BodyRef, Content, Queue, Queues};
    use wire::Table;

    #[test]
    fn a_full_queue_is_reported_to_all_shards_and_blocks_until_it_has_drained() {
        let identity = ShardIdentity { shard: ShardId(1), shards: 3 };
        let mut flow = FlowControl::new(identity, 1_000);
        let channels = Channels::new(identity.shard);
        let mut sessions = Sessions::new(identity.shard);
        let session = SessionId { shard: identity.shard, slot: ConnectionSlot::new(5), serial: 1 };
        let capabilities = ClientCapabilities { connection_blocked: true, ..ClientCapabilities::default() };
        sessions.open(
            ConnectionSlot::new(5),
            SessionLogin { session, user: UserId(0), vhost: VhostId(0), capabilities },
            false,
        );
        let mut fx = RecordedEffects::default();
        let mut work = WorkBudget::new(1_000);
        let mut queue = Queue::new(QueueId { index: 0, serial: 1 }, "q".into(), VhostId(0), None, false);
        for _ in 0..3 {
            queue.ready.push(0, Content { body: BodyRef::Small(&[0; 300]), ..Content::EMPTY }.keep(&fx.pool));
            flow.after_push(&mut queue, &channels, 0, &mut fx);
        }
        assert!(queue.full && flow.is_any_full() && flow.slow_queue.is_none());
        assert_eq!([0, 1, 2].map(|shard| fx.batch(ShardId(shard)).messages.len()), [1, 0, 1]);
        let _paused = flow.block(ConnectionSlot::new(5), &route([queue.id]), &mut sessions, &mut fx);
        flow.after_dispatch(&mut queue, &mut sessions, &mut work, &mut fx);
        assert_eq!(fx.take(), "5: connection.blocked");
        drop(queue.ready.take());
        flow.after_dispatch(&mut queue, &mut sessions, &mut work, &mut fx);
        assert_eq!(fx.take(), "5: connection.unblocked | 5: resume");
        assert!(!flow.is_any_full() && fx.batch(ShardId(2)).messages.len() == 2);
    }

    fn id(index: u32) -> QueueId {
        QueueId { index, serial: 1 }
    }

    fn route(queues: impl IntoIterator<Item = QueueId>) -> QueueRoute {
        let queues = queues.into_iter().map(|id| RoutedQueue { id, home: ShardId(0) }).collect();
        QueueRoute { queues, held: Box::default(), decided: RouteDependence::ByKey, stamped: false }
    }

    /// Each publisher is blocked by the first full queue of its route, whether there are more full queues or more on the route,
    /// and continues with that one, and not with another.
    #[test]
    fn a_publisher_waits_for_a_full_queue_of_its_own() {
        let identity = ShardIdentity { shard: ShardId(0), shards: 2 };
        let mut flow = FlowControl::new(identity, 1_000);
        let mut sessions = Sessions::new(identity.shard);
        let slots = [0, 1, 2, 3].map(ConnectionSlot::new);
        for slot in slots {
            let session = SessionId { shard: identity.shard, slot, serial: 1 };
            let capabilities = ClientCapabilities::default();
            sessions.open(slot, SessionLogin { session, user: UserId(0), vhost: VhostId(0), capabilities }, false);
        }
        let (mut fx, mut work) = (RecordedEffects::default(), WorkBudget::new(1_000));
        for index in [10, 20, 30] {
            flow.set_full(id(index), true, &mut sessions, &mut work, &mut fx);
        }
        let other = QueueId { serial: 2, ..id(10) };
        let routes =
            [vec![id(20)], (0..25).map(id).collect(), vec![other, id(30)], vec![other, id(11), id(12), id(13)]];
        let blocked_by = [Some(id(20)), Some(id(10)), Some(id(30)), None];
        for ((slot, queues), expected) in slots.into_iter().zip(routes).zip(blocked_by) {
            let control = flow.block(slot, &route(queues), &mut sessions, &mut fx);
            assert_eq!(sessions.get(slot).and_then(|session| session.blocked_by), expected);
            assert_eq!(control == ReadControl::Pause, expected.is_some());
        }
        for (queue, resumed) in [(other, ""), (id(10), "1: resume"), (id(20), "0: resume"), (id(30), "2: resume")] {
            flow.set_full(queue, false, &mut sessions, &mut work, &mut fx);
            assert_eq!(fx.take(), resumed, "{queue:?}");
        }
        assert!(!flow.is_any_full());
    }

    #[test]
    fn publishers_whose_moment_is_over_leave_the_others_to_wait() {
        let (mut queues, mut fx) = (Queues::default(), RecordedEffects::default());
        let (mut sessions, slots) = (Sessions::new(ShardId(0)), [0, 1, 2].map(ConnectionSlot::new));
        queues.create(id(0), &queue_definition("q", Table::new()), false, 0);
        for slot in slots {
            let session = SessionId { shard: ShardId(0), slot, serial: 1 };
            let capabilities = ClientCapabilities::default();
            sessions.open(slot, SessionLogin { session, user: UserId(0), vhost: VhostId(0), capabilities }, false);
            FlowControl::throttle(slot, id(0), &mut queues.table, &mut sessions, &mut fx);
        }
        drop(fx.take());
        FlowControl::end_throttle(slots[1], &mut queues.table, &mut sessions, &mut fx);
        assert_eq!(fx.take(), "1: resume");
        let mut flow = FlowControl::new(ShardIdentity { shard: ShardId(0), shards: 1 }, 1_000);
        let mut work = WorkBudget::new(1_000);
        flow.after_dispatch(queues.table.get_mut(id(0)).expect("there"), &mut sessions, &mut work, &mut fx);
        assert_eq!(fx.take(), "0: resume | 2: resume");
    }
}
