//! The identity of an order, the gateway and full sequence number, packed into one word.

use crate::terms::GatewayId;
use std::fmt;

const SEQUENCE_BITS: u32 = 56;

/// A gateway and the full sequence number of one of its orders.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrderId(u64);

impl OrderId {
    /// Only 56 bits of the number are kept.
    #[inline]
    pub fn new(gateway: GatewayId, sequence: u64) -> Self {
        Self(u64::from(gateway.nibble()) << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1))
    }

    #[inline]
    pub fn gateway(self) -> GatewayId {
        GatewayId::of_nibble((self.0 >> SEQUENCE_BITS) as u8)
    }

    /// Its number among all orders of its gateway.
    #[inline]
    pub fn sequence(self) -> u64 {
        self.0 & ((1 << SEQUENCE_BITS) - 1)
    }

    #[inline]
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn of_word(word: u64) -> Self {
        Self(word)
    }
}

impl fmt::Debug for OrderId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.gateway(), self.sequence())
    }
}
