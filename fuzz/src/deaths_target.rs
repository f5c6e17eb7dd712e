//! The target `deaths`: messages with hostile headers die, again and again.
//!
//! Enters: a byte that chooses why messages die, then the headers that a client gave one.
//! Leaves: nothing, or a panic.
//! Owns:   two queues whose dead letters go to each other, and what must hold of every letter.
//! Never:  expects that headers mean what their names say.

use crate::one_shard::{Got, OneShard};
use crate::tables::{headers_only, list, table};
use wire::method::basic;
use wire::{RawProperties, Table, TableRef, Value};

const QUEUES: [&str; 2] = ["a", "b"];
const TTL_MS: u64 = 2;
/// How often each queue is emptied by somebody who wants nothing.
const ROUNDS: usize = 4;
/// Messages that one publish may become, or one that somebody does not want: one in each queue, by `CC`. And each may go on to
/// the other queue twice, until it comes round.
const COPIES_MAX: usize = 2 * 4;
/// Bytes that the deaths of one message add to its headers, beside the keys that were there: two queues, four reasons.
const DEATHS_BYTES_MAX: usize = 4_096;

/// Panics if a dead letter is damaged, grows without bound, or never comes to rest.
pub fn check(bytes: &[u8]) {
    let Some((&how, headers)) = bytes.split_first() else { return };
    let properties = headers_only(headers);
    if RawProperties::new(&properties).validate().is_err() {
        // The target `session` sees to it that nobody hears of it.
        return;
    }
    let is = |bit: u8| how & 1 << bit != 0;
    let mut shard = OneShard::new(true);
    for (at, (queue, dead_letter_queue)) in QUEUES.into_iter().zip(["b", "a"]).enumerate() {
        let mut arguments = Table::new().with("x-dead-letter-exchange", Value::text("")).expect("short");
        let mut with = |is: bool, name: &str, value: Value| {
            if is {
                arguments = std::mem::take(&mut arguments).with(name, value).expect("short");
            }
        };
        // Without it a letter keeps its key, and meets the queue that it comes from.
        with(is(at as u8), "x-dead-letter-routing-key", Value::text(dead_letter_queue));
        with(is(2 + at as u8), "x-message-ttl", Value::I64(TTL_MS as i64));
        with(is(4 + at as u8), "x-max-length", Value::I64(0));
        with(is(6), "x-delivery-limit", Value::I64(1));
        with(is(7), "x-overflow", Value::text("reject-publish-dlx"));
        shard.declare(queue, &arguments.to_bytes()).expect("sound arguments");
    }
    let body = b"m";
    if let Err(refusal) = shard.publish("", "a", &properties, body) {
        assert!(!refusal.code.is_hard(), "{refusal:?}");
        return;
    }
    let bytes_max = properties.len() * 8 + DEATHS_BYTES_MAX;
    let mut rejected = 1;
    for round in 0..ROUNDS {
        for queue in QUEUES {
            // What somebody rejects comes back, perhaps: a few times are enough.
            for _ in 0..ROUNDS {
                let Some(got) = shard.get(queue, false) else { break };
                check_letter(&got, body, bytes_max);
                let requeue = round == 0;
                shard.say(basic::Reject { delivery_tag: got.tag, requeue }).expect("it was delivered");
                rejected += usize::from(!requeue);
            }
        }
        assert!(shard.waiting() <= rejected * COPIES_MAX, "messages make messages");
        shard.pass(TTL_MS);
        assert!(shard.waiting() <= rejected * COPIES_MAX, "messages make messages");
    }
}

fn check_letter(got: &Got, body: &[u8], bytes_max: usize) {
    assert_eq!(got.body, body);
    assert!(got.properties.len() <= bytes_max, "{} bytes of properties", got.properties.len());
    let raw = RawProperties::new(&got.properties);
    raw.validate().expect("a letter's properties are sound");
    let headers = raw.headers().map(TableRef::to_table).transpose().expect("a letter's headers are sound");
    let headers = headers.unwrap_or_default();
    let has_died = headers.get("x-last-death-reason").is_some() && headers.get("x-death").is_some();
    if let (true, Some(Value::List(events))) = (has_died, headers.get("x-death"))
        && let Some(Value::Table(last)) = events.iter().next()
        && QUEUES.iter().any(|queue| last.get("queue").and_then(Value::as_str) == Some(queue))
    {
        assert!(last.get("count").and_then(Value::as_i64).is_some() || last.get("reason").is_none(), "{last:?}");
    }
}

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let event = |entries: &[(&str, Value)]| {
        let all = entries.iter().fold(Table::new(), |table, (name, value)| {
            table.with(name, value.clone()).expect("names of samples are short")
        });
        Value::Table(all)
    };
    let forged = |reason: &str, count: Value| {
        event(&[("queue", Value::text("a")), ("reason", Value::text(reason)), ("count", count)])
    };
    let headers = [
        ("none", vec![]),
        ("no-list", vec![("x-death", Value::text("no list"))]),
        ("no-tables", vec![("x-death", list(vec![Value::I32(1), Value::Void, Value::text("t")]))]),
        ("no-entries", vec![("x-death", list(vec![event(&[])]))]),
        ("most", vec![("x-death", list(vec![forged("rejected", Value::I64(i64::MAX))]))]),
        ("least", vec![("x-death", list(vec![forged("expired", Value::I64(i64::MIN))]))]),
        ("twice", vec![("x-death", list(vec![forged("maxlen", Value::I8(1)), forged("maxlen", Value::text("?"))]))]),
        ("many", vec![("x-death", list((0..40).map(|at| forged("expired", Value::I32(at))).collect()))]),
        ("first", vec![("x-first-death-queue", Value::I32(1)), ("x-last-death-reason", Value::Void)]),
        ("copies", vec![("CC", list(vec![Value::text("b"), Value::text("a"), Value::text("b")]))]),
        ("no-copies", vec![("CC", Value::text("b"))]),
        ("blind", vec![("BCC", list(vec![Value::text("b")]))]),
        ("count", vec![("x-delivery-count", Value::text("many"))]),
    ];
    let mut all = Vec::new();
    for (name, headers) in &headers {
        for how in [0b0000_0011, 0b0000_0000, 0b0000_1111, 0b0011_0011, 0b1111_0010, 0b0100_0011] {
            all.push((format!("{name}-{how:08b}"), [&[how], &*table(headers)].concat()));
        }
    }
    all
}
