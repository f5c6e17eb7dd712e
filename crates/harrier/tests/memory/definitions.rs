//! Queues with large arguments and without, channels, and consumers.

use super::attacker::{Attacker, method_frame, open_channel, short};
use super::broker::LimitedBroker;
use super::bystander::Bystander;
use super::{size, times};
use wire::method::{Method, basic, exchange, queue};
use wire::{Table, TableRef, Value};

/// An exclusive queue, which goes with its connection. Nobody awaits an answer.
fn declare(name: &str, arguments: &[u8]) -> Vec<u8> {
    declare_queue(name, true, arguments)
}

fn declare_queue(name: &str, exclusive: bool, arguments: &[u8]) -> Vec<u8> {
    let declare = queue::Declare {
        queue: short(name),
        passive: false,
        durable: !exclusive,
        exclusive,
        auto_delete: false,
        no_wait: true,
        arguments: TableRef::new(arguments),
    };
    method_frame(1, declare.into())
}

fn qos() -> Method<'static> {
    basic::Qos { prefetch_size: 0, prefetch_count: 1, global: false }.into()
}

/// Sends batches until the broker does not read on, or has carried all of them out.
fn send_until_held(attacker: &mut Attacker, batches: impl Iterator<Item = Vec<u8>>) {
    for batch in batches {
        attacker.send_in_background([batch, method_frame(1, qos())].concat());
        if attacker.await_any(&["basic.qos-ok", "connection.blocked"]).as_deref() != Some("basic.qos-ok") {
            return;
        }
    }
}

fn attack(name: &str, limit_mib: u64, attack: &str, batches: impl Iterator<Item = Vec<u8>>) {
    let broker = LimitedBroker::start(name, limit_mib);
    let mut bystander = Bystander::new(&broker);
    let mut attacker = Attacker::connect(&broker, "guest");
    attacker.send(&open_channel(1)).expect("sent");
    send_until_held(&mut attacker, batches);
    broker.has_kept_its_limit(attack);
    attacker.end();
    bystander.exchange(attack);
}

fn bind(exchange: &str, queue: &str, key: &str) -> Vec<u8> {
    let (exchange, queue, routing_key) = (short(exchange), short(queue), short(key));
    let bind = queue::Bind { queue, exchange, routing_key, no_wait: true, arguments: TableRef::EMPTY };
    method_frame(1, bind.into())
}

/// Definitions that nobody deletes leave others the memory to publish, and what is there can be declared again.
fn fill_for_good(name: &str, limit_mib: u64, batches: impl Iterator<Item = Vec<u8>>) {
    let broker = LimitedBroker::start(name, limit_mib);
    let mut bystander = Bystander::new(&broker);
    let mut attacker = Attacker::connect(&broker, "guest");
    attacker.send(&open_channel(1)).expect("sent");
    let first = [declare_queue("first", false, &[]), method_frame(1, qos())].concat();
    attacker.send(&first).expect("sent");
    assert!(attacker.await_method("basic.qos-ok"));
    let mut refused = None;
    for batch in batches {
        attacker.send_in_background([batch, method_frame(1, qos())].concat());
        match attacker.await_any(&["basic.qos-ok", "connection.blocked", "connection.close"]).as_deref() {
            Some("basic.qos-ok") => {}
            other => {
                refused = other.map(str::to_owned);
                break;
            }
        }
    }
    assert_eq!(refused.as_deref(), Some("connection.close"), "{name}: 506 RESOURCE_ERROR");
    attacker.end();
    broker.has_kept_its_limit(name);
    bystander.exchange(name);
    let mut other = Attacker::connect(&broker, "guest");
    other.send(&[open_channel(1), first].concat()).expect("sent");
    assert!(other.await_method("basic.qos-ok"), "{name}: what is there can be declared");
    other.send(&[declare_queue("another", false, &[]), method_frame(1, qos())].concat()).expect("sent");
    assert_eq!(other.await_any(&["basic.qos-ok", "connection.close"]).as_deref(), Some("connection.close"), "{name}");
    other.end();
    bystander.exchange(name);
}

#[test]
fn large_arguments_for_good_leave_memory_for_messages() {
    let arguments = Table::new().with("x-large", Value::text(&"a".repeat(58_000))).expect("short").to_bytes();
    let one = move |batch, at| declare_queue(&format!("{batch}.{at}"), false, &arguments);
    fill_for_good(
        "large queues for good",
        size(64, 128),
        (0..size(200, 1_250)).map(|batch| (0..20).flat_map(|at| one(batch, at)).collect()),
    );
}

#[test]
fn small_queues_for_good_leave_memory_for_messages() {
    let one = |batch, at| declare_queue(&format!("{batch}.{at:0>200}"), false, &[]);
    fill_for_good(
        "queues for good",
        times(32),
        (0..times(200)).map(|batch| (0..500).flat_map(|at| one(batch, at)).collect()),
    );
}

