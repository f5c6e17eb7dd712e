//! Options of the closed-loop benchmarks, with their bounds and defaults.

use super::benchmarks::{Benchmark, BenchmarkVariant};
use super::run_length::RunLength;
use crate::limits::{SPIN_US_MAX, STEP_MAX};
use harness::arguments::{OptionSpec, ParsedOptions, UsageError, option};
use harness::measure_options::MeasureOptions;
use harness::role_protocol::{TrafficShape, sizes};
use harness::run_recorder::RunRecorder;
use load::limits::SECONDS_MAX;

/// Message sizes and length of runs.
pub const SIZES: &[OptionSpec] = &[
    option("sizes", Some('m'), "MIN:MAX", "message sizes, as in 1:1M (the default) or 64:64"),
    option("step", None, "FACTOR", "factor from one size to the next (default 2)"),
    option("seconds", None, "S", "approximate length of a run on the slowest broker (default 1, round trips 2)"),
];
pub const PAIRS: &[OptionSpec] = &[option("pairs", None, "LIST", "publisher-consumer pairs (default 1,2,4,8)")];
pub const CONSUMERS: &[OptionSpec] = &[
    option("consumers", None, "LIST", "consumers of each message (default 1,2,4,8,16,32)"),
    option("processes", None, "N", "processes that consumers are distributed over (default 1)"),
];
pub const TOPIC: &[OptionSpec] = &[
    option("patterns", None, "LIST", "patterns bound (default 1,4,16,64,256,1024)"),
    option("match", None, "WHICH", "one of them matches (default), all, or one among wildcards"),
    option("keys", None, "N", "routing keys used in turn (default 1)"),
    option("changing", None, "N", "bindings added and removed per second during the run (default none)"),
];
/// How far publishers may be ahead of their consumers.
pub const WINDOW: &[OptionSpec] = &[option(
    "window",
    None,
    "LIST",
    "messages at most that are published and not received; consumers grant more (default: no limit)",
)];
/// Confirms and acknowledgements in streams.
pub const DELIVERY: &[OptionSpec] = &[
    option("confirms", None, "WINDOW", "publisher confirms with at most WINDOW outstanding (default: none)"),
    option("ack-every", None, "N", "one manual acknowledgement for N messages (default: automatic)"),
    option("prefetch", None, "N", "prefetch count (default: no limit)"),
];
/// The same for `confirm`.
pub const CONFIRM: &[OptionSpec] = &[
    option("window", None, "N", "maximum number of unconfirmed messages (default 1000)"),
    option("ack-every", None, "N", "one acknowledgement for N messages (default 100)"),
    option("prefetch", None, "N", "prefetch count (default: no limit)"),
];
/// Durable rows beside transient ones.
pub const DURABLE: &[OptionSpec] = &[option(
    "durable",
    None,
    "",
    "also with persistent messages in durable queues; a broker that is started for it gets a state folder",
)];
/// The raw-socket baseline beside the brokers.
pub const BASELINE: &[OptionSpec] = &[option(
    "baseline",
    None,
    "",
    "also measure raw sockets through a relay, in turns, and each broker's share of it",
)];
/// The load generator's ceiling beside the brokers.
pub const NULL: &[OptionSpec] = &[option(
    "null",
    None,
    "",
    "also measure the load generator's own ceiling: a sink and a source in the broker's place",
)];
/// The raw-socket baseline alone.
pub const RAW: &[OptionSpec] = &[
    option("ping-pong", None, "", "round trips instead of a stream"),
    option("pairs", None, "N", "concurrent pairs (default 1)"),
    option("consumers", None, "N", "consumers that the relay copies each byte to (default 1)"),
    option("spin", None, "US", "microseconds that the relay polls before it sleeps (default 0)"),
    option("cpus", None, "PLACES", "processors, as in broker=0,publisher=1,consumer=1 (default any)"),
];

/// The options of a closed-loop benchmark.
pub struct ClosedLoopOptions {
    pub sizes: Vec<usize>,
    /// The traffic pattern.
    pub shape: TrafficShape,
    pub variants: Vec<BenchmarkVariant>,
    pub length: RunLength,
    /// Whether the raw-socket baseline is measured too.
    pub baseline: bool,
    /// Whether the load generator's ceiling is measured too.
    pub null: bool,
    /// How long the relay polls before it sleeps, in microseconds.
    pub spin_us: u64,
}

impl ClosedLoopOptions {
    pub fn read(benchmark: &Benchmark, given: &ParsedOptions, setup: &MeasureOptions) -> Result<Self, UsageError> {
        let shape = benchmark.shape(given);
        let usual_s = if shape == TrafficShape::PingPong { 2.0 } else { 1.0 };
        let factor = given.number("step", 2, 2, STEP_MAX)?;
        let mut variants = benchmark.variants(given)?;
        for variant in &mut variants {
            variant.scenario.checks = setup.checks;
            variant.scenario.tcp = setup.tcp.clone();
        }
        Ok(Self {
            sizes: sizes(given.text("sizes").unwrap_or("1:1M"), factor as usize)?,
            shape,
            variants,
            length: RunLength {
                iterations: setup.iterations,
                seconds: given.decimal("seconds", usual_s, 0.01, SECONDS_MAX)?,
            },
            baseline: given.has("baseline"),
            null: given.has("null"),
            spin_us: given.number("spin", 0, 0, SPIN_US_MAX)?,
        })
    }

    /// Records the values used.
    pub fn record(&self, record: &mut RunRecorder) {
        record.note_option("sizes", "1:1M");
        record.note_option("step", 2);
        record.note_option("seconds", self.length.seconds);
    }

    /// Most connections of a scenario to one broker.
    pub fn connections_max(&self) -> usize {
        let of = |variant: &BenchmarkVariant| variant.scenario.pairs * (variant.scenario.consumers + 1);
        self.variants.iter().map(of).max().unwrap_or(1)
    }
}
