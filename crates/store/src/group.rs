//! A group under construction: frames of records in one buffer, to be written by one call.
//!
//! Enters: records.  Leaves: the blocks to write, once the chain of the log gives each frame its header.
//! Owns:   the buffer. Its first block is kept free for the header of a segment that begins with this group.

use crate::alike_messages::AlikeMessages;
use crate::buffer::AlignedBuffer;
use crate::frame::{FrameHeader, FrameKind};
use crate::ids::{FrameSequence, LogId, Position, QueueUid, SegmentNumber, StoreTag};
use crate::limits::{
    ALIKE_MESSAGES_MIN, BLOCK_BYTES, FRAME_BYTES_MAX, FRAME_BYTES_TARGET, FRAME_HEADER_BYTES, GROUP_BYTES_MAX,
    MESSAGE_HEAD_BYTES_MAX, RECORD_OVERHEAD_BYTES_MAX, WHOLE_BODY_BYTES_MAX,
};
use crate::record::{RecordReader, StoredMessage, tag};
use crate::segment_header::{SegmentHeader, SegmentStart};
use crate::varint::{self, VARINT_BYTES_MAX};

/// The group has no capacity for the record: the next one takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupFull;

/// A queue as its log last wrote about it: where it stands in the table of the frame under construction.
#[derive(Clone, Copy, Debug)]
pub struct QueueCursor {
    uid: QueueUid,
    /// The frame in whose table it stands, in the numbering of [`Group::frame_number`].
    frame: u64,
    index: u32,
    next: u64,
    settled: u64,
}

impl QueueCursor {
    pub fn new(uid: QueueUid) -> Self {
        QueueCursor { uid, frame: 0, index: 0, next: 0, settled: 0 }
    }

    pub fn uid(&self) -> QueueUid {
        self.uid
    }
}

/// A frame that is complete but for its header.
struct FrameSpan {
    start: usize,
    end: usize,
    records: u32,
    kind: FrameKind,
    time_base_us: u64,
    /// How many entries about the messages of frames before this one there are.
    alike: usize,
}

/// A frame of a sealed group.
pub(crate) struct SealedFrame<'a> {
    /// Where it begins in the buffer.
    pub start: usize,
    pub records: RecordReader<'a>,
    /// Messages of it that are alike, in their order.
    pub alike: &'a [AlikeMessages],
}

/// The head that messages of the open frame refer to, as a range of the buffer: it is compared where it lies.
#[derive(Clone, Copy, Default)]
struct HeadSpan {
    start: usize,
    lens: [usize; 4],
}

/// Where a log goes on: what the headers of its next frames are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    pub store: StoreTag,
    pub log: LogId,
    /// The sequence of the next frame.
    pub next: FrameSequence,
    /// The checksum of the last one.
    pub previous_crc: u32,
    /// The last frame that is known to be durable.
    pub synced: FrameSequence,
}

/// A group under construction.
pub struct Group {
    buffer: AlignedBuffer,
    /// The end of what is written.
    at: usize,
    frames: Vec<FrameSpan>,
    open: Option<FrameSpan>,
    /// Messages of all frames that are alike.
    alike: Vec<AlikeMessages>,
    /// The number of the open frame, never used twice by one log, so that a cursor cannot take another frame for its own.
    frame_number: u64,
    queues_in_frame: u32,
    last_queue: u32,
    head: Option<HeadSpan>,
    time_us: u64,
}

impl Group {
    pub fn new() -> Self {
        Group {
            buffer: AlignedBuffer::new(BLOCK_BYTES + GROUP_BYTES_MAX),
            at: BLOCK_BYTES,
            frames: Vec::new(),
            open: None,
            alike: Vec::new(),
            frame_number: 0,
            queues_in_frame: 0,
            last_queue: 0,
            head: None,
            time_us: 0,
        }
    }

    /// Prepares a group for another use, after one whose last frame had this number.
    pub fn restart(&mut self, after: &Group) {
        self.clear();
        self.frame_number = after.frame_number;
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.at = BLOCK_BYTES;
        self.frames.clear();
        self.alike.clear();
        self.open = None;
    }

