//! What a queue does beyond queueing, as its shard keeps it.
//!
//! Enters: the effect of a queue's arguments.  Leaves: limits, times, and where its dead letters go.
//! Owns:   when the queue was last used.
//! Never:  moves a message.

use crate::death_history::DeadLetterTarget;
use crate::message::Content;
use crate::ids::QueuePosition;
use crate::ready_messages::ReadyMessages;
use catalog::{Overflow, QueueDefinition, QueueFeatures};
use hashbrown::HashMap;
use std::sync::Arc;

/// Microseconds of a millisecond.
const MS_US: u64 = 1_000;

/// A queue's features. Plain queues have none.
pub struct FeatureState {
    /// How long its messages wait.
    pub ttl_us: Option<u64>,
    /// After how long without use it goes.
    pub expires_us: Option<u64>,
    /// When it was last used.
    pub used_us: u64,
    /// How many messages wait at most.
    pub messages_max: u64,
    /// Bytes of bodies that wait at most.
    pub body_bytes_max: u64,
    /// What becomes of those that have no room.
    pub overflow: Overflow,
    /// Where its dead letters go.
    pub dead_letter_target: Option<Arc<DeadLetterTarget>>,
    /// The highest priority that its messages have.
    pub priority_max: u8,
    /// One consumer at a time is served.
    pub single_active: bool,
    /// How often a message may come back.
    pub delivery_limit: Option<u32>,
    /// How often those did that came back (with a delivery limit only).
    pub returns: HashMap<QueuePosition, u32>,
    /// Where its vhost's bytes are counted: those of this queue that are.
    pub counted_bytes: Option<u64>,
}

impl FeatureState {
    /// Of a queue that is made or put under other policies now; `is_counted`: its vhost counts its bytes.
    pub fn new(definition: &QueueDefinition, is_counted: bool, now_us: u64) -> Option<Box<FeatureState>> {
        let features = match definition.features() {
            Some(features) => features,
            None if is_counted => QueueFeatures::default(),
            None => return None,
        };
        let grave = features.dead_letter_exchange.map(|exchange| {
            let (vhost, queue) = (definition.vhost, definition.name.shared());
            Arc::new(DeadLetterTarget { vhost, queue, exchange, routing_key: features.dead_letter_routing_key })
        });
        Some(Box::new(FeatureState {
            ttl_us: features.message_ttl_ms.map(|ms| ms.saturating_mul(MS_US)),
            expires_us: features.expires_ms.map(|ms| ms.saturating_mul(MS_US)),
            used_us: now_us,
            messages_max: features.messages_max.unwrap_or(u64::MAX),
            body_bytes_max: features.body_bytes_max.unwrap_or(u64::MAX),
            overflow: features.overflow,
            dead_letter_target: grave,
            priority_max: features.priority_max,
            single_active: features.single_active_consumer,
            delivery_limit: features.delivery_limit,
            returns: HashMap::new(),
            counted_bytes: is_counted.then_some(0),
        }))
    }

    /// Takes over what the queue did before it was put under other policies.
    pub fn inherit(&mut self, before: FeatureState) {
        if self.expires_us == before.expires_us {
            self.used_us = before.used_us;
        }
        if self.delivery_limit.is_some() {
            self.returns = before.returns;
        }
    }

    /// A message comes back that a consumer had: answers how often it did, or `None` if that is too often.
    pub fn count_return(&mut self, place: QueuePosition) -> Option<u32> {
        let limit = self.delivery_limit?;
        let times = self.returns.entry(place).or_insert(0);
        *times += 1;
        let times = *times;
        if times > limit {
            self.returns.remove(&place);
            return None;
        }
        Some(times)
    }

    /// A message comes back that nobody had this time: it had come back so often before.
    pub fn restore_returns(&mut self, place: QueuePosition, times: u32) {
        self.returns.entry(place).or_insert(times);
    }

    /// A message will not come back. Answers whether it ever did (with a delivery limit only).
    #[inline]
    pub fn forget_returns(&mut self, place: QueuePosition) -> bool {
        !self.returns.is_empty() && self.returns.remove(&place).is_some()
    }

    /// The level of a message: its priority, as far as the queue knows any.
    #[inline]
    pub fn level(&self, content: &Content<'_>) -> u8 {
        if self.priority_max == 0 {
            return 0;
        }
        content.properties().priority().unwrap_or(0).min(self.priority_max)
    }

    /// Whether one more message must be refused. RabbitMQ asks before it looks for a consumer, and so does this.
    #[inline]
    pub fn refuses(&self, ready: &ReadyMessages, content: &Content<'_>) -> bool {
        self.overflow != Overflow::DropHead
            && (ready.len() as u64 >= self.messages_max
                || ready.body_bytes().saturating_add(content.body.len() as u64) > self.body_bytes_max)
    }

    /// Whether more waits than may, so that the next must go. What came back to a queue that refuses is let be.
    #[inline]
    pub fn overflows(&self, ready: &ReadyMessages) -> bool {
        self.overflow == Overflow::DropHead
            && (ready.len() as u64 > self.messages_max || ready.body_bytes() > self.body_bytes_max)
    }
}
