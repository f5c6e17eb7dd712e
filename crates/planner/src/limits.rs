//! Limits of planning.
//!
//! Enters: nothing.  Leaves: numbers with units.
//! Owns:   how much of anything there may be, and where a rule of the model begins and ends.
//! Never:  changes while the program runs.

/// Observations of a profile.
pub const OBSERVATIONS_MAX: usize = 10_000;
/// Runs of one observation.
pub const RUNS_MAX: usize = 1_000;
/// What a single run may be away from the next one, as a share, where there is one run only. The 2009 paper measured B-B-C twice,
/// for Tables 1 and 2 and for Tables 5 and 6: the two are up to 9 % apart.
pub const SINGLE_RUN_NOISE: f64 = 0.1;