    pub fn is_empty(&self) -> bool {
        self.at == BLOCK_BYTES
    }

    /// Bytes that it will write, without a segment's header.
    pub fn bytes(&self) -> usize {
        self.at.next_multiple_of(BLOCK_BYTES) - BLOCK_BYTES
    }

    /// Whether it has more than a mark.
    pub(crate) fn has_records(&self) -> bool {
        self.open.is_some() || self.frames.iter().any(|frame| frame.kind != FrameKind::Mark)
    }

    /// Appends a message. Its body is no longer than [`WHOLE_BODY_BYTES_MAX`].
    #[inline]
    pub fn message(
        &mut self,
        queue: &mut QueueCursor,
        position: Position,
        message: &StoredMessage<'_>,
    ) -> Result<(), GroupFull> {
        debug_assert!(message.body.len() <= WHOLE_BODY_BYTES_MAX, "a longer body is divided into parts");
        self.begin_record(head_bytes(message) + message.body.len(), message.arrived_us)?;
        self.write_head(message);
        let index = self.enter(queue, position);
        if index == self.last_queue {
            self.put_tag(tag::MESSAGE_OF_SAME_QUEUE);
        } else {
            self.put_tag(tag::MESSAGE);
            self.put_number(index.into());
        }
        self.finish_message(queue, index, position, message.arrived_us);
        self.put_bytes(message.body);
        Ok(())
    }

