//! Overlap of two binding keys: as tables, and against every key of a few words.

use proptest::prelude::*;
use topology::{KeyMatching, patterns_overlap};

#[test]
fn patterns_meet_where_a_key_fits_both() {
    for (one, other, meet) in [
        ("a.b", "a.b", true),
        ("a.b", "a.c", false),
        ("a.*", "*.b", true),
        ("a.*", "b.*", false),
        ("a.*", "a", false),
        ("a.#", "a", true),
        ("a.#", "b.#", false),
        ("a.#", "#.b", true),
        ("#", "", true),
        ("*", "", false),
        ("", "", true),
        ("#.a.#", "#.b.#", true),
        ("a.*.c", "a.#.b.c", true),
        ("a.*.c", "a.#.b.d", false),
        ("a.#.b", "a.b", true),
        ("*.*", "#.a.b.#", true),
        ("*", "#.a.b.#", false),
        ("a..b", "a.*.b", true),
        ("a..b", "a.b", false),
    ] {
        assert_eq!((patterns_overlap(one, other), patterns_overlap(other, one)), (meet, meet), "{one} {other}");
    }
}

#[test]
fn types_of_exchanges_compare_in_their_ways() {
    for (kind, one, other, meet) in [
        ("direct", "a.*", "a.b", false),
        ("direct", "a.*", "a.*", true),
        ("topic", "a.*", "a.b", true),
        ("topic", "a.*", "b.b", false),
        ("fanout", "a", "b", true),
        ("headers", "a", "b", true),
        ("", "a", "b", true),
    ] {
        assert_eq!(KeyMatching::of_exchange_type(kind).may_overlap(one, other), meet, "{kind} {one} {other}");
    }
}

/// Whether a pattern matches a key, word by word.
fn matches(pattern: &[&str], key: &[&str]) -> bool {
    match (pattern.split_first(), key.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((&"#", rest)), None) => matches(rest, key),
        (Some((&"#", rest)), Some((_, later))) => matches(rest, key) || matches(pattern, later),
        (Some(_), None) => false,
        (Some((word, rest)), Some((first, later))) => (*word == "*" || word == first) && matches(rest, later),
    }
}

/// Every key of up to `words_max` words.
fn keys(words_max: usize) -> Vec<Vec<&'static str>> {
    let mut all: Vec<Vec<&str>> = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..words_max {
        let to = all.len();
        for at in from..to {
            all.extend(["a", "b"].map(|word| [&all[at][..], &[word]].concat()));
        }
        from = to;
    }
    all
}

proptest! {
    #[test]
    fn as_every_key_says(
        one in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "#"]), 0..5),
        other in prop::collection::vec(prop::sample::select(vec!["a", "b", "*", "#"]), 0..5),
    ) {
        // A key that both match can be shortened to as many words as both have together.
        let meet = keys(8).iter().any(|key| matches(&one, key) && matches(&other, key));
        prop_assert_eq!(patterns_overlap(&one.join("."), &other.join(".")), meet);
    }
}
