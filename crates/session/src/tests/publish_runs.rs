//! Publishes that are taken as runs.
//!
//! Owns:   the promise that they are the same publishes, however much or little they are alike and wherever the input is cut.

use super::{frame, header, method, pattern, publish, rich_properties, whole};
use crate::{
    BodyOut, DeliverHead, Outbound, SessionLimits,
    drive::{EndpointPair, TestEndpoint},
    limits::{LARGE_BODY_BYTES, PUBLISH_RUN_BYTES_MAX, PUBLISH_RUN_MESSAGES_MAX},
};
use proptest::prelude::*;
use slab::Pool;
use wire::{
    BodyRun, ChannelNumber, DeliveryTag, ShortStr,
    method::{basic, channel},
};

/// What stands where a publish does; each field is drawn from few values, so that neighbours are often alike.
#[derive(Clone, Copy, Debug)]
struct SamplePublish {
    channel: ChannelNumber,
    number: u8,
    oddity: Oddity,
    bytes: usize,
}

/// What is different in one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Oddity {
    None,
    Key,
    Mandatory,
    Properties,
    /// A heartbeat stands before it.
    AfterHeartbeat,
    /// An acknowledgement does.
    AfterAck,
    /// Its body comes in two frames.
    InTwo,
    /// Its last frame does not end as frames do: the connection fails.
    NoEnd,
    /// Its properties cannot be decoded: the connection fails.
    Malformed,
    /// Its channel is closed in front of it, and opened again.
    Reopened,
}

const PLAIN: SamplePublish = SamplePublish { channel: ChannelNumber(1), number: 0, oddity: Oddity::None, bytes: 64 };

fn encode(one: SamplePublish) -> Vec<u8> {
    let SamplePublish { channel: number, oddity, bytes, .. } = one;
    let mut all = match oddity {
        Oddity::AfterHeartbeat => frame(8, ChannelNumber::CONNECTION, &[]),
        Oddity::AfterAck => method(number, basic::Ack { delivery_tag: DeliveryTag(one.number.into()), multiple: true }),
        Oddity::Reopened => {
            let reply_text = ShortStr::literal("over");
            let close = channel::Close { reply_code: 200, reply_text, class_id: 0, method_id: 0 };
            [method(number, close), method(number, channel::Open {})].concat()
        }
        _ => Vec::new(),
    };
    all.extend(match oddity {
        Oddity::Key | Oddity::Mandatory => {
            let (exchange, routing_key) = (ShortStr::literal("x"), ShortStr::literal("kez"));
            let mandatory = oddity == Oddity::Mandatory;
            method(number, basic::Publish { exchange, routing_key, mandatory, immediate: false })
        }
        _ => publish(number),
    });
    let properties = match oddity {
        Oddity::Properties => rich_properties(),
        Oddity::Malformed => vec![0x80, 0, 200],
        _ => vec![0, 0],
    };
    all.extend(header(number, 60, bytes as u64, &properties));
    let mut body = pattern(bytes);
    if let Some(first) = body.first_mut() {
        *first = one.number;
    }
    if oddity == Oddity::InTwo && bytes > 1 {
        let (first, second) = body.split_at(bytes / 2);
        all.extend(frame(3, number, first));
        all.extend(frame(3, number, second));
    } else if bytes > 0 {
        all.extend(frame(3, number, &body));
    }
    if oddity == Oddity::NoEnd
        && let Some(end) = all.last_mut()
    {
        *end ^= 1;
    }
    all
}

/// What a server hears.
#[derive(Debug, PartialEq)]
struct Heard {
    log: Vec<String>,
    bodies: Vec<Vec<u8>>,
    sent: Vec<u8>,
}

/// What a server hears of these, and how many it takes in runs.
fn heard(all: &[SamplePublish], takes_runs: bool, cut: usize) -> (Heard, usize) {
    let mut pair = EndpointPair::open(&SessionLimits::default(), takes_runs, &mut whole());
    for expected in [1, 2] {
        assert_eq!(pair.open_channel(&mut whole()), ChannelNumber(expected));
    }
    let TestEndpoint { log, .. } = &mut pair.server;
    log.clear();
    let bytes: Vec<u8> = all.iter().flat_map(|&one| encode(one)).collect();
    pair.server.receive(&bytes, &mut || cut);
    let sent = pair.server.sent();
    (Heard { log: pair.server.log, bodies: pair.server.bodies, sent }, pair.server.in_runs)
}

fn same(all: &[SamplePublish], cut: usize) -> usize {
    let (one_by_one, none) = heard(all, false, usize::MAX);
    assert_eq!(none, 0);
    let (in_runs, taken) = heard(all, true, cut);
    assert_eq!(in_runs, one_by_one, "pieces of {cut}");
    taken
}

#[test]
fn publishes_that_are_alike_come_in_runs() {
    for bytes in [0, 1, 64, 4_000] {
        let all: Vec<SamplePublish> = (0..200).map(|number| SamplePublish { number, bytes, ..PLAIN }).collect();
        let taken = same(&all, usize::MAX);
        assert!(taken >= 150, "{taken} of 200 with {bytes} bytes");
    }
    let too_large = PUBLISH_RUN_BYTES_MAX / 2;
    let all: Vec<SamplePublish> = (0..10).map(|number| SamplePublish { number, bytes: too_large, ..PLAIN }).collect();
    assert_eq!(same(&all, usize::MAX), 0, "two do not fit a run");
    let all: Vec<SamplePublish> =
        (0..10).map(|number| SamplePublish { number, bytes: LARGE_BODY_BYTES, ..PLAIN }).collect();
    assert_eq!(same(&all, usize::MAX), 0, "large bodies have memory of their own");
}

