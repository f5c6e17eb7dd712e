//! Memory that is lent to a link.
//!
//! Owns:   the promises that no byte of a lent body is copied here, and that what ends meanwhile ends in order.

use super::{frame, header, pattern, publish, whole};
use crate::{
    BodyOut, FaultScope, ProtocolFault, PublishHead, SessionLimits,
    drive::{EndpointPair, TestEndpoint, parts_of},
    limits::{BODY_FRAME_BYTES_MAX, BODY_LENT_STEP_BYTES, FRAME_BYTES_MAX},
};
use wire::{
    ChannelNumber, ReplyCode,
    frame::{FRAME_BODY, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD_BYTES, FrameHead, split_head},
};

const THRESHOLD: usize = 16 * 1024;

fn lending() -> EndpointPair {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    pair.open_channel(&mut whole());
    pair.server.lend_from(THRESHOLD);
    pair.client.out.set_part_bytes_min(THRESHOLD);
    pair
}

/// Everything is written one after the other, in the order of the stream: heads go where the session wants them.
#[test]
fn of_bodies_from_the_threshold_on_nothing_is_copied() {
    let mut pair = lending();
    let frame_bytes = 131_064;
    let head = PublishHead { exchange: b"x", routing_key: b"k", mandatory: false, immediate: false };
    let sizes = [THRESHOLD, THRESHOLD + 1, 40_000, frame_bytes, frame_bytes + 1, 2 * frame_bytes + 9, 1 << 20, 5 << 20];
    for bytes in sizes.into_iter().chain([BODY_LENT_STEP_BYTES]) {
        let body = pattern(bytes);
        for cut in [usize::MAX, 7_000] {
            let TestEndpoint { out, pool, .. } = &mut pair.client;
            let shared = pool.copy(&body);
            out.publish(pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Share(&shared));
            // A link that lends hands over what is shared by itself, and so in pieces of its own.
            let parts = parts_of(out, pool);
            pair.server.placed_bytes = 0;
            parts.iter().for_each(|part| pair.server.receive(part, &mut || cut));
            assert_eq!((pair.server.placed_bytes, pair.server.inbound.take_copied_bytes()), (bytes, 0), "of {bytes}");
            assert!(pair.server.bodies.pop().as_ref() == Some(&body), "a body of {bytes} bytes differs");
        }
    }
    drop(pair.server.log);
    assert_eq!(pair.server.pool.used_bytes(), 0);
}

/// Both ends agree on large frames for bodies; what is kept until it is whole stays small, and says so.
#[test]
fn a_larger_frame_bound_is_for_bodies_alone() {
    let limits = SessionLimits { body_frame_bytes_max: BODY_FRAME_BYTES_MAX, ..SessionLimits::default() };
    let mut pair = EndpointPair::open(&limits, true, &mut whole());
    assert!(pair.server.log[1].contains("frame_bytes_max: 1048584"), "{:?}", pair.server.log);
    pair.open_channel(&mut whole());
    pair.server.lend_from(THRESHOLD);
    let most = pair.server.inbound.input_bytes_max();
    assert_eq!(
        most,
        EndpointPair::open(&SessionLimits::default(), true, &mut whole()).server.inbound.input_bytes_max()
    );
    let body = pattern(1 << 20);
    let TestEndpoint { out, pool, .. } = &mut pair.client;
    let head = PublishHead { exchange: b"x", routing_key: b"k", mandatory: false, immediate: false };
    out.publish(pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Share(&pool.copy(&body)));
    let parts: Vec<Vec<u8>> = out.gather().parts().map(<[u8]>::to_vec).collect();
    assert_eq!(parts.iter().filter(|part| part.len() >= THRESHOLD).count(), 1, "one frame");
    parts.iter().for_each(|part| pair.server.receive(part, &mut || 100_000));
    assert!(pair.server.bodies.pop() == Some(body));
    assert_eq!(pair.server.inbound.take_copied_bytes(), 0);
    // One byte more than a frame of any kind may have, of each kind that is kept, and of a body that has no place.
    for (kind, channel) in [(FRAME_METHOD, 1), (FRAME_HEADER, 1), (FRAME_BODY, 0)] {
        let mut pair = EndpointPair::open(&limits, true, &mut whole());
        pair.open_channel(&mut whole());
        let payload_bytes = FRAME_BYTES_MAX + FRAME_OVERHEAD_BYTES as u32 + 1;
        pair.server
            .receive(&FrameHead { kind, channel: ChannelNumber(channel), payload_bytes }.to_bytes(), &mut whole());
        let fault = pair.server.log.last().expect("a fault");
        assert!(fault.contains("501") && fault.contains("frame_too_large,131081,131064"), "{fault}");
    }
    // A client that wants less gets less, also where its server would take more.
    let wanted = SessionLimits { body_frame_bytes_max: 200_000, ..limits };
    let mut pair =
        EndpointPair { client: TestEndpoint::client(&wanted, true), server: TestEndpoint::server(&limits, true) };
    pair.pump(&mut whole());
    assert!(pair.server.log[1].contains("frame_bytes_max: 200000"), "{:?}", pair.server.log);
}

