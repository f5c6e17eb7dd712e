//! Compares two documents, or the targets of one: ratios of metrics with intervals and verdicts.
//!
//! A difference counts only if its interval excludes none and there are enough runs.

mod differences;
mod pairs;
mod write;

pub(crate) use pairs::same_measurement;
use serde::{Serialize, Serializer};

use crate::columns;
use crate::document::{Document, MeasuredSeries, SeriesPoint, TargetFacts};
use crate::estimate::{MetricEstimate, invalid_reasons};
use crate::metric::{Metric, MetricDirection};
use crate::paired_ratios;

/// Runs required on each side to call a difference real.
pub(crate) const RUNS_MIN: usize = gauge::limits::BOOTSTRAP_RUNS_MIN;
/// Confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Seed of the bootstrap: the same documents always get the same verdicts.
const SEED: u64 = 2_008;

#[derive(Clone, Debug, Serialize)]
pub struct DocumentComparison {
    /// The first side: the baseline.
    pub a: String,
    pub b: String,
    /// Reasons why the comparison may mislead: different machines, options or versions, INVALID runs.
    pub warnings: Vec<String>,
    pub rows: Vec<ComparisonRow>,
    /// Series that only one side has.
    pub unmatched: Vec<String>,
    /// Whether the sides were interleaved, so that ratios are within turns.
    pub in_turns: bool,
}

/// One metric of both sides.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonRow {
    /// The series, with parameters and targets.
    pub what: String,
    pub axis: String,
    /// The value on the axis.
    pub at: f64,
    #[serde(serialize_with = "key")]
    pub metric: Metric,
    pub a: f64,
    pub b: f64,
    pub runs: (usize, usize),
    /// The second median divided by the first; for interleaved targets the median of the ratios within turns.
    pub ratio: f64,
    /// The ratio's interval (95 %, bootstrap); `None` with too few runs.
    pub interval: Option<(f64, f64)>,
    pub verdict: ComparisonVerdict,
    /// Why figures of either side are INVALID.
    pub invalid: Vec<String>,
}

/// The verdict on a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparisonVerdict {
    /// The second side is better.
    Better,
    /// The second side is worse.
    Worse,
    /// The interval contains 1, or there are too few runs.
    Noise,
}

impl ComparisonVerdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Noise => "noise",
        }
    }
}

fn key<S: Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&metric.key())
}

/// Compares two documents, named by their files; `full`: all metrics.
pub fn documents(a: (&str, &Document), b: (&str, &Document), full: bool) -> DocumentComparison {
    let mut comparison = DocumentComparison {
        a: a.0.to_owned(),
        b: b.0.to_owned(),
        warnings: differences::between(a.1, b.1),
        rows: Vec::new(),
        unmatched: Vec::new(),
        in_turns: false,
    };
    let (together, alone) = pairs::of_documents(a, b);
    comparison.unmatched = alone;
    for (first, second) in together {
        comparison.series(first, second, full);
    }
    comparison
}

/// Compares each further target of a document with the first (`--against`).
pub fn targets(document: &Document, full: bool) -> Vec<DocumentComparison> {
    let Some((first, others)) = document.targets.split_first() else { return Vec::new() };
    let of = |facts: &TargetFacts| {
        let name = facts.name.clone();
        document.series.iter().filter(move |series| series.target == name)
    };
    others
        .iter()
        .filter(|other| of(other).next().is_some())
        .map(|other| {
            let mut comparison = DocumentComparison {
                a: first.line(),
                b: other.line(),
                warnings: differences::between_targets(first, other),
                rows: Vec::new(),
                unmatched: Vec::new(),
                in_turns: true,
            };
            for b in of(other) {
                match of(first).find(|a| pairs::same_measurement(a, b)) {
                    Some(a) => comparison.series(a, b, full),
                    None => comparison.unmatched.push(format!("{} only at {}", pairs::what(b), other.name)),
                }
            }
            comparison
        })
        .collect()
}

impl DocumentComparison {
    /// Compares two series point by point.
    fn series(&mut self, a: &MeasuredSeries, b: &MeasuredSeries, full: bool) {
        let what = match a.target == b.target {
            true => format!("{}: {}", pairs::what(a), a.target),
            false => format!("{}: {}, {}", pairs::what(a), a.target, b.target),
        };
        let metrics = if full { columns::available_metrics(a) } else { columns::default_metrics(a) };
        for first in &a.points {
            match b.points.iter().find(|second| second.at == first.at) {
                Some(second) => {
                    let sides = (first, second, self.in_turns);
                    self.rows.extend(metrics.iter().filter_map(|metric| row(&what, &a.axis, metric, sides)));
                }
                None => self.unmatched.push(format!("{what}, {} {} only in {}", a.axis, first.at, self.a)),
            }
        }
        for second in b.points.iter().filter(|second| a.points.iter().all(|first| first.at != second.at)) {
            self.unmatched.push(format!("{what}, {} {} only in {}", b.axis, second.at, self.b));
        }
    }

    /// The number of rows with each verdict: better, worse, noise.
    pub fn tally(&self) -> (usize, usize, usize) {
        let count = |verdict| self.rows.iter().filter(|row| row.verdict == verdict).count();
        (count(ComparisonVerdict::Better), count(ComparisonVerdict::Worse), count(ComparisonVerdict::Noise))
    }
}

