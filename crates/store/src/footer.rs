//! The footer of a segment: what its frames do to queues, without bodies, so that a recovery need not read them.
//!
//! Enters: the groups of a segment as they are written, or its frames as they are scanned.  Leaves: the bytes of a file beside
//! the segment, and its entries when they are read.
//!
//! A footer is derived. It may be missing or torn, and then the segment is read; it counts only if it fits both the header of
//! its segment and that of the next one, which was written when everything before it was durable.

mod coding;
mod entry;
mod summary;

pub use entry::{FooterEntry, FooterQueue, MessageRun};
pub(crate) use summary::SegmentSummary;

use crate::alike_messages::AlikeMessages;
use crate::ids::{Block, FrameSequence, LogId, SegmentId, SegmentNumber, StoreTag};
use crate::limits::{BLOCK_BYTES, FOOTER_BYTES_MAX};
use crate::record::{QueuedRecord, Record};
use crate::segment_header::SegmentStart;
use coding::{EntryDecoder, EntryEncoder};
use std::fmt;

/// The first eight bytes of a footer.
const MAGIC: &[u8; 8] = b"HarrFoot";

/// The number of the format of footers that this crate writes. Those of other formats are not read, and made again.
pub(crate) const FOOTER_FORMAT: u32 = 1;

/// The sum of the bytes of messages that a footer may name: bodies that are in several queues count in each.
const NAMED_BYTES_MAX: u64 = 1 << 48;

const CRC_AT: usize = 20;
const HEADER_BYTES: usize = 64;

/// Where a segment ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentEnd {
    /// The sequence of the frame behind its last one.
    pub next: FrameSequence,
    /// The checksum of its last frame.
    pub last_crc: u32,
    /// The block behind its last frame.
    pub block: Block,
}

/// A footer that checked out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footer<'a> {
    pub store: StoreTag,
    pub log: LogId,
    pub start: SegmentStart,
    pub end: SegmentEnd,
    entries: &'a [u8],
}

/// The footer of a segment, to be written.
pub(crate) struct EncodedFooter {
    pub segment: SegmentId,
    pub bytes: Vec<u8>,
}

impl fmt::Debug for EncodedFooter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedFooter({}, {} bytes)", self.segment, self.bytes.len())
    }
}

/// Why bytes are not a footer that can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FooterFault {
    /// They do not begin like one, or were not written to their end, or were damaged.
    Damaged,
    /// A format that this program does not know.
    UnknownFormat(u32),
    /// It checks out and its entries do not parse: a fault of the program that wrote it.
    BadEntries,
}

/// The checksum of a footer, with its own four bytes taken as zero.
fn checksum(bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &bytes[CRC_AT + 4..])
}

impl<'a> Footer<'a> {
    /// Reads a footer, all of it.
    pub fn read(bytes: &'a [u8]) -> Result<Footer<'a>, FooterFault> {
        let (header, entries) = bytes.split_at_checked(HEADER_BYTES).ok_or(FooterFault::Damaged)?;
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if &header[..8] != MAGIC || checksum(bytes) != u32_at(CRC_AT) {
            return Err(FooterFault::Damaged);
        }
        if u32_at(8) != FOOTER_FORMAT {
            return Err(FooterFault::UnknownFormat(u32_at(8)));
        }
        let start = SegmentStart {
            number: SegmentNumber(u64_at(24)),
            first: FrameSequence(u64_at(32)),
            previous_crc: u32_at(48),
        };
        let end = SegmentEnd { next: FrameSequence(u64_at(40)), last_crc: u32_at(52), block: Block(u32_at(56)) };
        let footer = Footer { store: StoreTag(u32_at(12)), log: LogId(u32_at(16)), start, end, entries };
        if end.next < start.first || !footer.has_good_entries() {
            return Err(FooterFault::BadEntries);
        }
        Ok(footer)
    }

    /// A footer with these entries, whatever they are.
    pub fn new(store: StoreTag, log: LogId, start: SegmentStart, end: SegmentEnd, entries: &'a [u8]) -> Self {
        Footer { store, log, start, end, entries }
    }

    /// The bytes of its file.
    pub fn write(&self) -> Vec<u8> {
        let Footer { store, log, start, end, entries } = self;
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FOOTER_FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&store.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&log.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&start.number.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&start.first.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&end.next.0.to_le_bytes());
        bytes[48..52].copy_from_slice(&start.previous_crc.to_le_bytes());
        bytes[52..56].copy_from_slice(&end.last_crc.to_le_bytes());
        bytes[56..60].copy_from_slice(&end.block.0.to_le_bytes());
        bytes.extend_from_slice(entries);
        let crc = checksum(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Whether all entries parse, extents follow one another, and their sums are those of a segment.
    fn has_good_entries(&self) -> bool {
        let mut decoder = EntryDecoder::new(self.entries);
        let mut last_block = None;
        let (mut messages, mut bytes) = (0u64, 0u64);
        while let Some(entry) = decoder.next_entry() {
            match entry {
                FooterEntry::Extent { block }
                    if last_block < Some(block) && (1..self.end.block.0).contains(&block.0) =>
                {
                    last_block = Some(block);
                }
                FooterEntry::Extent { .. } => return false,
                _ if last_block.is_none() => return false,
                FooterEntry::Messages { run, .. } | FooterEntry::Large { run, .. } => {
                    messages = messages.saturating_add(run.count);
                    bytes = bytes.saturating_add(run.log_bytes).saturating_add(run.body_bytes);
                }
                FooterEntry::Part { bytes: part } => bytes = bytes.saturating_add(part),
                _ => {}
            }
        }
        let messages_max = u64::from(self.end.block.0) * BLOCK_BYTES as u64;
        decoder.is_at_end() && messages <= messages_max && bytes <= NAMED_BYTES_MAX
    }

    /// The segment that it is of.
    pub fn segment(&self) -> SegmentId {
        SegmentId { log: self.log, number: self.start.number }
    }

    /// Frames of the segment.
    pub fn frames(&self) -> u64 {
        self.end.next.0 - self.start.first.0
    }

    /// The entries, in the order of the log.
    pub fn entries(&self) -> impl Iterator<Item = FooterEntry> + 'a {
        let mut decoder = EntryDecoder::new(self.entries);
        std::iter::from_fn(move || decoder.next_entry())
    }
}

/// Makes the footer of one segment after another.
pub struct FooterWriter {
    store: StoreTag,
    log: LogId,
    start: Option<SegmentStart>,
    summary: SegmentSummary,
    encoder: EntryEncoder,
}

impl FooterWriter {
    pub fn new(store: StoreTag, log: LogId) -> Self {
        FooterWriter { store, log, start: None, summary: SegmentSummary::new(), encoder: EntryEncoder::default() }
    }

