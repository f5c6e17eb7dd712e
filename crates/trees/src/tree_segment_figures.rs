//! The figures of one segment on a tree.
//!
//! **Aggregate** figures are over all consumers, **per stream** is what one of them gets. A segment in which a consumer
//! missed a message, or got one twice or out of order, has a problem.

use gauge::{DeliveryFaults, HostEnvironment, LatencyHistogram, NetworkUsage, RoleUsage, steadiness, validity};
use report::document::{MeasuredRun, NodeUsage};
use topology::Tree;

use harness::role_protocol::{RoleReport, SelfUsage};

#[derive(Clone, Debug)]
pub(super) struct TreeSegmentFigures {
    pub size_bytes: usize,
    /// Messages to publish, and consumers that receive each of them.
    count: u64,
    consumers: u64,
    began_ns: u64,
    ended_ns: u64,
    published: u64,
    pub delivered: u64,
    pub faults: DeliveryFaults,
    refused: u64,
    rates: Vec<f64>,
    publishers: SelfUsage,
    consumed: SelfUsage,
    /// Usage and traffic of each broker, by name, the root first.
    pub nodes: Vec<(String, NodeUsage)>,
}

impl TreeSegmentFigures {
    pub fn begin(size_bytes: usize, count: u64, consumers: u64) -> Self {
        Self {
            size_bytes,
            count,
            consumers,
            began_ns: 0,
            ended_ns: 0,
            published: 0,
            delivered: 0,
            faults: DeliveryFaults::default(),
            refused: 0,
            rates: Vec::new(),
            publishers: SelfUsage::default(),
            consumed: SelfUsage::default(),
            nodes: Vec::new(),
        }
    }

    /// Adds the report of a role.
    ///
    /// # Errors
    /// The report has no figures.
    pub fn add_report(&mut self, report: RoleReport) -> Result<(), String> {
        match report {
            RoleReport::Published { began_ns, published, refused, used, .. } => {
                self.began_ns = began_ns;
                self.published += published;
                self.refused += refused;
                self.publishers.add(&used);
            }
            RoleReport::Consumed { received, faults, rates, ended_ns, used } => {
                self.ended_ns = self.ended_ns.max(ended_ns);
                self.delivered += received;
                self.faults.add(faults);
                self.consumed.add(&used);
                self.rates.resize(self.rates.len().max(rates.len()), 0.0);
                self.rates.iter_mut().zip(&rates).for_each(|(sum, rate)| *sum += rate);
            }
            other => return Err(format!("answered {other:?} instead of its figures")),
        }
        Ok(())
    }

