//! Combines the runs of a point into one estimate of a metric: a median with its interval, and whether it is INVALID.
//!
//! A quantile for which single runs have too few samples is read from the merged histograms of all runs, and a maximum is that of
//! all runs. INVALID runs count and mark their point.

use gauge::{LatencyHistogram, RunSummary, RunValues};

use crate::document::{MeasuredRun, SeriesPoint};
use crate::metric::Metric;

/// The estimate of a metric from the runs of one point.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricEstimate {
    /// The median; for a maximum, the largest value.
    pub median: f64,
    /// The interval; `None` for a single run, a maximum, or a quantile from merged histograms.
    pub interval: Option<(f64, f64)>,
    /// One value per run (empty for a quantile from merged histograms).
    pub values: Vec<f64>,
}

impl MetricEstimate {
    /// Estimates a metric at a point; `None` if no run has it. A maximum is that of all runs, since a median of maxima could lie below
    /// a quantile of the merged histograms.
    pub fn of(metric: &Metric, point: &SeriesPoint) -> Option<Self> {
        let typical = Self::of_medians(metric, point)?;
        if !metric.is_largest() || typical.values.len() < 2 {
            return Some(typical);
        }
        let largest = typical.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Self { median: largest, interval: None, ..typical })
    }

    /// The same with the median of the runs' maxima, for comparisons: a single outlier is no difference.
    pub(crate) fn of_medians(metric: &Metric, point: &SeriesPoint) -> Option<Self> {
        let values: Vec<f64> =
            point.runs.iter().filter_map(|run| metric.of(run)).filter(|value| value.is_finite()).collect();
        let Some(RunSummary { median, low, high, .. }) = values.iter().copied().collect::<RunValues>().summary() else {
            return Some(Self { median: merged(metric, point)?, interval: None, values });
        };
        Some(Self { median, interval: (values.len() > 1).then_some((low, high)), values })
    }
}

/// A quantile of the merged histograms of all runs.
fn merged(metric: &Metric, point: &SeriesPoint) -> Option<f64> {
    let Metric::LatencyUs(kind, _) = metric else { return None };
    let mut latencies = LatencyHistogram::default();
    for run in &point.runs {
        if let Some(buckets) = run.latencies.get(kind) {
            latencies.merge(buckets);
        }
    }
    metric.of(&MeasuredRun { latencies: [(kind.clone(), latencies.buckets())].into(), ..MeasuredRun::default() })
}

/// Why a run is INVALID: its own reasons, and its faults.
pub fn invalid_reasons_of_run(run: &MeasuredRun) -> Vec<String> {
    let mut why = run.invalid.clone();
    let faults = run.faults;
    let wrong = [
        (faults.lost, "lost"),
        (faults.duplicates, "doubled"),
        (faults.reordered, "out of order"),
        (faults.strays, "stray"),
        (faults.damaged, "damaged"),
        (run.refused, "refused"),
    ];
    let wrong: Vec<_> =
        wrong.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    // A run that states a reason itself needs no second one.
    if !wrong.is_empty() && why.is_empty() {
        why.push(format!("messages went wrong: {}", wrong.join(", ")));
    }
    why
}

/// Why a point is INVALID: one line per reason with the number of runs; empty if all runs are valid.
pub(crate) fn invalid_reasons(point: &SeriesPoint) -> Vec<String> {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for reason in point.runs.iter().flat_map(invalid_reasons_of_run) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    let runs = point.runs.len();
    reasons
        .into_iter()
        .map(|(reason, count)| if runs > 1 { format!("{reason} ({count} of {runs} runs)") } else { reason })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn medians_with_intervals() {
        let point = fixture::point(64.0, &[1_000, 3_000, 2_000]);
        let estimate = MetricEstimate::of(&Metric::PublishedPerS, &point).expect("three runs");
        assert_eq!((estimate.median, estimate.interval), (2_000.0, Some((1_000.0, 3_000.0))));
        assert_eq!(estimate.values, [1_000.0, 3_000.0, 2_000.0]);
        let one = MetricEstimate::of(&Metric::PublishedPerS, &fixture::point(64.0, &[1_000])).expect("a run");
        assert_eq!(one.interval, None);
        assert_eq!(MetricEstimate::of(&Metric::OperationsPerS, &point), None);
    }

    #[test]
    fn a_tail_is_read_off_all_runs_if_one_cannot_bear_it() {
        // 500 samples a run: p99 would have 5 above it, in two merged runs 10.
        let samples = |from: u64| (from..from + 500).map(|us| us * 1_000).collect::<Vec<_>>();
        let point = fixture::latency_point(64.0, "round_trip", &[samples(1), samples(501)]);
        let tail = Metric::LatencyUs("round_trip".to_owned(), 0.99);
        assert!(point.runs.iter().all(|run| tail.of(run).is_none()));
        let estimate = MetricEstimate::of(&tail, &point).expect("1,000 samples");
        assert!((estimate.median - 990.0).abs() < 1.0 && estimate.interval.is_none() && estimate.values.is_empty());
        let further = Metric::LatencyUs("round_trip".to_owned(), 0.999);
        assert_eq!(MetricEstimate::of(&further, &point), None, "1,000 samples cannot bear p99.9");
    }

    #[test]
    fn a_maximum_is_never_below_a_quantile_beside_it() {
        // p99.99 needs the merged histograms, whose tail is that of the first run.
        let mut tail = vec![1_000_000; 60_000];
        tail[..50].fill(9_000_000);
        let point =
            fixture::latency_point(64.0, "round_trip", &[tail, vec![1_000_000; 60_000], vec![1_000_000; 60_000]]);
        let of = |quantile: f64| Metric::LatencyUs("round_trip".to_owned(), quantile);
        let (largest, quantile) = (MetricEstimate::of(&of(1.0), &point), MetricEstimate::of(&of(0.9999), &point));
        let (largest, quantile) = (largest.expect("samples"), quantile.expect("180,000 samples"));
        assert!(quantile.median > 8_000.0 && largest.median >= quantile.median, "{largest:?} {quantile:?}");
        assert_eq!(largest.interval, None);
        let typical = MetricEstimate::of_medians(&of(1.0), &point).expect("samples");
        assert!((typical.median - 1_000.0).abs() < 1.0, "what two sides are compared by: {typical:?}");
    }

    #[test]
    fn reasons_are_counted() {
        let mut point = fixture::point(64.0, &[1, 2, 3]);
        point.runs[0].invalid = vec!["the publisher used 93 % of its core".to_owned()];
        point.runs[2].invalid = point.runs[0].invalid.clone();
        point.runs[1].faults.lost = 2;
        point.runs[1].refused = 1;
        assert_eq!(
            invalid_reasons(&point),
            [
                "the publisher used 93 % of its core (2 of 3 runs)",
                "messages went wrong: 2 lost, 1 refused (1 of 3 runs)"
            ]
        );
        assert!(invalid_reasons(&fixture::point(64.0, &[1])).is_empty());
    }
}
