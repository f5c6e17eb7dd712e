//! Messages and frames that never arrive whole.

use super::attacker::{Attacker, announce, announce_to, body, method_frame, open_channel, publish_method};
use super::broker::{LimitedBroker, USELESS};
use super::bystander::{Bystander, QUEUE};
use super::times;
use wire::frame::{FRAME_HEADER, FRAME_METHOD};
use wire::method::{basic, channel};

/// Channels of an attacker that announce a body; one more asks when all of it has been taken.
const CHANNELS: u16 = 2046;

/// Announces a large body on every channel, with a byte of each, and waits until the broker has taken that.
fn announce_everywhere(broker: &LimitedBroker, user: &str) -> Attacker {
    let mut attacker = Attacker::connect(broker, user);
    for channel in 1..=CHANNELS {
        let bytes = [open_channel(channel), announce(channel, QUEUE, 100 << 20), body(channel, b"a")].concat();
        attacker.send(&bytes).expect("sent");
    }
    let qos = basic::Qos { prefetch_size: 0, prefetch_count: 1, global: false };
    let asks = [open_channel(CHANNELS + 1), method_frame(CHANNELS + 1, qos.into())].concat();
    attacker.send(&asks).expect("sent");
    assert!(attacker.await_method("basic.qos-ok"));
    attacker
}

#[test]
fn announced_bodies_hold_nobody() {
    for user in ["guest", USELESS] {
        let attack = format!("bodies that {user} announces");
        let broker = LimitedBroker::start(&format!("announced-{user}"), 128);
        let mut bystander = Bystander::new(&broker);
        let attackers: Vec<_> = (0..5).map(|_| announce_everywhere(&broker, user)).collect();
        broker.has_kept_its_limit(&attack);
        bystander.exchange(&attack);
        attackers.into_iter().for_each(Attacker::end);
        bystander.exchange(&attack);
    }
}

/// The broker awaits a small header and the head of a body, because small messages are taken whole. Of others it awaits no more
/// than the method.
#[test]
fn who_may_not_publish_is_refused_before_a_body_or_a_large_header_comes() {
    let attack = "publishes that are refused";
    let broker = LimitedBroker::start("refused", times(64));
    let mut bystander = Bystander::new(&broker);
    let large_header = [&[FRAME_HEADER, 0, 1][..], &100_000_u32.to_be_bytes()].concat();
    for (user, exchange, code) in [(USELESS, "", 403), (USELESS, "amq.fanout", 403), ("guest", "nowhere", 404)] {
        let mut attacker = Attacker::connect(&broker, user);
        attacker
            .send(&[open_channel(1), publish_method(1, (exchange, QUEUE)), large_header.clone()].concat())
            .expect("sent");
        assert_eq!(attacker.await_channel_close(), Some((1, code)), "{user} to '{exchange}': a header's head");
        attacker.end();
        let mut attacker = Attacker::connect(&broker, user);
        for channel in 1..=CHANNELS {
            let announced = announce_to(channel, (exchange, QUEUE), &[0, 0], 100 << 20);
            attacker.send(&[open_channel(channel), announced].concat()).expect("sent");
            assert_eq!(attacker.await_channel_close(), Some((channel, code)), "{user} to '{exchange}': a header");
        }
        // What a client sends before it knows that is dropped, and the channel can be opened again.
        let more = [body(1, &[7; 65_536]), method_frame(1, channel::CloseOk {}.into()), open_channel(1)];
        attacker.send(&more.concat()).expect("sent");
        assert!(attacker.await_method("channel.open-ok"), "{user} to '{exchange}'");
        broker.has_kept_its_limit(attack);
        bystander.exchange(attack);
    }
}

#[test]
fn half_frames_hold_nobody() {
    let attack = "half frames";
    let broker = LimitedBroker::start("frames", times(64));
    let bystander = Bystander::new(&broker);
    let mut half = vec![FRAME_METHOD, 0, 1];
    half.extend(131_000_u32.to_be_bytes());
    half.resize(120_000, 0);
    let attackers: Vec<_> = (0..times(800))
        .map(|_| {
            let mut attacker = Attacker::connect(&broker, "guest");
            attacker.send(&[open_channel(1), half.clone()].concat()).expect("sent");
            attacker
        })
        .collect();
    holds_nobody(attack, &broker, bystander, attackers);
}

#[test]
fn half_messages_hold_nobody() {
    let attack = "half messages";
    let broker = LimitedBroker::start("bodies", times(64));
    let bystander = Bystander::new(&broker);
    let mut half = [open_channel(1), announce(1, QUEUE, 100 << 20)].concat();
    half.extend((0..64).flat_map(|_| body(1, &[7; 65_536])));
    let attackers: Vec<_> = (0..times(30))
        .map(|_| {
            let attacker = Attacker::connect(&broker, "guest");
            attacker.send_in_background(half.clone());
            attacker
        })
        .collect();
    holds_nobody(attack, &broker, bystander, attackers);
}

/// The alarm begins, and yet the bystander is served and the limit kept, now and when the attackers have gone.
fn holds_nobody(attack: &str, broker: &LimitedBroker, mut bystander: Bystander, attackers: Vec<Attacker>) {
    broker.await_alarm();
    bystander.exchange(attack);
    broker.has_kept_its_limit(attack);
    attackers.into_iter().for_each(Attacker::end);
    bystander.exchange(attack);
}
