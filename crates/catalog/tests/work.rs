//! Work: what definitions and routes cost, in the units that the catalog counts.
//!
//! Enters: definitions as somebody would make them who wants routing to take long.  Leaves: units of work.
//! Owns:   the bounds.

mod script;

use catalog::limits::HEADER_BYTES_SEARCHED_PER_WORK;
use catalog::{Catalog, Definition, ExchangeId, KeyedRoute, Name};
use proptest::prelude::*;
use script::{RoutingScript, check, table};
use wire::{List, Properties, RawProperties, Table, Value};

fn headers(entries: impl IntoIterator<Item = String>) -> Vec<u8> {
    let entries: Vec<String> = entries.into_iter().collect();
    let headers = Some(table(entries.iter().map(String::as_str)));
    Properties { headers, ..Properties::default() }.to_bytes()
}

fn exchange(script: &RoutingScript, name: &str) -> ExchangeId {
    script.catalog.exchange(script.vhost, name.as_bytes()).expect("there is one")
}

/// Queues that a message reaches, and the work.
fn routed(script: &mut RoutingScript, name: &str, key: &str, properties: &[u8]) -> (usize, u64) {
    let id = exchange(script, name);
    script.catalog.take_work();
    let route = script.catalog.route(id, key.as_bytes(), RawProperties::new(properties));
    (route.queues.len(), script.catalog.take_work())
}

fn bind(script: &mut RoutingScript, name: &str, key: &str, arguments: Table) -> u64 {
    let bind = catalog::Definition::BindQueue {
        vhost: script.vhost,
        exchange: name.into(),
        queue: "q".into(),
        routing_key: key.as_bytes().into(),
        arguments,
        session: None,
    };
    script.catalog.take_work();
    script.execute(&bind).expect("a binding");
    script.catalog.take_work()
}

const NOTHING: &[u8] = &[0, 0];

#[test]
fn a_remembered_route_is_no_work() {
    let mut script = RoutingScript::new();
    script
        .run("queue q; queue r; bind amq.topic a.# q; bind amq.topic a.* r; bind amq.direct k q; bind amq.fanout '' q");
    for (exchange, key) in [("amq.topic", "a.b"), ("amq.topic", "z"), ("amq.fanout", "k")] {
        assert!(routed(&mut script, exchange, key, NOTHING).1 > 0, "{exchange}");
        assert_eq!(routed(&mut script, exchange, key, NOTHING).1, 0, "{exchange}");
    }
    for (exchange, key) in [("", "q"), ("amq.direct", "k")] {
        assert_eq!(
            routed(&mut script, exchange, key, NOTHING),
            (1, 0),
            "{exchange} is no slower than what is remembered"
        );
    }
}

#[test]
fn each_headers_binding_that_is_looked_at_is_work() {
    let works = [10, 20].map(|bindings| {
        let mut script = RoutingScript::new();
        // More headers than bindings: each binding is held against them.
        for queue in 0..bindings {
            script.run(&format!("queue q{queue}; bind amq.headers '' q{queue} a=1 x-match=all"));
        }
        let message = headers((0..100).map(|n| format!("h{n}=0")));
        let (queues, work) = routed(&mut script, "amq.headers", "", &message);
        assert_eq!(queues, 0);
        work
    });
    // The binding, its first arguments, and the header that it asks for.
    assert_eq!(works[1] - works[0], 10 * 3, "{works:?}");
    let works = [10, 20].map(|bindings| {
        let mut script = RoutingScript::new();
        // They ask for nothing, and all of that is in any message.
        (0..bindings).for_each(|queue| _ = script.run(&format!("queue q{queue}; bind amq.headers '' q{queue}")));
        let (queues, work) = routed(&mut script, "amq.headers", "", &headers(["h=0".to_owned()]));
        assert_eq!(queues, bindings);
        work
    });
    assert!(works[1] - works[0] >= 10, "{works:?}");
}

