//! How long messages take from their publish to a client: one delivery in about a thousand is looked at.
//!
//! Enters: when a message was published, each time a delivery is due.  Leaves: a histogram.
//! Owns:   the choice of deliveries. Their number varies about [`DELIVERIES_PER_SAMPLE`], so that loads which repeat themselves
//!         are not always looked at in the same place.

use crate::limits::DELIVERIES_PER_SAMPLE;

/// Classes of a histogram of times: the last one has all that are longer.
pub(crate) const TIME_CLASSES: usize = 13;

/// The longest time of each class but the last, in microseconds: each is four times the one before.
pub const TIME_CLASS_BOUNDS_US: [u64; TIME_CLASSES - 1] = {
    let mut bounds = [4; TIME_CLASSES - 1];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 4;
        at += 1;
    }
    bounds
};

/// Times by classes, and their sum.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TimeStats {
    pub classes: [u64; TIME_CLASSES],
    pub sum_us: u64,
}

impl TimeStats {
    /// One more time.
    #[inline]
    pub fn record(&mut self, time_us: u64) {
        // Of a time in [4^n + 1, 4^(n + 1)] the class is n.
        let bits = u64::BITS - time_us.saturating_sub(1).leading_zeros();
        let class = (bits.saturating_sub(1) / 2) as usize;
        self.classes[class.min(TIME_CLASSES - 1)] += 1;
        self.sum_us += time_us;
    }

    pub fn add(&mut self, other: &TimeStats) {
        self.classes.iter_mut().zip(other.classes).for_each(|(count, other)| *count += other);
        self.sum_us += other.sum_us;
    }
}

/// The deliveries of one shard.
pub(crate) struct DeliveryLatency {
    /// Deliveries until one is looked at.
    countdown: u32,
    /// The broker's time.
    pub now_us: u64,
    random: u32,
    pub stats: TimeStats,
}

impl Default for DeliveryLatency {
    fn default() -> Self {
        Self { countdown: DELIVERIES_PER_SAMPLE, now_us: 0, random: 1, stats: TimeStats::default() }
    }
}

impl DeliveryLatency {
    /// A message is delivered for the first time. It was published at this time of the broker.
    #[inline]
    pub fn count(&mut self, arrived_us: u64) {
        self.countdown -= 1;
        if self.countdown == 0 {
            self.record(arrived_us);
        }
    }

    /// Messages that came together are delivered for the first time.
    #[inline]
    pub fn count_alike(&mut self, arrived_us: u64, mut deliveries: u32) {
        while deliveries >= self.countdown {
            deliveries -= self.countdown;
            self.record(arrived_us);
        }
        self.countdown -= deliveries;
    }

    #[cold]
    fn record(&mut self, arrived_us: u64) {
        self.stats.record(self.now_us.saturating_sub(arrived_us));
        // A linear congruential step (Numerical Recipes): its upper bits are even enough for this.
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.countdown = DELIVERIES_PER_SAMPLE / 2 + (self.random >> 16) % DELIVERIES_PER_SAMPLE;
    }
}

#[cfg(test)]
mod tests {
    use super::{DeliveryLatency, TIME_CLASS_BOUNDS_US, TIME_CLASSES, TimeStats};
    use crate::limits::DELIVERIES_PER_SAMPLE;

    #[test]
    fn a_time_is_in_the_first_class_whose_bound_it_does_not_exceed() {
        assert_eq!((TIME_CLASS_BOUNDS_US[0], TIME_CLASS_BOUNDS_US[11]), (4, 16_777_216));
        let times = TIME_CLASS_BOUNDS_US.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]);
        for time_us in times.chain([0, 1, 2, 100, u64::MAX / 2]) {
            let mut stats = TimeStats::default();
            stats.record(time_us);
            let expected = TIME_CLASS_BOUNDS_US.iter().position(|bound| time_us <= *bound).unwrap_or(TIME_CLASSES - 1);
            assert_eq!(stats.classes.iter().position(|count| *count == 1), Some(expected), "{time_us}");
            assert_eq!(stats.sum_us, time_us);
        }
    }

    #[test]
    fn deliveries_that_are_counted_together_are_looked_at_in_the_same_places() {
        let at = |now_us| DeliveryLatency { now_us, ..DeliveryLatency::default() };
        let (mut single, mut together) = (at(500), at(500));
        for deliveries in [1, 1_022, 1, 5_000, 0, 64, 100_000] {
            (0..deliveries).for_each(|_| single.count(300));
            together.count_alike(300, deliveries);
            assert_eq!((together.countdown, together.random), (single.countdown, single.random), "{deliveries}");
            assert_eq!(together.stats, single.stats);
        }
        assert!(single.stats.sum_us > 0);
    }

    #[test]
    fn one_delivery_in_about_a_thousand_is_looked_at() {
        let mut latency = DeliveryLatency { now_us: 1_000, ..DeliveryLatency::default() };
        let deliveries = 1_000 * DELIVERIES_PER_SAMPLE;
        let mut sampled = Vec::new();
        for delivery in 0..deliveries {
            let before = latency.stats.sum_us;
            latency.count(900);
            if latency.stats.sum_us != before {
                sampled.push(delivery);
            }
        }
        assert!((950..=1_050).contains(&sampled.len()), "{}", sampled.len());
        let residues: std::collections::BTreeSet<_> = sampled.iter().map(|delivery| delivery % 64).collect();
        assert_eq!(residues.len(), 64, "each place of a period has its turn");
        assert_eq!(latency.stats.classes[3], sampled.len() as u64, "100 us are at most 256");
    }
}
