//! A histogram of times: 32 buckets per doubling (3 % each), and the exact minimum and maximum.

const SUB_BUCKETS: u64 = 32;
const SUB_BUCKETS_BITS: u32 = SUB_BUCKETS.trailing_zeros();

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    least: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Vec::new(), count: 0, least: u64::MAX, most: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    let shift = (63 - (ns | SUB_BUCKETS).leading_zeros()) - SUB_BUCKETS_BITS;
    (u64::from(shift) * SUB_BUCKETS + (ns >> shift)) as usize
}

/// The middle of a bucket.
fn value(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / SUB_BUCKETS).saturating_sub(1);
    ((bucket - shift * SUB_BUCKETS) << shift) + ((1 << shift) >> 1)
}

impl Histogram {
    /// Adds a time, `times` times.
    pub fn add(&mut self, ns: u64, times: u64) {
        let bucket = bucket(ns);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
        self.count += times;
        (self.least, self.most) = (self.least.min(ns), self.most.max(ns));
    }

    /// How many times were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The minimum, in nanoseconds.
    pub fn least_ns(&self) -> Option<u64> {
        (self.count > 0).then_some(self.least)
    }

    /// The quantile of this share, in nanoseconds; `None` if the histogram is empty.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut before = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            before += count;
            if before >= rank {
                return Some(value(bucket).clamp(self.least, self.most));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_within_three_percent() {
        for ns in (0..100_000u64).chain((17..60).map(|power| (1 << power) + 12_345)) {
            let back = value(bucket(ns));
            assert!(back.abs_diff(ns) * 32 <= ns, "{ns} became {back}");
        }
    }

    #[test]
    fn quantiles() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_ns(0.5), None);
        (1..=10).for_each(|ns| histogram.add(ns, 1));
        histogram.add(1_000_000, 10);
        assert_eq!(histogram.quantile_ns(0.5), Some(10));
        assert_eq!(histogram.quantile_ns(0.0), Some(1));
        assert_eq!(histogram.quantile_ns(1.0), Some(1_000_000));
    }
}
