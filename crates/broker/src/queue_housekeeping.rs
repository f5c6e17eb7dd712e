//! What all queues of a shard share: timers, quotas, how many messages wait, and the dead letters that nobody has routed yet.
//!
//! Whoever changes what waits in a queue ends with `after_push`, `after_dispatch` or one of the counts here, so that timers and
//! quotas are exact whenever a command has run.

use crate::dead_letter_reason::DeadLetterReason;
use crate::delivery_count::with_delivery_count;
use crate::effects::Effects;
use crate::ids::{QueuePosition, StoredPosition};
use crate::limits::EXPIRED_PER_CHECK;
use crate::message::Message;
use crate::pending_dead_letters::PendingDeadLetters;
use crate::queue::Queue;
use crate::queue_timers::{QueueTimers, TimerTarget};
use crate::vhost_quotas::VhostQuotas;
use crate::work_budget::WorkBudget;

/// Timers, quotas, counts and dead letters of the queues of a shard.
#[derive(Default)]
pub(crate) struct QueueHousekeeping {
    pub timers: QueueTimers,
    pub quotas: VhostQuotas,
    /// Messages that wait in all queues.
    pub waiting: usize,
    pub dead_letters: PendingDeadLetters,
}

/// What became of the messages for which a queue had no capacity.
pub(crate) struct OverflowDrop {
    /// Some were removed.
    any: bool,
    /// The budget of the turn is spent, and more must be removed.
    more: bool,
}

impl QueueHousekeeping {
    /// A message has left its queue and no consumer got it: it becomes a dead letter, if its queue has a target for them.
    pub fn dead_letter<E: Effects>(
        &mut self,
        queue: &mut Queue,
        position: QueuePosition,
        message: Message,
        reason: DeadLetterReason,
        fx: &mut E,
    ) {
        let source = queue.uid.filter(|_| message.is_persistent()).map(|uid| StoredPosition { uid, position });
        let was_returned = queue.features.as_mut().is_some_and(|features| features.forget_returns(position));
        if let Some(target) = queue.dead_letter_target() {
            let has_count = was_returned || reason == DeadLetterReason::DeliveryLimit;
            let message = if has_count { with_delivery_count(&message, None, fx.pool()) } else { message };
            if self.dead_letters.push(target, reason, message, source) {
                // The store keeps it until its dead letter is there.
                return;
            }
        }
        if let Some(StoredPosition { uid, position }) = source {
            fx.forget(uid, position, 1);
        }
    }

    /// Removes the messages for which a queue has no capacity, the next first, as far as the budget of the turn allows.
    #[inline]
    pub fn drop_overflow<E: Effects>(&mut self, queue: &mut Queue, work: &mut WorkBudget, fx: &mut E) -> OverflowDrop {
        let mut any = false;
        while queue.features.as_ref().is_some_and(|features| features.overflows(&queue.ready)) {
            // Each push makes capacity for itself, spent or not, so that the queue does not grow.
            if any && work.is_spent() {
                return OverflowDrop { any, more: true };
            }
            let Some(entry) = queue.ready.pop() else { break };
            work.draw(1);
            self.waiting -= 1;
            any = true;
            self.dead_letter(queue, entry.position, entry.message, DeadLetterReason::MaxLength, fx);
        }
        OverflowDrop { any, more: false }
    }

    /// Removes expired messages from the head of a queue. Returns whether more may follow: `checks` are used up.
    #[inline]
    pub fn drop_expired<E: Effects>(&mut self, queue: &mut Queue, now_us: u64, checks: &mut usize, fx: &mut E) -> bool {
        while queue.has_expired(now_us) {
            if *checks >= EXPIRED_PER_CHECK {
                return true;
            }
            *checks += 1;
            self.drop_head(queue, fx);
        }
        false
    }

    /// Removes the expired message at the head of a queue.
    pub fn drop_head<E: Effects>(&mut self, queue: &mut Queue, fx: &mut E) {
        if let Some(entry) = queue.ready.pop() {
            self.waiting -= 1;
            self.dead_letter(queue, entry.position, entry.message, DeadLetterReason::Expired, fx);
        }
    }

    /// A message was added to a queue that has features, or that expires. Returns whether it must be dispatched, because more has
    /// to be removed from it.
    #[inline]
    pub fn after_push<E: Effects>(
        &mut self,
        queue: &mut Queue,
        level: u8,
        expires: bool,
        work: &mut WorkBudget,
        fx: &mut E,
    ) -> bool {
        queue.expiring |= expires;
        let new_head = level > 0 || queue.ready.len() == 1;
        let dropped = self.drop_overflow(queue, work, fx);
        if dropped.any || new_head {
            self.rearm(queue);
        }
        self.quotas.update(queue);
        dropped.more
    }

    /// Messages have left a queue, or returned to it. `more`: the queue has a turn again once others had theirs. Returns whether
    /// it must be dispatched again, because more has to be removed from it.
    #[inline]
    pub fn after_dispatch<E: Effects>(
        &mut self,
        queue: &mut Queue,
        more: bool,
        now_us: u64,
        work: &mut WorkBudget,
        fx: &mut E,
    ) -> bool {
        // Requeued messages may exceed the limit.
        let dropped = self.drop_overflow(queue, work, fx);
        self.rearm(queue);
        if more {
            self.timers.set_now(TimerTarget::Queue(queue.id.index), &mut queue.timer_us, now_us);
        }
        self.quotas.update(queue);
        dropped.more
    }

    /// Sets the timer of a queue by its head and by its own expiration. An earlier timer stays.
    pub fn rearm(&mut self, queue: &mut Queue) {
        let target = TimerTarget::Queue(queue.id.index);
        if queue.expiring {
            match queue.ready.front().map(|head| queue.deadline_us(head)) {
                Some(u64::MAX) => {}
                Some(deadline_us) => self.timers.set(target, &mut queue.timer_us, deadline_us),
                None => queue.expiring = queue.has_ttl(),
            }
        }
        if let Some(unused_us) = queue.unused_deadline_us() {
            self.timers.set(target, &mut queue.timer_us, unused_us);
        }
    }
}
