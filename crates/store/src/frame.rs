//! A frame: a header of 64 bytes, records, zeros up to the next block. The unit that is checked.
//!
//! Each frame has the checksum of the frame before it and the sequence up to which its log had been durable when it was
//! written. A frame that does not check out is a torn write, unless a later one proves that it had been durable.

use crate::ids::{FrameSequence, LogId, SegmentNumber, StoreTag};
use crate::limits::{BLOCK_BYTES, FRAME_BYTES_MAX, FRAME_HEADER_BYTES};

/// The first four bytes of a frame: `HRRF`.
const MAGIC: u32 = u32::from_le_bytes(*b"HRRF");

/// The number of the format that this crate writes.
pub const FORMAT: u8 = 1;

/// What a frame is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// Records as they came.
    Data = 1,
    /// No records: it proves that the frames before it were durable.
    Mark = 2,
    /// Records of older segments that are to be given back.
    Move = 3,
}

impl FrameKind {
    fn from_u8(kind: u8) -> Option<FrameKind> {
        [FrameKind::Data, FrameKind::Mark, FrameKind::Move].into_iter().find(|known| *known as u8 == kind)
    }
}

/// The header of a frame, without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    pub kind: FrameKind,
    pub store: StoreTag,
    pub log: LogId,
    pub segment: SegmentNumber,
    pub sequence: FrameSequence,
    /// The last frame that was known to be durable when this one was written.
    pub synced: FrameSequence,
    /// The time of the first message, in microseconds since 1970.
    pub time_base_us: u64,
    /// The checksum of the frame before this one in its log.
    pub previous_crc: u32,
    /// Bytes of the records.
    pub bytes: u32,
    pub records: u32,
}

/// A frame that checked out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    pub header: FrameHeader,
    pub crc: u32,
    /// The records.
    pub records: &'a [u8],
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameFault {
    /// They do not begin like one.
    NoFrame,
    /// A format that this program does not know.
    UnknownFormat(u8),
    /// More bytes are needed: so many from the frame's first.
    Cut(usize),
    /// The checksum differs.
    Checksum,
}

const CRC_AT: usize = 12;

/// The checksum of a whole frame, with its own four bytes taken as zero.
fn checksum(frame: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&frame[..CRC_AT]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &frame[CRC_AT + 4..])
}

impl FrameHeader {
    /// Blocks of the frame.
    pub fn blocks(&self) -> u32 {
        ((FRAME_HEADER_BYTES + self.bytes as usize).div_ceil(BLOCK_BYTES)) as u32
    }

