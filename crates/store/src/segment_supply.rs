//! The segments of a log: those that it consists of, those made ahead, and those that are given back.
//!
//! Enters: what is not needed any more; completions of the disk.  Leaves: segments to make and to remove.
//!
//! A segment is given back in two steps. It is retired when nothing in it is needed; it is made into another one or removed
//! when a later segment's header, which says that the log begins behind it, is durable. So a segment that is missing is told
//! from one that was given back. On a full disk the oldest one is made into the next one before: its old header, under another
//! number, tells the same. One that has lost its header, as the write that began it was torn, has nothing to tell it by.

use crate::ids::{FrameSequence, LogId, SegmentId, SegmentNumber};
use crate::limits::{NO_SPACE_RETRY_US, RECYCLABLE_SEGMENTS_MAX, RETIRED_SEGMENTS_MAX, SPARE_SEGMENTS};
use crate::log_event::LogEvent;
use crate::request::{DiskError, DiskErrorKind, Request};
use crate::segment_header::SegmentStart;
use std::collections::VecDeque;

/// The making of the next spare segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Making {
    Idle,
    UnderWay,
    /// There was no space: it is tried again later, or when a segment is given back.
    NoSpace {
        since_us: Option<u64>,
        /// Not even for making a retired one into the next one, which takes no blocks.
        has_tried_retired: bool,
    },
    /// It is tried again.
    Again,
    AgainUnderWay,
}

/// Where the segment came from of which the next one is being made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Retired(SegmentNumber),
    Recyclable(SegmentNumber),
}

/// The segments of one log.
pub(crate) struct SegmentSupply {
    log: LogId,
    segment_blocks: u32,
    /// The number of the next segment to make.
    next: SegmentNumber,
    /// What the log consists of, the oldest first.
    used: VecDeque<SegmentStart>,
    spares: VecDeque<SegmentNumber>,
    making: Making,
    /// It is needed no more, and is still there if that fails for lack of space.
    making_from: Option<Origin>,
    retired: VecDeque<SegmentNumber>,
    /// Where the log begins, as the last header says that was begun, which may not be durable yet.
    announced: SegmentNumber,
    /// These are made into others only when a header says that they are not needed.
    headerless: Vec<SegmentNumber>,
    /// Segments that become the next ones under new numbers, or are removed.
    recyclable: VecDeque<SegmentNumber>,
    is_removing: bool,
    /// None is removed: one of them shows where the log begins, which no header says yet.
    keeps_recyclable: bool,
    /// How many are made ahead.
    spares_wanted: usize,
}

impl SegmentSupply {
    pub fn new(
        log: LogId,
        segment_blocks: u32,
        next: SegmentNumber,
        used: Vec<SegmentStart>,
        unused: Vec<SegmentNumber>,
    ) -> Self {
        SegmentSupply {
            log,
            segment_blocks,
            next,
            used: used.into(),
            spares: VecDeque::new(),
            making: Making::Idle,
            making_from: None,
            retired: VecDeque::new(),
            announced: SegmentNumber(0),
            headerless: Vec::new(),
            recyclable: unused.into(),
            is_removing: false,
            keeps_recyclable: false,
            spares_wanted: SPARE_SEGMENTS,
        }
    }

    /// Keeps the unused segments until a header that says where the log begins is durable. They may be made into others, which
    /// changes nothing in them.
    pub fn keeping_unused(self, keeps_recyclable: bool) -> Self {
        SegmentSupply { keeps_recyclable, ..self }
    }

    /// These have no header that would tell, under another number, that they were given back.
    pub fn keeping_headerless(self, headerless: Vec<SegmentNumber>) -> Self {
        SegmentSupply { headerless, ..self }
    }

    pub fn set_spares(&mut self, spares: usize) {
        self.spares_wanted = spares;
    }

    pub fn segment_blocks(&self) -> u32 {
        self.segment_blocks
    }

    /// What the log consists of, the oldest first.
    pub fn used(&self) -> &VecDeque<SegmentStart> {
        &self.used
    }

    /// Segments made ahead.
    pub fn spares(&self) -> usize {
        self.spares.len()
    }

    /// What to ask the disk for.
    pub fn poll(&mut self, now_us: u64) -> Option<Request> {
        if self.retry_us().is_some_and(|retry_us| retry_us <= now_us) {
            self.making = Making::Again;
        }
        if let Making::NoSpace { since_us: since_us @ None, .. } = &mut self.making {
            *since_us = Some(now_us);
        }
        if self.may_take_retired()
            && self.spares.is_empty()
            && let Some(number) = self.retired.pop_front_if(|oldest| !self.headerless.contains(oldest))
        {
            return Some(self.make(Some(Origin::Retired(number))));
        }
        if matches!(self.making, Making::Idle | Making::Again) && self.spares.len() < self.spares_wanted {
            let from = self.recyclable.pop_front().map(Origin::Recyclable);
            return Some(self.make(from));
        }
        if self.recyclable.len() > RECYCLABLE_SEGMENTS_MAX && !self.is_removing && !self.keeps_recyclable {
            self.is_removing = true;
            let number = self.recyclable.pop_front()?;
            return Some(Request::Remove { segment: SegmentId { log: self.log, number } });
        }
        None
    }

