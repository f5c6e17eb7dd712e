//! The summary of a segment: its records as entries of a footer, neighbours merged within an extent.
//!
//! Enters: frames and records, in their order.  Leaves: the entries of one extent after another.
//!
//! A run goes on in the entry where it began. That changes the order of what concerns different queues, which does not
//! matter; a settlement ends the run of its queue, and what concerns all queues ends every run.

use super::entry::{FooterEntry, FooterQueue, MessageRun};
use crate::alike_messages::AlikeMessages;
use crate::ids::{Block, Position, QueueUid};
use crate::limits::{EXTENT_BLOCKS, MESSAGE_OVERHEAD_BYTES};
use crate::record::{FrameQueue, QueuedRecord, Record, StoredMessage};
use crate::uid_map::UidHasher;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// A queue in the table of the frame that is read, with the level that was looked up last.
#[derive(Clone, Copy)]
struct FrameEntry {
    uid: QueueUid,
    level: u8,
    queue: Option<FooterQueue>,
}

/// The run of a level that may go on: where it is among the entries, if nothing has ended all runs since.
#[derive(Clone, Copy, Default)]
struct OpenRun {
    entry: usize,
    generation: u64,
}

/// What is known of the last message of a frame.
#[derive(Clone, Copy)]
struct LastMessage {
    body_bytes: u64,
    arrived_us: u64,
    flags: u16,
}

/// Summarizes one segment.
pub(crate) struct SegmentSummary {
    /// Those of the extent that is being read.
    entries: Vec<FooterEntry>,
    /// Where it begins.
    extent: Option<Block>,
    queues: HashMap<(QueueUid, u8), FooterQueue, BuildHasherDefault<UidHasher>>,
    /// By the indexes of the levels.
    open: Vec<OpenRun>,
    /// No run of an earlier generation goes on.
    generation: u64,
    frame_queues: Vec<FrameEntry>,
    last: Option<LastMessage>,
}

impl SegmentSummary {
    pub fn new() -> Self {
        SegmentSummary {
            entries: Vec::new(),
            extent: None,
            queues: HashMap::default(),
            open: Vec::new(),
            generation: 1,
            frame_queues: Vec::new(),
            last: None,
        }
    }

    /// Begins with another segment.
    pub fn clear(&mut self) {
        self.end_extent(|_| {});
        self.queues.clear();
        self.open.clear();
    }

    /// Hands the entries over that are complete, and begins another extent with the next frame.
    pub fn end_extent(&mut self, complete: impl FnOnce(&[FooterEntry])) {
        complete(&self.entries);
        self.entries.clear();
        self.extent = None;
        self.end_runs();
    }

    /// A frame begins at this block. The extent before it may be complete.
    pub fn begin_frame(&mut self, block: Block, complete: impl FnOnce(&[FooterEntry])) {
        self.frame_queues.clear();
        self.last = None;
        if self.extent.is_some_and(|first| block.0 - first.0 >= EXTENT_BLOCKS) {
            self.end_extent(complete);
        }
        if self.extent.is_none() {
            self.extent = Some(block);
            self.entries.push(FooterEntry::Extent { block });
        }
    }

    fn end_runs(&mut self) {
        self.generation += 1;
    }

    /// A level in the footer's table.
    #[inline]
    fn queue(&mut self, queue: FrameQueue, position: Position) -> FooterQueue {
        let known = self.frame_queues[queue.0 as usize];
        match known.queue {
            Some(found) if known.level == position.level() => found,
            _ => self.look_up(queue, known.uid, position.level()),
        }
    }

    fn look_up(&mut self, queue: FrameQueue, uid: QueueUid, level: u8) -> FooterQueue {
        let next = FooterQueue(self.open.len() as u32);
        let found = *self.queues.entry((uid, level)).or_insert(next);
        if found == next {
            self.open.push(OpenRun::default());
            self.entries.push(FooterEntry::Queue { uid, level });
        }
        self.frame_queues[queue.0 as usize] = FrameEntry { uid, level, queue: Some(found) };
        found
    }

