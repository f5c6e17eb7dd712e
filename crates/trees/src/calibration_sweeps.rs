//! The sweeps of a calibration: which trees are measured in which route modes, and the approximate time.
//!
//! They are the three sweeps of the 2009 paper: depth, consumers of one broker, brokers below the root.

use topology::Tree;

use super::tree_measurement::MeasurementEffort;
use super::tree_options;
use harness::arguments::UsageError;
use harness::role_tasks::TreeTransport;

/// The values of each sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CalibrationSweeps {
    /// Chains of brokers with one consumer: B-C, B-B-C, ...
    pub depths: Vec<usize>,
    /// Consumers of one broker: B-C, B-2C, ...
    pub consumers: Vec<usize>,
    /// Brokers below the root, a consumer on each: B-B-C, B-2B-2C, ...
    pub brokers: Vec<usize>,
}

/// How brokers are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouteMode {
    pub transport: TreeTransport,
    /// `none` or `confirm`.
    pub ack: &'static str,
}

/// A tree to measure, and its modes. A single broker has no routes, so that one measurement counts for all modes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SweepTree {
    pub tree: Tree,
    pub modes: Vec<RouteMode>,
}

/// Approximate time to start a tree, in seconds, and the part of each node.
const START_S: f64 = 0.2;
const START_NODE_S: f64 = 0.06;
/// Overhead of a run, as a share of its length and in seconds: the trial run, commands and reports.
const AROUND_RUN: f64 = 0.3;
const AROUND_RUN_S: f64 = 0.1;
/// A single message with its commands and reports, on an unlimited link.
const SINGLE_S: f64 = 0.003;

impl CalibrationSweeps {
    /// Each tree once, with the modes in which it is measured.
    ///
    /// # Errors
    /// A tree has more nodes than one run starts.
    pub fn trees(&self, modes: &[RouteMode]) -> Result<Vec<SweepTree>, UsageError> {
        let chain = |depth: &usize| format!("{}C", "B-".repeat(*depth));
        let fan = |degree: &usize| format!("B-{degree}B-{degree}C");
        let notations = self.depths.iter().map(chain);
        let notations = notations.chain(self.consumers.iter().map(|degree| format!("B-{degree}C")));
        let mut entries: Vec<SweepTree> = Vec::new();
        for notation in notations.chain(self.brokers.iter().map(fan)) {
            let tree = tree_options::tree(&notation)?;
            if entries.iter().any(|entry| entry.tree == tree) {
                continue;
            }
            if tree.brokers_count() == 1 {
                entries.push(SweepTree { tree, modes: modes.to_vec() });
            } else {
                entries.extend(modes.iter().map(|&mode| SweepTree { tree: tree.clone(), modes: vec![mode] }));
            }
        }
        Ok(entries)
    }
}

/// Processes of a tree: brokers, the consumers of each leaf, the publisher.
pub(super) fn nodes(tree: &Tree) -> u32 {
    tree.brokers_count() + tree.levels().last().copied().unwrap_or(0) + 1
}

/// Approximate time to measure trees at some sizes, in seconds.
pub(super) fn seconds<'a>(
    trees: impl Iterator<Item = &'a Tree>,
    sizes: &[usize],
    effort: &MeasurementEffort,
    link_bits_per_s: Option<u64>,
) -> f64 {
    let one = |tree: &Tree| {
        let copies = (0..).take(tree.levels().len()).map(|level| f64::from(tree.degree(level))).sum::<f64>();
        let on_links = |size: usize| link_bits_per_s.map_or(0.0, |bits| copies * size as f64 * 8.0 / bits as f64);
        let singles = |size: usize| effort.singles as f64 * (SINGLE_S + on_links(size));
        let sized = |&size: &usize| effort.seconds * (1.0 + AROUND_RUN) + AROUND_RUN_S + singles(size);
        START_S + START_NODE_S * f64::from(nodes(tree)) + sizes.iter().map(sized).sum::<f64>()
    };
    trees.map(one).sum::<f64>() * effort.runs as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweeps() -> CalibrationSweeps {
        CalibrationSweeps { depths: vec![1, 2, 3], consumers: vec![1, 2, 4], brokers: vec![1, 2] }
    }

    #[test]
    fn every_tree_is_measured_once_and_one_broker_for_all_ways_of_joining() {
        let modes = ["none", "confirm"].map(|ack| RouteMode { transport: TreeTransport::Tcp, ack });
        let entries = sweeps().trees(&modes).expect("small trees");
        let shown: Vec<String> = entries.iter().map(|entry| format!("{} {}", entry.tree, entry.modes.len())).collect();
        let expected =
            ["B-C 2", "B-B-C 1", "B-B-C 1", "B-B-B-C 1", "B-B-B-C 1", "B-2C 2", "B-4C 2", "B-2B-2C 1", "B-2B-2C 1"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_tree_that_is_too_large_is_refused() {
        let sweeps = CalibrationSweeps { brokers: vec![300], ..sweeps() };
        let modes = [RouteMode { transport: TreeTransport::Tcp, ack: "none" }];
        assert!(sweeps.trees(&modes).is_err_and(|wrong| wrong.0.contains("at most")));
    }

    #[test]
    fn longer_runs_more_runs_and_slower_links_take_longer() {
        let trees: Vec<Tree> = ["B-C", "B-2B-2C"].map(|notation| notation.parse().expect("a tree")).to_vec();
        let effort = MeasurementEffort { messages: None, seconds: 1.0, runs: 5, singles: 20 };
        let of = |effort: &MeasurementEffort, link| seconds(trees.iter(), &[64, 65_536], effort, link);
        let usual = of(&effort, None);
        assert!(usual > 2.0 * 2.0 * 5.0, "{usual}");
        assert!(of(&MeasurementEffort { runs: 10, ..effort }, None) > 1.9 * usual);
        assert!(of(&MeasurementEffort { seconds: 2.0, ..effort }, None) > usual + 20.0);
        assert!(of(&effort, Some(10_000_000)) > usual + 5.0);
        assert_eq!(nodes(&trees[1]), 6);
    }
}