#[test]
fn what_is_too_small_to_lend_is_taken_as_ever() {
    let mut pair = lending();
    let body = pattern(THRESHOLD - 1);
    let sent = [
        publish(ChannelNumber(1)),
        header(ChannelNumber(1), 60, body.len() as u64, &[0, 0]),
        frame(FRAME_BODY, ChannelNumber(1), &body),
    ]
    .concat();
    pair.server.receive(&sent, &mut || 1_000);
    assert!(pair.server.bodies.pop().as_ref() == Some(&body));
    assert_eq!(pair.server.inbound.take_copied_bytes(), 0, "it is no large body");
}

/// The heads of a content, and of the first of its frames.
fn begun(body: &[u8], first: usize) -> Vec<u8> {
    let frame = frame(FRAME_BODY, ChannelNumber(1), &body[..first]);
    [publish(ChannelNumber(1)), header(ChannelNumber(1), 60, body.len() as u64, &[0, 0]), frame[..7].to_vec()].concat()
}

#[test]
fn a_channel_that_ends_while_its_memory_is_lent_drops_what_comes() {
    for scope in [FaultScope::Channel, FaultScope::Connection, FaultScope::Link] {
        let mut pair = lending();
        let body = pattern(100_000);
        pair.server.receive(&begun(&body, 60_000), &mut whole());
        pair.server.receive(&body[..20_000], &mut whole());
        assert!(pair.server.lent.is_some());
        let fault = ProtocolFault {
            code: ReplyCode::PreconditionFailed,
            scope,
            channel: ChannelNumber(1),
            class_id: 60,
            method_id: 40,
            text: "the queue is gone".into(),
        };
        let TestEndpoint { inbound, out, pool, .. } = &mut pair.server;
        inbound.fail(&fault, out, pool);
        assert!(inbound.is_lent() && inbound.direct().is_empty() && inbound.lend().is_none());
        // A look at nothing while it is away.
        let nothing = inbound.next(&mut &[][..], out, pool);
        assert!(matches!(nothing, Ok(None)));
        let rest = [&body[20_000..60_000], &[wire::frame::FRAME_END]].concat();
        pair.server.receive(&rest, &mut || 9_000);
        pair.server.receive(&frame(FRAME_BODY, ChannelNumber(1), &body[60_000..]), &mut || 9_000);
        assert!(!pair.server.inbound.is_lent() && pair.server.bodies.is_empty());
        if scope == FaultScope::Channel {
            // What comes after is understood.
            pair.server.sent();
            pair.server.receive(&super::method(ChannelNumber(1), wire::method::channel::CloseOk {}), &mut whole());
            pair.server.receive(&super::method(ChannelNumber(1), wire::method::channel::Open {}), &mut whole());
            let content = [
                publish(ChannelNumber(1)),
                header(ChannelNumber(1), 60, 3, &[0, 0]),
                frame(FRAME_BODY, ChannelNumber(1), b"yes"),
            ]
            .concat();
            pair.server.receive(&content, &mut whole());
            assert_eq!(pair.server.bodies, [b"yes"]);
        }
        pair.server.out.clear();
        assert_eq!(pair.server.pool.used_bytes(), 0, "{scope:?}");
    }
}

#[test]
fn memory_that_nobody_takes_is_filled_as_ever() {
    let mut pair = lending();
    let body = pattern(50_000);
    pair.server.receive(&begun(&body, 50_000), &mut whole());
    let (memory, place) = pair.server.inbound.lend().expect("a frame's payload is to come");
    assert_eq!((memory.len(), place), (50_000, 0..50_000));
    pair.server.inbound.not_lent(memory);
    assert_eq!(pair.server.inbound.direct().len(), 50_000);
    pair.server.receive(&[&body[..], &[wire::frame::FRAME_END]].concat(), &mut || 3_000);
    assert!(pair.server.bodies == [body]);
}