    /// Begins with a segment.
    pub fn begin(&mut self, start: SegmentStart) {
        self.summary.clear();
        self.encoder = EntryEncoder::default();
        self.start = Some(start);
    }

    /// The segment has no footer.
    pub fn give_up(&mut self) {
        self.start = None;
    }

    /// The segment that it is about, unless it has none.
    pub fn segment(&self) -> Option<SegmentNumber> {
        self.start.map(|start| start.number)
    }

    /// A frame of the segment begins at this block.
    pub fn begin_frame(&mut self, block: Block) {
        self.begin_frame_and(block, |_| {});
    }

    /// The same; hands the entries over that are complete.
    pub(crate) fn begin_frame_and(&mut self, block: Block, complete: impl FnOnce(&[FooterEntry])) {
        let Self { start, summary, encoder, .. } = self;
        summary.begin_frame(block, |entries| {
            encode(start, encoder, entries);
            complete(entries);
        });
    }

    /// A record of the frame.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>) {
        self.summary.add(record);
    }

    /// A whole message of the frame.
    #[inline]
    pub(crate) fn add_message(&mut self, record: &QueuedRecord<'_, '_>) {
        self.summary.add_message(record);
    }

    /// Messages of the frame that differ in their bodies alone. `first` is where they begin, and what they have in common.
    pub(crate) fn add_alike(&mut self, first: &QueuedRecord<'_, '_>, alike: &AlikeMessages) {
        self.summary.add_alike(first, alike);
    }

    /// Hands the entries over that are complete.
    pub(crate) fn end_extent_and(&mut self, complete: impl FnOnce(&[FooterEntry])) {
        let Self { start, summary, encoder, .. } = self;
        summary.end_extent(|entries| {
            encode(start, encoder, entries);
            complete(entries);
        });
    }

    /// The segment ends. Returns its footer, unless it has none.
    pub fn finish(&mut self, end: SegmentEnd) -> Option<Vec<u8>> {
        self.end_extent_and(|_| {});
        let start = self.start.take()?;
        let bytes = Footer::new(self.store, self.log, start, end, self.encoder.bytes()).write();
        self.encoder = EntryEncoder::default();
        Some(bytes)
    }
}

/// Encodes entries, as long as the footer is not too large.
fn encode(start: &mut Option<SegmentStart>, encoder: &mut EntryEncoder, entries: &[FooterEntry]) {
    if start.is_none() {
        return;
    }
    entries.iter().for_each(|entry| encoder.put(entry));
    if HEADER_BYTES + encoder.bytes().len() > FOOTER_BYTES_MAX {
        *start = None;
        *encoder = EntryEncoder::default();
    }
}

#[cfg(test)]
mod tests;
