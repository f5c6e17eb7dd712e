//! Ends of streams and connections, where memory is lent and offered.

mod world;

use link::{Link, Received};
use slab::Gather;
use std::time::Duration;
use verbs::sim::FabricOptions;
use verbs::{LinkId, Settings};
use world::{World, bytes, drain, settings};

const BODY_BYTES: usize = 40_000;

fn world() -> World {
    let settings = Settings { rendezvous_threshold_bytes: 10_000, ending_max: Duration::from_secs(5), ..settings() };
    World::new(&FabricOptions::faultless(), &[settings.clone(), settings])
}

#[test]
fn what_was_lent_is_full_before_the_stream_ends() {
    let world = world();
    let (mut near, mut far) = world.connect();
    let mut out = Gather::new();
    out.push(world.pool.copy(&bytes(0, BODY_BYTES)));
    near.send(&mut out).expect("it stands");
    near.close_sending();
    world.until("it is announced", || far.announced() > 0);
    assert_eq!((far.announced(), near.announced()), (BODY_BYTES, 0));
    far.lend(world.pool.block(BODY_BYTES), 0..BODY_BYTES).expect("it takes some");
    assert_eq!(far.announced(), 0, "nothing more is lent for what is lent for");
    // The end of the stream is here long before its owner looks.
    world.steps(100);
    let full = far.receive(&mut [], &mut [0; 10]).expect("it stands");
    assert_eq!(full, Received::Bytes { bytes: 0, drained: false });
    assert!(far.take_back().expect("it is full").memory[..] == bytes(0, BODY_BYTES));
    assert_eq!(far.receive(&mut [], &mut [0; 10]).expect("it stands"), Received::Closed);
}

#[test]
fn an_end_waits_for_what_was_said_and_not_for_patience() {
    let world = world();
    let (mut near, mut far) = world.connect();
    // One end has said all, and the other answers at length: credits and DONEs follow the first end's CLOSE.
    near.close_sending();
    let mut edges: Vec<(LinkId, verbs::Readiness)> = Vec::new();
    let mut out = Gather::new();
    for _ in 0..10 {
        out.extend(&world.pool, &bytes(0, 9_000));
        out.push(world.pool.copy(&bytes(0, BODY_BYTES)));
    }
    let total = out.bytes();
    let mut received = 0;
    world.until("the end arrives", || {
        if !out.is_empty() {
            far.send(&mut out).expect("it stands");
        } else {
            far.close_sending();
        }
        let (some, is_over) = drain(&mut near).expect("it stands");
        received += some.len();
        is_over
    });
    assert_eq!(received, total);
    assert!(drain(&mut far).expect("it stands").1);
    drop((near, far));
    for steps in 0.. {
        assert!(steps < 1_000, "an end that takes its patience");
        world.step();
        world.ports[0].take_edges(&mut edges);
        if world.ports.iter().all(|port| port.census().connections == 0) {
            break;
        }
    }
    assert_eq!(world.ports.iter().map(|port| port.counters().faults).sum::<u64>(), 0);
}
