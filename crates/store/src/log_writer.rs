//! Appends to a log: one group is written at a time, and what comes meanwhile fills the next.
//!
//! Enters: records; completions of the disk.  Leaves: requests to the disk; which group is durable.
//! Owns:   the groups, where in the last segment of its log the next one goes, and the footer of that segment.
//!
//! After a write that failed nothing is written again: what the disk has of those blocks cannot be known.

use crate::alike_messages::AlikeMessages;
use crate::footer::{EncodedFooter, FooterWriter, SegmentEnd};
use crate::group::{Chain, Group, GroupFull, SealedFrame};
use crate::ids::{Block, FrameSequence, GroupNumber, LogId, SegmentId, SegmentNumber, StoreTag};
use crate::limits::{BLOCK_BYTES, GROUP_BYTES_MAX, GROUPS_WAITING_MAX, MARK_DELAY_US};
use crate::log_event::LogEvent;
use crate::log_metrics::LogMetrics;
use crate::request::{Completion, DiskError, DiskErrorKind, Request, SealedGroup};
use crate::segment_header::SegmentStart;
use crate::segment_supply::SegmentSupply;
use crate::sync_schedule::{SyncSchedule, UnsyncedWrites};
use std::collections::VecDeque;

/// The segment that is being filled.
struct Tail {
    number: SegmentNumber,
    next_block: u32,
}

/// Where a log ends: what its next writer goes on from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEnd {
    pub chain: Chain,
    /// A number that no segment of the log has.
    pub next_segment: SegmentNumber,
    /// What the log consists of, the oldest first.
    pub segments: Vec<SegmentStart>,
    /// Those of them that have frames and no header: the write of both was torn.
    pub headerless: Vec<SegmentNumber>,
    /// Segments that hold nothing of the log: made ahead, or given back.
    pub unused: Vec<SegmentNumber>,
    /// No header says where the log begins: an unused segment shows that the one that the last header names was given back.
    pub is_start_implied: bool,
}

impl LogEnd {
    /// The end of a log in which nothing was written.
    pub fn empty(store: StoreTag, log: LogId) -> LogEnd {
        let chain = Chain { store, log, next: FrameSequence(1), previous_crc: 0, synced: FrameSequence(0) };
        LogEnd {
            chain,
            next_segment: SegmentNumber(1),
            segments: Vec::new(),
            headerless: Vec::new(),
            unused: Vec::new(),
            is_start_implied: false,
        }
    }
}

/// The write that is under way.
struct Writing {
    group: GroupNumber,
    /// Its last frame.
    last: FrameSequence,
    /// It has records, and is not only a mark.
    is_data: bool,
    /// Where the log begins, as the segment's header says that it has.
    log_start: Option<SegmentNumber>,
}

/// Appends to one log.
pub struct LogWriter {
    chain: Chain,
    supply: SegmentSupply,
    tail: Option<Tail>,
    filling: Group,
    /// The number of the group that is being filled.
    filling_number: GroupNumber,
    /// Full groups, the oldest first.
    waiting: VecDeque<Group>,
    writing: Option<Writing>,
    unused: Vec<Group>,
    /// When the last write was completed, while no mark proves it.
    unmarked_since_us: Option<u64>,
    /// Its disk syncs when it is asked to. Otherwise each write is durable when it is complete.
    syncs: Option<SyncSchedule>,
    /// What was written: groups, marks and their bytes.
    written: LogMetrics,
    /// The footer of the last segment, if footers are written.
    footer: Option<FooterWriter>,
    /// Footers of segments that are complete.
    footers: VecDeque<EncodedFooter>,
    failed: bool,
}

impl LogWriter {
    /// A writer that goes on behind what a scan has found, in segments of so many bytes.
    ///
    /// It begins with a segment of its own: blocks behind a torn write are never written again under their number.
    pub fn new(end: LogEnd, segment_bytes: u64) -> Self {
        let LogEnd { chain, next_segment, segments, headerless, unused, is_start_implied } = end;
        let segment_bytes = segment_bytes.clamp(crate::limits::SEGMENT_BYTES_MIN, crate::limits::SEGMENT_BYTES_MAX);
        let segment_blocks = (segment_bytes / BLOCK_BYTES as u64) as u32;
        LogWriter {
            chain,
            supply: SegmentSupply::new(chain.log, segment_blocks, next_segment, segments, unused)
                .keeping_unused(is_start_implied)
                .keeping_headerless(headerless),
            tail: None,
            filling: Group::default(),
            filling_number: GroupNumber(1),
            waiting: VecDeque::new(),
            writing: None,
            unused: Vec::new(),
            unmarked_since_us: None,
            syncs: None,
            written: LogMetrics::default(),
            footer: None,
            footers: VecDeque::new(),
            failed: false,
        }
    }

