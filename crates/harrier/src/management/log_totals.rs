//! What the shards' stores have counted, for the node's disk figures and `harrier_store_` metrics.
//!
//! Enters: totals of the shards.  Leaves: the same in the form of the management API.

use disk::WriteTimes;
use durability::StoreMetrics;
use management::{IoCounts, IoOperation, LogCounts, RatedCount, TimeCounts};
use shard::ShardTotals;

/// Classes of the times of writes end with these: powers of two, at which the classes of a disk's own figures begin.
const WRITE_TIME_BOUNDS_US: [u64; 17] = {
    let mut bounds = [64; 17];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2;
        at += 1;
    }
    bounds
};

/// The logs of a shard, with what is in them.
fn logs(of: &ShardTotals) -> impl Iterator<Item = (&'static str, StoreMetrics)> {
    let store = of.store.into_iter();
    store.flat_map(|store| {
        let journal = store.journal.map(|journal| ("definitions", journal));
        [("messages", store.messages), ("spill", store.spill)].into_iter().chain(journal)
    })
}

/// The logs of a shard.
pub fn log_counts(of: &ShardTotals) -> impl Iterator<Item = LogCounts> {
    let shard = of.store.map_or(0, |store| store.shard.0);
    logs(of).map(move |(log, StoreMetrics { log: counts, disk })| LogCounts {
        shard,
        log,
        messages_written: counts.messages_written,
        groups_written: counts.groups_written,
        bytes_written: counts.bytes_written,
        writes: write_times(&disk.write_times),
        messages_moved: counts.messages_moved,
        bytes_moved: counts.bytes_moved,
        syncs: disk.syncs,
        sync_us: disk.sync_us,
        reads: disk.reads,
        bytes_read: disk.bytes_read,
        read_us: disk.read_us,
        segments_made: disk.segments_made,
        segments: counts.segments_in_use,
        spare_segments: counts.segments_spare,
        log_bytes: counts.log_bytes,
        live_bytes: counts.live_bytes,
        pending_bytes: counts.pending_bytes,
        bytes_scrubbed: counts.bytes_scrubbed,
        scrub_pass_bytes: counts.scrub_pass_bytes,
        scrubs: counts.scrubs_done,
        damage_found: counts.damage_found,
    })
}

fn write_times(of: &WriteTimes) -> TimeCounts {
    let mut before = 0;
    let below = WRITE_TIME_BOUNDS_US.iter().map(|bound| of.count_below(*bound)).chain([of.count()]);
    let classes = below.map(|count| count - std::mem::replace(&mut before, count)).collect();
    TimeCounts { bounds_us: &WRITE_TIME_BOUNDS_US, classes, sum_us: of.sum_us() }
}

/// All logs together; `count` has one number of all shards with its rate.
pub fn io_counts(count: impl Fn(&dyn Fn(&ShardTotals) -> u64) -> RatedCount) -> IoCounts {
    let count = |of: fn(&StoreMetrics) -> u64| count(&|totals| logs(totals).map(|(_, log)| of(&log)).sum());
    IoCounts {
        reads: IoOperation { count: count(|of| of.disk.reads), us: count(|of| of.disk.read_us) },
        bytes_read: count(|of| of.disk.bytes_read),
        writes: IoOperation {
            count: count(|of| of.disk.write_times.count()),
            us: count(|of| of.disk.write_times.sum_us()),
        },
        bytes_written: count(|of| of.log.bytes_written),
        syncs: IoOperation { count: count(|of| of.disk.syncs), us: count(|of| of.disk.sync_us) },
    }
}

/// Messages that all logs have read back, and that they have written.
pub fn disk_messages(count: impl Fn(&dyn Fn(&ShardTotals) -> u64) -> RatedCount) -> (RatedCount, RatedCount) {
    let count = |of: fn(&StoreMetrics) -> u64| count(&|totals| logs(totals).map(|(_, log)| of(&log)).sum());
    (count(|of| of.log.messages_fetched), count(|of| of.log.messages_written))
}

#[cfg(test)]
mod tests {
    use super::{disk_messages, io_counts, log_counts};
    use catalog::ShardId;
    use durability::{ShardStoreMetrics, StoreMetrics};
    use management::RatedCount;
    use shard::ShardTotals;

    fn metrics(number: u64) -> StoreMetrics {
        let mut metrics = StoreMetrics::default();
        (metrics.log.messages_fetched, metrics.log.messages_written) = (2 * number, 3 * number);
        (metrics.log.bytes_written, metrics.log.live_bytes, metrics.disk.syncs) = (number, 10 * number, number);
        // Just below a bound, at it, and beyond all of them.
        [63, 64, 5_000_000].into_iter().for_each(|us| metrics.disk.write_times.record(us));
        metrics
    }

    #[test]
    fn logs_stay_apart_and_the_node_has_all_of_them() {
        let store =
            ShardStoreMetrics { shard: ShardId(3), messages: metrics(5), spill: metrics(6), journal: Some(metrics(7)) };
        let totals = ShardTotals { store: Some(store), ..ShardTotals::default() };
        let found: Vec<_> = log_counts(&totals).map(|of| (of.shard, of.log, of.bytes_written, of.live_bytes)).collect();
        assert_eq!(found, [(3, "messages", 5, 50), (3, "spill", 6, 60), (3, "definitions", 7, 70)]);
        let writes = log_counts(&totals).next().map(|of| of.writes).expect("a log");
        assert_eq!((writes.classes.len(), writes.bounds_us.len()), (18, 17));
        assert_eq!((&writes.classes[..3], writes.classes[17], writes.sum_us), (&[1, 1, 0][..], 1, 5_000_127));
        let io = io_counts(|of| RatedCount { total: of(&totals) + of(&ShardTotals::default()), rate: 0.0 });
        assert_eq!((io.writes.count.total, io.bytes_written.total, io.syncs.count.total), (9, 18, 18));
        let (reads, writes) = disk_messages(|of| RatedCount { total: of(&totals) + of(&totals), rate: 0.0 });
        assert_eq!((reads.total, writes.total), (72, 108), "of all logs and shards");
        assert_eq!(log_counts(&ShardTotals::default()).count(), 0, "a broker without a store has none");
    }
}
