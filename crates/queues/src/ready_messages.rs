//! The messages of one queue that wait for a consumer, by priority level and then in the order of their arrival.
//!
//! A level is returned messages, a front in memory, pages that the store has, and the newest messages in memory. Most have no
//! pages, and then no front apart from the rest.

use crate::ids::QueuePosition;
use crate::limits::{MESSAGE_OVERHEAD_BYTES, PAGE_MESSAGES_MAX};
use crate::message::Message;
use crate::page::{PageSummary, PagedMessage};
use crate::priority_level::PriorityLevel;
use crate::queue_entry::QueueEntry;
use crate::queue_pages::{AskedRange, MessageTotals, QueuePages};
use crate::work_budget::WorkBudget;
use std::ops::ControlFlow;

/// The levels above the lowest, each created when its first message arrives.
#[derive(Default)]
struct HigherLevels {
    /// By level, less one.
    lines: Vec<Option<Box<PriorityLevel>>>,
    /// Which of them have messages: a bit each.
    filled: [u64; 4],
}

impl HigherLevels {
    fn line(&mut self, level: u8) -> &mut PriorityLevel {
        let index = usize::from(level) - 1;
        if self.lines.len() <= index {
            self.lines.resize_with(index + 1, || None);
        }
        self.lines[index].get_or_insert_default()
    }

    /// The highest level with messages.
    #[inline]
    fn top(&self) -> Option<u8> {
        let word = (0..4).rev().find(|&word| self.filled[word] != 0)?;
        Some((word * 64) as u8 + (63 - self.filled[word].leading_zeros()) as u8)
    }

    #[inline]
    fn fill(&mut self, level: u8) {
        self.filled[usize::from(level >> 6)] |= 1 << (level & 63);
    }

    /// Messages have left a level.
    #[inline]
    fn note_taken(&mut self, level: u8) {
        if self.line(level).is_empty() {
            self.filled[usize::from(level >> 6)] &= !(1 << (level & 63));
        }
    }

    fn front(&self) -> Option<&Message> {
        self.lines.get(usize::from(self.top()?) - 1)?.as_ref()?.front()
    }

    #[inline]
    fn pop(&mut self) -> Option<QueueEntry> {
        let level = self.top()?;
        let entry = self.line(level).pop(level);
        self.note_taken(level);
        entry
    }
}

/// Where the next message of a queue with pages is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    /// Among the returned and the newest messages of a level.
    Line(u8),
    /// The front of a level.
    Front(u8),
    /// A page of a level.
    Page(u8),
}

/// The waiting messages. Most queues have one level, and the others cost them one comparison.
#[derive(Default)]
pub struct ReadyMessages {
    line: PriorityLevel,
    higher: Option<Box<HigherLevels>>,
    pages: Option<Box<QueuePages>>,
    len: usize,
    bytes: u64,
    body_bytes: u64,
}

impl ReadyMessages {
    /// All that wait, in memory or not.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the waiting messages, in memory or not.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of their bodies alone, as `x-max-length-bytes` counts them.
    #[inline]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// How many of them are in memory, and the bytes of these.
    #[inline]
    pub fn in_memory(&self) -> (usize, u64) {
        match &self.pages {
            None => (self.len, self.bytes),
            Some(pages) => (self.len - pages.paged.messages, self.bytes - pages.paged.bytes),
        }
    }

