//! The pager: messages of queues leave the memory when too many wait in it, and return when they are wanted.

use crate::delivery_count::with_delivery_count;
use crate::ids::QueuePosition;
use crate::limits::{FRUITLESS_PAGE_WORK, PAGED_MESSAGES_PER_WORK, PAGING_QUEUES_CHECKED};
use crate::message_storage::MessageStorage;
use crate::page::PagedMessage;
use crate::queue::Queue;
use crate::queues::Queues;
use crate::work_budget::WorkBudget;
use catalog::{QueueId, QueueUid};

/// What paging touches.
pub struct Pager<'a> {
    pub queues: &'a mut Queues,
    pub work: &'a mut WorkBudget,
    pub now_us: u64,
}

impl Pager<'_> {
    /// A message was added to a level of a queue, which may have pages, or more may wait in memory than should.
    #[cold]
    pub fn after_push<S: MessageStorage>(&mut self, id: QueueId, level: u8, storage: &mut S) {
        let Queues { table, housekeeping, .. } = &*self.queues;
        let Some(queue) = table.get(id) else { return };
        // The message may be the next, while consumers wait for one on a page; or others before it were dropped up to a page.
        let is_next = level > 0 && queue.ready.has_pages() && queue.ready.has_head();
        if is_next || housekeeping.demands_page(queue, self.now_us) {
            self.queues.mark_due(id);
        }
        if self.queues.housekeeping.exceeds_memory() {
            self.page_out(id, storage);
        }
    }

    /// Messages of a queue leave the memory: at most a page. If it has too few that may, others are looked at, each in its turn.
    fn page_out<S: MessageStorage>(&mut self, id: QueueId, storage: &mut S) {
        if self.page_out_queue(id.index as usize, storage) {
            return;
        }
        for _ in 0..PAGING_QUEUES_CHECKED {
            let hand = &mut self.queues.housekeeping.paging.hand;
            *hand = if *hand + 1 < self.queues.table.places() { *hand + 1 } else { 0 };
            let index = *hand;
            if self.page_out_queue(index, storage) {
                return;
            }
        }
    }

    /// Returns whether the store was asked to take messages of a queue.
    fn page_out_queue<S: MessageStorage>(&mut self, index: usize, storage: &mut S) -> bool {
        let Queues { table, housekeeping, .. } = &mut *self.queues;
        let Some(queue) = table.at_mut(index) else { return false };
        let page_bytes = housekeeping.paging.page_bytes(housekeeping.waiting_bytes);
        let Some(level) = queue.ready.level_to_page_out(page_bytes) else { return false };
        let Some(uid) = queue.paged_uid().or_else(|| {
            queue.spill_uid = housekeeping.paging.new_uid();
            queue.spill_uid
        }) else {
            return false;
        };
        let id = queue.id;
        let (before, pages) = (Memory::of(queue), queue.ready.pages_len());
        let mut was_asked = false;
        let page = queue.ready.page_out(level, page_bytes, |messages| {
            was_asked = true;
            storage.page_out(uid, messages)
        });
        let after = Memory::of(queue);
        housekeeping.paging.pages += queue.ready.pages_len() - pages;
        housekeeping.waiting -= before.messages - after.messages;
        housekeeping.waiting_bytes -= before.bytes - after.bytes;
        if was_asked {
            housekeeping.paging.note_written(page.is_some(), housekeeping.waiting_bytes);
            self.work.draw(page.map_or(1, |page| page.count as usize / PAGED_MESSAGES_PER_WORK));
        } else {
            self.work.draw(FRUITLESS_PAGE_WORK);
        }
        self.queues.note_uid(uid, id);
        was_asked
    }

    /// Messages have come that a queue has asked for. Returns the queue, unless it is gone or does not want them any more.
    pub fn page_in<S: MessageStorage>(
        &mut self,
        uid: QueueUid,
        first: QueuePosition,
        messages: Vec<PagedMessage>,
        storage: &mut S,
    ) -> Option<QueueId> {
        let id = self.queues.by_uid(uid)?;
        let Queues { table, housekeeping, .. } = &mut *self.queues;
        let queue = table.get_mut(id)?;
        let (before, pages) = (Memory::of(queue), queue.ready.pages_len());
        self.work.draw(messages.len() / PAGED_MESSAGES_PER_WORK);
        let Queue { ready, features, expiring, .. } = queue;
        let messages = messages.into_iter().map(|mut paged| {
            *expiring |= paged.message.has_expiration();
            if paged.times_returned > 0 {
                paged.message = with_delivery_count(&paged.message, Some(paged.times_returned), storage.pool());
                if let Some(features) = features.as_mut().filter(|features| features.delivery_limit.is_some()) {
                    features.restore_returns(paged.position, paged.times_returned);
                }
            }
            paged
        });
        let range = ready.page_in(first, messages)?;
        let after = Memory::of(queue);
        housekeeping.paging.pages -= pages - queue.ready.pages_len();
        housekeeping.waiting += after.messages - before.messages;
        housekeeping.waiting_bytes += after.bytes - before.bytes;
        housekeeping.paging.note_answered(range.bytes);
        housekeeping.quotas.update(queue);
        self.queues.mark_due(id);
        self.run_turns(storage);
        Some(id)
    }

    /// Queues that have waited for their turns ask for messages, as far as there is room.
    pub fn run_turns<S: MessageStorage>(&mut self, storage: &mut S) {
        let Queues { table, housekeeping, .. } = &mut *self.queues;
        while let Some(id) = housekeeping.paging.next_turn() {
            let Some(queue) = table.get_mut(id) else { continue };
            if let Some(pages) = queue.ready.pages_mut() {
                pages.awaits_turn = false;
            }
            if !housekeeping.ask_for_pages(queue, self.now_us, storage) {
                housekeeping.paging.put_back_turn();
                return;
            }
            // Nobody may want the page any more: then its messages expire there.
            housekeeping.rearm(queue);
        }
    }
}

/// What a queue has in memory.
struct Memory {
    messages: usize,
    bytes: u64,
}

impl Memory {
    fn of(queue: &Queue) -> Memory {
        Memory { messages: queue.ready.in_memory().0, bytes: queue.ready.memory_bytes() }
    }
}
