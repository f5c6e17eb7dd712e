//! The programs of a market as roles: started and told by `harrier market run`, on this host or under a launcher on any.
//!
//! Enters: a task and orders on standard input.  Leaves: a report when ready, and one at the end.
//! Owns:   the conversation of each; the engine's journal where that is to go with it; what each of them used.
//! Never:  does their work.

use std::path::PathBuf;

use gauge::{ProcessMeter, RoleUsage};
use serde::{Deserialize, Serialize};

use super::engine::{Engine, EngineTask};
use super::gateway::{Begin, Gateway};
use super::reporter::Reporter;
use crate::interrupt;
use crate::role_protocol::RoleReport;
use crate::role::{CommandReader, report};

/// What a program found, and what it used from when it was ready (a gateway: from when it was to begin) to its end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Told<T> {
    pub found: T,
    pub used: RoleUsage,
}

/// The order to end, for engine and reporter.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Finish;

/// An engine's journal that goes with it. One that is killed leaves it to the next.
pub(super) struct Scratch(pub PathBuf);

impl Scratch {
    /// Where a journal of this name is on this host.
    pub(super) fn named(name: &str) -> Self {
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that was never made is gone already.
        let _gone = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn gateway(orders: &mut CommandReader) -> Result<(), String> {
    interrupt::listen()?;
    let gateway = Gateway::start(orders.task()?)?;
    report(&RoleReport::Ready { port: 0 })?;
    let Some(Begin { begin_ns }) = orders.next()? else { return Ok(()) };
    let meter = ProcessMeter::of_self();
    found(gateway.work(begin_ns)?, meter)
}

/// What an engine is to be, as a role.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EngineRole {
    pub task: EngineTask,
    /// The name of a journal that goes with it; the task has none then.
    pub journal: Option<String>,
}

pub(crate) fn engine(orders: &mut CommandReader) -> Result<(), String> {
    interrupt::listen()?;
    let EngineRole { mut task, journal } = orders.task()?;
    let scratch = journal.as_deref().map(Scratch::named);
    task.journal = scratch.as_ref().map(|scratch| scratch.0.clone());
    let engine = Engine::start(task)?;
    report(&RoleReport::Ready { port: 0 })?;
    let meter = ProcessMeter::of_self();
    await_finish(orders)?;
    found(engine.work()?, meter)
}

pub(crate) fn reporter(orders: &mut CommandReader) -> Result<(), String> {
    interrupt::listen()?;
    let reporter = Reporter::start(&orders.task()?)?;
    report(&RoleReport::Ready { port: 0 })?;
    let meter = ProcessMeter::of_self();
    await_finish(orders)?;
    found(reporter.work()?, meter)
}

/// Ends the work of this process when it is told to, or nobody is there any more who could.
fn await_finish(orders: &mut CommandReader) -> Result<(), String> {
    let fresh = CommandReader::open().map_err(|error| format!("orders cannot be read: {error}"))?;
    let mut orders = std::mem::replace(orders, fresh);
    // It waits, and uses nothing: the processor time of this process is that of its work.
    std::thread::spawn(move || {
        // Whatever it is: of such a process nothing else is asked.
        let _finish: Result<Option<Finish>, String> = orders.next();
        interrupt::request();
    });
    Ok(())
}

fn found<T: Serialize>(found: T, meter: ProcessMeter) -> Result<(), String> {
    let told = Told { found, used: meter.stop() };
    report(&RoleReport::Results(serde_json::to_value(&told).map_err(|error| error.to_string())?))
}
