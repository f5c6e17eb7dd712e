//! Which frames of a segment belong to the log: what a torn write has left in it, or its life under another number, does not.

use crate::frame::Frame;
use crate::group::Chain;
use crate::ids::{FrameSequence, LogId, SegmentId, SegmentNumber, StoreTag};
use crate::segment_header::SegmentStart;
use std::collections::VecDeque;
use std::ops::Range;

/// The frames of a segment: whose they are, its number, and their sequences.
#[derive(Clone)]
pub(super) struct SegmentFrames {
    store: StoreTag,
    log: LogId,
    segment: SegmentNumber,
    sequences: Range<FrameSequence>,
}

impl SegmentFrames {
    /// By what the segment and the next one begin with. `None` if the log does not have it any more.
    pub fn of(chain: &Chain, segment: SegmentNumber, starts: &VecDeque<SegmentStart>) -> Option<Self> {
        let (store, log) = (chain.store, chain.log);
        Some(SegmentFrames { store, log, segment, sequences: sequences_of(segment, starts)? })
    }

    /// Those of the next segment.
    pub fn next(&self, starts: &VecDeque<SegmentStart>) -> Option<Self> {
        let next = starts.iter().find(|start| start.number > self.segment)?.number;
        Some(SegmentFrames { segment: next, sequences: sequences_of(next, starts)?, ..*self })
    }

    pub fn id(&self) -> SegmentId {
        SegmentId { log: self.log, number: self.segment }
    }

    pub fn has(&self, frame: &Frame<'_>) -> bool {
        let header = &frame.header;
        (header.store, header.log, header.segment) == (self.store, self.log, self.segment)
            && self.sequences.contains(&header.sequence)
    }

    /// Only frames behind this one follow.
    pub fn go_on_behind(&mut self, frame: &Frame<'_>) {
        self.sequences.start = frame.header.sequence.next();
    }
}

fn sequences_of(segment: SegmentNumber, starts: &VecDeque<SegmentStart>) -> Option<Range<FrameSequence>> {
    let at = starts.binary_search_by_key(&segment, |start| start.number).ok()?;
    let end = starts.get(at + 1).map_or(FrameSequence(u64::MAX), |next| next.first);
    Some(starts[at].first..end)
}
