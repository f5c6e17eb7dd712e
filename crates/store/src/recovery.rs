//! Finds the messages of a log again: what was written, is not settled, and belongs to a queue that exists.
//!
//! Enters: segments and their footers, by whoever can read them.  Leaves: the messages of each queue in their order, or pages
//! of them; where the log goes on.
//!
//! First it is found out what is alive, from footers where they are, and then what is wanted of that is read. A commit counts
//! when its end is found; a large message when all of its body is.

mod found_runs;
mod live_index;
mod loading;
mod log_reading;
mod page;

pub use page::FoundPage;

use crate::footer::EncodedFooter;
use crate::frame::FrameHeader;
use crate::ids::{Block, LogId, Position, QueueUid, SegmentId, SegmentNumber, StoreTag};
use crate::limits::BLOCK_BYTES;
use crate::live_runs::{LiveRun, LiveRuns};
use crate::log_writer::LogEnd;
use crate::record::{Record, StoredMessage};
use crate::scan::{Damage, OnDamage, RecordVisitor, ScanError, SegmentReader, UnreadableEnd, scan};
use found_runs::FoundRun;
use live_index::{IndexedQueue, LiveQueues};
use loading::{LoadedLevel, Loading};
use log_reading::LogReading;
use std::collections::BTreeMap;

/// Takes what a recovery finds.
pub trait RecoverySink {
    /// A message that was read. Clones share their bytes.
    type Message: Clone;

    /// Whether the queue exists. What the log has of others is dead.
    fn is_there(&mut self, queue: QueueUid) -> bool;

    /// Whether the messages of the queue are read now, where it has so much, and the whole log. If not they are restored as
    /// pages.
    fn is_loaded(&mut self, queue: QueueUid, own: LiveTotals, log: LiveTotals) -> bool;

    /// A message was read.
    fn message(&mut self, message: &StoredMessage<'_>) -> Self::Message;

    /// A message is alive: those of a level of a queue in the order of their positions, between those of others.
    fn restore(&mut self, queue: QueueUid, position: Position, message: Self::Message, found: FoundMessage);

    /// Messages are alive that are not read: those of a level of a queue in the order of their positions.
    fn restore_page(&mut self, queue: QueueUid, page: FoundPage);

    /// All messages of the queue were restored: its positions go on behind these, one for each level that it has used.
    fn finish(&mut self, queue: QueueUid, next: &[Position]);

    /// Frames that had been durable are missing.
    fn on_damage(&mut self, damage: &Damage);
}

/// What is alive in a log, or of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LiveTotals {
    pub messages: u64,
    pub body_bytes: u64,
    /// Bytes of the log that have to be read for them one queue after another.
    pub log_bytes: u64,
}

impl LiveTotals {
    fn add(&mut self, other: &LiveTotals) {
        self.messages += other.messages;
        self.body_bytes += other.body_bytes;
        self.log_bytes += other.log_bytes;
    }
}

/// What happened to a message before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundMessage {
    /// It may have been handed to a consumer.
    pub was_delivered: bool,
    pub times_returned: u32,
}

impl FoundMessage {
    /// Whether a consumer that gets it has to expect that another one had it. What was returned had been handed out, also where
    /// the record that says so is among what damage took.
    pub fn is_redelivered(&self) -> bool {
        self.was_delivered || self.times_returned > 0
    }
}

/// What is alive of a level, for the log that goes on.
#[derive(PartialEq, Debug)]
pub(crate) struct FoundLevel {
    pub number: u8,
    pub live: LiveRuns,
    pub seen_end: u64,
    pub returned: BTreeMap<u64, u32>,
}

#[derive(PartialEq, Debug)]
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
    /// Whether it begins where another one ends.
    fn follows(&self, before: &Extent) -> bool {
        (self.segment, self.block) == (before.segment, before.end)
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
    /// Its frames, those that footers stand for included.
    pub frames: u64,
    /// Frames behind the log's end that had been written and not been durable, in segments that were read.
    pub torn_frames: u64,
    /// Where it ends, if a frame begins there that cannot be read.
    pub unreadable_end: Option<UnreadableEnd>,
    pub damage: Vec<Damage>,
    /// Segments whose footers were read in place of their frames.
    pub footers_used: u64,
    /// Footers for segments that had none.
    pub(crate) footers: Vec<EncodedFooter>,
}

impl RecoveredLog {
    /// A log in which nothing was written.
    pub fn empty(store: StoreTag, log: LogId) -> RecoveredLog {
        RecoveredLog::from(LogEnd::empty(store, log))
    }
}

impl PartialEq for RecoveredLog {
    /// Whether the same log was found, in footers or in frames: torn frames of a segment with a footer are not seen.
    fn eq(&self, other: &Self) -> bool {
        let found = |log: &RecoveredLog| (log.has_open_commit, log.messages, log.frames);
        let is_same = (&self.end, &self.extents, &self.queues) == (&other.end, &other.extents, &other.queues);
        is_same && found(self) == found(other) && self.damage == other.damage
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
            unreadable_end: None,
            damage: Vec::new(),
            footers_used: 0,
            footers: Vec::new(),
        }
    }
}

