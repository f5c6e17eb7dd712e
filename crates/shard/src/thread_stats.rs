//! What the thread of a shard does with its time, and what it counts beside the messages of clients.

use broker::TimeStats;
use std::time::Duration;

/// Counts since the start of the thread.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ThreadStats {
    /// Rounds of the loop, by the time in which the thread worked.
    pub rounds: TimeStats,
    /// Nanoseconds of work, and of waits, spinning or asleep.
    pub busy_ns: u64,
    pub waited_ns: u64,
    /// Waits that began with polling, and waits in which the thread slept.
    pub spins: u64,
    pub sleeps: u64,
    /// Queue pairs of RDMA connections, as of now.
    pub rdma_connections: u64,
    /// Of RDMA ports; `None` if there never was one.
    pub rdma: Option<verbs::PortCounters>,
}

impl ThreadStats {
    /// A round has ended.
    #[inline]
    pub(crate) fn count_round(&mut self, busy: Duration, waited: Duration) {
        self.rounds.record(busy.as_micros() as u64);
        self.busy_ns += busy.as_nanos() as u64;
        self.waited_ns += waited.as_nanos() as u64;
    }
}

/// Logins of clients over AMQP, whatever the mechanism.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LoginStats {
    pub accepted: u64,
    pub refused: u64,
}

/// What one shard has sent to others.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MailStats {
    pub messages: u64,
    /// The messages travel in batches.
    pub batches: u64,
    /// Bytes of batches that wait for space, as of now.
    pub waiting_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::ThreadStats;
    use std::time::Duration;

    #[test]
    fn rounds_are_counted_by_their_work() {
        let mut stats = ThreadStats::default();
        for (busy_us, waited_us) in [(3, 0), (20, 100), (20, 900)] {
            stats.count_round(Duration::from_micros(busy_us), Duration::from_micros(waited_us));
        }
        assert_eq!((stats.busy_ns, stats.waited_ns, stats.rounds.sum_us), (43_000, 1_000_000, 43));
        assert_eq!(stats.rounds.classes[..4], [1, 0, 2, 0]);
    }
}
