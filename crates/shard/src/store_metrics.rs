//! What a store has done since the broker started, and what it holds: the numbers that operators see.
//!
//! They are gathered when somebody asks, on the threads that own them.

use catalog::ShardId;
use disk::{DiskMetrics, WriteTimes};
use store::LogMetrics;

/// The numbers of one log with its disk, or of several.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct StoreMetrics {
    /// Messages that were put into groups. What was settled before is never written.
    pub messages_written: u64,
    /// Groups that are durable: each was written by one call.
    pub groups_written: u64,
    /// Marks that are durable: groups without records.
    pub marks_written: u64,
    /// Bytes of groups and marks, in whole blocks.
    pub bytes_written: u64,
    /// Requests that waited until they were durable: writes of groups, and segments that were made or removed.
    pub syncs: u64,
    /// Segments that were made, of others or anew.
    pub segments_made: u64,
    /// How long the writes of groups took.
    pub write_times: WriteTimes,
    /// Messages and their bytes that were written again so that segments could be given back.
    pub messages_moved: u64,
    pub bytes_moved: u64,
    /// Segments that logs consist of.
    pub segments_in_use: u64,
    /// Segments made ahead.
    pub segments_spare: u64,
    /// Bytes of the segments in use.
    pub log_bytes: u64,
    /// Bytes of the messages that are alive in them.
    pub live_bytes: u64,
    /// Bytes that wait for the disk.
    pub pending_bytes: u64,
}

impl StoreMetrics {
    pub(crate) fn new(log: LogMetrics, disk: DiskMetrics) -> Self {
        StoreMetrics {
            messages_written: log.messages_written,
            groups_written: log.groups_written,
            marks_written: log.marks_written,
            bytes_written: log.bytes_written,
            syncs: disk.syncs,
            segments_made: disk.segments_made,
            write_times: disk.write_times,
            messages_moved: log.messages_moved,
            bytes_moved: log.bytes_moved,
            segments_in_use: log.segments_in_use,
            segments_spare: log.segments_spare,
            log_bytes: log.log_bytes,
            live_bytes: log.live_bytes,
            pending_bytes: log.pending_bytes,
        }
    }

    /// Adds those of another log.
    pub fn add(&mut self, other: &StoreMetrics) {
        self.write_times.add(&other.write_times);
        for (all, one) in self.counts_mut().into_iter().zip(other.counts()) {
            *all.1 += one.1;
        }
    }

    /// All numbers but the times of writes, with their names.
    pub fn counts(&self) -> [(&'static str, u64); 13] {
        self.clone().counts_mut().map(|(name, count)| (name, *count))
    }

    fn counts_mut(&mut self) -> [(&'static str, &mut u64); 13] {
        [
            ("messages_written", &mut self.messages_written),
            ("groups_written", &mut self.groups_written),
            ("marks_written", &mut self.marks_written),
            ("bytes_written", &mut self.bytes_written),
            ("syncs", &mut self.syncs),
            ("segments_made", &mut self.segments_made),
            ("messages_moved", &mut self.messages_moved),
            ("bytes_moved", &mut self.bytes_moved),
            ("segments_in_use", &mut self.segments_in_use),
            ("segments_spare", &mut self.segments_spare),
            ("log_bytes", &mut self.log_bytes),
            ("live_bytes", &mut self.live_bytes),
            ("pending_bytes", &mut self.pending_bytes),
        ]
    }
}

/// What the stores of a shard have done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardStoreMetrics {
    pub shard: ShardId,
    /// The log of the shard's messages.
    pub messages: StoreMetrics,
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
        one.write_times.record(3);
        let mut sum = one.clone();
        sum.add(&one);
        let doubled: Vec<u64> = one.counts().iter().map(|(_, count)| count * 2).collect();
        assert_eq!(sum.counts().map(|(_, count)| count).to_vec(), doubled);
        assert_eq!((sum.write_times.count(), sum.write_times.sum_us()), (2, 6));
    }
}
