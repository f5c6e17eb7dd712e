//! Removals in steps: what is seen between the first step and the last.
//!
//! Enters: queues, exchanges and sessions with more bindings than one definition removes.  Leaves: what is found meanwhile.
//! Owns:   the promise that users see them go at once.

mod script;

use catalog::{
    BindingEvent, CatalogLimits, Definition, ExecutedDefinition, QueueRoute, Refusal,
    limits::{DEFINITION_STEPS_MAX, REMOVAL_STEPS},
};
use script::RoutingScript;
use wire::RawProperties;

/// More than two definitions remove.
const BINDINGS: u64 = 2 * DEFINITION_STEPS_MAX + DEFINITION_STEPS_MAX / 2;

fn bound(script: &mut RoutingScript, exchange: &str, queue: &str, count: u64) {
    for number in 0..count {
        script.run(&format!("bind {exchange} {number} {queue}"));
    }
}

fn executed(script: &mut RoutingScript, words: &str) -> ExecutedDefinition {
    let definition = script.definition(&words.split_whitespace().collect::<Vec<_>>()).expect("a definition");
    script.execute(&definition).expect("nothing is refused")
}

/// Executes the rest. Answers with how many definitions that took, and what they removed.
fn finish(script: &mut RoutingScript) -> (u64, Vec<String>) {
    let (mut definitions, mut removed) = (0, Vec::new());
    while script.catalog.has_unfinished() {
        script.catalog.take_work();
        let executed = script.execute(&Definition::Finish).expect("the rest");
        let work = script.catalog.take_work();
        assert!(work <= 4 * DEFINITION_STEPS_MAX, "{work}");
        assert!(executed.changed && executed.unfinished == script.catalog.has_unfinished());
        removed.extend(executed.queues_removed.iter().map(|queue| queue.name.to_string()));
        definitions += 1;
    }
    let executed = script.execute(&Definition::Finish).expect("nothing");
    assert!(!executed.changed && !executed.unfinished);
    (definitions, removed)
}

#[test]
fn an_exchange_with_many_bindings_goes_at_once_and_its_bindings_in_steps() {
    let mut script = RoutingScript::new();
    script.run("queue q; exchange x direct; exchange all fanout; queue r; bind all '' r; bind-exchange all '' x; exchange o direct alternate-exchange=x");
    bound(&mut script, "x", "q", BINDINGS);
    assert_eq!(script.run("route x 7; route all 7; route o 7"), "q | q r | q");
    let id = script.catalog.exchange(script.vhost, b"x").expect("declared");
    script.catalog.take_work();
    let first = executed(&mut script, "delete-exchange x");
    assert!(first.unfinished && first.changed && first.queues_removed.is_empty());
    let work = script.catalog.take_work();
    assert!((DEFINITION_STEPS_MAX..3 * DEFINITION_STEPS_MAX).contains(&work), "{work}");

    assert!(script.catalog.exchange(script.vhost, b"x").is_none() && script.catalog.exchange_info(id).is_none());
    assert!(script.catalog.route(id, b"7", RawProperties::EMPTY).is_empty());
    assert_eq!(script.run("exchanges; bindings all; route all 7; route o 7"), "all o | >r | r | -");
    let queue = script.catalog.queue(script.vhost, b"q").expect("it stays");
    assert_eq!(script.catalog.bindings_to(queue).count(), 0);
    assert_eq!(script.run("bind x a q"), "404 NOT_FOUND - no exchange 'x' in vhost '/'");
    // A new one has nothing of the old one.
    assert_eq!(script.run("exchange x fanout; bindings x; route all 7; route o 7; route x 7"), " | r | - | -");
    assert_eq!(script.run("bind x '' r; route o 7; unbind all '' x; route all 7"), "r | r");
    assert_eq!(finish(&mut script), ((BINDINGS - DEFINITION_STEPS_MAX).div_ceil(DEFINITION_STEPS_MAX), vec![]));
    assert_eq!(script.catalog.bindings_count(), 2);
    assert_eq!(script.run("exchanges; route x 7; route o 7; route all 7; bindings x"), "all o x | r | r | r | >r");
}

