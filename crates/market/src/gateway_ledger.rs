//! The engine's record of one gateway: which sequence numbers have arrived, and how many answers were sent.
//!
//! If there are too many gaps, the oldest is forgotten. Which number an order has depends on earlier orders alone, since
//! they alone are in the journal: an end of stream announces orders, and changes only what is called missing.

use crate::checksum::OrdersChecksum;
use crate::limits::GAPS_MAX;
use crate::sequence::ShortSequence;
use std::cmp::Ordering;
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
    /// One past the greatest number of an order that has arrived.
    expected: u64,
    /// How many orders the gateway has said that it sent.
    announced: u64,
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
        if sequence == self.expected && sequence >= self.announced {
            self.expected += 1;
            return Admission::Next(sequence);
        }
        self.admit_other(sequence)
    }

    #[cold]
    fn admit_other(&mut self, sequence: u64) -> Admission {
        if sequence >= self.expected {
            let known = self.sent();
            if sequence > self.expected {
                self.gaps.push_back(SequenceGap { from: self.expected, until: sequence });
                self.forget_oldest();
            }
            self.expected = sequence + 1;
            return match sequence.cmp(&known) {
                Ordering::Less => Admission::Late(sequence),
                Ordering::Equal => Admission::Next(sequence),
                Ordering::Greater => Admission::Ahead(sequence, SequenceGap { from: known, until: sequence }),
            };
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

    /// Records that the gateway says it has sent `count` orders, and returns those newly known to be missing.
    pub fn announce(&mut self, count: u64) -> Option<SequenceGap> {
        let known = self.sent();
        self.announced = self.announced.max(count);
        (count > known).then_some(SequenceGap { from: known, until: count })
    }

    fn forget_oldest(&mut self) {
        while self.gaps.len() > GAPS_MAX {
            self.gaps.pop_front();
        }
    }

    /// One past the greatest number of an order that has arrived.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// How many orders the gateway has sent, as far as is known.
    pub fn sent(&self) -> u64 {
        self.expected.max(self.announced)
    }

    /// Missing orders, the oldest first.
    pub fn gaps(&self) -> impl Iterator<Item = SequenceGap> + '_ {
        let announced = SequenceGap { from: self.expected, until: self.sent() };
        self.gaps.iter().copied().chain((announced.orders() > 0).then_some(announced))
    }

    /// Allocates the number of the next answer.
    #[inline]
    pub fn next_answer_number(&mut self) -> ShortSequence {
        let number = ShortSequence::of(self.answers);
        self.answers += 1;
        number
    }
}
