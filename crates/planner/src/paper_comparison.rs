//! Compares the model with the 2009 paper: costs fitted to Tables 1 to 6 alone predict Tables 7 and 8.

use topology::Tree;

use crate::{Estimate, FitError, HostModel, Prediction, Sharing, fit, paper, predict};

/// Figures that differ by no more than this share are ties: the paper's own noise.
pub const TIED_SHARE: f64 = 0.1;
/// Cores of the paper's nodes: two quad-core processors each.
const CORES: u32 = 8;

/// One tree at one size.
#[derive(Clone, Debug)]
pub struct TreeComparison {
    pub tree: Tree,
    /// Measured messages a second of one stream.
    pub measured_per_s: f64,
    pub predicted: Prediction,
}

/// All trees of sixteen consumers at one size.
#[derive(Clone, Debug)]
pub struct SizeComparison {
    pub message_bytes: u64,
    /// In the paper's order.
    pub trees: Vec<TreeComparison>,
}

/// The whole comparison.
///
/// # Errors
/// Costs cannot be fitted, which the included file rules out.
pub fn compare_with_paper() -> Result<Vec<SizeComparison>, FitError> {
    let sets = fit(&paper::observations(1..=6), Sharing::OwnHosts)?;
    let host = HostModel { cores: CORES, link_bits_per_s: None, sharing: Sharing::OwnHosts };
    let measured = paper::observations(7..=8);
    let sizes = sets.iter().flat_map(|set| &set.sizes).map(|costs| {
        let of_size = measured.iter().filter(|one| one.message_bytes == costs.message_bytes);
        let trees = of_size.map(|one| TreeComparison {
            tree: one.tree.clone(),
            measured_per_s: one.streams_per_s[0],
            predicted: predict(&one.tree, costs, &host),
        });
        SizeComparison { message_bytes: costs.message_bytes, trees: trees.collect() }
    });
    Ok(sizes.collect())
}

impl SizeComparison {
    /// Spearman's rank correlation of predictions and measurements: 1 if both orders are equal.
    pub fn spearman(&self) -> f64 {
        let measured: Vec<f64> = self.trees.iter().map(|held| held.measured_per_s).collect();
        let predicted: Vec<f64> = self.trees.iter().map(TreeComparison::predicted_per_s).collect();
        spearman(&measured, &predicted)
    }

    /// The fastest measured tree, and the fastest predicted one.
    pub fn best(&self) -> Option<(&TreeComparison, &TreeComparison)> {
        let most = |of: fn(&TreeComparison) -> f64| self.trees.iter().max_by(|one, two| of(one).total_cmp(&of(two)));
        Some((most(|held| held.measured_per_s)?, most(TreeComparison::predicted_per_s)?))
    }

    /// Whether the predicted best tree was measured to be the best, or at most [`TIED_SHARE`] slower.
    pub fn predicts_best(&self) -> bool {
        self.best()
            .is_some_and(|(measured, named)| named.measured_per_s >= measured.measured_per_s * (1.0 - TIED_SHARE))
    }
}

impl TreeComparison {
    fn predicted_per_s(&self) -> f64 {
        self.predicted.stream_per_s.value
    }

    /// Relative error of the prediction.
    pub fn error(&self) -> Estimate {
        self.predicted.stream_per_s.map(|rate| rate / self.measured_per_s - 1.0)
    }
}

/// Spearman's rank correlation: the correlation of the ranks, where equal values share theirs. NaN for fewer than two
/// values, or if all are equal.
pub fn spearman(one: &[f64], two: &[f64]) -> f64 {
    let (one, two) = (ranks(one), ranks(two));
    let middle = (one.len() as f64 + 1.0) / 2.0;
    let sum = |of: &dyn Fn(f64, f64) -> f64| one.iter().zip(&two).map(|(a, b)| of(a - middle, b - middle)).sum::<f64>();
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let less = values.iter().filter(|other| *other < value).count() as f64;
        let equal = values.iter().filter(|other| *other == value).count() as f64;
        less + (equal + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spearman_is_that_of_the_books() {
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), 1.0);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
        // Two neighbours of five change places: 1 - 6 * 2 / (5 * 24).
        assert!((spearman(&[1.0, 2.0, 3.0, 4.0, 5.0], &[1.0, 3.0, 2.0, 4.0, 5.0]) - 0.9).abs() < 1e-12);
        // Ties share their ranks.
        assert!((spearman(&[1.0, 2.0, 2.0, 4.0], &[1.0, 2.0, 3.0, 4.0]) - 0.9486832980505138).abs() < 1e-12);
        assert!(spearman(&[1.0, 1.0], &[1.0, 2.0]).is_nan());
    }

    /// Issue 8, (a): the order at every size, and the best tree.
    #[test]
    fn tables_1_to_6_predict_tables_7_and_8() {
        let sizes = compare_with_paper().expect("costs");
        assert_eq!(
            sizes.iter().map(|size| size.message_bytes).collect::<Vec<_>>(),
            [64, 256, 1024, 4096, 65536, 131072, 262144]
        );
        for size in &sizes {
            assert_eq!(size.trees.len(), 5);
            let told: Vec<String> = size
                .trees
                .iter()
                .map(|held| format!("{} {:.0} {:.0}", held.tree, held.measured_per_s, held.predicted_per_s()))
                .collect();
            assert!(size.spearman() >= 0.9 - 1e-12, "{} bytes: {} {told:?}", size.message_bytes, size.spearman());
            assert!(size.predicts_best(), "{} bytes: {told:?}", size.message_bytes);
        }
    }

    /// The test above predicts tables that the costs were not fitted to.
    #[test]
    fn the_costs_have_seen_nothing_of_tables_7_and_8() {
        let sixteen: Vec<Tree> = paper::observations(7..=8).into_iter().map(|one| one.tree).collect();
        assert!(paper::observations(1..=6).iter().all(|one| !sixteen.contains(&one.tree)));
    }
}
