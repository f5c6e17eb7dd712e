//! What takes more than one turn because very much was defined, or because very much waits.

use super::{WORK_MAX, census, fanout, is_served, names, queue_with, world};
use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, consume, declare, short};
use catalog::{ApplyTo, Definition, Policy, VhostLimits};
use queues::limits::{DEAD_LETTER_WORK, PROPERTIES_BYTES_PER_WORK};
use wire::method::{basic, exchange, queue};
use wire::{List, Properties, Table, TableRef, Value};

/// Queues of which one turn serves a part.
const QUEUES: usize = 50_000;

pub fn exchange_with(world: &mut BrokerWorld, at: WorldConnection, name: &str, kind: &str, arguments: &Table) {
    let bytes = arguments.to_bytes();
    let (passive, durable, auto_delete, internal, no_wait) = (false, false, false, false, true);
    let (exchange, kind, arguments) = (short(name), short(kind), TableRef::new(&bytes));
    world
        .command(at, exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments });
}

pub fn bind(world: &mut BrokerWorld, at: WorldConnection, name: &str, queue: &str, key: &str) {
    let (exchange, queue, routing_key) = (short(name), short(queue), short(key));
    world.command(at, queue::Bind { queue, exchange, routing_key, no_wait: true, arguments: TableRef::EMPTY });
}

pub fn table(name: &str, value: Value) -> Table {
    Table::new().with(name, value).expect("a short name")
}

pub fn publish_with(world: &mut BrokerWorld, at: WorldConnection, name: &str, key: &str, body: &str, headers: Table) {
    let properties = Properties { headers: Some(headers), ..Properties::default() }.to_bytes();
    let _flow = world.publish_only(at, name, key, body, &properties, false);
}

/// Runs turns until nothing is left, and serves the bystander after each. Returns how many there were.
pub fn turns(world: &mut BrokerWorld, bystander: WorldConnection) -> usize {
    let mut turns = 0;
    while world.run_deferred() {
        is_served(world, bystander);
        turns += 1;
    }
    turns
}

/// No turn has done much more than its budget.
pub fn no_turn_is_long(world: &BrokerWorld) {
    for (broker, _) in &world.shards {
        let most = broker.counters().work_per_turn_max;
        assert!(most <= WORK_MAX, "{most} units in one turn");
    }
}

/// The bodies that wait in the queue, which are taken.
pub fn bodies(world: &mut BrokerWorld, at: WorldConnection, name: &str) -> Vec<String> {
    world.sent(at);
    let mut all = Vec::new();
    loop {
        world.command(at, basic::Get { queue: short(name), no_ack: true });
        match world.sent(at).split_once('=') {
            Some((_, rest)) => all.push(rest.split(' ').next().unwrap_or_default().to_owned()),
            None => return all,
        }
    }
}

#[test]
fn a_get_behind_very_many_expired_messages_is_divided() {
    const EXPIRED: usize = 100_000;
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let (attacker, bystander) = (world.connect(usize::from(shards) - 1, 1), world.connect(0, 2));
        declare(&mut world, bystander, "by");
        crate::consume(&mut world, bystander, "by", "b", true);
        declare(&mut world, bystander, "dead");
        let dies = table("x-message-ttl", Value::I32(10))
            .with("x-dead-letter-exchange", Value::text(""))
            .and_then(|table| table.with("x-dead-letter-routing-key", Value::text("dead")))
            .expect("short names");
        queue_with(&mut world, bystander, "q", &dies);
        for _ in 0..EXPIRED {
            world.publish(bystander, "", "q", "old");
        }
        // Nobody has looked at the queue since.
        for (broker, _) in &mut world.shards {
            broker.set_now(20_000);
        }
        world.publish(bystander, "", "q", "new");
        world.sent(bystander);
        world.runs_deferred = false;
        world.shards[0].0.start_turn();
        world.command(attacker, basic::Get { queue: short("q"), no_ack: true });
        assert_eq!(world.sent(attacker), "", "there is one, behind those that have expired");
        let broker = &world.shards[attacker.0].0;
        assert!(!broker.may_read(attacker.1), "its next command waits");
        let mut most = 0;
        let mut turns = 0;
        while world.run_deferred() {
            is_served(&mut world, bystander);
            most = most.max(census(&world, "dead letters"));
            turns += 1;
        }
        assert!(turns > EXPIRED / broker::limits::WORK_PER_TURN as usize, "{turns} turns");
        assert_eq!(world.sent(attacker), "got#1=new (0 left)");
        assert!(world.shards[attacker.0].0.may_read(attacker.1));
        assert!(most <= broker::limits::WORK_PER_TURN as usize, "{most} dead letters at once");
        no_turn_is_long(&world);
        let dead = world.shards[0].0.queues().find(|queue| &*queue.name == "dead").map(|queue| queue.ready.len());
        assert_eq!(dead, Some(EXPIRED));
    }
}

