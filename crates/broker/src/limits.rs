//! The limits of the broker core.

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

/// Units of work to close a channel whose acknowledgements are overdue, and to tell its client.
pub(crate) const OVERDUE_CHANNEL_WORK: usize = 64;
/// Messages that were settled on another shard and are counted here for one unit of work.
pub(crate) const SETTLED_PER_WORK: usize = 8;
/// Consumers that are asked beyond the budget of a turn whether they accept a message that their queue does not keep.
pub const CONSUMERS_ASKED_BEYOND_MAX: usize = 1_024;
/// Units of work to tell a client that its connection is blocked or continues: the send that follows is another for each.
pub(crate) const NOTICE_WORK: usize = 64;
/// Units of work to tell a client that a consumer was cancelled.
pub(crate) const CANCEL_NOTICE_WORK: usize = 2;
/// Units of work of a definition beside those that the catalog counts: it is checked, copied and kept in several tables.
pub(crate) const DEFINITION_WORK: usize = 10;
/// Quotas of virtual hosts that are looked at for one unit of work with each definition.
pub(crate) const QUOTAS_PER_WORK: usize = 8;
/// The part of the budget that a publish may use beyond it rather than be left for another turn: a thirty-second.
pub(crate) const WORK_GRACE_DIVISOR: u32 = 32;
/// Messages that a queue on another shard may have sent ahead to one consumer before it is granted more credit.
pub const REMOTE_WINDOW_MESSAGES: u32 = 4_096;
/// Bytes that a queue on another shard may have sent ahead to one consumer.
pub(crate) const REMOTE_WINDOW_BYTES: i64 = 1 << 20;
/// Bytes of small messages that one batch carries before it is sent without waiting for the end of the tick.
pub const BATCH_BYTES: usize = 64 * 1024;
/// Messages between shards that one batch carries before it is sent.
pub const BATCH_MESSAGES: usize = 512;
/// Small messages with one head that one message between shards carries, each for one queue; for several queues fewer.
pub(crate) const PACKED_MESSAGES_MAX: u32 = 4_096;
/// Bodies up to this size travel between shards as bytes in the batch; larger messages travel as references.
pub(crate) const INLINE_BODY_BYTES_MAX: usize = 1_024;
/// A body of at least this many bytes that goes to several queues is copied once, into memory that all of them share.
pub(crate) const SHARED_BODY_BYTES_MIN: usize = 4_096;
/// Numbers of channels, beyond twice as many as a session has open, up to which its channels are found by an index.
pub(crate) const CHANNEL_NUMBERS_SPARE: usize = 16;
/// Slots of one page of the tables of channels and consumers: a page that has been full and is empty returns its memory.
pub(crate) const PAGE_SLOTS: usize = 64;
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
/// Changes of definitions that are not durable, up to which connections whose clients await no reply go on: a few groups of the
/// journal, so that one is written while the next is gathered.
pub const DEFINITIONS_UNDURABLE_MAX: u64 = 16 * DEFINITIONS_PER_BATCH_MAX as u64;
/// Publishes of another shard for queues whose declaration has not arrived here yet. At this limit, what follows from that shard
/// is held back until the declaration has come.
pub(crate) const EARLY_PUBLISHES_MAX: usize = 1 << 16;
/// Bytes waiting in a queue, for consumers whose outputs are full, at which its publishers are throttled: the consumers catch up,
/// so that messages stay in the cache. A queue that nobody empties accepts more all the same.
pub const THROTTLE_BYTES: u64 = 4 << 20;
/// Bytes that a queue's consumers must take while a publisher is throttled. If they take less, throttling is in vain: the
/// publisher has other queues to feed, and this one accepts `THROTTLE_BYTES` more before it throttles again.
pub(crate) const THROTTLE_PROGRESS_BYTES_MIN: u64 = THROTTLE_BYTES / 16;
/// Bytes that limits add to each waiting message for its block and its entry in the list.
pub(crate) const MESSAGE_OVERHEAD_BYTES: u64 = 72;
/// Expired messages that a queue drops before others have their turn: so few that as dead letters they fit into an output and
/// leave with the next flush.
pub(crate) const EXPIRED_PER_CHECK: usize = 256;
/// Microseconds that a queue keeps expired messages when the queue of its dead letters has grown by `THROTTLE_BYTES` and waits for
/// the outputs of its consumers.
pub const DEAD_LETTER_THROTTLE_US: u64 = 1_000;
/// Dead letters of one shard that wait to be routed. Clients that cause them wait before there are so many; what other shards
/// cause beyond is dropped and counted, as dead letters without confirms may be.
pub(crate) const DEAD_LETTERS_PENDING_MAX: usize = 1 << 20;
/// Bytes of the bodies of dead letters that go to their consumers at once, as a run.
pub(crate) const DEAD_LETTER_RUN_BYTES_MAX: usize = 32 * 1024;
/// Bytes that the list of these bodies keeps for the next run.
pub(crate) const DEAD_LETTER_RUN_BYTES_KEPT: usize = 4 * 1024;
/// Units of work of a dead letter beside those of its queues and its properties.
pub const DEAD_LETTER_WORK: usize = 4;
/// Bytes of properties that one unit of work writes anew: of a dead letter, or of a message with a count of its returns.
pub const PROPERTIES_BYTES_PER_WORK: usize = 128;
/// Bytes of properties that one unit of work copies to the output of a consumer.
pub const PROPERTIES_BYTES_COPIED_PER_WORK: usize = 1_024;
/// Units of work of an entry of `x-death` that a message has when it dies: it is read, compared with the others and written.
pub const DEATH_HISTORY_ENTRY_WORK: usize = 2;
/// Entries of a message's headers that one unit of work copies.
pub(crate) const HEADERS_PER_WORK: usize = 4;
/// Capacity, in dead letters, that their list keeps when it runs empty.
pub(crate) const DEAD_LETTERS_CAPACITY_KEPT: usize = 1_024;
/// Properties up to this many bytes are compared with those of the last dead letter, whose history serves equal ones again. Longer
/// ones are rarely equal.
pub(crate) const DEATH_CACHE_PROPERTIES_BYTES_MAX: usize = 256;
/// Holes in a channel's list of unsettled deliveries, beyond as many as there are deliveries, at which the old ones move to a map.
pub(crate) const LEDGER_HOLES_MIN: usize = 1_024;
/// Entries of that list that are looked at with one new delivery, to move them: a twentieth of a millisecond.
pub(crate) const LEDGER_MOVES_MAX: usize = 512;
/// Bytes of a message's deaths (`x-death`). The oldest are left out beyond it; if no consumer has rejected the message since, it has
/// died of itself in hundreds of queues, and is dropped as in a cycle.
pub const DEATH_HISTORY_BYTES_MAX: usize = 32 * 1024;
/// Bytes of a dead letter's properties unless [`Broker::set_properties_bytes_max`](crate::Broker::set_properties_bytes_max) says
/// otherwise: with the frame and what else is in it, they fit the frames that are proposed to clients.
pub(crate) const DEAD_LETTER_PROPERTIES_BYTES_MAX: usize = 127 * 1024;
/// Bytes that dead letters leave of a frame, for a stamp or a delivery count.
pub(crate) const DEAD_LETTER_SLACK_BYTES: usize = 256;
/// Items of one chunk of a list of waiting or unsettled messages.
pub(crate) const CHUNK_ITEMS: usize = 1_024;
/// A list that runs empty returns its memory if it has capacity for more items than this.
pub(crate) const EMPTY_CHUNK_ITEMS_KEPT: usize = 256;
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
/// Messages of one page: as many leave the memory at once, and are asked for again at once.
pub(crate) const PAGE_MESSAGES_MAX: usize = 4_096;
/// Bytes of the messages of one page, unless one message is larger.
pub(crate) const PAGE_BYTES_MAX: u64 = 1 << 20;
/// Requests of a queue for the messages of its pages that may be under way.
pub(crate) const PAGES_ASKED_MAX: usize = 2;
/// Bytes of messages that the queues of a shard may have asked for, unless a request alone is for more.
pub(crate) const PAGE_IN_BYTES_MAX: u64 = 16 << 20;
/// The part of the paging threshold that one queue keeps before its first page, and of a page: a sixteenth, if that is less than a
/// page may have.
pub(crate) const PAGING_THRESHOLD_PER_PAGE: u64 = 16;
/// The part of the paging threshold by which waiting messages may exceed it while queues keep less and less: a quarter. Each
/// tenth of that halves what a queue keeps.
pub(crate) const PAGING_SPAN_DIVISOR: u64 = 4;
pub(crate) const PAGING_HALVINGS_MAX: u64 = 10;
/// Other queues that a publish looks at for messages to page out if its own has too few.
pub(crate) const PAGING_QUEUES_CHECKED: usize = 4;
/// Bytes by which waiting messages must grow before they are offered to the store again after it has refused some.
pub(crate) const PAGING_RETRY_BYTES: u64 = PAGE_BYTES_MAX;
/// Messages that leave the memory, or return to it, for one unit of work.
pub(crate) const PAGED_MESSAGES_PER_WORK: usize = 2;
/// The first of the numbers that a shard gives to queues that are not durable and have pages; the store knows these by them.
pub const PAGED_QUEUE_UID_FIRST: u64 = 1 << 62;

