//! SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014): random numbers from a seed, and
//! the mixing of hashes, the same on every machine.
//!
//! Not one bit may change. On these sequences depend the orders of `market` and the workloads of `load`, whose checksums
//! are published and compared between hosts; the figures of simulated trees (`desim`); the intervals in every report
//! (`gauge`); the queue that a consistent-hash exchange gives a routing key (`catalog`); and each seed of the simulation and
//! of the tests that is written down somewhere. A test holds them to the published values.
#![no_std]
#![forbid(unsafe_code)]

/// What the state grows by: 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Each bit of the outcome depends on each of `value`, and no two values have the same (the finaliser of SplitMix64).
#[inline]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// The generator.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub const fn new(seed: u64) -> Self {
        SplitMix64 { state: seed }
    }

    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// A number below `bound`, by the remainder; zero if `bound` is zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The bias is one in 2^64 / bound, which is negligible in a simulation.
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// A number below `bound`, by the high half of a product: as even as [`SplitMix64::below`], but another one.
    pub const fn scaled(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// A number from `least` to `most`, both included.
    pub const fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True in `permille` of a thousand cases.
    pub const fn permille(&mut self, permille: u32) -> bool {
        self.below(1000) < permille as u64
    }

    /// True in one of `of` cases.
    pub const fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    /// The values of the authors' C program (splitmix64.c) for this seed.
    #[test]
    fn the_sequence_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(published.map(|_| random.next_u64()), published);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all() {
        let (mut random, mut found) = (SplitMix64::new(1), [[0_u32; 10]; 2]);
        for _ in 0..10_000 {
            found[0][random.below(10) as usize] += 1;
            found[1][random.scaled(10) as usize] += 1;
        }
        assert!(found.as_flattened().iter().all(|count| (800..1_200).contains(count)), "{found:?}");
        assert_eq!((random.below(0), random.between(7, 7)), (0, 7));
    }
}
