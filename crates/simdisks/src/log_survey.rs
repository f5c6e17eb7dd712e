//! What the damage of a disk does to a log: what must be reported at a start, and which records are lost.
//!
//! Enters: a disk that knows what it should hold.  Leaves: what a start must report; what went with the frames that are lost.
//!
//! The disk that was not damaged is the witness: what its log has, and the log as it is has not, is lost.

mod damage_outcome;

pub use damage_outcome::outcome_of;

use crate::broker_disks::{BrokerDisks, SharedDisk, store_tag};
use disk::SimulatedDisk;
use durability::JOURNAL_LOG;
use std::collections::{BTreeMap, BTreeSet};
use store::limits::{BLOCK_BYTES, FRAME_HEADER_BYTES};
use store::{
    AlignedBuffer, Block, Damage, Frame, FrameHeader, FrameQueue, FrameSequence, LogEnd, LogId, OnDamage, QueueUid,
    Record, RecordVisitor, ScanResult, SegmentHeader, SegmentId, SegmentNumber, SegmentReader, StoredMessage,
    UnreadableEnd, scan,
};

/// The number of a log on one of the disks, and the log of definitions on the last one.
pub fn log_of(disks: &BrokerDisks, at: usize) -> LogId {
    if at < disks.messages.len() { LogId(at as u32) } else { JOURNAL_LOG }
}

/// Compares the log of a disk with what that should be.
///
/// # Errors
/// Not even without damage it can be read.
pub fn survey(disks: &BrokerDisks, at: usize, disk: &SharedDisk) -> Result<LogSurvey, String> {
    let options = disks.options();
    let faults = if at < disks.messages.len() { options.messages } else { options.definitions };
    disk.survey(log_of(disks, at), faults.misdirected_write > 0)
}

impl SharedDisk {
    /// Compares its log with what that should be. The comparison is not the disk's memory.
    fn survey(&self, log: LogId, is_astray: bool) -> Result<LogSurvey, String> {
        self.peek(|disk| LogSurvey::of(disk, log, is_astray))
    }
}

/// Frames by their indexes, the last one included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FrameSpan {
    first: usize,
    last: usize,
}

impl FrameSpan {
    fn meets(&self, frames: &BTreeSet<usize>) -> bool {
        frames.range(self.first..=self.last).next().is_some()
    }
}

/// A frame of the undamaged log, and where it is.
#[derive(Clone, Copy)]
pub struct SurveyedFrame {
    pub segment: SegmentId,
    pub block: Block,
    pub header: FrameHeader,
}

/// A message: its queue, its position and the number that its body begins with.
type SurveyedMessage = (QueueUid, u64, u64);

/// A large message whose body is followed.
struct LargeMessage {
    queue: QueueUid,
    position: u64,
    first: usize,
    body: Vec<u8>,
    body_bytes: u64,
}

/// What the undamaged log has.
#[derive(Default)]
struct UndamagedLog {
    frames: Vec<SurveyedFrame>,
    /// The frames that each copy of a message needs.
    messages: BTreeMap<SurveyedMessage, Vec<FrameSpan>>,
    /// Settlements, and whatever else a queue must know of its messages.
    changes: Vec<(QueueUid, FrameSpan)>,
    /// The frame's table of queues.
    table: Vec<QueueUid>,
    last_id: Option<u64>,
    large: Option<LargeMessage>,
    /// A commit without its end: the frame that it begins in, and what it has.
    commit: Option<(usize, Vec<SurveyedMessage>, Vec<QueueUid>)>,
}

