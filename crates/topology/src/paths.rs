//! Paths of messages among brokers that are joined in any way, not only as trees.
//!
//! Enters: who sends to whom.  Leaves: whether one more step would make a second way between two brokers, and both ways.
//! Owns:   what a second path is: two ways that visit no broker twice, from the same broker to the same. A way there and one back
//!         are none.
//! Never:  knows what is sent; changes what it was told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who sends to whom.
#[derive(Clone, Debug)]
pub struct Paths<N> {
    steps: BTreeMap<N, BTreeSet<N>>,
}

/// Two ways from a broker to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoWays<N> {
    /// The one that there is, both ends included.
    pub there: Vec<N>,
    /// The one that there would be.
    pub new: Vec<N>,
}

impl<N> Default for Paths<N> {
    fn default() -> Self {
        Paths { steps: BTreeMap::new() }
    }
}

impl<N: Ord + Clone> Paths<N> {
    /// One sends to another. A step to itself is none.
    pub fn add(&mut self, from: N, to: N) {
        if from != to {
            self.steps.entry(from).or_default().insert(to);
        }
    }

    /// Whether one sends to another, without others between them.
    pub fn has(&self, from: &N, to: &N) -> bool {
        self.steps.get(from).is_some_and(|next| next.contains(to))
    }

    /// What a step from one to another would make a second way of, if of anything. A step that is there already makes none.
    ///
    /// Where there are no two ways anywhere yet, what is not found is not there. Where there are some, which took force, the
    /// shortest of them are looked at.
    pub fn second(&self, from: &N, to: &N) -> Option<TwoWays<N>> {
        self.second_such(from, to, |_| true)
    }

    /// As [`second`](Self::second), the first of those that are such.
    pub fn second_such(&self, from: &N, to: &N, is_such: impl Fn(&TwoWays<N>) -> bool) -> Option<TwoWays<N>> {
        if from == to || self.has(from, to) {
            return None;
        }
        let reversed = self.reversed();
        // The ways to the step's beginning and from its end, as trees of shortest ways.
        let before = reversed.tree(from);
        let behind = self.tree(to);
        // The ends of the step itself first: nobody could be told more clearly.
        for start in std::iter::once(from).chain(before.keys().filter(|start| *start != from)) {
            let reached = self.tree(start);
            let lead = way(&before, start);
            let ends = std::iter::once(to).chain(behind.keys().filter(|end| *end != to));
            for end in ends.filter(|end| reached.contains_key(*end) && *end != start) {
                let mut tail = way(&behind, end);
                tail.reverse();
                if tail.iter().any(|broker| lead.contains(broker)) {
                    continue;
                }
                let mut there = way(&reached, end);
                there.reverse();
                let two = TwoWays { there, new: [&lead[..], &tail[..]].concat() };
                if is_such(&two) {
                    return Some(two);
                }
            }
        }
        None
    }

    fn reversed(&self) -> Self {
        let mut reversed = Paths::default();
        for (from, next) in &self.steps {
            next.iter().for_each(|to| reversed.add(to.clone(), from.clone()));
        }
        reversed
    }

    /// Every broker that can be reached from one, with the one before it on a shortest way; the first has none.
    fn tree(&self, root: &N) -> BTreeMap<N, Option<N>> {
        let mut tree = BTreeMap::from([(root.clone(), None)]);
        let mut waiting = VecDeque::from([root.clone()]);
        while let Some(at) = waiting.pop_front() {
            for next in self.steps.get(&at).into_iter().flatten() {
                if !tree.contains_key(next) {
                    tree.insert(next.clone(), Some(at.clone()));
                    waiting.push_back(next.clone());
                }
            }
        }
        tree
    }
}

/// From a broker back to the root of a tree.
fn way<N: Ord + Clone>(tree: &BTreeMap<N, Option<N>>, from: &N) -> Vec<N> {
    let before = |at: &N| tree.get(at).cloned().flatten();
    std::iter::successors(Some(from.clone()), before).collect()
}
