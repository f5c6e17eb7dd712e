//! The limits of the broker core.

use queues::limits::THROTTLE_BYTES;

/// Units of work that one turn does before others have theirs: some milliseconds. A turn of small messages from one connection
/// stays below it.
pub const WORK_PER_TURN: u32 = 1 << 15;
/// Units of work of what a client asks of a queue, beside what is done for it: a passive declaration, a `basic.get` of an empty
/// queue, a consumer that comes or goes.
pub const QUEUE_REQUEST_WORK: usize = 8;
/// Units of work of a consumer that comes, in the tables of its channel.
pub(crate) const CONSUMER_ADDITION_WORK: usize = 8;
/// Units of work of a consumer that leaves its queue and its channel.
pub(crate) const CONSUMER_REMOVAL_WORK: usize = 8;

/// Units of work of a channel that is opened or closed, or of what is refused.
pub(crate) const OUTCOME_WORK: usize = 8;
/// Units of work of a method other than those that settle deliveries, beside what it has done.
pub(crate) const METHOD_WORK: usize = 2;
/// Units of work of a channel that is closed, beside its consumers and deliveries.
pub(crate) const CHANNEL_REMOVAL_WORK: usize = 4;
/// Units of work of a publish that is committed, beside those of its route and queues.
pub const COMMITTED_PUBLISH_WORK: usize = 4;
/// Units of work to close a channel whose acknowledgements are overdue, and to tell its client.
pub(crate) const OVERDUE_CHANNEL_WORK: usize = 64;
/// Messages that were settled on another shard and are counted here for one unit of work.
pub(crate) const SETTLED_PER_WORK: usize = 8;
/// Consumers that are asked beyond the budget of a turn, in all its queues, whether they accept a message that its queue does not
/// keep.
pub const CONSUMERS_ASKED_BEYOND_MAX: usize = 1_024;
/// Units of work to tell a client that its connection is blocked or continues: the send that follows is another for each.
pub(crate) const NOTICE_WORK: usize = 64;
/// Units of work to tell a client that a consumer was cancelled.
pub(crate) const CANCEL_NOTICE_WORK: usize = 2;
/// Units of work of a definition beside those that the catalog counts: it is checked, copied and kept in several tables, some
/// 5 µs among a million others.
pub(crate) const DEFINITION_WORK: usize = 20;
/// Quotas of virtual hosts that are looked at for one unit of work with each definition.
pub(crate) const QUOTAS_PER_WORK: usize = 8;
/// Messages that a queue on another shard may have sent ahead to one consumer before it is granted more credit.
pub const REMOTE_WINDOW_MESSAGES: u32 = 4_096;
/// Bytes of small messages that one batch carries before it is sent without waiting for the end of the tick.
pub const BATCH_BYTES: usize = 64 * 1024;
/// Messages between shards that one batch carries before it is sent.
pub const BATCH_MESSAGES: usize = 512;
/// Small messages with one head that one message between shards carries, each for one queue; for several queues fewer.
pub(crate) const PACKED_MESSAGES_MAX: u32 = 4_096;
/// Bodies up to this size travel between shards as bytes in the batch; larger messages travel as references.
pub(crate) const INLINE_BODY_BYTES_MAX: usize = 1_024;
/// Numbers of channels, beyond twice as many as a session has open, up to which its channels are found by an index.
pub(crate) const CHANNEL_NUMBERS_SPARE: usize = 16;
pub(crate) const CONSUMERS_PER_CHANNEL_MAX: usize = 65_536;
/// Entries of a list of waiting consumers at which those that have left are removed for the first time.
pub(crate) const WAITING_CONSUMERS_CHECKED_MIN: usize = 64;
/// Messages and acknowledgements that one transaction may hold before it is refused.
pub(crate) const TRANSACTION_ITEMS_MAX: usize = 1 << 20;
/// Publishes that are told to be refused with one flush: a fifth of a millisecond.
pub(crate) const REFUSALS_PER_FLUSH: usize = 2_048;
/// Deliveries that one operation of a transaction settles: a commit that is divided stops between operations.
pub(crate) const TRANSACTION_SETTLED_PER_OPERATION: usize = 256;
/// Definitions of one connection that are sent to shard 0 together.
pub const DEFINITIONS_PER_BATCH_MAX: usize = 1_024;
/// Bytes of arguments that changes of definitions may have that wait for a copy of the definitions: more are refused.
pub const HELD_DEFINITION_BYTES_MAX: usize = 16 << 20;
/// Changes of definitions that are not durable, up to which connections whose clients await no reply go on: a few groups of the
/// journal, so that one is written while the next is gathered.
pub const DEFINITIONS_UNDURABLE_MAX: u64 = 16 * DEFINITIONS_PER_BATCH_MAX as u64;
/// Publishes of another shard for queues whose declaration has not arrived here yet. At this limit, what follows from that shard
/// is held back until the declaration has come.
pub(crate) const EARLY_PUBLISHES_MAX: usize = 1 << 16;
/// Bytes that a queue's consumers must take while a publisher is throttled. If they take less, throttling is in vain: the
/// publisher has other queues to feed, and this one accepts `THROTTLE_BYTES` more before it throttles again.
pub(crate) const THROTTLE_PROGRESS_BYTES_MIN: u64 = THROTTLE_BYTES / 16;
/// Microseconds that a queue keeps expired messages when the queue of its dead letters has grown by `THROTTLE_BYTES` and waits for
/// the outputs of its consumers.
pub const DEAD_LETTER_THROTTLE_US: u64 = 1_000;
/// Bytes of the bodies of dead letters that go to their consumers at once, as a run.
pub(crate) const DEAD_LETTER_RUN_BYTES_MAX: usize = 32 * 1024;
/// Bytes that the list of these bodies keeps for the next run.
pub(crate) const DEAD_LETTER_RUN_BYTES_KEPT: usize = 4 * 1024;
/// Entries of a message's headers that one unit of work copies.
pub(crate) const HEADERS_PER_WORK: usize = 4;
/// Bytes of a dead letter's properties unless [`Broker::set_properties_bytes_max`](crate::Broker::set_properties_bytes_max) says
/// otherwise: with the frame and what else is in it, they fit the frames that are proposed to clients.
pub(crate) const DEAD_LETTER_PROPERTIES_BYTES_MAX: usize = 127 * 1024;
/// Bytes that dead letters leave of a frame, for a stamp or a delivery count.
pub(crate) const DEAD_LETTER_SLACK_BYTES: usize = 256;
/// Messages that the exchanges of one shard delay at once. One more is refused as by a full queue; the broker's memory limit, which
/// counts them, is reached first unless they are very small.
pub(crate) const DELAYED_MESSAGES_MAX: usize = 1 << 24;
/// Delayed messages that are routed before others have their turn.
pub(crate) const DELAYED_PER_CHECK: usize = 4_096;
/// Bytes of an admin request's body. Answers may be longer.
pub(crate) const ADMIN_REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Channels that a connection may open while memory is scarce: as many as a consumer needs. They are told by their
/// numbers, which clients give from 1 on.
pub(crate) const SCARCE_CHANNELS_MAX: usize = 4;
/// Consumers that a channel may have for another one to be let in while memory is scarce.
pub(crate) const SCARCE_CONSUMERS_MAX: usize = 4;
/// Bindings of a queue, the newest first, among which one that is declared again while memory is scarce is looked for.
pub(crate) const BINDINGS_COMPARED_MAX: usize = 64;
/// A full queue accepts publishers again when it has drained to this many tenths of its limit.
pub(crate) const QUEUE_RESUME_TENTHS: u64 = 8;

/// Consumers whose permission is reviewed at a time, after users have lost some: a millisecond's work.
pub(crate) const CONSUMERS_REVIEWED_MAX: usize = 1024;

const _: () = assert!(INLINE_BODY_BYTES_MAX * 4 <= BATCH_BYTES);
const _: () = assert!(REMOTE_WINDOW_MESSAGES >= 2);
// Publishes that travel together wait together.
const _: () = assert!(PACKED_MESSAGES_MAX as usize <= EARLY_PUBLISHES_MAX);
/// Places of a table that are looked at for one unit of work of a report.
pub(crate) const PLACES_PER_WORK: usize = 8;
/// Free places of the table of channels that a check for overdue acknowledgements passes for one unit of work.
pub(crate) const PLACES_PER_CHECK_WORK: usize = 64;
/// Deliveries to consumers of which the latency of one is measured, on average.
pub const DELIVERIES_PER_SAMPLE: u32 = 1024;
/// Consumers of a queue that a report looks at to say why its messages wait.
pub(crate) const CONSUMERS_REPORTED_MAX: usize = 64;
