//! Samples of the target `session`: handshakes, contents of every shape, closes, and offences against them.
//!
//! Leaves: names and bytes.
//! Owns:   the seeds of the corpus.
//! Never:  random: the same samples every time.

use super::RUN;
use wire::{
    ChannelNumber, ContentHeader, DeliveryTag, Method, PROTOCOL_HEADER, Properties, RawProperties, ShortStr,
    ShortString, Table, TableRef, Value,
    frame::{self, FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD, HEARTBEAT_FRAME},
    method::{basic, channel, confirm, connection, queue},
};

const SERVER: u8 = 0;
const SERVER_RUNNING: u8 = 1;
const CLIENT: u8 = 2;
const CLIENT_RUNNING: u8 = 3;
const CREDENTIALS: u8 = 4;

/// How the pieces of a sample are cut.
const SEED: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// What the corpus begins with.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let mut all = vec![
        sample("server-handshake", SERVER, &[&PROTOCOL_HEADER[..], &log_in(), &open()]),
        sample("server-handshake-amqplain", SERVER, &[&PROTOCOL_HEADER[..], &log_in_amqplain(), &open()]),
        sample("server-wrong-header", SERVER, &[b"AMQP\x01\x01\x00\x0a"]),
        sample("client-handshake", CLIENT, &[&greeting()]),
        sample("client-other-version", CLIENT, &[b"AMQP\x00\x00\x08\x00"]),
        sample("credentials-plain", CREDENTIALS, &[b"\0guest\0guest"]),
        sample("credentials-amqplain", CREDENTIALS, &[&credentials_table()]),
    ];
    for (name, contents) in contents() {
        all.push(sample(&format!("server-{name}"), SERVER_RUNNING, &[&publish(), &contents]));
        all.push(sample(&format!("client-{name}"), CLIENT_RUNNING, &[&deliver(), &contents]));
    }
    let talk = [
        publish(),
        content(b"a"),
        publish(),
        content(b""),
        method(ChannelNumber(1), basic::Ack { delivery_tag: DeliveryTag(1), multiple: true }),
    ];
    all.push(sample(
        "server-talk",
        SERVER_RUNNING,
        &[&talk.concat(), &HEARTBEAT_FRAME, &close_channel(), &open_channel()],
    ));
    all.push(sample("server-late", SERVER_RUNNING, &[&close_channel(), &publish(), &content(b"late"), &close()]));
    all.push(sample("server-offences", SERVER_RUNNING, &[&offences()]));
    all.push(sample("client-talk", CLIENT_RUNNING, &[&answers(), &deliver(), &content(b"a"), &close_channel()]));
    all.push(sample("client-close", CLIENT_RUNNING, &[&close(), &deliver(), &content(b"late")]));
    all.push(sample("client-returned", CLIENT_RUNNING, &[&returned(), &content(b"back"), &got(), &content(b"got")]));
    for ((class_id, method_id), name) in Method::ALL {
        let payload = [&class_id.to_be_bytes()[..], &method_id.to_be_bytes(), &[0; 16]].concat();
        let mut frame = Vec::new();
        frame::append(FRAME_METHOD, ChannelNumber(u16::from(*class_id != 10)), &payload, &mut frame);
        all.push(sample(&format!("server-method-{name}"), SERVER_RUNNING, &[&frame]));
        all.push(sample(&format!("client-method-{name}"), CLIENT_RUNNING, &[&frame]));
    }
    all
}

fn sample(name: &str, end: u8, parts: &[&[u8]]) -> (String, Vec<u8>) {
    let seed: &[u8] = if end == CREDENTIALS { &[] } else { &SEED };
    (name.to_owned(), [&[end], seed, &parts.concat()].concat())
}

