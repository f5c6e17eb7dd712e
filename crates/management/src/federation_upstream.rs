//! The parameters `federation-upstream` and `federation-upstream-set`: other brokers, and what is taken from them.
//!
//! Enters: values as clients write them.  Leaves: typed ones, or all that is wrong with them.

use crate::parameter_fields::ParameterFields;
use definitions::Json;
use std::time::Duration;

pub const UPSTREAM: &str = "federation-upstream";
pub const UPSTREAM_SET: &str = "federation-upstream-set";

/// What RabbitMQ does unless it is told otherwise.
const PREFETCH_DEFAULT: u16 = 1_000;
const MAX_HOPS_DEFAULT: u16 = 1;
const RECONNECT_DELAY_DEFAULT: Duration = Duration::from_secs(5);

/// What an upstream says beside its addresses; an entry of a set may say otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamOptions {
    /// The exchange at the upstream, if it has another name there.
    pub exchange: Option<String>,
    /// The queue at the upstream of federated queues, if it has another name there.
    pub queue: Option<String>,
    /// Of the consumers there of federated queues.
    pub consumer_tag: Option<String>,
    pub prefetch_count: Option<u16>,
    pub reconnect_delay: Option<Duration>,
    pub max_hops: Option<u16>,
    /// Of the queue at the upstream.
    pub expires: Option<Duration>,
    pub message_ttl: Option<Duration>,
    /// The upstream forgets messages as soon as it has sent them.
    pub is_unacknowledged: Option<bool>,
}

impl UpstreamOptions {
    fn read(fields: &mut ParameterFields<'_>) -> Self {
        let has_ack_mode = fields.get("ack-mode").is_some();
        let ack_mode = fields.choice("ack-mode", &["on-confirm", "on-publish", "no-ack"]);
        fields.without_effect(
            "trust-user-id",
            |value| *value == Json::Bool(false),
            "user ids of other brokers are always removed",
        );
        fields.without_effect("ha-policy", |_| false, "set a policy at the upstream");
        fields.without_effect(
            "channel-use-mode",
            |value| *value == Json::text("multiple"),
            "each federated exchange and queue has a channel of its own (multiple)",
        );
        fields.without_effect(
            "resource-cleanup-mode",
            |value| *value == Json::text("default"),
            "what a link has declared is deleted with it (default)",
        );
        // Either way bindings are requested many at a time, and one answer is awaited.
        fields.flag("bind-nowait");
        let small = |number: Option<u64>| number.and_then(|number| u16::try_from(number).ok());
        let max_hops = small(fields.number("max-hops", u64::from(u16::MAX)));
        if max_hops == Some(0) {
            fields.fault("max-hops is 1 at least");
        }
        UpstreamOptions {
            exchange: fields.name("exchange"),
            queue: fields.name("queue"),
            consumer_tag: fields.name("consumer-tag"),
            prefetch_count: small(fields.number("prefetch-count", u64::from(u16::MAX))),
            reconnect_delay: fields.delay("reconnect-delay"),
            max_hops,
            expires: fields.milliseconds("expires", 1),
            message_ttl: fields.milliseconds("message-ttl", 0),
            is_unacknowledged: has_ack_mode.then_some(ack_mode == "no-ack"),
        }
    }

    /// These, and what they leave open as others say.
    #[must_use]
    pub fn over(self, others: &Self) -> Self {
        UpstreamOptions {
            exchange: self.exchange.or_else(|| others.exchange.clone()),
            queue: self.queue.or_else(|| others.queue.clone()),
            consumer_tag: self.consumer_tag.or_else(|| others.consumer_tag.clone()),
            prefetch_count: self.prefetch_count.or(others.prefetch_count),
            reconnect_delay: self.reconnect_delay.or(others.reconnect_delay),
            max_hops: self.max_hops.or(others.max_hops),
            expires: self.expires.or(others.expires),
            message_ttl: self.message_ttl.or(others.message_ttl),
            is_unacknowledged: self.is_unacknowledged.or(others.is_unacknowledged),
        }
    }

    pub fn credit(&self) -> u16 {
        self.prefetch_count.unwrap_or(PREFETCH_DEFAULT)
    }

    pub fn hops_max(&self) -> u16 {
        self.max_hops.unwrap_or(MAX_HOPS_DEFAULT)
    }

    pub fn wait(&self) -> Duration {
        self.reconnect_delay.unwrap_or(RECONNECT_DELAY_DEFAULT)
    }
}

