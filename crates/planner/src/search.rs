//! The search: of all trees for so many consumers, the Pareto front of rate, latency and number of brokers.
//!
//! The pruning below is exact; `tests/oracle.rs` compares it with an exhaustive search.
//!
//! **Trees.** A tree is a sequence of counts by level that do not fall, from one root: `1 = n_1 <= n_2 <= ... <= n_d <=
//! consumers`, each level's nodes spread evenly over the one above. The most children of a broker of level i is
//! `ceil(n_(i+1) / n_i)`. Leaves at different levels would save less than one broker a level (decision 0025), and are
//! not considered.
//!
//! **Criteria.** The rate falls with the slowest broker, whose time rises with its degree (`node_model`), and with the
//! number of levels; the latency rises with the levels and the degrees; the brokers are the sum of the counts. So a
//! lower part of a tree (levels i to d) is described by its slowest time, its latency, its brokers, its levels, and the
//! number of nodes at its top. Whatever is put above it, a part that is no better in any of these is no better in the
//! end.
//!
//! **1. Of the counts that lead to one degree, the least is enough.** Let a level have n nodes, and m' > m brokers
//! above it, both with the degree `k = ceil(n / m) = ceil(n / m')`. In any tree with m' replace each count u above by
//! `min(u, m)`: the counts still do not fall; a degree `ceil(u / v)` becomes `ceil(min(u, m) / min(v, m))`, which is no
//! greater; k stays; the levels are as many. So that tree is no worse, with fewer brokers. The least m with the degree
//! k is `ceil(n / k)`. Since `ceil(ceil(n / a) / b) = ceil(n / ab)`, all remaining counts are `ceil(consumers / j)` for
//! some j: about twice the root of the number of consumers.
//!
//! **2. A level with one child each is useful only as the root or as the leaves.** Elsewhere both of its neighbours are
//! brokers: without it the broker above has as many children as before, and the one below takes the position of such a
//! broker. There is one level less, and everything else is unchanged. (A root that only forwards can be useful if
//! receiving from a publisher is expensive; leaves with one consumer each, if a copy to a consumer is.)
//!
//! **3. Of lower parts with equally many nodes on top, the Pareto front is enough**, by the above. Nor does a part need
//! to be continued if a finished tree is no worse than the part with the root that it still needs.

use std::collections::BTreeMap;
use std::fmt;
use topology::Tree;
use topology::limits::LEVELS_MAX;

use crate::limits::{CONSUMERS_MAX, EXTRAPOLATION_FACTOR, PRUNING_THRESHOLD};
use crate::predict::predict_with;
use crate::{MeasuredRange, NodeModel, Prediction, TreePosition};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TreeRequirements {
    pub consumers: u32,
    /// Maximum number of brokers.
    pub brokers_max: Option<u32>,
    /// Minimum rate of one stream, in messages a second.
    pub rate_min: Option<f64>,
    /// Also considers higher degrees than were measured (up to [`EXTRAPOLATION_FACTOR`] times), and more levels.
    pub extrapolate: bool,
}

/// A tree and its prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub tree: Tree,
    pub prediction: Prediction,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct ParetoFront {
    /// The fastest first. No tree is as good as another, or better, in everything.
    pub trees: Vec<Candidate>,
    /// How many subtrees were examined.
    pub examined: u64,
}

/// Why no tree meets the requirements.
#[derive(Clone, Debug, PartialEq)]
pub enum Unsatisfiable {
    NoConsumers,
    /// There are more consumers than the planner accepts.
    TooManyConsumers,
    /// No measured degree and depth reaches so many consumers.
    Reach {
        /// What was measured.
        reach: MeasuredRange,
        /// Maximum number of consumers of such trees.
        consumers_max: u64,
    },
    /// More brokers are needed.
    Brokers {
        /// Minimum number of brokers.
        least: u32,
        /// A tree with that number.
        tree: Tree,
    },
    /// No tree is as fast.
    Rate {
        /// Maximum rate.
        best_per_s: f64,
        /// A tree with that rate.
        tree: Tree,
    },
    /// Each requirement can be met, but not both together.
    Together {
        /// Minimum number of brokers at that rate.
        least: u32,
        /// Maximum rate with so few brokers.
        best_per_s: f64,
    },
}

