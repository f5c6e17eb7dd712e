//! What the logs of a durable store have written and hold: for `harrier_store_` metrics.
//!
//! Owns: the form in which a source gives it. Counts are since the start; times are whole microseconds.

use crate::time_counts::TimeCounts;

/// A log, with its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// The thread that has it.
    pub shard: u16,
    /// What is in it: `messages`, `spill`, `definitions`.
    pub log: &'static str,
    pub messages_written: u64,
    /// Groups that were written and made durable as one, their bytes, and how long each took.
    pub groups_written: u64,
    pub bytes_written: u64,
    pub writes: TimeCounts,
    /// What was written again so that the disk got space back.
    pub messages_moved: u64,
    pub bytes_moved: u64,
    /// Requests that waited until they were durable.
    pub syncs: u64,
    pub sync_us: u64,
    pub reads: u64,
    pub bytes_read: u64,
    pub read_us: u64,
    /// Segments that were made; those that the log consists of, and those made ahead.
    pub segments_made: u64,
    pub segments: u64,
    pub spare_segments: u64,
    /// Bytes of the segments, of the live messages in them, and of what waits for the disk.
    pub log_bytes: u64,
    pub live_bytes: u64,
    pub pending_bytes: u64,
    /// Bytes that were read to find damage, of these in the pass under way, and passes that have ended.
    pub bytes_scrubbed: u64,
    pub scrub_pass_bytes: u64,
    pub scrubs: u64,
    /// Places that were found to be damaged.
    pub damage_found: u64,
}
