//! The two roles of the verbs baseline. Each segment has a connection of its own.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::device_probe::connect;
use crate::device_probe::connect::VerbsListener;
use crate::device_probe::device::{DeviceFacts, first_address};
use crate::device_probe::verbs_request::VerbsRequest;
use harness::command_reader::CommandReader;
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;

/// The task of the passive side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerbsConsumerTask {
    /// The address to listen on; `None`: the first address of a device.
    pub address: Option<IpAddr>,
}

/// The ready report of the passive side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerbsConsumerReady {
    pub address: SocketAddr,
    pub device: DeviceFacts,
}

/// The task of the active side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VerbsPublisherTask {
    /// The passive side's address.
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
    listener.serve(|why| cli::print_error(&format!("harrier bench: the listening end: {why}")))
}

/// Measures the requested segments.
pub(super) fn measure(commands: &mut CommandReader) -> Result<(), String> {
    let task: VerbsPublisherTask = commands.task()?;
    report_results(&connect::device_towards(task.to).map_err(|why| format!("{}: {why}", task.to))?)?;
    while let Some(command) = commands.next_command::<VerbsRequest>()? {
        report_results(&connect::run_segment(task.to, &command)?)?;
    }
    Ok(())
}
