//! The orders of one gateway that are not yet answered.
//!
//! Enters: when an order is sent; the engine's messages.  Leaves: when the order that is answered was sent; what is wrong with an answer.
//! Owns:   the numbers of orders and answers on the gateway's side.
//! Never:  has more orders under way than its limit.

use crate::layout::Message;
use crate::limits::ORDERS_UNDER_WAY_MAX;
use crate::sequence::Short;
use crate::terms::Gateway;

/// What a message from the engine is to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The one answer to an order, which was sent then.
    Answer {
        /// The whole sequence number of the order.
        sequence: u64,
        /// What [`Outstanding::send`] was told, in nanoseconds.
        sent_ns: u64,
    },
    /// A trade that is not the answer to an order of this gateway: another follows, or the order had rested.
    Trade,
    /// A quote.
    Quote,
    /// The end of the answers: all were heard if so many are missing as are 0.
    End {
        /// Answers that did not come.
        missing: u64,
        /// The checksum of all trades.
        checksum: u64,
    },
    /// A message that was heard before.
    Repeat,
    /// An answer to an order that has been answered, or was never sent.
    Unasked,
    /// Not for this gateway, or no message of an engine.
    Foreign,
}

/// The orders of a gateway that are under way.
#[derive(Debug)]
pub struct Outstanding {
    gateway: Gateway,
    /// When each was sent, plus 1; 0 once it is answered. A ring, by sequence number.
    sent: Box<[u64]>,
    next: u64,
    oldest: u64,
    answers: u64,
    missing: u64,
}

impl Outstanding {
    /// For a gateway that has so many orders under way at most, rounded up to a power of two, and to [`ORDERS_UNDER_WAY_MAX`] at most.
    pub fn new(gateway: Gateway, under_way_max: u64) -> Self {
        let places = under_way_max.clamp(1, ORDERS_UNDER_WAY_MAX).next_power_of_two();
        Self { gateway, sent: vec![0; places as usize].into(), next: 0, oldest: 0, answers: 0, missing: 0 }
    }

    fn place(&self, sequence: u64) -> usize {
        (sequence & (self.sent.len() as u64 - 1)) as usize
    }

    /// Whether no order may be sent before one is answered.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.next - self.oldest >= self.sent.len() as u64
    }

    /// The number of an order that is sent now; none if it must wait.
    #[inline]
    pub fn send(&mut self, now_ns: u64) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let sequence = self.next;
        self.next += 1;
        let place = self.place(sequence);
        self.sent[place] = now_ns.saturating_add(1);
        Some(sequence)
    }

    /// Takes in what came from the engine.
    #[inline]
    pub fn hear(&mut self, message: &Message) -> Heard {
        let (number, answered) = match message {
            Message::Trade(trade) if trade.taker == self.gateway => {
                (trade.number, trade.answers.then_some(trade.taker_sequence))
            }
            Message::Trade(trade) if trade.maker == self.gateway => (trade.number, None),
            Message::Confirmation(of) if of.gateway == self.gateway => (of.number, Some(of.sequence)),
            Message::Reject(of) if of.gateway == self.gateway && of.reason.names_an_order() => {
                (of.number, Some(of.sequence))
            }
            Message::Quote(_) => return Heard::Quote,
            Message::End(end) if end.gateway == self.gateway => {
                self.missing += end.count.saturating_sub(self.answers);
                self.answers = self.answers.max(end.count);
                return Heard::End { missing: self.missing, checksum: end.checksum };
            }
            _ => return Heard::Foreign,
        };
        let number = number.near(self.answers);
        if number < self.answers {
            return Heard::Repeat;
        }
        self.missing += number - self.answers;
        self.answers = number + 1;
        answered.map_or(Heard::Trade, |sequence| self.answer(sequence))
    }

    #[inline]
    fn answer(&mut self, short: Short) -> Heard {
        let sequence = short.near(self.oldest);
        if !(self.oldest..self.next).contains(&sequence) {
            return Heard::Unasked;
        }
        let place = self.place(sequence);
        let Some(sent_ns) = std::mem::take(&mut self.sent[place]).checked_sub(1) else { return Heard::Unasked };
        while self.oldest < self.next && self.sent[self.place(self.oldest)] == 0 {
            self.oldest += 1;
        }
        Heard::Answer { sequence, sent_ns }
    }

    /// How many orders were sent.
    pub fn sent(&self) -> u64 {
        self.next
    }

    /// How many answers came, and were missed, by their numbers.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// How many answers were missed.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// How many orders are not answered.
    pub fn unanswered(&self) -> u64 {
        (self.oldest..self.next).filter(|&sequence| self.sent[self.place(sequence)] != 0).count() as u64
    }
}
