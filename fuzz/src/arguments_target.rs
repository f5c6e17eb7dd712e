//! The target `arguments`: queues, exchanges and consumers are declared with any arguments.
//!
//! Enters: two bytes that choose what is declared and how, then a table.
//! Leaves: nothing, or a panic.
//! Owns:   what must hold of every declaration, refused or not.
//! Never:  says which arguments are right: the tests of `catalog` do, and RabbitMQ.

use crate::one_shard::OneShard;
use crate::tables::{headers_only, samples_of_tables};
use catalog::Refusal;
use wire::method::{basic, exchange, queue};
use wire::{Properties, ReplyCode, ShortStr, ShortString, Table, TableRef, Value};

/// Names of exchange types; the last are none.
const KINDS: [&str; 8] =
    ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-delayed-message", "no such type", ""];
/// Longer than the times that samples begin with.
const A_WHILE_MS: u64 = 50;

/// Panics if a declaration breaks a promise.
pub fn check(bytes: &[u8]) {
    let Some((&[what, how], table)) = bytes.split_first_chunk::<2>() else { return };
    match what % 3 {
        0 => check_queue(how, table),
        1 => check_exchange(how, table),
        _ => check_consumer(how, table),
    }
}

/// What is refused is refused for what it says, in the scope of its code.
fn fair(refusal: &Refusal) {
    use ReplyCode::{CommandInvalid, NotImplemented, PreconditionFailed, SyntaxError};
    let codes = [PreconditionFailed, SyntaxError, CommandInvalid, NotImplemented];
    assert!(codes.contains(&refusal.code), "{refusal:?}");
    assert!(refusal.text.starts_with(refusal.code.name()), "{refusal:?}");
    assert_eq!(refusal.code.is_hard(), refusal.scope == catalog::RefusalScope::Connection, "{refusal:?}");
}

/// The same table, with whole numbers in another width.
fn retyped(table: &Table) -> Table {
    let value = |value: &Value| match value.as_i64() {
        Some(number) => i32::try_from(number).map_or(Value::I64(number), Value::I32),
        None => value.clone(),
    };
    table.iter().map(|(name, old)| (name.to_owned(), value(old))).collect()
}

fn check_queue(how: u8, table: &[u8]) {
    let is = |bit: u8| how & 1 << bit != 0;
    let mut shard = OneShard::new(is(0));
    let (durable, auto_delete, exclusive) = (is(1), is(2), is(3));
    let say = |shard: &mut OneShard, durable: bool, arguments: &[u8]| {
        let (queue, arguments) = (ShortStr::literal("q"), TableRef::new(arguments));
        shard.say(queue::Declare { queue, passive: false, durable, exclusive, auto_delete, no_wait: false, arguments })
    };
    if let Err(refusal) = say(&mut shard, durable, table) {
        fair(&refusal);
        assert!(!shard.has_queue("q"), "a queue that was refused is there: {refusal:?}");
        return;
    }
    assert!(shard.has_queue("q"));
    // It is the same as itself, also to a client that writes numbers otherwise.
    say(&mut shard, durable, table).expect("a queue is as it was declared");
    let owned = TableRef::new(table).to_table().expect("what was taken can be read");
    say(&mut shard, durable, &retyped(&owned).to_bytes()).expect("numbers of another width are the same numbers");
    if !exclusive {
        let refusal = say(&mut shard, !durable, table).expect_err("durable is compared");
        assert_eq!(refusal.code, ReplyCode::PreconditionFailed);
    }
    // Whatever it does beyond queueing, it does without harm.
    let expiration = is(4).then(|| ShortString::try_from("3").expect("short"));
    let properties = Properties { priority: Some(how), expiration, ..Properties::default() }.to_bytes();
    for body in [&b"a"[..], b"bb", b"ccc"] {
        shard.publish("", "q", &properties, body).expect("the default exchange is there");
    }
    if let Some(got) = shard.get("q", false) {
        assert_eq!(got.properties, properties);
        let nack = basic::Nack { delivery_tag: got.tag, multiple: false, requeue: is(5) };
        shard.say(nack).expect("it was delivered");
    }
    assert!(shard.waiting() <= 3, "messages make no messages");
    shard.pass(1);
    while shard.get("q", true).is_some() {}
    shard.pass(A_WHILE_MS);
    shard.pass(A_WHILE_MS);
    assert_eq!(shard.waiting(), 0);
    let queue = ShortStr::literal("q");
    shard.say(queue::Delete { queue, if_unused: false, if_empty: false, no_wait: false }).expect("it can be deleted");
    assert!(!shard.has_queue("q"));
}

