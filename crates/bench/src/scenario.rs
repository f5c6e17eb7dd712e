//! One workload: who publishes what to whom, run segment by segment through a target.
//!
//! Enters: a target, a placement, segments.  Leaves: the figures of each segment.
//! Owns:   the publishers' and consumers' processes.
//! Never:  starts or stops the target.

use serde::{Deserialize, Serialize};

use crate::limits::{ROLE_READY_WAIT, SEGMENT_WAIT};
use crate::placement::Placement;
use crate::plan::{Report, Segment};
use crate::process::Role;
use crate::role::task::{ConsumerTask, PublisherTask, RawTask};
use crate::target::{Target, Way};
use gauge::Faults;
use gauge::Latencies;
use gauge::Usage;

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// Type of the exchange that messages go through.
    pub exchange_type: ExchangeType,
    /// Publishers, each with consumers of its own.
    pub pairs: usize,
    /// Consumers that each message goes to (fanout).
    pub consumers: usize,
    /// Patterns bound to the topic exchange, one of which matches.
    pub patterns: usize,
    /// Routing keys used in turn.
    pub keys: usize,
    /// Most messages without a confirm; zero: no confirms.
    pub confirm_window: u64,
    /// Acknowledge after so many messages; zero: automatically.
    pub ack_every: u64,
    /// Unacknowledged messages sent ahead; zero: no limit.
    pub prefetch: u16,
}

/// Type of the exchange of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExchangeType {
    /// By exact key.
    Direct,
    /// To all.
    Fanout,
    /// By pattern.
    Topic,
}

impl ExchangeType {
    fn name(self) -> &'static str {
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
            exchange_type: ExchangeType::Direct,
            pairs: 1,
            consumers: 1,
            patterns: 1,
            keys: 1,
            confirm_window: 0,
            ack_every: 0,
            prefetch: 0,
        }
    }
}

impl Scenario {
    /// Through a topic exchange with `patterns` patterns, and `keys` keys in turn.
    pub fn topic(patterns: usize, keys: usize) -> Self {
        Self { exchange_type: ExchangeType::Topic, patterns, keys, ..Self::default() }
    }

    /// To `consumers` consumers at once.
    pub fn fanout(consumers: usize) -> Self {
        Self { exchange_type: ExchangeType::Fanout, consumers, ..Self::default() }
    }
}

/// The figures of one segment.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The segment.
    pub segment: Segment,
    /// Messages published, by all publishers.
    pub published: u64,
    /// Messages received, by all consumers.
    pub delivered: u64,
    /// From the first publisher's begin to the last one's end, in seconds.
    pub elapsed_s: f64,
    /// Round trips.
    pub latencies: Latencies,
    /// What went wrong.
    pub faults: Faults,
    /// Messages refused or returned.
    pub refused: u64,
    /// What the target used meanwhile; `None` if its process is not on this machine.
    pub broker: Option<Usage>,
    /// What the publishers used.
    pub publishers: Usage,
    /// What the consumers used.
    pub consumers: Usage,
}

impl Figures {
    /// Messages published a second.
    pub fn published_per_s(&self) -> f64 {
        self.published as f64 / self.elapsed_s
    }

    /// Messages delivered a second.
    pub fn delivered_per_s(&self) -> f64 {
        self.delivered as f64 / self.elapsed_s
    }

    /// Bodies delivered, in millions of bytes a second.
    pub fn mb_per_s(&self) -> f64 {
        self.delivered_per_s() * self.segment.size_bytes as f64 / 1e6
    }

    /// The target's processor seconds for a million deliveries.
    pub fn broker_cpu_s_per_million(&self) -> Option<f64> {
        self.broker.map(|usage| self.cpu_s_per_million(usage))
    }

    /// Processor seconds for a million deliveries.
    pub fn cpu_s_per_million(&self, usage: Usage) -> f64 {
        usage.cpu_ns as f64 / 1e9 / (self.delivered as f64 / 1e6)
    }

    /// What is wrong with this segment, if anything.
    pub fn complaint(&self) -> Option<String> {
        let Faults { lost, duplicates, reordered, strays, damaged } = self.faults;
        (self.faults.total() + self.refused > 0).then(|| {
            format!(
                "{} bytes: {lost} lost, {duplicates} doubled, {reordered} out of order, {strays} stray, {damaged} damaged, {} refused",
                self.segment.size_bytes, self.refused
            )
        })
    }
}

/// A workload whose processes are running and ready.
pub struct Running {
    publishers: Vec<Role>,
    consumers: Vec<Role>,
    broker: Option<u32>,
    _placed: Option<crate::placement::Pinned>,
}

impl Running {
    /// Starts the processes of a workload.
    pub fn start(scenario: &Scenario, target: &Target, placement: &Placement) -> Result<Self, String> {
        let mut running = Self {
            publishers: Vec::new(),
            consumers: Vec::new(),
            broker: target.pid,
            _placed: target.place(placement)?,
        };
        match &target.way {
            Way::Amqp(url) => running.start_amqp(scenario, url, placement)?,
            Way::Raw(port) => running.start_raw(scenario, *port, placement)?,
        }
        Ok(running)
    }

