//! What the threads of a program do, and what their messages and memory cost: for `harrier_` metrics.
//!
//! Owns: the form in which a source gives it. Counts are since the start; times are whole micro- or nanoseconds.

use crate::log_counts::LogCounts;
use crate::time_counts::TimeCounts;

/// A thread that passes messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    pub busy_ns: u64,
    /// Spinning or asleep.
    pub waited_ns: u64,
    /// Rounds of its loop, by the time of work.
    pub rounds: TimeCounts,
    pub spins: u64,
    pub sleeps: u64,
    /// To other shards.
    pub mail_messages: u64,
    pub mail_batches: u64,
    pub mail_waiting_bytes: u64,
    /// Message memory in use, and in it what waits in queues.
    pub message_bytes: u64,
    pub waiting_bytes: u64,
    /// Dead letters that wait for memory.
    pub held_dead_letters: u64,
    /// Dead letters that became too many.
    pub dropped_dead_letters: u64,
    pub connections: u64,
    /// Connections that have left for the shard of the queue that they use, and those that could not.
    pub connections_moved: u64,
    pub moves_given_up: u64,
}

/// A count since the start that whoever counts has named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedTotal {
    /// A word of metrics.
    pub name: &'static str,
    pub counts: &'static str,
    pub value: u64,
}

/// RDMA ports of all shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RdmaCounts {
    /// Queue pairs, one a connection, as of now.
    pub queue_pairs: u64,
    pub totals: Vec<NamedTotal>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeCounts {
    pub shards: Vec<ShardCounts>,
    /// Of a sample of deliveries.
    pub delivery_latency: TimeCounts,
    /// `None`: there never was an RDMA port.
    pub rdma: Option<RdmaCounts>,
    /// Bytes by what they are for. One kind may be a part of another.
    pub memory: Vec<(&'static str, u64)>,
    /// Logs of the durable store; none without one.
    pub logs: Vec<LogCounts>,
}
