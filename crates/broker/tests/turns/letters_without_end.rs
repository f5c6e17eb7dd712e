//! Dead letters that become more and more: nothing of others waits for the last of them.

use super::{census, fanout, is_served, names, no_turn_is_long, queue_with, table, world};
use crate::declare;
use crate::turns::divided::{bind, bodies, exchange_with};
use crate::world::{BrokerWorld, WorldConnection};
use broker::limits::WORK_PER_TURN;
use catalog::{ApplyTo, Definition, Policy};
use std::collections::BTreeMap;
use wire::{Table, Value};

/// Messages in the queues whose names begin so.
fn waiting(world: &BrokerWorld, start: &str) -> usize {
    let queues = world.shards[0].0.queues();
    queues.filter(|queue| queue.name.starts_with(start)).map(|queue| queue.ready.len()).sum()
}

#[test]
fn letters_without_end_hold_neither_deferred_work_nor_the_letters_of_others() {
    const QUEUES: usize = 3 * WORK_PER_TURN as usize;
    let (mut world, attacker, consumer) = world();
    let (bystander, publisher) = (world.connect(0, 5), world.connect(0, 6));
    exchange_with(&mut world, bystander, "many", "fanout", &Table::new());
    for name in (0..QUEUES).map(|number| format!("m{number}")) {
        declare(&mut world, bystander, &name);
        bind(&mut world, bystander, "many", &name, "");
    }
    declare(&mut world, bystander, "end");
    let to_end = table("x-dead-letter-exchange", Value::text(""))
        .with("x-dead-letter-routing-key", Value::text("end"))
        .and_then(|table| table.with("x-message-ttl", Value::I32(0)));
    queue_with(&mut world, bystander, "dies", &to_end.expect("short names"));
    // A million million letters.
    let dies = table("x-dead-letter-exchange", Value::text("f")).with("x-message-ttl", Value::I32(0));
    fanout(&mut world, attacker, &names(15), &dies.expect("a short name"));
    world.runs_deferred = false;
    world.publish(attacker, "f", "", "seed");
    world.shards[0].0.start_turn();
    world.publish(bystander, "", "dies", "letter");
    world.shards[0].0.start_turn();
    world.publish(publisher, "many", "", "x");
    // How many turns each has waited for.
    let mut served = [None; 2];
    let mut turns = 0;
    while served.contains(&None) {
        assert!(turns < 1_000 && world.run_deferred(), "{served:?} of {turns} turns, and the letters go on");
        turns += 1;
        is_served(&mut world, consumer);
        let may_read = [publisher, bystander].map(|at| world.shards[0].0.may_read(at.1));
        let is_done = [may_read[0] && waiting(&world, "m") == QUEUES, may_read[1] && waiting(&world, "end") == 1];
        for (served, is_done) in served.iter_mut().zip(is_done) {
            *served = served.or(is_done.then_some(turns));
        }
    }
    assert!(served[0] <= Some(20) && served[1] <= Some(200), "served after {served:?} turns");
    no_turn_is_long(&world);
    assert!(!world.shards[0].0.may_read(attacker.1), "its letters go on");
}

#[test]
fn what_expires_again_and_again_waits_in_its_queues_and_no_letter_is_dropped() {
    let (mut world, attacker, consumer) = world();
    let bystander = world.connect(0, 5);
    declare(&mut world, bystander, "end");
    let to_end = |ttl_ms| {
        let table = table("x-dead-letter-exchange", Value::text(""))
            .with("x-dead-letter-routing-key", Value::text("end"))
            .and_then(|table| table.with("x-message-ttl", Value::I32(ttl_ms)));
        table.expect("short names")
    };
    queue_with(&mut world, bystander, "dies", &to_end(0));
    // A copy for each order of these queues, each a little later than the one before.
    let expires = table("x-dead-letter-exchange", Value::text("f")).with("x-message-ttl", Value::I32(1));
    fanout(&mut world, attacker, &names(12), &expires.expect("a short name"));
    queue_with(&mut world, bystander, "expires", &to_end(1));
    world.runs_deferred = false;
    world.publish(attacker, "f", "", "seed");
    let (mut most, mut published_at, mut served_at) = (0, None, None);
    for turn in 0..1_000 {
        world.advance(1);
        world.run_deferred();
        is_served(&mut world, consumer);
        let letters = census(&world, "dead letters");
        most = most.max(letters);
        if published_at.is_none() && letters >= 32_768 {
            published_at = Some(turn);
            world.publish(bystander, "", "expires", "later");
            world.shards[0].0.start_turn();
            world.publish(bystander, "", "dies", "at once");
        }
        if waiting(&world, "end") == 2 {
            served_at = Some(turn);
            break;
        }
    }
    assert!(published_at.is_some() && served_at.is_some(), "{published_at:?} {served_at:?}, {most} letters");
    assert!(most < 40_000, "{most} letters at once");
    assert_eq!(world.shards[0].0.counters().dead_letters_dropped, 0);
}