#[test]
fn a_message_with_many_headers_is_compared_once_with_each_header_of_a_binding() {
    const BINDINGS: u64 = 8;
    const ASKED: u64 = 900;
    const SENT: u64 = 1_850;
    for mode in ["any", "all", "any-with-x", "all-with-x"] {
        let mut script = RoutingScript::new();
        for queue in 0..BINDINGS {
            // The last one alone differs, so that nothing is decided before.
            let asked = (0..ASKED).map(|n| format!("h{n}={}", u64::from(mode.starts_with("any") || n + 1 == ASKED)));
            let all: Vec<String> = asked.chain([format!("x-match={mode}")]).collect();
            script.run(&format!("queue q{queue}; bind amq.headers '' q{queue} {}", all.join(" ")));
        }
        let message = headers((0..SENT).map(|n| format!("h{n}=0")));
        let (queues, work) = routed(&mut script, "amq.headers", "", &message);
        assert_eq!(queues, 0, "{mode}");
        assert!(work <= 4 * SENT + 2 * BINDINGS * ASKED, "{mode}: {work}");
        let message = headers((0..SENT).map(|n| format!("h{n}=1")));
        let (queues, work) = routed(&mut script, "amq.headers", "", &message);
        assert_eq!(queues as u64, if mode.starts_with("any") { BINDINGS } else { 0 }, "{mode}");
        assert!(work <= 4 * SENT + 2 * BINDINGS * ASKED, "{mode}: {work}");
    }
}

#[test]
fn a_message_looks_at_the_bindings_that_ask_for_its_headers() {
    for mode in ["any", "all", "any-with-x", "all-with-x"] {
        let mut script = RoutingScript::new();
        script.run("queue q");
        for number in 0..3_000 {
            // What all ask for is no help, unless one of them is enough.
            let common = if mode.starts_with("all") { "a=1 z=void" } else { "" };
            script.run(&format!("bind amq.headers '' q x-match={mode} {common} n={number}"));
        }
        let message = headers(["a=1", "n=77", "z=2"].map(String::from));
        let (queues, work) = routed(&mut script, "amq.headers", "", &message);
        assert_eq!(queues, 1, "{mode}");
        assert!(work <= 40, "{mode}: {work}");
    }
}

#[test]
fn a_small_exchange_does_not_pay_for_each_header_of_a_message() {
    let mut script = RoutingScript::new();
    script.run("queue q; exchange x fanout");
    for number in 0..200 {
        script.run(&format!("exchange h{number} headers; bind-exchange x '' h{number}; bind h{number} '' q a=1"));
    }
    let message = headers((0..5_000).map(|n| format!("b{n}=1")).chain(["a=1".into()]));
    let (queues, work) = routed(&mut script, "x", "", &message);
    assert_eq!(queues, 1);
    assert!(work <= 5_001 + 200 * 10, "{work}");
}

#[test]
fn bindings_that_differ_in_their_arguments_alone_are_found_at_once() {
    let mut script = RoutingScript::new();
    script.run("queue q");
    let arguments = |number| Table::new().with("a", Value::I32(number)).expect("a short name");
    for number in 0..5_000 {
        let work = bind(&mut script, "amq.headers", "k", arguments(number));
        assert!(work <= 20, "{work} for number {number}");
    }
    let again = bind(&mut script, "amq.headers", "k", arguments(4_321));
    assert!(again <= 20 && script.catalog.bindings_count() == 5_000, "{again}");
    script.catalog.take_work();
    assert_eq!(script.run("unbind amq.headers k q a=7"), "");
    assert!(script.catalog.bindings_count() == 4_999 && script.catalog.take_work() <= 20);
}

/// All patterns of these words, shorter ones first.
fn patterns(words: &[&str], length_max: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut level = vec![String::new()];
    for length in 0..length_max {
        let longer =
            |before: &String, word: &&str| if length == 0 { (*word).into() } else { format!("{before}.{word}") };
        level = level.iter().flat_map(|before| words.iter().map(move |word| longer(before, word))).collect();
        all.extend(level.iter().cloned());
    }
    all
}

