//! The records of a frame: messages, settlements, definitions. Each frame can be read alone.
//!
//! Enters: the bytes of a frame that checked out.  Leaves: records with their queues and positions.
//!
//! A record is a tag and numbers of variable length. Queues and the head of a message (exchange, routing key, properties,
//! `BCC`) are named once a frame and then referred to, so that a message of 64 bytes takes 68.

use crate::alike_messages::AlikeMessages;
use crate::frame::Frame;
use crate::ids::{Position, QueueUid};
use crate::varint;

/// The tags. Part of the format.
pub(crate) mod tag {
    pub const QUEUE: u8 = 1;
    pub const HEAD: u8 = 2;
    pub const MESSAGE: u8 = 3;
    pub const MESSAGE_OF_SAME_QUEUE: u8 = 4;
    pub const AGAIN: u8 = 5;
    pub const LARGE: u8 = 6;
    pub const PART: u8 = 7;
    pub const SETTLED: u8 = 8;
    pub const SEEN: u8 = 9;
    pub const RETURNED: u8 = 10;
    pub const COMMIT_BEGIN: u8 = 11;
    pub const COMMIT_END: u8 = 12;
    pub const DEFINITION: u8 = 13;
    pub const COMMIT_ABORTED: u8 = 14;
}

/// What a message consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredMessage<'a> {
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    /// Property flags and values as in the content header.
    pub properties: &'a [u8],
    /// Packed routing keys of `BCC`.
    pub bcc: &'a [u8],
    /// Microseconds since 1970.
    pub arrived_us: u64,
    pub body: &'a [u8],
}

/// A queue in the table of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameQueue(pub u32);

/// A record with what it refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// A new entry in the frame's table of queues: those that follow refer to it.
    Queue {
        queue: FrameQueue,
        uid: QueueUid,
        next: Position,
    },
    /// A message.
    Message {
        queue: FrameQueue,
        position: Position,
        message: StoredMessage<'a>,
    },
    /// A message whose body follows in parts, in this frame and the next ones.
    Large {
        queue: FrameQueue,
        position: Position,
        head: StoredMessage<'a>,
        body_bytes: u64,
    },
    /// The last message, in another queue too.
    Again {
        queue: FrameQueue,
        position: Position,
    },
    /// The next bytes of the last large message.
    Part(&'a [u8]),
    /// Messages that their queue is done with.
    Settled {
        queue: FrameQueue,
        first: Position,
        count: u64,
    },
    /// Every message up to this position was handed to a consumer before.
    Seen {
        queue: FrameQueue,
        position: Position,
    },
    /// A message was returned so many times.
    Returned {
        queue: FrameQueue,
        position: Position,
        times: u64,
    },
    /// What follows, up to the end, counts as a whole or not at all.
    CommitBegin,
    CommitEnd,
    /// The last commit has no end: it never counted.
    CommitAborted,
    /// A definition, numbered.
    Definition {
        version: u64,
        bytes: &'a [u8],
    },
}

/// A whole message where its reader has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueuedRecord<'r, 'a> {
    pub queue: FrameQueue,
    pub position: Position,
    pub message: &'r StoredMessage<'a>,
}

/// The records of a frame that checked out do not parse: a fault of the program that wrote them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordFault;

struct QueueState {
    /// The position of its next message.
    next: u64,
    /// Where its last settlement ended.
    settled: u64,
}

/// Reads the records of a frame one after another.
pub struct RecordReader<'a> {
    rest: &'a [u8],
    /// Records that are left.
    left: u32,
    queues: Vec<QueueState>,
    last_queue: u32,
    message: StoredMessage<'a>,
}

impl<'a> RecordReader<'a> {
    pub fn new(frame: &Frame<'a>) -> Self {
        RecordReader::of(frame.records, frame.header.records, frame.header.time_base_us)
    }

    /// Reads so many records.
    pub(crate) fn of(bytes: &'a [u8], records: u32, arrived_us: u64) -> Self {
        RecordReader {
            rest: bytes,
            left: records,
            queues: Vec::new(),
            last_queue: 0,
            message: StoredMessage {
                exchange: b"",
                routing_key: b"",
                properties: b"",
                bcc: b"",
                arrived_us,
                body: b"",
            },
        }
    }

