//! What waits for the store before a publisher is told.

use super::{LIMIT, declare_durable, publish};
use crate::world::{BrokerWorld, WorldConnection};
use wire::method::{confirm, exchange, queue};
use wire::{ShortStr, Table, TableRef, Value};

/// Shards with stores; a queue `q` on shard 0, and a publisher with confirms on the last.
fn world_with(shards: u16) -> (BrokerWorld, WorldConnection, WorldConnection) {
    let mut world = BrokerWorld::new(shards, LIMIT);
    world.switch_stores_on();
    let owner = world.connect(0, 1);
    let publisher = world.connect(usize::from(shards) - 1, 2);
    declare_durable(&mut world, owner, "q", &Table::new());
    world.command(publisher, confirm::Select { no_wait: true });
    (world, owner, publisher)
}

#[test]
fn one_entry_and_one_confirm_are_for_all_publishes_of_a_group() {
    let (mut world, _, publisher) = world_with(1);
    world.shards[0].1.store.group = true;
    for body in ["a", "b", "c"] {
        publish(&mut world, publisher, "q", body);
    }
    world.publish(publisher, "", "q", "transient");
    let waiting = |world: &BrokerWorld| {
        world.shards[0].0.census().into_iter().find(|(what, _)| *what == "publishes that are not stored")
    };
    assert_eq!(waiting(&world), Some(("publishes that are not stored", 1)));
    assert_eq!(world.stored(0), "append 1@0=a | await 1 | append 1@1=b | append 1@2=c");
    world.shards[0].1.store.group = false;
    publish(&mut world, publisher, "q", "d");
    assert_eq!((world.stored(0).as_str(), world.sent(publisher).as_str()), ("append 1@4=d | await 2", ""));
    world.report_durable(0, 1);
    world.exchange_batches();
    assert_eq!(world.sent(publisher), "ack 4+", "with the transient one, which is behind them");
    world.make_durable(0);
    assert_eq!(world.sent(publisher), "ack 5");
    assert_eq!(waiting(&world), Some(("publishes that are not stored", 0)));
}

#[test]
fn a_publish_of_another_shard_is_confirmed_once_it_is_durable() {
    let (mut world, _, publisher) = world_with(2);
    for body in ["a", "b"] {
        publish(&mut world, publisher, "q", body);
    }
    world.publish(publisher, "", "q", "transient");
    assert_eq!(world.stored(0), "append 1@0=a | await 1 | append 1@1=b | await 2");
    assert_eq!(world.sent(publisher), "");
    world.report_durable(0, 1);
    world.exchange_batches();
    assert_eq!(world.sent(publisher), "ack 1");
    world.make_durable(0);
    assert_eq!(world.sent(publisher), "ack 3+", "answers keep their order");
    world.publish(publisher, "", "q", "transient");
    assert_eq!(world.sent(publisher), "ack 4", "nothing waits");
}

#[test]
fn a_refusal_by_another_shard_keeps_its_place_behind_what_waits() {
    let (mut world, owner, publisher) = world_with(2);
    let arguments = Table::new()
        .with("x-max-length", Value::I32(1))
        .and_then(|table| table.with("x-overflow", Value::text("reject-publish")))
        .expect("short");
    declare_durable(&mut world, owner, "small", &arguments);
    for (queue, body) in [("small", "a"), ("small", "b"), ("q", "c")] {
        publish(&mut world, publisher, queue, body);
    }
    assert_eq!(world.sent(publisher), "");
    world.report_durable(0, 1);
    world.exchange_batches();
    assert_eq!(world.sent(publisher), "ack 1 | nack 2");
    world.make_durable(0);
    assert_eq!(world.sent(publisher), "ack 3");
}

#[test]
fn a_publish_to_several_queues_waits_for_all_of_them() {
    let (mut world, owner, publisher) = world_with(2);
    declare_durable(&mut world, owner, "r", &Table::new());
    declare_durable(&mut world, publisher, "s", &Table::new());
    world.command(
        owner,
        exchange::Declare {
            exchange: super::short("x"),
            kind: super::short("fanout"),
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            no_wait: false,
            arguments: TableRef::new(&[]),
        },
    );
    for queue in ["q", "r", "s"] {
        let (queue, exchange) = (super::short(queue), super::short("x"));
        let arguments = TableRef::new(&[]);
        world.command(owner, queue::Bind { queue, exchange, routing_key: ShortStr::EMPTY, no_wait: false, arguments });
    }
    world.sent(owner);
    let properties = wire::Properties { delivery_mode: Some(2), ..wire::Properties::default() }.to_bytes();
    let _flow = world.publish_only(publisher, "x", "", "a", &properties, false);
    world.exchange_batches();
    world.make_durable(1);
    world.report_durable(0, 1);
    world.exchange_batches();
    assert_eq!(world.sent(publisher), "", "one of the queues on shard 0 does not have it durably");
    world.report_durable(0, 2);
    world.exchange_batches();
    assert_eq!(world.sent(publisher), "ack 1");
}

#[test]
fn a_channel_that_is_closed_leaves_nothing_behind() {
    let (mut world, _, publisher) = world_with(1);
    publish(&mut world, publisher, "q", "a");
    world.disconnect(publisher);
    world.make_durable(0);
    let census = world.shards[0].0.census();
    let left = census.iter().find(|(what, _)| *what == "publishes that are not stored");
    assert_eq!((left, world.sent(publisher).as_str()), (Some(&("publishes that are not stored", 0)), ""));
}
