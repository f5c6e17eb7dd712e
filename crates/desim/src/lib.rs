//! A tree of brokers as discrete events: nodes with cores, links, queues, credits, batches, stragglers, failures; from a seed.
//!
//! Enters: a scenario: a tree, what a message costs its brokers, links, bounds, who fails when, a seed.
//! Leaves: rates, latencies, queue depths, loads over time, what was lost; the same for the same scenario, to the last bit.
//! Owns:   what happens between brokers, step by step.
//! Never:  measures, fits costs (that is `planner`), reads a clock, holds a message: a stream is runs of numbers.
//!
//! Read `scenario` first (what can be asked), then `engine` (what happens), `outcome` (what is told). A broker reads what has
//! come, in batches, copies it to everything below it, sends what each connection has room for, and confirms what it has
//! taken. Nothing else moves the stream; rates, depths and losses follow.
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
