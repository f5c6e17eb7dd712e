//! What a disk has done since it was started, and how long its writes took.
//!
//! Leaves: counts, and times in buckets a quarter of a doubling wide: what a quantile is read from errs by a quarter at most.

use crate::folder::SyncMode;
use crate::limits::WRITE_TIME_BUCKETS;
use store::Completion;

/// Buckets of each doubling.
const BUCKETS_PER_DOUBLING: usize = 4;

/// How long writes took until they were durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteTimes {
    count: u64,
    sum_us: u64,
    max_us: u64,
    buckets: [u64; WRITE_TIME_BUCKETS],
}

impl Default for WriteTimes {
    fn default() -> Self {
        WriteTimes { count: 0, sum_us: 0, max_us: 0, buckets: [0; WRITE_TIME_BUCKETS] }
    }
}

impl WriteTimes {
    /// Records one write.
    pub fn record(&mut self, took_us: u64) {
        self.count += 1;
        self.sum_us += took_us;
        self.max_us = self.max_us.max(took_us);
        self.buckets[bucket_of(took_us)] += 1;
    }

    /// Adds those of another disk.
    pub fn add(&mut self, other: &WriteTimes) {
        self.count += other.count;
        self.sum_us += other.sum_us;
        self.max_us = self.max_us.max(other.max_us);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(all, one)| *all += one);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    pub fn max_us(&self) -> u64 {
        self.max_us
    }

    /// The writes that took less than this time, a power of two from 4 on.
    pub fn count_below(&self, us: u64) -> u64 {
        self.buckets[..bucket_of(us)].iter().sum()
    }

    /// The time that this share of the writes did not exceed; `None` without writes.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let found = self.buckets.iter().position(|&count| {
            seen += count;
            seen >= rank
        })?;
        Some(bucket_end_us(found).min(self.max_us))
    }

    /// The writes that took no longer than each of these times, for those times at which there are more.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut seen = 0;
        self.buckets.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(bucket, count)| {
            seen += count;
            (bucket_end_us(bucket), seen)
        })
    }
}

fn bucket_of(us: u64) -> usize {
    let us = us.max(1);
    let doubling = us.ilog2() as usize;
    let quarter = match doubling {
        0 | 1 => return us as usize,
        _ => (us >> (doubling - 2)) as usize % BUCKETS_PER_DOUBLING,
    };
    ((doubling - 1) * BUCKETS_PER_DOUBLING + quarter).min(WRITE_TIME_BUCKETS - 1)
}

/// The longest time of a bucket; the last one has all that is longer.
fn bucket_end_us(bucket: usize) -> u64 {
    match bucket {
        0..BUCKETS_PER_DOUBLING => bucket as u64,
        _ if bucket == WRITE_TIME_BUCKETS - 1 => u64::MAX,
        _ => {
            let (doubling, quarter) = (bucket / BUCKETS_PER_DOUBLING + 1, bucket % BUCKETS_PER_DOUBLING);
            (((BUCKETS_PER_DOUBLING + quarter + 1) as u64) << (doubling - 2)) - 1
        }
    }
}

/// What a disk has done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DiskMetrics {
    /// Requests that waited until they were durable: writes of groups, and segments that were made or removed.
    pub syncs: u64,
    /// How long those took.
    pub sync_us: u64,
    /// Requests that read, what they got and how long they took.
    pub reads: u64,
    pub bytes_read: u64,
    pub read_us: u64,
    /// Segments that were made, of others or anew.
    pub segments_made: u64,
    /// How long the writes of groups took, of which there are as many.
    pub write_times: WriteTimes,
}

impl DiskMetrics {
    /// Counts a request that is done, and took so long.
    pub(crate) fn count(&mut self, completion: &Completion, took_us: u64, sync: SyncMode) {
        let is_synced = match completion {
            Completion::Made { result, .. } => {
                self.segments_made += u64::from(result.is_ok());
                sync != SyncMode::Never
            }
            Completion::Written { .. } => {
                self.write_times.record(took_us);
                sync == SyncMode::EachWrite
            }
            Completion::Read { result, .. } => {
                self.reads += 1;
                self.bytes_read += result.as_ref().map_or(0, |bytes| *bytes as u64);
                self.read_us += took_us;
                false
            }
            Completion::Removed { .. } => sync != SyncMode::Never,
            Completion::Synced { .. } => true,
            // Nothing waits until a footer is durable.
            Completion::FooterWritten { .. } => false,
        };
        if is_synced {
            self.syncs += 1;
            self.sync_us += took_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_that_ends_with_it_or_behind_it() {
        for us in (1..5_000).chain([1 << 20, (1 << 26) - 1]) {
            let bucket = bucket_of(us);
            assert!(us <= bucket_end_us(bucket), "{us} in {bucket}");
            assert!(bucket == 1 || us > bucket_end_us(bucket - 1), "{us} in {bucket}");
            assert!(bucket_end_us(bucket) as f64 <= us as f64 * 1.25, "{us} in {bucket}");
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (1, WRITE_TIME_BUCKETS - 1));
    }

    #[test]
    fn quantiles_sums_and_the_longest_write() {
        let mut times = WriteTimes::default();
        assert_eq!(times.quantile_us(0.5), None);
        (1..=100).for_each(|us| times.record(us * 10));
        let mut all = times;
        all.add(&WriteTimes::default());
        all.add(&{
            let mut one = WriteTimes::default();
            one.record(7_000_000);
            one
        });
        assert_eq!((times.count(), times.sum_us(), times.max_us()), (100, 50_500, 1_000));
        assert_eq!((all.count(), all.sum_us(), all.max_us()), (101, 7_050_500, 7_000_000));
        assert_eq!([4, 8, 16, 512, 1_024].map(|us| times.count_below(us)), [0, 0, 1, 51, 100]);
        assert_eq!((times.quantile_us(0.5), times.quantile_us(1.0)), (Some(511), Some(1_000)));
        assert_eq!(all.quantile_us(1.0), Some(7_000_000));
        assert_eq!(all.cumulative().last().map(|(_, count)| count), Some(101));
        assert!(all.cumulative().zip(all.cumulative().skip(1)).all(|(one, next)| one.0 < next.0 && one.1 < next.1));
    }
}
