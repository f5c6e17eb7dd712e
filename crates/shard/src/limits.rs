//! Limits of a shard: what bounds a tick, the mailbox, logins, memory, and the waiting for peers.

use std::time::Duration;
use wire::frame::FRAME_OVERHEAD_BYTES;

/// Bytes of the receive buffer that all connections of a shard share (64 to 256 KiB measured equal, 16 KiB cost 18 %).
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
/// Bytes read from one connection before the next has its turn.
pub const TURN_BYTES: usize = 1024 * 1024;
/// What a read counts for in a turn at least: over TLS it may have taken long for few bytes.
pub(crate) const RECEIVED_BYTES_MIN: usize = TURN_BYTES / 8;
/// Connections without a login that have their turn in one tick: each may be a TLS handshake.
pub(crate) const GREETING_TURNS_PER_TICK: usize = 32;
/// Bytes of definitions that are copied with a tick for a replica outside of the shards: less than a millisecond.
pub(crate) const DEFINITION_BYTES_COPIED_PER_TICK: usize = 512 * 1024;
/// Outputs that are flushed with the batch that has written to them, each with a call of the system: a millisecond.
pub(crate) const FLUSHES_PER_BATCH: usize = 256;
/// Outputs of earlier batches that are flushed with a tick.
pub(crate) const BACKLOG_FLUSHES_PER_TICK: usize = 512;
/// Bytes that links take for a batch, or from the backlog for a tick, before the others wait for the next tick: some
/// milliseconds, with TLS twice as many, by estimate.
pub(crate) const FLUSH_BYTES_MAX: usize = 4 << 20;
/// While outputs wait in the backlog, one with more joins them, so that those with much take turns; one with less is sent at once.
pub(crate) const FLUSHED_AT_ONCE_BYTES: usize = 64 * 1024;
/// Bytes of messages for the disk by which a connection's turns may add to what waits, and it is read although the disk is behind.
pub(crate) const UNHELD_STORED_BYTES: usize = 64 * 1024;
/// Mailbox batches in flight from one shard to another; few in models.
pub const MAILBOX_BATCHES: usize = if cfg!(loom) { 2 } else { 16 };
/// Mailbox batches received from one shard before connections have their turn.
pub(crate) const MAILBOX_BATCHES_PER_TICK: usize = 16;
/// Bytes that wait for space in a mailbox ring before a shard stops reading its connections.
pub(crate) const MAILBOX_WAITING_BYTES_MAX: usize = 256 * 1024;
/// How long the peer of a connection that is being closed has to read the rest and to close its end.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Threads that verify slow passwords: two, so that one slow password does not delay all others, at the cost of little
/// CPU.
pub(crate) const VERIFIER_THREADS: usize = 2;
/// Slow passwords of one shard that are verified at a time; the rest wait at the shard, one for each connection at
/// most.
pub const VERIFICATIONS_MAX: usize = 4;
/// Logins of one shard that wait for their verification: what two threads verify in half a minute. They take 16 MiB at
/// most.
pub(crate) const LOGINS_WAITING_MAX: usize = 4096;
/// The same of one source address: what two threads verify in the time that a client has to log in. One more is refused.
pub const LOGINS_WAITING_PER_SOURCE_MAX: usize = 1024;
/// Failed logins of a source address, lately, from which on it is slowed down.
pub(crate) const LOGIN_FAILURES_FREE: u32 = 16;
/// Failed logins of a source address that are counted: it is slowed down no more by further ones, and until they age a
/// right password has to wait its turn as well.
pub(crate) const LOGIN_FAILURES_MAX: u32 = 64;
/// The time after which one failed login is forgotten.
pub(crate) const LOGIN_FAILURE_DECAY: Duration = Duration::from_secs(1);
/// The time by which the logins of a source address come further apart with each failed one: up to half a second, less
/// than any client may take to log in.
pub(crate) const LOGIN_INTERVAL_STEP: Duration = Duration::from_millis(10);
/// Source addresses whose failed logins are counted: a megabyte.
pub(crate) const LOGIN_SOURCES_MAX: usize = 16 * 1024;
/// Bytes of the name of a user that are logged when its login is refused.
pub(crate) const LOGGED_NAME_BYTES_MAX: usize = 128;
/// Connections whose access is reviewed a tick, after users have lost some.
pub(crate) const CONNECTIONS_REVIEWED_MAX: usize = 256;
/// Correct passwords that a shard remembers, by digests of 32 bytes. Beyond that number it forgets all.
pub(crate) const VERIFIED_PASSWORDS_MAX: usize = 4096;
/// Tokens whose clients have not connected over RDMA yet. A client whose token is one more is refused there.
pub(crate) const TOKENS_PENDING_MAX: usize = verbs::limits::TOKENS_MAX;
/// Administrative requests that wait for the program. One more is refused.
pub(crate) const REQUESTS_WAITING_MAX: usize = 64;
/// Bytes of the answer to an administrative request: the definitions of 300,000 queues fit.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Answers of at least this many bytes are sent from shared memory, without another copy.
pub(crate) const ANSWER_SHARED_BYTES_MIN: usize = 32 * 1024;
/// How long a publisher is throttled that is ahead of its consumers.
pub(crate) const THROTTLE_TIME: Duration = Duration::from_millis(1);
/// Memory of the process that is not accounted for: code, stacks, what allocators keep. It is subtracted from the memory
/// limit, up to a sixteenth of it.
pub(crate) const PROCESS_BYTES: u64 = 8 << 20;
/// The buffers of RDMA ports may take this fraction of the memory limit, one half: a broker with less for messages
/// does not start.
pub(crate) const PORT_MEMORY_DIVISOR: u64 = 2;
/// Connections to other brokers on one port that is opened for dialling alone, because no port listens on their device
/// or it has no capacity. For more connections another such port is opened.
pub(crate) const DIAL_PORT_CONNECTIONS: usize = 16;
/// Credits that another broker gets over a link that was dialled, at least: it sends for all its clients, and with 16
/// credits a small message cost the CPU of two.
pub(crate) const DIAL_CREDITS_MIN: u16 = 64;
/// Definitions may take this fraction of the memory limit, one half: nobody consumes them, and publishers would wait for
/// their deletion. Beyond it exchanges, queues and bindings that do not exist yet are refused.
pub(crate) const DEFINITION_SHARE_DIVISOR: u64 = 2;
/// The heap may have this fraction of the memory limit, one sixteenth, between what is allocated, beside what a process has
/// anyway. More than that is taken from the share of definitions.
pub(crate) const HEAP_GAP_DIVISOR: u64 = 16;
/// Memory that is pinned for RDMA on behalf of one user, the receive buffers of its connections and what devices are lent for
/// bodies, may take this fraction of the memory limit, one quarter. Beyond it memory is not lent, and connections are refused.
pub(crate) const PINNED_SHARE_DIVISOR: u64 = 4;
/// A reserve beyond the memory limit, one thirty-second of it: until messages have spent it, the first small message of a
/// connection is taken; until definitions, channels and consumers have taken as much since memory became low, new ones are.
pub(crate) const MEMORY_RESERVE_DIVISOR: u64 = 32;
/// While memory is low, frames and messages that have not arrived whole may hold this fraction of the limit, one half:
/// their connections are not read, so that nobody would ever free it. Beyond it those with most are closed.
pub(crate) const PARTIAL_SHARE_DIVISOR: u64 = 2;
/// Connections and channels that are looked at with one check of memory for what has not arrived whole: half a millisecond.
pub(crate) const CONNECTIONS_ADDED_UP_MAX: usize = 4_096;
/// Bytes by which the memory of a shard may grow before it is added up again, in the middle of a tick.
pub(crate) const MEMORY_STEP_BYTES: usize = 2 << 20;
/// Bytes of a frame that is taken while memory is low, payload only; consumers need less. A longer one, and its connection,
/// wait.
pub(crate) const SCARCE_FRAME_BYTES_MAX: usize = 4096;
/// Bytes received at a time while memory is low, so that a frame that must wait waits with its peer.
pub(crate) const SCARCE_RECEIVE_BYTES: usize = SCARCE_FRAME_BYTES_MAX + FRAME_OVERHEAD_BYTES;
/// The same once the reserve is spent: the first publish of each connection waits, too, and what has come with it is held as
/// long.
pub(crate) const SPENT_RECEIVE_BYTES: usize = 512;
/// While memory is low the output of a connection may hold this fraction of what it may otherwise, one sixteenth; one delivery
/// when the reserve is spent.
pub(crate) const SCARCE_OUTPUT_DIVISOR: usize = 16;
/// Messages that a publisher publishes before it is looked at where they went.
pub(crate) const MOVE_WINDOW_MESSAGES: u64 = 1_024;
/// A connection moves if all of a window but for this part went to one other shard.
pub(crate) const MOVE_SHARE_DIVISOR: u64 = 8;
/// How long a connection that is to move is not read, at most, until what it has under way has come to its end.
pub(crate) const MOVE_PATIENCE: Duration = Duration::from_millis(100);
/// How long a connection that has moved, or could not, stays where it is.
pub(crate) const MOVE_REST: Duration = Duration::from_secs(5);
/// Connections that a shard may have beyond one and a half times the mean of all shards, and others still move there.
pub(crate) const MOVE_SPARE_CONNECTIONS: u32 = 2;
/// How often a shard adds up the memory in use, while there is traffic.
pub(crate) const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// How long a shard with connections over RDMA spins before it sleeps, as long as that shortens waits, unless a longer
/// time is configured: about what a sleep and a wake-up cost.
pub(crate) const RDMA_SPIN: Duration = Duration::from_micros(50);
/// Bytes by which the lists of messages must have become shorter for the heap to be trimmed.
pub(crate) const HEAP_TRIM_BYTES_MIN: usize = 8 << 20;
/// Of so many turns of connections, and of so many sends outside of turns, one is timed: a prime, so that connections which have
/// their turns in rotation are all met.
pub(crate) const WORK_SAMPLE_INTERVAL: u32 = 61;
/// The time between two trims of the heap, unless memory is short.
pub(crate) const HEAP_TRIM_INTERVAL: Duration = Duration::from_millis(500);
/// How long the CPU latency bound is kept after the last message, if there is one: ten messages a second keep it all
/// the time.
pub(crate) const CPU_LATENCY_HOLD: Duration = Duration::from_millis(100);
/// The CPU latency bound that means "no bound": 2,000 seconds, the kernel's default.
pub(crate) const LATENCY_UNBOUNDED_US: i32 = 2_000_000_000;
/// A CPU latency bound that allows only the shallowest idle state, C1, whose exit latency is 1 or 2 us.
pub(crate) const LATENCY_DOZE_US: i32 = 2;
/// How often a shard ticks while it waits for memory or for space in a mailbox.
pub(crate) const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

