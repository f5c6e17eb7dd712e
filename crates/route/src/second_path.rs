//! Second paths: whether a route would deliver messages twice, and whether duplicates would be dropped if it is forced.
//!
//! Knows which routes can carry the same message, and where messages must be marked so that duplicates are recognised.

use std::fmt::Display;
use topology::{BrokerGraph, KeyMatching, ParallelPaths};

/// A flow of one exchange from one broker to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteEdge<N> {
    pub from: N,
    pub to: N,
    /// The key of a static route. A dynamic one has none, and may carry any key.
    pub key: Option<String>,
    /// The source dials.
    pub pushed: bool,
    /// Duplicates that arrive by it are dropped.
    pub forced: bool,
}

/// Why a route must not be added.
#[derive(Debug, PartialEq, Eq)]
pub enum SecondPathProblem<N> {
    /// Messages would arrive by two paths.
    Duplicates(ParallelPaths<N>),
    /// The same, and the broker where the paths part or meet neither marks messages nor recognises duplicates.
    Unmarked(ParallelPaths<N>, N),
    /// The same, and messages are not marked where the paths part, because the route between these two is pushed and
    /// not forced.
    Unforced(ParallelPaths<N>, (N, N)),
}

/// Checks a new route against those of an exchange that matches keys in this way.
pub fn check_second_path<N: Ord + Clone>(
    edges: &[RouteEdge<N>],
    new: &RouteEdge<N>,
    comparing: KeyMatching,
    marks: impl Fn(&N) -> bool,
) -> Option<SecondPathProblem<N>> {
    let meets = |edge: &&RouteEdge<N>| match (&edge.key, &new.key) {
        (Some(one), Some(other)) => comparing.may_overlap(one, other),
        _ => true,
    };
    // Only these edges carry on a message that arrives by the new route.
    let edges: Vec<_> = edges.iter().filter(meets).collect();
    let is = |edge: &&&RouteEdge<N>, from: &N, to: &N| (&edge.from, &edge.to) == (from, to);
    let ends = (&new.from, &new.to);
    let beside: Vec<_> = edges.iter().filter(|edge| is(edge, ends.0, ends.1)).collect();
    // The broker itself refuses this.
    if beside.iter().any(|edge| (&edge.key, edge.pushed) == (&new.key, new.pushed)) {
        return None;
    }
    let mut paths = BrokerGraph::default();
    edges.iter().for_each(|edge| paths.add_edge(edge.from.clone(), edge.to.clone()));
    let straight = || vec![new.from.clone(), new.to.clone()];
    let beside = (!beside.is_empty()).then(|| ParallelPaths { existing: straight(), new: straight() });
    if !new.forced {
        return beside.or_else(|| paths.second_path(&new.from, &new.to)).map(SecondPathProblem::Duplicates);
    }
    // From the forced route upward, each broker that dials asks the next one to mark messages.
    let unasked = |two: &ParallelPaths<N>| {
        let up = two.new.windows(2).take_while(|step| step[0] != new.from);
        let asks = |step: &[N]| edges.iter().any(|edge| is(&edge, &step[0], &step[1]) && (edge.forced || !edge.pushed));
        up.map(|step| (step[0].clone(), step[1].clone())).find(|(from, to)| !asks(&[from.clone(), to.clone()]))
    };
    let other =
        |two: &ParallelPaths<N>| [two.new.first(), two.new.last()].into_iter().flatten().find(|at| !marks(at)).cloned();
    let is_wrong = |two: &ParallelPaths<N>| other(two).is_some() || unasked(two).is_some();
    let two = beside.filter(is_wrong).or_else(|| paths.second_path_where(&new.from, &new.to, is_wrong))?;
    match (other(&two), unasked(&two)) {
        (Some(at), _) => Some(SecondPathProblem::Unmarked(two, at)),
        (None, step) => step.map(|step| SecondPathProblem::Unforced(two, step)),
    }
}