    /// From the first publication until the last consumer had the last message.
    pub fn elapsed_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.began_ns).max(1)
    }

    pub fn elapsed_s(&self) -> f64 {
        self.elapsed_ns() as f64 / 1e9
    }

    /// Messages a second of one stream: what each consumer gets.
    pub fn per_stream_per_s(&self) -> f64 {
        self.delivered as f64 / self.consumers.max(1) as f64 / self.elapsed_s()
    }

    /// Messages a second at all consumers together.
    pub fn aggregate_per_s(&self) -> f64 {
        self.delivered as f64 / self.elapsed_s()
    }

    /// Body bytes delivered to all consumers together, in MB/s.
    pub fn aggregate_mb_per_s(&self) -> f64 {
        self.aggregate_per_s() * self.size_bytes as f64 / 1e6
    }

    /// Body bytes of one stream, in MB/s.
    pub fn per_stream_mb_per_s(&self) -> f64 {
        self.per_stream_per_s() * self.size_bytes as f64 / 1e6
    }

    /// Processor microseconds of a broker for one published message.
    pub fn cpu_us(&self, broker: usize) -> Option<f64> {
        let (_, node) = self.nodes.get(broker)?;
        Some(node.usage.cpu_s() * 1e6 / self.published.max(1) as f64)
    }

    /// The mean over the brokers of each level.
    pub fn level_cpu_us(&self, tree: &Tree) -> Option<Vec<f64>> {
        let mut levels = vec![0.0; tree.levels().len()];
        for broker in tree.brokers() {
            let level = broker.level as usize;
            levels[level] += self.cpu_us(tree.number(broker) as usize)? / f64::from(tree.levels()[level]);
        }
        Some(levels)
    }

    /// Mean number of bytes that the brokers' TCP sockets sent for a copy of a message, without headers of TCP and
    /// below. Copies over other transports are not counted, so all routes must use TCP.
    pub fn sent_per_copy_bytes(&self, tree: &Tree) -> Option<f64> {
        let mut sent = 0;
        for (_, node) in &self.nodes {
            sent += node.network?.bytes_sent;
        }
        let copies: u32 = tree.levels().iter().skip(1).sum::<u32>() + tree.consumers();
        let all = self.published as f64 * f64::from(copies);
        (all > 0.0 && sent > 0).then(|| sent as f64 / all)
    }

    /// Processors that brokers, publisher and consumers kept busy.
    pub fn processors_busy(&self) -> f64 {
        let clients = self.publishers.process.cpu_s() + self.consumed.process.cpu_s();
        (clients + self.brokers().cpu_s()) / self.elapsed_s()
    }

    /// Usage of all brokers.
    pub fn brokers(&self) -> RoleUsage {
        self.nodes.iter().map(|(_, node)| &node.usage).collect()
    }

    /// Why these figures must not be trusted, if so: every consumer must have received every message once and in order.
    pub fn problem(&self) -> Option<String> {
        let missing = (self.count * self.consumers).abs_diff(self.delivered);
        validity::faulty(&self.faults, self.refused)
            .or_else(|| (missing > 0).then(|| format!("the consumers received {missing} messages too few or too many")))
            .map(|why| format!("{} bytes: {why}", self.size_bytes))
    }

    /// The figures as a run of a document.
    pub fn to_run(&self, latencies: &LatencyHistogram) -> MeasuredRun {
        let (publishers, consumers) = (&self.publishers.process, &self.consumed.process);
        let clients = [("publisher", publishers), ("consumers", consumers)];
        let mut invalid: Vec<String> = self.problem().into_iter().collect();
        invalid.extend(validity::unoptimised(&HostEnvironment::read()));
        // Brokers, publisher and consumers share the processors, so a saturated one is part of the measurement.
        let mut notes: Vec<String> =
            clients.iter().filter_map(|(role, usage)| validity::client_was_full(role, usage)).collect();
        notes.extend(
            clients.iter().filter_map(|(role, usage)| validity::client_was_starved(role, usage, self.elapsed_s())),
        );
        notes.extend(steadiness(&self.rates).and_then(|steadiness| steadiness.note()));
        MeasuredRun {
            elapsed_s: self.elapsed_s(),
            published: self.published,
            delivered: self.delivered,
            delivered_bytes: self.delivered * self.size_bytes as u64,
            latencies: (latencies.count() > 0)
                .then(|| ("last_consumer".to_owned(), latencies.buckets()))
                .into_iter()
                .collect(),
            faults: self.faults,
            refused: self.refused,
            broker: self.brokers().known(),
            nodes: self.nodes.iter().cloned().collect(),
            publishers: publishers.known(),
            consumers: consumers.known(),
            network: NetworkUsage::sum(self.publishers.network, self.consumed.network),
            rates: self.rates.clone(),
            invalid,
            notes,
            ..MeasuredRun::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> TreeSegmentFigures {
        let mut figures = TreeSegmentFigures::begin(1_000, 500, 4);
        (figures.began_ns, figures.ended_ns, figures.published, figures.delivered) = (1, 500_000_001, 500, 2_000);
        figures
    }

    #[test]
    fn a_stream_is_a_share_of_the_whole() {
        let figures = figures();
        assert_eq!([figures.per_stream_per_s(), figures.aggregate_per_s()], [1_000.0, 4_000.0]);
        assert_eq!([figures.per_stream_mb_per_s(), figures.aggregate_mb_per_s()], [1.0, 4.0]);
        assert_eq!(figures.problem(), None);
    }

    #[test]
    fn a_level_is_the_mean_of_its_brokers_and_a_copy_goes_by_every_route() {
        let node = |cpu_s: f64, bytes_sent: u64| NodeUsage {
            usage: RoleUsage { processes: 1, user_s: cpu_s, ..RoleUsage::default() },
            network: Some(NetworkUsage { bytes_sent, ..NetworkUsage::default() }),
        };
        // 500 messages: two copies at the root, two at each broker below.
        let nodes = [node(0.001, 1_000_000), node(0.002, 1_000_000), node(0.004, 1_000_000)];
        let names = ["b0", "b1.0", "b1.1"].map(str::to_owned);
        let figures = TreeSegmentFigures { nodes: names.into_iter().zip(nodes).collect(), ..figures() };
        let tree: Tree = "B-2B-4C".parse().expect("a tree");
        let levels = figures.level_cpu_us(&tree).expect("all are metered");
        assert!((levels[0] - 2.0).abs() < 1e-9 && (levels[1] - 6.0).abs() < 1e-9, "{levels:?}");
        assert_eq!(figures.sent_per_copy_bytes(&tree), Some(1_000.0));
        assert!((figures.processors_busy() - 0.014).abs() < 1e-9, "{}", figures.processors_busy());
        assert_eq!(TreeSegmentFigures { nodes: Vec::new(), ..figures }.level_cpu_us(&tree), None);
    }

    #[test]
    fn a_message_too_few_or_too_many_is_told() {
        let why = TreeSegmentFigures { delivered: 1_999, ..figures() }.problem();
        assert_eq!(why.as_deref(), Some("1000 bytes: the consumers received 1 messages too few or too many"));
        let lost = DeliveryFaults { lost: 2, ..DeliveryFaults::default() };
        let run = TreeSegmentFigures { faults: lost, ..figures() }.to_run(&LatencyHistogram::default());
        assert!(run.invalid.iter().any(|why| why.contains("2 lost") || why.contains('2')), "{:?}", run.invalid);
    }
}
