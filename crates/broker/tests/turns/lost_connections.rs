//! Publishes of which a turn has left something when their connection is lost.

use super::divided::{bodies, turns};
use super::{census, fanout, names, world};
use crate::short;
use crate::world::{BrokerWorld, WorldConnection};
use broker::limits::WORK_PER_TURN;
use wire::ChannelNumber;
use wire::method::{exchange, tx};
use wire::{Table, TableRef, Value};

/// Queues of one message, which take more than one turn.
const QUEUES: usize = WORK_PER_TURN as usize * 5 / 4;

/// Says that a connection is a link to another broker, as the source of a pushed route does.
fn claim_link(world: &mut BrokerWorld, at: WorldConnection) {
    let arguments = Table::new().with("x-harrier-window", Value::Bool(false)).expect("a short name").to_bytes();
    let (exchange, kind, arguments) = (short("f"), short("fanout"), TableRef::new(&arguments));
    let (passive, durable, auto_delete, internal, no_wait) = (true, false, false, false, true);
    world
        .command(at, exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments });
}

fn waiting(world: &BrokerWorld, name: &str) -> usize {
    world.shards[0].0.queues().find(|queue| &*queue.name == name).map_or(0, |queue| queue.ready.len())
}

#[test]
fn what_a_lost_push_has_left_of_a_publish_does_not_come_behind_its_next_connection() {
    // Its queues are being searched for, some have it, or it is no link, whose publish must not be lost.
    for (is_found, is_link, expected) in [(false, true, &["2"][..]), (true, true, &["2"]), (false, false, &["2", "1"])]
    {
        let (mut world, attacker, bystander) = world();
        let names = names(QUEUES);
        fanout(&mut world, attacker, &names, &Table::new());
        let first = world.connect(0, 3);
        if is_link {
            claim_link(&mut world, first);
        }
        world.runs_deferred = false;
        world.shards[0].0.start_turn();
        world.publish(first, "f", "", "1");
        while is_found && waiting(&world, &names[0]) == 0 {
            assert!(world.run_deferred());
        }
        assert!(!world.shards[0].0.may_read(first.1), "something of it is left");
        world.disconnect(first);
        let second = world.connect(0, 3);
        world.shards[0].0.start_turn();
        let last = names.last().expect("many");
        world.publish(second, "", last, "2");
        turns(&mut world, bystander);
        assert_eq!(bodies(&mut world, bystander, last), expected, "found: {is_found}, link: {is_link}");
        assert_eq!(waiting(&world, &names[0]), usize::from(is_found || !is_link));
    }
}

#[test]
fn the_next_connection_of_a_link_waits_for_what_its_last_one_has_left() {
    let (mut world, attacker, bystander) = world();
    let names = names(QUEUES);
    fanout(&mut world, attacker, &names, &Table::new());
    let [first, other] = [3, 4].map(|slot| world.connect(0, slot));
    world.shards[0].0.mark_link(first.1, 7);
    world.shards[0].0.mark_link(other.1, 8);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.publish(first, "f", "", "1");
    // It comes and goes before that is done.
    for _ in 0..2 {
        world.disconnect(first);
        let next = world.connect(0, 3);
        world.shards[0].0.mark_link(next.1, 7);
        assert!(!world.shards[0].0.may_read(next.1) && world.shards[0].0.may_read(other.1));
    }
    turns(&mut world, bystander);
    assert!(world.shards[0].0.may_read(first.1));
    assert!(world.shards[0].1.resumed.contains(&first.1));
    world.shards[0].0.start_turn();
    let last = names.last().expect("many");
    world.publish(first, "", last, "2");
    assert_eq!(bodies(&mut world, bystander, last), ["1", "2"]);
    world.disconnect(first);
    let next = world.connect(0, 3);
    world.shards[0].0.mark_link(next.1, 7);
    assert!(world.shards[0].0.may_read(next.1), "nothing is left");
}

#[test]
fn a_commit_whose_connection_is_lost_is_done_in_its_order_and_for_its_user() {
    let (mut world, attacker, bystander) = world();
    let names = names(QUEUES);
    fanout(&mut world, attacker, &names, &Table::new());
    let committer = world.connect(0, 3);
    let last = names.last().expect("many");
    world.command(committer, tx::Select {});
    world.publish(committer, "f", "", "1");
    world.publish(committer, "", last, "2");
    while world.run_deferred() {}
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.sent(committer);
    world.command(committer, tx::Commit {});
    world.disconnect(committer);
    // The next connection with this number has nothing to do with it.
    let other = world.connect(0, 3);
    turns(&mut world, bystander);
    assert_eq!(bodies(&mut world, bystander, last), ["1", "2"]);
    assert_eq!(world.sent(other), "", "it has not asked for anything");
    assert!(world.shards[0].0.may_read(other.1));
}

#[test]
fn each_channel_of_a_lost_connection_is_work() {
    const CHANNELS: u16 = 2_000;
    let (mut world, attacker, bystander) = world();
    let broker = &mut world.shards[0].0;
    (2..=CHANNELS).for_each(|number| broker.open_channel(attacker.1, ChannelNumber(number)));
    broker.start_turn();
    let before = broker.counters().work;
    world.disconnect(attacker);
    turns(&mut world, bystander);
    assert_eq!(census(&world, "channels"), 1, "the bystander's");
    let work = world.shards[0].0.counters().work - before;
    assert!(work >= u64::from(CHANNELS), "{work} units");
}
