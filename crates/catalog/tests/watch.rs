//! Watched bindings: whoever watches an exchange learns of every change of its bindings, however it comes about.
//!
//! Enters: scripts.  Leaves: the changes that were taken.
//! Owns:   the promises about their order, their number, and exchanges that come and go.

mod script;

use catalog::limits::BINDING_CHANGES_MAX;
use catalog::{BindingChange, BindingEvent, CatalogLimits, Name, WatchId};
use proptest::prelude::*;
use script::RoutingScript;
use std::collections::BTreeMap;
use wire::Table;

fn watch(script: &mut RoutingScript, exchange: &str) -> WatchId {
    script.catalog.watch_bindings(script.vhost, &Name::from(exchange))
}

#[test]
fn watches_and_changes_that_wait_are_counted() {
    let mut script = RoutingScript::new();
    script.run("exchange x topic; queue q");
    let mut bytes = vec![script.catalog.bytes()];
    watch(&mut script, "x");
    bytes.push(script.catalog.bytes());
    let plain = {
        let mut other = RoutingScript::new();
        other.run("exchange x topic; queue q");
        let before = other.catalog.bytes();
        (0..200).for_each(|key| _ = other.run(&format!("bind x {key} q")));
        other.catalog.bytes() - before
    };
    (0..200).for_each(|key| _ = script.run(&format!("bind x {key} q")));
    bytes.push(script.catalog.bytes());
    assert!(bytes[1] > bytes[0], "a watch takes memory: {bytes:?}");
    let changes = bytes[2] - bytes[1] - plain;
    let least = 200 * size_of::<BindingChange>();
    assert!((least..4 * least).contains(&changes), "{changes} bytes for 200 changes, {least} are the least");
}

fn with(arguments: &Option<Box<Table>>) -> String {
    let named = arguments.iter().flat_map(|table| table.iter()).map(|(name, value)| format!(" {name}={value:?}"));
    named.collect()
}

fn shown(change: &BindingChange) -> String {
    match &change.what {
        BindingEvent::Bound { routing_key, arguments } => {
            format!("+{}{}", String::from_utf8_lossy(routing_key), with(arguments))
        }
        BindingEvent::Unbound { routing_key, arguments } => {
            format!("-{}{}", String::from_utf8_lossy(routing_key), with(arguments))
        }
        BindingEvent::Gone => "gone".into(),
        BindingEvent::Made => "made".into(),
        BindingEvent::Resync => "resync".into(),
    }
}

fn taken(script: &mut RoutingScript) -> String {
    let changes: Vec<String> = script.catalog.take_binding_changes().map(|change| shown(&change)).collect();
    assert!(!script.catalog.has_binding_changes(), "changes are taken once");
    changes.join(" ")
}

/// With `x` watched from the beginning.
#[track_caller]
fn check(before: &str, commands: &str, expected: &str) {
    let mut script = RoutingScript::new();
    watch(&mut script, "x");
    assert!(!script.run(before).contains(' '), "{before}");
    drop(script.catalog.take_binding_changes());
    script.run(commands);
    assert_eq!(taken(&mut script), expected, "{before}; then {commands}");
}

const BASE: &str = "exchange x topic; exchange y fanout; queue q; queue r; bind x a q; bind x b.# r; bind x a r";

#[test]
fn a_watcher_learns_of_every_way_in_which_bindings_change() {
    for (commands, expected) in [
        ("bind x c q", "+c"),
        ("bind x c q; unbind x c q", "+c -c"),
        ("bind x a q", ""),
        ("bind x a q b=1 a=2", "+a a=I32(2) b=I32(1)"),
        ("bind x a q b=1 a=2; unbind x a q a=2 b=1", "+a a=I32(2) b=I32(1) -a a=I32(2) b=I32(1)"),
        ("unbind x z q; unbind nowhere a q", ""),
        ("bind-exchange x d y; delete-exchange y", "+d -d"),
        ("bind-exchange y d x", ""),
        ("bind y c q", ""),
        ("delete-queue r", "-a -b.#"),
        ("queue e session=1; bind x e e session=1; gone 1", "+e -e"),
        ("delete-exchange x", "gone"),
        ("delete-exchange x; exchange x fanout; bind x z q", "gone made +z"),
        ("delete-exchange x if-unused", ""),
    ] {
        check(BASE, commands, expected);
    }
    // One that goes with its last binding says both.
    let auto = "exchange x fanout auto-delete; queue q; bind x a q";
    check(auto, "unbind x a q", "-a gone");
    check(auto, "delete-queue q; exchange x direct", "-a gone made");
    // One that is not there yet can be watched for, also in another virtual host's place.
    check("", "queue q; exchange x fanout; bind x a q", "made +a");
}

#[test]
fn a_deleted_virtual_host_takes_its_exchanges_along() {
    let mut script = RoutingScript::new();
    watch(&mut script, "amq.topic");
    script.run("queue q; bind amq.topic a q");
    drop(script.catalog.take_binding_changes());
    script.catalog.execute(&catalog::Definition::DeleteVhost { name: "/".into() }).expect("it is there");
    assert_eq!(taken(&mut script), "-a gone");
}

