//! Limits of what is kept of a run's disks.

/// Footers that are kept, to come again where they are none.
pub(crate) const STALE_FOOTERS_MAX: usize = 32;
