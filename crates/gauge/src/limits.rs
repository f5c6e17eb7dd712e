//! Limits of the instruments.

/// Largest latency that the histograms hold, in nanoseconds (larger ones count as this one).
pub const LATENCY_NS_MAX: u64 = 100_000_000_000;

/// Samples above a quantile that it takes to name it: p99 is shown from 1,000 samples on, p99.99 from 100,000.
pub const SAMPLES_ABOVE_MIN: f64 = 10.0;

/// Share of its processors above which a client is taken for the bottleneck, and its figures for INVALID.
pub const CLIENT_CORES_SHARE_MAX: f64 = 0.85;

/// In open loop, a message sent this much after its intended time counts as late, in nanoseconds.
pub const LATE_SEND_NS: u64 = 1_000_000;

/// Share of late messages above which an open-loop generator has fallen behind.
pub const LATE_SENDS_SHARE_MAX: f64 = 0.01;

/// Difference between the median rates of the two halves of a run, as a share of the median of all, above which it is not steady.
pub const DRIFT_MAX: f64 = 0.10;

/// Rates that a run must have before anything is said about its steadiness.
pub const STEADINESS_RATES_MIN: usize = 8;

/// Resamples of a bootstrap: the ends of a 95 % interval then lie on the 100th value from each side.
pub const RESAMPLES: usize = 4_000;

/// Runs below which a bootstrap says nothing that the range does not say better.
pub const BOOTSTRAP_RUNS_MIN: usize = 5;

/// Bytes that one answer of the kernel about its sockets may have.
pub(crate) const DIAG_ANSWER_BYTES: usize = 64 << 10;

const _: () = assert!(CLIENT_CORES_SHARE_MAX < 1.0 && LATE_SENDS_SHARE_MAX < 1.0);
const _: () = assert!(RESAMPLES >= 1_000);
/// Comparisons of two clocks that are kept.
pub const OFFSETS_KEPT: usize = 1_024;
