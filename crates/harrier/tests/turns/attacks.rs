//! The attacks: each was found from outside, with the protocol alone.

use crate::attacker::{Attacker, announce_to, body, method_frame, open_channel, short};
use crate::broker::LimitedBroker;
use crate::http_attacks::ask;
use crate::waits::{beside, beside_on, beside_running, exchange_often};
use crate::{LIMIT_MIB, has_store, size};
use client::{Client, QueueOptions};
use wire::method::{basic, channel, exchange, queue, tx};
use wire::{DeliveryTag, List, Properties, Table, TableRef, Value};

/// Logged in, with channel 1 open.
pub fn connect(broker: &LimitedBroker) -> Attacker {
    let mut attacker = Attacker::connect(broker, "guest");
    attacker.send(&open_channel(1)).expect("sent");
    assert!(attacker.await_method("channel.open-ok"));
    attacker
}

pub fn declare(name: &str, arguments: &Table) -> Vec<u8> {
    declare_as(name, has_store(), arguments)
}

fn declare_as(name: &str, durable: bool, arguments: &Table) -> Vec<u8> {
    let bytes = arguments.to_bytes();
    let (passive, exclusive, auto_delete, no_wait) = (false, false, false, true);
    let (queue, arguments) = (short(name), TableRef::new(&bytes));
    method_frame(1, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments }.into())
}

pub fn declare_exchange(name: &str, kind: &str) -> Vec<u8> {
    declare_exchange_with(name, kind, &Table::new())
}

fn declare_exchange_with(name: &str, kind: &str, arguments: &Table) -> Vec<u8> {
    let bytes = arguments.to_bytes();
    let (passive, durable, auto_delete, internal, no_wait) = (false, has_store(), false, false, true);
    let (exchange, kind, arguments) = (short(name), short(kind), TableRef::new(&bytes));
    let declare = exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments };
    method_frame(1, declare.into())
}

pub fn bind(queue: &str, exchange: &str, key: &str, arguments: &Table) -> Vec<u8> {
    let bytes = arguments.to_bytes();
    let (queue, exchange, routing_key) = (short(queue), short(exchange), short(key));
    let arguments = TableRef::new(&bytes);
    method_frame(1, queue::Bind { queue, exchange, routing_key, no_wait: true, arguments }.into())
}

fn consume(queue: &str, tag: &str, no_ack: bool) -> Vec<u8> {
    consume_on(1, queue, tag, no_ack)
}

fn consume_on(channel: u16, queue: &str, tag: &str, no_ack: bool) -> Vec<u8> {
    let (queue, consumer_tag) = (short(queue), short(tag));
    let (no_local, exclusive, no_wait, arguments) = (false, false, true, TableRef::EMPTY);
    let consume = basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments };
    method_frame(channel, consume.into())
}

fn publish(exchange: &str, key: &str, properties: &[u8]) -> Vec<u8> {
    [announce_to(1, (exchange, key), properties, 1), body(1, b"m")].concat()
}

/// These properties, of a persistent message if the broker has a store.
fn properties(properties: Properties) -> Vec<u8> {
    Properties { delivery_mode: has_store().then_some(2), ..properties }.to_bytes()
}

/// The properties of a message without any others.
fn plain() -> &'static [u8] {
    if has_store() { &[0x10, 0, 2] } else { &[0, 0] }
}

fn qos() -> Vec<u8> {
    method_frame(1, basic::Qos { prefetch_size: 0, prefetch_count: 0, global: false }.into())
}

/// Sends, and waits until the broker has carried out all of it.
pub fn carry_out(attacker: &mut Attacker, parts: impl IntoIterator<Item = Vec<u8>>) {
    let bytes: Vec<u8> = parts.into_iter().flatten().collect();
    attacker.send(&bytes).expect("sent");
    // A method whose reply comes behind everything before it.
    attacker.send(&qos()).expect("sent");
    let next = attacker.await_any(&["basic.qos-ok", "channel.close", "connection.close"]);
    assert_eq!(next.as_deref(), Some("basic.qos-ok"), "all of it is accepted");
}

fn dies_at_once(exchange: &str) -> Table {
    keeps_nothing("x-message-ttl", exchange)
}

