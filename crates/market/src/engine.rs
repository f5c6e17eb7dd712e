//! The matching engine: the orders of all gateways in, each answered exactly once.
//!
//! Enters: messages of gateways as bytes, in the order they come.  Leaves: answers and quotes, and to whom; gaps.
//! Owns:   the books, the accounts of gateways, the counts, the checksum of all trades.
//! Never:  answers an order twice, or differently when the same orders come again in the same order.

use crate::book::{Book, Deal, Fate, Incoming, Resting};
use crate::checksum::Checksum;
use crate::layout::{Confirmation, End, Malformed, Message, ORDER_BYTES, Order, Quote, Reject, Trade};
use crate::ledger::{Admission, Gap, Ledger};
use crate::limits::{GATEWAYS_MAX, ORDERS_UNDER_WAY_MAX, RESTING_BOOK_MAX, RESTING_MAX, SYMBOLS_MAX};
use crate::order_id::OrderId;
use crate::sequence::Short;
use crate::terms::{Gateway, Matching, Reason, Symbol};
use std::fmt;

/// What an engine is made with. A journal is replayed with the same rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How many symbols there are, from 0; no more than [`SYMBOLS_MAX`].
    pub symbols: u16,
    /// When orders trade.
    pub matching: Matching,
    /// How many orders may rest in one book.
    pub resting_book_max: u32,
    /// How many orders may rest in all.
    pub resting_max: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self { symbols: 1, matching: Matching::default(), resting_book_max: RESTING_BOOK_MAX, resting_max: RESTING_MAX }
    }
}

/// Who is to have a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// This gateway.
    Gateway(Gateway),
    /// All gateways: a quote.
    All,
    /// Whoever has sent what was taken: no gateway could be read from it.
    Sender,
}

/// Where the messages of an engine go.
pub trait Answers {
    /// A message, and who is to have it.
    fn message(&mut self, to: To, message: &Message);

    /// Orders of a gateway are missing.
    fn gap(&mut self, gateway: Gateway, gap: Gap) {
        let _ = (gateway, gap);
    }
}

impl Answers for Vec<(To, Message)> {
    fn message(&mut self, to: To, message: &Message) {
        self.push((to, *message));
    }
}

/// What a message was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is to be journaled is journaled before its answers are sent"]
pub enum Taken {
    /// A new order, or what is rejected in its place. Its bytes belong into the journal before the answers are sent.
    Order,
    /// An order that came before; there is no answer.
    Repeat,
    /// The end of a gateway's orders: all that came is answered.
    End(Gateway),
    /// Nothing an order could be read from; it was rejected without a number.
    Malformed,
}

impl Taken {
    /// Whether the bytes that were taken belong into the journal.
    #[inline]
    pub fn is_journaled(self) -> bool {
        self == Taken::Order
    }
}

/// What an engine has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// New orders, the rejected ones among them.
    pub orders: u64,
    /// Trades; each is a message, or two where its orders are of two gateways.
    pub trades: u64,
    /// Messages about trades.
    pub trade_messages: u64,
    /// Lots that were traded.
    pub lots: u64,
    /// Orders that nothing matched.
    pub confirmations: u64,
    /// Changes of best prices.
    pub quotes: u64,
    /// Orders rejected.
    pub rejects: u64,
    /// Messages rejected that no order could be read from.
    pub malformed: u64,
    /// Orders found missing, those that came late among them.
    pub missing: u64,
    /// Orders that had been missing and came.
    pub late: u64,
    /// Orders that came twice.
    pub repeats: u64,
}

impl Counts {
    /// Messages that were given out, each quote once.
    pub fn messages(&self) -> u64 {
        self.trade_messages + self.confirmations + self.quotes + self.rejects + self.malformed
    }
}

/// An entry of a journal that is no new order: it was written by an engine with other rules, or for another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAJournal(pub Taken);

impl fmt::Display for NotAJournal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "an entry of the journal is not a new order: {:?}", self.0)
    }
}

impl std::error::Error for NotAJournal {}

