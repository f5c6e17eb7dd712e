//! Limits of the benchmark suite: bounds of every count, size and wait. Defaults that a user may change are beside their options.

use std::time::Duration;

/// Largest message size, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 128 << 20;
/// Most messages in one segment; sequence numbers and the bitmap of received messages are sized for it.
pub const SEGMENT_MESSAGES_MAX: u64 = 200_000_000;
/// Most publisher-consumer pairs in a run.
pub const PAIRS_MAX: usize = 256;
/// Most consumers that one message is delivered to.
pub const CONSUMERS_MAX: usize = 1_024;
/// Most patterns bound to the topic exchange.
pub const PATTERNS_MAX: usize = 1_000_000;
/// Messages under way between a publisher and its consumer, by option.
pub const WINDOW_MESSAGES_MAX: usize = 1 << 24;
/// Most routing keys used in turn.
pub const KEYS_MAX: usize = 1_000_000;
/// Most runs of one measurement.
pub const RUNS_MAX: usize = 100;
/// Most brokers measured in turns.
pub const TARGETS_MAX: usize = 8;
/// Most placements of a market tried in turns.
pub const PLACES_MAX: usize = 8;
/// Most binding changes per second while messages flow.
pub const CHANGES_PER_S_MAX: usize = 100_000;
/// Parts of a segment with separate rates, for judging its steadiness.
pub const SEGMENT_PARTS: usize = 20;
/// Messages per confirm window whose confirm latency is measured.
pub const CONFIRM_SAMPLES_PER_WINDOW: u64 = 64;
/// Bytes of publishes that are encoded once and sent repeatedly: they fit in the nearest caches beside the kernel's data.
pub const CANNED_BATCH_BYTES: usize = 128 << 10;
/// Most routing keys for which messages are encoded in advance; with more, each message is encoded when it is sent.
pub const KEYS_CANNED_MAX: usize = 256;
/// Minimum ratio of the load generator's ceiling to a broker's rate at which the generator cannot have limited the broker.
pub const CEILING_TIMES_MIN: f64 = 3.0;
/// Share of the socket baseline above which the generator is limited by the sockets and not by itself.
pub const SOCKET_BASELINE_SHARE_MIN: f64 = 0.9;
/// Bytes that the null broker reads at once.
pub const NULL_BUFFER_BYTES: usize = 256 << 10;
/// Bytes that it reads at once if bodies are so large that they are discarded unread: frame headers and what follows.
pub const NULL_HEADER_BYTES: usize = 512;
/// Bytes of encoded deliveries that the null broker writes at once, at least.
pub const NULL_BLOCK_BYTES: usize = 128 << 10;
/// How long the null broker waits for input before it sends a heartbeat.
pub const NULL_HEARTBEAT_WAIT: Duration = Duration::from_secs(20);
/// Longest run of one size, in seconds.
pub const SECONDS_MAX: f64 = 60.0;
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
/// How long a broker that was killed may take to serve a client.
pub const RECOVERY_WAIT: Duration = Duration::from_secs(300);
/// Interval between attempts to connect to it.
pub const CONNECT_INTERVAL: Duration = Duration::from_millis(1);
/// How long processes may take to be gone after SIGKILL.
pub const BROKER_GONE_WAIT: Duration = Duration::from_secs(60);
/// How long a broker may take to tell what its store has written.
pub const STORE_ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Most operations of one client in a run of `churn`.
pub const CHURN_OPERATIONS_MAX: u64 = 10_000_000;
/// Default number of messages in a backlog.
pub const BACKLOG_MESSAGES_DEFAULT: u64 = 200_000;
/// Default number of body bytes in a backlog.
pub const BACKLOG_BYTES_DEFAULT: u64 = 256 << 20;
/// Interval between queries of the number of messages in a queue that is being filled.
pub const QUEUE_COUNT_INTERVAL: Duration = Duration::from_millis(1);
/// Interval between samples of a broker while its clients work.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
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
/// Largest socket buffer, in bytes.
pub const SOCKET_BUFFER_BYTES_MAX: u64 = 1 << 30;
/// How long a broker may take to accept connections after its start.
pub const BROKER_READY_WAIT: Duration = Duration::from_secs(20);
/// How long a publisher or consumer may take to connect and declare.
pub const ROLE_READY_WAIT: Duration = Duration::from_secs(60);
/// How long one segment (one size of one run) may take before it counts as failed.
pub const SEGMENT_WAIT: Duration = Duration::from_secs(600);
/// How long a consumer waits for the next message, and a publisher in ping-pong for the reply, before the rest of the
/// segment counts as lost.
pub const SILENCE_WAIT: Duration = Duration::from_secs(15);
/// How long the controlling process waits for a role's report on a segment.
pub const REPORT_WAIT: Duration = Duration::from_secs(660);
/// How long to wait for one role's report before polling the others, which may have failed.
pub const ROLE_POLL_WAIT: Duration = Duration::from_millis(100);
/// How long a role waits for a command before it sends heartbeats, in milliseconds: a fraction of any heartbeat interval.
pub const ROLE_IDLE_MS: u16 = 5_000;
/// Bytes of commands read at once.
pub const COMMAND_READ_BYTES: usize = 64 << 10;
/// How long a child process may take to end before it is killed.
pub const CHILD_END_WAIT: Duration = Duration::from_secs(5);
/// Bytes written at once by the raw publisher, and read at once by the raw consumer and the relay.
pub const RAW_BUFFER_BYTES: usize = 128 << 10;
/// Most plain bytes of a TLS record (RFC 8446 §5.1).
pub const TLS_RECORD_PLAIN_BYTES: usize = 1 << 14;
/// Most bytes of a TLS record (RFC 8446 §5.2).
pub const TLS_RECORD_BYTES_MAX: usize = 5 + TLS_RECORD_PLAIN_BYTES + 256;
/// Bodies of at least this size are published from shared memory without a further copy.
pub const SHARED_BODY_BYTES_MIN: usize = 16 << 10;
/// Most ranks of a run under a launcher.
pub const RANKS_MAX: usize = 65_536;
/// Longest name of a run under a launcher, in bytes: it is part of a queue name.
pub const RENDEZVOUS_BYTES_MAX: usize = 64;
/// Largest message between ranks, in bytes.
pub const RANK_MESSAGE_BYTES_MAX: usize = 64 << 20;
/// How long the ranks of a run wait for one another at the start.
pub const RANKS_ARRIVE_WAIT: Duration = Duration::from_secs(30);
/// How long a rank may take to check whether the broker is on its host.
pub const BROKER_QUERY_WAIT: Duration = Duration::from_secs(10);
/// How long rank 0 waits for the other ranks to leave.
pub const RANKS_LEAVE_WAIT: Duration = Duration::from_secs(15);
/// Interval of keep-alives between ranks.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Heartbeat interval of the ranks' connections, in seconds: a host that vanished is noticed after two.
pub const MAILBOX_HEARTBEAT_S: u16 = 10;
/// Exchanges in a clock comparison.
pub const CLOCK_QUESTIONS: usize = 32;
/// Clock comparisons that are kept.
pub const COMPARISONS_KEPT: usize = 1_024;
/// How long the answer in a clock comparison may take.
pub const CLOCK_WAIT: Duration = Duration::from_secs(5);
/// Most connections of one workload: publishers and consumers together.
pub const WORKLOAD_CONNECTIONS_MAX: usize = 4_096;
/// Most bindings of one workload, after all expansions.
pub const WORKLOAD_BINDINGS_MAX: usize = 200_000;
/// Most comparisons of a topic pattern with a key in the model of a workload's routing.
pub const WORKLOAD_MATCHES_MAX: u64 = 50_000_000;
/// Most messages that one workload may be expected to send.
pub const WORKLOAD_MESSAGES_MAX: f64 = 100_000_000.0;
/// Longest workload, in nanoseconds: an hour.
pub const WORKLOAD_NS_MAX: u64 = 3_600_000_000_000;
/// Largest workload file, in bytes.
pub const WORKLOAD_FILE_BYTES_MAX: u64 = 1 << 20;
/// Messages that a paced publisher writes before it flushes and polls its connections.
pub const SENDS_PER_TURN_MAX: usize = 256;
/// Unsent bytes of a paced publisher above which further messages wait for the link, and are late.
pub const UNSENT_BYTES_MAX: usize = 4 << 20;
/// How long an idle worker sleeps before it polls its connections (heartbeats).
pub const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long consumers wait for missing messages after the last one, once the drain time is over.
pub const SWEEP_IDLE_WAIT: Duration = Duration::from_secs(2);
/// Time between the begin command and the first message, for the command to reach all processes.
pub const BEGIN_LEAD: Duration = Duration::from_millis(100);

