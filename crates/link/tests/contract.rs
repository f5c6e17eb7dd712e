//! The contract over every link of this crate.

use link::contract::{CONTRACT_TESTS, LinkPair, check_all};
use link::sim::{SimOptions, pair};
use link::{Address, DialOptions, Link, ListenOptions, Listener, dial};
use std::sync::atomic::{AtomicU32, Ordering};

fn connected(address: &Address) -> LinkPair {
    let mut listener = Listener::bind(address, &ListenOptions::default()).expect("the address is free");
    let near = dial(listener.local_address(), &DialOptions::default()).expect("somebody listens");
    let far = loop {
        // The handshake is over once `dial` returns; the queue of the listener may lag behind by a moment.
        if let Some(link) = listener.accept().expect("accepts") {
            break link;
        }
        std::thread::yield_now();
    };
    (near, far)
}

#[test]
fn tcp_keeps_the_contract() {
    check_all(|| connected(&"127.0.0.1:0".parse().expect("an address")));
}

#[test]
fn tcp_over_ipv6_keeps_the_contract() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        println!("SKIPPED: no IPv6 on this machine");
        return;
    }
    check_all(|| connected(&"[::1]:0".parse().expect("an address")));
}

#[test]
fn unix_sockets_keep_the_contract() {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let folder = std::env::temp_dir();
    check_all(|| {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("harrier-contract-{}-{number}.sock", std::process::id()));
        connected(&Address::Unix(path))
    });
}

#[test]
fn a_simulated_link_without_faults_keeps_the_contract() {
    check_all(|| boxed(&SimOptions::faultless()));
}

#[test]
fn a_simulated_link_with_faults_keeps_the_contract() {
    for seed in 0..40 {
        for (name, promise) in CONTRACT_TESTS {
            println!("seed {seed}: {name}");
            let mut options = SimOptions::faulty(seed);
            // Some promises move megabytes, and a window of some bytes takes a step for each.
            options.window_bytes = options.window_bytes.max(2_048);
            promise(boxed(&options));
        }
    }
}

fn boxed(options: &SimOptions) -> LinkPair {
    let (a, b, _cable) = pair(options);
    (Box::new(a) as Box<dyn Link>, Box::new(b) as Box<dyn Link>)
}
