//! The limits of a simulation, each with its name and its reason.
//!
//! Leaves: constants.
//! Owns:   how large a scenario may be; the numbers of the real broker that a simulated one has too.
//! Never:  a limit without a unit in its name.

/// Brokers of a simulated tree: a hundred times what is asked for, some hundred bytes each.
pub const BROKERS_MAX: u32 = 100_000;
/// Consumers of a simulated tree. Those of a leaf are one group, so that they cost nothing but their count.
pub const CONSUMERS_MAX: u32 = 100_000_000;
/// Consumers that are simulated one by one, because they are slow.
pub const STRAGGLERS_MAX: u32 = 10_000;
/// Messages of a stream: their numbers have 32 bits.
pub const MESSAGES_MAX: u32 = 100_000_000;
/// Bytes of one message.
pub const MESSAGE_BYTES_MAX: u64 = 128 << 20;
/// Failures of brokers in one run.
pub const FAILURES_MAX: usize = 1_000;
/// Events of a run: a quarter of an hour of one core, about.
pub const EVENTS_MAX: u64 = 4_000_000_000;
/// Simulated time, in nanoseconds: a day. What takes longer does not go on.
pub const SIMULATED_NS_MAX: u64 = 86_400_000_000_000;
/// Longest time that one message may cost one broker, or a link may add, in nanoseconds: a minute.
pub const COST_NS_MAX: f64 = 60e9;
/// Messages whose way is timed: every one of a short stream, every n-th of a long one.
pub const TIMED_MESSAGES_MAX: u32 = 20_000;
/// Pictures of a run. When there would be more, every second one goes, and they are taken half as often.
pub const SAMPLES_MAX: usize = 96;
/// Brokers that are drawn one by one; of more the least, the median and the greatest of each level are.
pub const PLOTTED_BROKERS_MAX: usize = 64;
/// Brokers whose loads are kept over time; of a level with more than its part of them some are, evenly spread.
pub const TRACED_BROKERS_MAX: usize = 8_192;
/// First distance of two pictures, in nanoseconds; it doubles as a run goes on.
pub const SAMPLE_INTERVAL_NS_FIRST: u64 = 1_000;
/// Cores of one broker.
pub const CORES_MAX: u32 = 1_024;

/// Bytes that a broker takes in before it sends what became of them: its receive buffer (`SCRATCH_BYTES` of the shard).
pub const BATCH_BYTES: u64 = 256 << 10;
/// Bytes that a connection has on their way before its queue keeps the rest: 512 KiB of output (`session_output_bytes_max`),
/// and what the sockets of both ends hold, which is Linux's usual 4 MiB at the sender and 6 MiB at the receiver at most.
pub const WINDOW_BYTES: u64 = 4 << 20;
/// Bytes of one connection that a link carries before another connection has its turn: what is put together into one segment.
pub const TRAIN_BYTES: u64 = 64 << 10;
/// A queue that was full takes on at this share of its limit, in percent.
pub const QUEUE_RESUMES_PERCENT: u64 = 80;
/// First wait of a broker that has lost the one above, in nanoseconds; it doubles (`BACK_OFF_MIN` of federation).
pub const BACK_OFF_NS_MIN: u64 = 200_000_000;
/// Longest such wait, in nanoseconds (`BACK_OFF_MAX` of federation).
pub const BACK_OFF_NS_MAX: u64 = 5_000_000_000;
/// How long a broker that came back takes nothing by a route that confirms, in nanoseconds (`RETURN_WAIT` of federation).
pub const RETURN_NS: u64 = 6_000_000_000;

const _: () = assert!(RETURN_NS > BACK_OFF_NS_MAX);
const _: () = assert!(TRAIN_BYTES <= WINDOW_BYTES && BATCH_BYTES <= WINDOW_BYTES);
const _: () = assert!(TIMED_MESSAGES_MAX <= MESSAGES_MAX && SAMPLES_MAX.is_multiple_of(2));
