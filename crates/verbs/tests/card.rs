//! Ports over a real device, as the lab's guest has one (`tests/lab`). Elsewhere each says that it is skipped, and why.

#[path = "card/devices.rs"]
mod devices;
#[path = "card/ends.rs"]
mod ends;
#[path = "card/failures.rs"]
mod failures;
#[path = "card/hosts.rs"]
mod hosts;
#[path = "card/many.rs"]
mod many;
#[path = "card/outage.rs"]
mod outage;

use ends::{carry, connected, connecting, drive, fresh, lab, listening, pattern, port, settings};
use link::contract::{CONTRACT_TESTS, LinkPair};
use slab::{Gather, Pool, PoolOptions};
use verbs::{PortSettings, card};

#[test]
fn bytes_go_from_one_port_to_another() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    let (far_port, near_port) = (listening(&address, &settings()), connecting(&address, &settings()));
    let (mut near, mut far) = connected(&near_port, &far_port, &address);
    let pool = Pool::new(PoolOptions::default());
    for (from, to) in [(true, "hello"), (false, "and hello")] {
        let mut gather = Gather::new();
        gather.extend(&pool, to.as_bytes());
        let ends = if from { (&mut near, &mut far) } else { (&mut far, &mut near) };
        carry(&[&near_port, &far_port], ends.0, ends.1, gather, to.as_bytes());
    }
}

/// Both ends on one port, as the simulated device's contract has them: whoever waits for one drives the other.
#[test]
fn a_link_over_a_card_keeps_the_contract() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    let low = PortSettings { rendezvous_threshold_bytes: 1_000, landing_bytes: 3_000, ..settings() };
    for settings in [settings(), low] {
        let mut devices = card::open_at(&address, 1).expect("the lab has a device");
        let port = port(devices.remove(0), &settings);
        port.listen(&address).expect("nobody listens there");
        for swapped in [false, true] {
            for (name, promise) in CONTRACT_TESTS {
                println!("{name}, swapped: {swapped}");
                let (near, far) = connected(&port, &port, &address);
                let ends: LinkPair = (Box::new(near), Box::new(far));
                promise(if swapped { (ends.1, ends.0) } else { ends });
            }
        }
        // What ended gives everything back.
        drive(&[&port], "something is not given back", || {
            let census = port.usage();
            (census.connections, census.promised_credits, census.granted_bytes) == (0, 0, 0)
                && census.posted_buffers + census.free_buffers == settings.receive_buffers
        });
    }
}

/// Over iWARP what it says would overtake the answer to the other end if it did not wait for a word of that.
#[test]
fn the_end_that_accepted_may_have_something_to_say_at_once() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    let (far_port, near_port) = (listening(&address, &settings()), connecting(&address, &settings()));
    let pool = Pool::new(PoolOptions::default());
    for _ in 0..50 {
        let (mut near, mut far) = connected(&near_port, &far_port, &address);
        let mut gather = Gather::new();
        gather.extend(&pool, b"hello");
        carry(&[&near_port, &far_port], &mut far, &mut near, gather, b"hello");
    }
    assert_eq!((near_port.counters().faults, far_port.counters().faults), (0, 0));
}

#[test]
fn bodies_of_every_size_arrive_as_they_went() {
    let Some(ip) = lab() else { return };
    let address = fresh(ip);
    let (far_port, near_port) = (listening(&address, &settings()), connecting(&address, &settings()));
    let (mut near, mut far) = connected(&near_port, &far_port, &address);
    let pool = Pool::new(PoolOptions::default());
    let powers = (0..=20).map(|power| 1usize << power);
    for len in powers.flat_map(|len| [len.saturating_sub(1), len, len + 1]).filter(|&len| len > 0 && len <= 1 << 20) {
        for back in [false, true] {
            let bytes = pattern(len, len);
            let mut gather = Gather::new();
            // As a session does: small ones between the heads, larger ones by reference.
            if len < 1_024 {
                gather.extend(&pool, &bytes)
            } else {
                gather.push(pool.copy(&bytes))
            }
            let ends = if back { (&mut far, &mut near) } else { (&mut near, &mut far) };
            carry(&[&near_port, &far_port], ends.0, ends.1, gather, &bytes);
        }
    }
    let counters = near_port.counters();
    assert!(counters.offered_bytes > 0 && counters.landed_bytes > 0, "{counters:?}");
    assert_eq!((counters.faults, far_port.counters().faults), (0, 0));
}
