//! The bytes of a footer's entries: a tag, and numbers of variable length that are differences from what came before.

use super::entry::{FooterEntry, FooterQueue, MessageRun};
use crate::ids::{Block, Position, QueueUid};
use crate::limits::MESSAGE_OVERHEAD_BYTES;
use crate::varint::{self, VARINT_BYTES_MAX};

/// The tags. Part of the format.
mod tag {
    pub const EXTENT: u8 = 1;
    pub const QUEUE: u8 = 2;
    pub const MESSAGES: u8 = 3;
    pub const LARGE: u8 = 4;
    pub const PART: u8 = 5;
    pub const SETTLED: u8 = 6;
    pub const SEEN: u8 = 7;
    pub const RETURNED: u8 = 8;
    pub const COMMIT_BEGIN: u8 = 9;
    pub const COMMIT_END: u8 = 10;
    pub const COMMIT_ABORTED: u8 = 11;
}

/// Where the last entries about a level ended: the next ones mostly go on there.
#[derive(Clone, Copy)]
struct LevelEnds {
    level: u8,
    messages: u64,
    settled: u64,
}

impl LevelEnds {
    fn new(level: u8) -> LevelEnds {
        let first = u64::from(level) << 56;
        LevelEnds { level, messages: first, settled: first }
    }
}

/// What differences are from.
#[derive(Default)]
struct Before {
    levels: Vec<LevelEnds>,
    block: u32,
    arrived_us: u64,
}

/// Writes entries.
#[derive(Default)]
pub(super) struct EntryEncoder {
    before: Before,
    bytes: Vec<u8>,
}

impl EntryEncoder {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn tag(&mut self, tag: u8) {
        self.bytes.push(tag);
    }

    fn number(&mut self, number: u64) {
        let mut out = [0; VARINT_BYTES_MAX];
        let len = varint::write(&mut out, number);
        self.bytes.extend_from_slice(&out[..len]);
    }

    fn level(&mut self, queue: FooterQueue) -> &mut LevelEnds {
        &mut self.before.levels[queue.0 as usize]
    }

    fn run(&mut self, queue: FooterQueue, run: &MessageRun) {
        let from = std::mem::replace(&mut self.level(queue).messages, run.end());
        self.number(queue.0.into());
        self.number(varint::zigzag(from, run.first.0));
        self.number(run.count);
        self.number(run.body_bytes);
        self.number(varint::zigzag(expected_log_bytes(run.count, run.body_bytes), run.log_bytes));
        let before_us = std::mem::replace(&mut self.before.arrived_us, run.last_arrived_us);
        self.number(varint::zigzag(before_us, run.first_arrived_us));
        self.number(run.last_arrived_us - run.first_arrived_us);
        self.number(run.flags.into());
    }

    pub fn put(&mut self, entry: &FooterEntry) {
        match *entry {
            FooterEntry::Extent { block } => {
                let before = std::mem::replace(&mut self.before.block, block.0);
                self.tag(tag::EXTENT);
                self.number((block.0 - before).into());
            }
            FooterEntry::Queue { uid, level } => {
                self.before.levels.push(LevelEnds::new(level));
                self.tag(tag::QUEUE);
                self.number(uid.0);
                self.number(level.into());
            }
            FooterEntry::Messages { queue, run } => {
                self.tag(tag::MESSAGES);
                self.run(queue, &run);
            }
            FooterEntry::Large { queue, run } => {
                self.tag(tag::LARGE);
                self.run(queue, &run);
            }
            FooterEntry::Part { bytes } => {
                self.tag(tag::PART);
                self.number(bytes);
            }
            FooterEntry::Settled { queue, first, count } => {
                let from = std::mem::replace(&mut self.level(queue).settled, first.0.saturating_add(count));
                self.tag(tag::SETTLED);
                self.number(queue.0.into());
                self.number(varint::zigzag(from, first.0));
                self.number(count);
            }
            FooterEntry::Seen { queue, position } => {
                self.tag(tag::SEEN);
                self.number(queue.0.into());
                self.number(position.0);
            }
            FooterEntry::Returned { queue, position, times } => {
                self.tag(tag::RETURNED);
                self.number(queue.0.into());
                self.number(position.0);
                self.number(times);
            }
            FooterEntry::CommitBegin => self.tag(tag::COMMIT_BEGIN),
            FooterEntry::CommitEnd => self.tag(tag::COMMIT_END),
            FooterEntry::CommitAborted => self.tag(tag::COMMIT_ABORTED),
        }
    }
}

