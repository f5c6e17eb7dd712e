//! State of the features that a queue has beyond queueing: limits, expiration, dead letters, priorities, delivery counts.

use crate::death_history::DeadLetterTarget;
use crate::ids::QueuePosition;
use crate::message::Content;
use crate::ready_messages::ReadyMessages;
use catalog::{OverflowPolicy, QueueDefinition, QueueFeatures};
use std::collections::BTreeMap;
use std::sync::Arc;

const MS_US: u64 = 1_000;

/// State of a queue's features. Plain queues have none.
pub struct FeatureState {
    /// How long its messages may wait.
    pub ttl_us: Option<u64>,
    /// After how long without use it is deleted.
    pub expires_us: Option<u64>,
    pub used_us: u64,
    /// Waiting messages.
    pub messages_max: u64,
    pub body_bytes_max: u64,
    /// What becomes of messages beyond these limits.
    pub overflow: OverflowPolicy,
    pub dead_letter_target: Option<Arc<DeadLetterTarget>>,
    pub priority_max: u8,
    pub single_active: bool,
    /// How often a message may be returned.
    pub delivery_limit: Option<u32>,
    /// How often messages were returned (with a delivery limit only). A million of them are never moved at once.
    pub returns: BTreeMap<QueuePosition, u32>,
    /// If its virtual host has a quota: the bytes that are counted of this queue.
    pub counted_bytes: Option<u64>,
    /// Messages of it cannot be read.
    pub is_closed: bool,
    /// Upstreams supply it with messages, when it tells that it wants some.
    pub is_federated: bool,
}

impl FeatureState {
    /// The state of a queue that is created or put under other policies now; `is_counted`: its virtual host has a quota.
    pub fn new(definition: &QueueDefinition, is_counted: bool, now_us: u64) -> Option<Box<FeatureState>> {
        let features = match definition.features() {
            Some(features) => features,
            None if is_counted => QueueFeatures::default(),
            None => return None,
        };
        let mut state = FeatureState::of(&features, now_us);
        state.dead_letter_target = features.dead_letter_exchange.map(|exchange| {
            let (vhost, queue) = (definition.vhost, definition.name.shared());
            Arc::new(DeadLetterTarget { vhost, queue, exchange, routing_key: features.dead_letter_routing_key })
        });
        state.counted_bytes = is_counted.then_some(0);
        // One that goes with its connection has no links.
        state.is_federated &= definition.exclusive.is_none();
        Some(Box::new(state))
    }

    /// The state of a queue without features.
    pub fn plain(now_us: u64) -> Box<FeatureState> {
        Box::new(FeatureState::of(&QueueFeatures::default(), now_us))
    }

    fn of(features: &QueueFeatures, now_us: u64) -> FeatureState {
        FeatureState {
            ttl_us: features.message_ttl_ms.map(|ms| ms.saturating_mul(MS_US)),
            expires_us: features.expires_ms.map(|ms| ms.saturating_mul(MS_US)),
            used_us: now_us,
            messages_max: features.messages_max.unwrap_or(u64::MAX),
            body_bytes_max: features.body_bytes_max.unwrap_or(u64::MAX),
            overflow: features.overflow,
            dead_letter_target: None,
            priority_max: features.priority_max,
            single_active: features.single_active_consumer,
            delivery_limit: features.delivery_limit,
            returns: BTreeMap::new(),
            counted_bytes: None,
            is_closed: false,
            is_federated: features.is_federated,
        }
    }

    /// Inherits the state from before the queue was put under other policies.
    pub fn inherit(&mut self, before: FeatureState) {
        if self.expires_us == before.expires_us {
            self.used_us = before.used_us;
        }
        if self.delivery_limit.is_some() {
            self.returns = before.returns;
        }
        self.is_closed = before.is_closed;
    }

    /// Counts the return of a message that a consumer had. Returns the count, or `None` if it exceeds the limit.
    pub fn count_return(&mut self, position: QueuePosition) -> Option<u32> {
        let limit = self.delivery_limit?;
        let count = self.returns.entry(position).or_insert(0);
        *count += 1;
        let count = *count;
        if count > limit {
            self.returns.remove(&position);
            return None;
        }
        Some(count)
    }

    /// Restores the count of a message that returns and that no consumer had this time.
    pub fn restore_returns(&mut self, position: QueuePosition, count: u32) {
        self.returns.entry(position).or_insert(count);
    }

    /// Forgets the count of a message that will not return. Returns whether it had one (with a delivery limit only).
    #[inline]
    pub fn forget_returns(&mut self, position: QueuePosition) -> bool {
        !self.returns.is_empty() && self.returns.remove(&position).is_some()
    }

    /// The level of a message: its priority, up to the queue's highest.
    #[inline]
    pub fn level(&self, content: &Content<'_>) -> u8 {
        if self.priority_max == 0 {
            return 0;
        }
        content.properties().priority().unwrap_or(0).min(self.priority_max)
    }

    /// Whether one more message must be refused. As in RabbitMQ, that is checked before a consumer is looked for.
    #[inline]
    pub fn refuses(&self, ready: &ReadyMessages, content: &Content<'_>) -> bool {
        self.is_closed || self.is_full(ready, content)
    }

    #[inline]
    fn is_full(&self, ready: &ReadyMessages, content: &Content<'_>) -> bool {
        self.overflow != OverflowPolicy::DropHead
            && (ready.len() as u64 >= self.messages_max
                || ready.body_bytes().saturating_add(content.body.len() as u64) > self.body_bytes_max)
    }

    /// How many more messages like this one may wait beside these.
    #[inline]
    pub fn room(&self, ready: &ReadyMessages, content: &Content<'_>) -> usize {
        let messages = self.messages_max.saturating_sub(ready.len() as u64);
        let bytes = self.body_bytes_max.saturating_sub(ready.body_bytes());
        let messages = messages.min(bytes.checked_div(content.body.len() as u64).unwrap_or(u64::MAX));
        let is_over = ready.body_bytes() > self.body_bytes_max;
        if is_over { 0 } else { usize::try_from(messages).unwrap_or(usize::MAX) }
    }

    /// Whether for each more message like this one another is dropped.
    #[inline]
    pub fn drops_for(&self, ready: &ReadyMessages, content: &Content<'_>) -> bool {
        self.overflow == OverflowPolicy::DropHead && self.room(ready, content) == 0
    }

    /// Whether a message is dropped though no other waits.
    #[inline]
    pub fn drops_alone(&self, content: &Content<'_>) -> bool {
        self.overflow == OverflowPolicy::DropHead
            && (self.messages_max == 0 || content.body.len() as u64 > self.body_bytes_max)
    }

    /// Whether a message must be dropped even when these are.
    pub fn overflows_without(&self, ready: &ReadyMessages, messages: u64, body_bytes: u64) -> bool {
        self.overflow == OverflowPolicy::DropHead
            && ((ready.len() as u64).saturating_sub(messages) > self.messages_max
                || ready.body_bytes().saturating_sub(body_bytes) > self.body_bytes_max)
    }

    /// Whether the next message must be dropped because more wait than may. A queue that refuses keeps what was returned to it.
    #[inline]
    pub fn overflows(&self, ready: &ReadyMessages) -> bool {
        self.overflow == OverflowPolicy::DropHead
            && (ready.len() as u64 > self.messages_max || ready.body_bytes() > self.body_bytes_max)
    }
}
