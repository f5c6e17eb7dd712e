//! The messages of the market as bytes; docs/protocol/market.md has them byte by byte.
//!
//! Enters: bytes of anybody; or a message.  Leaves: a message, or why the bytes are none; or its bytes.
//! Owns:   the layout of everything but samples.
//! Never:  panics, allocates, knows which symbols there are.

use crate::limits::PRICE_TICKS_MAX;
use crate::sequence::Short;
use crate::terms::{Gateway, Reason, Side, Symbol, Ticks};

/// Bytes of an order, and so of an entry of the engine's journal.
pub const ORDER_BYTES: usize = 9;
const TRADE_BYTES: usize = 16;
const CONFIRMATION_BYTES: usize = 7;
const QUOTE_BYTES: usize = 9;
const REJECT_BYTES: usize = 8;
const END_BYTES: usize = 17;
/// The longest of them.
const BYTES_MAX: usize = END_BYTES;

/// What a message is: the upper half of its first byte.
pub(crate) mod kind {
    pub const BUY: u8 = 1;
    pub const SELL: u8 = 2;
    pub const TRADE: u8 = 3;
    pub const CONFIRMATION: u8 = 4;
    pub const QUOTE: u8 = 5;
    pub const REJECT: u8 = 6;
    pub const GATEWAY_SAMPLE: u8 = 7;
    pub const ENGINE_SAMPLE: u8 = 8;
    pub const END: u8 = 9;
}

const FLAG_SELL: u8 = 1;
const FLAG_ANSWERS: u8 = 2;

/// From a gateway: buy or sell so many lots at this price or a better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Who sends it.
    pub gateway: Gateway,
    /// Buys or sells.
    pub side: Side,
    /// Of what.
    pub symbol: Symbol,
    /// From 1 to [`PRICE_TICKS_MAX`].
    pub price: Ticks,
    /// From 1 to 255.
    pub lots: u8,
    /// Its number among the orders of its gateway, from 0 without gaps.
    pub sequence: Short,
}

/// From the engine: two orders traded. It goes to the gateway of each, once if that is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// The number of this answer among those to this gateway.
    pub number: Short,
    /// What was traded.
    pub symbol: Symbol,
    /// At which price.
    pub price: Ticks,
    /// How many lots.
    pub lots: u8,
    /// The side of the order that came.
    pub side: Side,
    /// Whether this is the answer to the order that came: it is its last trade for now, and what is left of it rests.
    pub answers: bool,
    /// Whose order came.
    pub taker: Gateway,
    /// The order that came.
    pub taker_sequence: Short,
    /// Whose order rested.
    pub maker: Gateway,
    /// The order that rested.
    pub maker_sequence: Short,
}

/// From the engine, an answer: nothing matches the order, it rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Whose order it is.
    pub gateway: Gateway,
    /// The number of this answer among those to this gateway.
    pub number: Short,
    /// The order.
    pub sequence: Short,
}

/// From the engine: the best prices of a symbol have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Whose prices.
    pub symbol: Symbol,
    /// The highest price that somebody buys at.
    pub bid: Option<Ticks>,
    /// The lowest price that somebody sells at.
    pub ask: Option<Ticks>,
    /// The number of this quote among those of the symbol: 16 bits of it.
    pub number: u16,
}

/// From the engine, an answer: the order is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Whose order it is.
    pub gateway: Gateway,
    /// The number of this answer among those to this gateway. 0 if the message named no order: then it is not numbered.
    pub number: Short,
    /// The order; 0 if the message named none, which [`Reason::names_an_order`] tells.
    pub sequence: Short,
    /// Why not.
    pub reason: Reason,
}

/// The end of a stream: of a gateway's orders, or, from the engine, of the answers to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Whose orders, or to whom the answers.
    pub gateway: Gateway,
    /// How many orders or answers there were: the sequence number that the next one would have.
    pub count: u64,
    /// The checksum of the orders; from the engine that of all trades so far.
    pub checksum: u64,
}

/// Any message but samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// An order.
    Order(Order),
    /// A trade confirmation.
    Trade(Trade),
    /// An order confirmation.
    Confirmation(Confirmation),
    /// A price quote.
    Quote(Quote),
    /// A rejection.
    Reject(Reject),
    /// An end of stream.
    End(End),
}

