//! How long a small message takes in this crate alone: `cargo run --release -p harrier-session --example messages`.
//!
//! Leaves: nanoseconds a message, the best of several rounds.
//! Owns:   a server's session and a row of messages in memory.

use session::{BodyOut, DeliverHead, Event, Greeting, Inbound, Outbound, PublishHead, SessionLimits};
use slab::Pool;
use std::{hint::black_box, sync::Arc, time::Instant};
use wire::{ChannelNumber, DeliveryTag, ShortStr, Table, TableRef, frame::FRAME_OVERHEAD_BYTES, method::connection};

const MESSAGES: usize = 1000;
const ROUNDS: usize = 3000;

/// The shortest of many rounds, in nanoseconds a message.
#[expect(clippy::disallowed_methods, reason = "a program that measures reads the clock")]
fn best(mut round: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed().as_nanos() as f64 / MESSAGES as f64);
    }
    best
}

/// A server's session with channel 1 open.
fn running(pool: &Pool) -> (Inbound, Outbound) {
    let limits = SessionLimits::default();
    let mut inbound = Inbound::server(&limits, Arc::new(Greeting::new(&Table::new(), "PLAIN")));
    let mut out = Outbound::new();
    let mut bytes = wire::PROTOCOL_HEADER.to_vec();
    let start_ok = connection::StartOk {
        client_properties: TableRef::EMPTY,
        mechanism: ShortStr::literal("PLAIN"),
        response: b"\0guest\0guest",
        locale: ShortStr::literal("en_US"),
    };
    wire::encode_frame(ChannelNumber::CONNECTION, &start_ok.into(), &mut bytes);
    let tune_ok = connection::TuneOk { channel_max: 10, frame_max: 131_072, heartbeat: 0 };
    wire::encode_frame(ChannelNumber::CONNECTION, &tune_ok.into(), &mut bytes);
    wire::encode_frame(
        ChannelNumber::CONNECTION,
        &connection::Open { virtual_host: ShortStr::literal("/") }.into(),
        &mut bytes,
    );
    wire::encode_frame(ChannelNumber(1), &wire::method::channel::Open {}.into(), &mut bytes);
    let mut input = &bytes[..];
    loop {
        let (login, open) = match inbound.next(&mut input, &mut out, pool).expect("a sound handshake") {
            Some(event) => (matches!(event, Event::Login { .. }), matches!(event, Event::Open { .. })),
            None => break,
        };
        if login {
            inbound.login_accepted(&mut out, pool);
        } else if open {
            inbound.open_accepted(&mut out, pool);
        }
    }
    assert!(inbound.is_running() && inbound.channel_count() == 1);
    out.clear();
    (inbound, out)
}

fn main() {
    let pool = Pool::default();
    let (mut inbound, mut out) = running(&pool);
    let persistent: &[u8] = &[0x10, 0, 2];
    let named: &[u8] = b"\x98\x80\x18application/octet-stream\x02\x00\x05msg-1";
    let bodies: [(usize, &[u8], &str); 6] = [
        (0, persistent, "persistent"),
        (64, &[0, 0], "no properties"),
        (64, persistent, "persistent"),
        (64, named, "content type, mode, priority, id"),
        (256, persistent, "persistent"),
        (4096, persistent, "persistent"),
    ];
    println!("# ns a message                       next  deliver");
    for (bytes, properties, what) in bodies {
        let body = vec![b'x'; bytes];
        let head =
            PublishHead { exchange: b"amq.topic", routing_key: b"market.nyse.ibm", mandatory: false, immediate: false };
        let mut source = Outbound::new();
        for _ in 0..MESSAGES {
            source.publish(&pool, ChannelNumber(1), &head, properties, BodyOut::Copy(&body));
        }
        let input = source.take_bytes(&pool);
        assert!(input.len() > MESSAGES * (bytes + 2 * FRAME_OVERHEAD_BYTES));
        let next = best(|| {
            let mut input = black_box(&input[..]);
            let mut count = 0;
            while let Ok(Some(event)) = inbound.next(&mut input, &mut out, &pool) {
                count += usize::from(matches!(black_box(&event), Event::Publish { .. }));
            }
            assert_eq!(count, MESSAGES);
        });
        let deliver = best(|| {
            for delivery_tag in 0..MESSAGES as u64 {
                let head = DeliverHead {
                    consumer_tag: black_box(b"ctag1.0123456789abcdef"),
                    delivery_tag: DeliveryTag(delivery_tag),
                    redelivered: false,
                    exchange: black_box(b"amq.topic"),
                    routing_key: black_box(b"market.nyse.ibm"),
                };
                out.deliver(&pool, ChannelNumber(1), &head, black_box(properties), BodyOut::Copy(black_box(&body)));
                if out.bytes() > 65_536 {
                    out.clear();
                }
            }
            out.clear();
        });
        println!("{bytes:5} B {what:33} {next:6.1} {deliver:8.1}");
    }
}
