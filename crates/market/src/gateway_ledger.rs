//! What an engine has had from one gateway, and how often it has answered.
//!
//! Enters: sequence numbers as they come.  Leaves: which are new, which come twice, which are missing.
//! Owns:   the next number that is expected, and the gaps before it.
//! Never:  forgets a gap but the oldest, when there are too many.

use crate::checksum::OrdersChecksum;
use crate::limits::GAPS_MAX;
use crate::sequence::ShortSequence;
use std::collections::VecDeque;

/// Orders that were expected and have not come: from one sequence number to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceGap {
    /// The first that is missing.
    pub from: u64,
    /// The first that is not.
    pub until: u64,
}

impl SequenceGap {
    /// How many orders are missing.
    pub fn orders(self) -> u64 {
        self.until - self.from
    }
}

/// What a sequence number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The expected one.
    Next(u64),
    /// New, but others were expected first.
    Ahead(u64, SequenceGap),
    /// New: it was missing.
    Late(u64),
    /// It was there before.
    Repeat(u64),
}

/// The account of one gateway.
#[derive(Debug, Default)]
pub struct GatewayLedger {
    expected: u64,
    gaps: VecDeque<SequenceGap>,
    /// Answers numbered so far.
    pub answers: u64,
    /// Of the orders that were taken.
    pub checksum: OrdersChecksum,
}

impl GatewayLedger {
    /// What this number is, which from now on has been there.
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
        let parts = [SequenceGap { from: gap.from, until: sequence }, SequenceGap { from: sequence + 1, until: gap.until }];
        self.gaps.remove(at);
        for part in parts.into_iter().rev().filter(|part| part.orders() > 0) {
            self.gaps.insert(at, part);
        }
        self.forget_oldest();
        Admission::Late(sequence)
    }

    /// All up to before this number have been sent: those that are missing, if they were not yet known to be.
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

    /// The number of the next order.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// What is missing, the oldest first.
    pub fn gaps(&self) -> impl Iterator<Item = SequenceGap> + '_ {
        self.gaps.iter().copied()
    }

    /// The number of the next answer.
    #[inline]
    pub fn next_answer_number(&mut self) -> ShortSequence {
        let number = ShortSequence::of(self.answers);
        self.answers += 1;
        number
    }
}
