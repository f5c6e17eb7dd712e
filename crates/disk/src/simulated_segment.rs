//! A segment of a simulated disk: blocks in memory.

use std::collections::HashMap;
use store::Block;
use store::limits::BLOCK_BYTES;

/// What a disk does not tear.
pub(crate) const SECTOR_BYTES: usize = 512;

/// A segment: the blocks that were written, and how many it has.
#[derive(Clone, Default)]
pub(crate) struct SimulatedSegment {
    pub blocks: u32,
    pub written: HashMap<u32, Box<[u8; BLOCK_BYTES]>>,
}

impl SimulatedSegment {
    /// Blocks of zeros.
    pub fn new(blocks: u32) -> Self {
        SimulatedSegment { blocks, written: HashMap::new() }
    }

    /// The block behind the last one that was written.
    pub fn written_end(&self) -> u32 {
        self.written.keys().max().map_or(0, |last| last + 1)
    }

    /// Takes off what is at a block and behind it.
    pub fn truncate(&mut self, end: Block) -> Vec<(Block, Box<[u8; BLOCK_BYTES]>)> {
        self.blocks = end.0;
        let mut cut: Vec<u32> = self.written.keys().copied().filter(|&block| block >= end.0).collect();
        cut.sort_unstable();
        cut.into_iter().filter_map(|block| Some((Block(block), self.written.remove(&block)?))).collect()
    }

    /// Writes the sectors that are chosen, as far as the segment goes.
    pub fn write(&mut self, block: Block, bytes: &[u8], mut is_chosen: impl FnMut() -> bool) {
        for (at, sector) in bytes.chunks(SECTOR_BYTES).enumerate().map(|(n, sector)| (n * SECTOR_BYTES, sector)) {
            let block = block.0 + (at / BLOCK_BYTES) as u32;
            if is_chosen() && block < self.blocks {
                let written = self.written.entry(block).or_insert_with(|| Box::new([0; BLOCK_BYTES]));
                written[at % BLOCK_BYTES..][..sector.len()].copy_from_slice(sector);
            }
        }
    }

    pub fn read(&self, block: Block, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        for (block, to) in (block.0..self.blocks).zip(buffer.chunks_mut(BLOCK_BYTES)) {
            match self.written.get(&block) {
                Some(bytes) => to.copy_from_slice(&bytes[..]),
                None => to.fill(0),
            }
            filled += to.len();
        }
        filled
    }
}