    /// The disk syncs when it is asked to: so long after a write. A group is told to be durable when it is written, and survives
    /// the end of the process; it survives a power failure once it is synced.
    pub fn sync_later(&mut self, interval_us: u64) {
        self.syncs = Some(SyncSchedule::new(interval_us));
    }

    /// Writes a footer for each segment that is complete, and these, which a recovery has made.
    pub(crate) fn write_footers(&mut self, found: Vec<EncodedFooter>) {
        self.footer = Some(FooterWriter::new(self.chain.store, self.chain.log));
        self.footers = found.into();
    }

    /// Appends what `put` puts into a group, in the next one if this one has no capacity for it. Returns the group that must be
    /// durable for it.
    #[inline]
    pub fn append(&mut self, mut put: impl FnMut(&mut Group) -> Result<(), GroupFull>) -> GroupNumber {
        if put(&mut self.filling).is_err() {
            self.begin_group();
            put(&mut self.filling).expect("an empty group takes any record");
        }
        self.filling_number
    }

    /// Whether so much waits for the disk that publishers should not be read.
    pub fn is_congested(&self) -> bool {
        self.waiting.len() >= GROUPS_WAITING_MAX
    }

    /// Whether something has been appended that no write has taken.
    pub(crate) fn has_pending(&self) -> bool {
        !self.filling.is_empty() || !self.waiting.is_empty()
    }

    /// Whether a write is under way.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// The group that is being filled.
    #[inline]
    pub(crate) fn filling(&mut self) -> &mut Group {
        &mut self.filling
    }

    /// The group that is being filled, and what the log consists of.
    pub(crate) fn filling_and_segments(&mut self) -> (&mut Group, &VecDeque<SegmentStart>) {
        (&mut self.filling, self.supply.used())
    }

    /// Nothing waits for the disk, nor is being written.
    pub fn is_idle(&self) -> bool {
        self.writing.is_none() && !self.has_pending()
    }

    /// Whether a group of any size would be written at once: nothing waits or is under way, and there is a segment for it.
    pub(crate) fn can_write(&self) -> bool {
        let group_blocks = (GROUP_BYTES_MAX / BLOCK_BYTES) as u32;
        self.is_idle() && self.has_segment_for(group_blocks)
    }

    fn has_segment_for(&self, blocks: u32) -> bool {
        !self.failed && (self.fits(blocks) || self.supply.can_begin())
    }

    fn fits(&self, blocks: u32) -> bool {
        self.tail.as_ref().is_some_and(|tail| tail.next_block + blocks <= self.supply.segment_blocks())
    }

    /// Makes so many segments ahead.
    pub(crate) fn set_spares(&mut self, spares: usize) {
        self.supply.set_spares(spares);
    }

    /// What the log consists of, the oldest first.
    pub(crate) fn segments(&self) -> &VecDeque<SegmentStart> {
        self.supply.used()
    }

    /// The segment that is being filled.
    pub(crate) fn last_segment(&self) -> Option<SegmentNumber> {
        self.tail.as_ref().map(|tail| tail.number)
    }

    /// Nothing in the segments before this one is needed any more, and what replaces it is durable. They are given back when
    /// the header of a later segment says so.
    pub fn retire_before(&mut self, number: SegmentNumber) {
        self.supply.retire_before(number);
    }

    /// Bytes that wait for the disk.
    pub fn pending_bytes(&self) -> usize {
        self.filling.bytes() + self.waiting.iter().map(|group| group.bytes()).sum::<usize>()
    }

    /// What was written, and the segments.
    pub fn metrics(&self) -> LogMetrics {
        let segments_in_use = self.supply.used().len() as u64;
        LogMetrics {
            segments_in_use,
            segments_spare: self.supply.spares() as u64,
            log_bytes: segments_in_use * self.segment_bytes(),
            pending_bytes: self.pending_bytes() as u64,
            ..self.written
        }
    }

    /// Bytes of a segment.
    pub fn segment_bytes(&self) -> u64 {
        u64::from(self.supply.segment_blocks()) * BLOCK_BYTES as u64
    }

