//! Times by classes, as histograms have them.

/// Times by classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeCounts {
    /// The longest time of each class but the last one, which has all that are longer.
    pub bounds_us: &'static [u64],
    /// One more than there are bounds.
    pub classes: Vec<u64>,
    pub sum_us: u64,
}
