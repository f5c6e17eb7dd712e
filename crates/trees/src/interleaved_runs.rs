//! Interleaves the runs of several trees, so that changes over time affect all of them alike.
//!
//! Every tree is started anew for each run, and every second round has the opposite order.

use super::live_tree::{LiveTree, TreePlan};
use super::tree_environment::NodeHosting;
use super::tree_measurement::{MeasurementEffort, SizeMeasurement, measure};
use harness::failure::CommandFailure;
use harness::run_recorder::check_interrupted;

/// What to measure.
pub(super) struct InterleavedRuns<'a> {
    pub trees: &'a [(TreePlan, NodeHosting)],
    pub sizes: &'a [usize],
    pub effort: MeasurementEffort,
}

/// Progress, reported to the caller.
pub(super) enum RunProgress<'a> {
    /// The tree of this number is started for this round; both from 0.
    Starting { index: usize, round: usize },
    /// One run at one size was measured on it.
    Measured { index: usize, measured: &'a SizeMeasurement },
}

impl InterleavedRuns<'_> {
    /// Measures everything. Returns the measurements of each tree, in the order of the sizes.
    ///
    /// # Errors
    /// A tree that cannot be started, a node that failed, Ctrl-C, or an error of `told`.
    pub fn all(
        &self,
        mut on_progress: impl FnMut(RunProgress<'_>) -> Result<(), CommandFailure>,
    ) -> Result<Vec<Vec<SizeMeasurement>>, CommandFailure> {
        let once = MeasurementEffort { runs: 1, ..self.effort };
        let mut all: Vec<Vec<SizeMeasurement>> = self.trees.iter().map(|_| Vec::new()).collect();
        for round in 0..self.effort.runs {
            for index in order(round, self.trees.len()) {
                check_interrupted()?;
                on_progress(RunProgress::Starting { index, round })?;
                let (plan, hosting) = &self.trees[index];
                let mut tree = LiveTree::start(plan, hosting).map_err(|why| format!("{}: {why}", plan.tree))?;
                for &size_bytes in self.sizes {
                    let measured = measure(&mut tree, size_bytes, &once)?;
                    on_progress(RunProgress::Measured { index, measured: &measured })?;
                    match all[index].iter_mut().find(|earlier| earlier.size_bytes == size_bytes) {
                        Some(earlier) => earlier.extend(measured),
                        None => all[index].push(measured),
                    }
                }
            }
        }
        Ok(all)
    }
}

/// The order of the trees in a round.
fn order(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |position| if round.is_multiple_of(2) { position } else { count - 1 - position })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_round_goes_the_other_way() {
        let orders: Vec<Vec<usize>> = (0..3).map(|round| order(round, 3).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }
}
