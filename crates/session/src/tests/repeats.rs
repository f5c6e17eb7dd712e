//! Deliveries that are taken for their likeness to the one before.
//!
//! Owns:   the promise that they are the same events, however much or little the deliveries are alike.

use super::{frame, header, pattern, rich_properties, whole};
use crate::{
    BodyOut, DeliverHead, SessionLimits,
    drive::{EndpointPair, TestEndpoint},
    limits::LARGE_BODY_BYTES,
};
use proptest::prelude::*;
use wire::{ChannelNumber, DeliveryTag};

/// A delivery; each field is drawn from few values, so that neighbours are often alike.
#[derive(Clone, Copy, Debug)]
struct SampleDelivery {
    channel: ChannelNumber,
    tag: u64,
    key: u8,
    redelivered: bool,
    rich: bool,
    bytes: usize,
    /// A heartbeat stands before it.
    after_heartbeat: bool,
    /// Its body comes in two frames.
    in_two: bool,
}

const PLAIN: SampleDelivery = SampleDelivery {
    channel: ChannelNumber(1),
    tag: 1,
    key: 0,
    redelivered: false,
    rich: false,
    bytes: 64,
    after_heartbeat: false,
    in_two: false,
};

fn encode(pair: &mut EndpointPair, one: SampleDelivery) -> Vec<u8> {
    let TestEndpoint { out, pool, .. } = &mut pair.server;
    if one.after_heartbeat {
        out.heartbeat(pool);
    }
    let key = [b'k', b'0' + one.key];
    let head = DeliverHead {
        consumer_tag: b"tag",
        delivery_tag: DeliveryTag(one.tag),
        redelivered: one.redelivered,
        exchange: b"x",
        routing_key: &key,
    };
    let properties = if one.rich { rich_properties() } else { vec![0, 0] };
    let mut body = pattern(one.bytes);
    if let Some(first) = body.first_mut() {
        *first = one.tag as u8;
    }
    if !one.in_two || one.bytes < 2 {
        out.deliver(pool, one.channel, &head, &properties, BodyOut::Copy(&body));
        return pair.server.sent();
    }
    out.deliver(pool, one.channel, &head, &properties, BodyOut::Copy(&[]));
    let mut bytes = pair.server.sent();
    // The header said that there is no body: another takes its place.
    bytes.truncate(bytes.len() - header(one.channel, 60, 0, &properties).len());
    bytes.extend(header(one.channel, 60, one.bytes as u64, &properties));
    let (first, second) = body.split_at(one.bytes / 2);
    bytes.extend(frame(3, one.channel, first));
    bytes.extend(frame(3, one.channel, second));
    bytes
}

/// The log of a client that hears these deliveries, and how many it took for their likeness.
fn heard(all: &[SampleDelivery], takes_alike: bool, cut: usize) -> (Vec<String>, Vec<Vec<u8>>, usize) {
    let mut pair = EndpointPair::open(&SessionLimits::default(), takes_alike, &mut whole());
    for expected in [1, 2] {
        assert_eq!(pair.open_channel(&mut whole()), ChannelNumber(expected));
    }
    let bytes: Vec<u8> = all.iter().flat_map(|&one| encode(&mut pair, one)).collect();
    pair.client.log.clear();
    pair.client.receive(&bytes, &mut || cut);
    (pair.client.log, pair.client.bodies, pair.client.repeated)
}

fn same(all: &[SampleDelivery], cut: usize) -> usize {
    let (log, bodies, none) = heard(all, false, usize::MAX);
    assert_eq!((log.len(), none), (all.len(), 0));
    let (alike_log, alike_bodies, repeated) = heard(all, true, cut);
    assert_eq!(alike_log, log, "pieces of {cut}");
    assert!(alike_bodies == bodies, "pieces of {cut}");
    repeated
}

#[test]
fn what_is_alike_is_taken_for_its_likeness() {
    let all: Vec<SampleDelivery> = (0..100).map(|tag| SampleDelivery { tag, ..PLAIN }).collect();
    assert_eq!(same(&all, usize::MAX), 98, "two show what to expect");
    for bytes in [0, 1, 4_000, LARGE_BODY_BYTES - 1] {
        let all: Vec<SampleDelivery> = (0..10).map(|tag| SampleDelivery { tag, bytes, ..PLAIN }).collect();
        assert_eq!(same(&all, usize::MAX), 8, "{bytes} bytes");
    }
    let large: Vec<SampleDelivery> =
        (0..10).map(|tag| SampleDelivery { tag, bytes: LARGE_BODY_BYTES, ..PLAIN }).collect();
    assert_eq!(same(&large, usize::MAX), 0, "large bodies have memory of their own");
}

#[test]
fn what_is_not_alike_is_not() {
    let change = |of: fn(u64) -> SampleDelivery| (0..40).map(of).collect::<Vec<SampleDelivery>>();
    for all in [
        change(|tag| SampleDelivery { tag, key: (tag % 2) as u8, ..PLAIN }),
        change(|tag| SampleDelivery { tag, channel: ChannelNumber(1 + (tag % 2) as u16), ..PLAIN }),
        change(|tag| SampleDelivery { tag, redelivered: tag % 2 == 0, ..PLAIN }),
        change(|tag| SampleDelivery { tag, in_two: true, ..PLAIN }),
        change(|tag| SampleDelivery { tag, bytes: 64 + tag as usize, ..PLAIN }),
    ] {
        assert_eq!(same(&all, usize::MAX), 0, "{:?}", all[1]);
    }
}

proptest! {
    #[test]
    fn any_deliveries_in_any_pieces_say_the_same(
        all in prop::collection::vec(
            (1..3_u16, 0..3_u8, 0..8_u8, prop::sample::select(vec![0_usize, 5, 5, 5, 64, 300])),
            1..60,
        ),
        cut in 1..400_usize,
    ) {
        let all: Vec<SampleDelivery> = all
            .into_iter()
            .zip(1..)
            .map(|((channel, key, odd, bytes), tag)| SampleDelivery {
                channel: if odd == 1 { ChannelNumber(channel) } else { ChannelNumber(1) },
                tag,
                key: if odd == 2 { key } else { 0 },
                redelivered: odd == 3,
                rich: odd == 4,
                bytes,
                after_heartbeat: odd == 5,
                in_two: odd == 6,
            })
            .collect();
        same(&all, cut);
        same(&all, usize::MAX);
    }
}
