//! The search: of all trees for so many consumers, those of which none is worse than another in rate, latency and brokers.
//!
//! Enters: nodes, a wish.  Leaves: the Pareto front, each tree with its prediction; or which part of the wish cannot be.
//! Owns:   what is looked at, and why the rest need not be.
//! Never:  guesses: what is left out is no better than something that is looked at, in everything, as is argued here and held against
//!         a search without any of it in `tests/oracle.rs`.
//!
//! **What is a tree here.** Counts by level that do not fall, from one root: `1 = n_1 <= n_2 <= ... <= n_d <= consumers`, each level's
//! nodes spread evenly over the one above. The most that a broker of level i has is `ceil(n_(i+1) / n_i)`. Leaves at different levels
//! would save less than one broker a level (decision 0025), and are not looked at.
//!
//! **What makes it worse.** Let the degrees of a tree be those. Its rate falls with the slowest broker, whose time rises with its degree
//! (`node`), and with the number of levels; its latency rises with the levels and the degrees; its brokers are the sum of the
//! counts. So it is enough to know of a lower part of a tree (levels i to d): its slowest time, its latency, its brokers, its levels,
//! and how many nodes it has at its top. Whatever is put above, one that is no better in any of these is no better in the end.
//!
//! **1. Of the counts that lead to one degree, the least is enough.** Let a level have n nodes, and m' > m brokers above it, both with
//! the degree `k = ceil(n / m) = ceil(n / m')`. Of any tree with m' take each count u above as `min(u, m)`: the counts still do not
//! fall; a degree `ceil(u / v)` becomes `ceil(min(u, m) / min(v, m))`, which is no greater; k stays; the levels are as many. So that
//! tree is no worse, with fewer brokers. The least m with the degree k is `ceil(n / k)`. Since `ceil(ceil(n / a) / b) = ceil(n / ab)`,
//! all counts that are left are `ceil(consumers / j)` for some j: about twice the root of the number of consumers.
//!
//! **2. A level with one below each is worth having only as the root and as the leaves.** Elsewhere both of its neighbours are brokers:
//! without it the broker above has as many below it as before, and the one below stands where such a broker stood. There is a level
//! less, and everything else is as it was. (A root that only hands on may be worth it, if taking from a publisher is dear; and
//! leaves with one consumer each, if a copy to a consumer is.)
//!
//! **3. Of lower parts with equally many nodes on top, the Pareto front is enough**, by the above. Nor is one worth going on with that a
//! finished tree is no worse than already, with the root that it still needs.

use std::collections::BTreeMap;
use std::fmt;
use topology::Tree;
use topology::limits::LEVELS_MAX;

use crate::limits::{EXTRAPOLATION_FACTOR, CONSUMERS_MAX, PRUNING_THRESHOLD};
use crate::predict::predict_with;
use crate::{NodeModel, TreePosition, Prediction, MeasuredRange};

/// What is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TreeRequirements {
    /// Consumers of the tree.
    pub consumers: u32,
    /// No more brokers than this.
    pub brokers_max: Option<u32>,
    /// No fewer messages a second of one stream than this.
    pub rate_min: Option<f64>,
    /// Higher degrees than were measured, too (up to [`BEYOND_TIMES`] as high), and more levels.
    pub extrapolate: bool,
}

/// A tree and what it is predicted to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Which.
    pub tree: Tree,
    /// What it does.
    pub prediction: Prediction,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct ParetoFront {
    /// The fastest first. None is as good as another, or better, in everything.
    pub trees: Vec<Candidate>,
    /// How many parts of trees were looked at.
    pub examined: u64,
}

/// Which part of a wish cannot be.
#[derive(Clone, Debug, PartialEq)]
pub enum Unsatisfiable {
    /// There is nobody to deliver to.
    NoConsumers,
    /// More than are planned for.
    TooManyConsumers,
    /// More than trees that were measured can have.
    Reach {
        /// How far measurements go.
        reach: MeasuredRange,
        /// So many consumers such trees have at most.
        consumers_max: u64,
    },
    /// More brokers are needed.
    Brokers {
        /// The fewest,
        least: u32,
        /// in this tree.
        tree: Tree,
    },
    /// No tree is as fast.
    Rate {
        /// The most,
        best_per_s: f64,
        /// of this tree.
        tree: Tree,
    },
    /// Either can be, and both together cannot.
    Together {
        /// The fewest brokers at that rate.
        least: u32,
        /// The most with so few brokers.
        best_per_s: f64,
    },
}

