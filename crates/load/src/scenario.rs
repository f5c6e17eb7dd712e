//! One closed-loop scenario: starts its publishers and consumers and runs segments through a target.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use report::document::MeasuredRun;
use serde::{Deserialize, Serialize};

use crate::limits::{REPORT_WAIT, ROLE_POLL_WAIT};
use crate::patterns::{PatternMatching, TopicPatterns};
use crate::role::socket_baseline::{deliver_heads_bytes, publish_heads_bytes};
use gauge::clock::Deadline;
use gauge::{DeliveryFaults, HostEnvironment, LatencyHistogram, NetworkUsage, RoleUsage, steadiness, validity};
use harness::delivery_window::DeliveryWindow;
use harness::limits::ROLE_READY_WAIT;
use harness::placement::{CpuList, CpuPlacement};
use harness::queue_feature::QueueFeature;
use harness::role_handle::RoleHandle;
use harness::role_protocol::{LoadSegment, RoleReport, SelfUsage, TrafficShape};
use harness::role_tasks::{BinderCommand, BinderTask, ConsumerTask, PublisherTask, RawSocketTask, SocketBaselineTask};
use harness::store_meter::StoreReading;
use harness::target::{BenchmarkTarget, TargetAddress};
use harness::target_meter::TargetMeter;
use harness::tcp::TcpOptions;

/// A closed-loop scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    pub exchange_type: ScenarioExchange,
    /// Publishers, each with consumers of its own.
    pub pairs: usize,
    /// Consumers of each message (fanout).
    pub consumers: usize,
    /// Processes that the consumers are distributed over.
    pub processes: usize,
    pub patterns: usize,
    /// Routing keys used in turn.
    pub keys: usize,
    /// Maximum number of unconfirmed messages; zero: no confirms.
    pub confirm_window: u64,
    /// How many messages may be under way between a publisher and its consumer.
    #[serde(default)]
    pub window: DeliveryWindow,
    /// Acknowledge after this many messages; zero: automatic acknowledgement.
    pub ack_every: u64,
    /// Prefetch count; zero: no limit.
    pub prefetch: u16,
    /// Which of the patterns match.
    pub matching: PatternMatching,
    /// Bindings added, and removed, per second while messages flow.
    pub changes_per_s: u64,
    /// Whether sequence number and checksum of every message are checked.
    pub checks: bool,
    pub tcp: TcpOptions,
    #[serde(default)]
    pub feature: QueueFeature,
    /// Persistent messages in durable queues.
    #[serde(default)]
    pub durable: bool,
}

/// The exchange type of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScenarioExchange {
    Direct,
    Fanout,
    Topic,
}

impl ScenarioExchange {
    /// The name in AMQP.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
        }
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            exchange_type: ScenarioExchange::Direct,
            pairs: 1,
            consumers: 1,
            processes: 1,
            patterns: 1,
            keys: 1,
            confirm_window: 0,
            window: DeliveryWindow::default(),
            ack_every: 0,
            prefetch: 0,
            matching: PatternMatching::One,
            changes_per_s: 0,
            checks: false,
            tcp: TcpOptions::default(),
            feature: QueueFeature::None,
            durable: false,
        }
    }
}

impl Scenario {
    /// Through a topic exchange with `patterns` patterns and `keys` routing keys in turn.
    pub fn topic(patterns: usize, keys: usize) -> Self {
        Self { exchange_type: ScenarioExchange::Topic, patterns, keys, ..Self::default() }
    }

    /// Through queues with a feature.
    pub fn with(feature: QueueFeature) -> Self {
        Self { feature, ..Self::default() }
    }

    /// Through a fanout exchange to `consumers` consumers.
    pub fn fanout(consumers: usize) -> Self {
        Self { exchange_type: ScenarioExchange::Fanout, consumers, ..Self::default() }
    }
}

