//! Sizes of the store's format and limits of what it holds in memory.
//!
//! Leaves: constants. Those of the format are part of it: another value is another format number.

/// The unit in which a log is written. A write begins and ends at a block, so that none touches a block that was synced.
pub const BLOCK_BYTES: usize = 4096;

/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 64;

/// A frame is closed when it holds this much: what one flipped bit can spoil, and what has to be read to have one message.
pub(crate) const FRAME_BYTES_TARGET: usize = 64 << 10;

/// Bytes of the largest frame, its header included. A body that does not fit is divided into parts.
pub const FRAME_BYTES_MAX: usize = 512 << 10;

/// Bytes of exchange, routing key, properties and `BCC` of one message. Content headers are smaller: each is one AMQP frame.
pub const MESSAGE_HEAD_BYTES_MAX: usize = 256 << 10;

/// Bytes of the largest body that is stored in one piece.
pub const WHOLE_BODY_BYTES_MAX: usize =
    FRAME_BYTES_MAX - FRAME_HEADER_BYTES - MESSAGE_HEAD_BYTES_MAX - RECORD_OVERHEAD_BYTES_MAX;

/// Bytes that a message takes in its frame beside its body and head: the records of queue and head, and numbers.
pub(crate) const RECORD_OVERHEAD_BYTES_MAX: usize = 128;

/// Bytes of the largest group: it is written by one call. Beyond some hundred KiB a larger one is hardly faster.
pub const GROUP_BYTES_MAX: usize = 1 << 20;

/// Messages that are alike and follow one another, from which number on a group notes them until it is written: a note takes less
/// than they do.
pub(crate) const ALIKE_MESSAGES_MIN: usize = 8;

/// Groups that wait until another one is written. With more, publishers are not read.
pub(crate) const GROUPS_WAITING_MAX: usize = 8;

/// Bytes of a segment, unless the operator says otherwise.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;

/// Bytes of the smallest segment.
pub const SEGMENT_BYTES_MIN: u64 = 4 << 20;

/// Bytes of the largest segment.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Segments made ahead. One: making takes a fraction of the time that filling takes.
pub(crate) const SPARE_SEGMENTS: usize = 1;

/// Segments made ahead of a log of messages. When no other can be made publishers are stopped, and what they had sent and
/// what consumers settle has capacity here.
pub const MESSAGE_SPARE_SEGMENTS: usize = 2;

/// Segments before the log's beginning that wait for the next one to say so. With more, the next one is begun at once.
pub const RETIRED_SEGMENTS_MAX: usize = 1;

/// Segments that are not needed any more and are kept to be made into the next ones.
pub const RECYCLABLE_SEGMENTS_MAX: usize = 1;

/// How long after a segment could not be made for lack of space it is tried again.
pub const NO_SPACE_RETRY_US: u64 = 1_000_000;

/// Segments that a log may have whatever is alive: with more, and more than twice what is alive, the oldest one is moved.
pub(crate) const SEGMENTS_UNMOVED: usize = 2;

/// Bytes that are read at once of a segment that is moved.
pub(crate) const MOVE_READ_BYTES: usize = 1 << 20;

/// Bytes of a moved segment that one group takes: what clients append is not behind more than that, as long as moving keeps pace.
pub(crate) const MOVE_GROUP_BYTES: usize = 256 << 10;

/// How many times as much it is at most, and is kept for it, once moving is behind: as much as clients append then, which is enough
/// for a segment of which half is alive.
pub(crate) const MOVE_SHARES_MAX: usize = 2;

/// How long nothing has been written before a mark is, which proves that the last group was durable.
pub const MARK_DELAY_US: u64 = 100_000;

/// How long records that nobody waits for may stay unwritten: what is settled before that is never written.
pub const LAZY_WRITE_US: u64 = 10_000;

/// Bytes of unwritten messages from which on they are written although nobody waits for them.
pub const LAZY_WRITE_BYTES: usize = 256 << 10;

/// Entries that a group made durable, from which on the next one may be held back: below, what a write costs is no burden, and who
/// waits for a few confirms waits for nothing else.
pub(crate) const HELD_ENTRIES_MIN: u64 = 64;

/// The share of what a group made durable that the next one is held back for. The rest comes while it is written.
pub(crate) const HOLD_SHARE: (u64, u64) = (3, 4);

/// How many groups are remembered whose publishers appended as much again in time.
pub(crate) const HOLD_SCORE_MAX: u8 = 16;

/// What one whose publishers did not takes off. Groups are held back from the same score on.
pub(crate) const HOLD_MISS_COST: u8 = 4;

/// Bytes of unwritten messages from which on those are not read who have added much to them.
pub const PENDING_BYTES_MAX: usize = 8 << 20;

/// Bytes of unwritten messages from which on nobody is read.
pub const PENDING_BYTES_HARD_MAX: usize = 2 * PENDING_BYTES_MAX;

