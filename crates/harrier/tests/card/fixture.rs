//! Fixture of the card tests: a broker process with its pinned memory and log, clients, and bodies.

use client::{Client, ClientChannel, ConnectOptions, ConsumeOptions, QueueOptions, ReceivedMessage, Url};
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{LazyLock, Once};
use std::time::{Duration, Instant};

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
pub const PATIENCE: Duration = Duration::from_secs(90);
pub const MIB: usize = 1 << 20;
/// Pinned memory may grow by this much: a class of blocks that is needed for the first time.
pub const PINNED_SLACK_BYTES: usize = 4 << 20;
/// Offset of a broker's TCP port from its RDMA port.
pub const TCP_PORTS_BEYOND: u16 = 1_000;

/// Option for the seconds of silence after which a peer is disconnected; after a third of them it is pinged.
pub const SILENCE: &str = "--rdma-silence-s";

#[expect(clippy::disallowed_methods, reason = "a test that waits has a deadline")]
pub fn now() -> Instant {
    Instant::now()
}

/// The address of the lab's device; outside the lab `None`, which is reported.
pub fn lab() -> Option<String> {
    if let Ok(address) = std::env::var("LAB_ADDRESS") {
        return Some(address);
    }
    assert!(std::env::var_os("LAB_MUST").is_none(), "LAB_ADDRESS is not set");
    // Reported once, and past the output capture of passing tests, so that it is seen.
    static SAID: Once = Once::new();
    let why = "\nSKIPPED: all over a card: LAB_ADDRESS does not say where one is";
    SAID.call_once(|| writeln!(std::io::stdout(), "{why}").expect("standard output"));
    None
}

/// An address of the lab's device that no other test of this program uses, with a free TCP port beside it.
pub fn fresh() -> Option<String> {
    static NEXT: AtomicU16 = AtomicU16::new(20_300);
    lab().map(|address| format!("{address}:{}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// A process and the lines of its log.
pub struct LoggedProcess {
    child: Child,
    lines: Receiver<String>,
}

impl LoggedProcess {
    fn new(mut child: Child, said: impl std::io::Read + Send + 'static) -> LoggedProcess {
        let (sender, lines) = channel();
        let forward = move || BufReader::new(said).lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
        // It ends when its input closes.
        std::thread::spawn(forward);
        child.stdin = None;
        LoggedProcess { child, lines }
    }

    /// Another client: a test of `peers`, in its own process.
    pub fn peer(test: &str, url: &str) -> LoggedProcess {
        let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["--exact", &format!("peers::{test}"), "--nocapture"])
            .env(super::peers::URL, url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = child.stdout.take().expect("a pipe");
        LoggedProcess::new(child, said)
    }

    /// Waits for a line that contains `part`.
    pub fn await_line(&self, part: &str) -> String {
        let mut heard = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => heard.push(line),
                Err(error) => panic!("nobody says '{part}': {error}; {heard:#?}"),
            }
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("a status");
    }

    /// Asks it to end, and returns its status and its last lines.
    pub fn end(mut self) -> (Option<i32>, Vec<String>) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let rest = std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok()).collect();
        (self.child.wait().expect("a status").code(), rest)
    }
}

