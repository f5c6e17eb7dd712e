//! Limits of trees.

/// Levels of brokers: no real deployment has as many hops.
pub const LEVELS_MAX: usize = 32;
pub const NODES_MAX: u32 = 100_000_000;
pub const NOTATION_BYTES_MAX: usize = 512;
