//! Limits of the benchmark suite: bounds of every count, size and wait. Defaults that a user may change are beside their options.

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
/// Most brokers measured in turns.
pub const TARGETS_MAX: usize = 8;
/// Most placements of a market tried in turns.
pub const PLACES_MAX: usize = 8;
/// Most bindings a second that change while messages flow.
pub const CHANGES_PER_S_MAX: usize = 100_000;
/// Parts of a segment whose rates are kept, to see whether it was steady.
pub const SEGMENT_PARTS: usize = 20;
/// Messages of each window of confirms whose time is taken.
pub const CONFIRM_SAMPLES_PER_WINDOW: u64 = 64;
/// Bytes of publishes that are encoded once and sent at once, again and again: what the nearest caches hold beside the kernel's.
pub const CANNED_BATCH_BYTES: usize = 128 << 10;
/// Most routing keys in turn of messages that are encoded once; with more, each message is encoded when it is sent.
pub const KEYS_CANNED_MAX: usize = 256;
/// How many times a broker's rate the load generator's own must be, so that it is known not to have limited the broker.
pub const CEILING_TIMES_MIN: f64 = 3.0;
/// Share of what one hop of plain sockets carries from which on the sockets are the generator's limit, and not it itself.
pub const SOCKET_BASELINE_SHARE_MIN: f64 = 0.9;
/// Bytes that the null broker reads at once.
pub const NULL_BUFFER_BYTES: usize = 256 << 10;
/// Bytes that it reads at once where bodies are so large that it drops them unread: heads, and what came with them.
pub const NULL_HEADER_BYTES: usize = 512;
/// Bytes of encoded deliveries that the null broker writes at once, at least.
pub const NULL_BLOCK_BYTES: usize = 128 << 10;
/// How long the null broker hears nothing before it shows that it lives.
pub const NULL_HEARTBEAT_WAIT: Duration = Duration::from_secs(20);
/// Longest run of one size that may be asked for, in seconds.
pub const SECONDS_MAX: f64 = 60.0;
/// Largest factor from one size to the next.
pub const STEP_MAX: u64 = 1 << 20;
/// Longest time that a relay polls before it sleeps, in microseconds.
pub const SPIN_US_MAX: u64 = 1_000_000;
/// Most processes that open and close things at once in `churn`.
pub const CLIENTS_MAX: usize = 256;
/// Most operations of one client in a run of `churn`.
pub const CHURN_OPERATIONS_MAX: u64 = 10_000_000;
/// Messages of a backlog, unless the command line says how many.
pub const BACKLOG_MESSAGES_DEFAULT: u64 = 200_000;
/// Bytes of all bodies of a backlog, likewise.
pub const BACKLOG_BYTES_DEFAULT: u64 = 256 << 20;
/// How often a queue that is being filled is asked how many messages it holds.
pub const QUEUE_COUNT_INTERVAL: Duration = Duration::from_millis(1);
/// How often a broker is looked at while its clients work.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Largest socket buffer that may be asked for, in bytes.
pub const SOCKET_BUFFER_BYTES_MAX: u64 = 1 << 30;
/// How long a started broker may take until it accepts connections.
pub const BROKER_READY_WAIT: Duration = Duration::from_secs(20);
/// How long one publisher or consumer may take to connect and declare.
pub const ROLE_READY_WAIT: Duration = Duration::from_secs(60);
/// How long one segment (one size of one run) may take before it counts as failed.
pub const SEGMENT_WAIT: Duration = Duration::from_secs(600);
/// How long a consumer waits for the next message, and a publisher in ping-pong for the reply, before the rest of the
/// segment counts as lost.
pub const SILENCE_WAIT: Duration = Duration::from_secs(15);
/// How long the controlling process waits for a role's report on a segment.
pub const REPORT_WAIT: Duration = Duration::from_secs(660);
/// How long one role is waited for before the others are looked at, which may have failed.
pub const ROLE_POLL_WAIT: Duration = Duration::from_millis(100);
/// How long a role waits for an order before it shows its brokers that it lives, in milliseconds: a fraction of any heartbeat.
pub const ROLE_IDLE_MS: u16 = 5_000;
/// Bytes of orders read at once.
pub const COMMAND_READ_BYTES: usize = 64 << 10;
/// How long an ended child may take to go before it is killed.
pub const CHILD_END_WAIT: Duration = Duration::from_secs(5);
/// Bytes handed to the socket at once by the raw publisher, and read at once by the raw consumer and the relay.
pub const RAW_BUFFER_BYTES: usize = 128 << 10;
/// Most plain bytes of a TLS record (RFC 8446 §5.1).
pub const TLS_RECORD_PLAIN_BYTES: usize = 1 << 14;
/// Most bytes of a TLS record (RFC 8446 §5.2).
pub const TLS_RECORD_BYTES_MAX: usize = 5 + TLS_RECORD_PLAIN_BYTES + 256;
/// Bodies of at least this many bytes are published from memory that is not copied again.
pub const SHARED_BODY_BYTES_MIN: usize = 16 << 10;
/// Most ranks of a run under a launcher.
pub const RANKS_MAX: usize = 65_536;
/// Longest name of a run under a launcher, in bytes: with what stands before and behind it, it names a queue.
pub const RENDEZVOUS_BYTES_MAX: usize = 64;
/// Largest letter from rank to rank, in bytes.
pub const RANK_MESSAGE_BYTES_MAX: usize = 64 << 20;
/// How long the ranks of a run wait for one another at its beginning.
pub const RANKS_ARRIVE_WAIT: Duration = Duration::from_secs(30);
/// How long a rank may take to find out whether the broker is on its host.
pub const BROKER_QUERY_WAIT: Duration = Duration::from_secs(10);
/// How long rank 0 waits at the end until the others have left.
pub const RANKS_LEAVE_WAIT: Duration = Duration::from_secs(15);
/// How often a waiting rank asks whether the others are still there.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Seconds between heartbeats of the connections over which the ranks speak: a host that vanished is noticed after two.
pub const MAILBOX_HEARTBEAT_S: u16 = 10;
/// Questions in a comparison of two clocks.
pub const CLOCK_QUESTIONS: usize = 32;
/// Comparisons of two clocks that are kept.
pub const COMPARISONS_KEPT: usize = 1_024;
/// How long the answer to such a question may take.
pub const CLOCK_WAIT: Duration = Duration::from_secs(5);
/// Most connections of one workload: publishers and consumers together.
pub const WORKLOAD_CONNECTIONS_MAX: usize = 4_096;
/// Most bindings of one workload, after all expansions.
pub const WORKLOAD_BINDINGS_MAX: usize = 200_000;
/// Most comparisons of a topic pattern with a key that the model of a workload's routing may need.
pub const WORKLOAD_MATCHES_MAX: u64 = 50_000_000;
/// Most messages that one workload may be expected to send.
pub const WORKLOAD_MESSAGES_MAX: f64 = 100_000_000.0;
/// Longest workload, in nanoseconds: an hour.
pub const WORKLOAD_NS_MAX: u64 = 3_600_000_000_000;
/// Largest workload file, in bytes.
pub const WORKLOAD_FILE_BYTES_MAX: u64 = 1 << 20;
/// Messages that a paced sender writes before it flushes and looks at what came.
pub const SENDS_PER_TURN_MAX: usize = 256;
/// Bytes that a paced publisher may have written and not sent; more messages than that wait for the link, and are late.
pub const UNSENT_BYTES_MAX: usize = 4 << 20;
/// How long a worker without anything to do sleeps until it looks at its connections (heartbeats).
pub const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long after the last message consumers wait for those that are missing, once the time to drain is over.
pub const SWEEP_IDLE_WAIT: Duration = Duration::from_secs(2);
/// From the order to begin until the first message may be due: all processes have heard it by then.
pub const BEGIN_LEAD: Duration = Duration::from_millis(100);