    #[inline]
    fn message(&mut self, queue: FrameQueue, message: MessageRun) {
        let queue = self.queue(queue, message.first);
        let open = self.open[queue.0 as usize];
        if open.generation == self.generation
            && let FooterEntry::Messages { run, .. } = &mut self.entries[open.entry]
            && run.end() == message.first.0
        {
            return run.extend(&message);
        }
        self.open[queue.0 as usize] = OpenRun { entry: self.entries.len(), generation: self.generation };
        self.entries.push(FooterEntry::Messages { queue, run: message });
    }

    /// A whole message of the frame.
    #[inline]
    pub fn add_message(&mut self, record: &QueuedRecord<'_, '_>) {
        let &QueuedRecord { queue, position, message } = record;
        let last = LastMessage {
            body_bytes: message.body.len() as u64,
            arrived_us: message.arrived_us,
            flags: flags_of(message),
        };
        self.last = Some(last);
        self.message(queue, last.run(position, last.body_bytes + MESSAGE_OVERHEAD_BYTES));
    }

    /// Messages of the frame that differ in their bodies alone.
    pub fn add_alike(&mut self, first: &QueuedRecord<'_, '_>, alike: &AlikeMessages) {
        let &QueuedRecord { queue, position, message } = first;
        let AlikeMessages { records, body_bytes, last_body_bytes, .. } = *alike;
        let last =
            LastMessage { body_bytes: last_body_bytes, arrived_us: message.arrived_us, flags: flags_of(message) };
        self.last = Some(last);
        let count = u64::from(records);
        let log_bytes = body_bytes + count * MESSAGE_OVERHEAD_BYTES;
        self.message(queue, MessageRun { count, body_bytes, ..last.run(position, log_bytes) });
    }

    /// A record of the frame.
    pub fn add(&mut self, record: &Record<'_>) {
        match *record {
            Record::Queue { uid, .. } => self.frame_queues.push(FrameEntry { uid, level: 0, queue: None }),
            Record::Message { queue, position, message } => {
                self.add_message(&QueuedRecord { queue, position, message: &message });
            }
            Record::Again { queue, position } => {
                if let Some(last) = self.last {
                    self.message(queue, last.run(position, MESSAGE_OVERHEAD_BYTES));
                }
            }
            Record::Large { queue, position, head, body_bytes } => {
                self.last = None;
                self.end_runs();
                let large = LastMessage { body_bytes, arrived_us: head.arrived_us, flags: flags_of(&head) };
                let queue = self.queue(queue, position);
                let run = large.run(position, body_bytes.saturating_add(MESSAGE_OVERHEAD_BYTES));
                self.entries.push(FooterEntry::Large { queue, run });
            }
            Record::Part(part) => {
                let bytes = part.len() as u64;
                match self.entries.last_mut() {
                    Some(FooterEntry::Part { bytes: before }) => *before += bytes,
                    _ => self.entries.push(FooterEntry::Part { bytes }),
                }
            }
            Record::Settled { queue, first, count } => {
                let queue = self.queue(queue, first);
                self.open[queue.0 as usize] = OpenRun::default();
                self.entries.push(FooterEntry::Settled { queue, first, count });
            }
            Record::Seen { queue, position } => {
                let queue = self.queue(queue, position);
                self.entries.push(FooterEntry::Seen { queue, position });
            }
            Record::Returned { queue, position, times } => {
                let queue = self.queue(queue, position);
                self.entries.push(FooterEntry::Returned { queue, position, times });
            }
            Record::CommitBegin => self.mark(FooterEntry::CommitBegin),
            Record::CommitEnd => self.mark(FooterEntry::CommitEnd),
            Record::CommitAborted => self.mark(FooterEntry::CommitAborted),
            Record::Definition { .. } => {}
        }
    }

    fn mark(&mut self, entry: FooterEntry) {
        self.end_runs();
        self.entries.push(entry);
    }
}

impl LastMessage {
    #[inline]
    fn run(&self, first: Position, log_bytes: u64) -> MessageRun {
        let LastMessage { body_bytes, arrived_us, flags } = *self;
        let (first_arrived_us, last_arrived_us) = (arrived_us, arrived_us);
        MessageRun { first, count: 1, log_bytes, body_bytes, first_arrived_us, last_arrived_us, flags }
    }
}

#[inline]
fn flags_of(message: &StoredMessage<'_>) -> u16 {
    message.properties.first_chunk().map_or(0, |&flags| u16::from_be_bytes(flags))
}
