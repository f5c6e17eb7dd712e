//! The messages of one queue that wait for a consumer, by priority level and then in the order of their arrival.

use crate::chunked_queue::ChunkedQueue;
use crate::ids::QueuePosition;
use crate::message::Message;
use crate::work_budget::WorkBudget;
use std::collections::BTreeMap;

/// A message of a queue with its position.
pub struct QueueEntry {
    pub position: QueuePosition,
    pub message: Message,
    /// It was delivered before.
    pub redelivered: bool,
}

struct RequeuedMessage {
    message: Message,
    redelivered: bool,
}

/// The messages of one level. Positions in the list follow one another, so that a waiting message costs one reference; returned
/// messages are kept apart and are all older than the list.
#[derive(Default)]
struct PriorityLevel {
    list: ChunkedQueue<Message>,
    list_front: u64,
    returned: BTreeMap<u64, RequeuedMessage>,
}

impl PriorityLevel {
    #[inline]
    fn len(&self) -> usize {
        self.list.len() + self.returned.len()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.list.is_empty() && self.returned.is_empty()
    }

    #[inline]
    fn next_number(&self) -> u64 {
        self.list_front + self.list.len() as u64
    }

    fn front(&self) -> Option<&Message> {
        match self.returned.first_key_value() {
            Some((_, returned)) => Some(&returned.message),
            None => self.list.front(),
        }
    }

    #[inline]
    fn pop(&mut self, level: u8) -> Option<QueueEntry> {
        if let Some((number, returned)) = self.returned.pop_first() {
            let RequeuedMessage { message, redelivered } = returned;
            return Some(QueueEntry { position: QueuePosition::new(level, number), message, redelivered });
        }
        let message = self.list.pop_front()?;
        let number = self.list_front;
        self.list_front += 1;
        Some(QueueEntry { position: QueuePosition::new(level, number), message, redelivered: false })
    }

    fn restore(&mut self, entry: QueueEntry) {
        let number = entry.position.number();
        assert!(number < self.list_front, "only a message that was taken can return");
        let earlier =
            self.returned.insert(number, RequeuedMessage { message: entry.message, redelivered: entry.redelivered });
        assert!(earlier.is_none(), "a message returns once");
    }

    /// A message of an earlier life of the broker, behind those before it. Returns whether it is behind them.
    fn recover(&mut self, entry: QueueEntry) -> bool {
        let number = entry.position.number();
        if number < self.next_number() {
            return false;
        }
        if entry.redelivered || number > self.next_number() {
            self.skip_to(number);
        }
        if entry.redelivered {
            self.list_front = number + 1;
            let requeued = RequeuedMessage { message: entry.message, redelivered: true };
            self.returned.insert(number, requeued);
        } else {
            self.list.push_back(entry.message);
        }
        true
    }

    /// Has the numbers of new messages go on from one. Numbers in the list follow one another, so that what is in it is kept
    /// with the returned messages.
    fn skip_to(&mut self, number: u64) {
        while let Some(message) = self.list.pop_front() {
            self.returned.insert(self.list_front, RequeuedMessage { message, redelivered: false });
            self.list_front += 1;
        }
        self.list_front = number;
    }

    /// Takes the messages out; numbers go on.
    fn take(&mut self) -> PriorityLevel {
        let next = self.next_number();
        let taken = std::mem::take(self);
        self.list_front = next;
        taken
    }
}

/// The levels above the lowest, each created when its first message arrives.
#[derive(Default)]
struct HigherLevels {
    /// By level, less one.
    lines: Vec<Option<Box<PriorityLevel>>>,
    /// Which of them have messages: a bit each.
    filled: [u64; 4],
    len: usize,
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
        self.len += 1;
    }

    fn front(&self) -> Option<&Message> {
        self.lines.get(usize::from(self.top()?) - 1)?.as_ref()?.front()
    }

    #[inline]
    fn pop(&mut self) -> Option<QueueEntry> {
        let level = self.top()?;
        let line = self.line(level);
        let entry = line.pop(level);
        if line.is_empty() {
            self.filled[usize::from(level >> 6)] &= !(1 << (level & 63));
        }
        self.len -= 1;
        entry
    }
}

/// The waiting messages. Most queues have one level, and the others cost them one comparison.
#[derive(Default)]
pub struct ReadyMessages {
    line: PriorityLevel,
    higher: Option<Box<HigherLevels>>,
    bytes: u64,
    body_bytes: u64,
}

impl ReadyMessages {
    #[inline]
    pub fn len(&self) -> usize {
        self.line.len() + self.higher.as_ref().map_or(0, |higher| higher.len)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.line.is_empty() && self.higher.as_ref().is_none_or(|higher| higher.len == 0)
    }

    /// Bytes of the waiting messages as the memory limits count them.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of their bodies alone, as `x-max-length-bytes` counts them.
    #[inline]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// The position that the next new message of this level will get.
    #[inline]
    pub fn next_position(&self, level: u8) -> QueuePosition {
        let higher = self.higher.as_ref().filter(|_| level > 0);
        let line = match level {
            0 => Some(&self.line),
            _ => higher.and_then(|higher| higher.lines.get(usize::from(level) - 1)?.as_deref()),
        };
        QueuePosition::new(level, line.map_or(0, PriorityLevel::next_number))
    }

