//! Checksums of orders and of trades, which two runs may be compared by.
//!
//! Enters: orders of one gateway, or trades of an engine, in their order.  Leaves: a number for all of them.
//! Owns:   the hash, and how those of symbols make one.
//! Never:  depends on how symbols take turns.

use crate::messages::NewOrder;
use crate::order_id::OrderId;
use crate::terms::{OrderSide, Symbol, Ticks};

/// Takes a word into a hash. The order of words counts.
#[inline]
fn fold(hash: u64, word: u64) -> u64 {
    let product = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ product >> 32).rotate_left(23)
}

/// Of the orders of one gateway: each that was taken, in the order in which they were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrdersChecksum(u64);

impl OrdersChecksum {
    /// Takes in an order, with its whole sequence number.
    #[inline]
    pub fn add(&mut self, order: &NewOrder, sequence: u64) {
        let side = u64::from(order.side == OrderSide::Sell);
        let what = u64::from(order.symbol.0) << 48 | u64::from(order.price) << 32 | side << 31 | u64::from(order.lots);
        self.0 = fold(fold(self.0, what), sequence);
    }

    /// Of all so far; 0 if there were none.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// Of all trades of an engine: a hash for each symbol, in which the order of its trades counts, and one of all those.
#[derive(Clone, Debug)]
pub struct TradesChecksum {
    of_symbols: Box<[u64]>,
}

impl TradesChecksum {
    /// For so many symbols.
    pub fn new(symbols: u16) -> Self {
        Self { of_symbols: vec![0; usize::from(symbols)].into() }
    }

    /// Takes in a trade between an order that came, on this side, and one that rested. Symbols that are none change nothing.
    #[inline]
    pub fn add(&mut self, symbol: Symbol, price: Ticks, lots: u8, side: OrderSide, taker: OrderId, maker: OrderId) {
        let Some(hash) = self.of_symbols.get_mut(usize::from(symbol.0)) else { return };
        let side = u64::from(side == OrderSide::Sell);
        let what = u64::from(symbol.0) << 48 | u64::from(price) << 32 | side << 31 | u64::from(lots);
        *hash = fold(fold(fold(*hash, what), taker.word()), maker.word());
    }

    /// Of the trades of one symbol; 0 if there were none.
    pub fn of_symbol(&self, symbol: Symbol) -> u64 {
        self.of_symbols.get(usize::from(symbol.0)).copied().unwrap_or(0)
    }

    /// Of all trades; 0 if there were none. Symbols without trades do not count.
    pub fn value(&self) -> u64 {
        self.of_symbols.iter().filter(|&&hash| hash != 0).fold(0, |all, &hash| fold(all, hash))
    }
}
