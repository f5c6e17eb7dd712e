//! Runs that wait: nobody takes them, and nothing else happens to them than to one message.

use super::{PLAIN, PublishedRun, RepeatedPublish, bodies, publish_all, world};
use crate::durability::declare_durable;
use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, consume, declare, short};
use wire::method::{confirm, queue};
use wire::{Properties, Table, TableRef, Value};

/// A queue with arguments, and a publisher.
fn world_with(arguments: &Table) -> (BrokerWorld, WorldConnection, WorldConnection) {
    let (mut world, publisher, [consumer, _]) = world();
    let arguments = arguments.to_bytes();
    let (queue, arguments) = (short("limited"), TableRef::new(&arguments));
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, true);
    world.command(publisher, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    world.sent(publisher);
    (world, publisher, consumer)
}

const LIMITED: RepeatedPublish<'static> = RepeatedPublish { routing_key: "limited", ..PLAIN };

fn number(name: &str, value: i32) -> Table {
    Table::new().with(name, Value::I32(value)).expect("a short name")
}

#[test]
fn all_but_the_first_wait_behind_it_at_once() {
    let (mut world, publisher, [consumer, _]) = world();
    assert_eq!(publish_all(&mut world, publisher, PLAIN, true), PublishedRun { published: 10, in_runs: 9 });
    consume(&mut world, consumer, "q", "c", true);
    assert_eq!(world.sent(consumer), format!("consume-ok c | {}", bodies("c", 1, 0..10)));
}

#[test]
fn no_more_wait_as_a_run_than_the_queue_may_have() {
    let bytes = |bytes| number("x-max-length-bytes", bytes);
    // The run ends where others are dropped; behind one message that comes alone the next begins.
    for (arguments, in_runs) in [
        (number("x-max-length", 6), 8),
        (bytes(6 * 4 + 3), 8),
        (number("x-max-length", 6).with("x-overflow", Value::text("reject-publish")).expect("a short name"), 5),
        (number("x-max-length", 10), 9),
    ] {
        let (mut world, publisher, consumer) = world_with(&arguments);
        let done = publish_all(&mut world, publisher, LIMITED, true);
        assert_eq!(done, PublishedRun { published: 10, in_runs }, "{arguments:?}");
        consume(&mut world, consumer, "limited", "c", true);
        let left = match arguments.get("x-overflow") {
            Some(_) => 0..6,
            None if in_runs == 9 => 0..10,
            None => 4..10,
        };
        assert_eq!(world.sent(consumer), format!("consume-ok c | {}", bodies("c", 1, left)), "{arguments:?}");
    }
}

#[test]
fn a_run_that_waits_is_stored_before_it_is_confirmed() {
    let mut world = BrokerWorld::new(1, LIMIT);
    world.switch_stores_on();
    let owner = world.connect(0, 1);
    declare_durable(&mut world, owner, "q", &Table::new());
    world.command(owner, confirm::Select { no_wait: true });
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let all = RepeatedPublish { count: 3, properties: &persistent, ..PLAIN };
    assert_eq!(publish_all(&mut world, owner, all, true), PublishedRun { published: 3, in_runs: 2 });
    assert_eq!((world.sent(owner).as_str(), world.live(0).as_str()), ("", "1@0=0000 1@1=0001 1@2=0002"));
    world.make_durable(0);
    assert_eq!(world.sent(owner), "ack 3+");
}

#[test]
fn a_run_waits_in_several_queues_and_passes_through_others() {
    let (mut world, publisher, [consumer, other]) = world();
    declare(&mut world, publisher, "r");
    super::bind_fanout(&mut world, publisher, "f", &["q", "r"]);
    consume(&mut world, consumer, "q", "c", false);
    world.sent(consumer);
    let all = RepeatedPublish { exchange: "f", ..PLAIN };
    assert_eq!(publish_all(&mut world, publisher, all, true), PublishedRun { published: 10, in_runs: 9 });
    assert_eq!(world.sent(consumer), bodies("c", 1, 0..10));
    consume(&mut world, other, "r", "d", true);
    assert_eq!(world.sent(other), format!("consume-ok d | {}", bodies("d", 1, 0..10)));
}

#[test]
fn a_queue_that_is_full_blocks_its_publisher_behind_the_message_that_has_filled_it() {
    let mut published = [false, true].map(|as_runs| {
        let mut world = BrokerWorld::new(1, 100_000);
        let publisher = world.connect(0, 1);
        declare(&mut world, publisher, "q");
        let all = RepeatedPublish { count: 2_000, digits: 200, ..PLAIN };
        publish_all(&mut world, publisher, all, as_runs)
    });
    assert!(std::mem::take(&mut published[1].in_runs) > 0);
    assert!(published[0].published < 2_000, "it is blocked");
    assert_eq!(published[1], published[0]);
}

#[test]
fn what_waits_in_memory_is_looked_at_where_some_must_leave() {
    let mut waiting = [false, true].map(|as_runs| {
        let mut world = BrokerWorld::new(1, u64::MAX);
        world.switch_paging_on(64 << 10);
        let publisher = world.connect(0, 1);
        declare(&mut world, publisher, "q");
        let all = RepeatedPublish { count: 2_000, digits: 200, ..PLAIN };
        let done = publish_all(&mut world, publisher, all, as_runs);
        let ready = world.shards[0].0.queues().map(|queue| (queue.ready.len(), queue.ready.in_memory())).next();
        (done, ready.expect("it is declared"))
    });
    assert!(std::mem::take(&mut waiting[1].0.in_runs) > 0);
    assert!(waiting[0].1.1.0 < 2_000, "some have left");
    assert_eq!(waiting[1], waiting[0]);
}
