//! Summarises repeated runs of one measurement: the median with an interval from order statistics. No value is discarded.

use serde::{Deserialize, Serialize};

/// The values of repeated runs, in order.
#[derive(Clone, Debug, Default)]
pub struct RunValues {
    values: Vec<f64>,
}

/// Median and interval of repeated runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The median (the mean of the two middle values for an even number).
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// The coverage of the interval: the probability that it contains the true median. It is the whole range for few runs,
    /// otherwise the narrowest order-statistic interval of at least 95 %.
    pub confidence: f64,
}

impl RunValues {
    pub fn median(&self) -> Option<f64> {
        self.summary().map(|summary| summary.median)
    }

    pub fn summary(&self) -> Option<RunSummary> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let (&low, &high) = (sorted.first()?, sorted.last()?);
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        let mut summary = RunSummary { median, low, high, confidence: coverage(count, 0) };
        let mut trimmed = 1;
        while trimmed < count / 2 && coverage(count, trimmed) >= 0.95 {
            summary = RunSummary {
                median,
                low: sorted[trimmed],
                high: sorted[count - 1 - trimmed],
                confidence: coverage(count, trimmed),
            };
            trimmed += 1;
        }
        Some(summary)
    }
}

impl FromIterator<f64> for RunValues {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self { values: values.into_iter().collect() }
    }
}

/// The probability that the true median lies between the values number `trimmed` from both ends: one minus two binomial tails.
fn coverage(count: usize, trimmed: usize) -> f64 {
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut tail = 0.0;
    for k in 0..=trimmed {
        tail += term;
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    (1.0 - 2.0 * tail).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], median: f64, low: f64, high: f64) {
        let summary = values.iter().copied().collect::<RunValues>().summary().expect("some runs");
        assert_eq!((summary.median, summary.low, summary.high), (median, low, high), "{values:?}");
    }

    #[test]
    fn medians_and_intervals() {
        check(&[3.0], 3.0, 3.0, 3.0);
        check(&[5.0, 1.0, 2.0], 2.0, 1.0, 5.0);
        check(&[4.0, 1.0, 2.0, 3.0], 2.5, 1.0, 4.0);
        // Nine runs: dropping one at each end still covers 96 %, dropping two covers 82 %.
        check(&[9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 5.0, 2.0, 8.0);
        assert!(RunValues::default().summary().is_none());
    }

    #[test]
    fn three_runs_cover_three_quarters() {
        let summary = [1.0, 2.0, 3.0].into_iter().collect::<RunValues>().summary().expect("some runs");
        assert!((summary.confidence - 0.75).abs() < 1e-9);
    }
}