impl<N> SecondPathProblem<N> {
    /// A sentence with the brokers' names. `force` says how to allow a second path.
    pub fn describe<T: Display>(&self, exchange: &str, force: &str, title: impl Fn(&N) -> T) -> String {
        let (SecondPathProblem::Duplicates(two)
        | SecondPathProblem::Unmarked(two, _)
        | SecondPathProblem::Unforced(two, _)) = self;
        let way = |way: &[N]| way.iter().map(|at| title(at).to_string()).collect::<Vec<_>>();
        let (new, there) = (way(&two.new), way(&two.existing));
        let first = there.first().cloned().unwrap_or_default();
        let last = there.last().cloned().unwrap_or_default();
        let beside = if new == there { "another route".to_owned() } else { there.join(" -> ") };
        let what = format!(
            "messages of exchange '{exchange}' would have a second path from {first} to {last}: {}, beside {beside}",
            new.join(" -> ")
        );
        match self {
            SecondPathProblem::Duplicates(_) => format!("{what} ({force})"),
            SecondPathProblem::Unmarked(_, at) => format!(
                "{what}; {} is not Harrier, and neither marks messages nor recognises duplicates, so that duplicates would not be dropped",
                title(at)
            ),
            SecondPathProblem::Unforced(_, (from, to)) => {
                let (from, to) = (title(from), title(to));
                format!(
                    "{what}; the route from {from} to {to} is pushed, and must be forced, too: otherwise no broker asks for messages to be marked, and duplicates would not be dropped"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RouteEdge, SecondPathProblem, check_second_path};
    use topology::{KeyMatching, ParallelPaths};

    /// `ab` is dynamic, `ab=key` static; `>` means pushed, `!` forced.
    fn edge(text: &str) -> RouteEdge<char> {
        let (words, key) = text.split_once('=').map_or((text, None), |(words, key)| (words, Some(key.to_owned())));
        let mut ends = words.chars();
        let (from, to) = (ends.next().expect("a beginning"), ends.next().expect("an end"));
        RouteEdge { from, to, key, pushed: words.contains('>'), forced: words.contains('!') }
    }

    fn check(kind: &str, edges: &str, new: &str, expect: &str) {
        let edges: Vec<_> = edges.split_whitespace().map(edge).collect();
        // Upper-case brokers are not Harrier.
        let found = check_second_path(&edges, &edge(new), KeyMatching::of_exchange_type(kind), |at| at.is_lowercase());
        let text =
            |two: &ParallelPaths<char>| [&two.new, &two.existing].map(|way| way.iter().collect::<String>()).join(" ");
        let found = match found {
            None => String::new(),
            Some(SecondPathProblem::Duplicates(two)) => text(&two),
            Some(SecondPathProblem::Unmarked(two, at)) => format!("{} unmarked {at}", text(&two)),
            Some(SecondPathProblem::Unforced(two, (from, to))) => format!("{} unasked {from}{to}", text(&two)),
        };
        assert_eq!(found, expect, "{new} beside {edges:?}");
    }

    #[test]
    fn keys_that_cannot_meet_are_no_second_path() {
        for (kind, meets) in [("direct", false), ("topic", true), ("fanout", true), ("", true)] {
            check(kind, "ab=x.* bc=x.*", "ac=x.y", if meets { "ac abc" } else { "" });
            check(kind, "ab=x.* bc=x.*", "ac=x.*", "ac abc");
            check(kind, "ab=x bc=x", "ac=y", if ["direct", "topic"].contains(&kind) { "" } else { "ac abc" });
        }
        check("topic", "ab bc=x.#", "ac=x.y", "ac abc");
        check("topic", "ab bc=z.#", "ac=x.y", "");
        check("direct", "ab bc=x", "ac", "ac abc");
        // Between the same two brokers.
        check("direct", "ab=x", "ab=y", "");
        check("topic", "ab=x.*", "ab=*.y", "ab ab");
        check("direct", "ab", "ab=y", "ab ab");
        check("direct", "ab=y", "ab>=y", "ab ab");
        check("direct", "ab=y", "ab=y", "");
        check("direct", "ab", "ba", "");
    }

    #[test]
    fn what_is_forced_must_be_marked_where_the_ways_part() {
        check("topic", "ra rb ad", "bd!", "");
        check("topic", "ra rb> ad", "bd!", "rbd rad unasked rb");
        check("topic", "ra rb>! ad", "bd!", "");
        check("topic", "ra> rb ad>", "bd>!", "");
        check("topic", "Ra Rb ad", "bd!", "Rbd Rad unmarked R");
        check("topic", "Ra Rb=x ad=y", "bd!=z", "");
        check("topic", "Ab", "Ab!=x", "Ab Ab unmarked A");
        check("topic", "ab", "ab!=x", "");
        check("topic", "ra rb aD>", "bD>!", "rbD raD unmarked D");
    }
}
