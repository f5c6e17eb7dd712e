//! Very many consumers that cannot take deliveries, leave together, or may have deliveries again: they are looked at in turns.

use super::divided::{table, turns};
use super::{WORK_MAX, census, fanout, is_served, queue_with, world};
use crate::world::BrokerWorld;
use crate::{LIMIT, ack, consume, declare, prefetch, short};
use broker::limits::{CONSUMERS_ASKED_BEYOND_MAX, WORK_PER_TURN};
use wire::Value;
use wire::method::{basic, channel, queue};

/// More than a turn looks at.
const MANY: usize = WORK_PER_TURN as usize * 3 / 2;

fn most(world: &BrokerWorld) -> u64 {
    world.shards.iter().map(|(broker, _)| broker.counters().work_per_turn_max).max().unwrap_or_default()
}

#[test]
fn consumers_that_accept_nothing_are_passed_over_in_turns() {
    let (mut world, attacker, bystander) = world();
    declare(&mut world, attacker, "q");
    (0..MANY).for_each(|number| consume(&mut world, attacker, "q", &number.to_string(), true));
    // One that accepts is behind all others.
    consume(&mut world, bystander, "q", "last", true);
    world.sent(bystander);
    world.set_output_capacity(attacker, false);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.publish(bystander, "", "q", "m");
    assert_eq!(world.sent(bystander), "", "not all of them have been asked");
    while world.run_deferred() {
        world.shards[0].0.start_turn();
        world.publish(bystander, "", "by", "x");
    }
    let sent = world.sent(bystander);
    assert_eq!(sent.matches("last#").count(), 1, "{sent}");
    assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
}

/// A queue that keeps no message loses it unless a consumer takes it at once: the budget of a turn decides nothing about that.
#[test]
fn a_message_that_its_queue_does_not_keep_finds_the_consumer_that_accepts_it() {
    for name in ["x-message-ttl", "x-max-length", "x-max-length-bytes"] {
        let (mut world, attacker, bystander) = world();
        queue_with(&mut world, attacker, "q", &table(name, Value::I32(0)));
        let busy = WORK_PER_TURN as usize + CONSUMERS_ASKED_BEYOND_MAX / 2;
        (0..busy).for_each(|number| consume(&mut world, attacker, "q", &number.to_string(), true));
        consume(&mut world, bystander, "q", "last", true);
        world.sent(bystander);
        world.set_output_capacity(attacker, false);
        world.runs_deferred = false;
        world.shards[0].0.start_turn();
        world.publish(bystander, "", "q", "m");
        let sent = world.sent(bystander);
        assert_eq!(sent.matches("last#").count(), 1, "{name}: {sent}");
        assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
    }
}

/// A message from another shard enters all its queues in one step: those together ask no more consumers beyond the budget than one
/// of them would.
#[test]
fn queues_that_keep_nothing_ask_consumers_beyond_the_budget_together() {
    const QUEUES: usize = 30;
    let mut world = BrokerWorld::new(2, LIMIT);
    let (attacker, publisher) = (world.connect(0, 1), world.connect(1, 2));
    let queues: Vec<String> = (0..QUEUES).map(|number| format!("q{number}")).collect();
    fanout(&mut world, attacker, &queues, &table("x-max-length", Value::I32(0)));
    for queue in &queues {
        (0..2_000).for_each(|number| consume(&mut world, attacker, queue, &format!("{queue}-{number}"), true));
    }
    world.set_output_capacity(attacker, false);
    world.sent(attacker);
    for shard in &mut world.shards {
        shard.0.start_turn();
    }
    world.publish(publisher, "f", "", "m");
    assert_eq!(world.sent(attacker), "");
    assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
    assert!(most(&world) > WORK_PER_TURN.into(), "they have asked {} consumers", most(&world));
}

#[test]
fn consumers_of_another_shard_leave_in_turns() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (owner, attacker) = (world.connect(0, 1), world.connect(1, 2));
    declare(&mut world, owner, "q");
    (0..20_000).for_each(|number| consume(&mut world, attacker, "q", &number.to_string(), true));
    world.runs_deferred = false;
    world.shards[1].0.start_turn();
    world.disconnect(attacker);
    let consumers = |world: &BrokerWorld| {
        let census = world.shards[1].0.census();
        census.into_iter().find(|(name, _)| *name == "consumers").map_or(0, |(_, count)| count)
    };
    assert!(consumers(&world) > 0, "some are left for later turns");
    while world.run_deferred() {}
    assert_eq!((consumers(&world), census(&world, "consumers of other shards")), (0, 0));
    assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
}