/// Bytes of a probe message.
pub const PROBE_BYTES: usize = 8;
/// The number of the last probe: the messages after it are measured.
pub const PROBE_LAST: u64 = u64::MAX;
/// Smallest message of a tree, in bytes: larger than a probe.
pub const TREE_MESSAGE_BYTES_MIN: usize = 16;
/// How long to wait for a probe at one consumer of a leaf before polling the next one.
pub const PROBE_TURN: Duration = Duration::from_millis(5);
/// How long a probe may take to reach all leaves before it is sent again: the first may have been lost on a route that was
/// not established yet.
pub const PROBE_AGAIN: Duration = Duration::from_millis(100);
/// How long the routes and bindings of a tree may take to be established.
pub const TREE_READY_WAIT: Duration = Duration::from_secs(60);
/// Interval between queries of the route status.
pub const ROUTES_LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long `harrier route` may take.
pub const ROUTE_WAIT: Duration = Duration::from_secs(60);
/// Most brokers of a tree that is run; each is at least one process.
pub const TREE_BROKERS_MAX: u32 = 256;
/// Most consumers of it.
pub const TREE_CONSUMERS_MAX: u32 = 4_096;
/// Messages sent one at a time to measure the latency to the last consumer of a tree.
pub const TREE_LATENCY_MESSAGES: usize = 100;
/// Fewest runs in a calibration, except with `--quick`: fewer give no interval.
pub const CALIBRATION_RUNS_MIN: u64 = 5;
/// Most trees compared with their predictions at once.
pub const LISTED_TREES_MAX: usize = 64;
/// Largest list of trees on standard input, in bytes.
pub const LISTED_BYTES_MAX: u64 = 16 << 20;
/// Most trees shown in the table of a plan.
pub const PLAN_ROWS_SHOWN_MAX: usize = 24;
/// Most routes shown in it.
pub const PLAN_ROUTES_SHOWN_MAX: usize = 32;
/// Largest profile file, in bytes.
pub const PROFILE_BYTES_MAX: u64 = 64 << 20;
/// Burst size of a rate-limited link: the minimum that `tbf` needs for offloaded segments, and what accumulates within a tick of
/// a 100 Hz kernel.
pub const LINK_BURST_BYTES_MIN: u64 = 128 << 10;
/// Queueing delay at such a link before it drops packets, in milliseconds.
pub const LINK_QUEUE_MS: u64 = 50;
/// Range of rates of such a link, in bits per second.
pub const LINK_BITS_PER_S: std::ops::RangeInclusive<u64> = 1_000_000..=100_000_000_000;

