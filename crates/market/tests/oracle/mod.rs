//! A slow, obvious book: all resting orders in one vector, sorted again for each order.

use market::order_book::{BookFill, IncomingOrder, MatchOutcome};
use market::{Lots, Matching, OrderId, OrderSide, Ticks};

/// A resting order, and the turn at which it arrived.
#[derive(Clone, Copy, Debug)]
pub struct OracleOrder {
    pub turn: usize,
    pub order: OrderId,
    pub side: OrderSide,
    pub price: Ticks,
    pub lots: Lots,
}

#[derive(Default)]
pub struct BookOracle {
    pub rests: Vec<OracleOrder>,
    turn: usize,
}

impl BookOracle {
    pub fn bid(&self) -> Option<Ticks> {
        self.rests.iter().filter(|rests| rests.side == OrderSide::Buy).map(|rests| rests.price).max()
    }

    pub fn ask(&self) -> Option<Ticks> {
        self.rests.iter().filter(|rests| rests.side == OrderSide::Sell).map(|rests| rests.price).min()
    }

    pub fn enter(
        &mut self,
        incoming: IncomingOrder,
        matching: Matching,
        max: usize,
        fills: &mut Vec<BookFill>,
    ) -> MatchOutcome {
        self.turn += 1;
        // The best price for the incoming order comes first, and at one price the oldest order.
        self.rests.sort_by_key(|rests| match incoming.side {
            OrderSide::Buy => (rests.price, rests.turn),
            OrderSide::Sell => (Ticks::MAX - rests.price, rests.turn),
        });
        let mut left = incoming.lots;
        let first = fills.len();
        for rests in self.rests.iter_mut().filter(|rests| rests.side == incoming.side.other()) {
            let matches = match (matching, incoming.side) {
                (Matching::Exact, _) => rests.price == incoming.price,
                (Matching::Crossing, OrderSide::Buy) => rests.price <= incoming.price,
                (Matching::Crossing, OrderSide::Sell) => rests.price >= incoming.price,
            };
            if matches && left > 0 {
                let lots = left.min(rests.lots);
                left -= lots;
                rests.lots -= lots;
                fills.push(BookFill { price: rests.price, lots, maker: rests.order, is_last: false });
            }
        }
        self.rests.retain(|rests| rests.lots > 0);
        let traded = fills.len() > first;
        if !traded && self.rests.len() >= max {
            return MatchOutcome::BookFull;
        }
        if left > 0 {
            let IncomingOrder { order, side, price, .. } = incoming;
            self.rests.push(OracleOrder { turn: self.turn, order, side, price, lots: left });
        }
        if traded {
            fills.last_mut().expect("it traded").is_last = true;
            MatchOutcome::Traded
        } else {
            MatchOutcome::Resting
        }
    }
}
