//! Second paths: as tables, and against an enumeration of all paths.

use proptest::prelude::*;
use topology::{BrokerGraph, ParallelPaths};

fn paths(steps: &str) -> BrokerGraph<char> {
    let mut paths = BrokerGraph::default();
    for step in steps.split_whitespace() {
        let mut ends = step.chars();
        paths.add_edge(ends.next().expect("a beginning"), ends.next().expect("an end"));
    }
    paths
}

fn check(steps: &str, step: &str, expect: Option<(&str, &str)>) {
    let mut ends = step.chars();
    let (from, to) = (ends.next().expect("a beginning"), ends.next().expect("an end"));
    let found = paths(steps).second_path(&from, &to);
    let text = |way: &Vec<char>| way.iter().collect::<String>();
    let found = found.as_ref().map(|ParallelPaths { existing: there, new }| (text(there), text(new)));
    let expect = expect.map(|(there, new)| (there.to_owned(), new.to_owned()));
    assert_eq!(found, expect, "{step} beside {steps}");
}

#[test]
fn a_second_path_is_found_and_nothing_else() {
    check("", "ab", None);
    check("ab", "ab", None);
    check("ab", "ba", None);
    check("ab ba", "bc", None);
    check("ab ba bc", "cb", None);
    check("ab bc", "ac", Some(("abc", "ac")));
    check("ac", "ab", None);
    check("ac ab", "bc", Some(("ac", "abc")));
    // A diamond, whichever edge comes last.
    check("ab bd ac", "cd", Some(("abd", "acd")));
    check("ab bd cd", "ac", Some(("abd", "acd")));
    // Downstream of the edge, and upstream of it.
    check("sb bx", "sx", Some(("sbx", "sx")));
    check("as sx at", "tx", Some(("asx", "atx")));
    // A ring in one direction has one path between any two brokers.
    check("ab bc", "ca", None);
    check("ab bc ca", "ac", Some(("abc", "ac")));
    // In both directions it has two.
    check("ab ba bc cb", "ca", Some(("cba", "ca")));
    check("aa", "aa", None);
    check("ab", "aa", None);
}

/// Counts the paths from one broker to another that visit none twice.
fn ways(steps: &[(u8, u8)], from: u8, to: u8) -> usize {
    fn walk(steps: &[(u8, u8)], way: &mut Vec<u8>, to: u8) -> usize {
        let at = *way.last().expect("a beginning");
        if at == to {
            return 1;
        }
        let mut found = 0;
        for &(_, next) in steps.iter().filter(|(from, _)| *from == at) {
            if !way.contains(&next) {
                way.push(next);
                found += walk(steps, way, to);
                way.pop();
            }
        }
        found
    }
    walk(steps, &mut vec![from], to)
}

const BROKERS: u8 = 7;

fn is_twofold(steps: &[(u8, u8)]) -> bool {
    let pairs = (0..BROKERS).flat_map(|from| (0..BROKERS).map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to).any(|(from, to)| ways(steps, from, to) > 1)
}

fn is_way(steps: &[(u8, u8)], way: &[u8]) -> bool {
    let once = (1..way.len()).all(|at| !way[..at].contains(&way[at]));
    once && way.len() > 1 && way.windows(2).all(|pair| steps.contains(&(pair[0], pair[1])))
}

proptest! {
    /// Adds edges as long as they are allowed: no second path ever arises, and no edge is refused without one.
    #[test]
    fn what_is_allowed_leaves_one_way_and_what_is_refused_would_not(
        wanted in prop::collection::vec((0..BROKERS, 0..BROKERS), 0..24)
    ) {
        let (mut paths, mut steps) = (BrokerGraph::default(), Vec::new());
        for (from, to) in wanted.into_iter().filter(|(from, to)| from != to) {
            let mut then = steps.clone();
            if !then.contains(&(from, to)) {
                then.push((from, to));
            }
            match paths.second_path(&from, &to) {
                None => {
                    prop_assert!(!is_twofold(&then), "{from}->{to} beside {steps:?}");
                    paths.add_edge(from, to);
                    steps = then;
                }
                Some(ParallelPaths { existing, new }) => {
                    prop_assert!(is_way(&steps, &existing) && is_way(&then, &new), "{existing:?} {new:?} of {then:?}");
                    prop_assert!(existing != new && existing.first() == new.first() && existing.last() == new.last());
                }
            }
        }
    }

    /// If second paths exist already, those that are found are real.
    #[test]
    fn what_is_found_is_there(steps in prop::collection::vec((0..BROKERS, 0..BROKERS), 0..30), from in 0..BROKERS, to in 0..BROKERS) {
        let mut paths = BrokerGraph::default();
        steps.iter().for_each(|&(from, to)| paths.add_edge(from, to));
        if let Some(ParallelPaths { existing, new }) = paths.second_path(&from, &to) {
            let mut then = steps.clone();
            then.push((from, to));
            prop_assert!(is_way(&steps, &existing) && is_way(&then, &new));
            prop_assert!(existing != new && existing.first() == new.first() && existing.last() == new.last());
        }
    }
}