/// A queue that keeps no message, for this reason.
fn keeps_nothing(reason: &str, exchange: &str) -> Table {
    Table::new()
        .with(reason, Value::I32(0))
        .and_then(|table| table.with("x-dead-letter-exchange", Value::text(exchange)))
        .expect("short names")
}

/// Queues that are one another's dead letter queues: a message becomes as many as they have orders.
fn letters_of_letters(attacker: &mut Attacker, queues: usize, reason: &str) {
    carry_out(attacker, [declare_exchange("letters", "fanout")]);
    let names: Vec<String> = (0..queues).map(|number| format!("l{number}")).collect();
    let dies = keeps_nothing(reason, "letters");
    let made = names.iter().flat_map(|name| [declare(name, &dies), bind(name, "letters", "", &Table::new())]);
    carry_out(attacker, made);
    attacker.send(&publish("letters", "", plain())).expect("sent");
}

#[test]
fn one_message_that_becomes_millions_of_dead_letters() {
    for reason in ["x-message-ttl", "x-max-length", "x-max-length-bytes"] {
        beside(&format!("letters of letters, {reason}"), |broker| {
            let mut attacker = connect(broker);
            letters_of_letters(&mut attacker, size(7, 10), reason);
            carry_out(&mut attacker, []);
        });
    }
}

#[test]
fn a_broker_with_letters_without_end_stops_when_it_is_told() {
    // As it was found: eleven queues make a hundred million letters, which took 4.5 GB, nobody was served, and it did not stop.
    const QUEUES: usize = 11;
    let mut broker = LimitedBroker::start("letters without end", 500);
    let mut attacker = connect(&broker);
    letters_of_letters(&mut attacker, QUEUES, "x-message-ttl");
    // One message causes no more than the limit; these go on for minutes.
    (0..1_000).for_each(|_| attacker.send(&publish("letters", "", plain())).expect("sent"));
    // Its answer comes behind the letters.
    attacker.send(&qos()).expect("sent");
    exchange_often("letters without end", &broker, size(50, 500));
    attacker.stream.set_nonblocking(true).expect("an option");
    let next = attacker.stream.peek(&mut [0]).map_err(|error| error.kind());
    assert_eq!(next, Err(std::io::ErrorKind::WouldBlock), "there are more letters");
    broker.terminate();
}

#[test]
fn a_chain_of_queues_without_time() {
    beside("a chain of queues", |broker| {
        let mut attacker = connect(broker);
        let queues = size(2_000, 20_000);
        let next = |number: usize| {
            let table = dies_at_once("").with("x-dead-letter-routing-key", Value::text(&format!("c{}", number + 1)));
            declare(&format!("c{number}"), &table.expect("a short name"))
        };
        carry_out(&mut attacker, (0..queues).map(next));
        carry_out(&mut attacker, [publish("", "c0", plain())]);
    });
}

/// A message that claims to have died in very many queues: its `x-death` has so many entries.
fn died_often(deaths: usize) -> Vec<u8> {
    let mut list = List::new();
    for number in 0..deaths {
        let death = Table::new().with("queue", Value::text(&format!("{number:x}"))).expect("short");
        list.push(Value::Table(death));
    }
    let headers = Table::new().with("x-death", Value::List(list)).expect("short");
    properties(Properties { headers: Some(headers), ..Properties::default() })
}

#[test]
fn letters_whose_histories_are_read_and_dropped() {
    // Where the letters go is not there: nothing is routed.
    beside("letters with long histories", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare_exchange("f", "fanout")]);
        let dies = dies_at_once("nowhere");
        let made = (0..size(500, 5_000))
            .map(|number| format!("h{number}"))
            .flat_map(|name| [declare(&name, &dies), bind(&name, "f", "", &Table::new())]);
        carry_out(&mut attacker, made);
        carry_out(&mut attacker, [publish("f", "", &died_often(size(1_000, 6_000)))]);
    });
}

/// Consumers of one channel here; the broker allows a few more.
const CONSUMERS_PER_CHANNEL: usize = 50_000;

