//! Reads a log from its first segment to its end, and tells a torn write from damage.
//!
//! Enters: segments, by whoever can read them.  Leaves: frames and records in their order; the end of the log; damage.
//!
//! Frames are followed by their sequence and by the checksum of the one before. Where the next one is missing the rest is
//! searched: a later frame that says that the missing one had been durable proves damage, as does a segment that begins
//! later. Without such proof it was a write under way when the power failed, and the log ends there, unless the next segment
//! begins with that very frame: then the log ended there once before, and what is found in between never counted.

use crate::buffer::AlignedBuffer;
use crate::footer::Footer;
use crate::frame::{self, Frame, FrameFault, FrameHeader};
use crate::group::Chain;
use crate::ids::{Block, FrameSequence, SegmentId, SegmentNumber};
use crate::limits::{BLOCK_BYTES, SCAN_BYTES};
use crate::log_writer::LogEnd;
use crate::record::{Record, RecordReader};
use crate::request::DiskError;
use crate::segment_header::{SEGMENT_FORMAT, SegmentHeader, SegmentHeaderFault, SegmentStart};
use std::fmt;

/// Reads segments.
pub trait SegmentReader {
    /// Fills the buffer from a block on, and returns how many bytes were read: fewer only at the segment's end.
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError>;

    /// The bytes of a segment's footer, if it has one.
    fn read_footer(&mut self, segment: SegmentId) -> Result<Option<Vec<u8>>, DiskError>;
}

