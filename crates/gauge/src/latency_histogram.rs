//! A mergeable latency histogram with three significant digits (HdrHistogram).
//!
//! Quantiles of several runs come from merged histograms, never from averaged quantiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::limits::{LATENCY_NS_MAX, SAMPLES_ABOVE_MIN};

/// A histogram of latencies in nanoseconds; it travels as its buckets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "HistogramBuckets", into = "HistogramBuckets")]
pub struct LatencyHistogram {
    histogram: Histogram<u64>,
}

/// The non-empty buckets: values in nanoseconds with their counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HistogramBuckets(Vec<(u64, u64)>);

impl HistogramBuckets {
    /// In ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<(u64, u64)> for HistogramBuckets {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(buckets: I) -> Self {
        Self(buckets.into_iter().collect())
    }
}

impl From<HistogramBuckets> for LatencyHistogram {
    fn from(buckets: HistogramBuckets) -> Self {
        let mut histogram = Self::default();
        histogram.merge(&buckets);
        histogram
    }
}

impl From<LatencyHistogram> for HistogramBuckets {
    fn from(histogram: LatencyHistogram) -> Self {
        histogram.buckets()
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        match Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3) {
            Ok(histogram) => Self { histogram },
            Err(error) => unreachable!("constant bounds are accepted: {error}"),
        }
    }
}

impl LatencyHistogram {
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The quantile for a share from 0 to 1, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        self.histogram.value_at_quantile(share) as f64 / 1e3
    }

    /// The same if enough samples lie above it ([`SAMPLES_ABOVE_MIN`]); the maximum (1) is always supported.
    pub fn supported_quantile_us(&self, share: f64) -> Option<f64> {
        if self.count() == 0 {
            return None;
        }
        if share >= 1.0 {
            return Some(self.max_us());
        }
        // Rounded, since 1,000 times 0.01 is slightly less than 10 in binary.
        let above = (self.count() as f64 * (1.0 - share) * 1e6).round() / 1e6;
        (above >= SAMPLES_ABOVE_MIN).then(|| self.quantile_us(share))
    }

    pub fn mean_us(&self) -> f64 {
        self.histogram.mean() / 1e3
    }

    pub fn max_us(&self) -> f64 {
        self.histogram.max() as f64 / 1e3
    }

    /// Adds the latencies of another histogram.
    pub fn merge(&mut self, buckets: &HistogramBuckets) {
        for &(value, count) in &buckets.0 {
            self.histogram.saturating_record_n(value, count);
        }
    }

    /// All non-empty buckets.
    pub fn buckets(&self) -> HistogramBuckets {
        HistogramBuckets(
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
        let mut here = LatencyHistogram::default();
        for us in 1..=1_000_u64 {
            here.record(us * 1_000);
        }
        let mut there = LatencyHistogram::default();
        let carried: HistogramBuckets = here.buckets().iter().collect();
        there.merge(&carried);
        assert_eq!(there.count(), 1_000);
        for share in [0.5, 0.99, 1.0] {
            assert!(
                (there.quantile_us(share) - share * 1_000.0).abs() <= share,
                "{share}: {}",
                there.quantile_us(share)
            );
        }
    }

    #[test]
    fn quantiles_need_samples_above_them() {
        let of = |count: u64| {
            let mut latencies = LatencyHistogram::default();
            (1..=count).for_each(|us| latencies.record(us * 1_000));
            latencies
        };
        assert_eq!(of(0).supported_quantile_us(0.5), None);
        assert_eq!(of(999).supported_quantile_us(0.99), None);
        assert!(of(1_000).supported_quantile_us(0.99).is_some());
        assert!(of(99_999).supported_quantile_us(0.9999).is_none());
        assert!(of(100_000).supported_quantile_us(0.9999).is_some());
        assert!(of(1).supported_quantile_us(1.0).is_some_and(|us| (us - 1.0).abs() < 0.01));
    }
}
