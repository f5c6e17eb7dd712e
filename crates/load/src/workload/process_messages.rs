//! Tasks, commands and reports of the processes of a workload, sent as JSON.

use std::collections::BTreeMap;

use gauge::{DeliveryFaults, LatencyHistogram};
use serde::{Deserialize, Serialize};

use super::delivery_ledger::MessageSetSum;
use super::spec::WorkloadSpec;
use harness::role_protocol::SelfUsage;

/// Context shared by all processes of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadContext {
    pub url: String,
    /// Prefix of all names on the broker.
    pub prefix: String,
    /// The run's number, part of every stamp.
    pub run: u32,
    /// Whether every body carries a checksum.
    pub check: bool,
    /// `x-max-length-bytes` of each queue of messages, if any.
    pub queue_bytes: Option<u64>,
    pub spec: WorkloadSpec,
}

impl WorkloadContext {
    pub fn exchange(&self, index: usize) -> String {
        format!("{}.{}", self.prefix, self.spec.exchanges[index].name)
    }

    pub fn queue(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }
}

/// The task of a publishing process: some publishers of one group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkloadPublisherTask {
    pub common: WorkloadContext,
    pub group: usize,
    /// The range of publishers in this process.
    pub from: usize,
    pub to: usize,
}

/// The task of a consuming process: all consumers of some groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkloadConsumerTask {
    pub common: WorkloadContext,
    pub groups: Vec<usize>,
}

/// Commands to a running process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum WorkloadCommand {
    /// The workload begins at this time of the monotonic clock.
    Begin { begin_ns: u64 },
    /// All publishers have finished; these are the messages that each queue should have delivered.
    Expect { queues: Vec<MessageSetSum> },
}

/// Results of a publishing process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkloadPublisherReport {
    /// Messages sent, warm-up included.
    pub sent: u64,
    /// Messages sent after the warm-up, and their bytes.
    pub measured: u64,
    pub measured_bytes: u64,
    /// Measured messages that were sent late (`gauge::limits::LATE_SEND_NS`).
    pub late: u64,
    /// Messages that were due and could not be sent before the run ended.
    pub unsent: u64,
    /// Time for which publishers could not send: the socket or the confirm window was full.
    pub stalled_ns: u64,
    /// How late messages were sent.
    pub lateness: LatencyHistogram,
    /// From a request's intended send time until its answer was received.
    pub round_trips: LatencyHistogram,
    /// From a message's intended send time until its confirm was received.
    pub confirm_times: LatencyHistogram,
    /// Answers, warm-up included; answers that are missing, duplicate or stray.
    pub answers: u64,
    pub answer_faults: DeliveryFaults,
    /// Messages rejected by the broker.
    pub refused: u64,
    /// Messages neither confirmed nor rejected.
    pub unconfirmed: u64,
    /// Messages returned, and messages that should have been.
    pub returned: u64,
    pub unroutable: u64,
    /// The messages that should arrive at each queue.
    pub expected: Vec<MessageSetSum>,
    /// A hash of all messages sent with key, size and time; equal for the same seed.
    pub digest: u64,
    /// When the last answer or confirm was received (or the last message sent).
    pub last_ns: u64,
    pub used: SelfUsage,
}

/// Results of a consuming process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkloadConsumerReport {
    /// By group number.
    pub groups: BTreeMap<usize, ConsumerGroupReport>,
    /// Faults of each queue consumed by this process.
    pub faults: BTreeMap<usize, DeliveryFaults>,
    pub redelivered: u64,
    pub last_ns: u64,
    pub used: SelfUsage,
}

/// Parts of the measured time whose rates are reported.
pub(crate) const SLICES: usize = 20;

/// Results of a group of consumers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConsumerGroupReport {
    /// Deliveries after the warm-up (by intended time), redeliveries included, and their bytes.
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// From a message's intended send time until a consumer received it.
    pub delivery: LatencyHistogram,
    /// From its actual send time until then.
    pub service: LatencyHistogram,
    /// From its intended send time until the consumer had finished its work.
    pub done: LatencyHistogram,
    /// Deliveries in each twentieth of the measured time.
    pub slices: [u64; SLICES],
    /// Messages requeued, and channels closed on purpose.
    pub rejected: u64,
    pub crashes: u64,
    /// Messages that arrived after the drain time.
    pub behind: u64,
}
