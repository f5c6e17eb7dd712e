//! The scrub of a log: what was written to its sealed segments is read now and then, slowly, so that damage is known before
//! anybody needs what is damaged.
//!
//! Enters: where the log's segments begin; completions of its reads; the time.  Leaves: reads, so many bytes a second; damage.
//! Owns:   how far it is.
//!
//! A segment is sealed when another one has begun: all frames up to the first one there had been durable, whatever else is in
//! the segment. Each of them is checked, and that it follows the one before.

use crate::buffer::AlignedBuffer;
use crate::frame::{Frame, FrameFault};
use crate::group::Chain;
use crate::ids::{Block, FrameSequence, SegmentId, SegmentNumber};
use crate::limits::{BLOCK_BYTES, FRAME_BYTES_MAX, SCRUB_BEGIN_US, SCRUB_READ_BYTES};
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
pub(crate) struct ScrubbedDamage {
    pub damage: Damage,
    pub blocks: Range<u32>,
}

/// What a scrub has done.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ScrubCounts {
    pub bytes: u64,
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
pub(crate) struct Scrub {
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
    found: VecDeque<ScrubbedDamage>,
    counts: ScrubCounts,
}

impl Scrub {
    pub fn set_options(&mut self, options: Option<ScrubOptions>) {
        self.options = options.filter(|options| options.bytes_per_s > 0);
    }

    pub fn counts(&self) -> ScrubCounts {
        self.counts
    }

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

    /// What to read. `starts` is what the log consists of, the oldest first.
    pub fn poll(&mut self, chain: &Chain, starts: &VecDeque<SegmentStart>, now_us: u64) -> Option<Request> {
        let options = self.options?;
        let &mut next_us = self.next_us.get_or_insert(now_us + options.interval_us.min(SCRUB_BEGIN_US));
        if self.is_reading || now_us < next_us {
            return None;
        }
        if self.cursor.is_none() {
            (self.cursor, self.pass_began_us) = (starts.front().map(Cursor::new), now_us);
        }
        let cursor = self.cursor.take().and_then(|cursor| sealed_from(cursor, starts));
        let Some(cursor) = cursor else {
            self.end_pass(options, now_us);
            return None;
        };
        let segment = SegmentId { log: chain.log, number: cursor.number };
        let (block, bytes) = (Block(cursor.block), cursor.piece_bytes);
        let mut buffer = self.buffer.take().filter(|buffer| buffer.capacity() >= bytes);
        let mut buffer = buffer.take().unwrap_or_else(|| AlignedBuffer::new(bytes));
        buffer.set_len(bytes);
        (self.cursor, self.is_reading) = (Some(cursor), true);
        self.next_us = Some(now_us + (bytes as u64 * 1_000_000).div_ceil(options.bytes_per_s));
        Some(Request::Read { segment, block, buffer, is_direct: true })
    }

    fn end_pass(&mut self, options: ScrubOptions, now_us: u64) {
        self.counts.passes += 1;
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
        chain: &Chain,
        starts: &VecDeque<SegmentStart>,
        buffer: AlignedBuffer,
        result: Result<usize, DiskError>,
    ) -> Option<DiskError> {
        self.is_reading = false;
        // What is given back is written to again.
        let cursor = self.cursor.as_mut()?;
        let at = starts.binary_search_by_key(&cursor.number, |start| start.number).ok()?;
        let next = starts.get(at + 1)?;
        let mut walk = Walk { chain, next, cursor, found: &mut self.found };
        let (end, error) = match result {
            Ok(filled) => {
                self.counts.bytes += filled as u64;
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
            self.cursor = Some(Cursor::new(next));
        }
        error
    }
}

/// Where to read on: the last segment is not sealed, and one that was given back has no more to read.
fn sealed_from(cursor: Cursor, starts: &VecDeque<SegmentStart>) -> Option<Cursor> {
    let at = starts.partition_point(|start| start.number < cursor.number);
    let start = starts.get(at)?;
    starts.get(at + 1)?;
    Some(if start.number == cursor.number { cursor } else { Cursor::new(start) })
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