#[test]
fn a_key_of_many_words_visits_each_node_of_the_patterns_once() {
    let mut script = RoutingScript::new();
    script.run("queue q");
    let patterns = patterns(&["a", "*", "#"], 6);
    for pattern in &patterns {
        script.run(&format!("bind amq.topic {pattern} q"));
    }
    for words in [5, 62, 63, 64, 122] {
        let key = vec!["a"; words].join(".");
        let (queues, work) = routed(&mut script, "amq.topic", &key, NOTHING);
        assert_eq!(queues, 1);
        // Each node, the one word of the key there, and the binding at it; in the end each target.
        assert!(work <= 4 * patterns.len() as u64 + 200, "{words} words: {work} for {} patterns", patterns.len());
    }
}

#[test]
fn a_pattern_that_is_alone_is_looked_at_once_for_each_of_its_words() {
    let mut script = RoutingScript::new();
    script.run("queue q");
    let beginnings = patterns(&["a", "*", "#"], 4);
    // Nothing matches, which is clear at the last word only.
    let end = format!("#.{}b", "a.".repeat(60));
    for beginning in &beginnings {
        script.run(&format!("bind amq.topic {beginning}.{end} q"));
    }
    let key = vec!["a"; 122].join(".");
    let (queues, work) = routed(&mut script, "amq.topic", &key, NOTHING);
    assert_eq!(queues, 0);
    assert!(work <= (beginnings.len() as u64 + 1) * (62 + 10), "{work}");
}

#[test]
fn a_pattern_that_many_queues_share_moves_at_once() {
    let mut script = RoutingScript::new();
    let long = vec!["a"; 127].join(".");
    script.run("queue q");
    for queue in 0..2_000 {
        script.run(&format!("queue q{queue}; bind amq.topic {long} q{queue}"));
    }
    let work = bind(&mut script, "amq.topic", &format!("{}b", "a.".repeat(126)), Table::new());
    assert!(work <= 3 * 127, "{work}");
    assert_eq!(routed(&mut script, "amq.topic", &long, NOTHING).0, 2_000);
    // Each of them can go, wherever it is on the list.
    for queue in [0, 1_999, 1_000, 1_998, 1] {
        script.run(&format!("unbind amq.topic {long} q{queue}"));
    }
    assert_eq!(routed(&mut script, "amq.topic", &long, NOTHING).0, 1_995);
}

#[test]
fn the_bindings_of_other_exchanges_are_no_work_for_a_consistent_hash() {
    let mut script = RoutingScript::new();
    script.run("queue q; queue r; exchange x x-consistent-hash; bind x 1 r; bind x 7 q");
    for number in 0..3_000 {
        script.run(&format!("bind amq.direct {number} q"));
    }
    script.catalog.take_work();
    script.run("unbind x 7 q; bind x 1 q; bind x 2 q; unbind x 1 q");
    let work = script.catalog.take_work();
    assert!(work <= 40, "{work}");
}

#[test]
fn a_key_that_comes_twice_is_looked_for_once() {
    let mut script = RoutingScript::new();
    script.run("queue q; queue r; bind amq.topic a.# q; bind amq.topic #.b r");
    let id = exchange(&script, "amq.topic");
    let keys: Vec<&[u8]> = std::iter::repeat_n([&b"a.b"[..], b"a"], 10_000).flatten().collect();
    script.catalog.take_work();
    let route = script.catalog.route_all(id, &keys, RawProperties::EMPTY);
    assert_eq!(route.queues.len(), 2);
    let work = script.catalog.take_work();
    assert!(work <= 60, "{work}");
}

/// The queues of a route by keys that stops as often as it can.
fn in_pieces(catalog: &mut Catalog, from: ExchangeId, keys: &[&[u8]]) -> (usize, Vec<String>) {
    let mut search = KeyedRoute::new(from, keys.iter().copied());
    let mut pieces = 1;
    let route = loop {
        match catalog.continue_route(&mut search, RawProperties::EMPTY, 1) {
            Some(route) => break route,
            None => pieces += 1,
        }
    };
    (pieces, names(catalog, &route))
}

fn names(catalog: &Catalog, route: &catalog::QueueRoute) -> Vec<String> {
    let name = |queue: &catalog::RoutedQueue| catalog.queue_definition(queue.id).expect("there").name.to_string();
    route.queues.iter().map(name).collect()
}

