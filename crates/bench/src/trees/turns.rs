//! Measuring several trees in turns, so that what changes with time changes all of them alike.
//!
//! Enters: plans with where each is to be, sizes, an effort.  Leaves: what each tree came to, size by size.
//! Owns:   the order: every tree is grown anew for each run, and every second round goes in the opposite order.
//! Never:  prints: who asks is told of each step.

use super::ground::Wish;
use super::grown::{Grown, Plan};
use super::measure::{Effort, Measured, measure};
use crate::failure::CommandFailure;
use crate::run_recorder::check_interrupted;

/// What is measured on what.
pub(super) struct Turns<'a> {
    pub trees: &'a [(Plan, Wish)],
    pub sizes: &'a [usize],
    pub effort: Effort,
}

/// A step of it, told as it comes.
pub(super) enum Step<'a> {
    /// The tree of this number is grown, for the run of this number; both from 0.
    Grows { index: usize, round: usize },
    /// One run at one size has been measured on it.
    Measured { index: usize, measured: &'a Measured },
}

impl Turns<'_> {
    /// Measures everything. Answers what each tree came to, size by size, in the order of the sizes.
    ///
    /// # Errors
    /// A tree that cannot be grown, a node that failed, Ctrl-C, or what `told` fails with.
    pub fn all(&self, mut told: impl FnMut(Step<'_>) -> Result<(), CommandFailure>) -> Result<Vec<Vec<Measured>>, CommandFailure> {
        let once = Effort { runs: 1, ..self.effort };
        let mut all: Vec<Vec<Measured>> = self.trees.iter().map(|_| Vec::new()).collect();
        for round in 0..self.effort.runs {
            for index in order(round, self.trees.len()) {
                check_interrupted()?;
                told(Step::Grows { index, round })?;
                let (plan, wish) = &self.trees[index];
                let mut grown = Grown::grow(plan, wish).map_err(|why| format!("{}: {why}", plan.tree))?;
                for &size_bytes in self.sizes {
                    let measured = measure(&mut grown, size_bytes, &once)?;
                    told(Step::Measured { index, measured: &measured })?;
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
