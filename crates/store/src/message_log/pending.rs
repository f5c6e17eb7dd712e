//! What has been appended and is in no group yet, in the order in which it came.

use super::LoggedMessage;
use crate::ids::Position;
use std::collections::VecDeque;

/// An entry of the list.
pub(super) enum Entry<M> {
    Message {
        queue: u32,
        position: Position,
        message: M,
        /// It differs in its body alone from the message of the entry before it, and has the position behind that.
        is_alike: bool,
    },
    /// A message that was settled before it was written: behind this entry.
    Unwritten {
        settled_behind: u64,
    },
    Settled {
        queue: u32,
        first: Position,
        count: u64,
    },
    Returned {
        queue: u32,
        position: Position,
        times: u32,
    },
    CommitBegin,
    CommitEnd,
    /// The queue is gone: nothing behind this refers to it.
    Dropped {
        queue: u32,
    },
}

/// The list. Entries are numbered from one on, without a gap.
pub(super) struct PendingList<M> {
    entries: VecDeque<Entry<M>>,
    /// The number of the first one.
    first: u64,
    /// Bytes of its messages.
    bytes: usize,
    /// The first one is large, and so many bytes of its body are in groups.
    body_at: Option<usize>,
}

impl<M> PendingList<M> {
    pub fn new() -> Self {
        PendingList { entries: VecDeque::new(), first: 1, bytes: 0, body_at: None }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the last entry there has been.
    #[inline]
    pub fn last(&self) -> u64 {
        self.first + self.entries.len() as u64 - 1
    }

    /// The number of the first entry.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The number of the first entry of which nothing is in a group.
    #[inline]
    pub fn first_unbegun(&self) -> u64 {
        self.first + u64::from(self.body_at.is_some())
    }

    #[inline]
    pub fn push(&mut self, entry: Entry<M>) -> u64 {
        self.entries.push_back(entry);
        self.last()
    }

    /// Adds messages of a queue that differ in their bodies alone, at positions that follow one another.
    #[inline]
    pub fn push_messages(&mut self, queue: u32, first: Position, messages: impl Iterator<Item = M>)
    where
        M: LoggedMessage,
    {
        let bytes = &mut self.bytes;
        self.entries.extend((0..).zip(messages).map(|(at, message)| {
            *bytes += message.bytes();
            Entry::Message { queue, position: Position(first.0 + at), message, is_alike: at > 0 }
        }));
    }

    /// A queue is done with messages: the last entry grows, or there is another one.
    #[inline]
    pub fn push_settled(&mut self, queue: u32, first: Position, count: u64) -> u64 {
        match self.entries.back_mut() {
            Some(Entry::Settled { queue: last_queue, first: last_first, count: last_count })
                if *last_queue == queue && last_first.0 + *last_count == first.0 =>
            {
                *last_count += count;
                self.last()
            }
            _ => self.push(Entry::Settled { queue, first, count }),
        }
    }

    #[inline]
    pub fn front(&self) -> Option<&Entry<M>> {
        self.entries.front()
    }

    /// The messages at the front, each of which differs in its body alone from the one before it: the first of them from the entry
    /// that was taken off last.
    #[inline]
    pub fn alike(&self) -> impl Iterator<Item = &M> {
        self.entries.iter().map_while(|entry| match entry {
            Entry::Message { message, is_alike: true, .. } => Some(message),
            _ => None,
        })
    }

    /// Takes so many of [`PendingList::alike`] off, which have so many bytes. Returns the last of them.
    #[inline]
    pub fn pop_alike(&mut self, count: usize, bytes: usize) -> Option<M> {
        debug_assert!(self.body_at.is_none(), "what is alike follows a message that is in a group");
        self.first += count as u64;
        self.bytes -= bytes;
        match self.entries.drain(..count).next_back() {
            Some(Entry::Message { message, .. }) => Some(message),
            _ => None,
        }
    }

    /// Where the body of the first one goes on, if it is large and begun.
    pub fn body_at(&self) -> Option<usize> {
        self.body_at
    }

    pub fn set_body_at(&mut self, at: usize) {
        self.body_at = Some(at);
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Entry<M>> {
        let entry = self.entries.pop_front()?;
        self.first += 1;
        self.body_at = None;
        Some(entry)
    }

    /// The bytes of a message that is no longer in the list.
    #[inline]
    pub fn subtract(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }

    /// The message of an entry, unless it was settled.
    pub fn message(&self, number: u64) -> Option<&M> {
        match self.entries.get(usize::try_from(number.checked_sub(self.first)?).ok()?) {
            Some(Entry::Message { message, .. }) => Some(message),
            _ => None,
        }
    }

    /// Takes a message out that is settled before it was written. `None` if it has been before.
    #[inline]
    pub fn take_unwritten(&mut self, number: u64, settled_behind: u64) -> Option<M> {
        let entry = self.entries.get_mut((number - self.first) as usize)?;
        if !matches!(entry, Entry::Message { .. }) {
            return None;
        }
        match std::mem::replace(entry, Entry::Unwritten { settled_behind }) {
            Entry::Message { message, .. } => Some(message),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::StoredMessage;

    struct ListedMessage(&'static [u8]);

    impl LoggedMessage for ListedMessage {
        fn stored(&self) -> StoredMessage<'_> {
            StoredMessage {
                exchange: b"",
                routing_key: b"key",
                properties: &[0, 0],
                bcc: b"",
                arrived_us: 7,
                body: self.0,
            }
        }

        fn bytes(&self) -> usize {
            5 + self.0.len()
        }

        fn is_same(&self, _: &Self) -> bool {
            false
        }
    }

    #[test]
    fn messages_that_are_alike_are_taken_off_together_up_to_one_that_was_settled() {
        let mut list = PendingList::new();
        list.push(Entry::CommitBegin);
        list.push_messages(1, Position(7), [b"a".as_slice(), b"bb", b"ccc", b"d", b"e"].into_iter().map(ListedMessage));
        assert_eq!((list.last(), list.bytes()), (6, 5 * 5 + 8));
        let settled = list.take_unwritten(5, 6).expect("it was not written");
        list.subtract(settled.bytes());
        assert!(list.pop().is_some() && list.alike().next().is_none(), "the first is like none before it");
        let Some(Entry::Message { message, position: Position(7), .. }) = list.pop() else { panic!("the first") };
        list.subtract(message.bytes());
        assert_eq!(list.alike().map(|message| message.0).collect::<Vec<_>>(), [b"bb".as_slice(), b"ccc"]);
        assert_eq!(list.pop_alike(2, 2 * 5 + 5).map(|last| last.0), Some(b"ccc".as_slice()));
        assert_eq!((list.first(), list.last(), list.bytes()), (5, 6, 6));
        assert!(matches!(list.pop(), Some(Entry::Unwritten { settled_behind: 6 })));
        let Some(Entry::Message { position: Position(11), message, .. }) = list.pop() else { panic!("the last") };
        list.subtract(message.bytes());
        assert_eq!((list.is_empty(), list.first(), list.bytes()), (true, 7, 0));
    }
}