/// What may follow a method with content: of every shape, sound and not.
fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let pieces = [header(9, &[0, 0]), body(b"in "), body(b"pieces")].concat();
    let rich = rich_properties();
    vec![
        ("body", content(b"hello")),
        ("body-empty", content(b"")),
        ("body-pieces", pieces),
        ("body-rich", [header(3, &rich), body(b"abc")].concat()),
        ("body-large", [header(20_000, &[0, 0]), run(8_000), run(8_000), run(4_000)].concat()),
        (
            "body-large-uneven",
            [header(40_000, &rich), run(1), run(8_184), run(7_000), body(b"xyz"), run(8_184)].concat(),
        ),
        ("body-too-long", [header(2, &[0, 0]), body(b"abc")].concat()),
        ("body-over-limit", [header(200_000, &[0, 0]), body(b"dropped"), close_channel()].concat()),
        ("body-missing", [header(5, &[0, 0]), publish()].concat()),
        ("header-missing", body(b"abc")),
        ("header-large", [header(3, &long_properties()), body(b"abc")].concat()),
        ("frame-large", run(8_300)),
    ]
}

fn method<'a>(channel: ChannelNumber, method: impl Into<Method<'a>>) -> Vec<u8> {
    let mut frame = Vec::new();
    wire::encode_frame(channel, &method.into(), &mut frame);
    frame
}

fn publish() -> Vec<u8> {
    let (exchange, routing_key) = (ShortStr::literal("x"), ShortStr::literal("key"));
    method(ChannelNumber(1), basic::Publish { exchange, routing_key, mandatory: false, immediate: false })
}

fn deliver() -> Vec<u8> {
    let (exchange, routing_key) = (ShortStr::literal("x"), ShortStr::literal("key"));
    let consumer_tag = ShortStr::literal("c");
    method(
        ChannelNumber(1),
        basic::Deliver { consumer_tag, delivery_tag: DeliveryTag(1), redelivered: false, exchange, routing_key },
    )
}

fn returned() -> Vec<u8> {
    let (exchange, routing_key) = (ShortStr::literal("x"), ShortStr::literal("key"));
    method(
        ChannelNumber(1),
        basic::Return { reply_code: 312, reply_text: ShortStr::literal("NO_ROUTE"), exchange, routing_key },
    )
}

fn got() -> Vec<u8> {
    let (exchange, routing_key) = (ShortStr::literal("x"), ShortStr::literal("key"));
    method(
        ChannelNumber(1),
        basic::GetOk { delivery_tag: DeliveryTag(2), redelivered: true, exchange, routing_key, message_count: 3 },
    )
}

fn header(body_bytes: u64, properties: &[u8]) -> Vec<u8> {
    let header = ContentHeader { class_id: 60, body_bytes, properties: RawProperties::new(properties) };
    let mut payload = vec![0; header.encoded_len()];
    header.encode(&mut payload);
    let mut frame = Vec::new();
    frame::append(FRAME_HEADER, ChannelNumber(1), &payload, &mut frame);
    frame
}

fn body(bytes: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame::append(FRAME_BODY, ChannelNumber(1), bytes, &mut frame);
    frame
}

fn content(bytes: &[u8]) -> Vec<u8> {
    let body = if bytes.is_empty() { Vec::new() } else { body(bytes) };
    [header(bytes.len() as u64, &[0, 0]), body].concat()
}

/// A body frame of so many bytes, as a run.
fn run(bytes: u16) -> Vec<u8> {
    let head = [&[FRAME_BODY][..], &1_u16.to_be_bytes(), &u32::from(bytes).to_be_bytes()].concat();
    [&head[..], &RUN, &bytes.to_be_bytes(), &[FRAME_END]].concat()
}

fn rich_properties() -> Vec<u8> {
    let headers = Table::new().with("colour", Value::text("red")).expect("a short name");
    Properties { headers: Some(headers), delivery_mode: Some(2), priority: Some(4), ..Properties::default() }.to_bytes()
}

fn long_properties() -> Vec<u8> {
    let headers: Table = (0..20).map(|at| (short(&format!("k{at}")), Value::Bytes([7; 64].into()))).collect();
    Properties { headers: Some(headers), ..Properties::default() }.to_bytes()
}