/// The results of one segment.
#[derive(Clone, Debug)]
pub struct SegmentFigures {
    pub segment: LoadSegment,
    /// Messages published by all publishers.
    pub published: u64,
    /// Messages received by all consumers.
    pub delivered: u64,
    /// From the first publisher's start to the last one's end, in seconds.
    pub elapsed_s: f64,
    /// Round trips.
    pub latencies: LatencyHistogram,
    /// Confirm latencies.
    pub confirms: LatencyHistogram,
    /// Messages per second of all consumers in each twentieth of the segment.
    pub rates: Vec<f64>,
    /// Binding changes during the segment.
    pub changes: u64,
    pub faults: DeliveryFaults,
    /// Messages rejected or returned.
    pub refused: u64,
    /// The target's resource usage; `None` if its process is not on this machine.
    pub broker: Option<RoleUsage>,
    /// What its store has written.
    pub store: StoreReading,
    pub publishers: SelfUsage,
    pub consumers: SelfUsage,
}

impl SegmentFigures {
    /// Messages published per second.
    pub fn published_per_s(&self) -> f64 {
        self.published as f64 / self.elapsed_s
    }

    /// Messages delivered per second.
    pub fn delivered_per_s(&self) -> f64 {
        self.delivered as f64 / self.elapsed_s
    }

    /// Megabytes of bodies delivered per second.
    pub fn mb_per_s(&self) -> f64 {
        self.delivered_per_s() * self.segment.size_bytes as f64 / 1e6
    }

    /// The target's CPU seconds per million deliveries.
    pub(crate) fn broker_cpu_s_per_million(&self) -> Option<f64> {
        self.broker.map(|usage| usage.cpu_s() / (self.delivered as f64 / 1e6))
    }

    /// The faults of this segment's messages, if any.
    pub fn invalid_reason(&self) -> Option<String> {
        validity::faulty(&self.faults, self.refused).map(|why| format!("{} bytes: {why}", self.segment.size_bytes))
    }

    /// Converts it to a run of the document, with verdicts on the messages and then on the clients.
    pub fn to_run(&self) -> MeasuredRun {
        let mut latencies = BTreeMap::new();
        for (kind, all) in [("round_trip", &self.latencies), ("confirm", &self.confirms)] {
            if all.count() > 0 {
                latencies.insert(kind.to_owned(), all.buckets());
            }
        }
        let (publishers, consumers) = (&self.publishers.process, &self.consumers.process);
        let clients = [("publishers", publishers), ("consumers", consumers)];
        let mut invalid: Vec<String> = validity::faulty(&self.faults, self.refused).into_iter().collect();
        invalid.extend(clients.iter().filter_map(|(role, usage)| validity::client_was_full(role, usage)));
        invalid.extend(validity::unoptimised(&HostEnvironment::read()));
        let mut notes: Vec<String> = clients
            .iter()
            .filter_map(|(role, usage)| validity::client_was_starved(role, usage, self.elapsed_s))
            .collect();
        notes.extend(steadiness(&self.rates).and_then(|steadiness| steadiness.note()));
        notes.extend(self.store.note.clone());
        MeasuredRun {
            elapsed_s: self.elapsed_s,
            published: self.published,
            delivered: self.delivered,
            delivered_bytes: self.delivered * self.segment.size_bytes as u64,
            operations: (self.changes > 0).then_some(self.changes),
            latencies,
            faults: self.faults,
            refused: self.refused,
            broker: self.broker.and_then(RoleUsage::known),
            store: self.store.usage,
            publishers: publishers.known(),
            consumers: consumers.known(),
            network: NetworkUsage::sum(self.publishers.network, self.consumers.network),
            rates: self.rates.clone(),
            invalid,
            notes,
            ..MeasuredRun::default()
        }
    }
}

impl SegmentFigures {
    fn empty(segment: &LoadSegment) -> Self {
        Self {
            segment: *segment,
            published: 0,
            delivered: 0,
            elapsed_s: 0.0,
            latencies: LatencyHistogram::default(),
            confirms: LatencyHistogram::default(),
            rates: Vec::new(),
            changes: 0,
            faults: DeliveryFaults::default(),
            refused: 0,
            broker: None,
            store: StoreReading::default(),
            publishers: SelfUsage::default(),
            consumers: SelfUsage::default(),
        }
    }

