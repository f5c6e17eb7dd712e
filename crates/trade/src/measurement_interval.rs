//! Sampling: what a gateway or the engine counted and used since the last sample.

use market::{MarketSample, SampleSource};

use super::process_usage::ProcessUsage;

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MarketTotals {
    pub orders: u64,
    pub trades: u64,
    pub confirmations: u64,
    pub rejects: u64,
    pub quotes: u64,
}

/// The current interval.
pub(super) struct MeasurementInterval {
    /// Start of the first interval, and of this one.
    first_ns: u64,
    began_ns: u64,
    before: MarketTotals,
    usage: ProcessUsage,
    /// Samples so far.
    samples: u64,
    bytes: Vec<u8>,
}

impl MeasurementInterval {
    /// For a program that has counted this, and starts later.
    pub(super) fn new(before: MarketTotals) -> Self {
        Self { first_ns: 0, began_ns: 0, before, usage: ProcessUsage::now(), samples: 0, bytes: Vec::new() }
    }

    /// Starts the first interval.
    pub(super) fn begin(&mut self, time_ns: u64) {
        (self.first_ns, self.began_ns, self.usage) = (time_ns, time_ns, ProcessUsage::now());
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Ends the interval: returns its sample, with the completion times in it, and starts the next one.
    pub(super) fn end(
        &mut self,
        role: SampleSource,
        time_ns: u64,
        totals: MarketTotals,
        completions: Vec<(u64, u64)>,
    ) -> &[u8] {
        let (user_us, system_us) = self.usage.since();
        let before = std::mem::replace(&mut self.before, totals);
        let sample = MarketSample {
            source: role,
            number: self.samples as u32,
            at_ns: time_ns.saturating_sub(self.first_ns),
            span_ns: time_ns.saturating_sub(self.began_ns),
            orders: totals.orders - before.orders,
            trades: totals.trades - before.trades,
            confirmations: totals.confirmations - before.confirmations,
            rejects: totals.rejects - before.rejects,
            quotes: totals.quotes - before.quotes,
            user_us,
            system_us,
            completions,
        };
        sample.encode(&mut self.bytes);
        self.began_ns = time_ns;
        self.samples += 1;
        &self.bytes
    }
}
