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

/// What the tables of a shard hold of publishes that wait for its store.
fn waiting(world: &BrokerWorld, shard: usize) -> usize {
    let mut census = world.shards[shard].0.census().into_iter();
    census.find(|(what, _)| *what == "publishes that are not stored").expect("it is counted").1
}

/// Persistent messages for `q`, before a tick ends.
fn publish_within_a_tick(world: &mut BrokerWorld, at: WorldConnection, bodies: &[&str]) {
    let properties = wire::Properties { delivery_mode: Some(2), ..wire::Properties::default() }.to_bytes();
    for body in bodies {
        let _flow = world.publish_only(at, "", "q", body, &properties, false);
    }
}

#[test]
fn one_entry_and_one_confirm_are_for_all_publishes_of_a_tick() {
    for shards in [1, 2] {
        let (mut world, _, publisher) = world_with(shards);
        publish_within_a_tick(&mut world, publisher, &["a", "b", "c"]);
        world.publish(publisher, "", "q", "transient");
        assert_eq!((world.sent(publisher).as_str(), waiting(&world, 0)), ("", 1));
        publish_within_a_tick(&mut world, publisher, &["d", "e"]);
        world.exchange_batches();
        assert_eq!((world.sent(publisher).as_str(), waiting(&world, 0)), ("", 2));
        for (ticket, confirm) in [(1, ""), (3, "ack 4+"), (4, ""), (5, "ack 6+")] {
            world.report_durable(0, ticket);
            world.exchange_batches();
            assert_eq!(world.sent(publisher), confirm, "{shards} shards, ticket {ticket}");
        }
        assert_eq!(waiting(&world, 0), 0);
    }
}

#[test]
fn the_store_hears_that_somebody_waits() {
    let (mut world, owner, publisher) = world_with(1);
    publish(&mut world, owner, "q", "nobody");
    publish(&mut world, publisher, "q", "somebody");
    assert_eq!(world.stored(0), "append 1@0=nobody | append 1@1=somebody | await 2");
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
    assert_eq!((waiting(&world, 0), world.sent(publisher).as_str()), (0, ""));
}