#[test]
fn a_connection_with_very_many_consumers_is_cut() {
    beside("many consumers", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare("q", &Table::new())]);
        let consumers = size(10_000, 200_000);
        for (channel, first) in (1_u16..).zip((0..consumers).step_by(CONSUMERS_PER_CHANNEL)) {
            if channel > 1 {
                attacker.send(&open_channel(channel)).expect("sent");
                assert!(attacker.await_method("channel.open-ok"));
            }
            let some = first..consumers.min(first + CONSUMERS_PER_CHANNEL);
            carry_out(&mut attacker, some.map(|number| consume_on(channel, "q", &number.to_string(), true)));
        }
        attacker.end();
        // The attack lasts until they have left.
        let mut next = Client::connect(&format!("amqp://{}/%2F", broker.address)).expect("connects");
        let channel = next.open_channel().expect("a channel");
        let passive = QueueOptions { passive: true, ..QueueOptions::default() };
        while next.declare_queue(channel, "q", &passive).expect("it is there").consumers > 0 {}
        next.delete_queue(channel, "q", true, true).expect("nobody uses it");
    });
}

#[test]
fn consumers_of_one_channel_come_and_go() {
    beside("consumers that come and go", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare("q", &Table::new())]);
        let consumers = size(10_000, 40_000);
        let all = || (0..consumers).map(|number| consume("q", &number.to_string(), true));
        carry_out(&mut attacker, all());
        let cancel = |number: usize| {
            let tag = number.to_string();
            method_frame(1, basic::Cancel { consumer_tag: short(&tag), no_wait: true }.into())
        };
        carry_out(&mut attacker, (0..consumers).map(cancel));
        // Once more, and they go with their channel.
        carry_out(&mut attacker, all());
        let (reply_code, reply_text, class_id, method_id) = (200, short("bye"), 0, 0);
        let close = channel::Close { reply_code, reply_text, class_id, method_id };
        attacker.send(&[method_frame(1, close.into()), open_channel(1)].concat()).expect("sent");
        assert!(attacker.await_method("channel.close-ok") && attacker.await_method("channel.open-ok"));
        let if_unused = queue::Delete { queue: short("q"), if_unused: true, if_empty: true, no_wait: false };
        attacker.send(&method_frame(1, if_unused.into())).expect("sent");
        assert!(attacker.await_method("queue.delete-ok"));
    });
}

#[test]
fn acknowledgements_beside_idle_consumers() {
    beside("idle consumers", |broker| {
        let mut attacker = connect(broker);
        let (consumers, acks) = (size(4_000, 20_000), size(5_000, 30_000));
        let one = method_frame(1, basic::Qos { prefetch_size: 0, prefetch_count: 1, global: false }.into());
        let none = method_frame(1, basic::Qos { prefetch_size: 0, prefetch_count: 0, global: false }.into());
        carry_out(&mut attacker, [declare("idle", &Table::new()), declare("busy", &Table::new()), one]);
        let idle = (0..consumers)
            .flat_map(|number| [consume("idle", &number.to_string(), false), publish("", "idle", plain())]);
        carry_out(&mut attacker, idle);
        carry_out(&mut attacker, [none, consume("busy", "busy", false)]);
        carry_out(&mut attacker, (0..acks).map(|_| publish("", "busy", plain())));
        let ack = |number: usize| {
            let delivery_tag = DeliveryTag((consumers + 1 + number) as u64);
            method_frame(1, basic::Ack { delivery_tag, multiple: false }.into())
        };
        carry_out(&mut attacker, (0..acks).map(ack));
    });
}

#[test]
fn headers_exchanges_with_large_tables() {
    beside("many headers", |broker| {
        let mut attacker = connect(broker);
        let (bound, sent) = (size(4_000, 9_000), size(9_000, 18_500));
        carry_out(&mut attacker, [declare_exchange("h", "headers"), declare("q", &Table::new())]);
        let name = |number: usize| format!("{number:x}");
        for binding in 0..8 {
            let any = Table::new().with("x-match", Value::text("any")).expect("short");
            // None of them is in the message.
            let table = (0..bound).fold(any, |table, number| {
                table.with(&name((1 << 15) + binding + number), Value::Bool(true)).expect("short")
            });
            carry_out(&mut attacker, [bind("q", "h", "", &table)]);
        }
        let headers =
            (0..sent).fold(Table::new(), |table, number| table.with(&name(number), Value::Bool(true)).expect("short"));
        let with_headers = properties(Properties { headers: Some(headers), ..Properties::default() });
        carry_out(&mut attacker, [publish("h", "", &with_headers)]);
    });
}

