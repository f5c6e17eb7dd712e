//! Reads a log from its first segment to its end, and tells a torn write from damage.
//!
//! Enters: segments, by whoever can read them.  Leaves: frames and records in their order; the end of the log; damage.
//!
//! Frames are followed by their sequence and by the checksum of the one before. Where the next one is missing the rest is
//! searched: a later frame that says that the missing one had been durable proves damage. Without such proof it was a write
//! under way when the power failed, and the log ends there, unless the next segment goes on exactly there: then it ended
//! there once before.

use crate::buffer::AlignedBuffer;
use crate::frame::{Frame, FrameFault, FrameHeader};
use crate::group::Chain;
use crate::ids::{Block, FrameSequence, SegmentId, SegmentNumber};
use crate::limits::{BLOCK_BYTES, FRAME_BYTES_MAX, SCAN_BYTES, UNPROVED_FRAMES_MAX};
use crate::log_writer::LogEnd;
use crate::record::{Record, RecordReader};
use crate::request::DiskError;
use crate::segment_header::{SegmentHeader, SegmentHeaderFault};
use std::fmt;

/// Reads segments.
pub trait SegmentReader {
    /// Fills the buffer from a block on, and returns how many bytes were read: fewer only at the segment's end.
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError>;
}

/// Is told what a log contains, in its order.
pub trait RecordVisitor {
    /// A frame begins.
    fn on_frame(&mut self, segment: SegmentId, block: Block, header: &FrameHeader);
    /// A record of that frame.
    fn on_record(&mut self, record: Record<'_>);
    /// Frames that had been durable are missing here.
    fn on_damage(&mut self, damage: &Damage);
}

/// Frames that had been durable and cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Where the first of them was expected.
    pub segment: SegmentId,
    pub block: Block,
    /// The first of them.
    pub first: FrameSequence,
    /// The first frame behind them that can be read.
    pub next: FrameSequence,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { segment, block, first, next } = self;
        let last = next.0 - 1;
        write!(f, "{segment} is damaged at block {}: frames {} to {last} cannot be read", block.0, first.0)
    }
}

/// What to do about damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnDamage {
    /// The scan fails.
    Fail,
    /// The visitor is told, and the scan goes on behind it.
    Skip,
}

/// Why a log cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScanError {
    Damaged(Damage),
    /// A segment, or a frame of it, is of a format that this program does not know.
    UnknownFormat {
        segment: SegmentId,
        format: u32,
    },
    /// A segment is another store's or another log's.
    Foreign {
        segment: SegmentId,
    },
    /// A frame that checks out has records that do not parse: a fault of the program that wrote it.
    BadRecords {
        segment: SegmentId,
        block: Block,
    },
    Disk(DiskError),
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScanError::Damaged(damage) => damage.fmt(f),
            ScanError::UnknownFormat { segment, format } => {
                write!(f, "{segment} has format {format}, which this version cannot read")
            }
            ScanError::Foreign { segment } => write!(f, "{segment} belongs to another store or another log"),
            ScanError::BadRecords { segment, block } => {
                write!(f, "{segment} has records at block {} that do not parse", block.0)
            }
            ScanError::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ScanError {}

impl From<DiskError> for ScanError {
    fn from(error: DiskError) -> Self {
        ScanError::Disk(error)
    }
}

/// What a scan found beside the records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanResult {
    pub end: LogEnd,
    /// Frames that were read.
    pub frames: u64,
    /// Frames behind the log's end that had been written and not been durable.
    pub torn_frames: u64,
    pub damage: Vec<Damage>,
}

/// Where the next frame is expected.
#[derive(Clone, Copy)]
enum Position {
    /// The next frame follows here.
    Following,
    /// It did not: what is missing would have begun there.
    Searching { segment: SegmentId, block: Block },
}

/// A frame behind a missing one, of which it is not known yet whether it had been durable.
struct UnprovedFrame {
    segment: SegmentId,
    block: Block,
    header: FrameHeader,
    crc: u32,
}