/// Consumers whose permission is reviewed at a time, after users have lost some: a millisecond's work.
pub(crate) const CONSUMERS_REVIEWED_MAX: usize = 1024;

/// Messages of a queue that are shown to somebody who looks at it, and bytes of them that are copied for that.
pub(crate) const PEEKED_MESSAGES_MAX: usize = 256;
pub(crate) const PEEKED_BYTES_MAX: usize = 1 << 20;

const _: () = assert!(INLINE_BODY_BYTES_MAX * 4 <= BATCH_BYTES);
const _: () = assert!(REMOTE_WINDOW_MESSAGES >= 2);
const _: () = assert!(PAGE_SLOTS.is_power_of_two());
// Publishes that travel together wait together.
const _: () = assert!(PACKED_MESSAGES_MAX as usize <= EARLY_PUBLISHES_MAX);
/// Objects of one kind that have changed or gone since a reader of reports was last told: a megabyte. A reader that does not keep up
/// is told everything anew.
pub(crate) const CHANGES_MAX: usize = 1 << 16;
/// Places of a table that are looked at for one unit of work of a report.
pub(crate) const PLACES_PER_WORK: usize = 8;
/// Free places of the table of channels that a check for overdue acknowledgements passes for one unit of work.
pub(crate) const PLACES_PER_CHECK_WORK: usize = 64;
/// Deliveries to consumers of which the latency of one is measured, on average.
pub const DELIVERIES_PER_SAMPLE: u32 = 1024;
/// Consumers of a queue that a report looks at to say why its messages wait.
pub(crate) const CONSUMERS_REPORTED_MAX: usize = 64;
