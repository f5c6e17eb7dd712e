//! The limit order book of one symbol, with price-time priority.

use crate::limits::PRICE_TICKS_MAX;
use crate::order_id::OrderId;
use crate::price_set::PriceSet;
use crate::resting_orders::OrderList;
pub use crate::resting_orders::RestingOrders;
use crate::terms::{Lots, Matching, OrderSide, Ticks};

const LEVELS: usize = PRICE_TICKS_MAX as usize + 1;
/// The levels of a book are rotated by this much relative to the previous book: three cache lines.
const ROTATION_LEVELS: usize = 24;
/// No seller: higher than any price. No buyer: 0, lower than any.
const NO_ASK: Ticks = Ticks::MAX;
const NO_BID: Ticks = 0;

/// An order as a book sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingOrder {
    pub order: OrderId,
    pub side: OrderSide,
    /// From 1 to [`PRICE_TICKS_MAX`].
    pub price: Ticks,
    /// More than 0.
    pub lots: Lots,
}

/// A fill: a trade of the incoming order with a resting one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookFill {
    /// The price of the resting order.
    pub price: Ticks,
    pub lots: Lots,
    /// The resting order.
    pub maker: OrderId,
    /// Whether this is the last fill of the incoming order.
    pub is_last: bool,
}

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchOutcome {
    /// It traded; the remainder rests.
    Traded,
    /// Nothing matched; it rests.
    Resting,
    /// Nothing matched, and the book is full.
    BookFull,
    /// Nothing matched, and all books together are full.
    EngineFull,
}

#[derive(Debug)]
pub struct OrderBook {
    /// At any price only one side has orders: whatever could trade there has traded.
    levels: Box<[OrderList; LEVELS]>,
    bids: PriceSet,
    asks: PriceSet,
    bid: Ticks,
    ask: Ticks,
    count: u32,
    max: u32,
    /// Rotation of the levels, see [`OrderBook::new`].
    rotation: usize,
}

impl OrderBook {
    /// An empty book for up to `max` resting orders. Books of different numbers keep the same price at different
    /// levels, so that they do not compete for the same cache lines.
    pub fn new(number: u16, max: u32) -> Self {
        let levels: Box<[OrderList]> = vec![[0; 2]; LEVELS].into();
        let Ok(levels) = levels.try_into() else { unreachable!("it has the length that it was made with") };
        Self {
            levels,
            bids: PriceSet::default(),
            asks: PriceSet::default(),
            bid: NO_BID,
            ask: NO_ASK,
            count: 0,
            max,
            rotation: usize::from(number) * ROTATION_LEVELS,
        }
    }

    /// The highest price of a buyer.
    #[inline]
    pub fn bid(&self) -> Option<Ticks> {
        (self.bid != NO_BID).then_some(self.bid)
    }

    /// The lowest price of a seller.
    #[inline]
    pub fn ask(&self) -> Option<Ticks> {
        (self.ask != NO_ASK).then_some(self.ask)
    }

    /// Number of resting orders.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The resting orders at a price, the oldest first, and their side.
    pub fn at<'a>(
        &self,
        resting: &'a RestingOrders,
        price: Ticks,
    ) -> (OrderSide, impl Iterator<Item = (OrderId, Lots)> + use<'a>) {
        let side = if self.bids.contains(price) { OrderSide::Buy } else { OrderSide::Sell };
        (side, resting.iter(&self.levels[(usize::from(price) + self.rotation) % LEVELS]))
    }

    /// Submits an order. `resting` holds the resting orders of all books and must be the same each time.
    ///
    /// # Panics
    /// If the order has no lots or an invalid price: the caller has checked both.
    #[inline]
    pub fn submit(
        &mut self,
        resting: &mut RestingOrders,
        order: IncomingOrder,
        matching: Matching,
        fill: &mut impl FnMut(BookFill),
    ) -> MatchOutcome {
        assert!(order.lots > 0 && (1..=PRICE_TICKS_MAX).contains(&order.price), "an order that was checked: {order:?}");
        match order.side {
            OrderSide::Buy => self.match_side::<true>(resting, order, matching, fill),
            OrderSide::Sell => self.match_side::<false>(resting, order, matching, fill),
        }
    }

    /// The price of the next trade.
    #[inline]
    fn matching_price<const BUYS: bool>(&self, price: Ticks, matching: Matching) -> Option<Ticks> {
        match (matching, BUYS) {
            (Matching::Crossing, true) => (price >= self.ask).then_some(self.ask),
            (Matching::Crossing, false) => (price <= self.bid).then_some(self.bid),
            (Matching::Exact, true) => self.asks.contains(price).then_some(price),
            (Matching::Exact, false) => self.bids.contains(price).then_some(price),
        }
    }

    #[inline]
    fn match_side<const BUYS: bool>(
        &mut self,
        resting: &mut RestingOrders,
        order: IncomingOrder,
        matching: Matching,
        fill: &mut impl FnMut(BookFill),
    ) -> MatchOutcome {
        let mut left = order.lots;
        let Some(mut price) = self.matching_price::<BUYS>(order.price, matching) else {
            if self.count >= self.max {
                return MatchOutcome::BookFull;
            }
            if resting.is_full() {
                return MatchOutcome::EngineFull;
            }
            self.rest::<BUYS>(resting, order, left);
            return MatchOutcome::Resting;
        };
        loop {
            let level = &mut self.levels[(usize::from(price) + self.rotation) % LEVELS];
            let before = resting.count();
            let (lots, maker) = resting.take(level, left);
            left -= lots;
            if resting.count() != before {
                self.count -= 1;
                if level[0] == 0 {
                    self.on_level_emptied::<BUYS>(price);
                }
            }
            let next = if left == 0 { None } else { self.matching_price::<BUYS>(order.price, matching) };
            fill(BookFill { price, lots, maker, is_last: next.is_none() });
            let Some(next) = next else { break };
            price = next;
        }
        if left > 0 {
            // There is capacity: a remainder is left only if a resting order was filled.
            self.rest::<BUYS>(resting, order, left);
        }
        MatchOutcome::Traded
    }

    #[inline]
    fn rest<const BUYS: bool>(&mut self, resting: &mut RestingOrders, order: IncomingOrder, lots: Lots) {
        resting.push(&mut self.levels[(usize::from(order.price) + self.rotation) % LEVELS], order.order, lots);
        self.count += 1;
        if BUYS {
            self.bids.insert(order.price);
            self.bid = self.bid.max(order.price);
        } else {
            self.asks.insert(order.price);
            self.ask = self.ask.min(order.price);
        }
    }

    /// Removes a price that a buyer (or seller) has emptied.
    #[inline]
    fn on_level_emptied<const BUYS: bool>(&mut self, price: Ticks) {
        if BUYS {
            self.asks.remove(price);
            if self.ask == price {
                self.ask = self.asks.lowest_from(price).unwrap_or(NO_ASK);
            }
        } else {
            self.bids.remove(price);
            if self.bid == price {
                self.bid = self.bids.highest_to(price).unwrap_or(NO_BID);
            }
        }
    }
}
