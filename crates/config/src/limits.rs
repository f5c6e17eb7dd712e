//! The bounds of settings, and of the file they come from.
//!
//! Leaves: constants.
//! Owns:   what an operator may ask for at least and at most.

/// Bytes of a configuration file.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Bytes of a name of a vhost, user or tag: names travel as short strings (AMQP 0-9-1 §4.2.5.3).
pub const NAME_BYTES_MAX: usize = 255;

/// Bytes of a password; the broker compares no longer ones.
pub const PASSWORD_BYTES_MAX: usize = 4096;

/// The most that the bytes waiting in a virtual host may be limited to: what no machine has.
pub(crate) const MAX_QUEUE_BYTES_MOST: u64 = 1 << 50;

/// Bytes of a setting that is text.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;

/// Items of a setting that is a list.
pub(crate) const LIST_ITEMS_MAX: usize = 256;

/// Threads. Each pair of them has rings of mail, so that their number counts twice.
pub(crate) const SHARDS_MAX: u64 = 256;

/// The least that a frame bound may be (AMQP 0-9-1 §4.2.3).
pub const FRAME_BYTES_LEAST: u64 = 4096;

/// The most that a frame bound may be: methods and headers are buffered whole.
pub const FRAME_BYTES_MOST: u64 = 16 << 20;

/// The most that the bound of a message may be, RabbitMQ's too.
pub const MESSAGE_BYTES_MOST: u64 = 512 << 20;

/// The least memory limit. A broker with less would hold everybody back at once.
pub(crate) const MEMORY_LIMIT_BYTES_LEAST: u64 = 1 << 20;

/// The least and the most messages that a client over RDMA may have on their way: what its protocol can count.
pub const RDMA_CREDITS_LEAST: u64 = 12;
/// See [`RDMA_CREDITS_LEAST`].
pub const RDMA_CREDITS_MOST: u64 = 1 << 14;

/// The least and the most bytes of a receive buffer for RDMA: what its protocol needs, and what a message's length can say.
pub const RDMA_RECEIVE_BUFFER_BYTES_LEAST: u64 = 256;
/// See [`RDMA_RECEIVE_BUFFER_BYTES_LEAST`].
pub const RDMA_RECEIVE_BUFFER_BYTES_MOST: u64 = (1 << 24) - 1;

/// The longest spin before sleeping. Beyond it a sleeping thread would be cheaper in every respect.
pub(crate) const SPIN_US_MAX: u64 = 1000;

/// The longest that a time in seconds may be.
pub(crate) const TIME_S_MAX: u64 = 3600;

const _: () = assert!(FRAME_BYTES_LEAST <= FRAME_BYTES_MOST && MEMORY_LIMIT_BYTES_LEAST <= MESSAGE_BYTES_MOST);

/// The least and the most bytes of a segment: what the store's format can have.
pub const SEGMENT_BYTES_LEAST: u64 = 4 << 20;
/// See [`SEGMENT_BYTES_LEAST`].
pub const SEGMENT_BYTES_MOST: u64 = 1 << 30;

/// The most that the free space on a disk may have to be: what no disk has.
pub(crate) const DISK_FREE_LIMIT_MOST: u64 = 1 << 50;
/// The least that it has to be, unless it is configured: others write to the same disk, too.
pub(crate) const DISK_FREE_LIMIT_LEAST_DEFAULT: u64 = 1 << 30;

/// Milliseconds that a delivery may wait for its acknowledgement, at most: ten years, like RabbitMQ's other times.
pub(crate) const CONSUMER_TIMEOUT_MS_MAX: u64 = 315_360_000_000;

/// The shortest time between two syncs of a log: a shorter one is a sync for each write, which `always` does better.
pub(crate) const STORE_SYNC_US_LEAST: u64 = 1_000;
/// The longest: what a power failure takes.
pub(crate) const STORE_SYNC_US_MOST: u64 = 10_000_000;

/// The longest that messages are held back for a larger write: what nobody waits for is written after as long.
pub const STORE_GROUP_US_MAX: u64 = 10_000;

/// The most seconds between two scrubs of the store: ten years.
pub(crate) const STORE_SCRUB_INTERVAL_S_MAX: u64 = 315_360_000;

/// The fewest bytes a second that a scrub may be held to: a segment in a quarter of an hour.
pub(crate) const STORE_SCRUB_RATE_LEAST: u64 = 64 << 10;

/// The most.
pub(crate) const STORE_SCRUB_RATE_MOST: u64 = 1 << 40;