impl fmt::Display for Unsatisfiable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsatisfiable::NoConsumers => to.write_str("a tree without consumers delivers nothing: one at least"),
            Unsatisfiable::TooManyConsumers => write!(to, "at most {CONSUMERS_MAX} consumers are planned for"),
            Unsatisfiable::Reach { reach: MeasuredRange { consumers, brokers, levels }, consumers_max } => write!(
                to,
                "{levels} levels, {brokers} brokers below a broker and {consumers} consumers of one were measured at most, \
                 which is enough for {consumers_max} consumers"
            ),
            Unsatisfiable::Brokers { least, tree } => write!(to, "{least} brokers are needed at least, as in {tree}"),
            Unsatisfiable::Rate { best_per_s, tree } => {
                write!(to, "no tree is predicted to be faster than {best_per_s:.0} messages a second, as {tree} is")
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

/// What a tree, or the lower part of one, comes to.
#[derive(Clone, Copy, Debug)]
struct PartialCost {
    /// Of its slowest broker, microseconds.
    time_us: f64,
    /// Who is served before one message's last consumer, at all levels together.
    siblings: u32,
    brokers: u64,
    levels: u32,
}

/// A lower part of a tree: how many nodes its top level has, and what is below.
#[derive(Clone, Copy, Debug)]
struct Subtree {
    count: u32,
    below: Option<usize>,
}

/// A part that is not looked at closely yet: what it comes to, and what is below its top level.
type PendingSubtree = (PartialCost, Option<usize>);

/// Parts with equally many nodes on top.
#[derive(Default)]
struct SubtreeBucket {
    pending: Vec<PendingSubtree>,
    /// From so many on it is worth the time to see which of them cover others.
    prune_at: usize,
}

struct Search<'a> {
    nodes: &'a NodeModel<'a>,
    requirements: TreeRequirements,
    reach: MeasuredRange,
    hop_us: f64,
    copy_us: f64,
    /// What a level beyond the second leaves of the rate.
    ratio: f64,
    subtrees: Vec<Subtree>,
    /// By how many nodes they have on top.
    open: BTreeMap<u32, SubtreeBucket>,
    finished: SubtreeBucket,
    examined: u64,
}

