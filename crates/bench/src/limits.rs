//! Limits of the benchmarks: bounds of every count, size and wait. Defaults that a user may change are beside their options.

use std::time::Duration;

/// Most publisher-consumer pairs in a run.
pub const PAIRS_MAX: usize = 256;
/// Most patterns bound to the topic exchange.
pub const PATTERNS_MAX: usize = 1_000_000;
/// Messages under way between a publisher and its consumer, by option.
pub const WINDOW_MESSAGES_MAX: usize = 1 << 24;
/// Most binding changes per second while messages flow.
pub const CHANGES_PER_S_MAX: usize = 100_000;
/// Minimum ratio of the load generator's ceiling to a broker's rate at which the generator cannot have limited the broker.
pub const CEILING_TIMES_MIN: f64 = 3.0;
/// Share of the socket baseline above which the generator is limited by the sockets and not by itself.
pub const SOCKET_BASELINE_SHARE_MIN: f64 = 0.9;
/// Largest factor from one size to the next.
pub const STEP_MAX: u64 = 1 << 20;
/// Longest time that a relay polls before it sleeps, in microseconds.
pub const SPIN_US_MAX: u64 = 1_000_000;
/// Most concurrent processes of `churn`.
pub const CLIENTS_MAX: usize = 256;
/// Groups written in `perf` to see what the disk allows: enough for the 99th percentile.
pub const PERF_FLOOR_GROUPS: u64 = 2_000;
/// Messages of a fan-out of which `perf` counts the bytes written. None is acknowledged before the last.
pub const PERF_FANOUT_MESSAGES: u64 = 20_000;
/// Durable queues that `perf` declares.
pub const PERF_DECLARED_QUEUES: u64 = 100_000;
/// Messages a second of `perf` in open loop, and how many of them may be without a confirm.
pub const PERF_OPEN_RATE: f64 = 100_000.0;
pub const PERF_OPEN_WINDOW: u64 = 100_000;
/// The part of this machine's memory that a backlog of `perf` may take, and what a message takes beside its body.
pub const PERF_RECOVER_MEMORY_DIVISOR: u64 = 4;
pub const PERF_RECOVER_MESSAGE_BYTES: u64 = 256;
/// Messages without a confirm while `perf` fills the queue of a broker that it kills.
pub const PERF_RECOVER_WINDOW: u64 = 20_000;
/// Runs of `perf` for what differs by a few hundredths.
pub const PERF_MANAGEMENT_RUNS_MIN: usize = 7;
/// How often `perf` scrapes a broker and asks what its page asks.
pub const PERF_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Queues, and connections, that `perf` lists by pages; and queues that it lists whole.
pub const PERF_LISTED_OBJECTS: usize = 10_000;
pub const PERF_LISTED_QUEUES_MANY: u64 = 100_000;
/// Messages a second of the client beside those who look: the most that are tried, the fewest, and the share of what the machine
/// sends in time that is measured.
pub const PERF_BYSTANDER_RATE_MAX: f64 = 20_000.0;
pub const PERF_BYSTANDER_RATE_MIN: f64 = 500.0;
pub const PERF_BYSTANDER_SHARE: f64 = 0.5;
/// Runs that are made for one that counts, at most.
pub const PERF_BYSTANDER_ATTEMPTS: usize = 2;
/// How many of these messages may be without a confirm.
pub const PERF_BYSTANDER_WINDOW: u64 = 20_000;
/// How long `perf` waits for an answer over HTTP, and how long the answer may be.
pub const PERF_HTTP_WAIT: Duration = Duration::from_secs(60);
pub const PERF_HTTP_ANSWER_BYTES_MAX: u64 = 512 << 20;
/// Default number of messages in a backlog that outlives its broker.
pub const RECOVER_MESSAGES_DEFAULT: u64 = 1_000_000;
/// Default number of body bytes in such a backlog.
pub const RECOVER_BYTES_DEFAULT: u64 = 1 << 30;
/// Messages without a confirm, by default and at most, while it is published.
pub const RECOVER_WINDOW_DEFAULT: u64 = 1_000;
pub const RECOVER_WINDOW_MAX: u64 = 1_000_000;
/// Messages that its consumer acknowledges at once, and its prefetch count: enough that neither waits for the other.
pub const RECOVER_ACK_EVERY: u64 = 1_000;
pub const RECOVER_PREFETCH: u16 = 20_000;
/// How long processes may take to be gone after SIGKILL.
pub const BROKER_GONE_WAIT: Duration = Duration::from_secs(60);
/// How long a broker that is started again waits for its port, if another program has it.
pub const PORT_FREE_WAIT: Duration = Duration::from_secs(5);
/// Most operations of one client in a run of `churn`.
pub const CHURN_OPERATIONS_MAX: u64 = 10_000_000;
/// Default number of messages in a backlog.
pub const BACKLOG_MESSAGES_DEFAULT: u64 = 200_000;
/// Default number of body bytes in a backlog.
pub const BACKLOG_BYTES_DEFAULT: u64 = 256 << 20;
/// Bytes of the segment that `disk` writes to: that of a log.
pub const DISK_SEGMENT_BYTES: u64 = store::limits::SEGMENT_BYTES_DEFAULT;
/// Bytes that must be free before it is made: a disk that is nearly full stays usable for others.
pub const DISK_FREE_BYTES_MIN: u64 = 2 * DISK_SEGMENT_BYTES;
/// Default number of groups of each size: enough for the 99th percentile.
pub const DISK_GROUPS_DEFAULT: u64 = 2_000;
/// Most groups of each size.
pub const DISK_GROUPS_MAX: u64 = 1_000_000;
/// Most bytes written of each size and run by default: enough for the 99th percentile of the largest groups.
pub const DISK_WRITTEN_BYTES_DEFAULT: u64 = 1 << 30;
/// Most bytes written of each size and run.
pub const DISK_WRITTEN_BYTES_MAX: u64 = 256 << 30;
/// Largest workload file, in bytes.
pub const WORKLOAD_FILE_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of the verbs baseline in flight: large messages have smaller windows.
pub const VERBS_IN_FLIGHT_BYTES: usize = 16 << 20;

const _: () = assert!(DISK_WRITTEN_BYTES_DEFAULT / store::limits::GROUP_BYTES_MAX as u64 >= 1_000);
