//! Time: messages and queues whose time is over, delayed messages whose time has come.
//!
//! Enters: the time, as the shard tells it.  Leaves: expired messages given up, unused queues removed; when to look next.
//! Owns:   when a queue must be looked at.
//! Never:  reads a clock, looks at a queue whose time has not come.

use super::bury::give_up;
use super::{Broker, find};
use crate::pending_dead_letters::PendingDeadLetters;
use crate::death_history::DeadLetterReason;
use crate::effects::Effects;
use crate::limits::{EXPIRED_PER_CHECK, DEAD_LETTER_THROTTLE_US};
use crate::queue::Queue;
use crate::queue_timers::{TimerTarget, QueueTimers};
use catalog::{Definition, QueueId, Refusal};
use wire::ReplyCode;

/// How often the deliveries that are out are looked at within a consumer timeout.
const OVERDUE_LOOKS: u64 = 8;

impl Broker {
    /// Tells the time: microseconds since some moment that is the same for all shards. Everything that follows happens then.
    #[inline]
    pub fn set_now(&mut self, now_us: u64) {
        debug_assert!(now_us >= self.now_us, "time goes on");
        self.now_us = now_us;
    }

    /// When [`Broker::fire`] has something to do, in the same microseconds.
    #[inline]
    pub fn next_timer(&self) -> Option<u64> {
        let waits = self.options.consumer_timeout_ms > 0 && self.tables.unsettled > 0;
        let overdue = waits.then_some(self.overdue_look_us);
        self.timers.next().into_iter().chain(overdue).min()
    }

    /// Does what is due.
    pub fn run_timers<E: Effects>(&mut self, fx: &mut E) {
        while let Some(due) = self.timers.pop_due(self.now_us) {
            match due {
                TimerTarget::Queue(index) => self.look_at(index, fx),
                TimerTarget::Delayed => {
                    self.delayed.timer_us = 0;
                    self.release_due(fx);
                }
            }
        }
        if self.options.consumer_timeout_ms > 0 && self.now_us >= self.overdue_look_us {
            self.look_for_overdue(fx);
        }
        self.dispatch_due(fx);
    }

    /// The time of a queue has come.
    fn look_at<E: Effects>(&mut self, index: u32, fx: &mut E) {
        let Some(Some(queue)) = self.queues.get_mut(index as usize) else { return };
        queue.timer_us = 0;
        let id = queue.id;
        if queue.is_unused_since(self.now_us) {
            if let Some(features) = &mut queue.features {
                features.expires_us = None;
            }
            self.define_unasked(Definition::RemoveQueue { id }, fx);
        } else if self.outrun_by_letters.take().is_some() {
            // What takes the dead letters needs a moment, as after a publisher that outruns its consumers.
            self.timers.set(TimerTarget::Queue(index), &mut queue.timer_us, self.now_us + DEAD_LETTER_THROTTLE_US);
            return;
        }
        self.make_due(id);
    }

    /// Closes the channels with deliveries that wait too long for their acknowledgement. It notes how far each ledger has come
    /// now and then, so that a delivery needs no time of its own: it is late by an eighth of the timeout at most.
    #[cold]
    fn look_for_overdue<E: Effects>(&mut self, fx: &mut E) {
        let timeout_us = self.options.consumer_timeout_ms.saturating_mul(1_000);
        self.overdue_look_us = self.now_us + (timeout_us / OVERDUE_LOOKS).max(1_000);
        for channel in self.tables.channels.values_mut() {
            let Some(oldest) = channel.ledger.oldest() else {
                channel.tag_checkpoints.clear();
                continue;
            };
            while channel.tag_checkpoints.front().is_some_and(|&(_, last)| last < oldest) {
                channel.tag_checkpoints.pop_front();
            }
            if channel.tag_checkpoints.front().is_some_and(|&(at_us, _)| self.now_us >= at_us.saturating_add(timeout_us)) {
                let text = format!(
                    "PRECONDITION_FAILED - delivery acknowledgement on channel {} timed out. Timeout value used: {} ms. \
                     This timeout value can be configured, see consumers doc guide to learn more",
                    channel.number, self.options.consumer_timeout_ms
                );
                let refusal = Refusal::channel(ReplyCode::PreconditionFailed, text);
                fx.refuse(channel.slot, channel.number, refusal, (0, 0));
                channel.tag_checkpoints.clear();
                continue;
            }
            channel.tag_checkpoints.push_back((self.now_us, channel.ledger.next_tag() - 1));
        }
    }

    /// A queue is used: it does not expire for a while.
    pub(super) fn note_use(&mut self, id: QueueId) {
        let now_us = self.now_us;
        if let Some(queue) = find(&mut self.queues, id)
            && let Some(features) = &mut queue.features
            && features.expires_us.is_some()
        {
            features.used_us = now_us;
            rearm(&mut self.timers, queue);
        }
    }
}

/// Sets the time of a queue by its head and by its own end. Nothing happens if an earlier time is set already.
pub(super) fn rearm(timers: &mut QueueTimers, queue: &mut Queue) {
    let due = TimerTarget::Queue(queue.id.index);
    if queue.expiring {
        match queue.ready.front().map(|head| queue.deadline_us(head)) {
            Some(u64::MAX) => {}
            Some(deadline_us) => timers.set(due, &mut queue.timer_us, deadline_us),
            None => queue.expiring = queue.has_ttl(),
        }
    }
    if let Some(unused_us) = queue.unused_deadline_us() {
        timers.set(due, &mut queue.timer_us, unused_us);
    }
}

/// Gives up the messages at the head of a queue whose time is over. Answers whether more may follow: `looks` are used up.
#[inline]
pub(super) fn drop_expired<E: Effects>(
    queue: &mut Queue,
    now_us: u64,
    looks: &mut usize,
    waiting: &mut usize,
    dead: &mut PendingDeadLetters,
    fx: &mut E,
) -> bool {
    while let Some(head) = queue.ready.front()
        && queue.deadline_us(head) <= now_us
    {
        if *looks >= EXPIRED_PER_CHECK {
            return true;
        }
        *looks += 1;
        if let Some(taken) = queue.ready.pop() {
            *waiting -= 1;
            give_up(queue, taken.position, taken.message, DeadLetterReason::Expired, dead, fx);
        }
    }
    false
}
