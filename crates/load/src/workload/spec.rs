//! A workload as data: who publishes what to whom at which rate, and the objectives. Units are those of the execution.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    pub name: String,
    /// A one-line description.
    pub about: String,
    /// How long messages are sent, warm-up included.
    pub duration_ns: u64,
    /// The first part of it, which is not measured.
    pub warm_up_ns: u64,
    /// Time after the end for outstanding messages; after that, consumers drop their think time and drain the queues.
    pub drain_ns: u64,
    /// The seed of all randomness.
    pub seed: u64,
    pub exchanges: Vec<WorkloadExchange>,
    /// Queues that several consumers may share.
    pub queues: Vec<SharedQueueSpec>,
    pub publishers: Vec<PublisherGroup>,
    pub consumers: Vec<ConsumerGroup>,
    pub objectives: Vec<WorkloadObjective>,
    /// Consumers' own queues are durable: not exclusive, and deleted at the end.
    pub durable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkloadExchangeType {
    Direct,
    Fanout,
    Topic,
}

impl WorkloadExchangeType {
    /// Its name in AMQP and in workload files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadExchange {
    pub name: String,
    pub kind: WorkloadExchangeType,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedQueueSpec {
    pub name: String,
    pub durable: bool,
    pub bindings: Vec<WorkloadBinding>,
}

/// A binding. The key may contain `{consumer}` and `{pick}` (for exclusive queues).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadBinding {
    /// Index of the exchange.
    pub exchange: usize,
    pub key: String,
}

/// A group of identical publishers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublisherGroup {
    pub name: String,
    /// Number of publishers, each with a connection.
    pub count: usize,
    /// Processes that they are distributed over.
    pub processes: usize,
    /// Index of the exchange.
    pub exchange: usize,
    /// May contain `{symbol}` and `{publisher}`.
    pub key: String,
    pub symbols: usize,
    pub popularity: SymbolPopularity,
    pub size: SizeDistribution,
    /// Rate of the whole group, in messages per second.
    pub rate: SendRate,
    pub arrivals: ArrivalProcess,
    pub mandatory: bool,
    pub persistent: bool,
    /// Maximum number of unconfirmed messages per publisher; zero: no confirms.
    pub confirms: u64,
    /// The exchange for answers, if every message is a request.
    pub reply_exchange: Option<usize>,
}

/// How often each symbol occurs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum SymbolPopularity {
    Uniform,
    /// Zipf: symbol k is drawn in proportion to `1 / k^s`.
    Zipf(f64),
}

/// The distribution of body sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SizeDistribution {
    Constant(usize),
    Uniform {
        least: usize,
        most: usize,
    },
    LogNormal {
        median: usize,
        sigma: f64,
        least: usize,
        most: usize,
    },
    /// Sizes with weights.
    List(Vec<(usize, f64)>),
}

/// Messages per second over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum SendRate {
    Constant(f64),
    /// Alternates between `high` for `on_ns` and `low` for `off_ns`.
    Bursts {
        high: f64,
        low: f64,
        on_ns: u64,
        off_ns: u64,
    },
    /// Starts at `peak`; the excess over `base` halves every `half_life_ns`.
    Opening {
        peak: f64,
        base: f64,
        half_life_ns: u64,
    },
}

/// The distribution of gaps between messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrivalProcess {
    Even,
    Poisson,
}

/// A group of identical consumers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConsumerGroup {
    pub name: String,
    pub count: usize,
    pub from: QueueSource,
    /// Prefetch count; zero: no limit.
    pub prefetch: u16,
    pub ack: AckMode,
    pub think: Option<ThinkTime>,
    /// Share of the messages that are requeued once.
    pub reject: f64,
    /// Share of the messages at which the consumer closes its channel with everything unacknowledged.
    pub crash: f64,
    pub answer: Option<AnswerSpec>,
}

/// The queues that consumers consume from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueSource {
    /// Index of a shared queue.
    Shared(usize),
    /// A queue for each consumer: exclusive, unless the workload is durable.
    Own {
        bindings: Vec<WorkloadBinding>,
        /// How many symbols each consumer picks for `{pick}`, and out of how many.
        picks: usize,
        picks_of: usize,
    },
}

/// When deliveries are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AckMode {
    /// Automatically, when the broker sends them.
    None,
    /// After this many messages.
    Every(u64),
}

/// The time a consumer works on a message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum ThinkTime {
    Constant { ns: u64 },
    Uniform { least_ns: u64, most_ns: u64 },
    Exponential { mean_ns: u64 },
    LogNormal { median_ns: u64, sigma: f64, most_ns: u64 },
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerSpec {
    /// Index of the exchange; the routing key is the request's `reply-to`.
    pub exchange: usize,
    pub size_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadObjective {
    /// The name of a group of publishers or consumers; `None` for all.
    pub group: Option<String>,
    pub goal: ObjectiveGoal,
}

/// The bound of an objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ObjectiveGoal {
    /// A quantile (0 to 1, 1 is the maximum) of a kind of latency.
    Latency { kind: String, quantile: f64, most_us: f64 },
    /// Deliveries per second.
    Rate { least_per_s: f64 },
}

impl WorkloadSpec {
    /// The same with persistent messages and durable queues.
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self.queues.iter_mut().for_each(|queue| queue.durable = true);
        self.publishers.iter_mut().for_each(|group| group.persistent = true);
        self
    }

    /// The number of publishers in all groups; each is a stream with its own sequence.
    pub(crate) fn streams(&self) -> usize {
        self.publishers.iter().map(|group| group.count).sum()
    }

    /// The number of the first stream of a group.
    pub(crate) fn first_stream(&self, group: usize) -> usize {
        self.publishers[..group].iter().map(|group| group.count).sum()
    }
}
