//! Measuring instruments: clock, histograms, resource usage from `/proc`, and the statistics of repeated runs.
#![forbid(unsafe_code)]

mod body_stamp;
mod bootstrap;
pub mod clock;
mod clock_offset;
mod environment;
pub mod latency_histogram;
pub mod limits;
mod listener;
mod network_usage;
mod process_meter;
mod process_snapshot;
mod role_usage;
mod run_summary;
mod sequence_number;
mod sequence_tally;
mod socket_diag;
mod steadiness;
pub mod validity;

pub use body_stamp::BodyStamp;
pub use bootstrap::{bootstrap_interval, ratio_interval};
pub use clock_offset::{ClockExchange, ClockOffset, offset};
pub use environment::{HostEnvironment, processors};
pub use latency_histogram::{HistogramBuckets, LatencyHistogram};
pub use listener::{broker_at, broker_on, listener_at, listener_on, with_descendants};
pub use network_usage::{NetworkMeter, NetworkUsage, observed_socket_options};
pub use process_meter::ProcessMeter;
pub use process_snapshot::{is_alive, pinned_bytes, resident_bytes, start_ticks};
pub use role_usage::RoleUsage;
pub use run_summary::{RunSummary, RunValues};
pub use sequence_number::{SEQUENCE_BYTES_MAX, write_sequence};
pub use sequence_tally::{DeliveryFaults, SequenceTally};
pub use socket_diag::tcp_round_trip;
pub use steadiness::{Steadiness, steadiness};