/// The number that a body begins with.
fn id_of(body: &[u8]) -> Option<u64> {
    body.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

impl UndamagedLog {
    fn frame(&self) -> usize {
        self.frames.len() - 1
    }

    fn queue(&self, queue: FrameQueue) -> QueueUid {
        self.table[queue.0 as usize]
    }

    fn message(&mut self, message: SurveyedMessage, first: usize) {
        let span = FrameSpan { first, last: self.frame() };
        match &mut self.commit {
            Some((_, messages, _)) => messages.push(message),
            None => self.messages.entry(message).or_default().push(span),
        }
    }

    fn change(&mut self, queue: QueueUid) {
        let frame = self.frame();
        match &mut self.commit {
            Some((.., changes)) => changes.push(queue),
            None => self.changes.push((queue, FrameSpan { first: frame, last: frame })),
        }
    }

    fn part(&mut self, part: &[u8]) {
        let Some(large) = &mut self.large else { return };
        large.body.extend_from_slice(part);
        if (large.body.len() as u64) < large.body_bytes {
            return;
        }
        if let Some(LargeMessage { queue, position, first, body, .. }) = self.large.take()
            && let Some(id) = id_of(&body)
        {
            self.message((queue, position, id), first);
        }
    }

    /// A commit is whole: all of it needs all frames from its beginning on.
    fn end_commit(&mut self) {
        let Some((first, messages, changes)) = self.commit.take() else { return };
        let span = FrameSpan { first, last: self.frame() };
        for message in messages {
            self.messages.entry(message).or_default().push(span);
        }
        self.changes.extend(changes.into_iter().map(|queue| (queue, span)));
    }
}

impl RecordVisitor for UndamagedLog {
    fn on_frame(&mut self, segment: SegmentId, block: Block, header: &FrameHeader) {
        self.frames.push(SurveyedFrame { segment, block, header: *header });
        self.table.clear();
        self.last_id = None;
    }

    fn on_record(&mut self, record: Record<'_>) {
        let frame = self.frame();
        match record {
            Record::Queue { uid, .. } => self.table.push(uid),
            Record::Message { queue, position, message: StoredMessage { body, .. } } => {
                self.last_id = id_of(body);
                if let Some(id) = self.last_id {
                    self.message((self.queue(queue), position.0, id), frame);
                }
            }
            Record::Again { queue, position } => {
                if let Some(id) = self.last_id {
                    self.message((self.queue(queue), position.0, id), frame);
                }
            }
            Record::Large { queue, position, body_bytes, .. } => {
                let (queue, position, first) = (self.queue(queue), position.0, frame);
                self.large = Some(LargeMessage { queue, position, first, body: Vec::new(), body_bytes });
            }
            Record::Part(part) => self.part(part),
            Record::Settled { queue, .. } | Record::Seen { queue, .. } | Record::Returned { queue, .. } => {
                self.change(self.queue(queue));
            }
            Record::CommitBegin => self.commit = Some((frame, Vec::new(), Vec::new())),
            Record::CommitEnd => self.end_commit(),
            Record::CommitAborted => self.commit = None,
            Record::Definition { .. } => {}
        }
    }

    fn on_damage(&mut self, _: &Damage) {}
}

/// The frames that a start finds.
#[derive(Default)]
struct FoundFrames(BTreeSet<FrameSequence>);

impl RecordVisitor for FoundFrames {
    fn on_frame(&mut self, _: SegmentId, _: Block, header: &FrameHeader) {
        self.0.insert(header.sequence);
    }
    fn on_record(&mut self, _: Record<'_>) {}
    fn on_damage(&mut self, _: &Damage) {}
}

/// What is lost with the frames that are.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct LostRecords {
    /// The queue and the number of each message.
    pub messages: BTreeSet<(QueueUid, u64)>,
    /// Those of them that nothing names: they were in frames that are cut off.
    pub unproven: BTreeSet<(QueueUid, u64)>,
    /// Queues of which a settlement may be lost, or how often a message was delivered.
    pub changed: BTreeSet<QueueUid>,
}

impl LostRecords {
    /// Whether anything is.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.changed.is_empty()
    }

    /// What others have lost, too.
    pub fn add(&mut self, mut other: LostRecords) {
        self.messages.append(&mut other.messages);
        self.unproven.append(&mut other.unproven);
        self.changed.append(&mut other.changed);
    }
}

/// A damaged log, compared with the same log without damage.
pub struct LogSurvey {
    log: UndamagedLog,
    /// What a start that goes on in spite of damage says, or why it cannot.
    pub reported: Result<Vec<Damage>, String>,
    /// Where it says that the log ends in a frame that cannot be read.
    unreadable_end: Option<UnreadableEnd>,
    /// The frame at which the log is cut off, if its header is whole: then the start must say so.
    cut_off_at: Option<UnreadableEnd>,
    /// Frames that cannot be read where they should be.
    hit: BTreeSet<usize>,
    /// Of these, those of which something readable says that they had been durable.
    proven: BTreeSet<usize>,
    /// Frames that a start does not find.
    lost: BTreeSet<usize>,
    /// The segments of the undamaged log, in their order.
    segments: Vec<SegmentNumber>,
    /// The first block of a segment is damaged: where the log begins may not be known.
    has_lost_header: bool,
    /// Writes may lie elsewhere.
    is_astray: bool,
}