#[test]
fn the_connection_of_a_get_that_is_divided_may_go() {
    let (mut world, attacker, bystander) = world();
    queue_with(&mut world, attacker, "q", &table("x-message-ttl", Value::I32(10)));
    for _ in 0..40_000 {
        world.publish(attacker, "", "q", "old");
    }
    world.shards[0].0.set_now(20_000);
    world.publish(attacker, "", "q", "new");
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.command(attacker, basic::Get { queue: short("q"), no_ack: true });
    world.disconnect(attacker);
    assert!(turns(&mut world, bystander) > 0);
    assert_eq!(bodies(&mut world, bystander, "q"), ["new"], "nobody has seen it");
}

#[test]
fn a_dead_letter_for_very_many_queues_is_divided_and_no_other_overtakes_it() {
    let (mut world, attacker, bystander) = world();
    let names = names(QUEUES);
    fanout(&mut world, attacker, &names, &Table::new());
    let dies =
        table("x-dead-letter-exchange", Value::text("f")).with("x-message-ttl", Value::I32(0)).expect("a short name");
    queue_with(&mut world, attacker, "dies", &dies);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.publish(attacker, "", "dies", "1");
    assert!(!world.shards[0].0.may_read(attacker.1), "its dead letter goes before its next publish");
    // Another one follows.
    world.shards[0].0.start_turn();
    world.publish(bystander, "", "dies", "2");
    assert!(census(&world, "dead letters") > 0);
    assert!(turns(&mut world, bystander) >= 3);
    no_turn_is_long(&world);
    assert!(world.shards[0].0.may_read(attacker.1) && census(&world, "dead letters") == 0);
    assert!(world.shards[0].0.queues().filter(|queue| queue.name.starts_with('q')).all(|queue| queue.ready.len() == 2));
    world.runs_deferred = true;
    for name in ["q0", "q25000", "q49999"] {
        assert_eq!(bodies(&mut world, bystander, name), ["1", "2"], "{name}");
    }
}

#[test]
fn who_rejects_while_dead_letters_wait_is_read_when_they_have_gone() {
    let (mut world, attacker, bystander) = world();
    fanout(&mut world, attacker, &names(QUEUES), &Table::new());
    let letters = table("x-dead-letter-exchange", Value::text("f"));
    let dies = letters.clone().with("x-message-ttl", Value::I32(0)).expect("a short name");
    queue_with(&mut world, attacker, "dies", &dies);
    queue_with(&mut world, attacker, "rejects", &letters);
    let rejecting = world.connect(0, 5);
    ["1", "2", "3"].into_iter().for_each(|body| _ = world.publish(rejecting, "", "rejects", body));
    consume(&mut world, rejecting, "rejects", "c", false);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.command(rejecting, basic::Ack { delivery_tag: wire::DeliveryTag(1), multiple: false });
    assert!(world.shards[0].0.may_read(rejecting.1));
    world.publish(attacker, "", "dies", "1");
    assert!(census(&world, "dead letters") > 0);
    world.shards[0].0.start_turn();
    world.command(rejecting, basic::Ack { delivery_tag: wire::DeliveryTag(2), multiple: false });
    assert!(world.shards[0].0.may_read(rejecting.1), "it caused no dead letter");
    world.command(rejecting, basic::Reject { delivery_tag: wire::DeliveryTag(3), requeue: false });
    assert!(!world.shards[0].0.may_read(rejecting.1), "its dead letter goes before its next command");
    assert!(turns(&mut world, bystander) > 0);
    assert!(world.shards[0].0.may_read(rejecting.1) && census(&world, "dead letters") == 0);
}