/// Is told what a log contains, in its order.
pub trait RecordVisitor {
    /// A frame begins.
    fn on_frame(&mut self, segment: SegmentId, block: Block, header: &FrameHeader);
    /// A record of that frame.
    fn on_record(&mut self, record: Record<'_>);
    /// Frames that had been durable are missing here.
    fn on_damage(&mut self, damage: &Damage);

    /// Whether a segment's footer does in place of its frames.
    fn takes_footers(&self) -> bool {
        false
    }
    /// A segment is passed over, of which this is the footer.
    fn on_footer(&mut self, _footer: &Footer<'_>) {}
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

/// Where a log ends in a frame that cannot be read, and nothing says that it had been durable: its write was under way when the
/// process or the power failed, or it is the last one, and damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnreadableEnd {
    pub segment: SegmentId,
    pub block: Block,
}

impl fmt::Display for UnreadableEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnreadableEnd { segment, block } = self;
        write!(
            f,
            "{segment} ends at block {} in a frame that cannot be read: it was being written when the broker ended, or is damaged",
            block.0
        )
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
    /// A segment says that it begins before the end of those before it: it is out of another log, or out of another time.
    OutOfOrder {
        segment: SegmentId,
    },
    /// A frame that checks out has records that do not parse: a fault of the program that wrote it.
    BadRecords {
        segment: SegmentId,
        block: Block,
    },
    /// A segment does not have the messages that its footer names: a fault of the program that wrote it.
    BadFooter {
        segment: SegmentId,
    },
    Disk(DiskError),
}

// What is not known is named by one number, whether it is of a segment or of a frame.
const _: () = assert!(frame::FORMAT as u32 == SEGMENT_FORMAT);

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScanError::Damaged(damage) => damage.fmt(f),
            ScanError::UnknownFormat { segment, format } => {
                write!(f, "{segment} has format {format}, and this version reads format {SEGMENT_FORMAT} only")
            }
            ScanError::Foreign { segment } => write!(f, "{segment} belongs to another store or another log"),
            ScanError::OutOfOrder { segment } => {
                write!(f, "{segment} begins with a frame that the segments before it have: it does not belong there")
            }
            ScanError::BadRecords { segment, block } => {
                write!(f, "{segment} has records at block {} that do not parse", block.0)
            }
            ScanError::BadFooter { segment } => {
                write!(
                    f,
                    "{segment} does not have the messages that its footer names: without the footer it is read whole"
                )
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
    /// Frames that were read, or whose segments' footers were.
    pub frames: u64,
    /// Frames behind the log's end that had been written and not been durable.
    pub torn_frames: u64,
    /// Where the log ends, if a frame begins there that cannot be read.
    pub unreadable_end: Option<UnreadableEnd>,
    pub damage: Vec<Damage>,
    /// Segments that were passed over.
    pub footers_used: u64,
}

/// Reads a log in the segments with these numbers: from where the last of them says that it begins, or else from `start`.
pub fn scan(
    start: Chain,
    mut segments: Vec<SegmentNumber>,
    on_damage: OnDamage,
    reader: &mut impl SegmentReader,
    visitor: &mut impl RecordVisitor,
) -> Result<ScanResult, ScanError> {
    segments.sort_unstable();
    let next_segment = segments.last().map_or(SegmentNumber(1), |last| SegmentNumber(last.0 + 1));
    let mut buffer = AlignedBuffer::new(SCAN_BYTES);
    let mut found = Vec::with_capacity(segments.len());
    let mut recycled = Vec::new();
    for number in segments {
        let id = SegmentId { log: start.log, number };
        let header = read_header(&start, id, reader)?;
        if header.is_some_and(|header| !is_in_order(&start, &header)) {
            return Err(ScanError::OutOfOrder { segment: id });
        }
        // A segment that was made of another one, and nothing has been written to it since.
        recycled.extend(header.map(|header| header.number).filter(|&old| old < number));
        let header = header.filter(|header| header.number == number);
        found.push(FoundSegment { id, header, start: header.map(|header| header.start()), is_used: false });
    }
    let mut chain = start;
    let mut unused = Vec::new();
    // Whoever reads the log may know of a later start than the headers do: segments before it were removed.
    let named = found.iter().rev().find_map(|segment| segment.header).map(|header| header.log_start.number);
    let is_start_implied = named.is_some_and(|named| found.iter().all(|segment| segment.id.number != named));
    if let Some(log_start) = log_start(&found, &recycled).filter(|log_start| log_start.first >= start.next) {
        (chain.next, chain.previous_crc) = (log_start.first, log_start.previous_crc);
        let given_back = found.partition_point(|segment| segment.id.number < log_start.number);
        unused.extend(found.drain(..given_back).map(|segment| segment.id.number));
    }
    let mut scan = Scan {
        chain,
        segments: found,
        search: None,
        on_damage,
        reader,
        visitor,
        frames: 0,
        torn_frames: 0,
        damage: Vec::new(),
        footers_used: 0,
    };
    let mut place = Place { segment: 0, block: 0 };
    while place.segment < scan.segments.len() {
        place = match scan.pass_by_footer(place) {
            Some(next) => next,
            None => scan.read_segment(place, &mut buffer)?,
        };
    }
    let unreadable_end = scan.end_log()?;
    let Scan { mut chain, segments, frames, torn_frames, damage, footers_used, .. } = scan;
    chain.synced = FrameSequence(chain.next.0 - 1);
    // Segments are used in their order: what is unused behind the last one was made ahead.
    let used = segments.iter().rposition(|segment| segment.is_used).map_or(0, |last| last + 1);
    unused.extend(segments[used..].iter().map(|segment| segment.id.number));
    let used = &segments[..used];
    let headerless = used.iter().filter(|segment| segment.header.is_none()).map(|segment| segment.id.number).collect();
    let segments = used.iter().filter_map(|segment| segment.start).collect();
    let end = LogEnd { chain, next_segment, segments, headerless, unused, is_start_implied };
    Ok(ScanResult { end, frames, torn_frames, unreadable_end, damage, footers_used })
}

/// Where the log begins: the header of its last segment knows best. If that one was given back since, behind it.
fn log_start(found: &[FoundSegment], recycled: &[SegmentNumber]) -> Option<SegmentStart> {
    let mut headers = found.iter().filter_map(|segment| segment.header);
    let log_start = headers.clone().next_back()?.log_start;
    let is_there = found.iter().any(|segment| segment.id.number == log_start.number);
    if is_there || !recycled.contains(&log_start.number) {
        return Some(log_start);
    }
    headers.find(|header| header.number > log_start.number).map(|header| header.start())
}

/// Reads a segment's header, if it has one: under this number or an older one.
fn read_header(
    chain: &Chain,
    segment: SegmentId,
    reader: &mut impl SegmentReader,
) -> Result<Option<SegmentHeader>, ScanError> {
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    let filled = reader.read(segment, Block(0), &mut block)?;
    match SegmentHeader::read(&block[..filled]) {
        Ok(header) if (header.store, header.log) != (chain.store, chain.log) => Err(ScanError::Foreign { segment }),
        Ok(header) => Ok(Some(header)),
        Err(SegmentHeaderFault::NoHeader) => Ok(None),
        Err(SegmentHeaderFault::UnknownFormat(format)) => Err(ScanError::UnknownFormat { segment, format }),
    }
}

/// Whether a segment begins neither before the log that is read nor before the one that its header describes.
fn is_in_order(start: &Chain, header: &SegmentHeader) -> bool {
    let log_start = header.log_start;
    start.next <= header.first && log_start.first <= header.first && log_start.number <= header.number
}

struct FoundSegment {
    id: SegmentId,
    header: Option<SegmentHeader>,
    /// How it begins: as its header says, or its first frame.
    start: Option<SegmentStart>,
    /// It has a header, or a frame of the log.
    is_used: bool,
}

/// A block, by the index of its segment among those that were found.
#[derive(Clone, Copy)]
struct Place {
    segment: usize,
    block: u32,
}

/// The next frame is missing.
struct Search {
    /// Where it would have begun.
    from: Place,
    /// Where one begins that cannot be read: there, or behind, in a segment without a header.
    unreadable: Option<Place>,
    /// The first frame behind it, which is the next one if the missing ones prove to have been durable.
    resume: Option<(Place, FrameHeader)>,
    /// Frames that were found.
    frames: u64,
    /// The last frame that had been durable, as one of these says.
    synced: FrameSequence,
}

struct Scan<'a, R, V> {
    chain: Chain,
    segments: Vec<FoundSegment>,
    search: Option<Search>,
    on_damage: OnDamage,
    reader: &'a mut R,
    visitor: &'a mut V,
    frames: u64,
    torn_frames: u64,
    damage: Vec<Damage>,
    footers_used: u64,
}