/// Bytes of a message that only asks whether messages arrive.
pub const PROBE_BYTES: usize = 8;
/// The number of the last probe: what comes behind it is measured.
pub const PROBE_LAST: u64 = u64::MAX;
/// Smallest message of a tree, in bytes: larger than a probe.
pub const TREE_MESSAGE_BYTES_MIN: usize = 16;
/// How long a consumer on a leaf is listened to for a probe before the others have their turn.
pub const PROBE_TURN: Duration = Duration::from_millis(5);
/// How long a probe may take to all leaves before another one is sent: its like may have been lost on a way that was not
/// there yet.
pub const PROBE_AGAIN: Duration = Duration::from_millis(100);
/// How long all routes of a tree may take until they run, and bindings until they are in place at the root.
pub const TREE_READY_WAIT: Duration = Duration::from_secs(60);
/// How long nobody is asked again how routes stand.
pub const ROUTES_LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long `harrier route` may take.
pub const ROUTE_WAIT: Duration = Duration::from_secs(60);
/// Most brokers of a tree that is run: each is a process, or more.
pub const TREE_BROKERS_MAX: u32 = 256;
/// Most consumers of it.
pub const TREE_CONSUMERS_MAX: u32 = 4_096;
/// Messages sent one by one to see how long each takes to the last consumer of a tree.
pub const TREE_LATENCY_MESSAGES: usize = 100;
/// Fewest runs of anything in a calibration that is no quick look: an interval of five is one.
pub const CALIBRATION_RUNS_MIN: u64 = 5;
/// Most trees that are held against their predictions at once.
pub const LISTED_TREES_MAX: usize = 64;
/// Most bytes of a list of trees on standard input.
pub const LISTED_BYTES_MAX: u64 = 16 << 20;
/// Most trees that the table of a plan shows.
pub const PLAN_ROWS_SHOWN_MAX: usize = 24;
/// Most routes that it shows.
pub const PLAN_ROUTES_SHOWN_MAX: usize = 32;
/// Largest file that is read as a profile, in bytes.
pub const PROFILE_BYTES_MAX: u64 = 64 << 20;
/// Bytes that may leave a link of limited speed at once: what `tbf` needs at the least for segments that are put
/// together, and what a clock of 100 ticks a second lets gather.
pub const LINK_BURST_BYTES_MIN: u64 = 128 << 10;
/// How long bytes may wait at such a link before it drops some, in milliseconds.
pub const LINK_QUEUE_MS: u64 = 50;
/// Least and greatest speed of such a link, in bits a second.
pub const LINK_BITS_PER_S: std::ops::RangeInclusive<u64> = 1_000_000..=100_000_000_000;

