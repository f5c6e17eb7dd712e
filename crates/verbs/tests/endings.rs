//! Ends of streams and connections, where memory is lent and offered.

mod world;

use link::{Link, ReceiveOutcome};
use slab::Gather;
use std::time::Duration;
use verbs::PortSettings;
use verbs::sim::{FabricOptions, STEP};
use world::{TestWorld, bytes, drain, settings};

const BODY_BYTES: usize = 40_000;

fn world() -> TestWorld {
    let settings =
        PortSettings { rendezvous_threshold_bytes: 10_000, ending_max: Duration::from_secs(5), ..settings() };
    TestWorld::new(&FabricOptions::faultless(), &[settings.clone(), settings])
}

#[test]
fn what_was_lent_is_full_before_the_stream_ends() {
    let world = world();
    let (mut near, mut far) = world.connect();
    let mut out = Gather::new();
    out.push(world.pool.copy(&bytes(0, BODY_BYTES)));
    near.send(&mut out).expect("it stands");
    near.close_sending();
    world.until("it is announced", || far.announced_bytes() > 0);
    assert_eq!((far.announced_bytes(), near.announced_bytes()), (BODY_BYTES, 0));
    far.lend(world.pool.block(BODY_BYTES), 0..BODY_BYTES).expect("it takes some");
    assert_eq!(far.announced_bytes(), 0, "nothing more is lent for what is lent for");
    // The end of the stream is here long before its owner looks.
    world.steps(100);
    let full = far.receive(&mut [], &mut [0; 10]).expect("it stands");
    assert_eq!(full, ReceiveOutcome::Bytes { bytes: 0, drained: false });
    assert!(far.take_filled().expect("it is full").memory[..] == bytes(0, BODY_BYTES));
    assert_eq!(far.receive(&mut [], &mut [0; 10]).expect("it stands"), ReceiveOutcome::Closed);
}

#[test]
fn an_end_waits_for_what_was_said_and_not_for_patience() {
    let world = world();
    let (mut near, mut far) = world.connect();
    // One end has said all, and the other answers at length: credits and DONEs follow the first end's CLOSE.
    near.close_sending();
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
    assert_ends_soon(&world);
}

/// Steps until both ports have cleared everything away. Nobody waits for an end to lose its patience.
fn assert_ends_soon(world: &TestWorld) {
    for steps in 0.. {
        assert!(steps < 1_000, "an end that takes its patience");
        world.step();
        if world.ports.iter().all(|port| port.usage().connections == 0) {
            break;
        }
    }
    assert_eq!(world.ports.iter().map(|port| port.counters().faults).sum::<u64>(), 0);
    assert!(world.ports.iter().all(|port| port.usage().granted_bytes == 0));
}

#[test]
fn two_ends_that_go_with_bodies_unread_do_not_wait_for_each_other() {
    for steps in [0, 1, 2, 3, 5, 20] {
        for seed in 0..10 {
            let settings =
                PortSettings { rendezvous_threshold_bytes: 10_000, ending_max: Duration::from_secs(5), ..settings() };
            let options = match seed {
                0 => FabricOptions::faultless(),
                seed => FabricOptions { grants_max: usize::MAX, ..FabricOptions::slow(seed) },
            };
            let world = TestWorld::new(&options, &[settings.clone(), settings]);
            let (mut near, mut far) = world.connect();
            for link in [&mut near, &mut far] {
                let mut out = Gather::new();
                (0..3).for_each(|_| out.push(world.pool.copy(&bytes(0, BODY_BYTES))));
                link.send(&mut out).expect("it stands");
            }
            world.until("it is announced", || far.announced_bytes() > 0);
            // A READ may be under way.
            far.lend(world.pool.block(BODY_BYTES), 0..BODY_BYTES).expect("it takes some");
            world.steps(steps);
            drop((near, far));
            assert_ends_soon(&world);
        }
    }
}

#[test]
fn what_an_end_has_said_before_it_went_is_read_though_it_reads_nothing_itself() {
    let world = world();
    let (mut near, mut far) = world.connect();
    for link in [&mut near, &mut far] {
        let mut out = Gather::new();
        (0..3).for_each(|_| out.push(world.pool.copy(&bytes(0, BODY_BYTES))));
        link.send(&mut out).expect("it stands");
    }
    world.until("it is announced", || near.announced_bytes() > 0 && far.announced_bytes() > 0);
    drop(near);
    world.steps(100);
    // It goes on talking to nobody, and is not held up by that.
    for _ in 0..30 {
        let mut out = Gather::new();
        out.push(world.pool.copy(&bytes(0, BODY_BYTES)));
        world.until("there is room", || {
            far.send(&mut out).expect("it stands");
            out.is_empty()
        });
    }
    let mut received = Vec::new();
    world.until("the end arrives", || {
        let (some, is_over) = drain(&mut far).expect("it stands");
        received.extend(some);
        is_over
    });
    assert!(received == [bytes(0, BODY_BYTES), bytes(0, BODY_BYTES), bytes(0, BODY_BYTES)].concat());
    drop(far);
    assert_ends_soon(&world);
}

#[test]
fn a_word_and_an_end_that_come_before_the_acceptance_is_told_are_heard() {
    for seed in 0..50 {
        let options = FabricOptions { seed, late_events_permille: 900, ..FabricOptions::faultless() };
        let world = TestWorld::new(&options, &[settings(), settings()]);
        let mut near = world.ports[0].connect("1", None).expect("there is room");
        let mut far = None;
        let mut heard = (Vec::new(), false);
        world.until("the end arrives", || {
            if far.is_none()
                && let Some(mut link) = world.ports[1].accept()
            {
                let mut out = Gather::new();
                out.extend(&world.pool, b"greeting");
                link.send(&mut out).expect("it stands");
                link.close_sending();
                far = Some(link);
            }
            let (some, is_over) = drain(&mut near).expect("it stands, or will");
            heard.0.extend(some);
            heard.1 |= is_over;
            is_over
        });
        assert_eq!(heard, (b"greeting".to_vec(), true), "seed {seed}");
        drop((near, far));
        (0..2).for_each(|node| world.assert_all_released(node, &settings()));
    }
}

#[test]
fn whoever_connects_after_a_long_rest_has_all_its_time() {
    let world = TestWorld::new(&FabricOptions::faultless(), &[settings(), settings()]);
    world.steps(3);
    // Nobody polls meanwhile: a proxy without clients sleeps.
    let rest = settings().set_up_max.as_micros() / STEP.as_micros() + 1;
    (0..rest).for_each(|_| world.fabric.step());
    assert!(world.try_connect().is_some(), "given up before it was asked");
}
