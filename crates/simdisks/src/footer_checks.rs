//! Footers of complete segments that are damaged, cut short or another segment's: a start by them finds what it finds without, or
//! what is alive where a part of the log is damaged.
//!
//! Enters: the disks of a broker that is down, and chance.  Leaves: footers that are not what was written; a violation.
//! Owns:   footers that there were before, of which some come again.

use crate::broker_disks::{BrokerDisks, SharedDisk, store_tag};
use crate::limits::STALE_FOOTERS_MAX;
use crate::log_survey::survey;
use splitmix::SplitMix64;
use std::collections::VecDeque;
use store::{
    AlignedBuffer, Block, Damage, DiskError, FoundMessage, FoundPage, LiveTotals, LogId, OnDamage, Position, QueueUid,
    RecoveredLog, RecoverySink, ScanError, SegmentId, SegmentNumber, SegmentReader, StoredMessage,
};

/// Of a thousand starts, before how many footers are spoiled; and of those footers how many.
const SPOILED_STARTS_PERMILLE: u32 = 300;
const SPOILED_FOOTERS_PERMILLE: u32 = 400;

/// Footers that a disk had, the oldest first: of segments that are gone, and of stores that were written anew.
#[derive(Default)]
pub struct StaleFooters(VecDeque<(SegmentId, Vec<u8>)>);

impl StaleFooters {
    fn keep(&mut self, segment: SegmentId, bytes: &[u8]) {
        if self.0.iter().any(|(other, footer)| (*other, footer.as_slice()) == (segment, bytes)) {
            return;
        }
        if self.0.len() == STALE_FOOTERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((segment, bytes.to_vec()));
    }

    /// One of another content: of a segment with the same number, if there is one.
    fn other_than(&self, segment: SegmentId, bytes: &[u8], chance: &mut SplitMix64) -> Option<Vec<u8>> {
        let others = self.0.iter().filter(|(_, footer)| footer != bytes);
        let (same, any): (Vec<_>, Vec<_>) = others.partition(|(other, _)| *other == segment);
        let from = if same.is_empty() { any } else { same };
        let at = chance.below(from.len().max(1) as u64) as usize;
        from.get(at).map(|(_, footer)| footer.clone())
    }

    /// Now and then spoils some of the footers of the logs of messages. Returns how many, if it was to.
    pub fn spoil(&mut self, disks: &BrokerDisks, mut chance: SplitMix64) -> Option<u64> {
        let is_spoiling = chance.permille(SPOILED_STARTS_PERMILLE);
        let mut spoiled = 0;
        for (number, disk) in disks.messages.iter().enumerate() {
            let log = LogId(number as u32);
            for number in disk.peek(|disk| disk.footers(log)) {
                let segment = SegmentId { log, number };
                let Ok(Some(bytes)) = disk.peek(|disk| disk.read_footer(segment)) else { continue };
                if is_spoiling && chance.permille(SPOILED_FOOTERS_PERMILLE) {
                    spoiled += u64::from(self.spoil_one(disk, segment, &bytes, &mut chance));
                }
                self.keep(segment, &bytes);
            }
        }
        is_spoiling.then_some(spoiled)
    }

    fn spoil_one(&self, disk: &SharedDisk, segment: SegmentId, bytes: &[u8], chance: &mut SplitMix64) -> bool {
        let other = match chance.below(3) {
            0 => {
                let bit = chance.below(8 * bytes.len().max(1) as u64) as usize;
                return disk.with(|disk| disk.flip_footer_bit(segment, bit));
            }
            1 => Some(bytes[..chance.below(bytes.len().max(1) as u64) as usize].to_vec()),
            _ => self.other_than(segment, bytes, chance),
        };
        let Some(other) = other else { return false };
        disk.with(|disk| disk.replace_footer(segment, other));
        true
    }
}

/// A disk that has no footers.
struct WithoutFooters(SharedDisk);

impl SegmentReader for WithoutFooters {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        self.0.read(segment, block, buffer)
    }

    fn read_footer(&mut self, _: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        Ok(None)
    }
}

/// What a start would give to queues, all of which are there.
#[derive(Default, PartialEq)]
struct FoundMessages {
    messages: Vec<(QueueUid, Position, Vec<u8>, FoundMessage)>,
    next: Vec<(QueueUid, Vec<Position>)>,
}

impl RecoverySink for FoundMessages {
    type Message = Vec<u8>;

    fn is_there(&mut self, _: QueueUid) -> bool {
        true
    }

