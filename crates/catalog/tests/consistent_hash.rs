//! Consistent-hash exchanges: whose share is how large, and what moves when bindings come and go.
//!
//! Enters: scripts, and many keys.  Leaves: counts, and the queues before and after a change.
//! Owns:   the promises about shares.

mod script;

use catalog::{CatalogLimits, RouteDependence};
use script::{RoutingScript, check, table};
use std::collections::BTreeMap;
use wire::{Properties, RawProperties, ShortString};

const KEYS: usize = 20_000;

/// Where each of many keys goes.
fn routes(script: &mut RoutingScript, exchange: &str) -> Vec<String> {
    (0..KEYS).map(|key| script.route(exchange, &format!("key.{key}"), &[])).collect()
}

fn shares(routes: &[String]) -> BTreeMap<&str, f64> {
    let mut shares = BTreeMap::new();
    for route in routes {
        *shares.entry(route.as_str()).or_insert(0.0) += 1.0 / routes.len() as f64;
    }
    shares
}

/// Four standard deviations of a share of so many keys.
fn tolerance(share: f64) -> f64 {
    4.0 * (share * (1.0 - share) / KEYS as f64).sqrt()
}

#[test]
fn messages_are_spread_in_proportion_to_the_weights() {
    for weights in [&[1, 1][..], &[1, 1, 1, 1, 1, 1, 1, 1], &[1, 2, 3, 4], &[20, 1, 1], &[1_000_000_000, 1_000_000_000]]
    {
        let mut script = RoutingScript::new();
        script.run("exchange x x-consistent-hash");
        for (queue, weight) in weights.iter().enumerate() {
            assert_eq!(script.run(&format!("queue q{queue}; bind x {weight} q{queue}")), "");
        }
        let routes = routes(&mut script, "x");
        let shares = shares(&routes);
        let sum: i64 = weights.iter().sum();
        assert_eq!(shares.len(), weights.len(), "one queue a message: {shares:?}");
        for (queue, weight) in weights.iter().enumerate() {
            let (share, expected) = (shares[&*format!("q{queue}")], *weight as f64 / sum as f64);
            assert!((share - expected).abs() < tolerance(expected), "{weights:?}: q{queue} has {share}");
        }
    }
}

#[test]
fn the_oldest_of_several_bindings_to_one_queue_counts() {
    let mut script = RoutingScript::new();
    script.run("exchange x x-consistent-hash; queue q1; queue q2; bind x 3 q1; bind x 1 q1; bind x 2 q1; bind x 1 q2; bind x 3 q2 a=1");
    let mut share = |change: &str, expected: f64| {
        script.run(change);
        let share = shares(&routes(&mut script, "x")).get("q1").copied().unwrap_or_default();
        assert!((share - expected).abs() <= tolerance(expected), "{change}: {share}");
    };
    share("", 0.75);
    share("unbind x 2 q1; bind x 2 q1", 0.75);
    share("unbind x 3 q1", 0.5);
    share("unbind x 1 q2", 0.25);
    share("unbind x 1 q1", 0.4);
    share("unbind x 2 q1", 0.0);
}

#[test]
fn a_binding_that_comes_or_goes_moves_its_own_share_alone() {
    let mut script = RoutingScript::new();
    script.run("exchange x x-consistent-hash; exchange y fanout; queue p; bind y '' p");
    for queue in 0..8 {
        script.run(&format!("queue q{queue}; bind x {} q{queue}", 1 + queue % 3));
    }
    for change in ["bind-exchange x 2 y", "unbind x 1 q3", "delete-queue q4", "unbind x 1 q0", "unbind-exchange x 2 y"]
    {
        let before = routes(&mut script, "x");
        script.run(change);
        let after = routes(&mut script, "x");
        // What came takes from anybody, what went gives to anybody; nobody else gives or takes.
        let mover = match change {
            "unbind x 1 q3" => "q3",
            "delete-queue q4" => "q4",
            "unbind x 1 q0" => "q0",
            _ => "p",
        };
        let moved: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
        let comes = change.starts_with("bind");
        assert!(moved.iter().all(|(before, after)| if comes { *after == mover } else { *before == mover }), "{change}");
        let had = if comes { &after } else { &before };
        assert_eq!(moved.len(), had.iter().filter(|route| *route == mover).count(), "{change}");
        assert!(!moved.is_empty(), "{change}");
    }
}

#[test]
fn a_key_goes_to_the_same_queue_whatever_the_order_the_seed_or_the_memory_of_routes() {
    let mut one = RoutingScript::new();
    let mut two = RoutingScript::with(CatalogLimits { hash_seed: 7, cached_routes_max: 3, ..CatalogLimits::default() });
    one.run("exchange x x-consistent-hash");
    two.run("queue other; exchange w fanout; exchange x x-consistent-hash");
    for queue in 0..9 {
        one.run(&format!("queue q{queue}; bind x {} q{queue}", 1 + queue % 4));
    }
    for queue in (0..9).rev() {
        let weight = 1 + queue % 4;
        two.run(&format!("queue q{queue}; bind x 7 q{queue}; bind x {weight} q{queue}; unbind x 7 q{queue}"));
    }
    assert_eq!(routes(&mut one, "x"), routes(&mut two, "x"));
}

