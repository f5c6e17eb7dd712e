//! Federation's helper exchange: what goes on to the broker that pulls, and what it has had already.
//!
//! Enters: scripts, traces.  Leaves: queues, refusals.
//! Owns:   the promises about `x-max-hops`, `x-downstream-name`, `x-downstream-vhost`, and routes that are remembered.

mod script;

use catalog::RouteDependence;
use script::{RoutingScript, check};
use wire::{List, Properties, RawProperties, ShortString, Table, Value};

const UPSTREAM: &str = "exchange x topic; queue local; bind x # local; queue pulled;
    exchange up x-federation-upstream x-max-hops=i64:2 x-downstream-name=B x-downstream-vhost=/; bind up '' pulled; bind-exchange x a.* up";

fn hop(fields: &[(&str, &str)]) -> Value {
    let entry = |(name, value): &(&str, &str)| (ShortString::try_from(*name).expect("short"), Value::text(value));
    Value::Table(fields.iter().map(entry).collect())
}

fn traced(hops: Vec<Value>) -> Vec<u8> {
    let headers = Table::new().with("x-received-from", Value::List(hops.into_iter().collect::<List>()));
    Properties { headers: Some(headers.expect("a short name")), ..Properties::default() }.to_bytes()
}

fn routed(script: &mut RoutingScript, key: &str, properties: &[u8]) -> (String, RouteDependence) {
    let id = script.catalog.exchange(script.vhost, b"x").expect("the exchange");
    let route = script.catalog.route(id, key.as_bytes(), RawProperties::new(properties));
    let name = |id| script.catalog.queue_definition(id).expect("routes lead to queues that are there").name.to_string();
    let mut names: Vec<String> = route.queues.iter().map(|queue| name(queue.id)).collect();
    names.sort_unstable();
    (names.join(" "), route.decided)
}

#[test]
fn a_message_goes_on_unless_it_came_from_there_or_too_far() {
    let mut script = RoutingScript::new();
    script.run(UPSTREAM);
    let a = || hop(&[("cluster-name", "A"), ("vhost", "/")]);
    let plain = Properties::default().to_bytes();
    let both = "local pulled";
    for (what, properties, expect) in [
        ("published here", plain.clone(), both),
        ("from another broker", traced(vec![a()]), both),
        ("again, of what is remembered", plain.clone(), both),
        ("from as far as it may", traced(vec![a(), hop(&[("cluster-name", "C"), ("vhost", "/")])]), "local"),
        ("from the broker that pulls", traced(vec![hop(&[("cluster-name", "B"), ("vhost", "/")])]), "local"),
        ("from there, long ago", traced(vec![a(), hop(&[("vhost", "/"), ("cluster-name", "B")])]), "local"),
        ("from another virtual host of it", traced(vec![hop(&[("cluster-name", "B"), ("vhost", "other")])]), both),
        ("from one that says no more", traced(vec![hop(&[("cluster-name", "B")])]), both),
        ("a trace of what are no hops", traced(vec![Value::text("B")]), both),
        ("published here, in the end", plain, both),
    ] {
        assert_eq!(
            routed(&mut script, "a.b", &properties),
            (expect.to_owned(), RouteDependence::ByKeyAndTrace),
            "{what}"
        );
    }
    // A key that nobody pulls is as cheap as ever.
    assert_eq!(routed(&mut script, "b", &traced(vec![a()])), ("local".to_owned(), RouteDependence::ByKey));
    let no_list = Table::new().with("x-received-from", Value::text("B")).expect("a short name");
    let no_list = Properties { headers: Some(no_list), ..Properties::default() }.to_bytes();
    assert_eq!(routed(&mut script, "a.b", &no_list).0, both, "a header that is no list is no trace");
}

#[test]
fn what_is_refused() {
    let text = "406 PRECONDITION_FAILED - ";
    check("exchange up x-federation-upstream; exchanges", &format!("{text}Argument x-max-hops missing | "));
    check("exchange up x-federation-upstream x-max-hops=5", &format!("{text}Argument x-max-hops must be of type long"));
    check(
        "exchange up x-federation-upstream x-max-hops=far",
        &format!("{text}Argument x-max-hops must be of type long"),
    );
    check(
        "exchange up x-federation-upstream x-max-hops=i64:1 x-downstream-name=5",
        &format!("{text}invalid type 'signedint' for arg 'x-downstream-name' in exchange 'up' in vhost '/'"),
    );
    check(
        "exchange up x-federation-upstream x-max-hops=i64:1; exchange up x-federation-upstream x-max-hops=i64:2",
        &format!("{text}inequivalent arg 'x-max-hops' for exchange 'up' in vhost '/': received '2' but current is '1'"),
    );
    check(
        "exchange up x-federation-upstream x-max-hops=i64:1; exchange up x-federation-upstream x-max-hops=i64:1 a=1",
        "",
    );
    // Hops that are none: nothing that has come from anywhere goes on.
    let mut script = RoutingScript::new();
    script.run(&UPSTREAM.replace("i64:2", "i64:-1"));
    assert_eq!(routed(&mut script, "a.b", &Properties::default().to_bytes()).0, "local pulled");
    assert_eq!(routed(&mut script, "a.b", &traced(vec![hop(&[])])).0, "local");
}

#[test]
fn a_route_says_whether_its_messages_need_a_stamp() {
    let window = "x-harrier-window=true";
    let mut script = RoutingScript::new();
    script.run(UPSTREAM);
    script.run("exchange fan fanout; queue fanned; bind fan '' fanned; bind-exchange x b.* fan");
    let mut needs = |commands: &str, key: &str| {
        assert_eq!(script.run(commands), "");
        let id = script.catalog.exchange(script.vhost, b"x").expect("the exchange");
        let plain = Properties::default().to_bytes();
        // The second time it is remembered.
        let [first, second] =
            [(); 2].map(|()| script.catalog.route(id, key.as_bytes(), RawProperties::new(&plain)).stamped);
        assert_eq!(first, second);
        first
    };
    assert!(!needs("", "a.b"));
    assert!(needs(&format!("bind-exchange x #.z up {window}"), "a.b"), "it may go where somebody asks for stamps");
    assert!(!needs("", "b.b") && !needs("", "other"));
    assert!(needs(&format!("bind-exchange x b.* fan {window}"), "b.b"), "whatever type the exchange has");
    assert!(!needs(&format!("unbind-exchange x #.z up {window}"), "a.b"));
    assert!(needs("", "b.b"));
    assert!(!needs("delete-exchange fan", "b.b"));
    assert!(!needs("exchange fan fanout; bind fan '' fanned; bind-exchange x b.* fan x-harrier-window=false", "b.b"));
    // One that goes to a queue asks for nothing.
    assert!(!needs(&format!("bind x b.c local {window}"), "b.c"));
}
