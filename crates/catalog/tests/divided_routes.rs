//! Routes that are found a piece at a time although one key, or the headers of one message, have very many bindings selected.
//!
//! Enters: exchanges, and messages that most of their bindings are for.  Leaves: queues, and units of work of each piece.
//! Owns:   the bounds of a piece, and what a search must find while bindings come and go.

mod script;

use catalog::{Catalog, ExchangeId, KeyedRoute};
use proptest::prelude::*;
use script::{RoutingScript, table};
use wire::{Properties, RawProperties};

fn headers(entries: &[&str]) -> Vec<u8> {
    Properties { headers: Some(table(entries.iter().copied())), ..Properties::default() }.to_bytes()
}

fn exchange(script: &RoutingScript, name: &str) -> ExchangeId {
    script.catalog.exchange(script.vhost, name.as_bytes()).expect("there is one")
}

fn names(catalog: &Catalog, route: &catalog::QueueRoute) -> Vec<String> {
    // A queue that was deleted after it was found is found by nobody.
    let name = |queue: &catalog::RoutedQueue| Some(catalog.queue_definition(queue.id)?.name.to_string());
    route.queues.iter().filter_map(name).collect()
}

/// A message, and the work of a piece.
struct Search<'a> {
    exchange: &'a str,
    key: &'a str,
    properties: &'a [u8],
    work_max: u64,
}

impl Search<'_> {
    /// The queues that are found at once.
    fn whole(&self, script: &mut RoutingScript) -> Vec<String> {
        let id = exchange(script, self.exchange);
        let route = script.catalog.route(id, self.key.as_bytes(), RawProperties::new(self.properties));
        names(&script.catalog, &route)
    }

    /// The work of each piece, and the queues that are found in all of them; `between` may change definitions.
    fn in_pieces(
        &self,
        script: &mut RoutingScript,
        mut between: impl FnMut(&mut RoutingScript, usize),
    ) -> (Vec<u64>, Vec<String>) {
        let mut search = KeyedRoute::new(exchange(script, self.exchange), [self.key.as_bytes()]);
        let mut pieces = Vec::new();
        loop {
            script.catalog.take_work();
            let properties = RawProperties::new(self.properties);
            let route = script.catalog.continue_route(&mut search, properties, self.work_max);
            pieces.push(script.catalog.take_work());
            match route {
                Some(route) => return (pieces, names(&script.catalog, &route)),
                None => between(script, pieces.len()),
            }
        }
    }
}

/// All patterns of so many of these words.
fn patterns(length: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    for _ in 0..length {
        all = all.iter().flat_map(|before| ["a", "*", "#"].map(|word| format!("{before}.{word}"))).collect();
    }
    all.iter().map(|pattern| pattern[1..].to_owned()).collect()
}

#[test]
fn a_key_that_very_many_patterns_match_is_looked_for_a_piece_at_a_time() {
    let mut script = RoutingScript::new();
    let patterns = patterns(7);
    for (number, pattern) in patterns.iter().enumerate() {
        script.run(&format!("queue q{number}; bind amq.topic {pattern} q{number}"));
    }
    // Few words, and more than one machine word has bits.
    for words in [7, 70] {
        let key = vec!["a"; words].join(".");
        let search = |work_max| Search { exchange: "amq.topic", key: &key, properties: &[0, 0], work_max };
        let whole = search(0).whole(&mut script);
        let expected = if words == 7 { patterns.len() } else { patterns.len() - (1 << 7) };
        assert_eq!(whole.len(), expected);
        for work_max in [1, 50, 5_000] {
            let (pieces, found) = search(work_max).in_pieces(&mut script, |_, _| ());
            assert!(found == whole, "{words} words, {work_max} units: {} of {}", found.len(), whole.len());
            // The key is read anew each time, and the way to the node is gone again.
            let most = pieces.iter().max().copied().unwrap_or_default();
            assert!(most <= work_max + 2 * words as u64 + 20, "{words} words, {work_max} units: {most}");
        }
    }
}

