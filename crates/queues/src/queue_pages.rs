//! The pages of one queue, and the messages in front of them that are in memory.
//!
//! By level, in the order of positions: the front, then pages. What follows the pages is in memory again, in its level's list.

use crate::ids::QueuePosition;
use crate::limits::{MESSAGE_OVERHEAD_BYTES, PAGE_BYTES_MAX, PAGE_MESSAGES_MAX, PAGES_ASKED_MAX};
use crate::message::Message;
use crate::page::{PageSummary, PagedMessage};
use crate::queue_entry::QueueEntry;
use std::collections::VecDeque;

/// Messages, and their bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MessageTotals {
    pub messages: usize,
    pub bytes: u64,
    pub body_bytes: u64,
}

impl MessageTotals {
    pub fn add(&mut self, message: &Message) {
        self.messages += 1;
        self.bytes += message.bytes() as u64;
        self.body_bytes += message.body_bytes() as u64;
    }

    pub fn add_all(&mut self, other: MessageTotals) {
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.body_bytes += other.body_bytes;
    }

    pub fn remove_all(&mut self, other: MessageTotals) {
        self.messages -= other.messages;
        self.bytes -= other.bytes;
        self.body_bytes -= other.body_bytes;
    }
}

impl PageSummary {
    pub fn totals(&self) -> MessageTotals {
        MessageTotals { messages: self.count as usize, bytes: self.bytes, body_bytes: self.body_bytes }
    }

    /// Bytes that its messages take in memory.
    fn memory_bytes(&self) -> u64 {
        self.bytes + u64::from(self.count) * MESSAGE_OVERHEAD_BYTES
    }

    /// A page without messages, whose first will have this position.
    pub(crate) fn starting_at(first: QueuePosition) -> PageSummary {
        PageSummary {
            first,
            end: first,
            count: 0,
            bytes: 0,
            body_bytes: 0,
            first_arrived_us: u64::MAX,
            last_arrived_us: 0,
            may_have_expiration: false,
        }
    }

    /// Whether it has room for a message of so many bytes.
    pub fn has_capacity(&self, bytes: u64) -> bool {
        (self.count as usize) < PAGE_MESSAGES_MAX && (self.count == 0 || self.bytes + bytes <= PAGE_BYTES_MAX)
    }

    /// Adds the message at its end.
    pub fn push(&mut self, message: &Message) {
        self.end = QueuePosition(self.end.0 + 1);
        self.count += 1;
        self.bytes += message.bytes() as u64;
        self.body_bytes += message.body_bytes() as u64;
        self.first_arrived_us = self.first_arrived_us.min(message.arrived_us());
        self.last_arrived_us = self.last_arrived_us.max(message.arrived_us());
        self.may_have_expiration |= message.has_expiration();
    }

    /// Adds the page behind it, if both together are no larger than a page may be. Returns whether they are.
    fn merge(&mut self, next: &PageSummary) -> bool {
        let fits = self.end == next.first
            && self.count as usize + next.count as usize <= PAGE_MESSAGES_MAX
            && self.bytes + next.bytes <= PAGE_BYTES_MAX;
        if fits {
            self.end = next.end;
            self.count += next.count;
            self.bytes += next.bytes;
            self.body_bytes += next.body_bytes;
            self.first_arrived_us = self.first_arrived_us.min(next.first_arrived_us);
            self.last_arrived_us = self.last_arrived_us.max(next.last_arrived_us);
            self.may_have_expiration |= next.may_have_expiration;
        }
        fits
    }
}

/// Messages that were asked for and have not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskedRange {
    pub first: QueuePosition,
    pub end: QueuePosition,
    /// Bytes that they will take in memory, about.
    pub bytes: u64,
}

/// The front and the pages of one level; not both are empty.
#[derive(Default)]
struct LevelPages {
    level: u8,
    front: VecDeque<QueueEntry>,
    /// Bytes that the front takes in memory.
    front_bytes: u64,
    pages: VecDeque<PageSummary>,
    /// The first parts of the pages, in the order in which they come.
    asked: VecDeque<AskedRange>,
}

impl LevelPages {
    fn push_front_page(&mut self, entry: QueueEntry) {
        self.front_bytes += memory_bytes(&entry.message);
        self.front.push_back(entry);
    }