/// Reads a log from `start` on, in the segments with these numbers.
pub fn scan(
    start: Chain,
    mut segments: Vec<SegmentNumber>,
    on_damage: OnDamage,
    reader: &mut impl SegmentReader,
    visitor: &mut impl RecordVisitor,
) -> Result<ScanResult, ScanError> {
    segments.sort_unstable();
    let log = start.log;
    let mut scan = Scan {
        chain: start,
        position: Position::Following,
        on_damage,
        reader,
        visitor,
        frames: 0,
        torn_frames: 0,
        unproved: Vec::new(),
        damage: Vec::new(),
    };
    let next_segment = segments.last().map_or(SegmentNumber(1), |last| SegmentNumber(last.0 + 1));
    let mut buffer = AlignedBuffer::new(SCAN_BYTES);
    let mut unused = Vec::new();
    for number in segments {
        if scan.read_segment(SegmentId { log, number }, &mut buffer)? {
            unused.clear();
        } else {
            unused.push(number);
        }
    }
    scan.end_search();
    let Scan { mut chain, frames, torn_frames, damage, .. } = scan;
    chain.synced = FrameSequence(chain.next.0 - 1);
    Ok(ScanResult { end: LogEnd { chain, next_segment, unused }, frames, torn_frames, damage })
}

struct Scan<'a, R, V> {
    chain: Chain,
    position: Position,
    on_damage: OnDamage,
    reader: &'a mut R,
    visitor: &'a mut V,
    frames: u64,
    torn_frames: u64,
    /// Frames found in searching, in the order of their places.
    unproved: Vec<UnprovedFrame>,
    damage: Vec<Damage>,
}

