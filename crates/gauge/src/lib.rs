//! Instruments: the clock, histograms, what processes use, what a series of runs is worth.
//!
//! Enters: events and process ids.  Leaves: figures.
//! Owns:   the reading of clocks and of `/proc`, and the statistics.
//! Never:  knows what is being measured, prints.
#![forbid(unsafe_code)]

mod bootstrap;
pub mod clock;
mod diag;
mod environment;
pub mod judge;
pub mod latency;
pub mod limits;
mod listener;
mod look;
mod meter;
mod network;
mod offset;
mod role_usage;
mod stamp;
mod steadiness;
mod summary;
mod tally;

pub use bootstrap::{bootstrap_interval, ratio_interval};
pub use environment::{HostEnvironment, processors};
pub use latency::{HistogramBuckets, LatencyHistogram};
pub use listener::{broker_at, broker_on, listener_at, listener_on, with_descendants};
pub use look::resident_bytes;
pub use meter::ProcessMeter;
pub use network::{NetworkUsage, NetworkMeter, options_found};
pub use offset::{ClockExchange, ClockOffset, offset};
pub use role_usage::RoleUsage;
pub use stamp::BodyStamp;
pub use steadiness::{Steadiness, steadiness};
pub use summary::{RunValues, RunSummary};
pub use tally::{EXACT_BYTES_MIN, DeliveryFaults, SEQUENCE_BYTES_MAX, SequenceTally, write_sequence};
