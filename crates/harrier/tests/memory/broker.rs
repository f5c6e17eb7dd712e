//! A broker process with a small memory limit, which it keeps.

use super::PATIENCE;
use super::resident_limit::ResidentLimit;
use gauge::clock::{Deadline, pause};
use harness::ready_line::ReadyLine;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than a broker takes to stop on a loaded machine, with clients that do not leave by themselves and all that an attack
/// has left in its memory and its store.
const STOP_PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at whether it has stopped.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// A user who may do nothing.
pub const USELESS: &str = "useless";

/// Users of every broker here: `guest`, and one without any permission.
pub const CONFIGURATION: &str = "[[user]]\nname = \"guest\"\npassword = \"guest\"\ntags = [\"administrator\"]\n[[permission]]\nuser = \"guest\"\n\
     vhost = \"/\"\nconfigure = \".*\"\nwrite = \".*\"\nread = \".*\"\n[[user]]\nname = \"useless\"\npassword = \"useless\"\n\
     [[permission]]\nuser = \"useless\"\nvhost = \"/\"\nconfigure = \"\"\nwrite = \"\"\nread = \"\"\n";

pub struct LimitedBroker {
    pub child: Child,
    lines: Receiver<String>,
    pub address: String,
    /// Where its management API is.
    pub api: String,
    /// Once it is ready.
    limit: Option<ResidentLimit>,
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
            .args(["--management-listen", "127.0.0.1:0", "--metrics-listen", "none"])
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
            api: String::new(),
            limit: None,
            configuration,
            state,
        };
        let ready = broker.await_line("harrier broker is ready");
        let ready = ReadyLine::parse(&ready).expect("it says where it listens");
        (broker.address, broker.api) = (ready.addresses.join(" "), ready.management.join(" "));
        broker.limit = Some(ResidentLimit::at_rest(broker.child.id(), limit_mib));
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

    /// Panics if the process has ever held more than it may.
    pub fn has_kept_its_limit(&self, attack: &str) {
        self.limit.as_ref().expect("it has become ready").check(attack);
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
    /// Tells the process to stop, and waits until it has. One that does not heed that is killed, and the test fails.
    pub fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let deadline = Deadline::after(STOP_PATIENCE);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                break status;
            }
            if deadline.passed() {
                self.child.kill().expect("it runs");
                panic!("the broker has not stopped {} s after SIGTERM, and was killed", STOP_PATIENCE.as_secs());
            }
            pause(BETWEEN_LOOKS);
        };
        assert!(status.success(), "{status}");
    }
}
