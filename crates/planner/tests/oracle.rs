//! The search against an exhaustive one: every sequence of counts, each predicted separately.

use planner::limits::EXTRAPOLATION_FACTOR;
use planner::{
    Basis, Candidate, Estimate, HostModel, MeasuredRange, NodeModel, Sharing, SizeCosts, TreeRequirements,
    Unsatisfiable, predict, search,
};
use proptest::prelude::*;
use topology::Tree;

/// Sums of the same numbers in another order differ by no more.
const ROUNDING: f64 = 1e-9;

/// Rate, latency, brokers.
type ParetoPoint = (f64, f64, u32);

fn point(tree: &Tree, costs: &SizeCosts, host: &HostModel) -> ParetoPoint {
    let prediction = predict(tree, costs, host);
    (prediction.stream_per_s.value, prediction.latency_us.map_or(0.0, |us| us.value), tree.brokers_count())
}

fn covers(one: &ParetoPoint, other: &ParetoPoint) -> bool {
    one.0 >= other.0 * (1.0 - ROUNDING) && one.1 <= other.1 * (1.0 + ROUNDING) && one.2 <= other.2
}

/// Every tree: counts that do not fall, from one root on.
fn trees(consumers: u32, levels_max: u32) -> Vec<Tree> {
    fn grow(counts: &mut Vec<u32>, consumers: u32, levels_max: u32, found: &mut Vec<Tree>) {
        let text: String = counts.iter().map(|count| format!("{count}B-")).collect();
        found.push(format!("{text}{consumers}C").parse().expect("a tree"));
        if counts.len() as u32 == levels_max {
            return;
        }
        for count in *counts.last().expect("a root")..=consumers {
            counts.push(count);
            grow(counts, consumers, levels_max, found);
            counts.pop();
        }
    }
    let mut found = Vec::new();
    grow(&mut vec![1], consumers, levels_max, &mut found);
    found
}

fn is_within(tree: &Tree, reach: &MeasuredRange) -> bool {
    let levels = tree.levels().len() as u32;
    let (last, inner) = (levels - 1, 0..levels - 1);
    levels <= reach.levels
        && tree.degree(last) <= reach.consumers
        && inner.into_iter().all(|at| tree.degree(at) <= reach.brokers)
}

fn time() -> impl Strategy<Value = Estimate> {
    (0.1..50.0f64).prop_map(Estimate::exact)
}

fn table() -> impl Strategy<Value = Vec<(u32, Estimate)>> {
    // Including times that fall with the degree.
    prop_oneof![
        1 => Just(Vec::new()),
        2 => prop::collection::btree_map(1u32..9, time(), 1..5).prop_map(|table| table.into_iter().collect()),
    ]
}

prop_compose! {
    fn costs()(
        basis in prop_oneof![Just(Basis::Wall), Just(Basis::Processor)],
        times in [time(), time(), time(), time()],
        by_consumers in table(),
        by_brokers in table(),
        ratio in prop_oneof![1 => Just(1.0), 2 => 0.7..1.0f64],
        latencies in prop::option::of([time(), time(), time()]),
        wire in 64.0..4_000.0f64,
        reach in (2u32..20, 1u32..9, 1u32..6),
    ) -> SizeCosts {
        let [first, hop, copy] = latencies.map_or([None; 3], |latencies| latencies.map(Some));
        SizeCosts {
            message_bytes: 64,
            basis,
            take_in_us: times[0],
            relay_in_us: times[1],
            copy_to_consumer_us: times[2],
            copy_to_broker_us: times[3],
            by_consumers,
            by_brokers,
            per_level_ratio: Estimate::exact(ratio),
            first_latency_us: first,
            hop_latency_us: hop,
            copy_latency_us: copy,
            wire_bytes_per_copy: wire,
            reach: MeasuredRange { consumers: reach.0, brokers: reach.1, levels: reach.2 },
        }
    }
}

