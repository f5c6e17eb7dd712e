//! Checksums of orders and of trades, by which two runs are compared.
//!
//! The checksum of trades does not depend on how the symbols interleave.

use crate::messages::NewOrder;
use crate::order_id::OrderId;
use crate::terms::{OrderSide, Symbol, Ticks};

/// Mixes a word into a hash; the order of words matters.
#[inline]
fn fold(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ product >> 32).rotate_left(23)
}

/// Checksum of a gateway's accepted orders, in the order in which they were accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrdersChecksum(u64);

impl OrdersChecksum {
    /// Adds an order with its full sequence number.
    #[inline]
    pub fn add(&mut self, order: &NewOrder, sequence: u64) {
        let side = u64::from(order.side == OrderSide::Sell);
        let what = u64::from(order.symbol.0) << 48 | u64::from(order.price) << 32 | side << 31 | u64::from(order.lots);
        self.0 = fold(fold(self.0, what), sequence);
    }

    /// The checksum so far; 0 without orders.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// Checksum of all trades of an engine: a hash for each symbol, which depends on the order of its trades, and a hash of
/// those.
#[derive(Clone, Debug)]
pub struct TradesChecksum {
    of_symbols: Box<[u64]>,
}

impl TradesChecksum {
    pub fn new(symbols: u16) -> Self {
        Self { of_symbols: vec![0; usize::from(symbols)].into() }
    }

    /// Adds a trade between an incoming order, on this side, and a resting one. Unknown symbols are ignored.
    #[inline]
    pub fn add(&mut self, symbol: Symbol, price: Ticks, lots: u8, side: OrderSide, taker: OrderId, maker: OrderId) {
        let Some(hash) = self.of_symbols.get_mut(usize::from(symbol.0)) else { return };
        let side = u64::from(side == OrderSide::Sell);
        let what = u64::from(symbol.0) << 48 | u64::from(price) << 32 | side << 31 | u64::from(lots);
        *hash = fold(fold(fold(*hash, what), taker.word()), maker.word());
    }

    /// The checksum of all trades; 0 without trades. Symbols without trades do not count.
    pub fn value(&self) -> u64 {
        self.of_symbols.iter().filter(|&&hash| hash != 0).fold(0, |all, &hash| fold(all, hash))
    }
}
