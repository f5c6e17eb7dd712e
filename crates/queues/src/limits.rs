//! The limits of queues, and of what waits in them.

/// The part of the budget that a publish may use beyond it rather than be left for another turn: a thirty-second.
pub(crate) const WORK_GRACE_DIVISOR: u32 = 32;
/// Bytes that a queue on another shard may have sent ahead to one consumer.
pub const REMOTE_WINDOW_BYTES: i64 = 1 << 20;
/// A body of at least this many bytes that goes to several queues is copied once, into memory that all of them share.
pub const SHARED_BODY_BYTES_MIN: usize = 4_096;
/// Slots of one page of the tables of channels and consumers: a page that has been full and is empty returns its memory.
pub(crate) const PAGE_SLOTS: usize = 64;
/// Bytes waiting in a queue, for consumers whose outputs are full, at which its publishers are throttled: the consumers catch up,
/// so that messages stay in the cache. A queue that nobody empties accepts more all the same.
pub const THROTTLE_BYTES: u64 = 4 << 20;
/// Bytes that limits add to each waiting message for its block and its entry in the list.
pub const MESSAGE_OVERHEAD_BYTES: u64 = 72;
/// Expired messages that a queue drops before others have their turn: so few that as dead letters they fit into an output and
/// leave with the next flush.
pub(crate) const EXPIRED_PER_CHECK: usize = 256;
/// Dead letters of one shard that wait to be routed. Clients that cause them wait before there are so many; what other shards
/// cause beyond is dropped and counted, as dead letters without confirms may be.
pub(crate) const DEAD_LETTERS_PENDING_MAX: usize = 1 << 20;
/// Dead letters that one dead letter may cause, directly and by those that it causes, on its shard: more are dropped and counted.
/// Queues that keep nothing and send to each other make a message into as many as they have orders, 15 queues into 10^12.
pub(crate) const DEAD_LETTERS_CAUSED_MAX: usize = 1 << 17;
/// The same while very many letters have caused many each.
pub(crate) const DEAD_LETTERS_CAUSED_IN_CROWD_MAX: usize = 64;
/// Turns that end while what one letter has caused is routed. Then the letters behind it have turns beside that, and what they
/// cause may overtake it.
pub(crate) const DEAD_LETTER_TURNS_IN_PLACE_MAX: u32 = 2;
/// Dead letters whose consequences have turns beside those of others, from which on each may cause few.
pub(crate) const DETACHED_LETTERS_CROWD: usize = 1_024;
/// Beyond so many, the consequences of another one stay in their place.
pub(crate) const DETACHED_LETTERS_MAX: usize = 4_096;
/// How many of these are looked at for a unit of work.
pub(crate) const DETACHED_LETTERS_PER_WORK: usize = 64;
/// Dead letters that wait for their turns, beyond which what expires stays in its queue. Queues that keep messages for a moment and
/// send to each other would make millions here.
pub(crate) const DEAD_LETTERS_EXPIRED_MAX: usize = 1 << 15;
/// Units of work to find that a queue has too few messages for a page: all that stay before it are looked at.
pub(crate) const FRUITLESS_PAGE_WORK: usize = 256;
/// Units of work of a dead letter beside those of its queues and its properties.
pub const DEAD_LETTER_WORK: usize = 4;
/// Further routing keys of a message that one unit of work takes out of its headers, puts in order and copies.
pub const KEYS_PER_WORK: usize = 2;
/// Bytes of properties that one unit of work writes anew: of a dead letter, or of a message with a count of its returns.
pub const PROPERTIES_BYTES_PER_WORK: usize = 128;
/// Bytes of properties that one unit of work copies to the output of a consumer.
pub const PROPERTIES_BYTES_COPIED_PER_WORK: usize = 1_024;
/// Bytes of a body that one unit of work cuts into frames for a consumer: two of the smallest.
pub(crate) const BODY_BYTES_CUT_PER_WORK: usize = 8 * 1_024;
/// Units of work of an entry of `x-death` that a message has when it dies: it is read, compared with the others and written.
pub const DEATH_HISTORY_ENTRY_WORK: usize = 2;
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
/// Items of one chunk of a list of waiting or unsettled messages.
pub(crate) const CHUNK_ITEMS: usize = 1_024;
/// A list that runs empty returns its memory if it has capacity for more items than this.
pub(crate) const EMPTY_CHUNK_ITEMS_KEPT: usize = 256;
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
/// Messages of a queue that are shown to somebody who looks at it, and bytes of them that are copied for that.
pub(crate) const PEEKED_MESSAGES_MAX: usize = 256;
pub(crate) const PEEKED_BYTES_MAX: usize = 1 << 20;
/// Objects of one kind that have changed or gone since a reader of reports was last told: a megabyte. A reader that does not keep up
/// is told everything anew.
pub(crate) const CHANGES_MAX: usize = 1 << 16;

const _: () = assert!(PAGE_SLOTS.is_power_of_two());
