//! Whole messages: large ones and many small ones, from publishers that come again, to queues that nobody empties, to delaying
//! exchanges and to consumers that do not read.

use super::attacker::{Attacker, announce, announce_to, body, method_frame, open_channel, short};
use super::broker::LimitedBroker;
use super::bystander::Bystander;
use super::times;
use wire::method::{basic, confirm, exchange, queue};
use wire::{Properties, ShortStr, Table, TableRef, Value};

const FRAME_BYTES: usize = 65_536;

/// A queue of the attackers.
const HEAP: &str = "heap";

fn declare_queue(name: &str, arguments: &[u8]) -> Vec<u8> {
    let declare = queue::Declare {
        queue: short(name),
        passive: false,
        durable: false,
        exclusive: false,
        auto_delete: false,
        no_wait: false,
        arguments: TableRef::new(arguments),
    };
    method_frame(1, declare.into())
}

/// A client with a channel that confirms, and a queue of the attackers.
fn publisher(broker: &LimitedBroker, queue: &str) -> Attacker {
    let mut attacker = Attacker::connect(broker, "guest");
    let select = method_frame(1, confirm::Select { no_wait: false }.into());
    attacker.send(&[open_channel(1), select, declare_queue(queue, &[])].concat()).expect("sent");
    assert!(attacker.await_method("queue.declare-ok"));
    attacker
}

fn message(routing_key: &str, bytes: usize) -> Vec<u8> {
    let mut message = announce(1, routing_key, bytes as u64);
    let mut left = bytes;
    while left > 0 {
        let part = left.min(FRAME_BYTES);
        message.extend(body(1, &vec![7; part]));
        left -= part;
    }
    message
}

/// Publishes until the broker holds the publisher back.
fn fill(attacker: &mut Attacker, message: &[u8]) {
    loop {
        attacker.send(message).expect("sent");
        if attacker.await_any(&["basic.ack", "connection.blocked"]).as_deref() != Some("basic.ack") {
            return;
        }
    }
}

/// Queues that are filled: each may hold half of the memory limit, and the memory alarm begins before all of them are full.
const FILLED: [&str; 3] = ["heap.one", "heap.two", "heap.three"];

/// Fills queues that nobody empties until the memory alarm begins.
fn fill_memory(broker: &LimitedBroker, message: impl Fn(&str) -> Vec<u8>) -> Vec<Attacker> {
    let publishers = FILLED.map(|queue| {
        let mut attacker = publisher(broker, queue);
        fill(&mut attacker, &message(queue));
        attacker
    });
    broker.await_alarm();
    publishers.into()
}

fn delete_filled(bystander: &mut Bystander) {
    FILLED.iter().for_each(|queue| bystander.delete(queue));
}

/// Queues of messages that are purged, each with less than half of the memory limit.
const PURGED: [&str; 4] = ["purged.0", "purged.1", "purged.2", "purged.3"];

/// A few messages stay of very many of each size: they keep regions of which nearly all is free, and messages of other sizes
/// cannot use them.
#[test]
fn what_few_messages_keep_of_many_that_were_purged_is_counted() {
    let attack = "messages of seven sizes of which few stay";
    let broker = LimitedBroker::start("few-stay", times(64));
    let mut bystander = Bystander::new(&broker);
    let mut attacker = publisher(&broker, HEAP);
    PURGED.iter().for_each(|queue| attacker.send(&declare_queue(queue, &[])).expect("sent"));
    let mut purger = Attacker::connect(&broker, "guest");
    purger.send(&open_channel(1)).expect("sent");
    // A megabyte at a time, as large as a region.
    let some = |bytes: usize| {
        let purged = (0..(1 << 20) / bytes).flat_map(|number| message(PURGED[number % 4], bytes));
        message(HEAP, bytes).into_iter().chain(purged).collect::<Vec<u8>>()
    };
    // The answer comes when everything before it is taken.
    let answered = declare_queue(HEAP, &[]);
    for bytes in [400, 1_000, 2_500, 6_000, 15_000, 40_000, 100_000] {
        let is_taken = (0..times(36)).all(|_| {
            // It may be held back in the middle.
            attacker.send_in_background([some(bytes), answered.clone()].concat());
            attacker.await_any(&["queue.declare-ok", "connection.blocked"]).as_deref() == Some("queue.declare-ok")
        });
        for name in PURGED {
            purger.send(&method_frame(1, queue::Purge { queue: short(name), no_wait: false }.into())).expect("sent");
            assert!(purger.await_method("queue.purge-ok"));
        }
        if !is_taken {
            break;
        }
    }
    broker.has_kept_its_limit(attack);
    broker.await_alarm();
    bystander.delete(HEAP);
    broker.await_line("\"over\":false");
    bystander.exchange(attack);
    broker.has_kept_its_limit(attack);
}

