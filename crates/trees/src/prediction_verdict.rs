//! Compares predictions with measurements, and decides whether they are close enough.
//!
//! Trees that the calibration measured do not count as predicted.

use planner::Estimate;
use serde::Serialize;

/// Which direction of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BetterDirection {
    /// For rates.
    Higher,
    /// For processor time.
    Lower,
}

/// A tree with its prediction and its measurement.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CheckedTree {
    pub tree: String,
    pub brokers: u32,
    /// Whether the calibration measured it, so that it does not test the prediction.
    pub calibrated: bool,
    pub predicted: Estimate,
    /// Median, minimum and maximum of the runs.
    pub measured: Estimate,
    /// What limits the tree, as predicted.
    pub bottleneck: String,
    /// Median share of this host's processors that brokers and clients kept busy.
    pub processors_share: f64,
}

impl CheckedTree {
    /// Relative error of the prediction; above 0 if it was too optimistic.
    pub fn error(&self) -> f64 {
        self.predicted.value / self.measured.value - 1.0
    }
}

/// The tolerances of a verification.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PredictionTolerance {
    /// Maximum relative error.
    pub error_max: f64,
    /// How far the chosen tree may be behind the best one, as a share of that.
    pub behind_max: f64,
}

/// The outcome of a verification.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PredictionVerdict {
    /// The tree with the largest error of those outside the calibration, and that error.
    pub farthest: Option<(String, f64)>,
    /// Spearman's rank correlation of predictions and measurements; `None` with fewer than three trees.
    pub spearman: Option<f64>,
    /// The chosen tree, if it was measured.
    pub chosen: Option<String>,
    /// The best measured tree.
    pub best: Option<String>,
    /// How far the chosen tree is behind the best one, as a share of that.
    pub behind: Option<f64>,
    pub missed: Vec<String>,
}

impl PredictionVerdict {
    /// `chosen` is the notation of the chosen tree.
    pub fn of(
        pairs: &[CheckedTree],
        chosen: Option<&str>,
        better: BetterDirection,
        asked: PredictionTolerance,
    ) -> Self {
        let predicted = pairs.iter().filter(|pair| !pair.calibrated);
        let farthest = predicted.max_by(|one, other| one.error().abs().total_cmp(&other.error().abs()));
        let farthest = farthest.map(|pair| (pair.tree.clone(), pair.error()));
        // Larger is better.
        let score = |value: f64| match better {
            BetterDirection::Higher => value,
            BetterDirection::Lower => -value,
        };
        let by =
            |value: &dyn Fn(&CheckedTree) -> f64| pairs.iter().map(|pair| score(value(pair))).collect::<Vec<f64>>();
        let spearman = spearman(&by(&|pair| pair.predicted.value), &by(&|pair| pair.measured.value));
        let best = pairs.iter().max_by(|one, other| score(one.measured.value).total_cmp(&score(other.measured.value)));
        let chosen = chosen.and_then(|chosen| pairs.iter().find(|pair| pair.tree == chosen));
        let behind = chosen.zip(best).map(|(chosen, best)| (1.0 - chosen.measured.value / best.measured.value).abs());
        let mut missed = Vec::new();
        if let Some((tree, error)) = farthest.as_ref().filter(|(_, error)| error.abs() > asked.error_max) {
            missed.push(format!(
                "{tree} is predicted {:.1} % {}; {} % are allowed",
                error.abs() * 100.0,
                if *error > 0.0 { "too high" } else { "too low" },
                asked.error_max * 100.0
            ));
        }
        if let (Some(chosen), Some(best), Some(behind)) =
            (chosen, best, behind.filter(|behind| *behind > asked.behind_max))
        {
            missed.push(format!(
                "the chosen tree {} is {:.1} % behind {}; {} % are allowed",
                chosen.tree,
                behind * 100.0,
                best.tree,
                asked.behind_max * 100.0
            ));
        }
        Self {
            farthest,
            spearman,
            chosen: chosen.map(|pair| pair.tree.clone()),
            best: best.map(|pair| pair.tree.clone()),
            behind,
            missed,
        }
    }
}

