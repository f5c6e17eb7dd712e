//! What a log has written since its writer began, and what it holds.

/// The numbers of a log. Counts begin with the life of its writer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogMetrics {
    /// Messages that were put into groups, those that were moved not included.
    pub messages_written: u64,
    /// Groups with records that are durable.
    pub groups_written: u64,
    /// Marks that are durable: groups without records.
    pub marks_written: u64,
    /// Bytes of those groups and marks: whole blocks, with the headers of segments.
    pub bytes_written: u64,
    /// Messages that were written again so that their segments could be given back.
    pub messages_moved: u64,
    /// Bytes of those.
    pub bytes_moved: u64,
    /// Messages that were read back for their queues.
    pub messages_fetched: u64,
    /// Bytes of sealed segments that were read to find damage, and how often all of them were.
    pub bytes_scrubbed: u64,
    pub scrubs_done: u64,
    /// Bytes that were read in the pass under way; zero between two passes.
    pub scrub_pass_bytes: u64,
    /// Places that were found to be damaged.
    pub damage_found: u64,
    /// Segments that the log consists of.
    pub segments_in_use: u64,
    /// Segments made ahead.
    pub segments_spare: u64,
    /// Bytes of the segments that the log consists of.
    pub log_bytes: u64,
    /// Bytes of the messages in it that are alive.
    pub live_bytes: u64,
    /// Bytes that wait for the disk.
    pub pending_bytes: u64,
}
