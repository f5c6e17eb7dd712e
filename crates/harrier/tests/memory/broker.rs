//! A broker process with a small memory limit, and what it holds according to the kernel.

use super::PATIENCE;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A user who may do nothing.
pub const USELESS: &str = "useless";

/// Users of every broker here: `guest`, and one without any permission.
pub const CONFIGURATION: &str = "[[user]]\nname = \"guest\"\npassword = \"guest\"\n[[permission]]\nuser = \"guest\"\n\
     vhost = \"/\"\nconfigure = \".*\"\nwrite = \".*\"\nread = \".*\"\n[[user]]\nname = \"useless\"\npassword = \"useless\"\n\
     [[permission]]\nuser = \"useless\"\nvhost = \"/\"\nconfigure = \"\"\nwrite = \"\"\nread = \"\"\n";

pub struct LimitedBroker {
    pub child: Child,
    lines: Receiver<String>,
    pub address: String,
    limit_kib: u64,
    /// What the process holds at rest, before anybody has connected.
    rest_kib: u64,
    pub configuration: PathBuf,
    /// Its state folder, if it has one.
    state: Option<PathBuf>,
}

impl LimitedBroker {
    /// Everything is in memory.
    pub fn start(name: &str, limit_mib: u64) -> Self {
        Self::start_on(name, limit_mib, false)
    }

    /// With a state folder of its own, if `has_store`.
    pub fn start_on(name: &str, limit_mib: u64, has_store: bool) -> Self {
        let state = std::env::temp_dir().join(format!("harrier-memory-{}-{name}.state", std::process::id()));
        let state = has_store.then_some(state);
        let program = std::env::var_os("HARRIER_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_harrier").into());
        let configuration = std::env::temp_dir().join(format!("harrier-memory-{}-{name}.toml", std::process::id()));
        std::fs::write(&configuration, CONFIGURATION).expect("a file");
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HARRIER_")) {
            command.env_remove(name);
        }
        let child = command
            .args(["broker", "--listen", "127.0.0.1:0", "--shards", "1", "--log-format", "json"])
            .args(["--memory-limit", &format!("{limit_mib}MiB")])
            .arg("--config")
            .arg(&configuration)
            .arg("--state")
            .arg(state.as_deref().unwrap_or("none".as_ref()))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("the program starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut broker = LimitedBroker {
            child,
            lines,
            address: String::new(),
            limit_kib: limit_mib << 10,
            rest_kib: 0,
            configuration,
            state,
        };
        let ready = broker.await_line("harrier broker is ready");
        let addresses = ready.split_once("\"addresses\":\"").and_then(|(_, rest)| rest.split_once('"'));
        broker.address = addresses.expect("its addresses").0.to_owned();
        broker.rest_kib = broker.kib("VmRSS:");
        broker
    }

    /// Waits for a line of the log, and forgets those before it.
    pub fn await_line(&self, part: &str) -> String {
        loop {
            let line =
                self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no {part:?} in the log: {error}"));
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Waits until the memory alarm has begun.
    pub fn await_alarm(&self) {
        self.await_line("\"over\":true");
    }

    fn kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the broker runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux tells");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Panics if the process has ever held more than its limit and a tenth. A program that holds more than a tenth at rest, as
    /// of a small limit, may have that beside.
    pub fn has_kept_its_limit(&self, attack: &str) {
        let (peak_kib, now_kib) = (self.kib("VmHWM:"), self.kib("VmRSS:"));
        let tenth_kib = self.limit_kib / 10;
        let rest_kib = if self.rest_kib > tenth_kib { self.rest_kib } else { 0 };
        let most_kib = self.limit_kib + tenth_kib + rest_kib;
        let line = format!(
            "{attack}: held {} MiB at most and {} MiB now, of {} MiB and {} MiB at rest",
            peak_kib >> 10,
            now_kib >> 10,
            self.limit_kib >> 10,
            self.rest_kib >> 10
        );
        println!("{line}");
        assert!(peak_kib <= most_kib, "{line}");
    }
}

impl Drop for LimitedBroker {
    fn drop(&mut self) {
        // Killing an ended process fails, which is fine.
        let _ended = self.child.kill();
        let _status = self.child.wait();
        let _removed = std::fs::remove_file(&self.configuration);
        if let Some(state) = &self.state {
            let _removed = std::fs::remove_dir_all(state);
        }
    }
}

impl LimitedBroker {
    /// Tells the process to stop, and waits until it has.
    pub fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }
}
