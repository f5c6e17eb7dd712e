//! What the program's disks have read, written and synced.
//!
//! Owns: the form in which a source gives it, and its names in the answers about the node.

use crate::rated_count::RatedCount;

/// What is done on disks again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoOperation {
    pub count: RatedCount,
    /// How long that took together.
    pub us: RatedCount,
}

impl IoOperation {
    /// Milliseconds that one took in the last interval; 0 if there was none.
    pub(crate) fn average_ms(&self) -> f64 {
        let is_some = self.count.rate > 0.0;
        if is_some { self.us.rate / self.count.rate / 1e3 } else { 0.0 }
    }
}

/// Of all disks. A write that is durable when it is done counts as a write and as a sync.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoCounts {
    pub reads: IoOperation,
    pub bytes_read: RatedCount,
    pub writes: IoOperation,
    pub bytes_written: RatedCount,
    pub syncs: IoOperation,
}

impl IoCounts {
    /// The counts with RabbitMQ's names.
    pub fn named(&self) -> [(&'static str, RatedCount); 5] {
        [
            ("io_read_count", self.reads.count),
            ("io_read_bytes", self.bytes_read),
            ("io_write_count", self.writes.count),
            ("io_write_bytes", self.bytes_written),
            ("io_sync_count", self.syncs.count),
        ]
    }

    /// Milliseconds that operations took in the last interval, with RabbitMQ's names.
    pub(crate) fn averages_ms(&self) -> [(&'static str, f64); 3] {
        [
            ("io_read_avg_time", self.reads.average_ms()),
            ("io_write_avg_time", self.writes.average_ms()),
            ("io_sync_avg_time", self.syncs.average_ms()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::IoOperation;
    use crate::rated_count::RatedCount;

    #[test]
    fn what_one_takes_is_of_the_last_interval() {
        let of = |rate, us_rate| IoOperation {
            count: RatedCount { total: 1_000, rate },
            us: RatedCount { total: 7, rate: us_rate },
        };
        assert_eq!((of(4.0, 10_000.0).average_ms(), of(0.0, 0.0).average_ms()), (2.5, 0.0));
    }
}