#[test]
fn a_route_by_many_keys_can_stop_after_each() {
    let mut script = RoutingScript::new();
    script
        .run("queue q; queue r; queue s; exchange x topic; exchange y direct alternate-exchange=z; exchange z fanout");
    script.run("bind-exchange x #.y y; bind x a.# q; bind y b.y r; bind z '' s; bind x c q");
    let id = exchange(&script, "x");
    let (pieces, found) = in_pieces(&mut script.catalog, id, &[b"a", b"b.y", b"c"]);
    assert_eq!(found, ["q", "r"], "the alternate of y takes what none of the keys leads anywhere");
    assert!(pieces >= 6, "three keys at two exchanges: {pieces}");
    assert_eq!(in_pieces(&mut script.catalog, id, &[b"d.y"]).1, ["s"]);
    let default = exchange(&script, "");
    assert_eq!(in_pieces(&mut script.catalog, default, &[b"q", b"none", b"s"]).1, ["q", "s"]);
}

#[test]
fn a_route_by_many_keys_goes_on_when_definitions_have_changed() {
    let mut script = RoutingScript::new();
    script.run("queue q; queue r; exchange x direct; exchange y fanout; bind x a q; bind x b r; bind-exchange x a y; bind y '' r");
    let id = exchange(&script, "x");
    let keys: [&[u8]; 2] = [b"a", b"b"];
    let mut search = KeyedRoute::new(id, keys);
    assert!(script.catalog.continue_route(&mut search, RawProperties::EMPTY, 1).is_none());
    script.run("delete-queue q; delete-exchange y; exchange y fanout; queue new; bind y '' new; queue q");
    let route = script.catalog.continue_route(&mut search, RawProperties::EMPTY, u64::MAX).expect("no limit");
    assert_eq!(names(&script.catalog, &route), ["r"], "what has the name of what went has not its messages");
    let mut search = KeyedRoute::new(id, keys);
    script.run("delete-exchange x");
    let route = script.catalog.continue_route(&mut search, RawProperties::EMPTY, 1).expect("nothing to look for");
    assert!(route.is_empty());
}

#[test]
fn a_binding_that_replaces_another_during_a_search_is_found() {
    let keys: [&[u8]; 2] = [b"a", b"b"];
    for pieces in 1..4 {
        let mut script = RoutingScript::new();
        script.run("queue q; queue r; exchange x direct; bind x a r; bind x b q");
        let mut search = KeyedRoute::new(exchange(&script, "x"), keys);
        for _ in 0..pieces {
            assert!(script.catalog.continue_route(&mut search, RawProperties::EMPTY, 1).is_none(), "{pieces}");
        }
        script.run("bind x a q; unbind x b q");
        let route = script.catalog.continue_route(&mut search, RawProperties::EMPTY, u64::MAX).expect("no limit");
        assert_eq!(names(&script.catalog, &route), ["q", "r"], "after {pieces}");
    }
}

#[test]
fn a_search_ends_although_definitions_change_all_the_time() {
    let mut script = RoutingScript::new();
    script.run("queue q; queue r; exchange x direct; bind x a r; bind x b q");
    let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let mut search = KeyedRoute::new(exchange(&script, "x"), keys);
    let ended = (0..1_000).find_map(|number| {
        script.run(&format!("queue other{number}"));
        script.catalog.continue_route(&mut search, RawProperties::EMPTY, 1)
    });
    assert_eq!(names(&script.catalog, &ended.expect("it ends")), ["q", "r"]);
}

#[test]
fn a_route_by_many_keys_holds_each_queue_once() {
    let mut script = RoutingScript::new();
    for queue in 0..50 {
        script.run(&format!("queue q{queue}; bind amq.topic # q{queue}"));
    }
    let keys: Vec<String> = (0..5_000).map(|key| key.to_string()).collect();
    let mut search = KeyedRoute::new(exchange(&script, "amq.topic"), keys.iter().map(String::as_bytes));
    let mut bytes_max = 0;
    let route = loop {
        if let Some(route) = script.catalog.continue_route(&mut search, RawProperties::EMPTY, 1) {
            break route;
        }
        bytes_max = bytes_max.max(search.bytes());
    };
    assert_eq!(route.queues.len(), 50);
    let keys_bytes: usize = keys.iter().map(String::len).sum();
    assert!((keys_bytes..100_000).contains(&bytes_max), "{bytes_max} bytes for keys of {keys_bytes}");
}

