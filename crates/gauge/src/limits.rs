//! Limits of the instruments.
//!
//! Enters: nothing.  Leaves: named bounds.
//! Owns:   the numbers.
//! Never:  a default that a user may set.

/// Largest latency that the histograms hold, in nanoseconds (larger ones count as this one).
pub const LATENCY_NS_MAX: u64 = 100_000_000_000;
