//! Steadiness of a run: drift and spread of the rates in equal parts of an interval.

use serde::{Deserialize, Serialize};

use crate::limits::{DRIFT_MAX, STEADINESS_RATES_MIN};
use crate::run_summary::RunValues;

/// The steadiness of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Median rate of the second half minus that of the first, relative to the overall median.
    pub drift: f64,
    /// Standard deviation of the rates relative to their mean.
    pub coefficient_of_variation: f64,
    /// Whether the drift is within `DRIFT_MAX`.
    pub steady: bool,
}

/// Judges the rates of equal parts of an interval. `None` for fewer than `STEADINESS_RATES_MIN` rates.
///
/// The first and last part have lower rates because the run starts and ends in them; medians are robust against that.
pub fn steadiness(rates: &[f64]) -> Option<Steadiness> {
    if rates.len() < STEADINESS_RATES_MIN || rates.iter().any(|rate| !rate.is_finite()) {
        return None;
    }
    let median = |rates: &[f64]| rates.iter().copied().collect::<RunValues>().median();
    let (first, second) = rates.split_at(rates.len() / 2);
    let (first, second, all) = (median(first)?, median(second)?, median(rates)?);
    let share = |value: f64, of: f64| match (value == 0.0, of == 0.0) {
        (true, _) => 0.0,
        (false, true) => value.signum(),
        (false, false) => value / of,
    };
    let drift = share(second - first, all);
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some(Steadiness { drift, coefficient_of_variation: share(variance.sqrt(), mean), steady: drift.abs() <= DRIFT_MAX })
}

impl Steadiness {
    /// A note for the reader if the run was not steady.
    pub fn note(&self) -> Option<String> {
        (!self.steady).then(|| {
            let way = if self.drift > 0.0 { "faster" } else { "slower" };
            format!("not steady: the second half was {:.0} % {way} than the first", self.drift.abs() * 100.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steadiness_of_examples() {
        let even = steadiness(&[100.0; 20]).expect("twenty rates");
        assert_eq!(even, Steadiness { drift: 0.0, coefficient_of_variation: 0.0, steady: true });
        assert_eq!(even.note(), None);

        let mut begins_slowly = [100.0; 20];
        begins_slowly[0] = 20.0;
        begins_slowly[19] = 40.0;
        assert!(steadiness(&begins_slowly).expect("twenty rates").steady);

        let noisy: Vec<f64> = (0..20).map(|part| if part % 2 == 0 { 50.0 } else { 150.0 }).collect();
        let noisy = steadiness(&noisy).expect("twenty rates");
        assert!(noisy.steady && noisy.coefficient_of_variation > 0.4, "{noisy:?}");

        let slower: Vec<f64> = (0..20).map(|part| if part < 10 { 100.0 } else { 80.0 }).collect();
        let slower = steadiness(&slower).expect("twenty rates");
        assert!(!slower.steady && slower.drift < 0.0);
        assert_eq!(slower.note().as_deref(), Some("not steady: the second half was 22 % slower than the first"));
    }

    #[test]
    fn a_run_with_a_pause_is_not_steady() {
        let stopped: Vec<f64> = (0..20).map(|part| if part < 12 { 100.0 } else { 0.0 }).collect();
        assert!(!steadiness(&stopped).expect("twenty rates").steady);
        let begun_late: Vec<f64> = (0..20).map(|part| if part < 15 { 0.0 } else { 100.0 }).collect();
        assert!(steadiness(&begun_late).expect("twenty rates").drift >= 0.0);
    }

    #[test]
    fn too_few_rates_say_nothing() {
        assert_eq!(steadiness(&[1.0; 7]), None);
        assert_eq!(steadiness(&[f64::NAN; 20]), None);
    }
}
