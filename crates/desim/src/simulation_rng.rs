//! Random numbers from a seed (SplitMix64): the same on every machine.
//!
//! Nothing here calls the mathematics library, whose last bit differs between systems.

use splitmix::SplitMix64;

#[derive(Clone, Debug)]
pub(crate) struct SimulationRng(SplitMix64);

impl SimulationRng {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A uniform number from 0 to below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.scaled(end)
    }

    /// A uniform number from 0 to below 1.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponential number with mean 1, by comparisons alone (von Neumann's method): the first uniform number is
    /// accepted if the descending run that starts from it has an odd length, and each rejected run adds 1.
    pub fn exponential(&mut self) -> f64 {
        let mut whole = 0.0;
        loop {
            let first = self.uniform();
            let (mut last, mut length) = (first, 1u32);
            loop {
                let next = self.uniform();
                if next > last {
                    break;
                }
                (last, length) = (next, length + 1);
            }
            if length % 2 == 1 {
                return whole + first;
            }
            whole += 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_their_mean_and_tail() {
        let mut chance = SimulationRng::new(7);
        let times: Vec<f64> = (0..200_000).map(|_| chance.exponential()).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let beyond = |bound: f64| times.iter().filter(|time| **time > bound).count() as f64 / times.len() as f64;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        // e to the powers of -1 and -3.
        assert!((beyond(1.0) - 0.3679).abs() < 0.005 && (beyond(3.0) - 0.0498).abs() < 0.003);
    }
}
