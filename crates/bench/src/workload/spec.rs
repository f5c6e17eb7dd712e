//! A workload as data: who publishes what to whom at which rate, and the objectives. Units are those of the execution.

use serde::{Deserialize, Serialize};

/// A workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkloadSpec {
    /// What it is called.
    pub name: String,
    /// What it shows, in a line.
    pub about: String,
    /// How long messages are meant to be sent, warm-up included.
    pub duration_ns: u64,
    /// The first part of it, whose figures are thrown away.
    pub warm_up_ns: u64,
    /// How long after the end the last messages may take before consumers stop thinking and only read what is left.
    pub drain_ns: u64,
    /// Everything random comes from it.
    pub seed: u64,
    pub exchanges: Vec<WorkloadExchange>,
    /// Queues that several consumers may share.
    pub queues: Vec<SharedQueueSpec>,
    pub publishers: Vec<PublisherGroup>,
    pub consumers: Vec<ConsumerGroup>,
    pub objectives: Vec<WorkloadObjective>,
}

/// How an exchange chooses queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorkloadExchangeType {
    Direct,
    Fanout,
    Topic,
}

impl WorkloadExchangeType {
    /// Its name on the wire and in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Fanout => "fanout",
            Self::Topic => "topic",
        }
    }
}

/// An exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkloadExchange {
    pub name: String,
    pub kind: WorkloadExchangeType,
}

/// A queue that consumers share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedQueueSpec {
    pub name: String,
    pub durable: bool,
    pub bindings: Vec<WorkloadBinding>,
}

/// A binding. The key may hold `{consumer}` and `{pick}` (queues of consumers' own).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkloadBinding {
    /// Index of the exchange.
    pub exchange: usize,
    pub key: String,
}

/// A group of publishers that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PublisherGroup {
    pub name: String,
    /// Connections.
    pub count: usize,
    /// Processes that they are spread over.
    pub processes: usize,
    /// Index of the exchange.
    pub exchange: usize,
    /// May hold `{symbol}` and `{publisher}`.
    pub key: String,
    pub symbols: usize,
    pub popularity: SymbolPopularity,
    pub size: SizeDistribution,
    /// Of the whole group, in messages a second.
    pub rate: SendRate,
    pub arrivals: ArrivalProcess,
    pub mandatory: bool,
    pub persistent: bool,
    /// Most messages without a confirm, for each publisher; zero: no confirms.
    pub confirms: u64,
    /// The exchange that answers come through, if every message is a request.
    pub reply_exchange: Option<usize>,
}

/// Which of the symbols a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum SymbolPopularity {
    Uniform,
    /// The k-th is chosen in proportion to `1 / k^s`.
    Zipf(f64),
}

/// Bytes of a body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum SizeDistribution {
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

/// Messages a second, over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum SendRate {
    Constant(f64),
    /// `high` for `on_ns`, `low` for `off_ns`, and so on.
    Bursts {
        high: f64,
        low: f64,
        on_ns: u64,
        off_ns: u64,
    },
    /// Begins with `peak`; the excess over `base` halves each `half_life_ns`.
    Opening {
        peak: f64,
        base: f64,
        half_life_ns: u64,
    },
}

/// Gaps between messages at a given rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ArrivalProcess {
    Even,
    Poisson,
}

/// A group of consumers that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConsumerGroup {
    pub name: String,
    pub count: usize,
    pub from: QueueSource,
    /// Unacknowledged messages sent ahead; zero: no limit.
    pub prefetch: u16,
    pub ack: AckMode,
    pub think: Option<ThinkTime>,
    /// Share of the messages that are put back once.
    pub reject: f64,
    /// Share of the messages at which the channel is closed with everything unacknowledged.
    pub crash: f64,
    pub answer: Option<AnswerSpec>,
}

/// Where consumers take messages from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum QueueSource {
    /// Index of a shared queue.
    Shared(usize),
    /// A queue of each consumer's own.
    Own {
        bindings: Vec<WorkloadBinding>,
        /// How many symbols each consumer picks for `{pick}`, and from how many.
        picks: usize,
        picks_of: usize,
    },
}

/// When a delivery is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AckMode {
    /// By the broker, when it sends it.
    None,
    /// So many at once.
    Every(u64),
}

/// How long a consumer works on a message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ThinkTime {
    Constant { ns: u64 },
    Uniform { least_ns: u64, most_ns: u64 },
    Exponential { mean_ns: u64 },
    LogNormal { median_ns: u64, sigma: f64, most_ns: u64 },
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerSpec {
    /// Index of the exchange; the key is what the request says (`reply-to`).
    pub exchange: usize,
    pub size_bytes: usize,
}

/// What is asked of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkloadObjective {
    /// Name of a group of publishers or consumers; `None`: all.
    pub group: Option<String>,
    pub goal: ObjectiveGoal,
}

/// The bound of an objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ObjectiveGoal {
    /// A quantile (0 to 1; 1: the largest) of a kind of latency.
    Latency { kind: String, quantile: f64, most_us: f64 },
    /// Deliveries a second.
    Rate { least_per_s: f64 },
}

impl WorkloadSpec {
    /// All publishers, over all groups: each is a stream with a sequence of its own.
    pub(crate) fn streams(&self) -> usize {
        self.publishers.iter().map(|group| group.count).sum()
    }

    /// The number of the first stream of a group.
    pub(crate) fn first_stream(&self, group: usize) -> usize {
        self.publishers[..group].iter().map(|group| group.count).sum()
    }
}
