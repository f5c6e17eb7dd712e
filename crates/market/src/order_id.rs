//! Which order: the gateway it came from and its whole sequence number there.
//!
//! Enters: both.  Leaves: one word that books keep.
//! Owns:   how they are packed.
//! Never:  knows what was ordered.

use crate::terms::GatewayId;
use std::fmt;

const SEQUENCE_BITS: u32 = 56;

/// A gateway and the whole sequence number of one of its orders.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OrderId(u64);

impl OrderId {
    /// The order of this number from this gateway; of a number only 56 bits count.
    #[inline]
    pub fn new(gateway: GatewayId, sequence: u64) -> Self {
        Self(u64::from(gateway.nibble()) << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1))
    }

    /// Whose it is.
    #[inline]
    pub fn gateway(self) -> GatewayId {
        GatewayId::of_nibble((self.0 >> SEQUENCE_BITS) as u8)
    }

    /// Its number among all of its gateway.
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
