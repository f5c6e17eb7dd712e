//! Queue features whose cost is measured: the arguments and message priority that turn each of them on.
//!
//! The limits are set so high that none is reached, except where dead-lettering itself is measured.

use client::{Table, Value};
use serde::{Deserialize, Serialize};

/// An expiration that no benchmark message reaches.
const NEVER_MS: i64 = 3_600_000;
/// A limit on messages and bytes that no benchmark queue reaches.
const NEVER_MESSAGES: i64 = 1 << 40;
/// The number of priority levels, and the level of all messages: equal, so that their order can be checked.
const PRIORITIES: i32 = 10;
const PRIORITY: u8 = 5;
/// The expiration that dead-letters messages: they wait for it, but not for long.
const SHORT_MS: i64 = 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueFeature {
    #[default]
    None,
    /// Messages have an expiration, which is never reached.
    Ttl,
    /// Messages and bytes are limited; the limits are never reached.
    Limits,
    /// Ten priority levels.
    Priorities,
    /// A dead-letter exchange, without dead letters.
    DeadLetters,
    /// Every message expires in a first queue and is dead-lettered to its consumer.
    Expired,
    /// The first queue has capacity for no message, so each one is dead-lettered to its consumer.
    NoRoom,
}

impl QueueFeature {
    /// Whether messages pass through a first queue without consumers and its dead-letter exchange.
    pub fn dead_letters(self) -> bool {
        matches!(self, QueueFeature::Expired | QueueFeature::NoRoom)
    }

    /// Adds the arguments of a queue with this feature; `dead_letters` is the dead-letter exchange.
    ///
    /// # Errors
    /// None for the names used here.
    pub fn arguments(self, own: Table, dead_letters: &str) -> client::Result<Table> {
        let to = || ("x-dead-letter-exchange", Value::text(dead_letters));
        let more = match self {
            QueueFeature::None => vec![],
            QueueFeature::Ttl => vec![("x-message-ttl", Value::I64(NEVER_MS))],
            QueueFeature::Limits => {
                vec![("x-max-length", Value::I64(NEVER_MESSAGES)), ("x-max-length-bytes", Value::I64(NEVER_MESSAGES))]
            }
            QueueFeature::Priorities => vec![("x-max-priority", Value::I32(PRIORITIES))],
            QueueFeature::DeadLetters => vec![to()],
            QueueFeature::Expired => vec![("x-message-ttl", Value::I64(SHORT_MS)), to()],
            QueueFeature::NoRoom => vec![("x-max-length", Value::I64(0)), to()],
        };
        let mut table = own;
        for (name, value) in more {
            table = table.with(name, value).map_err(|_| client::ClientError::TooLong { bytes: name.len() })?;
        }
        Ok(table)
    }

    /// The priority of its messages.
    pub fn priority(self) -> Option<u8> {
        (self == QueueFeature::Priorities).then_some(PRIORITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_has_its_arguments() {
        let names = |feature: QueueFeature| {
            let table = feature.arguments(Table::new(), "dead").expect("short names");
            table.iter().map(|(name, _)| String::from_utf8_lossy(name.as_bytes()).into_owned()).collect::<Vec<_>>()
        };
        assert!(names(QueueFeature::None).is_empty());
        assert_eq!(names(QueueFeature::Ttl), ["x-message-ttl"]);
        assert_eq!(names(QueueFeature::Limits), ["x-max-length", "x-max-length-bytes"]);
        assert_eq!(names(QueueFeature::Priorities), ["x-max-priority"]);
        assert_eq!(names(QueueFeature::DeadLetters), ["x-dead-letter-exchange"]);
        assert_eq!(names(QueueFeature::Expired), ["x-message-ttl", "x-dead-letter-exchange"]);
        assert_eq!(names(QueueFeature::NoRoom), ["x-max-length", "x-dead-letter-exchange"]);
        assert!(
            QueueFeature::Expired.dead_letters()
                && QueueFeature::NoRoom.dead_letters()
                && !QueueFeature::DeadLetters.dead_letters()
        );
    }
}
