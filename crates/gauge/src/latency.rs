//! Latencies of one segment: a whole histogram that can be sent between processes and merged.
//!
//! Enters: nanoseconds.  Leaves: quantiles, mean, or all buckets.
//! Owns:   the histogram, three significant digits.
//! Never:  averages quantiles of different runs.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::limits::LATENCY_NS_MAX;

/// A histogram of latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

/// The non-empty buckets of a histogram: value in nanoseconds and count.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Buckets(Vec<(u64, u64)>);

impl Default for Latencies {
    fn default() -> Self {
        match Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3) {
            Ok(histogram) => Self { histogram },
            Err(error) => unreachable!("constant bounds are accepted: {error}"),
        }
    }
}

impl Latencies {
    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that the given share (0 to 1) of all stays within, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        self.histogram.value_at_quantile(share) as f64 / 1e3
    }

    /// The mean in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.histogram.mean() / 1e3
    }

    /// The largest in microseconds.
    pub fn max_us(&self) -> f64 {
        self.histogram.max() as f64 / 1e3
    }

    /// Takes in all latencies of another histogram.
    pub fn merge(&mut self, buckets: &Buckets) {
        for &(value, count) in &buckets.0 {
            self.histogram.saturating_record_n(value, count);
        }
    }

    /// All non-empty buckets.
    pub fn buckets(&self) -> Buckets {
        Buckets(
            self.histogram
                .iter_recorded()
                .map(|bucket| (bucket.value_iterated_to(), bucket.count_since_last_iteration()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_carry_the_whole_histogram() {
        let mut here = Latencies::default();
        for us in 1..=1_000_u64 {
            here.record(us * 1_000);
        }
        let mut there = Latencies::default();
        there.merge(&here.buckets());
        assert_eq!(there.count(), 1_000);
        for share in [0.5, 0.99, 1.0] {
            assert!(
                (there.quantile_us(share) - share * 1_000.0).abs() <= share,
                "{share}: {}",
                there.quantile_us(share)
            );
        }
    }
}