/// Longest simulated stream, in seconds of simulated time.
pub const SIMULATED_SECONDS_MAX: f64 = 3_600.0;
/// Largest limit of a simulated queue, in bytes.
pub const SIMULATED_QUEUE_BYTES_MAX: u64 = 1 << 40;

/// Most requests of the verbs baseline in flight.
pub const VERBS_WINDOW_MAX: u32 = 4_096;
/// Most bytes of the verbs baseline in flight: large messages have smaller windows.
pub const VERBS_IN_FLIGHT_BYTES: usize = 16 << 20;
/// Most requests posted to a device in one call.
pub const VERBS_BATCH_MAX: usize = 32;
/// Capacity of the verbs baseline's queues for messages other than the measured ones.
pub const VERBS_SPARE: u32 = 16;
/// Largest unmeasured message of the verbs baseline, in bytes.
pub const VERBS_TEXT_BYTES_MAX: usize = 4_096;
/// Concurrent READs that an endpoint requests and serves, if its device supports as many.
pub const VERBS_READS_MAX: u8 = 16;
/// Inline limits that are tried, the largest first, unless one is given: the usual ones of cards.
pub const VERBS_INLINE_BYTES: [u32; 5] = [220, 188, 128, 64, 0];
/// 4.096 us times 2 to the power of this is a device's acknowledgement timeout: 67 ms.
pub const VERBS_ACK_TIMEOUT_EXPONENT: u8 = 14;
/// Empty polls of a busy-polling endpoint before it yields the processor.
pub const VERBS_EMPTY_POLLS_PER_YIELD: u32 = 16;
/// Empty polls before it checks for the peer's end and the timeout.
pub const VERBS_EMPTY_POLLS_PER_CHECK: u32 = 4_096;
/// How long an endpoint of the verbs baseline sleeps before it checks for the peer's end.
pub const VERBS_CHECK_MS: u16 = 200;
/// How long each step of a connection's setup may take.
pub const VERBS_SET_UP_WAIT: Duration = Duration::from_secs(20);

