//! The parameter `shovel`: messages of a queue or an exchange here or elsewhere, and where they go.
//!
//! Enters: a value as clients write it.  Leaves: a typed one, or all that is wrong with it.

use crate::parameter_fields::ParameterFields;
use definitions::Json;
use std::time::Duration;

pub const SHOVEL: &str = "shovel";

/// What RabbitMQ does unless it is told otherwise.
const PREFETCH_DEFAULT: u16 = 1_000;
const RECONNECT_DELAY_DEFAULT: Duration = Duration::from_secs(5);
const ONLY_AMQP_091: &str = "amqp091";

/// A queue or an exchange at one end of a shovel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShovelPlace {
    Queue {
        name: String,
        /// It is there already, and is not declared.
        is_predeclared: bool,
    },
    Exchange {
        name: String,
        key: Option<String>,
    },
}

/// One end of a shovel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShovelEnd {
    /// Of one broker or cluster, with passwords.
    pub uris: Vec<String>,
    pub place: ShovelPlace,
}

/// When a shovel has done its work and goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteAfter {
    Never,
    /// As many messages as its queue had when it began.
    QueueLength,
    Messages(u64),
}

/// A shovel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShovelParameter {
    pub source: ShovelEnd,
    pub destination: ShovelEnd,
    /// The source forgets messages as soon as it has sent them.
    pub is_unacknowledged: bool,
    pub prefetch_count: u16,
    pub reconnect_delay: Duration,
    pub delete_after: DeleteAfter,
    /// Messages say in `x-shovelled` that they came by this shovel.
    pub adds_forward_headers: bool,
}

impl ShovelParameter {
    /// # Errors
    /// All that is wrong, a line each.
    pub fn read(value: &Json) -> Result<Self, String> {
        let mut fields = ParameterFields::of(SHOVEL, value)?;
        for key in ["src-protocol", "dest-protocol"] {
            match fields.text(key) {
                None | Some(ONLY_AMQP_091) => {}
                Some(other) => {
                    let other = other.chars().take(16).collect::<String>();
                    fields.fault(format!("{key} {other} is not spoken by this broker, only {ONLY_AMQP_091}"));
                }
            }
        }
        let source = read_end(&mut fields, &SOURCE);
        let destination = read_end(&mut fields, &DESTINATION);
        let ack_mode = fields.choice("ack-mode", &["on-confirm", "on-publish", "no-ack"]);
        let prefetch = fields.number("src-prefetch-count", u64::from(u16::MAX));
        let prefetch = prefetch.or(fields.number("prefetch-count", u64::from(u16::MAX)));
        let newer = read_delete_after(&mut fields, "src-delete-after");
        let delete_after = newer.or(read_delete_after(&mut fields, "delete-after")).unwrap_or(DeleteAfter::Never);
        let adds_forward_headers = fields.flag("dest-add-forward-headers");
        let adds_forward_headers = adds_forward_headers.or(fields.flag("add-forward-headers")).unwrap_or(false);
        let reconnect_delay = fields.delay("reconnect-delay");
        let is_empty = |value: &Json| matches!(value, Json::Object(fields) if fields.is_empty());
        for key in ["src-queue-args", "dest-queue-args"] {
            fields.without_effect(key, is_empty, "declare the queue with its arguments first");
        }
        fields.without_effect("src-consumer-args", is_empty, "the shovel consumes without arguments");
        for key in ["dest-publish-properties", "publish-properties"] {
            fields.without_effect(key, is_empty, "messages keep their properties");
        }
        let is_false = |value: &Json| *value == Json::Bool(false);
        fields.without_effect("dest-add-timestamp-header", is_false, "messages keep their headers");
        let is_unacknowledged = ack_mode == "no-ack";
        if is_unacknowledged && delete_after != DeleteAfter::Never {
            fields.fault("src-delete-after needs acknowledgements: with ack-mode no-ack more messages would be taken");
        }
        if matches!(source.place, ShovelPlace::Exchange { .. }) && delete_after == DeleteAfter::QueueLength {
            fields.fault("src-delete-after is queue-length for a src-queue alone");
        }
        fields.end()?;
        Ok(ShovelParameter {
            source,
            destination,
            is_unacknowledged,
            prefetch_count: prefetch.and_then(|count| u16::try_from(count).ok()).unwrap_or(PREFETCH_DEFAULT),
            reconnect_delay: reconnect_delay.unwrap_or(RECONNECT_DELAY_DEFAULT),
            delete_after,
            adds_forward_headers,
        })
    }
}

/// The keys of one end.
struct EndKeys {
    uri: &'static str,
    queue: &'static str,
    predeclared: &'static str,
    exchange: &'static str,
    key: &'static str,
}

const SOURCE: EndKeys = EndKeys {
    uri: "src-uri",
    queue: "src-queue",
    predeclared: "src-predeclared",
    exchange: "src-exchange",
    key: "src-exchange-key",
};
const DESTINATION: EndKeys = EndKeys {
    uri: "dest-uri",
    queue: "dest-queue",
    predeclared: "dest-predeclared",
    exchange: "dest-exchange",
    key: "dest-exchange-key",
};

