//! Basic types of the market: sides, gateways, symbols, prices, quantities, matching rules, reject reasons.

use crate::limits::GATEWAYS_MAX;
use std::fmt;
use std::str::FromStr;

/// A price in ticks, the smallest price step.
pub type Ticks = u16;
/// A quantity in lots; a sum may exceed that of an order.
pub type Lots = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderSide {
    /// Buys at its price or lower.
    Buy,
    /// Sells at its price or higher.
    Sell,
}

impl OrderSide {
    /// The opposite side.
    pub fn other(self) -> Self {
        match self {
            OrderSide::Buy => OrderSide::Sell,
            OrderSide::Sell => OrderSide::Buy,
        }
    }
}

/// The number of a gateway, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GatewayId(u8);

impl GatewayId {
    /// The gateway of this number, if it is in range.
    pub const fn new(number: usize) -> Option<Self> {
        if number < GATEWAYS_MAX { Some(Self(number as u8)) } else { None }
    }

    /// From the lower half of a byte, every value of which is a gateway.
    #[inline]
    pub(crate) fn of_nibble(byte: u8) -> Self {
        Self(byte & 0x0F)
    }

    /// Its number, below [`GATEWAYS_MAX`].
    #[inline]
    pub fn number(self) -> usize {
        usize::from(self.0) & (GATEWAYS_MAX - 1)
    }

    #[inline]
    pub(crate) fn nibble(self) -> u8 {
        self.0
    }
}

impl fmt::Display for GatewayId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.0)
    }
}

/// The number of a symbol, from 0. The engine knows which exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol(pub u16);

/// When two orders trade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// At exactly the same price, as in the 2008 paper.
    Exact,
    /// When their prices cross, at the price of the resting order, as on real venues.
    #[default]
    Crossing,
}

impl FromStr for Matching {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "exact" => Ok(Matching::Exact),
            "crossing" => Ok(Matching::Crossing),
            _ => Err(format!("unknown matching '{text}': exact or crossing")),
        }
    }
}

impl fmt::Display for Matching {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Matching::Exact => "exact",
            Matching::Crossing => "crossing",
        })
    }
}

/// Why a message is not an order, or an order is rejected. The numbers are those of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RejectReason {
    /// The length does not fit the kind.
    Length = 1,
    /// Unknown kind of message, or undefined flags.
    Kind = 2,
    /// A valid message that an engine does not accept.
    NotAnOrder = 3,
    /// The engine has no such symbol.
    Symbol = 4,
    /// The price is 0 or above the highest.
    Price = 5,
    /// The quantity is 0.
    Quantity = 6,
    /// Nothing matches, and the book of this symbol is full.
    BookFull = 7,
    /// Nothing matches, and the engine is full.
    EngineFull = 8,
    /// An unknown reject reason.
    Reason = 9,
    /// An invalid histogram: out of order, with empty buckets, or with numbers that are too large.
    Histogram = 10,
    /// An end of stream after fewer orders than arrived, or with more than may be in flight.
    Count = 11,
}

impl RejectReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [RejectReason; 11] = [
        RejectReason::Length,
        RejectReason::Kind,
        RejectReason::NotAnOrder,
        RejectReason::Symbol,
        RejectReason::Price,
        RejectReason::Quantity,
        RejectReason::BookFull,
        RejectReason::EngineFull,
        RejectReason::Reason,
        RejectReason::Histogram,
        RejectReason::Count,
    ];

    /// The reason of this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Its number in messages.
    pub fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            RejectReason::Length => "wrong length",
            RejectReason::Kind => "unknown kind",
            RejectReason::NotAnOrder => "not an order",
            RejectReason::Symbol => "unknown symbol",
            RejectReason::Price => "price out of range",
            RejectReason::Quantity => "no quantity",
            RejectReason::BookFull => "book full",
            RejectReason::EngineFull => "engine full",
            RejectReason::Reason => "unknown reason",
            RejectReason::Histogram => "no histogram",
            RejectReason::Count => "wrong count of orders",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_reason_leads_back_to_it() {
        for reason in RejectReason::ALL {
            assert_eq!(RejectReason::of(reason.number()), Some(reason));
        }
        assert_eq!((RejectReason::of(0), RejectReason::of(12), RejectReason::of(255)), (None, None, None));
    }

    #[test]
    fn a_matching_is_what_it_is_called() {
        for matching in [Matching::Exact, Matching::Crossing] {
            assert_eq!(matching.to_string().parse(), Ok(matching));
        }
        assert!("fuzzy".parse::<Matching>().is_err());
    }
}