    /// A publisher stops when a message is not answered, and the messages it never sent are not lost.
    fn discount_unsent(&mut self, segment: &LoadSegment) {
        if segment.shape == TrafficShape::PingPong && self.published < segment.count {
            self.faults.lost = self.faults.lost.saturating_sub(segment.count - self.published);
        }
    }
}

/// The roles of a scenario that are present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScenarioEndpoints {
    Both,
    /// Publishers only: the sink discards what they send.
    Publishers,
    /// Consumers only: the source generates what they receive.
    Consumers,
}

/// A scenario whose processes are running and ready.
pub struct RunningScenario {
    publishers: Vec<RoleHandle>,
    consumers: Vec<RoleHandle>,
    binder: Option<RoleHandle>,
    /// Meters the target's processes.
    broker: TargetMeter,
    _placed: Option<harness::placement::PinnedProcess>,
}

/// A prefix for names that is unique on the broker. It is short because it travels with every message.
fn run_name() -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijkmnpqrstuvwx";
    // The time in milliseconds and the process id: no two runs share both.
    let mut rest = ((gauge::clock::now_ns() / 1_000_000) << 12) | (u64::from(std::process::id()) & 0xfff);
    let mut name = String::from("hb");
    while rest > 0 {
        name.push(char::from(DIGITS[(rest % 32) as usize]));
        rest /= 32;
    }
    name
}

impl RunningScenario {
    /// Starts the processes of a scenario.
    pub fn start(scenario: &Scenario, target: &BenchmarkTarget, placement: &CpuPlacement) -> Result<Self, String> {
        let mut running = Self {
            publishers: Vec::new(),
            consumers: Vec::new(),
            binder: None,
            broker: TargetMeter::of(target)?.with_store(target, scenario.durable),
            _placed: target.pin(placement)?,
        };
        match &target.address {
            TargetAddress::Amqp(url) => running.start_amqp(scenario, url, placement, ScenarioEndpoints::Both)?,
            TargetAddress::Sink(url) => running.start_amqp(scenario, url, placement, ScenarioEndpoints::Publishers)?,
            TargetAddress::Source(url) => running.start_amqp(scenario, url, placement, ScenarioEndpoints::Consumers)?,
            TargetAddress::RawRelay { relay, certificate } => {
                running.start_raw(scenario, *relay, certificate.as_deref(), placement)?;
            }
            TargetAddress::SocketBaseline(end) => running.start_hop(scenario, *end, placement)?,
        }
        Ok(running)
    }

