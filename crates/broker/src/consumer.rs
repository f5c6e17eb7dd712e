//! A consumer, as the shard of its connection sees it.
//!
//! Enters: deliveries from its queue.  Leaves: whether it may take one more.
//! Owns:   its prefetch count and, when its queue lives on another shard, the deliveries that wait here for room.
//! Never:  knows what a message holds.

use crate::effects::ConnectionSlot;
use crate::message::Message;
use crate::ready_messages::QueuePosition;
use catalog::{QueueId, ShardId};
use std::collections::VecDeque;

slotmap::new_key_type! {
    /// A consumer in the table of its connection's shard.
    pub struct ConsumerKey;
}

/// A delivery from another shard that waits for room or prefetch.
pub struct ParkedDelivery {
    /// Its place in the queue.
    pub position: QueuePosition,
    /// The message.
    pub message: Message,
    /// Handed out before.
    pub redelivered: bool,
}

/// A consumer.
pub struct Consumer {
    /// Its connection.
    pub slot: ConnectionSlot,
    /// Its channel's number.
    pub channel_number: u16,
    /// Its channel.
    pub channel: crate::channel::ChannelKey,
    /// Its tag.
    pub tag: Box<[u8]>,
    /// Its queue.
    pub queue: QueueId,
    /// Where that queue lives.
    pub home: ShardId,
    /// Deliveries need no acknowledgement.
    pub no_ack: bool,
    /// Unsettled deliveries it may have; zero is no limit.
    pub prefetch: u32,
    /// Unsettled deliveries it has.
    pub unsettled: u32,
    /// Served before others with a smaller number.
    pub priority: i32,
    /// It could not take a delivery and must be woken.
    pub idle: bool,
    /// Deliveries waiting here (queue on another shard only).
    pub parked: VecDeque<ParkedDelivery>,
    /// Messages delivered since the queue was last told (queue on another shard only).
    pub credit_due_messages: u32,
    /// Bytes delivered since the queue was last told.
    pub credit_due_bytes: i64,
    /// It is on the list of those whose queue must be told.
    pub credit_listed: bool,
    /// How many messages the queue may send ahead.
    pub window: u32,
}

impl Consumer {
    /// Whether its own prefetch count allows one more.
    #[inline]
    pub fn has_credit(&self) -> bool {
        self.no_ack || self.prefetch == 0 || self.unsettled < self.prefetch
    }
}
