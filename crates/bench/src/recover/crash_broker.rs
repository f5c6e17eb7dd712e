//! A broker that is started, killed and started again on the same folder: this program's own, or one that has scripts.
//!
//! Dropping it ends its processes and removes its folder.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gauge::clock::{Deadline, now_ns, pause};
use gauge::{ProcessMeter, RoleUsage, is_alive, with_descendants};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::limits::{BROKER_GONE_WAIT, PORT_FREE_WAIT};
use client::Url;
use harness::broker_log::LogDisplay;
use harness::broker_process::BrokerProcess;
use harness::interrupt;
use harness::picked_port::is_taken;
use harness::placement::CpuList;
use harness::scratch::ScratchDirectory;
use harness::scripted_broker::{StartedBroker, stop};
use load::limits::{CONNECT_INTERVAL, RECOVERY_WAIT};

/// The exit status of a script whose broker's port another program has: the number of the system's error.
const PORT_TAKEN_STATUS: i32 = Errno::EADDRINUSE as i32;

/// How a broker is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CrashBrokerSource {
    /// This program's own, with these options.
    Own { options: Vec<String> },
    /// By the scripts `start DIR PORT` and `stop DIR [--wipe]` of this folder (`tests/rabbitmq`).
    Scripts(PathBuf),
}

enum CrashProcess {
    Stopped,
    Own(BrokerProcess),
    /// The script runs until the broker accepts connections.
    Starting(Child),
    Scripted(u32),
}

/// How far a start has come.
enum StartProgress {
    UnderWay,
    /// The broker has said that it is there, or its script has.
    Started,
    /// Why there is no broker.
    Failed(String),
}

/// A broker with a folder that outlives its processes.
pub(crate) struct CrashBroker {
    source: CrashBrokerSource,
    cpus: CpuList,
    /// Where it was told to listen when it was started first, and listens after each start; 0: it was not started yet.
    port: u16,
    process: CrashProcess,
    /// Measures the broker's own process from its start on.
    meter: Option<ProcessMeter>,
    // Removed once the processes have ended.
    folder: ScratchDirectory,
}

/// When a broker was started, and how long it took to accept connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrokerStart {
    pub began_ns: u64,
    pub listening_s: f64,
}

impl CrashBroker {
    /// A broker whose folder is made in `dir`; it is not started yet.
    pub fn new(source: CrashBrokerSource, dir: &Path, cpus: CpuList) -> Result<Self, String> {
        let folder = ScratchDirectory::new_in(dir)?;
        Ok(Self { source, cpus, port: 0, process: CrashProcess::Stopped, meter: None, folder })
    }

