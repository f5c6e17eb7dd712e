//! What a workload is, and how it is run: a load described in a file, or in code.
//!
//! The same file, seed and scale always send the same messages.
//!
//! Read `spec` first (what a workload is), then `parse` (the file), `execution` (one run) and the roles `workload_publishers`
//! and `workload_consumers`.

pub mod arrivals;
mod declared_topology;
pub mod delivery_ledger;
pub mod execution;
pub mod message_stamp;
pub mod objective;
pub mod pacer;
pub mod parse;
pub mod process_messages;
pub mod random;
pub mod run_results;
pub mod scaling;
pub mod shipped;
pub mod spec;
mod toml_fields;
pub mod topology;
pub mod units;
pub mod validation;
