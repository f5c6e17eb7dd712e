//! Limits of trees of brokers: bounds of every count, size and wait. Defaults that a user may change are beside their options.

use std::time::Duration;

/// Smallest message of a tree, in bytes: larger than a probe.
pub const TREE_MESSAGE_BYTES_MIN: usize = 16;
/// How long a probe may take to reach all leaves before it is sent again: the first may have been lost on a route that was
/// not established yet.
pub const PROBE_AGAIN: Duration = Duration::from_millis(100);
/// Interval between queries of the route status.
pub const ROUTES_LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Most brokers of a tree that is run; each is at least one process.
pub const TREE_BROKERS_MAX: u32 = 256;
/// Most consumers of it.
pub const TREE_CONSUMERS_MAX: u32 = 4_096;
/// Messages sent one at a time to measure the latency to the last consumer of a tree.
pub const TREE_LATENCY_MESSAGES: usize = 100;
/// Fewest runs in a calibration, except with `--quick`: fewer give no interval.
pub const CALIBRATION_RUNS_MIN: u64 = 5;
/// Most trees compared with their predictions at once.
pub const LISTED_TREES_MAX: usize = 64;
/// Largest list of trees on standard input, in bytes.
pub const LISTED_BYTES_MAX: u64 = 16 << 20;
/// Most trees shown in the table of a plan.
pub const PLAN_ROWS_SHOWN_MAX: usize = 24;
/// Most routes shown in it.
pub const PLAN_ROUTES_SHOWN_MAX: usize = 32;
/// Largest profile file, in bytes.
pub const PROFILE_BYTES_MAX: u64 = 64 << 20;
/// Burst size of a rate-limited link: the minimum that `tbf` needs for offloaded segments, and what accumulates within a tick of
/// a 100 Hz kernel.
pub const LINK_BURST_BYTES_MIN: u64 = 128 << 10;
/// Queueing delay at such a link before it drops packets, in milliseconds.
pub const LINK_QUEUE_MS: u64 = 50;
/// Range of rates of such a link, in bits per second.
pub const LINK_BITS_PER_S: std::ops::RangeInclusive<u64> = 1_000_000..=100_000_000_000;
/// Longest simulated stream, in seconds of simulated time.
pub const SIMULATED_SECONDS_MAX: f64 = 3_600.0;
/// Largest limit of a simulated queue, in bytes.
pub const SIMULATED_QUEUE_BYTES_MAX: u64 = 1 << 40;

const _: () = assert!(load::limits::PROBE_BYTES < TREE_MESSAGE_BYTES_MIN);
