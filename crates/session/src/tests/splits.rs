//! Cutting the input anywhere changes nothing.
//!
//! Owns:   that promise, for every place of a cut and for cuts of chance.

use super::{frame, header, method, pattern, publish, rich_properties, whole};
use crate::{
    SessionLimits,
    drive::{EndpointPair, TestEndpoint},
    fuzz,
};
use proptest::prelude::*;
use wire::DeliveryTag;
use wire::{
    ChannelNumber,
    method::{basic, channel, connection},
};

/// A conversation with a server that has everything in it, large bodies apart.
fn conversation() -> Vec<u8> {
    let mut client = TestEndpoint::client(&SessionLimits::default(), false);
    let mut server = TestEndpoint::server(&SessionLimits::default(), false);
    let mut all = Vec::new();
    loop {
        let bytes = client.sent();
        if bytes.is_empty() {
            break;
        }
        server.receive(&bytes, &mut whole());
        client.receive(&server.sent(), &mut whole());
        all.extend_from_slice(&bytes);
    }
    for part in [
        method(ChannelNumber(1), channel::Open {}),
        publish(ChannelNumber(1)),
        header(ChannelNumber(1), 60, 5, &[0, 0]),
        frame(3, ChannelNumber(1), b"hello"),
        publish(ChannelNumber(1)),
        header(ChannelNumber(1), 60, 0, &rich_properties()),
        publish(ChannelNumber(1)),
        header(ChannelNumber(1), 60, 9, &[0, 0]),
        frame(3, ChannelNumber(1), b"in "),
        frame(3, ChannelNumber(1), b"pieces"),
        method(ChannelNumber(1), basic::Ack { delivery_tag: DeliveryTag(1), multiple: true }),
        frame(8, ChannelNumber::CONNECTION, &[]),
        publish(ChannelNumber(1)),
        publish(ChannelNumber(2))[..0].to_vec(),
        header(ChannelNumber(1), 60, 200_000_000, &[0, 0]),
        frame(3, ChannelNumber(1), b"dropped"),
        method(ChannelNumber(1), channel::CloseOk {}),
        method(ChannelNumber(1), channel::Open {}),
        publish(ChannelNumber(1)),
        header(ChannelNumber(1), 60, 3, &[0, 0]),
        frame(3, ChannelNumber(1), b"end"),
        method(
            ChannelNumber::CONNECTION,
            connection::Close {
                reply_code: 200,
                reply_text: wire::ShortStr::literal("bye"),
                class_id: 0,
                method_id: 0,
            },
        ),
        b"deaf ears".to_vec(),
    ] {
        all.extend_from_slice(&part);
    }
    all
}

#[test]
fn any_two_pieces_say_the_same() {
    let bytes = conversation();
    let mut expect = TestEndpoint::server(&SessionLimits::default(), false);
    expect.receive(&bytes, &mut whole());
    assert_eq!(expect.bodies.len(), 4, "{:#?}", expect.log);
    let sent = expect.sent();
    for in_place in [false, true] {
        for cut in 1..bytes.len() {
            let mut server = TestEndpoint::server(&SessionLimits::default(), in_place);
            let mut first = Some(cut);
            server.receive(&bytes, &mut || first.take().unwrap_or(usize::MAX));
            assert_eq!(server.log, expect.log, "cut at {cut}");
            assert_eq!((server.bodies, server.out.bytes()), (expect.bodies.clone(), sent.len()), "cut at {cut}");
        }
        for piece in 1..40 {
            let mut server = TestEndpoint::server(&SessionLimits::default(), in_place);
            server.receive(&bytes, &mut || piece);
            assert_eq!(server.log, expect.log, "pieces of {piece}");
        }
    }
}

#[test]
fn a_large_body_may_be_cut_anywhere_around_its_frames() {
    let body = pattern(40_000);
    let mut bytes = publish(ChannelNumber(1));
    bytes.extend_from_slice(&header(ChannelNumber(1), 60, 40_000, &[0, 0]));
    let mut edges = vec![0, bytes.len()];
    for part in body.chunks(17_000) {
        bytes.extend_from_slice(&frame(3, ChannelNumber(1), part));
        edges.push(bytes.len());
    }
    bytes.extend_from_slice(&publish(ChannelNumber(1)));
    bytes.extend_from_slice(&header(ChannelNumber(1), 60, 0, &[0, 0]));
    for in_place in [false, true] {
        for edge in &edges {
            for cut in edge.saturating_sub(20)..(edge + 20).min(bytes.len()) {
                let mut pair = EndpointPair::open(&SessionLimits::default(), in_place, &mut whole());
                pair.open_channel(&mut whole());
                let mut first = Some(cut);
                pair.server.receive(&bytes, &mut || first.take().unwrap_or(usize::MAX));
                assert!(pair.server.bodies == [body.clone(), Vec::new()], "cut at {cut}");
            }
        }
    }
}

