//! Places of the disks that were damaged, and what has become of each: what has named it, or why nothing had to.
//!
//! Enters: a place, when it is damaged; what has become of it, when a log is read or the damage ends.
//! Leaves: how many places had which outcome; one that should have been named and was not.

use std::fmt::{self, Display, Formatter};
use std::ops::AddAssign;
use store::{Block, SegmentId};

/// How a place was damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamageKind {
    /// A bit of the block is flipped.
    FlippedBit,
    /// The segment ends before the block.
    CutSegment,
}

/// A place that was damaged on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacedDamage {
    /// The disk, by its index.
    pub disk: usize,
    pub segment: SegmentId,
    pub block: Block,
    pub kind: DamageKind,
}

/// What has become of a place that was damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DamageOutcome {
    /// A scrub has named its frame.
    NamedByScrub,
    /// What reads the log, as a start does, names its frame, or refuses the log for it.
    NamedByStart,
    /// Its frame is cut off like a torn write: nothing that can be read says that it had been durable, or a frame in front of it.
    CutOff,
    /// It is the header of a segment, and the frames of the log are found without it.
    Header,
    /// The frame lies elsewhere too, where a write went astray, and is read there.
    ReadElsewhere,
    /// It lies behind the records of a frame, or behind the header of a segment: nobody reads that.
    Padding,
    /// No frame of the log has it: it is behind the end, or in a segment that was made ahead or has been given back.
    Unused,
    /// The block was written anew or its segment has been given back before anything was read.
    GivenBack,
    /// A second flip has made it what it was.
    Undone,
    /// Its frame is lost, and nothing names it: that is a violation.
    Silent,
}

/// How many places had which outcome.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct DamageOutcomes {
    pub named_by_scrub: u64,
    pub named_by_start: u64,
    pub cut_off: u64,
    pub headers: u64,
    pub read_elsewhere: u64,
    pub padding: u64,
    pub unused: u64,
    pub given_back: u64,
    pub undone: u64,
    pub silent: u64,
}

impl DamageOutcomes {
    /// One more has this outcome.
    pub fn count(&mut self, outcome: DamageOutcome) {
        *match outcome {
            DamageOutcome::NamedByScrub => &mut self.named_by_scrub,
            DamageOutcome::NamedByStart => &mut self.named_by_start,
            DamageOutcome::CutOff => &mut self.cut_off,
            DamageOutcome::Header => &mut self.headers,
            DamageOutcome::ReadElsewhere => &mut self.read_elsewhere,
            DamageOutcome::Padding => &mut self.padding,
            DamageOutcome::Unused => &mut self.unused,
            DamageOutcome::GivenBack => &mut self.given_back,
            DamageOutcome::Undone => &mut self.undone,
            DamageOutcome::Silent => &mut self.silent,
        } += 1;
    }

    /// All of them.
    pub fn sum(&self) -> u64 {
        self.parts().iter().map(|(count, _)| count).sum()
    }

    /// Each count, with what it is of.
    fn parts(&self) -> [(u64, &'static str); 10] {
        // Every field is named in a pattern without `..`, so that a new count cannot be forgotten.
        let DamageOutcomes {
            named_by_scrub,
            named_by_start,
            cut_off,
            headers,
            read_elsewhere,
            padding,
            unused,
            given_back,
            undone,
            silent,
        } = *self;
        [
            (named_by_scrub, "named by a scrub"),
            (named_by_start, "named by a start"),
            (cut_off, "cut off like torn writes"),
            (headers, "headers whose frames were read"),
            (read_elsewhere, "read elsewhere"),
            (padding, "padding"),
            (unused, "not in use"),
            (given_back, "given back or written anew"),
            (undone, "undone"),
            (silent, "silent"),
        ]
    }
}

impl AddAssign for DamageOutcomes {
    fn add_assign(&mut self, other: DamageOutcomes) {
        self.named_by_scrub += other.named_by_scrub;
        self.named_by_start += other.named_by_start;
        self.cut_off += other.cut_off;
        self.headers += other.headers;
        self.read_elsewhere += other.read_elsewhere;
        self.padding += other.padding;
        self.unused += other.unused;
        self.given_back += other.given_back;
        self.undone += other.undone;
        self.silent += other.silent;
    }
}

impl Display for DamageOutcomes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, (count, what)) in self.parts().into_iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{count} {what}")?;
        }
        Ok(())
    }
}

