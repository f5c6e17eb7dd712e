//! Measuring instruments: clock, histograms, resource usage from `/proc`, and the statistics of repeated runs.
#![forbid(unsafe_code)]

mod bootstrap;
pub mod clock;
mod socket_diag;
mod environment;
pub mod validity;
pub mod latency_histogram;
pub mod limits;
mod listener;
mod process_snapshot;
mod process_meter;
mod network_usage;
mod clock_offset;
mod role_usage;
mod body_stamp;
mod steadiness;
mod run_summary;
mod sequence_tally;

pub use bootstrap::{bootstrap_interval, ratio_interval};
pub use environment::{HostEnvironment, processors};
pub use latency_histogram::{HistogramBuckets, LatencyHistogram};
pub use listener::{broker_at, broker_on, listener_at, listener_on, with_descendants};
pub use process_snapshot::resident_bytes;
pub use process_meter::ProcessMeter;
pub use network_usage::{NetworkUsage, NetworkMeter, observed_socket_options};
pub use clock_offset::{ClockExchange, ClockOffset, offset};
pub use role_usage::RoleUsage;
pub use body_stamp::BodyStamp;
pub use steadiness::{Steadiness, steadiness};
pub use run_summary::{RunValues, RunSummary};
pub use sequence_tally::{EXACT_BYTES_MIN, DeliveryFaults, SEQUENCE_BYTES_MAX, SequenceTally, write_sequence};
