//! Options of the closed-loop benchmarks, with their bounds and defaults.

use super::benchmarks::{Benchmark, BenchmarkVariant};
use super::run_length::RunLength;
use crate::arguments::{ParsedOptions, OptionSpec, UsageError, option};
use crate::limits::{SECONDS_MAX, SPIN_US_MAX, STEP_MAX};
use crate::role_protocol::{TrafficShape, sizes};
use crate::run_recorder::RunRecorder;
use crate::measure_options::MeasureOptions;

/// Message sizes and length of runs.
pub const SIZES: &[OptionSpec] = &[
    option("sizes", Some('m'), "MIN:MAX", "message sizes, as in 1:1M (the default) or 64:64"),
    option("step", None, "FACTOR", "from one size to the next (default 2)"),
    option("seconds", None, "S", "length of a run on the slowest broker, about (default 1, round trips 2)"),
];
pub const PAIRS: &[OptionSpec] = &[option("pairs", None, "LIST", "publisher-consumer pairs (default 1,2,4,8)")];
pub const CONSUMERS: &[OptionSpec] = &[
    option("consumers", None, "LIST", "consumers of each message (default 1,2,4,8,16,32)"),
    option("processes", None, "N", "processes that they are spread over (default 1)"),
];
pub const TOPIC: &[OptionSpec] = &[
    option("patterns", None, "LIST", "patterns bound (default 1,4,16,64,256,1024)"),
    option("match", None, "WHICH", "one of them matches (default), all, or one among wildcards"),
    option("keys", None, "N", "routing keys used in turn (default 1)"),
    option("changing", None, "N", "bindings added, and taken away, each second meanwhile (default none)"),
];
/// Confirms and acknowledgements in streams.
pub const DELIVERY: &[OptionSpec] = &[
    option("confirms", None, "WINDOW", "publisher confirms, at most so many outstanding (default: none)"),
    option("ack-every", None, "N", "manual acknowledgement each N messages (default: automatic)"),
    option("prefetch", None, "N", "unacknowledged messages sent ahead (default: no limit)"),
];
/// The same for `confirm`.
pub const CONFIRM: &[OptionSpec] = &[
    option("window", None, "N", "most messages without a confirm (default 1000)"),
    option("ack-every", None, "N", "an acknowledgement each N messages (default 100)"),
    option("prefetch", None, "N", "unacknowledged messages sent ahead (default: no limit)"),
];
/// The raw-socket baseline beside the brokers.
pub const BASELINE: &[OptionSpec] =
    &[option("baseline", None, "", "measure raw sockets through a relay too, in turns, and each broker's share of it")];
/// The load generator's ceiling beside the brokers.
pub const NULL: &[OptionSpec] = &[option(
    "null",
    None,
    "",
    "measure the load generator's own ceiling too: a sink and a source in the broker's place",
)];
/// The raw-socket baseline alone.
pub const RAW: &[OptionSpec] = &[
    option("ping-pong", None, "", "round trips instead of a stream"),
    option("pairs", None, "N", "pairs at once (default 1)"),
    option("consumers", None, "N", "the relay writes each byte to so many (default 1)"),
    option("spin", None, "US", "the relay polls so long before it sleeps (default 0)"),
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