/// Places whose outcome is not known yet.
#[derive(Default)]
pub struct DamageLedger(Vec<PlacedDamage>);

impl DamageLedger {
    /// A place was damaged, and no scrub has named it.
    pub fn add(&mut self, place: PlacedDamage) {
        self.0.push(place);
    }

    /// The logs are read now, or the damage ends: decides what becomes of all places. `Err` names one that is lost in silence.
    pub fn decide(
        &mut self,
        outcomes: &mut DamageOutcomes,
        outcome_of: impl Fn(&PlacedDamage) -> DamageOutcome,
    ) -> Result<(), String> {
        let mut silent = None;
        for place in std::mem::take(&mut self.0) {
            let outcome = outcome_of(&place);
            outcomes.count(outcome);
            silent = silent.or(Some(place).filter(|_| outcome == DamageOutcome::Silent));
        }
        let Some(PlacedDamage { disk, segment, block, .. }) = silent else { return Ok(()) };
        Err(format!("disk {disk}: {segment} is damaged at block {}, its frame is lost, and nothing says so", block.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{DamageKind, DamageLedger, DamageOutcome, DamageOutcomes, PlacedDamage};
    use store::{Block, LogId, SegmentId, SegmentNumber};

    #[test]
    fn a_place_is_decided_once_and_one_that_is_silent_is_named() {
        let segment = SegmentId { log: LogId(0), number: SegmentNumber(3) };
        let place = |block| PlacedDamage { disk: 2, segment, block: Block(block), kind: DamageKind::FlippedBit };
        let (mut ledger, mut outcomes) = (DamageLedger::default(), DamageOutcomes::default());
        (1..4).for_each(|block| ledger.add(place(block)));
        let silent_is = |silent: Block| {
            move |place: &PlacedDamage| {
                if place.block == silent { DamageOutcome::Silent } else { DamageOutcome::Padding }
            }
        };
        let violation = ledger.decide(&mut outcomes, silent_is(Block(2))).expect_err("one is silent");
        assert!(violation.starts_with("disk 2: segment 3 of log 0 is damaged at block 2,"), "{violation}");
        assert_eq!((outcomes.padding, outcomes.silent), (2, 1));
        ledger.add(place(4));
        assert_eq!(ledger.decide(&mut outcomes, silent_is(Block(2))), Ok(()));
        assert_eq!((outcomes.padding, outcomes.sum()), (3, 4));
    }

    #[test]
    fn each_outcome_has_a_count_of_its_own_and_all_are_added_and_shown() {
        let all = [
            DamageOutcome::NamedByScrub,
            DamageOutcome::NamedByStart,
            DamageOutcome::CutOff,
            DamageOutcome::Header,
            DamageOutcome::ReadElsewhere,
            DamageOutcome::Padding,
            DamageOutcome::Unused,
            DamageOutcome::GivenBack,
            DamageOutcome::Undone,
            DamageOutcome::Silent,
        ];
        let mut sum = DamageOutcomes::default();
        for (times, outcome) in (1..).zip(all) {
            let mut one = DamageOutcomes::default();
            (0..times).for_each(|_| one.count(outcome));
            assert_eq!((one.sum(), one.parts().iter().filter(|(count, _)| *count == times).count()), (times, 1));
            sum += one;
        }
        assert_eq!((sum.sum(), sum.parts().map(|(count, _)| count)), (55, std::array::from_fn(|at| 1 + at as u64)));
        assert!(sum.to_string().starts_with("1 named by a scrub, 2 named by a start, 3 cut off"), "{sum}");
    }
}
