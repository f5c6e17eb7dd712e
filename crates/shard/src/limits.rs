//! The reactor's limits, each with its name and its reason.
//!
//! Leaves: constants.
//! Owns:   the numbers that bound a tick, the mail, and the waiting for peers.
//! Never:  a limit without a unit in its name.

use std::time::Duration;

/// Bytes of the one receive buffer that all connections of a shard share (64 to 256 KiB measured equal, 16 KiB cost 18 %).
pub const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
/// Bytes read from one connection before the next has its turn.
pub const TURN_BYTES: usize = 1024 * 1024;
/// Mail batches under way from one shard to another.
pub const MAILBOX_BATCHES: usize = 16;
/// Mail batches taken in from one shard before connections have their turn.
pub const MAILBOX_BATCHES_PER_TICK: usize = 16;
/// Bytes of mail that wait for a place in the ring before a shard stops reading its connections.
pub const MAILBOX_WAITING_BYTES_MAX: usize = 256 * 1024;
/// How long a closed connection's peer has to take the farewell.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Threads that check slow passwords: two, so that one slow client's is not everybody's, and no more of the machine is taken.
pub const VERIFIER_THREADS: usize = 2;
/// Slow passwords that one shard has under way; the rest wait at the shard, each connection with one at most.
pub const VERIFICATIONS_MAX: usize = 4;
/// Passwords that were found to be right and are remembered by a shard, 32 bytes each. When there are more, all are forgotten.
pub const VERIFIED_PASSWORDS_MAX: usize = 4096;
/// Tokens that wait for their clients to come over RDMA. Whoever gets none because there are so many is refused there.
pub const TOKENS_PENDING_MAX: usize = verbs::limits::TOKENS_MAX;
/// Administrative requests of all shards that wait for the program. One more is refused.
pub const REQUESTS_WAITING_MAX: usize = 64;
/// Bytes of the answer to an administrative request. The definitions of 300,000 queues fit.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Answers of at least this many bytes are sent from memory of their own.
pub const ANSWER_SHARED_BYTES_MIN: usize = 32 * 1024;
/// How long a publisher that outruns its consumers gives them, at most.
pub const THROTTLE_TIME: Duration = Duration::from_millis(1);
/// What the process has of its own, beside what is added up: code, definitions, connections, what allocators keep (at rest 5 MiB were
/// measured). It comes off the memory limit, but for a small limit no more than a sixteenth.
pub const PROCESS_BYTES: u64 = 8 << 20;
/// What part of the memory limit the buffers of RDMA ports may take, one in so many: a broker that has nothing left for
/// messages does not start.
pub const PORT_MEMORY_DIVISOR: u64 = 2;
/// Connections to other brokers for which a port has receive buffers that is opened for them alone, where no port listens
/// over their card or it has no room. For more there is another such port.
pub const DIALLED_OF_A_PORT: usize = 16;
/// Messages that another broker may send over a link that was dialled before it gets a credit back, at least: it sends for
/// all its clients, and with 16 a small message cost the CPU of two.
pub const DIALLED_CREDITS_MIN: u16 = 64;
/// How often the memory in use is added up, while there is traffic.
pub const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// How many waits that looking would have shortened are remembered ...
pub const SPIN_SCORE_MAX: u8 = 16;
/// ... and how many of them one that it would not have shortened undoes. It takes as many to begin.
pub const SPIN_MISS_COST: u8 = 4;
/// How long a shard with connections over RDMA looks for work before it sleeps, unless more was asked for, as long as that
/// pays: about what it costs to sleep and be woken.
pub const RDMA_LOOK: Duration = Duration::from_micros(50);
/// Rounds in a row that such a shard goes through without a look at its sockets, as long as its devices have something to
/// tell: that look is a call into the kernel, which a device needs none of.
pub const ROUNDS_WITHOUT_POLL_MAX: u32 = 16;
/// Bytes by which the lists of messages must have become shorter for the allocator to be asked for what it keeps of them.
pub const HEAP_TRIM_BYTES_MIN: usize = 8 << 20;
/// How long a shard waits at least until it asks the allocator again, unless memory is short.
pub const HEAP_TRIM_INTERVAL: Duration = Duration::from_millis(500);
/// How long after the last message processors are still held awake, if they are: the next one of a stream of ten a second finds them so.
pub const VIGIL_REST: Duration = Duration::from_millis(100);
/// What stands for "no bound" where the system is told how long a processor may take to wake: 2,000 seconds, its own default.
pub const LATENCY_UNBOUNDED_US: i32 = 2_000_000_000;
/// A bound that leaves a processor the shallowest sleep that hardware has (C1: 1 or 2 us), and none that is deeper.
pub const LATENCY_DOZE_US: i32 = 2;
/// How often a shard looks up while it waits for memory or for mail to move.
pub const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

const _: () = assert!(ANSWER_BYTES_MAX <= slab::BLOCK_BYTES_MAX && ANSWER_SHARED_BYTES_MIN <= ANSWER_BYTES_MAX);
const _: () = assert!(TURN_BYTES >= RECEIVE_BUFFER_BYTES);
// A ring that is emptied tells its sender so.
const _: () = assert!(MAILBOX_BATCHES <= MAILBOX_BATCHES_PER_TICK && MAILBOX_BATCHES >= 2);
