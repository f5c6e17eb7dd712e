//! Fitting: costs are recovered from the observations that they imply, and missing or invalid observations are
//! reported.

use planner::{Basis, CostSource, MissingCosts, Observation, Profile, ProfileError, SCHEMA, Sharing, VERSION, fit};

const TAKE: f64 = 2.0;
const RELAY: f64 = 3.0;
const TO_CONSUMER: f64 = 0.5;
const TO_BROKER: f64 = 0.75;

/// A tree by the model: the processor time of each level.
fn levels_us(notation: &str, factor: f64) -> Vec<f64> {
    let tree: planner::Shape = notation.parse().expect("a tree");
    let last = tree.levels().len() as u32 - 1;
    let of = |level: u32| {
        let taken = if level == 0 { TAKE } else { RELAY };
        let copy = if level == last { TO_CONSUMER } else { TO_BROKER };
        factor * (taken + copy * f64::from(tree.degree(level)))
    };
    (0..=last).map(of).collect()
}

fn observed(notation: &str, message_bytes: u64, factor: f64) -> Observation {
    let levels = levels_us(notation, factor);
    let slowest = levels.iter().copied().fold(0.0, f64::max);
    let tree: planner::Shape = notation.parse().expect("a tree");
    let siblings: u32 = (0..levels.len() as u32).map(|level| tree.degree(level) - 1).sum();
    let latency = 60.0 + 30.0 * (levels.len() - 1) as f64 + 4.0 * f64::from(siblings);
    // Five runs, 1 % apart.
    let runs = |value: f64| [0.98, 0.99, 1.0, 1.01, 1.02].map(|share| share * value).to_vec();
    Observation {
        tree,
        message_bytes,
        transport: "tcp".to_owned(),
        ack: "none".to_owned(),
        streams_per_s: runs(1e6 / slowest),
        latency_us: runs(latency),
        broker_cpu_us: levels.into_iter().map(runs).collect(),
        wire_bytes_per_copy: Some(message_bytes as f64 + 150.0),
    }
}

const SWEEPS: [&str; 13] = [
    "B-C",
    "B-2C",
    "B-4C",
    "B-8C",
    "B-16C",
    "B-B-C",
    "B-2B-2C",
    "B-3B-3C",
    "B-4B-4C",
    "B-8B-8C",
    "B-B-B-C",
    "B-B-B-B-C",
    "B-B-B-B-B-C",
];

fn sweeps(message_bytes: u64, factor: f64) -> Vec<Observation> {
    SWEEPS.iter().map(|notation| observed(notation, message_bytes, factor)).collect()
}

#[track_caller]
fn near(found: planner::Estimate, expected: f64) {
    assert!((found.value / expected - 1.0).abs() < 0.02, "{found:?} for {expected}");
    assert!(found.low <= expected && expected <= found.high, "{found:?} for {expected}");
}

#[test]
fn processor_times_of_one_host_tell_all_four_costs() {
    let sets = fit(&sweeps(64, 1.0), Sharing::OneHost).expect("costs");
    let costs = &sets[0].sizes[0];
    assert_eq!((costs.basis, costs.by_consumers.len(), costs.by_brokers.len()), (Basis::Processor, 0, 0));
    near(costs.take_in_us, TAKE);
    near(costs.relay_in_us, RELAY);
    near(costs.copy_to_consumer_us, TO_CONSUMER);
    near(costs.copy_to_broker_us, TO_BROKER);
    near(costs.first_latency_us.expect("measured"), 60.0);
    near(costs.hop_latency_us.expect("measured"), 30.0);
    near(costs.copy_latency_us.expect("measured"), 4.0);
    assert_eq!((costs.wire_bytes_per_copy, costs.per_level_ratio.value), (214.0, 1.0));
    assert_eq!((costs.reach.consumers, costs.reach.brokers, costs.reach.levels), (16, 8, 5));
}

#[test]
fn trees_of_no_sweep_change_nothing() {
    let mut more = sweeps(64, 1.0);
    // As far from the model as can be.
    more.push(observed("B-2B-16C", 64, 100.0));
    more.push(observed("B-2B-4B-16C", 64, 100.0));
    assert_eq!(fit(&more, Sharing::OneHost), fit(&sweeps(64, 1.0), Sharing::OneHost));
    assert!(fit(&more[13..], Sharing::OneHost).is_err());
}

#[test]
fn what_is_no_line_is_kept_as_it_is() {
    let mut cliff = sweeps(64, 1.0);
    let eight = cliff.iter_mut().find(|one| one.tree.to_string() == "B-8C").expect("measured");
    eight.streams_per_s.iter_mut().for_each(|rate| *rate /= 10.0);
    let sets = fit(&cliff, Sharing::OwnHosts).expect("costs");
    let costs = &sets[0].sizes[0];
    let degrees: Vec<u32> = costs.by_consumers.iter().map(|(degree, _)| *degree).collect();
    assert_eq!(degrees, [1, 2, 4, 8, 16]);
    near(costs.by_consumers[3].1, 10.0 * (TAKE + 8.0 * TO_CONSUMER));
    // Interpolated between two; at sixteen no faster than at eight.
    let host = planner::HostModel { cores: 1, link_bits_per_s: None, sharing: Sharing::OwnHosts };
    let of = |notation: &str| planner::predict(&notation.parse().expect("a tree"), costs, &host).stream_per_s.value;
    assert!(of("B-4C") > of("B-6C") && of("B-6C") > of("B-8C") && of("B-8C") >= of("B-16C"));
}

