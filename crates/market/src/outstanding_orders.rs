//! The unanswered orders of one gateway, and the classification of the engine's messages.
//!
//! Never has more orders in flight than its limit.

use crate::limits::ORDERS_IN_FLIGHT_MAX;
use crate::messages::MarketMessage;
use crate::sequence::ShortSequence;
use crate::terms::GatewayId;

/// What a message from the engine means to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayEvent {
    /// The only answer to an order.
    Answer {
        /// The order's full sequence number.
        sequence: u64,
        /// The time passed to [`OutstandingOrders::send`], in nanoseconds.
        sent_ns: u64,
    },
    /// A trade that is not the answer to an order of this gateway: another follows, or the order had rested.
    Trade,
    Quote,
    /// The end of the answers.
    End {
        /// Answers that did not arrive.
        missing: u64,
        /// The checksum of all trades.
        checksum: u64,
    },
    /// A repeated message.
    Repeat,
    /// An answer to an order that was answered already, or never sent.
    Unsolicited,
    /// For another gateway, or not a message of an engine.
    Foreign,
}

/// The orders of a gateway in flight.
#[derive(Debug)]
pub struct OutstandingOrders {
    gateway: GatewayId,
    /// The time when each was sent, plus 1; 0 once it is answered. A ring buffer by sequence number.
    sent: Box<[u64]>,
    next: u64,
    oldest: u64,
    answers: u64,
    missing: u64,
}

impl OutstandingOrders {
    /// For at most `in_flight_max` orders in flight, rounded up to a power of two and limited by
    /// [`ORDERS_IN_FLIGHT_MAX`].
    pub fn new(gateway: GatewayId, in_flight_max: u64) -> Self {
        let places = in_flight_max.clamp(1, ORDERS_IN_FLIGHT_MAX).next_power_of_two();
        Self { gateway, sent: vec![0; places as usize].into(), next: 0, oldest: 0, answers: 0, missing: 0 }
    }

    fn place(&self, sequence: u64) -> usize {
        (sequence & (self.sent.len() as u64 - 1)) as usize
    }

    /// Whether an order must wait for an answer.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.next - self.oldest >= self.sent.len() as u64
    }

    /// Allocates the number of an order that is sent now; `None` if it must wait.
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

    /// Classifies a message of the engine, and records it.
    #[inline]
    pub fn on_message(&mut self, message: &MarketMessage) -> GatewayEvent {
        let (number, answered) = match message {
            MarketMessage::Trade(trade) if trade.taker == self.gateway => {
                (trade.number, trade.answers.then_some(trade.taker_sequence))
            }
            MarketMessage::Trade(trade) if trade.maker == self.gateway => (trade.number, None),
            MarketMessage::Confirmation(of) if of.gateway == self.gateway => (of.number, Some(of.sequence)),
            MarketMessage::Reject(of) if of.gateway == self.gateway && of.reason.names_an_order() => {
                (of.number, Some(of.sequence))
            }
            MarketMessage::Quote(_) => return GatewayEvent::Quote,
            MarketMessage::End(end) if end.gateway == self.gateway => {
                self.missing = self.missing.saturating_add(end.count.saturating_sub(self.answers));
                self.answers = self.answers.max(end.count);
                return GatewayEvent::End { missing: self.missing, checksum: end.checksum };
            }
            _ => return GatewayEvent::Foreign,
        };
        let number = number.expand_near(self.answers);
        if number < self.answers {
            return GatewayEvent::Repeat;
        }
        // A broker may send any number.
        self.missing = self.missing.saturating_add(number - self.answers);
        self.answers = number.saturating_add(1);
        answered.map_or(GatewayEvent::Trade, |sequence| self.on_answer(sequence))
    }

    #[inline]
    fn on_answer(&mut self, short: ShortSequence) -> GatewayEvent {
        let sequence = short.expand_near(self.oldest);
        if !(self.oldest..self.next).contains(&sequence) {
            return GatewayEvent::Unsolicited;
        }
        let place = self.place(sequence);
        let Some(sent_ns) = std::mem::take(&mut self.sent[place]).checked_sub(1) else {
            return GatewayEvent::Unsolicited;
        };
        while self.oldest < self.next && self.sent[self.place(self.oldest)] == 0 {
            self.oldest += 1;
        }
        GatewayEvent::Answer { sequence, sent_ns }
    }

    pub fn sent(&self) -> u64 {
        self.next
    }

    /// How many answers arrived or were missed, by their numbers.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// How many answers were missed.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    pub fn unanswered(&self) -> u64 {
        (self.oldest..self.next).filter(|&sequence| self.sent[self.place(sequence)] != 0).count() as u64
    }
}