/// A search of one key that stops after so much work, and what was done each time.
fn stepwise(script: &mut RoutingScript, name: &str, key: &str, work_max: u64) -> (Vec<u64>, Vec<String>) {
    let mut search = KeyedRoute::new(exchange(script, name), [key.as_bytes()]);
    let mut each = Vec::new();
    script.catalog.take_work();
    loop {
        let route = script.catalog.continue_route(&mut search, RawProperties::EMPTY, work_max);
        each.push(script.catalog.take_work());
        if let Some(route) = route {
            assert!(search.holds_at(script.catalog.version()));
            return (each, names(&script.catalog, &route));
        }
    }
}

#[test]
fn a_route_to_many_queues_is_found_a_piece_at_a_time() {
    let mut script = RoutingScript::new();
    script.run("exchange up x-federation-upstream x-downstream=me; exchange over fanout; exchange rest fanout; exchange none direct alternate-exchange=rest");
    script.run("bind-exchange over '' amq.fanout");
    for queue in 0..1_000 {
        script.run(&format!(
            "queue q{queue}; bind amq.fanout '' q{queue}; bind amq.direct k q{queue}; bind amq.topic a.# q{queue}"
        ));
        script.run(&format!("bind amq.topic a.* q{queue}; bind rest '' q{queue}"));
    }
    for (name, key) in [("amq.fanout", "k"), ("amq.direct", "k"), ("amq.topic", "a.b"), ("over", "k"), ("none", "k")] {
        let id = exchange(&script, name);
        let whole = script.catalog.route(id, key.as_bytes(), RawProperties::EMPTY);
        let whole = names(&script.catalog, &whole);
        assert_eq!(whole.len(), 1_000, "{name}");
        for work_max in [1, 7, 100] {
            let (each, found) = stepwise(&mut script, name, key, work_max);
            assert!(found == whole, "{name}");
            // The words of a key are read anew with each piece of a topic.
            let beyond = if name == "amq.topic" { 10 } else { 3 };
            let most = each.iter().max().copied().unwrap_or_default();
            assert!(most <= work_max + beyond && each.len() >= 2_000 / (work_max + beyond) as usize, "{name}: {most}");
        }
        script.run(&format!("queue other-{name}; bind amq.direct other other-{name}"));
        script.catalog.take_work();
        let begun = script.catalog.route_within(id, key.as_bytes(), RawProperties::EMPTY, 100);
        let work = script.catalog.take_work();
        assert!(begun.is_ok() || work < 200, "{name}: {work} units for nothing");
        assert!(begun.is_err() || name != "amq.direct", "what has changed is not remembered");
    }
}

#[test]
fn a_search_loses_no_queue_while_bindings_come_and_go() {
    for (name, key) in [("amq.fanout", "k"), ("amq.direct", "k"), ("amq.topic", "a.k")] {
        let bound = if name == "amq.topic" { "a.*" } else { "k" };
        let mut script = RoutingScript::new();
        for queue in 0..300 {
            script.run(&format!("queue q{queue}; bind {name} {bound} q{queue}"));
        }
        let mut search = KeyedRoute::new(exchange(&script, name), [key.as_bytes()]);
        let (mut gone, mut turns) = (0, 0);
        let route = loop {
            if let Some(route) = script.catalog.continue_route(&mut search, RawProperties::EMPTY, 20) {
                break route;
            }
            assert_eq!(search.holds_at(script.catalog.version()), turns == 0);
            // The next binding that it is to look at goes, with its queue; its place and that of the queue are others' at once.
            for queue in 0..if turns < 10 { 10 } else { 0 } {
                let queue = 299 - turns * 13 - queue;
                script.run(&format!("delete-queue q{queue}; queue new{queue}; queue bound{queue}"));
                script.run(&format!("bind {name} {bound} bound{queue}; bind {name} other new{queue}"));
                gone += 1;
            }
            turns += 1;
        };
        let found = names(&script.catalog, &route);
        let stayed = found.iter().filter(|name| name.starts_with('q')).count();
        assert_eq!(stayed, 300 - gone, "{name}: {turns} turns");
        let wrong = found.iter().filter(|found| found.starts_with("new")).count();
        assert!(wrong == 0 || name == "amq.fanout", "{name}: nothing that is not bound");
        assert!(turns >= 20, "{name}: {turns} turns");
    }
}

