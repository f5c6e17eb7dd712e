//! Pieces of the log that were read: whole groups of a segment. What is taken out of them is checked.
//!
//! Enters: bytes of a segment, and what is alive in them.  Leaves: messages.

use super::segment_frames::SegmentFrames;
use super::segments::GroupPlace;
use crate::buffer::AlignedBuffer;
use crate::frame::Frame;
use crate::ids::{Block, FrameSequence, Position, QueueUid, SegmentId};
use crate::large_message::LargeMessage;
use crate::limits::BLOCK_BYTES;
use crate::record::{FrameQueue, Record, RecordReader, StoredMessage};
use std::ops::{ControlFlow, Range};

/// What is to be taken out of a piece: positions of one queue, with the groups that have them.
pub(super) struct Take {
    queue: QueueUid,
    /// In the order of their positions.
    wanted: Vec<(Range<u64>, u64)>,
    count: u64,
}

impl Take {
    pub fn new(queue: QueueUid) -> Self {
        Take { queue, wanted: Vec::new(), count: 0 }
    }

    /// More positions, behind the others.
    pub fn want(&mut self, positions: Range<u64>, group: u64) {
        self.count += positions.end - positions.start;
        self.wanted.push((positions, group));
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn positions(&self) -> impl Iterator<Item = (u64, u64)> {
        self.wanted.iter().flat_map(|(range, group)| range.clone().map(|position| (position, *group)))
    }

    #[inline]
    fn has(&self, position: u64, group: u64) -> bool {
        let at = self.wanted.partition_point(|(range, _)| range.end <= position);
        self.wanted.get(at).is_some_and(|(range, other)| range.start <= position && *other == group)
    }
}

/// A large message whose body goes on behind the piece.
pub(super) struct LargeRest {
    pub position: u64,
    pub message: LargeMessage,
    /// The frame in which it goes on.
    pub next: FrameSequence,
}

/// Where a reader of a queue's messages goes on in the piece.
#[derive(Clone, Copy)]
struct Bookmark {
    queue: QueueUid,
    /// It has everything before this position, and groups before this one.
    position: u64,
    group: u64,
    /// The frame in which it stopped.
    at: usize,
}

/// A piece that is being read, or was.
pub(super) struct Piece {
    place: GroupPlace,
    frames: SegmentFrames,
    /// The first block of each group.
    begins: Vec<u32>,
    /// Empty while it is being read.
    buffer: Option<AlignedBuffer>,
    filled: usize,
    bookmark: Option<Bookmark>,
}

impl Piece {
    pub fn new(place: GroupPlace, begins: Vec<u32>, frames: SegmentFrames) -> Self {
        Piece { place, frames, begins, buffer: None, filled: 0, bookmark: None }
    }

    pub fn segment(&self) -> SegmentId {
        self.frames.id()
    }

    pub fn block(&self) -> Block {
        Block(self.place.blocks.start)
    }

    pub fn bytes(&self) -> usize {
        self.place.blocks.len() * BLOCK_BYTES
    }

    pub fn groups(&self) -> Range<u64> {
        self.place.groups.clone()
    }

    pub fn is_ready(&self) -> bool {
        self.buffer.is_some()
    }

    /// It was read, as far as the segment goes.
    pub fn fill(&mut self, buffer: AlignedBuffer, filled: usize) {
        self.filled = filled.min(self.bytes());
        self.buffer = Some(buffer);
    }

    /// Bytes of its memory.
    pub fn heap_bytes(&self) -> usize {
        self.buffer.as_ref().map_or(self.bytes(), AlignedBuffer::capacity)
    }

    pub fn into_buffer(self) -> Option<AlignedBuffer> {
        self.buffer
    }

    /// Where a group of it begins.
    pub fn block_of(&self, group: u64) -> Block {
        let at = group.saturating_sub(self.place.groups.start) as usize;
        Block(self.begins.get(at).copied().unwrap_or(self.place.blocks.start))
    }

    fn offset_of(&self, group: u64) -> usize {
        (self.block_of(group).0 - self.place.blocks.start) as usize * BLOCK_BYTES
    }

    fn group_at(&self, at: usize) -> u64 {
        let block = self.place.blocks.start + (at / BLOCK_BYTES) as u32;
        let behind = self.begins.partition_point(|&begin| begin <= block);
        self.place.groups.start + behind.saturating_sub(1) as u64
    }

