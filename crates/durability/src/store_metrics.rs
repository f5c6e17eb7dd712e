//! What a store has done since the broker started, and what it holds: the numbers that operators see.
//!
//! They are gathered when somebody asks, on the threads that own them.

use catalog::ShardId;
use disk::DiskMetrics;
use store::LogMetrics;

/// The numbers of one log with its disk, or of several.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StoreMetrics {
    pub log: LogMetrics,
    pub disk: DiskMetrics,
}

impl StoreMetrics {
    /// Adds those of another log.
    pub fn add(&mut self, other: &StoreMetrics) {
        self.disk.write_times.add(&other.disk.write_times);
        for (all, one) in self.counts_mut().into_iter().zip(other.counts()) {
            *all.1 += one.1;
        }
    }

    /// All numbers but the times of writes, with their names.
    pub fn counts(&self) -> [(&'static str, u64); 22] {
        { *self }.counts_mut().map(|(name, count)| (name, *count))
    }

    fn counts_mut(&mut self) -> [(&'static str, &mut u64); 22] {
        let StoreMetrics { log, disk } = self;
        [
            ("messages_written", &mut log.messages_written),
            ("groups_written", &mut log.groups_written),
            ("marks_written", &mut log.marks_written),
            ("bytes_written", &mut log.bytes_written),
            ("syncs", &mut disk.syncs),
            ("sync_us", &mut disk.sync_us),
            ("reads", &mut disk.reads),
            ("bytes_read", &mut disk.bytes_read),
            ("read_us", &mut disk.read_us),
            ("segments_made", &mut disk.segments_made),
            ("messages_moved", &mut log.messages_moved),
            ("bytes_moved", &mut log.bytes_moved),
            ("messages_fetched", &mut log.messages_fetched),
            ("bytes_scrubbed", &mut log.bytes_scrubbed),
            ("scrubs_done", &mut log.scrubs_done),
            ("scrub_pass_bytes", &mut log.scrub_pass_bytes),
            ("damage_found", &mut log.damage_found),
            ("segments_in_use", &mut log.segments_in_use),
            ("segments_spare", &mut log.segments_spare),
            ("log_bytes", &mut log.log_bytes),
            ("live_bytes", &mut log.live_bytes),
            ("pending_bytes", &mut log.pending_bytes),
        ]
    }
}

/// What the stores of a shard have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardStoreMetrics {
    pub shard: ShardId,
    /// The log of the shard's messages.
    pub messages: StoreMetrics,
    /// Its spill log; zeros until something was spilled.
    pub spill: StoreMetrics,
    /// The journal of definitions, on the shard that has it.
    pub journal: Option<StoreMetrics>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_every_number_of_both() {
        let mut one = StoreMetrics::default();
        one.counts_mut().into_iter().zip(1..).for_each(|((_, count), number)| *count = number);
        one.disk.write_times.record(3);
        let mut sum = one;
        sum.add(&one);
        let doubled: Vec<u64> = one.counts().iter().map(|(_, count)| count * 2).collect();
        assert_eq!(sum.counts().map(|(_, count)| count).to_vec(), doubled);
        assert_eq!((sum.disk.write_times.count(), sum.disk.write_times.sum_us()), (2, 6));
    }
}