#[test]
fn a_run_has_no_more_than_so_many_messages_and_bytes() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    pair.open_channel(&mut whole());
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.server;
    for (bytes, most) in [(1, PUBLISH_RUN_MESSAGES_MAX), (4_000, PUBLISH_RUN_BYTES_MAX / 4_060)] {
        let input = encode(SamplePublish { bytes, ..PLAIN }).repeat(500);
        let mut rest = &input[..];
        let event = inbound.next_run(&mut rest, out, pool).expect("sound");
        let Some(crate::Event::PublishRun { bodies, .. }) = event else { panic!("{event:?}") };
        assert!(bodies.len() <= most && bodies.len() + 1 >= most, "{} of {most}", bodies.len());
        assert_eq!(input.len() - rest.len(), bodies.len() * bodies.message_bytes());
    }
}

#[test]
fn publishes_that_are_not_alike_do_not() {
    for odd in [
        SamplePublish { oddity: Oddity::Key, ..PLAIN },
        SamplePublish { oddity: Oddity::Mandatory, ..PLAIN },
        SamplePublish { oddity: Oddity::Properties, ..PLAIN },
        SamplePublish { oddity: Oddity::InTwo, ..PLAIN },
        SamplePublish { channel: ChannelNumber(2), ..PLAIN },
        SamplePublish { bytes: 65, ..PLAIN },
    ] {
        let all: Vec<SamplePublish> = (0..40).map(|number| if number % 2 == 0 { PLAIN } else { odd }).collect();
        assert_eq!(same(&all, usize::MAX), 0, "{odd:?}");
    }
}

proptest! {
    #[test]
    fn any_publishes_in_any_pieces_say_the_same(
        all in prop::collection::vec(
            (
                1..3_u16,
                prop::sample::select(vec![
                    Oddity::Key,
                    Oddity::Mandatory,
                    Oddity::Properties,
                    Oddity::AfterHeartbeat,
                    Oddity::AfterAck,
                    Oddity::InTwo,
                    Oddity::Reopened,
                    Oddity::NoEnd,
                    Oddity::Malformed,
                ]),
                0..40_u8,
                prop::sample::select(vec![0_usize, 5, 5, 5, 5, 64, 300]),
                1..20_usize,
            ),
            1..20,
        ),
        cut in 1..2_000_usize,
    ) {
        // Repeated each some times; the oddities that end the connection are rare.
        let all: Vec<SamplePublish> = all
            .into_iter()
            .flat_map(|(channel, oddity, drawn, bytes, times)| {
                let fails = matches!(oddity, Oddity::NoEnd | Oddity::Malformed);
                let oddity = if drawn < if fails { 2 } else { 10 } { oddity } else { Oddity::None };
                let channel = ChannelNumber(if drawn % 4 == 0 { channel } else { 1 });
                (0..times).map(move |number| SamplePublish { channel, number: number as u8, oddity, bytes })
            })
            .collect();
        same(&all, cut);
        same(&all, usize::MAX);
    }
}

/// What is sent of deliveries with these bodies, one by one or as runs of so many.
fn delivered(bytes: usize, count: usize, properties: &[u8], run: Option<usize>) -> Vec<u8> {
    const HEADS: usize = 3;
    let message = |number: usize| [vec![0; HEADS], pattern(bytes + number).split_off(number), vec![1]].concat();
    let messages: Vec<u8> = (0..count).flat_map(message).collect();
    let (mut out, pool) = (Outbound::new(), Pool::default());
    let mut left = Some(BodyRun::new(&messages, HEADS + bytes + 1, HEADS, bytes));
    let mut head = DeliverHead {
        consumer_tag: b"tag",
        delivery_tag: DeliveryTag(250),
        redelivered: false,
        exchange: b"x",
        routing_key: b"key",
    };
    while let Some(bodies) = left.and_then(|left| left.take(run.unwrap_or(1))) {
        let before = out.bytes();
        match run {
            Some(_) => out.deliver_run(&pool, ChannelNumber(7), &head, properties, bodies),
            None => out.deliver(&pool, ChannelNumber(7), &head, properties, BodyOut::Copy(bodies.first())),
        }
        let expected = out.delivery_bytes(&head, properties, bytes).map(|bytes| bytes * bodies.len());
        assert_eq!(Some(out.bytes() - before), expected);
        head.delivery_tag.0 += bodies.len() as u64;
        left = left.and_then(|left| left.skip(bodies.len()));
    }
    out.take_bytes(&pool)
}

#[test]
fn deliveries_of_a_run_are_the_bytes_of_single_ones() {
    for (bytes, count) in [(0, 100), (1, 3), (64, 1), (64, 2_000), (4_000, 64), (9_000, 20)] {
        for properties in [&[0, 0][..], &rich_properties()] {
            let single = delivered(bytes, count, properties, None);
            for run in [1, 7, 64, usize::MAX] {
                let runs = delivered(bytes, count, properties, Some(run));
                assert!(runs == single, "{count} of {bytes} bytes in runs of {run}");
            }
        }
    }
}

#[test]
fn a_run_is_not_delivered_in_more_frames_than_one_each() {
    let mut out = Outbound::new();
    out.set_frame_bytes_max(4_096);
    let head = DeliverHead {
        consumer_tag: b"",
        delivery_tag: DeliveryTag(1),
        redelivered: false,
        exchange: b"",
        routing_key: b"",
    };
    let fits = |bytes| out.delivery_bytes(&head, &[0, 0], bytes).is_some();
    assert!(fits(4_088) && !fits(4_089));
}
