//! Many of a kind: what each costs the broker in memory, and that it works among so many.
//!
//! Enters: a broker just started.  Leaves: rows of the report.
//! Owns:   the counts and the bounds, which the project states.
//! Never:  counts what the kernel holds for sockets: that is not in a process's resident memory.

use crate::pair::{self, body};
use crate::peer::{Peer, declare};
use crate::program::Program;
use crate::report::{Report, Row, mib};
use crate::{Outcome, now};
use client::{Client, ConsumeOptions, ExchangeOptions, Publish, QueueOptions};
use std::time::Duration;
use wire::ChannelNumber;
use wire::method::{basic, exchange, queue};
use wire::{Method, ShortStr, TableRef};

/// Messages of the pair that goes on beside the many.
const PAIR_MESSAGES: u64 = 200_000;

/// How long freed memory may take to go back: the broker trims its heap twice a second, if it gets a processor.
const RETURN: Duration = Duration::from_secs(5);
/// What is left when all messages are taken: the pool keeps up to 64 MiB of empty regions, and the allocator some.
const LEFT_BYTES_MAX: u64 = 128 << 20;

/// A broker that nobody uses.
pub fn rest(shards: u16, report: &mut Report) -> Outcome<()> {
    const BYTES_MAX: u64 = 15 << 20;
    let program = Program::start(shards, &[])?;
    let bytes = program.settled_bytes()?;
    report.row(Row {
        what: "broker at rest".into(),
        shards,
        count: 1,
        bytes: (0, bytes),
        each_bytes_max: Some(BYTES_MAX as f64),
        note: format!("{}; listens after {} ms", mib(bytes), program.startup.as_millis()),
    });
    // What a clock on the wall shows is in the table: on a busy machine it says more of the others than of the broker.
    let work_ms = program.startup_work.as_secs_f64() * 1e3;
    report.verdict("startup", work_ms <= 100.0, &format!("{work_ms:.1} ms of processor time, 100 are the most"));
    program.stop()
}

/// Idle connections beside an active pair.
pub fn connections(shards: u16, report: &mut Report) -> Outcome<()> {
    const COUNT: u64 = 10_000;
    const EACH_BYTES_MAX: f64 = 8192.0;
    let program = Program::start(shards, &[])?;
    let alone = pair::run(&program.url(), "pair", PAIR_MESSAGES)?;
    let before = program.settled_bytes()?;
    let began = now();
    let mut idle = Vec::new();
    for _ in 0..COUNT {
        // As a usual client: with the heartbeat that the broker proposes, and one channel.
        idle.push(Peer::open(program.address, 60)?);
    }
    let seconds = began.elapsed().as_secs_f64();
    let with = program.settled_bytes()?;
    let row = |what: &str, bytes, note| Row {
        what: what.into(),
        shards,
        count: COUNT,
        bytes,
        each_bytes_max: Some(EACH_BYTES_MAX),
        note,
    };
    report.row(row("idle connection", (before, with), format!("opened in {seconds:.1} s")));
    for peer in &mut idle {
        peer.open_channel()?;
    }
    let with = program.settled_bytes()?;
    let beside = pair::run(&program.url(), "pair", PAIR_MESSAGES)?;
    report.row(row("the same with a channel", (before, with), format!("a pair beside them: {beside}; alone: {alone}")));
    // They are still served: each channel answers.
    let mut answered = 0;
    for peer in idle.iter_mut().step_by(100) {
        peer.declare("", false)?;
        answered += 1;
    }
    drop(idle);
    report.verdict(
        "connections-live",
        answered == COUNT.div_ceil(100),
        &format!("{answered} of them asked and answered"),
    );
    let after = returned(&program, before + before / 4)?;
    crate::report::note(&format!("when they are gone the broker holds {}; {} before", mib(after), mib(before)));
    program.stop()
}