/// An upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct FederationUpstream {
    /// Of one broker or cluster, with passwords.
    pub uris: Vec<String>,
    pub options: UpstreamOptions,
}

impl FederationUpstream {
    /// # Errors
    /// All that is wrong, a line each.
    pub fn read(value: &Json) -> Result<Self, String> {
        let mut fields = ParameterFields::of(UPSTREAM, value)?;
        let upstream = FederationUpstream { uris: fields.uris("uri"), options: UpstreamOptions::read(&mut fields) };
        fields.end().map(|()| upstream)
    }
}

/// An entry of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamSetEntry {
    /// The name of the upstream.
    pub upstream: String,
    pub options: UpstreamOptions,
}

impl UpstreamSetEntry {
    /// The entries of a set.
    ///
    /// # Errors
    /// All that is wrong with the first entry with a fault, a line each.
    pub fn read_all(value: &Json) -> Result<Vec<Self>, String> {
        match value {
            Json::List(entries) => entries.iter().map(Self::read).collect(),
            other => Err(format!("a list is needed, not {}", other.kind())),
        }
    }

    fn read(entry: &Json) -> Result<Self, String> {
        let mut fields = ParameterFields::of(UPSTREAM_SET, entry)?;
        let upstream = fields.name("upstream");
        if upstream.is_none() {
            fields.fault("each entry names its upstream");
        }
        let options = UpstreamOptions::read(&mut fields);
        fields.end()?;
        Ok(UpstreamSetEntry { upstream: upstream.unwrap_or_default(), options })
    }
}

#[cfg(test)]
mod tests {
    use super::{FederationUpstream, UpstreamOptions, UpstreamSetEntry};
    use definitions::Json;
    use std::time::Duration;

    fn json(text: &str) -> Json {
        Json::read(text.as_bytes()).expect("JSON")
    }

    #[test]
    fn an_upstream_is_read_and_an_entry_of_a_set_says_otherwise() {
        let text = r#"{"uri":["amqp://a","amqp://b"],"exchange":"x","consumer-tag":"t","prefetch-count":7,"reconnect-delay":0.5,
                       "max-hops":2,"expires":1000,"message-ttl":5,"ack-mode":"no-ack","trust-user-id":false,
                       "bind-nowait":true,"resource-cleanup-mode":"default","channel-use-mode":"multiple"}"#;
        let upstream = FederationUpstream::read(&json(text)).expect("sound");
        assert_eq!(upstream.uris, ["amqp://a", "amqp://b"]);
        let set = UpstreamSetEntry::read_all(&json(
            r#"[{"upstream":"up","exchange":"y","ack-mode":"on-publish"},{"upstream":"v"}]"#,
        ))
        .expect("sound");
        let both = set[0].options.clone().over(&upstream.options);
        let expected = UpstreamOptions {
            exchange: Some("y".to_owned()),
            is_unacknowledged: Some(false),
            ..upstream.options.clone()
        };
        assert_eq!((both, &*set[0].upstream, &*set[1].upstream), (expected, "up", "v"));
        assert_eq!((upstream.options.credit(), upstream.options.hops_max()), (7, 2));
        assert_eq!(upstream.options.wait(), Duration::from_millis(500));
        let plain = FederationUpstream::read(&json(r#"{"uri":"amqp://a"}"#)).expect("sound").options;
        assert_eq!((plain.credit(), plain.hops_max(), plain.wait()), (1000, 1, Duration::from_secs(5)));
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        for (text, why) in [
            (r#"{"uri":"a","trust-user-id":true}"#, "trust-user-id would have no effect"),
            (r#"{"uri":"a","ha-policy":"all"}"#, "ha-policy would have no effect"),
            (r#"{"uri":"a","channel-use-mode":"single"}"#, "channel-use-mode would have no effect"),
            (r#"{"uri":"a","resource-cleanup-mode":"never"}"#, "resource-cleanup-mode would have no effect"),
            (r#"{"uri":"a","max-hops":0}"#, "max-hops is 1 at least"),
            (r#"{"uri":"a","bind-nowait":1}"#, "bind-nowait should be a boolean"),
            (r#"{"uri":"a","more":1}"#, "Unrecognised terms more in federation-upstream"),
        ] {
            let found = FederationUpstream::read(&json(text)).expect_err("a fault");
            assert!(found.starts_with(why), "{text}: {found}");
        }
    }
}
