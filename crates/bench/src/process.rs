//! Child processes that run roles: started from this executable, controlled by lines of JSON, terminated when dropped.
//!
//! Under a launcher, a role is a child process of another rank.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use crate::interrupt;
use crate::launcher::RemoteRole;
use crate::limits::CHILD_END_WAIT;
use crate::placement::CpuList;
use crate::role_protocol::RoleReport;
use gauge::clock::{Deadline, pause};

/// The path of this executable, for starting roles.
pub fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot determine the path of this program: {error}"))
}

/// A command that pins itself to `cpus`, ends with its parent, and then executes `program arguments`.
pub fn launch_command(cpus: &CpuList, program: &str, arguments: &[String]) -> Result<Command, String> {
    let mut command = Command::new(this_program()?);
    command
        .args(["bench", "role", "launch", &cpus.to_string(), &std::process::id().to_string(), program])
        .args(arguments);
    Ok(command)
}

/// A running child process; terminated when dropped.
pub struct ChildProcess {
    child: Child,
    name: String,
}

impl ChildProcess {
    pub fn start(name: &str, command: &mut Command) -> Result<Self, String> {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        let child = command.spawn().map_err(|error| format!("cannot start the {name}: {error}"))?;
        interrupt::add_child(child.id());
        Ok(Self { child, name: name.to_owned() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.child.try_wait().map_err(|error| format!("the {} cannot be watched: {error}", self.name))
    }

    /// Fails if the process has ended.
    pub fn check_alive(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the {} ended early ({status})", self.name)),
            Err(error) => Err(format!("the {} cannot be watched: {error}", self.name)),
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Deadline::after(CHILD_END_WAIT);
        // This fails only if it has already ended, which the wait below detects.
        let _ended = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        while matches!(self.child.try_wait(), Ok(None)) {
            if deadline.passed() {
                eprintln!("harrier bench: the {} did not end on request and is killed", self.name);
                let _ended = self.child.kill();
                let _status = self.child.wait();
                break;
            }
            pause(Duration::from_millis(1));
        }
        interrupt::remove_child(self.child.id());
    }
}

/// Output of a role's process.
#[derive(Debug)]
pub enum RoleOutput {
    Line(String),
    /// End of output, with the read error if there was one.
    Ended(Option<String>),
}

/// A child process that runs a role: it reads commands and writes reports as lines.
pub struct RoleProcess {
    // Dropped first: a child with children of its own ends them at the end of its commands.
    commands: ChildStdin,
    process: ChildProcess,
}

impl RoleProcess {
    /// Starts the role `kind`, pinned to `cpus`. A reader thread passes its output to `output_sender` until that returns `false`.
    pub fn start(
        kind: &str,
        cpus: &CpuList,
        output_sender: impl FnMut(RoleOutput) -> bool + Send + 'static,
    ) -> Result<Self, String> {
        Self::start_within(&[], kind, cpus, output_sender)
    }

    /// The same behind a command that executes another (`ip netns exec NAME`).
    fn start_within(
        within: &[String],
        kind: &str,
        cpus: &CpuList,
        mut output_sender: impl FnMut(RoleOutput) -> bool + Send + 'static,
    ) -> Result<Self, String> {
        let own = this_program()?.to_string_lossy().into_owned();
        let words: Vec<String> =
            within.iter().cloned().chain([own]).chain(["bench", "role", kind].map(str::to_owned)).collect();
        let (program, arguments) = words.split_first().ok_or("a program without a name")?;
        let mut command = launch_command(cpus, program, arguments)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = ChildProcess::start(kind, &mut command)?;
        let (Some(commands), Some(output)) = (process.child.stdin.take(), process.child.stdout.take()) else {
            return Err(format!("the {kind} has no pipes"));
        };
        std::thread::spawn(move || {
            let mut why = None;
            for line in BufReader::new(output).lines() {
                match line {
                    Ok(line) => {
                        if !output_sender(RoleOutput::Line(line)) {
                            return;
                        }
                    }
                    Err(error) => {
                        why = Some(error.to_string());
                        break;
                    }
                }
            }
            output_sender(RoleOutput::Ended(why));
        });
        Ok(Self { commands, process })
    }

    /// After the end of its output: the reason if it failed.
    pub fn failure(&mut self) -> Option<String> {
        let deadline = Deadline::after(CHILD_END_WAIT);
        loop {
            match self.process.child.try_wait() {
                Ok(Some(status)) => return (!status.success()).then(|| format!("it ended early ({status})")),
                // The output is closed shortly before the process ends.
                Ok(None) if !deadline.passed() => pause(Duration::from_millis(1)),
                Ok(None) => return Some("it closed its output and does not end".to_owned()),
                Err(error) => return Some(format!("it cannot be watched: {error}")),
            }
        }
    }

    /// Sends a line to its standard input.
    pub fn send_line(&mut self, line: &str) -> Result<(), String> {
        let mut text = String::with_capacity(line.len() + 1);
        text.push_str(line);
        text.push('\n');
        let name = &self.process.name;
        self.commands.write_all(text.as_bytes()).map_err(|error| format!("the {name} accepts no commands: {error}"))
    }
}

/// A running role: a child process of this one or, under a launcher, of another rank.
pub struct RoleHandle {
    kind: String,
    location: RoleLocation,
}

enum RoleLocation {
    Local { process: RoleProcess, output: Receiver<RoleOutput> },
    Remote(RemoteRole),
}

impl RoleHandle {
    /// Starts the role `kind` with its task, pinned to `cpus`.
    pub fn start<T: Serialize>(kind: &str, task: &T, cpus: &CpuList) -> Result<Self, String> {
        let line = serde_json::to_string(task).map_err(|error| error.to_string())?;
        if let Some(remote) = RemoteRole::start(kind, &line, cpus)? {
            return Ok(Self::remote(kind, remote));
        }
        Self::local(&[], kind, &line, cpus)
    }

    /// Starts the role on this host, behind a command that executes another.
    pub fn start_within<T: Serialize>(within: &[String], kind: &str, task: &T) -> Result<Self, String> {
        let line = serde_json::to_string(task).map_err(|error| error.to_string())?;
        Self::local(within, kind, &line, &CpuList::default())
    }

    fn local(within: &[String], kind: &str, task: &str, cpus: &CpuList) -> Result<Self, String> {
        let (output_sender, output) = channel();
        let mut process =
            RoleProcess::start_within(within, kind, cpus, move |output| output_sender.send(output).is_ok())?;
        process.send_line(task)?;
        Ok(Self { kind: kind.to_owned(), location: RoleLocation::Local { process, output } })
    }

    /// Starts the role `kind` on a given rank.
    pub fn start_on<T: Serialize>(rank: usize, kind: &str, task: &T) -> Result<Self, String> {
        let line = serde_json::to_string(task).map_err(|error| error.to_string())?;
        Ok(Self::remote(kind, RemoteRole::start_on(rank, kind, &line)?))
    }

    fn remote(kind: &str, remote: RemoteRole) -> Self {
        Self { kind: format!("{kind} ({})", remote.location()), location: RoleLocation::Remote(remote) }
    }

    /// Its process id, if it runs on this host.
    pub fn pid(&self) -> Option<u32> {
        match &self.location {
            RoleLocation::Local { process, .. } => Some(process.process.pid()),
            RoleLocation::Remote(_) => None,
        }
    }

    pub fn send_command<T: Serialize>(&mut self, order: &T) -> Result<(), String> {
        let line = serde_json::to_string(order).map_err(|error| error.to_string())?;
        match &mut self.location {
            RoleLocation::Local { process, .. } => process
                .send_line(&line)
                .map_err(|why| process.failure().map_or(why, |how| format!("{}: {how}", self.kind))),
            RoleLocation::Remote(remote) => remote.send_line(&line),
        }
    }

    /// Waits for the next report; fails if the role has failed, ended or timed out.
    pub fn report(&mut self, wait: Duration) -> Result<RoleReport, String> {
        match self.report_within(wait)? {
            Some(report) => Ok(report),
            None => Err(format!("{}: no report within {} s", self.kind, wait.as_secs())),
        }
    }

    /// Waits up to `wait` for the next report; fails if the role has failed or ended.
    pub fn report_within(&mut self, wait: Duration) -> Result<Option<RoleReport>, String> {
        let kind = &self.kind;
        let output = match &mut self.location {
            RoleLocation::Local { output, .. } => match output.recv_timeout(wait) {
                Ok(output) => Some(output),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(RoleOutput::Ended(None)),
            },
            RoleLocation::Remote(remote) => remote.next_output(wait)?,
        };
        match output {
            Some(RoleOutput::Line(line)) => match serde_json::from_str(&line) {
                Ok(RoleReport::Failed { why }) => Err(format!("{kind}: {why}")),
                Ok(report) => Ok(Some(report)),
                Err(error) => Err(format!("{kind}: {error} in '{line}'")),
            },
            _ if interrupt::requested() => Err(interrupt::MESSAGE.to_owned()),
            None => Ok(None),
            Some(RoleOutput::Ended(None)) => Err(format!("the {kind} ended early")),
            Some(RoleOutput::Ended(Some(why))) => Err(format!("{kind}: {why}")),
        }
    }

    /// Waits until the role is set up, and returns the port it listens on (relays).
    pub fn ready(&mut self, wait: Duration) -> Result<u16, String> {
        match self.report(wait)? {
            RoleReport::Ready { port } => Ok(port),
            other => Err(format!("{}: {other:?} instead of being ready", self.kind)),
        }
    }
}
