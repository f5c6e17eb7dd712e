//! Instruments: the clock, histograms, what processes use, what a series of runs is worth.
//!
//! Enters: events and process ids.  Leaves: figures.
//! Owns:   the reading of clocks and of `/proc`, and the statistics.
//! Never:  knows what is being measured, prints.
#![forbid(unsafe_code)]

pub mod clock;
mod environment;
pub mod latency;
pub mod limits;
mod summary;
mod tally;
mod usage;

pub use environment::{Environment, processors};
pub use latency::{Buckets, Latencies};
pub use summary::{Runs, Summary};
pub use tally::{EXACT_BYTES_MIN, Faults, SEQUENCE_BYTES_MAX, Tally, write_sequence};
pub use usage::{Usage, listener_on, resident_bytes};
