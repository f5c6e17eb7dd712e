//! The numbers by which a store names its logs, segments, frames and queues.
//!
//! They are different types, so that one cannot be taken for another.

use std::fmt;

/// A log: one shard appends to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogId(pub u32);

/// A segment in its log. Numbers grow and are not used again: a recycled segment has a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentNumber(pub u64);

/// A segment of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId {
    pub log: LogId,
    pub number: SegmentNumber,
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} of log {}", self.number.0, self.log.0)
    }
}

/// A block of a segment. Block 0 is the segment's header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Block(pub u32);

/// A frame in its log. Sequences follow one another without a gap, from one segment to the next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameSequence(pub u64);

impl FrameSequence {
    #[inline]
    pub fn next(self) -> FrameSequence {
        FrameSequence(self.0 + 1)
    }
}

/// What tells the frames of one store from those of another: a part of the store's random id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreTag(pub u32);

impl StoreTag {
    /// The tag of the store with this id.
    pub fn of(id: u128) -> StoreTag {
        StoreTag(id as u32)
    }
}

/// A queue for as long as it exists. Never used twice: a queue that is deleted and declared again is another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueUid(pub u64);

/// A message's position in its queue, its priority level in the upper eight bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position(pub u64);

impl Position {
    /// The priority level.
    #[inline]
    pub fn level(self) -> u8 {
        (self.0 >> 56) as u8
    }
}

/// What was appended to a log in this process, numbered in the order in which it becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A group of a log's life in this process: what is written by one call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupNumber(pub u64);