    fn make(&mut self, from: Option<Origin>) -> Request {
        self.making = if self.making == Making::Idle { Making::UnderWay } else { Making::AgainUnderWay };
        self.making_from = from;
        let segment = SegmentId { log: self.log, number: self.next };
        let from = from.map(|(Origin::Retired(number) | Origin::Recyclable(number))| number);
        Request::Make { segment, blocks: self.segment_blocks, from }
    }

    /// Whether a retired segment is made into the next one although no header says that it is not needed.
    fn may_take_retired(&self) -> bool {
        match self.making {
            Making::NoSpace { has_tried_retired, .. } => !has_tried_retired,
            Making::Again => true,
            Making::Idle | Making::UnderWay | Making::AgainUnderWay => false,
        }
    }

    /// When a segment is made that could not be made before.
    pub fn retry_us(&self) -> Option<u64> {
        match self.making {
            Making::NoSpace { since_us, .. } => since_us.map(|since_us| since_us + NO_SPACE_RETRY_US),
            Making::Idle | Making::UnderWay | Making::Again | Making::AgainUnderWay => None,
        }
    }

    /// There may be space again.
    pub fn retry(&mut self) {
        if matches!(self.making, Making::NoSpace { .. }) {
            self.making = Making::Again;
        }
    }

    pub fn on_made(&mut self, number: SegmentNumber, result: Result<(), DiskError>) -> Option<LogEvent> {
        assert_eq!(number, self.next, "one segment is made at a time");
        let was_full = std::mem::replace(&mut self.making, Making::Idle) == Making::AgainUnderWay;
        // What was made in part is not used: the next one has another number.
        self.next = SegmentNumber(number.0 + 1);
        let from = self.making_from.take();
        let Err(error) = result else {
            self.spares.push_back(number);
            return was_full.then_some(LogEvent::Space);
        };
        if error.kind != DiskErrorKind::NoSpace {
            return Some(LogEvent::Failed(error));
        }
        // Its name takes space, too: it is there under the old one, or it is gone, which the next try sees.
        match from {
            Some(Origin::Retired(number)) => self.retired.push_front(number),
            Some(Origin::Recyclable(number)) => self.recyclable.push_front(number),
            None => {}
        }
        let has_tried_retired = matches!(from, Some(Origin::Retired(_)));
        self.making = Making::NoSpace { since_us: None, has_tried_retired };
        (!was_full).then_some(LogEvent::NoSpace(error))
    }

    pub fn on_removed(&mut self, result: Result<(), DiskError>) -> Option<LogEvent> {
        self.is_removing = false;
        self.retry();
        result.err().map(LogEvent::Failed)
    }

    /// Whether a segment can be begun, if the last one is full.
    pub fn can_begin(&self) -> bool {
        !self.spares.is_empty()
    }

    /// Whether a segment should be begun although the last one is not full: to give others back.
    pub fn wants_to_begin(&self) -> bool {
        // To begin one takes a spare: giving back a single one gains nothing, and the one that ends is retired in its place.
        // Those before the announced beginning are given back once its header is durable: that takes no other header.
        let announced = self.retired.partition_point(|retired| *retired < self.announced);
        self.can_begin() && self.retired.len() - announced > RETIRED_SEGMENTS_MAX
    }

    /// Begins a segment. Returns its number, and where the log begins.
    pub fn begin(&mut self, first: FrameSequence, previous_crc: u32) -> Option<(SegmentNumber, SegmentStart)> {
        let number = self.spares.pop_front()?;
        self.used.push_back(SegmentStart { number, first, previous_crc });
        let start = *self.used.front()?;
        self.announced = start.number;
        Some((number, start))
    }

    /// It is durable that the log begins with this segment.
    pub fn give_back_before(&mut self, number: SegmentNumber) {
        self.keeps_recyclable = false;
        while let Some(retired) = self.retired.pop_front_if(|retired| *retired < number) {
            self.recyclable.push_back(retired);
            self.retry();
        }
    }