#[test]
fn a_publisher_that_comes_again_gets_no_large_message_in() {
    for body_mib in [30, 100] {
        let attack = format!("messages of {body_mib} MiB from a publisher that comes again");
        let broker = LimitedBroker::start(&format!("again-{body_mib}"), 100);
        let mut bystander = Bystander::new(&broker);
        let message = message(HEAP, body_mib << 20);
        for _ in 0..10 {
            let mut attacker = publisher(&broker, HEAP);
            attacker.send_in_background(message.clone());
            attacker.await_any(&["basic.ack", "connection.blocked", "connection.close"]);
            attacker.end();
        }
        broker.has_kept_its_limit(&attack);
        bystander.delete(HEAP);
        bystander.exchange(&attack);
    }
}

#[test]
fn first_messages_of_many_connections_end_at_the_limit() {
    let attack = "first messages of many connections";
    let broker = LimitedBroker::start("first", times(64));
    let mut bystander = Bystander::new(&broker);
    let mut attackers = fill_memory(&broker, |queue| message(queue, 1 << 20));
    let message = message(HEAP, 30_000);
    attackers.extend((0..times(700)).map(|_| {
        let mut attacker = publisher(&broker, HEAP);
        attacker.send(&message).expect("sent");
        attacker.await_any(&["basic.ack", "connection.blocked"]);
        attacker
    }));
    broker.has_kept_its_limit(attack);
    attackers.into_iter().for_each(Attacker::end);
    delete_filled(&mut bystander);
    bystander.exchange(attack);
}

#[test]
fn small_messages_that_nobody_consumes_are_held_at_the_limit() {
    let attack = "small messages that nobody consumes";
    let broker = LimitedBroker::start("small", times(64));
    let mut bystander = Bystander::new(&broker);
    let attackers = fill_memory(&broker, |queue| message(queue, 10).repeat(500));
    broker.has_kept_its_limit(attack);
    attackers.into_iter().for_each(Attacker::end);
    delete_filled(&mut bystander);
    bystander.exchange(attack);
}

#[test]
fn delayed_messages_are_counted_whole() {
    let attack = "delayed messages";
    let broker = LimitedBroker::start("delayed", times(64));
    let mut attacker = publisher(&broker, HEAP);
    let arguments = Table::new().with("x-delayed-type", Value::text("fanout")).expect("short").to_bytes();
    let declare = exchange::Declare {
        exchange: short(HEAP),
        kind: short("x-delayed-message"),
        passive: false,
        durable: false,
        auto_delete: false,
        internal: false,
        no_wait: false,
        arguments: TableRef::new(&arguments),
    };
    attacker.send(&method_frame(1, declare.into())).expect("sent");
    assert!(attacker.await_method("exchange.declare-ok"));
    let headers = Table::new().with("x-delay", Value::I32(3_600_000)).ok();
    let properties = Properties { headers, ..Properties::default() }.to_bytes();
    let message = [announce_to(1, (HEAP, ""), &properties, 10), body(1, &[7; 10])].concat();
    fill(&mut attacker, &message.repeat(500));
    broker.has_kept_its_limit(attack);
    attacker.end();
}

#[test]
fn consumers_that_do_not_read_hold_a_little_each() {
    let attack = "consumers that do not read";
    let broker = LimitedBroker::start("outputs", times(64));
    let mut bystander = Bystander::new(&broker);
    let mut attacker = publisher(&broker, HEAP);
    let consumers: Vec<_> = (0..times(200))
        .map(|number| {
            let name = format!("{HEAP}.{number}");
            let mut consumer = Attacker::connect(&broker, "guest");
            let exchange = short("amq.fanout");
            let routing_key = ShortStr::literal("");
            let (queue, arguments) = (short(&name), TableRef::EMPTY);
            let bind = queue::Bind { queue, exchange, routing_key, no_wait: false, arguments };
            let consume = basic::Consume {
                queue,
                consumer_tag: ShortStr::literal("c"),
                no_local: false,
                no_ack: true,
                exclusive: false,
                no_wait: false,
                arguments,
            };
            let asks = [
                open_channel(1),
                declare_queue(&name, &[]),
                method_frame(1, bind.into()),
                method_frame(1, consume.into()),
            ];
            consumer.send(&asks.concat()).expect("sent");
            assert!(consumer.await_method("basic.consume-ok"));
            consumer
        })
        .collect();
    let message = [announce_to(1, ("amq.fanout", ""), &[0, 0], 3_000), body(1, &[7; 3_000])].concat();
    fill(&mut attacker, &message);
    broker.has_kept_its_limit(attack);
    consumers.into_iter().for_each(Attacker::end);
    attacker.end();
    (0..times(200)).for_each(|number| bystander.delete(&format!("{HEAP}.{number}")));
    bystander.exchange(attack);
}
