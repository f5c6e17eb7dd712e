//! Large bodies that are sent a piece at a time.
//!
//! Owns:   the promise that what is written of them at once is bounded, and that the order of everything stays.

use super::{pattern, whole};
use crate::drive::{EndpointPair, parts_of};
use crate::limits::{PIECE_BYTES, PIECE_FRAMES};
use crate::{BodyOut, DeliverHead, SessionLimits};
use wire::frame::FRAME_OVERHEAD_BYTES;
use wire::{ChannelNumber, DeliveryTag};

fn head(delivery_tag: u64) -> DeliverHead<'static> {
    let delivery_tag = DeliveryTag(delivery_tag);
    DeliverHead { consumer_tag: b"tag", delivery_tag, redelivered: false, exchange: b"x", routing_key: b"k" }
}

/// Everything that follows a large body arrives behind it, another one too, and nothing is left.
#[test]
fn a_large_body_is_written_in_pieces_and_in_its_order() {
    for frame_bytes_max in [4_096, 128 << 10, 4 << 20] {
        let limits = SessionLimits { frame_bytes_max, ..SessionLimits::default() };
        let mut pair = EndpointPair::open(&limits, true, &mut whole());
        let channel = pair.open_channel(&mut whole());
        let frame_bytes = frame_bytes_max as usize - FRAME_OVERHEAD_BYTES;
        let piece_bytes = PIECE_BYTES.min(PIECE_FRAMES * frame_bytes);
        let sizes = [1, piece_bytes, piece_bytes + 1, 40, 5 * piece_bytes + 9, 3 * piece_bytes, 0, 70_000];
        let bodies = sizes.map(pattern);
        let (out, pool) = (&mut pair.server.out, &pair.server.pool);
        for (number, body) in bodies.iter().enumerate() {
            let shared = pool.copy(body);
            let head = head(number as u64);
            let before = out.bytes();
            out.deliver(pool, channel, &head, &[0, 0], BodyOut::Share(&shared));
            let frames = body.len().div_ceil(out.payload_bytes_max());
            let heads = out.delivery_bytes(&head, &[0, 0], 0).expect("it fits");
            assert_eq!(out.bytes() - before, heads + body.len() + frames * FRAME_OVERHEAD_BYTES, "{}", body.len());
            out.ack(pool, channel, DeliveryTag(number as u64), false);
        }
        let (mut sent, mut all_bytes) = (Vec::new(), out.bytes());
        while !out.is_empty() {
            let next = out.gather_mut(pool);
            let (parts, bytes) = (next.parts().count(), next.bytes());
            // Behind less than a piece, one more is written.
            assert!(parts <= 2 * (2 * PIECE_FRAMES + sizes.len()), "{parts} parts at once");
            assert!(bytes <= 2 * PIECE_BYTES.max(frame_bytes) + 1_000, "{bytes} bytes at once");
            // A link may take less.
            let taken = bytes.div_ceil(2);
            sent.extend(next.parts().flatten().take(taken));
            next.consume(taken);
            all_bytes -= taken;
            assert_eq!(out.bytes(), all_bytes, "what is left is known exactly");
        }
        pair.client.receive(&sent, &mut whole());
        assert!(pair.client.bodies == bodies, "with frames of {frame_bytes_max} bytes");
        let acks = pair.client.log.iter().filter(|told| told.contains("BasicAck")).count();
        assert_eq!(acks, sizes.len(), "{:?}", pair.client.log);
        assert_eq!(pair.server.pool.used_bytes(), 0);
    }
}

#[test]
fn nothing_is_left_of_a_body_whose_rest_is_dropped() {
    let mut pair = EndpointPair::open(&SessionLimits::default(), true, &mut whole());
    let (out, pool) = (&mut pair.server.out, &pair.server.pool);
    let head = head(1);
    out.deliver(pool, ChannelNumber(1), &head, &[0, 0], BodyOut::Share(&pool.copy(&pattern(3 * PIECE_BYTES))));
    out.clear();
    assert!(out.is_empty() && out.bytes() == 0 && pool.used_bytes() == 0);
    out.heartbeat(pool);
    assert_eq!(parts_of(out, pool).concat(), wire::frame::HEARTBEAT_FRAME);
}

/// However many bodies are written, of whatever size: a link gets about a piece of them at a time, and how much waits is known without
/// a look at each.
#[test]
fn very_many_bodies_are_sent_in_pieces() {
    for body_bytes in [100, 1 << 20, PIECE_BYTES + 1] {
        let limits = SessionLimits::default();
        let mut pair = EndpointPair::open(&limits, true, &mut whole());
        let channel = pair.open_channel(&mut whole());
        let (out, pool) = (&mut pair.server.out, &pair.server.pool);
        let body = pattern(body_bytes);
        let count = 8 * PIECE_BYTES / body_bytes;
        let shared = pool.copy(&body);
        for number in 0..count {
            let head = head(number as u64);
            let body = if body_bytes < 4_096 { BodyOut::Copy(&body) } else { BodyOut::Share(&shared) };
            out.deliver(pool, channel, &head, &[0, 0], body);
        }
        drop(shared);
        let (mut all_bytes, mut sent, mut pieces) = (out.bytes(), Vec::new(), 0);
        while !out.is_empty() {
            let next = out.gather_mut(pool);
            let bytes = next.bytes();
            assert!(bytes <= 2 * PIECE_BYTES + 1_000, "{bytes} bytes at once");
            sent.extend(next.parts().flatten());
            next.clear();
            (all_bytes, pieces) = (all_bytes - bytes, pieces + 1);
            assert_eq!(out.bytes(), all_bytes, "of {body_bytes}");
        }
        assert!(pieces >= 3, "{pieces} pieces");
        pair.client.receive(&sent, &mut whole());
        assert!(pair.client.bodies.len() == count && pair.client.bodies.iter().all(|received| *received == body));
        assert_eq!(pair.server.pool.used_bytes(), 0);
    }
}
