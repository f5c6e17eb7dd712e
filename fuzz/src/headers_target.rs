//! The target `headers`: a binding of a headers exchange and the headers of a message, both any table.
//!
//! Enters: two bytes that say how long the binding's table is, that table, the message's.
//! Leaves: nothing, or a panic.
//! Owns:   a second, naive reading of what matches, against which the catalog's is held.
//! Never:  shares code with the catalog's.

use crate::tables::{headers_only, list, samples_of_tables, table};
use catalog::{Catalog, CatalogLimits, Definition, Name, ShardId, default_definitions};
use wire::{RawProperties, ReplyCode, Table, TableRef, Value};

/// Panics if the catalog routes otherwise than a naive reading says, or remembers a binding wrongly.
pub fn check(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return };
    let (binding, message) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
    // What is no table is refused before anybody matches it; the target `wire` sees to that.
    let (Ok(binding), Ok(headers)) = (TableRef::new(binding).to_table(), TableRef::new(message).to_table()) else {
        return;
    };
    let properties = headers_only(message);
    let properties = RawProperties::new(&properties);
    properties.validate().expect("headers that are a table are headers");

    let mut catalog = Catalog::new(CatalogLimits::default());
    for definition in default_definitions() {
        catalog.execute(&definition).expect("the first definitions");
    }
    let vhost = catalog.vhost_by_name("/").expect("the default virtual host");
    let (queue, exchange) = (Name::from("q"), Name::from("amq.headers"));
    let declare = Definition::DeclareQueue {
        vhost,
        name: queue.clone(),
        server_named: false,
        durable: false,
        exclusive: None,
        auto_delete: false,
        arguments: Table::new(),
        home: ShardId(0),
    };
    catalog.execute(&declare).expect("a plain queue");
    let from = catalog.exchange(vhost, exchange.as_bytes()).expect("a predeclared exchange");
    let (routing_key, arguments, session) = (Box::<[u8]>::default(), binding.clone(), None);
    let bind = Definition::BindQueue {
        vhost,
        exchange: exchange.clone(),
        queue: queue.clone(),
        routing_key: routing_key.clone(),
        arguments: arguments.clone(),
        session,
    };
    let mode = mode(&binding);
    match (catalog.execute(&bind), mode) {
        (Ok(_), Some(_)) => {}
        (Err(refusal), None) => {
            assert_eq!(refusal.code, ReplyCode::PreconditionFailed);
            assert!(catalog.route(from, b"", properties).is_empty(), "a binding that was refused routes");
            return;
        }
        (answer, mode) => panic!("{mode:?}, and the catalog says {:?}", answer.map(drop)),
    }
    let expect = mode.is_some_and(|mode| matches(mode, &binding, &headers));
    let routed = |catalog: &mut Catalog| !catalog.route(from, b"any", properties).is_empty();
    assert_eq!(routed(&mut catalog), expect, "{binding:?} on {headers:?}");
    // Bound once more it is the same binding, and unbound once it is gone.
    assert!(!catalog.execute(&bind).expect("it was taken before").changed);
    assert_eq!(routed(&mut catalog), expect);
    catalog
        .execute(&Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session })
        .expect("what was bound can be unbound");
    assert!(!routed(&mut catalog), "an unbound queue gets a message");
}

fn first<'a>(table: &'a Table, name: &[u8]) -> Option<&'a Value> {
    table.iter().find(|(found, _)| found.as_bytes() == name).map(|(_, value)| value)
}

/// Whether all must match, and whether names with `x-` count.
fn mode(binding: &Table) -> Option<(bool, bool)> {
    match first(binding, b"x-match") {
        None => Some((true, false)),
        Some(Value::LongStr(word)) => match &**word {
            b"all" => Some((true, false)),
            b"any" => Some((false, false)),
            b"all-with-x" => Some((true, true)),
            b"any-with-x" => Some((false, true)),
            _ => None,
        },
        Some(_) => None,
    }
}

fn matches((all, with_x): (bool, bool), binding: &Table, headers: &Table) -> bool {
    let mut hits = 0;
    let mut wanted = 0;
    for (name, value) in binding.iter() {
        let name = name.as_bytes();
        if name == b"x-match" || (!with_x && name.starts_with(b"x-")) {
            continue;
        }
        wanted += 1;
        hits += usize::from(first(headers, name).is_some_and(|header| agrees(value, header)));
    }
    if all { hits == wanted } else { hits > 0 }
}

fn agrees(wanted: &Value, header: &Value) -> bool {
    if *wanted == Value::Void {
        return true;
    }
    match (number(wanted), number(header)) {
        (Some(Number::Whole(a)), Some(Number::Whole(b))) => return a == b,
        (Some(Number::Float(a)), Some(Number::Float(b))) => return a == b,
        (Some(Number::Whole(a)), Some(Number::Float(b))) | (Some(Number::Float(b)), Some(Number::Whole(a))) => {
            // No whole number of a table is beyond this.
            return b.is_finite() && b.trunc() == b && b.abs() < 1e30 && b as i128 == a;
        }
        (None, None) => {}
        _ => return false,
    }
    match (wanted, header) {
        (Value::LongStr(a) | Value::Bytes(a), Value::LongStr(b) | Value::Bytes(b)) => a == b,
        _ => wanted == header,
    }
}

enum Number {
    Whole(i128),
    Float(f64),
}

fn number(value: &Value) -> Option<Number> {
    Some(match value {
        Value::Timestamp(seconds) => Number::Whole((*seconds).into()),
        Value::F32(float) => Number::Float((*float).into()),
        Value::F64(float) => Number::Float(*float),
        other => Number::Whole(other.as_i64()?.into()),
    })
}

fn sample(binding: &[u8], message: &[u8]) -> Vec<u8> {
    [&(binding.len() as u16).to_be_bytes()[..], binding, message].concat()
}

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let some = [
        ("a", Value::I32(1)),
        ("b", Value::text("text")),
        ("x-c", Value::Bool(true)),
        ("d", list(vec![Value::U8(1), Value::F64(0.5)])),
    ];
    let other = [("a", Value::F64(1.0)), ("b", Value::Bytes(b"text".as_slice().into())), ("d", Value::Timestamp(7))];
    let mut all = Vec::new();
    for how in ["all", "any", "all-with-x", "any-with-x", "none"] {
        let matching: Vec<_> = std::iter::once(("x-match", Value::text(how))).chain(some.clone()).collect();
        all.push((format!("{how}-same"), sample(&table(&matching), &table(&some))));
        all.push((format!("{how}-other"), sample(&table(&matching), &table(&other))));
        let void = [("x-match", Value::text(how)), ("a", Value::Void)];
        all.push((format!("{how}-void"), sample(&table(&void), &table(&some))));
    }
    for (name, table) in samples_of_tables() {
        all.push((format!("with-itself-{name}"), sample(&table, &table)));
    }
    all
}