#[test]
fn a_queue_with_many_bindings_goes_at_once_and_its_bindings_in_steps() {
    let mut script = RoutingScript::new();
    script.run("queue q; queue r; exchange c x-consistent-hash; bind c 1 q; bind c 1 r; exchange o fanout alternate-exchange=p; exchange p fanout; bind p '' r; bind o '' q");
    script.run("exchange h headers; bind h '' q a=1; exchange d direct; bind d k q; exchange gone fanout auto-delete; bind gone '' q");
    bound(&mut script, "amq.direct", "q", BINDINGS);
    script.run("bind amq.direct 7 r");
    assert_eq!(script.run("route amq.direct 7; route o x; route d k"), "q r | q | q");
    let id = script.catalog.queue(script.vhost, b"q").expect("declared");
    let first = executed(&mut script, "delete-queue q");
    assert!(first.unfinished && first.queues_removed[0].id == id && first.queues_removed.len() == 1);

    assert!(script.catalog.queue(script.vhost, b"q").is_none() && script.catalog.queue_definition(id).is_none());
    assert!(!script.catalog.is_declared_ahead(id));
    assert_eq!(
        script.run("queues; route '' q; route amq.direct 7; route amq.direct 8; route d k; route h k a=1"),
        "r | - | r | - | - | -"
    );
    assert_eq!(script.run("route o x; bindings o; bindings d"), "r |  | ", "what finds no place goes to the alternate");
    for key in 0..50 {
        assert_eq!(script.run(&format!("route c {key}")), "r", "its share is the others' at once");
    }
    // A new one has nothing of the old one.
    assert_eq!(script.run("queue q; route d k; route amq.direct 8; bindings d; bind d k q; route d k"), "- | - |  | q");
    let again = script.catalog.queue(script.vhost, b"q").expect("declared again");
    assert!(again.index != id.index, "the place is in use until all is removed");
    assert_eq!(script.catalog.bindings_to(again).count(), 1);
    let (definitions, removed) = finish(&mut script);
    assert!(definitions == 2 && removed.is_empty(), "{definitions}");
    assert_eq!(
        script.run("exchanges; queues; route d k; route o x"),
        "c o p h d | r q | q | r",
        "the auto-delete exchange is gone"
    );
    assert_eq!(script.catalog.bindings_count(), 4);
}

#[test]
fn a_small_removal_does_not_wait_for_a_large_one() {
    let mut script = RoutingScript::new();
    script.run("queue q; queue r; exchange x direct; exchange y direct; bind y a r");
    bound(&mut script, "x", "q", BINDINGS);
    assert!(executed(&mut script, "delete-exchange x").unfinished);
    let before = script.catalog.bindings_count();
    let small = executed(&mut script, "delete-queue r");
    assert!(!small.unfinished && small.queues_removed.len() == 1 && script.catalog.has_unfinished());
    assert_eq!(script.catalog.bindings_count(), before - 1, "one definition does not do the work of another");
    finish(&mut script);
    assert_eq!(script.catalog.bindings_count(), 0);
}

#[test]
fn a_cascade_of_auto_delete_exchanges_goes_in_steps() {
    let mut script = RoutingScript::new();
    // All but the last are hidden before the first of them is gone.
    let exchanges = 100 * DEFINITION_STEPS_MAX / REMOVAL_STEPS;
    script.run("queue q; exchange x0 fanout auto-delete");
    for number in 1..exchanges {
        script.run(&format!("exchange x{number} fanout auto-delete; bind-exchange x{number} '' x{}", number - 1));
    }
    script.run("bind x0 '' q");
    let first = executed(&mut script, "unbind x0 '' q");
    assert!(first.unfinished);
    let left = script.catalog.exchanges_count();
    assert!((7..7 + exchanges as usize).contains(&left), "{left}");
    let (definitions, _) = finish(&mut script);
    assert!((200..=250).contains(&definitions), "{definitions}");
    assert_eq!((script.run("exchanges"), script.catalog.bindings_count()), (String::new(), 0));
}

#[test]
fn the_exclusive_queues_of_a_session_go_in_steps() {
    let mut script = RoutingScript::new();
    let queues = 5 * DEFINITION_STEPS_MAX / REMOVAL_STEPS / 2;
    for number in 0..queues {
        script.run(&format!("queue q{number} session=1"));
    }
    script.run("queue kept session=2; delete-queue q1 session=1; delete-queue q0 session=1; queue q0 session=1");
    let first = executed(&mut script, "gone 1");
    assert!(first.unfinished && first.changed);
    let (definitions, removed) = finish(&mut script);
    assert!((2..=5).contains(&definitions), "{definitions}");
    let gone = first.queues_removed.iter().map(|queue| queue.name.to_string()).chain(removed);
    let expected = (2..queues).map(|number| format!("q{number}")).chain(["q0".to_owned()]);
    assert!(gone.eq(expected), "each once, in the order in which they were declared");
    assert_eq!(script.run("queues; gone 1; use kept 2"), "kept");
    assert!(!executed(&mut script, "gone 1").changed);
}