/// Where a message with these properties goes, under a key of no meaning.
fn route_with(script: &mut RoutingScript, key: &str, properties: &Properties) -> String {
    let id = script.catalog.exchange(script.vhost, b"x").expect("the exchange");
    let bytes = properties.to_bytes();
    let route = script.catalog.route(id, key.as_bytes(), RawProperties::new(&bytes));
    assert_eq!((route.queues.len(), route.decided), (1, RouteDependence::ByMessage));
    script.catalog.queue_definition(route.queues[0].id).expect("the queue").name.to_string()
}

#[test]
fn headers_and_properties_decide_where_they_are_asked() {
    let text = |number: usize| ShortString::try_from(format!("id.{number}").as_str()).ok();
    let header = |number: usize| table([&*format!("h={number}")]);
    let asked: [(&str, &dyn Fn(usize) -> Properties); 4] = [
        ("hash-header=h", &|number| Properties { headers: Some(header(number)), ..Properties::default() }),
        ("hash-property=message_id", &|number| Properties { message_id: text(number), ..Properties::default() }),
        ("hash-property=correlation_id", &|number| Properties {
            correlation_id: text(number),
            ..Properties::default()
        }),
        ("hash-property=timestamp", &|number| Properties { timestamp: Some(number as u64), ..Properties::default() }),
    ];
    for (argument, properties) in asked {
        let mut script = RoutingScript::new();
        script.run(&format!(
            "exchange x x-consistent-hash {argument}; queue q1; queue q2; queue q3; bind x 1 q1; bind x 1 q2; bind x 1 q3"
        ));
        let routes: Vec<String> = (0..300).map(|number| route_with(&mut script, "k", &properties(number))).collect();
        assert_eq!(shares(&routes).len(), 3, "{argument}");
        for (number, route) in routes.iter().enumerate() {
            assert_eq!(
                route_with(&mut script, &format!("another.{number}"), &properties(number)),
                *route,
                "{argument}"
            );
        }
        // Messages without it are alike.
        let without: Vec<String> =
            (0..20).map(|key| route_with(&mut script, &format!("k.{key}"), &Properties::default())).collect();
        assert_eq!(shares(&without).len(), 1, "{argument}");
    }
    // A number is the same in whatever type it comes.
    let mut script = RoutingScript::new();
    script.run("exchange x x-consistent-hash hash-header=h; queue q1; queue q2; bind x 1 q1; bind x 1 q2");
    for number in 0..50 {
        let routes = ["", "i16:", "i64:"].map(|kind| script.route("x", "k", &[&*format!("h={kind}{number}")]));
        assert!(routes.iter().all(|route| *route == routes[0]), "{number}: {routes:?}");
    }
}

#[test]
fn without_bindings_the_alternate_takes_all() {
    check(
        "exchange x x-consistent-hash alternate-exchange=y; exchange y fanout; queue q1; bind y '' q1; route x a; queue q2; bind x 5 q2;
         route x a; bindings x; unbind x 5 q2; route x a; delete-exchange x; exchanges",
        "q1 | q2 | 5>q2 | q1 | y",
    );
    check(
        "exchange x x-consistent-hash auto-delete; queue q1; bind x 5 q1; delete-queue q1; exchanges",
        "removed q1 | ",
    );
}

#[test]
fn several_keys_of_one_message_are_one_draw_by_the_first() {
    let mut script = RoutingScript::new();
    script.run("exchange x x-consistent-hash; queue q1; queue q2; bind x 1 q1; bind x 1 q2");
    let id = script.catalog.exchange(script.vhost, b"x").expect("the exchange");
    for key in 0..50 {
        let key = format!("key.{key}");
        let alone = script.catalog.route(id, key.as_bytes(), RawProperties::EMPTY);
        let with_copies = script.catalog.route_all(id, &[key.as_bytes(), b"copy", b"another"], RawProperties::EMPTY);
        assert_eq!(alone.queues, with_copies.queues);
    }
}

#[test]
fn what_is_refused() {
    let text = "406 PRECONDITION_FAILED - ";
    check(
        "exchange x x-consistent-hash hash-header=a hash-property=message_id",
        &format!("{text}hash-header and hash-property are mutually exclusive"),
    );
    check("exchange x x-consistent-hash hash-property=priority", &format!("{text}Unsupported property: priority"));
    check(
        "exchange x x-consistent-hash hash-header=5",
        &format!("{text}invalid type 'signedint' for arg 'hash-header' in exchange 'x' in vhost '/'"),
    );
    check(
        "exchange x x-consistent-hash; queue q; bind x '' q; bind x ten q; bind x 0 q; bindings x; unbind x ten q",
        &format!(
            "{text}The binding key must be an integer: <<>> | {text}The binding key must be an integer: <<\"ten\">> | \
             {text}The binding key must be greater than 0 | "
        ),
    );
    // What hashing would be by is not compared, as in RabbitMQ.
    check("exchange x x-consistent-hash hash-header=a; exchange x x-consistent-hash", "");
}