impl fmt::Display for Unsatisfiable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsatisfiable::NoConsumers => to.write_str("a tree without consumers delivers nothing: one at least"),
            Unsatisfiable::TooManyConsumers => write!(to, "at most {CONSUMERS_MAX} consumers can be planned for"),
            Unsatisfiable::Reach { reach: MeasuredRange { consumers, brokers, levels }, consumers_max } => write!(
                to,
                "{levels} levels, {brokers} brokers below a broker and {consumers} consumers of one were measured at most, \
                 which is enough for {consumers_max} consumers"
            ),
            Unsatisfiable::Brokers { least, tree } => write!(to, "{least} brokers are needed at least, as in {tree}"),
            Unsatisfiable::Rate { best_per_s, tree } => {
                write!(
                    to,
                    "no tree is predicted to be faster than {best_per_s:.0} messages a second, the rate of {tree}"
                )
            }
            Unsatisfiable::Together { least, best_per_s } => write!(
                to,
                "either is possible and both together are not: that rate needs {least} brokers at least, and so few \
                 brokers give {best_per_s:.0} messages a second at most"
            ),
        }
    }
}

impl std::error::Error for Unsatisfiable {}

/// The criteria of a tree, or of its lower part.
#[derive(Clone, Copy, Debug)]
struct PartialCost {
    /// Time of its slowest broker, in microseconds.
    time_us: f64,
    /// How many siblings are served before a message's last consumer, over all levels.
    siblings: u32,
    brokers: u64,
    levels: u32,
}

/// A lower part of a tree: the number of nodes at its top level, and the part below it.
#[derive(Clone, Copy, Debug)]
struct Subtree {
    count: u32,
    below: Option<usize>,
}

/// A subtree that was not pruned yet: its cost, and what is below its top level.
type PendingSubtree = (PartialCost, Option<usize>);

/// Subtrees with equally many nodes on top.
#[derive(Default)]
struct SubtreeBucket {
    pending: Vec<PendingSubtree>,
    /// The number of pending subtrees at which pruning pays off.
    prune_at: usize,
}

struct Search<'a> {
    nodes: &'a NodeModel<'a>,
    requirements: TreeRequirements,
    reach: MeasuredRange,
    hop_us: f64,
    copy_us: f64,
    /// The share of the rate that remains with each level beyond the second.
    ratio: f64,
    subtrees: Vec<Subtree>,
    /// By the number of nodes on top.
    buckets: BTreeMap<u32, SubtreeBucket>,
    finished: SubtreeBucket,
    examined: u64,
}

/// Finds the Pareto front.
///
/// # Errors
/// The requirement that cannot be met.
pub fn search(nodes: &NodeModel<'_>, requirements: &TreeRequirements) -> Result<ParetoFront, Unsatisfiable> {
    if requirements.consumers == 0 {
        return Err(Unsatisfiable::NoConsumers);
    }
    if requirements.consumers > CONSUMERS_MAX {
        return Err(Unsatisfiable::TooManyConsumers);
    }
    let reach = nodes.costs.reach;
    let deepest = u64::from(reach.brokers).saturating_pow(reach.levels - 1).saturating_mul(u64::from(reach.consumers));
    // A single broker below each has a measured degree, however small: it does not extend the range.
    if !requirements.extrapolate && u64::from(requirements.consumers) > deepest {
        return Err(Unsatisfiable::Reach { reach, consumers_max: deepest });
    }
    let found = Search::new(nodes, *requirements).run();
    if !found.trees.is_empty() {
        return Ok(found);
    }
    // Without requirements there always is a tree, so that one of them, or both together, exclude it.
    let without = |brokers_max, rate_min| {
        Search::new(nodes, TreeRequirements { brokers_max, rate_min, ..*requirements }).run().trees
    };
    let fastest = |trees: Vec<Candidate>| trees.into_iter().next();
    let smallest = |trees: Vec<Candidate>| trees.into_iter().min_by_key(|one| one.tree.brokers_count());
    match (smallest(without(None, requirements.rate_min)), fastest(without(requirements.brokers_max, None))) {
        (Some(least), Some(best)) => Err(Unsatisfiable::Together {
            least: least.tree.brokers_count(),
            best_per_s: best.prediction.stream_per_s.value,
        }),
        (None, _) => {
            let best = fastest(without(None, None)).expect("trees without constraints exist");
            Err(Unsatisfiable::Rate { best_per_s: best.prediction.stream_per_s.value, tree: best.tree })
        }
        (Some(_), None) => {
            let least = smallest(without(None, None)).expect("trees without constraints exist");
            Err(Unsatisfiable::Brokers { least: least.tree.brokers_count(), tree: least.tree })
        }
    }
}