    /// Goes through the frames of the log from an offset on: each with its own offset.
    fn walk(&self, from: usize, mut on_frame: impl FnMut(usize, &Frame<'_>) -> ControlFlow<()>) {
        let Some(buffer) = &self.buffer else { return };
        let mut frames = self.frames.clone();
        let mut at = from;
        while at < self.filled {
            let mut blocks = 1;
            // What is no frame of the log is gone by: whoever misses something behind it tells.
            if let Ok(frame) = Frame::read(&buffer[at..self.filled])
                && frames.has(&frame)
            {
                if on_frame(at, &frame).is_break() {
                    return;
                }
                frames.go_on_behind(&frame);
                blocks = frame.header.blocks();
            }
            at += blocks as usize * BLOCK_BYTES;
        }
    }

    /// Takes messages out. Returns how many were found, and the one whose body goes on behind the piece, which counts.
    pub fn take_out(
        &mut self,
        take: &mut Take,
        mut found: impl FnMut(u64, &StoredMessage<'_>),
    ) -> (u64, Option<LargeRest>) {
        let first = take.wanted.first().map(|(range, _)| range.start);
        // Messages that were moved are in later groups than those behind them.
        let group = take.wanted.iter().map(|&(_, group)| group).min();
        let Some((first, group)) = first.zip(group) else { return (0, None) };
        let queue = take.queue;
        let mark = self.bookmark.filter(|mark| mark.queue == queue && mark.position <= first && mark.group <= group);
        let mut taken = Taken { take, count: 0, large: None, last_frame: 0 };
        for from in mark.map(|mark| mark.at).into_iter().chain([self.offset_of(group)]) {
            (taken.count, taken.large, taken.last_frame) = (0, None, from);
            self.walk(from, |at, frame| taken.take_frame(at, frame, self.group_at(at), &mut found));
            if taken.is_all() {
                break;
            }
            // Some of a queue's messages are in no order of positions: they were returned, or moved.
        }
        let is_all = taken.is_all();
        let Taken { count, large, last_frame, .. } = taken;
        let end = take.wanted.last().map_or(first, |(range, _)| range.end);
        let group = self.group_at(last_frame);
        self.bookmark = is_all.then_some(Bookmark { queue, position: end, group, at: last_frame });
        (count + u64::from(large.is_some()), large)
    }

    /// Takes parts of a body from a group on. Returns whether the body may go on behind the piece.
    pub fn take_parts(&self, group: u64, large: &mut LargeRest) -> bool {
        let mut goes_on = false;
        self.walk(self.offset_of(group), |_, frame| {
            goes_on = large.take_frame(frame);
            if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        goes_on
    }
}

impl LargeRest {
    /// Takes the parts of a frame. Returns whether it is the next one and has nothing else.
    fn take_frame(&mut self, frame: &Frame<'_>) -> bool {
        if frame.header.sequence != self.next {
            return false;
        }
        self.next = self.next.next();
        let mut records = RecordReader::new(frame);
        while let Ok(Some(record)) = records.next_record() {
            match record {
                Record::Part(part) if !self.message.is_whole() => self.message.push(part),
                _ => return false,
            }
        }
        true
    }
}

/// Frames that are gone through for what is to be taken out.
struct Taken<'a> {
    take: &'a Take,
    count: u64,
    /// A large message whose body is being read.
    large: Option<LargeRest>,
    last_frame: usize,
}

impl Taken<'_> {
    fn is_all(&self) -> bool {
        self.count + u64::from(self.large.is_some()) == self.take.count
    }

    fn take_frame(
        &mut self,
        at: usize,
        frame: &Frame<'_>,
        group: u64,
        found: &mut impl FnMut(u64, &StoredMessage<'_>),
    ) -> ControlFlow<()> {
        self.last_frame = at;
        let sequence = frame.header.sequence;
        // A body of which a frame is missing cannot be read.
        self.large = self.large.take().filter(|large| large.next == sequence);
        let mut is_own: Vec<bool> = Vec::new();
        let mut records = RecordReader::new(frame);
        let mut last: Option<StoredMessage<'_>> = None;
        while let Ok(Some(record)) = records.next_record() {
            if let Record::Part(part) = record {
                let Some(large) = &mut self.large else { continue };
                large.message.push(part);
                if large.message.is_whole() {
                    found(large.position, &large.message.stored());
                    self.large = None;
                    self.count += 1;
                }
                continue;
            }
            // A body whose parts do not follow cannot be read.
            self.large = None;
            let is_wanted = |queue: FrameQueue, position: Position| {
                is_own.get(queue.0 as usize).is_some_and(|&is_own| is_own) && self.take.has(position.0, group)
            };
            match record {
                Record::Queue { uid, .. } => is_own.push(uid == self.take.queue),
                Record::Message { queue, position, message } => {
                    last = Some(message);
                    if is_wanted(queue, position) {
                        found(position.0, &message);
                        self.count += 1;
                    }
                }
                Record::Again { queue, position } => {
                    if let Some(message) = last.filter(|_| is_wanted(queue, position)) {
                        found(position.0, &message);
                        self.count += 1;
                    }
                }
                Record::Large { queue, position, head, body_bytes } => {
                    last = None;
                    if is_wanted(queue, position) {
                        let message = LargeMessage::new(&head, body_bytes);
                        self.large = Some(LargeRest { position: position.0, message, next: sequence });
                    }
                }
                _ => {}
            }
        }
        if let Some(large) = &mut self.large {
            large.next = sequence.next();
        }
        if self.count == self.take.count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
