//! Enumerates the trees of so many consumers that are worth a measurement.
//!
//! Every broker has at least two children: one with a single child takes load off nobody and adds a hop. Trees that are
//! left out are counted.

use topology::Tree;

use super::tree_options;
use crate::limits::LISTED_TREES_MAX;
use harness::arguments::UsageError;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeEnumeration {
    pub trees: Vec<Tree>,
    /// How many uneven trees were left out, because there would be too many.
    pub left_out: u64,
}

impl TreeEnumeration {
    /// All trees of this many consumers, or, if those are too many, the uniform ones.
    ///
    /// # Errors
    /// Even those are too many.
    pub fn of(consumers: u32) -> Result<Self, UsageError> {
        let found = count(consumers);
        let is_few = found <= LISTED_TREES_MAX as u64;
        let mut all = Vec::new();
        extend_levels(&mut vec![1], consumers, &mut all, &|above, below| is_few || below % above == 0);
        // In the order of the number of brokers.
        all.sort_by_key(|levels| (levels.len(), levels.clone()));
        if all.len() > LISTED_TREES_MAX {
            return Err(UsageError(format!(
                "there are {} trees of {consumers} consumers; at most {LISTED_TREES_MAX} are measured: name some",
                all.len()
            )));
        }
        let trees: Result<Vec<Tree>, UsageError> =
            all.iter().map(|levels| tree_options::tree(&notation(levels, consumers))).collect();
        Ok(Self { left_out: found - all.len() as u64, trees: trees? })
    }
}

/// How many trees there are, uneven ones included.
fn count(consumers: u32) -> u64 {
    // For each number of nodes on a level, the number of ways to it: through any level of at most half as many.
    let mut ways = vec![0_u64, 1];
    let mut sums = vec![0_u64, 1];
    for nodes in 2..=consumers as usize {
        ways.push(sums[nodes / 2]);
        sums.push(sums[nodes - 1].saturating_add(ways[nodes]));
    }
    // A single consumer is below the root nevertheless.
    ways[consumers as usize].max(1)
}

/// Extends levels by levels that are at least twice as large as the one before and that `suits` accepts, down to the
/// consumers.
fn extend_levels(levels: &mut Vec<u32>, consumers: u32, all: &mut Vec<Vec<u32>>, suits: &impl Fn(u32, u32) -> bool) {
    let last = levels.last().copied().unwrap_or(1);
    if suits(last, consumers) {
        all.push(levels.clone());
    }
    for next in (2 * last..=consumers / 2).filter(|&next| suits(last, next)) {
        // A level that does not suit the consumers suits no level between: a divisor of a divisor divides them.
        if suits(next, consumers) {
            levels.push(next);
            extend_levels(levels, consumers, all, suits);
            levels.pop();
        }
    }
}

fn notation(levels: &[u32], consumers: u32) -> String {
    let below: String = levels.iter().skip(1).map(|count| format!("-{count}B")).collect();
    format!("B{below}-{consumers}C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(consumers: u32) -> Vec<String> {
        TreeEnumeration::of(consumers).expect("few").trees.iter().map(Tree::to_string).collect()
    }

    #[test]
    fn every_broker_has_two_below_it_at_least() {
        assert_eq!(shown(1), ["B-C"]);
        assert_eq!(shown(3), ["B-3C"]);
        assert_eq!(shown(6), ["B-6C", "B-2B-6C", "B-3B-6C"]);
        let sixteen = shown(16);
        assert_eq!(sixteen.len(), 18);
        for tree in ["B-16C", "B-5B-16C", "B-8B-16C", "B-2B-4B-16C", "B-3B-7B-16C", "B-2B-4B-8B-16C"] {
            assert!(sixteen.iter().any(|one| one == tree), "{tree} is missing in {sixteen:?}");
        }
    }

    #[test]
    fn they_are_counted_without_being_made() {
        for consumers in 1..=24 {
            let every = TreeEnumeration::of(consumers).expect("few");
            assert_eq!((every.trees.len() as u64, every.left_out), (count(consumers), 0), "{consumers}");
        }
    }

    #[test]
    fn so_many_that_even_the_uniform_ones_are_too_many_are_refused() {
        assert!(TreeEnumeration::of(1_024).is_err_and(|wrong| wrong.0.contains("512 trees of 1024 consumers")));
        assert!(TreeEnumeration::of(4_096).is_err());
    }

    #[test]
    fn of_too_many_the_uniform_ones_stay_and_the_others_are_counted() {
        let every = TreeEnumeration::of(32).expect("few are uniform");
        assert_eq!((every.trees.len(), every.left_out), (16, 85));
        assert!(every.trees.iter().all(Tree::is_uniform));
    }
}
