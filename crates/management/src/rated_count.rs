//! A count, and how fast it grows.

/// A count since the start, and how fast it grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RatedCount {
    pub total: u64,
    /// A second, over the last interval; 0 when it stands still.
    pub rate: f64,
}