impl Drop for LoggedProcess {
    fn drop(&mut self) {
        // Killing an ended process fails, which is fine.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The program, with settings from its arguments alone.
fn harrier() -> Command {
    let program = std::env::var("HARRIER_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_harrier").to_owned());
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HARRIER_")) {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

impl LoggedProcess {
    fn logging(mut command: Command) -> LoggedProcess {
        let mut child = command.spawn().expect("the program starts");
        let log = child.stderr.take().expect("a pipe");
        LoggedProcess::new(child, log)
    }

    /// A proxy on this host towards a broker, and its address.
    pub fn proxy(to: &str) -> (LoggedProcess, String) {
        let mut command = harrier();
        command.args(["proxy", "--listen", "127.0.0.1:0", "--to", to, "--connections-max", "600", "--threads", "2"]);
        let process = LoggedProcess::logging(command);
        let ready = process.await_line("harrier proxy is ready");
        let (_, after) = ready.split_once("127.0.0.1:").expect("it says where");
        let port: String = after.chars().take_while(char::is_ascii_digit).collect();
        (process, format!("amqp://127.0.0.1:{port}"))
    }
}

/// A broker at an address of the card, and at a TCP port beside it, since iWARP's connections use TCP ports too.
pub struct CardBroker {
    pub process: LoggedProcess,
    place: String,
    host: String,
    tcp_port: u16,
}

impl CardBroker {
    /// Starts the program with one shard, and waits until it is ready.
    pub fn start(place: &str, words: &[&str]) -> CardBroker {
        CardBroker::sharded(place, 1, words)
    }

    /// Starts it with several shards.
    pub fn sharded(place: &str, shards: usize, words: &[&str]) -> CardBroker {
        let rdma = format!("amqp+rdma://{place}");
        let (host, port) = place.rsplit_once(':').expect("a port");
        let tcp_port = port.parse::<u16>().expect("a number") + TCP_PORTS_BEYOND;
        // A client answers pings only during its calls, and on a busy machine other calls take long.
        let silence: &[&str] = if words.contains(&SILENCE) { &[] } else { &[SILENCE, "300"] };
        let mut command = harrier();
        command
            .args([
                "broker",
                "--state",
                "none",
                "--log-level",
                "debug",
                "--loopback-users",
                "nobody",
                "--rdma-token",
                "allow",
            ])
            .args(silence)
            .args(["--shards", &shards.to_string(), "--listen", &format!("{host}:{tcp_port}"), "--listen", &rdma])
            .args(words);
        let process = LoggedProcess::logging(command);
        process.await_line("harrier broker is ready");
        CardBroker { process, place: place.to_owned(), host: host.to_owned(), tcp_port }
    }

    pub fn direct(&self) -> String {
        format!("amqp+rdma://{}", self.place)
    }

    /// The address with a token fetched over TCP.
    pub fn upgraded(&self) -> String {
        format!("amqp+rdma://{}/%2F?via=tcp:{}", self.place, self.tcp_port)
    }

    pub fn tcp(&self) -> String {
        format!("amqp://{}:{}", self.host, self.tcp_port)
    }

    /// Pinned memory in bytes.
    pub fn pinned_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.child.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmPin:")).expect("the kernel says it");
        let number = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok());
        number.expect("a number of KiB") * 1_024
    }

    /// Waits for an orderly end, and returns the last lines.
    pub fn end(self) -> Vec<String> {
        let (status, log) = self.process.end();
        assert_eq!(status, Some(0), "{log:#?}");
        log
    }
}

pub fn options() -> ConnectOptions {
    ConnectOptions { answer_wait: PATIENCE, ..ConnectOptions::default() }
}

pub fn try_connect(url: &str) -> client::Result<Client> {
    Client::connect_with(&Url::parse(url).expect("an address"), options())
}

/// A client with a channel and a queue.
pub fn connect(url: &str, queue: &str) -> (Client, ClientChannel) {
    let mut client = try_connect(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    assert_eq!(client.transport() == "rdma", url.starts_with("amqp+rdma"));
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, queue, &QueueOptions::default()).expect("a queue");
    (client, channel)
}

pub fn consume(client: &mut Client, channel: ClientChannel, queue: &str, no_ack: bool) {
    client.consume(channel, queue, &ConsumeOptions { no_ack, ..ConsumeOptions::default() }).expect("a consumer");
}

/// The next message for this client.
pub fn next(client: &mut Client, what: &str) -> ReceivedMessage {
    let delivery = client.next_delivery(PATIENCE).unwrap_or_else(|error| panic!("{what}: {error}"));
    delivery.unwrap_or_else(|| panic!("{what} does not come")).to_message()
}

/// Gets one message from the queue.
pub fn get(client: &mut Client, channel: ClientChannel, queue: &str) -> Option<ReceivedMessage> {
    client.get(channel, queue, true).expect("an answer")
}

/// Bodies are cut from this pattern at different offsets. It is made once, because that takes long in a guest.
static PATTERN: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..MIB + SHIFTS).map(|at| (at.wrapping_mul(7) + (at >> 9)) as u8).collect());
const SHIFTS: usize = 4_099;

/// The bytes of a body: its number, and a pattern that depends on it.
pub fn body(number: usize, bytes: usize) -> Vec<u8> {
    let shift = number * 31 % SHIFTS;
    let mut body = PATTERN[shift..shift + bytes].to_vec();
    if let Some(head) = body.first_chunk_mut() {
        *head = (number as u64).to_be_bytes();
    }
    body
}

/// The number of an intact body.
pub fn number(bytes: &[u8]) -> usize {
    let number = u64::from_be_bytes(*bytes.first_chunk().expect("a number")) as usize;
    assert!(bytes == body(number, bytes.len()), "body {number} came changed");
    number
}