/// Reads a log of messages in the segments with these numbers, and restores what is alive.
///
/// Footers are not used where damage is to be skipped: what is damaged would be found later, one message after another.
pub fn recover<S: RecoverySink>(
    reader: &mut impl SegmentReader,
    store: StoreTag,
    log: LogId,
    segments: Vec<SegmentNumber>,
    on_damage: OnDamage,
    sink: &mut S,
) -> Result<RecoveredLog, ScanError> {
    let chain = LogEnd::empty(store, log).chain;
    let mut reading = LogReading::new(&chain, on_damage == OnDamage::Fail, sink);
    let result = scan(chain, segments.clone(), on_damage, reader, &mut reading)?;
    reading.end_segment(result.end.chain.next, result.end.chain.previous_crc);
    let LogReading { index, footers, .. } = reading;
    let live = index.finish();
    let is_loaded = choose_loaded(&live, sink);
    if let Some(extent) = load(&live, &is_loaded, &result.end, reader, sink)? {
        // The footer said that it is there: damage is found, and named, by reading everything.
        scan(chain, segments, OnDamage::Fail, reader, &mut NoVisitor)?;
        return Err(ScanError::BadFooter { segment: SegmentId { log, number: extent.segment } });
    }
    let mut recovered = RecoveredLog {
        extents: live.extents,
        has_open_commit: live.has_open_commit,
        frames: result.frames,
        torn_frames: result.torn_frames,
        unreadable_end: result.unreadable_end,
        damage: result.damage,
        footers_used: result.footers_used,
        footers,
        ..RecoveredLog::from(result.end)
    };
    for (queue, is_loaded) in live.queues.into_iter().zip(is_loaded) {
        recovered.finish_queue(queue, is_loaded, sink);
    }
    Ok(recovered)
}

/// Whether the messages of each queue are read now.
fn choose_loaded<S: RecoverySink>(live: &LiveQueues, sink: &mut S) -> Vec<bool> {
    let own: Vec<LiveTotals> = live.queues.iter().map(|queue| totals(queue, &live.extents)).collect();
    let mut log = LiveTotals::default();
    own.iter().for_each(|own| log.add(own));
    live.queues.iter().zip(own).map(|(queue, own)| sink.is_loaded(queue.uid, own, log)).collect()
}

fn totals(queue: &IndexedQueue, extents: &[Extent]) -> LiveTotals {
    let mut totals = LiveTotals::default();
    let mut last = None;
    for found in queue.levels.iter().flat_map(|level| &level.runs) {
        totals.messages += found.run.count;
        totals.body_bytes += found.run.body_bytes;
        for extent in found.extent..=found.last_extent {
            if last.replace(extent) != Some(extent) {
                let Extent { block, end, .. } = extents[extent as usize];
                totals.log_bytes += u64::from(end - block) * BLOCK_BYTES as u64;
            }
        }
    }
    totals
}

/// Reads the messages of these queues. Returns the extent of a message that is missing, if there is one.
fn load<S: RecoverySink>(
    live: &LiveQueues,
    is_loaded: &[bool],
    end: &LogEnd,
    reader: &mut impl SegmentReader,
    sink: &mut S,
) -> Result<Option<Extent>, ScanError> {
    let queues = live.queues.iter().zip(is_loaded).filter(|(_, is_loaded)| **is_loaded).map(|(queue, _)| queue);
    let levels = queues.flat_map(|queue| {
        queue.levels.iter().map(|level| LoadedLevel::new(queue.uid, &level.runs, level.seen_end, &level.returned))
    });
    Ok(Loading::new(end.chain, &end.segments, &live.extents, levels.collect(), sink).load(reader)?)
}

impl RecoveredLog {
    /// The messages of a queue that are read now were restored: so are the pages of the others.
    fn finish_queue<S: RecoverySink>(&mut self, queue: IndexedQueue, is_loaded: bool, sink: &mut S) {
        let mut levels = Vec::new();
        for level in &queue.levels {
            if !is_loaded {
                page::pages(&level.runs).for_each(|page| sink.restore_page(queue.uid, page));
            }
            let mut live = LiveRuns::default();
            for FoundRun { run, extent, .. } in &level.runs {
                self.messages += run.count;
                let (first, count, bytes) = (run.first.0, run.count, run.log_bytes);
                live.push_run(LiveRun { first, count, group: u64::from(*extent), bytes });
            }
            let is_alive = |position: &u64| live.group_of(*position).is_some();
            let returned = level.returned.iter().filter(|(position, _)| is_alive(position));
            let returned = returned.map(|(&position, &times)| (position, times)).collect();
            levels.push(FoundLevel { number: level.number, live, seen_end: level.seen_end, returned });
        }
        let next: Vec<Position> = queue.levels.iter().map(|level| Position(level.next)).collect();
        sink.finish(queue.uid, &next);
        self.queues.push(FoundQueue { uid: queue.uid, levels });
    }
}

/// Reads for nothing but damage.
struct NoVisitor;

impl RecordVisitor for NoVisitor {
    fn on_frame(&mut self, _: SegmentId, _: Block, _: &FrameHeader) {}
    fn on_record(&mut self, _: Record<'_>) {}
    fn on_damage(&mut self, _: &Damage) {}
}

#[cfg(test)]
mod tests {
    use super::FoundMessage;

    #[test]
    fn what_was_returned_was_delivered() {
        let cases = [(false, 0, false), (true, 0, true), (false, 1, true), (true, 2, true)];
        for (was_delivered, times_returned, is_redelivered) in cases {
            assert_eq!(FoundMessage { was_delivered, times_returned }.is_redelivered(), is_redelivered);
        }
    }
}