/// The Pareto front.
///
/// # Errors
/// What of the wish cannot be.
pub fn search(nodes: &NodeModel<'_>, wish: &TreeRequirements) -> Result<ParetoFront, Unsatisfiable> {
    if wish.consumers == 0 {
        return Err(Unsatisfiable::NoConsumers);
    }
    if wish.consumers > CONSUMERS_MAX {
        return Err(Unsatisfiable::TooManyConsumers);
    }
    let reach = nodes.costs.reach;
    let deepest = u64::from(reach.brokers).saturating_pow(reach.levels - 1).saturating_mul(u64::from(reach.consumers));
    // A single broker below each is one that has its degree measured, however few: it makes no room for more.
    if !wish.extrapolate && u64::from(wish.consumers) > deepest {
        return Err(Unsatisfiable::Reach { reach, consumers_max: deepest });
    }
    let found = Search::new(nodes, *wish).run();
    if !found.trees.is_empty() {
        return Ok(found);
    }
    // Without constraints there always is a tree, so that one of them or both together are why there is none.
    let without = |brokers_max, rate_min| Search::new(nodes, TreeRequirements { brokers_max, rate_min, ..*wish }).run().trees;
    let fastest = |trees: Vec<Candidate>| trees.into_iter().next();
    let smallest = |trees: Vec<Candidate>| trees.into_iter().min_by_key(|one| one.tree.brokers_count());
    match (smallest(without(None, wish.rate_min)), fastest(without(wish.brokers_max, None))) {
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
    fn new(nodes: &'a NodeModel<'a>, wish: TreeRequirements) -> Self {
        let costs = nodes.costs;
        let reach = if wish.extrapolate {
            let MeasuredRange { consumers, brokers, .. } = costs.reach;
            let further = |degree: u32| degree.saturating_mul(EXTRAPOLATION_FACTOR);
            MeasuredRange { consumers: further(consumers), brokers: further(brokers), levels: LEVELS_MAX as u32 }
        } else {
            MeasuredRange { levels: costs.reach.levels.min(LEVELS_MAX as u32), ..costs.reach }
        };
        let latency = |cost: Option<crate::Estimate>| cost.map_or(0.0, |cost| cost.value);
        Self {
            nodes,
            requirements: wish,
            reach,
            hop_us: latency(costs.hop_latency_us),
            copy_us: latency(costs.copy_latency_us),
            ratio: costs.per_level_ratio.value,
            subtrees: Vec::new(),
            open: BTreeMap::new(),
            finished: SubtreeBucket::default(),
            examined: 0,
        }
    }

    fn run(mut self) -> ParetoFront {
        let consumers = self.requirements.consumers;
        let nothing = PartialCost { time_us: 0.0, siblings: 0, brokers: 0, levels: 0 };
        // Leaves with one consumer each, too (2).
        self.add_levels_above(nothing, None, consumers, 1, true);
        // From many nodes on top to few: what leads to a part has more on top than it, so that all that lead to it are known.
        while let Some((count, open)) = self.open.pop_last() {
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

    /// All levels that may stand above so many nodes: brokers that have so many below them, or more.
    fn add_levels_above(&mut self, sum: PartialCost, below: Option<usize>, count: u32, from: u32, is_last: bool) {
        let most = if is_last { self.reach.consumers } else { self.reach.brokers };
        if count == 1 && !is_last {
            // One broker on top: it may get a root that only hands on, and nothing else (2).
            return self.add_level(sum, below, 1, 1, TreePosition::Root);
        }
        let mut degree = from;
        loop {
            let here = count.div_ceil(degree);
            // No fewer lead to so many.
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

    /// One level more.
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
        let open = if place.is_first() { &mut self.finished } else { self.open.entry(count).or_default() };
        open.pending.push((sum, part));
        if open.pending.len() >= open.prune_at.max(PRUNING_THRESHOLD) {
            let waiting = std::mem::take(&mut open.pending);
            let waiting = self.prune(waiting);
            let open = if place.is_first() { &mut self.finished } else { self.open.entry(count).or_default() };
            *open = SubtreeBucket { prune_at: 2 * waiting.len(), pending: waiting };
        }
    }

    /// Those that no other covers; of equal ones one. From few brokers to many, only what came before can cover what comes. Of that
    /// there is, for each number of levels, a staircase: by time, the least latency of those that are no slower.
    fn prune(&self, mut parts: Vec<PendingSubtree>) -> Vec<PendingSubtree> {
        let key = |sum: &PartialCost| (sum.brokers, sum.levels, sum.siblings);
        parts.sort_by(|(one, _), (two, _)| key(one).cmp(&key(two)).then(one.time_us.total_cmp(&two.time_us)));
        let mut stairs: Vec<BTreeMap<u64, f64>> = Vec::new();
        parts.retain(|(sum, _)| {
            // Times are above 0, and such numbers are in the order of their bits.
            let (time, latency_us) = (sum.time_us.to_bits(), self.latency_us(sum));
            // Levels count by themselves where each of them takes some of the rate.
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

    /// What hops and siblings add to the latency of one broker with one consumer. Of whole numbers, so that equal ones are equal.
    fn latency_us(&self, sum: &PartialCost) -> f64 {
        self.hop_us * f64::from(sum.levels) + self.copy_us * f64::from(sum.siblings)
    }

    /// No worse in anything. Levels count by themselves where each of them takes some of the rate.
    fn dominates(&self, one: &PartialCost, other: &PartialCost) -> bool {
        one.time_us <= other.time_us
            && one.brokers <= other.brokers
            && self.latency_us(one) <= self.latency_us(other)
            && (self.ratio >= 1.0 || one.levels <= other.levels)
    }

    fn is_too_slow(&self, sum: &PartialCost) -> bool {
        self.requirements.rate_min.is_some_and(|least| self.rate(sum) < least)
    }

    /// Whether a finished tree is no worse than whatever comes of a part, which still needs a root (3).
    fn is_dominated(&self, sum: &PartialCost) -> bool {
        let at_best = PartialCost { brokers: sum.brokers + 1, levels: sum.levels + 1, ..*sum };
        self.finished.pending.iter().any(|(sum, _)| self.dominates(sum, &at_best))
    }

    /// Finished trees, as trees. With rates, what more levels take is known, too.
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

    /// A root above a part, or above nothing but consumers.
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
