//! The flow of orders, and the checksums that compare two runs.

use market::limits::PRICE_TICKS_MAX;
use market::{
    EngineRules, GatewayId, InputOutcome, MarketMessage, Matching, MatchingEngine, MessageSink, NewOrder, OrderFlow,
    OrderFlowRules, OrderSide, Recipient,
};
use std::collections::HashSet;

fn rules(seed: u64, gateway: usize, symbols: u16, shared_by: usize) -> OrderFlowRules {
    let gateway = GatewayId::new(gateway).expect("there are 16");
    OrderFlowRules { seed, gateway, symbols, shared_by, matching: Matching::Exact }
}

/// Discards the engine's messages.
struct DiscardingSink;

impl MessageSink for DiscardingSink {
    fn message(&mut self, _: Recipient, _: &MarketMessage) {}
}

fn orders(rules: OrderFlowRules, count: usize) -> Vec<NewOrder> {
    OrderFlow::new(rules).take(count).collect()
}

#[test]
fn the_same_seed_gives_the_same_orders_and_another_one_others() {
    let first = orders(rules(1, 0, 10, 1), 1_000);
    assert_eq!(first, orders(rules(1, 0, 10, 1), 1_000));
    for other in [rules(2, 0, 10, 1), rules(1, 1, 10, 1)] {
        let same =
            first.iter().zip(OrderFlow::new(other)).filter(|(a, b)| (a.price, a.lots) == (b.price, b.lots)).count();
        assert!(same < 50, "{same} of 1,000 are the same with {other:?}");
    }
}

#[test]
fn all_orders_are_good_ones_and_all_symbols_are_traded() {
    for (symbols, shared_by, gateway) in [(1, 1, 0), (100, 1, 3), (10, 3, 2), (3, 16, 9), (10_000, 0, 0)] {
        let mut traded = HashSet::new();
        let mut buys = 0;
        for (at, order) in orders(rules(3, gateway, symbols, shared_by), 100_000).into_iter().enumerate() {
            assert_eq!(NewOrder::decode(&order.encode()), Ok(order));
            assert_eq!(u64::from(order.sequence.bits()), at as u64);
            assert!((1..=PRICE_TICKS_MAX).contains(&order.price) && (1..=100).contains(&order.lots));
            assert!(order.symbol.0 < symbols, "{order:?} of {symbols}");
            buys += u32::from(order.side == OrderSide::Buy);
            traded.insert(order.symbol.0);
        }
        let own = (0..symbols).filter(|symbol| {
            let step = shared_by.clamp(1, usize::from(symbols)) as u16;
            symbol % step == gateway as u16 % step
        });
        let own: HashSet<u16> = own.collect();
        assert!(traded.is_subset(&own) && traded.len() * 100 >= own.len() * 99, "{} of {}", traded.len(), own.len());
        assert!((49_000..51_000).contains(&buys), "{buys} of 100,000 buy");
    }
}

/// If this fails, runs of this version cannot be compared with those of others; docs/protocol/market.md names the
/// versions.
#[test]
fn checksums_are_those_of_other_versions() {
    for (matching, symbols, trades, checksum, of_orders) in [
        (Matching::Exact, 1, 95_432, 0x20a4_a14b_fa43_2526, 0x7c75_cd50_604f_a3be),
        (Matching::Crossing, 1, 98_614, 0x1519_fd86_1f6f_323d, 0xa400_8abc_fbb3_0179),
        (Matching::Exact, 50, 77_785, 0x74a5_da34_4325_baee, 0x0d4a_d93b_647f_8a44),
        (Matching::Crossing, 50, 95_867, 0x562f_23b0_e809_1eb3, 0x824d_b551_0074_19ec),
    ] {
        let mut engine = MatchingEngine::new(EngineRules { symbols, matching, ..EngineRules::default() });
        for order in OrderFlow::new(OrderFlowRules { matching, ..rules(2008, 0, symbols, 1) }).take(100_000) {
            assert_eq!(engine.process(&order.encode(), &mut DiscardingSink), InputOutcome::Order);
        }
        let found = (engine.counts().trades, engine.checksum().value(), engine.orders_checksum(GatewayId::default()));
        assert_eq!(found, (trades, checksum, of_orders), "{matching}, {symbols} symbols");
    }
}

#[test]
fn books_do_not_fill_up_however_long_it_goes_on() {
    // Resting orders are the random imbalance of the sides, and grow as the square root of the orders: by a factor of
    // two in four times the time.
    for (matching, most) in [(Matching::Exact, 16_000), (Matching::Crossing, 4_000)] {
        let mut engine = MatchingEngine::new(EngineRules { symbols: 1, matching, ..EngineRules::default() });
        for order in OrderFlow::new(OrderFlowRules { matching, ..rules(4, 0, 1, 1) }).take(800_000) {
            assert_eq!(engine.process(&order.encode(), &mut DiscardingSink), InputOutcome::Order);
            assert!(engine.resting() < most, "{matching}: {}", engine.resting());
        }
        assert_eq!(engine.counts().rejects, 0);
        let (traded, orders) = (engine.counts().orders - engine.counts().confirmations, engine.counts().orders);
        assert!((orders * 4 / 10..orders * 7 / 10).contains(&traded), "{matching}: {traded} of {orders} trade at once");
    }
}
