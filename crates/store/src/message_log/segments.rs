//! What of each segment is alive: how many messages, what must be durable before it can be given back, and where its groups
//! begin.
//!
//! Enters: messages that are written and settled, by their groups; where each group was written.
//! A group takes eight bytes here for as long as its segment is in use: at most a five hundredth of what it takes on the disk.

use crate::ids::{Block, SegmentNumber};
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

/// A group that was written.
#[derive(Clone, Copy, Debug)]
struct GroupUse {
    /// Its first block.
    begin: u32,
    /// How many of its messages are alive.
    messages: u32,
}

/// A segment, and where its groups are.
#[derive(Debug)]
struct Segment {
    number: SegmentNumber,
    used: SegmentUse,
    groups: Vec<GroupUse>,
    /// The block behind the last one.
    end: u32,
}

impl Segment {
    /// The group, if it is in this segment.
    fn group(&mut self, group: u64) -> Option<&mut GroupUse> {
        let index = usize::try_from(group.checked_sub(self.used.first_group)?).ok()?;
        self.groups.get_mut(index)
    }
}

/// Where groups that follow one another are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GroupPlace {
    pub segment: SegmentNumber,
    pub groups: Range<u64>,
    pub blocks: Range<u32>,
}

/// The segments of a log, the oldest first, and the group that has none yet.
#[derive(Default, Debug)]
pub(crate) struct SegmentUses {
    segments: VecDeque<Segment>,
    /// The group that is being filled.
    filling: SegmentUse,
    live_bytes: u64,
    /// How many runs all levels have, and how many groups all segments.
    live_runs: usize,
    groups: usize,
    /// Messages that were ever put into groups.
    added: u64,
}

impl SegmentUses {
    /// Segments that were found, with their extents as groups, whose numbers are their indexes.
    pub fn recovered(starts: &[SegmentStart], extents: &[Extent]) -> Self {
        let segments = starts.iter().map(|start| {
            let first = extents.partition_point(|extent| extent.segment < start.number);
            let own = extents[first..].iter().take_while(|extent| extent.segment == start.number);
            let end = own.clone().last().map_or(0, |last| last.end);
            let used = SegmentUse { first_group: first as u64, ..SegmentUse::default() };
            let groups = own.map(|extent| GroupUse { begin: extent.block, messages: 0 }).collect();
            Segment { number: start.number, used, groups, end }
        });
        let filling = SegmentUse { first_group: extents.len() as u64, ..SegmentUse::default() };
        SegmentUses {
            segments: segments.collect(),
            filling,
            live_bytes: 0,
            live_runs: 0,
            groups: extents.len(),
            added: 0,
        }
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
        self.segments.front().map(|first| (first.number, first.used))
    }

    /// The groups of the oldest segment.
    pub fn groups_of_first(&self) -> Option<Range<u64>> {
        let first = &self.segments.front()?.used;
        let end = self.segments.get(1).map_or(self.filling.first_group, |next| next.used.first_group);
        Some(first.first_group..end)
    }

    /// The groups of a segment that have some of these blocks.
    pub fn groups_within(&self, number: SegmentNumber, blocks: &Range<u32>) -> Range<u64> {
        let Ok(at) = self.segments.binary_search_by_key(&number, |segment| segment.number) else { return 0..0 };
        let Segment { used, groups, .. } = &self.segments[at];
        let first = groups.partition_point(|group| group.begin <= blocks.start).saturating_sub(1) as u64;
        let end = groups.partition_point(|group| group.begin < blocks.end) as u64;
        used.first_group + first..used.first_group + end
    }

    /// The block behind the last group of a segment; the first one if it is not needed any more.
    pub fn end_of(&self, number: SegmentNumber) -> u32 {
        let at = self.segments.binary_search_by_key(&number, |segment| segment.number);
        at.map_or(0, |at| self.segments[at].end)
    }

    /// The oldest segment is not needed any more.
    pub fn retire_first(&mut self) {
        if let Some(retired) = self.segments.pop_front() {
            self.groups -= retired.groups.len();
        }
    }

    /// Messages were put into the group that is being filled. Returns them as a run of a level, from this position on.
    #[inline]
    pub fn add(&mut self, first: u64, count: u64, bytes: u64) -> LiveRun {
        self.filling.messages += count;
        self.filling.bytes += bytes;
        self.live_bytes += bytes;
        self.added += count;
        LiveRun { first, count, group: self.group(), bytes }
    }