    /// Where clients reach it, after each start alike, once it has listened for the first time.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2F", self.port)
    }

    /// Starts it and returns at once.
    pub fn start(&mut self) -> Result<u64, String> {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        let began_ns = now_ns();
        self.process = match &self.source {
            CrashBrokerSource::Own { options } => {
                let state = self.folder.path().to_string_lossy().into_owned();
                let listen = format!("127.0.0.1:{}", self.port);
                let words = ["--listen", &listen, "--state", &state].map(str::to_owned);
                let words = [&words[..], options].concat();
                let process = BrokerProcess::start(&words, &self.cpus, LogDisplay::Shown)?;
                self.meter = Some(ProcessMeter::start(&[process.pid()]));
                CrashProcess::Own(process)
            }
            CrashBrokerSource::Scripts(scripts) => {
                let mut command = Command::new(scripts.join("start"));
                command.arg(self.folder.path()).arg(self.port.to_string());
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
                let child = command.spawn().map_err(|error| format!("{}: {error}", scripts.join("start").display()))?;
                CrashProcess::Starting(child)
            }
        };
        Ok(began_ns)
    }

    /// Starts it for the first time, and waits until it accepts connections at a port of its own choice.
    pub fn start_first(&mut self) -> Result<(), String> {
        self.start()?;
        if let CrashProcess::Own(process) = &mut self.process {
            let ready = process.await_ready(RECOVERY_WAIT)?;
            let port = ready.first()?.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            self.port = port.ok_or("the broker does not say at which port it listens")?;
        }
        self.await_started()
    }

    /// Waits until it accepts connections and has said that it is there, after a start that began then. If another program has
    /// taken its port between two starts, it is started anew until the port is free: that somebody accepts is not enough.
    pub fn await_listening(&mut self, mut began_ns: u64) -> Result<BrokerStart, String> {
        let deadline = Deadline::after(RECOVERY_WAIT);
        let port_deadline = Deadline::after(PORT_FREE_WAIT);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let mut listening_ns = None;
        loop {
            if interrupt::requested() {
                return Err(interrupt::MESSAGE.to_owned());
            }
            if listening_ns.is_none() && TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok() {
                listening_ns = Some(now_ns());
            }
            match (self.check_start()?, listening_ns) {
                (StartProgress::Started, Some(listening_ns)) => {
                    let listening_s = listening_ns.saturating_sub(began_ns) as f64 / 1e9;
                    return Ok(BrokerStart { began_ns, listening_s });
                }
                (StartProgress::Started | StartProgress::UnderWay, _) => {}
                (StartProgress::Failed(why), _) if !is_taken(&why) => return Err(why),
                (StartProgress::Failed(why), _) if port_deadline.passed() => {
                    let waited_s = PORT_FREE_WAIT.as_secs();
                    return Err(format!("another program has held the broker's port for {waited_s} s: {why}"));
                }
                (StartProgress::Failed(_), _) => (began_ns, listening_ns) = (self.start()?, None),
            }
            if deadline.passed() {
                return Err(format!("the broker does not listen after {} s", RECOVERY_WAIT.as_secs()));
            }
            pause(CONNECT_INTERVAL);
        }
    }

    /// How far the last start has come. Returns at once.
    fn check_start(&mut self) -> Result<StartProgress, String> {
        match &mut self.process {
            CrashProcess::Own(process) => {
                if process.is_ready() {
                    return Ok(StartProgress::Started);
                }
                if process.ended()?.is_none() {
                    return Ok(StartProgress::UnderWay);
                }
            }
            CrashProcess::Starting(script) => {
                let status =
                    script.try_wait().map_err(|error| format!("the start script cannot be watched: {error}"))?;
                return Ok(match status {
                    None => StartProgress::UnderWay,
                    Some(status) if status.success() => {
                        self.await_started()?;
                        StartProgress::Started
                    }
                    Some(status) if status.code() == Some(PORT_TAKEN_STATUS) => {
                        StartProgress::Failed(std::io::Error::from_raw_os_error(PORT_TAKEN_STATUS).to_string())
                    }
                    Some(status) => StartProgress::Failed(format!("the start script failed ({status})")),
                });
            }
            CrashProcess::Scripted(pid) if is_alive(*pid) => return Ok(StartProgress::Started),
            CrashProcess::Scripted(_) => return Ok(StartProgress::Failed("the broker ended early".to_owned())),
            CrashProcess::Stopped => return Ok(StartProgress::Failed("the broker was not started".to_owned())),
        }
        match std::mem::replace(&mut self.process, CrashProcess::Stopped) {
            CrashProcess::Own(process) => {
                Ok(StartProgress::Failed(format!("the broker ended early: {}", process.end())))
            }
            _ => Err("the broker was not started".to_owned()),
        }
    }

    /// Waits until a script that starts it has ended, and takes the process id that it prints.
    fn await_started(&mut self) -> Result<(), String> {
        if !matches!(self.process, CrashProcess::Starting(_)) {
            return Ok(());
        }
        let CrashProcess::Starting(mut script) = std::mem::replace(&mut self.process, CrashProcess::Stopped) else {
            return Ok(());
        };
        let mut text = String::new();
        if let Some(output) = &mut script.stdout {
            output.read_to_string(&mut text).map_err(|error| format!("the start script: {error}"))?;
        }
        let status = script.wait().map_err(|error| format!("the start script: {error}"))?;
        let StartedBroker { url, pid } = StartedBroker::parse(&text);
        let port = url.and_then(|url| Url::parse(&url).ok()?.address.rsplit_once(':')?.1.parse().ok());
        match (pid, port) {
            (Some(pid), Some(port)) if status.success() => {
                (self.process, self.port) = (CrashProcess::Scripted(pid), port);
                Ok(())
            }
            _ => Err(format!("the start script printed no process id or no URL ({status})")),
        }
    }

    /// The resources that its own process has used since its start, if it was started by this program.
    pub fn usage(&mut self) -> Option<RoleUsage> {
        self.meter.take()?.stop().known()
    }

    /// Kills it, with the processes that it has started.
    pub fn kill(&mut self) -> Result<(), String> {
        self.await_started()?;
        self.meter = None;
        let pid = match &self.process {
            CrashProcess::Own(process) => process.pid(),
            CrashProcess::Scripted(pid) => *pid,
            CrashProcess::Stopped | CrashProcess::Starting(_) => return Err("the broker does not run".to_owned()),
        };
        let all = with_descendants(&[pid]);
        for &pid in &all {
            match kill(Pid::from_raw(pid as i32), Signal::SIGKILL) {
                // It has ended with its parent.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(format!("process {pid}: {error}")),
            }
        }
        if let CrashProcess::Own(process) = &mut self.process {
            // A child stays in the table of processes until somebody asks for its status.
            let deadline = Deadline::after(BROKER_GONE_WAIT);
            while process.ended()?.is_none() && !deadline.passed() {
                pause(CONNECT_INTERVAL);
            }
        }
        let deadline = Deadline::after(BROKER_GONE_WAIT);
        while all.iter().any(|&pid| is_alive(pid)) {
            if deadline.passed() {
                return Err(format!("process {pid} is still there {} s after SIGKILL", BROKER_GONE_WAIT.as_secs()));
            }
            pause(CONNECT_INTERVAL);
        }
        self.process = CrashProcess::Stopped;
        match &self.source {
            CrashBrokerSource::Own { .. } => Ok(()),
            // What the broker left running beside itself.
            CrashBrokerSource::Scripts(scripts) => stop(scripts, self.folder.path(), &[]),
        }
    }
}

impl Drop for CrashBroker {
    fn drop(&mut self) {
        // Its folder is removed next: it has nothing to write any more.
        if let CrashProcess::Own(_) = self.process
            && let Err(why) = self.kill()
        {
            cli::print_error_lines(&format!("harrier bench: {why}"));
        }
        if let CrashBrokerSource::Scripts(scripts) = &self.source {
            let scripts = scripts.clone();
            // Why it could not be started was told; what of it runs is stopped all the same.
            let _told = self.await_started();
            if let Err(why) = stop(&scripts, self.folder.path(), &["--wipe"]) {
                cli::print_error_lines(&format!("harrier bench: {why}"));
            }
        }
        self.process = CrashProcess::Stopped;
    }
}
