//! The simulation's limits.
//!
//! Leaves: constants.
//! Owns:   how large a run may grow, and when it counts as stuck.
//! Never:  a limit without a unit in its name.

use broker::limits::{BATCH_BYTES, REMOTE_WINDOW_MESSAGES};
use shard::limits::MAILBOX_BATCHES;
use store::limits::{
    FETCH_PIECES_MAX, FETCH_READ_BYTES, FRAME_BYTES_MAX, GROUP_BYTES_MAX, MESSAGE_SPARE_SEGMENTS,
    RECYCLABLE_SEGMENTS_MAX, RETIRED_SEGMENTS_MAX, SCRUB_READ_BYTES,
};

/// Bytes of the heap that a shard at rest holds beside its definitions and lists of messages: connections, channels, consumers,
/// and the capacity that tables and lists keep.
pub(crate) const SHARD_HEAP_BYTES_MAX: usize = 256 << 10;
/// The same when all clients and definitions are gone: capacity alone.
pub(crate) const SHARD_HEAP_BYTES_LEFT_MAX: usize = 64 << 10;
/// What each of the logs of a shard with a store has beside: groups that are filled, written and kept for later, and pieces of
/// it that were read and are kept.
pub(crate) const LOG_HEAP_BYTES_MAX: usize =
    4 * GROUP_BYTES_MAX + (FETCH_PIECES_MAX + 1) * FETCH_READ_BYTES + SCRUB_BUFFER_BYTES_MAX;
/// What a scrub reads into.
const SCRUB_BUFFER_BYTES_MAX: usize =
    if SCRUB_READ_BYTES > FRAME_BYTES_MAX { SCRUB_READ_BYTES } else { FRAME_BYTES_MAX };
/// Segments of a log of messages of which nothing is alive: the one that is written, those made ahead, one that is given back
/// when another one begins, and one that the next one is made of; and as many again as a life may have left which must stay
/// until a header says where the log begins.
pub(crate) const EMPTY_LOG_SEGMENTS_MAX: usize =
    1 + 2 * MESSAGE_SPARE_SEGMENTS + RETIRED_SEGMENTS_MAX + RECYCLABLE_SEGMENTS_MAX;
/// What a broker with federation links has beside: stamps, and what it had allocated for dials that others have made.
pub(crate) const FEDERATION_HEAP_BYTES_MAX: usize = 128 << 10;
/// Bytes of the heap that the batches between two shards keep: messages and the bytes of small bodies.
pub(crate) const MAILBOX_HEAP_BYTES_MAX: usize = MAILBOX_BATCHES * 2 * BATCH_BYTES;
/// Units of work by which a turn may exceed its budget: more than the largest step that is not divided (`docs/bounded-work.md`)
/// where there are as few messages as here. What was sent ahead to a consumer that leaves returns in one (2,710 units were seen in
/// 30,000 seeds), and 256 messages expire in one.
pub(crate) const WORK_BEYOND_BUDGET_MAX: u64 = REMOTE_WINDOW_MESSAGES as u64 + 512;
/// Rounds without actions after which everything must have come to rest: many, if thousands of messages are large and a disk
/// is slow.
pub(crate) const REST_ROUNDS_MAX: u32 = 1_000_000;
/// Rounds that a request may take from one event to the next: many, if megabytes are ahead of it on a link of a few bytes, or
/// several requests in a row take seconds of a disk.
pub(crate) const PATIENCE_ROUNDS: u32 = 150_000;
/// Rounds in which every client must have learnt that its broker ends.
pub(crate) const ENDING_ROUNDS_MAX: u32 = PATIENCE_ROUNDS;
/// Rounds for which a broker that ends waits for the last connections.
pub(crate) const LEAVING_ROUNDS_MAX: u32 = 300;
/// Rounds in which nothing moves, with time going on, after which the system counts as at rest.
pub(crate) const REST_QUIET_ROUNDS: u32 = 12;
/// Time that passes in a quiet round, in microseconds: more than any timer of a shard but heartbeats.
pub(crate) const REST_QUIET_STEP_US: u64 = 25_000;
/// Bytes of the buffer that clients read into.
pub(crate) const SCRATCH_BYTES: usize = 512 * 1024;
/// Lines of the trace that a failure shows.
pub const TRACE_LINES_SHOWN: usize = 200;
/// Queues alive at once.
pub(crate) const QUEUES_MAX: usize = 14;
/// Consumers of one channel.
pub(crate) const CONSUMERS_MAX: usize = 4;
/// Channels of one connection.
pub(crate) const CHANNELS_MAX: usize = 3;