    /// Messages that were ever put into groups.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Messages that were found.
    pub fn add_found(&mut self, run: &LiveRun) {
        let Some(segment) = self.index_of(run.group).and_then(|at| self.segments.get_mut(at)) else { return };
        segment.used.messages += run.count;
        segment.used.bytes += run.bytes;
        self.live_bytes += run.bytes;
        if let Some(group) = segment.group(run.group) {
            group.messages += run.count as u32;
        }
    }

    /// Messages were settled, by an entry of this number.
    #[inline]
    pub fn settle(&mut self, run: &LiveRun, by: u64) {
        self.live_bytes -= run.bytes;
        if run.group >= self.filling.first_group {
            self.filling.settle(run, by);
        } else if let Some(segment) = self.index_of(run.group).and_then(|at| self.segments.get_mut(at)) {
            segment.used.settle(run, by);
            if let Some(group) = segment.group(run.group) {
                group.messages -= run.count as u32;
            }
        }
    }

    /// The first block of a segment, from this one on, that a group has of which something is alive. `None` if there is none.
    pub fn next_live_block(&self, number: SegmentNumber, block: u32) -> Option<u32> {
        let at = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        let groups = &self.segments[at].groups;
        let first = groups.partition_point(|group| group.begin <= block).saturating_sub(1);
        groups[first..].iter().find(|group| group.messages > 0).map(|group| group.begin.max(block))
    }

    /// The segment of a group that has one.
    #[inline]
    fn index_of(&self, group: u64) -> Option<usize> {
        let behind = match self.segments.back() {
            Some(last) if last.used.first_group <= group => self.segments.len(),
            _ => self.segments.partition_point(|segment| segment.used.first_group <= group),
        };
        behind.checked_sub(1)
    }

    /// Where a group is, with those that follow it in its segment within so many blocks, up to `last`. `None` if it is not
    /// written, or its segment not needed any more.
    pub fn place_of(&self, group: u64, last: u64, blocks_max: u32) -> Option<GroupPlace> {
        if group >= self.filling.first_group {
            return None;
        }
        let segment = self.segments.get(self.index_of(group)?)?;
        let first = usize::try_from(group - segment.used.first_group).ok()?;
        let begin = segment.groups.get(first)?.begin;
        let ends = segment.groups[first + 1..].iter().map(|group| group.begin).chain([segment.end]);
        let wanted = usize::try_from(last.saturating_sub(group)).unwrap_or(usize::MAX).saturating_add(1);
        let within = ends.take(wanted).enumerate().take_while(|(at, end)| *at == 0 || end - begin <= blocks_max);
        let (at, end) = within.last()?;
        let groups = group..group + at as u64 + 1;
        Some(GroupPlace { segment: segment.number, groups, blocks: begin..end })
    }

    /// The number of runs has changed.
    #[inline]
    pub fn count_runs(&mut self, change: isize) {
        self.live_runs = self.live_runs.wrapping_add_signed(change);
    }

    /// Bytes on the heap that know what is alive.
    pub fn heap_bytes(&self) -> usize {
        self.live_runs * size_of::<LiveRun>() + self.groups * size_of::<GroupUse>()
    }

    /// The group that was being filled is written here, and the next one is begun.
    pub fn place(&mut self, segment: SegmentNumber, block: Block, blocks: u32) {
        let next = SegmentUse { first_group: self.filling.first_group + 1, ..SegmentUse::default() };
        let placed = std::mem::replace(&mut self.filling, next);
        self.groups += 1;
        // The segment's header is written with its first group.
        let (begin, end) = (block.0.max(1), block.0 + blocks);
        let group = GroupUse { begin, messages: placed.messages as u32 };
        match self.segments.back_mut() {
            Some(last) if last.number == segment => {
                last.used.messages += placed.messages;
                last.used.bytes += placed.bytes;
                last.used.settled_by = last.used.settled_by.max(placed.settled_by);
                last.groups.push(group);
                last.end = end;
            }
            _ => self.segments.push_back(Segment { number: segment, used: placed, groups: vec![group], end }),
        }
    }
}
