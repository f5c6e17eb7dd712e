//! Contents of every size, there and back.
//!
//! Owns:   the promise that what one end sends the other gets, byte for byte, however it is framed and cut.

use super::{pattern, rich_properties, whole};
use crate::{
    BodyOut, DeliverHead, Event, GetOkHead, ProtocolFault, PublishHead, ReturnHead, SessionLimits,
    drive::{EndpointPair, Fragmentation, TestEndpoint},
    limits::{BODY_STEP_BYTES, LARGE_BODY_BYTES},
};
use wire::{ChannelNumber, DeliveryTag, ReplyCode, method::basic};

const SIZES: [usize; 15] = [
    0,
    1,
    64,
    4088,
    4089,
    LARGE_BODY_BYTES - 1,
    LARGE_BODY_BYTES,
    LARGE_BODY_BYTES + 1,
    131_064,
    131_065,
    262_128,
    BODY_STEP_BYTES - 1,
    BODY_STEP_BYTES,
    BODY_STEP_BYTES + 1,
    5 * BODY_STEP_BYTES + 7,
];

fn there_and_back(frame_bytes_max: u32, share: bool, in_place: bool, cuts: &mut dyn Fragmentation) {
    let limits = SessionLimits { frame_bytes_max, ..SessionLimits::default() };
    let mut pair = EndpointPair::open(&limits, in_place, cuts);
    let channel = pair.open_channel(cuts);
    let properties = rich_properties();
    for bytes in SIZES {
        let body = pattern(bytes);
        let TestEndpoint { out, pool, .. } = &mut pair.client;
        let slice = pool.copy(&body);
        let body_out = if share { BodyOut::Share(&slice) } else { BodyOut::Copy(&body) };
        let head = PublishHead { exchange: b"x", routing_key: b"a.b", mandatory: true, immediate: false };
        out.publish(pool, channel, &head, &properties, body_out);
        pair.pump(cuts);
        let TestEndpoint { out, pool, .. } = &mut pair.server;
        let head = DeliverHead {
            consumer_tag: b"tag",
            delivery_tag: DeliveryTag(1 << 40),
            redelivered: true,
            exchange: b"x",
            routing_key: b"a.b",
        };
        out.deliver(pool, channel, &head, &properties, body_out);
        let head = GetOkHead {
            delivery_tag: DeliveryTag(7),
            redelivered: false,
            exchange: b"",
            routing_key: b"q",
            message_count: 3,
        };
        out.get_ok(pool, channel, &head, &[0, 0], body_out);
        let head = ReturnHead { code: ReplyCode::NoRoute, text: b"NO_ROUTE", exchange: b"x", routing_key: b"k" };
        out.return_(pool, channel, &head, &[0, 0], body_out);
        pair.pump(cuts);
        let small = bytes == 0 || bytes < LARGE_BODY_BYTES && bytes <= frame_bytes_max as usize - 8;
        let kind = if small { "small" } else { "large" };
        assert_eq!(pair.server.log.pop(), Some(format!("publish #1 x a.b true false {properties:?} {kind} {bytes}")));
        let got = pair.client.log.split_off(pair.client.log.len() - 3);
        let expect = [
            format!("deliver #1 tag 1099511627776 true x a.b {properties:?} {kind} {bytes}"),
            format!("get-ok #1 7 false  q 3 [0, 0] {kind} {bytes}"),
            format!("return #1 312 NO_ROUTE x k [0, 0] {kind} {bytes}"),
        ];
        assert_eq!(got, expect);
        for got in pair.server.bodies.drain(..).chain(pair.client.bodies.drain(..)) {
            assert!(got == body, "a body of {bytes} bytes differs");
        }
    }
}

#[test]
fn every_size_through_large_frames() {
    there_and_back(131_072, true, true, &mut whole());
    there_and_back(131_072, false, false, &mut whole());
}

#[test]
fn every_size_through_the_smallest_frames() {
    there_and_back(4096, true, true, &mut whole());
    there_and_back(4096, false, true, &mut || 1500);
}

#[test]
fn every_size_through_one_huge_frame_in_pieces() {
    there_and_back(16 << 20, true, true, &mut || 65_536);
    there_and_back(16 << 20, true, false, &mut || 10_007);
}

