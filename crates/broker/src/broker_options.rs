//! How a broker core is set up, and what it counts.

use crate::data_plane::DataPlane;
use catalog::ShardId;

/// How a broker core is set up.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    pub shard: ShardId,
    pub shards: u16,
    /// Bytes of waiting messages at which a queue blocks its publishers.
    pub queue_bytes_max: u64,
    /// How long a delivery may wait for its acknowledgement before its channel is closed, in milliseconds; zero: for ever.
    pub consumer_timeout_ms: u64,
    /// Seconds from 1970 to the moment from which [`set_now`](crate::Broker::set_now) counts.
    pub epoch_unix_s: u64,
    /// Units of work that one turn does before others have theirs: [`WORK_PER_TURN`](crate::limits::WORK_PER_TURN).
    pub work_per_turn: u32,
}

/// Counts since the start.
#[derive(Clone, Copy, Default, Debug)]
pub struct BrokerCounters {
    /// Messages published.
    pub published: u64,
    /// Deliveries to consumers.
    pub delivered: u64,
    /// Messages that no queue took.
    pub unroutable: u64,
    /// Dead letters that had died of themselves in so many queues that their history was full, or of which too many waited or came of one.
    pub dead_letters_dropped: u64,
    /// Queues that were closed because messages of them could not be read.
    pub queues_closed: u64,
    /// Units of work that turns have done.
    pub work: u64,
    /// The most that one of them has done.
    pub work_per_turn_max: u64,
}

impl BrokerCounters {
    pub(crate) fn of(data: &DataPlane) -> BrokerCounters {
        let DataPlane { dispatcher, forwarder, dead_letters, .. } = data;
        BrokerCounters {
            published: data.published,
            delivered: dispatcher.channels.delivered,
            unroutable: forwarder.unroutable,
            dead_letters_dropped: dead_letters.dropped + dispatcher.queues.housekeeping.dead_letters.dropped(),
            queues_closed: dispatcher.queues.closed,
            work: dispatcher.work.done(),
            work_per_turn_max: dispatcher.work.most(),
        }
    }
}
