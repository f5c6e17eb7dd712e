//! Limits of the management thread.

/// Pieces of reports that wait for the management thread; the reader of reports waits then, and no shard does.
pub const REPORTS_WAITING_MAX: usize = 64;