/// After the first of a row of large contents, nothing of a body goes through the scratch memory.
#[test]
fn a_row_of_large_bodies_is_received_in_place() {
    for (bytes, frame_bytes_max) in [(1 << 20, 131_072), (1 << 20, 8 << 20), (65_536, 131_072), (131_064 * 2, 131_072)]
    {
        let limits = SessionLimits { frame_bytes_max, ..SessionLimits::default() };
        let mut pair = EndpointPair::open(&limits, true, &mut whole());
        pair.open_channel(&mut whole());
        let body = pattern(bytes);
        let head = PublishHead { exchange: b"x", routing_key: b"a.b", mandatory: false, immediate: false };
        for round in 0..4 {
            let TestEndpoint { out, pool, .. } = &mut pair.client;
            out.publish(pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Copy(&body));
            pair.server.placed_bytes = 0;
            pair.pump(&mut || 200_000);
            let copied = bytes - pair.server.placed_bytes;
            // A last frame that is small may come with the heads of the next content.
            let tolerated = bytes % (frame_bytes_max as usize - 8);
            let tolerated = if tolerated < LARGE_BODY_BYTES { tolerated } else { 0 };
            assert!(round == 0 || copied <= tolerated, "round {round}: {copied} of {bytes} bytes copied");
        }
        assert!(pair.server.bodies.iter().all(|got| *got == body));
    }
}

/// RabbitMQ puts contents together on each channel by itself, and so do we.
#[test]
fn contents_of_two_channels_may_interleave() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    pair.open_channel(&mut whole());
    pair.open_channel(&mut whole());
    let (one, two) = (pattern(40_000), pattern(3));
    let mut bytes = super::publish(ChannelNumber(1));
    bytes.extend_from_slice(&super::publish(ChannelNumber(2)));
    bytes.extend_from_slice(&super::header(ChannelNumber(1), 60, 40_000, &[0, 0]));
    bytes.extend_from_slice(&super::frame(3, ChannelNumber(1), &one[..30_000]));
    bytes.extend_from_slice(&wire::frame::HEARTBEAT_FRAME);
    bytes.extend_from_slice(&super::header(ChannelNumber(2), 60, 3, &[0, 0]));
    bytes.extend_from_slice(&super::frame(3, ChannelNumber(2), &two[..1]));
    bytes.extend_from_slice(&super::frame(3, ChannelNumber(2), &[]));
    bytes.extend_from_slice(&super::frame(3, ChannelNumber(1), &one[30_000..]));
    bytes.extend_from_slice(&super::frame(3, ChannelNumber(2), &two[1..]));
    bytes.extend_from_slice(&super::publish(ChannelNumber(1)));
    bytes.extend_from_slice(&super::method(
        ChannelNumber(2),
        basic::Ack { delivery_tag: DeliveryTag(1), multiple: false },
    ));
    bytes.extend_from_slice(&super::header(ChannelNumber(1), 60, 0, &[0, 0]));
    pair.server.log.clear();
    pair.server.receive(&bytes, &mut whole());
    let log: Vec<&str> = pair.server.log.iter().map(|line| line.split(" [").next().unwrap_or_default()).collect();
    let ack =
        "Method { channel: ChannelNumber(2), method: BasicAck(Ack { delivery_tag: DeliveryTag(1), multiple: false }) }";
    assert_eq!(
        log,
        ["publish #1 x key false false", "publish #2 x key false false", ack, "publish #1 x key false false",]
    );
    assert!(pair.server.bodies == [one, two, Vec::new()]);
}

/// A peer that announces much pins little.
#[test]
fn an_announced_body_costs_no_memory_until_it_comes() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    let channels: Vec<ChannelNumber> = (0..10).map(|_| pair.open_channel(&mut whole())).collect();
    for channel in &channels {
        let mut bytes = super::publish(*channel);
        bytes.extend_from_slice(&super::header(*channel, 60, 100 << 20, &[0, 0]));
        pair.server.receive(&bytes, &mut whole());
    }
    assert!(pair.server.pool.used_bytes() < 1 << 20, "{:?}", pair.server.pool);
    pair.server.receive(&super::frame(3, ChannelNumber(1), b"a")[..8], &mut whole());
    assert!(pair.server.pool.used_bytes() < 2 << 20, "{:?}", pair.server.pool);
}

/// One body of a connection gets memory ahead of what arrives; whatever is begun beside it does not.
#[test]
fn bodies_of_other_channels_take_what_arrives() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    let channels: Vec<ChannelNumber> = (0..200).map(|_| pair.open_channel(&mut whole())).collect();
    for channel in &channels {
        let mut bytes = super::publish(*channel);
        bytes.extend_from_slice(&super::header(*channel, 60, 100 << 20, &[0, 0]));
        bytes.extend_from_slice(&super::frame(3, *channel, b"a"));
        pair.server.receive(&bytes, &mut whole());
    }
    assert!(pair.server.pool.used_bytes() < 2 << 20, "{:?}", pair.server.pool);
    let room = pair.server.inbound.body_room();
    assert_eq!((room.spare_bytes, room.untouched_bytes), ((1 << 20) - 1, (1 << 20) - 1));
    let arrived = pair.server.inbound.partial_bytes();
    assert!((200..20_000).contains(&arrived), "{arrived}");
}

