//! What a queue does beyond queueing: the effect of its arguments and of the policies over it.
//!
//! Enters: the arguments of a queue and what its policies come to, checked.  Leaves: times, limits, names.
//! Owns:   which argument means what, and which wins where a policy says it too: the lesser number, else the argument.

use crate::arguments::{DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY};
use crate::limits::QUORUM_DELIVERY_LIMIT;
use crate::policy::EffectivePolicy;
use crate::queue_type::QueueType;
use wire::{Table, Value};

/// What becomes of a publish for which a queue has no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// It is taken, and the oldest messages go.
    #[default]
    DropHead,
    /// It is refused: its publisher hears `basic.nack`.
    Reject,
    /// It is refused, and is a dead letter besides.
    RejectToDeadLetters,
}

/// The effect of a queue's arguments and policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFeatures {
    /// How long its messages wait (`x-message-ttl`).
    pub message_ttl_ms: Option<u64>,
    /// After how long without use it goes (`x-expires`).
    pub expires_ms: Option<u64>,
    /// How many messages wait (`x-max-length`).
    pub messages_max: Option<u64>,
    /// Bytes of bodies that wait (`x-max-length-bytes`).
    pub body_bytes_max: Option<u64>,
    /// What becomes of those that have no room (`x-overflow`).
    pub overflow: OverflowPolicy,
    /// Where messages go that it gives up (`x-dead-letter-exchange`); empty is the default exchange.
    pub dead_letter_exchange: Option<Box<[u8]>>,
    /// Under which key, if not their own (`x-dead-letter-routing-key`).
    pub dead_letter_routing_key: Option<Box<[u8]>>,
    /// The highest priority that its messages have (`x-max-priority`); zero: all are alike.
    pub priority_max: u8,
    /// One consumer at a time is served (`x-single-active-consumer`).
    pub single_active_consumer: bool,
    /// How often a message may come back (`x-delivery-limit`). A quorum queue has one unless its argument is negative.
    pub delivery_limit: Option<u32>,
    /// A policy gives it upstreams: it tells whether it wants messages of theirs.
    pub is_federated: bool,
}

impl QueueFeatures {
    /// Of these arguments and policies; `None` for a plain queue.
    pub fn of(arguments: Option<&Table>, policy: Option<&EffectivePolicy>) -> Option<Self> {
        if arguments.is_none() && policy.is_none() {
            return None;
        }
        let argument = |name: &str| arguments.and_then(|arguments| arguments.get(name));
        let number = |name: &str| argument(name)?.as_i64().and_then(|number| u64::try_from(number).ok());
        // The names of arguments are those of policies behind `x-`.
        let lesser = |name: &str| {
            let said = policy.and_then(|policy| policy.number(name.strip_prefix("x-")?));
            number(name).into_iter().chain(said).min()
        };
        let own_or_said = |name: &str| {
            let own = argument(name).and_then(Value::as_bytes);
            own.or_else(|| policy.and_then(|policy| policy.text(name.strip_prefix("x-")?)))
        };
        let features = QueueFeatures {
            message_ttl_ms: lesser("x-message-ttl"),
            expires_ms: lesser("x-expires"),
            messages_max: lesser("x-max-length"),
            body_bytes_max: lesser("x-max-length-bytes"),
            overflow: match own_or_said("x-overflow") {
                Some(b"reject-publish") => OverflowPolicy::Reject,
                Some(b"reject-publish-dlx") => OverflowPolicy::RejectToDeadLetters,
                _ => OverflowPolicy::DropHead,
            },
            dead_letter_exchange: own_or_said(DEAD_LETTER_EXCHANGE).map(Box::from),
            dead_letter_routing_key: own_or_said(DEAD_LETTER_ROUTING_KEY).map(Box::from),
            priority_max: number("x-max-priority").map_or(0, |level| level.min(u8::MAX.into()) as u8),
            single_active_consumer: argument("x-single-active-consumer").and_then(Value::as_bool) == Some(true),
            delivery_limit: lesser("x-delivery-limit")
                .map(|times| u32::try_from(times).unwrap_or(u32::MAX))
                .or_else(|| default_delivery_limit(arguments)),
            is_federated: policy.is_some_and(EffectivePolicy::federates),
        };
        (features != Self::default()).then_some(features)
    }
}

/// What limits the returns of messages where neither an argument nor a policy does.
fn default_delivery_limit(arguments: Option<&Table>) -> Option<u32> {
    let is_unlimited = arguments.is_some_and(|arguments| arguments.get("x-delivery-limit").is_some());
    (QueueType::of(arguments) == QueueType::Quorum && !is_unlimited).then_some(QUORUM_DELIVERY_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::{OverflowPolicy, QueueFeatures};
    use wire::{Table, Value};

    #[test]
    fn arguments_have_their_effect_and_others_have_none() {
        let table = |entries: &[(&str, Value)]| {
            entries
                .iter()
                .fold(Table::new(), |table, (name, value)| table.with(name, value.clone()).expect("a short name"))
        };
        assert_eq!(QueueFeatures::of(None, None), None);
        let plain = [("x-queue-mode", Value::text("lazy")), ("x-overflow", Value::text("drop-head"))];
        assert_eq!(QueueFeatures::of(Some(&table(&plain)), None), None);
        let rich = table(&[
            ("x-message-ttl", Value::I8(5)),
            ("x-max-length", Value::I64(7)),
            ("x-overflow", Value::text("reject-publish-dlx")),
            ("x-dead-letter-exchange", Value::text("")),
            ("x-max-priority", Value::U8(10)),
        ]);
        let expect = QueueFeatures {
            message_ttl_ms: Some(5),
            messages_max: Some(7),
            overflow: OverflowPolicy::RejectToDeadLetters,
            dead_letter_exchange: Some(Box::default()),
            priority_max: 10,
            ..QueueFeatures::default()
        };
        assert_eq!(QueueFeatures::of(Some(&rich), None), Some(expect));
        let quorum = |limit: &[(&str, Value)]| {
            let arguments = table(&[&[("x-queue-type", Value::text("quorum"))], limit].concat());
            QueueFeatures::of(Some(&arguments), None).and_then(|features| features.delivery_limit)
        };
        assert_eq!(quorum(&[]), Some(20));
        assert_eq!(quorum(&[("x-delivery-limit", Value::I32(3))]), Some(3));
        assert_eq!(quorum(&[("x-delivery-limit", Value::I32(-1))]), None);
    }
}
