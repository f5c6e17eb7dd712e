//! Tracks the deliveries of a queue: one bit per message of each publisher, for loss, duplicates and order.
//!
//! A redelivery is no fault if it is marked as one.

use gauge::DeliveryFaults;
use serde::{Deserialize, Serialize};

use super::random::mix;
use harness::limits::SEGMENT_MESSAGES_MAX;

/// A compact digest of a set of messages, for comparing sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSetSum {
    pub count: u64,
    /// The sum of a hash of each message.
    pub sum: u64,
}

impl MessageSetSum {
    #[inline]
    pub fn add(&mut self, stream: u32, sequence: u32) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(mix(u64::from(stream) + 1, u64::from(sequence)));
    }

    /// Adds another set.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// One bit per message of a stream.
#[derive(Clone, Debug, Default)]
struct SequenceBits(Vec<u64>);

impl SequenceBits {
    /// Sets a bit; returns whether it was set.
    #[inline]
    fn set(&mut self, number: u32) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= self.0.len() {
            self.0.resize((word + 1).next_power_of_two(), 0);
        }
        let was = self.0[word] & bit != 0;
        self.0[word] |= bit;
        was
    }

    fn has(&self, number: u32) -> bool {
        self.0.get((number / 64) as usize).is_some_and(|word| word & 1 << (number % 64) != 0)
    }
}

/// The kind of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalKind {
    First,
    Again,
    /// Not a message of this workload.
    Stray,
}

/// The deliveries of one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryLedger {
    seen: Vec<SequenceBits>,
    done: Vec<SequenceBits>,
    census: MessageSetSum,
    faults: DeliveryFaults,
    redelivered: u64,
}

/// The next sequence number of each publisher at one consumer; redeliveries are exempt from the order.
#[derive(Clone, Debug)]
pub struct StreamPositions(Vec<u32>);

impl StreamPositions {
    pub fn new(streams: usize) -> Self {
        Self(vec![0; streams])
    }
}

impl DeliveryLedger {
    pub fn new(streams: usize) -> Self {
        Self {
            seen: vec![SequenceBits::default(); streams],
            done: vec![SequenceBits::default(); streams],
            ..Self::default()
        }
    }

    /// Records a delivery.
    #[inline]
    pub fn arrived(
        &mut self,
        positions: &mut StreamPositions,
        stream: u32,
        sequence: u32,
        redelivered: bool,
    ) -> ArrivalKind {
        let Some(seen) = self.seen.get_mut(stream as usize).filter(|_| u64::from(sequence) < SEGMENT_MESSAGES_MAX)
        else {
            self.faults.strays += 1;
            return ArrivalKind::Stray;
        };
        let before = seen.set(sequence);
        if redelivered {
            self.redelivered += 1;
            // A requeued message may be delivered again, but not after it was acknowledged.
            self.faults.duplicates += u64::from(before && self.done[stream as usize].has(sequence));
        } else {
            self.faults.duplicates += u64::from(before);
            let next = &mut positions.0[stream as usize];
            self.faults.reordered += u64::from(!before && sequence < *next);
            *next = (*next).max(sequence + 1);
        }
        if before { ArrivalKind::Again } else { ArrivalKind::First }
    }

    /// Records that a message is done: acknowledged, or delivered without acknowledgements.
    #[inline]
    pub fn done(&mut self, stream: u32, sequence: u32) {
        if let Some(done) = self.done.get_mut(stream as usize)
            && !done.set(sequence)
        {
            self.census.add(stream, sequence);
        }
    }

    /// Records a delivery that belongs to no message of this workload.
    pub(crate) fn stray(&mut self) {
        self.faults.strays += 1;
    }

    /// Records a delivery with a corrupted body.
    pub fn damaged(&mut self) {
        self.faults.damaged += 1;
    }

    #[inline]
    pub(crate) fn done_count(&self) -> u64 {
        self.census.count
    }

    /// Deliveries marked as redelivered.
    pub fn redelivered(&self) -> u64 {
        self.redelivered
    }