impl LogSurvey {
    /// Compares. `Err` says why not even the undamaged log can be read.
    pub fn of(disk: &mut SimulatedDisk, log: LogId, is_astray: bool) -> Result<LogSurvey, String> {
        let segments = disk.segments(log);
        let start = LogEnd::empty(store_tag(), log).chain;
        let mut undamaged = UndamagedLog::default();
        let kept = scan(start, segments.clone(), OnDamage::Fail, &mut disk.undamaged(), &mut undamaged)
            .map_err(|error| format!("without damage {log:?} cannot be read: {error}"))?;
        let mut found = FoundFrames::default();
        let reported = scan(start, segments, OnDamage::Skip, disk, &mut found);
        let unreadable_end = reported.as_ref().ok().and_then(|result| result.unreadable_end);
        let reported = reported.map(|result| result.damage).map_err(|error| error.to_string());
        let frames = undamaged.frames.iter().enumerate();
        let lost = frames.filter(|(_, frame)| !found.0.contains(&frame.header.sequence)).map(|(at, _)| at).collect();
        let has_lost_header = disk.damage().places().any(|(segment, block)| segment.log == log && block == Block(0));
        let mut survey = LogSurvey {
            log: undamaged,
            reported,
            unreadable_end,
            cut_off_at: None,
            hit: BTreeSet::new(),
            proven: BTreeSet::new(),
            lost,
            segments: kept.end.segments.iter().map(|start| start.number).collect(),
            has_lost_header,
            is_astray,
        };
        survey.find_proof(disk, &kept);
        survey.cut_off_at = survey.cut_off_at(disk);
        Ok(survey)
    }

    /// The frames of the undamaged log.
    pub fn frames(&self) -> &[SurveyedFrame] {
        &self.log.frames
    }

    /// Where a frame is that is damaged, and the last of all those in a row of its segment that are, from this one on.
    pub fn damaged_from(&self, first: FrameSequence) -> Option<(SegmentId, Block, FrameSequence)> {
        let at = self.log.frames.iter().position(|frame| frame.header.sequence == first)?;
        let SurveyedFrame { segment, block, .. } = self.log.frames[at];
        let damaged = (at..).take_while(|at| {
            self.hit.contains(at) && self.log.frames.get(*at).is_some_and(|frame| frame.segment == segment)
        });
        Some((segment, block, self.log.frames[damaged.last()?].header.sequence))
    }

    /// Whether a frame is damaged, or a start does not find it.
    pub fn is_lost(&self, sequence: FrameSequence) -> bool {
        let at = self.log.frames.iter().position(|frame| frame.header.sequence == sequence);
        at.is_some_and(|at| self.lost.contains(&at) || self.hit.contains(&at))
    }

    /// Frames that are damaged, or that a start does not find.
    pub fn lost_frames(&self) -> impl Iterator<Item = FrameSequence> {
        self.lost.union(&self.hit).map(|&at| self.log.frames[at].header.sequence)
    }

    /// The frames that cannot be read in the last so many segments.
    pub fn damaged_in_last(&self, segments: usize) -> impl Iterator<Item = &SurveyedFrame> {
        let first = self.segments.len().checked_sub(segments).map(|at| self.segments[at..].first().copied());
        let frames = self.hit.iter().map(|&at| &self.log.frames[at]);
        frames.filter(move |frame| first.is_some_and(|first| first.is_some_and(|first| frame.segment.number >= first)))
    }

    fn find_proof(&mut self, disk: &mut SimulatedDisk, kept: &ScanResult) {
        let mut readable = Vec::new();
        for (at, frame) in self.log.frames.iter().enumerate() {
            match is_readable(disk, frame) {
                true => readable.push(frame.header),
                false => _ = self.hit.insert(at),
            }
        }
        if !self.is_astray {
            readable.extend(torn_frames(disk, &kept.end));
        }
        let segments = kept.end.segments.iter().filter(|start| {
            let id = SegmentId { log: kept.end.chain.log, number: start.number };
            read(disk, id, Block(0), BLOCK_BYTES)
                .is_some_and(|block| SegmentHeader::read(&block).is_ok_and(|header| header.number == start.number))
        });
        let begun = segments.map(|start| start.first).max();
        let synced = readable.iter().map(|header| header.synced).max();
        let is_proven = |sequence: FrameSequence| {
            begun.is_some_and(|first| first > sequence) || synced.is_some_and(|synced| synced >= sequence)
        };
        let sequence_of = |at: &usize| self.log.frames[*at].header.sequence;
        self.proven = self.hit.iter().copied().filter(|at| is_proven(sequence_of(at))).collect();
    }

