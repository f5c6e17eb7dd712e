//! The first block of a segment: whose it is, where the log goes on in it, and where the whole log begins.
//!
//! It is written together with the segment's first group, so that opening a segment costs no write of its own. Segments
//! before the log's beginning are given back only when a header that says so is durable.

use crate::ids::{FrameSequence, LogId, SegmentNumber, StoreTag};
use crate::limits::BLOCK_BYTES;

/// The first eight bytes of a segment.
const MAGIC: &[u8; 8] = b"HarrSegm";

/// The number of the format of segments that this crate writes.
pub(crate) const SEGMENT_FORMAT: u32 = 1;

/// How a segment begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentStart {
    pub number: SegmentNumber,
    /// The sequence of its first frame.
    pub first: FrameSequence,
    /// The checksum of the frame before that.
    pub previous_crc: u32,
}

/// What a segment says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    pub store: StoreTag,
    pub log: LogId,
    pub number: SegmentNumber,
    /// The sequence of its first frame.
    pub first: FrameSequence,
    /// The checksum of the frame before that.
    pub previous_crc: u32,
    /// The log's first segment, when this one was begun.
    pub log_start: SegmentStart,
}

/// What the first block of a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentHeaderFault {
    /// No header, or one that was damaged.
    NoHeader,
    /// A format that this program does not know.
    UnknownFormat(u32),
}

const CRC_AT: usize = 60;
const HEADER_BYTES: usize = CRC_AT + 4;

impl SegmentHeader {
    /// Writes the header, and zeros behind it.
    ///
    /// # Panics
    /// If `block` is not a block.
    pub fn write(&self, block: &mut [u8]) {
        assert_eq!(block.len(), BLOCK_BYTES, "a segment's header is a block");
        block.fill(0);
        block[0..8].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&SEGMENT_FORMAT.to_le_bytes());
        block[12..16].copy_from_slice(&self.store.0.to_le_bytes());
        block[16..20].copy_from_slice(&self.log.0.to_le_bytes());
        block[20..28].copy_from_slice(&self.number.0.to_le_bytes());
        block[28..36].copy_from_slice(&self.first.0.to_le_bytes());
        block[36..40].copy_from_slice(&self.previous_crc.to_le_bytes());
        block[40..48].copy_from_slice(&self.log_start.number.0.to_le_bytes());
        block[48..56].copy_from_slice(&self.log_start.first.0.to_le_bytes());
        block[56..60].copy_from_slice(&self.log_start.previous_crc.to_le_bytes());
        let crc = crc32c::crc32c(&block[..CRC_AT]);
        block[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    }

    /// How the segment begins.
    pub fn start(&self) -> SegmentStart {
        SegmentStart { number: self.number, first: self.first, previous_crc: self.previous_crc }
    }

    /// Reads the header.
    pub fn read(block: &[u8]) -> Result<SegmentHeader, SegmentHeaderFault> {
        let Some(bytes) = block.get(..HEADER_BYTES) else { return Err(SegmentHeaderFault::NoHeader) };
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if &bytes[..8] != MAGIC || u32_at(CRC_AT) != crc32c::crc32c(&bytes[..CRC_AT]) {
            return Err(SegmentHeaderFault::NoHeader);
        }
        if u32_at(8) != SEGMENT_FORMAT {
            return Err(SegmentHeaderFault::UnknownFormat(u32_at(8)));
        }
        Ok(SegmentHeader {
            store: StoreTag(u32_at(12)),
            log: LogId(u32_at(16)),
            number: SegmentNumber(u64_at(20)),
            first: FrameSequence(u64_at(28)),
            previous_crc: u32_at(36),
            log_start: SegmentStart {
                number: SegmentNumber(u64_at(40)),
                first: FrameSequence(u64_at(48)),
                previous_crc: u32_at(56),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader = SegmentHeader {
        store: StoreTag(5),
        log: LogId(1),
        number: SegmentNumber(12),
        first: FrameSequence(345),
        previous_crc: 0xdead_beef,
        log_start: SegmentStart { number: SegmentNumber(7), first: FrameSequence(300), previous_crc: 0x1234_5678 },
    };

    #[test]
    fn a_header_is_read_as_it_was_written_and_no_flip_passes() {
        let mut block = vec![0xaa; BLOCK_BYTES];
        HEADER.write(&mut block);
        assert_eq!(SegmentHeader::read(&block), Ok(HEADER));
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = block.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::read(&flipped), Err(SegmentHeaderFault::NoHeader), "bit {bit}");
        }
        assert_eq!(SegmentHeader::read(&[]), Err(SegmentHeaderFault::NoHeader));
    }

    #[test]
    fn a_segment_of_another_format_is_told_from_damage() {
        let mut block = vec![0; BLOCK_BYTES];
        HEADER.write(&mut block);
        block[8] = 2;
        let crc = crc32c::crc32c(&block[..CRC_AT]);
        block[CRC_AT..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::read(&block), Err(SegmentHeaderFault::UnknownFormat(2)));
    }
}
