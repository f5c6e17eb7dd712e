//! What all connections, and all channels, have together. A source adds it up once for all who ask.

/// The sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectSums {
    /// Of connections.
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub sent_packets: u64,
    /// Those to which something waits to be sent.
    pub pending_connections: u64,
    /// Of channels.
    pub channel_consumers: u64,
    pub unacknowledged: u64,
    pub unconfirmed: u64,
    pub uncommitted: u64,
    pub acks_uncommitted: u64,
    pub prefetch_count: u64,
    pub global_prefetch_count: u64,
}
