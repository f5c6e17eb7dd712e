//! Tables that samples begin with: every argument that means something, and headers of every kind.
//!
//! Leaves: names and tables in wire form.
//! Owns:   the list; a new argument joins it here.
//! Never:  random: the same samples every time.

use wire::{List, Table, Value};

/// A table in wire form, without its length.
pub fn table(entries: &[(&str, Value)]) -> Vec<u8> {
    let all = entries.iter().fold(Table::new(), |table, (name, value)| {
        table.with(name, value.clone()).expect("names of samples are short")
    });
    all.to_bytes()
}

/// Properties that have these headers, in wire form, and nothing else.
pub fn headers_only(headers: &[u8]) -> Vec<u8> {
    // The property flag of headers is bit 13 (AMQP 0-9-1 §4.2.6.1).
    let mut properties = vec![1 << 5, 0];
    properties.extend_from_slice(&(headers.len() as u32).to_be_bytes());
    properties.extend_from_slice(headers);
    properties
}

/// A list of values.
pub fn list(values: Vec<Value>) -> Value {
    Value::List(values.into_iter().collect::<List>())
}

/// Tables of arguments.
pub fn samples_of_tables() -> Vec<(String, Vec<u8>)> {
    let single = [
        ("x-message-ttl", Value::I32(5)),
        ("x-message-ttl", Value::I64(0)),
        ("x-message-ttl", Value::I64(-1)),
        ("x-expires", Value::I16(20)),
        ("x-expires", Value::U8(0)),
        ("x-max-length", Value::I64(2)),
        ("x-max-length-bytes", Value::I64(3)),
        ("x-overflow", Value::text("reject-publish")),
        ("x-overflow", Value::text("drop-tail")),
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-exchange", Value::I64(3)),
        ("x-dead-letter-routing-key", Value::text("q")),
        ("x-max-priority", Value::U8(10)),
        ("x-max-priority", Value::I64(256)),
        ("x-single-active-consumer", Value::Bool(true)),
        ("x-queue-mode", Value::text("lazy")),
        ("x-queue-type", Value::text("classic")),
        ("x-queue-type", Value::text("quorum")),
        ("x-queue-version", Value::I64(2)),
        ("x-delivery-limit", Value::I64(1)),
        ("x-queue-master-locator", Value::text("min-masters")),
        ("x-quorum-initial-group-size", Value::I64(3)),
        ("alternate-exchange", Value::text("x")),
        ("alternate-exchange", Value::Bool(true)),
        ("hash-header", Value::text("h")),
        ("x-delayed-type", Value::text("direct")),
        ("x-match", Value::text("any-with-x")),
        ("x-match", Value::I8(1)),
        ("x-priority", Value::I32(-7)),
        ("x-priority", Value::F64(1.5)),
        ("CC", list(vec![Value::text("q")])),
        ("BCC", list(vec![Value::I32(1)])),
    ];
    let mut all: Vec<(String, Vec<u8>)> = single
        .iter()
        .enumerate()
        .map(|(at, entry)| (format!("{at:02}-{}", entry.0), table(std::slice::from_ref(entry))))
        .collect();
    let together = [
        ("x-message-ttl", Value::I8(3)),
        ("x-max-length", Value::I64(2)),
        ("x-overflow", Value::text("reject-publish-dlx")),
        ("x-dead-letter-exchange", Value::text("")),
        ("x-dead-letter-routing-key", Value::text("q")),
        ("x-max-priority", Value::U8(5)),
        ("x-delivery-limit", Value::I64(0)),
        ("x-single-active-consumer", Value::Bool(false)),
    ];
    all.push(("together".into(), table(&together)));
    let nested = (0..40).fold(Value::Void, |inner, _| list(vec![inner]));
    all.push(("nested".into(), table(&[("x-queue-master-locator", nested)])));
    all.push(("empty".into(), Vec::new()));
    all
}
