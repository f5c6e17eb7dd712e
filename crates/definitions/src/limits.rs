//! Limits of definitions files.
//!
//! Leaves: constants.
//! Owns:   what is read at most.

/// Bytes of a file: a million queues with bindings have about a half of it.
pub const FILE_BYTES_MAX: usize = 512 << 20;

/// Faults that are told at once; there may be one for each of many queues.
pub const FAULTS_MAX: usize = 100;
