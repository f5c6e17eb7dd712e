//! The document of a run: all measurements and everything needed to judge them (`docs/measurements/schema.md`).
//!
//! The schema is versioned. It has no field for passwords or for the names of machines and users.

use std::collections::BTreeMap;

use gauge::{HistogramBuckets, HostEnvironment, DeliveryFaults};
pub use gauge::{NetworkUsage, RoleUsage};
use serde::{Deserialize, Serialize};

/// The schema that this program writes. A reader refuses another number before the dot.
pub const SCHEMA: &str = "harrier-bench/1.1";

/// One run of the program: what was asked, where, and what came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`] of the writer.
    pub schema: String,
    /// The command as it was given, without passwords.
    pub command: String,
    /// When it began: UTC, `2026-01-31T12:34:56Z`.
    pub began: String,
    /// When it ended; absent in a document that was cut short.
    pub ended: Option<String>,
    /// The commit that the program was built from, if known.
    pub commit: Option<String>,
    /// The machine.
    pub environment: HostEnvironment,
    /// Where each role ran (processors, or hosts under a launcher).
    pub placement: String,
    /// All options with the values that were used, defaults included.
    pub options: BTreeMap<String, String>,
    /// What messages went through.
    pub targets: Vec<TargetFacts>,
    /// What was measured.
    pub series: Vec<MeasuredSeries>,
    /// Why it ended before everything was measured; `None`: it is complete.
    pub cut_short: Option<String>,
}

/// A broker, or what stands in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Its name in tables, unique in the document.
    pub name: String,
    /// `tcp`, `unix`, `tls`, `rdma`, `rsocket`; `relay` for the raw baseline, `verbs` for that of RDMA, `null` for none.
    pub transport: String,
    /// What it calls itself (server property `product`).
    pub product: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Where it is, without credentials.
    pub url: Option<String>,
    /// What the broker announces as its capabilities.
    pub capabilities: Vec<String>,
    /// TCP options that were asked for or found: `nodelay`, `send_buffer_bytes`, `receive_buffer_bytes`, `congestion_control`.
    pub tcp: BTreeMap<String, String>,
}

/// How messages are paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoopMode {
    /// As fast as answers allow.
    Closed,
    /// By a clock, whatever the answers do.
    Open,
}

/// One benchmark on one target, over one axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeasuredSeries {
    /// `de-spsc`, `de-mpmc`, `de-pp`, `fe-spmc`, `te-spsc`, `confirm`, `churn`, `drain`, `open`, `workload …`, `sockets`, `verbs`, …
    pub benchmark: String,
    /// [`TargetFacts::name`].
    pub target: String,
    /// Closed or open loop.
    pub pace: LoopMode,
    /// What stays the same in this series: `pairs`, `consumers`, `patterns`, `confirms`, …
    pub parameters: BTreeMap<String, String>,
    /// What the points lie on: `size_bytes`, `pairs`, `consumers`, `patterns`, `rate_per_s`.
    pub axis: String,
    /// One for each value on the axis.
    pub points: Vec<SeriesPoint>,
}

/// All runs at one place of the axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// The place on the axis.
    pub at: f64,
    /// Bytes of a message's body (the mean, where they differ).
    pub size_bytes: f64,
    /// The runs, in the order in which they were made.
    pub runs: Vec<MeasuredRun>,
}

/// One measured interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MeasuredRun {
    /// Seconds from the first message to the last answer.
    pub elapsed_s: f64,
    /// Messages published.
    pub published: u64,
    /// Messages delivered, at all consumers together.
    pub delivered: u64,
    /// Bytes of all bodies delivered.
    pub delivered_bytes: u64,
    /// Operations of another kind (`churn`: connections, channels or queues; absent otherwise).
    pub operations: Option<u64>,
    /// Resident bytes that the target's processes held at most beyond what they held without messages (`drain`, filling).
    #[serde(default)]
    pub backlog_bytes: Option<u64>,
    /// Round trips, or in open loop the time from when a message was meant to be sent until it arrived; by name where there are
    /// several kinds (`round_trip`, `delivery`, `confirm`, `service`).
    pub latencies: BTreeMap<String, HistogramBuckets>,
    /// Loss, duplicates, reordering, damage.
    pub faults: DeliveryFaults,
    /// Messages that the broker refused or returned.
    pub refused: u64,
    /// What the target's process used.
    pub broker: Option<RoleUsage>,
    /// What each broker used and moved, by its name, where the target is several that are joined (`harrier topology`).
    #[serde(default)]
    pub nodes: BTreeMap<String, NodeUsage>,
    /// What all publishers used.
    pub publishers: Option<RoleUsage>,
    /// What all consumers used.
    pub consumers: Option<RoleUsage>,
    /// What crossed the network.
    pub network: Option<NetworkUsage>,
    /// The rate in each twentieth of the interval, in messages a second; empty if it was not sampled.
    pub rates: Vec<f64>,
    /// Why the figures must not be trusted; empty if they may.
    pub invalid: Vec<String>,
    /// What a reader should know, and what does not make the figures invalid.
    pub notes: Vec<String>,
}

/// One broker of several that are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeUsage {
    /// What its process used.
    pub usage: RoleUsage,
    /// What its TCP sockets sent and received, those to its neighbours and those to its clients.
    pub network: Option<NetworkUsage>,
}

impl MeasuredSeries {
    /// The name of a place on the axis, where places have names: the parameter `AXIS PLACE`, as in `group 1`.
    pub fn name_at(&self, at: f64) -> Option<&str> {
        self.parameters.get(&format!("{} {at}", self.axis)).map(String::as_str)
    }

    /// A place on the axis as a table shows it: its name, or the number.
    pub fn label_at(&self, at: f64) -> String {
        self.name_at(at).map_or_else(|| at.to_string(), str::to_owned)
    }
}

impl Document {
    /// The facts on a target.
    pub fn target(&self, name: &str) -> Option<&TargetFacts> {
        self.targets.iter().find(|facts| facts.name == name)
    }

    /// A target with what it is: `rabbitmq (RabbitMQ 3.10.8, tcp)`.
    pub fn target_line(&self, name: &str) -> String {
        self.target(name).map_or_else(|| name.to_owned(), TargetFacts::line)
    }

    /// The most runs that a point of this document has.
    pub fn runs(&self) -> usize {
        self.series.iter().flat_map(|series| &series.points).map(|point| point.runs.len()).max().unwrap_or(0)
    }

    /// What was asked, when, where and of whom, a line each.
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
    /// Its name with what it is: `rabbitmq (RabbitMQ 3.10.8, tcp)`.
    pub fn line(&self) -> String {
        let product = match (&self.product, &self.version) {
            (Some(product), Some(version)) => format!("{product} {version}, "),
            (Some(product), None) => format!("{product}, "),
            _ => String::new(),
        };
        format!("{} ({product}{})", self.name, self.transport)
    }
}