const _: () = assert!(VERBS_EMPTY_POLLS_PER_CHECK.is_multiple_of(VERBS_EMPTY_POLLS_PER_YIELD));
const _: () = assert!(DISK_WRITTEN_BYTES_DEFAULT / store::limits::GROUP_BYTES_MAX as u64 >= 1_000);
const _: () = assert!(REPORT_WAIT.as_nanos() > SEGMENT_WAIT.as_nanos() + SILENCE_WAIT.as_nanos());
const _: () = assert!(RAW_BUFFER_BYTES >= TLS_RECORD_PLAIN_BYTES);
const _: () = assert!(SHARED_BODY_BYTES_MIN <= MESSAGE_BYTES_MAX);
const _: () = assert!(PROBE_BYTES < TREE_MESSAGE_BYTES_MIN);
const _: () = assert!(RENDEZVOUS_BYTES_MAX + 32 < 255);
const _: () = assert!(CHILD_END_WAIT.as_nanos() * 2 < RANKS_LEAVE_WAIT.as_nanos());
const _: () = assert!(gauge::limits::LATENCY_NS_MAX as u128 <= SEGMENT_WAIT.as_nanos());

/// How long a program of a market waits for messages before it checks for its end.
pub const MARKET_LOOK: Duration = Duration::from_millis(100);
/// How long a reporter that is to end waits for further messages.
pub const MARKET_SILENCE: Duration = Duration::from_millis(300);
/// Most orders of one market.
pub const MARKET_ORDERS_MAX: u64 = 1_000_000_000;
/// Highest rate of orders per second.
pub const MARKET_RATE_MAX: f64 = 10_000_000.0;
/// Unsent bytes of a gateway above which further orders wait for the link, and are late.
pub const MARKET_UNSENT_BYTES_MAX: usize = 1 << 20;
/// Most unconfirmed orders of a gateway, or answers of an engine.
pub const MARKET_UNCONFIRMED_MAX: u64 = 20_000;
/// Prefetch count of an engine.
pub const MARKET_PREFETCH: u16 = 20_000;
/// How long a gateway that has sent everything waits for the next answer before missing ones count as lost.
pub const MARKET_ANSWER_WAIT: Duration = Duration::from_secs(15);
/// How long an engine tries to become the exclusive consumer of a queue whose former consumer was killed.
pub const MARKET_TAKE_OVER_WAIT: Duration = Duration::from_secs(10);
/// Gaps in the orders of gateways that an engine reports individually; all are counted.
pub const MARKET_GAPS_TOLD: u64 = 16;
/// Interval between these attempts.
pub const MARKET_TAKE_OVER_LOOK: Duration = Duration::from_millis(20);
/// How long an engine or a reporter may take to end.
pub const MARKET_END_WAIT: Duration = Duration::from_secs(30);
