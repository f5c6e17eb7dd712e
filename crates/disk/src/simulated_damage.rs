//! Damage of a simulated disk: which blocks do not hold what they were reported to, and what that was.
//!
//! Enters: each block before it is spoilt, each write that is not carried out.  Leaves: where the damage is; a repair.

use crate::simulated_segment::SimulatedSegment;
use std::collections::{BTreeMap, BTreeSet};
use store::limits::BLOCK_BYTES;
use store::{Block, SegmentId};

/// The damaged blocks of a disk.
#[derive(Clone, Default)]
pub struct DamagedBlocks {
    /// What each of them should hold.
    blocks: BTreeMap<(SegmentId, u32), Box<[u8; BLOCK_BYTES]>>,
    /// How many blocks a segment should have that is too short.
    lengths: BTreeMap<SegmentId, u32>,
    /// Those that a scrub has read since it was last asked.
    scrubbed: BTreeSet<(SegmentId, u32)>,
}

impl DamagedBlocks {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.lengths.is_empty()
    }

    /// Where it is, in the order of the segments.
    pub fn places(&self) -> impl Iterator<Item = (SegmentId, Block)> {
        self.blocks.keys().map(|&(segment, block)| (segment, Block(block)))
    }

    /// A scrub reads so many bytes.
    pub(crate) fn note_scrub(&mut self, segment: SegmentId, first: Block, bytes: usize) {
        let end = first.0.saturating_add((bytes / BLOCK_BYTES) as u32);
        let read = self.blocks.range((segment, first.0)..(segment, end));
        self.scrubbed.extend(read.map(|(&place, _)| place));
    }

    /// Whether a scrub has read a damaged block since this was last asked.
    pub(crate) fn take_scrubbed(&mut self, segment: SegmentId, block: Block) -> bool {
        self.scrubbed.remove(&(segment, block.0))
    }

    /// A block is about to be spoilt. What it should hold is known already if it was before.
    pub(crate) fn record(&mut self, segment: SegmentId, block: Block, bytes: &[u8; BLOCK_BYTES]) {
        self.blocks.entry((segment, block.0)).or_insert_with(|| Box::new(*bytes));
    }

    /// Blocks from this one on should hold these bytes, and do not.
    pub(crate) fn record_all(&mut self, segment: SegmentId, first: Block, bytes: &[u8]) {
        for (block, bytes) in (first.0..).zip(bytes.as_chunks().0) {
            self.record(segment, Block(block), bytes);
        }
    }

    /// A segment is about to be cut off.
    pub(crate) fn record_length(&mut self, segment: SegmentId, blocks: u32) {
        self.lengths.entry(segment).or_insert(blocks);
    }

    /// These bytes are written anew.
    pub(crate) fn forget(&mut self, segment: SegmentId, first: Block, bytes: usize) {
        let end = first.0 + (bytes / BLOCK_BYTES) as u32;
        self.blocks.retain(|&(of, block), _| of != segment || block < first.0 || block >= end);
    }

    /// The segment is no more.
    pub(crate) fn forget_segment(&mut self, segment: SegmentId) {
        self.blocks.retain(|&(of, _), _| of != segment);
        self.lengths.remove(&segment);
    }

    /// Puts back what should be there.
    pub(crate) fn repair(self, segments: &mut BTreeMap<SegmentId, SimulatedSegment>) {
        for (segment, blocks) in self.lengths {
            segments.entry(segment).and_modify(|segment| segment.blocks = blocks);
        }
        for ((segment, block), bytes) in self.blocks {
            segments.entry(segment).and_modify(|segment| _ = segment.written.insert(block, bytes));
        }
    }
}
