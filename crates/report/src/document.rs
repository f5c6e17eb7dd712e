//! The document of a run: all measurements and everything needed to judge them (`docs/measurements/schema.md`).
//!
//! The schema is versioned. It has no field for passwords or for the names of machines and users.

use std::collections::BTreeMap;

use gauge::{DeliveryFaults, HistogramBuckets, HostEnvironment};
pub use gauge::{NetworkUsage, RoleUsage};
use serde::{Deserialize, Serialize};

/// The schema of this program. Documents with another major version are rejected.
pub const SCHEMA: &str = "harrier-bench/1.2";

/// One run of the program: its command, environment and results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`] of the writer.
    pub schema: String,
    /// The command line, without passwords.
    pub command: String,
    /// Start time: UTC, `2026-01-31T12:34:56Z`.
    pub began: String,
    /// End time; absent if the document was cut short.
    pub ended: Option<String>,
    /// The commit of the build, if known.
    pub commit: Option<String>,
    pub environment: HostEnvironment,
    /// The placement of the roles (processors, or hosts under a launcher).
    pub placement: String,
    /// All options with their values, defaults included.
    pub options: BTreeMap<String, String>,
    pub targets: Vec<TargetFacts>,
    pub series: Vec<MeasuredSeries>,
    /// Why the run ended early; `None` if the document is complete.
    pub cut_short: Option<String>,
}

/// A broker or its stand-in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Its unique name in tables.
    pub name: String,
    /// `tcp`, `unix`, `tls`, `rdma`, `rsocket`; `relay` for the raw baseline, `verbs` for the RDMA baseline, `null` for null
    /// brokers, `file` for a disk.
    pub transport: String,
    /// The product it announces (server property `product`).
    pub product: Option<String>,
    pub version: Option<String>,
    /// Its address, without credentials.
    pub url: Option<String>,
    /// The capabilities it announces.
    pub capabilities: Vec<String>,
    /// TCP options, set or observed: `nodelay`, `send_buffer_bytes`, `receive_buffer_bytes`, `congestion_control`.
    pub tcp: BTreeMap<String, String>,
}

/// The load model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoopMode {
    /// Closed loop: as fast as answers allow.
    Closed,
    /// Open loop: by a schedule, independent of answers.
    Open,
}

/// One benchmark on one target along one axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredSeries {
    /// `de-spsc`, `de-mpmc`, `de-pp`, `fe-spmc`, `te-spsc`, `confirm`, `churn`, `disk`, `drain`, `recover`, `open`, `workload …`, `sockets`, `verbs`, …
    pub benchmark: String,
    /// [`TargetFacts::name`].
    pub target: String,
    pub pace: LoopMode,
    /// Constant parameters of the series: `pairs`, `consumers`, `patterns`, `confirms`, …
    pub parameters: BTreeMap<String, String>,
    /// The axis: `size_bytes`, `pairs`, `consumers`, `patterns`, `rate_per_s`.
    pub axis: String,
    /// One for each value on the axis.
    pub points: Vec<SeriesPoint>,
}

/// All runs at one value of the axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// The value on the axis.
    pub at: f64,
    /// Bytes of a message body (the mean if they differ).
    pub size_bytes: f64,
    /// In the order of measurement.
    pub runs: Vec<MeasuredRun>,
}

/// One measured interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MeasuredRun {
    /// Seconds from the first message to the last answer.
    pub elapsed_s: f64,
    pub published: u64,
    /// Messages delivered to all consumers together.
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// Other operations (`churn`: connections, channels or queues; `disk`: groups written).
    pub operations: Option<u64>,
    /// Peak memory of the target's processes above that without messages, in resident bytes (`drain`, filling).
    #[serde(default)]
    pub backlog_bytes: Option<u64>,
    /// Latencies by kind: `round_trip`, `delivery`, `confirm`, `service`, `write`. In open loop they count from the intended send time.
    pub latencies: BTreeMap<String, HistogramBuckets>,
    /// Loss, duplicates, reordering, corruption.
    pub faults: DeliveryFaults,
    /// Messages rejected or returned.
    pub refused: u64,
    /// What the target's durable store wrote, if it tells (`--durable`).
    #[serde(default)]
    pub store: Option<StoreUsage>,
    /// How the target came back after it was killed (`recover`).
    #[serde(default)]
    pub recovery: Option<RecoveryFigures>,
    /// Resource usage of the target's processes.
    pub broker: Option<RoleUsage>,
    /// Usage of each broker by name, if the target is a tree of brokers (`harrier topology`).
    #[serde(default)]
    pub nodes: BTreeMap<String, NodeUsage>,
    /// Resource usage of all publishers.
    pub publishers: Option<RoleUsage>,
    /// Resource usage of all consumers.
    pub consumers: Option<RoleUsage>,
    /// Network traffic.
    pub network: Option<NetworkUsage>,
    /// Messages per second in each twentieth of the interval; empty if not sampled.
    pub rates: Vec<f64>,
    /// Why the run is INVALID; empty if it is valid.
    pub invalid: Vec<String>,
    /// Notes for the reader that do not make the run INVALID.
    pub notes: Vec<String>,
}

