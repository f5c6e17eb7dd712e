//! The matching engine: answers each order of all gateways exactly once.
//!
//! The same orders in the same order give the same answers, to the bit.

use crate::checksum::TradesChecksum;
use crate::gateway_ledger::{Admission, GatewayLedger, SequenceGap};
use crate::limits::{GATEWAYS_MAX, ORDERS_IN_FLIGHT_MAX, RESTING_BOOK_MAX, RESTING_MAX, SYMBOLS_MAX};
use crate::messages::{
    EndOfStream, MalformedMessage, MarketMessage, NewOrder, ORDER_BYTES, OrderConfirmation, OrderReject, Quote, Trade,
};
use crate::order_book::{BookFill, IncomingOrder, MatchOutcome, OrderBook, RestingOrders};
use crate::order_id::OrderId;
use crate::sequence::ShortSequence;
use crate::terms::{GatewayId, Matching, RejectReason, Symbol};
use std::fmt;

/// Parameters of an engine. A journal must be replayed with the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineRules {
    /// Number of symbols, from 0; at most [`SYMBOLS_MAX`].
    pub symbols: u16,
    /// When orders trade.
    pub matching: Matching,
    /// Maximum number of resting orders in one book.
    pub resting_book_max: u32,
    /// Maximum number of resting orders in all books.
    pub resting_max: u32,
}

impl Default for EngineRules {
    fn default() -> Self {
        Self { symbols: 1, matching: Matching::default(), resting_book_max: RESTING_BOOK_MAX, resting_max: RESTING_MAX }
    }
}

/// The recipient of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    Gateway(GatewayId),
    /// All gateways: a quote.
    All,
    /// The sender of the input, in which no gateway could be read.
    Sender,
}

/// Receives the messages of an engine.
pub trait MessageSink {
    /// A message and its recipient.
    fn message(&mut self, to: Recipient, message: &MarketMessage);

    /// Orders of a gateway are missing.
    fn gap(&mut self, gateway: GatewayId, gap: SequenceGap) {
        let _ = (gateway, gap);
    }
}

impl MessageSink for Vec<(Recipient, MarketMessage)> {
    fn message(&mut self, to: Recipient, message: &MarketMessage) {
        self.push((to, *message));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is to be journaled is journaled before its answers are sent"]
pub enum InputOutcome {
    /// A new order, accepted or rejected. Its bytes belong into the journal before the answers are sent.
    Order,
    /// A repeated order, which is not answered again.
    Repeat,
    /// The end of a gateway's orders: all that arrived are answered.
    End(GatewayId),
    /// Not an order; rejected without a number.
    Malformed,
}

impl InputOutcome {
    /// Whether the input belongs into the journal.
    #[inline]
    pub fn is_journaled(self) -> bool {
        self == InputOutcome::Order
    }
}

/// Counters of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounts {
    /// New orders, including rejected ones.
    pub orders: u64,
    /// Trades; each causes one message, or two if its orders are of two gateways.
    pub trades: u64,
    /// Messages about trades.
    pub trade_messages: u64,
    /// Lots traded.
    pub lots: u64,
    /// Orders without a match.
    pub confirmations: u64,
    /// Changes of best prices.
    pub quotes: u64,
    /// Orders rejected.
    pub rejects: u64,
    /// Inputs rejected in which no order could be read.
    pub malformed: u64,
    /// Orders found missing, including those that arrived late.
    pub missing: u64,
    /// Missing orders that arrived late.
    pub late: u64,
    /// Repeated orders.
    pub repeats: u64,
}

impl EngineCounts {
    /// Messages sent, each quote once.
    pub fn messages(&self) -> u64 {
        self.trade_messages + self.confirmations + self.quotes + self.rejects + self.malformed
    }
}

/// A journal entry is not a new order: an engine with other rules wrote it, or it belongs to another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalError(pub InputOutcome);

impl fmt::Display for JournalError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "an entry of the journal is not a new order: {:?}", self.0)
    }
}

impl std::error::Error for JournalError {}

/// A book, and the number of its quotes.
#[derive(Debug)]
struct SymbolBook {
    book: OrderBook,
    quotes: u16,
}

#[derive(Debug)]
pub struct MatchingEngine {
    rules: EngineRules,
    books: Box<[SymbolBook]>,
    resting: RestingOrders,
    ledgers: [GatewayLedger; GATEWAYS_MAX],
    checksum: TradesChecksum,
    counts: EngineCounts,
}

