//! Predicts what a tree does: its stream's rate, the latency of a single message, the load of each level, and the
//! bottleneck.
//!
//! A stream is as fast as its slowest broker, less the loss of each level beyond the second. A message reaches the last
//! consumer after all hops, behind all siblings on its way.

use topology::Tree;

use crate::{Basis, Estimate, HostModel, LimitingResource, NodeModel, Sharing, SizeCosts, TreePosition};

/// The prediction for a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Messages a second of one stream.
    pub stream_per_s: Estimate,
    /// Latency of a single message, from its publication until the last consumer has it; `None` without measured
    /// latencies.
    pub latency_us: Option<Estimate>,
    /// What keeps the stream from being faster.
    pub bottleneck: Bottleneck,
    /// The load at that rate, by level from the root.
    pub load: Vec<LevelLoad>,
}

/// The slowest broker of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Its level; 0 is the root.
    pub level: u32,
    pub position: TreePosition,
    /// How many children it has.
    pub degree: u32,
    /// The resource that limits it.
    pub resource: LimitingResource,
    /// Time of one message there, in microseconds.
    pub time_us: Estimate,
}

/// The load of the brokers of a level: of those with the most children.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelLoad {
    pub brokers: u32,
    /// The fewest children of a broker.
    pub least: u32,
    /// The most children of a broker.
    pub most: u32,
    /// Busy share of the busiest thread.
    pub cores_share: f64,
    /// Busy share of the outbound link.
    pub egress_share: Option<f64>,
    /// Busy share of the inbound link.
    pub ingress_share: Option<f64>,
}

/// Predicts a tree on such hosts.
pub fn predict(tree: &Tree, costs: &SizeCosts, host: &HostModel) -> Prediction {
    predict_with(&NodeModel::new(costs, *host), tree)
}

/// Predicts a tree by a model that serves for many trees.
pub(crate) fn predict_with(nodes: &NodeModel<'_>, tree: &Tree) -> Prediction {
    let (costs, levels) = (nodes.costs, tree.levels().len() as u32);
    let at = |level: u32| nodes.time(TreePosition::of(tree, level), tree.degree(level));
    let slowest = (0..levels).map(|level| (level, at(level))).fold(None, |slowest: Option<(u32, _)>, (level, time)| {
        // The first of equally slow brokers, since the others wait for it.
        match slowest {
            Some((_, before)) if before_us(&before) >= before_us(&time) => slowest,
            _ => Some((level, time)),
        }
    });
    let (level, time) = slowest.unwrap_or((0, at(0)));
    // The ends of an interval may belong to other brokers than the slowest.
    let between_us = (0..levels).fold(time.between_us(), |most, level| most.max(at(level).between_us()));
    let mut bottleneck = Bottleneck {
        level,
        position: TreePosition::of(tree, level),
        degree: tree.degree(level),
        resource: time.limiting_resource(),
        time_us: between_us,
    };
    let further = levels.saturating_sub(2) as i32;
    let kept = costs.per_level_ratio.map(|ratio| ratio.powi(further));
    let mut stream_per_s = between_us.map(|us| 1e6 / us).with(kept, |rate, kept| rate * kept);
    if let Some(shared_us) = shared_us(nodes, tree) {
        let shared_per_s = shared_us.map(|us| 1e6 / us);
        if shared_per_s.value < stream_per_s.value {
            (bottleneck.resource, bottleneck.time_us) = (LimitingResource::SharedCores, shared_us);
        }
        stream_per_s = stream_per_s.with(shared_per_s, f64::min);
    }
    let load = (0..levels).map(|level| {
        let (degrees, time) = (tree.degrees(level), at(level));
        let share = |us: f64| us * stream_per_s.value / 1e6;
        LevelLoad {
            brokers: tree.levels()[level as usize],
            least: degrees.least,
            most: degrees.most,
            cores_share: share(time.cores_us.value),
            egress_share: time.egress_us.map(share),
            ingress_share: time.ingress_us.map(share),
        }
    });
    let load = load.collect();
    Prediction { stream_per_s, latency_us: latency_us(costs, tree), bottleneck, load }
}

fn before_us(time: &crate::NodeTime) -> f64 {
    time.between_us().value
}

/// A single message: the first broker, then a hop for each further level; it is the last among its siblings everywhere.
fn latency_us(costs: &SizeCosts, tree: &Tree) -> Option<Estimate> {
    let levels = tree.levels().len() as u32;
    let siblings: u32 = (0..levels).map(|level| tree.degree(level) - 1).sum();
    Some(
        costs
            .first_latency_us?
            .plus(costs.hop_latency_us?.times(f64::from(levels - 1)))
            .plus(costs.copy_latency_us?.times(f64::from(siblings))),
    )
}

/// Time that a message takes of the cores that all brokers share, if they do; without publisher and consumers.
fn shared_us(nodes: &NodeModel<'_>, tree: &Tree) -> Option<Estimate> {
    if nodes.host.sharing == Sharing::OwnHosts || nodes.costs.basis == Basis::Wall {
        return None;
    }
    Some(processors_us(nodes, tree).times(1.0 / f64::from(nodes.host.cores)))
}

/// Processor time that a message takes of all brokers together, as far as its costs are processor time.
pub fn processors_us(nodes: &NodeModel<'_>, tree: &Tree) -> Estimate {
    // All threads of a broker together: as if it had one.
    let whole = NodeModel::new(nodes.costs, HostModel { cores: 1, ..nodes.host });
    let of_level = |level: u32| {
        let (place, degrees) = (TreePosition::of(tree, level), tree.degrees(level));
        let (with_most, all) = (f64::from(degrees.with_most), f64::from(tree.levels()[level as usize]));
        let most = whole.time(place, degrees.most).cores_us.times(with_most);
        most.plus(whole.time(place, degrees.least).cores_us.times(all - with_most))
    };
    (0..tree.levels().len() as u32).map(of_level).fold(Estimate::exact(0.0), Estimate::plus)
}
