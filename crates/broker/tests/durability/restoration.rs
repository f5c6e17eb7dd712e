//! What queues are after a restart.

use super::{LIMIT, ack, consume, declare_durable, get, prefetch, publish, uid};
use crate::world::{BrokerWorld, WorldConnection};
use queues::{BodyRef, Content, MessageStorage, QueuePosition};
use wire::method::{basic, queue};
use wire::{DeliveryTag, Properties, RawProperties, Table, Value};

/// A broker with one queue, which has the number 1.
fn world_with(arguments: &Table) -> (BrokerWorld, WorldConnection) {
    let mut world = BrokerWorld::new(1, LIMIT);
    world.switch_stores_on();
    let client = world.connect(0, 1);
    declare_durable(&mut world, client, "q", arguments);
    (world, client)
}

fn position(level: u8, number: u64) -> QueuePosition {
    QueuePosition(u64::from(level) << 56 | number)
}

/// Restores messages to the queue: position, body, whether it was handed out, how often it was returned.
fn restore(world: &mut BrokerWorld, messages: &[(QueuePosition, &str, bool, u32)], next: &[QueuePosition]) {
    let (broker, recorder) = &mut world.shards[0];
    for &(position, body, redelivered, times_returned) in messages {
        let body = BodyRef::Small(body.as_bytes());
        let message = Content { routing_key: b"q", body, ..Content::EMPTY }.keep(recorder.pool());
        assert!(broker.restore_message(uid(1), position, message, redelivered, times_returned, recorder));
    }
    broker.finish_restore(uid(1), next, recorder);
    world.exchange_batches();
}

#[test]
fn restored_messages_keep_their_order_and_those_handed_out_are_redelivered() {
    let (mut world, client) = world_with(&Table::new());
    let plain = |number, body| (position(0, number), body, false, 0);
    let messages =
        [plain(3, "a"), plain(4, "b"), (position(0, 5), "c", true, 0), plain(6, "d"), plain(9, "e"), plain(10, "f")];
    restore(&mut world, &messages, &[position(0, 14)]);
    publish(&mut world, client, "q", "g");
    prefetch(&mut world, client, 4, false);
    consume(&mut world, client, "q", "c", false);
    assert_eq!(world.sent(client), "consume-ok c | c#1=a | c#2=b | c#3=c! | c#4=d");
    world.command(client, basic::Nack { delivery_tag: DeliveryTag(2), multiple: true, requeue: true });
    assert_eq!(world.sent(client), "c#5=a! | c#6=b!", "restored ones return to their positions");
    ack(&mut world, client, 0, true);
    assert_eq!(world.sent(client), "c#7=e | c#8=f | c#9=g");
}

#[test]
fn positions_go_on_behind_those_that_were_given_before() {
    let (mut world, client) = world_with(&Table::new().with("x-max-priority", Value::I32(9)).expect("short"));
    let messages = [(position(0, 7), "low", false, 0), (position(5, 2), "high", false, 0)];
    restore(&mut world, &messages, &[position(0, 8), position(3, 4), position(5, 6)]);
    for (priority, body) in [(None, "a"), (Some(3), "b"), (Some(5), "c"), (Some(9), "d")] {
        let properties = Properties { delivery_mode: Some(2), priority, ..Properties::default() };
        world.publish_with(client, "q", body, &properties);
    }
    let stored = world.stored(0);
    assert_eq!(stored, "append 1@8=a | append 1@3:4=b | append 1@5:6=c | append 1@9:0=d");
    let all: Vec<String> = (0..7).map(|_| get(&mut world, client, "q")).collect();
    let order =
        ["got#1=d (5 left)", "got#2=high (4 left)", "got#3=c (3 left)", "got#4=b (2 left)", "got#5=low (1 left)"];
    assert_eq!(all[..5], order);
    assert_eq!(all[5..], ["got#6=a (0 left)", "basic.get-empty"]);
}

#[test]
fn a_restored_message_counts_its_returns() {
    let arguments = Table::new()
        .with("x-queue-type", Value::text("quorum"))
        .and_then(|table| table.with("x-delivery-limit", Value::I32(2)))
        .expect("short");
    let (mut world, client) = world_with(&arguments);
    restore(&mut world, &[(position(0, 0), "a", true, 1), (position(0, 1), "b", false, 0)], &[position(0, 2)]);
    consume(&mut world, client, "q", "c", false);
    assert_eq!(world.sent(client), "consume-ok c | c#1=a! | c#2=b");
    world.command(client, basic::Nack { delivery_tag: DeliveryTag(2), multiple: true, requeue: true });
    assert_eq!(world.sent(client), "c#3=a! | c#4=b!");
    let count = |world: &BrokerWorld| {
        let properties = RawProperties::new(&world.shards[0].1.delivered_properties);
        properties.headers().and_then(|headers| headers.get("x-delivery-count")?.as_i64())
    };
    assert_eq!(count(&world), Some(1), "of b");
    world.command(client, basic::Nack { delivery_tag: DeliveryTag(4), multiple: true, requeue: true });
    assert_eq!(world.sent(client), "c#5=b!", "a had its second chance");
    assert_eq!(count(&world), Some(2));
}

