//! The binary layout of market messages, except samples; docs/protocol/market.md describes it byte by byte.
//!
//! Decoding accepts any bytes without panicking or allocating.

use crate::limits::PRICE_TICKS_MAX;
use crate::sequence::ShortSequence;
use crate::terms::{GatewayId, OrderSide, RejectReason, Symbol, Ticks};

/// Bytes of an order, and of an entry of the engine's journal.
pub const ORDER_BYTES: usize = 9;
const TRADE_BYTES: usize = 16;
const CONFIRMATION_BYTES: usize = 7;
const QUOTE_BYTES: usize = 9;
const REJECT_BYTES: usize = 8;
const END_BYTES: usize = 17;
/// The longest message.
const BYTES_MAX: usize = END_BYTES;

/// The kind of a message: the upper half of its first byte.
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

/// From a gateway: buy or sell this many lots at this price or a better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrder {
    pub gateway: GatewayId,
    pub side: OrderSide,
    pub symbol: Symbol,
    /// From 1 to [`PRICE_TICKS_MAX`].
    pub price: Ticks,
    /// From 1 to 255.
    pub lots: u8,
    /// Its number among the orders of its gateway, from 0 without gaps.
    pub sequence: ShortSequence,
}

/// From the engine: two orders traded. Both gateways receive it, once if they are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// The number of this answer among those to this gateway.
    pub number: ShortSequence,
    pub symbol: Symbol,
    pub price: Ticks,
    pub lots: u8,
    /// The side of the incoming order.
    pub side: OrderSide,
    /// Whether this answers the incoming order: it is its last trade for now, and the remainder rests.
    pub answers: bool,
    /// The incoming order's gateway.
    pub taker: GatewayId,
    /// The incoming order.
    pub taker_sequence: ShortSequence,
    /// The resting order's gateway.
    pub maker: GatewayId,
    /// The resting order.
    pub maker_sequence: ShortSequence,
}

/// From the engine, an answer: nothing matches the order, which rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderConfirmation {
    pub gateway: GatewayId,
    /// The number of this answer among those to this gateway.
    pub number: ShortSequence,
    pub sequence: ShortSequence,
}

/// From the engine: the best prices of a symbol have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    pub symbol: Symbol,
    /// The highest price of a buyer.
    pub bid: Option<Ticks>,
    /// The lowest price of a seller.
    pub ask: Option<Ticks>,
    /// The low 16 bits of this quote's number among those of the symbol.
    pub number: u16,
}

/// From the engine, an answer: the order is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderReject {
    pub gateway: GatewayId,
    /// The number of this answer among those to this gateway. 0 if the input identified no order; such an answer has no
    /// number.
    pub number: ShortSequence,
    /// The order; 0 if the input identified none, see [`RejectReason::names_an_order`].
    pub sequence: ShortSequence,
    pub reason: RejectReason,
}

/// The end of a gateway's orders, or, from the engine, of the answers to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOfStream {
    /// The gateway of the orders or answers.
    pub gateway: GatewayId,
    /// The number of orders or answers: the next sequence number.
    pub count: u64,
    /// The checksum of the orders; from the engine, that of all trades so far.
    pub checksum: u64,
}

/// Any message except samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarketMessage {
    Order(NewOrder),
    /// A trade confirmation.
    Trade(Trade),
    /// An order confirmation.
    Confirmation(OrderConfirmation),
    /// A price quote.
    Quote(Quote),
    /// A rejection.
    Reject(OrderReject),
    /// An end of stream.
    End(EndOfStream),
}

/// Why bytes are not a message, and which order they would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedMessage {
    pub reason: RejectReason,
    /// The order's identity, if the input is long enough to be one.
    pub order: Option<(GatewayId, ShortSequence)>,
}

/// The bytes of a message, stored inline.
#[derive(Clone, Copy, Debug)]
pub struct EncodedMessage {
    bytes: [u8; BYTES_MAX],
    len: u8,
}