#[test]
fn a_message_that_satisfies_very_many_bindings_is_held_against_them_a_piece_at_a_time() {
    let cases = [("what asks for nothing", ""), ("all of one", "a=1"), ("any of two", "x-match=any a=1 b=1")];
    for (case, asked) in cases {
        let mut script = RoutingScript::new();
        for queue in 0..2_000 {
            script.run(&format!("queue q{queue}; bind amq.headers '' q{queue} {asked}"));
        }
        // Few headers, by which bindings are found, and so many that all bindings are looked at.
        let many: Vec<String> = (0..4_000).map(|number| format!("h{number}=0")).chain(["a=1".to_owned()]).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for sent in [&["a=1", "b=1"][..], &many] {
            let properties = headers(sent);
            let search = |work_max| Search { exchange: "amq.headers", key: "", properties: &properties, work_max };
            let whole = search(0).whole(&mut script);
            assert_eq!(whole.len(), 2_000, "{case}");
            for work_max in [1, 50, 5_000] {
                let (pieces, found) = search(work_max).in_pieces(&mut script, |_, _| ());
                assert!(found == whole, "{case}, {work_max} units: {} of {}", found.len(), whole.len());
                let most = pieces.iter().max().copied().unwrap_or_default();
                // The headers are read anew each time, and as much is done besides.
                assert!(most <= work_max + 8 * sent.len() as u64 + 20, "{case}, {work_max} units: {most}");
            }
        }
    }
}

#[test]
fn alternate_exchanges_of_very_many_are_visited_a_piece_at_a_time() {
    let mut script = RoutingScript::new();
    script.run("exchange from fanout; exchange last fanout; queue q; bind last '' q");
    for number in 0..2_000 {
        script.run(&format!("exchange e{number} fanout alternate-exchange=last; bind-exchange from '' e{number}"));
    }
    for work_max in [1, 50, 5_000] {
        let search = Search { exchange: "from", key: "", properties: &[0, 0], work_max };
        let (pieces, found) = search.in_pieces(&mut script, |_, _| ());
        assert_eq!(found, ["q"], "{work_max} units");
        let most = pieces.iter().max().copied().unwrap_or_default();
        assert!(most <= work_max + 20, "{work_max} units: {most}");
    }
    // A binding that is made between any two pieces is looked for at all exchanges, a piece at a time as well.
    let search = Search { exchange: "from", key: "", properties: &[0, 0], work_max: 500 };
    let (pieces, found) = search.in_pieces(&mut script, |script, piece| {
        if piece < 5 {
            script.run(&format!("queue other; bind amq.direct {piece} other"));
        }
    });
    assert_eq!(found, ["q"]);
    let most = pieces.iter().max().copied().unwrap_or_default();
    assert!(most <= 520, "{most}");
}

/// A consistent-hash exchange with many seats, of one weight or each of another.
fn seats(one_weight: bool) -> RoutingScript {
    let mut script = RoutingScript::new();
    script.run("exchange x x-consistent-hash");
    for number in 1..=3_000 {
        let weight = if one_weight { 7 } else { number };
        script.run(&format!("queue q{number}; bind x {weight} q{number}"));
    }
    script
}

#[test]
fn the_seats_of_a_consistent_hash_draw_a_piece_at_a_time() {
    for one_weight in [true, false] {
        let mut script = seats(one_weight);
        for key in (0..20).map(|number| format!("key {number}")) {
            let search = |work_max| Search { exchange: "x", key: &key, properties: &[0, 0], work_max };
            let mut results = Vec::new();
            for work_max in [1, 50, 100_000] {
                let (pieces, found) = search(work_max).in_pieces(&mut script, |_, _| ());
                let most = pieces.iter().max().copied().unwrap_or_default();
                assert!(most <= work_max + 10, "{work_max} units: {most}");
                assert!(work_max > 50 || pieces.len() > 3, "{work_max} units: {} pieces", pieces.len());
                results.push(found);
            }
            // The route is remembered only now.
            results.push(search(0).whole(&mut script));
            assert!(results[0].len() == 1 && results.iter().all(|found| *found == results[0]), "{results:?}");
        }
    }
}

