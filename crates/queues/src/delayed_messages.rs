//! The messages that delaying exchanges of this shard hold back (`x-delayed-message`, RabbitMQ extension).
//!
//! A message waits on the shard that routed it, in the order of time and then of arrival.

use crate::ids::{QueuePosition, StoredPosition};
use crate::message::Message;
use catalog::arguments::X_DELAY;
use catalog::{Name, VhostId};
use std::collections::BTreeMap;
use wire::{RawProperties, ShortString, TableRef, Value};

/// A message that an exchange delays.
pub struct DelayedMessage {
    pub vhost: VhostId,
    /// The exchange's name: the exchange that has it when the delay is over routes the message.
    pub exchange: Name,
    pub message: Message,
}

/// What a delayed message costs in the list beside itself: nodes of a tree are between half full and full.
const ENTRY_OVERHEAD_BYTES: usize = size_of::<((u64, u64), DelayedMessage)>() * 3 / 2;

/// What it costs beside that if the store has it: hash tables are between half full and full.
const STORED_OVERHEAD_BYTES: usize = size_of::<(u64, StoredPosition)>() * 3 / 2;

/// The delayed messages, up to a maximum.
pub struct DelayedMessages {
    /// By time and number of arrival.
    messages: BTreeMap<(u64, u64), DelayedMessage>,
    /// Number of the last arrival.
    last: u64,
    messages_max: usize,
    /// Where the store has a message, by its number of arrival. A tree: of a hash table all would be hashed anew at once.
    stored: BTreeMap<u64, StoredPosition>,
    /// The position in the store of the next one.
    pub next_position: QueuePosition,
    /// When the timer fires; zero without a timer.
    pub timer_us: u64,
}

impl DelayedMessages {
    pub fn new(messages_max: usize) -> Self {
        DelayedMessages {
            messages: BTreeMap::new(),
            last: 0,
            messages_max,
            stored: BTreeMap::new(),
            next_position: QueuePosition(0),
            timer_us: 0,
        }
    }

    pub fn has_capacity(&self, messages: usize) -> bool {
        self.messages.len().saturating_add(messages) <= self.messages_max
    }

    /// Delays a message, which the store may have. The caller has checked the capacity.
    pub fn insert(&mut self, at_us: u64, delayed_message: DelayedMessage, stored: Option<StoredPosition>) {
        assert!(self.has_capacity(1), "the caller checked the capacity");
        self.restore(at_us, delayed_message, stored);
    }

    /// Delays a message as before a restart.
    pub fn restore(&mut self, at_us: u64, delayed_message: DelayedMessage, stored: Option<StoredPosition>) {
        self.last += 1;
        self.messages.insert((at_us, self.last), delayed_message);
        if let Some(stored) = stored {
            self.stored.insert(self.last, stored);
        }
    }

    /// When the first delay is over.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        self.messages.first_key_value().map(|(&(at_us, _), _)| at_us)
    }

    /// Takes the next message whose delay is over, and where the store has it.
    pub fn pop_due(&mut self, now_us: u64) -> Option<(DelayedMessage, Option<StoredPosition>)> {
        let first = self.messages.first_entry().filter(|first| first.key().0 <= now_us)?;
        let ((_, number), message) = first.remove_entry();
        let stored = self.stored.remove(&number);
        Some((message, stored))
    }

    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// Bytes of the list beside the messages themselves.
    pub fn list_overhead_bytes(&self) -> usize {
        self.messages.len() * ENTRY_OVERHEAD_BYTES + self.stored.len() * STORED_OVERHEAD_BYTES
    }
}

/// The properties of a message with its delay negated, as it is delivered: no other exchange delays it again.
pub fn negate_delay(properties: RawProperties<'_>, delay_ms: u32) -> Vec<u8> {
    let value = -i64::from(delay_ms);
    let value = i32::try_from(value).map_or(Value::I64(value), Value::I32);
    let mut out = Vec::new();
    properties.rewrite(true, &mut out, |headers, out| {
        // Properties are validated when they arrive.
        let mut headers = TableRef::new(headers).to_table().unwrap_or_default();
        if let Ok(name) = ShortString::try_from(X_DELAY) {
            headers.set(name, value);
        }
        out.extend_from_slice(&headers.to_bytes());
    });
    out
}

#[cfg(test)]
mod tests {
    use super::{DelayedMessage, DelayedMessages};
    use crate::ids::{QueuePosition, StoredPosition};
    use crate::message::{BodyRef, Content};
    use catalog::{Name, QueueUid, VhostId};
    use slab::{Pool, PoolOptions};

    #[test]
    fn messages_leave_in_the_order_of_time_and_arrival_and_are_bounded() {
        let pool = Pool::new(PoolOptions::default());
        let mut delayed = DelayedMessages::new(4);
        for (at_us, key) in [(30, "a"), (10, "b"), (30, "c"), (20, "d")] {
            assert!(delayed.has_capacity(1));
            let (body, routing_key) = (BodyRef::Small(b""), key.as_bytes());
            let content = Content { routing_key, body, ..Content::EMPTY };
            let (vhost, exchange) = (VhostId(0), Name::from("x"));
            let stored = (key == "b").then_some(StoredPosition { uid: QueueUid::FIRST, position: QueuePosition(5) });
            delayed.insert(at_us, DelayedMessage { vhost, exchange, message: content.keep(&pool) }, stored);
        }
        assert!(!delayed.has_capacity(1) && delayed.list_overhead_bytes() > 0);
        let mut due = |now_us| {
            let messages = std::iter::from_fn(|| delayed.pop_due(now_us));
            let keys: Vec<u8> = messages
                .flat_map(|(delayed, stored)| {
                    let key = delayed.message.content().routing_key.to_vec();
                    assert_eq!(stored.map(|stored| stored.position.0), (key == b"b").then_some(5));
                    key
                })
                .collect();
            (String::from_utf8_lossy(&keys).into_owned(), delayed.next())
        };
        assert_eq!(due(9), (String::new(), Some(10)));
        assert_eq!(due(20), ("bd".to_owned(), Some(30)));
        assert_eq!(due(30), ("ac".to_owned(), None));
        assert_eq!((delayed.count(), delayed.list_overhead_bytes()), (0, 0));
    }
}