/// Longest stream of a simulation that may be asked for, in seconds of its own time.
pub const SIMULATED_SECONDS_MAX: f64 = 3_600.0;
/// Largest limit of a simulated queue, in bytes.
pub const SIMULATED_QUEUE_BYTES_MAX: u64 = 1 << 40;

/// Most requests of the verbs baseline under way at once.
pub const VERBS_WINDOW_MAX: u32 = 4_096;
/// Bytes of all messages of the verbs baseline that are under way at once: large messages have smaller windows.
pub const VERBS_IN_FLIGHT_BYTES: usize = 16 << 20;
/// Requests that one call hands to a device at most.
pub const VERBS_BATCH_MAX: usize = 32;
/// Room in the queues of the verbs baseline for what is no measured message.
pub const VERBS_SPARE: u32 = 16;
/// Longest message of the verbs baseline that is none of the measured ones, in bytes.
pub const VERBS_TEXT_BYTES_MAX: usize = 4_096;
/// READs that an end of the verbs baseline asks and serves at once, where its device has as many.
pub const VERBS_READS_MAX: u8 = 16;
/// Inline limits that are tried, the largest first, where none is asked for: what cards have as a rule.
pub const VERBS_INLINE_BYTES: [u32; 5] = [220, 188, 128, 64, 0];
/// 4.096 us times 2 to the power of this: how long a device waits for an acknowledgement, 67 ms.
pub const VERBS_ACK_TIMEOUT_EXPONENT: u8 = 14;
/// How often an end that polls busily lets others run while nothing comes.
pub const VERBS_EMPTY_POLLS_PER_YIELD: u32 = 16;
/// How often it looks whether its peer is still there and its patience not over.
pub const VERBS_EMPTY_POLLS_PER_CHECK: u32 = 4_096;
/// How long an end of the verbs baseline sleeps before it looks whether its peer is still there.
pub const VERBS_CHECK_MS: u16 = 200;
/// How long the steps of a connection may take.
pub const VERBS_SET_UP_WAIT: Duration = Duration::from_secs(20);

const _: () = assert!(VERBS_EMPTY_POLLS_PER_CHECK.is_multiple_of(VERBS_EMPTY_POLLS_PER_YIELD));
const _: () = assert!(REPORT_WAIT.as_nanos() > SEGMENT_WAIT.as_nanos() + SILENCE_WAIT.as_nanos());
const _: () = assert!(RAW_BUFFER_BYTES >= TLS_RECORD_PLAIN_BYTES);
const _: () = assert!(SHARED_BODY_BYTES_MIN <= MESSAGE_BYTES_MAX);
const _: () = assert!(PROBE_BYTES < TREE_MESSAGE_BYTES_MIN);
const _: () = assert!(RENDEZVOUS_BYTES_MAX + 32 < 255);
const _: () = assert!(CHILD_END_WAIT.as_nanos() * 2 < RANKS_LEAVE_WAIT.as_nanos());
const _: () = assert!(gauge::limits::LATENCY_NS_MAX as u128 <= SEGMENT_WAIT.as_nanos());

/// How long a program of a market waits for messages before it looks whether it is to end.
pub const MARKET_LOOK: Duration = Duration::from_millis(100);
/// How long nothing comes until a reporter that is to end takes it that nothing will.
pub const MARKET_SILENCE: Duration = Duration::from_millis(300);
/// Most orders of one market.
pub const MARKET_ORDERS_MAX: u64 = 1_000_000_000;
/// Most orders a second that may be asked for.
pub const MARKET_RATE_MAX: f64 = 10_000_000.0;
/// Bytes that a gateway may have written and not sent; more orders than that wait for the link, and are late.
pub const MARKET_UNSENT_BYTES_MAX: usize = 1 << 20;
/// Unconfirmed orders of a gateway, or answers of an engine, before no more are sent.
pub const MARKET_UNCONFIRMED_MAX: u64 = 20_000;
/// Unacknowledged orders that are sent ahead to an engine.
pub const MARKET_PREFETCH: u16 = 20_000;
/// How long a gateway that has sent everything waits for the next answer before those that are missing count as lost.
pub const MARKET_ANSWER_WAIT: Duration = Duration::from_secs(15);
/// How long an engine tries to become the only consumer of a queue whose former consumer has just been killed.
pub const MARKET_TAKE_OVER_WAIT: Duration = Duration::from_secs(10);
/// Gaps in the orders of gateways that an engine tells of one by one; all are counted.
pub const MARKET_GAPS_TOLD: u64 = 16;
/// How long it waits before it tries again.
pub const MARKET_TAKE_OVER_LOOK: Duration = Duration::from_millis(20);
/// How long an engine or a reporter may take to end.
pub const MARKET_END_WAIT: Duration = Duration::from_secs(30);
