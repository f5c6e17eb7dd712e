//! The two ends of the verbs baseline, each a process of its own: no broker, no AMQP, no socket.
//!
//! Enters: an address, orders.  Leaves: what each segment came to.
//! Owns:   nothing: each segment has a connection of its own.
//! Never:  prints anything but reports.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::{Orders, report};
use crate::plan::Report;
use crate::verbs::connect::{self, Far};
use crate::verbs::device::{Facts, first_address};
use crate::verbs::order::Order;

/// The listening end's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FarTask {
    /// On which address; `None`: the first that a device has.
    pub address: Option<IpAddr>,
}

/// What the listening end says when it is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FarReady {
    /// Where it listens.
    pub address: SocketAddr,
    /// On which device.
    pub device: Facts,
}

/// The measuring end's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NearTask {
    /// Where the other listens.
    pub to: SocketAddr,
}

fn found(value: &impl Serialize) -> Result<(), String> {
    report(&Report::Found(serde_json::to_value(value).map_err(|error| error.to_string())?))
}

/// Listens and serves until its parent ends.
pub(super) fn listen(orders: &mut Orders) -> Result<(), String> {
    let task: FarTask = orders.task()?;
    let address = task.address.map_or_else(first_address, Ok)?;
    let far = Far::listen(address, 0)?;
    found(&FarReady { address: far.address()?, device: far.device()? })?;
    far.serve(|why| eprintln!("harrier bench: the listening end: {why}"))
}

/// Measures what it is ordered to.
pub(super) fn measure(orders: &mut Orders) -> Result<(), String> {
    let task: NearTask = orders.task()?;
    found(&connect::device_towards(task.to).map_err(|why| format!("{}: {why}", task.to))?)?;
    while let Some(order) = orders.next::<Order>()? {
        found(&connect::ask(task.to, &order)?)?;
    }
    Ok(())
}
