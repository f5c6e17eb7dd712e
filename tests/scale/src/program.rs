//! The broker under test: a process of its own.
//!
//! Enters: arguments of `harrier broker`.  Leaves: an address, and what the process holds.
//! Owns:   the process and the file of its log.
//! Never:  ends quietly: the process must end with status 0 when it is told to.

use crate::{Outcome, pause, report};
use harness::ready_line::ReadyLine;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long the broker may take to listen, and to end.
const START: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(60);
/// How often it is looked after while it is waited for.
const LOOK: Duration = Duration::from_millis(1);

/// A running broker.
pub struct Program {
    process: Child,
    log: PathBuf,
    /// Where it listens.
    pub address: SocketAddr,
    /// How long it took until it accepted a connection.
    pub startup: Duration,
    /// The processor time that it used till then: what depends on nobody else on the machine.
    pub startup_work: Duration,
}

impl Program {
    /// Starts `harrier broker` on a free port.
    pub fn start(shards: u16, arguments: &[String]) -> Outcome<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = std::env::temp_dir().join(format!("harrier-scale-{}-{number}.log", std::process::id()));
        let began = crate::now();
        let path = path();
        let process = Command::new(&path)
            .args(["broker", "--state", "none", "--listen", "127.0.0.1:0", "--shards", &shards.to_string()])
            // The bytes of a queue or binding are those of the shards: the replica of the management API is measured elsewhere.
            .args(["--management-listen", "none", "--metrics-listen", "none"])
            .args(arguments)
            .args(["--log-format", "json"])
            // The broker reads its settings from variables that are called like this one.
            .env_remove("HARRIER_BIN")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut program = Program { process, log, address, startup: Duration::ZERO, startup_work: Duration::ZERO };
        let ready = loop {
            if let Some(ready) = fs::read_to_string(&program.log)?.lines().find_map(ReadyLine::parse) {
                break ready;
            }
            if began.elapsed() > START || program.process.try_wait()?.is_some() {
                return Err(format!("the broker does not listen\n{}", program.last_words()).into());
            }
            pause(LOOK);
        };
        program.address = ready.first()?.parse()?;
        TcpStream::connect(program.address)?;
        program.startup = began.elapsed();
        program.startup_work = work(program.id())?;
        Ok(program)
    }

    /// A URL for clients.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@{}/%2F", self.address)
    }

    /// Its resident memory in bytes.
    pub fn resident_bytes(&self) -> Outcome<u64> {
        resident_bytes(self.process.id())
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Resident memory once it has stopped changing: freed memory goes back within a moment, not at once.
    pub fn settled_bytes(&self) -> Outcome<u64> {
        let mut last = self.resident_bytes()?;
        for _ in 0..50 {
            pause(Duration::from_millis(20));
            let bytes = self.resident_bytes()?;
            if bytes.abs_diff(last) < 64 * 1024 {
                return Ok(bytes);
            }
            last = bytes;
        }
        Ok(last)
    }

    /// Tells it to stop; it must end with status 0.
    pub fn stop(mut self) -> Outcome<()> {
        let id = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        let until = crate::now() + END;
        loop {
            match self.process.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the broker ended with {status}\n{}", self.last_words()).into()),
                None if crate::now() > until => return Err("the broker does not end".into()),
                None => pause(LOOK),
            }
        }
    }

    /// The end of its log.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            report::note(&format!("the broker is killed; its log ends with\n{}", self.last_words()));
            if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
                report::note(&format!("the broker cannot be ended: {error}"));
            }
        }
        if let Err(error) = fs::remove_file(&self.log) {
            report::note(&format!("{}: {error}", self.log.display()));
        }
    }
}

/// Resident memory of a process in bytes.
pub fn resident_bytes(process: u32) -> Outcome<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS: the process has ended")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

/// Processor time that the threads of a process have used: the first number of each one's schedstat, in nanoseconds.
fn work(process: u32) -> Outcome<Duration> {
    let mut all = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let schedstat = fs::read_to_string(thread?.path().join("schedstat"))?;
        all += Duration::from_nanos(schedstat.split_whitespace().next().unwrap_or_default().parse()?);
    }
    Ok(all)
}

/// The program: `HARRIER_BIN`, or what `cargo build --release` leaves.
fn path() -> PathBuf {
    if let Some(path) = std::env::var_os("HARRIER_BIN") {
        return path.into();
    }
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(tree.join("target"), PathBuf::from);
    target.join("release/harrier")
}