/// Ranks from 1, the best first; equal values share the mean of theirs.
pub(super) fn ranks(values: &[f64], better: BetterDirection) -> Vec<f64> {
    let is_before = |one: f64, other: f64| match better {
        BetterDirection::Higher => one > other,
        BetterDirection::Lower => one < other,
    };
    let place = |&value: &f64| {
        let before = values.iter().filter(|&&other| is_before(other, value)).count();
        let equal = values.iter().filter(|&&other| other == value).count();
        before as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(place).collect()
}

/// Spearman's rank correlation; `None` for fewer than three values, or if all are equal.
fn spearman(one: &[f64], other: &[f64]) -> Option<f64> {
    if one.len() < 3 {
        return None;
    }
    let (one, other) = (ranks(one, BetterDirection::Higher), ranks(other, BetterDirection::Higher));
    let mean = (one.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let spread = (product(&one, &one) * product(&other, &other)).sqrt();
    (spread > 0.0).then(|| product(&one, &other) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: PredictionTolerance = PredictionTolerance { error_max: 0.15, behind_max: 0.05 };

    fn pair(tree: &str, predicted: f64, measured: f64) -> CheckedTree {
        CheckedTree {
            tree: tree.to_owned(),
            brokers: 1,
            calibrated: false,
            predicted: Estimate::exact(predicted),
            measured: Estimate::exact(measured),
            bottleneck: String::new(),
            processors_share: 0.5,
        }
    }

    #[test]
    fn near_enough_is_no_miss() {
        let pairs = [pair("B-16C", 10.0, 9.5), pair("B-4B-16C", 40.0, 38.0), pair("B-2B-16C", 20.0, 21.0)];
        let verdict = PredictionVerdict::of(&pairs, Some("B-4B-16C"), BetterDirection::Higher, ASKED);
        assert_eq!(verdict.missed, [""; 0]);
        assert_eq!(
            (verdict.spearman, verdict.best.as_deref(), verdict.behind),
            (Some(1.0), Some("B-4B-16C"), Some(0.0))
        );
        assert!(verdict.farthest.is_some_and(|(_, error)| (error - 0.0526).abs() < 1e-3));
    }

    #[test]
    fn what_is_too_far_away_and_too_far_behind_is_told() {
        let pairs = [pair("B-16C", 10.0, 10.0), pair("B-4B-16C", 50.0, 40.0), pair("B-2B-16C", 45.0, 44.0)];
        let verdict = PredictionVerdict::of(&pairs, Some("B-4B-16C"), BetterDirection::Higher, ASKED);
        assert_eq!(
            verdict.missed,
            [
                "B-4B-16C is predicted 25.0 % too high; 15 % are allowed",
                "the chosen tree B-4B-16C is 9.1 % behind B-2B-16C; 5 % are allowed",
            ]
        );
        assert_eq!(verdict.spearman, Some(0.5));
    }

    #[test]
    fn of_processor_time_less_is_better() {
        let pairs = [pair("B-16C", 3.0, 3.0), pair("B-4B-16C", 5.0, 5.0), pair("B-2B-16C", 4.0, 4.0)];
        let verdict = PredictionVerdict::of(&pairs, Some("B-4B-16C"), BetterDirection::Lower, ASKED);
        assert_eq!((verdict.best.as_deref(), verdict.spearman), (Some("B-16C"), Some(1.0)));
        assert!(verdict.behind.is_some_and(|behind| (behind - 2.0 / 3.0).abs() < 1e-9));
    }

    #[test]
    fn a_tree_of_the_calibration_is_no_prediction() {
        let pairs = [CheckedTree { calibrated: true, ..pair("B-16C", 20.0, 10.0) }, pair("B-4B-16C", 41.0, 40.0)];
        let verdict = PredictionVerdict::of(&pairs, None, BetterDirection::Higher, ASKED);
        assert_eq!(verdict.farthest.map(|(tree, _)| tree).as_deref(), Some("B-4B-16C"));
        assert!(verdict.missed.is_empty() && verdict.spearman.is_none() && verdict.behind.is_none());
    }

    #[test]
    fn equal_ones_share_their_places() {
        assert_eq!(ranks(&[5.0, 7.0, 5.0, 1.0], BetterDirection::Higher), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!(ranks(&[5.0, 7.0], BetterDirection::Lower), [1.0, 2.0]);
        assert_eq!(spearman(&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0]), None);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
    }
}
