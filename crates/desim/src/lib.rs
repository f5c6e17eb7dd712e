//! Discrete-event simulation of a tree of brokers: threads, links, queues, credits, batches, stragglers and failures,
//! from a seed.
//!
//! Enters: a scenario: a tree, its service times, links, limits, failures and a seed.
//! Leaves: rates, latencies, queue depths, loads over time and losses; the same scenario gives the same result to the
//! last bit.
//!
//! Read `scenario` first, then `simulation`, then `simulation_result`. A broker reads what has arrived in batches,
//! copies it to every connection below, sends as far as each connection's window allows, and confirms what it has
//! accepted. Nothing else moves the stream; rates, depths and losses follow. Fitting costs is the job of `planner`. A
//! stream is ranges of sequence numbers: no message is stored.
#![forbid(unsafe_code)]

mod calendar;
mod costs_to_scenario;
mod split_mix;
mod edge;
mod simulation;
mod broker_failure;
mod load_trace;
mod tree_topology;
mod histogram;
pub mod limits;
mod simulation_result;
mod sequence_ranges;
mod scenario;
mod sequence_tracker;
mod latency_tracker;

pub use costs_to_scenario::scenario_from_costs;
pub use simulation::{simulate, simulate_while};
pub use load_trace::{LoadTrace, SampleInterval, BrokerLoad, Spread};
pub use tree_topology::{TreeTopology, ServiceTimes};
pub use histogram::Histogram;
pub use simulation_result::{LevelResult, SimulationResult};
pub use scenario::{AckMode, BrokerFailure, InvalidScenario, LinkModel, ArrivalProcess, Scenario, Straggler};
