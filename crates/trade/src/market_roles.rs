//! The programs of a market as roles, which `harrier market run` starts and commands, on this host or under a launcher
//! on any.
//!
//! A role reads its task and commands on standard input, and reports when it is ready and at its end.

use std::path::PathBuf;

use gauge::{ProcessMeter, RoleUsage};
use serde::{Deserialize, Serialize};

use super::engine::{EngineProgram, EngineTask};
use super::gateway::{GatewayProgram, GatewayStart};
use super::reporter::ReporterProgram;
use harness::command_reader::CommandReader;
use harness::interrupt;
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;

/// The results of a program, and its resource usage from when it was ready (a gateway: from its start time) to its end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RoleResults<T> {
    pub found: T,
    pub used: RoleUsage,
}

/// The command to end, for engine and reporter.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FinishCommand;

/// A temporary journal file, deleted with this object. A killed engine leaves it to its successor.
pub(super) struct JournalFile(pub PathBuf);

impl JournalFile {
    /// The path of a journal with this name on this host.
    pub(super) fn named(name: &str) -> Self {
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        // A file that was never created needs no deletion.
        let _gone = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn gateway(orders: &mut CommandReader) -> Result<(), String> {
    interrupt::listen()?;
    let gateway = GatewayProgram::start(orders.task()?)?;
    report(&RoleReport::Ready { port: 0 })?;
    let Some(GatewayStart { begin_ns }) = orders.next_command()? else { return Ok(()) };
    let meter = ProcessMeter::of_self();
    send_results(gateway.work(begin_ns)?, meter)
}

/// Parameters of an engine role.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EngineRole {
    pub task: EngineTask,
    /// The name of a temporary journal; the task then has none.
    pub journal: Option<String>,
}

pub(crate) fn engine(orders: &mut CommandReader) -> Result<(), String> {
    interrupt::listen()?;
    let EngineRole { mut task, journal } = orders.task()?;
    let scratch = journal.as_deref().map(JournalFile::named);
    task.journal = scratch.as_ref().map(|scratch| scratch.0.clone());
    let engine = EngineProgram::start(task)?;
    report(&RoleReport::Ready { port: 0 })?;
    let meter = ProcessMeter::of_self();
    await_finish(orders)?;
    send_results(engine.work()?, meter)
}

pub(crate) fn reporter(orders: &mut CommandReader) -> Result<(), String> {
    interrupt::listen()?;
    let reporter = ReporterProgram::start(&orders.task()?)?;
    report(&RoleReport::Ready { port: 0 })?;
    let meter = ProcessMeter::of_self();
    await_finish(orders)?;
    send_results(reporter.work()?, meter)
}

/// Ends this process's program on command, or when the controlling process is gone.
fn await_finish(orders: &mut CommandReader) -> Result<(), String> {
    let fresh = CommandReader::open().map_err(|error| format!("commands cannot be read: {error}"))?;
    let mut orders = std::mem::replace(orders, fresh);
    // It only waits, so that the processor time of this process is that of its program.
    std::thread::spawn(move || {
        // Any command ends it: no other is sent to such a process.
        let _finish: Result<Option<FinishCommand>, String> = orders.next_command();
        interrupt::request();
    });
    Ok(())
}

fn send_results<T: Serialize>(found: T, meter: ProcessMeter) -> Result<(), String> {
    let told = RoleResults { found, used: meter.stop() };
    report(&RoleReport::Results(serde_json::to_value(&told).map_err(|error| error.to_string())?))
}
