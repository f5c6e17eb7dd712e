//! The simulation against the planner's model: the same rate where the model knows everything that limits a stream.

use desim::{scenario_from_costs, simulate};
use planner::{Basis, Estimate, HostModel, MeasuredRange, Sharing, SizeCosts, predict};
use topology::Tree;

fn costs(message_bytes: u64, basis: Basis) -> SizeCosts {
    let exact = Estimate::exact;
    SizeCosts {
        message_bytes,
        basis,
        take_in_us: exact(0.9),
        relay_in_us: exact(1.2),
        copy_to_consumer_us: exact(0.4),
        copy_to_broker_us: exact(0.6),
        by_consumers: Vec::new(),
        by_brokers: Vec::new(),
        per_level_ratio: exact(1.0),
        first_latency_us: Some(exact(40.0)),
        hop_latency_us: Some(exact(30.0)),
        copy_latency_us: Some(exact(2.0)),
        wire_bytes_per_copy: message_bytes as f64 * 1.05 + 90.0,
        reach: MeasuredRange { consumers: 16, brokers: 8, levels: 5 },
    }
}

const TREES: [&str; 10] = [
    "B-C",
    "B-16C",
    "B-B-B-C",
    "B-2B-16C",
    "B-4B-16C",
    "B-2B-4B-16C",
    "B-4B-8B-16C",
    "B-2B-4B-8B-16C",
    "B-3B-7B-20C",
    "B-2B-4B-8B-64C",
];

#[track_caller]
fn check(costs: &SizeCosts, host: HostModel, messages: u32, away_max: f64) {
    for notation in TREES {
        let tree: Tree = notation.parse().expect("a tree");
        let predicted = predict(&tree, costs, &host).stream_per_s.value;
        let scenario = scenario_from_costs(&tree, costs, &host, messages).expect("a scenario");
        let simulated = simulate(&scenario).expect("an outcome").steady_per_s;
        let away = simulated / predicted - 1.0;
        assert!(away.abs() < away_max, "{notation} at {} B: {simulated:.0}, {predicted:.0}", costs.message_bytes);
    }
}

#[test]
fn where_processors_are_the_limit_both_say_the_same() {
    let host = |cores| HostModel { cores, link_bits_per_s: None, sharing: Sharing::OwnHosts };
    check(&costs(64, Basis::Wall), host(2), 100_000, 0.01);
    check(&costs(64, Basis::Processor), host(4), 100_000, 0.01);
    let mut deep = costs(1_024, Basis::Wall);
    deep.per_level_ratio = Estimate::exact(0.95);
    deep.by_consumers = [(1, 1.0), (2, 1.3), (4, 3.0), (8, 9.0)].map(|(k, us)| (k, Estimate::exact(us))).into();
    check(&deep, host(2), 40_000, 0.01);
}

#[test]
fn where_links_are_the_limit_both_say_the_same() {
    let host = HostModel { cores: 2, link_bits_per_s: Some(200_000_000), sharing: Sharing::OwnHosts };
    check(&costs(65_536, Basis::Wall), host, 1_000, 0.02);
    check(&costs(1_024, Basis::Wall), host, 20_000, 0.02);
}

#[test]
fn one_message_takes_as_long_as_the_model_says() {
    let host = HostModel { cores: 2, link_bits_per_s: None, sharing: Sharing::OwnHosts };
    let costs = costs(64, Basis::Wall);
    for notation in TREES {
        let tree: Tree = notation.parse().expect("a tree");
        let predicted = predict(&tree, &costs, &host).latency_us.expect("latencies").value;
        let mut scenario = scenario_from_costs(&tree, &costs, &host, 50).expect("a scenario");
        scenario.arrivals = desim::ArrivalProcess::Even(1_000.0);
        let outcome = simulate(&scenario).expect("an outcome");
        let simulated = outcome.last_delivery.quantile_ns(0.5).expect("latencies") as f64 / 1e3;
        assert!((simulated / predicted - 1.0).abs() < 0.1, "{notation}: {simulated:.1} us, {predicted:.1} us");
    }
}

/// MB/s of all consumers together with sixteen consumers at 64 KiB, every broker and group of clients in a network
/// namespace, and links of 200 Mbit/s; from docs/measurements/2026-11-22-federation.md.
const MEASURED_MB_PER_S: [(&str, f64); 6] = [
    ("B-16C", 23.9),
    ("B-2B-16C", 47.7),
    ("B-4B-16C", 95.0),
    ("B-2B-4B-16C", 95.3),
    ("B-4B-8B-16C", 95.5),
    ("B-2B-4B-8B-16C", 189.7),
];

#[test]
fn trees_that_ran_on_limited_links_are_met() {
    const BYTES: u64 = 65_536;
    for (notation, measured) in MEASURED_MB_PER_S {
        let tree: Tree = notation.parse().expect("a tree");
        let topology =
            desim::TreeTopology::from_tree(&tree, |_, _| desim::ServiceTimes::default()).expect("a topology");
        let mut scenario = desim::Scenario::new(topology, BYTES, 2_000);
        scenario.wire_bytes = planner::estimated_wire_bytes(BYTES);
        scenario.link.bits_per_s = Some(200_000_000);
        let outcome = simulate(&scenario).expect("an outcome");
        let simulated = outcome.steady_per_s * f64::from(tree.consumers()) * BYTES as f64 / 1e6;
        println!("{notation}: {simulated:.1} MB/s simulated, {measured} measured");
        assert!((simulated / measured - 1.0).abs() < 0.03, "{notation}: {simulated:.1} MB/s, {measured} measured");
    }
}