/// A book and what is counted of it.
#[derive(Debug)]
struct Listed {
    book: Book,
    quotes: u16,
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    rules: Rules,
    books: Box<[Listed]>,
    resting: Resting,
    ledgers: [Ledger; GATEWAYS_MAX],
    checksum: Checksum,
    counts: Counts,
}

impl Engine {
    /// An engine without orders. Of symbols there are [`SYMBOLS_MAX`] at most.
    pub fn new(rules: Rules) -> Self {
        let symbols = rules.symbols.min(SYMBOLS_MAX as u16);
        let max = rules.resting_book_max.min(RESTING_BOOK_MAX);
        Self {
            rules: Rules { symbols, ..rules },
            books: (0..symbols).map(|symbol| Listed { book: Book::new(symbol, max), quotes: 0 }).collect(),
            resting: Resting::new(rules.resting_max.min(RESTING_MAX)),
            ledgers: Default::default(),
            checksum: Checksum::new(symbols),
            counts: Counts::default(),
        }
    }

    /// Takes what a gateway has sent, and answers it.
    #[inline]
    pub fn take(&mut self, bytes: &[u8], answers: &mut impl Answers) -> Taken {
        match Order::decode(bytes) {
            Ok(order) => self.order(&order, answers),
            Err(malformed) => self.other(bytes, malformed, answers),
        }
    }

    /// Takes an entry of the journal, the same bytes that [`Engine::take`] had. What comes out is what came out then, bit by bit.
    ///
    /// # Errors
    /// If it is no new order.
    pub fn replay(&mut self, entry: &[u8; ORDER_BYTES], answers: &mut impl Answers) -> Result<(), NotAJournal> {
        match self.take(entry, answers) {
            Taken::Order => Ok(()),
            taken => Err(NotAJournal(taken)),
        }
    }

    /// What was done so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The checksum of all trades.
    pub fn checksum(&self) -> &Checksum {
        &self.checksum
    }

    /// The checksum of all orders of a gateway that were not malformed, in the order they were taken.
    pub fn orders_checksum(&self, gateway: Gateway) -> u64 {
        self.ledgers[gateway.number()].checksum.value()
    }

    /// The sequence number that the next order of a gateway has: how many it has sent, as far as is known.
    pub fn expected(&self, gateway: Gateway) -> u64 {
        self.ledgers[gateway.number()].expected()
    }

    /// How many answers a gateway has had.
    pub fn answered(&self, gateway: Gateway) -> u64 {
        self.ledgers[gateway.number()].answers
    }