#[test]
fn seats_that_come_and_go_while_others_draw_get_what_a_whole_draw_would_give_them() {
    for one_weight in [true, false] {
        let mut script = seats(one_weight);
        for key in (0..20).map(|number| format!("key {number}")) {
            let search = Search { exchange: "x", key: &key, properties: &[0, 0], work_max: 10 };
            let mut number = 10_000;
            let (pieces, found) = search.in_pieces(&mut script, |script, pieces| {
                // Whoever would get it goes and another comes, again and again; in the end nothing changes.
                if pieces % 2 == 1 && pieces < 40 {
                    number += 1;
                    let weight = if one_weight { 7 } else { number };
                    script.run(&format!("queue q{number}; bind x {weight} q{number}"));
                    let best = Search { exchange: "x", key: &key, properties: &[0, 0], work_max: 0 }.whole(script);
                    script.run(&format!("delete-queue {}", best[0]));
                }
            });
            assert!(pieces.len() > 3);
            assert_eq!(found, search.whole(&mut script), "one weight: {one_weight}");
        }
    }
}

#[test]
fn a_draw_ends_although_seats_change_all_the_time() {
    let mut script = seats(false);
    let search = Search { exchange: "x", key: "key", properties: &[0, 0], work_max: 10 };
    let (pieces, found) = search.in_pieces(&mut script, |script, pieces| {
        script.run(&format!("queue new{pieces}; bind x {} new{pieces}", 5_000 + pieces));
    });
    assert!(found.len() == 1 && pieces.len() < 40, "{} pieces", pieces.len());
}

/// Each piece would begin with the binding at which the one before has stopped, and others are made instead.
#[test]
fn a_search_of_headers_ends_although_the_binding_where_it_stops_goes_each_time() {
    for headers_of_message in [2, 200] {
        let mut script = RoutingScript::new();
        script.run("exchange x headers");
        for number in 0..40 {
            script.run(&format!("queue q{number}; bind x '' q{number} a=1"));
        }
        let names: Vec<_> = (0..headers_of_message).map(|number| format!("h{number}=1")).collect();
        let all: Vec<_> = std::iter::once("a=1").chain(names.iter().map(String::as_str)).collect();
        let properties = headers(&all);
        let search = Search { exchange: "x", key: "", properties: &properties, work_max: 1 };
        let (pieces, found) = search.in_pieces(&mut script, |script, _| {
            // All of them: wherever it has stopped, that is gone.
            for number in 0..40 {
                script.run(&format!("unbind x '' q{number} a=1; bind x '' q{number} a=1"));
            }
        });
        assert!(found.len() == 40 && pieces.len() < 100, "{} pieces find {}", pieces.len(), found.len());
    }
}

#[test]
fn a_divided_search_finds_what_stays_while_bindings_come_and_go() {
    let patterns = patterns(5);
    let all_headers = headers(&["a=1", "b=1"]);
    let asked = |number: usize| ["", "a=1", "x-match=any a=1 b=1"][number % 3];
    for (name, key) in [("amq.topic", "a.a.a.a.a"), ("amq.headers", "")] {
        let is_topic = name == "amq.topic";
        let mut script = RoutingScript::new();
        let bind = |script: &mut RoutingScript, number: usize, queue: &str| match is_topic {
            true => script.run(&format!("queue {queue}; bind amq.topic {} {queue}", patterns[number])),
            false => script.run(&format!("queue {queue}; bind amq.headers '' {queue} {}", asked(number))),
        };
        for number in 0..patterns.len() {
            bind(&mut script, number, &format!("q{number}"));
        }
        let properties = if is_topic { &[0, 0][..] } else { &all_headers };
        let search = Search { exchange: name, key, properties, work_max: 20 };
        let mut gone = Vec::new();
        let (pieces, found) = search.in_pieces(&mut script, |script, pieces| {
            if pieces >= 30 {
                return;
            }
            // One goes from either end, and others take the places of its queue, its binding and its nodes.
            for number in [2 * pieces, patterns.len() - 2 * pieces] {
                script.run(&format!("delete-queue q{number}; queue other{number}"));
                script.run(&format!("bind amq.direct '' other{number}; bind amq.topic b.{number}.b other{number}"));
                bind(script, number, &format!("new{number}"));
                gone.push(format!("q{number}"));
            }
        });
        assert!(pieces.len() > 30, "{name}: {} pieces", pieces.len());
        let lost = (0..patterns.len()).map(|number| format!("q{number}"));
        let lost: Vec<String> = lost.filter(|queue| !gone.contains(queue) && !found.contains(queue)).collect();
        assert!(lost.is_empty(), "{name}: {lost:?} are bound all the time");
        let wrong: Vec<&String> =
            found.iter().filter(|queue| queue.starts_with("other") || gone.contains(*queue)).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?} are not bound");
    }
}

