//! A mirror by itself: what it asks a source for, when, and in what form.
//!
//! Enters: bindings that come and go.  Leaves: operations, as text.
//! Owns:   the promises about `x-bound-from`, about counting, and about the choice among paths.
//! Never:  needs a broker.

use catalog::arguments::{X_BOUND_FROM, X_HARRIER_WINDOW};
use federation::{RouteDirection, BrokerIdentity, BindingPropagation, BindingOperation, RouteKind, RouteSpec};
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
    }
}

/// That of broker `me` for source `up`.
fn mirror() -> BindingPropagation {
    let mut mirror = BindingPropagation::new(identity("me"), &spec(5, false), 1);
    mirror.begin(Some(identity("up")), 'A');
    mirror
}

fn named(entries: impl IntoIterator<Item = (&'static str, Value)>) -> Table {
    entries.into_iter().map(|(name, value)| (ShortString::try_from(name).expect("short"), value)).collect()
}

/// The argument of a want that came by these brokers, the nearest first, each with its hops: `b:4 c:5`.
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

/// `b:4 c:5` of what is asked for, and whatever other arguments there are.
fn shown(operation: BindingOperation<'_>) -> String {
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

fn asked(mirror: &mut BindingPropagation) -> String {
    let mut all = Vec::new();
    while let Some(operation) = mirror.next_operation() {
        all.push(shown(operation));
    }
    assert!(!mirror.is_due());
    all.join(", ")
}

#[test]
fn bindings_that_say_the_same_are_one() {
    let mut mirror = mirror();
    mirror.add(b"a", None);
    mirror.add(b"a", Some(&Table::new()));
    mirror.add(b"a", Some(&named([("n", Value::I32(1))])));
    assert_eq!(asked(&mut mirror), "+a [me:5], +a n=I32(1) [me:5]");
    assert_eq!((mirror.requested(), mirror.interests()), (2, 2));
    assert!(mirror.remove(b"a", None));
    assert_eq!(asked(&mut mirror), "", "another binding says it");
    assert!(mirror.remove(b"a", None));
    mirror.add(b"b", None);
    assert_eq!(asked(&mut mirror), "-a [me:5], +b [me:5]");
    assert!(!mirror.remove(b"a", None), "one that is not there");
    assert!(!mirror.remove(b"b", Some(&by("c:3"))), "not by this path");
    mirror.add(b"z", None);
    assert!(mirror.remove(b"z", None));
    assert_eq!(asked(&mut mirror), "", "what came and went is not said");
    assert_eq!((mirror.requested(), mirror.interests()), (2, 2));
}

#[test]
fn what_came_from_further_down_goes_on_with_this_broker_in_front() {
    for (argument, expected) in [
        (path("b:4"), "+k [me:3 b:4]"),
        (path("b:4 c:9"), "+k [me:3 b:4 c:9]"),
        (path("b:300"), "+k [me:5 b:300]"),
        (path("b:2"), "+k [me:1 b:2]"),
        // That was the last hop.
        (path("b:1"), ""),
        (path("b:0"), ""),
        (path("b:-1"), ""),
        // It has been there, or here.
        (path("b:4 up:5"), ""),
        (path("up:5"), ""),
        (path("b:4 me:5"), ""),
        // Numbers of every type.
        (
            Value::List(
                [Value::Table(named([("cluster-name", Value::text("b")), ("hops", Value::I64(1 << 40))]))]
                    .into_iter()
                    .collect::<List>(),
            ),
            "any vhost",
        ),
    ] {
        let mut mirror = mirror();
        let arguments = named([(X_BOUND_FROM, argument)]);
        mirror.add(b"k", Some(&arguments));
        if expected == "any vhost" {
            assert!(mirror.next_operation().is_some_and(|operation| operation.bind));
        } else {
            assert_eq!(asked(&mut mirror), expected);
        }
        while mirror.next_operation().is_some() {}
        assert_eq!(mirror.unreadable(), 0);
        assert!(mirror.remove(b"k", Some(&arguments)));
        while let Some(operation) = mirror.next_operation() {
            assert!(!operation.bind);
        }
        assert_eq!((mirror.requested(), mirror.interests()), (0, 0));
    }
}

#[test]
fn a_path_that_cannot_be_read_ends_here() {
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
        let mut mirror = mirror();
        let arguments = named([(X_BOUND_FROM, argument)]);
        mirror.add(b"k", Some(&arguments));
        assert_eq!((mirror.interests(), mirror.unreadable(), asked(&mut mirror)), (0, 1, String::new()), "{arguments:?}");
        assert!(mirror.remove(b"k", Some(&arguments)));
        assert!(!mirror.remove(b"k", Some(&arguments)));
        assert_eq!(mirror.unreadable(), 0);
    }
}

#[test]
fn a_source_that_names_no_virtual_host_is_on_every_path_of_its_name() {
    let mut mirror = mirror();
    let hop = named([("cluster-name", Value::text("up")), ("hops", Value::I16(3))]);
    let arguments = named([(X_BOUND_FROM, Value::List([Value::Table(hop)].into_iter().collect::<List>()))]);
    mirror.add(b"k", Some(&arguments));
    assert_eq!(asked(&mut mirror), "");
}

#[test]
fn of_many_paths_the_best_goes_on_and_the_new_one_is_bound_first() {
    let mut mirror = mirror();
    mirror.add(b"k", Some(&by("b:3 c:4 d:5")));
    assert_eq!(asked(&mut mirror), "+k [me:2 b:3 c:4 d:5]");
    mirror.add(b"k", Some(&by("b:4 d:5")));
    assert_eq!(asked(&mut mirror), "+k [me:3 b:4 d:5], -k [me:2 b:3 c:4 d:5]");
    mirror.add(b"k", Some(&by("b:5")));
    assert_eq!(asked(&mut mirror), "+k [me:4 b:5], -k [me:3 b:4 d:5]");
    mirror.add(b"k", None);
    assert_eq!(asked(&mut mirror), "+k [me:5], -k [me:4 b:5]");
    assert!(mirror.remove(b"k", Some(&by("b:5"))));
    assert_eq!(asked(&mut mirror), "");
    assert!(mirror.remove(b"k", None));
    assert_eq!(asked(&mut mirror), "+k [me:3 b:4 d:5], -k [me:5]");
    assert_eq!((mirror.requested(), mirror.interests()), (1, 1));
}

#[test]
fn as_good_a_path_does_not_replace_one_that_is_there() {
    let mut mirror = mirror();
    mirror.add(b"k", Some(&by("c:4 z:5")));
    assert_eq!(asked(&mut mirror), "+k [me:3 c:4 z:5]");
    mirror.add(b"k", Some(&by("c:4 y:5")));
    assert!(mirror.remove(b"k", Some(&by("c:4 z:5"))));
    mirror.add(b"k", Some(&by("c:4 z:5")));
    // `z` is avoided by `y`, so both go on; `c` by none.
    assert_eq!(asked(&mut mirror), "+k [me:3 c:4 y:5]");
    mirror.add(b"k", Some(&by("c:4 x:5")));
    assert_eq!(asked(&mut mirror), "", "two avoid each other's last broker");
    assert_eq!(mirror.requested(), 2);
}

#[test]
fn one_path_goes_around_the_brokers_of_another() {
    let mut mirror = mirror();
    mirror.add(b"k", Some(&by("b:5")));
    mirror.add(b"k", Some(&by("c:5")));
    mirror.add(b"k", Some(&by("d:5")));
    assert_eq!(asked(&mut mirror), "+k [me:4 b:5], +k [me:4 c:5]", "however many there are, two are enough");
    assert!(mirror.remove(b"k", Some(&by("b:5"))));
    assert_eq!(asked(&mut mirror), "+k [me:4 d:5], -k [me:4 b:5]");
}

#[test]
fn a_new_connection_of_a_downstream_is_no_change() {
    let mut mirror = mirror();
    let again = {
        let Value::List(mut list) = path("b:4") else { panic!("a list") };
        let mut hop = list.iter().next().and_then(Value::as_table).expect("a table").clone();
        hop.set(ShortString::try_from("exchange").expect("short"), Value::text("/:x B"));
        list = [Value::Table(hop)].into_iter().collect();
        named([(X_BOUND_FROM, Value::List(list))])
    };
    mirror.add(b"k", Some(&by("b:4")));
    assert_eq!(asked(&mut mirror), "+k [me:3 b:4]");
    mirror.add(b"k", Some(&again));
    assert!(mirror.remove(b"k", Some(&by("b:4"))));
    assert_eq!(asked(&mut mirror), "");
    assert!(mirror.remove(b"k", Some(&again)));
    assert_eq!(asked(&mut mirror), "-k [me:3 b:4]");
}

#[test]
fn a_fresh_exchange_is_filled_and_a_kept_one_corrected() {
    let mut mirror = mirror();
    let down = by("b:4");
    mirror.add(b"a", None);
    mirror.add(b"b", Some(&down));
    mirror.add(b"c", None);
    assert_eq!(asked(&mut mirror), "+a [me:5], +b [me:3 b:4], +c [me:5]");
    mirror.resync([(&b"b"[..], Some(&down)), (b"c", None), (b"d", None)]);
    assert_eq!(asked(&mut mirror), "-a [me:5], +d [me:5]");
    mirror.resync([(&b"b"[..], Some(&down)), (b"c", None), (b"d", None)]);
    assert_eq!(asked(&mut mirror), "");
    mirror.restart();
    assert_eq!(mirror.requested(), 0);
    let mut again: Vec<String> = asked(&mut mirror).split(", ").map(str::to_owned).collect();
    again.sort_unstable();
    assert_eq!(again, ["+b [me:3 b:4]", "+c [me:5]", "+d [me:5]"]);
    // Another source, which that want has come through.
    mirror.begin(Some(identity("b")), 'B');
    let mut again: Vec<String> = asked(&mut mirror).split(", ").map(str::to_owned).collect();
    again.sort_unstable();
    assert_eq!(again, ["+c [me:5]", "+d [me:5]"]);
    // One in the middle of being unbound is not forgotten by a change of connection.
    assert!(mirror.remove(b"c", None));
    mirror.begin(None, 'A');
    let mut again: Vec<String> = asked(&mut mirror).split(", ").map(str::to_owned).collect();
    again.sort_unstable();
    assert_eq!(again, ["+b [me:3 b:4]", "+d [me:5]"]);
}

#[test]
fn a_forced_route_asks_for_stamps_and_others_pass_that_on() {
    let stamped = named([(X_BOUND_FROM, path("b:4")), (X_HARRIER_WINDOW, Value::Bool(true))]);
    let mut plain = mirror();
    plain.add(b"k", Some(&stamped));
    assert_eq!(asked(&mut plain), "+k x-harrier-window=Bool(true) [me:3 b:4]");
    let mut forced = BindingPropagation::new(identity("me"), &spec(5, true), 1);
    forced.begin(Some(identity("up")), 'A');
    forced.add(b"k", Some(&stamped));
    forced.add(b"k", None);
    assert_eq!(asked(&mut forced), "+k [me:5] x-harrier-window=Bool(true)", "one want, with a stamp in any case");
}

#[test]
fn a_route_without_hops_asks_for_nothing() {
    let mut mirror = BindingPropagation::new(identity("me"), &spec(0, false), 1);
    mirror.begin(Some(identity("up")), 'A');
    mirror.add(b"k", None);
    mirror.add(b"k", Some(&by("b:4")));
    assert_eq!(asked(&mut mirror), "");
    assert_eq!(mirror.interests(), 1);
}

#[test]
fn what_is_too_large_for_a_binding_is_not_asked_for() {
    let mut mirror = mirror();
    let limit = catalog::limits::ARGUMENTS_BYTES_MAX;
    let large = |bytes: usize| named([("n", Value::LongStr(vec![b'n'; bytes].into()))]);
    mirror.add(b"k", Some(&large(limit - 11)));
    assert_eq!(asked(&mut mirror), "");
    mirror.add(b"k", Some(&large(limit - 300)));
    let operation = mirror.next_operation().expect("there is room for the path");
    assert!(operation.arguments.to_table().expect("it can be read").encoded_len() <= limit);
}

#[test]
fn a_hundred_thousand_wants_take_modest_memory_and_their_difference_is_found() {
    const WANTS: usize = 100_000;
    let mut mirror = mirror();
    let keys: Vec<String> = (0..WANTS).map(|number| format!("market.{number:07}.*.trade")).collect();
    mirror.resync(keys.iter().map(|key| (key.as_bytes(), None)));
    let mut count = 0;
    while let Some(operation) = mirror.next_operation() {
        assert!(operation.bind && operation.arguments != TableRef::EMPTY);
        count += 1;
    }
    assert_eq!((count, mirror.requested()), (WANTS, WANTS as u64));
    let bytes = mirror.bytes() / WANTS;
    println!("{bytes} bytes a want");
    assert!(bytes <= 160, "{bytes} bytes a want");
    mirror.resync(keys.iter().skip(1).map(|key| (key.as_bytes(), None)).chain([(&b"new"[..], None)]));
    assert_eq!(asked(&mut mirror), "-market.0000000.*.trade [me:5], +new [me:5]");
}
