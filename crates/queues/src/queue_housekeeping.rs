//! What all queues of a shard share: timers, quotas, how many messages wait, and the dead letters that nobody has routed yet.
//!
//! Whoever changes what waits in a queue ends with `after_push`, `after_dispatch` or one of the counts here, so that timers and
//! quotas are exact whenever a command has run.

use crate::dead_letter_reason::DeadLetterReason;
use crate::delivery_count::{rewriting_work, with_delivery_count};
use crate::expiry_turns::{ExpiryTurn, ExpiryTurns};
use crate::ids::{QueuePosition, StoredPosition};
use crate::limits::{EXPIRED_PER_CHECK, MESSAGE_OVERHEAD_BYTES};
use crate::message::Message;
use crate::message_storage::MessageStorage;
use crate::page::PageSummary;
use crate::paging::Paging;
use crate::pending_dead_letters::PendingDeadLetters;
use crate::queue::Queue;
use crate::queue_stats::DeathStats;
use crate::queue_timers::{QueueTimers, TimerTarget};
use crate::ready_messages::ReadyMessages;
use crate::vhost_quotas::VhostQuotas;
use crate::work_budget::WorkBudget;

/// Timers, quotas, counts and dead letters of the queues of a shard.
#[derive(Default)]
pub struct QueueHousekeeping {
    pub timers: QueueTimers,
    pub quotas: VhostQuotas,
    /// Messages that wait in all queues, in memory.
    pub waiting: usize,
    /// Bytes of these, with their overhead.
    pub waiting_bytes: u64,
    pub paging: Paging,
    pub dead_letters: PendingDeadLetters,
    /// Queues that keep what has expired until fewer of these wait.
    pub(crate) expiry_turns: ExpiryTurns,
    /// Messages that died and became no dead letters.
    pub dropped_dead: DeathStats,
}

/// What became of the messages for which a queue had no capacity.
pub struct OverflowDrop {
    /// Some were removed.
    any: bool,
    /// The queue must be dispatched: the budget of the turn is spent and more must be removed, or the next message was on a page
    /// and is in memory now.
    more: bool,
}

impl QueueHousekeeping {
    /// A message waits, in memory.
    #[inline]
    pub fn note_waiting(&mut self, message: &Message) {
        self.waiting += 1;
        self.waiting_bytes += message.bytes() as u64 + MESSAGE_OVERHEAD_BYTES;
    }

    /// A message has left its queue.
    #[inline]
    pub fn note_taken(&mut self, message: &Message) {
        self.waiting -= 1;
        self.waiting_bytes -= message.bytes() as u64 + MESSAGE_OVERHEAD_BYTES;
    }

    /// A queue is purged or deleted. The requests of others may have waited for its own.
    pub fn note_emptied(&mut self, ready: &ReadyMessages) {
        self.waiting -= ready.in_memory().0;
        self.waiting_bytes -= ready.memory_bytes();
        self.paging.pages -= ready.pages_len();
        self.paging.note_answered(ready.asked_bytes());
    }

    /// Whether more waits in memory than should.
    #[inline]
    pub fn exceeds_memory(&self) -> bool {
        self.paging.is_exceeded(self.waiting_bytes)
    }

    /// A message has left its queue and no consumer got it: it becomes a dead letter, if its queue has a target for them. Returns
    /// the work of its count of returns, which no dead letter has.
    pub fn dead_letter<S: MessageStorage>(
        &mut self,
        queue: &mut Queue,
        position: QueuePosition,
        message: Message,
        reason: DeadLetterReason,
        storage: &mut S,
    ) -> usize {
        let mut work = 0;
        let source = queue.uid.filter(|_| message.is_persistent()).map(|uid| StoredPosition { uid, position });
        let was_returned = queue.features.as_mut().is_some_and(|features| features.forget_returns(position));
        if let Some(target) = queue.dead_letter_target() {
            let has_count = was_returned || reason == DeadLetterReason::DeliveryLimit;
            work = if has_count { rewriting_work(&message) } else { 0 };
            let message = if has_count { with_delivery_count(&message, None, storage.pool()) } else { message };
            if self.dead_letters.push(target, reason, message, source) {
                // The store keeps it until its dead letter is there.
                return work;
            }
        } else {
            self.dropped_dead.add(reason, 1);
        }
        if let Some(StoredPosition { uid, position }) = source {
            storage.forget(uid, position, 1);
        }
        work
    }

