//! Measures several contestants in turns, so that a disturbance hits all of them alike.
//!
//! A trial determines the number of messages that takes the requested time.

use crate::scenario::{RunningScenario, Scenario, SegmentFigures};
use gauge::{RoleUsage, RunSummary, RunValues};
use harness::limits::SEGMENT_MESSAGES_MAX;
use harness::placement::CpuPlacement;
use harness::role_protocol::{LoadSegment, TrafficShape};
use harness::target::BenchmarkTarget;
use report::stdout::put;

/// The amount of measurement.
#[derive(Clone, Copy, Debug)]
pub struct PerfEffort {
    /// Runs of each contestant.
    pub runs: usize,
    /// Approximate length of each run in seconds.
    pub seconds: f64,
}

pub struct PerfContestant<'a> {
    pub name: &'a str,
    pub target: &'a BenchmarkTarget,
    pub scenario: Scenario,
}

/// The results of one contestant.
pub struct PerfSeries {
    pub name: String,
    pub scenario: Scenario,
    pub placement: String,
    pub runs: Vec<SegmentFigures>,
}

impl PerfSeries {
    /// Median and interval of a value over the runs.
    pub fn summary(&self, value: impl Fn(&SegmentFigures) -> f64) -> RunSummary {
        let runs: RunValues = self.runs.iter().map(value).collect();
        runs.summary().unwrap_or(RunSummary { median: f64::NAN, low: f64::NAN, high: f64::NAN, confidence: 0.0 })
    }

    /// The median of a value over the runs.
    pub fn median(&self, value: impl Fn(&SegmentFigures) -> f64) -> f64 {
        self.summary(value).median
    }

    pub fn rate(&self) -> f64 {
        self.median(SegmentFigures::published_per_s)
    }

    /// CPU seconds of the target per million deliveries.
    pub fn cpu(&self) -> f64 {
        self.median(|figures| figures.broker_cpu_s_per_million().unwrap_or(f64::NAN))
    }

    /// The target's user-space microseconds per delivery.
    pub fn user_us(&self) -> f64 {
        self.median(|figures| per_delivery_us(figures, |usage| usage.user_s))
    }

    /// The target's kernel microseconds per delivery.
    pub fn kernel_us(&self) -> f64 {
        self.median(|figures| per_delivery_us(figures, |usage| usage.system_s))
    }

    pub fn quantile_us(&self, share: f64) -> f64 {
        self.median(|figures| figures.latencies.quantile_us(share))
    }

    /// Faults of all runs.
    pub fn faults(&self) -> u64 {
        self.runs.iter().map(|figures| figures.faults.total() + figures.refused).sum()
    }
}

fn per_delivery_us(figures: &SegmentFigures, what: impl Fn(&RoleUsage) -> f64) -> f64 {
    figures.broker.as_ref().map_or(f64::NAN, |usage| what(usage) * 1e6 / figures.delivered as f64)
}

/// The contestants of a run by their numbers; every second run takes them in reverse order.
pub fn turns(run: usize, contestants: usize) -> impl Iterator<Item = usize> {
    (0..contestants).map(move |position| if run.is_multiple_of(2) { position } else { contestants - 1 - position })
}

/// Measures the contestants in turns.
pub fn compare(
    effort: PerfEffort,
    contestants: &[PerfContestant<'_>],
    shape: TrafficShape,
    size_bytes: usize,
    placement: &CpuPlacement,
) -> Result<Vec<PerfSeries>, String> {
    let mut all: Vec<PerfSeries> = contestants
        .iter()
        .map(|one| PerfSeries {
            name: one.name.to_owned(),
            scenario: one.scenario.clone(),
            placement: placement.to_string(),
            runs: Vec::new(),
        })
        .collect();
    let mut counts = vec![0; contestants.len()];
    for run in 0..effort.runs {
        for index in turns(run, contestants.len()) {
            let contestant = &contestants[index];
            let failed = |why: String| format!("{}: {why}", contestant.name);
            let mut running =
                RunningScenario::start(&contestant.scenario, contestant.target, placement).map_err(failed)?;
            if counts[index] == 0 {
                counts[index] = trial(&mut running, effort, shape, size_bytes).map_err(failed)?;
            } else {
                let count = (counts[index] / 5).max(1);
                running.segment(&LoadSegment { shape, size_bytes, count }).map_err(failed)?;
            }
            let figures = running.segment(&LoadSegment { shape, size_bytes, count: counts[index] }).map_err(failed)?;
            put(&line(contestant.name, run, &figures))?;
            all[index].runs.push(figures);
        }
    }
    Ok(all)
}

/// Warms up and determines how many messages take the requested time.
fn trial(
    running: &mut RunningScenario,
    effort: PerfEffort,
    shape: TrafficShape,
    size_bytes: usize,
) -> Result<u64, String> {
    let long_enough_s = effort.seconds / 8.0;
    let mut count = match shape {
        TrafficShape::Stream => (64 << 20) / size_bytes.max(64 << 10) as u64,
        TrafficShape::PingPong => 100,
    };
    loop {
        let figures = running.segment(&LoadSegment { shape, size_bytes, count })?;
        let wanted = (figures.segment.count as f64 / figures.elapsed_s * effort.seconds) as u64;
        if figures.elapsed_s >= long_enough_s {
            return Ok(wanted.clamp(1, SEGMENT_MESSAGES_MAX));
        }
        count = (wanted / 4).clamp(count * 2, count * 20).min(SEGMENT_MESSAGES_MAX);
    }
}

fn line(name: &str, run: usize, figures: &SegmentFigures) -> String {
    let cpu = figures.broker_cpu_s_per_million().map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.3}"));
    let what = match figures.segment.shape {
        TrafficShape::Stream => format!("{:>12.0} msg/s {:>10.1} MB/s", figures.published_per_s(), figures.mb_per_s()),
        TrafficShape::PingPong => format!(
            "p50 {:>8.1} us  p99 {:>8.1} us",
            figures.latencies.quantile_us(0.5),
            figures.latencies.quantile_us(0.99)
        ),
    };
    let reason = figures.invalid_reason().map_or_else(String::new, |reason| format!("  INVALID: {reason}"));
    format!("  {name:<28} run {} {:>8} B  {what}  CPU {cpu} s/M{reason}\n", run + 1, figures.segment.size_bytes)
}
