//! Measuring several trees in turns, so that what changes with time changes all of them alike.
//!
//! Enters: plans with where each is to be, sizes, an effort.  Leaves: what each tree came to, size by size.
//! Owns:   the order: every tree is grown anew for each run, and every second round goes in the opposite order.
//! Never:  prints: who asks is told of each step.

use super::tree_environment::NodeHosting;
use super::live_tree::{LiveTree, TreePlan};
use super::tree_measurement::{MeasurementEffort, SizeMeasurement, measure};
use crate::failure::Failure;
use crate::record::go_on;

/// What is measured on what.
pub(super) struct InterleavedRuns<'a> {
    pub trees: &'a [(TreePlan, NodeHosting)],
    pub sizes: &'a [usize],
    pub effort: MeasurementEffort,
}

/// A step of it, told as it comes.
pub(super) enum RunProgress<'a> {
    /// The tree of this number is grown, for the run of this number; both from 0.
    Starting { index: usize, round: usize },
    /// One run at one size has been measured on it.
    Measured { index: usize, measured: &'a SizeMeasurement },
}

impl InterleavedRuns<'_> {
    /// Measures everything. Answers what each tree came to, size by size, in the order of the sizes.
    ///
    /// # Errors
    /// A tree that cannot be grown, a node that failed, Ctrl-C, or what `told` fails with.
    pub fn all(&self, mut told: impl FnMut(RunProgress<'_>) -> Result<(), Failure>) -> Result<Vec<Vec<SizeMeasurement>>, Failure> {
        let once = MeasurementEffort { runs: 1, ..self.effort };
        let mut all: Vec<Vec<SizeMeasurement>> = self.trees.iter().map(|_| Vec::new()).collect();
        for round in 0..self.effort.runs {
            for index in order(round, self.trees.len()) {
                go_on()?;
                told(RunProgress::Starting { index, round })?;
                let (plan, wish) = &self.trees[index];
                let mut grown = LiveTree::start(plan, wish).map_err(|why| format!("{}: {why}", plan.tree))?;
                for &size_bytes in self.sizes {
                    let measured = measure(&mut grown, size_bytes, &once)?;
                    told(RunProgress::Measured { index, measured: &measured })?;
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

/// Which trees have their turns in a round, one after another.
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
