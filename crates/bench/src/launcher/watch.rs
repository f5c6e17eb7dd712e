//! Meters a target's processes wherever they are: from this process, or by an agent on their host.
//!
//! Enters: a target.  Leaves: what its processes used between begin and end.
//! Owns:   the agent.
//! Never:  meters the processes of another host by their numbers here.

use client::Url;
use gauge::{ProcessMeter, RoleUsage, resident_bytes, with_descendants};
use serde::de::DeserializeOwned;

use super::{has_ranks, watcher};
use crate::limits::ROLE_READY_WAIT;
use crate::plan::RoleReport;
use crate::process::RoleHandle;
use crate::role::task::{AgentCommand, AgentTask};
use crate::sampler::MemorySampler;
use crate::target::{BenchmarkTarget, TargetAddress};

/// A watched target.
pub struct TargetMeter {
    seat: MeterLocation,
}

enum MeterLocation {
    /// These processes of this host; none, where nobody can see any.
    Here { pids: Vec<u32>, running: LocalMeter },
    /// An agent on the target's host sees them.
    There(RoleHandle),
}

/// What meters the processes of this host.
enum LocalMeter {
    Nothing,
    Meter(ProcessMeter),
    Sampler(MemorySampler),
}

impl TargetMeter {
    /// Finds the processes, or has a rank that sees them play the agent.
    ///
    /// # Errors
    /// An agent that sees nothing after all.
    pub fn of(target: &BenchmarkTarget) -> Result<Self, String> {
        let pids = target.pid.map_or_else(Vec::new, |pid| with_descendants(&[pid]));
        if pids.is_empty() && has_ranks() {
            let address = match &target.way {
                TargetAddress::Amqp(url) | TargetAddress::Sink(url) | TargetAddress::Source(url) => {
                    Url::parse(url).map_err(|error| error.to_string())?.address
                }
                TargetAddress::Raw { relay: end, .. } | TargetAddress::Hop(end) => end.to_string(),
            };
            if let Some(rank) = watcher(&address)? {
                let mut agent = RoleHandle::start_on(rank, "agent", &AgentTask { address })?;
                agent.ready(ROLE_READY_WAIT)?;
                return Ok(Self { seat: MeterLocation::There(agent) });
            }
        }
        Ok(Self { seat: MeterLocation::Here { pids, running: LocalMeter::Nothing } })
    }

    /// Begins to measure.
    ///
    /// # Errors
    /// What befell the agent.
    pub fn begin(&mut self) -> Result<(), String> {
        match &mut self.seat {
            MeterLocation::Here { pids, .. } if pids.is_empty() => Ok(()),
            MeterLocation::Here { pids, running } => {
                *running = LocalMeter::Meter(ProcessMeter::start(pids));
                Ok(())
            }
            MeterLocation::There(agent) => begin(agent),
        }
    }

    /// Begins to measure, and looks now and then at memory that may come and go.
    ///
    /// # Errors
    /// What befell the agent, which always does so.
    pub fn begin_sampling(&mut self) -> Result<(), String> {
        match &mut self.seat {
            MeterLocation::Here { pids, running } => {
                *running = MemorySampler::start(pids).map_or(LocalMeter::Nothing, LocalMeter::Sampler);
                Ok(())
            }
            MeterLocation::There(agent) => begin(agent),
        }
    }

    /// Looks at memory now, after `begin`.
    pub fn sample(&mut self) {
        if let MeterLocation::Here { running: LocalMeter::Meter(meter), .. } = &mut self.seat {
            meter.sample();
        }
    }

    /// What the processes hold in memory now; zero where none can be seen.
    ///
    /// # Errors
    /// What befell the agent.
    pub fn held_bytes(&mut self) -> Result<u64, String> {
        match &mut self.seat {
            MeterLocation::Here { pids, .. } => Ok(pids.iter().filter_map(|&pid| resident_bytes(pid)).sum()),
            MeterLocation::There(agent) => found(agent, AgentCommand::Held),
        }
    }

    /// Ends the measurement; `None` where no process can be seen.
    ///
    /// # Errors
    /// What befell the agent.
    pub fn end(&mut self) -> Result<Option<RoleUsage>, String> {
        match &mut self.seat {
            MeterLocation::Here { running, .. } => Ok(match std::mem::replace(running, LocalMeter::Nothing) {
                LocalMeter::Nothing => None,
                LocalMeter::Meter(meter) => meter.stop().known(),
                LocalMeter::Sampler(sampler) => sampler.stop(),
            }),
            MeterLocation::There(agent) => found(agent, AgentCommand::End),
        }
    }
}

fn begin(agent: &mut RoleHandle) -> Result<(), String> {
    agent.order(&AgentCommand::Begin)?;
    match agent.report(ROLE_READY_WAIT)? {
        RoleReport::Armed => Ok(()),
        other => Err(format!("the agent answered {other:?} instead of beginning")),
    }
}

fn found<T: DeserializeOwned>(agent: &mut RoleHandle, order: AgentCommand) -> Result<T, String> {
    agent.order(&order)?;
    match agent.report(ROLE_READY_WAIT)? {
        RoleReport::Found(value) => serde_json::from_value(value).map_err(|error| format!("the agent: {error}")),
        other => Err(format!("the agent answered {other:?} instead of its figures")),
    }
}
