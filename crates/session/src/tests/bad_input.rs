//! What no client should send, and what it is told.
//!
//! Owns:   the table of offences; the answers are those that RabbitMQ 3.10.8 was seen to give, but for those marked.

use super::{frame, header, method, publish, whole};
use crate::{
    SessionLimits,
    drive::{EndpointPair, TestEndpoint},
};
use wire::DeliveryTag;
use wire::{
    ChannelNumber, ShortStr, TableRef,
    method::{basic, channel, connection, queue},
};

/// A server with an open connection and channel 1 hears `bytes`: the last line of its log, which is the only one.
fn running(bytes: &[u8]) -> String {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    pair.open_channel(&mut whole());
    pair.server.log.clear();
    pair.server.receive(bytes, &mut whole());
    assert!(pair.server.log.len() <= 1, "{:#?}", pair.server.log);
    let line = pair.server.log.pop().unwrap_or_default();
    // Whatever comes now, there is nothing more to say; and the client learns of it.
    let answered = pair.server.out.bytes() > 0;
    pair.server.receive(&[&publish(ChannelNumber(1))[..], b"GET / HTTP/1.1\r\n\r\n", bytes, bytes].concat(), &mut || 5);
    assert!(pair.server.log.len() <= usize::from(!line.starts_with("Connection")), "{:#?}", pair.server.log);
    assert_eq!(answered, !line.is_empty(), "{line}");
    if line.starts_with("Connection") {
        pair.client.receive(&pair.server.sent(), &mut whole());
        let heard = pair.client.log.pop().unwrap_or_default();
        assert!(heard.starts_with("CloseRequested"), "{heard}");
    }
    line
}

fn declare(name: &[u8]) -> Vec<u8> {
    method(
        ChannelNumber(1),
        queue::Declare {
            queue: ShortStr::new(name).expect("a short name"),
            passive: false,
            durable: false,
            exclusive: false,
            auto_delete: false,
            no_wait: false,
            arguments: TableRef::EMPTY,
        },
    )
}

/// A frame whose head says a length that is not its own.
fn lying(kind: u8, payload_bytes: u32) -> Vec<u8> {
    [&[kind, 0, 1][..], &payload_bytes.to_be_bytes(), &[0; 64]].concat()
}

fn with_end(mut frame: Vec<u8>, end: u8) -> Vec<u8> {
    *frame.last_mut().expect("a frame") = end;
    frame
}

