//! Measures a running tree: several runs of each size, and single messages.
//!
//! The number of messages follows from a trial run and the requested time. Ctrl-C ends the measurement.

use gauge::{LatencyHistogram, RunValues};

use super::live_tree::LiveTree;
use super::tree_segment_figures::TreeSegmentFigures;
use harness::failure::CommandFailure;
use harness::launcher::one_clock;
use harness::limits::SEGMENT_MESSAGES_MAX;
use harness::run_recorder::check_interrupted;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MeasurementEffort {
    /// Messages of a run, if that number is given.
    pub messages: Option<u64>,
    /// Otherwise the approximate length of a run.
    pub seconds: f64,
    /// Runs of each size.
    pub runs: usize,
    /// Single messages that are timed as well.
    pub singles: usize,
}

/// All runs of one size.
pub(super) struct SizeMeasurement {
    pub size_bytes: usize,
    pub runs: Vec<TreeSegmentFigures>,
    /// From the publication of a single message until the last consumer has it.
    pub latencies: LatencyHistogram,
}

impl SizeMeasurement {
    /// Adds later runs of the same size.
    pub fn extend(&mut self, later: Self) {
        self.runs.extend(later.runs);
        self.latencies.merge(&later.latencies.buckets());
    }

    /// The median of a metric over the runs.
    pub fn median(&self, value: impl Fn(&TreeSegmentFigures) -> f64) -> f64 {
        let runs: RunValues = self.runs.iter().map(value).collect();
        runs.summary().map_or(f64::NAN, |summary| summary.median)
    }

    /// The median of a metric that a run may lack.
    pub fn median_of(&self, value: impl Fn(&TreeSegmentFigures) -> Option<f64>) -> Option<f64> {
        let runs: RunValues = self.runs.iter().filter_map(value).collect();
        runs.summary().map(|summary| summary.median)
    }

    /// What is wrong with the messages of a run, if anything.
    pub fn problem(&self) -> Option<String> {
        self.runs.iter().find_map(TreeSegmentFigures::problem)
    }
}

/// Measures one size.
///
/// # Errors
/// A role failed; Ctrl-C.
pub(super) fn measure(
    tree: &mut LiveTree,
    size_bytes: usize,
    effort: &MeasurementEffort,
) -> Result<SizeMeasurement, CommandFailure> {
    let count = match effort.messages {
        Some(messages) => {
            tree.segment(size_bytes, (messages / 10).max(1), false)?;
            messages
        }
        None => calibrate_count(tree, size_bytes, effort.seconds)?,
    };
    let mut measured = SizeMeasurement { size_bytes, runs: Vec::new(), latencies: LatencyHistogram::default() };
    for _ in 0..effort.runs {
        check_interrupted()?;
        measured.runs.push(tree.segment(size_bytes, count, true)?);
    }
    // Clocks of different hosts would add an error to every time.
    if one_clock().is_ok() {
        for _ in 0..effort.singles {
            check_interrupted()?;
            let one = tree.segment(size_bytes, 1, false)?;
            measured.latencies.record(one.elapsed_ns());
        }
    }
    Ok(measured)
}

/// Warms up, and determines how many messages take the requested time.
fn calibrate_count(tree: &mut LiveTree, size_bytes: usize, seconds: f64) -> Result<u64, CommandFailure> {
    let long_enough_s = seconds / 8.0;
    let mut count = (1 << 20) / size_bytes.max(1 << 10) as u64;
    count = count.max(1);
    loop {
        check_interrupted()?;
        let elapsed_s = tree.segment(size_bytes, count, false)?.elapsed_s();
        let wanted = (count as f64 / elapsed_s * seconds) as u64;
        if elapsed_s >= long_enough_s || count >= SEGMENT_MESSAGES_MAX {
            return Ok(wanted.clamp(1, SEGMENT_MESSAGES_MAX));
        }
        count = (wanted / 4).clamp(count * 2, count * 20).min(SEGMENT_MESSAGES_MAX);
    }
}