#[test]
fn bindings_that_differ_in_their_arguments_alone() {
    beside("many bindings of one key", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare_exchange("h", "headers"), declare("q", &Table::new())]);
        let one = |number: usize| {
            let table = Table::new().with("number", Value::I32(number as i32)).expect("short");
            bind("q", "h", "", &table)
        };
        carry_out(&mut attacker, (0..size(5_000, 25_000)).map(one));
    });
}

#[test]
fn a_chain_of_alternate_exchanges() {
    beside("a chain of alternate exchanges", |broker| {
        let mut attacker = connect(broker);
        let exchanges = size(20_000, 200_000);
        let one = |number: usize| {
            let next =
                Table::new().with("alternate-exchange", Value::text(&format!("a{}", number + 1))).expect("short");
            declare_exchange_with(&format!("a{number}"), "direct", &next)
        };
        carry_out(&mut attacker, (0..exchanges).map(one));
        // Each key is another, so that no route is remembered.
        carry_out(&mut attacker, (0..20).map(|number| publish("a0", &number.to_string(), plain())));
    });
}

#[test]
fn many_publishes_to_many_short_queues() {
    beside("a wide fanout", |broker| {
        let mut attacker = connect(broker);
        let (queues, publishes) = (size(1_000, 5_000), size(2_000, 26_214));
        carry_out(&mut attacker, [declare_exchange("f", "fanout")]);
        let short_queue = Table::new().with("x-max-length", Value::I32(1)).expect("short");
        let made = (0..queues)
            .map(|number| format!("f{number}"))
            .flat_map(|name| [declare(&name, &short_queue), bind(&name, "f", "", &Table::new())]);
        carry_out(&mut attacker, made);
        carry_out(&mut attacker, (0..publishes).map(|_| publish("f", "", plain())));
    });
}

#[test]
fn topic_patterns_and_hundreds_of_keys() {
    beside("many patterns and keys", |broker| {
        let mut attacker = connect(broker);
        let (patterns, keys) = (size(5_000, 29_520), size(100, 534));
        carry_out(&mut attacker, [declare_exchange("t", "topic"), declare("q", &Table::new())]);
        // Ten words, each one of three: a digit of the number in base three.
        let pattern = |mut number: usize| {
            let mut words = Vec::new();
            for _ in 0..10 {
                words.push(["a", "*", "#"][number % 3]);
                number /= 3;
            }
            bind("q", "t", &words.join("."), &Table::new())
        };
        carry_out(&mut attacker, (0..patterns).map(pattern));
        let mut list = List::new();
        for number in 0..keys {
            list.push(Value::text(&format!("{}{number}", "a.".repeat(100))));
        }
        let headers = Table::new().with("CC", Value::List(list)).expect("short");
        let with_headers = properties(Properties { headers: Some(headers), ..Properties::default() });
        carry_out(&mut attacker, [publish("t", "a", &with_headers)]);
    });
}

#[test]
fn the_api_is_asked_while_there_are_very_many_bindings() {
    let name = "the API and many bindings";
    let broker = LimitedBroker::start_on(name, LIMIT_MIB, has_store());
    let mut owner = connect(&broker);
    carry_out(&mut owner, [declare("q", &Table::new())]);
    let bindings = size(30_000, 1_000_000);
    for first in (0..bindings).step_by(10_000) {
        let some = first..bindings.min(first + 10_000);
        carry_out(&mut owner, some.map(|number| bind("q", "amq.direct", &number.to_string(), &Table::new())));
    }
    beside_running(name, &broker, |broker| assert_eq!(ask(broker, "PUT /api/vhosts/new"), 201));
}

#[test]
fn very_many_unsettled_deliveries_return() {
    beside("many unsettled", |broker| {
        let deliveries = size(100_000, 3_000_000);
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare("q", &Table::new())]);
        for first in (0..deliveries).step_by(10_000) {
            let some = first..deliveries.min(first + 10_000);
            carry_out(&mut attacker, some.map(|_| publish("", "q", plain())));
        }
        let mut taker = connect(broker);
        taker.send(&consume("q", "c", false)).expect("sent");
        for _ in 0..deliveries {
            assert!(taker.await_method("basic.deliver"));
        }
        taker.end();
        carry_out(&mut attacker, [method_frame(1, queue::Purge { queue: short("q"), no_wait: true }.into())]);
    });
}

