//! Writes of a simulated disk that are complete and not synced: the system's cache has them, and a power cut may take them back.
//!
//! Enters: what each block held before it was written; syncs.  Leaves: the blocks that are not synced.

use crate::simulated_segment::SimulatedSegment;
use std::collections::BTreeMap;
use store::limits::BLOCK_BYTES;
use store::{Block, SegmentId};

/// A block that is written and not synced.
struct UnsyncedBlock {
    /// What it held when it was last synced; `None` if that is zeros.
    before: Option<Box<[u8; BLOCK_BYTES]>>,
    write: u64,
    since_us: u64,
}

/// What is not synced of the segment that was written last: those before it are.
#[derive(Default)]
pub(crate) struct UnsyncedWrites {
    blocks: BTreeMap<(SegmentId, u32), UnsyncedBlock>,
    /// Writes that were recorded.
    writes: u64,
    /// The segment that was written last.
    segment: Option<SegmentId>,
}

impl UnsyncedWrites {
    /// How many writes there have been.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Whether another segment was written last.
    pub fn is_behind(&self, segment: SegmentId) -> bool {
        self.segment.is_some_and(|last| last != segment)
    }

    /// These bytes are about to be written to a segment. What is unsynced of another one is synced first.
    pub fn record(&mut self, id: SegmentId, segment: &SimulatedSegment, first: Block, bytes: usize, now_us: u64) {
        if self.is_behind(id) {
            self.blocks.clear();
        }
        self.segment = Some(id);
        self.writes += 1;
        for block in first.0..first.0 + (bytes / BLOCK_BYTES) as u32 {
            let (write, since_us) = (self.writes, now_us);
            let before = || segment.written.get(&block).cloned();
            let unsynced = self.blocks.entry((id, block));
            unsynced.and_modify(|unsynced| unsynced.write = write).or_insert_with(|| UnsyncedBlock {
                before: before(),
                write,
                since_us,
            });
        }
    }

    /// The first so many writes are durable.
    pub fn sync(&mut self, writes: u64) {
        self.blocks.retain(|_, block| block.write > writes);
    }

    /// The segment is another one, or none, from now on.
    pub fn forget_segment(&mut self, segment: SegmentId) {
        self.blocks.retain(|&(of, _), _| of != segment);
    }

    /// When the oldest of them was complete.
    pub fn since_us(&self) -> Option<u64> {
        self.blocks.values().map(|block| block.since_us).min()
    }

    /// Nothing is unsynced any more. Returns the blocks that were, and what they held before.
    pub fn take(&mut self) -> impl Iterator<Item = (SegmentId, Block, Box<[u8; BLOCK_BYTES]>)> + use<> {
        let blocks = std::mem::take(self).blocks.into_iter();
        blocks.map(|((segment, block), unsynced)| {
            (segment, Block(block), unsynced.before.unwrap_or_else(|| Box::new([0; BLOCK_BYTES])))
        })
    }
}
