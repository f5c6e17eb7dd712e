//! Limits of what every tool is run by: bounds of every count, size and wait. Defaults that a user may change are beside their options.

use std::time::Duration;

/// Largest message size, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// Most messages in one segment; sequence numbers and the bitmap of received messages are sized for it.
pub const SEGMENT_MESSAGES_MAX: u64 = 200_000_000;
/// Most runs of one measurement.
pub const RUNS_MAX: usize = 100;
/// Most brokers measured in turns.
pub(crate) const TARGETS_MAX: usize = 8;
/// How long a broker may take to tell what its store has written.
pub(crate) const STORE_ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Interval between samples of a broker while its clients work.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Largest socket buffer, in bytes.
pub(crate) const SOCKET_BUFFER_BYTES_MAX: u64 = 1 << 30;
/// How long a broker may take to accept connections after its start.
pub(crate) const BROKER_READY_WAIT: Duration = Duration::from_secs(20);
/// Longest line of a broker's log that is read in one piece, in bytes.
pub(crate) const LOG_LINE_BYTES_MAX: u64 = 64 << 10;
/// How often a broker that is waited for is looked after while its log says nothing.
pub(crate) const LOG_LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Most ports that are tried for a listener that cannot choose one.
pub(crate) const PICKED_PORTS_MAX: usize = 8;
/// How long a publisher or consumer may take to connect and declare.
pub const ROLE_READY_WAIT: Duration = Duration::from_secs(60);
/// How long a role waits for a command before it sends heartbeats, in milliseconds: a fraction of any heartbeat interval.
pub(crate) const ROLE_IDLE_MS: u16 = 5_000;
/// Bytes of commands read at once.
pub(crate) const COMMAND_READ_BYTES: usize = 64 << 10;
/// How long a child process may take to end before it is killed.
pub const CHILD_END_WAIT: Duration = Duration::from_secs(5);
/// Most ranks of a run under a launcher.
pub(crate) const RANKS_MAX: usize = 65_536;
/// Longest name of a run under a launcher, in bytes: it is part of a queue name.
pub const RENDEZVOUS_BYTES_MAX: usize = 64;
/// Largest message between ranks, in bytes.
pub(crate) const RANK_MESSAGE_BYTES_MAX: usize = 64 << 20;
/// How long the ranks of a run wait for one another at the start.
pub(crate) const RANKS_ARRIVE_WAIT: Duration = Duration::from_secs(30);
/// How long a rank may take to check whether the broker is on its host.
pub(crate) const BROKER_QUERY_WAIT: Duration = Duration::from_secs(10);
/// How long rank 0 waits for the other ranks to leave.
pub(crate) const RANKS_LEAVE_WAIT: Duration = Duration::from_secs(15);
/// Interval of keep-alives between ranks.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Heartbeat interval of the ranks' connections, in seconds: a host that vanished is noticed after two.
pub(crate) const MAILBOX_HEARTBEAT_S: u16 = 10;
/// Exchanges in a clock comparison.
pub(crate) const CLOCK_QUESTIONS: usize = 32;
/// Clock comparisons that are kept.
pub(crate) const COMPARISONS_KEPT: usize = 1_024;
/// How long the answer in a clock comparison may take.
pub(crate) const CLOCK_WAIT: Duration = Duration::from_secs(5);

const _: () = assert!(RENDEZVOUS_BYTES_MAX + 32 < 255);
const _: () = assert!(CHILD_END_WAIT.as_nanos() * 2 < RANKS_LEAVE_WAIT.as_nanos());
