//! Limits of the load generator: bounds of every count, size and wait. Defaults that a user may change are beside their options.

use std::time::Duration;

/// Most consumers that one message is delivered to.
pub const CONSUMERS_MAX: usize = 1_024;
/// Most routing keys used in turn.
pub const KEYS_MAX: usize = 1_000_000;
/// Parts of a segment with separate rates, for judging its steadiness.
pub(crate) const SEGMENT_PARTS: usize = 20;
/// Messages per confirm window whose confirm latency is measured.
pub(crate) const CONFIRM_SAMPLES_PER_WINDOW: u64 = 64;
/// Bytes of publishes that are encoded once and sent repeatedly: they fit in the nearest caches beside the kernel's data.
pub(crate) const CANNED_BATCH_BYTES: usize = 128 << 10;
/// Most routing keys for which messages are encoded in advance; with more, each message is encoded when it is sent.
pub(crate) const KEYS_CANNED_MAX: usize = 256;
/// Bytes that the null broker reads at once.
pub(crate) const NULL_BUFFER_BYTES: usize = 256 << 10;
/// Bytes that it reads at once if bodies are so large that they are discarded unread: frame headers and what follows.
pub(crate) const NULL_HEADER_BYTES: usize = 512;
/// Bytes of encoded deliveries that the null broker writes at once, at least.
pub(crate) const NULL_BLOCK_BYTES: usize = 128 << 10;
/// How long the null broker waits for input before it sends a heartbeat.
pub(crate) const NULL_HEARTBEAT_WAIT: Duration = Duration::from_secs(20);
/// Longest run of one size, in seconds.
pub const SECONDS_MAX: f64 = 60.0;
/// How long a broker that was killed may take to serve a client.
pub const RECOVERY_WAIT: Duration = Duration::from_secs(300);
/// Interval between attempts to connect to it.
pub const CONNECT_INTERVAL: Duration = Duration::from_millis(1);
/// Interval between queries of the number of messages in a queue that is being filled.
pub(crate) const QUEUE_COUNT_INTERVAL: Duration = Duration::from_millis(1);
/// How long one segment (one size of one run) may take before it counts as failed.
pub(crate) const SEGMENT_WAIT: Duration = Duration::from_secs(600);
/// How long a consumer waits for the next message, and a publisher in ping-pong for the reply, before the rest of the
/// segment counts as lost.
pub(crate) const SILENCE_WAIT: Duration = Duration::from_secs(15);
/// How long the controlling process waits for a role's report on a segment.
pub const REPORT_WAIT: Duration = Duration::from_secs(660);
/// How long to wait for one role's report before polling the others, which may have failed.
pub const ROLE_POLL_WAIT: Duration = Duration::from_millis(100);
/// Bytes written at once by the raw publisher, and read at once by the raw consumer and the relay.
pub(crate) const RAW_BUFFER_BYTES: usize = 128 << 10;
/// Most plain bytes of a TLS record (RFC 8446 §5.1).
pub(crate) const TLS_RECORD_PLAIN_BYTES: usize = 1 << 14;
/// Most bytes of a TLS record (RFC 8446 §5.2).
pub(crate) const TLS_RECORD_BYTES_MAX: usize = 5 + TLS_RECORD_PLAIN_BYTES + 256;
/// Bodies of at least this size are published from shared memory without a further copy.
pub(crate) const SHARED_BODY_BYTES_MIN: usize = 16 << 10;
/// Most connections of one workload: publishers and consumers together.
pub(crate) const WORKLOAD_CONNECTIONS_MAX: usize = 4_096;
/// Most bindings of one workload, after all expansions.
pub(crate) const WORKLOAD_BINDINGS_MAX: usize = 200_000;
/// Most comparisons of a topic pattern with a key in the model of a workload's routing.
pub(crate) const WORKLOAD_MATCHES_MAX: u64 = 50_000_000;
/// Most messages that one workload may be expected to send.
pub(crate) const WORKLOAD_MESSAGES_MAX: f64 = 100_000_000.0;
/// Longest workload, in nanoseconds: an hour.
pub const WORKLOAD_NS_MAX: u64 = 3_600_000_000_000;
/// Messages that a paced publisher writes before it flushes and polls its connections.
pub const SENDS_PER_TURN_MAX: usize = 256;
/// Unsent bytes of a paced publisher above which further messages wait for the link, and are late.
pub(crate) const UNSENT_BYTES_MAX: usize = 4 << 20;
/// How long an idle worker sleeps before it polls its connections (heartbeats).
pub(crate) const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long consumers wait for missing messages after the last one, once the drain time is over.
pub(crate) const SWEEP_IDLE_WAIT: Duration = Duration::from_secs(2);
/// Time between the begin command and the first message, for the command to reach all processes.
pub const BEGIN_LEAD: Duration = Duration::from_millis(100);
/// Bytes of a probe message.
pub const PROBE_BYTES: usize = 8;
/// The number of the last probe: the messages after it are measured.
pub const PROBE_LAST: u64 = u64::MAX;
/// How long to wait for a probe at one consumer of a leaf before polling the next one.
pub(crate) const PROBE_TURN: Duration = Duration::from_millis(5);
/// How long the routes and bindings of a tree may take to be established.
pub const TREE_READY_WAIT: Duration = Duration::from_secs(60);
/// How long `harrier route` may take.
pub const ROUTE_WAIT: Duration = Duration::from_secs(60);
/// Most requests of the verbs baseline in flight.
pub const VERBS_WINDOW_MAX: u32 = 4_096;
/// Most requests posted to a device in one call.
pub(crate) const VERBS_BATCH_MAX: usize = 32;
/// Capacity of the verbs baseline's queues for messages other than the measured ones.
pub(crate) const VERBS_SPARE: u32 = 16;
/// Largest unmeasured message of the verbs baseline, in bytes.
pub(crate) const VERBS_TEXT_BYTES_MAX: usize = 4_096;
/// Concurrent READs that an endpoint requests and serves, if its device supports as many.
pub(crate) const VERBS_READS_MAX: u8 = 16;
/// Inline limits that are tried, the largest first, unless one is given: the usual ones of cards.
pub(crate) const VERBS_INLINE_BYTES: [u32; 5] = [220, 188, 128, 64, 0];
/// 4.096 us times 2 to the power of this is a device's acknowledgement timeout: 67 ms.
pub(crate) const VERBS_ACK_TIMEOUT_EXPONENT: u8 = 14;
/// Empty polls of a busy-polling endpoint before it yields the processor.
pub(crate) const VERBS_EMPTY_POLLS_PER_YIELD: u32 = 16;
/// Empty polls before it checks for the peer's end and the timeout.
pub(crate) const VERBS_EMPTY_POLLS_PER_CHECK: u32 = 4_096;
/// How long an endpoint of the verbs baseline sleeps before it checks for the peer's end.
pub(crate) const VERBS_CHECK_MS: u16 = 200;
/// How long each step of a connection's setup may take.
pub(crate) const VERBS_SET_UP_WAIT: Duration = Duration::from_secs(20);

const _: () = assert!(VERBS_EMPTY_POLLS_PER_CHECK.is_multiple_of(VERBS_EMPTY_POLLS_PER_YIELD));
const _: () = assert!(REPORT_WAIT.as_nanos() > SEGMENT_WAIT.as_nanos() + SILENCE_WAIT.as_nanos());
const _: () = assert!(RAW_BUFFER_BYTES >= TLS_RECORD_PLAIN_BYTES);
const _: () = assert!(SHARED_BODY_BYTES_MIN <= harness::limits::MESSAGE_BYTES_MAX);
const _: () = assert!(gauge::limits::LATENCY_NS_MAX as u128 <= SEGMENT_WAIT.as_nanos());