/// Empty queues.
pub fn queues(shards: u16, report: &mut Report) -> Outcome<()> {
    const COUNT: u64 = 100_000;
    const EACH_BYTES_MAX: f64 = 1024.0;
    let program = Program::start(shards, &[])?;
    let alone = pair::run(&program.url(), "pair", PAIR_MESSAGES)?;
    let mut peer = Peer::with_channel(program.address, 0)?;
    let before = program.settled_bytes()?;
    let began = now();
    let name = |number: u64| format!("queue-{number:06}");
    peer.send_many(COUNT, |number, out| {
        let name = name(number);
        wire::encode_frame(ChannelNumber(1), &declare(&name, false, true).expect("a short name").into(), out);
    })?;
    peer.declare(&name(COUNT - 1), true)?;
    let seconds = began.elapsed().as_secs_f64();
    let with = program.settled_bytes()?;
    let beside = pair::run(&program.url(), "pair", PAIR_MESSAGES)?;
    report.row(Row {
        what: "empty queue".into(),
        shards,
        count: COUNT,
        bytes: (before, with),
        each_bytes_max: Some(EACH_BYTES_MAX),
        note: format!("declared in {seconds:.2} s; a pair beside them: {beside}; alone: {alone}"),
    });
    // Each is a queue of its own: a message for each of some.
    let mut client = Client::connect(&program.url())?;
    let channel = client.open_channel()?;
    for number in (0..COUNT).step_by(1000) {
        client.publish(channel, &Publish::to("", &name(number)), b"m")?;
    }
    let mut found = 0;
    for number in (0..COUNT).step_by(1000) {
        found += u64::from(client.get(channel, &name(number), true)?.is_some());
        found += u64::from(client.get(channel, &name(number + 1), true)?.is_some()) * COUNT;
    }
    report.verdict("queues-work", found == COUNT / 1000, &format!("{found} of {} messages found", COUNT / 1000));
    let began = now();
    peer.send_many(COUNT, |number, out| {
        let name = name(number);
        let queue = ShortStr::new(name.as_bytes()).expect("a short name");
        let delete = queue::Delete { queue, if_unused: false, if_empty: false, no_wait: true };
        wire::encode_frame(ChannelNumber(1), &delete.into(), out);
    })?;
    peer.declare("last", false)?;
    let seconds = began.elapsed().as_secs_f64();
    let after = returned(&program, before + before / 4)?;
    crate::report::note(&format!(
        "deleted in {seconds:.2} s; then the broker holds {}; {} before",
        mib(after),
        mib(before)
    ));
    client.close()?;
    program.stop()
}

/// Bindings of one topic exchange, and keys that each match one of them.
pub fn bindings(shards: u16, report: &mut Report) -> Outcome<()> {
    const COUNT: u64 = 1_000_000;
    const QUEUES: u64 = 1_000;
    const KEYS: u64 = 10_000;
    const EACH_BYTES_MAX: f64 = 200.0;
    let program = Program::start(shards, &[])?;
    let mut client = Client::connect(&program.url())?;
    let channel = client.open_channel()?;
    for number in 0..QUEUES {
        client.declare_queue(channel, &format!("q{number}"), &QueueOptions::default())?;
    }
    client.declare_exchange(channel, "t", "topic", &ExchangeOptions::default())?;
    let mut peer = Peer::with_channel(program.address, 0)?;
    let before = program.settled_bytes()?;
    let began = now();
    peer.send_many(COUNT, |number, out| {
        let (queue, key) = (format!("q{}", number % QUEUES), format!("market.{number:07}.*.trade"));
        let bind = queue::Bind {
            queue: ShortStr::new(queue.as_bytes()).expect("a short name"),
            exchange: ShortStr::literal("t"),
            routing_key: ShortStr::new(key.as_bytes()).expect("a short key"),
            no_wait: true,
            arguments: TableRef::EMPTY,
        };
        wire::encode_frame(ChannelNumber(1), &bind.into(), out);
    })?;
    peer.declare("q0", true)?;
    let seconds = began.elapsed().as_secs_f64();
    let with = program.settled_bytes()?;
    // Each of these keys matches one pattern of a million, and is new to the broker.
    client.confirm_select(channel)?;
    let began = now();
    for number in 0..KEYS {
        let key = format!("market.{:07}.now.trade", number * (COUNT / KEYS));
        client.publish(channel, &Publish::to("t", &key), b"m")?;
    }
    client.wait_confirms(channel, 0)?;
    let route_us = began.elapsed().as_secs_f64() / KEYS as f64 * 1e6;
    let mut arrived = 0;
    for number in 0..QUEUES {
        arrived += u64::from(peer.declare(&format!("q{number}"), true)?);
    }
    report.row(Row {
        what: "topic binding".into(),
        shards,
        count: COUNT,
        bytes: (before, with),
        // Each shard has a replica of the definitions.
        each_bytes_max: Some(EACH_BYTES_MAX * f64::from(shards)),
        note: format!("bound in {seconds:.2} s; {route_us:.1} us for each message of a new key, confirmed"),
    });
    report.verdict(
        "bindings-route",
        arrived == KEYS,
        &format!("{arrived} of {KEYS} messages arrived, one for each key"),
    );
    let began = now();
    peer.send(
        ChannelNumber(1),
        exchange::Delete { exchange: ShortStr::literal("t"), if_unused: false, no_wait: false },
    )?;
    peer.expect(|method| matches!(method, Method::ExchangeDeleteOk(_)).then_some(()))?;
    let seconds = began.elapsed().as_secs_f64();
    let after = returned(&program, before + before / 4)?;
    let text =
        format!("exchange deleted in {seconds:.2} s; then the broker holds {}; {} before", mib(after), mib(before));
    crate::report::note(&text);
    client.close()?;
    program.stop()
}

