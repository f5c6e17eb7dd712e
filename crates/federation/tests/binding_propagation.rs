//! One binding propagation alone: what it requests of a source, when, and in what form.
//!
//! Proves what is promised of `x-bound-from`, of counting bindings, and of the choice among paths.

use catalog::arguments::{X_BOUND_FROM, X_HARRIER_WINDOW};
use federation::{BindingOperation, BindingPropagation, BrokerIdentity, RouteDirection, RouteKind, RouteSpec};
use wire::{List, ShortString, Table, TableRef, Value};

fn identity(name: &str) -> BrokerIdentity {
    BrokerIdentity { cluster_name: name.into(), vhost: "/".into() }
}

fn spec(hops_max: u16, forced: bool) -> RouteSpec {
    RouteSpec {
        exchange: "x".into(),
        kind: RouteKind::Dynamic,
        direction: RouteDirection::Pull,
        ack: federation::AckMode::Confirm,
        credit: 10,
        hops_max,
        durable: false,
        forced,
        dead_letter_exchange: None,
        options: Default::default(),
    }
}

/// The propagation of broker `me` to source `up`.
fn propagation() -> BindingPropagation {
    let mut propagation = BindingPropagation::new(identity("me"), &spec(5, false), 1);
    propagation.begin(Some(identity("up")), 'A');
    propagation
}

