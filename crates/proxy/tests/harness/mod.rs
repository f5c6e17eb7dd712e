//! A proxy under test, stand-ins for brokers and clients, and helpers that several tests use.
#![allow(dead_code, reason = "each test uses a part of it")]

use link::Address;
use proxy::{Proxy, ProxyOptions, ProxyTotals, UpstreamAddress};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longer than anything here takes: a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that depend on their position.
pub fn pattern(from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ (at >> 17)) as u8).collect()
}

/// Waits until a condition holds.
#[expect(clippy::disallowed_methods, reason = "a test that waits has an end")]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        nap();
    }
}

/// Waits until a number stops changing, and returns it. If it returns too early, the test is weaker but not wrong.
#[expect(clippy::disallowed_methods, reason = "a test that waits has an end")]
pub fn settled(mut number: impl FnMut() -> u64) -> u64 {
    let (mut last, mut since) = (number(), Instant::now());
    while since.elapsed() < Duration::from_millis(300) {
        nap();
        let now = number();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}

/// The pause between two checks of a condition.
fn nap() {
    std::thread::park_timeout(Duration::from_millis(1));
}

/// A stream of either kind.
pub trait TestStream: Read + Write + Send + Sized + 'static {
    fn shut(&self, how: Shutdown);
    fn twin(&self) -> Self;
    fn patient(self) -> Self;
}

macro_rules! stream {
    ($kind:ty) => {
        impl TestStream for $kind {
            fn shut(&self, how: Shutdown) {
                self.shutdown(how).expect("the stream is there");
            }
            fn twin(&self) -> Self {
                self.try_clone().expect("a descriptor")
            }
            fn patient(self) -> Self {
                self.set_read_timeout(Some(PATIENCE)).expect("a time-out");
                self.set_write_timeout(Some(PATIENCE)).expect("a time-out");
                self
            }
        }
    };
}
stream!(TcpStream);
stream!(UnixStream);

/// A running proxy.
pub struct TestProxy(pub Option<Proxy>);

impl TestProxy {
    pub fn start(to: &str, change: impl FnOnce(&mut ProxyOptions)) -> TestProxy {
        let mut options = ProxyOptions::to(to.parse::<UpstreamAddress>().expect("an upstream address"));
        options.listen = vec!["127.0.0.1:0".parse().expect("an address")];
        options.drain_timeout = PATIENCE;
        options.dial.timeout = PATIENCE;
        change(&mut options);
        TestProxy(Some(Proxy::start(options).expect("it starts")))
    }

    fn proxy(&self) -> &Proxy {
        self.0.as_ref().expect("it runs")
    }

    pub fn address(&self) -> String {
        self.proxy().addresses()[0].clone()
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).expect("it listens").patient()
    }

    pub fn totals(&self) -> ProxyTotals {
        self.proxy().totals().0
    }

    pub fn connections(&self) -> usize {
        self.proxy().totals().1
    }

    /// Stops it; it must end by itself.
    pub fn end(mut self) -> ProxyTotals {
        let proxy = self.0.take().expect("it runs");
        proxy.stop();
        proxy.join().expect("it ends in order")
    }

    pub fn stop(&self) {
        self.proxy().stop();
    }
}

impl Drop for TestProxy {
    fn drop(&mut self) {
        if let Some(proxy) = self.0.take() {
            proxy.stop();
            // The proxy may wait for connections, and must not delay the report of a failed test.
            if !std::thread::panicking() {
                proxy.join().expect("it ends in order");
            }
        }
    }
}

/// A listener for the connections of a proxy.
pub struct UpstreamListener {
    pub address: String,
    streams: Mutex<Receiver<TcpStream>>,
}

impl UpstreamListener {
    pub fn listen() -> UpstreamListener {
        UpstreamListener::listen_at("127.0.0.1:0")
    }

    pub fn listen_at(address: &str) -> UpstreamListener {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let (sender, streams) = channel();
        // It ends with the process.
        std::thread::spawn(move || listener.incoming().try_for_each(|stream| sender.send(stream.expect("a client"))));
        UpstreamListener { address, streams: Mutex::new(streams) }
    }

    /// The next connection.
    pub fn accept(&self) -> TcpStream {
        self.streams.lock().expect("whole").recv_timeout(PATIENCE).expect("the proxy connects").patient()
    }
}

/// Sends back what comes, until the end of it.
pub fn echo<S: TestStream>(mut stream: S) {
    let mut buffer = vec![0; 100_000];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return stream.shut(Shutdown::Write),
            Ok(bytes) => stream.write_all(&buffer[..bytes]).expect("somebody reads"),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Sends and expects the same back, then the end.
pub fn must_echo<S: TestStream>(mut stream: S, bytes: usize) {
    let sent = pattern(0, bytes);
    let (mut writer, out) = (stream.twin(), sent.clone());
    let sender = std::thread::spawn(move || {
        for piece in out.chunks(77_777) {
            writer.write_all(piece).expect("somebody reads");
        }
        writer.shut(Shutdown::Write);
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("an end in order");
    sender.join().expect("all was sent");
    assert!(received == sent, "{} of {bytes} bytes, or others", received.len());
}

/// A path of this test's own, removed with it.
pub struct SocketPath(pub PathBuf);

impl SocketPath {
    pub fn new(name: &str) -> SocketPath {
        SocketPath(std::env::temp_dir().join(format!("harrier-proxy-{}-{name}.sock", std::process::id())))
    }

    pub fn address(&self) -> Address {
        Address::Unix(self.0.clone())
    }

    pub fn listen(&self) -> UnixListener {
        UnixListener::bind(&self.0).expect("a path that is free")
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        // The proxy removes the file of its own listener.
        let _gone = std::fs::remove_file(&self.0);
    }
}
