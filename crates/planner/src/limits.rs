//! Limits of planning.
//!
//! Leaves: numbers with units.
//! Owns:   how much of anything there may be, and where a rule of the model begins and ends.
//! Never:  changes while the program runs.

/// Observations of a profile.
pub const OBSERVATIONS_MAX: usize = 10_000;
/// Runs of one observation.
pub const RUNS_MAX: usize = 1_000;
/// What a single run may be away from the next one, as a share, where there is one run only. The 2009 paper measured B-B-C twice,
/// for Tables 1 and 2 and for Tables 5 and 6: the two are up to 9 % apart.
pub const SINGLE_RUN_NOISE: f64 = 0.1;
/// From so many runs on their own scatter makes the interval; with fewer it is [`SINGLE_RUN_NOISE`].
pub const RUNS_WITH_SCATTER_MIN: usize = 3;
/// The highest degree in a table of costs.
pub const DEGREE_MAX: u32 = 1 << 16;
/// Costs are a line if it misses nothing that was measured by more, as a share.
pub const LINE_ERROR_MAX: f64 = 0.1;
/// Presumed bytes of heads of one copy where none were measured: frames, names and headers of AMQP.
pub const ESTIMATED_HEADER_BYTES: f64 = 150.0;
/// Bytes that a full segment of TCP takes on an Ethernet, and those of them that are not heads.
pub const SEGMENT_BYTES: (f64, f64) = (1_514.0, 1_448.0);
/// Consumers of a plan.
pub const CONSUMERS_MAX: u32 = 10_000_000;
/// Who plans beyond what was measured gets degrees of so many times the highest that was: further, a line says nothing.
pub const EXTRAPOLATION_FACTOR: u32 = 4;
/// The search begins to throw parts of trees away when so many wait for the same rest.
pub const PRUNING_THRESHOLD: usize = 256;
