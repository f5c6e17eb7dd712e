//! The scrub of a log: what was written to its segments is read now and then, slowly, so that damage is known before anybody
//! needs what is damaged.
//!
//! Enters: where the log's segments begin; completions of its reads; the time.  Leaves: reads, so many bytes a second; damage.
//! Owns:   how far it is.
//!
//! A segment is sealed when another one has begun: all frames up to the first one there had been durable, whatever else is in
//! the segment. Each of them is checked, and that it follows the one before. The segment that is being filled is read as far as it
//! was written when the scrub came to it.
//!
//! A pass begins with the segment at which a scrub would be that never stops and always reads as fast as it may, and goes round
//! from there. So a broker that is started again goes on about where it was, without a file that says so, and one that never
//! runs as long as a pass takes reads all of its log nevertheless.

use crate::buffer::AlignedBuffer;
use crate::frame::{Frame, FrameFault};
use crate::group::Chain;
use crate::ids::{Block, FrameSequence, SegmentId, SegmentNumber};
use crate::limits::{BLOCK_BYTES, FRAME_BYTES_MAX, SCRUB_BEGIN_US, SCRUB_READ_BYTES};
use crate::log_writer::LogWriter;
use crate::request::{DiskError, Request};
use crate::scan::Damage;
use crate::segment_header::SegmentStart;
use std::collections::VecDeque;
use std::ops::Range;

/// How a log is scrubbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubOptions {
    /// Bytes that are read in a second, at most.
    pub bytes_per_s: u64,
    /// From the beginning of one pass to that of the next, unless a pass takes longer.
    pub interval_us: u64,
}

/// Frames that had been durable and cannot be read, and the blocks in which they should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubbedDamage {
    pub damage: Damage,
    pub blocks: Range<u32>,
}

/// What a scrub has done.
#[derive(Clone, Copy, Default, Debug)]
pub struct ScrubCounts {
    /// Bytes that were read.
    pub bytes: u64,
    /// Bytes of these in the pass under way; zero between two passes.
    pub pass_bytes: u64,
    /// Passes that have ended.
    pub passes: u64,
}

/// The segment that is read: what is expected next, and where.
struct Cursor {
    number: SegmentNumber,
    block: u32,
    next: FrameSequence,
    previous_crc: u32,
    /// From where on the expected frame is missing.
    missing: Option<u32>,
    /// The frame at the block is larger than a piece: so many bytes are read.
    piece_bytes: usize,
}

impl Cursor {
    fn new(start: &SegmentStart) -> Self {
        Cursor {
            number: start.number,
            block: 1,
            next: start.first,
            previous_crc: start.previous_crc,
            missing: None,
            piece_bytes: SCRUB_READ_BYTES,
        }
    }
}

/// Where a piece ends.
enum PieceEnd {
    /// The segment goes on.
    Segment,
    /// All of the segment was gone through.
    Sealed,
}

/// The scrub of one log.
#[derive(Default)]
pub struct Scrub {
    /// Without them nothing is scrubbed.
    options: Option<ScrubOptions>,
    /// Between two passes there is none.
    cursor: Option<Cursor>,
    /// A read is under way.
    is_reading: bool,
    buffer: Option<AlignedBuffer>,
    /// When the next read may begin, once it is known.
    next_us: Option<u64>,
    pass_began_us: u64,
    /// The segment that the pass has begun with, and whether it has come to the end of the log since.
    pass_first: Option<SegmentNumber>,
    is_round: bool,
    /// How the frames go on behind those that were in the last segment when the scrub came to it.
    end: Option<SegmentStart>,
    found: VecDeque<ScrubbedDamage>,
    counts: ScrubCounts,
}

impl Scrub {
    /// How the log is scrubbed from now on.
    pub fn set_options(&mut self, options: Option<ScrubOptions>) {
        self.options = options.filter(|options| options.bytes_per_s > 0);
    }

    /// What it has done.
    pub fn counts(&self) -> ScrubCounts {
        self.counts
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let read = if self.is_reading { self.cursor.as_ref().map_or(0, |cursor| cursor.piece_bytes) } else { 0 };
        read + self.buffer.as_ref().map_or(0, AlignedBuffer::capacity)
    }