/// What a durable store wrote in an interval, as the broker counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreUsage {
    /// Messages in groups: what was settled before is never written.
    pub messages: u64,
    /// Groups, each written by one call, those of definitions included.
    pub groups: u64,
    /// Requests that waited until they were durable.
    pub syncs: u64,
    /// Bytes of the groups, in whole blocks.
    pub bytes: u64,
}

/// How a broker came back after it was killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecoveryFigures {
    /// Seconds from the start until the broker accepts connections.
    pub listening_s: f64,
    /// Seconds from the start until a consumer has the first message; `None` if none came.
    pub first_delivery_s: Option<f64>,
    /// Messages that were delivered with the flag `redelivered`.
    pub redelivered: u64,
}

/// One broker of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeUsage {
    /// Resource usage of its process.
    pub usage: RoleUsage,
    /// Traffic of its TCP sockets, with neighbours and clients.
    pub network: Option<NetworkUsage>,
}

impl MeasuredSeries {
    /// The name of a value on the axis, if there is one: the parameter `AXIS VALUE`, as in `group 1`.
    pub(crate) fn name_at(&self, at: f64) -> Option<&str> {
        self.parameters.get(&format!("{} {at}", self.axis)).map(String::as_str)
    }

    /// A value on the axis as shown in tables: its name, or the number.
    pub(crate) fn label_at(&self, at: f64) -> String {
        self.name_at(at).map_or_else(|| at.to_string(), str::to_owned)
    }
}

impl Document {
    pub fn target(&self, name: &str) -> Option<&TargetFacts> {
        self.targets.iter().find(|facts| facts.name == name)
    }

    /// A target with its product: `rabbitmq (RabbitMQ 3.10.8, tcp)`.
    pub(crate) fn target_line(&self, name: &str) -> String {
        self.target(name).map_or_else(|| name.to_owned(), TargetFacts::line)
    }

    /// The largest number of runs of a point.
    pub fn runs(&self) -> usize {
        self.series.iter().flat_map(|series| &series.points).map(|point| point.runs.len()).max().unwrap_or(0)
    }

    /// The facts about the run, one per line.
    pub fn facts(&self) -> Vec<String> {
        let ended = self.ended.as_ref().map_or_else(String::new, |ended| format!(" to {ended}"));
        let commit = self.commit.as_ref().map_or_else(String::new, |commit| format!(", commit {commit}"));
        let mut facts = vec![
            format!("`{}`", self.command),
            format!("{}{ended}{commit}", self.began),
            self.environment.line(),
            format!("placement: {}", self.placement),
        ];
        for target in &self.targets {
            let mut line = target.line();
            let mut more: Vec<String> = target.url.iter().cloned().collect();
            let tcp: Vec<String> = target.tcp.iter().map(|(name, value)| format!("{name} {value}")).collect();
            more.extend((!tcp.is_empty()).then(|| tcp.join(", ")));
            if !more.is_empty() {
                line.push_str(&format!(": {}", more.join("; ")));
            }
            facts.push(line);
        }
        facts.push(match self.runs() {
            0 => "nothing was measured".to_owned(),
            1 => "one run, no intervals".to_owned(),
            runs => format!("medians of {runs} runs with their intervals"),
        });
        facts.extend(self.cut_short.as_ref().map(|why| format!("cut short: {why}")));
        facts
    }
}

impl TargetFacts {
    /// The name with its product: `rabbitmq (RabbitMQ 3.10.8, tcp)`.
    pub fn line(&self) -> String {
        let product = match (&self.product, &self.version) {
            (Some(product), Some(version)) => format!("{product} {version}, "),
            (Some(product), None) => format!("{product}, "),
            _ => String::new(),
        };
        format!("{} ({product}{})", self.name, self.transport)
    }
}
