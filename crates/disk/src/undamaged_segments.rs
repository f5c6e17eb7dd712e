//! What the segments of a simulated disk would hold without damage.

use crate::simulated_segment::SimulatedSegment;
use std::collections::BTreeMap;
use store::{AlignedBuffer, Block, DiskError, DiskErrorKind, SegmentId, SegmentReader};

pub(crate) struct UndamagedSegments {
    segments: BTreeMap<SegmentId, SimulatedSegment>,
}

impl UndamagedSegments {
    pub fn new(segments: BTreeMap<SegmentId, SimulatedSegment>) -> Self {
        UndamagedSegments { segments }
    }
}

impl SegmentReader for UndamagedSegments {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        let read = self.segments.get(&segment).map(|segment| segment.read(block, buffer));
        read.ok_or_else(|| DiskError { kind: DiskErrorKind::NotFound, text: format!("{segment} does not exist") })
    }

    fn read_footer(&mut self, _: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        Ok(None)
    }
}
