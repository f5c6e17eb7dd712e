//! Tasks, commands and reports of the processes of a workload, sent as JSON.

use std::collections::BTreeMap;

use gauge::{HistogramBuckets, DeliveryFaults};
use serde::{Deserialize, Serialize};

use super::delivery_ledger::MessageSetSum;
use super::spec::WorkloadSpec;
use crate::role_protocol::SelfUsage;

/// What all processes of one run share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkloadContext {
    /// Where the broker is.
    pub url: String,
    /// Names on the broker begin with it.
    pub prefix: String,
    /// Number of the run, in every stamp.
    pub run: u32,
    /// Whether every body carries a checksum.
    pub check: bool,
    /// Bytes that each queue of messages may hold, if it is told.
    pub queue_bytes: Option<u64>,
    pub spec: WorkloadSpec,
}

impl WorkloadContext {
    /// The name of an exchange on the broker.
    pub(crate) fn exchange(&self, index: usize) -> String {
        format!("{}.{}", self.prefix, self.spec.exchanges[index].name)
    }

    /// The name of a queue on the broker.
    pub(crate) fn queue(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }
}

/// A process that publishes: some publishers of one group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkloadPublisherTask {
    pub common: WorkloadContext,
    pub group: usize,
    /// The first publisher here, and the first one after.
    pub from: usize,
    pub to: usize,
}

/// A process that consumes: all consumers of some groups.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkloadConsumerTask {
    pub common: WorkloadContext,
    pub groups: Vec<usize>,
}

/// What a process is told while it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum WorkloadCommand {
    /// The workload begins at this time of the monotonic clock.
    Begin { begin_ns: u64 },
    /// All publishers have ended; this is what each queue should have brought.
    Expect { queues: Vec<MessageSetSum> },
}

/// What a publishing process found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WorkloadPublisherReport {
    /// Messages sent, warm-up included.
    pub sent: u64,
    /// Those after the warm-up, and their bytes.
    pub measured: u64,
    pub measured_bytes: u64,
    /// Those of them that left late (`gauge::limits::LATE_SEND_NS`).
    pub late: u64,
    /// Messages whose time had come and that could not be sent before the run ended.
    pub unsent: u64,
    /// How long publishers were kept from sending: the broker took no bytes, or the window of confirms was full.
    pub stalled_ns: u64,
    /// How late messages left.
    pub lateness: HistogramBuckets,
    /// From when a request was meant to leave to when its answer was here.
    pub round_trips: HistogramBuckets,
    /// Answers, warm-up included; those that never came, came twice or belong to nothing.
    pub answers: u64,
    pub answer_faults: DeliveryFaults,
    /// Messages that the broker refused to confirm.
    pub refused: u64,
    /// Messages that it neither confirmed nor refused.
    pub unconfirmed: u64,
    /// Messages that came back, and how many should have.
    pub returned: u64,
    pub unroutable: u64,
    /// What should arrive at each queue.
    pub expected: Vec<MessageSetSum>,
    /// A number that depends on every message sent, its key, size and time; the same for the same seed.
    pub digest: u64,
    /// When the last answer or confirm was here (or the last message left).
    pub last_ns: u64,
    pub used: SelfUsage,
}

/// What a consuming process found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WorkloadConsumerReport {
    /// By the number of the group.
    pub groups: BTreeMap<usize, ConsumerGroupReport>,
    /// What went wrong on each queue that is consumed here.
    pub faults: BTreeMap<usize, DeliveryFaults>,
    pub redelivered: u64,
    pub last_ns: u64,
    pub used: SelfUsage,
}

/// What a group of consumers found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ConsumerGroupReport {
    /// Deliveries after the warm-up (by their intended time), redeliveries included, and their bytes.
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// From when a message was meant to leave to when a consumer had it.
    pub delivery: HistogramBuckets,
    /// The same from when it did leave.
    pub service: HistogramBuckets,
    /// From when it was meant to leave to when the consumer had done its work.
    pub done: HistogramBuckets,
    /// Deliveries in each twentieth of the measured time.
    pub slices: Vec<u64>,
    /// Messages put back, channels closed on purpose.
    pub rejected: u64,
    pub crashes: u64,
    /// Messages that arrived after the time to drain.
    pub behind: u64,
}