    fn start_amqp(
        &mut self,
        scenario: &Scenario,
        url: &str,
        placement: &CpuPlacement,
        ends: ScenarioEndpoints,
    ) -> Result<(), String> {
        let run = run_name();
        let topic = scenario.exchange_type == ScenarioExchange::Topic;
        let exchange = format!("{run}.x");
        let reply_exchange =
            if scenario.exchange_type == ScenarioExchange::Direct { exchange.clone() } else { format!("{run}.r") };
        for pair in 0..scenario.pairs {
            let key = format!("{run}.k{pair}");
            let reply_key = format!("{run}.a{pair}");
            let patterns = if topic {
                TopicPatterns::new(scenario.matching, scenario.patterns, scenario.keys)
            } else {
                TopicPatterns { keys: vec![key.clone()], matching: vec![key], others: Vec::new() }
            };
            let consumer = ConsumerTask {
                url: url.to_owned(),
                exchange: exchange.clone(),
                exchange_type: scenario.exchange_type.name().to_owned(),
                binding_keys: patterns.matching,
                queue_prefix: format!("{run}.q{pair}"),
                consumers: scenario.consumers,
                decoys: patterns.others,
                ack_every: scenario.ack_every,
                prefetch: scenario.prefetch,
                window: scenario.window,
                reply_exchange: reply_exchange.clone(),
                reply_key: reply_key.clone(),
                checks: scenario.checks,
                queue_bytes: scenario.tcp.queue_bytes,
                feature: scenario.feature,
                durable: scenario.durable,
                from_source: ends == ScenarioEndpoints::Consumers,
                on_leaf: false,
            };
            let publisher = PublisherTask {
                url: url.to_owned(),
                exchange: exchange.clone(),
                keys: patterns.keys,
                reply_exchange: reply_exchange.clone(),
                reply_key,
                consumers: if ends == ScenarioEndpoints::Publishers { 0 } else { scenario.consumers },
                confirm_window: scenario.confirm_window,
                window: scenario.window,
                checks: scenario.checks,
                priority: scenario.feature.priority(),
                persistent: scenario.durable,
            };
            if ends != ScenarioEndpoints::Publishers {
                let processes = scenario.processes.clamp(1, scenario.consumers);
                for process in 0..processes {
                    // The first processes get one consumer more if the number is not divisible; decoy patterns are bound once.
                    let consumers =
                        scenario.consumers / processes + usize::from(process < scenario.consumers % processes);
                    let mut task = ConsumerTask { consumers, ..consumer.clone() };
                    if process > 0 {
                        task.queue_prefix = format!("{}p{process}", consumer.queue_prefix);
                        task.decoys.clear();
                    }
                    self.consumers.push(RoleHandle::start("consumer", &task, &placement.consumer)?);
                    self.consumers.last_mut().map_or(Ok(0), |role| role.ready(ROLE_READY_WAIT))?;
                }
            }
            if ends != ScenarioEndpoints::Consumers {
                self.publishers.push(RoleHandle::start("publisher", &publisher, &placement.publisher)?);
                self.publishers.last_mut().map_or(Ok(0), |role| role.ready(ROLE_READY_WAIT))?;
            }
        }
        if scenario.changes_per_s > 0 && ends == ScenarioEndpoints::Both {
            let task = BinderTask {
                url: url.to_owned(),
                exchange,
                exchange_type: scenario.exchange_type.name().to_owned(),
                queue: format!("{run}.b"),
                changes_per_s: scenario.changes_per_s,
            };
            let mut binder = RoleHandle::start("binder", &task, &CpuList::default())?;
            binder.ready(ROLE_READY_WAIT)?;
            self.binder = Some(binder);
        }
        Ok(())
    }

    fn start_raw(
        &mut self,
        scenario: &Scenario,
        relay: SocketAddr,
        certificate: Option<&Path>,
        placement: &CpuPlacement,
    ) -> Result<(), String> {
        // A fan-out has one publisher; the relay copies its bytes to each consumer.
        let task = RawSocketTask {
            relay,
            consumers: scenario.consumers,
            window: scenario.window,
            tcp: scenario.tcp.clone(),
            certificate: certificate.map(Path::to_owned),
        };
        for _pair in 0..scenario.pairs {
            for _consumer in 0..scenario.consumers {
                let mut consumer = RoleHandle::start("raw-consumer", &task, &placement.consumer)?;
                consumer.ready(ROLE_READY_WAIT)?;
                self.consumers.push(consumer);
            }
            let mut publisher = RoleHandle::start("raw-publisher", &task, &placement.publisher)?;
            publisher.ready(ROLE_READY_WAIT)?;
            self.publishers.push(publisher);
        }
        Ok(())
    }

    fn start_hop(&mut self, scenario: &Scenario, end: SocketAddr, placement: &CpuPlacement) -> Result<(), String> {
        let run = run_name();
        for pair in 0..scenario.pairs {
            let (exchange, key) = (format!("{run}.x"), format!("{run}.k{pair}"));
            let task = SocketBaselineTask {
                to: end,
                publish_heads_bytes: publish_heads_bytes(&exchange, &key),
                deliver_heads_bytes: deliver_heads_bytes(&exchange, &key),
                tcp: scenario.tcp.clone(),
            };
            let mut publisher = RoleHandle::start("hop-publisher", &task, &placement.publisher)?;
            publisher.ready(ROLE_READY_WAIT)?;
            self.publishers.push(publisher);
        }
        Ok(())
    }