#[test]
fn of_several_headers_of_a_name_the_first_counts() {
    check(
        "queue q; bind amq.headers '' q x-match=any a=1; bind amq.headers '' q a=2 b=1; route amq.headers '' a=1 a=2;
         route amq.headers '' a=2 a=1; route amq.headers '' a=2 a=1 b=1; route amq.headers '' b=1 a=1 a=2 c=1 d=1 e=1 f=1 g=1 h=1 i=1",
        "q | - | q | q",
    );
}

/// A value as a script has it.
fn value() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("1"), Just("i64:1"), Just("f64:1"), Just("f64:1.5"), Just("s:1"), Just("true"), Just("void")]
}

fn entries(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![3 => Just("a"), 3 => Just("b"), 2 => Just("c"), 1 => Just("d"), 1 => Just("x-e")];
    prop::collection::vec((name, value()).prop_map(|(name, value)| format!("{name}={value}")), count)
}

/// Whether a message with these headers satisfies a binding, said as plainly as can be.
fn satisfies(mode: &str, asked: &Table, sent: &Table) -> bool {
    let mut holds =
        asked.iter().filter(|(name, _)| mode.ends_with("-with-x") || !name.starts_with(b"x-")).map(|(name, value)| {
            let name = name.to_str().expect("text");
            sent.get(name).is_some_and(|header| {
                let mut bytes = Vec::new();
                header.encode(&mut bytes);
                let header = wire::ListRef::new(&bytes).iter().next().expect("one").expect("sound");
                *value == Value::Void || value.is_equivalent(header)
            })
        });
    if mode.starts_with("all") { holds.all(|holds| holds) } else { holds.any(|holds| holds) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// However few or many headers and bindings there are, and while bindings come and go, the index finds what a plain look
    /// at each binding finds.
    #[test]
    fn headers_match(
        bindings in prop::collection::vec((prop::sample::select(&["all", "any", "all-with-x", "any-with-x"][..]), entries(0..4)), 1..12),
        gone in prop::collection::vec(any::<bool>(), 12),
        messages in prop::collection::vec((entries(0..6), 0..12usize), 1..8),
    ) {
        let mut script = RoutingScript::new();
        for (number, (mode, asked)) in bindings.iter().enumerate() {
            script.run(&format!("queue q{number:02}; bind amq.headers '' q{number:02} x-match={mode} {}", asked.join(" ")));
        }
        for (number, (mode, asked)) in bindings.iter().enumerate().filter(|(number, _)| gone[*number]) {
            script.run(&format!("unbind amq.headers '' q{number:02} x-match={mode} {}", asked.join(" ")));
        }
        for (sent, more) in &messages {
            let more: Vec<String> = (0..*more).map(|number| format!("more{number}=1")).collect();
            let all: Vec<&str> = sent.iter().chain(&more).map(String::as_str).collect();
            let message = table(all.iter().copied());
            let found = bindings.iter().enumerate().filter(|(number, (mode, asked))| {
                !gone[*number] && satisfies(mode, &table(asked.iter().map(String::as_str)), &message)
            });
            let found: Vec<String> = found.map(|(number, _)| format!("q{number:02}")).collect();
            let found = if found.is_empty() { "-".to_owned() } else { found.join(" ") };
            prop_assert_eq!(script.route("amq.headers", "", &all), found, "{:?}", all);
        }
    }

    /// Keys one by one, in pieces, lead where all of them lead at once.
    #[test]
    fn pieces_add_up(keys in prop::collection::vec("[ab](\\.[ab]){0,3}", 1..8)) {
        let mut script = RoutingScript::new();
        script.run("exchange x topic; queue q; queue r; queue s; exchange y topic; bind x a.# q; bind x *.b r; bind-exchange x b.# y; bind y #.a s");
        let id = exchange(&script, "x");
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let at_once = script.catalog.route_all(id, &keys, RawProperties::EMPTY);
        prop_assert_eq!(in_pieces(&mut script.catalog, id, &keys).1, names(&script.catalog, &at_once));
    }
}

#[test]
fn exchanges_that_look_for_a_header_pay_for_the_headers_before_it() {
    let hops = Value::List((0..20_000).map(Value::I32).collect::<List>());
    let headers = Table::new().with("x-received-from", hops).ok();
    let long = Properties { headers, ..Properties::default() }.to_bytes();
    for kind in [
        "x-consistent-hash hash-header=h",
        "x-delayed-message x-delayed-type=fanout",
        "x-federation-upstream x-max-hops=i64:1",
    ] {
        let mut script = RoutingScript::new();
        script.run("exchange f fanout");
        for number in 0..10 {
            script.run(&format!("exchange e{number} {kind}; bind-exchange f '' e{number}"));
        }
        let works = [NOTHING, &long].map(|properties| routed(&mut script, "f", "", properties).1);
        let searches = 10 * (long.len() / HEADER_BYTES_SEARCHED_PER_WORK) as u64;
        assert!((searches - 20..searches + 20).contains(&(works[1] - works[0])), "{kind}: {works:?}");
    }
}

#[test]
fn arguments_are_work_even_if_nothing_comes_of_them() {
    const ENTRIES: usize = 3_000;
    let mut script = RoutingScript::new();
    script.run("queue q; exchange x fanout");
    let arguments = |count: usize| -> Table {
        (0..count).map(|number| (format!("{number}").as_str().try_into().expect("short"), Value::Bool(true))).collect()
    };
    let vhost = script.vhost;
    let unbind = |arguments| {
        let (exchange, queue, routing_key, session) = (Name::from("x"), Name::from("q"), [].into(), None);
        Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session }
    };
    for what in ["new", "known"] {
        let work = bind(&mut script, "x", "", arguments(ENTRIES));
        assert!(work >= ENTRIES as u64, "{what}: {work}");
    }
    for what in ["removed", "gone"] {
        script.catalog.take_work();
        script.execute(&unbind(arguments(ENTRIES))).expect("nothing is refused");
        let work = script.catalog.take_work();
        assert!(work >= ENTRIES as u64, "{what}: {work}");
    }
    // No binding has as many as this one asks for: nobody looks for it.
    let outcome = script.execute(&unbind(arguments(40_000))).expect("nothing is refused");
    assert!(!outcome.changed);
}

#[test]
fn a_trace_is_read_up_to_the_hops_that_are_allowed_and_counted_for_each_new_binding() {
    let mut script = RoutingScript::new();
    script.run("queue q; queue r; exchange up x-federation-upstream x-max-hops=i64:2");
    for number in 0..20 {
        script.run(&format!("bind up {number} q"));
    }
    let mut hops = List::new();
    (0..5_000).for_each(|_| hops.push(Value::text("hop")));
    let headers = Table::new().with("x-received-from", Value::List(hops)).expect("short");
    let properties = Properties { headers: Some(headers), ..Properties::default() }.to_bytes();
    let properties = RawProperties::new(&properties);
    let from = exchange(&script, "up");
    let mut search = KeyedRoute::new(from, [&b"k"[..]]);
    assert!(script.catalog.continue_route(&mut search, properties, 1).is_none(), "it is divided");
    for number in 0..10 {
        script.run(&format!("bind up {number} r"));
    }
    script.catalog.take_work();
    while script.catalog.continue_route(&mut search, properties, 1).is_none() {}
    let work = script.catalog.take_work();
    assert!(work >= 10 * 5_000 * 8 / HEADER_BYTES_SEARCHED_PER_WORK as u64, "{work}");
}
