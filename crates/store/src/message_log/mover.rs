//! Moves what is alive of the oldest segment to the end of the log, so that the segment can be given back.
//!
//! Enters: the segment, read piece by piece, without the groups of which nothing is alive.  Leaves: its live messages, in the groups
//!         that are written anyway.
//! Owns:   the piece that was read, and the body of one large message.
//!
//! A frame that a group has no capacity for is gone through again: what has been moved is not in the segment any more.

use super::encode::{GROUP_END, Settlements, Stop, has_capacity, put_parts};
use super::queues::QueueTable;
use super::segment_frames::SegmentFrames;
use super::segments::SegmentUses;
use crate::buffer::AlignedBuffer;
use crate::frame::{Frame, FrameFault};
use crate::group::{Chain, Group};
use crate::ids::{Block, Position, SegmentId, SegmentNumber};
use crate::large_message::LargeMessage;
use crate::limits::{BLOCK_BYTES, MESSAGE_OVERHEAD_BYTES, MOVE_READ_BYTES, RECORD_OVERHEAD_BYTES_MAX};
use crate::record::{FrameQueue, Record, RecordReader, StoredMessage};
use crate::request::{DiskError, Request};
use crate::segment_header::SegmentStart;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of the records about a message that is moved.
const HISTORY_BYTES_MAX: usize = 2 * RECORD_OVERHEAD_BYTES_MAX;

/// A large message that is moved.
struct LargeCopy {
    queue: u32,
    position: Position,
    message: LargeMessage,
    /// How much of the body is in groups, once it is begun.
    written: Option<usize>,
}

impl LargeCopy {
    fn is_whole(&self) -> bool {
        self.message.is_whole()
    }
}

/// What the mover does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A piece is to be read.
    Read,
    /// It is being read.
    Reading,
    /// It is gone through.
    Parse,
    /// All of the segment was gone through.
    Done,
}

/// What was ever moved.
#[derive(Default)]
pub(super) struct MovedCounts {
    pub messages: u64,
    pub bytes: u64,
}

/// What is put into a group, and what must know of it.
pub(super) struct Target<'a> {
    pub group: &'a mut Group,
    pub queues: &'a mut QueueTable,
    pub segments: &'a mut SegmentUses,
    pub settlements: &'a mut Settlements,
    pub moved: &'a mut MovedCounts,
}

/// How far a frame was gone through.
enum Progress {
    /// All of it.
    Frame,
    /// The group has no capacity for the rest.
    GroupFull,
    /// There is none: the segment ends.
    End,
}

/// Moves one segment.
pub(super) struct Mover {
    /// The segment that is moved.
    segment: SegmentNumber,
    /// The groups that are in it.
    groups: Range<u64>,
    /// The segment that is read: a later one while a large body is read that begins in the first.
    frames: SegmentFrames,
    block: u32,
    /// Empty while it is being read.
    buffer: Option<AlignedBuffer>,
    filled: usize,
    at: usize,
    step: Step,
    large: Option<LargeCopy>,
}

impl Mover {
    pub fn new(
        chain: &Chain,
        segment: SegmentNumber,
        groups: Range<u64>,
        starts: &VecDeque<SegmentStart>,
    ) -> Option<Mover> {
        let frames = SegmentFrames::of(chain, segment, starts)?;
        let buffer = Some(AlignedBuffer::new(MOVE_READ_BYTES));
        let (block, step) = (1, Step::Read);
        Some(Mover { segment, groups, frames, block, buffer, filled: 0, at: 0, step, large: None })
    }

    pub fn segment(&self) -> SegmentNumber {
        self.segment
    }

    /// Whether a group may take something of it.
    pub fn is_ready(&self) -> bool {
        self.step == Step::Parse || self.large.as_ref().is_some_and(LargeCopy::is_whole)
    }

    pub fn is_reading_piece(&self) -> bool {
        self.step == Step::Reading
    }

    /// Whether nothing of it is read or written in part.
    pub fn can_stop(&self) -> bool {
        self.step != Step::Reading && self.large.as_ref().is_none_or(|large| large.written.is_none())
    }

    pub fn is_done(&self) -> bool {
        self.step == Step::Done && self.large.is_none()
    }

    /// A body of which a part was written: nothing else may follow.
    pub fn is_within_body(&self) -> bool {
        self.large.as_ref().is_some_and(|large| large.written.is_some())
    }

    /// What to ask the disk for.
    pub fn poll(&mut self, segments: &SegmentUses) -> Option<Request> {
        if self.step != Step::Read {
            return None;
        }
        // The rest of a body is in groups that may have no message of their own.
        if self.large.as_ref().is_none_or(LargeCopy::is_whole) {
            match segments.next_live_block(self.segment, self.block) {
                Some(block) => self.block = block,
                None => {
                    self.step = Step::Done;
                    return None;
                }
            }
        }
        self.step = Step::Reading;
        let segment = self.frames.id();
        let (block, buffer) = (Block(self.block), self.buffer.take()?);
        Some(Request::Read { segment, block, buffer, is_direct: false })
    }