    /// Behind what was written, unless a write is under way: the number of a segment that the log does not have, and how its first
    /// frame would be chained.
    pub(crate) fn written_end(&self) -> Option<SegmentStart> {
        let number = SegmentNumber(self.supply.used().back()?.number.0 + 1);
        let Chain { next: first, previous_crc, .. } = self.chain;
        (self.writing.is_none() && !self.failed).then_some(SegmentStart { number, first, previous_crc })
    }

    /// What the next frame will be chained to.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// When [`LogWriter::poll`] has something to do although nothing has been appended.
    pub fn timer_us(&self) -> Option<u64> {
        let sync_us = self.syncs.as_ref().and_then(SyncSchedule::due_us);
        [self.mark_us(), self.supply.retry_us(), sync_us].into_iter().flatten().min().filter(|_| !self.failed)
    }

    fn mark_us(&self) -> Option<u64> {
        let can_mark = self.writing.is_none() && self.has_segment_for(1);
        self.unmarked_since_us.filter(|_| can_mark).map(|since_us| since_us + MARK_DELAY_US)
    }

    /// What to ask the disk for; call it until there is nothing. With `flush` a group that is not full is written too.
    pub fn poll(&mut self, now_us: u64, flush: bool) -> Option<Request> {
        if self.failed {
            return None;
        }
        if let Some(tail) = &self.tail
            && self.syncs.as_mut().is_some_and(|syncs| syncs.begin(now_us))
        {
            return Some(Request::Sync { segment: SegmentId { log: self.chain.log, number: tail.number } });
        }
        if let Some(request) = self.supply.poll(now_us) {
            return Some(request);
        }
        if self.writing.is_some() {
            return self.poll_footer();
        }
        let is_due = self.mark_us().is_some_and(|mark_us| mark_us <= now_us);
        let is_empty = !self.has_pending();
        let is_wanted = is_due || self.must_begin();
        if is_empty && is_wanted && self.filling.mark().is_ok() {
            self.unmarked_since_us = None;
            return self.write_group();
        }
        let has_group = !self.waiting.is_empty() || ((flush || is_due) && !self.filling.is_empty());
        if !has_group {
            return self.poll_footer();
        }
        self.write_group()
    }

    /// A footer to write: behind the groups, as nobody waits for it.
    fn poll_footer(&mut self) -> Option<Request> {
        let EncodedFooter { segment, bytes } = self.footers.pop_front()?;
        Some(Request::WriteFooter { segment, bytes })
    }

    /// There may be space again: segments are made.
    pub fn retry_making(&mut self) {
        self.supply.retry();
    }

    /// Whether the next group begins a segment although the last one has capacity for it.
    fn must_begin(&self) -> bool {
        self.supply.wants_to_begin()
    }

    /// Handles a completion of this log's requests.
    pub fn complete(&mut self, completion: Completion, now_us: u64) -> Option<LogEvent> {
        let event = match completion {
            Completion::Made { segment, result } => self.supply.on_made(segment.number, result),
            Completion::Written { group, result, .. } => Some(self.on_written(group, result, now_us)),
            Completion::Synced { result, .. } => self.on_synced(result, now_us),
            Completion::Removed { result, .. } => self.supply.on_removed(result),
            Completion::Read { .. } => None,
            Completion::FooterWritten { result, .. } => Self::on_footer_written(result),
        };
        self.failed |= matches!(event, Some(LogEvent::Failed(_)));
        event
    }

    /// A segment does without its footer. One that has been given back meanwhile needs none.
    fn on_footer_written(result: Result<(), DiskError>) -> Option<LogEvent> {
        result.err().filter(|error| error.kind != DiskErrorKind::NotFound).map(LogEvent::NoFooter)
    }

    fn on_written(&mut self, sealed: SealedGroup, result: Result<(), DiskError>, now_us: u64) -> LogEvent {
        let writing = self.writing.take().expect("a write that was asked for");
        let bytes = sealed.bytes().len() as u64;
        self.unused.push(sealed.group);
        if let Err(error) = result {
            return LogEvent::Failed(error);
        }
        let Writing { group, last, is_data, log_start } = writing;
        self.written.bytes_written += bytes;
        self.written.groups_written += u64::from(is_data);
        self.written.marks_written += u64::from(!is_data);
        let written = UnsyncedWrites { last, is_data, log_start };
        match &mut self.syncs {
            None => self.on_durable(written, now_us),
            Some(syncs) => syncs.on_written(written, now_us),
        }
        LogEvent::Durable(group)
    }

