//! What metrics have of a queue: numbers alone, without rates, which are read once for each family and queue.

use crate::live::QueueCounts;

/// The totals of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTotals {
    pub ready: u64,
    pub unacknowledged: u64,
    /// Bytes of bodies.
    pub ready_bytes: u64,
    pub unacknowledged_bytes: u64,
    pub consumers: u64,
    pub published: u64,
    /// Bytes that the queue takes with its messages.
    pub memory: u64,
}

impl From<&QueueCounts> for QueueTotals {
    fn from(of: &QueueCounts) -> Self {
        Self {
            ready: of.waiting.ready,
            unacknowledged: of.waiting.unacknowledged,
            ready_bytes: of.ready_bytes,
            unacknowledged_bytes: of.unacknowledged_bytes,
            consumers: of.consumers,
            published: of.messages.publish.total,
            memory: of.memory,
        }
    }
}
