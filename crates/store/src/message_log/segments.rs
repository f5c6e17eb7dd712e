//! What of each segment is alive: how many messages, and what must be durable before it can be given back.
//!
//! Enters: messages that are written and settled, by their groups; in which segment each group was written.

use crate::ids::SegmentNumber;
use crate::live_runs::LiveRun;
use crate::recovery::Extent;
use crate::segment_header::SegmentStart;
use std::collections::VecDeque;
use std::ops::Range;

/// What is alive of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct SegmentUse {
    /// The first group in it.
    pub first_group: u64,
    pub messages: u64,
    pub bytes: u64,
    /// The last entry that settled one of its messages: it must be durable, with those before it.
    pub settled_by: u64,
}

impl SegmentUse {
    fn settle(&mut self, run: &LiveRun, by: u64) {
        self.messages -= run.count;
        self.bytes -= run.bytes;
        self.settled_by = self.settled_by.max(by);
    }
}

/// The segments of a log, the oldest first, and the group that has none yet.
#[derive(Default, Debug)]
pub(crate) struct SegmentUses {
    segments: VecDeque<(SegmentNumber, SegmentUse)>,
    /// The group that is being filled.
    filling: SegmentUse,
    live_bytes: u64,
}

impl SegmentUses {
    /// Segments that were found, with their extents as groups, whose numbers are their indexes.
    pub fn recovered(starts: &[SegmentStart], extents: &[Extent]) -> Self {
        let segments = starts.iter().map(|start| {
            let first_group = extents.partition_point(|extent| extent.segment < start.number) as u64;
            let empty = SegmentUse { first_group, ..SegmentUse::default() };
            (start.number, empty)
        });
        let filling = SegmentUse { first_group: extents.len() as u64, ..SegmentUse::default() };
        SegmentUses { segments: segments.collect(), filling, live_bytes: 0 }
    }

    /// The number of the group that is being filled.
    #[inline]
    pub fn group(&self) -> u64 {
        self.filling.first_group
    }

    /// Bytes of all messages that are alive.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// How many segments there are.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// The oldest segment.
    pub fn first(&self) -> Option<(SegmentNumber, SegmentUse)> {
        self.segments.front().copied()
    }

    /// The groups of the oldest segment.
    pub fn groups_of_first(&self) -> Option<Range<u64>> {
        let (_, first) = self.segments.front()?;
        let end = self.segments.get(1).map_or(self.filling.first_group, |(_, next)| next.first_group);
        Some(first.first_group..end)
    }

    /// The oldest segment is not needed any more.
    pub fn retire_first(&mut self) {
        self.segments.pop_front();
    }

    /// A message was put into the group that is being filled.
    #[inline]
    pub fn add(&mut self, bytes: u64) {
        self.filling.messages += 1;
        self.filling.bytes += bytes;
        self.live_bytes += bytes;
    }

    /// Messages that were found.
    pub fn add_found(&mut self, run: &LiveRun) {
        if let Some(found) = self.use_of(run.group) {
            found.messages += run.count;
            found.bytes += run.bytes;
            self.live_bytes += run.bytes;
        }
    }

    /// Messages were settled, by an entry of this number.
    #[inline]
    pub fn settle(&mut self, run: &LiveRun, by: u64) {
        self.live_bytes -= run.bytes;
        if let Some(found) = self.use_of(run.group) {
            found.settle(run, by);
        }
    }

    fn use_of(&mut self, group: u64) -> Option<&mut SegmentUse> {
        if group >= self.filling.first_group {
            return Some(&mut self.filling);
        }
        let behind = match self.segments.back() {
            Some((_, last)) if last.first_group <= group => self.segments.len(),
            _ => self.segments.partition_point(|(_, segment)| segment.first_group <= group),
        };
        self.segments.get_mut(behind.checked_sub(1)?).map(|(_, found)| found)
    }

    /// The group that was being filled is written into this segment, and the next one is begun.
    pub fn place(&mut self, segment: SegmentNumber) {
        let next = SegmentUse { first_group: self.filling.first_group + 1, ..SegmentUse::default() };
        let placed = std::mem::replace(&mut self.filling, next);
        match self.segments.back_mut() {
            Some((number, last)) if *number == segment => {
                last.messages += placed.messages;
                last.bytes += placed.bytes;
                last.settled_by = last.settled_by.max(placed.settled_by);
            }
            _ => self.segments.push_back((segment, placed)),
        }
    }
}
