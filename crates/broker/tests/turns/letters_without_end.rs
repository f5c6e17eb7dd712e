//! Dead letters that become more and more: nothing of others waits for the last of them.

use super::{fanout, is_served, names, no_turn_is_long, queue_with, table, world};
use crate::declare;
use crate::turns::divided::{bind, exchange_with};
use crate::world::BrokerWorld;
use broker::limits::WORK_PER_TURN;
use wire::{Table, Value};

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
    let waiting = |world: &BrokerWorld, start: &str| {
        let queues = world.shards[0].0.queues();
        queues.filter(|queue| queue.name.starts_with(start)).map(|queue| queue.ready.len()).sum::<usize>()
    };
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
