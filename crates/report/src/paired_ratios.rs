//! Ratios of two targets measured in turns, paired by turn: a disturbance during a turn affects both.

use gauge::RunValues;

use crate::document::SeriesPoint;
use crate::metric::Metric;

/// The ratio of the first to the second in each turn that both have.
pub fn ratios(metric: &Metric, of: &SeriesPoint, to: &SeriesPoint) -> Vec<f64> {
    let each = of.runs.iter().zip(&to.runs);
    let ratios = each.filter_map(|(of, to)| Some(metric.of(of)? / metric.of(to)?));
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

/// The median of these ratios; `None` without a common turn.
pub fn ratio(metric: &Metric, of: &SeriesPoint, to: &SeriesPoint) -> Option<f64> {
    let ratios = ratios(metric, of, to).into_iter().collect::<RunValues>();
    Some(ratios.summary()?.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::point;

    #[test]
    fn a_slow_turn_is_slow_for_both() {
        let (of, to) = (point(64.0, &[2_000, 1_000, 4_000]), point(64.0, &[1_000, 500, 2_000]));
        assert_eq!(ratios(&Metric::PublishedPerS, &of, &to), [2.0, 2.0, 2.0]);
        assert_eq!(ratio(&Metric::PublishedPerS, &of, &to), Some(2.0));
    }

    #[test]
    fn a_turn_that_one_lacks_is_left_out() {
        let (of, mut to) = (point(64.0, &[2_000, 1_000, 4_000]), point(64.0, &[1_000, 1_000]));
        to.runs[0].published = 0;
        assert_eq!(ratios(&Metric::PublishedPerS, &of, &to), [1.0]);
        assert_eq!(ratio(&Metric::OperationsPerS, &of, &to), None);
    }
}
