//! Arrival processes: intended send times for a rate that may vary over time, evenly spaced or Poisson.
//!
//! A time is an offset from the start: the integral of each rate is inverted, and no clock is read.

use rand::RngExt;
use rand_distr::{Distribution, Exp1};

use super::random::WorkloadRng;
use super::spec::{ArrivalProcess, SendRate};

/// The intended send times of one publisher.
#[derive(Clone, Debug)]
pub(crate) struct ArrivalSchedule {
    rate: SendRate,
    arrivals: ArrivalProcess,
    at_s: f64,
    begun: bool,
}

impl ArrivalSchedule {
    /// For one of `count` publishers that share the rate.
    pub fn new(rate: SendRate, arrivals: ArrivalProcess, count: usize) -> Self {
        Self { rate: rate.times(1.0 / count as f64), arrivals, at_s: 0.0, begun: false }
    }

    /// The next send time in nanoseconds from the start; `u64::MAX` if there is none.
    #[inline]
    pub(crate) fn next_ns(&mut self, rng: &mut WorkloadRng) -> u64 {
        let amount = match self.arrivals {
            ArrivalProcess::Poisson => Exp1.sample(rng),
            // Publishers with even gaps start at different times, or all would send at once.
            ArrivalProcess::Even if !self.begun => rng.random::<f64>(),
            ArrivalProcess::Even => 1.0,
        };
        self.begun = true;
        self.at_s = self.rate.after(self.at_s, amount);
        let ns = self.at_s * 1e9;
        if ns < u64::MAX as f64 / 2.0 { ns as u64 } else { u64::MAX }
    }
}

impl SendRate {
    /// Multiplies all rates.
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Constant(rate) => Self::Constant(rate * factor),
            Self::Bursts { high, low, on_ns, off_ns } => {
                Self::Bursts { high: high * factor, low: low * factor, on_ns, off_ns }
            }
            Self::Opening { peak, base, half_life_ns } => {
                Self::Opening { peak: peak * factor, base: base * factor, half_life_ns }
            }
        }
    }

    pub(crate) fn peak(self) -> f64 {
        match self {
            Self::Constant(rate) => rate,
            Self::Bursts { high, low, .. } => high.max(low),
            Self::Opening { peak, base, .. } => peak.max(base),
        }
    }

    /// Messages expected within the first `duration_ns`.
    pub fn expected(self, duration_ns: u64) -> f64 {
        let until_s = duration_ns as f64 / 1e9;
        match self {
            Self::Constant(rate) => rate * until_s,
            Self::Bursts { high, low, on_ns, off_ns } => {
                let (on_s, off_s) = (on_ns as f64 / 1e9, off_ns as f64 / 1e9);
                let cycles = (until_s / (on_s + off_s)).floor();
                let rest_s = until_s - cycles * (on_s + off_s);
                cycles * (high * on_s + low * off_s) + high * rest_s.min(on_s) + low * (rest_s - on_s).max(0.0)
            }
            Self::Opening { peak, base, half_life_ns } => {
                let tau_s = half_life_ns as f64 / 1e9 / std::f64::consts::LN_2;
                base * until_s + (peak - base) * tau_s * (1.0 - (-until_s / tau_s).exp())
            }
        }
    }

    /// The time by which `amount` further messages are expected, starting at `from_s`; infinite if never.
    fn after(self, from_s: f64, amount: f64) -> f64 {
        match self {
            Self::Constant(rate) => from_s + amount / rate,
            Self::Bursts { high, low, on_ns, off_ns } => {
                after_bursts((high, low), (on_ns as f64 / 1e9, off_ns as f64 / 1e9), from_s, amount)
            }
            Self::Opening { peak, base, half_life_ns } => {
                let tau_s = half_life_ns as f64 / 1e9 / std::f64::consts::LN_2;
                after_opening((peak - base) * (-from_s / tau_s).exp(), base, tau_s, amount) + from_s
            }
        }
    }
}

fn after_bursts((high, low): (f64, f64), (on_s, off_s): (f64, f64), from_s: f64, mut amount: f64) -> f64 {
    let cycle_s = on_s + off_s;
    let in_cycle = high * on_s + low * off_s;
    let mut start_s = (from_s / cycle_s).floor() * cycle_s;
    let mut at_s = from_s - start_s;
    loop {
        if at_s < on_s {
            let room = high * (on_s - at_s);
            if amount <= room && high > 0.0 {
                return start_s + at_s + amount / high;
            }
            amount -= room;
            at_s = on_s;
        }
        let room = low * (cycle_s - at_s);
        if amount <= room && low > 0.0 {
            return start_s + at_s + amount / low;
        }
        amount -= room.max(0.0);
        if in_cycle <= 0.0 {
            return f64::INFINITY;
        }
        let whole = (amount / in_cycle).floor();
        amount -= whole * in_cycle;
        start_s += cycle_s * (1.0 + whole);
        at_s = 0.0;
    }
}

