//! The link goes down, and comes back. Last of all: see the trap in it.

use super::ends::{
    CardLink, CardPort, PATIENCE, carry, census, connected, connecting, drive, fault, fresh, hold, lab, listening, now,
    pattern, settings,
};
use link::Link;
use slab::{Gather, Pool, PoolOptions};
use std::process::Command;
use std::time::Duration;

#[test]
fn a_link_that_goes_down_ends_connections_and_new_ones_succeed_when_it_is_back() {
    let Some(ip) = lab() else { return };
    let interface = interface();
    let address = fresh(ip);
    let (far_port, near_port) = (listening(&address, &settings()), connecting(&address, &settings()));
    let ports = [&near_port, &far_port];
    let before = (census(&near_port), census(&far_port));
    let (mut near, far) = connected(&near_port, &far_port, &address);
    let pool = Pool::new(PoolOptions::default());
    let begun = now();
    hold(&near_port, || {
        set_link(&interface, "down");
        let mut gather = Gather::new();
        gather.extend(&pool, &pattern(3_000, 1));
        near.send(&mut gather).expect("it is taken");
    });
    // The port is not told before the link is back: the farewell that it sends on hearing of the failure would be lost,
    // and Soft-RoCE's own queue pair for such messages never recovers from that, whatever anybody does.
    set_link(&interface, "up");
    let text = fault(&ports, &mut near);
    let took = now() - begun;
    println!("{text}, after {took:?}");
    assert!(took < Duration::from_secs(30), "the retries end: {took:?}");
    drop((near, far));
    drive(&ports, "something is not given back", || (census(&near_port), census(&far_port)) == before);
    // The kernel takes a moment to have the way again.
    let deadline = now() + PATIENCE;
    let (mut near, mut far) = loop {
        if let Some(ends) = try_connected(&near_port, &far_port, &address) {
            break ends;
        }
        assert!(now() < deadline, "no connection is to be had");
    };
    let bytes = pattern(100_000, 2);
    let mut gather = Gather::new();
    gather.push(pool.copy(&bytes));
    carry(&ports, &mut near, &mut far, gather, &bytes);
}

fn try_connected(near_port: &CardPort, far_port: &CardPort, address: &str) -> Option<(CardLink, CardLink)> {
    let mut near = near_port.connect(address, None).ok()?;
    let mut far = None;
    let mut has_failed = false;
    drive(&[near_port, far_port], "no answer", || {
        far = far.take().or_else(|| far_port.accept());
        has_failed = near.receive(&mut [], &mut [0; 1]).is_err();
        far.is_some() || has_failed
    });
    far.filter(|_| !has_failed).map(|far| (near, far))
}

/// The interface of the lab's device.
fn interface() -> String {
    let devices = ib::devices().expect("there is a device");
    let port = devices[0].port(1).expect("it has a port");
    let gids = devices[0].gids(&port).expect("they can be asked");
    gids.into_iter().find_map(|gid| gid.interface).expect("a GID has an interface")
}

fn set_link(interface: &str, state: &str) {
    let status = Command::new("ip").args(["link", "set", interface, state]).status().expect("ip is there");
    assert!(status.success(), "ip link set {interface} {state}");
}