/// Runs of settlements that are gathered before they are written, so that neighbours become one.
pub(crate) const SETTLEMENT_RUNS_MAX: usize = 256;

/// Bytes that messages leave in a group for the settlements that came before them.
pub(crate) const SETTLEMENT_RESERVE_BYTES: usize = SETTLEMENT_RUNS_MAX * RECORD_OVERHEAD_BYTES_MAX + 4 * BLOCK_BYTES;

/// Bytes by which a message counts in its segment beside its body.
pub const MESSAGE_OVERHEAD_BYTES: u64 = 16;

/// Bytes that are read at once to fetch messages: any group.
pub const FETCH_READ_BYTES: usize = 1 << 20;

/// Reads of fetches that are under way at a time. The disk of a log does one request after another: with more, groups would
/// wait longer for their turn.
pub(crate) const FETCH_READS_MAX: usize = 2;

/// Pieces that were read and are kept, with those that are being read: neighbouring fetches have groups in common.
pub const FETCH_PIECES_MAX: usize = 4;

/// How long pieces that were read are kept when nothing is fetched.
pub(crate) const FETCH_KEEP_US: u64 = 1_000_000;

/// Bytes that a scrub reads at once, unless a frame is larger: a write that comes meanwhile waits for no more than that.
pub const SCRUB_READ_BYTES: usize = 256 << 10;

/// How long after its start a log is scrubbed for the first time, if not sooner.
pub const SCRUB_BEGIN_US: u64 = 600_000_000;

/// How long a scrub waits at most for a moment at which nothing is written.
pub const SCRUB_PATIENCE_US: u64 = 1_000_000;

/// Runs of messages that a survey of damage names. Of others it says how many there are.
pub(crate) const LOST_RUNS_MAX: usize = 100_000;

/// Blocks after which the next frame begins another extent: what has to be read to have one message of a segment with a footer.
pub(crate) const EXTENT_BLOCKS: u32 = 64;

/// Bytes of the largest footer. A segment that would need a larger one has none, and is read at the next start.
pub const FOOTER_BYTES_MAX: usize = 8 << 20;

/// Bytes of the footers that a recovery makes for segments that had none. Others are read at the next start, too.
pub(crate) const FOUND_FOOTER_BYTES_MAX: usize = 16 << 20;

/// Messages of a page that a recovery restores.
pub const PAGE_MESSAGES_MAX: u64 = 4096;

/// Bytes of the messages of such a page, unless it is one message.
pub const PAGE_BYTES_MAX: u64 = 1 << 20;

/// Bytes that a scan reads at once.
pub(crate) const SCAN_BYTES: usize = 2 << 20;

const _: () = assert!(FRAME_BYTES_TARGET < FRAME_BYTES_MAX && FRAME_BYTES_MAX.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(WHOLE_BODY_BYTES_MAX > FRAME_BYTES_TARGET, "bodies of 64 KiB are stored in one piece");
const _: () = assert!(FRAME_BYTES_MAX <= GROUP_BYTES_MAX && GROUP_BYTES_MAX.is_multiple_of(BLOCK_BYTES));
const _: () =
    assert!(SEGMENT_BYTES_MIN >= 2 * (GROUP_BYTES_MAX + BLOCK_BYTES) as u64, "a segment holds more than one group");
const _: () =
    assert!(SEGMENT_BYTES_MAX / BLOCK_BYTES as u64 <= u32::MAX as u64, "blocks of a segment are counted in 32 bits");
const _: () =
    assert!(SETTLEMENT_RESERVE_BYTES + FRAME_BYTES_MAX <= GROUP_BYTES_MAX, "an empty group takes any message");
const _: () = assert!(PENDING_BYTES_MAX >= GROUP_BYTES_MAX && LAZY_WRITE_BYTES <= GROUP_BYTES_MAX);
const _: () = assert!(
    MOVE_READ_BYTES >= FRAME_BYTES_MAX + BLOCK_BYTES && MOVE_READ_BYTES.is_multiple_of(BLOCK_BYTES),
    "any frame can be moved"
);
const _: () = assert!(GROUP_BYTES_MAX <= FETCH_READ_BYTES && FETCH_READ_BYTES.is_multiple_of(BLOCK_BYTES));
const _: () =
    assert!(EXTENT_BLOCKS as usize * BLOCK_BYTES + FRAME_BYTES_MAX <= FETCH_READ_BYTES, "any extent is read at once");
const _: () = assert!(FETCH_READS_MAX < FETCH_PIECES_MAX);
const _: () = assert!(SCRUB_READ_BYTES.is_multiple_of(BLOCK_BYTES) && SCRUB_READ_BYTES != MOVE_READ_BYTES);
const _: () = assert!(
    SCAN_BYTES >= FRAME_BYTES_MAX + BLOCK_BYTES,
    "a frame that begins in a piece is read whole at the second try"
);
const _: () = assert!(FOUND_FOOTER_BYTES_MAX >= FOOTER_BYTES_MAX, "the last segment of a life gets a footer");