#[test]
fn offences_on_a_running_connection() {
    let content = |parts: &[Vec<u8>]| [vec![publish(ChannelNumber(1))], parts.to_vec()].concat().concat();
    let body = |bytes: &[u8]| frame(3, ChannelNumber(1), bytes);
    let no_method = "Connection 505 0.0 #1 UNEXPECTED_FRAME - expected method frame, got non method frame instead";
    let no_header = "Connection 505 60.40 #1 UNEXPECTED_FRAME - expected content header for class 60, \
                     got non content header frame instead";
    let no_body =
        "Connection 505 60.40 #1 UNEXPECTED_FRAME - expected content body, got non content body frame instead";
    let cases: &[(&str, Vec<u8>, &str)] = &[
        // Frames.
        // RabbitMQ breaks the line before the marker in the next three.
        (
            "wrong end",
            with_end(frame(1, ChannelNumber(1), &[0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 1, 0]), 0),
            "Connection 501 0.0 #1 FRAME_ERROR - type 1, all octets = <<0,60,0,80,0,0,0,0,0,0,0,1,0>>: \
             {invalid_frame_end_marker,0}",
        ),
        (
            "wrong end of a body",
            content(&[header(ChannelNumber(1), 60, 20_000, &[0, 0]), with_end(body(&[b'a'; 20_000]), b'X')]),
            "Connection 501 0.0 #1 FRAME_ERROR - type 3, first 16 octets = <<\"aaaaaaaaaaaaaaaa\">>: \
             {invalid_frame_end_marker,88}",
        ),
        (
            "wrong end of a small body",
            content(&[header(ChannelNumber(1), 60, 2, &[0, 0]), with_end(body(b"ab"), 1)]),
            "Connection 501 0.0 #1 FRAME_ERROR - type 3, all octets = <<\"ab\">>: {invalid_frame_end_marker,1}",
        ),
        (
            "a frame too large",
            lying(1, 131_065),
            "Connection 501 0.0 #1 FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,131065,131064}",
        ),
        (
            "a body frame too large",
            lying(3, u32::MAX),
            "Connection 501 0.0 #1 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,4294967295,131064}",
        ),
        (
            "unknown kind",
            frame(7, ChannelNumber(1), b"abc"),
            "Connection 501 0.0 #1 FRAME_ERROR - type 7, all octets = <<\"abc\">>: unknown_frame",
        ),
        (
            "heartbeat on a channel",
            frame(8, ChannelNumber(1), b""),
            "Connection 505 0.0 #1 UNEXPECTED_FRAME - type 8, all octets = <<>>",
        ),
        (
            "heartbeat with a payload",
            frame(8, ChannelNumber::CONNECTION, b"\0"),
            "Connection 501 0.0 #0 FRAME_ERROR - type 8, all octets = <<0>>: unknown_frame",
        ),
        (
            "content on channel 0",
            header(ChannelNumber::CONNECTION, 60, 3, &[0, 0]),
            "Connection 505 0.0 #0 UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,3,0,0>>",
        ),
        (
            "text",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            "Connection 501 0.0 #17748 FRAME_ERROR - type 71, all octets = <<>>: {frame_too_large,539959368,131064}",
        ),
        // Methods.
        (
            "no numbers",
            frame(1, ChannelNumber(1), b"\0\x32"),
            "Connection 501 0.0 #1 FRAME_ERROR - type 1, all octets = <<0,50>>: unknown_frame",
        ),
        // RabbitMQ 3.10's reader dies of the next two, without a word.
        (
            "unknown method",
            frame(1, ChannelNumber(1), &[0, 50, 0, 99]),
            "Connection 540 50.99 #1 NOT_IMPLEMENTED - unknown method (50,99)",
        ),
        (
            "unknown class",
            frame(1, ChannelNumber::CONNECTION, &[3, 231, 0, 10]),
            "Connection 540 999.10 #0 NOT_IMPLEMENTED - unknown method (999,10)",
        ),
        (
            "cut short",
            frame(1, ChannelNumber(1), &[0, 60, 0, 80, 1]),
            "Connection 501 60.80 #1 FRAME_ERROR - cannot decode <<1>>",
        ),
        (
            "too long",
            frame(1, ChannelNumber(1), &[0, 90, 0, 10, 7]),
            "Connection 501 90.10 #1 FRAME_ERROR - cannot decode <<7>>",
        ),
        ("not UTF-8", declare(b"\xff\xfe"), "Connection 501 0.0 #1 FRAME_ERROR - Malformed UTF-8 in shortstr"),
        (
            "an answer",
            method(ChannelNumber(1), queue::PurgeOk { message_count: 0 }),
            "Connection 503 50.31 #1 COMMAND_INVALID - unimplemented method",
        ),
        (
            "connection class on a channel",
            method(ChannelNumber(1), connection::UpdateSecretOk {}),
            "Connection 503 10.71 #1 COMMAND_INVALID - unimplemented method",
        ),
        (
            "channel class on channel 0",
            method(ChannelNumber::CONNECTION, channel::Open {}),
            "Connection 504 20.10 #0 CHANNEL_ERROR - unexpected method in connection state running",
        ),
        (
            "publish on channel 0",
            publish(ChannelNumber::CONNECTION),
            "Connection 504 60.40 #0 CHANNEL_ERROR - unexpected method in connection state running",
        ),
        // Channels.
        (
            "second open",
            method(ChannelNumber(1), channel::Open {}),
            "Connection 504 20.10 #1 CHANNEL_ERROR - second 'channel.open' seen",
        ),
        (
            "a channel that is not open",
            method(ChannelNumber(9), basic::Recover { requeue: true }),
            "Connection 504 60.110 #9 CHANNEL_ERROR - expected 'channel.open'",
        ),
        ("an answer to no close", method(ChannelNumber(9), channel::CloseOk {}), ""),
        (
            "close-ok on an open channel",
            method(ChannelNumber(1), channel::CloseOk {}),
            "Connection 503 20.41 #1 COMMAND_INVALID - unimplemented method",
        ),
        // Contents.
        ("header without method", header(ChannelNumber(1), 60, 3, &[0, 0]), no_method),
        ("body without method", body(b"abc"), no_method),
        ("body without header", content(&[body(b"abc")]), no_header),
        ("method in place of header", content(&[publish(ChannelNumber(1))]), no_header),
        ("weight", content(&[frame(2, ChannelNumber(1), &[0, 60, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])]), no_header),
        (
            "method within body",
            content(&[header(ChannelNumber(1), 60, 3, &[0, 0]), body(b"a"), publish(ChannelNumber(1))]),
            no_body,
        ),
        (
            "header within body",
            content(&[header(ChannelNumber(1), 60, 3, &[0, 0]), header(ChannelNumber(1), 60, 3, &[0, 0])]),
            no_body,
        ),
        (
            "header of another class",
            content(&[header(ChannelNumber(1), 50, 3, &[0, 0])]),
            "Connection 505 60.40 #1 UNEXPECTED_FRAME - expected content header for class 60, \
             got one for class 50 instead",
        ),
        (
            "header cut short",
            content(&[frame(2, ChannelNumber(1), &[0, 60, 0, 0])]),
            "Connection 501 0.0 #1 FRAME_ERROR - type 2, all octets = <<0,60,0,0>>: unknown_frame",
        ),
        // RabbitMQ 3.10 waits for ever after the next one; later ones answer thus.
        (
            "body longer than announced",
            content(&[header(ChannelNumber(1), 60, 3, &[0, 0]), body(b"abcd")]),
            "Connection 501 60.40 #1 FRAME_ERROR - content body frame exceeds remaining content size",
        ),
        (
            "malformed publish",
            frame(1, ChannelNumber(1), &[0, 60, 0, 40, 0, 0, 9]),
            "Connection 501 60.40 #1 FRAME_ERROR - cannot decode <<0,0,9>>",
        ),
        // RabbitMQ 3.10's channel dies of the next one: 541.
        (
            "properties cut short",
            content(&[header(ChannelNumber(1), 60, 0, &[0x80, 0, 9])]),
            "Connection 502 60.40 #1 SYNTAX_ERROR - malformed properties of a content header: \
             a field reaches past its end",
        ),
        // RabbitMQ 3.10 takes the next two, and looks at the size when all has come; later ones answer the first thus.
        (
            "beyond the absolute bound",
            content(&[header(ChannelNumber(1), 60, u64::MAX, &[0, 0])]),
            "Connection 501 60.40 #1 FRAME_ERROR - content body size 18446744073709551615 exceeds \
             maximum allowed size 536870912",
        ),
        (
            "beyond the configured bound",
            content(&[header(ChannelNumber(1), 60, (128 << 20) + 1, &[0, 0])]),
            "Channel 406 60.40 #1 PRECONDITION_FAILED - message size 134217729 is larger than \
             configured max size 134217728",
        ),
        (
            "a content that only servers send",
            [
                method(
                    ChannelNumber(1),
                    basic::GetOk {
                        delivery_tag: DeliveryTag(1),
                        redelivered: false,
                        exchange: ShortStr::EMPTY,
                        routing_key: ShortStr::EMPTY,
                        message_count: 0,
                    },
                ),
                header(ChannelNumber(1), 60, 0, &[0, 0]),
            ]
            .concat(),
            "Connection 503 60.71 #1 COMMAND_INVALID - unimplemented method",
        ),
    ];
    for (name, bytes, expect) in cases {
        assert_eq!(running(bytes), *expect, "{name}");
    }
}