/// Sends the same so often, ten thousand at a time.
fn repeat(attacker: &mut Attacker, count: usize, one: impl Fn(usize) -> Vec<u8>) {
    for first in (0..count).step_by(10_000) {
        carry_out(attacker, (first..count.min(first + 10_000)).map(&one));
    }
}

#[test]
fn very_many_patterns_match_one_key() {
    beside("many patterns of one key", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare_exchange("t", "topic"), declare("q", &Table::new())]);
        // Thirteen words, each one of three: a digit of the number in base three.
        let pattern = |number: usize| {
            let words = (0..13).scan(number, |rest, _| Some(["a", "*", "#"][std::mem::replace(rest, *rest / 3) % 3]));
            bind("q", "t", &words.collect::<Vec<_>>().join("."), &Table::new())
        };
        repeat(&mut attacker, size(30_000, 1_000_000), pattern);
        let key = ["a"; 13].join(".");
        for number in 0..5 {
            // A new binding, so that no route is remembered.
            let forget = bind("q", "t", &number.to_string(), &Table::new());
            carry_out(&mut attacker, [forget, publish("t", &key, plain())]);
        }
    });
}

#[test]
fn a_message_satisfies_very_many_headers_bindings() {
    beside("many headers bindings of one message", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare_exchange("h", "headers"), declare("q", &Table::new())]);
        // All of them ask for nothing.
        let one = |number: usize| bind("q", "h", &number.to_string(), &Table::new());
        repeat(&mut attacker, size(30_000, 1_000_000), one);
        carry_out(&mut attacker, (0..5).map(|_| publish("h", "", plain())));
    });
}

#[test]
fn one_message_for_which_very_many_destinations_draw() {
    beside("many weights of a consistent hash", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare_exchange("x", "x-consistent-hash")]);
        let destination = |number: usize| {
            let name = format!("s{number}");
            [declare(&name, &Table::new()), bind(&name, "x", &(number + 1).to_string(), &Table::new())].concat()
        };
        let destinations = size(3_000, 300_000);
        repeat(&mut attacker, destinations, destination);
        for number in 0..5 {
            // A new one, so that no route is remembered.
            carry_out(&mut attacker, [destination(destinations + number), publish("x", "k", plain())]);
        }
    });
}

#[test]
fn a_transaction_with_very_many_deliveries() {
    beside("a long transaction", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare("q", &Table::new())]);
        let messages = size(30_000, 1_000_000);
        repeat(&mut attacker, messages, |_| publish("", "q", plain()));
        attacker.send(&consume("q", "c", false)).expect("sent");
        for _ in 0..messages {
            assert!(attacker.await_method("basic.deliver"));
        }
        let ack = method_frame(1, basic::Ack { delivery_tag: DeliveryTag(0), multiple: true }.into());
        let [select, commit, rollback] =
            [tx::Select {}.into(), tx::Commit {}.into(), tx::Rollback {}.into()].map(|method| method_frame(1, method));
        carry_out(&mut attacker, [select, ack.clone(), rollback, ack, commit]);
        attacker.send(&method_frame(1, basic::Get { queue: short("q"), no_ack: true }.into())).expect("sent");
        let next = attacker.await_any(&["basic.get-ok", "basic.get-empty"]);
        assert_eq!(next.as_deref(), Some("basic.get-empty"), "all of them are settled");
    });
}

#[test]
fn a_queue_with_very_many_returned_messages_is_purged() {
    purge_returned("many returned messages are purged", &declare("q", &Table::new()));
}

#[test]
fn a_queue_that_counts_very_many_returned_messages_is_purged() {
    let counts = Table::new().with("x-queue-type", Value::text("quorum")).expect("short");
    purge_returned("many counted messages are purged", &declare_as("q", true, &counts));
}