fn hosts() -> impl Strategy<Value = HostModel> {
    let link = prop::option::of(1_000_000_000u64..20_000_000_000);
    (1u32..6, link).prop_map(|(cores, link_bits_per_s)| HostModel {
        cores,
        link_bits_per_s,
        sharing: Sharing::OwnHosts,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Every tree is dominated by one that was found, and no found tree by another.
    #[test]
    fn nothing_worth_having_is_left_out(
        costs in costs(),
        host in hosts(),
        consumers in 1u32..13,
        brokers_max in prop::option::of(1u32..20),
        rate_share in prop::option::of(0.0..1.0f64),
        extrapolate in any::<bool>(),
    ) {
        // Extrapolated trees may have 32 levels. A tree of more than this number of levels is no better, or it would be
        // without the limit as well.
        let levels_max = if extrapolate { 6 } else { costs.reach.levels };
        let reach = if extrapolate {
            MeasuredRange { consumers: costs.reach.consumers * EXTRAPOLATION_FACTOR, brokers: costs.reach.brokers * EXTRAPOLATION_FACTOR, levels: 32 }
        } else {
            costs.reach
        };
        let all: Vec<(Tree, ParetoPoint)> = trees(consumers, levels_max)
            .into_iter()
            .filter(|tree| is_within(tree, &reach))
            .map(|tree| { let point = point(&tree, &costs, &host); (tree, point) })
            .collect();
        let best = all.iter().map(|(_, point)| point.0).fold(0.0, f64::max);
        let rate_min = rate_share.map(|share| best * (0.5 + share / 2.0) * (1.0 - 2.0 * ROUNDING));
        let wanted: Vec<&(Tree, ParetoPoint)> = all
            .iter()
            .filter(|(_, point)| brokers_max.is_none_or(|most| point.2 <= most) && rate_min.is_none_or(|least| point.0 >= least))
            .collect();
        let nodes = NodeModel::new(&costs, host);
        match search(&nodes, &TreeRequirements { consumers, brokers_max, rate_min, extrapolate }) {
            Ok(front) => {
                let found: Vec<ParetoPoint> = front.trees.iter().map(|one| point(&one.tree, &costs, &host)).collect();
                for (tree, point) in &wanted {
                    prop_assert!(found.iter().any(|other| covers(other, point)), "{tree} {point:?}: {:?}", names(&front.trees));
                }
                for (at, Candidate { tree, .. }) in front.trees.iter().enumerate() {
                    prop_assert_eq!(tree.consumers(), consumers);
                    prop_assert!(is_within(tree, &reach), "{tree}");
                    prop_assert!(brokers_max.is_none_or(|most| found[at].2 <= most), "{tree}");
                    prop_assert!(rate_min.is_none_or(|least| found[at].0 >= least * (1.0 - ROUNDING)), "{tree}");
                    let strictly = |one: &ParetoPoint, two: &ParetoPoint| one.0 >= two.0 && one.1 <= two.1 && one.2 < two.2;
                    let better = found.iter().enumerate().find(|(other, point)| *other != at && strictly(point, &found[at]));
                    prop_assert!(better.is_none(), "{tree} {:?}: {:?}", found[at], names(&front.trees));
                }
            }
            Err(why) => {
                prop_assert!(wanted.is_empty(), "{why}: {}", wanted[0].0);
                let least = all.iter().map(|(_, point)| point.2).min();
                match why {
                    Unsatisfiable::Reach { .. } => prop_assert!(all.is_empty()),
                    Unsatisfiable::Brokers { least: told, .. } => prop_assert_eq!(Some(told), least),
                    Unsatisfiable::Rate { best_per_s, .. } => prop_assert!((best_per_s / best - 1.0).abs() < ROUNDING),
                    Unsatisfiable::Together { .. } => prop_assert!(least.is_some_and(|least| brokers_max >= Some(least))),
                    other => prop_assert!(false, "{other}"),
                }
            }
        }
    }
}

fn names(trees: &[Candidate]) -> Vec<String> {
    trees.iter().map(|one| one.tree.to_string()).collect()
}

/// Costs of a broker on a current host, with both directions expensive.
fn usual(reach: MeasuredRange) -> SizeCosts {
    SizeCosts {
        message_bytes: 64,
        basis: Basis::Processor,
        take_in_us: Estimate::exact(0.5),
        relay_in_us: Estimate::exact(0.7),
        copy_to_consumer_us: Estimate::exact(0.11),
        copy_to_broker_us: Estimate::exact(0.23),
        by_consumers: Vec::new(),
        by_brokers: Vec::new(),
        per_level_ratio: Estimate::exact(0.97),
        first_latency_us: Some(Estimate::exact(60.0)),
        hop_latency_us: Some(Estimate::exact(27.0)),
        copy_latency_us: Some(Estimate::exact(1.3)),
        wire_bytes_per_copy: 220.0,
        reach,
    }
}

/// The effort for a million consumers is bounded, in examined subtrees rather than time.
#[test]
fn a_million_consumers_are_planned_with_bounded_work() {
    let host = HostModel { cores: 8, link_bits_per_s: Some(10_000_000_000), sharing: Sharing::OwnHosts };
    for (consumers, beyond, examined_max) in
        [(128, false, 1_000), (128, true, 10_000), (1_000_000, false, 100_000), (1_000_000, true, 1_000_000)]
    {
        let costs = usual(MeasuredRange { consumers: 16, brokers: 8, levels: 7 });
        let nodes = NodeModel::new(&costs, host);
        let front = search(&nodes, &TreeRequirements { consumers, extrapolate: beyond, ..TreeRequirements::default() })
            .expect("trees");
        println!("{consumers} {beyond}: {} of {}", front.trees.len(), front.examined);
        assert!(front.examined <= examined_max, "{consumers} {beyond}: {}", front.examined);
        assert!(front.trees.iter().all(|one| one.tree.consumers() == consumers) && !front.trees.is_empty());
    }
}