    /// A piece of a segment was read, which ends before the block `end`. Returns the error if it was not: nothing is found there.
    pub fn on_read(
        &mut self,
        mut buffer: AlignedBuffer,
        result: Result<usize, DiskError>,
        end: u32,
    ) -> Option<DiskError> {
        let (filled, error) = match result {
            Ok(filled) => (filled, None),
            Err(error) => {
                buffer.fill(0);
                let left = end.saturating_sub(self.block) as usize * BLOCK_BYTES;
                (left.min(buffer.len()), Some(error))
            }
        };
        (self.buffer, self.filled) = (Some(buffer), filled);
        (self.at, self.step) = (0, Step::Parse);
        error
    }

    /// Whether this is what it has asked for.
    pub fn is_reading(&self, segment: SegmentId, block: Block, buffer: &AlignedBuffer) -> bool {
        let is_its = (self.frames.id(), self.block) == (segment, block.0) && buffer.len() == MOVE_READ_BYTES;
        self.step == Step::Reading && is_its
    }

    /// The groups that are in the segment.
    pub fn groups(&self) -> Range<u64> {
        self.groups.clone()
    }

    /// Goes on with a body of which a part was written.
    pub fn fill_body(&mut self, group: &mut Group) -> Stop {
        let Some(large) = &mut self.large else { return Stop::Done };
        let Some(written) = &mut large.written else { return Stop::Done };
        let body = large.message.stored().body;
        let mut rest = &body[*written..];
        let is_full = put_parts(group, &mut rest).is_err();
        *written = body.len() - rest.len();
        if is_full {
            return Stop::WithinBody;
        }
        self.large = None;
        Stop::Done
    }

    /// Puts live messages into a group, so many bytes of them and the rest of one frame.
    pub fn fill(&mut self, target: &mut Target<'_>, starts: &VecDeque<SegmentStart>, bytes_max: usize) -> Stop {
        let before = target.group.bytes();
        loop {
            if self.large.as_ref().is_some_and(LargeCopy::is_whole) {
                match self.begin_body(target) {
                    None => return Stop::Done,
                    Some(Stop::WithinBody) => return Stop::WithinBody,
                    Some(Stop::Done) => {}
                }
            }
            if self.step != Step::Parse || target.group.bytes() - before >= bytes_max {
                return Stop::Done;
            }
            let Some(buffer) = self.buffer.take() else { return Stop::Done };
            let progress = self.fill_frame(&buffer, target);
            self.buffer = Some(buffer);
            match progress {
                Progress::Frame => {}
                Progress::GroupFull => return Stop::Done,
                Progress::End => self.end_segment(starts),
            }
        }
    }

    /// Goes through the next frame.
    fn fill_frame(&mut self, buffer: &AlignedBuffer, target: &mut Target<'_>) -> Progress {
        let bytes = &buffer[self.at..self.filled];
        let mut blocks = 1;
        match Frame::read(bytes) {
            Err(FrameFault::Cut(_)) if self.at > 0 || bytes.is_empty() => {
                if self.filled < buffer.len() {
                    return Progress::End;
                }
                self.step = Step::Read;
                return Progress::Frame;
            }
            Ok(frame) if self.frames.has(&frame) => {
                if self.move_frame(&frame, target).is_none() {
                    return Progress::GroupFull;
                }
                self.frames.go_on_behind(&frame);
                blocks = frame.header.blocks();
            }
            // Zeros, or what a torn write has left.
            Ok(_) | Err(_) => {}
        }
        self.block += blocks;
        self.at += blocks as usize * BLOCK_BYTES;
        Progress::Frame
    }

    /// The segment was read to its end.
    fn end_segment(&mut self, starts: &VecDeque<SegmentStart>) {
        self.step = Step::Done;
        if self.large.as_ref().is_none_or(LargeCopy::is_whole) {
            return;
        }
        // The rest of a body is in the next one.
        match self.frames.next(starts) {
            Some(frames) => (self.frames, self.block, self.step) = (frames, 1, Step::Read),
            None => self.large = None,
        }
    }