fn read_end(fields: &mut ParameterFields<'_>, keys: &EndKeys) -> ShovelEnd {
    let uris = fields.uris(keys.uri);
    let (queue, exchange) = (fields.name(keys.queue), fields.name(keys.exchange));
    let (key, is_predeclared) = (fields.name(keys.key), fields.flag(keys.predeclared).unwrap_or(false));
    let (EndKeys { queue: of_queue, exchange: of_exchange, .. }, key_name) = (keys, keys.key);
    let place = match (queue, exchange) {
        (Some(name), None) => {
            if key.is_some() {
                fields.fault(format!("{key_name} belongs to {of_exchange}"));
            }
            ShovelPlace::Queue { name, is_predeclared }
        }
        (None, Some(name)) => ShovelPlace::Exchange { name, key },
        (Some(_), Some(name)) => {
            fields.fault(format!("Cannot specify '{of_exchange}' and '{of_queue}'"));
            ShovelPlace::Exchange { name, key }
        }
        (None, None) => {
            fields.fault(format!("Must specify '{of_exchange}' or '{of_queue}'"));
            ShovelPlace::Queue { name: String::new(), is_predeclared }
        }
    };
    if matches!(&place, ShovelPlace::Queue { name, .. } | ShovelPlace::Exchange { name, .. } if name.is_empty()) {
        fields.fault(format!("{of_queue} or {of_exchange} names one"));
    }
    ShovelEnd { uris, place }
}

fn read_delete_after(fields: &mut ParameterFields<'_>, key: &'static str) -> Option<DeleteAfter> {
    match fields.get(key)? {
        Json::Text(word) if word == "never" => Some(DeleteAfter::Never),
        Json::Text(word) if word == "queue-length" => Some(DeleteAfter::QueueLength),
        Json::Int(count) if *count >= 0 => Some(DeleteAfter::Messages(count.unsigned_abs())),
        other => {
            let kind = other.kind();
            fields.fault(format!("{key} should be number, \"never\" or \"queue-length\", actually was {kind}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DeleteAfter, ShovelParameter, ShovelPlace};
    use definitions::Json;

    fn read(text: &str) -> Result<ShovelParameter, String> {
        ShovelParameter::read(&Json::read(text.as_bytes()).expect("JSON"))
    }

    #[test]
    fn a_shovel_is_read_with_new_words_and_with_old_ones() {
        let shovel = read(
            r#"{"src-protocol":"amqp091","src-uri":"amqp://","src-queue":"q","src-prefetch-count":5,
                "src-delete-after":"queue-length","dest-uri":["amqp://a","amqp://b"],"dest-exchange":"x",
                "dest-exchange-key":"k","ack-mode":"on-publish","reconnect-delay":2,"dest-add-forward-headers":true}"#,
        )
        .expect("sound");
        assert_eq!(shovel.source.place, ShovelPlace::Queue { name: "q".to_owned(), is_predeclared: false });
        let exchange = ShovelPlace::Exchange { name: "x".to_owned(), key: Some("k".to_owned()) };
        assert_eq!((shovel.destination.place, shovel.destination.uris.len()), (exchange, 2));
        assert_eq!((shovel.prefetch_count, shovel.reconnect_delay.as_secs()), (5, 2));
        assert_eq!((shovel.delete_after, shovel.adds_forward_headers), (DeleteAfter::QueueLength, true));
        let old = read(
            r#"{"src-uri":"amqp://","src-exchange":"x","prefetch-count":6,"delete-after":9,"dest-uri":"amqp://a",
                "dest-queue":"d","dest-predeclared":true,"add-forward-headers":false,"publish-properties":{}}"#,
        )
        .expect("sound");
        assert_eq!((old.prefetch_count, old.delete_after), (6, DeleteAfter::Messages(9)));
        assert_eq!(old.destination.place, ShovelPlace::Queue { name: "d".to_owned(), is_predeclared: true });
    }

    #[test]
    fn what_is_wrong_is_told_and_what_has_no_effect_refused() {
        let ends = r#""src-uri":"amqp://","src-queue":"q","dest-uri":"amqp://h","dest-queue":"d""#;
        for (more, why) in [
            (r#","src-protocol":"amqp10""#, "src-protocol amqp10 is not spoken by this broker"),
            (r#","dest-protocol":"local""#, "dest-protocol local is not spoken by this broker"),
            (r#","src-exchange":"x""#, "Cannot specify 'src-exchange' and 'src-queue'"),
            (r#","src-exchange-key":"x""#, "src-exchange-key belongs to src-exchange"),
            (r#","src-delete-after":"soon""#, "src-delete-after should be number"),
            (r#","src-delete-after":4,"ack-mode":"no-ack""#, "src-delete-after needs acknowledgements"),
            (r#","src-queue-args":{"x-max-length":1}"#, "src-queue-args would have no effect"),
            (r#","src-consumer-args":{"x-priority":1}"#, "src-consumer-args would have no effect"),
            (r#","dest-publish-properties":{"delivery_mode":2}"#, "dest-publish-properties would have no effect"),
            (r#","dest-add-timestamp-header":true"#, "dest-add-timestamp-header would have no effect"),
            (r#","reconnect-delay":0"#, "reconnect-delay should be a number of seconds above 0"),
            (r#","colour":1"#, "Unrecognised terms colour in shovel"),
        ] {
            let found = read(&format!("{{{ends}{more}}}")).expect_err("a fault");
            assert!(found.starts_with(why), "{more}: {found}");
        }
        let nothing = read("{}").expect_err("faults");
        let expected = "Key \"src-uri\" not found in shovel\nMust specify 'src-exchange' or 'src-queue'\n\
                        src-queue or src-exchange names one\nKey \"dest-uri\" not found in shovel\n\
                        Must specify 'dest-exchange' or 'dest-queue'\ndest-queue or dest-exchange names one";
        assert_eq!(nothing, expected);
        let of_exchange = r#"{"src-uri":"amqp://","src-exchange":"x","dest-uri":"amqp://h","dest-queue":"d",
                              "delete-after":"queue-length"}"#;
        assert!(read(of_exchange).expect_err("a fault").contains("for a src-queue alone"));
    }
}