impl<R: SegmentReader, V: RecordVisitor> Scan<'_, R, V> {
    /// Passes a whole segment, if its footer fits all that is known of it: the frames before it, its own header, and that of
    /// the next one, which says that all frames before it had been durable and what the last one was.
    fn pass_by_footer(&mut self, at: Place) -> Option<Place> {
        if at.block > 0 || self.search.is_some() || !self.visitor.takes_footers() {
            return None;
        }
        let found = &self.segments[at.segment];
        let start = found.header?.start();
        let next = self.segments.get(at.segment + 1)?.header?;
        if (start.first, start.previous_crc) != (self.chain.next, self.chain.previous_crc) {
            return None;
        }
        // A footer that cannot be read is as good as none: if the disk has failed the segment cannot be read either.
        let bytes = self.reader.read_footer(found.id).ok().flatten()?;
        let footer = Footer::read(&bytes).ok()?;
        let is_own = (footer.store, footer.segment(), footer.start) == (self.chain.store, found.id, start);
        if !is_own || (footer.end.next, footer.end.last_crc) != (next.first, next.previous_crc) {
            return None;
        }
        self.visitor.on_footer(&footer);
        self.segments[at.segment].is_used = true;
        (self.chain.next, self.chain.previous_crc) = (next.first, next.previous_crc);
        self.frames += footer.frames();
        self.footers_used += 1;
        Some(Place { segment: at.segment + 1, block: 0 })
    }

    /// Reads a segment from a block on. Returns where to go on.
    fn read_segment(&mut self, from: Place, buffer: &mut AlignedBuffer) -> Result<Place, ScanError> {
        let id = self.segments[from.segment].id;
        // The next segment that has a header says which frames were durable before it, and that others here never counted.
        let next_header = self.segments[from.segment + 1..].iter().find_map(|segment| segment.header);
        let Place { segment, mut block } = from;
        if block == 0 {
            self.segments[segment].is_used |= self.segments[segment].header.is_some();
            block = 1;
        }
        let mut filled = self.reader.read(id, Block(block), buffer)?;
        let mut at = 0;
        loop {
            let bytes = buffer.get(at..filled).unwrap_or_default();
            if bytes.is_empty() && filled < buffer.len() {
                break;
            }
            let blocks = match Frame::read(bytes) {
                Err(FrameFault::Cut(_)) if at > 0 && filled == buffer.len() => {
                    filled = self.reader.read(id, Block(block), buffer)?;
                    at = 0;
                    continue;
                }
                Err(FrameFault::UnknownFormat(format)) => {
                    return Err(ScanError::UnknownFormat { segment: id, format: format.into() });
                }
                Ok(frame) if self.is_own(id, &frame.header) => {
                    let place = Place { segment, block };
                    let is_stale = next_header.is_some_and(|next| frame.header.sequence >= next.first);
                    if is_stale {
                        self.miss(place);
                        self.torn_frames += 1;
                    } else if let Some(resume) = self.on_frame(place, &frame)? {
                        return Ok(resume);
                    }
                    frame.header.blocks()
                }
                // Zeros, a torn frame, or a frame of the segment's life under another number.
                Ok(_) | Err(FrameFault::NoFrame) => {
                    self.miss(Place { segment, block });
                    1
                }
                Err(FrameFault::Cut(_) | FrameFault::Checksum) => {
                    let place = Place { segment, block };
                    let is_there = self.search.is_none();
                    self.miss(place);
                    let header = Frame::read_header_unchecked(bytes).filter(|header| self.is_own(id, header));
                    let is_next = header.is_some_and(|header| header.sequence == self.chain.next);
                    if let Some(search) = self.search.as_mut().filter(|_| is_next || is_there && header.is_some()) {
                        search.unreadable = Some(place);
                    }
                    1
                }
            };
            block += blocks;
            at += blocks as usize * BLOCK_BYTES;
        }
        self.miss(Place { segment, block });
        let next = Place { segment: segment + 1, block: 0 };
        match self.segments.get(segment + 1).and_then(|next| next.header) {
            Some(header) if header.first < self.chain.next => {
                Err(ScanError::OutOfOrder { segment: self.segments[segment + 1].id })
            }
            Some(header) => Ok(self.enter_segment(&header)?.unwrap_or(next)),
            None => Ok(next),
        }
    }

    fn is_own(&self, segment: SegmentId, header: &FrameHeader) -> bool {
        (header.store, header.log, header.segment) == (self.chain.store, segment.log, segment.number)
    }

    /// The next frame is not here.
    fn miss(&mut self, from: Place) {
        if self.search.is_none() {
            self.search = Some(Search { from, unreadable: None, resume: None, frames: 0, synced: FrameSequence(0) });
        }
    }

    /// A segment begins: all frames before its first one had been durable. Returns where to go on, if not there.
    fn enter_segment(&mut self, header: &SegmentHeader) -> Result<Option<Place>, ScanError> {
        if (header.first, header.previous_crc) == (self.chain.next, self.chain.previous_crc) {
            self.end_search();
            return Ok(None);
        }
        if let Some(resume) = self.resume_behind_damage()? {
            return Ok(Some(resume));
        }
        // Nothing of what is missing can be read.
        self.report(header.first)?;
        (self.chain.next, self.chain.previous_crc) = (header.first, header.previous_crc);
        Ok(None)
    }

    /// A frame of this log. Returns where to go on, if not behind it.
    fn on_frame(&mut self, place: Place, frame: &Frame<'_>) -> Result<Option<Place>, ScanError> {
        let Frame { header, crc, records: _ } = *frame;
        if (header.sequence, header.previous_crc) != (self.chain.next, self.chain.previous_crc) {
            self.miss(place);
            let Some(search) = &mut self.search else { return Ok(None) };
            if header.sequence >= self.chain.next {
                search.resume.get_or_insert((place, header));
                search.frames += 1;
            }
            search.synced = search.synced.max(header.synced);
            // Of frames that are missing and were not durable, what follows never counted.
            let synced = search.synced;
            let is_all_durable = search.resume.is_some_and(|(_, resume)| resume.sequence <= synced.next());
            return if synced >= self.chain.next && is_all_durable { self.resume_behind_damage() } else { Ok(None) };
        }
        self.end_search();
        let number = header.segment;
        let start = SegmentStart { number, first: header.sequence, previous_crc: header.previous_crc };
        let found = &mut self.segments[place.segment];
        found.is_used = true;
        found.start.get_or_insert(start);
        self.chain.next = header.sequence.next();
        self.chain.previous_crc = crc;
        self.frames += 1;
        let (segment, block) = (self.segments[place.segment].id, Block(place.block));
        self.visitor.on_frame(segment, block, &header);
        let bad_records = || ScanError::BadRecords { segment, block };
        let mut records = RecordReader::new(frame);
        while let Some(record) = records.next_record().map_err(|_| bad_records())? {
            self.visitor.on_record(record);
        }
        Ok(None)
    }

    /// What is missing had been durable: the log goes on with the first frame behind it, if there is one.
    fn resume_behind_damage(&mut self) -> Result<Option<Place>, ScanError> {
        let Some((place, header)) = self.search.as_mut().and_then(|search| search.resume.take()) else {
            return Ok(None);
        };
        self.report(header.sequence)?;
        (self.chain.next, self.chain.previous_crc) = (header.sequence, header.previous_crc);
        Ok(Some(place))
    }

    /// Frames are missing up to `next`, and it is proved that they had been durable.
    fn report(&mut self, next: FrameSequence) -> Result<(), ScanError> {
        let Some(search) = self.search.take() else { return Ok(()) };
        // If none is missing, the last one is another than the one that was followed.
        let first = FrameSequence(self.chain.next.0.min(next.0.saturating_sub(1)));
        let segment = self.segments[search.from.segment].id;
        let damage = Damage { segment, block: Block(search.from.block), first, next };
        if self.on_damage == OnDamage::Fail {
            return Err(ScanError::Damaged(damage));
        }
        self.visitor.on_damage(&damage);
        self.damage.push(damage);
        Ok(())
    }

    /// Nothing follows. Some of what is missing had been durable, or nothing; behind that the log ends. Returns where a frame begins
    /// that cannot be read, if it was not durable.
    fn end_log(&mut self) -> Result<Option<UnreadableEnd>, ScanError> {
        let Some(search) = &self.search else { return Ok(None) };
        let (synced, frames) = (search.synced, search.frames);
        let end = search.unreadable.filter(|_| synced < self.chain.next);
        let end =
            end.map(|place| UnreadableEnd { segment: self.segments[place.segment].id, block: Block(place.block) });
        if synced >= self.chain.next {
            self.report(synced.next())?;
            // Nothing can be read that would say how the last of them ended.
            (self.chain.next, self.chain.previous_crc) = (synced.next(), 0);
            self.torn_frames += frames;
        }
        self.end_search();
        Ok(end)
    }

    /// The log goes on, or is at its end: what was found in searching was a write under way.
    fn end_search(&mut self) {
        if let Some(search) = self.search.take() {
            self.torn_frames += search.frames;
        }
    }
}
