//! Reads the segments of a store that may lose what cannot be read: a block that its disk refuses is zeros, as if nothing had
//! been written to it. A scan tells whether something had.

use store::limits::BLOCK_BYTES;
use store::{AlignedBuffer, Block, DiskError, DiskErrorKind, OnDamage, SegmentId, SegmentReader};

pub(crate) struct LossyReader<R> {
    reader: R,
    on_damage: OnDamage,
    /// Blocks that could not be read, again each time.
    unreadable: u64,
    block: AlignedBuffer,
}

impl<R: SegmentReader> LossyReader<R> {
    /// Reads what can be read if damage is skipped; otherwise what the other one reads, with its errors.
    pub fn new(reader: R, on_damage: OnDamage) -> Self {
        LossyReader { reader, on_damage, unreadable: 0, block: AlignedBuffer::new(BLOCK_BYTES) }
    }

    /// Whether some blocks could not be read.
    pub fn has_unreadable(&self) -> bool {
        self.unreadable > 0
    }

    /// Reads one block after another, because all together could not be read.
    fn read_blocks(&mut self, segment: SegmentId, first: Block, buffer: &mut AlignedBuffer) -> usize {
        let mut filled = 0;
        for (block, to) in (first.0..).zip(buffer.chunks_exact_mut(BLOCK_BYTES)) {
            match self.reader.read(segment, Block(block), &mut self.block) {
                Ok(bytes) => {
                    to[..bytes].copy_from_slice(&self.block[..bytes]);
                    filled += bytes;
                    if bytes < BLOCK_BYTES {
                        break;
                    }
                }
                Err(_) => {
                    to.fill(0);
                    filled += BLOCK_BYTES;
                    self.unreadable += 1;
                }
            }
        }
        filled
    }
}

impl<R: SegmentReader> SegmentReader for LossyReader<R> {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        match self.reader.read(segment, block, buffer) {
            Err(error) if self.on_damage == OnDamage::Skip && error.kind == DiskErrorKind::Failed => {
                tracing::error!(%segment, %error, "the disk cannot read everything of a segment");
                Ok(self.read_blocks(segment, block, buffer))
            }
            result => result,
        }
    }

    fn read_footer(&mut self, segment: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        self.reader.read_footer(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{LogId, SegmentNumber};

    const SEGMENT: SegmentId = SegmentId { log: LogId(0), number: SegmentNumber(3) };
    const BLOCKS: u32 = 6;

    /// A segment of six blocks, each full of its number, of which some cannot be read.
    struct BadBlocks(&'static [u32]);

    impl SegmentReader for BadBlocks {
        fn read(&mut self, _: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
            let blocks = block.0..BLOCKS.min(block.0 + (buffer.len() / BLOCK_BYTES) as u32);
            if let Some(bad) = blocks.clone().find(|block| self.0.contains(block)) {
                return Err(DiskError { kind: DiskErrorKind::Failed, text: format!("block {bad}") });
            }
            for (number, to) in blocks.clone().zip(buffer.chunks_exact_mut(BLOCK_BYTES)) {
                to.fill(number as u8 + 1);
            }
            Ok(blocks.len() * BLOCK_BYTES)
        }

        fn read_footer(&mut self, _: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
            Ok(None)
        }
    }

    #[test]
    fn what_cannot_be_read_is_zeros_if_it_may_be_lost() {
        let mut reader = LossyReader::new(BadBlocks(&[2, 5]), OnDamage::Skip);
        let mut buffer = AlignedBuffer::new(4 * BLOCK_BYTES);
        buffer.fill(9);
        for (first, expect) in [(0, &[1, 2, 0, 4][..]), (3, &[4, 5, 0]), (6, &[])] {
            let filled = reader.read(SEGMENT, Block(first), &mut buffer).expect("it is lost");
            let found: Vec<u8> = buffer[..filled].chunks(BLOCK_BYTES).map(|block| block[0]).collect();
            assert_eq!(found, expect);
            assert!(buffer[..filled].chunks(BLOCK_BYTES).all(|block| block.iter().all(|byte| *byte == block[0])));
        }
        assert!(reader.has_unreadable());
    }

    #[test]
    fn an_error_is_an_error_if_nothing_may_be_lost() {
        let mut reader = LossyReader::new(BadBlocks(&[2]), OnDamage::Fail);
        let mut buffer = AlignedBuffer::new(4 * BLOCK_BYTES);
        assert_eq!(reader.read(SEGMENT, Block(0), &mut buffer).expect_err("an error").text, "block 2");
        assert_eq!(reader.read(SEGMENT, Block(3), &mut buffer), Ok(3 * BLOCK_BYTES));
        assert!(!reader.has_unreadable());
    }
}
