//! Sums of what one group of consumers measured so far.

use gauge::LatencyHistogram;

use crate::workload::process_messages::ConsumerGroupReport;

/// Parts of the measured time whose rates are reported.
pub(super) const SLICES: u64 = 20;

/// See `ConsumerGroupReport` for the fields.
#[derive(Default)]
pub(super) struct ConsumerGroupResults {
    pub delivered: u64,
    pub delivered_bytes: u64,
    pub delivery: LatencyHistogram,
    pub service: LatencyHistogram,
    pub done: LatencyHistogram,
    pub slices: [u64; SLICES as usize],
    pub rejected: u64,
    pub crashes: u64,
    pub behind: u64,
}

impl ConsumerGroupResults {
    pub(super) fn into_report(self) -> ConsumerGroupReport {
        ConsumerGroupReport {
            delivered: self.delivered,
            delivered_bytes: self.delivered_bytes,
            delivery: self.delivery.buckets(),
            service: self.service.buckets(),
            done: self.done.buckets(),
            slices: self.slices.to_vec(),
            rejected: self.rejected,
            crashes: self.crashes,
            behind: self.behind,
        }
    }
}