fn named(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Table {
    entries.into_iter().map(|(name, value)| (ShortString::try_from(name).expect("short"), value)).collect()
}

/// The argument of a binding that has passed these brokers, the nearest first, each with its hops: `b:4 c:5`.
fn path(text: &str) -> Value {
    let hop = |hop: &str| {
        let (name, hops) = hop.split_once(':').expect("a name and hops");
        Value::Table(named([
            ("cluster-name", Value::text(name)),
            ("vhost", Value::text("/")),
            ("exchange", Value::text("/:x A")),
            ("hops", Value::I16(hops.parse().expect("a number"))),
        ]))
    };
    Value::List(text.split(' ').map(hop).collect::<List>())
}

fn by(text: &str) -> Table {
    named([(X_BOUND_FROM, path(text))])
}

/// The path of a request as `b:4 c:5`, with its other arguments.
fn request_as_text(operation: BindingOperation<'_>) -> String {
    let arguments = operation.arguments.to_table().expect("what is written can be read");
    let mut text = format!("{}{}", if operation.bind { '+' } else { '-' }, String::from_utf8_lossy(operation.key));
    for (name, value) in arguments.iter() {
        if name != X_BOUND_FROM {
            text += &format!(" {name}={value:?}");
            continue;
        }
        let hops = value.as_list().expect("a list").iter().map(|hop| {
            let hop = hop.as_table().expect("a table");
            let field = |name| hop.get(name).and_then(Value::as_str).unwrap_or_default();
            assert_eq!(field("vhost"), "/");
            assert!(field("exchange").starts_with("/:x "), "{hop:?}");
            format!("{}:{}", field("cluster-name"), hop.get("hops").and_then(Value::as_i64).expect("a number"))
        });
        text += &format!(" [{}]", hops.collect::<Vec<_>>().join(" "));
    }
    text
}

fn requests(propagation: &mut BindingPropagation) -> String {
    let mut all = Vec::new();
    while let Some(operation) = propagation.next_operation(&mut { u64::MAX }) {
        all.push(request_as_text(operation));
    }
    assert!(!propagation.is_due());
    all.join(", ")
}

#[test]
fn equal_bindings_are_one_interest() {
    let mut propagation = propagation();
    propagation.add(b"a", None);
    propagation.add(b"a", Some(&Table::new()));
    propagation.add(b"a", Some(&named([("n", Value::I32(1))])));
    assert_eq!(requests(&mut propagation), "+a [me:5], +a n=I32(1) [me:5]");
    assert_eq!((propagation.requested(), propagation.interests()), (2, 2));
    assert!(propagation.remove(b"a", None));
    assert_eq!(requests(&mut propagation), "", "another binding is equal");
    assert!(propagation.remove(b"a", None));
    propagation.add(b"b", None);
    assert_eq!(requests(&mut propagation), "-a [me:5], +b [me:5]");
    assert!(!propagation.remove(b"a", None), "an unknown one");
    assert!(!propagation.remove(b"b", Some(&by("c:3"))), "not by this path");
    propagation.add(b"z", None);
    assert!(propagation.remove(b"z", None));
    assert_eq!(requests(&mut propagation), "", "a binding that was added and removed is left out");
    assert_eq!((propagation.requested(), propagation.interests()), (2, 2));
}

#[test]
fn bindings_from_downstream_are_propagated_with_this_broker_prepended() {
    for (argument, expected) in [
        (path("b:4"), "+k [me:3 b:4]"),
        (path("b:4 c:9"), "+k [me:3 b:4 c:9]"),
        (path("b:300"), "+k [me:5 b:300]"),
        (path("b:2"), "+k [me:1 b:2]"),
        // No hop is left.
        (path("b:1"), ""),
        (path("b:0"), ""),
        (path("b:-1"), ""),
        // It has passed the source, or this broker.
        (path("b:4 up:5"), ""),
        (path("up:5"), ""),
        (path("b:4 me:5"), ""),
        // Hops of every integer type.
        (
            Value::List(
                [Value::Table(named([("cluster-name", Value::text("b")), ("hops", Value::I64(1 << 40))]))]
                    .into_iter()
                    .collect::<List>(),
            ),
            "any vhost",
        ),
    ] {
        let mut propagation = propagation();
        let arguments = named([(X_BOUND_FROM, argument)]);
        propagation.add(b"k", Some(&arguments));
        if expected == "any vhost" {
            assert!(propagation.next_operation(&mut { u64::MAX }).is_some_and(|operation| operation.bind));
        } else {
            assert_eq!(requests(&mut propagation), expected);
        }
        while propagation.next_operation(&mut { u64::MAX }).is_some() {}
        assert_eq!(propagation.unreadable(), 0);
        assert!(propagation.remove(b"k", Some(&arguments)));
        while let Some(operation) = propagation.next_operation(&mut { u64::MAX }) {
            assert!(!operation.bind);
        }
        assert_eq!((propagation.requested(), propagation.interests()), (0, 0));
    }
}

#[test]
fn a_path_that_cannot_be_read_is_not_propagated() {
    let list = |values: Vec<Value>| Value::List(values.into_iter().collect::<List>());
    let hop = |entries: Vec<(&'static str, Value)>| Value::Table(named(entries));
    for argument in [
        Value::Bool(true),
        Value::Void,
        list(vec![]),
        list(vec![Value::text("b")]),
        list(vec![hop(vec![("cluster-name", Value::text("b"))])]),
        list(vec![hop(vec![("hops", Value::I16(3))])]),
        list(vec![hop(vec![("cluster-name", Value::I16(3)), ("hops", Value::I16(3))])]),
        list(vec![hop(vec![("cluster-name", Value::text("b")), ("vhost", Value::Void), ("hops", Value::I16(3))])]),
        list(vec![hop(vec![("cluster-name", Value::text("b")), ("hops", Value::text("many"))])]),
        list(vec![hop(vec![("cluster-name", Value::text("b")), ("hops", Value::I16(3))]), Value::I16(1)]),
        list(vec![hop(vec![("cluster-name", Value::text("b")), ("hops", Value::I16(9))]); 256]),
    ] {
        let mut propagation = propagation();
        let arguments = named([(X_BOUND_FROM, argument)]);
        propagation.add(b"k", Some(&arguments));
        assert_eq!(
            (propagation.interests(), propagation.unreadable(), requests(&mut propagation)),
            (0, 1, String::new()),
            "{arguments:?}"
        );
        assert!(propagation.remove(b"k", Some(&arguments)));
        assert!(!propagation.remove(b"k", Some(&arguments)));
        assert_eq!(propagation.unreadable(), 0);
    }
}

#[test]
fn a_hop_without_a_virtual_host_matches_every_broker_of_its_name() {
    let mut propagation = propagation();
    let hop = named([("cluster-name", Value::text("up")), ("hops", Value::I16(3))]);
    let arguments = named([(X_BOUND_FROM, Value::List([Value::Table(hop)].into_iter().collect::<List>()))]);
    propagation.add(b"k", Some(&arguments));
    assert_eq!(requests(&mut propagation), "");
}

#[test]
fn the_best_path_is_propagated_and_bound_before_the_old_one_is_unbound() {
    let mut propagation = propagation();
    propagation.add(b"k", Some(&by("b:3 c:4 d:5")));
    assert_eq!(requests(&mut propagation), "+k [me:2 b:3 c:4 d:5]");
    propagation.add(b"k", Some(&by("b:4 d:5")));
    assert_eq!(requests(&mut propagation), "+k [me:3 b:4 d:5], -k [me:2 b:3 c:4 d:5]");
    propagation.add(b"k", Some(&by("b:5")));
    assert_eq!(requests(&mut propagation), "+k [me:4 b:5], -k [me:3 b:4 d:5]");
    propagation.add(b"k", None);
    assert_eq!(requests(&mut propagation), "+k [me:5], -k [me:4 b:5]");
    assert!(propagation.remove(b"k", Some(&by("b:5"))));
    assert_eq!(requests(&mut propagation), "");
    assert!(propagation.remove(b"k", None));
    assert_eq!(requests(&mut propagation), "+k [me:3 b:4 d:5], -k [me:5]");
    assert_eq!((propagation.requested(), propagation.interests()), (1, 1));
}

#[test]
fn an_equally_good_path_replaces_none() {
    let mut propagation = propagation();
    propagation.add(b"k", Some(&by("c:4 z:5")));
    assert_eq!(requests(&mut propagation), "+k [me:3 c:4 z:5]");
    propagation.add(b"k", Some(&by("c:4 y:5")));
    assert!(propagation.remove(b"k", Some(&by("c:4 z:5"))));
    propagation.add(b"k", Some(&by("c:4 z:5")));
    // The path of `y` avoids `z`, so both are propagated; none avoids `c`.
    assert_eq!(requests(&mut propagation), "+k [me:3 c:4 y:5]");
    propagation.add(b"k", Some(&by("c:4 x:5")));
    assert_eq!(requests(&mut propagation), "", "two paths avoid each other's last broker");
    assert_eq!(propagation.requested(), 2);
}

#[test]
fn one_path_goes_around_the_brokers_of_another() {
    let mut propagation = propagation();
    propagation.add(b"k", Some(&by("b:5")));
    propagation.add(b"k", Some(&by("c:5")));
    propagation.add(b"k", Some(&by("d:5")));
    assert_eq!(requests(&mut propagation), "+k [me:4 b:5], +k [me:4 c:5]", "two paths suffice, however many there are");
    assert!(propagation.remove(b"k", Some(&by("b:5"))));
    assert_eq!(requests(&mut propagation), "+k [me:4 d:5], -k [me:4 b:5]");
}

#[test]
fn a_reconnecting_downstream_changes_nothing() {
    let mut propagation = propagation();
    let again = {
        let Value::List(mut list) = path("b:4") else { panic!("a list") };
        let mut hop = list.iter().next().and_then(Value::as_table).expect("a table").clone();
        hop.set(ShortString::try_from("exchange").expect("short"), Value::text("/:x B"));
        list = [Value::Table(hop)].into_iter().collect();
        named([(X_BOUND_FROM, Value::List(list))])
    };
    propagation.add(b"k", Some(&by("b:4")));
    assert_eq!(requests(&mut propagation), "+k [me:3 b:4]");
    propagation.add(b"k", Some(&again));
    assert!(propagation.remove(b"k", Some(&by("b:4"))));
    assert_eq!(requests(&mut propagation), "");
    assert!(propagation.remove(b"k", Some(&again)));
    assert_eq!(requests(&mut propagation), "-k [me:3 b:4]");
}

#[test]
fn a_new_exchange_gets_all_bindings_and_an_old_one_the_differences() {
    let mut propagation = propagation();
    let down = by("b:4");
    propagation.add(b"a", None);
    propagation.add(b"b", Some(&down));
    propagation.add(b"c", None);
    assert_eq!(requests(&mut propagation), "+a [me:5], +b [me:3 b:4], +c [me:5]");
    propagation.resync([(&b"b"[..], Some(&down)), (b"c", None), (b"d", None)]);
    assert_eq!(requests(&mut propagation), "-a [me:5], +d [me:5]");
    propagation.resync([(&b"b"[..], Some(&down)), (b"c", None), (b"d", None)]);
    assert_eq!(requests(&mut propagation), "");
    propagation.restart();
    assert_eq!(propagation.requested(), 0);
    let mut again: Vec<String> = requests(&mut propagation).split(", ").map(str::to_owned).collect();
    again.sort_unstable();
    assert_eq!(again, ["+b [me:3 b:4]", "+c [me:5]", "+d [me:5]"]);
    // Another source, which one of the bindings has passed.
    propagation.begin(Some(identity("b")), 'B');
    let mut again: Vec<String> = requests(&mut propagation).split(", ").map(str::to_owned).collect();
    again.sort_unstable();
    assert_eq!(again, ["+c [me:5]", "+d [me:5]"]);
    // A reconnection does not forget an interest that is being unbound.
    assert!(propagation.remove(b"c", None));
    propagation.begin(None, 'A');
    let mut again: Vec<String> = requests(&mut propagation).split(", ").map(str::to_owned).collect();
    again.sort_unstable();
    assert_eq!(again, ["+b [me:3 b:4]", "+d [me:5]"]);
}

#[test]
fn a_forced_route_requests_stamps_and_others_propagate_the_request() {
    let stamped = named([(X_BOUND_FROM, path("b:4")), (X_HARRIER_WINDOW, Value::Bool(true))]);
    let mut plain = propagation();
    plain.add(b"k", Some(&stamped));
    assert_eq!(requests(&mut plain), "+k x-harrier-window=Bool(true) [me:3 b:4]");
    let mut forced = BindingPropagation::new(identity("me"), &spec(5, true), 1);
    forced.begin(Some(identity("up")), 'A');
    forced.add(b"k", Some(&stamped));
    forced.add(b"k", None);
    assert_eq!(
        requests(&mut forced),
        "+k [me:5] x-harrier-window=Bool(true)",
        "one interest, with a stamp in any case"
    );
}

#[test]
fn a_route_without_hops_requests_nothing() {
    let mut propagation = BindingPropagation::new(identity("me"), &spec(0, false), 1);
    propagation.begin(Some(identity("up")), 'A');
    propagation.add(b"k", None);
    propagation.add(b"k", Some(&by("b:4")));
    assert_eq!(requests(&mut propagation), "");
    assert_eq!(propagation.interests(), 1);
}

#[test]
fn arguments_that_exceed_their_limit_are_not_requested() {
    let mut propagation = propagation();
    let limit = catalog::limits::ARGUMENTS_BYTES_MAX;
    let large = |bytes: usize| named([("n", Value::LongStr(vec![b'n'; bytes].into()))]);
    propagation.add(b"k", Some(&large(limit - 11)));
    assert_eq!(requests(&mut propagation), "");
    propagation.add(b"k", Some(&large(limit - 300)));
    let operation = propagation.next_operation(&mut { u64::MAX }).expect("the path fits");
    assert!(operation.arguments.to_table().expect("it can be read").encoded_len() <= limit);
}

#[test]
fn a_hundred_thousand_interests_take_modest_memory_and_differences_are_found() {
    const WANTS: usize = 100_000;
    let mut propagation = propagation();
    let keys: Vec<String> = (0..WANTS).map(|number| format!("market.{number:07}.*.trade")).collect();
    propagation.resync(keys.iter().map(|key| (key.as_bytes(), None)));
    let mut count = 0;
    while let Some(operation) = propagation.next_operation(&mut { u64::MAX }) {
        assert!(operation.bind && operation.arguments != TableRef::EMPTY);
        count += 1;
    }
    assert_eq!((count, propagation.requested()), (WANTS, WANTS as u64));
    let bytes = propagation.bytes() / WANTS;
    println!("{bytes} bytes an interest");
    assert!(bytes <= 160, "{bytes} bytes an interest");
    propagation.resync(keys.iter().skip(1).map(|key| (key.as_bytes(), None)).chain([(&b"new"[..], None)]));
    assert_eq!(requests(&mut propagation), "-market.0000000.*.trade [me:5], +new [me:5]");
}

/// Clients can make any number of paths: a route chooses among a few hundred, and loses none of the others.
#[test]
fn of_very_many_paths_some_are_passed_over_until_others_have_gone() {
    const PATHS: usize = 1_000;
    let mut propagation = propagation();
    let paths: Vec<Table> = (0..PATHS).map(|number| by(&format!("b{number}:5"))).collect();
    paths.iter().for_each(|path| propagation.add(b"k", Some(path)));
    assert_eq!(requests(&mut propagation), "+k [me:4 b0:5], +k [me:4 b1:5]");
    // One that was passed over may go, and come again.
    assert!(propagation.remove(b"k", Some(&paths[PATHS - 1])));
    propagation.add(b"k", Some(&paths[PATHS - 1]));
    for step in [1, 7, 400] {
        for (number, gone) in paths.chunks(step).enumerate() {
            gone.iter().for_each(|path| assert!(propagation.remove(b"k", Some(path))));
            // Whatever is left is requested.
            requests(&mut propagation);
            let left = PATHS.saturating_sub((number + 1) * step);
            assert_eq!(propagation.requested(), left.min(2) as u64, "{left} are left");
        }
        assert_eq!((propagation.interests(), propagation.requested()), (0, 0));
        assert!(!propagation.remove(b"k", Some(&paths[0])), "it is known no more");
        // Some twice, so that they have to go twice.
        paths.iter().for_each(|path| propagation.add(b"k", Some(path)));
        paths.iter().for_each(|path| propagation.add(b"k", Some(path)));
        paths.iter().for_each(|path| assert!(propagation.remove(b"k", Some(path))));
        propagation.resync(paths.iter().map(|path| (&b"k"[..], Some(path))));
        requests(&mut propagation);
        assert_eq!(propagation.requested(), 2);
    }
    // Paths that may not be propagated take nobody's place, however many there are, and may be once the source is another.
    paths.iter().for_each(|path| assert!(propagation.remove(b"k", Some(path))));
    let barred: Vec<Table> = (0..PATHS).map(|number| by(&format!("b{number}:5 up:4"))).collect();
    barred.iter().for_each(|path| propagation.add(b"k", Some(path)));
    propagation.add(b"k", Some(&paths[7]));
    assert_eq!(requests(&mut propagation).matches('+').count(), 1);
    assert_eq!(propagation.requested(), 1);
    propagation.begin(Some(identity("b7")), 'B');
    assert_eq!(requests(&mut propagation).matches("up:4]").count(), 2, "around each other");
    propagation.begin(Some(identity("up")), 'C');
    assert_eq!(requests(&mut propagation), "+k [me:4 b7:5]");
    barred.iter().for_each(|path| assert!(propagation.remove(b"k", Some(path))));
    assert!(propagation.remove(b"k", Some(&paths[7])));
    barred[..3].iter().for_each(|path| propagation.add(b"k", Some(path)));
    assert_eq!((requests(&mut propagation), propagation.interests()), ("-k [me:4 b7:5]".into(), 1));
    barred[..3].iter().for_each(|path| assert!(propagation.remove(b"k", Some(path))));
    assert_eq!((requests(&mut propagation), propagation.interests()), (String::new(), 0));
    paths.iter().for_each(|path| propagation.add(b"k", Some(path)));
    // This broker's own is never passed over.
    propagation.add(b"k", None);
    assert_eq!(requests(&mut propagation), "+k [me:5]");
}

/// An interest that very many long paths express takes a bounded time for each request, and a round ends where it is spent.
#[test]
fn the_choice_among_long_paths_is_bounded_work() {
    let mut propagation = propagation();
    let common: Vec<String> = (0..254).map(|number| format!("broker-{number}:5")).collect();
    for key in [b"a", b"b"] {
        for last in 0..600 {
            propagation.add(key, Some(&by(&format!("{} last-{last}:5", common.join(" ")))));
        }
    }
    let begun = 1_000_000;
    let mut left = begun;
    assert!(propagation.next_operation(&mut left).is_some_and(|operation| operation.key == b"a"));
    assert!((1..80_000).contains(&(begun - left)), "{} units of work", begun - left);
    let (mut rounds, mut found) = (0, 0);
    while propagation.is_due() {
        rounds += 1;
        let mut left = 100;
        while propagation.next_operation(&mut left).is_some() {
            found += 1;
        }
        assert!(left == 0 || !propagation.is_due(), "a round ends when its work is spent");
        assert!(rounds < 20);
    }
    assert_eq!((found, propagation.requested()), (3, 4), "two paths for each interest");
    assert!(rounds >= 4, "{rounds} rounds");
}