/// Memory in which nothing has arrived can be given back in the middle of a body, which arrives whole all the same.
#[test]
fn a_body_whose_room_was_given_back_arrives_whole() {
    for bytes in [40_000, 300_000, 5 << 20] {
        let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
        let channel = pair.open_channel(&mut whole());
        let body = pattern(bytes);
        let mut message = super::publish(channel);
        message.extend_from_slice(&super::header(channel, 60, bytes as u64, &[0, 0]));
        body.chunks(100_000).for_each(|part| message.extend_from_slice(&super::frame(3, channel, part)));
        let (begin, rest) = message.split_at(35_000);
        pair.server.receive(begin, &mut whole());
        let spare_bytes = pair.server.inbound.body_room().spare_bytes;
        let before = pair.server.pool.used_bytes();
        assert!(spare_bytes > 0);
        assert_eq!(pair.server.inbound.give_back_room(&pair.server.pool), spare_bytes);
        assert_eq!(pair.server.inbound.body_room().spare_bytes, 0);
        let used_bytes = pair.server.pool.used_bytes();
        assert!(used_bytes <= before && used_bytes < 64 << 10, "{before} {used_bytes}");
        pair.server.receive(rest, &mut whole());
        assert!(pair.server.bodies.last() == Some(&body), "{bytes}");
    }
}

/// Its owner may refuse a content before its body, which is dropped then.
#[test]
fn a_content_in_pieces_is_told_when_it_begins() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    let channel = pair.open_channel(&mut whole());
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.server;
    let mut bytes = super::publish(channel);
    bytes.extend_from_slice(&super::header(channel, 60, 100_000, &[0, 0]));
    let mut input = &bytes[..];
    let event = inbound.next(&mut input, out, pool).expect("sound");
    assert!(matches!(event, Some(Event::PublishBegun { exchange: b"x", .. })), "{event:?}");
    let refusal = ProtocolFault::new(ReplyCode::AccessRefused, channel, basic::Publish::ID, "no");
    assert!(!inbound.fail(&refusal, out, pool));
    let mut bytes = super::frame(3, channel, &pattern(60_000));
    bytes.extend_from_slice(&super::frame(3, channel, &pattern(40_000)));
    let mut input = &bytes[..];
    assert!(inbound.next(&mut input, out, pool).expect("dropped").is_none() && input.is_empty());
    assert_eq!((pool.used_bytes() < 64 << 10, inbound.partial_bytes()), (true, 0));
}

#[test]
fn short_methods_by_hand_are_those_of_the_table() {
    let mut driven = TestEndpoint::client(&SessionLimits::default(), true);
    driven.sent();
    driven.out.ack(&driven.pool, ChannelNumber(9), DeliveryTag(1 << 33), true);
    assert_eq!(
        driven.sent(),
        super::method(ChannelNumber(9), basic::Ack { delivery_tag: DeliveryTag(1 << 33), multiple: true })
    );
    driven.out.heartbeat(&driven.pool);
    assert_eq!(driven.sent(), super::frame(8, ChannelNumber::CONNECTION, &[]));
}

/// Idle connections cost little: the bench of many starts here.
#[test]
fn an_idle_session_is_small() {
    let bytes = size_of::<crate::Inbound>() + size_of::<crate::Outbound>();
    assert!(bytes <= 256, "a session of {bytes} bytes");
}

#[test]
fn the_method_that_comes_next_is_looked_at_and_not_taken() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), false, &mut whole());
    let channel = pair.open_channel(&mut whole());
    let next = |input: &[u8], on| pair.server.inbound.next_method(on, input).map(|method| method.id());
    let qos = |channel| super::method(channel, basic::Qos { prefetch_size: 0, prefetch_count: 1, global: false });
    let good = qos(channel);
    assert_eq!(next(&good, channel), Some(basic::Qos::ID));
    assert_eq!(next(&[&good[..], b"more"].concat(), channel), Some(basic::Qos::ID));
    for cut in 0..good.len() {
        assert_eq!(next(&good[..cut], channel), None, "{cut} bytes");
    }
    let other = ChannelNumber(channel.0 + 1);
    assert_eq!(next(&qos(other), channel), None, "another channel's");
    assert_eq!(next(&qos(other), other), None, "a channel that is not open");
    let (mut unended, mut short) = (good.clone(), good.clone());
    *unended.last_mut().expect("an end") = 0;
    short[6] -= 1;
    assert_eq!(next(&unended, channel), None, "no end");
    assert_eq!(next(&short, channel), None, "the end is elsewhere");
    assert_eq!(next(&super::header(channel, 60, 0, &[0, 0]), channel), None, "no method");
    assert!(pair.server.log.iter().all(|line| !line.contains("qos")), "nothing was taken");
}
