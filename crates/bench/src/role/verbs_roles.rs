//! The two roles of the verbs baseline. Each segment has a connection of its own.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::{CommandReader, report};
use crate::role_protocol::RoleReport;
use crate::verbs::connect::{self, VerbsListener};
use crate::verbs::device::{DeviceFacts, first_address};
use crate::verbs::verbs_request::VerbsRequest;

/// The listening end's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct VerbsConsumerTask {
    /// On which address; `None`: the first that a device has.
    pub address: Option<IpAddr>,
}

/// What the listening end says when it is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct VerbsConsumerReady {
    /// Where it listens.
    pub address: SocketAddr,
    /// On which device.
    pub device: DeviceFacts,
}

/// The measuring end's task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct VerbsPublisherTask {
    /// Where the other listens.
    pub to: SocketAddr,
}

fn report_results(value: &impl Serialize) -> Result<(), String> {
    report(&RoleReport::Results(serde_json::to_value(value).map_err(|error| error.to_string())?))
}

/// Listens and serves until its parent ends.
pub(super) fn listen(commands: &mut CommandReader) -> Result<(), String> {
    let task: VerbsConsumerTask = commands.task()?;
    let address = task.address.map_or_else(first_address, Ok)?;
    let listener = VerbsListener::listen(address, 0)?;
    report_results(&VerbsConsumerReady { address: listener.address()?, device: listener.device()? })?;
    listener.serve(|why| eprintln!("harrier bench: the listening end: {why}"))
}

/// Measures what it is ordered to.
pub(super) fn measure(commands: &mut CommandReader) -> Result<(), String> {
    let task: VerbsPublisherTask = commands.task()?;
    report_results(&connect::device_towards(task.to).map_err(|why| format!("{}: {why}", task.to))?)?;
    while let Some(command) = commands.next::<VerbsRequest>()? {
        report_results(&connect::run_segment(task.to, &command)?)?;
    }
    Ok(())
}