#[test]
fn what_is_missing_is_told() {
    let all = sweeps(64, 1.0);
    let without = |left: &dyn Fn(&Observation) -> bool| -> String {
        let rest: Vec<Observation> = all.iter().filter(|one| !left(one)).cloned().collect();
        fit(&rest, Sharing::OneHost).expect_err("something is missing").to_string()
    };
    let levels = |one: &Observation| one.tree.levels().len();
    assert!(without(&|one| levels(one) == 2).contains("no brokers below a broker were measured"));
    assert!(without(&|one| levels(one) == 1).contains("no broker with several consumers was measured"));
    let mut bare = all.clone();
    bare[3].broker_cpu_us.clear();
    let why = fit(&bare, Sharing::OneHost).expect_err("no processor times").to_string();
    assert!(why.starts_with("64 bytes over tcp with ack none: a tree's processor times are missing"), "{why}");
    assert!(fit(&bare, Sharing::OwnHosts).is_ok(), "rates are enough there");
    let mut wrong = all.clone();
    wrong[0].streams_per_s[2] = f64::NAN;
    assert!(fit(&wrong, Sharing::OwnHosts).expect_err("no number").to_string().contains("not a number above 0"));
    assert!(fit(&[], Sharing::OneHost).is_err());
}

#[test]
fn sizes_between_are_on_the_line_and_those_beyond_only_if_asked() {
    let both = [sweeps(1_000, 1.0), sweeps(3_000, 3.0)].concat();
    let sets = fit(&both, Sharing::OneHost).expect("costs");
    let (between, resting) = sets[0].for_size(2_000, false).expect("between");
    assert_eq!(resting, CostSource::Between(1_000, 3_000));
    near(between.take_in_us, 2.0 * TAKE);
    assert_eq!(sets[0].for_size(3_000, false).expect("measured").1, CostSource::Measured);
    assert_eq!(sets[0].for_size(4_000, false), Err(MissingCosts::Beyond(1_000, 3_000)));
    let (beyond, resting) = sets[0].for_size(4_000, true).expect("asked for");
    assert_eq!(resting, CostSource::Beyond(3_000));
    assert!((beyond.take_in_us.value / TAKE - 4.0).abs() < 0.1, "{:?}", beyond.take_in_us);
    let width = |of: planner::Estimate| of.high - of.low;
    let measured = &sets[0].sizes[1];
    assert!(width(beyond.take_in_us) > width(measured.take_in_us), "what is guessed is less certain");
    assert!(sets[0].for_size(16, true).is_ok_and(|(costs, _)| costs.take_in_us.value > 0.0));
    let one = fit(&sweeps(64, 1.0), Sharing::OneHost).expect("costs");
    assert_eq!(one[0].for_size(65, true).map(|_| ()), Err(MissingCosts::Single(64)));
}

#[test]
fn a_profile_is_the_same_when_it_is_read_and_others_are_refused() {
    let observations = sweeps(64, 1.0);
    let costs = fit(&observations, Sharing::OneHost).expect("costs");
    let profile = Profile {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        sharing: Sharing::OneHost,
        cores: 2,
        link_bits_per_s: Some(200_000_000),
        made_by: "a test".to_owned(),
        observations,
        costs,
    };
    assert_eq!(profile.check(), Ok(()));
    let text = serde_json::to_string(&profile).expect("JSON");
    assert!(text.contains(r#""tree":"B-8B-8C""#) && text.contains(r#""sharing":"one_host""#), "{text}");
    assert_eq!(serde_json::from_str::<Profile>(&text).expect("its own text"), profile);
    let checked = |change: fn(&mut Profile)| {
        let mut other = profile.clone();
        change(&mut other);
        other.check().expect_err("it was changed")
    };
    assert_eq!(checked(|one| one.version = 2), ProfileError::Version(2));
    assert_eq!(checked(|one| one.schema.clear()), ProfileError::Schema(String::new()));
    for (change, why) in [
        ((|one| one.cores = 0) as fn(&mut Profile), "no cores"),
        (|one| one.link_bits_per_s = Some(0), "no speed"),
        (|one| one.observations[0].latency_us[0] = -1.0, "not a number above 0"),
        (|one| one.observations[5].broker_cpu_us.truncate(1), "not those of 2 levels"),
        (|one| one.costs[0].sizes.clear(), "none"),
        (|one| one.costs[0].sizes[0].take_in_us.low = 99.0, "not within its interval"),
        (|one| one.costs[0].sizes[0].per_level_ratio = planner::Estimate::exact(1.5), "not between 0 and 1"),
        (|one| one.costs[0].sizes[0].hop_latency_us = None, "some latencies are missing"),
        (|one| one.costs[0].sizes[0].wire_bytes_per_copy = 1.0, "fewer bytes than the message"),
    ] {
        let told = checked(change).to_string();
        assert!(told.contains(why), "{told}");
    }
}
