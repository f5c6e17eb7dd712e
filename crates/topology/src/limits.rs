//! Limits of trees.
//!
//! Leaves: numbers with units.
//! Owns:   how large a tree may be.
//! Never:  changes while the program runs.

/// Levels of brokers: so many hops does nothing real have.
pub const LEVELS_MAX: usize = 32;
/// Brokers and consumers of a tree together.
pub const NODES_MAX: u32 = 100_000_000;
/// Bytes of a notation.
pub const NOTATION_BYTES_MAX: usize = 512;