#[test]
fn watches_are_counted_and_tell_exchanges_apart() {
    let mut script = RoutingScript::new();
    script.run(BASE);
    let (x, y) = (watch(&mut script, "x"), watch(&mut script, "y"));
    assert_ne!(x, y);
    assert_eq!(watch(&mut script, "x"), x, "one name has one watch");
    script.run("bind x c q; bind y d q");
    let changes: Vec<BindingChange> = script.catalog.take_binding_changes().collect();
    assert_eq!(changes.iter().map(|change| change.watch).collect::<Vec<_>>(), [x, y]);
    script.catalog.unwatch_bindings(x);
    script.run("bind x e q; bind y f q");
    script.catalog.unwatch_bindings(x);
    assert_eq!(taken(&mut script), "+f", "what was not taken goes with the watch");
    script.run("bind x g q; delete-exchange x; exchange x fanout");
    assert_eq!(taken(&mut script), "", "nobody watches it");
    let again = watch(&mut script, "x");
    assert_ne!(again, x, "an id is not given out twice");
    script.run("bind x h q");
    assert_eq!(taken(&mut script), "+h");
}

#[test]
fn watching_is_no_definition() {
    let (mut watched, mut plain) = (RoutingScript::new(), RoutingScript::new());
    watch(&mut watched, "x");
    for script in [&mut watched, &mut plain] {
        script.run(BASE);
        script.run("delete-exchange y; unbind x a q; exchange z fanout");
    }
    assert_eq!(watched.catalog.version(), plain.catalog.version());
    assert_eq!(watched.run("exchanges; bindings x"), plain.run("exchanges; bindings x"));
}

#[test]
fn who_does_not_take_changes_is_told_to_look_anew() {
    let mut script = RoutingScript::new();
    script.run("exchange x direct; exchange y direct; queue q");
    let (x, y) = (watch(&mut script, "x"), watch(&mut script, "y"));
    script.run("bind y first q");
    for number in 0..BINDING_CHANGES_MAX {
        script.run(&format!("bind x {number} q"));
    }
    assert_eq!(taken(&mut script), "resync resync", "both had changes that were given up");
    script.run("bind x more q");
    assert_eq!(taken(&mut script), "+more", "from here on each change is told again");
    // By bytes, where arguments are large.
    let large = "l".repeat(60_000);
    for number in 0..300 {
        script.run(&format!("bind x {number} q a={large}"));
    }
    script.run("bind y second q; delete-exchange x; exchange x fanout");
    let changes: Vec<(WatchId, String)> =
        script.catalog.take_binding_changes().map(|change| (change.watch, shown(&change))).collect();
    assert_eq!(changes, [(x, "resync".to_owned()), (y, "+second".to_owned())], "of a lost one nothing more is said");
    script.run("bind x z q");
    assert_eq!(taken(&mut script), "+z");
    // Given up twice before anybody looks, it is told all the same.
    for script_exchange in ["x", "y"] {
        for number in 0..300 {
            script.run(&format!("bind {script_exchange} {number} q b={large}"));
        }
    }
    assert_eq!(taken(&mut script), "resync resync");
}

fn command() -> impl Strategy<Value = String> {
    let queue = prop_oneof![Just("q"), Just("r"), Just("s")];
    let exchange = prop_oneof![3 => Just("x"), 1 => Just("y")];
    let key = prop_oneof![Just("a"), Just("b.*"), Just("#")];
    let argument = prop_oneof![4 => Just(""), 1 => Just(" n=1"), 1 => Just(" n=2")];
    (0..12_u8, queue, exchange, key, argument).prop_map(|(verb, queue, exchange, key, argument)| match verb {
        0..=4 => format!("bind {exchange} {key} {queue}{argument}"),
        5 | 6 => format!("unbind {exchange} {key} {queue}{argument}"),
        7 => "bind-exchange x b.* y; bind-exchange y a x".to_owned(),
        8 => format!("delete-queue {queue}"),
        9 => format!("delete-exchange {exchange}"),
        10 => "exchange x topic auto-delete; exchange y fanout".to_owned(),
        _ => format!("queue {queue}"),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whoever applies the changes to what he saw once has what he would see now.
    #[test]
    fn the_changes_add_up(commands in prop::collection::vec(command(), 1..60), looks in prop::collection::vec(any::<bool>(), 60)) {
        let mut script = RoutingScript::with(CatalogLimits::default());
        script.run("exchange x topic; exchange y fanout; queue q; queue r; queue s");
        watch(&mut script, "x");
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (command, look) in commands.iter().zip(looks) {
            script.run(command);
            if !look {
                continue;
            }
            for change in script.catalog.take_binding_changes() {
                match &change.what {
                    BindingEvent::Gone => seen.clear(),
                    BindingEvent::Made => prop_assert!(seen.is_empty()),
                    BindingEvent::Bound { routing_key, arguments } => {
                        *seen.entry(format!("{routing_key:?}{}", with(arguments))).or_default() += 1;
                    }
                    BindingEvent::Unbound { routing_key, arguments } => {
                        let key = format!("{routing_key:?}{}", with(arguments));
                        let count = seen.get_mut(&key).expect("what is unbound was bound");
                        *count -= 1;
                        if *count == 0 {
                            seen.remove(&key);
                        }
                    }
                    BindingEvent::Resync => prop_assert!(false, "there are few changes"),
                }
            }
            let mut there: BTreeMap<String, usize> = BTreeMap::new();
            if let Some(id) = script.catalog.exchange(script.vhost, b"x") {
                for binding in script.catalog.bindings_from(id) {
                    let key = format!("{:?}{}", binding.routing_key, with(&binding.arguments.map(|table| Box::new(table.clone()))));
                    *there.entry(key).or_default() += 1;
                }
            }
            prop_assert_eq!(&seen, &there);
        }
    }
}
