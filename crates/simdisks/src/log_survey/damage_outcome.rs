//! What becomes of a damaged place when its log is read.

use super::{LogSurvey, read};
use crate::broker_disks::BrokerDisks;
use crate::damage_ledger::{DamageKind, DamageOutcome, PlacedDamage};
use disk::SimulatedDisk;
use store::limits::BLOCK_BYTES;
use store::{AlignedBuffer, Block, SegmentHeader, SegmentId, SegmentReader};

/// Whether a block holds what was last written there.
fn is_as_written(disk: &mut SimulatedDisk, segment: SegmentId, block: Block) -> bool {
    let mut should = AlignedBuffer::new(BLOCK_BYTES);
    let filled = disk.undamaged().read(segment, block, &mut should);
    let is = read(disk, segment, block, BLOCK_BYTES);
    filled == Ok(BLOCK_BYTES) && is.is_some_and(|is| is[..] == should[..])
}

/// What a start makes of a place that was damaged. `surveys` has the logs of those disks that are damaged.
pub fn outcome_of(disks: &BrokerDisks, surveys: &[Option<LogSurvey>], place: &PlacedDamage) -> DamageOutcome {
    let survey = surveys.get(place.disk).and_then(Option::as_ref);
    match (survey, disks.all().nth(place.disk)) {
        (Some(survey), Some(disk)) => disk.peek(|disk| survey.outcome_of(disk, place)),
        // Nothing of the disk is damaged any more.
        _ => DamageOutcome::GivenBack,
    }
}

impl LogSurvey {
    fn outcome_of(&self, disk: &mut SimulatedDisk, place: &PlacedDamage) -> DamageOutcome {
        let &PlacedDamage { segment, block, kind, .. } = place;
        if !disk.damage().places().any(|damaged| damaged == (segment, block)) {
            return DamageOutcome::GivenBack;
        }
        if is_as_written(disk, segment, block) {
            return DamageOutcome::Undone;
        }
        if block == Block(0) && kind == DamageKind::FlippedBit {
            return self.outcome_of_header(disk, segment);
        }
        let frames = self.log.frames.iter().enumerate();
        let mut frames = frames.filter(|(_, frame)| {
            let end = frame.block.0 + frame.header.blocks();
            // What is behind the end of a segment that was cut off is all gone: the first frame stands for it.
            let begins = kind == DamageKind::CutSegment || frame.block <= block;
            frame.segment == segment && begins && end > block.0
        });
        match frames.next() {
            None => DamageOutcome::Unused,
            Some((at, _)) => self.outcome_of_frame(at),
        }
    }

    fn outcome_of_header(&self, disk: &mut SimulatedDisk, segment: SegmentId) -> DamageOutcome {
        let header = read(disk, segment, Block(0), BLOCK_BYTES);
        if header.is_some_and(|block| SegmentHeader::read(&block).is_ok()) {
            return DamageOutcome::Padding;
        }
        match &self.reported {
            Err(_) => DamageOutcome::NamedByStart,
            Ok(_) if !self.segments.contains(&segment.number) => DamageOutcome::Unused,
            // Where frames are missing that it would have proved, they are cut off; else all of them are there.
            Ok(_) => {
                let mut own = (0..self.log.frames.len()).filter(|&at| self.log.frames[at].segment == segment);
                match own.all(|at| !self.lost.contains(&at) || self.is_accounted_for(at)) {
                    true => DamageOutcome::Header,
                    false => DamageOutcome::Silent,
                }
            }
        }
    }

    /// Whether a frame that a start does not find is named, or cut off with all that follows it.
    fn is_accounted_for(&self, at: usize) -> bool {
        self.is_named(at) || self.first_unproven().is_some_and(|first| first <= at)
    }

    fn outcome_of_frame(&self, at: usize) -> DamageOutcome {
        if !self.hit.contains(&at) {
            return DamageOutcome::Padding;
        }
        if self.reported.is_err() || self.is_named(at) {
            return DamageOutcome::NamedByStart;
        }
        if !self.lost.contains(&at) {
            return DamageOutcome::ReadElsewhere;
        }
        match self.first_unproven() {
            Some(first) if first <= at => DamageOutcome::CutOff,
            _ => DamageOutcome::Silent,
        }
    }
}