    /// What was found to be damaged.
    pub fn take_damage(&mut self) -> Option<ScrubbedDamage> {
        self.found.pop_front()
    }

    /// When a read may begin.
    pub fn timer_us(&self) -> Option<u64> {
        self.next_us.filter(|_| self.options.is_some() && !self.is_reading)
    }

    /// What to read of the log of this writer.
    pub fn poll(&mut self, log: &LogWriter, now_us: u64) -> Option<Request> {
        let options = self.options?;
        let &mut next_us = self.next_us.get_or_insert(now_us + options.interval_us.min(SCRUB_BEGIN_US));
        if self.is_reading || now_us < next_us {
            return None;
        }
        let starts = log.segments();
        if self.cursor.is_none() {
            let first = first_of_pass(starts, log.segment_bytes(), options, now_us);
            self.cursor = first.map(Cursor::new);
            (self.pass_began_us, self.pass_first, self.is_round) = (now_us, first.map(|first| first.number), false);
        }
        let Some(cursor) = self.cursor.take().and_then(|cursor| self.go_on(cursor, log)) else {
            self.end_pass(options, now_us);
            return None;
        };
        let segment = SegmentId { log: log.chain().log, number: cursor.number };
        let (block, bytes) = (Block(cursor.block), cursor.piece_bytes);
        let mut buffer = self.buffer.take().filter(|buffer| buffer.capacity() >= bytes);
        let mut buffer = buffer.take().unwrap_or_else(|| AlignedBuffer::new(bytes));
        buffer.set_len(bytes);
        (self.cursor, self.is_reading) = (Some(cursor), true);
        self.next_us = Some(now_us + (bytes as u64 * 1_000_000).div_ceil(options.bytes_per_s));
        Some(Request::Read { segment, block, buffer, is_direct: true })
    }

    /// Where the pass goes on, unless it has come round.
    fn go_on(&mut self, cursor: Cursor, log: &LogWriter) -> Option<Cursor> {
        let cursor = match self.readable_from(cursor, log) {
            None if !self.is_round => {
                self.is_round = true;
                self.readable_from(Cursor::new(log.segments().front()?), log)?
            }
            cursor => cursor?,
        };
        let has_come_round = self.is_round && self.pass_first.is_none_or(|first| cursor.number >= first);
        (!has_come_round).then_some(cursor)
    }

    /// Where to read on: a segment that was given back has no more to read, nor has the last one while it is written to.
    fn readable_from(&mut self, cursor: Cursor, log: &LogWriter) -> Option<Cursor> {
        let starts = log.segments();
        let at = starts.partition_point(|start| start.number < cursor.number);
        let start = starts.get(at)?;
        let is_same = start.number == cursor.number;
        self.end = self.end.filter(|_| is_same);
        // A pass may have come to the end of the log before more was written there: only now it is known what the next segment
        // begins with.
        let cursor = match is_same && cursor.block > 1 {
            true => cursor,
            false => Cursor { piece_bytes: cursor.piece_bytes, ..Cursor::new(start) },
        };
        if at + 1 == starts.len() && self.end.is_none() {
            self.end = Some(log.written_end()?);
        }
        Some(cursor)
    }

    fn end_pass(&mut self, options: ScrubOptions, now_us: u64) {
        self.counts.passes += 1;
        self.counts.pass_bytes = 0;
        self.end = None;
        self.buffer = None;
        self.next_us = Some(now_us.max(self.pass_began_us + options.interval_us));
    }

    /// Whether this is what it has asked for.
    pub fn is_reading(&self, segment: SegmentId, block: Block, buffer: &AlignedBuffer) -> bool {
        let cursor = self.cursor.as_ref().filter(|_| self.is_reading);
        cursor.is_some_and(|cursor| {
            (cursor.number, cursor.block, cursor.piece_bytes) == (segment.number, block.0, buffer.len())
        })
    }