#[test]
fn a_dead_letter_draws_on_the_budget_by_its_properties() {
    let (mut world, attacker, _) = world();
    queue_with(
        &mut world,
        attacker,
        "dies",
        &table("x-message-ttl", Value::I32(0))
            .with("x-dead-letter-exchange", Value::text(""))
            .and_then(|table| table.with("x-dead-letter-routing-key", Value::text("end")))
            .expect("short names"),
    );
    declare(&mut world, attacker, "end");
    let mut works = [1, 40].map(|kib| {
        let headers = Table::new().with("h", Value::text(&"x".repeat(kib << 10))).expect("a short name");
        let before = world.shards[0].0.counters().work;
        world.publish_with(attacker, "dies", "1", &wire::Properties { headers: Some(headers), ..Default::default() });
        (world.shards[0].0.counters().work - before) as usize
    });
    works.sort_unstable();
    let by_bytes = (39 << 10) / PROPERTIES_BYTES_PER_WORK;
    assert!(works[0] >= DEAD_LETTER_WORK && works[1] >= works[0] + by_bytes, "{works:?}");
    assert!(works[1] <= works[0] + by_bytes + DEAD_LETTER_WORK, "{works:?}");
}

#[test]
fn dead_letters_that_a_divided_one_causes_keep_their_order() {
    let (mut world, attacker, bystander) = world();
    // Each of its queues gives the letter up at once, to one queue.
    let dies = table("x-dead-letter-exchange", Value::text(""))
        .with("x-dead-letter-routing-key", Value::text("end"))
        .and_then(|table| table.with("x-message-ttl", Value::I32(0)))
        .expect("short names");
    let names = names(40_000);
    fanout(&mut world, attacker, &names, &dies);
    declare(&mut world, attacker, "end");
    let first =
        table("x-dead-letter-exchange", Value::text("f")).with("x-message-ttl", Value::I32(0)).expect("a short name");
    queue_with(&mut world, attacker, "dies", &first);
    world.sent(attacker);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.publish(attacker, "", "dies", "1");
    assert!(turns(&mut world, bystander) > 3);
    no_turn_is_long(&world);
    let end = world.shards[0].0.queues().find(|queue| &*queue.name == "end").map(|queue| queue.ready.len());
    assert_eq!(end, Some(40_000));
    // The letters come in the order of the queues that gave them up.
    world.runs_deferred = true;
    for number in 0..3 {
        world.command(attacker, basic::Get { queue: short("end"), no_ack: true });
        let properties = world.shards[0].1.properties.pop().expect("the message");
        let properties = wire::RawProperties::new(&properties);
        let queue = properties.headers().and_then(|headers| headers.get("x-last-death-queue"));
        let queue = queue.and_then(|queue| queue.as_bytes()).map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(queue, Some(format!("q{number}")));
    }
}

fn delaying(world: &mut BrokerWorld, at: WorldConnection, name: &str, kind: &str) {
    exchange_with(world, at, name, "x-delayed-message", &table("x-delayed-type", Value::text(kind)));
}

#[test]
fn a_delayed_message_for_very_many_queues_is_divided_and_no_other_overtakes_it() {
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let (attacker, bystander) = (world.connect(0, 1), world.connect(0, 2));
        declare(&mut world, bystander, "by");
        crate::consume(&mut world, bystander, "by", "b", true);
        delaying(&mut world, attacker, "d", "fanout");
        // Queues live where they are declared.
        let homes: Vec<_> = (0..usize::from(shards)).map(|shard| world.connect(shard, 9)).collect();
        for (number, name) in names(QUEUES).iter().enumerate() {
            let at = homes[number % homes.len()];
            queue_with(&mut world, at, name, &Table::new());
            bind(&mut world, at, "d", name, "");
        }
        world.sent(bystander);
        for body in ["1", "2"] {
            publish_with(&mut world, attacker, "d", "", body, table("x-delay", Value::I32(5)));
        }
        let mut turns = 0;
        while census(&world, "delayed messages") > 0 {
            for (broker, recorder) in &mut world.shards {
                broker.set_now(10_000 + turns);
                broker.start_turn();
                broker.run_timers(recorder);
            }
            is_served(&mut world, bystander);
            turns += 1;
        }
        assert!(turns >= 3, "{turns} turns");
        no_turn_is_long(&world);
        for name in ["q0", "q25001", "q49999"] {
            assert_eq!(bodies(&mut world, bystander, name), ["1", "2"], "{name}");
        }
    }
}

