//! The contract of every link, over the simulated device.

use link::contract::{CONTRACT_TESTS, LinkPair, check_all};
use link::{Link, SendOutcome, WaitFor};
use slab::{Gather, Pool, PoolOptions};
use std::time::Duration;
use verbs::device::{Device, QueuePairLimits};
use verbs::sim::{Fabric, FabricOptions};
use verbs::{Port, PortSettings, StandaloneLink};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both ends on one port: whoever waits for one drives the other.
fn connected(options: &FabricOptions, settings: &PortSettings) -> LinkPair {
    let fabric = Fabric::new(options);
    let pool = Pool::new(PoolOptions::default());
    let port = Port::open(fabric.device(), &pool, settings.clone()).expect("sound settings");
    port.listen("here").expect("nobody listens there");
    let near = port.connect("here", None).expect("there is room");
    for _ in 0..10_000 {
        fabric.step();
        port.poll().expect("the device is whole");
        if let Some(far) = port.accept() {
            return (Box::new(near), Box::new(far));
        }
    }
    panic!("nobody accepted");
}

fn settings() -> PortSettings {
    PortSettings { receive_buffers: 128, accepts_direct: true, ..PortSettings::default() }
}

#[test]
fn an_rdma_link_keeps_the_contract() {
    check_all(|| connected(&FabricOptions::faultless(), &settings()));
    check_all(|| {
        let (near, far) = connected(&FabricOptions::faultless(), &settings());
        (far, near)
    });
}

#[test]
fn with_a_low_threshold_it_does_too() {
    let settings = PortSettings { rendezvous_threshold_bytes: 1_000, landing_bytes: 3_000, ..settings() };
    check_all(|| connected(&FabricOptions::faultless(), &settings));
}

#[test]
fn on_a_slow_fabric_it_does_too() {
    for seed in 0..40 {
        for (name, promise) in CONTRACT_TESTS {
            println!("seed {seed}: {name}");
            let threshold = if seed % 2 == 0 { 2_000 } else { 16 * 1_024 };
            let settings = PortSettings { rendezvous_threshold_bytes: threshold, ..settings() };
            promise(connected(&FabricOptions::slow(seed), &settings));
        }
    }
}

/// A connection that has a port to itself, in real time, and the other end on one of its own.
fn standalone(registered: bool) -> LinkPair {
    let fabric = Fabric::real_time(&FabricOptions::faultless());
    let listener = fabric.device();
    let pool = Pool::new(PoolOptions::default());
    let port = Port::open(listener, &pool, settings()).expect("sound settings");
    port.listen("here").expect("nobody listens there");
    let device = fabric.device();
    let connecting = std::thread::spawn(move || {
        StandaloneLink::connect(device, "here", None, settings(), PATIENCE).expect("somebody listens")
    });
    let far = loop {
        port.poll().expect("the device is whole");
        if let Some(far) = port.accept() {
            break far;
        }
    };
    let mut near = connecting.join().expect("it connects");
    if registered {
        let poll = mio::Poll::new().expect("a poll");
        near.register(poll.registry(), mio::Token(0)).expect("there are descriptors");
        near.deregister(poll.registry()).expect("they are known");
        near.register(poll.registry(), mio::Token(0)).expect("there are descriptors still");
    }
    (Box::new(near), Box::new(far))
}

#[test]
fn a_link_with_a_port_of_its_own_says_what_is_announced() {
    let (mut near, mut far) = standalone(false);
    let pool = Pool::new(PoolOptions::default());
    for link in [&mut near, &mut far] {
        let mut out = Gather::new();
        out.push(pool.copy(&[7; 40_000]));
        assert_eq!(link.send(&mut out).expect("it stands"), SendOutcome::Drained);
    }
    assert!(near.wait(WaitFor::Readable, Some(PATIENCE)).expect("it stands"));
    assert_eq!(near.announced_bytes(), 40_000);
    // Neither was read, and neither waits for that.
    drop(far);
    drop(near);
}

#[test]
fn a_link_with_a_port_of_its_own_keeps_it() {
    for registered in [false, true] {
        check_all(|| standalone(registered));
        check_all(|| {
            let (near, far) = standalone(registered);
            (far, near)
        });
    }
}

/// Whether the descriptors of a device say that there is something to poll.
fn is_readable(device: &impl Device) -> bool {
    let mut poll = mio::Poll::new().expect("a poll");
    for descriptor in device.descriptors() {
        let mut source = mio::unix::SourceFd(&descriptor);
        poll.registry().register(&mut source, mio::Token(0), mio::Interest::READABLE).expect("it can be waited for");
    }
    let mut events = mio::Events::with_capacity(8);
    poll.poll(&mut events, Some(Duration::ZERO)).expect("it polls");
    !events.is_empty()
}

#[test]
fn a_request_between_the_two_looks_of_a_device_still_wakes_its_owner() {
    let fabric = Fabric::real_time(&FabricOptions::faultless());
    let (mut listener, mut client) = (fabric.device(), fabric.device());
    listener.listen("here").expect("nobody listens there");
    listener.events(Duration::ZERO, &mut Vec::new()).expect("the device is whole");
    assert!(!is_readable(&listener));
    let limits =
        QueuePairLimits { send_slots: 16, receiver_not_ready_retries: 0, reads_issued_max: 1, reads_answered_max: 1 };
    client.connect("here", &[], &limits).expect("somebody listens");
    // A port takes events first and polls completions then.
    listener.poll(&mut Vec::new(), 1).expect("the device is whole");
    assert!(is_readable(&listener), "the request was not taken yet");
    let mut events = Vec::new();
    listener.events(Duration::ZERO, &mut events).expect("the device is whole");
    assert_eq!(events.len(), 1);
    assert!(!is_readable(&listener), "nothing is left");
}
