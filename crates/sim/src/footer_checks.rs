//! Footers of complete segments that are damaged, cut short or another segment's: a start by them finds what it finds without.
//!
//! Enters: the disks of a broker that is down, and chance.  Leaves: footers that are not what was written; a violation.
//! Owns:   footers that there were before, of which some come again.

use crate::broker_disks::{BrokerDisks, SharedDisk};
use crate::limits::STALE_FOOTERS_MAX;
use crate::store_recovery::store_tag;
use link::sim::SplitMix64;
use std::collections::VecDeque;
use store::{
    AlignedBuffer, Block, Damage, DiskError, FoundMessage, FoundPage, LiveTotals, LogId, OnDamage, Position, QueueUid,
    RecoveredLog, RecoverySink, ScanError, SegmentId, SegmentReader, StoredMessage,
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
    disk: &SharedDisk,
    log: LogId,
) -> Result<(RecoveredLog, FoundMessages), ScanError> {
    let mut found = FoundMessages::default();
    let recovered = store::recover(reader, store_tag(), log, disk.segments(log), OnDamage::Fail, &mut found)?;
    Ok((recovered, found))
}

/// What is wrong with what a start finds by the footers of these disks. Of a disk that is damaged nothing is asked: a start by
/// footers does not read what is not alive, and does not find damage there.
pub fn violation(disks: &BrokerDisks) -> Option<String> {
    let logs = (0..).map(LogId).zip(&disks.messages);
    let log = logs.filter(|(log, disk)| differs(disk, *log)).map(|(log, _)| log).next()?;
    Some(format!("a start by the footers of log {} finds something else than one without them", log.0))
}

fn differs(disk: &SharedDisk, log: LogId) -> bool {
    if disk.peek(|disk| disk.footers(log).is_empty() || !disk.damage().is_empty()) {
        return false;
    }
    match (find(&mut disk.clone(), disk, log), find(&mut WithoutFooters(disk.clone()), disk, log)) {
        (Ok(by_footers), Ok(by_frames)) => by_footers != by_frames,
        (by_footers, by_frames) => by_footers.is_ok() != by_frames.is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::SegmentNumber;

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