    /// Whether a start that goes on in spite of damage names this frame.
    fn is_named(&self, at: usize) -> bool {
        let sequence = self.log.frames[at].header.sequence;
        self.reported.iter().flatten().any(|one| (one.first..one.next).contains(&sequence))
    }

    /// A start has cut off the log where nothing proves that a damaged frame had been durable, and goes on from there: what was
    /// behind is no part of the log any more. It is what the start has neither found, maybe where a write lies that went astray,
    /// nor named.
    pub fn accept_cut(&self, disk: &mut SimulatedDisk) {
        let is_cut_off = |at: &usize| self.lost.contains(at) && !self.is_named(*at);
        let cut_off = (0..self.log.frames.len()).rev().take_while(is_cut_off).count();
        for frame in self.log.frames.iter().rev().take(cut_off) {
            disk.accept_damage(frame.segment, frame.block, frame.header.blocks() as usize * BLOCK_BYTES);
        }
    }

    /// The first damaged frame of which nothing says that it had been durable.
    fn first_unproven(&self) -> Option<usize> {
        self.hit.iter().copied().find(|at| !self.proven.contains(at))
    }

    /// Whether the log ends at a damaged frame of which nothing says that it had been durable.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.first_unproven().is_some()
    }

    /// Where the log is cut off, if the frame that is damaged there still says what it is.
    fn cut_off_at(&self, disk: &mut SimulatedDisk) -> Option<UnreadableEnd> {
        let at = self.first_unproven().filter(|at| self.lost.contains(at))?;
        let SurveyedFrame { segment, block, .. } = self.log.frames[at];
        let should = read(&mut disk.undamaged(), segment, block, BLOCK_BYTES)?;
        let is = read(disk, segment, block, BLOCK_BYTES)?;
        (is[..FRAME_HEADER_BYTES] == should[..FRAME_HEADER_BYTES]).then_some(UnreadableEnd { segment, block })
    }

    /// Whether a start must refuse.
    pub fn is_reported(&self) -> bool {
        self.reported.as_ref().map_or(true, |damage| !damage.is_empty())
    }

    /// What is wrong with the report. What had been durable as far as anything can prove is reported; the rest of the log, behind a
    /// frame that nothing proves, is cut off; nothing else is lost, and nothing else is reported.
    pub fn violation(&self) -> Option<String> {
        let reported = match &self.reported {
            Ok(reported) => reported,
            Err(_) if self.has_lost_header => return None,
            Err(error) => return Some(format!("damage, and a start cannot go on in spite of it: {error}")),
        };
        let sequence_of = |at: usize| self.log.frames[at].header.sequence;
        if let Some(at) = (0..self.log.frames.len()).find(|&at| self.is_named(at) && !self.lost.contains(&at)) {
            return Some(format!("frame {} is reported missing, and was read", sequence_of(at).0));
        }
        let first_unproven = self.first_unproven();
        let is_cut_off = |at: usize| first_unproven.is_some_and(|first| first <= at);
        if let Some(&at) = self.lost.iter().find(|&&at| !self.is_named(at) && !is_cut_off(at)) {
            return Some(format!("frame {} had been durable, is missing, and is not reported", sequence_of(at).0));
        }
        if self.has_lost_header || self.is_astray {
            return None;
        }
        if let Some(end) = self.cut_off_at.filter(|end| self.unreadable_end != Some(*end)) {
            return Some(format!("{end}, and {:?} is told", self.unreadable_end));
        }
        if let Some(&at) = self.proven.iter().find(|&&at| !self.is_named(at)) {
            return Some(format!("frame {} is damaged, as another one proves, and is not reported", sequence_of(at).0));
        }
        if let Some(&at) = self.lost.iter().find(|&&at| !self.proven.contains(&at) && !is_cut_off(at)) {
            return Some(format!("frame {} is missing, and is not damaged", sequence_of(at).0));
        }
        (self.proven.is_empty() && !reported.is_empty()).then(|| format!("nothing is damaged but {}", reported[0]))
    }

    /// What went with the frames that are lost: of a message that was written twice, all copies.
    pub fn lost_records(&self) -> LostRecords {
        let messages = self.log.messages.iter().filter(|(_, copies)| copies.iter().all(|copy| copy.meets(&self.lost)));
        let changed = self.log.changes.iter().filter(|(_, span)| span.meets(&self.lost));
        let named = self.lost.iter().copied().filter(|&at| self.is_named(at)).collect();
        let unproven = messages.clone().filter(|(_, copies)| !copies.iter().any(|copy| copy.meets(&named)));
        LostRecords {
            unproven: unproven.map(|(&(queue, _, id), _)| (queue, id)).collect(),
            messages: messages.map(|(&(queue, _, id), _)| (queue, id)).collect(),
            changed: changed.map(|&(queue, _)| queue).collect(),
        }
    }
}

