//! The orders of one gateway that are not yet answered.
//!
//! Enters: when an order is sent; the engine's messages.  Leaves: when the order that is answered was sent; what is wrong with an answer.
//! Owns:   the numbers of orders and answers on the gateway's side.
//! Never:  has more orders under way than its limit.

use crate::messages::MarketMessage;
use crate::limits::ORDERS_IN_FLIGHT_MAX;
use crate::sequence::ShortSequence;
use crate::terms::GatewayId;

/// What a message from the engine is to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayEvent {
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
    Unsolicited,
    /// Not for this gateway, or no message of an engine.
    Foreign,
}

/// The orders of a gateway that are under way.
#[derive(Debug)]
pub struct OutstandingOrders {
    gateway: GatewayId,
    /// When each was sent, plus 1; 0 once it is answered. A ring, by sequence number.
    sent: Box<[u64]>,
    next: u64,
    oldest: u64,
    answers: u64,
    missing: u64,
}

impl OutstandingOrders {
    /// For a gateway that has so many orders under way at most, rounded up to a power of two, and to [`ORDERS_UNDER_WAY_MAX`] at most.
    pub fn new(gateway: GatewayId, under_way_max: u64) -> Self {
        let places = under_way_max.clamp(1, ORDERS_IN_FLIGHT_MAX).next_power_of_two();
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
                self.missing += end.count.saturating_sub(self.answers);
                self.answers = self.answers.max(end.count);
                return GatewayEvent::End { missing: self.missing, checksum: end.checksum };
            }
            _ => return GatewayEvent::Foreign,
        };
        let number = number.expand_near(self.answers);
        if number < self.answers {
            return GatewayEvent::Repeat;
        }
        self.missing += number - self.answers;
        self.answers = number + 1;
        answered.map_or(GatewayEvent::Trade, |sequence| self.on_answer(sequence))
    }

    #[inline]
    fn on_answer(&mut self, short: ShortSequence) -> GatewayEvent {
        let sequence = short.expand_near(self.oldest);
        if !(self.oldest..self.next).contains(&sequence) {
            return GatewayEvent::Unsolicited;
        }
        let place = self.place(sequence);
        let Some(sent_ns) = std::mem::take(&mut self.sent[place]).checked_sub(1) else { return GatewayEvent::Unsolicited };
        while self.oldest < self.next && self.sent[self.place(self.oldest)] == 0 {
            self.oldest += 1;
        }
        GatewayEvent::Answer { sequence, sent_ns }
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
