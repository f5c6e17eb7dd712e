//! Contents that an end cannot accept and passes over, instead of ending their channel or the connection.

use super::{frame, header, method, publish, whole};
use crate::{SessionLimits, drive::EndpointPair};
use wire::{ChannelNumber, ShortStr, method::basic};

#[test]
fn contents_that_are_too_large_can_be_passed_over() {
    let limits = SessionLimits { message_bytes_max: 10, passes_over_contents: true, ..SessionLimits::default() };
    let mut pair = EndpointPair::open(&limits, true, &mut whole());
    pair.open_channel(&mut whole());
    pair.open_channel(&mut whole());
    let (one, two) = (ChannelNumber(1), ChannelNumber(2));
    let small = |channel| [publish(channel), header(channel, 60, 2, &[0, 0]), frame(3, channel, b"hi")].concat();
    // The body comes in pieces, and another channel in between.
    let body =
        [publish(one), header(one, 60, 11, &[0, 0]), frame(3, one, b"hello "), small(two), frame(3, one, b"world")];
    let filler = wire::Table::new().with("filler", wire::Value::text(&"x".repeat(140_000))).expect("short");
    let properties = wire::Properties { headers: Some(filler), ..wire::Properties::default() }.to_bytes();
    let long = [publish(one), header(one, 60, 3, &properties), frame(3, one, b"abc"), small(one)];
    let empty = [publish(one), header(one, 60, 0, &properties), small(one)];
    let all = [body.concat(), small(one), long.concat(), empty.concat()].concat();
    for bytes_at_once in [usize::MAX, 1_000, 7] {
        pair.server.log.clear();
        all.chunks(bytes_at_once.min(all.len())).for_each(|bytes| pair.server.receive(bytes, &mut whole()));
        let hi = |channel| format!("publish #{channel} x key false false [0, 0] small 2");
        let passed_over = |defect: &str| format!("PassedOver {{ channel: ChannelNumber(1), defect: {defect} }}");
        let [body, properties] = ["LargeBody(11)", "LargeProperties"].map(passed_over);
        let expect = [body, hi(2), hi(1), properties.clone(), hi(1), properties, hi(1)];
        assert_eq!(pair.server.log, expect, "{bytes_at_once} bytes at once");
    }
}

/// A content header with bytes that cannot be understood, and what is wrong with it. The body has three bytes.
fn malformed_headers(channel: ChannelNumber) -> Vec<(Vec<u8>, &'static str)> {
    let with = |payload: &[u8]| frame(2, channel, payload);
    let size = [0, 0, 0, 0, 0, 0, 0, 3];
    let plain = |class: u8, weight: u8| with(&[&[0, class, 0, weight], &size[..], &[0, 0]].concat());
    // A table that claims to be longer than the header, in a short header and in one that is not awaited with its method.
    let long_table = |bytes: usize| [&[0x20, 0, 0, 0, 0xff, 0xff][..], &vec![b'x'; bytes]].concat();
    vec![
        (header(channel, 60, 3, &long_table(5)), "SYNTAX_ERROR - malformed properties"),
        (header(channel, 60, 3, &long_table(5_000)), "SYNTAX_ERROR - malformed properties"),
        (header(channel, 60, 3, &[0, 1]), "SYNTAX_ERROR - malformed properties"),
        (header(channel, 60, 3, &[0, 0, 7]), "SYNTAX_ERROR - malformed properties"),
        (header(channel, 60, 3, &[]), "SYNTAX_ERROR - malformed properties"),
        (plain(61, 0), "UNEXPECTED_FRAME - expected content header for class 60"),
        (plain(60, 1), "UNEXPECTED_FRAME - expected content header for class 60"),
        (with(&[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "FRAME_ERROR - type 2"),
        (with(&[]), "FRAME_ERROR - type 2"),
    ]
}

#[test]
fn contents_with_malformed_headers_can_be_passed_over() {
    let one = ChannelNumber(1);
    let good = [publish(one), header(one, 60, 2, &[0, 0]), frame(3, one, b"hi")].concat();
    for (bad, what) in malformed_headers(one) {
        for bytes_at_once in [usize::MAX, 1_000, 7, 1] {
            let limits = SessionLimits { passes_over_contents: true, ..SessionLimits::default() };
            let mut pair = EndpointPair::open(&limits, true, &mut whole());
            pair.open_channel(&mut whole());
            pair.server.log.clear();
            // The body comes in two pieces.
            let body = [frame(3, one, b"a"), frame(3, one, b"bc")].concat();
            let all = [&publish(one)[..], &bad, &body, &good, &good].concat();
            all.chunks(bytes_at_once.min(all.len())).for_each(|bytes| pair.server.receive(bytes, &mut whole()));
            let log = &pair.server.log;
            let start = format!("PassedOver {{ channel: ChannelNumber(1), defect: MalformedHeader(\"{what}");
            assert!(log.len() == 3 && log[0].starts_with(&start), "{what}, {bytes_at_once} bytes at once: {log:?}");
            assert!(log[1..].iter().all(|line| line == "publish #1 x key false false [0, 0] small 2"), "{log:?}");
        }
        // Where contents may not be passed over, the connection ends.
        let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
        pair.open_channel(&mut whole());
        pair.server.receive(&[&publish(one)[..], &bad].concat(), &mut whole());
        assert!(pair.server.log.last().is_some_and(|line| line.starts_with("Connection 50")), "{:?}", pair.server.log);
    }
}

#[test]
fn a_header_just_over_the_smallest_frame_can_be_passed_over() {
    let limits = SessionLimits { frame_bytes_max: 4_096, passes_over_contents: true, ..SessionLimits::default() };
    let mut pair = EndpointPair::open(&limits, true, &mut whole());
    pair.open_channel(&mut whole());
    pair.server.log.clear();
    let one = ChannelNumber(1);
    let long = header(one, 60, 0, &[0; 4_089 - 12]);
    pair.server.receive(&[publish(one), long].concat(), &mut whole());
    assert_eq!(pair.server.log, ["PassedOver { channel: ChannelNumber(1), defect: LargeProperties }"]);
}

#[test]
fn what_is_passed_over_is_what_the_peer_may_send() {
    let limits = SessionLimits { passes_over_contents: true, ..SessionLimits::default() };
    let one = ChannelNumber(1);
    let returned = method(
        one,
        basic::Return {
            reply_code: 312,
            reply_text: ShortStr::EMPTY,
            exchange: ShortStr::EMPTY,
            routing_key: ShortStr::EMPTY,
        },
    );
    let bad = |method: &[u8]| [method, &header(one, 60, 0, &[0, 1])].concat();
    let mut pair = EndpointPair::open(&limits, true, &mut whole());
    pair.open_channel(&mut whole());
    pair.client.log.clear();
    // Nobody counts what is returned.
    pair.client.receive(&bad(&returned), &mut whole());
    assert!(pair.client.log.is_empty(), "{:?}", pair.client.log);
    pair.client.receive(&bad(&publish(one)), &mut whole());
    assert_eq!(pair.client.log.len(), 1);
    assert!(pair.client.log[0].starts_with("Connection 503 60.40"), "{:?}", pair.client.log);
}
