//! Limits of planning, and constants of the model.

pub(crate) const OBSERVATIONS_MAX: usize = 10_000;
pub const RUNS_MAX: usize = 1_000;
/// Relative difference between two runs, assumed where there is a single run only. The 2009 paper measured B-B-C twice,
/// for Tables 1 and 2 and for Tables 5 and 6: the two differ by up to 9 %.
pub(crate) const SINGLE_RUN_NOISE: f64 = 0.1;
/// With at least this many runs their scatter determines the interval; with fewer it is [`SINGLE_RUN_NOISE`].
pub(crate) const RUNS_WITH_SCATTER_MIN: usize = 3;
/// The highest degree in a table of costs.
pub(crate) const DEGREE_MAX: u32 = 1 << 16;
/// Costs are linear if the line misses no measurement by more than this share.
pub(crate) const LINE_ERROR_MAX: f64 = 0.1;
/// Estimated bytes of headers of one copy where none were measured: frames, names and headers of AMQP.
pub(crate) const ESTIMATED_HEADER_BYTES: f64 = 150.0;
/// Bytes that a full TCP segment takes on an Ethernet, and those of them that are payload.
pub(crate) const SEGMENT_BYTES: (f64, f64) = (1_514.0, 1_448.0);
pub const CONSUMERS_MAX: u32 = 10_000_000;
/// A plan that extrapolates considers degrees up to this many times the highest measured one.
pub const EXTRAPOLATION_FACTOR: u32 = 4;
/// The search starts to prune when this many subtrees wait for the same rest.
pub(crate) const PRUNING_THRESHOLD: usize = 256;
