//! Delayed-message exchanges, as the catalog sees them: who holds a message back, and as what they route.
//!
//! Enters: scripts.  Leaves: queues, the exchanges that hold, refusals.
//! Owns:   the promises about `x-delayed-type` and `x-delay` that need no time.

mod script;

use catalog::RouteDependence;
use script::{RoutingScript, check, table};
use wire::{Properties, RawProperties};

#[test]
fn what_is_not_delayed_is_routed_as_the_other_type_does() {
    for (kind, bound, hit, miss) in [
        ("direct", "a", "a", "b"),
        ("topic", "a.*", "a.b", "b.a"),
        ("x-consistent-hash", "3", "a", ""),
        ("fanout", "a", "b", ""),
    ] {
        let mut script = RoutingScript::new();
        script.run(&format!("exchange x x-delayed-message x-delayed-type={kind}; queue q; bind x {bound} q"));
        for headers in [&[][..], &["x-delay=0"], &["x-delay=-5"], &["x-delay=s:soon"]] {
            assert_eq!(script.route("x", hit, headers), "q", "{kind}");
            if !miss.is_empty() {
                assert_eq!(script.route("x", miss, headers), "-", "{kind}");
            }
        }
        assert_eq!(script.route("x", hit, &["x-delay=5"]), "-", "{kind}");
        assert_eq!(script.run(&format!("unbind x {bound} q; bindings x")), "");
        assert_eq!(script.route("x", hit, &[]), "-");
    }
    check(
        "exchange x x-delayed-message x-delayed-type=headers; queue q; bind x '' q a=1; route x k a=1; route x k a=2; route x k a=1 x-delay=9",
        "q | - | -",
    );
}

#[test]
fn a_route_says_who_holds_the_message_back() {
    let mut script = RoutingScript::new();
    script.run(
        "exchange in fanout; exchange x x-delayed-message x-delayed-type=fanout alternate-exchange=lost; exchange lost fanout;
         exchange y x-delayed-message x-delayed-type=fanout; queue q1; queue q2; queue q3; bind x '' q1; bind in '' q2; bind lost '' q3;
         bind-exchange in '' x; bind-exchange in '' y",
    );
    let id = |script: &RoutingScript, name: &str| {
        script.catalog.exchange(script.vhost, name.as_bytes()).expect("it is there")
    };
    let mut held = |from: &str, delay: &str| {
        let headers = Some(table([delay]));
        let bytes = Properties { headers, ..Properties::default() }.to_bytes();
        let from = id(&script, from);
        let route = script.catalog.route(from, b"k", RawProperties::new(&bytes));
        let mut names: Vec<String> =
            route.held.iter().filter_map(|&id| Some(script.catalog.exchange_info(id)?.name.to_string())).collect();
        names.sort_unstable();
        assert_eq!(route.is_empty(), route.queues.is_empty() && names.is_empty());
        (route.queues.len(), names.join(" "), route.decided)
    };
    assert_eq!(held("in", "x-delay=5"), (1, "x y".to_owned(), RouteDependence::ByMessage));
    assert_eq!(held("in", "x-delay=-5"), (2, String::new(), RouteDependence::ByMessage), "its time has come");
    assert_eq!(
        held("x", "x-delay=5"),
        (0, "x".to_owned(), RouteDependence::ByMessage),
        "and the alternate exchange waits too"
    );
    assert_eq!(held("y", "x-delay=1"), (0, "y".to_owned(), RouteDependence::ByMessage));
}

#[test]
fn what_is_refused() {
    let text = "406 PRECONDITION_FAILED - Invalid argument, ";
    let none = format!("{text}'x-delayed-type' must be an existing exchange type");
    check("exchange x x-delayed-message; exchanges", &format!("{none} | "));
    check("exchange x x-delayed-message x-delayed-type=5", &none);
    check(
        "exchange x x-delayed-message x-delayed-type=x-delayed-message",
        &format!("{text}'x-delayed-message' can't be used for 'x-delayed-type'"),
    );
    check(
        "exchange x x-delayed-message x-delayed-type=nonsense",
        "connection 503 COMMAND_INVALID - unknown exchange type 'nonsense'",
    );
    // The other type's rules hold.
    check(
        "exchange x x-delayed-message x-delayed-type=x-consistent-hash hash-property=a",
        "406 PRECONDITION_FAILED - Unsupported property: a",
    );
    check(
        "exchange x x-delayed-message x-delayed-type=x-consistent-hash; queue q; bind x a q",
        "406 PRECONDITION_FAILED - The binding key must be an integer: <<\"a\">>",
    );
    // As in the plugin, the other type is not compared.
    check("exchange x x-delayed-message x-delayed-type=direct; exchange x x-delayed-message", "");
    check(
        "exchange x x-delayed-message x-delayed-type=direct; exchange x direct",
        "406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received 'direct' but current is 'x-delayed-message'",
    );
}
