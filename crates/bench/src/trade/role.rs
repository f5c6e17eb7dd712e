//! The programs of a market as roles: started and told by `harrier market run`.
//!
//! Enters: a task and orders on standard input.  Leaves: a report when ready, and one at the end.
//! Owns:   the conversation of each.
//! Never:  does their work.

use serde::Serialize;

use super::engine::Engine;
use super::gateway::{Begin, Gateway};
use super::reporter::Reporter;
use crate::interrupt;
use crate::plan::Report;
use crate::role::{Orders, report};

pub(crate) fn gateway(orders: &mut Orders) -> Result<(), String> {
    interrupt::listen()?;
    let gateway = Gateway::start(orders.task()?)?;
    report(&Report::Ready { port: 0 })?;
    let Some(Begin { begin_ns }) = orders.next()? else { return Ok(()) };
    found(&gateway.work(begin_ns)?)
}

pub(crate) fn engine(orders: &mut Orders) -> Result<(), String> {
    interrupt::listen()?;
    let engine = Engine::start(orders.task()?)?;
    report(&Report::Ready { port: 0 })?;
    found(&engine.work()?)
}

pub(crate) fn reporter(orders: &mut Orders) -> Result<(), String> {
    interrupt::listen()?;
    let reporter = Reporter::start(&orders.task()?)?;
    report(&Report::Ready { port: 0 })?;
    found(&reporter.work()?)
}

fn found<T: Serialize>(what: &T) -> Result<(), String> {
    report(&Report::Found(serde_json::to_value(what).map_err(|error| error.to_string())?))
}
