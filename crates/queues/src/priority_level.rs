//! The waiting messages of one priority level of a queue that are in memory, but for those of its front page.

use crate::chunked_queue::ChunkedQueue;
use crate::ids::QueuePosition;
use crate::message::Message;
use crate::queue_entry::QueueEntry;
use std::collections::BTreeMap;

struct RequeuedMessage {
    message: Message,
    redelivered: bool,
}

/// The messages of one level. Positions in the list follow one another, so that a waiting message costs one reference; returned
/// messages are kept apart and are all older than the list.
#[derive(Default)]
pub struct PriorityLevel {
    list: ChunkedQueue<Message>,
    list_front: u64,
    returned: BTreeMap<u64, RequeuedMessage>,
}

impl PriorityLevel {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.returned.is_empty()
    }

    #[inline]
    pub fn next_number(&self) -> u64 {
        self.list_front + self.list.len() as u64
    }

    pub fn front(&self) -> Option<&Message> {
        match self.returned.first_key_value() {
            Some((_, returned)) => Some(&returned.message),
            None => self.list.front(),
        }
    }

    /// A new message.
    #[inline]
    pub fn push(&mut self, message: Message) {
        self.list.push_back(message);
    }

    #[inline]
    pub fn pop(&mut self, level: u8) -> Option<QueueEntry> {
        if let Some((number, returned)) = self.returned.pop_first() {
            let RequeuedMessage { message, redelivered } = returned;
            return Some(QueueEntry { position: QueuePosition::new(level, number), message, redelivered });
        }
        let (number, message) = self.pop_list()?;
        Some(QueueEntry { position: QueuePosition::new(level, number), message, redelivered: false })
    }

    /// The number of the first of so many messages that do not wait.
    #[inline]
    pub fn bypass(&mut self, messages: u64) -> u64 {
        self.list_front += messages;
        self.list_front - messages
    }

    pub fn restore(&mut self, entry: QueueEntry) {
        let number = entry.position.number();
        assert!(number < self.list_front, "only a message that was taken can return");
        let earlier =
            self.returned.insert(number, RequeuedMessage { message: entry.message, redelivered: entry.redelivered });
        assert!(earlier.is_none(), "a message returns once");
    }

    /// A message of an earlier life of the broker, behind those before it. Returns whether it is behind them.
    pub fn recover(&mut self, entry: QueueEntry) -> bool {
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
    pub fn skip_to(&mut self, number: u64) {
        while let Some((number, message)) = self.pop_list() {
            self.returned.insert(number, RequeuedMessage { message, redelivered: false });
        }
        self.list_front = number;
    }

    /// The number of the oldest message that was returned.
    pub fn first_returned(&self) -> Option<u64> {
        self.returned.first_key_value().map(|(&number, _)| number)
    }

    /// Those that were returned, in their order: number, message, whether it was delivered.
    pub fn returned(&self) -> impl Iterator<Item = (u64, &Message, bool)> {
        self.returned.iter().map(|(&number, returned)| (number, &returned.message, returned.redelivered))
    }

    /// How many messages wait that were not returned.
    pub fn list_len(&self) -> usize {
        self.list.len()
    }

    /// The number of the first of these, or of the next new message.
    pub fn list_front(&self) -> u64 {
        self.list_front
    }

    /// The one at this index of these.
    pub fn listed(&self, index: usize) -> Option<&Message> {
        self.list.get(index)
    }

    /// Takes the first of these, with its number.
    #[inline]
    pub fn pop_list(&mut self) -> Option<(u64, Message)> {
        let message = self.list.pop_front()?;
        self.list_front += 1;
        Some((self.list_front - 1, message))
    }

    /// Takes the messages out; numbers go on.
    pub fn take(&mut self) -> PriorityLevel {
        let next = self.next_number();
        let taken = std::mem::take(self);
        self.list_front = next;
        taken
    }
}
