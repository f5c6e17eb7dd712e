//! What a shard hands over to a reader outside: its totals, and a piece of what has changed since the reader was last told.

use crate::connection_report::ConnectionReport;
use crate::connection_traffic::ConnectionTraffic;
use crate::moved_connection::MoveStats;
use crate::thread_stats::{LoginStats, MailStats, ThreadStats};
use broker::{BrokerReport, ReportPart, ShardStats};
use catalog::{SessionId, ShardId, VhostId};
use durability::ShardStoreMetrics;

/// The counts of a shard, and what it holds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ShardTotals {
    pub stats: ShardStats,
    pub connections: u64,
    pub channels: u64,
    pub consumers: u64,
    /// Messages that wait in memory, and their bytes with overhead.
    pub waiting: u64,
    pub waiting_bytes: u64,
    pub unacknowledged: u64,
    /// Dead letters that wait for memory.
    pub held_dead_letters: u64,
    /// Dead letters that became too many, or had no place for their history, since the start.
    pub dropped_dead_letters: u64,
    /// Bytes that the shard uses of message memory.
    pub used_bytes: u64,
    /// Of its clients.
    pub logins: LoginStats,
    /// Of its connections.
    pub moves: MoveStats,
    /// What it has sent to other shards.
    pub mail: MailStats,
    /// Of its store, if it has one.
    pub store: Option<ShardStoreMetrics>,
    /// Of its thread, if it has one of its own.
    pub thread: ThreadStats,
}

/// A piece of what a shard has to tell.
#[derive(Clone, Debug)]
pub struct ShardReport {
    pub shard: ShardId,
    /// The shard's time, in microseconds since 1970.
    pub time_us: u64,
    pub totals: ShardTotals,
    /// By their ids; one that uses the same slot later has another.
    pub connections: ReportPart<ConnectionReport, SessionId>,
    /// What connections that are gone have carried in each virtual host, since the start: where that has changed.
    pub closed_traffic: Vec<(VhostId, ConnectionTraffic)>,
    /// Queues, channels, consumers, exchanges.
    pub broker: BrokerReport,
    /// There is more to tell: ask again.
    pub more: bool,
}

impl ShardReport {
    /// Objects in it, [`limits::REPORT_OBJECTS_MAX`](crate::limits::REPORT_OBJECTS_MAX) at most.
    pub fn len(&self) -> usize {
        self.connections.len() + self.closed_traffic.len() + self.broker.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let connections = self.connections.changed.iter().map(ConnectionReport::bytes).sum::<usize>();
        let traffic = size_of_val(&*self.closed_traffic);
        size_of::<Self>()
            + connections
            + self.connections.gone.len() * size_of::<SessionId>()
            + traffic
            + self.broker.bytes()
    }
}
