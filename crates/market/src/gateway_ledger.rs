//! The engine's record of one gateway: which sequence numbers have arrived, and how many answers were sent.
//!
//! If there are too many gaps, the oldest is forgotten.

use crate::checksum::OrdersChecksum;
use crate::limits::GAPS_MAX;
use crate::sequence::ShortSequence;
use std::collections::VecDeque;

/// Orders that are missing: a range of sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceGap {
    /// The first missing number.
    pub from: u64,
    /// One past the last missing number.
    pub until: u64,
}

impl SequenceGap {
    /// How many orders are missing.
    pub fn orders(self) -> u64 {
        self.until - self.from
    }
}

/// Classification of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The expected one.
    Next(u64),
    /// New, but ahead of others that are missing.
    Ahead(u64, SequenceGap),
    /// New, and was missing.
    Late(u64),
    /// Received before.
    Repeat(u64),
}

/// The record of one gateway.
#[derive(Debug, Default)]
pub struct GatewayLedger {
    expected: u64,
    gaps: VecDeque<SequenceGap>,
    /// Answers numbered so far.
    pub answers: u64,
    /// Checksum of the accepted orders.
    pub checksum: OrdersChecksum,
}

impl GatewayLedger {
    /// Classifies a number, and records it as received.
    #[inline]
    pub fn admit(&mut self, short: ShortSequence) -> Admission {
        let sequence = short.expand_near(self.expected);
        if sequence == self.expected {
            self.expected += 1;
            return Admission::Next(sequence);
        }
        self.admit_other(sequence)
    }

    #[cold]
    fn admit_other(&mut self, sequence: u64) -> Admission {
        if let Some(gap) = self.extend_to(sequence) {
            self.expected = sequence + 1;
            return Admission::Ahead(sequence, gap);
        }
        let Some(at) = self.gaps.iter().position(|gap| (gap.from..gap.until).contains(&sequence)) else {
            return Admission::Repeat(sequence);
        };
        let gap = self.gaps[at];
        let parts =
            [SequenceGap { from: gap.from, until: sequence }, SequenceGap { from: sequence + 1, until: gap.until }];
        self.gaps.remove(at);
        for part in parts.into_iter().rev().filter(|part| part.orders() > 0) {
            self.gaps.insert(at, part);
        }
        self.forget_oldest();
        Admission::Late(sequence)
    }

    /// Records that all numbers below `sequence` were sent, and returns those newly known to be missing.
    pub fn extend_to(&mut self, sequence: u64) -> Option<SequenceGap> {
        if sequence <= self.expected {
            return None;
        }
        let gap = SequenceGap { from: self.expected, until: sequence };
        self.expected = sequence;
        self.gaps.push_back(gap);
        self.forget_oldest();
        Some(gap)
    }

    fn forget_oldest(&mut self) {
        while self.gaps.len() > GAPS_MAX {
            self.gaps.pop_front();
        }
    }

    /// The sequence number of the next order.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Missing orders, the oldest first.
    pub fn gaps(&self) -> impl Iterator<Item = SequenceGap> + '_ {
        self.gaps.iter().copied()
    }

    /// Allocates the number of the next answer.
    #[inline]
    pub fn next_answer_number(&mut self) -> ShortSequence {
        let number = ShortSequence::of(self.answers);
        self.answers += 1;
        number
    }
}
