//! Builds a scenario from the costs of a calibration: each broker is as fast as the planner takes it to be.
//!
//! Divides a broker's time for a message among receiving and copying, and separates the part of a measured latency that
//! is not processor time.

use crate::scenario::{InvalidScenario, Scenario};
use crate::tree_topology::{ServiceTimes, TreeTopology};
use planner::{Estimate, HostModel, NodeModel, SizeCosts, TreePosition};
use topology::Tree;

/// How many of `degree` copies the busiest of `threads` threads makes.
fn copies_of_busiest_thread(degree: u32, threads: u32) -> f64 {
    f64::from(degree.div_ceil(threads))
}

/// A scenario of a tree whose brokers have these costs, each on a host of its own.
///
/// A broker with k below it takes as long as the planner says that its busiest thread takes for k: receiving takes its
/// share and copies take the rest. The planner's rate loss per level has no counterpart among events; it slows every
/// broker down.
///
/// # Errors
/// The tree is too large, or the costs are invalid.
pub fn scenario_from_costs(
    tree: &Tree,
    costs: &SizeCosts,
    host: &HostModel,
    messages: u32,
) -> Result<Scenario, InvalidScenario> {
    let nodes = NodeModel::new(costs, *host);
    let threads = nodes.shards();
    let levels = tree.levels().len() as i32;
    let kept = costs.per_level_ratio.value.powi((levels - 2).max(0));
    let work = |level: u32, degree: u32| {
        let place = TreePosition::of(tree, level);
        let whole_us = nodes.time(place, degree).cores_us.value / kept;
        let take_in = if place.is_first() { costs.take_in_us } else { costs.relay_in_us };
        let take_in_us = take_in.value.min(whole_us);
        let copy_ns = (whole_us - take_in_us) * 1e3 / copies_of_busiest_thread(degree, threads);
        let (to_broker_ns, to_consumer_ns) = if place.is_last() { (0.0, copy_ns) } else { (copy_ns, 0.0) };
        ServiceTimes { receive_ns: take_in_us * 1e3, to_broker_ns, to_consumer_ns }
    };
    let mut scenario = Scenario::new(TreeTopology::from_tree(tree, work)?, costs.message_bytes, messages);
    scenario.wire_bytes = costs.wire_bytes_per_copy;
    scenario.cores = threads;
    scenario.link.bits_per_s = host.link_bits_per_s;
    let rest_ns =
        |latency: Option<Estimate>, work_us: f64| latency.map_or(0.0, |it| (it.value - work_us).max(0.0) * 1e3);
    let wire_us = host.link_bits_per_s.map_or(0.0, |bits| costs.wire_bytes_per_copy * 8e6 / bits as f64);
    let first_us = nodes.time(TreePosition::Alone, 1).cores_us.value + 2.0 * wire_us;
    let hop_us = nodes.time(TreePosition::Inner, 1).cores_us.value + wire_us;
    let copy_us =
        (costs.copy_to_consumer_us.value.min(costs.copy_to_broker_us.value) / f64::from(threads)).max(wire_us);
    scenario.consumer_delay_ns = rest_ns(costs.first_latency_us, first_us) as u64;
    scenario.hop_delay_ns = rest_ns(costs.hop_latency_us, hop_us) as u64;
    scenario.sibling_delay_ns = rest_ns(costs.copy_latency_us, copy_us);
    Ok(scenario)
}
