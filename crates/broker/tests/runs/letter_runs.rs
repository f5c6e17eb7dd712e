//! Dead letters that are alike go to their consumer at once, and say what each of them would say alone.

use super::{PLAIN, PublishedRun, RepeatedPublish, bodies, publish_all, world};
use crate::durability::declare_durable;
use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, consume, short};
use wire::method::queue;
use wire::{Properties, RawProperties, Table, TableRef, Value};

/// Arguments of a queue whose messages expire after some milliseconds, and go to the queue `q` then.
fn dying(ms: i32) -> Table {
    let table = Table::new().with("x-message-ttl", Value::I32(ms)).expect("a short name");
    let table = table.with("x-dead-letter-exchange", Value::text("")).expect("a short name");
    table.with("x-dead-letter-routing-key", Value::text("q")).expect("a short name")
}

/// The queue `q` with a consumer, and the queue `dying`, whose messages go there after two milliseconds.
fn dying_world() -> (BrokerWorld, WorldConnection, WorldConnection) {
    let (mut world, publisher, [consumer, _]) = world();
    let arguments = dying(2).to_bytes();
    let (queue, arguments) = (short("dying"), TableRef::new(&arguments));
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, true);
    world.command(publisher, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    consume(&mut world, consumer, "q", "c", true);
    world.sent(consumer);
    world.shards[0].1.heads = Some(Vec::new());
    (world, publisher, consumer)
}

const DYING: RepeatedPublish<'static> = RepeatedPublish { routing_key: "dying", ..PLAIN };

#[test]
fn what_expires_together_reaches_its_consumer_at_once() {
    let (mut world, publisher, consumer) = dying_world();
    publish_all(&mut world, publisher, DYING, false);
    world.advance(2);
    assert_eq!(world.sent(consumer), bodies("c", 1, 0..10));
    assert_eq!(world.shards[0].1.delivered_in_runs, 9);
    let heads = world.shards[0].1.heads.take().expect("they are wanted");
    assert!(heads.len() == 10 && heads.iter().all(|head| *head == heads[0]), "{heads:?}");
    let headers = RawProperties::new(&world.shards[0].1.delivered_properties).headers().expect("a death");
    let event = headers.get("x-death").and_then(|deaths| deaths.as_list()?.iter().next()?.ok()?.as_table());
    let event = event.and_then(|event| event.to_table().ok()).expect("one death");
    assert_eq!(event.get("queue").and_then(Value::as_str), Some("dying"));
    assert!(matches!(event.get("count"), Some(Value::I64(1))), "{event:?}");
}

#[test]
fn a_run_of_letters_ends_where_properties_or_bodies_differ() {
    let (mut world, publisher, consumer) = dying_world();
    let marked = Properties { priority: Some(1), ..Properties::default() }.to_bytes();
    for more in [
        RepeatedPublish { count: 3, ..DYING },
        RepeatedPublish { count: 3, first: 3, properties: &marked, ..DYING },
        RepeatedPublish { count: 1, first: 6, ..DYING },
        RepeatedPublish { count: 1, first: 7, properties: &marked, ..DYING },
        RepeatedPublish { count: 2, first: 8, ..DYING },
    ] {
        publish_all(&mut world, publisher, more, false);
    }
    publish_all(&mut world, publisher, RepeatedPublish { count: 1, first: 10, digits: 5, ..DYING }, false);
    world.advance(2);
    assert_eq!(world.sent(consumer), format!("{} | c#11=00010", bodies("c", 1, 0..10)));
    assert_eq!(world.shards[0].1.delivered_in_runs, 2 + 2 + 1);
    let heads = world.shards[0].1.heads.take().expect("they are wanted");
    let is_marked: Vec<bool> = heads.iter().map(|(_, head)| *head != heads[0].1).collect();
    assert_eq!(
        is_marked,
        [3..6, 7..8].into_iter().fold([false; 11], |mut all, range| {
            all[range].fill(true);
            all
        })
    );
}

#[test]
fn a_letter_of_a_run_is_stored_before_its_message_is_forgotten() {
    let mut world = BrokerWorld::new(1, LIMIT);
    world.switch_stores_on();
    let (owner, consumer) = (world.connect(0, 1), world.connect(0, 2));
    declare_durable(&mut world, owner, "dying", &dying(2));
    declare_durable(&mut world, owner, "q", &Table::new());
    consume(&mut world, consumer, "q", "c", false);
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    publish_all(&mut world, owner, RepeatedPublish { count: 3, properties: &persistent, ..DYING }, false);
    world.stored(0);
    world.advance(2);
    let letters = "append 2@1=0001 | append 2@2=0002 | forget 1@1+2";
    assert_eq!(world.stored(0), format!("append 2@0=0000 | forget 1@0+1 | {letters}"));
    assert_eq!(world.live(0), "2@0=0000! 2@1=0001! 2@2=0002!");
}

#[test]
fn letters_for_a_consumer_without_room_wait_in_their_order() {
    let (mut world, publisher, consumer) = dying_world();
    publish_all(&mut world, publisher, DYING, false);
    world.set_room(consumer, Some(4));
    world.advance(2);
    assert_eq!((world.sent(consumer), world.shards[0].1.delivered_in_runs), (bodies("c", 1, 0..4), 3));
    world.set_room(consumer, None);
    assert_eq!(world.sent(consumer), bodies("c", 5, 4..10));
}

/// A queue `full` that keeps so many messages, and others go to the queue `q`, which has a consumer.
fn full_world(kept: i32) -> (BrokerWorld, WorldConnection, WorldConnection) {
    let (mut world, publisher, [consumer, _]) = world();
    let arguments = Table::new().with("x-max-length", Value::I32(kept)).expect("a short name");
    let arguments = arguments.with("x-dead-letter-exchange", Value::text("")).expect("a short name");
    let arguments = arguments.with("x-dead-letter-routing-key", Value::text("q")).expect("a short name").to_bytes();
    let (queue, arguments) = (short("full"), TableRef::new(&arguments));
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, true);
    world.command(publisher, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    consume(&mut world, consumer, "q", "c", true);
    world.sent(consumer);
    (world, publisher, consumer)
}

const FULL: RepeatedPublish<'static> = RepeatedPublish { routing_key: "full", ..PLAIN };

#[test]
fn a_run_for_a_full_queue_drives_as_many_out_of_it_and_these_are_a_run() {
    for kept in [0, 1, 3] {
        let (mut world, publisher, consumer) = full_world(kept);
        if kept > 0 {
            publish_all(&mut world, publisher, RepeatedPublish { count: kept as usize, ..FULL }, false);
        }
        let all = RepeatedPublish { first: kept as usize, ..FULL };
        assert_eq!(publish_all(&mut world, publisher, all, true), PublishedRun { published: 10, in_runs: 9 });
        assert_eq!(world.sent(consumer), bodies("c", 1, 0..10), "{kept} kept");
        // The first letter comes alone; of the others, the first shows the way.
        assert_eq!(world.shards[0].1.delivered_in_runs, 8, "{kept} kept");
        let left = world.shards[0].0.queues().find(|queue| &*queue.name == "full").map(|queue| queue.ready.len());
        assert_eq!(left, Some(kept as usize));
    }
}

#[test]
fn what_a_run_drives_out_waits_for_a_consumer_without_room() {
    let (mut world, publisher, consumer) = full_world(0);
    world.set_room(consumer, Some(4));
    publish_all(&mut world, publisher, FULL, true);
    assert_eq!(world.sent(consumer), bodies("c", 1, 0..4));
    world.set_room(consumer, None);
    assert_eq!(world.sent(consumer), bodies("c", 5, 4..10));
}