fn read(disk: &mut impl SegmentReader, segment: SegmentId, block: Block, bytes: usize) -> Option<AlignedBuffer> {
    let mut buffer = AlignedBuffer::new(bytes);
    let filled = disk.read(segment, block, &mut buffer).ok()?;
    (filled == bytes).then_some(buffer)
}

/// Frames behind the end of the undamaged log: parts of a write that was under way when the power failed. They do not count, but
/// what they say of those before them is true.
fn torn_frames(disk: &mut SimulatedDisk, end: &LogEnd) -> Vec<FrameHeader> {
    let (log, last) = (end.chain.log, end.segments.last().map(|start| start.number));
    let numbers = disk.segments(log).into_iter().filter(|number| last.is_none_or(|last| *number >= last));
    let mut found = Vec::new();
    for id in numbers.map(|number| SegmentId { log, number }) {
        let blocks = disk.written_end(id).0 as usize;
        let Some(bytes) = read(disk, id, Block(0), blocks * BLOCK_BYTES) else { continue };
        let mut at = 1;
        while at < blocks {
            let frame = Frame::read(&bytes[at * BLOCK_BYTES..]).ok().map(|frame| frame.header);
            let own =
                frame.filter(|header| (header.store, header.log, header.segment) == (store_tag(), log, id.number));
            at += own.as_ref().map_or(1, |header| header.blocks() as usize);
            found.extend(own.filter(|header| header.sequence >= end.chain.next));
        }
    }
    found
}