impl<'a> Search<'a> {
    fn new(nodes: &'a NodeModel<'a>, requirements: TreeRequirements) -> Self {
        let costs = nodes.costs;
        let reach = if requirements.extrapolate {
            let MeasuredRange { consumers, brokers, .. } = costs.reach;
            let further = |degree: u32| degree.saturating_mul(EXTRAPOLATION_FACTOR);
            MeasuredRange { consumers: further(consumers), brokers: further(brokers), levels: LEVELS_MAX as u32 }
        } else {
            MeasuredRange { levels: costs.reach.levels.min(LEVELS_MAX as u32), ..costs.reach }
        };
        let latency = |cost: Option<crate::Estimate>| cost.map_or(0.0, |cost| cost.value);
        Self {
            nodes,
            requirements,
            reach,
            hop_us: latency(costs.hop_latency_us),
            copy_us: latency(costs.copy_latency_us),
            ratio: costs.per_level_ratio.value,
            subtrees: Vec::new(),
            buckets: BTreeMap::new(),
            finished: SubtreeBucket::default(),
            examined: 0,
        }
    }

    fn run(mut self) -> ParetoFront {
        let consumers = self.requirements.consumers;
        let nothing = PartialCost { time_us: 0.0, siblings: 0, brokers: 0, levels: 0 };
        // Leaves with one consumer each, too (2).
        self.add_levels_above(nothing, None, consumers, 1, true);
        // From many nodes on top to few: all subtrees that lead to one have more nodes on top, and are known by then.
        while let Some((count, open)) = self.buckets.pop_last() {
            let finished = std::mem::take(&mut self.finished.pending);
            self.finished.pending = self.prune(finished);
            for (sum, below) in self.prune(open.pending) {
                if self.is_dominated(&sum) {
                    continue;
                }
                let at = self.subtrees.len();
                self.subtrees.push(Subtree { count, below });
                self.add_levels_above(sum, Some(at), count, 2, false);
            }
        }
        self.into_front()
    }

    /// All levels that can be above this many nodes: brokers with `from` children or more.
    fn add_levels_above(&mut self, sum: PartialCost, below: Option<usize>, count: u32, from: u32, is_last: bool) {
        let most = if is_last { self.reach.consumers } else { self.reach.brokers };
        if count == 1 && !is_last {
            // One broker on top: it can get a root that only forwards, and nothing else (2).
            return self.add_level(sum, below, 1, 1, TreePosition::Root);
        }
        let mut degree = from;
        loop {
            let here = count.div_ceil(degree);
            // No smaller count leads to this degree.
            let real = count.div_ceil(here);
            if real > most {
                return;
            }
            if here == 1 {
                self.add_level(sum, below, 1, real, TreePosition::at(true, is_last));
            }
            self.add_level(sum, below, here, real, TreePosition::at(false, is_last));
            match here {
                1 => return,
                _ => degree = count.div_ceil(here - 1),
            }
        }
    }

    fn add_level(&mut self, below: PartialCost, part: Option<usize>, count: u32, degree: u32, place: TreePosition) {
        self.examined += 1;
        let sum = PartialCost {
            time_us: below.time_us.max(self.nodes.time(place, degree).between_us().value),
            siblings: below.siblings + degree - 1,
            brokers: below.brokers + u64::from(count),
            levels: below.levels + 1,
        };
        let root = u64::from(!place.is_first());
        let is_too_many = self.requirements.brokers_max.is_some_and(|most| sum.brokers + root > u64::from(most));
        if is_too_many || sum.levels + root as u32 > self.reach.levels || self.is_too_slow(&sum) {
            return;
        }
        let open = if place.is_first() { &mut self.finished } else { self.buckets.entry(count).or_default() };
        open.pending.push((sum, part));
        if open.pending.len() >= open.prune_at.max(PRUNING_THRESHOLD) {
            let waiting = std::mem::take(&mut open.pending);
            let waiting = self.prune(waiting);
            let open = if place.is_first() { &mut self.finished } else { self.buckets.entry(count).or_default() };
            *open = SubtreeBucket { prune_at: 2 * waiting.len(), pending: waiting };
        }
    }

