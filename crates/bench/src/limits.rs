//! Limits of the benchmark suite.
//!
//! Enters: nothing.  Leaves: named bounds for every count, size and wait of a run.
//! Owns:   the numbers and the relations between them.
//! Never:  a default that a user may set (those stand beside the option).

use std::time::Duration;

/// Largest message a run may be asked for, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// Most messages in one segment of a run; sequence numbers and the bitmap of seen messages are sized for it.
pub const SEGMENT_MESSAGES_MAX: u64 = 200_000_000;
/// Most publisher-consumer pairs in one run.
pub const PAIRS_MAX: usize = 256;
/// Most consumers that one message is delivered to.
pub const CONSUMERS_MAX: usize = 1_024;
/// Most patterns bound to the topic exchange of a run.
pub const PATTERNS_MAX: usize = 1_000_000;
/// Most routing keys used in turn.
pub const KEYS_MAX: usize = 1_000_000;
/// Most runs of one measurement.
pub const RUNS_MAX: usize = 100;
/// How long a started broker may take until it accepts connections.
pub const BROKER_READY_WAIT: Duration = Duration::from_secs(20);
/// How long one publisher or consumer may take to connect and declare.
pub const ROLE_READY_WAIT: Duration = Duration::from_secs(60);
/// How long one segment (one size of one run) may take before it counts as failed.
pub const SEGMENT_WAIT: Duration = Duration::from_secs(120);
/// How long an ended child may take to go before it is killed.
pub const CHILD_END_WAIT: Duration = Duration::from_secs(5);
/// Bytes handed to the socket at once by the raw publisher, and read at once by the raw consumer and the relay.
pub const RAW_BUFFER_BYTES: usize = 128 << 10;
/// Bodies of at least this many bytes are published from memory that is not copied again.
pub const SHARED_BODY_BYTES_MIN: usize = 16 << 10;
/// Most ranks of a run under a launcher.
pub const RANKS_MAX: usize = 65_536;
/// Longest name of a run under a launcher, in bytes: with what stands before and behind it, it names a queue.
pub const RENDEZVOUS_BYTES_MAX: usize = 64;
/// Largest letter from rank to rank, in bytes.
pub const LETTER_BYTES_MAX: usize = 64 << 20;
/// How long the ranks of a run wait for one another at its beginning.
pub const RANKS_ARRIVE_WAIT: Duration = Duration::from_secs(30);
/// How long rank 0 waits at the end until the others have left.
pub const RANKS_LEAVE_WAIT: Duration = Duration::from_secs(15);
/// How often a waiting rank asks whether the others are still there.
pub const KNOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Seconds between heartbeats of the connections over which the ranks speak: a host that vanished is noticed after two.
pub const POST_HEARTBEAT_S: u16 = 10;
/// Questions in a comparison of two clocks.
pub const CLOCK_QUESTIONS: usize = 32;
/// Comparisons of two clocks that are kept.
pub const COMPARISONS_KEPT: usize = 1_024;
/// How long the answer to such a question may take.
pub const CLOCK_WAIT: Duration = Duration::from_secs(5);

const _: () = assert!(SHARED_BODY_BYTES_MIN <= MESSAGE_BYTES_MAX);
const _: () = assert!(RENDEZVOUS_BYTES_MAX + 32 < 255);
const _: () = assert!(CHILD_END_WAIT.as_nanos() * 2 < RANKS_LEAVE_WAIT.as_nanos());
const _: () = assert!(gauge::limits::LATENCY_NS_MAX as u128 <= SEGMENT_WAIT.as_nanos());
