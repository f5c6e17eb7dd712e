//! Loads the messages that are alive: reads the extents that have some, in the order of the log.
//!
//! Enters: what is alive, by level; frames.  Leaves: messages, those of a level in the order of their positions.
//! Owns:   messages that were found before those in front of them, as after they were moved.

use super::found_runs::FoundRun;
use super::{Extent, FoundMessage, RecoverySink};
use crate::buffer::AlignedBuffer;
use crate::frame::{Frame, FrameFault};
use crate::group::Chain;
use crate::ids::{Block, FrameSequence, Position, QueueUid, SegmentId, SegmentNumber};
use crate::large_message::LargeMessage;
use crate::limits::{BLOCK_BYTES, SCAN_BYTES};
use crate::record::{Record, RecordReader, StoredMessage};
use crate::request::DiskError;
use crate::scan::SegmentReader;
use crate::segment_header::SegmentStart;
use crate::uid_map::UidHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::ops::Range;

/// A level whose messages are loaded.
pub(super) struct LoadedLevel<'a, M> {
    pub queue: QueueUid,
    runs: &'a [FoundRun],
    seen_end: u64,
    returned: &'a BTreeMap<u64, u32>,
    /// The first position that was not restored, and the index of its run.
    next: u64,
    at: usize,
    /// Messages whose turn has not come.
    early: BTreeMap<u64, M>,
    /// The run that was looked up last.
    known: Range<u64>,
    known_extent: u32,
}

impl<'a, M> LoadedLevel<'a, M> {
    pub fn new(queue: QueueUid, runs: &'a [FoundRun], seen_end: u64, returned: &'a BTreeMap<u64, u32>) -> Self {
        let next = runs.first().map_or(0, |found| found.run.first.0);
        let early = BTreeMap::new();
        LoadedLevel { queue, runs, seen_end, returned, next, at: 0, early, known: 0..0, known_extent: 0 }
    }

    /// The first message that was not restored.
    fn missing(&self) -> Option<&FoundRun> {
        self.runs.get(self.at)
    }

    /// Whether the message of this position that is in this extent is alive.
    #[inline]
    fn is_here(&mut self, position: u64, extent: u32) -> bool {
        if !self.known.contains(&position) {
            let at = self.runs.partition_point(|found| found.run.end() <= position);
            let Some(found) = self.runs.get(at).filter(|found| found.run.first.0 <= position) else { return false };
            (self.known, self.known_extent) = (found.run.first.0..found.run.end(), found.extent);
        }
        self.known_extent == extent && position >= self.next
    }

    /// A message that is alive was read.
    #[inline]
    fn put<S: RecoverySink<Message = M>>(&mut self, position: u64, message: M, sink: &mut S) {
        if position != self.next {
            self.early.insert(position, message);
            return;
        }
        self.restore(message, sink);
        while let Some(message) = self.early.first_entry().filter(|first| *first.key() == self.next) {
            let message = message.remove();
            self.restore(message, sink);
        }
    }

    #[inline]
    fn restore<S: RecoverySink<Message = M>>(&mut self, message: M, sink: &mut S) {
        let position = self.next;
        let times_returned = match self.returned.is_empty() {
            true => 0,
            false => self.returned.get(&position).copied().unwrap_or(0),
        };
        let found = FoundMessage { was_delivered: position < self.seen_end, times_returned };
        sink.restore(self.queue, Position(position), message, found);
        self.next += 1;
        if self.next == self.runs[self.at].run.end() {
            self.at += 1;
            self.next = self.runs.get(self.at).map_or(u64::MAX, |found| found.run.first.0);
        }
    }
}

/// A large message that is alive, while its body is read.
struct LargeInPart {
    level: usize,
    position: u64,
    message: LargeMessage,
}

/// A message that is alive and was not put into its level.
struct Held<M> {
    level: usize,
    position: u64,
    message: M,
}

/// Levels by their queues and numbers.
type LevelMap = HashMap<(QueueUid, u8), usize, BuildHasherDefault<UidHasher>>;

/// Loads messages.
pub(super) struct Loading<'a, S: RecoverySink> {
    chain: Chain,
    segments: &'a [SegmentStart],
    extents: &'a [Extent],
    levels: Vec<LoadedLevel<'a, S::Message>>,
    by_queue: LevelMap,
    sink: &'a mut S,
    large: Option<LargeInPart>,
    /// The table of the frame: queues, and the levels that were looked up last.
    table: Vec<(QueueUid, Option<(u8, usize)>)>,
}

impl<'a, S: RecoverySink> Loading<'a, S> {
    pub fn new(
        chain: Chain,
        segments: &'a [SegmentStart],
        extents: &'a [Extent],
        levels: Vec<LoadedLevel<'a, S::Message>>,
        sink: &'a mut S,
    ) -> Self {
        let number = |level: &LoadedLevel<'_, _>| Some((level.queue, level.runs.first()?.run.first.level()));
        let by_queue = levels.iter().enumerate().filter_map(|(at, level)| Some((number(level)?, at))).collect();
        Loading { chain, segments, extents, levels, by_queue, sink, large: None, table: Vec::new() }
    }

    /// Reads everything. Returns the extent of a message that is missing, if there is one.
    pub fn load(mut self, reader: &mut impl SegmentReader) -> Result<Option<Extent>, DiskError> {
        let mut is_wanted = vec![false; self.extents.len()];
        for found in self.levels.iter().flat_map(|level| level.runs) {
            is_wanted[found.extent as usize..=found.last_extent as usize].fill(true);
        }
        let mut buffer = AlignedBuffer::new(SCAN_BYTES);
        let mut at = 0;
        while at < self.extents.len() {
            if !is_wanted[at] {
                at += 1;
                continue;
            }
            // Neighbours are read together.
            let mut end = at + 1;
            while end < self.extents.len() && is_wanted[end] && self.extents[end].follows(&self.extents[end - 1]) {
                end += 1;
            }
            self.read(at..end, &mut buffer, reader)?;
            at = end;
        }
        let missing = self.levels.iter().find_map(LoadedLevel::missing);
        Ok(missing.map(|found| self.extents[found.extent as usize]))
    }

