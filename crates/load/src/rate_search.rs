//! Searches for the highest rate that meets a latency objective: brackets it by doubling and halving, then bisects on a
//! logarithmic scale.

/// The search ends when the bounds of the bracket are this close.
pub(crate) const RESOLUTION: f64 = 1.05;
/// Limits of the rates.
pub const RATE_MIN: f64 = 10.0;
pub const RATE_MAX: f64 = 8_000_000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSearch {
    met: Option<f64>,
    failed: Option<f64>,
    next: f64,
}

impl RateSearch {
    /// Starts with a guess.
    pub fn from(guess: f64) -> Self {
        Self { met: None, failed: None, next: guess.clamp(RATE_MIN, RATE_MAX) }
    }

    /// The next rate to try; `None` at the end of the search.
    pub fn rate(&self) -> Option<f64> {
        let open = match (self.met, self.failed) {
            (Some(met), Some(failed)) => failed / met > RESOLUTION,
            (Some(met), None) => met < RATE_MAX,
            (None, Some(failed)) => failed > RATE_MIN,
            (None, None) => true,
        };
        open.then_some(self.next)
    }

    /// Records whether the tried rate met the objective.
    pub fn observe(&mut self, met: bool) {
        if met {
            self.met = Some(self.next);
        } else {
            self.failed = Some(self.next);
        }
        self.next = match (self.met, self.failed) {
            (Some(met), Some(failed)) => rounded((met * failed).sqrt(), met, failed),
            (Some(met), None) => (met * 2.0).min(RATE_MAX),
            (None, Some(failed)) => (failed / 2.0).max(RATE_MIN),
            (None, None) => self.next,
        };
    }

    /// The highest rate that met the objective.
    pub fn best(&self) -> Option<f64> {
        self.met
    }

    /// A rate that met the objective missed it in a longer run: it and all rates above count as missed.
    pub fn step_down(&mut self) -> Option<f64> {
        let lower = self.met? / RESOLUTION / RESOLUTION;
        self.failed = self.met;
        self.met = (lower >= RATE_MIN).then_some(lower);
        self.met
    }
}

/// Three significant digits, if that is still between the bounds.
fn rounded(value: f64, low: f64, high: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 2.0);
    let rounded = (value / unit).round() * unit;
    if low < rounded && rounded < high { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with random service times that handles `capacity` messages per second one at a time: the quantile of the time in
    /// system is known.
    fn p99_s(rate: f64, capacity: f64) -> Option<f64> {
        (rate < capacity).then(|| 100_f64.ln() / (capacity - rate))
    }

    fn search(guess: f64, mut met: impl FnMut(f64) -> bool) -> (Option<f64>, usize) {
        let mut search = RateSearch::from(guess);
        let mut probes = 0;
        while let Some(rate) = search.rate() {
            probes += 1;
            assert!(probes < 60, "{search:?}");
            search.observe(met(rate));
        }
        (search.best(), probes)
    }

    #[test]
    fn the_highest_rate_of_a_simulated_server_is_found() {
        for (capacity, bound_s) in [(1_000.0, 0.05), (50_000.0, 0.001), (2_000_000.0, 0.0001), (300.0, 0.1)] {
            let truth: f64 = capacity - 100_f64.ln() / bound_s;
            for guess in [10.0, 1_000.0, 1e6, 1e9] {
                let (best, probes) = search(guess, |rate| p99_s(rate, capacity).is_some_and(|p99| p99 <= bound_s));
                let best = best.expect("there is one");
                assert!(
                    best <= truth && best >= truth / RESOLUTION / 1.01,
                    "{capacity} from {guess}: {best} of {truth}"
                );
                assert!(probes <= 26, "{capacity} from {guess}: {probes}");
            }
        }
    }

    #[test]
    fn no_rate_and_every_rate() {
        assert_eq!(search(1_000.0, |_| false).0, None);
        assert_eq!(search(1_000.0, |_| true).0, Some(RATE_MAX));
    }

    #[test]
    fn a_rate_that_fails_when_tried_longer_is_left() {
        let mut search = RateSearch { met: Some(1_000.0), failed: Some(1_040.0), next: 0.0 };
        let lower = search.step_down().expect("there are lower ones");
        assert!(lower < 1_000.0 && lower > 890.0);
        assert_eq!(RateSearch { met: Some(RATE_MIN), failed: None, next: 0.0 }.step_down(), None);
    }
}
