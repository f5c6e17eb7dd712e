//! Limits of a simulation: how large a scenario may be, and the constants of the real broker that a simulated one
//! shares.

/// Brokers of a simulated tree: a hundred times what is needed today, at some hundred bytes each.
pub(crate) const BROKERS_MAX: u32 = 100_000;
/// Consumers of a simulated tree. The consumers of a leaf form one group, so they cost only a count.
pub(crate) const CONSUMERS_MAX: u32 = 100_000_000;
/// Consumers that are simulated one by one because they are slow.
pub const STRAGGLERS_MAX: u32 = 10_000;
/// Messages of a stream: sequence numbers have 32 bits.
pub const MESSAGES_MAX: u32 = 100_000_000;
pub const MESSAGE_BYTES_MAX: u64 = 128 << 20;
/// Failures of brokers in one run.
pub(crate) const FAILURES_MAX: usize = 1_000;
/// Events of a run: about a quarter of an hour of one core.
pub(crate) const EVENTS_MAX: u64 = 4_000_000_000;
/// Simulated time, in nanoseconds: a day. A longer run is cut short.
pub const SIMULATED_NS_MAX: u64 = 86_400_000_000_000;
/// Longest service time or link delay, in nanoseconds: a minute.
pub const COST_NS_MAX: f64 = 60e9;
/// Messages whose latency is timed: every one of a short stream, every n-th of a long one.
pub(crate) const TIMED_MESSAGES_MAX: u32 = 20_000;
/// Samples of a run's loads. When there would be more, every second one is dropped and the interval doubles.
pub(crate) const SAMPLES_MAX: usize = 96;
/// Brokers that are plotted one by one; of a larger tree, the minimum, median and maximum of each level are plotted.
pub(crate) const PLOTTED_BROKERS_MAX: usize = 64;
/// Brokers whose loads are traced; of a level that exceeds its share, an evenly spaced selection.
pub(crate) const TRACED_BROKERS_MAX: usize = 8_192;
/// First sampling interval, in nanoseconds; it doubles in the course of a run.
pub(crate) const SAMPLE_INTERVAL_NS_FIRST: u64 = 1_000;
/// Cores of one broker.
pub const CORES_MAX: u32 = 1_024;

/// Bytes that a broker receives before it sends what results from them: its receive buffer (`SCRATCH_BYTES` of the
/// shard).
pub const BATCH_BYTES: u64 = 256 << 10;
/// Bytes that a connection has in flight before the rest stays in its queue: 512 KiB of output
/// (`session_output_bytes_max`), and the socket buffers of both ends, which are at most 4 MiB at the sender and 6 MiB
/// at the receiver on Linux.
pub const WINDOW_BYTES: u64 = 4 << 20;
/// Bytes of one connection that a link carries before it serves the next connection: what is combined into one segment.
pub(crate) const TRAIN_BYTES: u64 = 64 << 10;
/// A broker whose queue was full reads again when the queue has shrunk to this percentage of its limit.
pub(crate) const QUEUE_RESUMES_PERCENT: u64 = 80;
/// First reconnect interval of a broker that has lost the one above, in nanoseconds; it doubles (`BACK_OFF_MIN` of
/// federation).
pub(crate) const BACK_OFF_NS_MIN: u64 = 200_000_000;
/// Longest reconnect interval, in nanoseconds (`BACK_OFF_MAX` of federation).
pub(crate) const BACK_OFF_NS_MAX: u64 = 5_000_000_000;
/// How long a returned broker accepts nothing on a confirming route, in nanoseconds (`RETURN_WAIT` of federation).
pub(crate) const RETURN_NS: u64 = 6_000_000_000;

const _: () = assert!(RETURN_NS > BACK_OFF_NS_MAX);
const _: () = assert!(TRAIN_BYTES <= WINDOW_BYTES && BATCH_BYTES <= WINDOW_BYTES);
const _: () = assert!(TIMED_MESSAGES_MAX <= MESSAGES_MAX && SAMPLES_MAX.is_multiple_of(2));