impl<R: SegmentReader, V: RecordVisitor> Scan<'_, R, V> {
    /// Reads a segment. Returns whether the log has used it.
    fn read_segment(&mut self, segment: SegmentId, buffer: &mut AlignedBuffer) -> Result<bool, ScanError> {
        let mut filled = self.reader.read(segment, Block(0), buffer)?;
        let frames = self.frames;
        let has_header = self.enter_segment(segment, &buffer[..filled])?;
        // The block that is looked at, and where in the buffer it is.
        let (mut block, mut at) = (1, BLOCK_BYTES);
        loop {
            let bytes = buffer.get(at..filled).unwrap_or_default();
            let blocks = match Frame::read(bytes) {
                Err(FrameFault::Cut(needed)) if at > 0 && filled == buffer.len() => {
                    debug_assert!(needed <= buffer.len(), "the buffer holds any frame");
                    filled = self.reader.read(segment, Block(block), buffer)?;
                    at = 0;
                    continue;
                }
                Err(_) if bytes.is_empty() => break,
                Err(FrameFault::UnknownFormat(format)) => {
                    return Err(ScanError::UnknownFormat { segment, format: format.into() });
                }
                Ok(frame) if self.is_own(segment, &frame.header) => {
                    self.on_frame(segment, Block(block), &frame)?;
                    frame.header.blocks()
                }
                // Zeros, a torn frame, or a frame of the segment's life under another number.
                Ok(_) | Err(FrameFault::Cut(_) | FrameFault::NoFrame | FrameFault::Checksum) => {
                    self.miss(segment, Block(block));
                    1
                }
            };
            block += blocks;
            at += blocks as usize * BLOCK_BYTES;
        }
        Ok(has_header || self.frames > frames)
    }

    /// Reads a segment's header. Returns whether it has one.
    fn enter_segment(&mut self, segment: SegmentId, block: &[u8]) -> Result<bool, ScanError> {
        let header = match SegmentHeader::read(block) {
            Ok(header) => header,
            Err(SegmentHeaderFault::NoHeader) => return Ok(false),
            Err(SegmentHeaderFault::UnknownFormat(format)) => return Err(ScanError::UnknownFormat { segment, format }),
        };
        if (header.store, header.log) != (self.chain.store, self.chain.log) {
            return Err(ScanError::Foreign { segment });
        }
        // It was made of another one, and nothing has been written to it since.
        if header.number != segment.number {
            return Ok(false);
        }
        let goes_on = (header.first, header.previous_crc) == (self.chain.next, self.chain.previous_crc);
        match self.position {
            _ if goes_on => {
                self.position = Position::Following;
                self.end_search();
            }
            Position::Following => self.miss(segment, Block(0)),
            Position::Searching { .. } => {}
        }
        Ok(true)
    }

    fn is_own(&self, segment: SegmentId, header: &FrameHeader) -> bool {
        (header.store, header.log, header.segment) == (self.chain.store, segment.log, segment.number)
    }

    /// The next frame is not here.
    fn miss(&mut self, segment: SegmentId, block: Block) {
        if let Position::Following = self.position {
            self.position = Position::Searching { segment, block };
        }
    }

    /// A frame of this segment.
    fn on_frame(&mut self, segment: SegmentId, block: Block, frame: &Frame<'_>) -> Result<(), ScanError> {
        let Frame { header, crc, .. } = *frame;
        let follows = (header.sequence, header.previous_crc) == (self.chain.next, self.chain.previous_crc);
        match self.position {
            Position::Following if follows => {}
            // The segment's header is unreadable, and nothing is missing.
            Position::Searching { .. } if follows && block == Block(1) => {}
            Position::Following => {
                self.miss(segment, block);
                return self.on_frame(segment, block, frame);
            }
            Position::Searching { .. } if header.synced < self.chain.next => {
                if self.unproved.len() < UNPROVED_FRAMES_MAX {
                    self.unproved.push(UnprovedFrame { segment, block, header, crc });
                }
                return Ok(());
            }
            Position::Searching { segment, block } => self.skip_damage(segment, block, &header)?,
        }
        self.visit(segment, block, frame)
    }

    /// A frame is the next one.
    fn visit(&mut self, segment: SegmentId, block: Block, frame: &Frame<'_>) -> Result<(), ScanError> {
        let Frame { header, crc, .. } = *frame;
        self.position = Position::Following;
        self.end_search();
        self.chain.next = header.sequence.next();
        self.chain.previous_crc = crc;
        self.frames += 1;
        self.visitor.on_frame(segment, block, &header);
        let bad_records = ScanError::BadRecords { segment, block };
        let mut records = RecordReader::new(frame);
        while let Some(record) = records.next_record().map_err(|_| bad_records.clone())? {
            self.visitor.on_record(record);
        }
        Ok(())
    }

    /// A frame proves that what is missing had been durable. Frames before it to which it is chained are read all the same.
    fn skip_damage(&mut self, segment: SegmentId, block: Block, proof: &FrameHeader) -> Result<(), ScanError> {
        let mut intact = Vec::new();
        let mut earliest = *proof;
        for frame in std::mem::take(&mut self.unproved).into_iter().rev() {
            if (frame.header.sequence.next(), frame.crc) == (earliest.sequence, earliest.previous_crc) {
                earliest = frame.header;
                intact.push(frame);
            }
        }
        if (earliest.sequence, earliest.previous_crc) != (self.chain.next, self.chain.previous_crc) {
            let damage = Damage { segment, block, first: self.chain.next, next: earliest.sequence };
            if self.on_damage == OnDamage::Fail {
                return Err(ScanError::Damaged(damage));
            }
            self.visitor.on_damage(&damage);
            self.damage.push(damage);
        }
        let mut buffer = AlignedBuffer::new(FRAME_BYTES_MAX);
        for UnprovedFrame { segment, block, crc, .. } in intact.into_iter().rev() {
            let filled = self.reader.read(segment, block, &mut buffer)?;
            // It was read a moment ago: if it is another one now, it is not the log that is damaged.
            let bad_records = ScanError::BadRecords { segment, block };
            let frame = Frame::read(&buffer[..filled]).ok().filter(|frame| frame.crc == crc).ok_or(bad_records)?;
            self.visit(segment, block, &frame)?;
        }
        Ok(())
    }

    /// The log goes on or ends: what was not proved was a write under way.
    fn end_search(&mut self) {
        self.torn_frames += self.unproved.len() as u64;
        self.unproved.clear();
    }
}