fn is_readable(disk: &mut SimulatedDisk, frame: &SurveyedFrame) -> bool {
    let bytes = frame.header.blocks() as usize * BLOCK_BYTES;
    read(disk, frame.segment, frame.block, bytes)
        .is_some_and(|bytes| Frame::read(&bytes).is_ok_and(|found| found.header == frame.header))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Disk, DiskFaults};
    use store::limits::SEGMENT_BYTES_MIN;
    use store::{LogEvent, LogWriter};

    const LOG: LogId = LogId(0);

    /// A log of four groups, each of which proves those before it.
    fn log() -> SimulatedDisk {
        let mut disk = SimulatedDisk::new(1, DiskFaults::default());
        let mut writer = LogWriter::new(LogEnd::empty(store_tag(), LOG), SEGMENT_BYTES_MIN);
        for version in 1..=4 {
            writer.append(|group| group.definition(version, b"a definition"));
            loop {
                while let Some(request) = writer.poll(0, true) {
                    disk.submit(request);
                }
                disk.set_now(disk.due_us().expect("something is under way"));
                let event = disk.poll().and_then(|completion| writer.complete(completion, 0));
                if let Some(LogEvent::Durable(_)) = event {
                    break;
                }
            }
        }
        disk
    }

    fn survey(disk: &mut SimulatedDisk) -> LogSurvey {
        survey_of(disk, false)
    }

    fn survey_of(disk: &mut SimulatedDisk, is_astray: bool) -> LogSurvey {
        LogSurvey::of(disk, LOG, is_astray).expect("a log")
    }

    #[test]
    fn damage_is_reported_if_a_later_frame_proves_it_and_the_end_of_a_log_is_cut_off() {
        for (hit, is_reported, lost) in [(None, false, vec![]), (Some(1), true, vec![1]), (Some(3), false, vec![3])] {
            let mut disk = log();
            let frames = survey(&mut disk).frames().to_vec();
            assert_eq!(frames.len(), 4);
            if let Some(at) = hit {
                let SurveyedFrame { segment, block, .. } = frames[at];
                // Of its records.
                disk.flip_bit(segment, block, 8 * FRAME_HEADER_BYTES + 3);
            }
            let found = survey(&mut disk);
            assert_eq!((found.violation(), found.is_reported()), (None, is_reported), "{hit:?}");
            assert_eq!(found.lost.iter().copied().collect::<Vec<_>>(), lost);
            // What is cut off is told, if the frame still says what it is.
            assert_eq!(found.cut_off_at.is_some(), hit == Some(3), "{hit:?}");
            assert_eq!(found.unreadable_end, found.cut_off_at, "{hit:?}");
        }
    }

    /// A frame, and behind it a group of several whose write the power failure tears.
    fn torn_log(seed: u64) -> SimulatedDisk {
        let mut disk = SimulatedDisk::new(seed, DiskFaults::default());
        let mut writer = LogWriter::new(LogEnd::empty(store_tag(), LOG), SEGMENT_BYTES_MIN);
        let mut is_first_durable = false;
        writer.append(|group| group.definition(1, &[1; 100]));
        loop {
            while let Some(request) = writer.poll(0, true) {
                let is_write = matches!(request, store::Request::Write { .. });
                disk.submit(request);
                if is_write && is_first_durable {
                    disk.cut_power();
                    return disk;
                }
            }
            disk.set_now(disk.due_us().expect("something is under way"));
            let event = disk.poll().and_then(|completion| writer.complete(completion, 0));
            if let Some(LogEvent::Durable(_)) = event {
                is_first_durable = true;
                (2..5).for_each(|version| _ = writer.append(|group| group.definition(version, &[2; 40_000])));
            }
        }
    }

    #[test]
    fn what_is_left_of_a_torn_write_proves_what_was_before_it() {
        let is_proof = |disk: &mut SimulatedDisk| {
            let mut end = LogEnd::empty(store_tag(), LOG);
            end.chain.next = FrameSequence(2);
            survey(disk).frames().len() == 1 && !torn_frames(disk, &end).is_empty()
        };
        let mut found = (0..200).map(torn_log).filter_map(|mut disk| is_proof(&mut disk).then_some(disk));
        let mut disk = found.next().expect("some writes lose their first frame alone");
        let SurveyedFrame { segment, block, .. } = survey(&mut disk).frames()[0];
        disk.flip_bit(segment, block, 300);
        let damaged = survey(&mut disk);
        assert_eq!((damaged.violation(), damaged.is_reported()), (None, true));
    }

    #[test]
    fn what_a_start_has_cut_off_is_no_part_of_the_log_and_no_backup_brings_it_back() {
        for is_astray in [false, true] {
            let mut disk = log();
            let SurveyedFrame { segment, block, .. } = survey(&mut disk).frames()[3];
            disk.flip_bit(segment, block, 300);
            let before = survey_of(&mut disk, is_astray);
            before.accept_cut(&mut disk);
            let after = survey_of(&mut disk, is_astray);
            assert_eq!((before.frames().len(), after.frames().len(), after.hit.len()), (4, 3, 0));
            // What is proven is missed until it is repaired.
            let SurveyedFrame { segment, block, .. } = after.frames()[1];
            disk.flip_bit(segment, block, 300);
            survey_of(&mut disk, is_astray).accept_cut(&mut disk);
            assert_eq!(survey_of(&mut disk, is_astray).hit.len(), 1);
            disk.repair();
            let repaired = survey_of(&mut disk, is_astray);
            assert_eq!((repaired.frames().len(), repaired.hit.len()), (3, 0));
        }
    }

    #[test]
    fn a_report_that_leaves_out_damage_or_names_what_is_there_is_a_violation() {
        let mut disk = log();
        let SurveyedFrame { segment, block, .. } = survey(&mut disk).frames()[1];
        disk.flip_bit(segment, block, 300);
        let mut silent = survey(&mut disk);
        silent.reported = Ok(Vec::new());
        assert!(silent.violation().is_some_and(|what| what.contains("is not reported")));
        let mut loud = survey(&mut disk);
        let named = loud.reported.as_mut().expect("damage");
        named[0].next = FrameSequence(named[0].next.0 + 1);
        assert!(loud.violation().is_some_and(|what| what.contains("was read")));
    }
}