impl AsRef<[u8]> for EncodedMessage {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::ops::Deref for EncodedMessage {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl EncodedMessage {
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

fn malformed(reason: RejectReason) -> MalformedMessage {
    MalformedMessage { reason, order: None }
}

fn exactly<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], MalformedMessage> {
    bytes.try_into().map_err(|_| malformed(RejectReason::Length))
}

/// A price in a quote, where 0 means none.
fn quoted(price: u16) -> Result<Option<Ticks>, MalformedMessage> {
    if price > PRICE_TICKS_MAX { Err(malformed(RejectReason::Price)) } else { Ok((price != 0).then_some(price)) }
}

impl RejectReason {
    /// Whether a rejection for this reason identifies an order and has a number of its own. Otherwise it answers an
    /// input without a readable sequence number.
    pub fn names_an_order(self) -> bool {
        matches!(
            self,
            RejectReason::Symbol
                | RejectReason::Price
                | RejectReason::Quantity
                | RejectReason::BookFull
                | RejectReason::EngineFull
        )
    }
}

impl NewOrder {
    #[inline]
    pub fn encode(&self) -> [u8; ORDER_BYTES] {
        let kind = match self.side {
            OrderSide::Buy => kind::BUY,
            OrderSide::Sell => kind::SELL,
        };
        let ([s0, s1], [p0, p1]) = (self.symbol.0.to_be_bytes(), self.price.to_be_bytes());
        let [n0, n1, n2] = self.sequence.write();
        [kind << 4 | self.gateway.nibble(), s0, s1, p0, p1, self.lots, n0, n1, n2]
    }

    /// Decodes an order. Whether its symbol exists is for the engine to check.
    ///
    /// # Errors
    /// What is wrong with the bytes; if length and kind are right, with the identity of the order.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let &[first, s0, s1, p0, p1, lots, n0, n1, n2] = bytes else {
            return Err(malformed(RejectReason::Length));
        };
        let side = match first >> 4 {
            kind::BUY => OrderSide::Buy,
            kind::SELL => OrderSide::Sell,
            _ => return Err(malformed(RejectReason::Kind)),
        };
        let (gateway, sequence) = (GatewayId::of_nibble(first), ShortSequence::read([n0, n1, n2]));
        let price = u16::from_be_bytes([p0, p1]);
        if price == 0 || price > PRICE_TICKS_MAX {
            return Err(MalformedMessage { reason: RejectReason::Price, order: Some((gateway, sequence)) });
        }
        if lots == 0 {
            return Err(MalformedMessage { reason: RejectReason::Quantity, order: Some((gateway, sequence)) });
        }
        Ok(Self { gateway, side, symbol: Symbol(u16::from_be_bytes([s0, s1])), price, lots, sequence })
    }
}

impl Trade {
    fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let &[first, n0, n1, n2, parties, s0, s1, p0, p1, lots, t0, t1, t2, m0, m1, m2] =
            exactly::<TRADE_BYTES>(bytes)?;
        if first & 0x0F > FLAG_SELL | FLAG_ANSWERS {
            return Err(malformed(RejectReason::Kind));
        }
        let price = quoted(u16::from_be_bytes([p0, p1]))?.ok_or(malformed(RejectReason::Price))?;
        if lots == 0 {
            return Err(malformed(RejectReason::Quantity));
        }
        Ok(Self {
            number: ShortSequence::read([n0, n1, n2]),
            symbol: Symbol(u16::from_be_bytes([s0, s1])),
            price,
            lots,
            side: if first & FLAG_SELL == 0 { OrderSide::Buy } else { OrderSide::Sell },
            answers: first & FLAG_ANSWERS != 0,
            taker: GatewayId::of_nibble(parties >> 4),
            taker_sequence: ShortSequence::read([t0, t1, t2]),
            maker: GatewayId::of_nibble(parties),
            maker_sequence: ShortSequence::read([m0, m1, m2]),
        })
    }

    fn encode(&self) -> EncodedMessage {
        let side = if self.side == OrderSide::Sell { FLAG_SELL } else { 0 };
        let answers = if self.answers { FLAG_ANSWERS } else { 0 };
        EncodedMessage::empty(kind::TRADE, side | answers)
            .put(self.number.write())
            .put([self.taker.nibble() << 4 | self.maker.nibble()])
            .put(self.symbol.0.to_be_bytes())
            .put(self.price.to_be_bytes())
            .put([self.lots])
            .put(self.taker_sequence.write())
            .put(self.maker_sequence.write())
    }
}

