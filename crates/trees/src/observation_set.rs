//! The observations of a calibration: the runs of every tree, size and route mode.
//!
//! A run in which a message went wrong is refused.

use planner::Observation;
use topology::Tree;

use super::calibration_sweeps::RouteMode;
use super::limited_links::with_heads;
use super::tree_measurement::SizeMeasurement;
use super::tree_segment_figures::TreeSegmentFigures;
use harness::failure::CommandFailure;
use harness::role_tasks::TreeTransport;

#[derive(Clone, Debug, Default)]
pub(super) struct ObservationSet {
    pub all: Vec<Observation>,
}

impl ObservationSet {
    /// Adds runs, for each mode that they count for.
    ///
    /// # Errors
    /// A message went wrong.
    pub fn add(&mut self, tree: &Tree, modes: &[RouteMode], measured: &SizeMeasurement) -> Result<(), CommandFailure> {
        if let Some(why) = measured.problem() {
            return Err(CommandFailure::Invalid(format!("{tree}: {why}")));
        }
        for mode in modes {
            let at = self.index_of(tree, mode, measured.size_bytes as u64);
            measured.runs.iter().for_each(|figures| add_run(&mut self.all[at], figures));
            if measured.latencies.count() > 0 {
                self.all[at].latency_us.push(measured.latencies.quantile_us(0.5));
            }
        }
        Ok(())
    }

    fn index_of(&mut self, tree: &Tree, mode: &RouteMode, message_bytes: u64) -> usize {
        let (transport, ack) = (mode.transport.name(), mode.ack);
        let is_it = |one: &Observation| {
            one.tree == *tree && one.message_bytes == message_bytes && one.transport == transport && one.ack == ack
        };
        self.all.iter().position(is_it).unwrap_or_else(|| {
            self.all.push(Observation {
                tree: tree.clone(),
                message_bytes,
                transport: transport.to_owned(),
                ack: ack.to_owned(),
                streams_per_s: Vec::new(),
                latency_us: Vec::new(),
                broker_cpu_us: Vec::new(),
                wire_bytes_per_copy: None,
            });
            self.all.len() - 1
        })
    }
}

fn add_run(observation: &mut Observation, figures: &TreeSegmentFigures) {
    let runs_before = observation.streams_per_s.len();
    observation.streams_per_s.push(figures.per_stream_per_s());
    let levels = figures.level_cpu_us(&observation.tree).unwrap_or_default();
    if runs_before == 0 {
        observation.broker_cpu_us = vec![Vec::new(); levels.len()];
    }
    for (runs, us) in observation.broker_cpu_us.iter_mut().zip(levels) {
        runs.push(us);
    }
    // Traffic to brokers below that does not use TCP is not counted, and would be missing in the mean.
    if observation.transport == TreeTransport::Tcp.name() || observation.tree.brokers_count() == 1 {
        let sent = figures.sent_per_copy_bytes(&observation.tree).map(with_heads);
        let mean = |before: f64, now: f64| (before * runs_before as f64 + now) / (runs_before + 1) as f64;
        observation.wire_bytes_per_copy = match (observation.wire_bytes_per_copy, sent) {
            (Some(before), Some(now)) => Some(mean(before, now)),
            (before, now) => before.or(now),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauge::{DeliveryFaults, LatencyHistogram, NetworkUsage, RoleUsage};
    use harness::role_protocol::{RoleReport, SelfUsage};
    use report::document::NodeUsage;

    fn measured(tree: &Tree, elapsed_ns: u64, lost: u64) -> SizeMeasurement {
        let consumers = u64::from(tree.consumers());
        let mut figures = TreeSegmentFigures::begin(1_000, 100, consumers);
        let faults = DeliveryFaults { lost, ..DeliveryFaults::default() };
        let none = LatencyHistogram::default().buckets();
        let published = RoleReport::Published {
            began_ns: 1,
            ended_ns: 1,
            published: 100,
            latencies: none.clone(),
            confirms: none,
            refused: 0,
            used: SelfUsage::default(),
        };
        figures.add_report(published).expect("figures");
        let received = 100 * consumers;
        let consumed = RoleReport::Consumed {
            received,
            faults,
            rates: vec![],
            ended_ns: 1 + elapsed_ns,
            used: SelfUsage::default(),
        };
        figures.add_report(consumed).expect("figures");
        for broker in tree.brokers() {
            let usage = RoleUsage { processes: 1, user_s: 0.001, ..RoleUsage::default() };
            let network = Some(NetworkUsage { bytes_sent: 289_600, ..NetworkUsage::default() });
            figures.nodes.push((broker.to_string(), NodeUsage { usage, network }));
        }
        let mut latencies = LatencyHistogram::default();
        latencies.record(50_000);
        SizeMeasurement { size_bytes: 1_000, runs: vec![figures], latencies }
    }

    #[test]
    fn runs_of_one_tree_are_one_observation_for_each_way_of_joining() {
        let tree: Tree = "B-2C".parse().expect("a tree");
        let modes = ["none", "confirm"].map(|ack| RouteMode { transport: TreeTransport::Unix, ack });
        let mut observed = ObservationSet::default();
        for elapsed_ns in [1_000_000_000, 500_000_000] {
            observed.add(&tree, &modes, &measured(&tree, elapsed_ns, 0)).expect("sound");
        }
        assert_eq!(observed.all.len(), 2);
        for (one, ack) in observed.all.iter().zip(["none", "confirm"]) {
            assert_eq!((one.ack.as_str(), one.transport.as_str()), (ack, "unix"));
            assert_eq!(one.streams_per_s, [100.0, 200.0]);
            assert_eq!(one.broker_cpu_us.len(), 1);
            assert!(one.broker_cpu_us[0].iter().all(|us| (us - 10.0).abs() < 1e-9), "{:?}", one.broker_cpu_us);
            assert!(one.wire_bytes_per_copy.is_some_and(|bytes| (bytes - 1_514.0).abs() < 1e-6), "{one:?}");
            assert_eq!(one.latency_us.len(), 2);
            assert_eq!(one.inconsistency(), None);
        }
    }

    #[test]
    fn bytes_that_went_by_no_tcp_socket_are_not_guessed() {
        let tree: Tree = "B-B-C".parse().expect("a tree");
        let mut observed = ObservationSet::default();
        let mode = RouteMode { transport: TreeTransport::Unix, ack: "none" };
        observed.add(&tree, &[mode], &measured(&tree, 1_000, 0)).expect("sound");
        assert_eq!(observed.all[0].wire_bytes_per_copy, None);
        assert_eq!(observed.all[0].broker_cpu_us.len(), 2);
    }

    #[test]
    fn a_run_that_lost_a_message_is_refused() {
        let tree: Tree = "B-C".parse().expect("a tree");
        let mode = RouteMode { transport: TreeTransport::Tcp, ack: "none" };
        let mut observed = ObservationSet::default();
        let refused = observed.add(&tree, &[mode], &measured(&tree, 1_000, 3));
        assert!(matches!(refused, Err(CommandFailure::Invalid(why)) if why.starts_with("B-C: 1000 bytes")));
        assert!(observed.all.is_empty());
    }
}
