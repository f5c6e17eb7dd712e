//! A set of prices that finds the next one above and below: a bitmap, and a bitmap of its non-empty words.

use crate::limits::PRICE_TICKS_MAX;
use crate::terms::Ticks;

const WORDS: usize = (PRICE_TICKS_MAX as usize + 1) / 64;
const GROUPS: usize = WORDS / 64;

/// Prices up to [`PRICE_TICKS_MAX`].
#[derive(Clone, Debug)]
pub struct PriceSet {
    words: [u64; WORDS],
    groups: [u64; GROUPS],
}

impl Default for PriceSet {
    fn default() -> Self {
        Self { words: [0; WORDS], groups: [0; GROUPS] }
    }
}

/// The word of a price, its group, and its bit in the word.
#[inline]
fn locate(price: Ticks) -> (usize, usize, u32) {
    let word = usize::from(price) / 64 % WORDS;
    (word, word / 64, u32::from(price) % 64)
}

impl PriceSet {
    #[inline]
    pub fn insert(&mut self, price: Ticks) {
        let (word, group, bit) = locate(price);
        self.words[word] |= 1 << bit;
        self.groups[group] |= 1 << (word % 64);
    }

    #[inline]
    pub fn remove(&mut self, price: Ticks) {
        let (word, group, bit) = locate(price);
        self.words[word] &= !(1 << bit);
        if self.words[word] == 0 {
            self.groups[group] &= !(1 << (word % 64));
        }
    }

    #[inline]
    pub fn contains(&self, price: Ticks) -> bool {
        let (word, _, bit) = locate(price);
        self.words[word] & 1 << bit != 0
    }

    /// The lowest price that is not below this one.
    #[inline]
    pub fn lowest_from(&self, price: Ticks) -> Option<Ticks> {
        if price > PRICE_TICKS_MAX {
            return None;
        }
        let (word, group, bit) = locate(price);
        let here = self.words[word] & u64::MAX << bit;
        if here != 0 {
            return Some((word * 64) as u16 + here.trailing_zeros() as u16);
        }
        // Shifted twice, because a shift by 64 overflows.
        let mut words = self.groups[group] & u64::MAX << (word % 64) << 1;
        for group in group..GROUPS {
            if words != 0 {
                let word = group * 64 + words.trailing_zeros() as usize;
                return Some((word * 64) as u16 + self.words[word].trailing_zeros() as u16);
            }
            words = self.groups.get(group + 1).copied().unwrap_or(0);
        }
        None
    }

    /// The highest price that is not above this one.
    #[inline]
    pub fn highest_to(&self, price: Ticks) -> Option<Ticks> {
        let (word, group, bit) = locate(price.min(PRICE_TICKS_MAX));
        let here = self.words[word] & u64::MAX >> (63 - bit);
        if here != 0 {
            return Some((word * 64) as u16 + here.ilog2() as u16);
        }
        let mut words = self.groups[group] & !(u64::MAX << (word % 64));
        for group in (0..=group).rev() {
            if words != 0 {
                let word = group * 64 + words.ilog2() as usize;
                return Some((word * 64) as u16 + self.words[word].ilog2() as u16);
            }
            words = if group == 0 { 0 } else { self.groups[group - 1] };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_next_price_is_that_of_an_ordered_set(
            steps in prop::collection::vec((any::<bool>(), prop_oneof![0..200u16, 0..=PRICE_TICKS_MAX]), 1..60),
        ) {
            let (mut prices, mut set) = (PriceSet::default(), BTreeSet::new());
            for &(inserts, price) in &steps {
                if inserts {
                    prices.insert(price);
                    set.insert(price);
                } else {
                    prices.remove(price);
                    set.remove(&price);
                }
                let near = [0, price.saturating_sub(1), price, price + 1, PRICE_TICKS_MAX, Ticks::MAX];
                for from in near.into_iter().chain(steps.iter().map(|&(_, price)| price)) {
                    prop_assert_eq!(prices.lowest_from(from), set.range(from..).next().copied());
                    prop_assert_eq!(prices.highest_to(from), set.range(..=from).next_back().copied());
                    prop_assert_eq!(from <= PRICE_TICKS_MAX && prices.contains(from), set.contains(&from));
                }
            }
        }
    }
}