    /// Orders of a gateway that are missing now, the oldest first.
    pub fn gaps(&self, gateway: Gateway) -> impl Iterator<Item = Gap> + '_ {
        self.ledgers[gateway.number()].gaps()
    }

    /// How many orders rest.
    pub fn resting(&self) -> u32 {
        self.resting.count()
    }

    /// The best prices of a symbol: bid and ask.
    pub fn best(&self, symbol: Symbol) -> (Option<u16>, Option<u16>) {
        let listed = self.books.get(usize::from(symbol.0));
        listed.map_or((None, None), |listed| (listed.book.bid(), listed.book.ask()))
    }

    /// The whole number of a new order; none if it came before.
    #[inline]
    fn admit(&mut self, gateway: Gateway, short: Short, answers: &mut impl Answers) -> Option<u64> {
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
    fn order(&mut self, order: &Order, answers: &mut impl Answers) -> Taken {
        let Some(sequence) = self.admit(order.gateway, order.sequence, answers) else { return Taken::Repeat };
        self.ledgers[order.gateway.number()].checksum.add(order, sequence);
        let Some(listed) = self.books.get_mut(usize::from(order.symbol.0)) else {
            return self.reject(order.gateway, order.sequence, Reason::Symbol, answers);
        };
        let book = &mut listed.book;
        let taker = OrderId::new(order.gateway, sequence);
        let incoming = Incoming { order: taker, side: order.side, price: order.price, lots: u32::from(order.lots) };
        let best = (book.bid(), book.ask());
        let (ledgers, counts, checksum) = (&mut self.ledgers, &mut self.counts, &mut self.checksum);
        let mut deal = |deal: Deal| {
            // No trade has more lots than the order that came, of which there are no more than a byte holds.
            let lots = deal.lots as u8;
            counts.trades += 1;
            counts.lots += u64::from(deal.lots);
            checksum.add(order.symbol, deal.price, lots, order.side, taker, deal.maker);
            let maker = deal.maker.gateway();
            let mut trade = Trade {
                number: ledgers[order.gateway.number()].number(),
                symbol: order.symbol,
                price: deal.price,
                lots,
                side: order.side,
                answers: deal.is_last,
                taker: order.gateway,
                taker_sequence: order.sequence,
                maker,
                maker_sequence: Short::of(deal.maker.sequence()),
            };
            counts.trade_messages += 1;
            answers.message(To::Gateway(order.gateway), &Message::Trade(trade));
            if maker != order.gateway {
                trade.number = ledgers[maker.number()].number();
                counts.trade_messages += 1;
                answers.message(To::Gateway(maker), &Message::Trade(trade));
            }
        };
        match book.enter(&mut self.resting, incoming, self.rules.matching, &mut deal) {
            Fate::Traded => {}
            Fate::Rests => {
                counts.confirmations += 1;
                let number = ledgers[order.gateway.number()].number();
                let confirmation = Confirmation { gateway: order.gateway, number, sequence: order.sequence };
                answers.message(To::Gateway(order.gateway), &Message::Confirmation(confirmation));
            }
            Fate::BookFull => return self.reject(order.gateway, order.sequence, Reason::BookFull, answers),
            Fate::AllFull => return self.reject(order.gateway, order.sequence, Reason::EngineFull, answers),
        }
        let (bid, ask) = (book.bid(), book.ask());
        if best != (bid, ask) {
            counts.quotes += 1;
            let quote = Quote { symbol: order.symbol, bid, ask, number: listed.quotes };
            listed.quotes = listed.quotes.wrapping_add(1);
            answers.message(To::All, &Message::Quote(quote));
        }
        Taken::Order
    }

    #[cold]
    fn reject(&mut self, gateway: Gateway, sequence: Short, reason: Reason, answers: &mut impl Answers) -> Taken {
        self.counts.rejects += 1;
        let number = self.ledgers[gateway.number()].number();
        let reject = Reject { gateway, number, sequence, reason };
        answers.message(To::Gateway(gateway), &Message::Reject(reject));
        Taken::Order
    }

    /// What is not an order, or is a wrong one.
    #[cold]
    fn other(&mut self, bytes: &[u8], malformed: Malformed, answers: &mut impl Answers) -> Taken {
        if let Some((gateway, short)) = malformed.order {
            return match self.admit(gateway, short, answers) {
                Some(_) => self.reject(gateway, short, malformed.reason, answers),
                None => Taken::Repeat,
            };
        }
        match Message::decode(bytes) {
            Ok(Message::End(end)) => self.end(&end, answers),
            // Of an order that could be named the reason would have been found above.
            Err(malformed) if !malformed.reason.names_an_order() => self.refuse(malformed.reason, answers),
            Ok(_) | Err(_) => self.refuse(Reason::NotAnOrder, answers),
        }
    }

    fn refuse(&mut self, reason: Reason, answers: &mut impl Answers) -> Taken {
        self.counts.malformed += 1;
        let (gateway, number) = (Gateway::default(), Short::default());
        let reject = Reject { gateway, number, sequence: number, reason };
        answers.message(To::Sender, &Message::Reject(reject));
        Taken::Malformed
    }

    fn end(&mut self, end: &End, answers: &mut impl Answers) -> Taken {
        let ledger = &mut self.ledgers[end.gateway.number()];
        let expected = ledger.expected();
        if !(expected..=expected.saturating_add(ORDERS_UNDER_WAY_MAX)).contains(&end.count) {
            return self.refuse(Reason::Count, answers);
        }
        if let Some(gap) = ledger.reach(end.count) {
            self.counts.missing += gap.orders();
            answers.gap(end.gateway, gap);
        }
        let end = End { gateway: end.gateway, count: ledger.answers, checksum: self.checksum.value() };
        answers.message(To::Gateway(end.gateway), &Message::End(end));
        Taken::End(end.gateway)
    }
}
