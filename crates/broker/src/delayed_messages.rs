//! Delayed messages of one shard: what exchanges of type `x-delayed-message` hold back (RabbitMQ extension).
//!
//! Enters: a message, the exchange that holds it, its time.  Leaves: the same when the time has come, the first held first.
//! Owns:   the order of time, and the bound on how many wait.
//! Never:  reads a clock, routes, looks through what waits.

use crate::message::Message;
use catalog::arguments::X_DELAY;
use catalog::{Name, VhostId};
use std::collections::BTreeMap;
use wire::{RawProperties, ShortString, TableRef, Value};

/// A message that waits in an exchange.
pub struct DelayedMessage {
    /// Where the exchange is.
    pub vhost: VhostId,
    /// Its name: whoever has it when the time comes routes the message.
    pub exchange: Name,
    /// The message.
    pub message: Message,
}

/// What a message that waits costs in the list beside itself: nodes of a tree are between half full and full.
const ENTRY_OVERHEAD_BYTES: usize = size_of::<((u64, u64), DelayedMessage)>() * 3 / 2;

/// All that wait.
pub struct DelayedMessages {
    /// By time, and then in the order in which they came.
    messages: BTreeMap<(u64, u64), DelayedMessage>,
    /// Number of the last that came.
    last: u64,
    messages_max: usize,
    /// When the first will be looked at; zero is not at all.
    pub timer_us: u64,
}

impl DelayedMessages {
    /// None yet, and so many at most.
    pub fn new(messages_max: usize) -> Self {
        DelayedMessages { messages: BTreeMap::new(), last: 0, messages_max, timer_us: 0 }
    }

    /// Whether so many more may wait.
    pub fn has_capacity(&self, messages: usize) -> bool {
        self.messages.len().saturating_add(messages) <= self.messages_max
    }

    /// Holds a message. The caller has asked for room.
    pub fn insert(&mut self, at_us: u64, held: DelayedMessage) {
        assert!(self.has_capacity(1), "the caller asked whether there is room");
        self.last += 1;
        self.messages.insert((at_us, self.last), held);
    }

    /// When the first is to go on.
    pub fn next(&self) -> Option<u64> {
        self.messages.first_key_value().map(|(&(at_us, _), _)| at_us)
    }

    /// Takes the next whose time has come.
    pub fn pop_due(&mut self, now_us: u64) -> Option<DelayedMessage> {
        let first = self.messages.first_entry().filter(|first| first.key().0 <= now_us)?;
        Some(first.remove())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Bytes that they take beside the messages themselves.
    pub fn list_overhead_bytes(&self) -> usize {
        self.messages.len() * ENTRY_OVERHEAD_BYTES
    }
}

/// The properties of a message with its delay negated: as it will be delivered, and so that no other exchange delays it again.
pub(crate) fn negate_delay(properties: RawProperties<'_>, delay_ms: u32) -> Vec<u8> {
    let value = -i64::from(delay_ms);
    let value = i32::try_from(value).map_or(Value::I64(value), Value::I32);
    let mut out = Vec::new();
    properties.rewrite(true, &mut out, |headers, out| {
        // Properties are validated where they come in.
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
    use super::{DelayedMessages, DelayedMessage};
    use crate::message::{BodyRef, Content};
    use catalog::{Name, VhostId};
    use slab::{Pool, PoolOptions};

    #[test]
    fn they_go_on_in_the_order_of_time_and_then_of_arrival_and_are_bounded() {
        let pool = Pool::new(PoolOptions::default());
        let mut delayed = DelayedMessages::new(4);
        for (at_us, key) in [(30, "a"), (10, "b"), (30, "c"), (20, "d")] {
            assert!(delayed.has_capacity(1));
            let (body, routing_key) = (BodyRef::Small(b""), key.as_bytes());
            let content = Content { routing_key, body, ..Content::EMPTY };
            let (vhost, exchange) = (VhostId(0), Name::from("x"));
            delayed.insert(at_us, DelayedMessage { vhost, exchange, message: content.keep(&pool) });
        }
        assert!(!delayed.has_capacity(1) && delayed.list_overhead_bytes() > 0);
        let mut taken = |now_us| {
            let held = std::iter::from_fn(|| delayed.pop_due(now_us));
            let keys: Vec<u8> = held.flat_map(|held| held.message.content().routing_key.to_vec()).collect();
            (String::from_utf8_lossy(&keys).into_owned(), delayed.next())
        };
        assert_eq!(taken(9), (String::new(), Some(10)));
        assert_eq!(taken(20), ("bd".to_owned(), Some(30)));
        assert_eq!(taken(30), ("ac".to_owned(), None));
        assert_eq!((delayed.len(), delayed.list_overhead_bytes()), (0, 0));
    }
}
