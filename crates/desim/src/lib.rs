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
mod calibrated;
mod chance;
mod edge;
mod engine;
mod failure;
mod film;
mod grove;
mod histogram;
pub mod limits;
mod outcome;
mod run;
mod scenario;
mod seen;
mod watch;

pub use calibrated::calibrated;
pub use engine::{simulate, simulate_while};
pub use film::{Film, Frame, Load, Spread};
pub use grove::{Grove, Work};
pub use histogram::Histogram;
pub use outcome::{LevelOutcome, Outcome};
pub use scenario::{Ack, Fail, Impossible, Link, Pace, Scenario, Straggler};
