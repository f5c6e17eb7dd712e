//! Meters a target's processes wherever they are: from this process, or by an agent on their host.
//!
//! Enters: a target.  Leaves: what its processes used between begin and end.
//! Owns:   the agent.
//! Never:  meters the processes of another host by their numbers here.

use client::Url;
use gauge::{Meter, RoleUsage, resident_bytes, with_descendants};
use serde::de::DeserializeOwned;

use super::{has_ranks, watcher};
use crate::limits::ROLE_READY_WAIT;
use crate::plan::Report;
use crate::process::Role;
use crate::role::task::{AgentOrder, AgentTask};
use crate::sampler::Sampler;
use crate::target::{Target, Way};

/// A watched target.
pub struct Watch {
    seat: Seat,
}

enum Seat {
    /// These processes of this host; none, where nobody can see any.
    Here { pids: Vec<u32>, running: Running },
    /// An agent on the target's host sees them.
    There(Role),
}

/// What meters the processes of this host.
enum Running {
    Nothing,
    Meter(Meter),
    Sampler(Sampler),
}

impl Watch {
    /// Finds the processes, or has a rank that sees them play the agent.
    ///
    /// # Errors
    /// An agent that sees nothing after all.
    pub fn of(target: &Target) -> Result<Self, String> {
        let pids = target.pid.map_or_else(Vec::new, |pid| with_descendants(&[pid]));
        if pids.is_empty() && has_ranks() {
            let address = match &target.way {
                Way::Amqp(url) | Way::Sink(url) | Way::Source(url) => {
                    Url::parse(url).map_err(|error| error.to_string())?.address
                }
                Way::Raw { relay: end, .. } | Way::Hop(end) => end.to_string(),
            };
            if let Some(rank) = watcher(&address)? {
                let mut agent = Role::start_on(rank, "agent", &AgentTask { address })?;
                agent.ready(ROLE_READY_WAIT)?;
                return Ok(Self { seat: Seat::There(agent) });
            }
        }
        Ok(Self { seat: Seat::Here { pids, running: Running::Nothing } })
    }

    /// Begins to measure.
    ///
    /// # Errors
    /// What befell the agent.
    pub fn begin(&mut self) -> Result<(), String> {
        match &mut self.seat {
            Seat::Here { pids, .. } if pids.is_empty() => Ok(()),
            Seat::Here { pids, running } => {
                *running = Running::Meter(Meter::start(pids));
                Ok(())
            }
            Seat::There(agent) => begin(agent),
        }
    }

    /// Begins to measure, and looks now and then at memory that may come and go.
    ///
    /// # Errors
    /// What befell the agent, which always does so.
    pub fn begin_sampling(&mut self) -> Result<(), String> {
        match &mut self.seat {
            Seat::Here { pids, running } => {
                *running = Sampler::start(pids).map_or(Running::Nothing, Running::Sampler);
                Ok(())
            }
            Seat::There(agent) => begin(agent),
        }
    }

    /// Looks at memory now, after `begin`.
    pub fn sample(&mut self) {
        if let Seat::Here { running: Running::Meter(meter), .. } = &mut self.seat {
            meter.sample();
        }
    }

    /// What the processes hold in memory now; zero where none can be seen.
    ///
    /// # Errors
    /// What befell the agent.
    pub fn held_bytes(&mut self) -> Result<u64, String> {
        match &mut self.seat {
            Seat::Here { pids, .. } => Ok(pids.iter().filter_map(|&pid| resident_bytes(pid)).sum()),
            Seat::There(agent) => found(agent, AgentOrder::Held),
        }
    }

    /// Ends the measurement; `None` where no process can be seen.
    ///
    /// # Errors
    /// What befell the agent.
    pub fn end(&mut self) -> Result<Option<RoleUsage>, String> {
        match &mut self.seat {
            Seat::Here { running, .. } => Ok(match std::mem::replace(running, Running::Nothing) {
                Running::Nothing => None,
                Running::Meter(meter) => meter.stop().known(),
                Running::Sampler(sampler) => sampler.stop(),
            }),
            Seat::There(agent) => found(agent, AgentOrder::End),
        }
    }
}

fn begin(agent: &mut Role) -> Result<(), String> {
    agent.order(&AgentOrder::Begin)?;
    match agent.report(ROLE_READY_WAIT)? {
        Report::Armed => Ok(()),
        other => Err(format!("the agent answered {other:?} instead of beginning")),
    }
}

fn found<T: DeserializeOwned>(agent: &mut Role, order: AgentOrder) -> Result<T, String> {
    agent.order(&order)?;
    match agent.report(ROLE_READY_WAIT)? {
        Report::Found(value) => serde_json::from_value(value).map_err(|error| format!("the agent: {error}")),
        other => Err(format!("the agent answered {other:?} instead of its figures")),
    }
}