fn short(text: &str) -> ShortString {
    ShortString::try_from(text).expect("samples have short names")
}

fn log_in() -> Vec<u8> {
    start_ok("PLAIN", b"\0guest\0guest")
}

fn log_in_amqplain() -> Vec<u8> {
    start_ok("AMQPLAIN", &credentials_table())
}

fn credentials_table() -> Vec<u8> {
    let table = Table::new().with("LOGIN", Value::text("guest")).and_then(|t| t.with("PASSWORD", Value::text("guest")));
    table.expect("short names").to_bytes()
}

fn start_ok(mechanism: &'static str, response: &[u8]) -> Vec<u8> {
    let capabilities = Table::new().with("connection.blocked", Value::Bool(true)).expect("a short name");
    let properties = Table::new().with("capabilities", Value::Table(capabilities)).expect("a short name").to_bytes();
    let (mechanism, locale) = (ShortStr::literal(mechanism), ShortStr::literal("en_US"));
    method(
        ChannelNumber::CONNECTION,
        connection::StartOk { client_properties: TableRef::new(&properties), mechanism, response, locale },
    )
}

fn open() -> Vec<u8> {
    let tune = method(ChannelNumber::CONNECTION, connection::TuneOk { channel_max: 3, frame_max: 8192, heartbeat: 60 });
    [tune, method(ChannelNumber::CONNECTION, connection::Open { virtual_host: ShortStr::literal("/") }), open_channel()]
        .concat()
}

fn open_channel() -> Vec<u8> {
    method(ChannelNumber(1), channel::Open {})
}

fn greeting() -> Vec<u8> {
    let properties = Table::new().with("product", Value::text("a test")).expect("a short name").to_bytes();
    let start = connection::Start {
        version_major: 0,
        version_minor: 9,
        server_properties: TableRef::new(&properties),
        mechanisms: b"PLAIN AMQPLAIN",
        locales: b"en_US",
    };
    let tune = connection::Tune { channel_max: 2047, frame_max: 131_072, heartbeat: 60 };
    let blocked = connection::Blocked { reason: ShortStr::literal("low on memory") };
    let parts = [
        method(ChannelNumber::CONNECTION, start),
        method(ChannelNumber::CONNECTION, tune),
        method(ChannelNumber::CONNECTION, connection::OpenOk {}),
        method(ChannelNumber::CONNECTION, blocked),
    ];
    parts.concat()
}

fn answers() -> Vec<u8> {
    let consumer_tag = ShortStr::literal("c");
    let queue = ShortStr::literal("q");
    [
        method(ChannelNumber(1), queue::DeclareOk { queue, message_count: 1, consumer_count: 2 }),
        method(ChannelNumber(1), basic::ConsumeOk { consumer_tag }),
        method(ChannelNumber(1), confirm::SelectOk {}),
        method(ChannelNumber(1), basic::Ack { delivery_tag: DeliveryTag(3), multiple: true }),
        method(ChannelNumber::CONNECTION, connection::Unblocked {}),
    ]
    .concat()
}

fn close_channel() -> Vec<u8> {
    method(
        ChannelNumber(1),
        channel::Close { reply_code: 200, reply_text: ShortStr::literal("bye"), class_id: 0, method_id: 0 },
    )
}

fn close() -> Vec<u8> {
    method(
        ChannelNumber::CONNECTION,
        connection::Close { reply_code: 200, reply_text: ShortStr::literal("bye"), class_id: 0, method_id: 0 },
    )
}

/// Each of these ends a channel or the connection.
fn offences() -> Vec<u8> {
    let mut unknown = Vec::new();
    frame::append(FRAME_METHOD, ChannelNumber(1), &[0, 60, 0, 99], &mut unknown);
    let second_open = open_channel();
    let on_closed = method(ChannelNumber(2), basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
    let no_end = [FRAME_METHOD, 0, 1, 0, 0, 0, 4, 0, 60, 0, 40, 0];
    [&publish()[..], &publish(), &second_open, &on_closed, &unknown, &no_end].concat()
}
