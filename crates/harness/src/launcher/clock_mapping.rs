//! Maps times of another rank's clock to this one and back.
//!
//! Clocks drift, so a time between two comparisons is mapped by linear interpolation.

use std::collections::VecDeque;

use gauge::ClockOffset;

use crate::limits::COMPARISONS_KEPT;

/// The result of a clock comparison, with its time on rank 0's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockComparison {
    pub at_ns: u64,
    /// How far the other clock is ahead.
    pub offset: ClockOffset,
}

/// The comparisons with one clock; the oldest ones are dropped beyond a limit.
#[derive(Clone, Debug, Default)]
pub struct ClockMapping {
    first: Option<ClockComparison>,
    comparisons: VecDeque<ClockComparison>,
}

impl ClockMapping {
    /// Adds a comparison; they must be in chronological order.
    pub fn add(&mut self, comparison: ClockComparison) {
        self.first.get_or_insert(comparison);
        if self.comparisons.len() == COMPARISONS_KEPT {
            self.comparisons.pop_front();
        }
        self.comparisons.push_back(comparison);
    }

    pub fn first(&self) -> Option<ClockComparison> {
        self.first
    }

    pub fn last(&self) -> Option<ClockComparison> {
        self.comparisons.back().copied()
    }

    /// The largest error of the comparisons still kept.
    pub fn error_ns(&self) -> Option<u64> {
        self.comparisons.iter().map(|comparison| comparison.offset.error_ns).max()
    }

    /// The drift of the other clock between the first and the last comparison in parts per million; `None` if the errors of
    /// the two exceed it.
    pub fn drift_ppm(&self) -> Option<f64> {
        let (first, last) = (self.first?, self.last()?);
        let elapsed_ns = last.at_ns.checked_sub(first.at_ns).filter(|&elapsed_ns| elapsed_ns > 0)?;
        let gained_ns = i128::from(last.offset.offset_ns) - i128::from(first.offset.offset_ns);
        let error_ns = u128::from(first.offset.error_ns) + u128::from(last.offset.error_ns);
        (gained_ns.unsigned_abs() > error_ns).then(|| gained_ns as f64 * 1e6 / elapsed_ns as f64)
    }

    /// Converts a time of the other clock to this one; unchanged if there was no comparison.
    pub fn to_own(&self, other_ns: u64) -> u64 {
        let Some(last) = self.last() else { return other_ns };
        // Offsets are indexed by this clock's time, which is the unknown: iterate. The second step is exact to a nanosecond
        // for clocks whose drift is less than their offset.
        let about_ns = shifted(other_ns, -i128::from(last.offset.offset_ns));
        let nearer_ns = shifted(other_ns, -self.ahead_at(about_ns));
        shifted(other_ns, -self.ahead_at(nearer_ns))
    }

    /// Converts a time of this clock to the other one.
    pub fn to_other(&self, own_ns: u64) -> u64 {
        shifted(own_ns, self.ahead_at(own_ns))
    }

    fn ahead_at(&self, own_ns: u64) -> i128 {
        let after = self.comparisons.partition_point(|comparison| comparison.at_ns <= own_ns);
        let earlier = after.checked_sub(1).and_then(|index| self.comparisons.get(index));
        match (earlier, self.comparisons.get(after)) {
            (Some(earlier), Some(later)) => {
                let (span, since) = (later.at_ns - earlier.at_ns, own_ns - earlier.at_ns);
                let gained = i128::from(later.offset.offset_ns) - i128::from(earlier.offset.offset_ns);
                i128::from(earlier.offset.offset_ns) + gained * i128::from(since) / i128::from(span)
            }
            (Some(only), None) | (None, Some(only)) => i128::from(only.offset.offset_ns),
            (None, None) => 0,
        }
    }
}

fn shifted(time_ns: u64, by_ns: i128) -> u64 {
    u64::try_from((i128::from(time_ns) + by_ns).max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(at_ns: u64, offset_ns: i64, error_ns: u64) -> ClockComparison {
        ClockComparison { at_ns, offset: ClockOffset { offset_ns, error_ns } }
    }

    #[test]
    fn times_are_mapped_along_the_drift() {
        let mut clocks = ClockMapping::default();
        assert_eq!((clocks.to_own(7), clocks.to_other(7)), (7, 7));
        clocks.add(comparison(1_000_000, 5_000, 10));
        assert_eq!((clocks.to_own(6_000), clocks.to_other(1_000)), (1_000, 6_000));
        clocks.add(comparison(2_000_000, 5_100, 30));
        for (own, other) in [(500_000, 505_000), (1_500_000, 1_505_050), (3_000_000, 3_005_100)] {
            assert_eq!((clocks.to_own(other), clocks.to_other(own)), (own, other));
        }
        assert_eq!(clocks.error_ns(), Some(30));
    }

    #[test]
    fn a_clock_behind_and_one_set_far_off() {
        let mut clocks = ClockMapping::default();
        clocks.add(comparison(1_000, -400, 1));
        assert_eq!((clocks.to_own(600), clocks.to_other(1_000), clocks.to_other(100)), (1_000, 600, 0));
        clocks.add(comparison(2_000, i64::MAX, 1));
        assert_eq!(clocks.to_own(u64::MAX), u64::MAX - i64::MAX as u64);
    }

    #[test]
    fn drift_is_reported_if_it_exceeds_the_errors() {
        let mut clocks = ClockMapping::default();
        clocks.add(comparison(0, 5_000, 40));
        assert_eq!(clocks.drift_ppm(), None);
        clocks.add(comparison(1_000_000, 5_060, 30));
        assert_eq!(clocks.drift_ppm(), None);
        clocks.add(comparison(2_000_000, 5_200, 30));
        assert_eq!(clocks.drift_ppm(), Some(100.0));
    }

    #[test]
    fn only_so_many_comparisons_are_kept() {
        let mut clocks = ClockMapping::default();
        for at_ns in 0..2 * COMPARISONS_KEPT as u64 {
            clocks.add(comparison(at_ns, 0, 0));
        }
        assert_eq!(clocks.comparisons.len(), COMPARISONS_KEPT);
        assert_eq!(clocks.first().map(|first| first.at_ns), Some(0));
    }
}
