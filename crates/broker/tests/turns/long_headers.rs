//! Messages whose headers are long: whatever reads or copies them draws on the budget for it.

use super::divided::{no_turn_is_long, publish_with, table, turns};
use super::{fanout, names, world};
use crate::declare;
use broker::limits::DEATH_HISTORY_ENTRY_WORK;
use wire::{List, Table, Value};

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