    /// The position of its first message, or of a page that may have it.
    fn first(&self) -> Option<QueuePosition> {
        self.front.front().map(|entry| entry.position).or_else(|| Some(self.pages.front()?.first))
    }

    /// What to ask for next: about so many bytes of the first page that was not asked for.
    fn next_range(&self, bytes: u64) -> Option<AskedRange> {
        let asked = self.asked.back().map_or(QueuePosition(0), |range| range.end);
        let page = self.pages.iter().find(|page| page.end > asked)?;
        let first = page.first.max(asked);
        let (positions, all) = (page.end.0 - first.0, page.end.0 - page.first.0);
        let each = (page.memory_bytes() / all).max(1);
        // The rest of a page is not left for a request of its own.
        let wanted = (bytes / each).clamp(1, PAGE_MESSAGES_MAX as u64);
        let count = if wanted + wanted / 2 >= positions { positions } else { wanted };
        Some(AskedRange { first, end: QueuePosition(first.0 + count), bytes: each * count })
    }
}

fn memory_bytes(message: &Message) -> u64 {
    message.bytes() as u64 + MESSAGE_OVERHEAD_BYTES
}

/// The pages of a queue, by level. A queue without any has no such object.
#[derive(Default)]
pub struct QueuePages {
    /// Ascending.
    levels: Vec<LevelPages>,
    /// How many pages there are.
    len: usize,
    /// What is on pages.
    pub paged: MessageTotals,
    /// Bytes of what was asked for, as the shard counts them.
    pub asked_bytes: u64,
    /// It is among those that ask for a page when others have got theirs.
    pub awaits_turn: bool,
}

impl QueuePages {
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    fn get(&self, level: u8) -> Option<&LevelPages> {
        self.levels.iter().rev().find(|pages| pages.level == level)
    }

    fn get_mut(&mut self, level: u8) -> Option<&mut LevelPages> {
        self.levels.iter_mut().rev().find(|pages| pages.level == level)
    }

    fn get_or_insert(&mut self, level: u8) -> &mut LevelPages {
        let at = self.levels.partition_point(|pages| pages.level < level);
        if self.levels.get(at).is_none_or(|pages| pages.level != level) {
            // Most queues have one level.
            self.levels.reserve_exact(1);
            self.levels.insert(at, LevelPages { level, ..LevelPages::default() });
        }
        &mut self.levels[at]
    }

    /// How many pages there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The highest level with a front or pages.
    pub fn top(&self) -> Option<u8> {
        self.levels.last().map(|pages| pages.level)
    }

    pub fn has_level(&self, level: u8) -> bool {
        self.get(level).is_some()
    }

    /// Whether a level has pages, and not only a front.
    pub fn has_pages(&self, level: u8) -> bool {
        self.get(level).is_some_and(|pages| !pages.pages.is_empty())
    }

    /// Where the front of a level begins, or its first page if it has no front.
    pub fn first(&self, level: u8) -> Option<QueuePosition> {
        self.get(level)?.first()
    }

    /// The first message of a level, if it is in memory.
    pub fn front(&self, level: u8) -> Option<&Message> {
        self.get(level)?.front.front().map(|entry| &entry.message)
    }

    /// Those in front of the pages of a level.
    pub fn in_front(&self, level: u8) -> impl Iterator<Item = &QueueEntry> {
        self.get(level).into_iter().flat_map(|pages| &pages.front)
    }

    pub fn pop(&mut self, level: u8) -> Option<QueueEntry> {
        let pages = self.get_mut(level)?;
        let entry = pages.front.pop_front()?;
        pages.front_bytes -= memory_bytes(&entry.message);
        self.remove_empty(level);
        Some(entry)
    }

    fn remove_empty(&mut self, level: u8) {
        if self.get(level).is_some_and(|pages| pages.first().is_none()) {
            self.levels.retain(|pages| pages.level != level);
        }
    }

    /// Adds a message to the front of a level, which has no pages.
    pub fn push_front(&mut self, entry: QueueEntry) {
        let pages = self.get_or_insert(entry.position.level());
        debug_assert!(pages.pages.is_empty(), "the front is before the pages");
        pages.push_front_page(entry);
    }

