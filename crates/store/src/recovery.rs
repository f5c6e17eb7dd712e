//! Finds the messages of a log again: what was written, is not settled, and belongs to a queue that exists.
//!
//! Enters: segments, by whoever can read them.  Leaves: the messages of each queue in their order, and where the log goes on.
//!
//! A commit counts when its end is found; a large message when all of its body is.

mod level;
mod visitor;

pub(crate) use level::RecoveredLevel;

use crate::ids::{Block, LogId, Position, QueueUid, SegmentNumber, StoreTag};
use crate::limits::EXTENT_BLOCKS;
use crate::live_runs::LiveRuns;
use crate::log_writer::LogEnd;
use crate::record::StoredMessage;
use crate::scan::{Damage, OnDamage, ScanError, SegmentReader, scan};
use std::collections::BTreeMap;
use visitor::Recovery;

/// Takes what a recovery finds.
pub trait RecoverySink {
    /// A message, in the form in which it waits until the end of the log is known. Clones share their bytes.
    type Message: Clone;

    /// Whether the queue exists. What the log has of others is dead.
    fn is_there(&mut self, queue: QueueUid) -> bool;

    /// A message of this queue was found, and may be found in others, too. It may turn out to be settled.
    fn message(&mut self, queue: QueueUid, message: &StoredMessage<'_>) -> Self::Message;

    /// A message is alive: those of a queue one after another, in the order of their positions.
    fn restore(&mut self, queue: QueueUid, position: Position, message: Self::Message, found: FoundMessage);

    /// All messages of the queue were restored: its positions go on behind these, one for each level that it has used.
    fn finish(&mut self, queue: QueueUid, next: &[Position]);

    /// Frames that had been durable are missing.
    fn on_damage(&mut self, damage: &Damage);
}

/// What happened to a message before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundMessage {
    /// It may have been handed to a consumer.
    pub was_delivered: bool,
    pub times_returned: u32,
}

/// What is alive of a level, for the log that goes on.
#[derive(Debug)]
pub(crate) struct FoundLevel {
    pub number: u8,
    pub live: LiveRuns,
    pub seen_end: u64,
    pub returned: BTreeMap<u64, u32>,
}

#[derive(Debug)]
pub(crate) struct FoundQueue {
    pub uid: QueueUid,
    pub levels: Vec<FoundLevel>,
}

/// Frames that follow one another in a segment: in the log that goes on they are a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub segment: SegmentNumber,
    pub block: u32,
    /// The block behind its last frame.
    pub end: u32,
}

impl Extent {
    /// Whether a frame that begins at this block belongs to it.
    fn takes(&self, segment: SegmentNumber, block: Block) -> bool {
        (self.segment, self.end) == (segment, block.0) && self.end - self.block < EXTENT_BLOCKS
    }
}

/// Where a log of messages goes on, and what of it is alive.
#[derive(Debug)]
pub struct RecoveredLog {
    pub end: LogEnd,
    /// What is alive refers to these by their indexes.
    pub(crate) extents: Vec<Extent>,
    pub(crate) queues: Vec<FoundQueue>,
    /// It ends within a commit.
    pub(crate) has_open_commit: bool,
    /// Messages that are alive.
    pub messages: u64,
    /// Frames that were read.
    pub frames: u64,
    /// Frames behind the log's end that had been written and not been durable.
    pub torn_frames: u64,
    pub damage: Vec<Damage>,
}

impl RecoveredLog {
    /// A log in which nothing was written.
    pub fn empty(store: StoreTag, log: LogId) -> RecoveredLog {
        RecoveredLog::from(LogEnd::empty(store, log))
    }
}

impl From<LogEnd> for RecoveredLog {
    /// A log in which nothing is alive.
    fn from(end: LogEnd) -> Self {
        RecoveredLog {
            end,
            extents: Vec::new(),
            queues: Vec::new(),
            has_open_commit: false,
            messages: 0,
            frames: 0,
            torn_frames: 0,
            damage: Vec::new(),
        }
    }
}

/// Reads a log of messages in the segments with these numbers, and restores what is alive.
pub fn recover<S: RecoverySink>(
    reader: &mut impl SegmentReader,
    store: StoreTag,
    log: LogId,
    segments: Vec<SegmentNumber>,
    on_damage: OnDamage,
    sink: &mut S,
) -> Result<RecoveredLog, ScanError> {
    let mut recovery = Recovery::new(sink);
    let result = scan(LogEnd::empty(store, log).chain, segments, on_damage, reader, &mut recovery)?;
    let mut recovered = recovery.finish(result.end);
    recovered.frames = result.frames;
    recovered.torn_frames = result.torn_frames;
    recovered.damage = result.damage;
    Ok(recovered)
}