    /// Reads extents of one segment that follow one another.
    fn read(
        &mut self,
        mut extents: Range<usize>,
        buffer: &mut AlignedBuffer,
        reader: &mut impl SegmentReader,
    ) -> Result<(), DiskError> {
        let Extent { segment, block: mut at, .. } = self.extents[extents.start];
        let end = self.extents[extents.end - 1].end;
        let id = SegmentId { log: self.chain.log, number: segment };
        let mut sequences = sequences_of(segment, self.segments);
        let (mut filled, mut filled_at) = (0, at);
        while at < end {
            let from = (at - filled_at) as usize * BLOCK_BYTES;
            let frame = Frame::read(buffer.get(from..filled).unwrap_or_default());
            let blocks = match frame {
                Err(FrameFault::Cut(_)) if filled == 0 || (from > 0 && filled == buffer.len()) => {
                    filled = reader.read(id, Block(at), buffer)?;
                    filled_at = at;
                    if filled == 0 {
                        return Ok(());
                    }
                    continue;
                }
                Ok(frame) if self.is_own(id, &frame) && sequences.contains(&frame.header.sequence) => {
                    sequences.start = frame.header.sequence.next();
                    while extents.len() > 1 && self.extents[extents.start].end <= at {
                        extents.start += 1;
                    }
                    self.load_frame(extents.start as u32, &frame);
                    frame.header.blocks()
                }
                // What a torn write has left, or damage: the messages that were here will be missing.
                Ok(_) | Err(_) => 1,
            };
            at += blocks;
        }
        Ok(())
    }

    fn is_own(&self, segment: SegmentId, frame: &Frame<'_>) -> bool {
        let header = &frame.header;
        (header.store, header.log, header.segment) == (self.chain.store, segment.log, segment.number)
    }

    /// The level of a queue in the table of the frame, if it is loaded.
    #[inline]
    fn level(&mut self, queue: u32, position: Position) -> Option<usize> {
        let (uid, known) = self.table[queue as usize];
        if let Some((number, level)) = known
            && number == position.level()
        {
            return Some(level);
        }
        let &level = self.by_queue.get(&(uid, position.level()))?;
        self.table[queue as usize].1 = Some((position.level(), level));
        Some(level)
    }

    /// The level, if the message of this position is alive here.
    #[inline]
    fn living(&mut self, queue: u32, position: Position, extent: u32) -> Option<usize> {
        let level = self.level(queue, position)?;
        self.levels[level].is_here(position.0, extent).then_some(level)
    }

    fn load_frame(&mut self, extent: u32, frame: &Frame<'_>) {
        self.table.clear();
        let mut records = RecordReader::new(frame);
        let mut last: Option<(StoredMessage<'_>, Option<S::Message>)> = None;
        // The last one, until it is known whether other queues have it, too.
        let mut held = None;
        // Records that do not parse end the frame: what they had is missing.
        while let Ok(Some(record)) = records.next_record() {
            if let Record::Part(part) = record {
                self.part(part);
                continue;
            }
            self.large = None;
            match record {
                Record::Queue { uid, .. } => self.table.push((uid, None)),
                Record::Message { queue, position, message } => {
                    self.put_held(&mut held);
                    let level = self.living(queue.0, position, extent);
                    held =
                        level.map(|level| Held { level, position: position.0, message: self.sink.message(&message) });
                    last = Some((message, None));
                }
                Record::Again { queue, position } => {
                    if let (Some(held), Some((_, built))) = (&held, &mut last) {
                        *built = Some(held.message.clone());
                    }
                    self.put_held(&mut held);
                    if let (Some(level), Some((message, built))) = (self.living(queue.0, position, extent), &mut last) {
                        let built = built.get_or_insert_with(|| self.sink.message(message)).clone();
                        self.levels[level].put(position.0, built, self.sink);
                    }
                }
                Record::Large { queue, position, head, body_bytes } => {
                    self.put_held(&mut held);
                    last = None;
                    let level = self.living(queue.0, position, extent);
                    self.large = level.map(|level| {
                        let message = LargeMessage::new(&head, body_bytes);
                        LargeInPart { level, position: position.0, message }
                    });
                }
                _ => {}
            }
        }
        self.put_held(&mut held);
    }

    #[inline]
    fn put_held(&mut self, held: &mut Option<Held<S::Message>>) {
        if let Some(Held { level, position, message }) = held.take() {
            self.levels[level].put(position, message, self.sink);
        }
    }

    fn part(&mut self, part: &[u8]) {
        let Some(large) = &mut self.large else { return };
        large.message.push(part);
        if large.message.is_whole()
            && let Some(LargeInPart { level, position, message }) = self.large.take()
        {
            let built = self.sink.message(&message.stored());
            self.levels[level].put(position, built, self.sink);
        }
    }
}

/// The frames that belong to a segment of the log.
fn sequences_of(segment: SegmentNumber, starts: &[SegmentStart]) -> Range<FrameSequence> {
    let at = starts.partition_point(|start| start.number < segment);
    let first = starts.get(at).map_or(FrameSequence(0), |start| start.first);
    let end = starts.get(at + 1).map_or(FrameSequence(u64::MAX), |next| next.first);
    first..end
}