/// One body at a time may have memory for all of it before it comes.
#[test]
fn a_peer_that_announces_much_on_many_channels_reserves_memory_for_one_body() {
    let mut pair = lending();
    let body = pattern(1_000);
    for channel in 1..=10 {
        if channel > 1 {
            assert_eq!(pair.open_channel(&mut whole()), ChannelNumber(channel));
        }
        let heads = [
            publish(ChannelNumber(channel)),
            header(ChannelNumber(channel), 60, 100 << 20, &[0, 0]),
            frame(FRAME_BODY, ChannelNumber(channel), &body),
        ];
        pair.server.receive(&heads.concat(), &mut whole());
    }
    let used = pair.server.pool.used_bytes();
    let most = BODY_LENT_STEP_BYTES + 9 * 4_096;
    assert!(used <= most + most / 4, "{used} bytes, of {most} and what rounding adds");
    let (partial, spare) = (pair.server.inbound.partial_bytes(), pair.server.inbound.body_room().spare_bytes);
    assert!((10_000..11_000).contains(&partial), "{partial} bytes have arrived, and nothing is lent");
    assert!(used - spare < BODY_LENT_STEP_BYTES / 4, "{used} bytes, of which {spare} are spare");
}

/// What is lent counts, with the rest of the memory that it lies in; what is not lent does not.
#[test]
fn lent_memory_counts_whole() {
    let mut pair = lending();
    let body = pattern(50_000);
    pair.server.receive(&begun(&body, 20_000), &mut whole());
    let before = pair.server.inbound.partial_bytes();
    let spare = pair.server.inbound.body_room();
    assert_eq!(spare.spare_bytes, 50_000);
    let (memory, _) = pair.server.inbound.lend().expect("a frame's payload is to come");
    assert_eq!((memory.len(), pair.server.inbound.partial_bytes()), (50_000, before + 50_000));
    assert_eq!(pair.server.inbound.body_room(), crate::BodyRoom::default(), "no memory is spare that is lent");
    pair.server.inbound.not_lent(memory);
    assert_eq!((pair.server.inbound.partial_bytes(), pair.server.inbound.body_room()), (before, spare));
}

#[test]
fn a_body_whose_loan_is_refused_gets_memory_for_one_frame_and_arrives_whole() {
    let mut pair = lending();
    let body = pattern(50_000);
    let mut begun = begun(&body, 20_000);
    begun.extend_from_slice(&body[..100]);
    pair.server.receive(&begun, &mut whole());
    let (memory, _) = pair.server.inbound.lend().expect("a frame's payload is to come");
    pair.server.inbound.refuse_loan(memory, &pair.server.pool);
    assert!(pair.server.inbound.direct().is_empty() && pair.server.inbound.lend().is_none());
    assert!(pair.server.pool.used_bytes() < 4_096, "{} bytes", pair.server.pool.used_bytes());
    pair.server.receive(&[&body[100..20_000], &[wire::frame::FRAME_END]].concat(), &mut || 3_000);
    let used = pair.server.pool.used_bytes();
    assert!(used < 50_000, "{used} bytes for a frame of 20,000");
    pair.server.receive(&frame(FRAME_BODY, ChannelNumber(1), &body[20_000..]), &mut || 3_000);
    assert!(pair.server.bodies == [body]);
}

#[test]
fn no_frame_of_a_shared_body_is_small() {
    let mut pair = lending();
    let TestEndpoint { out, pool, .. } = &mut pair.client;
    let (most, head) =
        (out.payload_bytes_max(), PublishHead { exchange: b"", routing_key: b"q", mandatory: false, immediate: false });
    for bytes in
        [most - 1, most, most + 1, most + THRESHOLD - 1, most + THRESHOLD, 2 * most, 2 * most + 1, 9 * most + 70]
    {
        for (share, least) in [(true, THRESHOLD), (false, 1)] {
            let body = pool.copy(&pattern(bytes));
            let part = if share { BodyOut::Share(&body) } else { BodyOut::Copy(&body) };
            out.publish(pool, ChannelNumber(1), &head, &[0, 0], part);
            let sent = parts_of(out, pool).concat();
            let (mut at, mut frames) = (0, Vec::new());
            while let Some(head) = split_head(&sent[at..]) {
                at += head.payload_bytes as usize + FRAME_OVERHEAD_BYTES;
                frames.extend((head.kind == FRAME_BODY).then_some(head.payload_bytes as usize));
            }
            assert_eq!((at, frames.iter().sum::<usize>()), (sent.len(), bytes));
            assert_eq!(frames.len(), bytes.div_ceil(most), "no more frames than it takes");
            assert!(frames.iter().all(|frame| (least..=most).contains(frame)), "{frames:?}");
        }
    }
}