/// Bytes that are no message, and what can be said of them nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong.
    pub reason: Reason,
    /// Which order it would have been, if it is long enough to be one.
    pub order: Option<(Gateway, Short)>,
}

/// The bytes of a message, in a place of their own.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; BYTES_MAX],
    len: u8,
}

impl AsRef<[u8]> for Encoded {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::ops::Deref for Encoded {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl Encoded {
    fn empty(kind: u8, low: u8) -> Self {
        let mut bytes = [0; BYTES_MAX];
        bytes[0] = kind << 4 | low;
        Self { bytes, len: 1 }
    }

    fn put<const N: usize>(mut self, part: [u8; N]) -> Self {
        let from = usize::from(self.len);
        self.bytes[from..from + N].copy_from_slice(&part);
        self.len += N as u8;
        self
    }
}

fn malformed(reason: Reason) -> Malformed {
    Malformed { reason, order: None }
}

fn exactly<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], Malformed> {
    bytes.try_into().map_err(|_| malformed(Reason::Length))
}

/// A price in a quote, where 0 is none.
fn quoted(price: u16) -> Result<Option<Ticks>, Malformed> {
    if price > PRICE_TICKS_MAX { Err(malformed(Reason::Price)) } else { Ok((price != 0).then_some(price)) }
}

impl Reason {
    /// Whether a rejection for this reason names an order and has a number of its own. One that does not answers a message that
    /// was nothing a sequence number could be read from.
    pub fn names_an_order(self) -> bool {
        matches!(self, Reason::Symbol | Reason::Price | Reason::Quantity | Reason::BookFull | Reason::EngineFull)
    }
}

impl Order {
    /// The bytes of this order.
    #[inline]
    pub fn encode(&self) -> [u8; ORDER_BYTES] {
        let kind = match self.side {
            Side::Buy => kind::BUY,
            Side::Sell => kind::SELL,
        };
        let ([s0, s1], [p0, p1]) = (self.symbol.0.to_be_bytes(), self.price.to_be_bytes());
        let [n0, n1, n2] = self.sequence.write();
        [kind << 4 | self.gateway.nibble(), s0, s1, p0, p1, self.lots, n0, n1, n2]
    }

    /// An order of these bytes. Whether there is such a symbol, the engine knows.
    ///
    /// # Errors
    /// What is wrong with them; where the length and the kind are right, with the order it would have been.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let &[first, s0, s1, p0, p1, lots, n0, n1, n2] = bytes else {
            return Err(malformed(Reason::Length));
        };
        let side = match first >> 4 {
            kind::BUY => Side::Buy,
            kind::SELL => Side::Sell,
            _ => return Err(malformed(Reason::Kind)),
        };
        let (gateway, sequence) = (Gateway::of_nibble(first), Short::read([n0, n1, n2]));
        let price = u16::from_be_bytes([p0, p1]);
        if price == 0 || price > PRICE_TICKS_MAX {
            return Err(Malformed { reason: Reason::Price, order: Some((gateway, sequence)) });
        }
        if lots == 0 {
            return Err(Malformed { reason: Reason::Quantity, order: Some((gateway, sequence)) });
        }
        Ok(Self { gateway, side, symbol: Symbol(u16::from_be_bytes([s0, s1])), price, lots, sequence })
    }
}

impl Trade {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let &[first, n0, n1, n2, parties, s0, s1, p0, p1, lots, t0, t1, t2, m0, m1, m2] =
            exactly::<TRADE_BYTES>(bytes)?;
        if first & 0x0F > FLAG_SELL | FLAG_ANSWERS {
            return Err(malformed(Reason::Kind));
        }
        let price = quoted(u16::from_be_bytes([p0, p1]))?.ok_or(malformed(Reason::Price))?;
        if lots == 0 {
            return Err(malformed(Reason::Quantity));
        }
        Ok(Self {
            number: Short::read([n0, n1, n2]),
            symbol: Symbol(u16::from_be_bytes([s0, s1])),
            price,
            lots,
            side: if first & FLAG_SELL == 0 { Side::Buy } else { Side::Sell },
            answers: first & FLAG_ANSWERS != 0,
            taker: Gateway::of_nibble(parties >> 4),
            taker_sequence: Short::read([t0, t1, t2]),
            maker: Gateway::of_nibble(parties),
            maker_sequence: Short::read([m0, m1, m2]),
        })
    }

    fn encode(&self) -> Encoded {
        let side = if self.side == Side::Sell { FLAG_SELL } else { 0 };
        let answers = if self.answers { FLAG_ANSWERS } else { 0 };
        Encoded::empty(kind::TRADE, side | answers)
            .put(self.number.write())
            .put([self.taker.nibble() << 4 | self.maker.nibble()])
            .put(self.symbol.0.to_be_bytes())
            .put(self.price.to_be_bytes())
            .put([self.lots])
            .put(self.taker_sequence.write())
            .put(self.maker_sequence.write())
    }
}