#[test]
fn limits_and_times_to_live_hold_for_what_is_restored() {
    let arguments = Table::new().with("x-max-length", Value::I32(2)).expect("short");
    let (mut world, client) = world_with(&arguments);
    let plain = |number, body| (position(0, number), body, false, 0);
    restore(&mut world, &[plain(0, "a"), plain(1, "b"), plain(2, "c")], &[position(0, 3)]);
    assert_eq!(get(&mut world, client, "q"), "got#1=b (1 left)");

    let (mut world, client) = world_with(&Table::new().with("x-message-ttl", Value::I32(5)).expect("short"));
    restore(&mut world, &[plain(0, "a")], &[position(0, 1)]);
    world.advance(4);
    assert_eq!(world.shards[0].0.queues().map(|queue| queue.ready.len()).sum::<usize>(), 1);
    world.advance(2);
    assert_eq!(get(&mut world, client, "q"), "basic.get-empty");
}

#[test]
fn messages_of_queues_that_are_gone_are_not_restored() {
    let (mut world, client) = world_with(&Table::new());
    let (broker, recorder) = &mut world.shards[0];
    assert!(broker.queue_of(uid(1)).is_some() && broker.queue_of(uid(2)).is_none());
    let message = Content::EMPTY.keep(recorder.pool());
    assert!(!broker.restore_message(uid(2), position(0, 0), message.clone(), false, 0, recorder));
    assert!(broker.restore_message(uid(1), position(0, 1), message.clone(), false, 0, recorder));
    assert!(!broker.restore_message(uid(1), position(0, 1), message, false, 0, recorder), "one has that position");
    let name = super::short("q");
    world.command(client, queue::Delete { queue: name, if_unused: false, if_empty: false, no_wait: false });
    assert_eq!(world.sent(client), "delete-ok 1");
    assert!(world.shards[0].0.queue_of(uid(1)).is_none());
}

#[test]
fn a_full_queue_is_full_after_a_restart() {
    let mut world = BrokerWorld::new(2, 1_000);
    world.switch_stores_on();
    let owner = world.connect(0, 1);
    let publisher = world.connect(1, 2);
    declare_durable(&mut world, owner, "q", &Table::new());
    let body = "x".repeat(900);
    let messages = [0, 1].map(|number| (position(0, number), body.as_str(), false, 0));
    restore(&mut world, &messages, &[position(0, 2)]);
    publish(&mut world, publisher, "q", "c");
    assert!(!world.shards[1].0.may_read(publisher.1));
    assert_eq!(world.sent(publisher), "0:blocked: queue is full");
}

#[test]
fn publishers_wait_while_the_disk_is_low_and_consumers_go_on() {
    let (mut world, client) = world_with(&Table::new());
    let consumer = world.connect(0, 2);
    publish(&mut world, client, "q", "a");
    let alarm = |world: &mut BrokerWorld, disk: Option<bool>, memory: Option<bool>| {
        let (broker, recorder) = &mut world.shards[0];
        if let Some(on) = disk {
            broker.set_disk_alarm(on, recorder);
        }
        if let Some(on) = memory {
            broker.set_memory_alarm(on, recorder);
        }
    };
    alarm(&mut world, Some(true), None);
    assert_eq!(world.sent(client), "0:blocked: low on disk");
    assert!(world.shards[0].0.disk_alarm() && world.shards[0].0.is_alarmed());
    assert!(!world.shards[0].0.may_read(client.1) && world.shards[0].0.may_read(consumer.1));
    assert_eq!(get(&mut world, consumer, "q"), "got#1=a (0 left)");
    alarm(&mut world, None, Some(true));
    alarm(&mut world, Some(false), None);
    assert_eq!(world.sent(client), "", "memory is low still");
    alarm(&mut world, Some(true), Some(false));
    assert_eq!(world.sent(client), "", "and then the disk");
    alarm(&mut world, Some(false), None);
    assert_eq!(world.sent(client), "0:connection.unblocked");
    assert!(world.shards[0].0.may_read(client.1) && !world.shards[0].0.is_alarmed());
}
