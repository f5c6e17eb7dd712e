//! Invariants of every simulated tree.

use desim::{
    AckMode, ArrivalProcess, BrokerFailure, LinkModel, Scenario, ServiceTimes, SimulationResult, Straggler,
    TreeTopology, simulate,
};
use proptest::prelude::*;
use topology::Tree;

const WINDOW_BYTES: u64 = desim::limits::WINDOW_BYTES;

fn tree(notation: &str) -> Tree {
    notation.parse().expect("a tree")
}

/// A tree whose brokers need `take_in` and `copy` nanoseconds.
fn scenario(notation: &str, (take_in, copy): (f64, f64), bytes: u64, messages: u32) -> Scenario {
    let work = ServiceTimes { receive_ns: take_in, to_broker_ns: copy, to_consumer_ns: copy };
    Scenario::new(TreeTopology::from_tree(&tree(notation), |_, _| work).expect("a topology"), bytes, messages)
}

fn run(scenario: &Scenario) -> SimulationResult {
    simulate(scenario).expect("a scenario that can be")
}

/// Asserts that every consumer received every message once and in order, and that nothing is left.
fn whole(scenario: &Scenario, outcome: &SimulationResult) {
    assert_eq!(outcome.cut_short, None);
    assert_eq!(outcome.delivered, outcome.published * outcome.consumers);
    assert_eq!((outcome.redelivered, outcome.missing, outcome.late, outcome.waiting), (0, 0, 0, 0));
    let window = (WINDOW_BYTES as f64 / scenario.wire_bytes).max(1.0);
    let credit = scenario.credit.filter(|_| scenario.ack == AckMode::Confirm);
    let to_brokers = credit.map_or(window, |credit| window.min(f64::from(credit)));
    let to_consumers = scenario.prefetch.map_or(window, |prefetch| window.min(f64::from(prefetch)));
    let leaves = outcome.levels.len() - 1;
    for level in &outcome.levels {
        let room = if level.level as usize == leaves { to_consumers } else { to_brokers };
        assert!(level.in_flight_max.max <= room, "{level:?}");
        if let Some(bytes) = scenario.queue_bytes_max {
            let batch = (desim::limits::BATCH_BYTES / scenario.message_bytes).max(1);
            let most = bytes / scenario.message_bytes + batch;
            assert!(level.queue_max.max <= most as f64, "{level:?}: {most}");
        }
    }
}

fn notations() -> impl Strategy<Value = String> {
    (proptest::collection::vec(1u32..4, 0..4), 1u32..5).prop_map(|(degrees, consumers)| {
        let (mut text, mut count) = ("B".to_owned(), 1);
        for degree in degrees {
            count *= degree;
            text += &format!("-{count}B");
        }
        text + &format!("-{}C", count * consumers)
    })
}