const _: () = assert!(ANSWER_BYTES_MAX <= slab::BLOCK_BYTES_MAX && ANSWER_SHARED_BYTES_MIN <= ANSWER_BYTES_MAX);
// The share of one user leaves receive buffers for others, if ports have as many as they may.

/// Pages that queues get in one tick.
pub(crate) const PAGES_PER_TICK: usize = 8;

/// The part of the memory limit that waiting messages may take. The rest of them leave the memory, if there is a store.
pub(crate) const PAGING_SHARE_DIVISOR: u64 = 2;

const _: () = assert!(PINNED_SHARE_DIVISOR > PORT_MEMORY_DIVISOR);
const _: () = assert!(TURN_BYTES >= RECEIVE_BUFFER_BYTES);
const _: () = assert!(UNHELD_STORED_BYTES < TURN_BYTES);
const _: () = assert!(LOGINS_WAITING_PER_SOURCE_MAX < LOGINS_WAITING_MAX && LOGIN_FAILURES_FREE < LOGIN_FAILURES_MAX);
const _: () = assert!(LOGIN_INTERVAL_STEP.as_millis() * (LOGIN_FAILURES_MAX - LOGIN_FAILURES_FREE) as u128 <= 500);
// A shard that empties a ring notifies its sender.
const _: () = assert!(MAILBOX_BATCHES <= MAILBOX_BATCHES_PER_TICK && MAILBOX_BATCHES >= 2);

