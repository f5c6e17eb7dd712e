//! Limits of the instruments.

/// Largest latency of the histograms, in nanoseconds; larger ones count as this one.
pub const LATENCY_NS_MAX: u64 = 100_000_000_000;

/// Samples required above a quantile: p99 needs 1,000 samples, p99.99 needs 100,000.
pub const SAMPLES_ABOVE_MIN: f64 = 10.0;

/// Share of its processors above which a client is considered the bottleneck, and its figures INVALID.
pub(crate) const CLIENT_CORES_SHARE_MAX: f64 = 0.85;

/// In open loop, a message sent this much after its intended time counts as late, in nanoseconds.
pub const LATE_SEND_NS: u64 = 1_000_000;

/// Share of late messages above which an open-loop generator has fallen behind.
pub(crate) const LATE_SENDS_SHARE_MAX: f64 = 0.01;

/// Difference between the median rates of a run's halves, relative to the overall median, above which the run is not steady.
pub(crate) const DRIFT_MAX: f64 = 0.10;

/// Rates required to judge steadiness.
pub(crate) const STEADINESS_RATES_MIN: usize = 8;

/// Resamples of a bootstrap: the ends of a 95 % interval are then the 100th values from both sides.
pub(crate) const RESAMPLES: usize = 4_000;

/// Runs below which a bootstrap is no better than the range.
pub const BOOTSTRAP_RUNS_MIN: usize = 5;

/// Largest netlink message in the kernel's answer.
pub(crate) const DIAG_ANSWER_BYTES: usize = 64 << 10;

const _: () = assert!(CLIENT_CORES_SHARE_MAX < 1.0 && LATE_SENDS_SHARE_MAX < 1.0);
const _: () = assert!(RESAMPLES >= 1_000);
