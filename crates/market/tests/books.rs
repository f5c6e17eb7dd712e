//! The order book against a slow and obvious one, and invariants of any book.

mod oracle;

use market::limits::PRICE_TICKS_MAX;
use market::order_book::{BookFill, IncomingOrder, MatchOutcome, OrderBook, RestingOrders};
use market::{GatewayId, Lots, Matching, OrderFlow, OrderFlowRules, OrderId, OrderSide, Ticks};
use oracle::BookOracle;
use proptest::prelude::*;
use std::collections::HashMap;

const MATCHINGS: [Matching; 2] = [Matching::Exact, Matching::Crossing];

fn incoming(at: usize, side: OrderSide, price: Ticks, lots: Lots) -> IncomingOrder {
    IncomingOrder { order: OrderId::new(GatewayId::default(), at as u64), side, price, lots }
}

/// Both books side by side, with invariants checked after each order.
struct BookPair {
    book: OrderBook,
    resting: RestingOrders,
    oracle: BookOracle,
    matching: Matching,
    max: u32,
    /// Each order, and how much of it was traded.
    lots: HashMap<OrderId, (IncomingOrder, Lots)>,
}

impl BookPair {
    fn new(matching: Matching, max: u32) -> Self {
        let (book, resting) = (OrderBook::new(3, max), RestingOrders::new(u32::MAX >> 1));
        Self { book, resting, oracle: BookOracle::default(), matching, max, lots: HashMap::new() }
    }

    fn enter(&mut self, order: IncomingOrder) -> (MatchOutcome, Vec<BookFill>) {
        let (mut fills, mut wanted) = (Vec::new(), Vec::new());
        let outcome = self.book.submit(&mut self.resting, order, self.matching, &mut |fill| fills.push(fill));
        let expected = self.oracle.enter(order, self.matching, self.max as usize, &mut wanted);
        assert_eq!((outcome, &fills), (expected, &wanted), "{order:?}");
        assert_eq!((self.book.bid(), self.book.ask()), (self.oracle.bid(), self.oracle.ask()), "{order:?}");
        assert_eq!(self.book.count() as usize, self.oracle.rests.len());
        assert_eq!(self.resting.count(), self.book.count());
        if self.matching == Matching::Crossing
            && let (Some(bid), Some(ask)) = (self.book.bid(), self.book.ask())
        {
            assert!(bid < ask, "crossed: {bid} {ask}");
        }
        self.quantities(order, outcome, &fills);
        (outcome, fills)
    }

    /// Asserts that no order trades more than its lots, at a worse price, or with its own side.
    fn quantities(&mut self, order: IncomingOrder, outcome: MatchOutcome, fills: &[BookFill]) {
        if matches!(outcome, MatchOutcome::BookFull | MatchOutcome::EngineFull) {
            assert!(fills.is_empty());
            return;
        }
        self.lots.insert(order.order, (order, 0));
        for fill in fills {
            assert!(fill.lots > 0);
            for id in [order.order, fill.maker] {
                let (ordered, traded) = self.lots.get_mut(&id).expect("an order that was taken");
                *traded += fill.lots;
                assert!(*traded <= ordered.lots, "{id:?} trades more than it ordered");
                match ordered.side {
                    OrderSide::Buy => assert!(fill.price <= ordered.price),
                    OrderSide::Sell => assert!(fill.price >= ordered.price),
                }
            }
            assert_eq!(self.lots[&fill.maker].0.side, order.side.other());
            assert_eq!(fill.price, self.lots[&fill.maker].0.price);
        }
    }

    /// Asserts for each order that its lots are those traded and those resting.
    fn nothing_is_lost(&self) {
        let mut rests: HashMap<OrderId, Lots> = HashMap::new();
        for price in 1..=PRICE_TICKS_MAX {
            let (side, orders) = self.book.at(&self.resting, price);
            for (order, lots) in orders {
                assert_eq!((self.lots[&order].0.price, self.lots[&order].0.side), (price, side));
                assert!(rests.insert(order, lots).is_none(), "{order:?} rests twice");
            }
        }
        assert_eq!(rests.len(), self.book.count() as usize);
        for (id, (ordered, traded)) in &self.lots {
            assert_eq!(ordered.lots, traded + rests.get(id).copied().unwrap_or(0), "{id:?}");
        }
        let sum = |side| -> u64 {
            let of = self.lots.values().filter(|(ordered, _)| ordered.side == side);
            of.map(|&(_, traded)| u64::from(traded)).sum()
        };
        assert_eq!(sum(OrderSide::Buy), sum(OrderSide::Sell), "what is bought is what is sold");
    }
}