    /// Adds a page at the end of a level. Small ones that follow one another become one.
    pub fn push(&mut self, page: PageSummary) {
        self.paged.add_all(page.totals());
        let pages = self.get_or_insert(page.first.level());
        let asked = pages.asked.back().map_or(QueuePosition(0), |range| range.end);
        let last = pages.pages.back_mut().filter(|last| asked <= last.first);
        if !last.is_some_and(|last| last.merge(&page)) {
            pages.pages.push_back(page);
            self.len += 1;
        }
    }

    /// The page that the first message of a level is on, unless it is in memory or was asked for.
    pub fn head_page(&self, level: u8) -> Option<&PageSummary> {
        let pages = self.get(level).filter(|pages| pages.front.is_empty() && pages.asked.is_empty())?;
        pages.pages.front()
    }

    /// Takes this page out.
    pub fn drop_head_page(&mut self, level: u8) -> Option<PageSummary> {
        let page = *self.head_page(level)?;
        self.get_mut(level)?.pages.pop_front();
        self.len -= 1;
        self.paged.remove_all(page.totals());
        self.remove_empty(level);
        Some(page)
    }

    /// Takes any page out, asked for or not.
    pub fn take_page(&mut self) -> Option<PageSummary> {
        let pages = self.levels.iter_mut().find(|pages| !pages.pages.is_empty())?;
        pages.asked.clear();
        let (level, page) = (pages.level, pages.pages.pop_front()?);
        self.len -= 1;
        self.paged.remove_all(page.totals());
        self.remove_empty(level);
        Some(page)
    }

    /// Takes all pages out; the fronts stay. Returns what was on them.
    pub fn clear_pages(&mut self) -> MessageTotals {
        self.levels.retain_mut(|pages| {
            pages.pages = VecDeque::new();
            pages.asked.clear();
            !pages.front.is_empty()
        });
        self.len = 0;
        std::mem::take(&mut self.paged)
    }

    /// What to ask for next at a level: about so many bytes, once half of that is used. `demanded`: its first message is wanted.
    pub fn next_range(&self, level: u8, bytes: u64, demanded: bool) -> Option<AskedRange> {
        let pages = self.get(level)?;
        let is_wanted = match pages.asked.len() {
            _ if pages.asked.len() >= PAGES_ASKED_MAX => false,
            0 if pages.front.is_empty() => demanded,
            0 => pages.front_bytes <= bytes / 2,
            _ => pages.front.is_empty(),
        };
        if is_wanted { pages.next_range(bytes) } else { None }
    }

    /// This is asked for.
    pub fn ask(&mut self, range: AskedRange) {
        if let Some(pages) = self.get_mut(range.first.level()) {
            pages.asked.push_back(range);
            self.asked_bytes += range.bytes;
        }
    }

    /// Nothing that was asked for is wanted any more.
    pub fn withdraw(&mut self) {
        self.levels.iter_mut().for_each(|pages| pages.asked.clear());
        (self.asked_bytes, self.awaits_turn) = (0, false);
    }