impl Confirmation {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let &[first, n0, n1, n2, s0, s1, s2] = exactly::<CONFIRMATION_BYTES>(bytes)?;
        let (number, sequence) = (Short::read([n0, n1, n2]), Short::read([s0, s1, s2]));
        Ok(Self { gateway: Gateway::of_nibble(first), number, sequence })
    }
}

impl Quote {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let &[first, s0, s1, b0, b1, a0, a1, n0, n1] = exactly::<QUOTE_BYTES>(bytes)?;
        if first & 0x0F != 0 {
            return Err(malformed(Reason::Kind));
        }
        Ok(Self {
            symbol: Symbol(u16::from_be_bytes([s0, s1])),
            bid: quoted(u16::from_be_bytes([b0, b1]))?,
            ask: quoted(u16::from_be_bytes([a0, a1]))?,
            number: u16::from_be_bytes([n0, n1]),
        })
    }
}

impl Reject {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let &[first, n0, n1, n2, s0, s1, s2, reason] = exactly::<REJECT_BYTES>(bytes)?;
        let reason = Reason::of(reason).ok_or(malformed(Reason::Reason))?;
        let (number, sequence) = (Short::read([n0, n1, n2]), Short::read([s0, s1, s2]));
        Ok(Self { gateway: Gateway::of_nibble(first), number, sequence, reason })
    }
}

impl End {
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let &[first, c0, c1, c2, c3, c4, c5, c6, c7, h0, h1, h2, h3, h4, h5, h6, h7] = exactly::<END_BYTES>(bytes)?;
        Ok(Self {
            gateway: Gateway::of_nibble(first),
            count: u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
            checksum: u64::from_be_bytes([h0, h1, h2, h3, h4, h5, h6, h7]),
        })
    }
}

impl Message {
    /// The message of these bytes. A sample is none of these: it is of kind [`Reason::Kind`] here, and [`crate::Sample::decode`] reads it.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some(first) = bytes.first() else { return Err(malformed(Reason::Length)) };
        match first >> 4 {
            kind::BUY | kind::SELL => Order::decode(bytes).map(Message::Order),
            kind::TRADE => Trade::decode(bytes).map(Message::Trade),
            kind::CONFIRMATION => Confirmation::decode(bytes).map(Message::Confirmation),
            kind::QUOTE => Quote::decode(bytes).map(Message::Quote),
            kind::REJECT => Reject::decode(bytes).map(Message::Reject),
            kind::END => End::decode(bytes).map(Message::End),
            _ => Err(malformed(Reason::Kind)),
        }
    }

    /// The bytes of this message.
    #[inline]
    pub fn encode(&self) -> Encoded {
        match self {
            Message::Order(order) => {
                let [first, rest @ ..] = order.encode();
                Encoded::empty(first >> 4, first & 0x0F).put(rest)
            }
            Message::Trade(trade) => trade.encode(),
            Message::Confirmation(of) => {
                Encoded::empty(kind::CONFIRMATION, of.gateway.nibble()).put(of.number.write()).put(of.sequence.write())
            }
            Message::Quote(quote) => Encoded::empty(kind::QUOTE, 0)
                .put(quote.symbol.0.to_be_bytes())
                .put(quote.bid.unwrap_or(0).to_be_bytes())
                .put(quote.ask.unwrap_or(0).to_be_bytes())
                .put(quote.number.to_be_bytes()),
            Message::Reject(of) => Encoded::empty(kind::REJECT, of.gateway.nibble())
                .put(of.number.write())
                .put(of.sequence.write())
                .put([of.reason.number()]),
            Message::End(end) => Encoded::empty(kind::END, end.gateway.nibble())
                .put(end.count.to_be_bytes())
                .put(end.checksum.to_be_bytes()),
        }
    }
}