    #[inline]
    fn count(&mut self, message: &Message) {
        self.bytes += message.bytes() as u64;
        self.body_bytes += message.body_bytes() as u64;
    }

    #[inline]
    fn discount(&mut self, message: &Message) {
        self.bytes -= message.bytes() as u64;
        self.body_bytes -= message.body_bytes() as u64;
    }

    /// A new message at the end of its level.
    #[inline]
    pub fn push(&mut self, level: u8, message: Message) {
        self.count(&message);
        if level == 0 {
            return self.line.list.push_back(message);
        }
        let higher = self.higher.get_or_insert_default();
        higher.line(level).list.push_back(message);
        higher.fill(level);
    }

    /// The position of a message that does not wait: it is delivered while the list is empty.
    #[inline]
    pub fn bypass(&mut self, level: u8) -> QueuePosition {
        debug_assert!(self.is_empty(), "only an empty list is bypassed");
        let line = if level == 0 { &mut self.line } else { self.higher.get_or_insert_default().line(level) };
        line.list_front += 1;
        QueuePosition::new(level, line.list_front - 1)
    }

    /// The next message.
    #[inline]
    pub fn front(&self) -> Option<&Message> {
        self.higher.as_ref().and_then(|higher| higher.front()).or_else(|| self.line.front())
    }

    /// Takes the next message: the oldest of the highest level.
    #[inline]
    pub fn pop(&mut self) -> Option<QueueEntry> {
        let entry = match self.higher.as_mut().and_then(|higher| higher.pop()) {
            Some(entry) => entry,
            None => self.line.pop(0)?,
        };
        self.discount(&entry.message);
        Some(entry)
    }

    /// Returns a message to its position.
    pub fn restore(&mut self, entry: QueueEntry) {
        self.count(&entry.message);
        match entry.position.level() {
            0 => self.line.restore(entry),
            level => {
                let higher = self.higher.get_or_insert_default();
                higher.line(level).restore(entry);
                higher.fill(level);
            }
        }
    }

    /// A message of an earlier life of the broker. Those of a level come in the order of their positions, before any new one.
    /// Returns whether it waits now: not if one at its position or behind it does.
    pub fn recover(&mut self, entry: QueueEntry) -> bool {
        let (bytes, body_bytes) = (entry.message.bytes() as u64, entry.message.body_bytes() as u64);
        let is_behind = match entry.position.level() {
            0 => self.line.recover(entry),
            level => {
                let higher = self.higher.get_or_insert_default();
                let is_behind = higher.line(level).recover(entry);
                if is_behind {
                    higher.fill(level);
                }
                is_behind
            }
        };
        if is_behind {
            self.bytes += bytes;
            self.body_bytes += body_bytes;
        }
        is_behind
    }

    /// Has the positions of new messages of a level go on from this one, if it is behind those that wait.
    pub fn skip_to(&mut self, position: QueuePosition) {
        let line = match position.level() {
            0 => &mut self.line,
            level => self.higher.get_or_insert_default().line(level),
        };
        if position.number() > line.next_number() {
            line.skip_to(position.number());
        }
    }

    /// Whether a message waits that was returned to this position.
    pub fn has_requeued(&self, position: QueuePosition) -> bool {
        let line = match (position.level(), &self.higher) {
            (0, _) => Some(&self.line),
            (level, Some(higher)) => higher.lines.get(usize::from(level) - 1).and_then(|line| line.as_deref()),
            (_, None) => None,
        };
        line.is_some_and(|line| line.returned.contains_key(&position.number()))
    }

    /// Takes everything out, to be dropped in turns. The positions of new messages go on.
    pub fn take(&mut self) -> ReadyMessages {
        let mut taken = ReadyMessages { bytes: self.bytes, body_bytes: self.body_bytes, ..ReadyMessages::default() };
        taken.line = self.line.take();
        if let Some(higher) = &mut self.higher {
            let lines = higher.lines.iter_mut().map(|line| line.as_mut().map(|line| Box::new(line.take()))).collect();
            taken.higher = Some(Box::new(HigherLevels { lines, filled: higher.filled, len: higher.len }));
            (higher.filled, higher.len) = ([0; 4], 0);
        }
        (self.bytes, self.body_bytes) = (0, 0);
        taken
    }

    /// Drops messages as far as the budget of the turn allows. Returns whether none is left.
    pub(crate) fn drop_some(&mut self, work: &mut WorkBudget) -> bool {
        while !work.is_spent() {
            if self.pop().is_none() {
                return true;
            }
            work.draw(1);
        }
        self.is_empty()
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
        assert!(!positions.iter().any(|&position| ready.has_requeued(position)));
        for entry in first.into_iter().rev() {
            ready.restore(entry);
        }
        assert!(positions.iter().all(|&position| ready.has_requeued(position)));
        let all: Vec<QueueEntry> = std::iter::from_fn(|| ready.pop()).collect();
        assert_eq!(all.iter().map(text).collect::<String>(), "cebdaf");
        assert!(ready.is_empty() && ready.front().is_none() && ready.body_bytes() == 0);
        let position = ready.bypass(5);
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