#[test]
fn bindings_for_good_leave_memory_for_messages() {
    let one = |batch, at| bind("amq.topic", "first", &format!("{batch}.{at}.{:0>200}", at % 7));
    fill_for_good(
        "bindings for good",
        times(32),
        (0..times(400)).map(|batch| (0..500).flat_map(|at| one(batch, at)).collect()),
    );
}

#[test]
fn large_arguments_are_counted_and_wait() {
    let arguments = Table::new().with("x-large", Value::text(&"a".repeat(58_000))).expect("short").to_bytes();
    let batches =
        (0..size(80, 625)).map(|batch| (0..40).flat_map(|at| declare(&format!("{batch}.{at}"), &arguments)).collect());
    attack("arguments", size(64, 128), "queues with large arguments", batches);
}

#[test]
fn small_queues_are_counted_and_wait() {
    // Long names: the more queues, the longer their end takes.
    let batches =
        (0..times(100)).map(|batch| (0..1_000).flat_map(|at| declare(&format!("{batch}.{at:0>200}"), &[])).collect());
    attack("queues", times(16), "queues", batches);
}

#[test]
fn consumers_are_counted_and_wait() {
    let consume = |channel: u16, tag: &str| {
        let queue = format!("q.{channel}");
        let consume = basic::Consume {
            queue: short(&queue),
            consumer_tag: short(tag),
            no_local: false,
            no_ack: false,
            exclusive: false,
            no_wait: true,
            arguments: TableRef::EMPTY,
        };
        method_frame(channel, consume.into())
    };
    let batches = (2..times(400_u16)).map(|channel| {
        let consumers = (0..1_000).flat_map(|at| consume(channel, &format!("{at:0>200}")));
        [declare(&format!("q.{channel}"), &[]), open_channel(channel)].concat().into_iter().chain(consumers).collect()
    });
    attack("consumers", times(32), "consumers", batches);
}

#[test]
fn channels_are_counted_and_wait() {
    let attack = "channels";
    let mut broker = LimitedBroker::start("channels", times(64));
    let mut bystander = Bystander::new(&broker);
    let attackers: Vec<_> = (0..times(100))
        .map(|_| {
            let mut attacker = Attacker::connect(&broker, "guest");
            attacker.send(&open_channel(1)).expect("sent");
            send_until_held(&mut attacker, std::iter::once((2..2_047).flat_map(open_channel).collect()));
            attacker
        })
        .collect();
    broker.has_kept_its_limit(attack);
    attackers.into_iter().for_each(Attacker::end);
    // The tables of channels give their memory back.
    bystander.exchange(attack);
    broker.terminate();
}

/// A few exchanges stay of many of each size: they keep pages of the heap of which nearly all is free, and arguments of other sizes
/// cannot use them.
#[test]
fn what_few_definitions_keep_of_many_that_were_deleted_is_counted() {
    let attack = "exchanges of fourteen sizes of which few stay";
    let broker = LimitedBroker::start("few-definitions", times(64));
    let mut bystander = Bystander::new(&broker);
    let mut attacker = Attacker::connect(&broker, "guest");
    attacker.send(&open_channel(1)).expect("sent");
    let mut carry_out = |parts: Vec<u8>| {
        attacker.send_in_background([parts, method_frame(1, qos())].concat());
        attacker.await_any(&["basic.qos-ok", "connection.close"]).as_deref() == Some("basic.qos-ok")
    };
    let sizes = [700, 900, 1_200, 1_600, 2_100, 2_800, 3_700, 5_000, 6_700, 9_000, 12_000, 16_000, 22_000, 30_000];
    let is_refused = sizes.into_iter().any(|bytes| {
        let arguments = Table::new().with("large", Value::text(&"a".repeat(bytes))).expect("short").to_bytes();
        let count = times(8 << 20) / (bytes + 600);
        let stays = |number: usize| number.is_multiple_of((64 << 10) / bytes);
        let all: Vec<usize> = (0..count).collect();
        !all.chunks(200).all(|some| {
            carry_out(
                some.iter().flat_map(|number| declare_exchange(&format!("{bytes}.{number}"), &arguments)).collect(),
            )
        }) || !all.chunks(200).all(|some| {
            let deleted = some.iter().filter(|&&number| !stays(number));
            carry_out(deleted.flat_map(|number| delete_exchange(&format!("{bytes}.{number}"))).collect())
        })
    });
    broker.has_kept_its_limit(attack);
    assert!(is_refused, "506 RESOURCE_ERROR");
    bystander.exchange(attack);
}

fn declare_exchange(name: &str, arguments: &[u8]) -> Vec<u8> {
    let (passive, durable, auto_delete, internal, no_wait) = (false, false, false, false, true);
    let (exchange, kind, arguments) = (short(name), short("fanout"), TableRef::new(arguments));
    let declare = exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments };
    method_frame(1, declare.into())
}

fn delete_exchange(name: &str) -> Vec<u8> {
    method_frame(1, exchange::Delete { exchange: short(name), if_unused: false, no_wait: true }.into())
}
