//! The limit order book of one symbol: price-time priority.
//!
//! Enters: orders.  Leaves: their trades in the order they are made, and whether they rest.
//! Owns:   a list of orders for each price, and which prices have any.
//! Never:  knows messages, sequence numbers, other symbols.

use crate::limits::PRICE_TICKS_MAX;
use crate::order_id::OrderId;
use crate::price_set::PriceSet;
use crate::resting_orders::OrderList;
pub use crate::resting_orders::RestingOrders;
use crate::terms::{Lots, Matching, OrderSide, Ticks};

const LEVELS: usize = PRICE_TICKS_MAX as usize + 1;
/// The levels of a book are turned by so many against those of the one before it: three lines of a cache.
const ROTATION_LEVELS: usize = 24;
/// Nobody sells: higher than any price. Nobody buys: 0, lower than any.
const NO_ASK: Ticks = Ticks::MAX;
const NO_BID: Ticks = 0;

/// An order as a book knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingOrder {
    /// Which it is.
    pub order: OrderId,
    /// Buys or sells.
    pub side: OrderSide,
    /// From 1 to [`PRICE_TICKS_MAX`].
    pub price: Ticks,
    /// More than 0.
    pub lots: Lots,
}

/// A trade of the order that comes with one that rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookFill {
    /// That of the order that rested.
    pub price: Ticks,
    /// How many.
    pub lots: Lots,
    /// The order that rested.
    pub maker: OrderId,
    /// Whether no other trade follows now.
    pub is_last: bool,
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchOutcome {
    /// It traded; what is left of it rests.
    Traded,
    /// Nothing matched; it rests.
    Resting,
    /// Nothing matched, and the book has no room.
    BookFull,
    /// Nothing matched, and all books together have no room.
    EngineFull,
}

/// The book of one symbol.
#[derive(Debug)]
pub struct OrderBook {
    /// Of one price only one side has orders: what could trade there has.
    levels: Box<[OrderList; LEVELS]>,
    bids: PriceSet,
    asks: PriceSet,
    bid: Ticks,
    ask: Ticks,
    count: u32,
    max: u32,
    /// By how many places the levels are turned: see [`Book::new`].
    rotation: usize,
}

impl OrderBook {
    /// An empty one, in which so many orders may rest. Books of different numbers keep the same price in different places, lest all
    /// of them want the same lines of the processor's caches.
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

    /// The highest price that somebody buys at.
    #[inline]
    pub fn bid(&self) -> Option<Ticks> {
        (self.bid != NO_BID).then_some(self.bid)
    }

    /// The lowest price that somebody sells at.
    #[inline]
    pub fn ask(&self) -> Option<Ticks> {
        (self.ask != NO_ASK).then_some(self.ask)
    }

    /// How many orders rest in it.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The orders that rest at a price, the oldest first, and their side.
    pub fn at<'a>(
        &self,
        resting: &'a RestingOrders,
        price: Ticks,
    ) -> (OrderSide, impl Iterator<Item = (OrderId, Lots)> + use<'a>) {
        let side = if self.bids.contains(price) { OrderSide::Buy } else { OrderSide::Sell };
        (side, resting.iter(&self.levels[(usize::from(price) + self.rotation) % LEVELS]))
    }

    /// Takes an order. All that rest are in `resting`, which must be the same one each time.
    ///
    /// # Panics
    /// If the order has no lots or no price that there is: the caller has checked both.
    #[inline]
    pub fn submit(
        &mut self,
        resting: &mut RestingOrders,
        order: IncomingOrder,
        matching: Matching,
        deal: &mut impl FnMut(BookFill),
    ) -> MatchOutcome {
        assert!(order.lots > 0 && (1..=PRICE_TICKS_MAX).contains(&order.price), "an order that was checked: {order:?}");
        match order.side {
            OrderSide::Buy => self.match_side::<true>(resting, order, matching, deal),
            OrderSide::Sell => self.match_side::<false>(resting, order, matching, deal),
        }
    }

    /// The price at which the next trade would be.
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
        deal: &mut impl FnMut(BookFill),
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
            deal(BookFill { price, lots, maker, is_last: next.is_none() });
            let Some(next) = next else { break };
            price = next;
        }
        if left > 0 {
            // There is room: something is left only where an order that rested has gone.
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

    /// No orders are left at a price that a buyer (or seller) has traded at.
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