impl OrderConfirmation {
    fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let &[first, n0, n1, n2, s0, s1, s2] = exactly::<CONFIRMATION_BYTES>(bytes)?;
        let (number, sequence) = (ShortSequence::read([n0, n1, n2]), ShortSequence::read([s0, s1, s2]));
        Ok(Self { gateway: GatewayId::of_nibble(first), number, sequence })
    }
}

impl Quote {
    fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let &[first, s0, s1, b0, b1, a0, a1, n0, n1] = exactly::<QUOTE_BYTES>(bytes)?;
        if first & 0x0F != 0 {
            return Err(malformed(RejectReason::Kind));
        }
        Ok(Self {
            symbol: Symbol(u16::from_be_bytes([s0, s1])),
            bid: quoted(u16::from_be_bytes([b0, b1]))?,
            ask: quoted(u16::from_be_bytes([a0, a1]))?,
            number: u16::from_be_bytes([n0, n1]),
        })
    }
}

impl OrderReject {
    fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let &[first, n0, n1, n2, s0, s1, s2, reason] = exactly::<REJECT_BYTES>(bytes)?;
        let reason = RejectReason::of(reason).ok_or(malformed(RejectReason::Reason))?;
        let (number, sequence) = (ShortSequence::read([n0, n1, n2]), ShortSequence::read([s0, s1, s2]));
        Ok(Self { gateway: GatewayId::of_nibble(first), number, sequence, reason })
    }
}

impl EndOfStream {
    fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let &[first, c0, c1, c2, c3, c4, c5, c6, c7, h0, h1, h2, h3, h4, h5, h6, h7] = exactly::<END_BYTES>(bytes)?;
        Ok(Self {
            gateway: GatewayId::of_nibble(first),
            count: u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
            checksum: u64::from_be_bytes([h0, h1, h2, h3, h4, h5, h6, h7]),
        })
    }
}

impl MarketMessage {
    /// Decodes a message. A sample is none of these: it gives [`RejectReason::Kind`] here, and
    /// [`crate::MarketSample::decode`] reads it.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let Some(first) = bytes.first() else { return Err(malformed(RejectReason::Length)) };
        match first >> 4 {
            kind::BUY | kind::SELL => NewOrder::decode(bytes).map(MarketMessage::Order),
            kind::TRADE => Trade::decode(bytes).map(MarketMessage::Trade),
            kind::CONFIRMATION => OrderConfirmation::decode(bytes).map(MarketMessage::Confirmation),
            kind::QUOTE => Quote::decode(bytes).map(MarketMessage::Quote),
            kind::REJECT => OrderReject::decode(bytes).map(MarketMessage::Reject),
            kind::END => EndOfStream::decode(bytes).map(MarketMessage::End),
            _ => Err(malformed(RejectReason::Kind)),
        }
    }

    #[inline]
    pub fn encode(&self) -> EncodedMessage {
        match self {
            MarketMessage::Order(order) => {
                let [first, rest @ ..] = order.encode();
                EncodedMessage::empty(first >> 4, first & 0x0F).put(rest)
            }
            MarketMessage::Trade(trade) => trade.encode(),
            MarketMessage::Confirmation(of) => EncodedMessage::empty(kind::CONFIRMATION, of.gateway.nibble())
                .put(of.number.write())
                .put(of.sequence.write()),
            MarketMessage::Quote(quote) => EncodedMessage::empty(kind::QUOTE, 0)
                .put(quote.symbol.0.to_be_bytes())
                .put(quote.bid.unwrap_or(0).to_be_bytes())
                .put(quote.ask.unwrap_or(0).to_be_bytes())
                .put(quote.number.to_be_bytes()),
            MarketMessage::Reject(of) => EncodedMessage::empty(kind::REJECT, of.gateway.nibble())
                .put(of.number.write())
                .put(of.sequence.write())
                .put([of.reason.number()]),
            MarketMessage::End(end) => EncodedMessage::empty(kind::END, end.gateway.nibble())
                .put(end.count.to_be_bytes())
                .put(end.checksum.to_be_bytes()),
        }
    }
}
