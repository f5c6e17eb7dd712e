//! Which end sends first, on devices where it must be the end that connected.

mod world;

use link::Link;
use slab::Gather;
use std::time::Duration;
use verbs::PortSettings;
use verbs::limits::FIRST_PING_INTERVAL;
use verbs::sim::{FabricOptions, STEP};
use world::{TestWorld, bytes, drain, settings};

/// So many steps take a second and a half of the fabric's time, and then some.
fn steps(times: u32) -> usize {
    (FIRST_PING_INTERVAL * times / 2).as_nanos().div_ceil(STEP.as_nanos()) as usize + 10_000
}

/// Over iWARP it is told at once that the connection stands, and what it sends then may overtake its own answer.
#[test]
fn the_end_that_accepted_waits_for_a_word() {
    for seed in 0..100 {
        let options =
            FabricOptions { initiator_sends_first: true, delay_steps_max: 50, seed, ..FabricOptions::faultless() };
        let world = TestWorld::new(&options, &[settings(), settings()]);
        let (mut near, mut far) = world.connect();
        let mut out = Gather::new();
        out.extend(&world.pool, &bytes(0, 100));
        far.send(&mut out).expect("it stands");
        let mut received = Vec::new();
        world.until("the other end hears it", || {
            received.extend(drain(&mut near).expect("nothing has overtaken the answer").0);
            received.len() == 100
        });
        assert_eq!(received, bytes(0, 100));
        let sent = world.ports[0].counters().messages_sent;
        assert_eq!(sent, 1, "a word, and no more");
    }
}

#[test]
fn a_word_that_nobody_answers_is_said_again() {
    let options = FabricOptions { initiator_sends_first: true, ..FabricOptions::faultless() };
    let long = Duration::from_secs(60);
    let patient = PortSettings { set_up_max: long, ping_after: long / 2, silent_max: long, ..settings() };
    let world = TestWorld::new(&options, &[patient.clone(), patient]);
    let near = world.ports[0].connect("1", None).expect("there is room");
    let alone = |steps: usize| {
        for _ in 0..steps {
            world.fabric.step();
            world.ports[0].poll().expect("the device is whole");
            world.ports[0].flush();
        }
        world.ports[0].counters().messages_sent
    };
    alone(10);
    world.ports[1].poll().expect("the device is whole");
    assert_eq!(alone(1_000), 1, "the first");
    assert_eq!(alone(steps(3)), 2, "it is not answered");
    world.until("it is accepted", || world.ports[1].accept().map(drop).is_some());
    world.steps(1_000);
    let said = world.ports[0].counters().messages_sent;
    assert_eq!(alone(steps(3)), said, "it was answered");
    drop(near);
}
