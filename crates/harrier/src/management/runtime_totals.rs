//! What the shards' threads have counted of themselves, for `harrier_` metrics.
//!
//! Enters: totals of the shards.  Leaves: the same in the form of the management API.

use crate::management::log_totals::log_counts;
use broker::{TIME_CLASS_BOUNDS_US, TimeStats};
use management::{NamedTotal, RdmaCounts, RuntimeCounts, ShardCounts, TimeCounts};
use shard::{ShardTotals, SharedState};
use verbs::{NamedCounter, PortCounters};

/// Of all shards, and the memory of the process.
pub fn runtime_counts<'a>(
    totals: impl Iterator<Item = &'a ShardTotals> + Clone,
    shared: &SharedState,
    resident_bytes: u64,
) -> RuntimeCounts {
    let mut latency = TimeStats::default();
    totals.clone().for_each(|shard| latency.add(&shard.stats.delivery_latency));
    let message_bytes = totals.clone().map(|shard| shard.used_bytes).sum::<u64>();
    let waiting_bytes = totals.clone().map(|shard| shard.waiting_bytes).sum::<u64>();
    let memory = vec![
        ("resident", resident_bytes),
        ("heap", slab::heap_bytes() as u64),
        ("messages", message_bytes),
        ("waiting_messages", waiting_bytes),
        // Message memory, the heap and the buffers of RDMA ports: what the memory limit is compared with.
        ("limited", shared.used_bytes()),
    ];
    RuntimeCounts {
        shards: totals.clone().map(shard_counts).collect(),
        delivery_latency: times(&latency),
        logs: totals.clone().flat_map(log_counts).collect(),
        rdma: rdma_counts(totals),
        memory,
    }
}

fn times(of: &TimeStats) -> TimeCounts {
    TimeCounts { bounds_us: &TIME_CLASS_BOUNDS_US, classes: of.classes.to_vec(), sum_us: of.sum_us }
}

fn shard_counts(of: &ShardTotals) -> ShardCounts {
    ShardCounts {
        busy_ns: of.thread.busy_ns,
        waited_ns: of.thread.waited_ns,
        rounds: times(&of.thread.rounds),
        spins: of.thread.spins,
        sleeps: of.thread.sleeps,
        mail_messages: of.mail.messages,
        mail_batches: of.mail.batches,
        mail_waiting_bytes: of.mail.waiting_bytes,
        message_bytes: of.used_bytes,
        waiting_bytes: of.waiting_bytes,
        held_dead_letters: of.held_dead_letters,
        dropped_dead_letters: of.dropped_dead_letters,
        connections: of.connections,
        connections_moved: of.moves.moved,
        moves_given_up: of.moves.given_up,
    }
}

fn rdma_counts<'a>(totals: impl Iterator<Item = &'a ShardTotals> + Clone) -> Option<RdmaCounts> {
    let queue_pairs = totals.clone().map(|shard| shard.thread.rdma_connections).sum();
    let ports = totals.filter_map(|shard| shard.thread.rdma);
    let all = ports.reduce(|mut sum: PortCounters, port| {
        sum += port;
        sum
    })?;
    let total = |NamedCounter { name, counts, value }| NamedTotal { name, counts, value };
    Some(RdmaCounts { queue_pairs, totals: all.named().map(total).collect() })
}

#[cfg(test)]
mod tests {
    use super::runtime_counts;
    use shard::{MailStats, MoveStats, ShardTotals, SharedState, ThreadStats};

    #[test]
    fn shards_stay_apart_and_what_they_have_together_is_added_up() {
        let mut one = ShardTotals { used_bytes: 5, waiting_bytes: 3, connections: 2, ..ShardTotals::default() };
        (one.held_dead_letters, one.dropped_dead_letters) = (6, 9);
        one.stats.delivery_latency.record(100);
        one.mail = MailStats { messages: 7, batches: 2, waiting_bytes: 1 };
        one.moves = MoveStats { moved: 5, given_up: 4 };
        one.thread.busy_ns = 11;
        let mut other = one;
        other.thread = ThreadStats {
            rdma_connections: 3,
            rdma: Some(verbs::PortCounters { signalled: 4, ..verbs::PortCounters::default() }),
            ..one.thread
        };
        let shared = SharedState::new(2, 1 << 30, 1);
        let counts = runtime_counts([&one, &other].into_iter(), &shared, 1_000);
        assert_eq!((counts.shards.len(), counts.shards[1].busy_ns, counts.shards[0].mail_messages), (2, 11, 7));
        assert_eq!((counts.delivery_latency.sum_us, counts.delivery_latency.classes.iter().sum::<u64>()), (200, 2));
        assert_eq!((counts.shards[0].held_dead_letters, counts.shards[0].dropped_dead_letters), (6, 9));
        assert_eq!((counts.shards[0].connections_moved, counts.shards[1].moves_given_up), (5, 4));
        let rdma = counts.rdma.as_ref().expect("there is a port");
        let completions = rdma.totals.iter().find(|total| total.name == "completions").map(|total| total.value);
        assert_eq!((rdma.queue_pairs, completions), (3, Some(4)));
        let bytes = |kind| counts.memory.iter().find(|(known, _)| *known == kind).map(|(_, bytes)| *bytes);
        assert_eq!((bytes("resident"), bytes("messages"), bytes("waiting_messages")), (Some(1_000), Some(10), Some(6)));
        assert_eq!(runtime_counts([&one].into_iter(), &shared, 0).rdma, None);
    }
}
