//! A running role, wherever it runs: controlled by lines of JSON, terminated when dropped.
//!
//! Under a launcher, a role is a child process of another rank.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde::Serialize;

use crate::interrupt;
use crate::launcher::RemoteRole;
use crate::placement::CpuList;
use crate::role_process::{RoleOutput, RoleProcess};
use crate::role_protocol::RoleReport;

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
            RoleLocation::Local { process, .. } => Some(process.pid()),
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