#[test]
fn a_channel_that_took_too_much_can_be_closed_and_the_others_go_on() {
    let mut pair =
        EndpointPair::open(&SessionLimits { message_bytes_max: 10, ..SessionLimits::default() }, true, &mut whole());
    pair.open_channel(&mut whole());
    pair.open_channel(&mut whole());
    pair.server.log.clear();
    let parts = |channel| [publish(channel), header(channel, 60, 11, &[0, 0]), frame(3, channel, b"hello world")];
    pair.server.receive(&parts(ChannelNumber(1)).concat(), &mut whole());
    pair.server.receive(&parts(ChannelNumber(1)).concat(), &mut whole());
    pair.server.receive(
        &[publish(ChannelNumber(2)), header(ChannelNumber(2), 60, 2, &[0, 0]), frame(3, ChannelNumber(2), b"hi")]
            .concat(),
        &mut whole(),
    );
    assert_eq!(
        pair.server.log,
        [
            "Channel 406 60.40 #1 PRECONDITION_FAILED - message size 11 is larger than configured max size 10",
            "publish #2 x key false false [0, 0] small 2",
        ]
    );
}

/// Before it is trusted, a client that misbehaves finds the link closed, without a word.
#[test]
fn offences_before_the_connection_runs() {
    let start_ok = || {
        method(
            ChannelNumber::CONNECTION,
            connection::StartOk {
                client_properties: TableRef::EMPTY,
                mechanism: ShortStr::literal("PLAIN"),
                response: b"\0a\0b",
                locale: ShortStr::literal("en_US"),
            },
        )
    };
    let tune_ok =
        |frame_max| method(ChannelNumber::CONNECTION, connection::TuneOk { channel_max: 1, frame_max, heartbeat: 0 });
    let greeting = wire::PROTOCOL_HEADER.to_vec();
    let state = |name| format!("CHANNEL_ERROR - unexpected method in connection state {name}");
    let cases: Vec<(&str, Vec<Vec<u8>>, String)> = vec![
        ("a method too early", vec![greeting.clone(), tune_ok(4096)], format!("Link 504 10.31 #0 {}", state("starting"))),
        (
            "a channel too early",
            vec![greeting.clone(), method(ChannelNumber(1), channel::Open {})],
            "Link 505 0.0 #1 UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>".into(),
        ),
        ("start-ok twice", vec![greeting.clone(), start_ok(), start_ok()], format!("Link 504 10.11 #0 {}", state("tuning"))),
        // RabbitMQ 3.10 closes the link without a word; later ones answer thus.
        (
            "a frame bound too low",
            vec![greeting.clone(), start_ok(), tune_ok(4095)],
            "Connection 530 10.30 #0 NOT_ALLOWED - negotiated frame_max = 4095 is lower than the minimum allowed \
             value (4096)"
                .into(),
        ),
        (
            "publishing before open",
            vec![greeting.clone(), start_ok(), tune_ok(4096), publish(ChannelNumber(1))],
            "Connection 505 0.0 #1 UNEXPECTED_FRAME - type 1, first 16 octets = <<0,60,0,40,0,0,1,120,3,107,101,121,0>>"
                .replace("first 16", "all"),
        ),
        (
            "a greeting above the smallest frame",
            vec![greeting.clone(), lying(1, 4089)],
            "Link 501 0.0 #1 FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4089,4088}".into(),
        ),
    ];
    for (name, parts, expect) in cases {
        let mut server = TestEndpoint::server(&SessionLimits::default(), true);
        server.receive(&parts.concat(), &mut whole());
        assert_eq!(server.log.pop(), Some(expect), "{name}");
    }
}

