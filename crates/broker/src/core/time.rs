//! Time: messages and queues whose time is over.
//!
//! Enters: the time, as the shard tells it.  Leaves: expired messages given up, unused queues removed; when to look next.
//! Owns:   when a queue must be looked at.
//! Never:  reads a clock, looks at a queue whose time has not come.

use super::bury::give_up;
use super::{Broker, find};
use crate::death::{Dead, Reason};
use crate::effects::Effects;
use crate::limits::EXPIRED_PER_LOOK;
use crate::queue::Queue;
use crate::timers::Timers;
use catalog::{Definition, QueueId};
use std::collections::VecDeque;

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
        self.timers.next()
    }

    /// Does what is due.
    pub fn fire<E: Effects>(&mut self, fx: &mut E) {
        while let Some(index) = self.timers.take_due(self.now_us) {
            let Some(Some(queue)) = self.queues.get_mut(index as usize) else { continue };
            queue.timer_us = 0;
            let id = queue.id;
            if queue.is_unused_since(self.now_us) {
                if let Some(features) = &mut queue.features {
                    features.expires_us = None;
                }
                self.define_unasked(Definition::RemoveQueue { id }, fx);
            }
            self.make_due(id);
        }
        self.dispatch_due(fx);
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
pub(super) fn rearm(timers: &mut Timers, queue: &mut Queue) {
    let index = queue.id.index;
    if queue.expiring {
        match queue.ready.front().map(|head| queue.deadline_us(head)) {
            Some(u64::MAX) => {}
            Some(deadline_us) => timers.set(index, &mut queue.timer_us, deadline_us),
            None => queue.expiring = queue.has_ttl(),
        }
    }
    if let Some(unused_us) = queue.unused_deadline_us() {
        timers.set(index, &mut queue.timer_us, unused_us);
    }
}

/// Gives up the messages at the head of a queue whose time is over. Answers whether more may follow: `looks` are used up.
#[inline]
pub(super) fn drop_expired<E: Effects>(
    queue: &mut Queue,
    now_us: u64,
    looks: &mut usize,
    waiting: &mut usize,
    dead: &mut VecDeque<Dead>,
    fx: &mut E,
) -> bool {
    while let Some(head) = queue.ready.front()
        && queue.deadline_us(head) <= now_us
    {
        if *looks >= EXPIRED_PER_LOOK {
            return true;
        }
        *looks += 1;
        if let Some(taken) = queue.ready.pop() {
            *waiting -= 1;
            give_up(queue, taken.place, taken.message, Reason::Expired, dead, fx);
        }
    }
    false
}