    /// Appends messages that differ from the last one, which was of this queue, in their bodies alone, at the positions behind
    /// it: as many as the open frame has capacity for, and a group of so many bytes. Returns which.
    #[inline]
    pub(crate) fn alike<'a>(
        &mut self,
        queue: &mut QueueCursor,
        bodies: impl Iterator<Item = &'a [u8]>,
        group_bytes_max: usize,
    ) -> AlikeMessages {
        let mut put = AlikeMessages::default();
        let is_known = queue.frame == self.frame_number && queue.index == self.last_queue && self.head.is_some();
        let Some(open) = self.open.as_mut().filter(|_| is_known) else { return put };
        put.records_before = open.records;
        let buffer = &mut self.buffer[..];
        let end = buffer.len().min(open.start + FRAME_BYTES_TARGET).min(group_bytes_max);
        let start = self.at;
        for body in bodies {
            if self.at + body.len() + RECORD_OVERHEAD_BYTES_MAX > end {
                break;
            }
            // Of the same queue and the same time.
            let record = &mut buffer[self.at..self.at + body.len() + RECORD_OVERHEAD_BYTES_MAX];
            (record[0], record[1]) = (tag::MESSAGE_OF_SAME_QUEUE, 0);
            let body_at = 2 + varint::write(&mut record[2..], body.len() as u64);
            record[body_at..body_at + body.len()].copy_from_slice(body);
            self.at += body_at + body.len();
            put.add(body.len());
        }
        put.bytes = self.at - start;
        open.records += put.records;
        queue.next += u64::from(put.records);
        if put.records as usize >= ALIKE_MESSAGES_MIN {
            self.alike.push(put);
        }
        put
    }

    /// Announces a message whose body follows by [`Group::part`], here and in the next groups.
    pub fn large_message(
        &mut self,
        queue: &mut QueueCursor,
        position: Position,
        head: &StoredMessage<'_>,
        body_bytes: u64,
    ) -> Result<(), GroupFull> {
        self.begin_record(head_bytes(head), head.arrived_us)?;
        self.write_head(head);
        let index = self.enter(queue, position);
        self.put_tag(tag::LARGE);
        self.put_number(index.into());
        self.finish_message(queue, index, position, head.arrived_us);
        self.put_number(body_bytes);
        Ok(())
    }

    /// Enters the last message into another queue.
    pub fn again(&mut self, queue: &mut QueueCursor, position: Position) -> Result<(), GroupFull> {
        debug_assert!(self.last_is_message(), "the message stands in the same frame");
        self.begin_record(0, self.time_us)?;
        let index = self.enter(queue, position);
        self.put_tag(tag::AGAIN);
        self.put_number(index.into());
        queue.next = position.0 + 1;
        self.last_queue = index;
        Ok(())
    }

    /// Whether [`Group::again`] would refer to a message of the open frame, and has capacity there.
    pub(crate) fn last_is_message(&self) -> bool {
        self.open.is_some() && self.head.is_some() && self.frame_has_capacity(RECORD_OVERHEAD_BYTES_MAX)
    }

    /// Appends the next bytes of a large message, as many as there is capacity for, and takes them off `body`.
    pub fn part(&mut self, body: &mut &[u8]) -> Result<(), GroupFull> {
        let frame_start = self.at.next_multiple_of(BLOCK_BYTES);
        let overhead = FRAME_HEADER_BYTES + RECORD_OVERHEAD_BYTES_MAX;
        let capacity = (self.buffer.len() - frame_start).min(FRAME_BYTES_MAX).checked_sub(overhead).ok_or(GroupFull)?;
        let bytes = body.len().min(capacity);
        self.begin_record(bytes, self.time_us)?;
        let (part, rest) = body.split_at(bytes);
        self.put_tag(tag::PART);
        self.put_bytes(part);
        *body = rest;
        Ok(())
    }

    /// The queue is done with `count` messages from `first` on.
    #[inline]
    pub fn settled(&mut self, queue: &mut QueueCursor, first: Position, count: u64) -> Result<(), GroupFull> {
        self.begin_record(0, self.time_us)?;
        let index = self.enter_any(queue, first);
        self.put_tag(tag::SETTLED);
        self.put_number(index.into());
        self.put_number(varint::zigzag(queue.settled, first.0));
        self.put_number(count);
        queue.settled = first.0 + count;
        Ok(())
    }

    /// Every message of the queue up to this position was handed out.
    pub fn seen(&mut self, queue: &mut QueueCursor, position: Position) -> Result<(), GroupFull> {
        self.begin_record(0, self.time_us)?;
        let index = self.enter_any(queue, position);
        self.put_tag(tag::SEEN);
        self.put_number(index.into());
        self.put_number(position.0);
        Ok(())
    }

    /// A message of the queue was returned so many times.
    pub fn returned(&mut self, queue: &mut QueueCursor, position: Position, times: u64) -> Result<(), GroupFull> {
        self.begin_record(0, self.time_us)?;
        let index = self.enter_any(queue, position);
        self.put_tag(tag::RETURNED);
        self.put_number(index.into());
        self.put_number(position.0);
        self.put_number(times);
        Ok(())
    }

    /// What follows, up to [`Group::commit_end`], counts as a whole or not at all.
    pub fn commit_begin(&mut self) -> Result<(), GroupFull> {
        self.begin_record(0, self.time_us)?;
        self.put_tag(tag::COMMIT_BEGIN);
        Ok(())
    }

    pub fn commit_end(&mut self) -> Result<(), GroupFull> {
        self.begin_record(0, self.time_us)?;
        self.put_tag(tag::COMMIT_END);
        Ok(())
    }

    /// The commit that was begun before is without an end: it never counts.
    pub fn commit_aborted(&mut self) -> Result<(), GroupFull> {
        self.begin_record(0, self.time_us)?;
        self.put_tag(tag::COMMIT_ABORTED);
        Ok(())
    }

    /// A definition of at most [`MESSAGE_HEAD_BYTES_MAX`] bytes.
    pub fn definition(&mut self, version: u64, bytes: &[u8]) -> Result<(), GroupFull> {
        debug_assert!(bytes.len() <= MESSAGE_HEAD_BYTES_MAX, "the catalog limits definitions");
        self.begin_record(bytes.len(), self.time_us)?;
        self.put_tag(tag::DEFINITION);
        self.put_number(version);
        self.put_bytes(bytes);
        Ok(())
    }

    /// A frame without records, which proves that the log was durable up to what its header says.
    pub fn mark(&mut self) -> Result<(), GroupFull> {
        self.close_frame();
        self.open_frame(FrameKind::Mark, 0, 0)?;
        self.close_frame();
        Ok(())
    }

    /// Gives each frame its header, for the place in `segment` that the group gets, and returns the range of the buffer to
    /// write. If the group begins the segment, that begins with its header, which says where the log begins.
    pub fn seal(
        &mut self,
        chain: &mut Chain,
        segment: SegmentNumber,
        log_start: Option<SegmentStart>,
    ) -> std::ops::Range<usize> {
        self.close_frame();
        let begins_with = chain.next;
        let before = chain.previous_crc;
        for span in &self.frames {
            let header = FrameHeader {
                kind: span.kind,
                store: chain.store,
                log: chain.log,
                segment,
                sequence: chain.next,
                synced: chain.synced,
                time_base_us: span.time_base_us,
                previous_crc: chain.previous_crc,
                bytes: (span.end - span.start - FRAME_HEADER_BYTES) as u32,
                records: span.records,
            };
            chain.previous_crc = header.write(&mut self.buffer[span.start..span.end]);
            chain.next = chain.next.next();
        }
        let Some(log_start) = log_start else { return BLOCK_BYTES..self.at };
        SegmentHeader {
            store: chain.store,
            log: chain.log,
            number: segment,
            first: begins_with,
            previous_crc: before,
            log_start,
        }
        .write(&mut self.buffer[..BLOCK_BYTES]);
        0..self.at
    }

    /// The frames of a sealed group.
    pub(crate) fn frames(&self) -> impl Iterator<Item = SealedFrame<'_>> {
        let alike_ends = self.frames.iter().skip(1).map(|next| next.alike).chain([self.alike.len()]);
        self.frames.iter().zip(alike_ends).map(|(span, alike_end)| {
            let records = &self.buffer[span.start + FRAME_HEADER_BYTES..span.end];
            SealedFrame {
                start: span.start,
                records: RecordReader::of(records, span.records, span.time_base_us),
                alike: &self.alike[span.alike..alike_end],
            }
        })
    }

    /// The buffer, for the range that [`Group::seal`] returned.
    pub fn buffer(&self) -> &AlignedBuffer {
        &self.buffer
    }

    /// Makes sure that the open frame has capacity for a record with so many bytes beside its numbers.
    #[inline]
    fn begin_record(&mut self, bytes: usize, time_us: u64) -> Result<(), GroupFull> {
        let bytes = bytes + RECORD_OVERHEAD_BYTES_MAX;
        if self.open.is_some() && !self.frame_has_capacity(bytes) {
            self.close_frame();
        }
        match &mut self.open {
            Some(open) => open.records += 1,
            None => self.open_frame(FrameKind::Data, bytes, time_us)?,
        }
        Ok(())
    }

    /// Whether the open frame takes a record of so many bytes. One that takes it beyond its target has a frame of its own.
    #[inline]
    fn frame_has_capacity(&self, bytes: usize) -> bool {
        let Some(open) = &self.open else { return false };
        self.at - open.start + bytes <= FRAME_BYTES_TARGET && self.at + bytes <= self.buffer.len()
    }

    fn open_frame(&mut self, kind: FrameKind, bytes: usize, time_us: u64) -> Result<(), GroupFull> {
        let start = self.at;
        if start + FRAME_HEADER_BYTES + bytes > self.buffer.len() {
            return Err(GroupFull);
        }
        debug_assert!(FRAME_HEADER_BYTES + bytes <= FRAME_BYTES_MAX, "a record fits into a frame");
        let records = u32::from(bytes > 0);
        let alike = self.alike.len();
        self.open = Some(FrameSpan { start, end: start, records, kind, time_base_us: time_us, alike });
        self.at = start + FRAME_HEADER_BYTES;
        self.frame_number += 1;
        self.queues_in_frame = 0;
        self.last_queue = u32::MAX;
        self.head = None;
        self.time_us = time_us;
        Ok(())
    }

    fn close_frame(&mut self) {
        let Some(mut span) = self.open.take() else { return };
        span.end = self.at;
        self.at = span.end.next_multiple_of(BLOCK_BYTES);
        self.buffer[span.end..self.at].fill(0);
        self.frames.push(span);
    }

    /// The queue's index in the frame's table, where its next message has this position.
    #[inline]
    fn enter(&mut self, queue: &mut QueueCursor, position: Position) -> u32 {
        if queue.frame == self.frame_number && queue.next == position.0 {
            return queue.index;
        }
        self.enter_anew(queue, position)
    }

    /// The queue's index in the frame's table.
    #[inline]
    fn enter_any(&mut self, queue: &mut QueueCursor, position: Position) -> u32 {
        if queue.frame == self.frame_number { queue.index } else { self.enter_anew(queue, position) }
    }

    fn enter_anew(&mut self, queue: &mut QueueCursor, position: Position) -> u32 {
        let index = self.queues_in_frame;
        self.queues_in_frame += 1;
        *queue = QueueCursor { frame: self.frame_number, index, next: position.0, settled: position.0, ..*queue };
        self.put_tag(tag::QUEUE);
        self.put_number(queue.uid.0);
        self.put_number(position.0);
        self.count_record();
        index
    }

    #[inline]
    fn finish_message(&mut self, queue: &mut QueueCursor, index: u32, position: Position, arrived_us: u64) {
        self.put_number(varint::zigzag(self.time_us, arrived_us));
        self.time_us = arrived_us;
        queue.next = position.0 + 1;
        self.last_queue = index;
    }

    /// Writes the head unless the frame's last one is the same.
    #[inline]
    fn write_head(&mut self, message: &StoredMessage<'_>) {
        let parts = [message.exchange, message.routing_key, message.properties, message.bcc];
        if self.head.is_some_and(|head| self.is_head(head, &parts)) {
            return;
        }
        self.put_tag(tag::HEAD);
        let start = self.at;
        for part in parts {
            self.put_bytes(part);
        }
        self.head = Some(HeadSpan { start, lens: parts.map(<[u8]>::len) });
        self.count_record();
    }

    #[inline]
    fn is_head(&self, head: HeadSpan, parts: &[&[u8]; 4]) -> bool {
        if parts.iter().zip(head.lens).any(|(part, len)| part.len() != len) {
            return false;
        }
        let mut rest = &self.buffer[head.start..self.at];
        parts.iter().all(|part| {
            // Empty parts are equal and not compared: their bytes may be in memory that is not mapped, where the C library's
            // comparison of nothing takes 84 ns in place of 2, as its masked loads fault.
            varint::read(&mut rest).is_some()
                && rest.split_off(..part.len()).is_some_and(|written| part.is_empty() || written == *part)
        })
    }

    #[inline]
    fn count_record(&mut self) {
        if let Some(open) = &mut self.open {
            open.records += 1;
        }
    }

    #[inline]
    fn put_tag(&mut self, tag: u8) {
        self.buffer[self.at] = tag;
        self.at += 1;
    }

    #[inline]
    fn put_number(&mut self, number: u64) {
        self.at += varint::write(&mut self.buffer[self.at..], number);
    }

    #[inline]
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_number(bytes.len() as u64);
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

impl Default for Group {
    fn default() -> Self {
        Self::new()
    }
}

// The records of a queue, a head and a message: six tags and lengths, and the numbers.
const _: () = assert!(RECORD_OVERHEAD_BYTES_MAX >= 3 + 11 * VARINT_BYTES_MAX);

#[inline]
fn head_bytes(message: &StoredMessage<'_>) -> usize {
    let bytes = message.exchange.len() + message.routing_key.len() + message.properties.len() + message.bcc.len();
    debug_assert!(bytes <= MESSAGE_HEAD_BYTES_MAX, "a content header is one AMQP frame");
    bytes
}

#[cfg(test)]
mod tests;