fn check_exchange(how: u8, table: &[u8]) {
    let mut shard = OneShard::new(false);
    let kind = KINDS[usize::from(how >> 4) % KINDS.len()];
    let is = |bit: u8| how & 1 << bit != 0;
    let arguments = TableRef::new(table);
    let declare = |durable: bool| exchange::Declare {
        exchange: ShortStr::literal("x"),
        kind: ShortStr::truncated(kind),
        passive: false,
        durable,
        auto_delete: is(1),
        internal: is(2),
        no_wait: false,
        arguments,
    };
    if let Err(refusal) = shard.say(declare(is(0))) {
        fair(&refusal);
        assert!(!shard.has_exchange("x"), "an exchange that was refused is there: {refusal:?}");
        return;
    }
    assert!(shard.has_exchange("x"));
    shard.say(declare(is(0))).expect("an exchange is as it was declared");
    let refusal = shard.say(declare(!is(0))).expect_err("durable is compared");
    assert_eq!(refusal.code, ReplyCode::PreconditionFailed);
    shard.declare("q", &[]).expect("a plain queue");
    let (queue, exchange) = (ShortStr::literal("q"), ShortStr::literal("x"));
    // A binding's arguments are a table, too.
    let bind = queue::Bind { queue, exchange, routing_key: ShortStr::literal("1"), no_wait: false, arguments };
    match shard.say(bind) {
        Ok(()) => {
            let unbind = queue::Unbind { queue, exchange, routing_key: ShortStr::literal("1"), arguments };
            if is(3) {
                shard.say(unbind).expect("what was bound can be unbound");
            }
        }
        Err(refusal) => fair(&refusal),
    }
    match shard.publish("x", "1", &headers_only(table), b"m") {
        Ok(()) => {}
        // Internal, gone with its last binding, or headers with copies that are none.
        Err(refusal) => assert!(!refusal.code.is_hard(), "{refusal:?}"),
    }
    shard.pass(A_WHILE_MS);
    assert!(shard.waiting() <= 1, "a message comes once");
}

fn check_consumer(how: u8, table: &[u8]) {
    let mut shard = OneShard::new(false);
    let is = |bit: u8| how & 1 << bit != 0;
    shard.declare("q", &[]).expect("a plain queue");
    let consume = basic::Consume {
        queue: ShortStr::literal("q"),
        consumer_tag: ShortStr::literal("c"),
        no_local: is(0),
        no_ack: is(1),
        exclusive: is(2),
        no_wait: false,
        arguments: TableRef::new(table),
    };
    match shard.say(consume) {
        Err(refusal) => fair(&refusal),
        Ok(()) => {
            shard.publish("", "q", &[0, 0], b"m").expect("the default exchange is there");
            assert_eq!(shard.deliveries().len(), 1, "who consumes is served");
        }
    }
}

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for (name, table) in samples_of_tables() {
        for (what, word) in [(0, "queue"), (1, "exchange"), (2, "consumer")] {
            all.push((format!("{word}-{name}"), [&[what, 1], &*table].concat()));
        }
    }
    for kind in 0..KINDS.len() as u8 {
        all.push((format!("exchange-of-type-{kind}"), vec![1, kind << 4]));
    }
    all
}
