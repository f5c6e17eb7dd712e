//! A seeded pseudo-random number generator (SplitMix64), for simulations only.

/// The generator.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        SplitMix64 { state: seed }
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias is one in 2^64 / bound, which is negligible in a simulation.
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// True in `permille` of a thousand cases.
    pub fn permille(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }
}