/// Solves `base * t + excess * tau * (1 - exp(-t / tau)) = amount` for t. The left side is concave, so Newton's method from the left
/// never overshoots the root.
fn after_opening(excess: f64, base: f64, tau_s: f64, amount: f64) -> f64 {
    if base <= 0.0 && amount >= excess * tau_s {
        return f64::INFINITY;
    }
    let mut at_s = amount / (excess + base);
    for _step in 0..64 {
        let falling = (-at_s / tau_s).exp();
        let missing = amount - base * at_s - excess * tau_s * (1.0 - falling);
        let step = missing / (base + excess * falling);
        at_s += step;
        if step <= 1e-10 {
            break;
        }
    }
    at_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::random::{RngPurpose, rng};

    const SECOND: u64 = 1_000_000_000;

    fn times(rate: SendRate, arrivals: ArrivalProcess, until_ns: u64) -> Vec<u64> {
        let mut rng = rng(11, RngPurpose::Messages, 0);
        let mut schedule = ArrivalSchedule::new(rate, arrivals, 1);
        std::iter::from_fn(|| Some(schedule.next_ns(&mut rng))).take_while(|&at| at < until_ns).collect()
    }

    fn within(times: &[u64], from: u64, to: u64) -> f64 {
        times.iter().filter(|&&at| (from..to).contains(&at)).count() as f64
    }

    fn near(value: f64, expected: f64, share: f64) {
        assert!((value - expected).abs() <= expected * share, "{value} instead of {expected}");
    }

    #[test]
    fn even_gaps_are_even() {
        let times = times(SendRate::Constant(1_000.0), ArrivalProcess::Even, SECOND);
        near(times.len() as f64, 1_000.0, 0.002);
        assert!(times.windows(2).all(|pair| (pair[1] - pair[0]).abs_diff(1_000_000) <= 1));
    }

    #[test]
    fn random_gaps_are_exponential() {
        let times = times(SendRate::Constant(1_000.0), ArrivalProcess::Poisson, 100 * SECOND);
        near(times.len() as f64, 100_000.0, 0.02);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        // Of exponential gaps, a share of 1/e is longer than the mean and 1/e^2 longer than twice the mean.
        for (limit, share) in [(1.0, (-1.0_f64).exp()), (2.0, (-2.0_f64).exp())] {
            near(gaps.iter().filter(|&&gap| gap > limit).count() as f64 / gaps.len() as f64, share, 0.03);
        }
    }

    #[test]
    fn bursts_come_and_go() {
        let rate = SendRate::Bursts { high: 2_000.0, low: 100.0, on_ns: SECOND / 2, off_ns: 3 * SECOND / 2 };
        for arrivals in [ArrivalProcess::Even, ArrivalProcess::Poisson] {
            let times = times(rate, arrivals, 40 * SECOND);
            near(times.len() as f64, rate.expected(40 * SECOND), 0.03);
            let high: f64 =
                (0..20).map(|cycle| within(&times, cycle * 2 * SECOND, cycle * 2 * SECOND + SECOND / 2)).sum();
            near(high, 20.0 * 1_000.0, 0.03);
            near(times.len() as f64 - high, 20.0 * 150.0, 0.1);
        }
        let silent = SendRate::Bursts { high: 1_000.0, low: 0.0, on_ns: SECOND / 2, off_ns: SECOND / 2 };
        let times = times(silent, ArrivalProcess::Poisson, 10 * SECOND);
        assert!(times.iter().all(|at| at % SECOND <= SECOND / 2));
        near(times.len() as f64, 5_000.0, 0.06);
    }

    #[test]
    fn an_opening_decays_by_half_lives() {
        let rate = SendRate::Opening { peak: 9_000.0, base: 1_000.0, half_life_ns: 2 * SECOND };
        for arrivals in [ArrivalProcess::Even, ArrivalProcess::Poisson] {
            let times = times(rate, arrivals, 20 * SECOND);
            near(times.len() as f64, rate.expected(20 * SECOND), 0.02);
            // The first tenth of a second is close to the peak, the same after one half life, and the end close to the base.
            near(within(&times, 0, SECOND / 10), 886.0, 0.1);
            near(within(&times, 2 * SECOND, 2 * SECOND + SECOND / 10), 493.0, 0.15);
            near(within(&times, 18 * SECOND, 20 * SECOND), 2_000.0, 0.1);
        }
        let ending = SendRate::Opening { peak: 1_000.0, base: 0.0, half_life_ns: SECOND };
        let count = times(ending, ArrivalProcess::Even, 1_000 * SECOND).len() as f64;
        near(count, 1_000.0 / std::f64::consts::LN_2, 0.01);
    }

    #[test]
    fn publishers_share_a_rate() {
        let mut rng = rng(1, RngPurpose::Messages, 0);
        let mut one = ArrivalSchedule::new(SendRate::Constant(1_000.0), ArrivalProcess::Even, 10);
        let (first, second) = (one.next_ns(&mut rng), one.next_ns(&mut rng));
        assert!(first < 10_000_000 && (second - first).abs_diff(10_000_000) <= 1);
    }
}
