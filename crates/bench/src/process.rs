//! Child processes of a run: started from this very program, spoken to in lines of JSON, ended with their parent.
//!
//! Enters: a role's name, its task, a placement.  Leaves: reports.
//! Owns:   the children; dropping one ends it.
//! Never:  a shell, a process it did not start.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;

use crate::interrupt;
use crate::limits::CHILD_END_WAIT;
use crate::placement::Cpus;
use crate::plan::Report;
use gauge::clock::{Deadline, pause};

/// This program, as it must be started again to play a role.
pub fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot tell which program this is: {error}"))
}

/// A command that pins itself to `cpus`, ends with its parent, and then becomes `program arguments`.
pub fn launched(cpus: &Cpus, program: &str, arguments: &[String]) -> Result<Command, String> {
    let mut command = Command::new(this_program()?);
    command
        .args(["bench", "role", "launch", &cpus.to_string(), &std::process::id().to_string(), program])
        .args(arguments);
    Ok(command)
}

/// A running child; ended when dropped.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts a command.
    pub fn start(name: &str, command: &mut Command) -> Result<Self, String> {
        if interrupt::requested() {
            return Err(interrupt::MESSAGE.to_owned());
        }
        let child = command.spawn().map_err(|error| format!("cannot start the {name}: {error}"))?;
        interrupt::add_child(child.id());
        Ok(Self { child, name: name.to_owned() })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error when it has ended.
    pub fn check_alive(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the {} ended early ({status})", self.name)),
            Err(error) => Err(format!("the {} cannot be watched: {error}", self.name)),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let deadline = Deadline::after(CHILD_END_WAIT);
        // Asking fails only when it has ended already, which the wait below finds.
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

/// A publisher, consumer or relay in a process of its own.
pub struct Role {
    process: Process,
    orders: ChildStdin,
    reports: Receiver<Result<Report, String>>,
}

impl Role {
    /// Starts the role `kind` with its task, pinned to `cpus`.
    pub fn start<T: Serialize>(kind: &str, task: &T, cpus: &Cpus) -> Result<Self, String> {
        let program = this_program()?;
        let arguments = ["bench", "role", kind].map(str::to_owned);
        let mut command = launched(cpus, &program.to_string_lossy(), &arguments)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::start(kind, &mut command)?;
        let (Some(orders), Some(output)) = (process.child.stdin.take(), process.child.stdout.take()) else {
            return Err(format!("the {kind} has no pipes"));
        };
        let (sender, reports) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let report = line
                    .map_err(|error| error.to_string())
                    .and_then(|line| serde_json::from_str(&line).map_err(|error| format!("{error} in '{line}'")));
                if sender.send(report).is_err() {
                    return;
                }
            }
        });
        let mut role = Self { process, orders, reports };
        role.order(task)?;
        Ok(role)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends one order.
    pub fn order<T: Serialize>(&mut self, order: &T) -> Result<(), String> {
        let mut line = serde_json::to_string(order).map_err(|error| error.to_string())?;
        line.push('\n');
        let name = &self.process.name;
        self.orders.write_all(line.as_bytes()).map_err(|error| format!("the {name} takes no orders: {error}"))
    }

    /// Waits for the next report; a role that failed, ended or stays silent is an error.
    pub fn report(&mut self, wait: Duration) -> Result<Report, String> {
        let name = &self.process.name;
        match self.reports.recv_timeout(wait) {
            Ok(Ok(Report::Failed { why })) => Err(format!("{name}: {why}")),
            Ok(report) => report.map_err(|error| format!("{name}: {error}")),
            Err(_) if interrupt::requested() => Err(interrupt::MESSAGE.to_owned()),
            Err(RecvTimeoutError::Timeout) => Err(format!("{name}: no report within {} s", wait.as_secs())),
            Err(RecvTimeoutError::Disconnected) => Err(format!("the {name} ended early")),
        }
    }

    /// Waits until the role is set up, and returns the port it listens on (relays).
    pub fn ready(&mut self, wait: Duration) -> Result<u16, String> {
        match self.report(wait)? {
            Report::Ready { port } => Ok(port),
            other => Err(format!("{}: {other:?} instead of being ready", self.process.name)),
        }
    }
}