    fn is_loaded(&mut self, _: QueueUid, _: LiveTotals, _: LiveTotals) -> bool {
        true
    }

    fn message(&mut self, message: &StoredMessage<'_>) -> Vec<u8> {
        [message.exchange, message.routing_key, message.properties, message.bcc, message.body].concat()
    }

    fn restore(&mut self, queue: QueueUid, position: Position, message: Vec<u8>, found: FoundMessage) {
        self.messages.push((queue, position, message, found));
    }

    fn restore_page(&mut self, _: QueueUid, _: FoundPage) {
        unreachable!("every queue is loaded");
    }

    fn finish(&mut self, queue: QueueUid, next: &[Position]) {
        self.next.push((queue, next.to_vec()));
    }

    fn on_damage(&mut self, _: &Damage) {}
}

fn find(
    reader: &mut impl SegmentReader,
    log: LogId,
    segments: Vec<SegmentNumber>,
) -> Result<(RecoveredLog, FoundMessages), ScanError> {
    let mut found = FoundMessages::default();
    let recovered = store::recover(reader, store_tag(), log, segments, OnDamage::Fail, &mut found)?;
    Ok((recovered, found))
}

/// What is wrong with what a start finds by the footers of these disks.
pub fn violation(disks: &BrokerDisks) -> Option<String> {
    (0..disks.messages.len()).find_map(|at| violation_of(disks, at))
}

fn violation_of(disks: &BrokerDisks, at: usize) -> Option<String> {
    let (disk, log) = (&disks.messages[at], LogId(at as u32));
    if disk.peek(|disk| disk.footers(log).is_empty()) {
        return None;
    }
    let segments = disk.segments(log);
    let by_footers = find(&mut disk.clone(), log, segments.clone());
    if !disk.peek(|disk| disk.damage().is_empty()) {
        return violation_of_damaged(disks, at, by_footers.map(|(_, messages)| messages));
    }
    let by_frames = find(&mut WithoutFooters(disk.clone()), log, segments);
    let is_same = match (&by_footers, &by_frames) {
        (Ok(by_footers), Ok(by_frames)) => by_footers == by_frames,
        (by_footers, by_frames) => by_footers.is_ok() == by_frames.is_ok(),
    };
    (!is_same).then(|| format!("a start by the footers of log {at} finds something else than one without them"))
}