    /// Removes dominated subtrees, and all but one of equal ones. In the order of brokers, only an earlier one can
    /// dominate a later one. The earlier ones form, for each number of levels, a staircase: by time, the least latency
    /// of those that are no slower.
    fn prune(&self, mut parts: Vec<PendingSubtree>) -> Vec<PendingSubtree> {
        let key = |sum: &PartialCost| (sum.brokers, sum.levels, sum.siblings);
        parts.sort_by(|(one, _), (two, _)| key(one).cmp(&key(two)).then(one.time_us.total_cmp(&two.time_us)));
        let mut stairs: Vec<BTreeMap<u64, f64>> = Vec::new();
        parts.retain(|(sum, _)| {
            // Times are positive, and such floating-point numbers are in the order of their bits.
            let (time, latency_us) = (sum.time_us.to_bits(), self.latency_us(sum));
            // Levels count separately if each of them costs rate.
            let at = if self.ratio < 1.0 { sum.levels as usize } else { 0 };
            stairs.resize_with(stairs.len().max(at + 1), BTreeMap::new);
            let lowest = |stair: &BTreeMap<u64, f64>| {
                stair.range(..=time).next_back().is_some_and(|(_, step)| *step <= latency_us)
            };
            if stairs[..=at].iter().any(lowest) {
                return false;
            }
            let higher: Vec<u64> =
                stairs[at].range(time..).take_while(|(_, step)| **step >= latency_us).map(|(time, _)| *time).collect();
            for time in higher {
                stairs[at].remove(&time);
            }
            stairs[at].insert(time, latency_us);
            true
        });
        parts
    }

    fn rate(&self, sum: &PartialCost) -> f64 {
        1e6 / sum.time_us * self.ratio.powi(sum.levels.saturating_sub(2) as i32)
    }

    /// Latency of hops and siblings beyond one broker with one consumer. Computed from integers, so that equal ones are
    /// equal.
    fn latency_us(&self, sum: &PartialCost) -> f64 {
        self.hop_us * f64::from(sum.levels) + self.copy_us * f64::from(sum.siblings)
    }

    /// Whether one is no worse in anything. Levels count separately if each of them costs rate.
    fn dominates(&self, one: &PartialCost, other: &PartialCost) -> bool {
        one.time_us <= other.time_us
            && one.brokers <= other.brokers
            && self.latency_us(one) <= self.latency_us(other)
            && (self.ratio >= 1.0 || one.levels <= other.levels)
    }

    fn is_too_slow(&self, sum: &PartialCost) -> bool {
        self.requirements.rate_min.is_some_and(|least| self.rate(sum) < least)
    }

    /// Whether a finished tree is no worse than whatever follows from a subtree, which still needs a root (3).
    fn is_dominated(&self, sum: &PartialCost) -> bool {
        let at_best = PartialCost { brokers: sum.brokers + 1, levels: sum.levels + 1, ..*sum };
        self.finished.pending.iter().any(|(sum, _)| self.dominates(sum, &at_best))
    }

    /// Converts finished subtrees into trees. With rates, the loss of further levels is known, too.
    fn into_front(self) -> ParetoFront {
        let point = |sum: &PartialCost| (self.rate(sum), self.latency_us(sum), sum.brokers);
        let covers = |one: (f64, f64, u64), two: (f64, f64, u64)| one.0 >= two.0 && one.1 <= two.1 && one.2 <= two.2;
        let mut kept: Vec<&PendingSubtree> = Vec::new();
        let finished = self.prune(self.finished.pending.clone());
        for one in &finished {
            if !kept.iter().any(|other| covers(point(&other.0), point(&one.0))) {
                kept.retain(|other| !covers(point(&one.0), point(&other.0)));
                kept.push(one);
            }
        }
        let mut trees: Vec<Candidate> = kept.into_iter().map(|(_, below)| self.candidate(*below)).collect();
        trees.sort_by(|one, two| {
            let rate = |of: &Candidate| of.prediction.stream_per_s.value;
            rate(two).total_cmp(&rate(one)).then(one.tree.brokers_count().cmp(&two.tree.brokers_count()))
        });
        ParetoFront { trees, examined: self.examined }
    }

    /// A tree with a root above a subtree, or directly above the consumers.
    fn candidate(&self, below: Option<usize>) -> Candidate {
        let part = |at: Option<usize>| at.map(|at| &self.subtrees[at]);
        let levels = std::iter::successors(part(below), |&above| part(above.below));
        let mut text: String =
            std::iter::once(1).chain(levels.map(|part| part.count)).map(|count| format!("{count}B-")).collect();
        text.push_str(&format!("{}C", self.requirements.consumers));
        let tree: Tree = text.parse().expect("counts from one root on that do not fall are a tree");
        let prediction = predict_with(self.nodes, &tree);
        Candidate { tree, prediction }
    }
}