    fn on_synced(&mut self, result: Result<(), DiskError>, now_us: u64) -> Option<LogEvent> {
        let synced = self.syncs.as_mut().and_then(SyncSchedule::complete).expect("a sync that was asked for");
        match result {
            Ok(()) => {
                self.on_durable(synced, now_us);
                None
            }
            Err(error) => Some(LogEvent::Failed(error)),
        }
    }

    /// These writes survive a power failure.
    fn on_durable(&mut self, durable: UnsyncedWrites, now_us: u64) {
        if let Some(number) = durable.log_start {
            self.supply.give_back_before(number);
        }
        self.chain.synced = durable.last;
        // A mark needs no other mark.
        self.unmarked_since_us = durable.is_data.then_some(now_us);
    }

    /// Sends the oldest group on its way, unless there is no segment for it.
    fn write_group(&mut self) -> Option<Request> {
        let blocks = (self.waiting.front().unwrap_or(&self.filling).bytes() / BLOCK_BYTES) as u32;
        let mut log_start = None;
        if !self.fits(blocks) || self.must_begin() {
            let (number, start) = self.supply.begin(self.chain.next, self.chain.previous_crc)?;
            log_start = Some(start);
            self.begin_footer(number);
            // Its first block is the header, which is written with the group.
            self.tail = Some(Tail { number, next_block: 0 });
        }
        if self.waiting.is_empty() {
            self.begin_group();
        }
        let mut group = self.waiting.pop_front()?;
        let number = GroupNumber(self.filling_number.0 - 1 - self.waiting.len() as u64);
        let tail = self.tail.as_mut()?;
        let block = Block(tail.next_block);
        let range = group.seal(&mut self.chain, tail.number, log_start);
        if let Some(footer) = &mut self.footer {
            add_group(footer, &group, block, range.start);
        }
        tail.next_block += (range.len() / BLOCK_BYTES) as u32;
        let segment = SegmentId { log: self.chain.log, number: tail.number };
        self.writing = Some(Writing {
            group: number,
            last: FrameSequence(self.chain.next.0 - 1),
            is_data: group.has_records(),
            log_start: log_start.map(|start| start.number),
        });
        Some(Request::Write { segment, block, group: SealedGroup::new(group, range) })
    }

    /// The last segment is complete, and another one begins.
    fn begin_footer(&mut self, number: SegmentNumber) {
        let Some(footer) = &mut self.footer else { return };
        let Chain { log, next, previous_crc, .. } = self.chain;
        let last = footer.segment().zip(self.tail.as_ref());
        let end = last
            .map(|(number, tail)| (number, SegmentEnd { next, last_crc: previous_crc, block: Block(tail.next_block) }));
        if let Some((number, end)) = end
            && let Some(bytes) = footer.finish(end)
        {
            self.footers.push_back(EncodedFooter { segment: SegmentId { log, number }, bytes });
        }
        footer.begin(SegmentStart { number, first: next, previous_crc });
    }

    /// The group that is being filled waits, and another one is begun.
    fn begin_group(&mut self) {
        let mut next = self.unused.pop().unwrap_or_default();
        next.restart(&self.filling);
        self.waiting.push_back(std::mem::replace(&mut self.filling, next));
        self.filling_number.0 += 1;
    }
}

/// Why the records of a group parse.
const OWN_GROUP: &str = "a group that was filled by this program";

/// Takes the messages that begin behind so many records of their frame.
#[inline]
fn next_alike<'a>(alike: &mut &'a [AlikeMessages], records_before: u32) -> Option<&'a AlikeMessages> {
    let next = alike.first().filter(|next| next.records_before == records_before)?;
    *alike = &alike[1..];
    Some(next)
}

/// Adds a group to the footer of its segment. It is written from this byte of its buffer on, at this block.
pub(crate) fn add_group(footer: &mut FooterWriter, group: &Group, block: Block, from: usize) {
    for SealedFrame { start, mut records, mut alike } in group.frames() {
        footer.begin_frame(Block(block.0 + ((start - from) / BLOCK_BYTES) as u32));
        let count = records.left();
        loop {
            if let Some(next) = next_alike(&mut alike, count - records.left()) {
                footer.add_alike(&records.pass_alike(next).expect(OWN_GROUP), next);
            } else if let Some(record) = records.next_of_same_queue() {
                footer.add_message(&record.expect(OWN_GROUP));
            } else if let Some(record) = records.next_record().expect(OWN_GROUP) {
                footer.add(&record);
            } else {
                break;
            }
        }
    }
}
