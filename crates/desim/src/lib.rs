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

mod broker_failure;
mod calendar;
mod costs_to_scenario;
mod edge;
mod histogram;
mod latency_tracker;
pub mod limits;
mod load_trace;
mod scenario;
mod sequence_ranges;
mod sequence_tracker;
mod simulated_host;
mod simulation;
mod simulation_result;
mod simulation_rng;
mod tree_topology;

pub use costs_to_scenario::scenario_from_costs;
pub use histogram::Histogram;
pub use load_trace::{BrokerLoad, LoadTrace, SampleInterval, Spread};
pub use scenario::{AckMode, ArrivalProcess, BrokerFailure, InvalidScenario, LinkModel, Scenario, Straggler};
pub use simulation::{simulate, simulate_while};
pub use simulation_result::{LevelResult, SimulationResult};
pub use tree_topology::{ServiceTimes, TreeTopology};