    /// Bytes of those in memory as the memory limits count them: with their overhead.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let (messages, bytes) = self.in_memory();
        bytes + messages as u64 * MESSAGE_OVERHEAD_BYTES
    }

    fn line(&self, level: u8) -> Option<&PriorityLevel> {
        match level {
            0 => Some(&self.line),
            _ => self.higher.as_ref()?.lines.get(usize::from(level) - 1)?.as_deref(),
        }
    }

    #[inline]
    fn line_mut(&mut self, level: u8) -> &mut PriorityLevel {
        if level == 0 { &mut self.line } else { self.higher.get_or_insert_default().line(level) }
    }

    /// Messages have joined the line of a level.
    #[inline]
    fn note_added(&mut self, level: u8) {
        if let Some(higher) = self.higher.as_mut().filter(|_| level > 0) {
            higher.fill(level);
        }
    }

    /// Messages have left the line of a level.
    fn note_taken(&mut self, level: u8) {
        if let Some(higher) = self.higher.as_mut().filter(|_| level > 0) {
            higher.note_taken(level);
        }
    }

    /// The position that the next new message of this level will get.
    #[inline]
    pub fn next_position(&self, level: u8) -> QueuePosition {
        QueuePosition::new(level, self.line(level).map_or(0, PriorityLevel::next_number))
    }

    #[inline]
    fn count(&mut self, message: &Message) {
        self.len += 1;
        self.bytes += message.bytes() as u64;
        self.body_bytes += message.body_bytes() as u64;
    }

    #[inline]
    fn discount(&mut self, message: &Message) {
        self.len -= 1;
        self.bytes -= message.bytes() as u64;
        self.body_bytes -= message.body_bytes() as u64;
    }

    /// A new message at the end of its level.
    #[inline]
    pub fn push(&mut self, level: u8, message: Message) {
        self.count(&message);
        if level == 0 {
            return self.line.push(message);
        }
        let higher = self.higher.get_or_insert_default();
        higher.line(level).push(message);
        higher.fill(level);
    }

    /// The position of the first of so many messages that do not wait: they are delivered while the list is empty.
    #[inline]
    pub fn bypass(&mut self, level: u8, messages: usize) -> QueuePosition {
        debug_assert!(self.is_empty(), "only an empty list is bypassed");
        QueuePosition::new(level, self.line_mut(level).bypass(messages as u64))
    }

    /// The next message, if it is in memory.
    #[inline]
    pub fn front(&self) -> Option<&Message> {
        if self.pages.is_some() {
            return self.front_of_paged();
        }
        self.higher.as_ref().and_then(|higher| higher.front()).or_else(|| self.line.front())
    }

    #[cold]
    fn front_of_paged(&self) -> Option<&Message> {
        match self.head()? {
            Head::Line(level) => self.line(level)?.front(),
            Head::Front(level) => self.pages.as_ref()?.front(level),
            Head::Page(_) => None,
        }
    }

    /// Where the next message of a queue with pages is.
    fn head(&self) -> Option<Head> {
        let higher = self.higher.as_ref().and_then(|higher| higher.top());
        let in_line = higher.or_else(|| (!self.line.is_empty()).then_some(0));
        let pages = self.pages.as_ref()?;
        let level = in_line.max(pages.top())?;
        let Some(first) = pages.first(level) else { return Some(Head::Line(level)) };
        match self.line(level).and_then(PriorityLevel::first_returned) {
            Some(returned) if returned < first.number() => Some(Head::Line(level)),
            _ if pages.front(level).is_some() => Some(Head::Front(level)),
            _ => Some(Head::Page(level)),
        }
    }

    /// Takes the next message: the oldest of the highest level. There is none while that is on a page.
    #[inline]
    pub fn pop(&mut self) -> Option<QueueEntry> {
        let entry = if self.pages.is_some() {
            self.pop_of_paged()?
        } else {
            match self.higher.as_mut().and_then(|higher| higher.pop()) {
                Some(entry) => entry,
                None => self.line.pop(0)?,
            }
        };
        self.discount(&entry.message);
        Some(entry)
    }

    #[cold]
    fn pop_of_paged(&mut self) -> Option<QueueEntry> {
        match self.head()? {
            Head::Line(level) => {
                let entry = self.line_mut(level).pop(level);
                self.note_taken(level);
                entry
            }
            Head::Front(level) => {
                let entry = self.pages.as_mut()?.pop(level);
                self.drop_empty_pages();
                entry
            }
            Head::Page(_) => None,
        }
    }

    fn drop_empty_pages(&mut self) {
        self.pages.take_if(|pages| pages.is_empty());
    }

    /// Returns a message to its position.
    pub fn restore(&mut self, entry: QueueEntry) {
        self.count(&entry.message);
        let level = entry.position.level();
        self.line_mut(level).restore(entry);
        self.note_added(level);
    }

    /// A message of an earlier life of the broker. Those of a level come in the order of their positions, before any new one.
    /// Returns whether it waits now: not if one at its position or behind it does.
    pub fn recover(&mut self, entry: QueueEntry) -> bool {
        let mut totals = MessageTotals::default();
        totals.add(&entry.message);
        let level = entry.position.level();
        let is_behind = self.line_mut(level).recover(entry);
        if is_behind {
            self.note_added(level);
            self.add_totals(totals);
        }
        is_behind
    }

    fn add_totals(&mut self, totals: MessageTotals) {
        self.len += totals.messages;
        self.bytes += totals.bytes;
        self.body_bytes += totals.body_bytes;
    }

    fn remove_totals(&mut self, totals: MessageTotals) {
        self.len -= totals.messages;
        self.bytes -= totals.bytes;
        self.body_bytes -= totals.body_bytes;
    }

    /// A page of an earlier life of the broker, in the same order. Returns whether it waits now.
    pub fn recover_page(&mut self, page: PageSummary) -> bool {
        let level = page.first.level();
        let line = self.line_mut(level);
        let is_sound = page.count > 0 && page.first < page.end && page.end.level() == level;
        if !is_sound || page.first.number() < line.next_number() {
            return false;
        }
        let mut pages = self.pages.take().unwrap_or_default();
        let line = self.line_mut(level);
        while !pages.has_pages(level)
            && let Some((number, message)) = line.pop_list()
        {
            pages.push_front(QueueEntry { position: QueuePosition::new(level, number), message, redelivered: false });
        }
        line.skip_to(page.end.number());
        self.note_taken(level);
        pages.push(page);
        self.pages = Some(pages);
        self.add_totals(page.totals());
        true
    }

    /// Has the positions of new messages of a level go on from this one, if it is behind those that wait.
    pub fn skip_to(&mut self, position: QueuePosition) {
        let line = self.line_mut(position.level());
        if position.number() > line.next_number() {
            line.skip_to(position.number());
        }
    }

    /// Takes everything out, to be dropped in turns. The positions of new messages go on.
    pub fn take(&mut self) -> ReadyMessages {
        let mut taken = ReadyMessages {
            pages: self.pages.take(),
            len: std::mem::take(&mut self.len),
            bytes: std::mem::take(&mut self.bytes),
            body_bytes: std::mem::take(&mut self.body_bytes),
            ..ReadyMessages::default()
        };
        taken.line = self.line.take();
        if let Some(higher) = &mut self.higher {
            let lines = higher.lines.iter_mut().map(|line| line.as_mut().map(|line| Box::new(line.take()))).collect();
            taken.higher = Some(Box::new(HigherLevels { lines, filled: higher.filled }));
            higher.filled = [0; 4];
        }
        taken
    }

    /// Drops messages as far as the budget of the turn allows. Returns whether none is left.
    pub fn drop_some(&mut self, work: &mut WorkBudget) -> bool {
        if let Some(pages) = &mut self.pages {
            let paged = pages.clear_pages();
            self.remove_totals(paged);
            self.drop_empty_pages();
        }
        while !work.is_spent() {
            if self.pop().is_none() {
                return true;
            }
            work.draw(1);
        }
        self.is_empty()
    }

    /// Whether messages are on pages, or before and behind them.
    #[inline]
    pub fn has_pages(&self) -> bool {
        self.pages.is_some()
    }

    /// Whether the next message is on a page.
    #[inline]
    pub fn awaits_page(&self) -> bool {
        self.pages.is_some() && matches!(self.head(), Some(Head::Page(_)))
    }

    /// Whether there is a next message, and in memory.
    #[inline]
    pub fn has_head(&self) -> bool {
        if self.pages.is_some() { !matches!(self.head(), None | Some(Head::Page(_))) } else { self.len > 0 }
    }

    /// The lowest level with enough messages at its end to page some out, if about so many bytes are a page and as many are kept
    /// before the first page.
    pub fn level_to_page_out(&self, page_bytes: u64) -> Option<u8> {
        let (messages, _) = self.in_memory();
        let average = self.memory_bytes() / (messages as u64).max(1);
        let levels = self.higher.as_ref().map_or(0, |higher| higher.lines.len());
        (0..=levels).map(|level| level as u8).find(|&level| {
            let messages = self.line(level).map_or(0, PriorityLevel::list_len);
            let pages = if self.pages.as_ref().is_some_and(|pages| pages.has_level(level)) { 1 } else { 2 };
            messages > 0
                && (messages as u64 * average >= pages * page_bytes || messages >= pages as usize * PAGE_MESSAGES_MAX)
        })
    }

    /// Pages out messages of a level: at most a page. Where there is no page yet, messages of about so many bytes stay before it.
    /// `write` takes the messages over, or refuses. Returns what has left the memory.
    pub fn page_out(
        &mut self,
        level: u8,
        page_bytes: u64,
        write: impl FnOnce(&mut dyn Iterator<Item = (QueuePosition, &Message)>) -> bool,
    ) -> Option<PageSummary> {
        let is_first = self.pages.as_ref().is_none_or(|pages| !pages.has_level(level));
        let line = self.line(level)?;
        let mut front = (0, 0);
        while is_first
            && front.0 < PAGE_MESSAGES_MAX
            && let Some(message) = line.listed(front.0)
        {
            let bytes = front.1 + message.bytes() as u64 + MESSAGE_OVERHEAD_BYTES;
            if bytes > page_bytes {
                break;
            }
            front = (front.0 + 1, bytes);
        }
        let front = front.0;
        let mut page = PageSummary::starting_at(QueuePosition::new(level, line.list_front() + front as u64));
        while let Some(message) = line.listed(front + page.count as usize) {
            if !page.has_capacity(message.bytes() as u64) {
                break;
            }
            page.push(message);
        }
        let count = page.count as usize;
        let mut messages =
            (0..count).filter_map(|at| Some((QueuePosition(page.first.0 + at as u64), line.listed(front + at)?)));
        if count == 0 || !write(&mut messages) {
            return None;
        }
        let mut pages = self.pages.take().unwrap_or_default();
        let line = self.line_mut(level);
        for _ in 0..front {
            let Some((number, message)) = line.pop_list() else { break };
            pages.push_front(QueueEntry { position: QueuePosition::new(level, number), message, redelivered: false });
        }
        for _ in 0..count {
            drop(line.pop_list());
        }
        self.note_taken(level);
        pages.push(page);
        self.pages = Some(pages);
        Some(page)
    }

    /// What to ask for next, about so many bytes. `demanded`: the next message is wanted now.
    pub fn next_range(&self, page_bytes: u64, demanded: bool) -> Option<AskedRange> {
        let pages = self.pages.as_ref()?;
        match self.head()? {
            Head::Line(_) => None,
            Head::Front(level) | Head::Page(level) => pages.next_range(level, page_bytes, demanded),
        }
    }

    /// The pages of the queue, if it has any.
    pub fn pages_mut(&mut self) -> Option<&mut QueuePages> {
        self.pages.as_deref_mut()
    }

    /// Messages have come that were asked for. Returns what was asked for, unless it was not.
    pub fn page_in(
        &mut self,
        first: QueuePosition,
        messages: impl Iterator<Item = PagedMessage>,
    ) -> Option<AskedRange> {
        let (range, found, less) = self.pages.as_mut()?.page_in(first, messages)?;
        self.remove_totals(less);
        self.add_totals(found);
        self.drop_empty_pages();
        Some(range)
    }

    /// How many pages there are.
    pub fn pages_len(&self) -> usize {
        self.pages.as_ref().map_or(0, |pages| pages.len())
    }

    /// Whether the queue asks for a page when others have got theirs.
    pub fn awaits_turn(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.awaits_turn)
    }

    /// Bytes of what was asked for and has not come.
    pub fn asked_bytes(&self) -> u64 {
        self.pages.as_ref().map_or(0, |pages| pages.asked_bytes)
    }

    /// The page that the next message is on, if nobody has asked for it.
    pub fn head_page(&self) -> Option<&PageSummary> {
        match self.head()? {
            Head::Page(level) => self.pages.as_ref()?.head_page(level),
            Head::Line(_) | Head::Front(_) => None,
        }
    }

    /// Takes this page out, unread.
    pub fn drop_head_page(&mut self) -> Option<PageSummary> {
        let Some(Head::Page(level)) = self.head() else { return None };
        let page = self.pages.as_mut()?.drop_head_page(level)?;
        self.remove_totals(page.totals());
        self.drop_empty_pages();
        Some(page)
    }

    /// Shows the messages as they would be taken, with whether each was delivered before, until `look` has seen enough. Returns
    /// false at one that is on a page.
    pub fn look(&self, look: &mut impl FnMut(&Message, bool) -> ControlFlow<()>) -> bool {
        let levels = self.higher.as_ref().map_or(0, |higher| higher.lines.len()) as u8;
        let mut visit = |message: &Message, redelivered| look(message, redelivered).is_break();
        for level in (0..=levels.max(self.pages.as_ref().and_then(|pages| pages.top()).unwrap_or(0))).rev() {
            let first = self.pages.as_ref().and_then(|pages| pages.first(level));
            let first = first.map_or(u64::MAX, |first| first.number());
            let line = self.line(level);
            let mut returned =
                line.into_iter().flat_map(PriorityLevel::returned).take_while(|(number, ..)| *number < first);
            if returned.any(|(_, message, redelivered)| visit(message, redelivered)) {
                return true;
            }
            if let Some(pages) = &self.pages {
                if pages.in_front(level).any(|entry| visit(&entry.message, entry.redelivered)) {
                    return true;
                }
                if pages.has_pages(level) {
                    return false;
                }
            }
            let newest = line.into_iter().flat_map(|line| (0..line.list_len()).map_while(|index| line.listed(index)));
            // What was returned behind a front without pages is as new as that.
            let mut later =
                line.into_iter().flat_map(PriorityLevel::returned).skip_while(|(number, ..)| *number < first);
            if later.any(|(_, message, redelivered)| visit(message, redelivered))
                || newest.into_iter().any(|message| visit(message, false))
            {
                return true;
            }
        }
        true
    }

    /// Takes any page out, unread.
    pub fn take_page(&mut self) -> Option<PageSummary> {
        let page = self.pages.as_mut()?.take_page()?;
        self.remove_totals(page.totals());
        self.drop_empty_pages();
        Some(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{BodyRef, Content};
    use slab::{Pool, PoolOptions};

    fn message(pool: &Pool, body: &[u8]) -> Message {
        let body = BodyRef::Small(body);
        Content { routing_key: b"k", body, ..Content::EMPTY }.keep(pool)
    }

    fn text(entry: &QueueEntry) -> String {
        match entry.message.content().body {
            BodyRef::Small(body) => String::from_utf8_lossy(body).into_owned(),
            BodyRef::Large(_) => unreachable!("bodies here are small"),
        }
    }

    #[test]
    fn higher_levels_leave_first_and_returned_messages_keep_their_positions() {
        let pool = Pool::new(PoolOptions::default());
        let mut ready = ReadyMessages::default();
        for (level, body) in [(0, "a"), (5, "b"), (255, "c"), (5, "d"), (64, "e"), (0, "f")] {
            assert_eq!(ready.next_position(level).level(), level);
            ready.push(level, message(&pool, body.as_bytes()));
        }
        assert_eq!((ready.len(), ready.body_bytes()), (6, 6));
        let first: Vec<QueueEntry> = std::iter::from_fn(|| ready.pop()).take(4).collect();
        assert_eq!(first.iter().map(text).collect::<String>(), "cebd");
        let positions: Vec<QueuePosition> = first.iter().map(|entry| entry.position).collect();
        for entry in first.into_iter().rev() {
            ready.restore(entry);
        }
        let all: Vec<QueueEntry> = std::iter::from_fn(|| ready.pop()).collect();
        assert!(all.iter().map(|entry| entry.position).take(4).eq(positions));
        assert_eq!(all.iter().map(text).collect::<String>(), "cebdaf");
        assert!(ready.is_empty() && ready.front().is_none() && ready.body_bytes() == 0);
        let position = ready.bypass(5, 1);
        assert_eq!((position.level(), position.number()), (5, 2));
        ready.push(5, message(&pool, b"g"));
        let mut taken = ready.take();
        assert_eq!((taken.len(), ready.len()), (1, 0));
        let mut work = WorkBudget::new(1);
        assert!(taken.drop_some(&mut work) && taken.is_empty());
        assert!(ready.is_empty() && ready.pop().is_none());
        assert_eq!(ready.next_position(5).number(), 4);
    }
}