fn purge_returned(name: &str, declared: &[u8]) {
    beside(name, |broker| {
        let messages = size(30_000, 1_000_000);
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declared.to_vec()]);
        for first in (0..messages).step_by(10_000) {
            let some = first..messages.min(first + 10_000);
            carry_out(&mut attacker, some.map(|_| publish("", "q", plain())));
        }
        attacker.send(&consume("q", "c", false)).expect("sent");
        for _ in 0..messages {
            assert!(attacker.await_method("basic.deliver"));
        }
        let cancel = basic::Cancel { consumer_tag: short("c"), no_wait: true };
        let nack = basic::Nack { delivery_tag: DeliveryTag(0), multiple: true, requeue: true };
        carry_out(&mut attacker, [method_frame(1, cancel.into()), method_frame(1, nack.into())]);
        carry_out(&mut attacker, [method_frame(1, queue::Purge { queue: short("q"), no_wait: true }.into())]);
    });
}

#[test]
fn a_get_behind_very_many_expired_messages() {
    beside("many expired messages", |broker| {
        let mut attacker = connect(broker);
        carry_out(&mut attacker, [declare("q", &Table::new()), publish("", "q", plain())]);
        let expires =
            properties(Properties { expiration: Some("1".try_into().expect("short")), ..Properties::default() });
        let messages = size(30_000, 1_000_000);
        for first in (0..messages).step_by(10_000) {
            let some = first..messages.min(first + 10_000);
            carry_out(&mut attacker, some.map(|_| publish("", "q", &expires)));
        }
        // The first has no time to live; the others have outlived theirs.
        for expected in ["basic.get-ok", "basic.get-empty"] {
            attacker.send(&method_frame(1, basic::Get { queue: short("q"), no_ack: true }.into())).expect("sent");
            let next = attacker.await_any(&["basic.get-ok", "basic.get-empty"]);
            assert_eq!(next.as_deref(), Some(expected));
        }
    });
}

#[test]
fn delayed_messages_with_hundreds_of_keys() {
    beside("delayed messages with many keys", |broker| {
        let mut attacker = connect(broker);
        let delayed = Table::new().with("x-delayed-type", Value::text("topic")).expect("short").to_bytes();
        let (passive, durable, auto_delete, internal, no_wait) = (false, has_store(), false, false, true);
        let (exchange, kind, arguments) = (short("d"), short("x-delayed-message"), TableRef::new(&delayed));
        let declare_delaying =
            exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments };
        carry_out(&mut attacker, [method_frame(1, declare_delaying.into()), declare("q", &Table::new())]);
        let (patterns, keys, messages) = (size(2_000, 20_000), size(100, 534), size(5, 100));
        repeat(&mut attacker, patterns, |number| bind("q", "d", &format!("#.{number}.#"), &Table::new()));
        let mut list = List::new();
        for number in 0..keys {
            list.push(Value::text(&format!("{}{number}", "a.".repeat(100))));
        }
        let headers = Table::new().with("CC", Value::List(list)).and_then(|table| table.with("x-delay", Value::I32(1)));
        let with_headers = properties(Properties { headers: Some(headers.expect("short")), ..Properties::default() });
        carry_out(&mut attacker, (0..messages).map(|_| publish("d", "none", &with_headers)));
        attacker.send(&consume("q", "c", true)).expect("sent");
        for _ in 0..messages {
            assert!(attacker.await_method("basic.deliver"));
        }
    });
}

#[test]
fn persistent_messages_faster_than_the_disk() {
    beside_on("more than the disk takes", true, |broker| {
        let mut attacker = connect(broker);
        let (passive, durable, exclusive, auto_delete, no_wait) = (false, true, false, false, true);
        let (queue, arguments) = (short("q"), TableRef::EMPTY);
        let declare = queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments };
        carry_out(&mut attacker, [method_frame(1, declare.into())]);
        let persistent = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
        let bytes = 64 << 10;
        let message = [announce_to(1, ("", "q"), &persistent, bytes as u64), body(1, &vec![7; bytes])].concat();
        for _ in 0..size(2, 64) {
            carry_out(&mut attacker, (0..512).map(|_| message.clone()));
        }
        carry_out(&mut attacker, [method_frame(1, queue::Purge { queue: short("q"), no_wait: true }.into())]);
    });
}