    /// Compares with what was sent: messages not done are lost; the same number of different messages are strays.
    pub fn faults(&self, expected: MessageSetSum) -> DeliveryFaults {
        let mut faults = self.faults;
        faults.lost = expected.count.saturating_sub(self.census.count);
        if self.census.count > expected.count {
            faults.strays += self.census.count - expected.count;
        } else if self.census.count == expected.count && self.census.sum != expected.sum {
            faults.strays += 1;
            faults.lost += 1;
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1` arrives and is done, `1?` arrives, `1r` arrives marked as redelivered, `1+` is done.
    fn check(script: &str, sent: &[u32], expected: DeliveryFaults, redelivered: u64) {
        let (mut ledger, mut positions, mut census) =
            (DeliveryLedger::new(2), StreamPositions::new(2), MessageSetSum::default());
        sent.iter().for_each(|&sequence| census.add(1, sequence));
        for step in script.split_whitespace() {
            let digits = step.trim_end_matches(['?', 'r', '+']);
            let sequence = digits.parse().expect("a number");
            match &step[digits.len()..] {
                "" => {
                    ledger.arrived(&mut positions, 1, sequence, false);
                    ledger.done(1, sequence);
                }
                "+" => ledger.done(1, sequence),
                mark => _ = ledger.arrived(&mut positions, 1, sequence, mark == "r"),
            }
        }
        assert_eq!((ledger.faults(census), ledger.redelivered()), (expected, redelivered), "{script}");
    }

    #[test]
    fn faults_are_distinguished() {
        let none = DeliveryFaults::default();
        check("0 1 2", &[0, 1, 2], none, 0);
        check("5 9 70", &[5, 9, 70], none, 0);
        check("0 2", &[0, 1, 2], DeliveryFaults { lost: 1, ..none }, 0);
        check("0 1 1 2", &[0, 1, 2], DeliveryFaults { duplicates: 1, ..none }, 0);
        check("0 2 1", &[0, 1, 2], DeliveryFaults { reordered: 1, ..none }, 0);
        check("0 1 3", &[0, 1, 2], DeliveryFaults { lost: 1, strays: 1, ..none }, 0);
        check("0 1 2 3", &[0, 1, 2], DeliveryFaults { strays: 1, ..none }, 0);
    }

    #[test]
    fn what_was_put_back_may_come_again_and_must_be_done_with_once() {
        let none = DeliveryFaults::default();
        check("0? 1 0r 0+", &[0, 1], none, 1);
        check("0? 1 2 0r 0r 0+", &[0, 1, 2], none, 2);
        check("0? 1", &[0, 1], DeliveryFaults { lost: 1, ..none }, 0);
        // Again without the mark; again after the acknowledgement.
        check("0? 0? 0+", &[0], DeliveryFaults { duplicates: 1, ..none }, 0);
        check("0 0r", &[0], DeliveryFaults { duplicates: 1, ..none }, 1);
        // Never received before, but marked: it was in flight to a channel that closed.
        check("0r 0+ 1", &[0, 1], none, 1);
    }

    #[test]
    fn other_streams_are_strays() {
        let mut ledger = DeliveryLedger::new(1);
        assert_eq!(ledger.arrived(&mut StreamPositions::new(1), 1, 0, false), ArrivalKind::Stray);
        assert_eq!(ledger.arrived(&mut StreamPositions::new(1), 0, u32::MAX, false), ArrivalKind::Stray);
        assert_eq!(ledger.faults(MessageSetSum::default()), DeliveryFaults { strays: 2, ..DeliveryFaults::default() });
    }

    #[test]
    fn a_census_tells_sets_apart() {
        let census = |numbers: &[(u32, u32)]| {
            let mut census = MessageSetSum::default();
            numbers.iter().for_each(|&(stream, sequence)| census.add(stream, sequence));
            census
        };
        assert_eq!(census(&[(0, 1), (1, 0)]), census(&[(1, 0), (0, 1)]));
        assert_ne!(census(&[(0, 1)]), census(&[(1, 0)]));
        assert_ne!(census(&[(0, 1), (0, 2)]), census(&[(0, 0), (0, 3)]));
    }
}