/// The way to a queue leads through an exchange all the time, but through another each time: the last takes the index of the
/// first, which the search has come upon.
#[test]
fn an_exchange_in_the_place_of_one_that_is_gone_is_another() {
    let mut most = 0;
    for at in 1..20 {
        let mut script = RoutingScript::new();
        let others: String = (0..10).map(|number| format!("queue q{number}; bind from '' q{number};")).collect();
        script.run(&format!("exchange from fanout; queue q; {others} exchange first fanout; bind first '' q"));
        script.run("bind-exchange from '' first");
        let first = exchange(&script, "first");
        let search = Search { exchange: "from", key: "", properties: &[0, 0], work_max: 1 };
        let (pieces, found) = search.in_pieces(&mut script, |script, pieces| {
            if pieces != at {
                return;
            }
            script.run("exchange second fanout; bind second '' q; bind-exchange from '' second; delete-exchange first");
            script.run("exchange third fanout; bind third '' q; bind-exchange from '' third; delete-exchange second");
            assert_eq!(exchange(script, "third").index, first.index, "its place is taken again");
        });
        most = most.max(pieces.len());
        assert!(found.contains(&"q".to_owned()), "changed after piece {at}: {found:?}");
    }
    assert!(most > 10, "{most} pieces");
}

/// Routing key and arguments.
type BindingText = (&'static str, &'static str);

/// Exchanges, a routing key, and two bindings for it of each that are not the same.
const KINDS: [(&str, &str, [BindingText; 2]); 5] = [
    ("fanout", "k", [("one", ""), ("two", "")]),
    ("direct", "k", [("k", ""), ("k", "other=1")]),
    ("topic", "a.b.c", [("a.#", ""), ("*.b.#.c.#", "")]),
    ("headers", "", [("''", "a=1"), ("''", "x-match=any a=2 b=1")]),
    (
        "x-federation-upstream x-max-hops=i64:2 x-downstream-name=B x-downstream-vhost=/",
        "k",
        [("one", ""), ("two", "")],
    ),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever the patterns, the key and the size of a piece are: the pieces find what one search finds.
    #[test]
    fn pieces_of_a_topic_add_up(
        patterns in prop::collection::vec("[ab*#](\\.[ab*#]){0,4}", 1..20),
        key in "[abc](\\.[abc]){0,6}",
        work_max in 1..60_u64,
    ) {
        let mut script = RoutingScript::new();
        for (number, pattern) in patterns.iter().enumerate() {
            script.run(&format!("queue q{number}; bind amq.topic {pattern} q{number}"));
        }
        let search = Search { exchange: "amq.topic", key: &key, properties: &[0, 0], work_max };
        let (_, found) = search.in_pieces(&mut script, |_, _| ());
        prop_assert_eq!(found, search.whole(&mut script));
    }

    /// While bindings are replaced behind and before a search, in every pass of it, it finds each queue that was bound all the
    /// time, whichever of its bindings that was, and none of an exchange for what finds no place.
    #[test]
    fn a_search_misses_no_binding_of_which_one_replaces_another(
        kind in 0..5_usize,
        queues in 1..40_usize,
        churn in prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8), 1..6),
        passes in prop_oneof![Just(usize::MAX), 0..40_usize],
        work_max in 1..40_u64,
    ) {
        let (name, key, ways) = KINDS[kind];
        let mut script = RoutingScript::new();
        script.run("exchange none fanout; queue none; bind none '' none; exchange from fanout alternate-exchange=none");
        script.run(&format!("exchange x {name} alternate-exchange=none; bind-exchange from '' x"));
        // Each is bound one way or the other.
        let mut bound = vec![0; queues];
        for queue in 0..queues {
            script.run(&format!("queue q{queue}; bind x {} q{queue} {}", ways[0].0, ways[0].1));
        }
        let properties = headers(&["a=1", "b=1"]);
        let search = Search { exchange: "from", key, properties: &properties, work_max };
        let (_, mut found) = search.in_pieces(&mut script, |script, pieces| {
            if pieces > passes {
                return;
            }
            for (number, &(queue, how)) in churn.iter().enumerate() {
                let queue = (queue.index(queues) + number * pieces) % queues;
                let way = |number: usize| ways[number % 2];
                let command = |verb: &str, (key, arguments): BindingText| format!("{verb} x {key} q{queue} {arguments}");
                let (old, new) = (way(bound[queue]), way(bound[queue] + 1));
                script.run(&match how {
                    // Another first, and then the first is gone; or the same again; or all that lead there.
                    0 => format!("{}; {}", command("bind", new), command("unbind", old)),
                    1 => format!("{}; {}", command("unbind", old), command("bind", old)),
                    _ => "bind-exchange from k x; unbind-exchange from '' x; bind-exchange from '' x; \
                          unbind-exchange from k x".to_owned(),
                });
                bound[queue] += usize::from(how == 0);
            }
        });
        let mut expected: Vec<String> = (0..queues).map(|queue| format!("q{queue}")).collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }

    /// And of a headers exchange.
    #[test]
    fn pieces_of_headers_add_up(
        bindings in prop::collection::vec("(x-match=(all|any) )?([abc]=[12] ?){0,3}", 1..30),
        sent in prop::collection::vec("[abcd]=[12]", 0..6),
        work_max in 1..60_u64,
    ) {
        let mut script = RoutingScript::new();
        for (number, asked) in bindings.iter().enumerate() {
            script.run(&format!("queue q{number}; bind amq.headers '' q{number} {asked}"));
        }
        let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        let properties = headers(&sent);
        let search = Search { exchange: "amq.headers", key: "", properties: &properties, work_max };
        let (_, found) = search.in_pieces(&mut script, |_, _| ());
        prop_assert_eq!(found, search.whole(&mut script));
    }
}