    /// What it has asked for was read. Returns the error if it was not, and the log still has the segment.
    pub fn on_read(
        &mut self,
        log: &LogWriter,
        buffer: AlignedBuffer,
        result: Result<usize, DiskError>,
    ) -> Option<DiskError> {
        self.is_reading = false;
        let (chain, starts) = (log.chain(), log.segments());
        // What is given back is written to again.
        let cursor = self.cursor.as_mut()?;
        let at = starts.binary_search_by_key(&cursor.number, |start| start.number).ok()?;
        let next = &starts.get(at + 1).copied().or(self.end)?;
        let mut walk = Walk { chain, next, cursor, found: &mut self.found };
        let (end, error) = match result {
            Ok(filled) => {
                self.counts.bytes += filled as u64;
                self.counts.pass_bytes += filled as u64;
                (walk.piece(&buffer[..filled], filled < buffer.len()), None)
            }
            // The rest of the segment is not looked at: a disk that cannot read takes its time.
            Err(error) => {
                walk.end_segment(u32::MAX);
                (PieceEnd::Sealed, Some(error))
            }
        };
        self.buffer = Some(buffer);
        if let PieceEnd::Sealed = end {
            // The next one of the log, or behind its last one.
            (self.cursor, self.end) = (Some(Cursor::new(next)), None);
        }
        error
    }
}

/// The segment at which a scrub would be that never stops.
fn first_of_pass(
    starts: &VecDeque<SegmentStart>,
    segment_bytes: u64,
    options: ScrubOptions,
    now_us: u64,
) -> Option<&SegmentStart> {
    let passed = u128::from(now_us) * u128::from(options.bytes_per_s) / (1_000_000 * u128::from(segment_bytes));
    starts.get((passed % starts.len().max(1) as u128) as usize)
}

/// Goes through a piece of a segment, up to the first frame of the next one.
struct Walk<'a> {
    chain: &'a Chain,
    next: &'a SegmentStart,
    cursor: &'a mut Cursor,
    found: &'a mut VecDeque<ScrubbedDamage>,
}

impl Walk<'_> {
    fn piece(&mut self, bytes: &[u8], is_last: bool) -> PieceEnd {
        let mut at = 0;
        let size = std::mem::replace(&mut self.cursor.piece_bytes, SCRUB_READ_BYTES);
        while self.cursor.next < self.next.first {
            let rest = bytes.get(at..).unwrap_or_default();
            let blocks = match Frame::read(rest) {
                Err(FrameFault::Cut(_)) if rest.is_empty() && is_last => break,
                Err(FrameFault::Cut(_)) if at > 0 && !is_last => return PieceEnd::Segment,
                Err(FrameFault::Cut(_)) if !is_last && size < FRAME_BYTES_MAX => {
                    self.cursor.piece_bytes = FRAME_BYTES_MAX;
                    return PieceEnd::Segment;
                }
                Ok(frame) if self.is_wanted(&frame) => {
                    self.on_frame(&frame);
                    frame.header.blocks()
                }
                Ok(_) | Err(_) => {
                    self.cursor.missing.get_or_insert(self.cursor.block);
                    1
                }
            };
            self.cursor.block += blocks;
            at += blocks as usize * BLOCK_BYTES;
        }
        self.end_segment(self.cursor.block);
        PieceEnd::Sealed
    }

    /// Whether a frame is one of those that are expected in this segment.
    fn is_wanted(&self, frame: &Frame<'_>) -> bool {
        let header = &frame.header;
        (header.store, header.log, header.segment) == (self.chain.store, self.chain.log, self.cursor.number)
            && (self.cursor.next..self.next.first).contains(&header.sequence)
    }

    fn on_frame(&mut self, frame: &Frame<'_>) {
        let header = &frame.header;
        if (header.sequence, header.previous_crc) != (self.cursor.next, self.cursor.previous_crc) {
            self.report(header.sequence, self.cursor.block);
        }
        (self.cursor.next, self.cursor.previous_crc) = (header.sequence.next(), frame.crc);
        self.cursor.missing = None;
    }

    /// Nothing of the segment follows. The next one says which frames it must have had.
    fn end_segment(&mut self, end: u32) {
        if (self.cursor.next, self.cursor.previous_crc) != (self.next.first, self.next.previous_crc) {
            self.report(self.next.first, end);
        }
    }

    /// Frames before this one are missing, which should be before the block `end`.
    fn report(&mut self, next: FrameSequence, end: u32) {
        let Cursor { number, block, missing, .. } = *self.cursor;
        let begin = missing.unwrap_or(block);
        // If none is missing, the last one is another than the one that was followed.
        let first = FrameSequence(self.cursor.next.0.min(next.0.saturating_sub(1)));
        let segment = SegmentId { log: self.chain.log, number };
        let damage = Damage { segment, block: Block(begin), first, next };
        self.found.push_back(ScrubbedDamage { damage, blocks: begin..end.max(begin + 1) });
    }
}

