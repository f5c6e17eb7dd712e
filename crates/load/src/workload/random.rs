//! All randomness of a workload, derived from its seed: sizes, symbols, think times, and which messages are requeued.
//!
//! The generator is PCG, whose output is the same on every machine.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, LogNormal, StandardNormal, Zipf};

use super::spec::{SizeDistribution, SymbolPopularity, ThinkTime};

pub type WorkloadRng = rand_pcg::Pcg64;

/// What a generator is for: each purpose has its own, so that draws do not affect one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum RngPurpose {
    Messages = 1,
    Picks = 2,
    Thinking = 3,
    Trouble = 4,
}

/// The generator number `who` for a purpose.
pub(crate) fn rng(seed: u64, purpose: RngPurpose, who: usize) -> WorkloadRng {
    WorkloadRng::seed_from_u64(mix(mix(seed, purpose as u64), who as u64))
}

/// Hashes two numbers into one.
#[inline]
pub(crate) fn mix(left: u64, right: u64) -> u64 {
    let right = right.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93);
    splitmix::mix(left.rotate_left(32) ^ right)
}

/// Whether message `sequence` of `stream` belongs to a random share; deterministic for the seed.
pub(crate) fn is_in_share(seed: u64, purpose: u64, stream: u32, sequence: u64, share: f64) -> bool {
    if share <= 0.0 {
        return false;
    }
    let word = mix(mix(seed ^ purpose.rotate_left(48), RngPurpose::Trouble as u64), mix(u64::from(stream), sequence));
    ((word >> 11) as f64) < share * (1_u64 << 53) as f64
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SymbolDistribution {
    One,
    Uniform(usize),
    Zipf(Zipf<f64>, usize),
}

impl SymbolDistribution {
    pub fn new(popularity: SymbolPopularity, count: usize) -> Result<Self, String> {
        match popularity {
            _ if count <= 1 => Ok(Self::One),
            SymbolPopularity::Uniform => Ok(Self::Uniform(count)),
            SymbolPopularity::Zipf(exponent) => Zipf::new(count as f64, exponent)
                .map(|zipf| Self::Zipf(zipf, count))
                .map_err(|error| format!("zipf = {exponent}: {error}")),
        }
    }

    /// Draws the next index; 0 is the most popular.
    #[inline]
    pub fn draw(&self, rng: &mut WorkloadRng) -> usize {
        match self {
            Self::One => 0,
            Self::Uniform(count) => rng.random_range(0..*count as u64) as usize,
            Self::Zipf(zipf, count) => (zipf.sample(rng) as usize).clamp(1, *count) - 1,
        }
    }
}

/// Draws the next body size.
#[inline]
pub fn size(size: &SizeDistribution, rng: &mut WorkloadRng) -> usize {
    match size {
        SizeDistribution::Constant(bytes) => *bytes,
        SizeDistribution::Uniform { least, most } => rng.random_range(*least as u64..=*most as u64) as usize,
        SizeDistribution::LogNormal { median, sigma, least, most } => {
            let normal: f64 = StandardNormal.sample(rng);
            ((*median as f64 * (sigma * normal).exp()) as usize).clamp(*least, *most)
        }
        SizeDistribution::List(list) => {
            let all: f64 = list.iter().map(|(_, weight)| weight).sum();
            let mut left = rng.random::<f64>() * all;
            for &(bytes, weight) in list {
                left -= weight;
                if left < 0.0 {
                    return bytes;
                }
            }
            list.last().map_or(0, |&(bytes, _)| bytes)
        }
    }
}

pub fn size_mean(size: &SizeDistribution) -> f64 {
    match size {
        SizeDistribution::Constant(bytes) => *bytes as f64,
        SizeDistribution::Uniform { least, most } => (least + most) as f64 / 2.0,
        SizeDistribution::LogNormal { median, sigma, least, most } => {
            (*median as f64 * (sigma * sigma / 2.0).exp()).clamp(*least as f64, *most as f64)
        }
        SizeDistribution::List(list) => {
            let all: f64 = list.iter().map(|(_, weight)| weight).sum();
            list.iter().map(|&(bytes, weight)| bytes as f64 * weight).sum::<f64>() / all
        }
    }
}

/// The largest body.
pub(crate) fn size_max(size: &SizeDistribution) -> usize {
    match size {
        SizeDistribution::Constant(bytes) => *bytes,
        SizeDistribution::Uniform { most, .. } | SizeDistribution::LogNormal { most, .. } => *most,
        SizeDistribution::List(list) => list.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0),
    }
}