    /// The next record; `None` behind the last one.
    pub fn next_record(&mut self) -> Result<Option<Record<'a>>, RecordFault> {
        loop {
            if self.left == 0 {
                return if self.rest.is_empty() { Ok(None) } else { Err(RecordFault) };
            }
            self.left -= 1;
            if let Some(record) = self.parse().ok_or(RecordFault)? {
                return Ok(Some(record));
            }
        }
    }

    /// A record; `None` within if it was a head, which belongs to what follows.
    #[inline]
    fn parse(&mut self) -> Option<Option<Record<'a>>> {
        let (&tag, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(Some(match tag {
            tag::MESSAGE_OF_SAME_QUEUE => self.message(self.last_queue)?,
            tag::MESSAGE => {
                let queue = self.queue()?;
                self.message(queue)?
            }
            tag::SETTLED => {
                let queue = self.queue()?;
                let (first, count) = (self.number()?, self.number()?);
                let state = self.queues.get_mut(queue as usize)?;
                let first = varint::unzigzag(state.settled, first);
                state.settled = first.checked_add(count)?;
                Record::Settled { queue: FrameQueue(queue), first: Position(first), count }
            }
            tag::AGAIN => {
                let queue = self.queue()?;
                Record::Again { queue: FrameQueue(queue), position: self.next_position(queue)? }
            }
            tag::QUEUE => {
                let (uid, next) = (self.number()?, self.number()?);
                let queue = FrameQueue(self.queues.len() as u32);
                self.queues.push(QueueState { next, settled: next });
                Record::Queue { queue, uid: QueueUid(uid), next: Position(next) }
            }
            tag::HEAD => {
                self.message.exchange = self.bytes()?;
                self.message.routing_key = self.bytes()?;
                self.message.properties = self.bytes()?;
                self.message.bcc = self.bytes()?;
                return Some(None);
            }
            tag::LARGE => {
                let queue = self.queue()?;
                self.time()?;
                let body_bytes = self.number()?;
                let position = self.next_position(queue)?;
                let head = StoredMessage { body: b"", ..self.message };
                Record::Large { queue: FrameQueue(queue), position, head, body_bytes }
            }
            tag::PART => Record::Part(self.bytes()?),
            tag::SEEN => Record::Seen { queue: FrameQueue(self.queue()?), position: Position(self.number()?) },
            tag::RETURNED => {
                let queue = FrameQueue(self.queue()?);
                Record::Returned { queue, position: Position(self.number()?), times: self.number()? }
            }
            tag::COMMIT_BEGIN => Record::CommitBegin,
            tag::COMMIT_END => Record::CommitEnd,
            tag::COMMIT_ABORTED => Record::CommitAborted,
            tag::DEFINITION => Record::Definition { version: self.number()?, bytes: self.bytes()? },
            _ => return None,
        }))
    }

    /// The next record if it is a whole message of the same queue as the one before, as most of a log are; `None` in front of
    /// any other one. What it refers to is not copied.
    #[inline]
    pub(crate) fn next_of_same_queue(&mut self) -> Option<Result<QueuedRecord<'_, 'a>, RecordFault>> {
        let (&tag, rest) = self.rest.split_first()?;
        if tag != tag::MESSAGE_OF_SAME_QUEUE || self.left == 0 {
            return None;
        }
        (self.rest, self.left) = (rest, self.left - 1);
        let queue = self.last_queue;
        let Some(position) = self.read_message(queue) else { return Some(Err(RecordFault)) };
        Some(Ok(QueuedRecord { queue: FrameQueue(queue), position, message: &self.message }))
    }

    /// How many records are left.
    #[inline]
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// Passes over messages that differ from the last record, a message, in their bodies alone. Returns what they have in common,
    /// with the position of the first.
    pub(crate) fn pass_alike(&mut self, alike: &AlikeMessages) -> Option<QueuedRecord<'_, 'a>> {
        let queue = self.last_queue;
        let position = self.next_position(queue)?;
        let state = self.queues.get_mut(queue as usize)?;
        state.next = position.0.checked_add(alike.records.into())?;
        self.rest = self.rest.get(alike.bytes..)?;
        self.left = self.left.checked_sub(alike.records)?;
        Some(QueuedRecord { queue: FrameQueue(queue), position, message: &self.message })
    }

    #[inline]
    fn message(&mut self, queue: u32) -> Option<Record<'a>> {
        let position = self.read_message(queue)?;
        Some(Record::Message { queue: FrameQueue(queue), position, message: self.message })
    }

    #[inline]
    fn read_message(&mut self, queue: u32) -> Option<Position> {
        self.time()?;
        self.message.body = self.bytes()?;
        self.next_position(queue)
    }

    #[inline]
    fn time(&mut self) -> Option<()> {
        self.message.arrived_us = varint::unzigzag(self.message.arrived_us, self.number()?);
        Some(())
    }

    #[inline]
    fn next_position(&mut self, queue: u32) -> Option<Position> {
        let state = self.queues.get_mut(queue as usize)?;
        let position = Position(state.next);
        state.next = state.next.checked_add(1)?;
        self.last_queue = queue;
        Some(position)
    }

    /// The number of a queue that is in the table.
    #[inline]
    fn queue(&mut self) -> Option<u32> {
        let queue = self.number()?;
        (queue < self.queues.len() as u64).then_some(queue as u32)
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        varint::read(&mut self.rest)
    }

    #[inline]
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }
}