/// Frames of chance: mostly sound heads, any payload.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..30)).prop_map(|(which, rest)| {
            let ((class_id, method_id), _) = *which.get(wire::Method::ALL);
            [&class_id.to_be_bytes()[..], &method_id.to_be_bytes(), &rest].concat()
        }),
        (0u64..30_000).prop_map(|bytes| header(ChannelNumber(1), 60, bytes, &[0, 0])[7..][..14].to_vec()),
        (0usize..20_000).prop_map(pattern),
    ];
    let sound = (prop_oneof![1u8..4, Just(8), any::<u8>()], 0u16..4, payload)
        .prop_map(|(kind, channel, payload)| frame(kind, ChannelNumber(channel), &payload));
    let contents = (0usize..30_000, 1usize..9000).prop_map(|(bytes, part)| {
        let parts = pattern(bytes)
            .chunks(part.min(8184))
            .flat_map(|part| frame(3, ChannelNumber(1), part))
            .collect::<Vec<u8>>();
        [publish(ChannelNumber(1)), header(ChannelNumber(1), 60, bytes as u64, &[0, 0]), parts].concat()
    });
    let large_heads = (3000usize..8000, 0usize..50).prop_map(|(bytes, body)| {
        let value = wire::Value::Bytes(pattern(bytes).into());
        let headers = wire::Table::new().with("k", value).expect("a short name");
        let properties = wire::Properties { headers: Some(headers), ..Default::default() }.to_bytes();
        [
            publish(ChannelNumber(1)),
            header(ChannelNumber(1), 60, body as u64, &properties),
            frame(3, ChannelNumber(1), &pattern(body)),
        ]
        .concat()
    });
    let any_heads = (prop::collection::vec(any::<u8>(), 0..20), 0usize..50).prop_map(|(payload, body)| {
        [publish(ChannelNumber(1)), frame(2, ChannelNumber(1), &payload), frame(3, ChannelNumber(1), &pattern(body))]
            .concat()
    });
    let any_frame = prop_oneof![1 => large_heads, 1 => any_heads, 4 => contents, 4 => sound, 1 => prop::collection::vec(any::<u8>(), 0..20)];
    (any::<u64>(), prop::collection::vec(any_frame, 0..8))
        .prop_map(|(seed, frames)| [seed.to_le_bytes().to_vec(), frames.concat()].concat())
}

proptest! {
    #[test]
    fn cuts_of_chance_say_the_same_to_a_server(bytes in frames()) {
        fuzz::server_running(&bytes);
    }

    #[test]
    fn cuts_of_chance_say_the_same_to_a_client(bytes in frames()) {
        fuzz::client_running(&bytes);
    }

    #[test]
    fn anything_may_come_first(bytes in prop::collection::vec(any::<u8>(), 0..300), sound in any::<bool>()) {
        let greeting = if sound { &wire::PROTOCOL_HEADER[..] } else { b"" };
        let cut = bytes.len().min(8);
        fuzz::server(&[&bytes[..cut], greeting, &bytes[cut..]].concat());
        fuzz::client(&bytes);
        fuzz::credentials(&bytes);
    }
}

/// Found by fuzzing: a protocol header is one byte longer than a frame's head, and was told from seven bytes.
#[test]
fn another_protocol_says_the_same_however_it_is_cut() {
    let mut whole_header = TestEndpoint::client(&SessionLimits::default(), false);
    whole_header.receive(b"AMQP\0\0\x08\0", &mut whole());
    assert_eq!(whole_header.log.len(), 1, "{:#?}", whole_header.log);
    for piece in 1..8 {
        let mut client = TestEndpoint::client(&SessionLimits::default(), false);
        client.receive(b"AMQP\0\0\x08\0", &mut || piece);
        assert_eq!(client.log, whole_header.log, "pieces of {piece}");
    }
}

/// What came before a method in the same call is taken, and must not be presented again with it.
#[test]
fn a_method_that_is_left_for_later_is_presented_again_alone() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), false, &mut whole());
    let [first, second] = [(); 2].map(|()| pair.open_channel(&mut whole()));
    let get = method(second, basic::Get { queue: wire::ShortStr::literal("a queue"), no_ack: true });
    // A content on another channel begins, and is not complete.
    let bytes = [publish(first), header(first, 60, 5, &[0, 0]), get.clone()].concat();
    let TestEndpoint { inbound, out, pool, .. } = &mut pair.server;
    let mut input = &bytes[..];
    for _ in 0..2 {
        loop {
            let event = inbound.next(&mut input, out, pool).expect("no fault").expect("a method");
            if matches!(event, crate::Event::Method { channel, .. } if channel == second) {
                break;
            }
        }
        assert!(input.is_empty());
        assert_eq!(inbound.method_frame_bytes(), get.len());
        input = &bytes[bytes.len() - get.len()..];
    }
    // The content goes on.
    let body = frame(3, first, b"hello");
    let mut input = &body[..];
    let event = inbound.next(&mut input, out, pool).expect("no fault").expect("a publish");
    assert!(matches!(event, crate::Event::Publish { channel, .. } if channel == first), "{event:?}");
}