    /// Writes the header before the records that are in `frame` already, and returns the frame's checksum.
    ///
    /// # Panics
    /// If `frame` is not a header and `bytes` of records.
    pub fn write(&self, frame: &mut [u8]) -> u32 {
        assert_eq!(frame.len(), FRAME_HEADER_BYTES + self.bytes as usize, "a frame is its header and its records");
        frame[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        frame[4] = FORMAT;
        frame[5] = self.kind as u8;
        frame[6..8].fill(0);
        frame[8..12].copy_from_slice(&self.log.0.to_le_bytes());
        frame[16..24].copy_from_slice(&self.segment.0.to_le_bytes());
        frame[24..32].copy_from_slice(&self.sequence.0.to_le_bytes());
        frame[32..40].copy_from_slice(&self.synced.0.to_le_bytes());
        frame[40..48].copy_from_slice(&self.time_base_us.to_le_bytes());
        frame[48..52].copy_from_slice(&self.previous_crc.to_le_bytes());
        frame[52..56].copy_from_slice(&self.bytes.to_le_bytes());
        frame[56..60].copy_from_slice(&self.records.to_le_bytes());
        frame[60..64].copy_from_slice(&self.store.0.to_le_bytes());
        let crc = checksum(frame);
        frame[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        crc
    }
}

impl<'a> Frame<'a> {
    /// Reads the frame at the front of `bytes`, whose checksum must be right.
    pub fn read(bytes: &'a [u8]) -> Result<Frame<'a>, FrameFault> {
        let whole = Frame::whole(bytes)?;
        if checksum(whole) != u32::from_le_bytes(std::array::from_fn(|i| whole[CRC_AT + i])) {
            return Err(FrameFault::Checksum);
        }
        // From here on the bytes are what somebody wrote: what is unknown comes from another program.
        Frame::parse(whole).ok_or(FrameFault::UnknownFormat(whole[4]))
    }

    /// The frame at the front of `bytes` as it seems to be, whatever its checksum: what it says proves nothing.
    pub(crate) fn read_unchecked(bytes: &'a [u8]) -> Option<Frame<'a>> {
        Frame::parse(Frame::whole(bytes).ok()?)
    }

    /// The header at the front of `bytes` as it seems to be, if it begins like one.
    pub(crate) fn read_header_unchecked(bytes: &[u8]) -> Option<FrameHeader> {
        let header = bytes.get(..FRAME_HEADER_BYTES).filter(|header| header.starts_with(&MAGIC.to_le_bytes()))?;
        Frame::parse(header).map(|frame| frame.header)
    }

    /// The bytes of the frame that begins here, by its length.
    fn whole(bytes: &'a [u8]) -> Result<&'a [u8], FrameFault> {
        let Some(header) = bytes.get(..FRAME_HEADER_BYTES) else { return Err(FrameFault::Cut(FRAME_HEADER_BYTES)) };
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if u32_at(0) != MAGIC {
            return Err(FrameFault::NoFrame);
        }
        let len = FRAME_HEADER_BYTES + u32_at(52) as usize;
        if len > FRAME_BYTES_MAX {
            return Err(FrameFault::Checksum);
        }
        bytes.get(..len).ok_or(FrameFault::Cut(len))
    }

    /// The frame in its bytes, if it is of this format.
    fn parse(whole: &'a [u8]) -> Option<Frame<'a>> {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| whole[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| whole[at + i]));
        let is_known = whole[4] == FORMAT && whole[6..8] == [0, 0];
        let kind = FrameKind::from_u8(whole[5]).filter(|_| is_known)?;
        let header = FrameHeader {
            kind,
            store: StoreTag(u32_at(60)),
            log: LogId(u32_at(8)),
            segment: SegmentNumber(u64_at(16)),
            sequence: FrameSequence(u64_at(24)),
            synced: FrameSequence(u64_at(32)),
            time_base_us: u64_at(40),
            previous_crc: u32_at(48),
            bytes: u32_at(52),
            records: u32_at(56),
        };
        Some(Frame { header, crc: u32_at(CRC_AT), records: &whole[FRAME_HEADER_BYTES..] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: u32) -> FrameHeader {
        FrameHeader {
            kind: FrameKind::Data,
            store: StoreTag(0xfeed),
            log: LogId(3),
            segment: SegmentNumber(9),
            sequence: FrameSequence(77),
            synced: FrameSequence(70),
            time_base_us: 1_700_000_000_000_000,
            previous_crc: 0x1234_5678,
            bytes,
            records: 2,
        }
    }

    fn frame(records: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        frame.extend_from_slice(records);
        header(records.len() as u32).write(&mut frame);
        frame
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut bytes = frame(b"some records");
        bytes.resize(BLOCK_BYTES, 0);
        let read = Frame::read(&bytes).expect("a frame");
        assert_eq!((read.header, read.records), (header(12), &b"some records"[..]));
        assert_eq!(read.header.blocks(), 1);
    }

    #[test]
    fn each_flipped_bit_is_found() {
        let bytes = frame(b"some records");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::read(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_frame_that_is_cut_off_says_how_long_it_is() {
        let bytes = frame(b"some records");
        for len in 0..bytes.len() {
            let needed = if len < FRAME_HEADER_BYTES { FRAME_HEADER_BYTES } else { bytes.len() };
            assert_eq!(Frame::read(&bytes[..len]), Err(FrameFault::Cut(needed)), "{len} bytes");
        }
    }

    #[test]
    fn a_frame_of_another_format_is_told_from_damage() {
        let mut bytes = frame(b"records");
        bytes[4] = FORMAT + 1;
        let crc = checksum(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Frame::read(&bytes), Err(FrameFault::UnknownFormat(FORMAT + 1)));
    }

    #[test]
    fn a_length_beyond_the_limit_asks_for_no_memory() {
        let mut bytes = frame(b"records");
        bytes[52..56].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Frame::read(&bytes), Err(FrameFault::Checksum));
    }
}
