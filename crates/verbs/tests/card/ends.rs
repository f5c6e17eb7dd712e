//! Ports over the lab's device, and how to wait for them.

use link::{Link, ReceiveOutcome};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use slab::{Gather, Pool, PoolOptions};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Once;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use verbs::device::AnyDevice;
use verbs::{Port, PortSettings, PortUsage, VerbsLink, card};

/// Longer than anything here takes on a loaded machine; who waits for it has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub type CardPort = Port<AnyDevice>;
pub type CardLink = VerbsLink<AnyDevice>;

/// The address of the lab's device, or `None`, said aloud, where this is not run in the lab.
pub fn lab() -> Option<IpAddr> {
    if let Ok(address) = std::env::var("LAB_ADDRESS") {
        return Some(address.parse().expect("LAB_ADDRESS is an address"));
    }
    assert!(std::env::var_os("LAB_MUST").is_none(), "LAB_ADDRESS is not set");
    let why = match card::open_at("0.0.0.0:0", 1) {
        Ok(_) => "LAB_ADDRESS does not say which address to use".to_owned(),
        Err(error) => error.to_string(),
    };
    // Once for all of them, and past the capture of tests that pass, so that it is seen.
    static SAID: Once = Once::new();
    SAID.call_once(|| writeln!(std::io::stdout(), "\nSKIPPED: all over a card: {why}").expect("standard output"));
    None
}

#[expect(clippy::disallowed_methods, reason = "a test that waits has a deadline")]
pub fn now() -> Instant {
    Instant::now()
}

/// An address that no other test of this program uses.
pub fn fresh(ip: IpAddr) -> String {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    format!("{ip}:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A machine that is busy sets a connection up when it comes to it.
pub fn settings() -> PortSettings {
    PortSettings { receive_buffers: 1_024, accepts_direct: true, set_up_max: PATIENCE, ..PortSettings::default() }
}

pub fn port(device: AnyDevice, settings: &PortSettings) -> CardPort {
    Port::open(device, &Pool::new(PoolOptions::default()), settings.clone()).expect("sound settings")
}

/// A port that listens.
pub fn listening(address: &str, settings: &PortSettings) -> CardPort {
    let mut devices = card::open_at(address, 1).expect("the lab has a device");
    let port = port(devices.remove(0), settings);
    port.listen(address).expect("nobody listens there");
    port
}

/// A port that connects there.
pub fn connecting(address: &str, settings: &PortSettings) -> CardPort {
    port(card::open_towards(address).expect("the lab has a device"), settings)
}

fn waiting(descriptors: impl Iterator<Item = RawFd>) -> Poll {
    let poll = Poll::new().expect("a poll");
    for fd in descriptors {
        // Siblings share the descriptor of their device's news.
        match poll.registry().register(&mut SourceFd(&fd), Token(0), Interest::READABLE) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => panic!("{error}"),
        }
    }
    poll
}

/// Does something, and waits until work of the port has ended; does not ask how.
pub fn hold(port: &CardPort, doing: impl FnOnce()) {
    // A card's first descriptor is that of completions.
    let mut poll = waiting(port.descriptors().into_iter().take(1));
    let mut events = Events::with_capacity(64);
    port.arm().expect("the device is whole");
    port.poll().expect("the device is whole");
    doing();
    poll.poll(&mut events, Some(PATIENCE)).expect("it can wait");
    assert!(!events.is_empty(), "nothing happens");
}

/// Where a port's memory is, whichever of its free buffers the device has already: they go there in lists.
pub fn census(port: &CardPort) -> PortUsage {
    let census = port.usage();
    PortUsage { posted_buffers: census.posted_buffers + census.free_buffers, free_buffers: 0, ..census }
}

/// Drives ports until something holds, waiting for edges of their descriptors.
pub fn drive(ports: &[&CardPort], what: &str, mut holds: impl FnMut() -> bool) {
    let mut poll = waiting(ports.iter().flat_map(|port| port.descriptors()));
    let mut events = Events::with_capacity(64);
    let deadline = now() + PATIENCE;
    let round = || ports.iter().for_each(|port| port.poll().expect("the device is whole"));
    loop {
        round();
        if holds() {
            return;
        }
        ports.iter().for_each(|port| port.arm().expect("the device is whole"));
        round();
        if holds() {
            return;
        }
        assert!(now() < deadline, "{what}");
        // So long do a port's own deadlines wait.
        poll.poll(&mut events, Some(Duration::from_millis(50))).expect("it can wait");
    }
}

/// Two links, the first of which has asked.
pub fn connected(connecting: &CardPort, listening: &CardPort, address: &str) -> (CardLink, CardLink) {
    let near = connecting.connect(address, None).expect("there is room");
    let mut far = None;
    drive(&[connecting, listening], "nobody accepted", || {
        far = far.take().or_else(|| listening.accept());
        far.is_some()
    });
    (near, far.expect("accepted"))
}

/// How a link has ended, in words.
pub fn fault(ports: &[&CardPort], link: &mut CardLink) -> String {
    let mut end = None;
    drive(ports, "it does not end", || {
        end = link.receive(&mut [], &mut [0; 64]).err().map(|error| error.to_string());
        end.is_some()
    });
    end.expect("an error")
}

/// Bytes that tell where they stand.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed) as u8).collect()
}

/// Sends all of it and receives as much; it must be the same.
pub fn carry(ports: &[&CardPort], from: &mut CardLink, to: &mut CardLink, mut gather: Gather, wanted: &[u8]) {
    let mut seen = Vec::with_capacity(wanted.len());
    let mut scratch = vec![0; 64 * 1_024];
    drive(ports, "bytes are missing", || {
        if !gather.is_empty() {
            from.send(&mut gather).expect("the connection stands");
        }
        loop {
            match to.receive(&mut [], &mut scratch).expect("the connection stands") {
                ReceiveOutcome::Bytes { bytes, .. } => seen.extend_from_slice(&scratch[..bytes]),
                ReceiveOutcome::Idle => break,
                other => panic!("{other:?}"),
            }
        }
        seen.len() >= wanted.len()
    });
    assert!(seen == wanted, "{} bytes came other than they went", wanted.len());
}

/// Memory that devices pin for this process.
pub fn pinned_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system says how it is");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPin:")).expect("what is pinned is counted");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1_024
}