    /// Removes the messages for which a queue has no capacity, the next first, as far as the budget of the turn allows.
    #[inline]
    pub fn drop_overflow<S: MessageStorage>(
        &mut self,
        queue: &mut Queue,
        work: &mut WorkBudget,
        storage: &mut S,
    ) -> OverflowDrop {
        let mut any = false;
        while queue.features.as_ref().is_some_and(|features| features.overflows(&queue.ready)) {
            // Each push makes capacity for itself, spent or not, so that the queue does not grow.
            if any && work.is_spent() {
                return OverflowDrop { any, more: true };
            }
            let Some(entry) = queue.ready.pop() else {
                if !self.drop_overflowing_page(queue, storage) {
                    break;
                }
                work.draw(1);
                any = true;
                continue;
            };
            self.note_taken(&entry.message);
            any = true;
            let reason = DeadLetterReason::MaxLength;
            work.draw(1 + self.dead_letter(queue, entry.position, entry.message, reason, storage));
        }
        // Consumers waited for the page that is gone.
        let more = any && queue.ready.has_head() && queue.consumers.has_active();
        OverflowDrop { any, more }
    }

    /// Removes expired messages from the head of a queue. Returns whether more may follow: `checks` are used up.
    #[inline]
    pub fn drop_expired<S: MessageStorage>(
        &mut self,
        queue: &mut Queue,
        now_us: u64,
        checks: &mut usize,
        storage: &mut S,
    ) -> bool {
        loop {
            while queue.has_expired(now_us) {
                if *checks >= EXPIRED_PER_CHECK {
                    return true;
                }
                *checks += 1 + self.drop_head(queue, storage);
            }
            if !queue.ready.awaits_page() || !self.drop_expired_page(queue, now_us, storage) {
                return false;
            }
            *checks += 1;
        }
    }

    /// Whether a queue that is dispatched keeps what has expired: very many dead letters wait for their turns. It has its own turn
    /// ([`Queues::next_due`](crate::Queues::next_due)) when fewer do.
    #[inline]
    pub fn keeps_expired(&mut self, queue: &mut Queue, now_us: u64) -> bool {
        if queue.expiry == ExpiryTurn::Has {
            queue.expiry = ExpiryTurn::Free;
            return false;
        }
        if queue.dead_letter_target().is_none() || !queue.has_expired(now_us) {
            return false;
        }
        if queue.expiry == ExpiryTurn::Free {
            if self.expiry_turns.is_empty() && !self.dead_letters.keeps_expired() {
                return false;
            }
            queue.expiry = ExpiryTurn::Waits;
            self.expiry_turns.push(queue.id);
        }
        true
    }

    /// Has a queue keep what has expired until a later time, as its dead letters wait for the outputs of their consumers.
    #[cold]
    pub fn postpone(&mut self, queue: &mut Queue, at_us: u64) {
        let target = TimerTarget::Queue(queue.id.index);
        self.timers.clear(target, &mut queue.timer_us);
        self.timers.set(target, &mut queue.timer_us, at_us);
    }

    /// Removes the expired message at the head of a queue. Returns the work of its count of returns.
    pub fn drop_head<S: MessageStorage>(&mut self, queue: &mut Queue, storage: &mut S) -> usize {
        let Some(entry) = queue.ready.pop() else { return 0 };
        self.note_taken(&entry.message);
        self.dead_letter(queue, entry.position, entry.message, DeadLetterReason::Expired, storage)
    }

    /// Messages were added to a level of a queue that has features, or that expires. Returns whether it must be dispatched.
    #[inline]
    pub fn after_push<S: MessageStorage>(
        &mut self,
        queue: &mut Queue,
        level: u8,
        expires: bool,
        work: &mut WorkBudget,
        storage: &mut S,
    ) -> bool {
        queue.expiring |= expires;
        let new_head = level > 0 || queue.ready.len() == 1;
        let dropped = self.drop_overflow(queue, work, storage);
        if dropped.any || new_head {
            self.rearm(queue);
        }
        self.quotas.update(queue);
        dropped.more
    }

    /// Bytes by which what waits in memory may grow before some of it is to leave.
    #[inline]
    pub fn room_in_memory(&self) -> u64 {
        self.paging.room(self.waiting_bytes)
    }

    /// Messages have left a queue, or returned to it. `more`: the queue has a turn again once others had theirs. Returns whether
    /// it must be dispatched again.
    #[inline]
    pub fn after_dispatch<S: MessageStorage>(
        &mut self,
        queue: &mut Queue,
        more: bool,
        now_us: u64,
        work: &mut WorkBudget,
        storage: &mut S,
    ) -> bool {
        // Requeued messages may exceed the limit.
        let dropped = self.drop_overflow(queue, work, storage);
        self.rearm(queue);
        if more {
            self.timers.set_now(TimerTarget::Queue(queue.id.index), &mut queue.timer_us, now_us);
        }
        self.quotas.update(queue);
        dropped.more
    }