/// Waiting messages of 64 bytes, then taken in order.
pub fn messages(shards: u16, report: &mut Report) -> Outcome<()> {
    const COUNT: u64 = 10_000_000;
    const EACH_BYTES_MAX: f64 = 200.0;
    let program = Program::start(shards, &crate::memory_arguments(4 << 30, 100))?;
    let mut peer = Peer::with_channel(program.address, 0)?;
    peer.declare("q", false)?;
    let before = program.settled_bytes()?;
    let began = now();
    let mut message = message("q", 64);
    let at = message.len() - 64 - 1;
    peer.send_many(COUNT, |number, out| {
        body(number, &mut message[at..]);
        out.extend_from_slice(&message);
    })?;
    let held = peer.declare("q", true)?;
    let seconds = began.elapsed().as_secs_f64();
    let with = program.resident_bytes()?;
    report.row(Row {
        what: "waiting message of 64 bytes".into(),
        shards,
        count: COUNT,
        bytes: (before, with),
        each_bytes_max: Some(EACH_BYTES_MAX),
        note: format!("queued in {seconds:.1} s"),
    });
    report.verdict("messages-held", u64::from(held) == COUNT, &format!("the queue holds {held} of {COUNT}"));
    let mut client = Client::connect(&program.url())?;
    let channel = client.open_channel()?;
    let began = now();
    client.consume(channel, "q", &ConsumeOptions { no_ack: true, ..ConsumeOptions::default() })?;
    let taken = pair::take(&mut client, 0, COUNT);
    let seconds = began.elapsed().as_secs_f64();
    let figures = taken.as_ref().err().map_or(format!("in order, in {seconds:.1} s"), ToString::to_string);
    report.verdict("messages-taken", taken.is_ok(), &figures);
    let left = peer.declare("q", true)?;
    let after = returned(&program, before + LEFT_BYTES_MAX)?;
    let text = format!("{left} left; the broker holds {}; {} before, {} with them", mib(after), mib(before), mib(with));
    report.verdict("messages-returned", left == 0 && after <= before + LEFT_BYTES_MAX, &text);
    client.close()?;
    program.stop()
}

/// Resident memory once no more than so much of it is left, or after [`RETURN`].
fn returned(program: &Program, most: u64) -> Outcome<u64> {
    let began = now();
    loop {
        let bytes = program.settled_bytes()?;
        if bytes <= most || began.elapsed() >= RETURN {
            return Ok(bytes);
        }
    }
}

/// The frames of a message to a queue.
pub fn message(queue: &str, body_bytes: usize) -> Vec<u8> {
    let routing_key = ShortStr::new(queue.as_bytes()).expect("a short name");
    let publish = basic::Publish { exchange: ShortStr::EMPTY, routing_key, mandatory: false, immediate: false };
    let mut frames = Vec::new();
    wire::encode_frame(ChannelNumber(1), &publish.into(), &mut frames);
    let properties = wire::RawProperties::EMPTY;
    let header = wire::ContentHeader { class_id: 60, body_bytes: body_bytes as u64, properties };
    let mut payload = vec![0; header.encoded_len()];
    header.encode(&mut payload);
    wire::frame::append(wire::frame::FRAME_HEADER, ChannelNumber(1), &payload, &mut frames);
    wire::frame::append(wire::frame::FRAME_BODY, ChannelNumber(1), &vec![0; body_bytes], &mut frames);
    frames
}