#[cfg(test)]
mod tests {
    use super::{Scrub, ScrubOptions, first_of_pass};
    use crate::ids::{FrameSequence, LogId, SegmentNumber, StoreTag};
    use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MIN};
    use crate::log_writer::{LogEnd, LogWriter};
    use crate::request::{Completion, Request};
    use crate::segment_header::SegmentStart;
    use std::collections::{BTreeMap, VecDeque};

    /// What was written, by segments.
    type Written = BTreeMap<SegmentNumber, Vec<u8>>;

    /// Writes a group, and whatever must be done for it.
    fn write(log: &mut LogWriter, written: &mut Written) {
        log.append(|group| group.definition(1, &[7; 40_000]));
        while let Some(request) = log.poll(0, true) {
            let completion = match request {
                Request::Make { segment, .. } => Completion::Made { segment, result: Ok(()) },
                Request::Write { segment, block, group } => {
                    let bytes = written.entry(segment.number).or_default();
                    bytes.resize(block.0 as usize * BLOCK_BYTES, 0);
                    bytes.extend_from_slice(group.bytes());
                    Completion::Written { segment, group, result: Ok(()) }
                }
                other => panic!("{other:?}"),
            };
            let _event = log.complete(completion, 0);
        }
    }

    /// The scrub reads once. Returns the segment.
    fn read(scrub: &mut Scrub, log: &LogWriter, written: &Written, now_us: u64) -> SegmentNumber {
        let Some(Request::Read { segment, block, mut buffer, .. }) = scrub.poll(log, now_us) else { panic!("a read") };
        let bytes = written[&segment.number].get(block.0 as usize * BLOCK_BYTES..).unwrap_or_default();
        let filled = bytes.len().min(buffer.len());
        buffer[..filled].copy_from_slice(&bytes[..filled]);
        buffer[filled..].fill(0);
        let filled = buffer.len();
        assert_eq!(scrub.on_read(log, buffer, Ok(filled)), None);
        segment.number
    }

    #[test]
    fn what_is_written_behind_the_end_that_a_scrub_has_come_to_is_not_missing_in_the_segment_after_it() {
        let mut log = LogWriter::new(LogEnd::empty(StoreTag(1), LogId(0)), SEGMENT_BYTES_MIN);
        let (mut written, mut scrub) = (Written::new(), Scrub::default());
        scrub.set_options(Some(ScrubOptions { bytes_per_s: 1 << 40, interval_us: 1 }));
        write(&mut log, &mut written);
        assert!(scrub.poll(&log, 0).is_none(), "it begins a moment after the start");
        assert_eq!(read(&mut scrub, &log, &written, 1), SegmentNumber(1));
        // The rest of this segment, and the beginning of the next.
        while log.last_segment() != Some(SegmentNumber(2)) {
            write(&mut log, &mut written);
        }
        assert_eq!(read(&mut scrub, &log, &written, 2), SegmentNumber(2));
        assert_eq!(scrub.take_damage(), None);
    }

    #[test]
    fn a_scrub_that_never_runs_long_begins_with_every_segment_in_turn() {
        let start = |number| SegmentStart {
            number: SegmentNumber(number),
            first: FrameSequence(100 * number),
            previous_crc: 0,
        };
        let starts: VecDeque<SegmentStart> = (7..17).map(start).collect();
        let options = ScrubOptions { bytes_per_s: 2 << 20, interval_us: 1 };
        // Today, and after each start: a segment is read in 32 seconds.
        let (begun_us, segment_us) = (1_795_000_000_000_000_u64, 32_000_000);
        let first = |restart: u64| {
            let first = first_of_pass(&starts, 64 << 20, options, begun_us + restart * segment_us);
            first.expect("the log has segments").number.0
        };
        let firsts: Vec<u64> = (0..10).map(first).collect();
        assert!(firsts.windows(2).all(|pair| pair[1] == if pair[0] == 16 { 7 } else { pair[0] + 1 }), "{firsts:?}");
        assert_eq!(first_of_pass(&VecDeque::new(), 64 << 20, options, begun_us), None);
    }
}
