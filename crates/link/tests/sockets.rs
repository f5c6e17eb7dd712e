//! What sockets guarantee beyond the contract: how an abort looks to the peer, and the file of a Unix socket.

use link::{
    AbortReason, Address, DialOptions, Link, ListenOptions, Listener, ReceiveOutcome, SendOutcome, SocketOptions,
    WaitFor, dial,
};
use slab::{Gather, Pool, PoolOptions};
use std::path::PathBuf;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A path for one test, free when it begins and when it ends.
struct SocketPath(PathBuf);

impl SocketPath {
    fn new(name: &str) -> Self {
        SocketPath(std::env::temp_dir().join(format!("harrier-socket-{}-{name}.sock", std::process::id())))
    }

    fn address(&self) -> Address {
        Address::Unix(self.0.clone())
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        // Most tests leave nothing behind, which is what they are about.
        let _gone = std::fs::remove_file(&self.0);
    }
}

fn accept(listener: &mut Listener) -> Box<dyn Link> {
    loop {
        if let Some(link) = listener.accept().expect("accepts") {
            return link;
        }
        std::thread::yield_now();
    }
}

/// Sends until the link takes no more, and says how many bytes it took.
fn fill(link: &mut dyn Link) -> usize {
    let pool = Pool::new(PoolOptions::default());
    let mut sent = 0;
    loop {
        let mut out = Gather::new();
        out.extend(&pool, &[7; 1 << 16]);
        let outcome = link.send(&mut out).expect("the peer is there");
        sent += (1 << 16) - out.bytes();
        if outcome == SendOutcome::Blocked {
            return sent;
        }
    }
}

#[test]
fn an_aborted_tcp_link_drops_what_was_not_sent_and_tells_its_peer() {
    let small = SocketOptions { receive_buffer_bytes: Some(16 << 10), ..SocketOptions::default() };
    let options = ListenOptions { socket: small.clone(), ..ListenOptions::default() };
    let mut listener = Listener::bind(&"127.0.0.1:0".parse().expect("an address"), &options).expect("binds");
    let dialing = DialOptions { socket: small, ..DialOptions::default() };
    let mut reader = dial(listener.local_address(), &dialing).expect("dials");
    let mut writer = accept(&mut listener);
    let sent = fill(&mut *writer);
    writer.abort(AbortReason::Slow);
    let (mut read, mut lost) = (0, false);
    let mut scratch = vec![0; 1 << 16];
    loop {
        assert!(reader.wait(WaitFor::Readable, Some(PATIENCE)).expect("waits"), "the peer hears of the abort");
        match reader.receive(&mut [], &mut scratch) {
            Ok(ReceiveOutcome::Bytes { bytes, .. }) => read += bytes,
            Ok(ReceiveOutcome::Idle) => {}
            Ok(ReceiveOutcome::Closed) => break,
            Err(error) => lost |= error.is_lost(),
        }
    }
    assert!(lost, "an abort is no orderly end");
    assert!(read < sent, "all {sent} bytes arrived although the link was aborted");
}

#[test]
fn the_file_of_a_dead_listener_is_replaced_and_removed_at_the_end() {
    let place = SocketPath::new("dead");
    // A listener that dies without removing its file.
    drop(std::os::unix::net::UnixListener::bind(&place.0).expect("binds"));
    assert!(place.0.exists());
    let mut listener = Listener::bind(&place.address(), &ListenOptions::default()).expect("a dead file is replaced");
    dial(&place.address(), &DialOptions::default()).expect("dials");
    assert!(accept(&mut listener).peer().is_loopback);
    drop(listener);
    assert!(!place.0.exists(), "the file goes with its listener");
}

#[test]
fn a_living_listener_keeps_its_file() {
    let place = SocketPath::new("living");
    let mut first = Listener::bind(&place.address(), &ListenOptions::default()).expect("binds");
    let refused = Listener::bind(&place.address(), &ListenOptions::default()).err().expect("somebody listens there");
    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
    dial(&place.address(), &DialOptions::default()).expect("the first still listens");
    accept(&mut first);
}

#[test]
fn a_listener_leaves_the_file_of_its_successor_alone() {
    let place = SocketPath::new("successor");
    let old = Listener::bind(&place.address(), &ListenOptions::default()).expect("binds");
    std::fs::remove_file(&place.0).expect("somebody tidies up");
    let _new = Listener::bind(&place.address(), &ListenOptions::default()).expect("the path is free");
    drop(old);
    dial(&place.address(), &DialOptions::default()).expect("the successor can be reached");
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let place = SocketPath::new("file");
    std::fs::write(&place.0, "precious").expect("writes");
    let refused = Listener::bind(&place.address(), &ListenOptions::default()).err().expect("the name is taken");
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&place.0).expect("reads"), "precious");
}

/// A listener that never accepts, its backlog full, and what holds it full.
fn full(place: &SocketPath) -> (Listener, Vec<Box<dyn Link>>) {
    let options = ListenOptions { backlog: 1, ..ListenOptions::default() };
    let listener = Listener::bind(&place.address(), &options).expect("binds");
    let impatient = DialOptions { timeout: Duration::from_millis(50), ..DialOptions::default() };
    let mut waiting = Vec::new();
    let error = loop {
        match dial(&place.address(), &impatient) {
            Ok(link) => waiting.push(link),
            Err(error) => break error,
        }
        assert!(waiting.len() < 100, "a backlog of one is never full");
    };
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{error}");
    (listener, waiting)
}

#[test]
fn dialling_a_listener_that_never_accepts_ends_in_time() {
    full(&SocketPath::new("dial-full"));
}

#[test]
fn a_listener_with_a_full_backlog_counts_as_living() {
    let place = SocketPath::new("bind-full");
    let _full = full(&place);
    let refused = Listener::bind(&place.address(), &ListenOptions::default()).err().expect("somebody listens there");
    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn an_address_of_rdma_is_none_of_a_socket() {
    let address: Address = "amqp+rdma://127.0.0.1".parse().expect("an address");
    let bound = Listener::bind(&address, &ListenOptions::default()).err().expect("no device");
    let dialled = link::dial(&address, &DialOptions::default()).err().expect("no device");
    for error in [bound, dialled] {
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("RDMA device"), "{error}");
    }
}