#[test]
fn a_vhost_with_many_queues_goes_at_once_and_what_is_in_it_in_steps() {
    let mut script = RoutingScript::new();
    let queues = 2 * DEFINITION_STEPS_MAX / REMOVAL_STEPS;
    for number in 0..queues {
        script.run(&format!("queue q{number}; bind amq.direct {number} q{number}"));
    }
    let delete = Definition::DeleteVhost { name: "/".into() };
    let first = script.execute(&delete).expect("there is one");
    assert!(first.unfinished && (first.queues_removed.len() as u64) < queues);
    assert!(script.catalog.vhost_by_name("/").is_none() && script.catalog.vhosts().next().is_none());
    let last = format!("q{}", queues - 1);
    assert!(script.catalog.queue(script.vhost, last.as_bytes()).is_none(), "though it is not removed yet");
    assert!(script.catalog.exchange(script.vhost, b"amq.topic").is_none());
    assert!(script.catalog.exchange(script.vhost, b"").is_none());
    let refused = |answer: Result<ExecutedDefinition, Refusal>| answer.map_err(|refusal| refusal.code.number());
    let definition = script.definition(&["queue", "new"]).expect("a definition");
    assert_eq!(refused(script.execute(&definition)), Err(530));
    let definition = script.definition(&["bind", "amq.direct", "a", &last]).expect("a definition");
    assert_eq!(refused(script.execute(&definition)), Err(404));
    assert!(!script.execute(&delete).expect("there is none").changed);

    // A new one of the name has nothing of the old one.
    let executed = script.execute(&Definition::CreateVhost { name: "/".into() }).expect("there is none");
    let catalog::DefinitionOutcome::Vhost { id, created: true } = executed.outcome else { panic!("{executed:?}") };
    let old = std::mem::replace(&mut script.vhost, id);
    assert!(old != id && script.catalog.queue(id, last.as_bytes()).is_none());
    script.run("queue q0; bind amq.direct 0 q0");
    let (_, removed) = finish(&mut script);
    assert_eq!((first.queues_removed.len() + removed.len()) as u64, queues);
    assert_eq!(script.run("queues; route amq.direct 0; route amq.direct 1"), "q0 | q0 | -");
    assert_eq!((script.catalog.exchanges_count(), script.catalog.bindings_count()), (7, 1));
}

#[test]
fn large_arguments_count_for_more_steps() {
    let mut script = RoutingScript::new();
    let large: Vec<String> = (0..4_000).map(|entry| format!("{entry}=1")).collect();
    script.run("queue q; exchange x headers");
    for number in 0..40 {
        script.run(&format!("bind x {number} q x-match=any {}", large.join(" ")));
    }
    assert!(executed(&mut script, "delete-exchange x").unfinished, "though there are 40 bindings only");
    finish(&mut script);
    assert_eq!(script.catalog.bindings_count(), 0);
}

#[test]
fn a_watcher_hears_once_that_an_exchange_is_gone() {
    let mut script = RoutingScript::new();
    script.run("queue q; exchange x direct; exchange y direct; bind-exchange y a x");
    bound(&mut script, "x", "q", BINDINGS);
    for name in ["x", "y"] {
        script.catalog.watch_bindings(script.vhost, &name.into());
    }
    executed(&mut script, "delete-exchange x");
    assert!(script.catalog.take_binding_changes().map(|change| change.what).eq([BindingEvent::Gone]));
    script.run("exchange x direct");
    finish(&mut script);
    let changes: Vec<BindingEvent> = script.catalog.take_binding_changes().map(|change| change.what).collect();
    assert!(matches!(changes[..], [BindingEvent::Made, BindingEvent::Unbound { .. }]), "{changes:?}");
}

/// What is there and where everything goes, as one replica has it.
fn seen(script: &mut RoutingScript) -> Vec<String> {
    let queues = script.catalog.queues().map(|(id, queue)| format!("{id:?} {}", queue.name));
    let exchanges = script.catalog.exchanges().map(|(id, exchange)| format!("{id:?} {}", exchange.name));
    let mut seen: Vec<String> = queues.chain(exchanges).collect();
    let ids: Vec<_> = script.catalog.exchanges().map(|(id, _)| id).collect();
    for id in ids {
        let route: &QueueRoute = &script.catalog.route(id, b"7", RawProperties::EMPTY);
        seen.push(format!("{:?}", route.queues));
    }
    seen
}