    /// Sets the timer of a queue by its head and by its own expiration. An earlier timer stays.
    pub fn rearm(&mut self, queue: &mut Queue) {
        if queue.is_closed() {
            return;
        }
        let target = TimerTarget::Queue(queue.id.index);
        if queue.expiring {
            match queue.ready.front().map(|head| queue.deadline_us(head)) {
                Some(u64::MAX) => {}
                Some(deadline_us) => self.timers.set(target, &mut queue.timer_us, deadline_us),
                None if queue.ready.is_empty() => queue.expiring = queue.has_ttl(),
                // The first message of a page that is not in memory expires no earlier than this; until then nobody reads it.
                None => {
                    let page = queue.ready.head_page().filter(|_| !queue.ready.awaits_turn());
                    let deadline_us = page.and_then(|page| queue.page_deadline_us(page));
                    if let Some(deadline_us) = deadline_us.filter(|&deadline_us| deadline_us < u64::MAX) {
                        self.timers.set(target, &mut queue.timer_us, deadline_us);
                    }
                }
            }
        }
        // While it waits for a page with what may have expired it is not deleted: it is dispatched when that has come.
        if let Some(unused_us) = queue.unused_deadline_us().filter(|_| !queue.reads_expired()) {
            self.timers.set(target, &mut queue.timer_us, unused_us);
        }
    }

    /// Drops the page that the next message is on, unread, if all its messages are too many and nobody wants them as dead letters.
    #[cold]
    fn drop_overflowing_page<S: MessageStorage>(&mut self, queue: &mut Queue, storage: &mut S) -> bool {
        let Some(page) = queue.ready.head_page() else { return false };
        let (messages, body_bytes) = (u64::from(page.count), page.body_bytes);
        let overflows_without = queue.features.as_ref().is_some_and(|features| {
            features.dead_letter_target.is_none() && features.overflows_without(&queue.ready, messages, body_bytes)
        });
        overflows_without && self.drop_head_page(queue, DeadLetterReason::MaxLength, storage)
    }

    /// Drops the page that the next message is on, unread, if all its messages have expired and nobody wants them as dead letters.
    fn drop_expired_page<S: MessageStorage>(&mut self, queue: &mut Queue, now_us: u64, storage: &mut S) -> bool {
        let ttl_us = queue.features.as_ref().filter(|features| features.dead_letter_target.is_none());
        let Some(ttl_us) = ttl_us.and_then(|features| features.ttl_us) else { return false };
        let has_expired = |page: &PageSummary| page.last_arrived_us.saturating_add(ttl_us) <= now_us;
        queue.ready.head_page().is_some_and(has_expired)
            && self.drop_head_page(queue, DeadLetterReason::Expired, storage)
    }

    fn drop_head_page<S: MessageStorage>(
        &mut self,
        queue: &mut Queue,
        reason: DeadLetterReason,
        storage: &mut S,
    ) -> bool {
        let Some(page) = queue.ready.drop_head_page() else { return false };
        self.dropped_dead.add(reason, u64::from(page.count));
        self.paging.pages -= 1;
        if let Some(uid) = queue.paged_uid() {
            storage.forget_paged(uid, page.first, page.end);
        }
        true
    }

    /// Whether somebody wants the next message of a queue, which is on a page.
    pub fn demands_page(&self, queue: &Queue, now_us: u64) -> bool {
        let may_have_expired = |page: &PageSummary| queue.may_have_expired(page, now_us);
        queue.ready.awaits_page()
            && !queue.is_closed()
            && (queue.consumers.has_active()
                || self.paging.has_get(queue.id)
                || queue.features.as_ref().is_some_and(|features| features.overflows(&queue.ready))
                || queue.expiring && queue.ready.head_page().is_some_and(may_have_expired))
    }

    /// A queue asks for the messages of its pages that are wanted soon. Returns whether it has asked for all of them; otherwise
    /// it has a turn when others have got theirs.
    #[cold]
    pub fn ask_for_pages<S: MessageStorage>(&mut self, queue: &mut Queue, now_us: u64, storage: &mut S) -> bool {
        if queue.is_closed() {
            return true;
        }
        let is_demanded = self.demands_page(queue, now_us);
        let page_bytes = self.paging.page_bytes(self.waiting_bytes);
        let (id, uid) = (queue.id, queue.paged_uid());
        while let Some(uid) = uid
            && let Some(range) = queue.ready.next_range(page_bytes, is_demanded)
            && let Some(pages) = queue.ready.pages_mut()
        {
            if !self.paging.has_capacity(&range) {
                if !std::mem::replace(&mut pages.awaits_turn, true) {
                    self.paging.await_turn(id);
                }
                return false;
            }
            self.paging.note_asked(&range);
            pages.ask(range);
            storage.page_in(uid, range.first, range.end);
        }
        true
    }
}