/// The same where the disk is damaged. A start by footers does not read what is not alive, and does not find damage there: it may
/// go on where one without them is refused, and then it finds what is alive in the log as it would be without damage.
fn violation_of_damaged(
    disks: &BrokerDisks,
    at: usize,
    by_footers: Result<FoundMessages, ScanError>,
) -> Option<String> {
    let (disk, log) = (&disks.messages[at], LogId(at as u32));
    // Where a log cannot be read in spite of everything, the start says so.
    let survey = survey(disks, at, disk).ok()?;
    match by_footers {
        Err(error) if !survey.is_reported() => {
            Some(format!("a start by the footers of log {at} is refused, and one without them is not: {error}"))
        }
        Err(_) => None,
        // What is behind a frame that nothing proves counts no longer, whatever a start reads.
        Ok(_) if survey.is_cut_off() => None,
        Ok(messages) => {
            let segments = disk.segments(log);
            let undamaged = disk.peek(|disk| find(&mut disk.undamaged(), log, segments)).ok()?;
            (undamaged.1 != messages)
                .then(|| format!("a start by the footers of log {at} does not find what is alive, and no damage"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker_disks::DiskOptions;
    use disk::{Disk, DiskFaults, SimulatedDisk};
    use store::limits::SEGMENT_BYTES_MIN;
    use store::{LoggedMessage, MessageLog, MessageLogOptions};

    const BODY_BYTES: usize = 200_000;
    /// More than are read together.
    const SETTLED: u64 = 15;

    #[derive(Clone)]
    struct Body(Vec<u8>);

    impl LoggedMessage for Body {
        fn stored(&self) -> StoredMessage<'_> {
            let body = &self.0;
            StoredMessage { exchange: b"x", routing_key: b"k", properties: &[0, 0], bcc: b"", arrived_us: 1, body }
        }
        fn bytes(&self) -> usize {
            self.0.len()
        }
        fn is_same(&self, _: &Self) -> bool {
            false
        }
    }

    /// Lets a log and its disk do all that is to be done.
    fn settle_down(log: &mut MessageLog<Body>, disk: &mut SimulatedDisk) {
        loop {
            while let Some(request) = log.poll(0) {
                disk.submit(request);
            }
            let Some(due_us) = disk.due_us() else { return };
            disk.set_now(due_us);
            while let Some(completion) = disk.poll() {
                log.complete(completion, 0);
            }
        }
    }

    /// A log of three segments with a message of queue 7 a group; the first ones are settled.
    fn log_with_footers() -> BrokerDisks {
        let good = DiskFaults::default();
        let options = DiskOptions { messages: good, definitions: good, free_limit: 0, scrub: None };
        let disks = BrokerDisks::new(1, 1, options);
        disks.messages[0].with(|disk| {
            let options = MessageLogOptions { segment_bytes: SEGMENT_BYTES_MIN, ..MessageLogOptions::default() };
            let mut log = MessageLog::new(RecoveredLog::empty(store_tag(), LogId(0)), options);
            let messages = 5 * SEGMENT_BYTES_MIN / 2 / BODY_BYTES as u64;
            for position in 1..=messages {
                if position == messages {
                    // It is written with the last message.
                    log.settle(QueueUid(7), Position(1), SETTLED);
                }
                let ticket = log.append(QueueUid(7), Position(position), Body(vec![position as u8; BODY_BYTES]));
                log.await_durable(ticket);
                settle_down(&mut log, disk);
            }
        });
        disks
    }

    /// Flips a bit of the first frame of a segment.
    fn damage(disks: &BrokerDisks, segment: u64) {
        let survey = survey(disks, 0, &disks.messages[0]).expect("a log");
        let mut frames = survey.frames().iter();
        let frame = frames.find(|frame| frame.segment.number == SegmentNumber(segment)).expect("a frame");
        disks.messages[0].with(|disk| disk.flip_bit(frame.segment, frame.block, 300));
    }

    fn find_by_footers(disks: &BrokerDisks) -> Result<FoundMessages, ScanError> {
        let disk = &disks.messages[0];
        find(&mut disk.clone(), LogId(0), disk.segments(LogId(0))).map(|(_, messages)| messages)
    }

    #[test]
    fn a_start_by_the_footers_of_a_damaged_disk_finds_what_is_alive_or_is_refused() {
        // What is settled is damaged, and then what is alive.
        for (segment, is_found) in [(1, true), (2, false)] {
            let disks = log_with_footers();
            assert_eq!(violation(&disks), None);
            damage(&disks, segment);
            assert_eq!(find_by_footers(&disks).is_ok(), is_found, "{segment}");
            assert!(survey(&disks, 0, &disks.messages[0]).expect("a log").is_reported(), "{segment}");
            assert_eq!(violation(&disks), None, "{segment}");
        }
    }

    #[test]
    fn what_a_start_by_the_footers_of_a_damaged_disk_leaves_out_is_a_violation() {
        let disks = log_with_footers();
        damage(&disks, 1);
        let mut found = find_by_footers(&disks).expect("what is damaged is not alive");
        found.messages.pop();
        let violation = violation_of_damaged(&disks, 0, Ok(found)).expect("a message is missing");
        assert!(violation.contains("does not find what is alive"), "{violation}");
        disks.messages[0].with(SimulatedDisk::repair);
        let refused = Err(ScanError::BadFooter { segment: SegmentId { log: LogId(0), number: SegmentNumber(1) } });
        let violation = violation_of_damaged(&disks, 0, refused).expect("nothing is damaged");
        assert!(violation.contains("is refused, and one without them is not"), "{violation}");
    }

    #[test]
    fn a_stale_footer_is_of_the_same_number_if_there_is_one_and_never_the_one_that_is_there() {
        let segment = |number| SegmentId { log: LogId(0), number: SegmentNumber(number) };
        let mut stale = StaleFooters::default();
        let mut chance = SplitMix64::new(1);
        stale.keep(segment(1), b"one");
        assert_eq!(stale.other_than(segment(1), b"one", &mut chance), None);
        assert_eq!(stale.other_than(segment(2), b"two", &mut chance), Some(b"one".to_vec()));
        stale.keep(segment(2), b"before");
        for _ in 0..20 {
            assert_eq!(stale.other_than(segment(2), b"two", &mut chance), Some(b"before".to_vec()));
        }
        (0..2 * STALE_FOOTERS_MAX as u64).for_each(|number| stale.keep(segment(number), &number.to_le_bytes()));
        assert_eq!(stale.0.len(), STALE_FOOTERS_MAX);
    }
}