#[test]
fn a_delayed_message_with_very_many_keys_is_divided() {
    let (mut world, attacker, bystander) = world();
    delaying(&mut world, attacker, "d", "topic");
    declare(&mut world, attacker, "q");
    for number in 0..2_000 {
        bind(&mut world, attacker, "d", "q", &format!("#.{number}.#"));
    }
    let mut keys = List::new();
    (0..1_000).for_each(|number| keys.push(Value::text(&format!("{}{number}", "a.".repeat(100)))));
    let headers = table("CC", Value::List(keys)).with("x-delay", Value::I32(5)).expect("a short name");
    publish_with(&mut world, attacker, "d", "none", "m", headers);
    let mut turns = 0;
    while census(&world, "delayed messages") > 0 {
        let (broker, recorder) = &mut world.shards[0];
        broker.set_now(10_000 + turns);
        broker.start_turn();
        broker.run_timers(recorder);
        is_served(&mut world, bystander);
        turns += 1;
    }
    assert!(turns > 1, "{turns} turns");
    no_turn_is_long(&world);
    assert_eq!(bodies(&mut world, bystander, "q"), ["m"]);
}

fn max_length(messages: i32) -> Definition {
    let policy = Policy {
        vhost: "/".into(),
        name: "p".into(),
        pattern: "^q".into(),
        apply_to: ApplyTo::All,
        priority: 0,
        definition: table("max-length", Value::I32(messages)),
    };
    Definition::SetPolicies { policies: [policy].into(), operator_policies: [].into() }
}

#[test]
fn policies_for_very_many_queues_are_applied_in_turns() {
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let bystander = world.connect(0, 2);
        declare(&mut world, bystander, "by");
        crate::consume(&mut world, bystander, "by", "b", true);
        for name in names(QUEUES) {
            queue_with(&mut world, bystander, &name, &Table::new());
        }
        for name in ["q0", "q49999"] {
            ["a", "b", "c"].iter().for_each(|body| _ = world.publish(bystander, "", name, body));
        }
        world.sent(bystander);
        world.runs_deferred = false;
        for limit in [2, 1] {
            let (broker, recorder) = &mut world.shards[0];
            broker.start_turn();
            broker.define_as_operator(max_length(limit), recorder).expect("a policy");
            assert!(broker.has_deferred());
            // What is declared meanwhile is under the new policy at once.
            let name = format!("q-new-{limit}");
            queue_with(&mut world, bystander, &name, &Table::new());
            ["a", "b", "c"].iter().for_each(|body| _ = world.publish(bystander, "", &name, body));
            let waiting = |world: &BrokerWorld, name: &str| {
                world.shards[0].0.queues().find(|queue| *queue.name == *name).map(|queue| queue.ready.len())
            };
            assert_eq!(waiting(&world, &name), Some(limit as usize));
            assert!(turns(&mut world, bystander) > 10);
            for name in ["q0", "q49999"] {
                assert_eq!(waiting(&world, name), Some(limit as usize), "{name}");
            }
        }
        no_turn_is_long(&world);
    }
}

#[test]
fn a_quota_for_very_many_queues_comes_and_goes_in_turns() {
    let (mut world, _, bystander) = world();
    for name in names(QUEUES) {
        queue_with(&mut world, bystander, &name, &Table::new());
    }
    world.publish(bystander, "", "q49999", "waits");
    world.runs_deferred = false;
    let limit = |queue_bytes_max| {
        let limits = VhostLimits { queue_bytes_max, ..VhostLimits::default() };
        Definition::SetVhostLimits { vhost: "/".into(), limits }
    };
    for quota in [Some(1 << 30), None, Some(1 << 30), None] {
        let (broker, recorder) = &mut world.shards[0];
        broker.start_turn();
        broker.define_as_operator(limit(quota), recorder).expect("a quota");
        // A queue that has not been told yet changes meanwhile.
        world.publish(bystander, "", "q49999", "waits too");
        assert!(turns(&mut world, bystander) > 5);
        let counted: Vec<_> = world.shards[0].0.vhost_quotas().map(|(_, bytes, most)| (bytes > 0, most)).collect();
        assert_eq!(counted, quota.map(|most| (true, most)).into_iter().collect::<Vec<_>>());
    }
    no_turn_is_long(&world);
}

