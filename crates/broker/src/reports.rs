//! What a shard tells of its queues, channels, consumers and exchanges: copies of numbers, by ids that a replica of the catalog knows.

use crate::ids::ChannelKey;
use crate::message_stats::{ChannelStats, ExchangeStats};
use catalog::{ExchangeId, QueueId, SessionId, ShardId, VhostId};
use queues::{ConsumerKey, QueueStats};
use std::sync::Arc;
use wire::ChannelNumber;

/// Why the messages of a queue wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueHold {
    /// The queue is closed: messages of it cannot be read.
    Closed,
    NoConsumers,
    /// Its consumers have as many unacknowledged deliveries as they may.
    AtPrefetch,
    /// The outputs of its consumers' connections are full.
    OutputFull,
    /// Its consumers are on other shards, and have been sent as much as they may.
    RemoteWindow,
    /// The next message is being read from the store.
    AwaitsPage,
}

impl QueueHold {
    /// In words, for operators.
    pub const fn text(self) -> &'static str {
        match self {
            QueueHold::Closed => "the queue is closed, because messages of it cannot be read",
            QueueHold::NoConsumers => "no consumers",
            QueueHold::AtPrefetch => "all consumers are at their prefetch count",
            QueueHold::OutputFull => "the outputs of all consumers are full",
            QueueHold::RemoteWindow => "all consumers have been sent as much as they may have ahead",
            QueueHold::AwaitsPage => "the next message is being read from the store",
        }
    }
}

/// A consumer, wherever its connection is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConsumerId {
    /// The shard of its connection.
    pub shard: ShardId,
    pub key: ConsumerKey,
}

/// A queue of the shard.
#[derive(Clone, Debug)]
pub struct QueueReport {
    pub id: QueueId,
    pub stats: QueueStats,
    /// Messages that wait, and bytes of their bodies.
    pub ready: u64,
    pub ready_bytes: u64,
    /// Messages that are not acknowledged, and bytes of their bodies.
    pub unacknowledged: u64,
    pub unacknowledged_bytes: u64,
    /// Of those that wait, messages in memory, and their bytes with names and properties; the others are paged out.
    pub in_memory: u64,
    pub in_memory_bytes: u64,
    pub paged_out: u64,
    pub paged_out_bytes: u64,
    pub consumers: u64,
    /// The consumer that is served alone (`x-single-active-consumer`).
    pub single_active: Option<ConsumerId>,
    /// Why its messages wait, if they do and nothing moves them.
    pub hold: Option<QueueHold>,
    /// It is full, and blocks its publishers.
    pub is_full: bool,
    /// Publishers that wait a moment for its consumers.
    pub throttled_publishers: u64,
}

/// A channel of a connection of the shard.
#[derive(Clone, Debug)]
pub struct ChannelReport {
    pub key: ChannelKey,
    pub connection: SessionId,
    pub number: ChannelNumber,
    pub stats: ChannelStats,
    pub consumers: u64,
    pub confirms: bool,
    pub is_transactional: bool,
    pub prefetch: u32,
    pub prefetch_shared: u32,
    pub unacknowledged: u64,
    pub unconfirmed: u64,
    /// Messages and acknowledgements that wait for the commit.
    pub uncommitted: u64,
    pub uncommitted_acks: u64,
    /// The client accepts deliveries (`channel.flow`).
    pub has_flow: bool,
}

/// A consumer of a connection of the shard. Nothing of it changes.
#[derive(Clone, Debug)]
pub struct ConsumerReport {
    pub id: ConsumerId,
    pub tag: Arc<[u8]>,
    pub queue: QueueId,
    pub channel: ChannelKey,
    pub connection: SessionId,
    pub channel_number: ChannelNumber,
    pub ack_required: bool,
    pub is_exclusive: bool,
    pub prefetch: u32,
    pub priority: i32,
    /// A table in wire form.
    pub arguments: Box<[u8]>,
}

/// An exchange, as far as publishers of the shard have used it.
#[derive(Clone, Debug)]
pub struct ExchangeReport {
    pub id: ExchangeId,
    pub stats: ExchangeStats,
}

/// What is to be known of the objects of one kind.
#[derive(Clone, Debug)]
pub struct ReportPart<T, K> {
    /// Whatever is known of this kind and this shard is to be forgotten first.
    pub begins_anew: bool,
    /// Objects that are new or have changed.
    pub changed: Vec<T>,
    /// Objects that are gone. Their keys are not used again.
    pub gone: Vec<K>,
}

impl<T, K> Default for ReportPart<T, K> {
    fn default() -> Self {
        ReportPart { begins_anew: false, changed: Vec::new(), gone: Vec::new() }
    }
}

impl<T, K> ReportPart<T, K> {
    pub fn len(&self) -> usize {
        self.changed.len() + self.gone.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A piece of what has changed in the broker core of a shard.
#[derive(Clone, Debug, Default)]
pub struct BrokerReport {
    pub queues: ReportPart<QueueReport, QueueId>,
    pub channels: ReportPart<ChannelReport, ChannelKey>,
    pub consumers: ReportPart<ConsumerReport, ConsumerKey>,
    /// One that is deleted is not reported as gone: the catalog knows.
    pub exchanges: ReportPart<ExchangeReport, ExchangeId>,
    /// There is more to tell.
    pub more: bool,
}

impl BrokerReport {
    /// Objects in it.
    pub fn len(&self) -> usize {
        self.queues.len() + self.channels.len() + self.consumers.len() + self.exchanges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let consumers = self.consumers.changed.iter().map(|consumer| consumer.arguments.len() + consumer.tag.len());
        self.queues.changed.capacity() * size_of::<QueueReport>()
            + self.channels.changed.capacity() * size_of::<ChannelReport>()
            + self.consumers.changed.capacity() * size_of::<ConsumerReport>()
            + self.exchanges.changed.capacity() * size_of::<ExchangeReport>()
            + consumers.sum::<usize>()
            + (self.queues.gone.capacity() + self.channels.gone.capacity() + self.consumers.gone.capacity())
                * size_of::<QueueId>()
    }
}

/// What a shard holds.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct HeldTotals {
    pub channels: u64,
    pub consumers: u64,
    /// Messages that wait in memory, and their bytes with overhead.
    pub waiting: u64,
    pub waiting_bytes: u64,
    pub unacknowledged: u64,
    /// Dead letters that wait for memory.
    pub held_dead_letters: u64,
}

/// What a session is for those who watch it, beside its connection.
#[derive(Clone, Debug)]
pub struct SessionReport {
    pub session: SessionId,
    pub vhost: VhostId,
    pub channels: u64,
    /// It has published.
    pub is_publisher: bool,
    /// Why its publishes are not accepted, as the client was told.
    pub blocked_reason: Option<&'static str>,
    /// It waits a moment for the consumers of this queue.
    pub throttled_by: Option<QueueId>,
    /// It waits until this queue has drained.
    pub blocked_by: Option<QueueId>,
    /// A command of it waits for an answer of another shard, of the store or of definitions.
    pub awaits_answer: bool,
    /// Turns have left work of it undone.
    pub has_deferred: bool,
}
