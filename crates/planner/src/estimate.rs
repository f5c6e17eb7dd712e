//! An estimate with its 95 % interval, and the arithmetic of such intervals. The value always lies within the interval.

use serde::{Deserialize, Serialize};

use crate::limits::{RUNS_WITH_SCATTER_MIN, SINGLE_RUN_NOISE};

/// A value and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// A value that is known exactly.
    pub const fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// The median of some runs, with half of Student's interval for their mean on either side; with one or two runs,
    /// the noise of single runs. `None` without runs, or if a value is not a number.
    pub fn of(runs: &[f64]) -> Option<Self> {
        if runs.is_empty() || runs.iter().any(|run| !run.is_finite()) {
            return None;
        }
        let value = median(runs);
        let half = match runs.len() {
            ..RUNS_WITH_SCATTER_MIN => SINGLE_RUN_NOISE * value.abs(),
            count => {
                let mean = runs.iter().sum::<f64>() / count as f64;
                let square = runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
                student(count - 1) * (square / count as f64).sqrt()
            }
        };
        Some(Self { value, low: value - half, high: value + half })
    }

    /// Applies a monotonic function to the value and both ends.
    pub fn map(self, function: impl Fn(f64) -> f64) -> Self {
        let ends = [function(self.low), function(self.high)];
        Self { value: function(self.value), low: ends[0].min(ends[1]), high: ends[0].max(ends[1]) }
    }

    /// Combines two estimates by a function that rises with both.
    pub fn with(self, other: Self, function: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            value: function(self.value, other.value),
            low: function(self.low, other.low),
            high: function(self.high, other.high),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        self.with(other, |one, two| one + two)
    }

    /// The product with a factor of 0 or more.
    pub fn times(self, count: f64) -> Self {
        self.map(|value| value * count)
    }

    /// The maximum: of the values, and of each end.
    pub fn max(self, other: Self) -> Self {
        self.with(other, f64::max)
    }

    /// The estimate with all its points raised to `least`.
    pub(crate) fn at_least(self, least: f64) -> Self {
        self.map(|value| value.max(least))
    }

    /// The estimate with all its points lowered to `most`.
    pub(crate) fn at_most(self, most: f64) -> Self {
        self.map(|value| value.min(most))
    }

    /// Whether all are numbers and in order.
    pub(crate) fn is_sound(&self) -> bool {
        [self.low, self.value, self.high].iter().all(|end| end.is_finite())
            && self.low <= self.value
            && self.value <= self.high
    }
}

/// The median; NaN for no values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

/// Student's quantile for 0.975: how many standard errors 95 % take on either side, with this many degrees of freedom.
pub(crate) fn student(freedom: usize) -> f64 {
    const SMALL: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    const NORMAL: f64 = 1.959_964;
    match freedom {
        0 => f64::INFINITY,
        1..=10 => SMALL[freedom - 1],
        // The first two terms of the expansion in the inverse of the degrees of freedom: off by 2 in 1,000 at eleven,
        // less beyond.
        _ => {
            let (z, n) = (NORMAL, freedom as f64);
            z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_has_the_interval_of_its_runs() {
        let of = Estimate::of(&[10.0, 12.0, 11.0, 9.0, 30.0]).expect("runs");
        assert_eq!(of.value, 11.0);
        assert!(of.low < 9.0 && of.high > 13.0 && of.is_sound(), "{of:?}");
        assert_eq!(Estimate::of(&[5.0, 5.0, 5.0]), Some(Estimate::exact(5.0)));
    }

    #[test]
    fn a_single_run_has_the_noise_of_single_runs() {
        let two = Estimate::of(&[190.0, 210.0]).expect("runs");
        assert_eq!((two.value, two.low, two.high), (200.0, 180.0, 220.0));
        let of = Estimate::of(&[200.0]).expect("a run");
        assert_eq!((of.value, of.low, of.high), (200.0, 180.0, 220.0));
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[f64::NAN, 1.0]), None);
    }

    #[test]
    fn what_falls_changes_the_ends() {
        let rate = Estimate { value: 2.0, low: 1.0, high: 4.0 }.map(|us| 1.0 / us);
        assert_eq!((rate.value, rate.low, rate.high), (0.5, 0.25, 1.0));
    }

    #[test]
    fn student_s_quantiles_are_those_of_the_tables() {
        for (freedom, expected) in
            [(1, 12.706), (4, 2.776), (10, 2.228), (11, 2.201), (20, 2.086), (60, 2.000), (1_000, 1.962)]
        {
            assert!((student(freedom) - expected).abs() < 3e-3, "{freedom}: {}", student(freedom));
        }
    }
}