#[test]
fn replicas_take_the_same_steps() {
    let other = CatalogLimits { hash_seed: 99, cached_routes_max: 1, ..CatalogLimits::default() };
    let mut replicas = [RoutingScript::new(), RoutingScript::with(other)];
    for script in &mut replicas {
        script.run("queue q; queue r; exchange x direct; exchange y topic auto-delete; exchange z headers; bind y a q; bind-exchange y # x");
        bound(script, "x", "q", DEFINITION_STEPS_MAX);
        bound(script, "z", "q", DEFINITION_STEPS_MAX);
        bound(script, "amq.topic", "q", DEFINITION_STEPS_MAX);
    }
    let commands = [
        "delete-queue q",
        "queue q",
        "delete-exchange x",
        "bind z k q",
        "exchange x fanout",
        "bind x '' q",
        "delete-exchange z",
        "queue s",
    ];
    for command in commands {
        let outcomes = replicas.each_mut().map(|script| executed(script, command));
        assert_eq!(outcomes[0], outcomes[1], "{command}");
        let [one, two] = replicas.each_mut().map(seen);
        assert_eq!(one, two, "{command}");
        let outcomes = replicas.each_mut().map(|script| script.execute(&Definition::Finish).expect("the rest"));
        assert_eq!(outcomes[0], outcomes[1], "after {command}");
        assert_eq!(replicas[0].catalog.bindings_count(), replicas[1].catalog.bindings_count());
    }
    for script in &mut replicas {
        finish(script);
        assert_eq!(script.run("route x 7; exchanges; bindings x"), "q | x | >q");
    }
}

/// A walk through the bindings of an exchange goes on behind what is removed: with the one where it stands, too.
#[test]
fn a_walk_comes_to_each_binding_that_stays() {
    let mut script = RoutingScript::new();
    script.run("exchange x direct; exchange y fanout; queue q; bind y '' q");
    bound(&mut script, "x", "q", 100);
    let id = script.catalog.exchange(script.vhost, b"x").expect("declared");
    script.catalog.begin_binding_walk(id);
    let mut keys = Vec::new();
    while let Some(place) = script.catalog.walk_on() {
        let (view, _) = script.catalog.binding_at(place).expect("it is there");
        let key: u64 = String::from_utf8_lossy(view.expect("it stays").routing_key).parse().expect("a number");
        keys.push(key);
        // The two behind it go, with this one; newer ones come.
        (0..3).filter(|back| key >= *back).for_each(|back| _ = script.run(&format!("unbind x {} q", key - back)));
        script.run(&format!("bind x {} q", 1_000 + key));
    }
    assert_eq!(keys, (0..100).rev().step_by(3).collect::<Vec<_>>());
    // The exchange goes in the middle of a walk.
    bound(&mut script, "x", "q", BINDINGS);
    script.catalog.begin_binding_walk(id);
    assert!((0..10).all(|_| script.catalog.walk_on().is_some()));
    executed(&mut script, "delete-exchange x");
    finish(&mut script);
    assert!(script.catalog.walk_on().is_none());
}

/// A virtual host goes after everything in it, also where that has begun to go before.
#[test]
fn a_vhost_goes_after_what_was_being_removed_in_it() {
    let begun: [(&str, &[&str]); 4] = [
        ("exchange x direct; queue q", &["delete-queue q"]),
        ("exchange x direct; queue q", &["delete-exchange x"]),
        ("exchange x direct; queue q", &["delete-queue q", "delete-exchange x"]),
        ("exchange x fanout; queue q", &["delete-exchange x", "delete-queue q"]),
    ];
    for (declared, deleted) in begun {
        let mut script = RoutingScript::new();
        script.run(declared);
        bound(&mut script, "x", "q", 3 * BINDINGS);
        // Another virtual host keeps what it has.
        let other = script.execute(&Definition::CreateVhost { name: "other".into() }).expect("a vhost");
        let catalog::DefinitionOutcome::Vhost { id: other, .. } = other.outcome else { panic!("{other:?}") };
        let first = std::mem::replace(&mut script.vhost, other);
        script.run("exchange y direct; queue r; bind y k r");
        script.vhost = first;
        for words in deleted {
            assert!(executed(&mut script, words).unfinished, "{words}");
        }
        let _removed = script.execute(&Definition::DeleteVhost { name: "/".into() }).expect("there is one");
        assert!(script.catalog.vhost_by_name("/").is_none() && script.catalog.has_unfinished());
        let again = script.execute(&Definition::CreateVhost { name: "/".into() }).expect("another one");
        let catalog::DefinitionOutcome::Vhost { id: again, created: true } = again.outcome else { panic!("{again:?}") };
        finish(&mut script);
        assert_eq!(script.catalog.bindings_count(), 1, "{deleted:?}");
        script.vhost = again;
        assert_eq!(script.run("queue q; bind amq.direct k q; route amq.direct k"), "q");
        script.vhost = other;
        assert_eq!(script.run("route y k"), "r");
    }
}
