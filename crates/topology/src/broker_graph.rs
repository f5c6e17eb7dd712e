//! Paths of messages among brokers that are joined in any way, not only as trees.
//!
//! Enters: who sends to whom.  Leaves: whether one more step would make a second way between two brokers, and both ways.
//! Owns:   what a second path is: two ways that visit no broker twice, from the same broker to the same. A way there and one back
//!         are none.
//! Never:  knows what is sent; changes what it was told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who sends to whom.
#[derive(Clone, Debug)]
pub struct BrokerGraph<N> {
    edges: BTreeMap<N, BTreeSet<N>>,
}

/// Two ways from a broker to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelPaths<N> {
    /// The one that there is, both ends included.
    pub existing: Vec<N>,
    /// The one that there would be.
    pub new: Vec<N>,
}

impl<N> Default for BrokerGraph<N> {
    fn default() -> Self {
        BrokerGraph { edges: BTreeMap::new() }
    }
}

impl<N: Ord + Clone> BrokerGraph<N> {
    /// One sends to another. A step to itself is none.
    pub fn add_edge(&mut self, from: N, to: N) {
        if from != to {
            self.edges.entry(from).or_default().insert(to);
        }
    }

    /// Whether one sends to another, without others between them.
    pub fn has_edge(&self, from: &N, to: &N) -> bool {
        self.edges.get(from).is_some_and(|next| next.contains(to))
    }

    /// What a step from one to another would make a second way of, if of anything. A step that is there already makes none.
    ///
    /// Where there are no two ways anywhere yet, what is not found is not there. Where there are some, which took force, the
    /// shortest of them are looked at.
    pub fn second_path(&self, from: &N, to: &N) -> Option<ParallelPaths<N>> {
        self.second_path_where(from, to, |_| true)
    }

    /// As [`second`](Self::second), the first of those that are such.
    pub fn second_path_where(&self, from: &N, to: &N, is_such: impl Fn(&ParallelPaths<N>) -> bool) -> Option<ParallelPaths<N>> {
        if from == to || self.has_edge(from, to) {
            return None;
        }
        let reversed = self.reversed();
        // The ways to the step's beginning and from its end, as trees of shortest ways.
        let before = reversed.shortest_path_tree(from);
        let behind = self.shortest_path_tree(to);
        // The ends of the step itself first: nobody could be told more clearly.
        for start in std::iter::once(from).chain(before.keys().filter(|start| *start != from)) {
            let reached = self.shortest_path_tree(start);
            let lead = path_to_root(&before, start);
            let ends = std::iter::once(to).chain(behind.keys().filter(|end| *end != to));
            for end in ends.filter(|end| reached.contains_key(*end) && *end != start) {
                let mut tail = path_to_root(&behind, end);
                tail.reverse();
                if tail.iter().any(|broker| lead.contains(broker)) {
                    continue;
                }
                let mut there = path_to_root(&reached, end);
                there.reverse();
                let two = ParallelPaths { existing: there, new: [&lead[..], &tail[..]].concat() };
                if is_such(&two) {
                    return Some(two);
                }
            }
        }
        None
    }

    fn reversed(&self) -> Self {
        let mut reversed = BrokerGraph::default();
        for (from, next) in &self.edges {
            next.iter().for_each(|to| reversed.add_edge(to.clone(), from.clone()));
        }
        reversed
    }

    /// Every broker that can be reached from one, with the one before it on a shortest way; the first has none.
    fn shortest_path_tree(&self, root: &N) -> BTreeMap<N, Option<N>> {
        let mut tree = BTreeMap::from([(root.clone(), None)]);
        let mut waiting = VecDeque::from([root.clone()]);
        while let Some(at) = waiting.pop_front() {
            for next in self.edges.get(&at).into_iter().flatten() {
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
fn path_to_root<N: Ord + Clone>(tree: &BTreeMap<N, Option<N>>, from: &N) -> Vec<N> {
    let before = |at: &N| tree.get(at).cloned().flatten();
    std::iter::successors(Some(from.clone()), before).collect()
}