    fn start_amqp(&mut self, scenario: &Scenario, url: &str, placement: &Placement) -> Result<(), String> {
        let run = format!("harrier-bench-{}-{}", std::process::id(), gauge::clock::now_ns());
        let topic = scenario.exchange_type == ExchangeType::Topic;
        for pair in 0..scenario.pairs {
            let key = format!("{run}.k{pair}");
            let reply_key = format!("{run}.reply{pair}");
            let exchange = format!("{run}.x");
            let reply_exchange = if scenario.exchange_type == ExchangeType::Direct {
                exchange.clone()
            } else {
                format!("{run}.replies")
            };
            let task = ConsumerTask {
                url: url.to_owned(),
                exchange: exchange.clone(),
                exchange_type: scenario.exchange_type.name().to_owned(),
                binding_key: if topic { "stock.*.quote".to_owned() } else { key.clone() },
                queue_prefix: format!("{run}.q{pair}"),
                consumers: scenario.consumers,
                decoys: if topic { scenario.patterns - 1 } else { 0 },
                ack_every: scenario.ack_every,
                prefetch: scenario.prefetch,
                reply_exchange: reply_exchange.clone(),
                reply_key: reply_key.clone(),
            };
            let mut consumer = Role::start("consumer", &task, &placement.consumer)?;
            consumer.ready(ROLE_READY_WAIT)?;
            self.consumers.push(consumer);
            let task = PublisherTask {
                url: url.to_owned(),
                exchange,
                keys: if topic {
                    (0..scenario.keys).map(|index| format!("stock.s{index}.quote")).collect()
                } else {
                    vec![key]
                },
                reply_exchange,
                reply_key,
                consumers: scenario.consumers,
                confirm_window: scenario.confirm_window,
            };
            let mut publisher = Role::start("publisher", &task, &placement.publisher)?;
            publisher.ready(ROLE_READY_WAIT)?;
            self.publishers.push(publisher);
        }
        Ok(())
    }

    fn start_raw(&mut self, scenario: &Scenario, port: u16, placement: &Placement) -> Result<(), String> {
        if scenario.consumers > 1 || scenario.exchange_type != ExchangeType::Direct {
            return Err("a relay joins one publisher with one consumer".to_owned());
        }
        for _pair in 0..scenario.pairs {
            let mut consumer = Role::start("raw-consumer", &RawTask { port }, &placement.consumer)?;
            consumer.ready(ROLE_READY_WAIT)?;
            self.consumers.push(consumer);
            let mut publisher = Role::start("raw-publisher", &RawTask { port }, &placement.publisher)?;
            publisher.ready(ROLE_READY_WAIT)?;
            self.publishers.push(publisher);
        }
        Ok(())
    }

    /// Runs one segment on every pair at once.
    pub fn segment(&mut self, segment: &Segment) -> Result<Figures, String> {
        let wait = SEGMENT_WAIT * 2;
        for consumer in &mut self.consumers {
            consumer.order(segment)?;
            match consumer.report(wait)? {
                Report::Armed => {}
                other => return Err(format!("a consumer answered {other:?} instead of waiting for messages")),
            }
        }
        let pids = |roles: &[Role]| roles.iter().map(Role::pid).collect::<Vec<_>>();
        let (publisher_pids, consumer_pids) = (pids(&self.publishers), pids(&self.consumers));
        let before = (self.broker.and_then(Usage::of), Usage::of_all(&publisher_pids), Usage::of_all(&consumer_pids));
        for publisher in &mut self.publishers {
            publisher.order(segment)?;
        }
        let mut figures = Figures {
            segment: *segment,
            published: segment.count * self.publishers.len() as u64,
            delivered: 0,
            elapsed_s: 0.0,
            latencies: Latencies::default(),
            faults: Faults::default(),
            refused: 0,
            broker: None,
            publishers: Usage::default(),
            consumers: Usage::default(),
        };
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        for publisher in &mut self.publishers {
            match publisher.report(wait)? {
                Report::Published { began_ns, ended_ns, latencies, refused } => {
                    first_ns = first_ns.min(began_ns);
                    last_ns = last_ns.max(ended_ns);
                    figures.latencies.merge(&latencies);
                    figures.refused += refused;
                }
                other => return Err(format!("a publisher answered {other:?} instead of its figures")),
            }
        }
        figures.broker = self.broker.and_then(Usage::of).zip(before.0).map(|(after, before)| after - before);
        figures.publishers = Usage::of_all(&publisher_pids) - before.1;
        figures.consumers = Usage::of_all(&consumer_pids) - before.2;
        figures.elapsed_s = last_ns.saturating_sub(first_ns).max(1) as f64 / 1e9;
        for consumer in &mut self.consumers {
            match consumer.report(wait)? {
                Report::Consumed { received, faults } => {
                    figures.delivered += received;
                    figures.faults.add(faults);
                }
                other => return Err(format!("a consumer answered {other:?} instead of its figures")),
            }
        }
        Ok(figures)
    }
}