/// Objects in one piece of a report: a tenth of a millisecond's work, about.
pub const REPORT_OBJECTS_MAX: usize = 512;
/// Requests for reports of one shard that wait for their turn, one a tick. One more is dropped.
pub(crate) const REPORT_REQUESTS_MAX: usize = 4;
/// How long after the last request for a report changes are noted.
pub(crate) const REPORT_IDLE: Duration = Duration::from_secs(60);
/// Requests to close connections of one shard that wait for their turn. One more is dropped.
pub(crate) const SEARCHES_MAX: usize = 16;
/// Connections that a report or a search looks at in one tick.
pub(crate) const CONNECTIONS_SEARCHED_PER_TICK: usize = 1_024;
/// Connections that an operator closes in one tick.
pub(crate) const CONNECTIONS_CLOSED_PER_TICK: usize = 64;
/// Bytes of what a client says about itself that are kept. Longer texts are not.
pub(crate) const CLIENT_PROPERTIES_BYTES_MAX: usize = 4 << 10;
/// Virtual hosts whose counts of connections that are gone are kept before those of virtual hosts that are gone are looked for.
pub(crate) const CLOSED_TRAFFIC_SPARE: usize = 64;
/// Definitions that wait for a subscriber. One that is further behind is dropped, and must subscribe anew.
pub const DEFINITION_UPDATES_MAX: usize = 4_096;
/// Subscribers of definitions. One more is refused.
pub(crate) const DEFINITION_SUBSCRIBERS_MAX: usize = 4;
