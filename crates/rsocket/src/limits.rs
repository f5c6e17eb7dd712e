//! Limits of the rsocket room.
//!
//! Leaves: constants.
//! Owns:   their values.
//! Never:  reads a setting.

/// Most parts that one call gathers.
pub const GATHER_PARTS_MAX: usize = 64;
/// Bodies below this many bytes are copied between the heads: an rsocket copies all that it sends in any case.
pub const COPY_BELOW_BYTES: usize = 4_096;
/// Longest wait that has an end, in milliseconds: a day. Who waits longer is asked again.
pub const WAIT_MS_MAX: u64 = 86_400_000;