#[test]
fn publishes_of_another_shard_to_many_queues_are_divided() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (publisher, owner) = (world.connect(1, 1), world.connect(0, 2));
    fanout(&mut world, owner, &names(500), &Table::new());
    world.sent(owner);
    world.command(publisher, wire::method::confirm::Select { no_wait: true });
    world.runs_deferred = false;
    const PUBLISHES: usize = 1_000;
    for _ in 0..PUBLISHES {
        world.shards[1].0.start_turn();
        let _flow = world.publish_only(publisher, "f", "", "m", &[0, 0], false);
    }
    world.exchange_batches();
    let mut turns = 0;
    while world.run_deferred() {
        turns += 1;
    }
    assert!(turns > 10, "{turns} turns");
    no_turn_is_long(&world);
    assert!(
        world.shards[0]
            .0
            .queues()
            .filter(|queue| queue.name.starts_with('q'))
            .all(|queue| queue.ready.len() == PUBLISHES)
    );
    assert!(world.sent(publisher).ends_with("ack 1000+"));
}

#[test]
fn publishes_of_another_shard_do_not_wait_for_all_that_connections_have_left_undone() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (publisher, attacker) = (world.connect(1, 1), world.connect(0, 2));
    fanout(&mut world, attacker, &names(3_000), &Table::new());
    declare(&mut world, attacker, "last");
    world.sent(attacker);
    world.runs_deferred = false;
    // More than a turn of the other shard, and at its end a message for a queue alone.
    for _ in 0..40 {
        world.shards[1].0.start_turn();
        let _flow = world.publish_only(publisher, "f", "", "m", &[0, 0], false);
    }
    world.publish(publisher, "", "last", "m");
    world.exchange_batches();
    let waiting = |world: &BrokerWorld, name: &str| {
        world.shards[0].0.queues().find(|queue| *queue.name == *name).map_or(0, |queue| queue.ready.len())
    };
    // A connection that always has more to do than a turn does.
    let mut turns = 0;
    while waiting(&world, "last") == 0 {
        while world.shards[0].0.may_read(attacker.1) && !world.shards[0].0.is_turn_over() {
            let _flow = world.publish_only(attacker, "f", "", "a", &[0, 0], false);
        }
        assert!(world.run_deferred(), "there is always something to do");
        turns += 1;
        assert!(turns < 100, "the other shard waits for a connection of this one");
    }
}

#[test]
fn a_publish_to_very_many_queues_of_other_shards_is_divided() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (publisher, bystander) = (world.connect(1, 1), world.connect(0, 2));
    declare(&mut world, bystander, "by");
    crate::consume(&mut world, bystander, "by", "b", true);
    world.sent(bystander);
    fanout(&mut world, bystander, &names(QUEUES), &Table::new());
    world.sent(bystander);
    world.command(publisher, wire::method::confirm::Select { no_wait: true });
    world.runs_deferred = false;
    world.shards[1].0.start_turn();
    world.publish(publisher, "f", "", "1");
    assert!(!world.shards[1].0.may_read(publisher.1));
    assert!(turns(&mut world, bystander) > 2);
    no_turn_is_long(&world);
    assert_eq!(world.sent(publisher), "ack 1");
    assert!(world.shards[0].0.queues().filter(|queue| queue.name.starts_with('q')).all(|queue| queue.ready.len() == 1));
}

#[test]
fn a_publisher_that_begins_with_a_long_route_while_the_disk_is_full_is_told_and_continues() {
    let (mut world, publisher, bystander) = world();
    fanout(&mut world, bystander, &names(QUEUES), &Table::new());
    world.sent(bystander);
    let alarm = |world: &mut BrokerWorld, on: bool| {
        let (broker, recorder) = &mut world.shards[0];
        broker.set_disk_alarm(on, recorder);
    };
    alarm(&mut world, true);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.publish(publisher, "f", "", "1");
    assert_eq!(world.sent(publisher), "0:blocked: low on disk");
    let mut turns = 0;
    while world.run_deferred() {
        turns += 1;
    }
    assert!(turns > 1, "its queues are searched for in several turns");
    assert!(!world.shards[0].0.may_read(publisher.1));
    alarm(&mut world, false);
    assert_eq!(world.sent(publisher), "0:connection.unblocked", "which resumes it");
    assert!(world.shards[0].0.may_read(publisher.1));
}