    /// Nothing in the segments before this one is needed any more.
    pub fn retire_before(&mut self, number: SegmentNumber) {
        while let Some(oldest) = self.used.pop_front_if(|oldest| oldest.number < number) {
            self.retired.push_back(oldest.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_no_header_says_where_the_log_begins_no_segment_is_removed() {
        let numbers = |range: std::ops::Range<u64>| range.map(SegmentNumber).collect::<Vec<_>>();
        for is_start_implied in [false, true] {
            let used = SegmentStart { number: SegmentNumber(3), first: FrameSequence(9), previous_crc: 0 };
            let supply = SegmentSupply::new(LogId(0), 8, SegmentNumber(9), vec![used], numbers(4..9));
            let mut supply = supply.keeping_unused(is_start_implied);
            let mut removed = 0;
            for made in 9..20 {
                match supply.poll(0) {
                    Some(Request::Make { from, .. }) => {
                        assert!(from.is_some(), "there are unused ones");
                        assert_eq!(supply.on_made(SegmentNumber(made), Ok(())), None);
                    }
                    Some(Request::Remove { .. }) => {
                        removed += 1;
                        assert_eq!(supply.on_removed(Ok(())), None);
                    }
                    _ => break,
                }
            }
            assert_eq!(removed > 0, !is_start_implied);
            supply.give_back_before(SegmentNumber(3));
            assert_eq!(matches!(supply.poll(0), Some(Request::Remove { .. })), is_start_implied);
        }
    }

    #[test]
    fn a_segment_without_a_header_becomes_another_only_when_a_later_header_is_durable() {
        for is_headerless in [false, true] {
            let starts = [1, 2].map(|number| SegmentStart {
                number: SegmentNumber(number),
                first: FrameSequence(number),
                previous_crc: 0,
            });
            let headerless = if is_headerless { vec![SegmentNumber(1)] } else { Vec::new() };
            let supply = SegmentSupply::new(LogId(0), 8, SegmentNumber(3), starts.to_vec(), Vec::new());
            let mut supply = supply.keeping_headerless(headerless);
            supply.retire_before(SegmentNumber(2));
            assert_eq!(making(&mut supply, 0), Some((SegmentNumber(3), None)));
            assert!(supply.on_made(SegmentNumber(3), no_space()).is_some());
            let next = making(&mut supply, 0);
            assert_eq!(next, (!is_headerless).then_some((SegmentNumber(4), Some(SegmentNumber(1)))));
            if is_headerless {
                supply.give_back_before(SegmentNumber(2));
                assert_eq!(making(&mut supply, 0), Some((SegmentNumber(4), Some(SegmentNumber(1)))));
            }
        }
    }

    #[test]
    fn while_a_header_is_not_durable_no_other_one_is_begun_to_give_back_the_same_segments() {
        let start =
            |number: u64| SegmentStart { number: SegmentNumber(number), first: FrameSequence(number), previous_crc: 0 };
        let mut supply = SegmentSupply::new(LogId(0), 8, SegmentNumber(4), (1..4).map(start).collect(), Vec::new());
        let make = |supply: &mut SegmentSupply| {
            let (number, _) = making(supply, 0).expect("a spare is made");
            assert_eq!(supply.on_made(number, Ok(())), None);
        };
        supply.retire_before(SegmentNumber(3));
        make(&mut supply);
        assert!(supply.wants_to_begin());
        let (_, log_start) = supply.begin(FrameSequence(9), 0).expect("a spare");
        assert_eq!(log_start.number, SegmentNumber(3));
        // The disk is synced later: meanwhile the segment that has ended is retired, too.
        supply.retire_before(SegmentNumber(4));
        make(&mut supply);
        assert!(supply.can_begin() && !supply.wants_to_begin());
        supply.give_back_before(log_start.number);
        assert!(!supply.wants_to_begin(), "one is retired, as many as may be");
    }

    fn no_space() -> Result<(), DiskError> {
        Err(DiskError { kind: DiskErrorKind::NoSpace, text: "full".to_owned() })
    }

    /// The segment that is asked for, and of which it is to be made.
    fn making(supply: &mut SegmentSupply, now_us: u64) -> Option<(SegmentNumber, Option<SegmentNumber>)> {
        match supply.poll(now_us) {
            Some(Request::Make { segment, from, .. }) => Some((segment.number, from)),
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    #[test]
    fn a_segment_that_cannot_be_renamed_for_lack_of_space_is_tried_again() {
        let starts = [1, 2].map(|number| SegmentStart {
            number: SegmentNumber(number),
            first: FrameSequence(number),
            previous_crc: 0,
        });
        for is_retired in [true, false] {
            let unused = if is_retired { Vec::new() } else { vec![SegmentNumber(1)] };
            let used = if is_retired { starts.to_vec() } else { starts[1..].to_vec() };
            let mut supply = SegmentSupply::new(LogId(0), 8, SegmentNumber(3), used, unused);
            supply.retire_before(SegmentNumber(2));
            let mut tries = Vec::new();
            for now_us in (0..3).map(|second| second * NO_SPACE_RETRY_US) {
                // Not more than once with the same one before some time has passed.
                while let Some((number, from)) = making(&mut supply, now_us) {
                    tries.push(from);
                    let event = supply.on_made(number, no_space());
                    assert_eq!(
                        matches!(event, Some(LogEvent::NoSpace(_))),
                        tries.len() == 1,
                        "it is told once: {tries:?}"
                    );
                    assert!(tries.len() < 10, "it is tried without end");
                }
            }
            assert!(tries.iter().filter(|from| **from == Some(SegmentNumber(1))).count() >= 3, "{tries:?}");
            let now_us = 3 * NO_SPACE_RETRY_US;
            let (number, from) = making(&mut supply, now_us).expect("another try");
            assert_eq!(from, Some(SegmentNumber(1)));
            assert_eq!(supply.on_made(number, Ok(())), Some(LogEvent::Space));
            assert!(supply.can_begin());
        }
    }
}