    /// Runs one segment on all pairs concurrently.
    pub fn segment(&mut self, segment: &LoadSegment) -> Result<SegmentFigures, String> {
        for consumer in &mut self.consumers {
            consumer.send_command(segment)?;
            match consumer.report(REPORT_WAIT)? {
                RoleReport::Armed => {}
                other => return Err(format!("a consumer answered {other:?} instead of waiting for messages")),
            }
        }
        if let Some(binder) = &mut self.binder {
            binder.send_command(&BinderCommand::Begin)?;
        }
        self.broker.begin()?;
        let began_ns = gauge::clock::now_ns();
        for publisher in &mut self.publishers {
            publisher.send_command(segment)?;
        }
        let mut figures = SegmentFigures::empty(segment);
        let (first_ns, last_ns) = self.collect_reports(&mut figures)?;
        figures.broker = self.broker.end()?;
        figures.store = self.broker.store();
        if let Some(binder) = &mut self.binder {
            binder.send_command(&BinderCommand::End)?;
            match binder.report(REPORT_WAIT)? {
                RoleReport::Worked { operations } => figures.changes = operations,
                other => return Err(format!("the binder answered {other:?} instead of its results")),
            }
        }
        let mut elapsed_ns = last_ns.saturating_sub(first_ns);
        if self.publishers.is_empty() {
            // A source has no publishers: the time from the command to the last report counts.
            elapsed_ns = gauge::clock::now_ns().saturating_sub(began_ns);
            figures.published = figures.delivered;
        }
        figures.elapsed_s = elapsed_ns.max(1) as f64 / 1e9;
        if self.consumers.is_empty() {
            // The socket baseline reports the deliveries that its bytes correspond to; a sink delivers nothing.
            figures.delivered = if figures.delivered > 0 { figures.delivered } else { figures.published };
        } else {
            figures.discount_unsent(segment);
        }
        Ok(figures)
    }

    /// Collects the reports of all roles in any order; a failed role ends the wait. Returns when the first publisher started and
    /// the last one finished.
    fn collect_reports(&mut self, figures: &mut SegmentFigures) -> Result<(u64, u64), String> {
        let deadline = Deadline::after(REPORT_WAIT);
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        let mut waiting: Vec<&mut RoleHandle> = self.publishers.iter_mut().chain(&mut self.consumers).collect();
        while !waiting.is_empty() {
            if deadline.passed() {
                return Err(format!("no report of {} roles within {} s", waiting.len(), REPORT_WAIT.as_secs()));
            }
            let mut silent = Vec::with_capacity(waiting.len());
            for (index, role) in waiting.into_iter().enumerate() {
                // Wait for the first role, and only poll the others.
                let wait = if index == 0 { ROLE_POLL_WAIT } else { Duration::ZERO };
                match role.report_within(wait)? {
                    None => silent.push(role),
                    Some(RoleReport::Published {
                        began_ns,
                        ended_ns,
                        published,
                        latencies,
                        confirms,
                        refused,
                        used,
                    }) => {
                        first_ns = first_ns.min(began_ns);
                        last_ns = last_ns.max(ended_ns);
                        figures.published += published;
                        figures.latencies.merge(&latencies);
                        figures.confirms.merge(&confirms);
                        figures.refused += refused;
                        figures.publishers.add(&used);
                    }
                    Some(RoleReport::SocketBaseline { began_ns, ended_ns, published, delivered, used }) => {
                        first_ns = first_ns.min(began_ns);
                        last_ns = last_ns.max(ended_ns);
                        figures.published += published;
                        figures.delivered += delivered;
                        figures.publishers.add(&used);
                    }
                    Some(RoleReport::Consumed { received, faults, rates, ended_ns: _, used }) => {
                        figures.delivered += received;
                        figures.faults.add(faults);
                        figures.consumers.add(&used);
                        figures.rates.resize(figures.rates.len().max(rates.len()), 0.0);
                        figures.rates.iter_mut().zip(&rates).for_each(|(sum, rate)| *sum += rate);
                    }
                    Some(other) => return Err(format!("a role answered {other:?} instead of its results")),
                }
            }
            waiting = silent;
        }
        Ok((first_ns, last_ns))
    }
}
