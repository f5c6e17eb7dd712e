//! A directed graph of brokers that are joined in any way, and the search for second paths in it.
//!
//! A second path is two paths from one broker to another, neither of which visits a broker twice. A path there and one
//! back do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who sends to whom.
#[derive(Clone, Debug)]
pub struct BrokerGraph<N> {
    edges: BTreeMap<N, BTreeSet<N>>,
}

/// Two paths from one broker to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelPaths<N> {
    /// The path that exists, both ends included.
    pub existing: Vec<N>,
    /// The path that the new edge would create.
    pub new: Vec<N>,
}

impl<N> Default for BrokerGraph<N> {
    fn default() -> Self {
        BrokerGraph { edges: BTreeMap::new() }
    }
}

impl<N: Ord + Clone> BrokerGraph<N> {
    /// Adds an edge. An edge to itself is ignored.
    pub fn add_edge(&mut self, from: N, to: N) {
        if from != to {
            self.edges.entry(from).or_default().insert(to);
        }
    }

    /// Whether one broker sends directly to another.
    pub(crate) fn has_edge(&self, from: &N, to: &N) -> bool {
        self.edges.get(from).is_some_and(|next| next.contains(to))
    }

    /// The second path that an edge would create, if any. An edge that exists creates none.
    ///
    /// In a graph without second paths, the search is complete. In a graph that has some, because they were forced, it
    /// considers the shortest ones.
    pub fn second_path(&self, from: &N, to: &N) -> Option<ParallelPaths<N>> {
        self.second_path_where(from, to, |_| true)
    }

    /// The first result of [`second_path`](Self::second_path)'s search that `is_such` accepts.
    pub fn second_path_where(
        &self,
        from: &N,
        to: &N,
        is_such: impl Fn(&ParallelPaths<N>) -> bool,
    ) -> Option<ParallelPaths<N>> {
        if from == to || self.has_edge(from, to) {
            return None;
        }
        let reversed = self.reversed();
        // The paths to the edge's source and from its target, as trees of shortest paths.
        let before = reversed.shortest_path_tree(from);
        let behind = self.shortest_path_tree(to);
        // The ends of the edge itself come first: they make the clearest message.
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

    /// Every broker that is reachable from `root`, with its predecessor on a shortest path; the root has none.
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