impl MatchingEngine {
    /// An engine without orders, with at most [`SYMBOLS_MAX`] symbols.
    pub fn new(rules: EngineRules) -> Self {
        let symbols = rules.symbols.min(SYMBOLS_MAX as u16);
        let max = rules.resting_book_max.min(RESTING_BOOK_MAX);
        Self {
            rules: EngineRules { symbols, ..rules },
            books: (0..symbols).map(|symbol| SymbolBook { book: OrderBook::new(symbol, max), quotes: 0 }).collect(),
            resting: RestingOrders::new(rules.resting_max.min(RESTING_MAX)),
            ledgers: Default::default(),
            checksum: TradesChecksum::new(symbols),
            counts: EngineCounts::default(),
        }
    }

    /// Processes a message of a gateway, and answers it.
    #[inline]
    pub fn process(&mut self, bytes: &[u8], answers: &mut impl MessageSink) -> InputOutcome {
        match NewOrder::decode(bytes) {
            Ok(order) => self.process_order(&order, answers),
            Err(malformed) => self.process_other(bytes, malformed, answers),
        }
    }

    /// Processes a journal entry: the bytes that were passed to [`MatchingEngine::process`]. The answers are the same,
    /// to the bit.
    ///
    /// # Errors
    /// The entry is not a new order.
    pub fn replay(&mut self, entry: &[u8; ORDER_BYTES], answers: &mut impl MessageSink) -> Result<(), JournalError> {
        match self.process(entry, answers) {
            InputOutcome::Order => Ok(()),
            taken => Err(JournalError(taken)),
        }
    }

    pub fn counts(&self) -> &EngineCounts {
        &self.counts
    }

    /// The checksum of all trades.
    pub fn checksum(&self) -> &TradesChecksum {
        &self.checksum
    }

    /// The checksum of a gateway's well-formed orders, in the order of their processing.
    pub fn orders_checksum(&self, gateway: GatewayId) -> u64 {
        self.ledgers[gateway.number()].checksum.value()
    }

    /// How many orders a gateway has sent, as far as is known.
    pub fn sent(&self, gateway: GatewayId) -> u64 {
        self.ledgers[gateway.number()].sent()
    }

    /// How many answers a gateway was sent.
    pub fn answered(&self, gateway: GatewayId) -> u64 {
        self.ledgers[gateway.number()].answers
    }