    /// Puts what is alive of a frame into the group. `None` if the group has no capacity for all of it.
    fn move_frame(&mut self, frame: &Frame<'_>, target: &mut Target<'_>) -> Option<()> {
        let is_behind = self.frames.id().number != self.segment;
        let mut table: Vec<Option<u32>> = Vec::new();
        let queue_of = |queue: FrameQueue, table: &[Option<u32>]| table.get(queue.0 as usize).copied().flatten();
        let mut records = RecordReader::new(frame);
        let mut last: Option<StoredMessage<'_>> = None;
        // The last message of the group is `last`.
        let mut is_last_moved = false;
        while let Ok(Some(record)) = records.next_record() {
            if let Record::Part(part) = record {
                self.collect(part, is_behind);
                continue;
            }
            if self.large.as_ref().is_some_and(|large| !large.is_whole()) {
                self.large = None;
            }
            if is_behind {
                self.step = Step::Done;
                return Some(());
            }
            let (queue, position, message) = match record {
                Record::Queue { uid, .. } => {
                    table.push(target.queues.find(uid));
                    continue;
                }
                Record::Message { queue, position, message } => {
                    (last, is_last_moved) = (Some(message), false);
                    (queue_of(queue, &table), position, message)
                }
                Record::Again { queue, position } => match last {
                    Some(message) => (queue_of(queue, &table), position, message),
                    None => continue,
                },
                Record::Large { queue, position, head, body_bytes } => {
                    // The one before is written first.
                    if self.large.is_some() {
                        return None;
                    }
                    last = None;
                    let queue = queue_of(queue, &table);
                    self.large = queue.filter(|&queue| self.is_here(queue, position, target.queues)).map(|queue| {
                        let message = LargeMessage::new(&head, body_bytes);
                        LargeCopy { queue, position, message, written: None }
                    });
                    continue;
                }
                _ => continue,
            };
            let Some(queue) = queue.filter(|&queue| self.is_here(queue, position, target.queues)) else { continue };
            let bytes = message.exchange.len()
                + message.routing_key.len()
                + message.properties.len()
                + message.bcc.len()
                + message.body.len();
            if !has_capacity(target.group, bytes + HISTORY_BYTES_MAX, GROUP_END) {
                return None;
            }
            target.put_history(queue, position);
            let cursor = &mut target.queues.level(queue, position).cursor;
            let is_again = is_last_moved && target.group.last_is_message();
            let put = match is_again {
                true => target.group.again(cursor, position),
                false => target.group.message(cursor, position, &message),
            };
            put.expect("the group has capacity");
            is_last_moved = true;
            let live = if is_again { 0 } else { message.body.len() as u64 } + MESSAGE_OVERHEAD_BYTES;
            target.moved(queue, position, live);
        }
        Some(())
    }

    /// A part of a body.
    fn collect(&mut self, part: &[u8], is_behind: bool) {
        let Some(large) = self.large.as_mut().filter(|large| !large.is_whole()) else { return };
        large.message.push(part);
        if is_behind && large.is_whole() {
            self.step = Step::Done;
        }
    }

    /// Whether the message is alive and in the segment that is moved.
    fn is_here(&self, queue: u32, position: Position, queues: &mut QueueTable) -> bool {
        let group = queues.get(queue).level(position.level()).and_then(|level| level.live.group_of(position.0));
        group.is_some_and(|group| self.groups.contains(&group))
    }

    /// Begins to write a large message. `None` if the group has no capacity.
    fn begin_body(&mut self, target: &mut Target<'_>) -> Option<Stop> {
        let large = self.large.as_ref()?;
        let (queue, position) = (large.queue, large.position);
        // Its queue may be gone, and its number another queue's: positions of those are in groups that came later.
        if !self.is_here(queue, position, target.queues) {
            self.large = None;
            return Some(Stop::Done);
        }
        let large = self.large.as_mut()?;
        let stored = large.message.stored();
        let body_bytes = large.message.body_bytes();
        let head = stored.exchange.len() + stored.routing_key.len() + stored.properties.len() + stored.bcc.len();
        if !has_capacity(target.group, head + HISTORY_BYTES_MAX, GROUP_END) {
            return None;
        }
        target.settlements.flush(target.group, target.queues);
        target.put_history(queue, position);
        let cursor = &mut target.queues.level(queue, position).cursor;
        let put = target.group.large_message(cursor, position, &stored, body_bytes);
        put.expect("the group has capacity");
        target.moved(queue, position, body_bytes + MESSAGE_OVERHEAD_BYTES);
        large.written = Some(0);
        Some(self.fill_body(target.group))
    }
}

impl Target<'_> {
    /// Writes what is known of a message that is moved: before the message, so that whoever finds this copy finds that, too.
    fn put_history(&mut self, queue: u32, position: Position) {
        let level = self.queues.level(queue, position);
        let group = self.segments.group();
        if position.0 < level.seen_end && level.seen_group != Some(group) {
            level.seen_group = Some(group);
            self.group.seen(&mut level.cursor, Position(level.seen_end - 1)).expect("the group has capacity");
        }
        if let Some(&times) = level.returned.get(&position.0) {
            self.group.returned(&mut level.cursor, position, times.into()).expect("the group has capacity");
        }
    }

    /// A message is in this group now.
    fn moved(&mut self, queue: u32, position: Position, bytes: u64) {
        let level = self.queues.level(queue, position);
        let segments = &mut *self.segments;
        // What settled the others of its segment is durable before this group is.
        let removed = level.live.remove(position.0, position.0 + 1, |run| segments.settle(&run, 0));
        let pushed = level.live.push(segments.add(position.0, 1, bytes));
        segments.count_runs(removed + pushed);
        self.moved.messages += 1;
        self.moved.bytes += bytes;
    }
}