/// Orders at few prices, so that they match; some at the ends of the range, and some isolated in the middle.
fn orders() -> impl Strategy<Value = Vec<(bool, Ticks, Lots)>> {
    let price = prop_oneof![
        8 => 100..112u16,
        4 => 60..70u16,
        1 => Just(1u16),
        1 => Just(PRICE_TICKS_MAX),
        1 => 1..=PRICE_TICKS_MAX,
    ];
    prop::collection::vec((any::<bool>(), price, 1..30u32), 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_book_does_what_the_obvious_one_does(orders in orders(), exact: bool, max in prop_oneof![1..20u32, Just(1_000)]) {
        let mut pair = BookPair::new(if exact { Matching::Exact } else { Matching::Crossing }, max);
        for (at, &(buys, price, lots)) in orders.iter().enumerate() {
            let side = if buys { OrderSide::Buy } else { OrderSide::Sell };
            pair.enter(incoming(at, side, price, lots));
        }
        pair.nothing_is_lost();
    }
}

#[test]
fn the_flow_is_matched_as_by_the_obvious_book() {
    for matching in MATCHINGS {
        let mut pair = BookPair::new(matching, u32::MAX >> 1);
        let flow = OrderFlow::new(OrderFlowRules {
            seed: 7,
            gateway: GatewayId::default(),
            symbols: 1,
            shared_by: 1,
            matching,
        });
        let mut traded = 0;
        for (at, order) in flow.take(4_000).enumerate() {
            let (outcome, _) = pair.enter(incoming(at, order.side, order.price, u32::from(order.lots)));
            traded += u32::from(outcome == MatchOutcome::Traded);
        }
        pair.nothing_is_lost();
        assert!((1_000..3_500).contains(&traded), "a fair share trades: {traded} of 4,000, {matching}");
    }
}

/// An order, its outcome, and its fills: maker, price, lots.
type SubmissionCase<'a> = (OrderSide, Ticks, Lots, MatchOutcome, &'a [(u64, Ticks, Lots)]);

fn check(matching: Matching, script: &[SubmissionCase]) {
    let mut pair = BookPair::new(matching, 1_000);
    for (at, &(side, price, lots, outcome, trades)) in script.iter().enumerate() {
        let (found, fills) = pair.enter(incoming(at, side, price, lots));
        let fills: Vec<_> = fills.iter().map(|fill| (fill.maker.sequence(), fill.price, fill.lots)).collect();
        assert_eq!((found, &fills[..]), (outcome, trades), "order {at} of the script, {matching}");
    }
    pair.nothing_is_lost();
}

use MatchOutcome::{Resting, Traded};
use OrderSide::{Buy, Sell};

#[test]
fn the_better_price_trades_first_and_at_one_price_the_older_order() {
    check(
        Matching::Crossing,
        &[
            (Sell, 102, 5, Resting, &[]),
            (Sell, 101, 5, Resting, &[]),
            (Sell, 101, 5, Resting, &[]),
            (Buy, 103, 12, Traded, &[(1, 101, 5), (2, 101, 5), (0, 102, 2)]),
            (Buy, 102, 9, Traded, &[(0, 102, 3)]),
            (Buy, 103, 1, Resting, &[]),
            (Sell, 100, 9, Traded, &[(5, 103, 1), (4, 102, 6)]),
            (Sell, 100, 1, Resting, &[]),
            (Buy, 100, 3, Traded, &[(6, 100, 2), (7, 100, 1)]),
        ],
    );
}

#[test]
fn an_order_that_was_filled_in_part_keeps_its_turn() {
    check(
        Matching::Crossing,
        &[
            (Buy, 100, 10, Resting, &[]),
            (Buy, 100, 10, Resting, &[]),
            (Sell, 100, 4, Traded, &[(0, 100, 4)]),
            (Sell, 100, 4, Traded, &[(0, 100, 4)]),
            (Sell, 99, 4, Traded, &[(0, 100, 2), (1, 100, 2)]),
        ],
    );
}

#[test]
fn exact_matching_trades_at_the_same_price_only() {
    check(
        Matching::Exact,
        &[
            (Sell, 101, 5, Resting, &[]),
            (Buy, 102, 5, Resting, &[]),
            (Buy, 100, 5, Resting, &[]),
            (Sell, 100, 3, Traded, &[(2, 100, 3)]),
            (Buy, 101, 7, Traded, &[(0, 101, 5)]),
            (Sell, 101, 1, Traded, &[(4, 101, 1)]),
        ],
    );
}

#[test]
fn a_full_book_takes_what_trades_and_nothing_that_would_only_rest() {
    for matching in MATCHINGS {
        let (mut book, mut resting) = (OrderBook::new(0, 2), RestingOrders::new(1_000));
        let mut enter =
            |at, side, price, lots| book.submit(&mut resting, incoming(at, side, price, lots), matching, &mut |_| {});
        assert_eq!(enter(0, Sell, 100, 5), MatchOutcome::Resting);
        assert_eq!(enter(1, Sell, 100, 5), MatchOutcome::Resting);
        assert_eq!(enter(2, Sell, 100, 5), MatchOutcome::BookFull);
        assert_eq!(enter(3, Buy, 99, 5), MatchOutcome::BookFull);
        // It fills both, and the remainder has capacity.
        assert_eq!(enter(4, Buy, 100, 11), MatchOutcome::Traded);
        assert_eq!(enter(5, Sell, 101, 1), MatchOutcome::Resting);
        assert_eq!(enter(6, Sell, 101, 1), MatchOutcome::BookFull);
    }
}

#[test]
fn all_books_together_have_a_limit() {
    let mut resting = RestingOrders::new(2);
    let mut books = [OrderBook::new(0, 1_000), OrderBook::new(1, 1_000)];
    let mut outcomes = Vec::new();
    for (at, (book, side)) in [(0, Buy), (1, Buy), (1, Buy), (0, Sell), (1, Buy)].into_iter().enumerate() {
        outcomes.push(books[book].submit(&mut resting, incoming(at, side, 7, 1), Matching::Crossing, &mut |_| {}));
    }
    assert_eq!(
        outcomes,
        [
            MatchOutcome::Resting,
            MatchOutcome::Resting,
            MatchOutcome::EngineFull,
            MatchOutcome::Traded,
            MatchOutcome::Resting
        ]
    );
}