#[test]
fn consumers_of_another_shard_that_are_cancelled_end_the_turn() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (owner, attacker) = (world.connect(0, 1), world.connect(1, 2));
    declare(&mut world, owner, "q");
    (0..20_000).for_each(|number| consume(&mut world, attacker, "q", &number.to_string(), true));
    world.sent(attacker);
    world.runs_deferred = false;
    for (broker, _) in &mut world.shards {
        broker.start_turn();
    }
    world.command(owner, queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: false });
    while world.run_deferred() {}
    assert_eq!(world.sent(attacker).split(" | ").filter(|text| text.starts_with("cancel ")).count(), 20_000);
    assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
}

#[test]
fn what_was_sent_ahead_to_a_consumer_and_returns_is_work() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (owner, attacker) = (world.connect(0, 1), world.connect(1, 2));
    declare(&mut world, owner, "q");
    consume(&mut world, attacker, "q", "c", true);
    world.set_output_capacity(attacker, false);
    (0..1_000).for_each(|_| _ = world.publish(owner, "", "q", "m"));
    let work = |world: &BrokerWorld| world.shards[1].0.counters().work;
    let before = work(&world);
    let _flow = world.command_only(attacker, basic::Cancel { consumer_tag: short("c"), no_wait: true });
    world.exchange_batches();
    assert!(work(&world) - before >= 1_000, "{} units", work(&world) - before);
}

#[test]
fn consumers_whose_deliveries_were_settled_are_woken_in_turns() {
    let (mut world, attacker, bystander) = world();
    declare(&mut world, attacker, "q");
    prefetch(&mut world, attacker, 1, false);
    (0..MANY).for_each(|number| consume(&mut world, attacker, "q", &number.to_string(), false));
    (0..2 * MANY).for_each(|_| _ = world.publish(attacker, "", "q", "m"));
    world.sent(attacker);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    ack(&mut world, attacker, MANY as u64, true);
    assert!(turns(&mut world, bystander) >= 3);
    assert_eq!(world.sent(attacker).matches("=m").count(), MANY, "each has another");
    assert!(most(&world) <= WORK_MAX, "{} units", most(&world));
}

#[test]
fn parked_deliveries_are_work() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (owner, attacker) = (world.connect(0, 1), world.connect(1, 2));
    declare(&mut world, owner, "q");
    consume(&mut world, attacker, "q", "c", true);
    let flow = |world: &mut BrokerWorld, active| world.command(attacker, channel::Flow { active });
    flow(&mut world, false);
    (0..1_000).for_each(|_| _ = world.publish(owner, "", "q", "m"));
    let before = world.shards[1].0.counters().work;
    flow(&mut world, true);
    let work = world.shards[1].0.counters().work - before;
    assert!(work >= 1_000, "{work} units");
    assert_eq!(world.sent(attacker).matches("=m").count(), 1_000);
}

#[test]
fn a_shared_prefetch_count_is_work_for_each_consumer() {
    let (mut world, attacker, _) = world();
    declare(&mut world, attacker, "q");
    (0..5_000).for_each(|number| consume(&mut world, attacker, "q", &number.to_string(), true));
    let before = world.shards[0].0.counters().work;
    prefetch(&mut world, attacker, 10, true);
    let work = world.shards[0].0.counters().work - before;
    assert!(work >= 5_000, "{work} units");
}

#[test]
fn a_get_copies_the_properties_of_its_message() {
    let (mut world, attacker, bystander) = world();
    queue_with(&mut world, attacker, "q", &wire::Table::new());
    let mut works = Vec::new();
    for bytes in [0, 100_000] {
        let headers = table("h", Value::LongStr(vec![b'x'; bytes].into()));
        let properties = wire::Properties { headers: Some(headers), ..wire::Properties::default() };
        world.publish_with(attacker, "q", "m", &properties);
        let before = world.shards[0].0.counters().work;
        world.command(attacker, basic::Get { queue: short("q"), no_ack: true });
        works.push(world.shards[0].0.counters().work - before);
    }
    assert!(works[1] - works[0] >= 90, "{works:?}");
    is_served(&mut world, bystander);
}
