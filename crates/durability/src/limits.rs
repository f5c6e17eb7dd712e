//! Limits of what waits for disks, of the journal of definitions, and of what is said about losses.

/// Bytes of a segment of the journal of definitions: a few thousand definitions that come one by one, or some hundred thousand
/// that come together.
pub(crate) const JOURNAL_SEGMENT_BYTES: u64 = 8 << 20;
/// Bytes by which the journal of definitions grows, at least, before it is begun anew with a snapshot.
pub const JOURNAL_GROWTH_BYTES_MIN: u64 = 64 << 20;
/// By how many times the bytes of its last snapshot it grows.
pub(crate) const JOURNAL_GROWTH_FACTOR: u64 = 4;
/// Bytes of a snapshot that wait for the disk: definitions that clients wait for stand behind them.
pub(crate) const SNAPSHOT_PENDING_BYTES_MAX: usize = 256 << 10;
/// How long after there was no space for a segment of the journal another one is tried to be made.
pub const JOURNAL_RETRY_US: u64 = 1_000_000;
/// Queues that may have been declared in one life of a broker, and lost with it. Numbers of queues have 62 bits: they last for a
/// billion lives.
pub(crate) const LOST_QUEUE_UIDS_MAX: u64 = 1 << 32;
/// Tickets of a log that wait for definitions to become durable. Beyond that number earlier ones wait for those of later ones.
pub(crate) const GATED_TICKETS_MAX: usize = 64;
/// How often a shard asks its disk for the free space, while it writes or there is too little.
pub(crate) const DISK_CHECK_INTERVAL_US: u64 = 1_000_000;
/// Bytes of messages that a shard reads before it begins, whatever memory there is: a tenth of a second's reading.
pub(crate) const RECOVERY_LOADED_BYTES_MAX: u64 = 128 << 20;
/// Bytes that a message takes beside its body, about: exchange, routing key, properties. What a page has is not read for them.
pub(crate) const PAGED_MESSAGE_OVERHEAD_BYTES: u64 = 64;
/// Pages that are read at a time: what the logs have of them waits in memory until it is their turn.
pub(crate) const PAGE_READS_MAX: usize = 4;
/// The part of the bytes that must be read for a page which its messages have at least: otherwise they are written once more,
/// together.
pub(crate) const SPILL_SHARE_DIVISOR: u64 = 4;
/// Ranges of lost messages that a line names, and lines that an error and the log have about a damaged log. The others are
/// counted; `harrier store check` has every line.
pub(crate) const LOST_RANGES_NAMED_MAX: usize = 100;
pub(crate) const LOSSES_IN_ERROR_MAX: usize = 10;
pub(crate) const LOSSES_LOGGED_MAX: usize = 1_000;

// A piece of the journal is one record of the log.
const _: () = assert!(definitions::limits::JOURNAL_PIECE_BYTES_MAX <= store::limits::MESSAGE_HEAD_BYTES_MAX);
const _: () = assert!(JOURNAL_SEGMENT_BYTES >= store::limits::SEGMENT_BYTES_MIN);
