//! A broker process, observed from outside: its log, its memory, and the kernel's counts of its resources.

use super::honest::HonestClients;
use super::{PATIENCE, now};
use harness::ready_line::ReadyLine;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Regions of message memory that a pool may keep beyond its previous ones, and their size. A pool keeps an empty
/// region for each block size that was used, and which sizes those are depends on how bursts arrive: there are twenty
/// between 4 and 128 KiB, some of which honest clients have used.
const REGIONS_SLACK: usize = 16;
const REGION_KIB: u64 = 1_024;
/// What may remain of a broker's memory when all hostile peers are gone: an allocator keeps some of what it had, and
/// pinned memory is resident.
const RESIDENT_KIB_SLACK: u64 = 12 * 1_024 + REGIONS_SLACK as u64 * REGION_KIB;
/// Option for the seconds of silence after which a peer is disconnected.
const SILENCE: &str = "--rdma-silence-s";
/// The kinds of RDMA resources that the kernel counts for a process.
const KINDS: [&str; 6] = ["qp", "cm_id", "pd", "cq", "srq", "mr"];
/// The kinds that belong to connections. They are read most often, and each reading starts a process.
const KINDS_OF_CONNECTIONS: usize = 2;

/// The resources of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceCounts {
    /// The number of each kind.
    pub counts: BTreeMap<&'static str, usize>,
    /// Memory pinned for its device.
    pub pinned_kib: u64,
    pub resident_kib: u64,
}

impl ResourceCounts {
    /// Whether connections since then have no message memory of their own.
    pub fn shares_memory(&self, before: &ResourceCounts) -> bool {
        self.counts["mr"] <= before.counts["mr"] + REGIONS_SLACK
    }

    /// Whether the resources are no more than before. Pinned message memory may have shrunk.
    fn is_within(&self, before: &ResourceCounts) -> bool {
        let is_within = |(kind, count): (&&str, &usize)| match *kind {
            "mr" => self.shares_memory(before),
            kind => *count == before.counts[kind],
        };
        self.counts.iter().all(is_within)
            && self.pinned_kib <= before.pinned_kib + REGIONS_SLACK as u64 * REGION_KIB
            && self.resident_kib <= before.resident_kib + RESIDENT_KIB_SLACK
    }
}

pub struct WatchedBroker {
    child: Child,
    lines: Receiver<String>,
    /// The RDMA address.
    pub address: SocketAddr,
    /// The TCP address.
    pub tcp: String,
}

impl WatchedBroker {
    /// Starts a broker with these settings.
    pub fn start(ip: IpAddr, port: u16, settings: &[&str]) -> WatchedBroker {
        let program = std::env::var_os("HARRIER_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_harrier").into());
        let address = SocketAddr::new(ip, port);
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HARRIER_")) {
            command.env_remove(name);
        }
        // An honest client answers pings only during its calls, and on a busy machine a violation takes long.
        let silence: &[&str] = if settings.contains(&SILENCE) { &[] } else { &[SILENCE, "300"] };
        let child = command
            .args([
                "broker",
                "--state",
                "none",
                "--listen",
                "127.0.0.1:0",
                "--listen",
                &format!("amqp+rdma://{address}"),
            ])
            .args(["--log-level", "debug", "--log-format", "json", "--loopback-users", "nobody"])
            // Memory is short in the lab.
            .args(["--shards", "1", "--rdma-receive-buffers", "1024"])
            .args(silence)
            .args(settings)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("the program starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut broker = WatchedBroker { child, lines, address, tcp: String::new() };
        let ready = broker.await_line("harrier broker is ready");
        let ready = ReadyLine::parse(&ready).expect("it says where it listens");
        broker.tcp = ready.addresses.into_iter().next().expect("an address");
        broker
    }

    /// Waits for a line of the log, and forgets those before it.
    pub fn await_line(&mut self, part: &str) -> String {
        let mut before = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => before = before + "\n" + &line,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no {part:?} in the log:{before}")
                }
            }
        }
    }

    /// Forgets the log so far.
    pub fn forget_lines(&mut self) {
        while self.lines.try_recv().is_ok() {}
    }

    /// The ids of its threads, by which the kernel counts.
    fn threads(&self) -> BTreeSet<u64> {
        let entries = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the broker runs");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().parse().expect("a number")).collect()
    }

    pub fn holdings(&self) -> ResourceCounts {
        self.holdings_of(&KINDS)
    }

    fn holdings_of(&self, kinds: &[&'static str]) -> ResourceCounts {
        let threads = self.threads();
        let count = |&kind: &&'static str| {
            let shown = Command::new("rdma").args(["-j", "resource", "show", kind]).output().expect("the tool runs");
            assert!(shown.status.success(), "rdma resource show {kind}: {shown:?}");
            let all: Value = serde_json::from_slice(&shown.stdout).unwrap_or_else(|error| {
                panic!("rdma resource show {kind}: {error}: {}", String::from_utf8_lossy(&shown.stdout))
            });
            let own = |one: &&Value| one["pid"].as_u64().is_some_and(|pid| threads.contains(&pid));
            (kind, all.as_array().expect("a list").iter().filter(own).count())
        };
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the broker runs");
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux tells");
            line.trim().trim_end_matches(" kB").parse().expect("a number")
        };
        ResourceCounts {
            counts: kinds.iter().map(count).collect(),
            pinned_kib: kib("VmPin:"),
            resident_kib: kib("VmRSS:"),
        }
    }

    /// Whether it still has its end of a TCP connection from this address.
    pub fn has_open(&self, other: SocketAddr) -> bool {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel tells");
        let remote = format!(":{:04X}", other.port());
        let (established, close_wait) = ("01", "08");
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|fields| {
            fields.len() > 3 && fields[2].ends_with(&remote) && [established, close_wait].contains(&fields[3])
        })
    }

    /// Waits until connections and memory are no more than before, while honest clients continue.
    pub fn holds_no_more_than(&self, before: &ResourceCounts, what: &str, honest: Option<&mut HonestClients>) {
        self.wait_for(before, what, &KINDS[..KINDS_OF_CONNECTIONS], honest);
    }

    /// Waits until all resources are no more than before.
    pub fn is_as_before(&self, before: &ResourceCounts, what: &str, honest: Option<&mut HonestClients>) {
        self.wait_for(before, what, &KINDS, honest);
    }

    fn wait_for(
        &self,
        before: &ResourceCounts,
        what: &str,
        kinds: &[&'static str],
        mut honest: Option<&mut HonestClients>,
    ) {
        let deadline = now() + PATIENCE;
        loop {
            let holdings = self.holdings_of(kinds);
            if holdings.is_within(before) {
                return;
            }
            assert!(now() < deadline, "{what}: it holds {holdings:?}, and held {before:?}");
            match &mut honest {
                Some(honest) => honest.exchange(what),
                None => pause(),
            }
        }
    }

    /// Stops it cleanly.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the broker runs");
        self.await_line("harrier broker has stopped");
        assert_eq!(self.child.wait().expect("a status").code(), Some(0));
    }
}

impl Drop for WatchedBroker {
    fn drop(&mut self) {
        // Killing an ended process fails, which is fine.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A short pause, since the observed values have no descriptor to wait for.
pub fn pause() {
    let (_kept, never) = channel::<()>();
    assert_eq!(never.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
}
