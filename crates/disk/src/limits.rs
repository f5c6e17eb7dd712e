//! Limits of a disk.
//!
//! Leaves: constants.

/// Requests that wait for a thread of a [`FileDisk`](crate::FileDisk). A log has one write, one segment in the making and a few
/// reads under way; where more come, they wait with their submitter.
pub const REQUESTS_MAX: usize = 64;

/// Buckets of the times of writes: up to 67 s, and one for all that is longer.
pub(crate) const WRITE_TIME_BUCKETS: usize = 101;

/// Bytes that are written at once when a segment is made.
pub(crate) const MAKE_BYTES: usize = 1 << 20;

/// How many times as long as other requests of a [`SimulatedDisk`](crate::SimulatedDisk) the making of a segment takes at most that is
/// not made of another one.
pub(crate) const SIMULATED_MAKE_FACTOR_MAX: u64 = 16;