fn expected_log_bytes(count: u64, body_bytes: u64) -> u64 {
    body_bytes.wrapping_add(count.wrapping_mul(MESSAGE_OVERHEAD_BYTES))
}

/// Reads entries one after another.
pub(super) struct EntryDecoder<'a> {
    rest: &'a [u8],
    before: Before,
}

impl<'a> EntryDecoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        EntryDecoder { rest: bytes, before: Before::default() }
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn number(&mut self) -> Option<u64> {
        varint::read(&mut self.rest)
    }

    /// A level that is in the table.
    fn queue(&mut self) -> Option<FooterQueue> {
        let queue = self.number()?;
        (queue < self.before.levels.len() as u64).then_some(FooterQueue(queue as u32))
    }

    fn run(&mut self) -> Option<(FooterQueue, MessageRun)> {
        let queue = self.queue()?;
        let (first, count) = (self.number()?, self.number()?);
        let level = &mut self.before.levels[queue.0 as usize];
        let first = varint::unzigzag(level.messages, first);
        level.messages = first.checked_add(count)?;
        let last = Position(level.messages.checked_sub(1).filter(|_| count > 0)?);
        if (Position(first).level(), last.level()) != (level.level, level.level) {
            return None;
        }
        let body_bytes = self.number()?;
        let log_bytes = varint::unzigzag(expected_log_bytes(count, body_bytes), self.number()?);
        let first_arrived_us = varint::unzigzag(self.before.arrived_us, self.number()?);
        let last_arrived_us = first_arrived_us.checked_add(self.number()?)?;
        self.before.arrived_us = last_arrived_us;
        let flags = u16::try_from(self.number()?).ok()?;
        let first = Position(first);
        let run = MessageRun { first, count, log_bytes, body_bytes, first_arrived_us, last_arrived_us, flags };
        Some((queue, run))
    }

    /// The next entry; `None` where none can be read, and nothing is passed over.
    pub fn next_entry(&mut self) -> Option<FooterEntry> {
        let from = self.rest;
        let entry = self.parse();
        if entry.is_none() {
            self.rest = from;
        }
        entry
    }

    fn parse(&mut self) -> Option<FooterEntry> {
        let (&tag, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(match tag {
            tag::EXTENT => {
                let block = u64::from(self.before.block).checked_add(self.number()?)?;
                self.before.block = u32::try_from(block).ok()?;
                FooterEntry::Extent { block: Block(self.before.block) }
            }
            tag::QUEUE => {
                let (uid, level) = (QueueUid(self.number()?), u8::try_from(self.number()?).ok()?);
                self.before.levels.push(LevelEnds::new(level));
                FooterEntry::Queue { uid, level }
            }
            tag::MESSAGES => {
                let (queue, run) = self.run()?;
                FooterEntry::Messages { queue, run }
            }
            tag::LARGE => {
                let (queue, run) = self.run().filter(|(_, run)| run.count == 1)?;
                FooterEntry::Large { queue, run }
            }
            tag::PART => FooterEntry::Part { bytes: self.number()? },
            tag::SETTLED => {
                let queue = self.queue()?;
                let (first, count) = (self.number()?, self.number()?);
                let level = &mut self.before.levels[queue.0 as usize];
                let first = varint::unzigzag(level.settled, first);
                level.settled = first.checked_add(count)?;
                FooterEntry::Settled { queue, first: Position(first), count }
            }
            tag::SEEN => FooterEntry::Seen { queue: self.queue()?, position: Position(self.number()?) },
            tag::RETURNED => {
                let queue = self.queue()?;
                FooterEntry::Returned { queue, position: Position(self.number()?), times: self.number()? }
            }
            tag::COMMIT_BEGIN => FooterEntry::CommitBegin,
            tag::COMMIT_END => FooterEntry::CommitEnd,
            tag::COMMIT_ABORTED => FooterEntry::CommitAborted,
            _ => return None,
        })
    }
}