    /// Missing orders of a gateway, the oldest first.
    pub fn gaps(&self, gateway: GatewayId) -> impl Iterator<Item = SequenceGap> + '_ {
        self.ledgers[gateway.number()].gaps()
    }

    /// Number of resting orders.
    pub fn resting(&self) -> u32 {
        self.resting.count()
    }

    /// The best bid and ask of a symbol.
    pub fn best(&self, symbol: Symbol) -> (Option<u16>, Option<u16>) {
        let listed = self.books.get(usize::from(symbol.0));
        listed.map_or((None, None), |listed| (listed.book.bid(), listed.book.ask()))
    }

    /// The full sequence number of a new order; `None` if it is repeated.
    #[inline]
    fn admit(&mut self, gateway: GatewayId, short: ShortSequence, answers: &mut impl MessageSink) -> Option<u64> {
        let sequence = match self.ledgers[gateway.number()].admit(short) {
            Admission::Next(sequence) => sequence,
            Admission::Ahead(sequence, gap) => {
                self.counts.missing += gap.orders();
                answers.gap(gateway, gap);
                sequence
            }
            Admission::Late(sequence) => {
                self.counts.late += 1;
                sequence
            }
            Admission::Repeat(_) => {
                self.counts.repeats += 1;
                return None;
            }
        };
        self.counts.orders += 1;
        Some(sequence)
    }

    #[inline]
    fn process_order(&mut self, order: &NewOrder, answers: &mut impl MessageSink) -> InputOutcome {
        let Some(sequence) = self.admit(order.gateway, order.sequence, answers) else { return InputOutcome::Repeat };
        self.ledgers[order.gateway.number()].checksum.add(order, sequence);
        let Some(listed) = self.books.get_mut(usize::from(order.symbol.0)) else {
            return self.reject(order.gateway, order.sequence, RejectReason::Symbol, answers);
        };
        let book = &mut listed.book;
        let taker = OrderId::new(order.gateway, sequence);
        let incoming =
            IncomingOrder { order: taker, side: order.side, price: order.price, lots: u32::from(order.lots) };
        let best = (book.bid(), book.ask());
        let (ledgers, counts, checksum) = (&mut self.ledgers, &mut self.counts, &mut self.checksum);
        let mut deal = |deal: BookFill| {
            // No trade has more lots than the incoming order, whose lots fit into a byte.
            let lots = deal.lots as u8;
            counts.trades += 1;
            counts.lots += u64::from(deal.lots);
            checksum.add(order.symbol, deal.price, lots, order.side, taker, deal.maker);
            let maker = deal.maker.gateway();
            let mut trade = Trade {
                number: ledgers[order.gateway.number()].next_answer_number(),
                symbol: order.symbol,
                price: deal.price,
                lots,
                side: order.side,
                answers: deal.is_last,
                taker: order.gateway,
                taker_sequence: order.sequence,
                maker,
                maker_sequence: ShortSequence::of(deal.maker.sequence()),
            };
            counts.trade_messages += 1;
            answers.message(Recipient::Gateway(order.gateway), &MarketMessage::Trade(trade));
            if maker != order.gateway {
                trade.number = ledgers[maker.number()].next_answer_number();
                counts.trade_messages += 1;
                answers.message(Recipient::Gateway(maker), &MarketMessage::Trade(trade));
            }
        };
        match book.submit(&mut self.resting, incoming, self.rules.matching, &mut deal) {
            MatchOutcome::Traded => {}
            MatchOutcome::Resting => {
                counts.confirmations += 1;
                let number = ledgers[order.gateway.number()].next_answer_number();
                let confirmation = OrderConfirmation { gateway: order.gateway, number, sequence: order.sequence };
                answers.message(Recipient::Gateway(order.gateway), &MarketMessage::Confirmation(confirmation));
            }
            MatchOutcome::BookFull => {
                return self.reject(order.gateway, order.sequence, RejectReason::BookFull, answers);
            }
            MatchOutcome::EngineFull => {
                return self.reject(order.gateway, order.sequence, RejectReason::EngineFull, answers);
            }
        }
        let (bid, ask) = (book.bid(), book.ask());
        if best != (bid, ask) {
            counts.quotes += 1;
            let quote = Quote { symbol: order.symbol, bid, ask, number: listed.quotes };
            listed.quotes = listed.quotes.wrapping_add(1);
            answers.message(Recipient::All, &MarketMessage::Quote(quote));
        }
        InputOutcome::Order
    }

    #[cold]
    fn reject(
        &mut self,
        gateway: GatewayId,
        sequence: ShortSequence,
        reason: RejectReason,
        answers: &mut impl MessageSink,
    ) -> InputOutcome {
        self.counts.rejects += 1;
        let number = self.ledgers[gateway.number()].next_answer_number();
        let reject = OrderReject { gateway, number, sequence, reason };
        answers.message(Recipient::Gateway(gateway), &MarketMessage::Reject(reject));
        InputOutcome::Order
    }

    /// Handles an input that is not a valid order.
    #[cold]
    fn process_other(
        &mut self,
        bytes: &[u8],
        malformed: MalformedMessage,
        answers: &mut impl MessageSink,
    ) -> InputOutcome {
        if let Some((gateway, short)) = malformed.order {
            return match self.admit(gateway, short, answers) {
                Some(_) => self.reject(gateway, short, malformed.reason, answers),
                None => InputOutcome::Repeat,
            };
        }
        match MarketMessage::decode(bytes) {
            Ok(MarketMessage::End(end)) => self.process_end(&end, answers),
            // For an order with an identity, the reason was found above.
            Err(malformed) if !malformed.reason.names_an_order() => self.reject_unnumbered(malformed.reason, answers),
            Ok(_) | Err(_) => self.reject_unnumbered(RejectReason::NotAnOrder, answers),
        }
    }

    fn reject_unnumbered(&mut self, reason: RejectReason, answers: &mut impl MessageSink) -> InputOutcome {
        self.counts.malformed += 1;
        let (gateway, number) = (GatewayId::default(), ShortSequence::default());
        let reject = OrderReject { gateway, number, sequence: number, reason };
        answers.message(Recipient::Sender, &MarketMessage::Reject(reject));
        InputOutcome::Malformed
    }

    fn process_end(&mut self, end: &EndOfStream, answers: &mut impl MessageSink) -> InputOutcome {
        let ledger = &mut self.ledgers[end.gateway.number()];
        let most = ledger.expected().saturating_add(ORDERS_IN_FLIGHT_MAX);
        if !(ledger.sent()..=most).contains(&end.count) {
            return self.reject_unnumbered(RejectReason::Count, answers);
        }
        if let Some(gap) = ledger.announce(end.count) {
            self.counts.missing += gap.orders();
            answers.gap(end.gateway, gap);
        }
        let end = EndOfStream { gateway: end.gateway, count: ledger.answers, checksum: self.checksum.value() };
        answers.message(Recipient::Gateway(end.gateway), &MarketMessage::End(end));
        InputOutcome::End(end.gateway)
    }
}