/// Whoever remembers where a search or a walk has come to finds nothing there once everything is gone, with its memory.
#[test]
fn a_search_and_a_walk_end_when_all_bindings_have_gone_between_two_pieces() {
    for (kind, key) in [("fanout", "k"), ("direct", "k"), ("topic", "k"), ("headers", "k"), ("x-consistent-hash", "7")]
    {
        let mut script = RoutingScript::new();
        script.run(&format!("exchange x {kind}"));
        for number in 0..300 {
            script.run(&format!("queue q{number}; bind x {key} q{number}"));
        }
        let walk = script.catalog.first_binding_from(exchange(&script, "x")).expect("there are many");
        let delete_all = |script: &mut RoutingScript, piece: usize| {
            if piece == 1 {
                (0..300).for_each(|number| _ = script.run(&format!("delete-queue q{number}")));
                while script.catalog.has_unfinished() {
                    script.execute(&catalog::Definition::Finish).expect("the rest");
                }
            }
        };
        let search = Search { exchange: "x", key, properties: &[0, 0], work_max: 10 };
        let (pieces, found) = search.in_pieces(&mut script, delete_all);
        assert!(pieces.len() > 1 && found.is_empty(), "{kind}: {pieces:?} {found:?}");
        assert!(script.catalog.binding_at(walk).is_none() && script.catalog.bindings_count() == 0);
    }
}

/// Whenever an exchange goes at which a search would look again for newer bindings, the search ends.
#[test]
fn a_search_ends_when_an_exchange_with_newer_bindings_goes() {
    for delete_at in 1..60 {
        let mut script = RoutingScript::new();
        script.run("exchange a fanout; exchange x fanout; bind-exchange a '' x; queue stays; bind a '' stays");
        (0..40).for_each(|number| _ = script.run(&format!("queue q{number}; bind x '' q{number}")));
        let change = |script: &mut RoutingScript, piece: usize| {
            assert!(piece < 1_000, "the search does not end if the exchange goes after piece {delete_at}");
            if piece == 1 {
                (40..300).for_each(|number| _ = script.run(&format!("queue q{number}; bind x '' q{number}")));
            }
            if piece == delete_at {
                script.run("delete-exchange x");
                while script.catalog.has_unfinished() {
                    script.execute(&catalog::Definition::Finish).expect("the rest");
                }
            }
        };
        let search = Search { exchange: "a", key: "", properties: &[0, 0], work_max: 10 };
        let (_, found) = search.in_pieces(&mut script, change);
        assert!(found.contains(&"stays".to_owned()), "{delete_at}: {found:?}");
    }
}
