//! Sums of what the publishers of one process measured so far.

use gauge::{DeliveryFaults, LatencyHistogram};

use crate::workload::delivery_ledger::MessageSetSum;
use crate::workload::process_messages::WorkloadPublisherReport;
use harness::role_protocol::SelfUsage;

/// See `WorkloadPublisherReport` for the fields.
#[derive(Default)]
pub(super) struct PublisherResults {
    pub sent: u64,
    pub measured: u64,
    pub measured_bytes: u64,
    pub late: u64,
    pub unsent: u64,
    pub stalled_ns: u64,
    pub lateness: LatencyHistogram,
    pub round_trips: LatencyHistogram,
    pub confirm_times: LatencyHistogram,
    pub answers: u64,
    pub answer_faults: DeliveryFaults,
    pub refused: u64,
    pub unconfirmed: u64,
    pub returned: u64,
    pub unroutable: u64,
    pub expected: Vec<MessageSetSum>,
    pub digest: u64,
    pub last_ns: u64,
}

impl PublisherResults {
    pub(super) fn new(queues: usize) -> Self {
        Self { expected: vec![MessageSetSum::default(); queues], ..Self::default() }
    }

    pub(super) fn into_report(self, used: SelfUsage) -> WorkloadPublisherReport {
        WorkloadPublisherReport {
            sent: self.sent,
            measured: self.measured,
            measured_bytes: self.measured_bytes,
            late: self.late,
            unsent: self.unsent,
            stalled_ns: self.stalled_ns,
            lateness: self.lateness.buckets(),
            round_trips: self.round_trips.buckets(),
            confirm_times: self.confirm_times.buckets(),
            answers: self.answers,
            answer_faults: self.answer_faults,
            refused: self.refused,
            unconfirmed: self.unconfirmed,
            returned: self.returned,
            unroutable: self.unroutable,
            expected: self.expected,
            digest: self.digest,
            last_ns: self.last_ns,
            used,
        }
    }
}
