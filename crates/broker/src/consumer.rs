//! A consumer, on the shard of its connection.

use crate::ids::{ChannelKey, ConnectionSlot, QueuePosition};
use crate::limits::REMOTE_WINDOW_MESSAGES;
use crate::message::Message;
use catalog::{QueueId, ShardId};
use std::collections::VecDeque;

/// A delivery from another shard that waits until the connection or the prefetch count has capacity.
pub struct ParkedDelivery {
    pub position: QueuePosition,
    pub message: Message,
    pub redelivered: bool,
}

/// A consumer.
pub struct Consumer {
    pub slot: ConnectionSlot,
    pub channel_number: u16,
    pub channel: ChannelKey,
    pub tag: Box<[u8]>,
    pub queue: QueueId,
    /// The shard where that queue lives.
    pub home: ShardId,
    pub no_ack: bool,
    /// Unsettled deliveries it may have; zero is no limit.
    pub prefetch: u32,
    /// Unsettled deliveries it has.
    pub unsettled: u32,
    /// Higher priorities are served first.
    pub priority: i32,
    /// It could not accept a delivery and must be woken.
    pub idle: bool,
    /// Deliveries waiting here (queue on another shard only).
    pub parked: VecDeque<ParkedDelivery>,
    /// Messages delivered since the queue was last granted credit (queue on another shard only).
    pub credit_due_messages: u32,
    /// Bytes delivered since then.
    pub credit_due_bytes: i64,
    /// It is on the list of those that owe their queue credit.
    pub credit_listed: bool,
    /// Messages that the queue may send ahead.
    pub window: u32,
}

impl Consumer {
    /// Whether its own prefetch count allows one more.
    #[inline]
    pub fn has_credit(&self) -> bool {
        self.no_ack || self.prefetch == 0 || self.unsettled < self.prefetch
    }
}

/// How many messages a queue on another shard may send ahead to a consumer.
pub fn window_of(prefetch: u32, prefetch_shared: u32, no_ack: bool) -> u32 {
    let limits = [prefetch, prefetch_shared].into_iter().filter(|&limit| limit > 0 && !no_ack);
    limits.min().unwrap_or(REMOTE_WINDOW_MESSAGES).min(REMOTE_WINDOW_MESSAGES)
}
