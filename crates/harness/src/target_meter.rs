//! Meters a target's processes: directly if they run on this host, otherwise through an agent on theirs.

use client::Url;
use gauge::{ProcessMeter, RoleUsage, resident_bytes, with_descendants};
use serde::de::DeserializeOwned;

use crate::launcher::{has_ranks, rank_beside_broker};
use crate::limits::ROLE_READY_WAIT;
use crate::role_handle::RoleHandle;
use crate::role_protocol::RoleReport;
use crate::role_tasks::{AgentCommand, AgentTask};
use crate::sampler::MemorySampler;
use crate::store_meter::{StoreMeter, StoreReading};
use crate::target::{BenchmarkTarget, TargetAddress};

/// Meters the processes of a target.
pub struct TargetMeter {
    location: MeterLocation,
    /// Reads what its store writes, where messages are persistent.
    store: Option<StoreMeter>,
}

enum MeterLocation {
    /// Processes on this host; none if no process is known.
    Local { pids: Vec<u32>, running: LocalMeter },
    /// An agent on the target's host meters them.
    Agent(RoleHandle),
}

/// The meter of local processes.
enum LocalMeter {
    Nothing,
    Meter(ProcessMeter),
    Sampler(MemorySampler),
}

impl TargetMeter {
    /// Finds the processes, or starts an agent on their host.
    ///
    /// # Errors
    /// The agent finds no process.
    pub fn of(target: &BenchmarkTarget) -> Result<Self, String> {
        let pids = target.pid.map_or_else(Vec::new, |pid| with_descendants(&[pid]));
        if pids.is_empty() && has_ranks() {
            let address = match &target.address {
                TargetAddress::Amqp(url) | TargetAddress::Sink(url) | TargetAddress::Source(url) => {
                    Url::parse(url).map_err(|error| error.to_string())?.address
                }
                TargetAddress::RawRelay { relay: end, .. } | TargetAddress::SocketBaseline(end) => end.to_string(),
            };
            if let Some(rank) = rank_beside_broker(&address)? {
                let mut agent = RoleHandle::start_on(rank, "agent", &AgentTask { address })?;
                agent.ready(ROLE_READY_WAIT)?;
                return Ok(Self { location: MeterLocation::Agent(agent), store: None });
            }
        }
        Ok(Self { location: MeterLocation::Local { pids, running: LocalMeter::Nothing }, store: None })
    }

    /// Counts what the target's store writes as well, if messages are persistent.
    pub fn with_store(self, target: &BenchmarkTarget, is_durable: bool) -> Self {
        let store = match &target.address {
            TargetAddress::Amqp(url) if is_durable => Some(StoreMeter::new(url)),
            _ => None,
        };
        Self { store, ..self }
    }

    /// What the store has written between `begin` and `end`.
    pub fn store(&mut self) -> StoreReading {
        self.store.as_mut().map_or_else(StoreReading::default, StoreMeter::end)
    }

    /// Starts measuring.
    ///
    /// # Errors
    /// The agent's failure.
    pub fn begin(&mut self) -> Result<(), String> {
        self.begin_store();
        match &mut self.location {
            MeterLocation::Local { pids, .. } if pids.is_empty() => Ok(()),
            MeterLocation::Local { pids, running } => {
                *running = LocalMeter::Meter(ProcessMeter::start(pids));
                Ok(())
            }
            MeterLocation::Agent(agent) => begin(agent),
        }
    }

    /// Starts measuring, and samples memory periodically.
    ///
    /// # Errors
    /// The agent's failure; agents always sample.
    pub fn begin_sampling(&mut self) -> Result<(), String> {
        self.begin_store();
        match &mut self.location {
            MeterLocation::Local { pids, running } => {
                *running = MemorySampler::start(pids).map_or(LocalMeter::Nothing, LocalMeter::Sampler);
                Ok(())
            }
            MeterLocation::Agent(agent) => begin(agent),
        }
    }

    /// Its own requests are not part of the measurement.
    fn begin_store(&mut self) {
        self.store.iter_mut().for_each(StoreMeter::begin);
    }

    /// Samples memory now, after `begin`.
    pub fn sample(&mut self) {
        if let MeterLocation::Local { running: LocalMeter::Meter(meter), .. } = &mut self.location {
            meter.sample();
        }
    }

    /// Current resident memory of the processes; zero if none is known.
    ///
    /// # Errors
    /// The agent's failure.
    pub fn resident_bytes(&mut self) -> Result<u64, String> {
        match &mut self.location {
            MeterLocation::Local { pids, .. } => Ok(pids.iter().filter_map(|&pid| resident_bytes(pid)).sum()),
            MeterLocation::Agent(agent) => query(agent, AgentCommand::ResidentBytes),
        }
    }

    /// Ends the measurement; `None` if no process is known.
    ///
    /// # Errors
    /// The agent's failure.
    pub fn end(&mut self) -> Result<Option<RoleUsage>, String> {
        match &mut self.location {
            MeterLocation::Local { running, .. } => Ok(match std::mem::replace(running, LocalMeter::Nothing) {
                LocalMeter::Nothing => None,
                LocalMeter::Meter(meter) => meter.stop().known(),
                LocalMeter::Sampler(sampler) => sampler.stop(),
            }),
            MeterLocation::Agent(agent) => query(agent, AgentCommand::End),
        }
    }
}

fn begin(agent: &mut RoleHandle) -> Result<(), String> {
    agent.send_command(&AgentCommand::Begin)?;
    match agent.report(ROLE_READY_WAIT)? {
        RoleReport::Armed => Ok(()),
        other => Err(format!("the agent answered {other:?} instead of beginning")),
    }
}

fn query<T: DeserializeOwned>(agent: &mut RoleHandle, order: AgentCommand) -> Result<T, String> {
    agent.send_command(&order)?;
    match agent.report(ROLE_READY_WAIT)? {
        RoleReport::Results(value) => serde_json::from_value(value).map_err(|error| format!("the agent: {error}")),
        other => Err(format!("the agent answered {other:?} instead of its results")),
    }
}
