//! Checks whether a workload met its objectives: the median over the runs must keep the bound.
//!
//! A quantile that the number of samples cannot support is not judged.

use std::fmt;

use gauge::RunValues;
use report::Metric;
use report::document::MeasuredSeries;

use super::run_results::ALL;
use super::spec::{ObjectiveGoal, WorkloadObjective};
use super::units::shown_ns;

#[derive(Clone, Debug, PartialEq)]
pub struct ObjectiveVerdict {
    what: String,
    found: String,
    pub met: ObjectiveStatus,
}

/// Whether an objective is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectiveStatus {
    Yes,
    No,
    /// There were too few messages to decide.
    Unknown,
}

impl fmt::Display for ObjectiveVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = match self.met {
            ObjectiveStatus::Yes => "met",
            ObjectiveStatus::No => "MISSED",
            ObjectiveStatus::Unknown => "not judged",
        };
        write!(f, "{}: {met} ({})", self.what, self.found)
    }
}

/// Judges all objectives; `groups` are the names of the series' points.
pub fn judge(objectives: &[WorkloadObjective], groups: &[String], series: &MeasuredSeries) -> Vec<ObjectiveVerdict> {
    objectives.iter().map(|objective| judge_one(objective, groups, series)).collect()
}

fn judge_one(objective: &WorkloadObjective, groups: &[String], series: &MeasuredSeries) -> ObjectiveVerdict {
    let group = objective.group.as_deref().unwrap_or(ALL);
    let point = groups.iter().position(|name| name == group).and_then(|index| series.points.get(index));
    let metric = match &objective.goal {
        ObjectiveGoal::Latency { kind, quantile, .. } => Metric::LatencyUs(kind.clone(), *quantile),
        ObjectiveGoal::Rate { .. } => Metric::DeliveredPerS,
    };
    let runs = point.map_or(&[][..], |point| &point.runs);
    let value = runs.iter().filter_map(|run| metric.of(run)).collect::<RunValues>().median();
    let (what, found, met) = match (&objective.goal, value) {
        (ObjectiveGoal::Latency { kind, quantile, most_us }, value) => {
            let name = if *quantile >= 1.0 { "max".to_owned() } else { format!("p{}", (quantile * 1e6).round() / 1e4) };
            let what = format!("{group}: {kind} {name} at most {}", shown_ns((most_us * 1e3) as u64));
            match value {
                Some(us) => (what, shown_ns((us * 1e3) as u64), us <= *most_us),
                None => {
                    return ObjectiveVerdict {
                        what,
                        found: "too few messages for that quantile".to_owned(),
                        met: ObjectiveStatus::Unknown,
                    };
                }
            }
        }
        (ObjectiveGoal::Rate { least_per_s }, value) => {
            let rate = value.unwrap_or(0.0);
            let what = format!("{group}: at least {least_per_s:.0} deliveries/s");
            (what, format!("{rate:.0}/s"), rate >= *least_per_s)
        }
    };
    ObjectiveVerdict { what, found, met: if met { ObjectiveStatus::Yes } else { ObjectiveStatus::No } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauge::LatencyHistogram;
    use report::document::{LoopMode, MeasuredRun, SeriesPoint};
    use std::collections::BTreeMap;

    fn series(latency_us: u64, count: u64) -> MeasuredSeries {
        let mut latencies = LatencyHistogram::default();
        (0..count).for_each(|_| latencies.record(latency_us * 1_000));
        let run = MeasuredRun {
            elapsed_s: 1.0,
            delivered: count,
            latencies: BTreeMap::from([("delivery".to_owned(), latencies.buckets())]),
            ..MeasuredRun::default()
        };
        MeasuredSeries {
            benchmark: "workload test".to_owned(),
            target: "harrier".to_owned(),
            pace: LoopMode::Open,
            parameters: BTreeMap::new(),
            axis: "group".to_owned(),
            points: vec![SeriesPoint { at: 0.0, size_bytes: 64.0, runs: vec![run] }],
        }
    }

    fn check(goal: ObjectiveGoal, latency_us: u64, count: u64, expected: &str) {
        let verdicts = judge(&[WorkloadObjective { group: None, goal }], &[ALL.to_owned()], &series(latency_us, count));
        assert_eq!(verdicts[0].to_string(), expected);
    }

    #[test]
    fn objectives_are_met_missed_or_open() {
        let latency = |quantile| ObjectiveGoal::Latency { kind: "delivery".to_owned(), quantile, most_us: 1_000.0 };
        check(latency(0.99), 900, 5_000, "all: delivery p99 at most 1 ms: met (900.1 us)");
        check(latency(0.99), 1_500, 5_000, "all: delivery p99 at most 1 ms: MISSED (1.5 ms)");
        check(
            latency(0.99),
            900,
            100,
            "all: delivery p99 at most 1 ms: not judged (too few messages for that quantile)",
        );
        check(latency(1.0), 900, 1, "all: delivery max at most 1 ms: met (900.1 us)");
        check(ObjectiveGoal::Rate { least_per_s: 100.0 }, 1, 100, "all: at least 100 deliveries/s: met (100/s)");
        check(ObjectiveGoal::Rate { least_per_s: 101.0 }, 1, 100, "all: at least 101 deliveries/s: MISSED (100/s)");
    }
}