prop_compose! {
    fn scenarios()(
        notation in notations(),
        costs in (1.0..5_000.0f64, 0.0..3_000.0f64),
        bytes in prop_oneof![Just(64u64), Just(1_000), Just(65_536)],
        messages in 1u32..1_000,
        link in proptest::option::of(1_000_000u64..10_000_000_000),
        delay_ns in prop_oneof![Just(0u64), 1u64..2_000_000],
        ack in prop_oneof![Just(AckMode::None), Just(AckMode::Confirm)],
        credit in proptest::option::of(1u32..2_000),
        prefetch in proptest::option::of(1u32..2_000),
        queue in proptest::option::of(1u64..1_000_000),
        pace in prop_oneof![Just(ArrivalProcess::Closed), (10.0..1e6f64).prop_map(ArrivalProcess::Even), (10.0..1e6f64).prop_map(ArrivalProcess::Poisson)],
        slow in proptest::option::of(50.0..100_000.0f64),
        (cores, jitter, seed) in (1u32..5, 0.0..0.9f64, 0u64..1_000),
    ) -> Scenario {
        let mut it = scenario(&notation, costs, bytes, messages);
        it.link = LinkModel { bits_per_s: link, delay_ns };
        (it.ack, it.credit, it.prefetch, it.queue_bytes_max, it.arrivals) = (ack, credit, prefetch, queue, pace);
        it.stragglers = slow.map(|per_s| Straggler { consumer: None, per_s }).into_iter().collect();
        (it.cores, it.jitter, it.seed, it.hop_delay_ns) = (cores, jitter, seed, delay_ns / 3);
        it
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_consumer_gets_every_message_once_in_order_and_within_all_bounds(scenario in scenarios()) {
        whole(&scenario, &run(&scenario));
    }

    #[test]
    fn the_same_seed_gives_the_same_run(scenario in scenarios()) {
        prop_assert!(run(&scenario) == run(&scenario));
    }

    #[test]
    fn whoever_fails_nothing_is_told_twice_without_a_mark_and_nothing_comes_late(
        scenario in scenarios(),
        fails in proptest::collection::vec((0u32..40, 0u64..30_000_000, 1u64..8_000_000_000), 1..4),
    ) {
        let mut it = scenario;
        let brokers = it.tree.brokers();
        for (broker, at_ns, away_ns) in fails {
            let broker = broker % brokers;
            if it.failures.iter().all(|fail| fail.broker != broker) {
                it.failures.push(BrokerFailure { broker, at_ns, away_ns: Some(away_ns) });
            }
        }
        let outcome = run(&it);
        prop_assert_eq!(outcome.cut_short, None);
        prop_assert_eq!(outcome.delivered + outcome.missing, outcome.published * outcome.consumers);
        prop_assert_eq!(outcome.unmarked, 0);
        // All brokers are back: nothing waits.
        prop_assert_eq!(outcome.waiting, 0);
        if it.ack == AckMode::None && it.prefetch.is_none() {
            prop_assert_eq!(outcome.redelivered, 0);
        }
    }

    #[test]
    fn more_bandwidth_never_lowers_the_rate(notation in notations(), bytes in prop_oneof![Just(64u64), Just(65_536)], factor in 1.0..8.0f64) {
        let mut it = scenario(&notation, (2_000.0, 1_000.0), bytes, 500);
        it.link.bits_per_s = Some(50_000_000);
        let slow = run(&it).stream_per_s;
        it.link.bits_per_s = Some((50e6 * factor) as u64);
        let fast = run(&it).stream_per_s;
        prop_assert!(fast >= slow * 0.999, "{} and {} with {} times the bandwidth", slow, fast, factor);
    }
}

#[test]
fn another_seed_is_another_run_where_there_is_chance() {
    let mut it = scenario("B-2B-4C", (1_000.0, 500.0), 64, 1_000);
    it.arrivals = ArrivalProcess::Poisson(100_000.0);
    let one = run(&it);
    it.seed = 2;
    assert_ne!(one.elapsed_ns, run(&it).elapsed_ns);
}

#[test]
fn a_broker_is_as_fast_as_its_costs() {
    // 1 us, and 0.5 us for each of four copies.
    let outcome = run(&scenario("B-4C", (1_000.0, 500.0), 64, 100_000));
    assert!((outcome.steady_per_s / (1e6 / 3.0) - 1.0).abs() < 0.001, "{}", outcome.steady_per_s);
    let spread = outcome.levels[0].processor;
    assert!(spread.min > 0.99, "{spread:?}");
    // Two threads share the copies.
    let mut two = scenario("B-4C", (1_000.0, 500.0), 64, 100_000);
    two.cores = 2;
    assert!((run(&two).steady_per_s / (1e6 / 2.0) - 1.0).abs() < 0.001);
}

#[test]
fn a_link_carries_as_many_copies_as_it_can() {
    let mut it = scenario("B-4C", (10.0, 10.0), 65_536, 2_000);
    it.link.bits_per_s = Some(200_000_000);
    let expected = 200e6 / 8.0 / 65_536.0 / 4.0;
    let outcome = run(&it);
    assert!((outcome.steady_per_s / expected - 1.0).abs() < 0.005, "{} of {expected}", outcome.steady_per_s);
    assert!(outcome.levels[0].link.min > 0.99);
}

#[test]
fn one_message_takes_its_hops_and_its_place() {
    let mut it = scenario("B-2B-4C", (1_000.0, 100.0), 64, 10);
    it.arrivals = ArrivalProcess::Even(100.0);
    (it.link.delay_ns, it.hop_delay_ns, it.consumer_delay_ns) = (5_000, 700, 30);
    // To the root, the second broker and the second consumer.
    let last = 5_000 + 1_200 + 5_700 + 1_200 + 5_030;
    let outcome = run(&it);
    assert_eq!(outcome.last_delivery.quantile_ns(1.0), Some(last));
    // The first consumer of the first broker has it two copies earlier.
    assert_eq!(outcome.delivery.least_ns(), Some(last - 200));
}

#[test]
fn credit_and_delay_bound_a_stream() {
    // Ten messages for each round trip of 2 ms.
    let mut it = scenario("B-B-C", (10.0, 10.0), 64, 20_000);
    (it.ack, it.credit, it.link.delay_ns) = (AckMode::Confirm, Some(10), 1_000_000);
    let outcome = run(&it);
    assert!((outcome.steady_per_s / 5_000.0 - 1.0).abs() < 0.01, "{}", outcome.steady_per_s);
    it.credit = None;
    assert!(run(&it).steady_per_s > 1_000_000.0);
}

#[test]
fn a_slow_consumer_holds_back_all_or_costs_memory() {
    let mut it = scenario("B-2B-8C", (1_000.0, 100.0), 1_000, 50_000);
    it.stragglers = vec![Straggler { consumer: Some(5), per_s: 10_000.0 }];
    it.prefetch = Some(100);
    let free = run(&it);
    // The straggler has its own rate, the others theirs, and its queue grows.
    assert!((free.steady_per_s / 10_000.0 - 1.0).abs() < 0.01, "{}", free.steady_per_s);
    assert!(free.steady_median_per_s > 500_000.0, "{}", free.steady_median_per_s);
    assert!(free.levels[1].queue_max.max > 40_000.0, "{:?}", free.levels[1]);
    it.queue_bytes_max = Some(1_000_000);
    (it.ack, it.credit) = (AckMode::Confirm, Some(100));
    let held = run(&it);
    assert!((held.steady_median_per_s / 10_000.0 - 1.0).abs() < 0.05, "{}", held.steady_median_per_s);
    assert!(held.levels[1].queue_max.max <= 1_000.0 + 263.0, "{:?}", held.levels[1]);
    assert!(held.levels[0].queue_max.max <= 1_000.0 + 263.0, "{:?}", held.levels[0]);
}

#[test]
fn what_a_failure_costs_depends_on_confirms() {
    let mut it = scenario("B-2B-4C", (1_000.0, 100.0), 1_000, 200_000);
    it.arrivals = ArrivalProcess::Even(20_000.0);
    it.link.delay_ns = 1_000_000;
    it.failures = vec![BrokerFailure { broker: 1, at_ns: 1_000_000_000, away_ns: Some(2_000_000_000) }];
    let none = run(&it);
    // Two of four consumers miss what was published during two seconds and until they had reconnected.
    assert!((40_000..120_000).contains(&none.missing_max), "{}", none.missing_max);
    assert!(none.missing <= 2 * none.missing_max && none.redelivered == 0 && none.waiting == 0);
    it.ack = AckMode::Confirm;
    let confirm = run(&it);
    // What was inside the failed broker is lost; everything else waited above it.
    assert!(confirm.missing_max < 100, "{}", confirm.missing_max);
    let above = confirm.levels[0].queue_max.max;
    assert!(above > 2.0 * 20_000.0, "{above}");
    // A broker that never returns leaves its queue waiting.
    it.failures[0].away_ns = None;
    let ever = run(&it);
    assert!(ever.waiting > 150_000 && ever.missing > 300_000, "{} {}", ever.waiting, ever.missing);
}
