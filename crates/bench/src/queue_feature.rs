//! Queue features whose cost is measured: the arguments and message priority that turn each of them on.
//!
//! The limits are set so high that none is reached, except where dead-lettering itself is measured.

use client::{Table, Value};
use serde::{Deserialize, Serialize};

/// Milliseconds that no message of a benchmark waits.
const NEVER_MS: i64 = 3_600_000;
/// Messages, and bytes of bodies, that never wait in a queue of a benchmark.
const NEVER_MESSAGES: i64 = 1 << 40;
/// Levels of a queue with priorities, and the level of its messages: they are alike, so that their order can be checked.
const PRIORITIES: i32 = 10;
const PRIORITY: u8 = 5;
/// Milliseconds after which messages become dead letters: they have to wait for it, and do not wait long.
const SHORT_MS: i64 = 1;

/// A feature of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueueFeature {
    /// None.
    #[default]
    None,
    /// Messages expire, later than they ever wait.
    Ttl,
    /// Messages and bytes are limited, and stay below.
    Limits,
    /// Ten levels of priority.
    Priorities,
    /// Dead letters would have a place to go.
    DeadLetters,
    /// Every message expires in a first queue and reaches its consumer as a dead letter.
    Expired,
    /// A first queue has room for no message, and each reaches its consumer as a dead letter.
    NoRoom,
}

impl QueueFeature {
    /// Whether messages go through a first queue, that nobody consumes from, and on through the exchange for dead letters.
    pub fn dead_letters(self) -> bool {
        matches!(self, QueueFeature::Expired | QueueFeature::NoRoom)
    }

    /// Adds what a queue with the feature is declared with; `dead_letters` is the exchange for its dead letters.
    ///
    /// # Errors
    /// None for the names that are used here.
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
        assert!(QueueFeature::Expired.dead_letters() && QueueFeature::NoRoom.dead_letters() && !QueueFeature::DeadLetters.dead_letters());
    }
}