fn row(
    what: &str,
    axis: &str,
    metric: &Metric,
    (first, second, in_turns): (&SeriesPoint, &SeriesPoint, bool),
) -> Option<ComparisonRow> {
    let (a, b) = (MetricEstimate::of_medians(metric, first)?, MetricEstimate::of_medians(metric, second)?);
    let ratios = if in_turns { paired_ratios::ratios(metric, second, first) } else { Vec::new() };
    // Quantiles from merged histograms have no ratios within turns.
    let (ratio, interval) = match gauge::bootstrap_interval(&ratios, CONFIDENCE, SEED) {
        Some(found) => (found.median, (ratios.len() >= RUNS_MIN).then_some(found)),
        None => {
            let enough = a.values.len().min(b.values.len()) >= RUNS_MIN;
            let ratio = b.median / a.median;
            (ratio, enough.then(|| gauge::ratio_interval(&b.values, &a.values, CONFIDENCE, SEED)).flatten())
        }
    };
    if !ratio.is_finite() {
        return None;
    }
    let interval =
        interval.map(|found| (found.low, found.high)).filter(|(low, high)| low.is_finite() && high.is_finite());
    let verdict = match interval {
        Some((low, high)) if low > 1.0 || high < 1.0 => match (metric.better(), low > 1.0) {
            (MetricDirection::Higher, true) | (MetricDirection::Lower, false) => ComparisonVerdict::Better,
            _ => ComparisonVerdict::Worse,
        },
        _ => ComparisonVerdict::Noise,
    };
    let mut invalid = Vec::new();
    for (side, point) in [("A", first), ("B", second)] {
        invalid.extend(invalid_reasons(point).into_iter().map(|reason| format!("{side}: {reason}")));
    }
    Some(ComparisonRow {
        what: what.to_owned(),
        axis: axis.to_owned(),
        at: first.at,
        metric: metric.clone(),
        a: a.median,
        b: b.median,
        runs: (first.runs.len(), second.runs.len()),
        ratio,
        interval,
        verdict,
        invalid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn verdict(metric: &Metric, a: &[u64], b: &[u64]) -> ComparisonVerdict {
        let row = row("x", "size_bytes", metric, (&fixture::point(64.0, a), &fixture::point(64.0, b), false));
        row.map(|row| row.verdict).expect("both sides have it")
    }

    const A: [u64; 5] = [1_000, 1_010, 990, 1_005, 995];
    const MORE: [u64; 5] = [2_000, 2_010, 1_990, 2_005, 1_995];
    const LIKE: [u64; 5] = [1_001, 989, 1_012, 996, 1_004];

    #[test]
    fn a_verdict_follows_the_direction_of_the_metric() {
        assert_eq!(verdict(&Metric::PublishedPerS, &A, &MORE), ComparisonVerdict::Better);
        assert_eq!(verdict(&Metric::PublishedPerS, &MORE, &A), ComparisonVerdict::Worse);
        assert_eq!(verdict(&Metric::UsPerMessage, &A, &MORE), ComparisonVerdict::Better);
        assert_eq!(verdict(&Metric::UsPerMessage, &MORE, &A), ComparisonVerdict::Worse);
    }

    #[test]
    fn likeness_and_few_runs_are_noise() {
        assert_eq!(verdict(&Metric::PublishedPerS, &A, &LIKE), ComparisonVerdict::Noise);
        assert_eq!(verdict(&Metric::PublishedPerS, &A[..4], &MORE), ComparisonVerdict::Noise);
        assert_eq!(verdict(&Metric::PublishedPerS, &[1_000], &[2_000]), ComparisonVerdict::Noise);
    }

    #[test]
    fn a_ratio_within_each_turn_sees_through_what_disturbs_both() {
        // The machine is slower in each turn than in the one before; the second side is always a tenth faster.
        let a = [1_000, 800, 600, 400, 200];
        let b = a.map(|rate| rate + rate / 10);
        let found = |in_turns| {
            let sides = (&fixture::point(64.0, &a), &fixture::point(64.0, &b), in_turns);
            row("x", "size_bytes", &Metric::PublishedPerS, sides).expect("both sides have it")
        };
        assert_eq!(found(false).verdict, ComparisonVerdict::Noise);
        let paired = found(true);
        assert_eq!(paired.verdict, ComparisonVerdict::Better);
        let (low, high) = paired.interval.expect("five turns");
        assert!((paired.ratio - 1.1).abs() < 1e-9 && (low - 1.1).abs() < 1e-9 && (high - 1.1).abs() < 1e-9);
    }

    #[test]
    fn the_targets_of_one_document() {
        let first = fixture::series("de-spsc", "size_bytes", vec![fixture::point(64.0, &A)]);
        let mut second = fixture::series("de-spsc", "size_bytes", vec![fixture::point(64.0, &MORE)]);
        second.target = "rabbitmq".to_owned();
        let mut other = fixture::series("te-spsc", "size_bytes", vec![fixture::point(64.0, &MORE)]);
        other.target = "rabbitmq".to_owned();
        let targets = vec![
            fixture::target("harrier", "Harrier", "0.1.0"),
            fixture::target("rabbitmq", "RabbitMQ", "3.10.8"),
            fixture::target("unused", "Unused", "1"),
        ];
        let found = super::targets(&fixture::document_of(targets, vec![first, second, other]), false);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].tally(), (3, 0, 0));
        assert_eq!(found[0].rows[0].what, "de-spsc: harrier, rabbitmq");
        assert_eq!(found[0].unmatched, ["te-spsc only at rabbitmq"]);
    }
}
