//! What a message costs in counts that a device of any kind would see: doorbells, messages, completions.
//!
//! `cargo test --release -p harrier-verbs --test counts -- --nocapture` prints them for 1,000 AMQP messages;
//! `VERBS_COUNTS=MESSAGES,BYTES,A_ROUND` counts one kind alone, for an instrument that counts instructions. The page on what a card should give is worked out from these.

mod world;

use link::Link;
use slab::Gather;
use std::fmt::Write as _;
use verbs::PortSettings;
use verbs::sim::FabricOptions;
use world::{TestWorld, settings};

/// A publish of 64 bytes with its method and header frames.
const SMALL_BYTES: usize = 118;

/// Sends messages of `bytes`, so many a round, and answers a line of counts for 1,000 of them.
fn count(messages: usize, bytes: usize, a_round: usize) -> [u64; 7] {
    let settings =
        PortSettings { corked: true, receive_buffers: 1_024, landing_blocks: 16, landing_bytes: 65_536, ..settings() };
    let world = TestWorld::new(&FabricOptions::faultless(), &[settings.clone(), settings]);
    let (mut near, mut far) = world.connect();
    world.steps(3);
    let body = world.pool.copy(&world::bytes(0, bytes));
    let before = [0, 1].map(|at| world.ports[at].counters());
    let (mut sent, mut received) = (0, 0);
    let mut out = Gather::new();
    while received < messages * bytes {
        if out.is_empty() && sent < messages {
            for _ in 0..a_round.min(messages - sent) {
                if bytes < 4_096 {
                    out.extend(&world.pool, &body);
                } else {
                    out.push(body.clone());
                }
                sent += 1;
            }
        }
        if !out.is_empty() {
            near.send(&mut out).expect("open");
        }
        world.step();
        received += world::drain(&mut far).expect("open").0.len();
    }
    let after = [0, 1].map(|at| world.ports[at].counters());
    let of = |at: usize, what: fn(&verbs::PortCounters) -> u64| {
        (what(&after[at]) - what(&before[at])) * 1_000 / messages as u64
    };
    [
        of(0, |counters| counters.doorbells),
        of(0, |counters| counters.messages_sent),
        of(0, |counters| counters.signalled),
        of(1, |counters| counters.doorbells),
        of(1, |counters| counters.messages_sent),
        of(1, |counters| counters.receive_doorbells),
        of(1, |counters| counters.copied_bytes),
    ]
}

#[test]
fn small_messages_share_doorbells_and_completions() {
    if let Ok(one) = std::env::var("VERBS_COUNTS") {
        let numbers: Vec<usize> = one.split(',').map(|text| text.parse().expect("MESSAGES,BYTES,A_ROUND")).collect();
        let [messages, bytes, a_round] = numbers[..] else { panic!("MESSAGES,BYTES,A_ROUND") };
        println!("{:?}", count(messages, bytes, a_round));
        return;
    }
    let mut table =
        String::from("bytes a_round | doorbells sent signalled | back: doorbells sent receive_doorbells copied\n");
    let mut found = Vec::new();
    for (messages, bytes, a_round) in
        [(1_000, SMALL_BYTES, 1), (1_000, SMALL_BYTES, 8), (1_000, SMALL_BYTES, 32), (100, 65_536, 1)]
    {
        let counts = count(messages, bytes, a_round);
        writeln!(table, "{bytes} {a_round} | {counts:?}").expect("a string takes all");
        found.push(counts);
    }
    println!("{table}");
    let [alone, few, many, large] = found[..] else { unreachable!("four lines") };
    assert!(alone[0] <= 1_010 && alone[2] <= 1_000 / 8, "one doorbell a message at most, few completions: {alone:?}");
    assert!(few[0] <= 130 && few[1] <= 130, "what goes in a round goes together: {few:?}");
    assert!(many[0] <= 40 && many[2] <= 40 && many[3] <= 10, "under load a doorbell is for many: {many:?}");
    assert!(large[0] <= 1_100 && large[3] <= 3_300, "an offer, a READ and a word that it is done: {large:?}");
}

/// Buffers go to the device several at a time. For each message that a peer may send it has one all the same, and half
/// of the spare ones for those that a peer may not.
#[test]
fn receive_buffers_go_back_in_lists_and_no_credit_is_without_one() {
    let (spare_buffers, credits) = (16, 16);
    let settings =
        PortSettings { spare_buffers, credits, receive_buffers: spare_buffers + usize::from(credits), ..settings() };
    let world = TestWorld::new(&FabricOptions::faultless(), &[settings.clone(), settings]);
    let (mut near, mut far) = world.connect();
    world.steps(3);
    let lists = || world.ports[1].counters().receive_doorbells;
    let (before, messages) = (lists(), 200);
    for turn in 0..messages {
        let mut out = Gather::new();
        out.extend(&world.pool, &world::bytes(turn, SMALL_BYTES));
        near.send(&mut out).expect("open");
        assert!(out.is_empty(), "a credit came back for each message before");
        let mut received = 0;
        world.until("a message", || {
            received += world::drain(&mut far).expect("open").0.len();
            received == SMALL_BYTES
        });
        world.step();
        for port in &world.ports {
            let census = port.usage();
            let ready = census.posted_buffers + census.unread_buffers;
            assert!(ready >= census.promised_credits + spare_buffers / 2, "{census:?}");
        }
    }
    let lists = lists() - before;
    assert!(lists <= messages as u64 / (spare_buffers as u64 / 2), "{lists} lists for {messages} messages");
}
