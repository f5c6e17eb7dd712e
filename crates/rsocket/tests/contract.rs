//! Links over rsockets keep the contract of every link, over the lab's device (`tests/lab`). Without it each test
//! prints that it is skipped, and why.

use link::contract::{CONTRACT_TESTS, LinkPair};
use link::{Acceptor, ListenOptions, ReceiveOutcome, SendOutcome, SocketOptions, WaitFor};
use mio::{Events, Poll, Token};
use rsocket::{RsocketListener, RsocketPoller, dial};
use slab::{Gather, Pool, PoolOptions};
use std::io::Write as _;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// The address of the lab's device, or `None`, said aloud.
fn lab() -> Option<String> {
    if let Ok(address) = std::env::var("LAB_ADDRESS") {
        return Some(address);
    }
    assert!(std::env::var_os("LAB_MUST").is_none(), "LAB_ADDRESS is not set");
    writeln!(std::io::stdout(), "\nSKIPPED: over rsockets: LAB_ADDRESS does not say which address to use")
        .expect("standard output");
    None
}

fn connected(listener: &mut RsocketListener, watch: &RsocketPoller) -> LinkPair {
    let to = listener.local_address().expect("it listens");
    // Dialling waits for the other side.
    let dialled = {
        let watch = watch.clone();
        std::thread::spawn(move || dial(&to.ip().to_string(), to.port(), &SocketOptions::default(), &watch))
    };
    let mut dialled = Some(dialled);
    let mut near = None;
    loop {
        if let Some(done) = dialled.take_if(|dialled| dialled.is_finished()) {
            near = Some(done.join().expect("no panic").expect("somebody listens"));
        }
        // Who has dialled may be connected before the listener's end is.
        if let Some(far) = listener.accept().expect("accepts") {
            let near =
                near.unwrap_or_else(|| dialled.take().expect("it dials").join().expect("no panic").expect("connects"));
            return (Box::new(near), far);
        }
        std::thread::yield_now();
    }
}

fn listener(address: &str, watch: &RsocketPoller) -> RsocketListener {
    RsocketListener::bind(address, 0, &ListenOptions::default(), watch).expect("the address is a device's")
}

#[test]
fn rsockets_keep_the_contract() {
    let Some(address) = lab() else { return };
    let watch = RsocketPoller::start().expect("threads can be had");
    let mut listener = listener(&address, &watch);
    for (name, promise) in CONTRACT_TESTS {
        writeln!(std::io::stdout(), "rsocket: {name}").expect("standard output");
        promise(connected(&mut listener, &watch));
    }
}

/// Packets that the machine's devices of software have sent.
fn packets() -> u64 {
    let devices = std::fs::read_dir("/sys/class/infiniband").expect("there are devices");
    let of = |device: std::io::Result<std::fs::DirEntry>| {
        let counter = device.expect("a device").path().join("ports/1/hw_counters/sent_pkts");
        std::fs::read_to_string(counter).expect("Soft-RoCE counts").trim().parse::<u64>().expect("a number")
    };
    devices.map(of).sum()
}

#[test]
fn edges_move_a_megabyte_both_ways_over_the_device() {
    const BYTES: usize = 1 << 20;
    let Some(address) = lab() else { return };
    let watch = RsocketPoller::start().expect("threads can be had");
    let mut listener = listener(&address, &watch);
    let (near, far) = connected(&mut listener, &watch);
    let mut ends = [near, far];
    let before = packets();
    let mut poll = Poll::new().expect("a poll");
    let pool = Pool::new(PoolOptions::default());
    let sent: Vec<u8> = (0..BYTES).map(|at| (at ^ (at >> 8)) as u8).collect();
    let mut out = [Gather::new(), Gather::new()];
    for (at, end) in ends.iter_mut().enumerate() {
        out[at].extend(&pool, &sent);
        end.register(poll.registry(), Token(at)).expect("it has a descriptor");
    }
    let mut received = [Vec::new(), Vec::new()];
    let mut events = Events::with_capacity(8);
    let mut scratch = vec![0; 20_000];
    while received.iter().any(|bytes| bytes.len() < BYTES) {
        poll.poll(&mut events, Some(PATIENCE)).expect("it can wait");
        assert!(!events.is_empty(), "no edge came: {:?}", received.each_ref().map(Vec::len));
        for event in &events {
            let at = event.token().0;
            let is_over = out[at].is_empty() || ends[at].send(&mut out[at]).expect("open") == SendOutcome::Blocked;
            assert!(is_over || out[at].is_empty());
            loop {
                match ends[at].receive(&mut [], &mut scratch).expect("open") {
                    ReceiveOutcome::Bytes { bytes, drained } => {
                        received[at].extend_from_slice(&scratch[..bytes]);
                        if drained {
                            break;
                        }
                    }
                    ReceiveOutcome::Idle => break,
                    ReceiveOutcome::Closed => panic!("nobody closed"),
                }
            }
        }
    }
    assert!(received.iter().all(|bytes| *bytes == sent), "the bytes differ");
    let went = packets() - before;
    // Of 1,024 bytes each, and all of them over the device.
    assert!(went >= 2 * BYTES as u64 / 4_096, "{went} packets cannot have carried it");
    ends[0].deregister(poll.registry()).expect("it was registered");
    ends[1].abort(link::AbortReason::Operator);
}

#[test]
fn what_was_read_makes_room_for_its_peer_without_another_call() {
    let Some(address) = lab() else { return };
    let watch = RsocketPoller::start().expect("threads can be had");
    let mut listener = listener(&address, &watch);
    let (mut near, mut far) = connected(&mut listener, &watch);
    let pool = Pool::new(PoolOptions::default());
    let mut out = Gather::new();
    out.extend(&pool, &vec![7; 4 << 20]);
    let mut scratch = vec![0; 4 << 20];
    // Half of its room an rsocket gives when it connects, and the other half when it is first asked for bytes.
    assert_eq!(far.receive(&mut [], &mut scratch).expect("open"), ReceiveOutcome::Idle);
    // Until nothing more goes, for as long as nobody reads.
    while near.wait(WaitFor::Writable, Some(Duration::from_millis(500))).expect("open") {
        assert_eq!(near.send(&mut out).expect("open"), SendOutcome::Blocked);
    }
    let received = far.receive(&mut [], &mut scratch).expect("open");
    assert!(matches!(received, ReceiveOutcome::Bytes { drained: true, .. }), "{received:?}");
    assert!(near.wait(WaitFor::Writable, Some(PATIENCE)).expect("open"), "it still waits for room that is there");
    far.abort(link::AbortReason::Operator);
}

#[test]
fn what_is_missing_is_said() {
    if std::env::var_os("LAB_ADDRESS").is_some() {
        return;
    }
    let watch = RsocketPoller::start().expect("threads can be had");
    let error = RsocketListener::bind("127.0.0.1", 0, &ListenOptions::default(), &watch).err();
    // Where this is built and tested there may be a library, and even a device, but none on this address.
    assert!(error.is_some_and(|error| !error.to_string().is_empty()), "the loopback address has no device");
}