    /// The messages have come that were asked for first: they are at the end of the front. Returns what was asked for, what has
    /// come and what the pages have less, unless nobody has asked for messages from this position on.
    pub fn page_in(
        &mut self,
        first: QueuePosition,
        messages: impl Iterator<Item = PagedMessage>,
    ) -> Option<(AskedRange, MessageTotals, MessageTotals)> {
        let level = first.level();
        let pages = self.get_mut(level)?;
        let range = pages.asked.front().copied().filter(|range| range.first == first)?;
        pages.asked.pop_front();
        let mut found = MessageTotals::default();
        let mut at = range.first;
        for PagedMessage { position, message, redelivered, .. } in messages {
            // What is out of order or was not asked for would be delivered twice.
            if position < at || position >= range.end {
                continue;
            }
            at = QueuePosition(position.0 + 1);
            found.add(&message);
            pages.push_front_page(QueueEntry { position, message, redelivered });
        }
        let mut less = MessageTotals::default();
        let mut is_done = false;
        if let Some(page) = pages.pages.front_mut() {
            if range.end >= page.end {
                // Messages that should have been there and were not are gone.
                less = page.totals();
                pages.pages.pop_front();
                is_done = true;
            } else {
                less.messages = found.messages.min(page.count as usize);
                less.bytes = found.bytes.min(page.bytes);
                less.body_bytes = found.body_bytes.min(page.body_bytes);
                page.first = range.end;
                page.count -= less.messages as u32;
                page.bytes -= less.bytes;
                page.body_bytes -= less.body_bytes;
            }
        }
        self.asked_bytes -= range.bytes;
        self.len -= usize::from(is_done);
        self.paged.remove_all(less);
        self.remove_empty(level);
        Some((range, found, less))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{BodyRef, Content};
    use slab::{Pool, PoolOptions};

    fn page(first: u64, count: u32) -> PageSummary {
        let first = QueuePosition(first);
        let end = QueuePosition(first.0 + u64::from(count));
        let (bytes, body_bytes) = (u64::from(count) * 100, u64::from(count) * 90);
        PageSummary { end, count, bytes, body_bytes, ..PageSummary::starting_at(first) }
    }

    fn paged(pool: &Pool, position: u64) -> PagedMessage {
        let body = BodyRef::Small(&[0; 90]);
        let message = Content { routing_key: b"12345678", body, ..Content::EMPTY }.keep(pool);
        PagedMessage { position: QueuePosition(position), message, redelivered: false, times_returned: 0 }
    }

    #[test]
    fn small_pages_that_follow_one_another_are_one_until_it_is_asked_for() {
        let mut pages = QueuePages::default();
        (0..10).for_each(|at| pages.push(page(10 * at, 10)));
        assert_eq!((pages.len(), pages.paged.messages), (1, 100));
        pages.push(page(101, 10));
        assert_eq!(pages.len(), 2, "a position is missing between them");
        let range = pages.next_range(0, 1 << 20, true).expect("the first page");
        assert_eq!((range.first.0, range.end.0), (0, 100));
        pages.ask(range);
        pages.push(page(111, PAGE_MESSAGES_MAX as u32 - 10));
        assert_eq!(pages.len(), 2);
        pages.push(page(111 + PAGE_MESSAGES_MAX as u64 - 10, 1));
        assert_eq!(pages.len(), 3, "a page is no larger");
        assert!(pages.head_page(0).is_none() && pages.drop_head_page(0).is_none(), "it was asked for");
    }

    #[test]
    fn a_page_may_come_in_parts_and_with_less_than_it_had() {
        let pool = Pool::new(PoolOptions::default());
        let mut pages = QueuePages::default();
        pages.push(page(0, 100));
        let part = pages.next_range(0, 10 * (100 + MESSAGE_OVERHEAD_BYTES), true).expect("a part");
        assert_eq!((part.first.0, part.end.0), (0, 10));
        assert!(pages.next_range(0, 1_000, false).is_none(), "nobody wants it");
        pages.ask(part);
        assert!(pages.page_in(QueuePosition(1), std::iter::empty()).is_none(), "nobody has asked for that");
        // What was not asked for or is out of order is left out.
        let messages = [2, 3, 3, 1, 9, 10].map(|position| paged(&pool, position));
        let (_, found, less) = pages.page_in(QueuePosition(0), messages.into_iter()).expect("asked for");
        assert_eq!((found.messages, less.messages, pages.paged.messages, pages.len()), (3, 3, 97, 1));
        let front = pages.get(0).map(|pages| pages.front.iter().map(|entry| entry.position.0).collect::<Vec<_>>());
        assert_eq!(front, Some(vec![2, 3, 9]));
        let rest = pages.next_range(0, 1 << 20, true).expect("the rest");
        assert_eq!((rest.first.0, rest.end.0, pages.asked_bytes), (10, 100, 0));
        pages.ask(rest);
        let (_, found, less) = pages.page_in(QueuePosition(10), std::iter::once(paged(&pool, 50))).expect("asked for");
        assert_eq!((found.messages, less.messages), (1, 97), "the others are gone");
        assert_eq!((pages.paged, pages.len(), pages.asked_bytes), (MessageTotals::default(), 0, 0));
        let positions: Vec<u64> = std::iter::from_fn(|| Some(pages.pop(0)?.position.0)).collect();
        assert_eq!((positions, pages.is_empty()), (vec![2, 3, 9, 50], true));
    }
}