#[test]
fn the_second_publish_to_very_many_queues_searches_for_none() {
    let (mut world, attacker, _) = world();
    fanout(&mut world, attacker, &names(QUEUES), &Table::new());
    let work = |world: &BrokerWorld| world.shards[0].0.counters().work;
    let mut each = Vec::new();
    for body in ["1", "2"] {
        let before = work(&world);
        world.publish(attacker, "f", "", body);
        each.push(work(&world) - before);
    }
    assert!(each[0] > 3 * QUEUES as u64 && each[1] < 2 * QUEUES as u64, "{each:?}");
}

#[test]
fn a_message_is_published_once_its_queues_are_found_though_others_come_and_go() {
    let (mut world, attacker, bystander) = world();
    fanout(&mut world, attacker, &names(QUEUES), &Table::new());
    world.command(attacker, wire::method::tx::Select {});
    world.sent(attacker);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.publish(attacker, "f", "", "1");
    world.command(attacker, wire::method::tx::Commit {});
    let mut turn = 0;
    while world.run_deferred() {
        // The newest bindings are looked at first.
        for name in [format!("q{}", QUEUES - 1 - turn * 1_000), format!("q{}", turn * 1_000 + 1)] {
            let (if_unused, if_empty, no_wait) = (false, false, true);
            world.command(bystander, queue::Delete { queue: short(&name), if_unused, if_empty, no_wait });
        }
        queue_with(&mut world, bystander, &format!("other{turn}"), &Table::new());
        turn += 1;
    }
    no_turn_is_long(&world);
    assert!(world.sent(attacker).ends_with("tx.commit-ok"));
    let waiting =
        |name: &str| world.shards[0].0.queues().filter(|queue| queue.name.starts_with(name)).collect::<Vec<_>>();
    assert!(waiting("q").len() > QUEUES - 200 && waiting("q").iter().all(|queue| queue.ready.len() == 1));
    assert!(waiting("other").iter().all(|queue| queue.ready.is_empty()), "they are bound to nothing");
}

#[test]
fn a_publish_behind_one_with_a_long_route_does_not_overtake_it_in_a_commit() {
    let (mut world, attacker, bystander) = world();
    // More than half of a budget, and less than all of it.
    fanout(&mut world, attacker, &names(20_000), &Table::new());
    world.command(attacker, wire::method::tx::Select {});
    for body in ["1", "2"] {
        // Another exchange leads to the same queue.
        let (exchange, key) = if body == "1" { ("f", "") } else { ("", "q0") };
        world.publish(attacker, exchange, key, body);
    }
    world.command(attacker, wire::method::tx::Commit {});
    assert!(world.sent(attacker).ends_with("tx.commit-ok"));
    assert_eq!(bodies(&mut world, bystander, "q0"), ["1", "2"]);
}

#[test]
fn headers_of_which_very_many_go_are_work() {
    let (mut world, attacker, _) = world();
    const ENTRIES: usize = 10_000;
    // A table keeps names once: these are written one behind the other.
    let entry = table("BCC", Value::List(List::new())).to_bytes();
    let mut headers = Vec::new();
    (0..ENTRIES).for_each(|_| headers.extend_from_slice(&entry));
    let mut properties = Vec::new();
    wire::RawProperties::EMPTY.rewrite(true, &mut properties, |_, out| out.extend_from_slice(&headers));
    let before = world.shards[0].0.counters().work;
    let _flow = world.publish_only(attacker, "", "by", "m", &properties, false);
    let work = world.shards[0].0.counters().work - before;
    assert!((ENTRIES as u64 / 8..ENTRIES as u64).contains(&work), "{work} units");
}

#[test]
fn a_publisher_whose_first_route_is_long_is_told_that_publishers_are_blocked() {
    for is_transaction in [false, true] {
        let (mut world, attacker, bystander) = world();
        fanout(&mut world, bystander, &names(QUEUES), &Table::new());
        if is_transaction {
            world.command(attacker, wire::method::tx::Select {});
            world.sent(attacker);
        }
        world.runs_deferred = false;
        for on in [true, false] {
            let (broker, recorder) = &mut world.shards[0];
            broker.set_disk_alarm(on, recorder);
            if on {
                broker.start_turn();
                world.publish(attacker, "f", "", "1");
            }
            assert!(!on || !world.shards[0].0.may_read(attacker.1));
            let expected = if on { "0:blocked: low on disk" } else { "0:connection.unblocked" };
            assert_eq!(world.sent(attacker), expected, "in a transaction: {is_transaction}");
        }
        while world.run_deferred() {}
        assert!(world.shards[0].0.may_read(attacker.1), "it goes on");
    }
}
