//! Messages whose headers are long: whatever reads or copies them draws on the budget for it.

use super::divided::{no_turn_is_long, publish_with, table, turns};
use super::{fanout, names, world};
use crate::world::{BrokerWorld, WorldConnection};
use crate::{consume, declare, prefetch, short};
use queues::limits::{DEATH_HISTORY_ENTRY_WORK, PROPERTIES_BYTES_COPIED_PER_WORK, PROPERTIES_BYTES_PER_WORK};
use wire::method::{basic, queue};
use wire::{DeliveryTag, List, Table, TableRef, Value};

/// Headers that claim so many deaths; `queue` names the queue of each.
fn deaths(count: usize, queue: impl Fn(usize) -> String) -> Table {
    let death = |number| Value::Table(table("queue", Value::text(&queue(number))));
    table("x-death", Value::List((0..count).map(death).collect::<List>()))
}

#[test]
fn a_dead_letter_draws_on_the_budget_for_the_deaths_that_it_claims() {
    const QUEUES: usize = 200;
    const DEATHS: usize = 3_000;
    // The letters are dropped, since their histories are longer than may be; or go nowhere; or go on.
    let is_one: fn(usize) -> String = |_| "one".to_owned();
    for (target, queue, arrived) in
        [("f", (|number| format!("{number}")) as _, 0), ("nowhere", is_one, 0), ("", is_one, QUEUES)]
    {
        let (mut world, attacker, bystander) = world();
        let dies = table("x-message-ttl", Value::I32(0))
            .with("x-dead-letter-exchange", Value::text(target))
            .and_then(|table| table.with("x-dead-letter-routing-key", Value::text("end")))
            .expect("short names");
        fanout(&mut world, attacker, &names(QUEUES), &dies);
        declare(&mut world, attacker, "end");
        world.sent(attacker);
        world.runs_deferred = false;
        let before = world.shards[0].0.counters().work;
        world.shards[0].0.start_turn();
        publish_with(&mut world, attacker, "f", "", "m", deaths(DEATHS, queue));
        assert!(turns(&mut world, bystander) > 10, "{target}");
        no_turn_is_long(&world);
        let work = world.shards[0].0.counters().work - before;
        assert!(work as usize >= QUEUES * DEATHS * DEATH_HISTORY_ENTRY_WORK, "{target}: {work} units");
        let end = world.shards[0].0.queues().find(|queue| &*queue.name == "end").map(|queue| queue.ready.len());
        assert_eq!(end, Some(arrived), "{target}");
    }
}

/// A queue that counts how often its messages return.
fn counting(world: &mut BrokerWorld, at: WorldConnection) {
    let bytes = table("x-queue-type", Value::text("quorum")).to_bytes();
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, true, false, false, true);
    let (queue, arguments) = (short("counts"), TableRef::new(&bytes));
    world.command(at, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
}

/// All its messages are delivered and return.
fn return_all(world: &mut BrokerWorld, at: WorldConnection, tag: &str) {
    consume(world, at, "counts", tag, false);
    world.sent(at);
    world.command(at, basic::Cancel { consumer_tag: short(tag), no_wait: true });
    let nack = basic::Nack { delivery_tag: DeliveryTag(0), multiple: true, requeue: true };
    let _flow = world.command_only(at, nack);
}

#[test]
fn a_message_that_returns_draws_on_the_budget_by_its_properties() {
    const MESSAGES: usize = 200;
    let (mut world, attacker, bystander) = world();
    counting(&mut world, attacker);
    let headers = table("h", Value::text(&"x".repeat(100 << 10)));
    for _ in 0..MESSAGES {
        publish_with(&mut world, attacker, "", "counts", "m", headers.clone());
    }
    world.runs_deferred = false;
    let before = world.shards[0].0.counters().work;
    world.shards[0].0.start_turn();
    return_all(&mut world, attacker, "c");
    assert!(turns(&mut world, bystander) > 2);
    no_turn_is_long(&world);
    let work = (world.shards[0].0.counters().work - before) as usize;
    assert!(work >= MESSAGES * (100 << 10) / PROPERTIES_BYTES_PER_WORK, "{work} units");
}

#[test]
fn a_purge_of_very_many_counted_messages_is_divided() {
    const MESSAGES: usize = 100_000;
    let (mut world, attacker, bystander) = world();
    counting(&mut world, attacker);
    for _ in 0..MESSAGES {
        world.shards[0].0.start_turn();
        let _flow = world.publish_only(attacker, "", "counts", "m", &[0, 0], false);
    }
    world.shards[0].0.start_turn();
    return_all(&mut world, attacker, "c");
    turns(&mut world, bystander);
    let returns = |world: &BrokerWorld| {
        let mut queues = world.shards[0].0.queues();
        let features = queues.find_map(|queue| queue.features.as_ref().filter(|_| &*queue.name == "counts"));
        features.map_or(0, |features| features.returns.len())
    };
    assert_eq!(returns(&world), MESSAGES);
    // One that is unsettled may return once more.
    prefetch(&mut world, attacker, 1, false);
    consume(&mut world, attacker, "counts", "one", false);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    let _flow = world.command_only(attacker, queue::Purge { queue: short("counts"), no_wait: true });
    let left = returns(&world);
    assert!(left > MESSAGES / 2, "{left} left after the first turn");
    assert!(turns(&mut world, bystander) > 2);
    assert_eq!(returns(&world), 1);
    no_turn_is_long(&world);
}

#[test]
fn a_delivery_draws_on_the_budget_by_the_properties_that_it_copies() {
    const MESSAGES: usize = 400;
    let (mut world, attacker, bystander) = world();
    declare(&mut world, attacker, "q");
    let headers = table("h", Value::text(&"x".repeat(100 << 10)));
    let work = |world: &BrokerWorld| world.shards[0].0.counters().work as usize;
    let each = (100 << 10) / PROPERTIES_BYTES_COPIED_PER_WORK;
    for _ in 0..MESSAGES {
        publish_with(&mut world, attacker, "", "q", "m", headers.clone());
    }
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    let before = work(&world);
    consume(&mut world, attacker, "q", "c", true);
    assert!(turns(&mut world, bystander) > 0, "they are more than one turn");
    no_turn_is_long(&world);
    assert!(work(&world) - before >= MESSAGES * each, "{} units", work(&world) - before);
    assert_eq!(world.sent(attacker).matches("c#").count(), MESSAGES);
    // And one that does not wait in the queue.
    let before = work(&world);
    publish_with(&mut world, attacker, "", "q", "m", headers);
    assert!((each..2 * each).contains(&(work(&world) - before)), "{} units", work(&world) - before);
}
