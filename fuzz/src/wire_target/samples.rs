//! Samples of the target `wire`: every method, every value, every property once.
//!
//! Leaves: names and bytes.
//! Owns:   the seeds of the corpus.
//! Never:  random: the same samples every time.

use wire::{
    ChannelNumber, ContentHeader, Decimal, List, Method, Properties, RawProperties, ShortStr, ShortString, Table,
    TableRef, Value,
    frame::{self, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, HEARTBEAT_FRAME},
    limits::TABLE_DEPTH_MAX,
    method::{basic, connection, queue},
};

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for ((class_id, method_id), name) in Method::ALL {
        let payload = any_method(*class_id, *method_id);
        all.extend(with_table(&payload).map(|payload| (format!("method-{name}-table"), payload)));
        all.push((format!("method-{name}"), payload));
    }
    let table = every_value().to_bytes();
    all.push(("table-every-value".into(), table.clone()));
    all.push(("table-nested".into(), nested(6).to_bytes()));
    for depth in [TABLE_DEPTH_MAX, TABLE_DEPTH_MAX + 1] {
        all.push((format!("table-{depth}-deep"), deep(depth)));
    }
    all.push(("list-every-value".into(), list_of_every_value()));
    all.push(("properties-all".into(), every_property().to_bytes()));
    all.push(("properties-none".into(), RawProperties::EMPTY.as_bytes().to_vec()));
    all.push(("stream-handshake".into(), handshake(&table)));
    all.push(("stream-publish".into(), publish()));
    all.push(("heartbeat".into(), HEARTBEAT_FRAME.to_vec()));
    all
}

/// The payload of this method with enough zeros to be decoded: empty strings, empty tables, bits off.
fn any_method(class_id: u16, method_id: u16) -> Vec<u8> {
    let mut payload = [class_id.to_be_bytes(), method_id.to_be_bytes()].concat();
    while Method::decode(&payload).is_err() {
        payload.push(0);
        assert!(payload.len() < 64, "no method takes that many zeros");
    }
    payload
}

/// The same with entries, if the method ends in a table.
fn with_table(payload: &[u8]) -> Option<Vec<u8>> {
    let mut payload = payload.strip_suffix(&[0; 4])?.to_vec();
    every_value().encode(&mut payload);
    Method::decode(&payload).is_ok().then_some(payload)
}

fn values() -> Vec<Value> {
    vec![
        Value::Bool(true),
        Value::I8(-1),
        Value::U8(200),
        Value::I16(-300),
        Value::U16(60_000),
        Value::I32(-70_000),
        Value::U32(4_000_000_000),
        Value::I64(-5_000_000_000),
        Value::F32(1.5),
        Value::F64(-2.25),
        Value::Decimal(Decimal { scale: 2, value: 314 }),
        Value::text("text"),
        Value::List([Value::Void, Value::text("in a list")].into_iter().collect()),
        Value::Timestamp(1_700_000_000),
        Value::Table(nested(1)),
        Value::Bytes([0, 255].into()),
        Value::Void,
    ]
}

fn every_value() -> Table {
    values().into_iter().map(|value| (short(value.type_name()), value)).collect()
}

fn list_of_every_value() -> Vec<u8> {
    let mut bytes = Vec::new();
    values().into_iter().collect::<List>().encode(&mut bytes);
    bytes.split_off(4)
}

fn nested(levels: usize) -> Table {
    (0..levels).fold(Table::new(), |inner, _| {
        [
            (short("deeper"), Value::Table(inner.clone())),
            (short("list"), Value::List([Value::Table(inner)].into_iter().collect())),
        ]
        .into_iter()
        .take(if levels > 4 { 1 } else { 2 })
        .collect()
    })
}

/// `depth` tables in each other, by bytes: the deepest allowed, or one more.
fn deep(depth: usize) -> Vec<u8> {
    (1..depth).fold(Vec::new(), |inner, _| {
        let length = u32::try_from(inner.len()).expect("samples are small");
        [b"\x01kF".as_slice(), &length.to_be_bytes(), &inner].concat()
    })
}

fn every_property() -> Properties {
    Properties {
        content_type: Some(short("text/plain")),
        content_encoding: Some(short("utf-8")),
        headers: Some(every_value()),
        delivery_mode: Some(2),
        priority: Some(5),
        correlation_id: Some(short("1")),
        reply_to: Some(short("amq.rabbitmq.reply-to")),
        expiration: Some(short("60000")),
        message_id: Some(short("m")),
        timestamp: Some(1_700_000_000),
        kind: Some(short("order")),
        user_id: Some(short("guest")),
        app_id: Some(short("a")),
        cluster_id: Some(short("")),
    }
}

fn handshake(table: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let methods: [Method<'_>; 4] = [
        connection::StartOk {
            client_properties: TableRef::new(table),
            mechanism: ShortStr::literal("PLAIN"),
            response: b"\0guest\0guest",
            locale: ShortStr::literal("en_US"),
        }
        .into(),
        connection::TuneOk { channel_max: 2047, frame_max: 131_072, heartbeat: 60 }.into(),
        connection::Open { virtual_host: ShortStr::literal("/") }.into(),
        queue::Declare {
            queue: ShortStr::literal("q"),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: true,
            no_wait: false,
            arguments: TableRef::new(table),
        }
        .into(),
    ];
    for method in &methods {
        wire::encode_frame(ChannelNumber::CONNECTION, method, &mut out);
    }
    out
}

fn publish() -> Vec<u8> {
    let mut out = Vec::new();
    let method = basic::Publish {
        exchange: ShortStr::literal("amq.topic"),
        routing_key: ShortStr::literal("a.b.c"),
        mandatory: true,
        immediate: false,
    };
    let mut payload = vec![0; 4 + method.encoded_len()];
    Method::from(method).encode(&mut payload);
    frame::append(FRAME_METHOD, ChannelNumber(1), &payload, &mut out);
    let properties = every_property().to_bytes();
    let header = ContentHeader { class_id: 60, body_bytes: 4, properties: RawProperties::new(&properties) };
    let mut payload = vec![0; header.encoded_len()];
    header.encode(&mut payload);
    frame::append(FRAME_HEADER, ChannelNumber(1), &payload, &mut out);
    frame::append(FRAME_BODY, ChannelNumber(1), b"body", &mut out);
    out
}

fn short(text: &str) -> ShortString {
    ShortString::try_from(text).expect("samples have short names")
}
