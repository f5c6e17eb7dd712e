//! The agent role: meters a broker's processes on the broker's host for a controller on another host.

use std::path::Path;

use gauge::{broker_at, broker_on, resident_bytes};
use serde::Serialize;

use harness::command_reader::CommandReader;
use harness::role_protocol::RoleReport;
use harness::role_protocol::report;
use harness::role_tasks::{AgentCommand, AgentTask};
use harness::sampler::MemorySampler;

pub(super) fn run(commands: &mut CommandReader) -> Result<(), String> {
    let AgentTask { address } = commands.task()?;
    let pids = processes(&address);
    if pids.is_empty() {
        return Err(format!("no process that listens at {address} was found on this host"));
    }
    report(&RoleReport::Ready { port: 0 })?;
    let mut sampler = None;
    while let Some(command) = commands.next_command()? {
        match command {
            AgentCommand::Begin => {
                sampler = MemorySampler::start(&pids);
                report(&RoleReport::Armed)?;
            }
            AgentCommand::End => {
                report_results(&sampler.take().and_then(MemorySampler::stop))?;
            }
            AgentCommand::ResidentBytes => {
                report_results(&pids.iter().filter_map(|&pid| resident_bytes(pid)).sum::<u64>())?
            }
        }
    }
    Ok(())
}

fn report_results<T: Serialize>(what: &T) -> Result<(), String> {
    report(&RoleReport::Results(serde_json::to_value(what).map_err(|error| error.to_string())?))
}

fn processes(address: &str) -> Vec<u32> {
    match address.strip_prefix("unix:") {
        Some(path) => broker_at(Path::new(path)),
        None => {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            port.map_or_else(Vec::new, broker_on)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_found_by_its_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        assert_eq!(processes(&address).first(), Some(&std::process::id()));
        assert!(processes("nonsense").is_empty());
    }
}
