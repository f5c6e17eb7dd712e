//! Linear regression by least squares of relative errors, with non-negative coefficients and intervals.

use crate::Estimate;
use crate::estimate::student;

/// One measurement: the factors of the coefficients, and their sum.
#[derive(Clone, Debug)]
pub(crate) struct RegressionRow<const N: usize> {
    pub factors: [f64; N],
    pub sum: Estimate,
}

impl<const N: usize> RegressionRow<N> {
    /// The sum that the coefficients predict.
    pub fn fitted(&self, coefficients: &[Estimate; N]) -> f64 {
        self.factors.iter().zip(coefficients).map(|(factor, coefficient)| factor * coefficient.value).sum()
    }
}

/// Fits the coefficients. One that is in no row, or would be negative, is 0. `None` if the rows do not determine them.
///
/// The half width of an interval is the greater of two: what follows from the rows' own intervals, and what follows
/// from the residuals, if there are more rows than coefficients.
pub(crate) fn fit<const N: usize>(rows: &[RegressionRow<N>]) -> Option<[Estimate; N]> {
    let mut used: Vec<usize> = (0..N).filter(|&at| rows.iter().any(|row| row.factors[at] > 0.0)).collect();
    loop {
        // Everything is divided by the measured value, so that errors are relative.
        let scaled =
            |row: &RegressionRow<N>| -> Vec<f64> { used.iter().map(|&at| row.factors[at] / row.sum.value).collect() };
        let matrix: Vec<Vec<f64>> = rows.iter().map(scaled).collect();
        let size = used.len();
        let mut square = vec![vec![0.0; size]; size];
        let mut right = vec![0.0; size];
        for row in &matrix {
            for one in 0..size {
                right[one] += row[one];
                (0..size).for_each(|other| square[one][other] += row[one] * row[other]);
            }
        }
        let inverse = inverse(square)?;
        let times = |vector: &[f64]| -> Vec<f64> {
            inverse.iter().map(|line| line.iter().zip(vector).map(|(one, two)| one * two).sum()).collect()
        };
        let values = times(&right);
        if let Some((at, _)) =
            values.iter().enumerate().filter(|(_, value)| **value < 0.0).min_by(|one, two| one.1.total_cmp(two.1))
        {
            used.remove(at);
            continue;
        }
        let missed: f64 = matrix
            .iter()
            .map(|row| (row.iter().zip(&values).map(|(factor, value)| factor * value).sum::<f64>() - 1.0).powi(2))
            .sum();
        let freedom = rows.len().saturating_sub(size);
        let mut fitted = [Estimate::exact(0.0); N];
        for (place, &at) in used.iter().enumerate() {
            // The influence of each row on this coefficient: the row of (X'X)^-1 X'.
            let own: f64 = matrix
                .iter()
                .zip(rows)
                .map(|(scaled, row)| {
                    let moves: f64 = inverse[place].iter().zip(scaled).map(|(one, two)| one * two).sum();
                    (moves * (row.sum.high - row.sum.low) / 2.0 / row.sum.value).powi(2)
                })
                .sum::<f64>()
                .sqrt();
            let scatter = match freedom {
                0 => 0.0,
                _ => student(freedom) * (missed / freedom as f64 * inverse[place][place].max(0.0)).sqrt(),
            };
            let (value, half) = (values[place], own.max(scatter));
            fitted[at] = Estimate { value, low: (value - half).max(0.0), high: value + half };
        }
        return Some(fitted);
    }
}

/// The slope of a line through the points; `None` with fewer than two different abscissas.
pub(crate) fn slope(points: &[(f64, Estimate)]) -> Option<Estimate> {
    let count = points.len() as f64;
    let middle = points.iter().map(|(at, _)| at).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(at, _)| (at - middle).powi(2)).sum();
    if points.len() < 2 || spread <= 0.0 {
        return None;
    }
    let level = points.iter().map(|(_, value)| value.value).sum::<f64>() / count;
    let value = points.iter().map(|(at, value)| (at - middle) * value.value).sum::<f64>() / spread;
    let own =
        points.iter().map(|(at, value)| ((at - middle) * (value.high - value.low) / 2.0 / spread).powi(2)).sum::<f64>();
    let missed: f64 = points.iter().map(|(at, one)| (one.value - level - value * (at - middle)).powi(2)).sum();
    let scatter = match points.len() - 2 {
        0 => 0.0,
        freedom => student(freedom) * (missed / freedom as f64 / spread).sqrt(),
    };
    let half = own.sqrt().max(scatter);
    Some(Estimate { value, low: value - half, high: value + half })
}

