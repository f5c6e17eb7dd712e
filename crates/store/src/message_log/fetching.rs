//! What a log answers about messages that it has: which are alive, how dense they are, and the messages themselves.

use super::fetch::{Fetch, FetchId, Fetched, Sources, alive};
use super::mover::Mover;
use super::{LoggedMessage, MessageLog};
use crate::buffer::AlignedBuffer;
use crate::ids::{Block, Position, QueueUid, SegmentId};
use crate::limits::BLOCK_BYTES;
use crate::record::StoredMessage;
use crate::recovery::FoundMessage;
use crate::request::{DiskError, Request};
use std::ops::Range;

/// How much of the log must be read to have a range of messages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogShare {
    /// Messages of the queue's level that the groups have which have those of the range.
    pub messages: u64,
    /// Bytes of these groups.
    pub group_bytes: u64,
}

impl<M: LoggedMessage + Clone> MessageLog<M> {
    /// Messages of one level are wanted back: those from `first` to before `end` that are alive then, but for those in `except`,
    /// which is in order. Fetches are answered in their order, by [`MessageLog::take_fetched`].
    pub fn fetch(&mut self, id: FetchId, queue: QueueUid, wanted: Range<Position>, except: Vec<Range<u64>>) {
        self.fetcher.push(Fetch::new(id, queue, wanted, except));
    }

    /// The next fetch that has everything. `build` makes a message of what was read.
    pub fn take_fetched(&mut self, mut build: impl FnMut(&StoredMessage<'_>) -> M) -> Option<Fetched<M>> {
        let Self { list, queues, segments, writer, fetcher, .. } = self;
        let readable = segments.group() - u64::from(writer.is_writing());
        let mut sources = Sources { list, queues, segments, readable };
        fetcher.advance(&mut sources, &mut build)
    }

    /// Whether [`MessageLog::take_fetched`] may have something.
    #[inline]
    pub fn has_fetched(&self) -> bool {
        self.fetcher.has_news()
    }

    /// The messages of a range that are alive, as ranges of positions.
    pub fn alive_within(&mut self, queue: QueueUid, wanted: Range<Position>) -> Vec<Range<u64>> {
        let Some(queue) = self.queues.find(queue) else { return Vec::new() };
        let Some(level) = self.queues.get(queue).level(wanted.start.level()) else { return Vec::new() };
        alive(level, &self.list, wanted.start.0..wanted.end.0)
    }

    /// How much must be read to have a range of messages. What is unwritten counts as nothing.
    pub fn share_of(&mut self, queue: QueueUid, wanted: Range<Position>) -> LogShare {
        let mut share = LogShare::default();
        let Some(queue) = self.queues.find(queue) else { return share };
        let Some(level) = self.queues.get(queue).level(wanted.start.level()) else { return share };
        let mut last = None;
        for run in level.live.within(wanted.start.0, wanted.end.0) {
            share.messages += run.count;
            if last.replace(run.group) != Some(run.group)
                && let Some(place) = self.segments.place_of(run.group, run.group, 0)
            {
                share.group_bytes += place.blocks.len() as u64 * BLOCK_BYTES as u64;
            }
        }
        share
    }

    /// What happened to a message before, as far as the log was told.
    pub fn history_of(&mut self, queue: QueueUid, position: Position) -> FoundMessage {
        let queue = self.queues.find(queue);
        let level = queue.and_then(|queue| self.queues.get(queue).level(position.level()));
        level.map_or(FoundMessage { was_delivered: false, times_returned: 0 }, |level| level.found(position.0))
    }

    /// Bytes on the heap: messages that are unwritten, what is known of those that are written, and what is fetched.
    pub fn heap_bytes(&self) -> usize {
        self.list.bytes() + self.segments.heap_bytes() + self.fetcher.heap_bytes() + self.scrub.heap_bytes()
    }

    /// What is to be read for fetches.
    pub(super) fn poll_reads(&mut self, now_us: u64) -> Option<Request> {
        let Self { list, queues, segments, writer, fetcher, .. } = self;
        let readable = segments.group() - u64::from(writer.is_writing());
        let mut sources = Sources { list, queues, segments, readable };
        fetcher.poll(&mut sources, (writer.chain(), writer.segments()), now_us)
    }

    /// What was read is the fetches', the scrub's or the mover's. If two want the same of a segment, either may have it, and the fetches have
    /// what comes first: a consumer waits for them, and not for a disk that takes its time over a scrub. Returns the error if something
    /// cannot be read that is wanted.
    pub(super) fn on_read(
        &mut self,
        segment: SegmentId,
        block: Block,
        buffer: AlignedBuffer,
        result: Result<usize, DiskError>,
    ) -> Option<DiskError> {
        if self.fetcher.awaits(segment, block, &buffer) {
            return self.fetcher.on_read(segment, block, buffer, result);
        }
        if self.scrub.is_reading(segment, block, &buffer) {
            return self.scrub.on_read(&self.writer, buffer, result);
        }
        let mover = self.mover.as_mut().filter(|mover| mover.is_reading(segment, block, &buffer))?;
        Mover::on_read(mover, buffer, result, self.segments.end_of(segment.number))
    }
}
