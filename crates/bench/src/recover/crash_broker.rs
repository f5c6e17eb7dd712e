//! A broker that is started, killed and started again on the same folder: this program's own, or one that has scripts.
//!
//! Dropping it ends its processes and removes its folder.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gauge::clock::{Deadline, now_ns, pause};
use gauge::{ProcessMeter, RoleUsage, with_descendants};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::limits::BROKER_GONE_WAIT;
use harness::interrupt;
use harness::placement::CpuList;
use harness::role_process::{ChildProcess, launch_command, this_program};
use harness::scratch::ScratchDirectory;
use harness::target::free_port;
use load::limits::{CONNECT_INTERVAL, RECOVERY_WAIT};

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
    Own(ChildProcess),
    /// The script runs until the broker accepts connections.
    Starting(Child),
    Scripted(u32),
}

/// A broker with a folder that outlives its processes.
pub(crate) struct CrashBroker {
    source: CrashBrokerSource,
    cpus: CpuList,
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
        Ok(Self { source, cpus, port: free_port()?, process: CrashProcess::Stopped, meter: None, folder })
    }

    /// Where clients reach it, after each start alike.
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
                let state = self.folder.path().to_string_lossy();
                let listen = format!("127.0.0.1:{}", self.port);
                let words = ["broker", "--log-level", "warn", "--listen", &listen, "--state", &state];
                let words: Vec<String> = words.map(str::to_owned).into_iter().chain(options.iter().cloned()).collect();
                let mut command = launch_command(&self.cpus, &this_program()?.to_string_lossy(), &words)?;
                command.stdin(Stdio::null()).stdout(Stdio::null());
                let process = ChildProcess::start("broker", &mut command)?;
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

    /// Waits until it accepts connections.
    pub fn await_listening(&mut self, began_ns: u64) -> Result<BrokerStart, String> {
        let deadline = Deadline::after(RECOVERY_WAIT);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        while TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
            if interrupt::requested() {
                return Err(interrupt::MESSAGE.to_owned());
            }
            match &mut self.process {
                CrashProcess::Own(process) => process.check_alive()?,
                CrashProcess::Starting(script) => match script.try_wait() {
                    Ok(Some(status)) if !status.success() => return Err(format!("the start script failed ({status})")),
                    Ok(_) => {}
                    Err(error) => return Err(format!("the start script cannot be watched: {error}")),
                },
                CrashProcess::Stopped | CrashProcess::Scripted(_) => {}
            }
            if deadline.passed() {
                return Err(format!("the broker does not listen after {} s", RECOVERY_WAIT.as_secs()));
            }
            pause(CONNECT_INTERVAL);
        }
        Ok(BrokerStart { began_ns, listening_s: now_ns().saturating_sub(began_ns) as f64 / 1e9 })
    }

    /// Waits until a script that starts it has ended, and takes the process id that it prints.
    pub fn await_started(&mut self) -> Result<(), String> {
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
        let pid = text.lines().find_map(|line| line.strip_prefix("pid ")).and_then(|pid| pid.trim().parse().ok());
        match pid {
            Some(pid) if status.success() => self.process = CrashProcess::Scripted(pid),
            _ => return Err(format!("the start script printed no process id ({status})")),
        }
        Ok(())
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

/// Whether a process is there and does something: a zombie is not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| !rest.starts_with(['Z', 'X'])))
}

fn stop(scripts: &Path, folder: &Path, words: &[&str]) -> Result<(), String> {
    let script = scripts.join("stop");
    let status = Command::new(&script).arg(folder).args(words).stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} failed ({status})", script.display())),
        Err(error) => Err(format!("{}: {error}", script.display())),
    }
}

impl Drop for CrashBroker {
    fn drop(&mut self) {
        // Its folder is removed next: it has nothing to write any more.
        if let CrashProcess::Own(_) = self.process
            && let Err(why) = self.kill()
        {
            eprintln!("harrier bench: {why}");
        }
        if let CrashBrokerSource::Scripts(scripts) = &self.source {
            let scripts = scripts.clone();
            // Why it could not be started was told; what of it runs is stopped all the same.
            let _told = self.await_started();
            if let Err(why) = stop(&scripts, self.folder.path(), &["--wipe"]) {
                eprintln!("harrier bench: {why}");
            }
        }
        self.process = CrashProcess::Stopped;
    }
}
