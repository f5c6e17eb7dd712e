//! The measurements of one tree at one message size. A calibration is a list of these.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use topology::Tree;

use crate::limits::RUNS_MAX;

/// One tree, one size, several runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The tree; in a profile, its notation.
    #[serde(serialize_with = "write_tree", deserialize_with = "read_tree")]
    pub tree: Tree,
    pub message_bytes: u64,
    /// Between brokers: `tcp`, `unix` or `rdma`.
    pub transport: String,
    /// Between brokers: `none` or `confirm`.
    pub ack: String,
    /// Messages a second of one stream, a value a run.
    pub streams_per_s: Vec<f64>,
    /// Latency of a single message, from its publication until the last consumer has it: a median a run. May be empty.
    #[serde(default)]
    pub latency_us: Vec<f64>,
    /// For each level from the root: processor time of one of its brokers for one message of the stream, a value a run.
    /// May be empty.
    #[serde(default)]
    pub broker_cpu_us: Vec<Vec<f64>>,
    /// Bytes on the wire for one copy of a message, with all headers.
    #[serde(default)]
    pub wire_bytes_per_copy: Option<f64>,
}

impl Observation {
    /// What is inconsistent, if anything.
    pub fn inconsistency(&self) -> Option<String> {
        let sound = |runs: &[f64]| runs.iter().all(|run| run.is_finite() && *run > 0.0);
        let levels = self.tree.levels().len();
        let cpu = &self.broker_cpu_us;
        let why = if self.message_bytes == 0 {
            "its messages have no bytes".to_owned()
        } else if self.streams_per_s.is_empty() {
            "it has no runs".to_owned()
        } else if [&self.streams_per_s, &self.latency_us].into_iter().chain(cpu).any(|runs| runs.len() > RUNS_MAX) {
            format!("it has more than {RUNS_MAX} runs")
        } else if ![&self.streams_per_s, &self.latency_us].into_iter().chain(cpu).all(|runs| sound(runs)) {
            "it has a value that is not a number above 0".to_owned()
        } else if !cpu.is_empty() && (cpu.len() != levels || cpu.iter().any(Vec::is_empty)) {
            format!("its processor times are not those of {levels} levels")
        } else if self.wire_bytes_per_copy.is_some_and(|bytes| !bytes.is_finite() || bytes < self.message_bytes as f64)
        {
            "a copy on the wire has fewer bytes than the message".to_owned()
        } else {
            return None;
        };
        Some(format!("{} with {} bytes: {why}", self.tree, self.message_bytes))
    }
}

fn write_tree<S: Serializer>(tree: &Tree, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(tree)
}

fn read_tree<'de, D: Deserializer<'de>>(from: D) -> Result<Tree, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}
