//! The reactor's limits, each with its name and its reason.
//!
//! Leaves: constants.
//! Owns:   the numbers that bound a tick, the mail, and the waiting for peers.
//! Never:  a limit without a unit in its name.

use std::time::Duration;

/// Bytes of the one receive buffer that all connections of a shard share (64 to 256 KiB measured equal, 16 KiB cost 18 %).
pub const SCRATCH_BYTES: usize = 256 * 1024;
/// Bytes read from one connection before the next has its turn.
pub const TURN_BYTES: usize = 1024 * 1024;
/// Mail batches under way from one shard to another.
pub const MAIL_BATCHES: usize = 16;
/// Mail batches taken in from one shard before connections have their turn.
pub const MAIL_BATCHES_PER_TICK: usize = 16;
/// Bytes of mail that wait for a place in the ring before a shard stops reading its connections.
pub const MAIL_WAITING_BYTES_MAX: usize = 256 * 1024;
/// How long a closed connection's peer has to take the farewell.
pub const FAREWELL: Duration = Duration::from_secs(5);
/// Threads that check slow passwords: two, so that one slow client's is not everybody's, and no more of the machine is taken.
pub const PROVERS: usize = 2;
/// Slow passwords that one shard has under way; the rest wait at the shard, each connection with one at most.
pub const PROOFS_UNDER_WAY_MAX: usize = 4;
/// Passwords that were found to be right and are remembered by a shard, 32 bytes each. When there are more, all are forgotten.
pub const PROVEN_MAX: usize = 4096;
/// Tokens that wait for their clients to come over RDMA. Whoever gets none because there are so many is refused there.
pub const TOKENS_WAITING_MAX: usize = verbs::limits::TOKENS_MAX;
/// Administrative requests of all shards that wait for the program. One more is refused.
pub const REQUESTS_WAITING_MAX: usize = 64;
/// Bytes of the answer to an administrative request. The definitions of 300,000 queues fit.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Answers of at least this many bytes are sent from memory of their own.
pub const ANSWER_SHARED_BYTES_MIN: usize = 32 * 1024;
/// How long a publisher that outruns its consumers gives them, at most.
pub const PACE: Duration = Duration::from_millis(1);
/// What the process has of its own, beside what is added up: code, definitions, connections, what allocators keep (at rest 5 MiB were
/// measured). It comes off the memory limit, but for a small limit no more than a sixteenth.
pub const PROGRAM_BYTES: u64 = 8 << 20;
/// What part of the memory limit the buffers of RDMA ports may take, one in so many: a broker that has nothing left for
/// messages does not start.
pub const PORTS_PART_MIN: u64 = 2;
/// Connections to other brokers for which a port has receive buffers that is opened for them alone, where no port listens
/// over their card or it has no room. For more there is another such port.
pub const DIALLED_OF_A_PORT: usize = 16;
/// Messages that another broker may send over a link that was dialled before it gets a credit back, at least: it sends for
/// all its clients, and with 16 a small message cost the CPU of two.
pub const DIALLED_CREDITS_MIN: u16 = 64;
/// How often the memory in use is added up, while there is traffic.
pub const MEMORY_CHECK: Duration = Duration::from_millis(2);
/// How long a shard with connections over RDMA spins before it sleeps, as long as that shortens waits, unless a longer time
/// is configured: about what a sleep and a wake-up cost.
pub const RDMA_SPIN: Duration = Duration::from_micros(50);
/// Bytes by which the lists of messages must have become shorter for the allocator to be asked for what it keeps of them.
pub const HEAP_FREED_BYTES: usize = 8 << 20;
/// How long a shard waits at least until it asks the allocator again, unless memory is short.
pub const HEAP_REST: Duration = Duration::from_millis(500);
/// How long the CPU latency bound is kept after the last message, if there is one: ten messages a second keep it all the time.
pub const CPU_LATENCY_HOLD: Duration = Duration::from_millis(100);
/// The CPU latency bound that means "no bound": 2,000 seconds, the kernel's default.
pub const LATENCY_UNBOUNDED_US: i32 = 2_000_000_000;
/// A CPU latency bound that allows only the shallowest idle state, C1, whose exit latency is 1 or 2 us.
pub const LATENCY_DOZE_US: i32 = 2;
/// How often a shard looks up while it waits for memory or for mail to move.
pub const LOOK_UP: Duration = Duration::from_millis(20);

const _: () = assert!(ANSWER_BYTES_MAX <= slab::BLOCK_BYTES_MAX && ANSWER_SHARED_BYTES_MIN <= ANSWER_BYTES_MAX);
const _: () = assert!(TURN_BYTES >= SCRATCH_BYTES);
// A ring that is emptied tells its sender so.
const _: () = assert!(MAIL_BATCHES <= MAIL_BATCHES_PER_TICK && MAIL_BATCHES >= 2);