#[test]
fn another_protocol_is_told_ours() {
    for bytes in [b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x00\x08\x00", b"GET / HT", b"\x16\x03\x01\x02\x00\x01\x00\x01"] {
        let mut server = TestEndpoint::server(&SessionLimits::default(), true);
        server.receive(bytes, &mut || 3);
        assert!(server.log[0].starts_with("Link 540"), "{:?}", server.log);
        assert_eq!(server.sent(), wire::PROTOCOL_HEADER);
        assert!(server.inbound.is_done());
    }
    let mut old = TestEndpoint::server(&SessionLimits::default(), true);
    old.receive(b"AMQP\x01\x01\x00\x09", &mut whole());
    assert!(old.log.is_empty() && old.out.bytes() > 8, "AMQP 0-9 is close enough");

    let mut client = TestEndpoint::client(&SessionLimits::default(), true);
    client.receive(b"AMQP\x00\x00\x08\x00", &mut || 5);
    assert!(client.log[0].starts_with("Link 540"), "{:?}", client.log);
}

#[test]
fn a_client_minds_its_server_too() {
    let deliver = method(
        ChannelNumber(1),
        basic::Deliver {
            consumer_tag: ShortStr::EMPTY,
            delivery_tag: DeliveryTag(1),
            redelivered: false,
            exchange: ShortStr::EMPTY,
            routing_key: ShortStr::EMPTY,
        },
    );
    let cases = [
        (
            method(ChannelNumber(5), channel::OpenOk {}),
            "Connection 504 20.11 #5 CHANNEL_ERROR - channel.open-ok on channel 5, which is not open",
        ),
        (declare(b"q"), "Connection 503 50.10 #1 COMMAND_INVALID - unimplemented method"),
        (
            method(ChannelNumber::CONNECTION, connection::OpenOk {}),
            "Connection 504 10.41 #0 CHANNEL_ERROR - unexpected method in connection state running",
        ),
        (
            [deliver, frame(3, ChannelNumber(1), b"x")].concat(),
            "Connection 505 60.60 #1 UNEXPECTED_FRAME - expected content header for class 60, \
             got non content header frame instead",
        ),
    ];
    for (bytes, expect) in cases {
        let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
        pair.open_channel(&mut whole());
        pair.client.receive(&bytes, &mut whole());
        assert_eq!(pair.client.log.last().map(String::as_str), Some(expect));
    }
}