const EACH: usize = 300;

/// Queues whose messages go to `end` after 10 ms, `name` with its dead letter exchange by a policy. All have expired, nobody has
/// looked at the queues meanwhile, and no turn has begun since.
fn world_of_expired(queues: usize, by_policy: &str) -> (BrokerWorld, WorldConnection, WorldConnection) {
    let (mut world, publisher, consumer) = world();
    declare(&mut world, publisher, "end");
    let policy = Table::new()
        .with("dead-letter-exchange", Value::text(""))
        .and_then(|table| table.with("dead-letter-routing-key", Value::text("end")));
    set_policy(&mut world, by_policy, policy.expect("short names"));
    let expires = table("x-message-ttl", Value::I32(10));
    // They are not to be deleted with what they have.
    let to_end = table("x-dead-letter-exchange", Value::text(""))
        .with("x-dead-letter-routing-key", Value::text("end"))
        .and_then(|table| table.with("x-message-ttl", Value::I32(10)))
        .and_then(|table| table.with("x-expires", Value::I32(11)));
    let to_end = to_end.expect("short names");
    for name in names(queues) {
        queue_with(&mut world, publisher, &name, if name == by_policy { &expires } else { &to_end });
        (0..EACH).for_each(|number| _ = world.publish(publisher, "", &name, &format!("{name}.{number}")));
    }
    world.runs_deferred = false;
    world.shards[0].0.set_now(20_000);
    (world, publisher, consumer)
}

fn set_policy(world: &mut BrokerWorld, queue: &str, definition: Table) {
    let policy = Policy {
        vhost: "/".into(),
        name: "p".into(),
        pattern: format!("^{queue}$").into(),
        apply_to: ApplyTo::All,
        priority: 0,
        definition,
    };
    let definition = Definition::SetPolicies { policies: [policy].into(), operator_policies: [].into() };
    let (broker, recorder) = &mut world.shards[0];
    broker.define_as_operator(definition, recorder).expect("a policy");
}

fn run_timers_and_deferred(world: &mut BrokerWorld) {
    let (broker, effects) = &mut world.shards[0];
    broker.start_turn();
    broker.run_timers(effects);
    world.run_deferred();
}

#[test]
fn what_expires_at_once_in_many_queues_goes_in_turns_and_in_order() {
    const QUEUES: usize = 150;
    let (mut world, publisher, consumer) = world_of_expired(QUEUES, "q0");
    let mut most = 0;
    for _ in 0..200 {
        run_timers_and_deferred(&mut world);
        is_served(&mut world, consumer);
        most = most.max(census(&world, "dead letters"));
    }
    no_turn_is_long(&world);
    assert!((30_000..35_000).contains(&most), "{most} dead letters at once");
    assert_eq!((waiting(&world, "end"), waiting(&world, "q")), (QUEUES * EACH, 0));
    assert_eq!(world.shards[0].0.counters().dead_letters_dropped, 0);
    let mut next: BTreeMap<String, usize> = BTreeMap::new();
    for body in bodies(&mut world, publisher, "end") {
        let (name, number) = body.split_once('.').expect("a queue and a number");
        let next = next.entry(name.to_owned()).or_default();
        assert_eq!(number, next.to_string(), "{name}");
        *next += 1;
    }
}

#[test]
fn a_queue_that_is_to_expire_in_its_turn_does_so_at_once_without_a_dead_letter_exchange() {
    let (mut world, publisher, _) = world_of_expired(300, "q299");
    run_timers_and_deferred(&mut world);
    assert_eq!(waiting(&world, "q299"), EACH, "it waits for its turn");
    set_policy(&mut world, "none", table("max-length", Value::I32(1)));
    (0..3).for_each(|_| run_timers_and_deferred(&mut world));
    assert_eq!(waiting(&world, "q299"), 0, "nobody wants what has expired any more");
    assert!(world.shards[0].0.may_read(publisher.1), "it publishes at once");
    world.publish(publisher, "", "q299", "m");
    for now_us in [25_000, 35_000, 35_001] {
        world.shards[0].0.set_now(now_us);
        run_timers_and_deferred(&mut world);
    }
    assert_eq!(waiting(&world, "q299"), 0, "it expires when its time has come");
    assert_eq!(waiting(&world, "q298"), EACH, "others wait for their turns");
}
