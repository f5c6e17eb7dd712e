//! Messages that leave the memory: which log has them, and how they come back.

use crate::limits::SPILL_SHARE_DIVISOR;
use crate::logged_message::QueuedMessage;
use crate::message_store::{MessageStore, position_of, uid_of};
use crate::page_reads::ReadPage;
use crate::spill::{Spill, SpillOpener};
use catalog::QueueUid;
use queues::{Message, QueuePosition};
use slab::Pool;
use std::ops::Range;
use store::{LoggedMessage, Position};

impl MessageStore {
    /// Has messages leave the memory: those that the log does not have go to a log on another disk.
    pub fn set_spill(&mut self, opener: SpillOpener) {
        let (store, log) = self.identity;
        self.spill = Some(Spill::new(opener, store, log));
    }

    /// Whether messages can leave the memory.
    pub fn can_page(&self) -> bool {
        self.spill.is_some()
    }

    /// Takes over messages of one level. Returns false if they must stay in memory.
    pub fn page_out(&mut self, queue: QueueUid, messages: &mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool {
        let MessageStore { log, spill: Some(spill), is_low, .. } = self else { return false };
        let uid = uid_of(queue);
        let page: Vec<(Position, QueuedMessage)> =
            messages.map(|(position, message)| (position_of(position), QueuedMessage(message.clone()))).collect();
        let (Some((first, _)), Some((last, _))) = (page.first(), page.last()) else { return true };
        let wanted = *first..Position(last.0 + 1);
        let logged = log.alive_within(uid, wanted.clone());
        let is_logged = |position: Position| has(&logged, position);
        let mut bytes = Share::default();
        page.iter().filter(|(position, _)| is_logged(*position)).for_each(|(_, message)| bytes.add(message.bytes()));
        // To read so much for so few messages, again and again, takes longer than to write them once more.
        let share = log.share_of(uid, wanted);
        let is_dense = bytes.average() * share.messages >= share.group_bytes / SPILL_SHARE_DIVISOR;
        let mut spilled = page.into_iter().filter(|(position, _)| !is_dense || !is_logged(*position)).peekable();
        if spilled.peek().is_none() {
            return true;
        }
        if *is_low || !spill.can_append() {
            return false;
        }
        spilled.for_each(|(position, message)| spill.append(uid, position, message));
        true
    }

    /// A page is wanted back: [`MessageStore::take_page`] hands it over.
    pub fn page_in(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition) {
        self.page_reads.push(uid_of(queue), position_of(first)..position_of(end));
        self.page_reads.begin(&mut self.log, self.spill.as_mut());
    }

    /// A queue is done with what it has on pages.
    pub fn forget_paged(&mut self, queue: QueueUid, first: QueuePosition, end: QueuePosition) {
        let count = end.0.saturating_sub(first.0);
        self.log.settle(uid_of(queue), position_of(first), count);
        if let Some(spill) = &mut self.spill {
            spill.settle(uid_of(queue), position_of(first), count);
        }
    }

    /// Whether `MessageStore::take_page` may have one.
    #[inline]
    pub fn has_pages(&self) -> bool {
        let has_fetched = self.log.has_fetched() || self.spill.as_ref().is_some_and(|spill| spill.has_fetched());
        has_fetched || self.page_reads.has_page()
    }

    /// The next page that is there.
    pub fn take_page(&mut self, pool: &Pool) -> Option<ReadPage> {
        let MessageStore { log, spill: Some(spill), page_reads, .. } = self else { return None };
        while let Some(fetched) = log.take_fetched(|stored| QueuedMessage::read(stored, pool)) {
            page_reads.on_logged(fetched);
        }
        while let Some(fetched) = spill.take_fetched(|stored| QueuedMessage::read(stored, pool)) {
            page_reads.on_spilled(fetched);
        }
        let page = page_reads.take(log, spill)?;
        page_reads.begin(log, Some(spill));
        Some(page)
    }
}

fn has(ranges: &[Range<u64>], position: Position) -> bool {
    let at = ranges.partition_point(|range| range.end <= position.0);
    ranges.get(at).is_some_and(|range| range.start <= position.0)
}

/// How much some messages take.
#[derive(Default)]
struct Share {
    messages: u64,
    bytes: u64,
}

impl Share {
    fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }

    fn average(&self) -> u64 {
        self.bytes.checked_div(self.messages).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