/// The smallest body.
pub(crate) fn size_min(size: &SizeDistribution) -> usize {
    match size {
        SizeDistribution::Constant(bytes) => *bytes,
        SizeDistribution::Uniform { least, .. } | SizeDistribution::LogNormal { least, .. } => *least,
        SizeDistribution::List(list) => list.iter().map(|&(bytes, _)| bytes).min().unwrap_or(0),
    }
}

/// Draws the work time of the next message in nanoseconds.
pub(crate) fn think_ns(think: &ThinkTime, rng: &mut WorkloadRng) -> u64 {
    match *think {
        ThinkTime::Constant { ns } => ns,
        ThinkTime::Uniform { least_ns, most_ns } => rng.random_range(least_ns..=most_ns),
        ThinkTime::Exponential { mean_ns } => {
            let share: f64 = Exp1.sample(rng);
            (mean_ns as f64 * share) as u64
        }
        ThinkTime::LogNormal { median_ns, sigma, most_ns } => LogNormal::new((median_ns.max(1) as f64).ln(), sigma)
            .map_or(median_ns, |distribution| (distribution.sample(rng) as u64).min(most_ns)),
    }
}

/// Draws `count` distinct symbols of `of`.
pub(crate) fn sample_symbols(rng: &mut WorkloadRng, count: usize, of: usize) -> Vec<usize> {
    // Floyd's algorithm: all sets of `count` are equally likely.
    let mut picked = std::collections::BTreeSet::new();
    for top in of - count.min(of)..of {
        let one = rng.random_range(0..=top as u64) as usize;
        if !picked.insert(one) {
            picked.insert(top);
        }
    }
    picked.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 100_000;

    fn mean(mut draw: impl FnMut() -> f64) -> f64 {
        (0..DRAWS).map(|_| draw()).sum::<f64>() / DRAWS as f64
    }

    fn near(value: f64, expected: f64, share: f64) {
        assert!((value - expected).abs() <= expected * share, "{value} instead of {expected}");
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let draw = |seed, who| {
            let mut rng = rng(seed, RngPurpose::Messages, who);
            (0..8).map(|_| size(&SizeDistribution::Uniform { least: 0, most: 1 << 20 }, &mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 3), draw(7, 3));
        assert_ne!(draw(7, 3), draw(7, 4));
        assert_ne!(draw(7, 3), draw(8, 3));
        // These values must never change: a recorded run can be repeated.
        let mut first = rng(1, RngPurpose::Messages, 0);
        assert_eq!((0..3).map(|_| first.random_range(0..1_000_u64)).collect::<Vec<_>>(), FIRST_OF_SEED_1);
    }
    const FIRST_OF_SEED_1: [u64; 3] = [139, 890, 156];

    #[test]
    fn zipf_falls_as_it_says() {
        let mut rng = rng(1, RngPurpose::Messages, 0);
        for exponent in [0.8, 1.0, 1.3] {
            let symbols = SymbolDistribution::new(SymbolPopularity::Zipf(exponent), 1_000).expect("a distribution");
            let mut counts = vec![0_u32; 1_000];
            for _ in 0..DRAWS {
                counts[symbols.draw(&mut rng)] += 1;
            }
            let all: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1_usize, 2, 5, 10] {
                near(f64::from(counts[rank - 1]), DRAWS as f64 * (rank as f64).powf(-exponent) / all, 0.1);
            }
        }
    }

    #[test]
    fn uniform_symbols_are_as_likely() {
        let mut rng = rng(2, RngPurpose::Messages, 0);
        let symbols = SymbolDistribution::new(SymbolPopularity::Uniform, 10).expect("a distribution");
        let mut counts = [0_u32; 10];
        (0..DRAWS).for_each(|_| counts[symbols.draw(&mut rng)] += 1);
        counts.iter().for_each(|&count| near(f64::from(count), DRAWS as f64 / 10.0, 0.05));
    }

    #[test]
    fn sizes_have_their_means_and_bounds() {
        let mut rng = rng(3, RngPurpose::Messages, 0);
        let all = [
            SizeDistribution::Constant(64),
            SizeDistribution::Uniform { least: 100, most: 300 },
            SizeDistribution::List(vec![(64, 8.0), (1_024, 2.0)]),
            SizeDistribution::LogNormal { median: 200, sigma: 0.5, least: 32, most: 100_000 },
        ];
        for one in all {
            near(mean(|| size(&one, &mut rng) as f64), size_mean(&one), 0.02);
        }
        let narrow = SizeDistribution::LogNormal { median: 200, sigma: 2.0, least: 150, most: 250 };
        let drawn: Vec<usize> = (0..1_000).map(|_| size(&narrow, &mut rng)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&150), Some(&250)));
        let wide = SizeDistribution::LogNormal { median: 1_000, sigma: 1.0, least: 1, most: 1 << 30 };
        let mut drawn: Vec<usize> = (0..DRAWS).map(|_| size(&wide, &mut rng)).collect();
        drawn.sort_unstable();
        near(drawn[DRAWS / 2] as f64, 1_000.0, 0.03);
        // One standard deviation up: the median times e.
        near(drawn[DRAWS * 8_413 / 10_000] as f64, 2_718.0, 0.05);
    }

    #[test]
    fn thinking_has_its_mean() {
        let mut rng = rng(4, RngPurpose::Thinking, 0);
        for (think, expected) in [
            (ThinkTime::Constant { ns: 5_000 }, 5_000.0),
            (ThinkTime::Uniform { least_ns: 1_000, most_ns: 3_000 }, 2_000.0),
            (ThinkTime::Exponential { mean_ns: 10_000 }, 10_000.0),
            (ThinkTime::LogNormal { median_ns: 10_000, sigma: 0.5, most_ns: 1 << 40 }, 10_000.0 * 0.125_f64.exp()),
        ] {
            near(mean(|| think_ns(&think, &mut rng) as f64), expected, 0.02);
        }
    }

    #[test]
    fn shares_are_kept_and_the_same_for_all() {
        let count = (0..DRAWS as u64).filter(|&sequence| is_in_share(9, 1, 3, sequence, 0.02)).count();
        near(count as f64, DRAWS as f64 * 0.02, 0.1);
        assert!(!is_in_share(9, 1, 3, 7, 0.0));
        assert!((0..1_000).all(|sequence| is_in_share(9, 1, 3, sequence, 1.0)));
        let both = (0..DRAWS as u64).filter(|&s| is_in_share(9, 1, 3, s, 0.5) && is_in_share(9, 2, 3, s, 0.5)).count();
        near(both as f64, DRAWS as f64 * 0.25, 0.05);
    }

    #[test]
    fn picks_are_different_and_within() {
        let mut rng = rng(5, RngPurpose::Picks, 0);
        for (count, of) in [(0, 10), (3, 10), (10, 10), (50, 4_000)] {
            let picked = sample_symbols(&mut rng, count, of);
            assert_eq!(picked.len(), count);
            assert!(picked.windows(2).all(|pair| pair[0] < pair[1]) && picked.iter().all(|&one| one < of));
        }
    }
}