/// Inverts a matrix by elimination with the largest pivot of each column; `None` if it is singular.
fn inverse(mut square: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = square.len();
    // Columns may have very different magnitudes (bytes and seconds), so each is scaled to 1 on its diagonal first.
    let scale: Vec<f64> = (0..size).map(|at| square[at][at].sqrt()).collect();
    if scale.iter().any(|scale| !(scale.is_finite() && *scale > 0.0)) {
        return None;
    }
    for (one, line) in square.iter_mut().enumerate() {
        line.iter_mut().enumerate().for_each(|(other, value)| *value /= scale[one] * scale[other]);
    }
    let mut inverse: Vec<Vec<f64>> =
        (0..size).map(|one| (0..size).map(|other| f64::from(u8::from(one == other))).collect()).collect();
    for column in 0..size {
        let pivot =
            (column..size).max_by(|one, two| square[*one][column].abs().total_cmp(&square[*two][column].abs()))?;
        if square[pivot][column].abs() < 1e-9 {
            return None;
        }
        square.swap(column, pivot);
        inverse.swap(column, pivot);
        let by = square[column][column];
        for at in 0..size {
            square[column][at] /= by;
            inverse[column][at] /= by;
        }
        for line in (0..size).filter(|line| *line != column) {
            let by = square[line][column];
            for at in 0..size {
                square[line][at] -= by * square[column][at];
                inverse[line][at] -= by * inverse[column][at];
            }
        }
    }
    for (one, line) in inverse.iter_mut().enumerate() {
        line.iter_mut().enumerate().for_each(|(other, value)| *value /= scale[one] * scale[other]);
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<const N: usize>(factors: [f64; N], sum: f64) -> RegressionRow<N> {
        RegressionRow { factors, sum: Estimate::exact(sum) }
    }

    #[test]
    fn a_line_is_found_again() {
        let rows: Vec<_> = [1.0, 2.0, 5.0, 9.0].map(|k| row([1.0, k], 3.0 + 0.5 * k)).to_vec();
        let [base, step] = fit(&rows).expect("a line");
        assert!((base.value - 3.0).abs() < 1e-9 && (step.value - 0.5).abs() < 1e-9, "{base:?} {step:?}");
        assert!(base.high - base.low < 1e-6, "{base:?}");
    }

    #[test]
    fn what_would_be_below_0_is_0() {
        let rows: Vec<_> = [(1.0, 1.0), (2.0, 2.5), (4.0, 5.5)].map(|(k, sum)| row([1.0, k], sum)).to_vec();
        let [base, step] = fit(&rows).expect("a line");
        assert_eq!(base, Estimate::exact(0.0));
        assert!(step.value > 1.0 && step.low < step.value, "{step:?}");
    }

    #[test]
    fn what_is_in_no_row_is_0_and_what_cannot_be_told_apart_is_none() {
        let [one, none] = fit(&[row([2.0, 0.0], 4.0), row([1.0, 0.0], 2.0)]).expect("one");
        assert!((one.value - 2.0).abs() < 1e-9 && none == Estimate::exact(0.0));
        assert!(fit(&[row([1.0, 2.0], 4.0), row([2.0, 4.0], 8.0)]).is_none());
    }

    #[test]
    fn a_slope_is_found_again() {
        let points: Vec<_> = [2.0, 3.0, 4.0, 5.0].map(|at| (at, Estimate::exact(1.0 - 0.25 * at))).to_vec();
        let found = slope(&points).expect("a slope");
        assert!((found.value + 0.25).abs() < 1e-9 && found.high - found.low < 1e-6, "{found:?}");
        assert_eq!((slope(&points[..1]), slope(&[points[0], points[0]])), (None, None));
    }

    #[test]
    fn noise_widens_the_interval() {
        let noisy = |noise: f64| {
            let rows: Vec<_> = [1.0, 2.0, 3.0, 4.0, 5.0]
                .map(|k: f64| row([1.0, k], (3.0 + k) * (1.0 + noise * (k * 7.0).sin())))
                .to_vec();
            let [_, step] = fit(&rows).expect("a line");
            step.high - step.low
        };
        assert!(noisy(0.01) > 0.0 && noisy(0.1) > 5.0 * noisy(0.01));
    }
}
