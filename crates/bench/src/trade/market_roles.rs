//! The programs of a market as roles: started and told by `harrier market run`, on this host or under a launcher on any.
//!
//! Enters: a task and orders on standard input.  Leaves: a report when ready, and one at the end.
//! Owns:   the conversation of each; the engine's journal where that is to go with it; what each of them used.
//! Never:  does their work.

use std::path::PathBuf;

use gauge::{Meter, RoleUsage};
use serde::{Deserialize, Serialize};

use super::engine::{EngineProgram, EngineTask};
use super::gateway::{GatewayStart, GatewayProgram};
use super::reporter::ReporterProgram;
use crate::interrupt;
use crate::plan::Report;
use crate::role::{Orders, report};

/// What a program found, and what it used from when it was ready (a gateway: from when it was to begin) to its end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RoleResults<T> {
    pub found: T,
    pub used: RoleUsage,
}

/// The order to end, for engine and reporter.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FinishCommand;

/// An engine's journal that goes with it. One that is killed leaves it to the next.
pub(super) struct JournalFile(pub PathBuf);

impl JournalFile {
    /// Where a journal of this name is on this host.
    pub(super) fn named(name: &str) -> Self {
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        // A file that was never made is gone already.
        let _gone = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn gateway(orders: &mut Orders) -> Result<(), String> {
    interrupt::listen()?;
    let gateway = GatewayProgram::start(orders.task()?)?;
    report(&Report::Ready { port: 0 })?;
    let Some(GatewayStart { begin_ns }) = orders.next()? else { return Ok(()) };
    let meter = Meter::of_self();
    send_results(gateway.work(begin_ns)?, meter)
}

/// What an engine is to be, as a role.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EngineRole {
    pub task: EngineTask,
    /// The name of a journal that goes with it; the task has none then.
    pub journal: Option<String>,
}

pub(crate) fn engine(orders: &mut Orders) -> Result<(), String> {
    interrupt::listen()?;
    let EngineRole { mut task, journal } = orders.task()?;
    let scratch = journal.as_deref().map(JournalFile::named);
    task.journal = scratch.as_ref().map(|scratch| scratch.0.clone());
    let engine = EngineProgram::start(task)?;
    report(&Report::Ready { port: 0 })?;
    let meter = Meter::of_self();
    await_finish(orders)?;
    send_results(engine.work()?, meter)
}

pub(crate) fn reporter(orders: &mut Orders) -> Result<(), String> {
    interrupt::listen()?;
    let reporter = ReporterProgram::start(&orders.task()?)?;
    report(&Report::Ready { port: 0 })?;
    let meter = Meter::of_self();
    await_finish(orders)?;
    send_results(reporter.work()?, meter)
}

/// Ends the work of this process when it is told to, or nobody is there any more who could.
fn await_finish(orders: &mut Orders) -> Result<(), String> {
    let fresh = Orders::open().map_err(|error| format!("orders cannot be read: {error}"))?;
    let mut orders = std::mem::replace(orders, fresh);
    // It waits, and uses nothing: the processor time of this process is that of its work.
    std::thread::spawn(move || {
        // Whatever it is: of such a process nothing else is asked.
        let _finish: Result<Option<FinishCommand>, String> = orders.next();
        interrupt::request();
    });
    Ok(())
}

fn send_results<T: Serialize>(found: T, meter: Meter) -> Result<(), String> {
    let told = RoleResults { found, used: meter.stop() };
    report(&Report::Found(serde_json::to_value(&told).map_err(|error| error.to_string())?))
}
