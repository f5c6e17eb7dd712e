//! A message that was got from a queue, as RabbitMQ's API answers it.

use crate::json_object::JsonObject;
use crate::planned_change::PayloadEncoding;
use base64ct::{Base64, Encoding};
use definitions::{Json, table_to_json};
use wire::RawProperties;

/// A message in the form in which AMQP delivers it.
#[derive(Clone, Copy, Debug)]
pub struct GotMessage<'a> {
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    pub redelivered: bool,
    /// Messages that are left in the queue.
    pub messages_left: u32,
    pub properties: RawProperties<'a>,
    /// The body, or its beginning.
    pub body: &'a [u8],
    /// Bytes of the whole body.
    pub body_bytes: usize,
}

impl GotMessage<'_> {
    /// Its object. `body_bytes_max`: the rest of the body is cut off.
    pub fn to_json(&self, encoding: PayloadEncoding, body_bytes_max: Option<usize>) -> Json {
        let bytes = &self.body[..self.body.len().min(body_bytes_max.unwrap_or(usize::MAX))];
        let text = std::str::from_utf8(bytes).ok().filter(|_| encoding == PayloadEncoding::Auto);
        let (payload, payload_encoding) = match text {
            Some(text) => (text.to_owned(), "string"),
            None => (Base64::encode_string(bytes), "base64"),
        };
        JsonObject::new()
            .int("payload_bytes", self.body_bytes as u64)
            .flag("redelivered", self.redelivered)
            .text("exchange", &String::from_utf8_lossy(self.exchange))
            .text("routing_key", &String::from_utf8_lossy(self.routing_key))
            .int("message_count", self.messages_left)
            .put("properties", properties(self.properties))
            .text("payload", &payload)
            .text("payload_encoding", payload_encoding)
            .build()
    }
}

/// Properties by the names that RabbitMQ gives them; those that are not set are left out.
fn properties(of: RawProperties<'_>) -> Json {
    let mut object = JsonObject::new();
    let texts = [
        ("content_type", of.content_type()),
        ("content_encoding", of.content_encoding()),
        ("correlation_id", of.correlation_id()),
        ("reply_to", of.reply_to()),
        ("expiration", of.expiration()),
        ("message_id", of.message_id()),
        ("type", of.kind()),
        ("user_id", of.user_id()),
        ("app_id", of.app_id()),
        ("cluster_id", of.cluster_id()),
    ];
    for (key, text) in texts.into_iter().filter_map(|(key, text)| Some((key, text?))) {
        object = object.text(key, &String::from_utf8_lossy(text.as_bytes()));
    }
    let numbers = [("delivery_mode", of.delivery_mode()), ("priority", of.priority())];
    for (key, number) in numbers.into_iter().filter_map(|(key, number)| Some((key, number?))) {
        object = object.int(key, number);
    }
    if let Some(timestamp) = of.timestamp() {
        object = object.int("timestamp", timestamp);
    }
    if let Some(headers) = of.headers().and_then(|headers| headers.to_table().ok()) {
        object = object.put("headers", table_to_json(Some(&headers)));
    }
    object.build()
}

#[cfg(test)]
mod tests {
    use super::GotMessage;
    use crate::planned_change::PayloadEncoding;
    use wire::{Properties, RawProperties, ShortString, Table, Value};

    fn json(properties: &Properties, body: &[u8], encoding: PayloadEncoding, body_bytes_max: Option<usize>) -> String {
        let properties = properties.to_bytes();
        let (exchange, routing_key) = (b"x".as_slice(), b"k".as_slice());
        let properties = RawProperties::new(&properties);
        let message = GotMessage {
            exchange,
            routing_key,
            redelivered: true,
            messages_left: 4,
            properties,
            body,
            body_bytes: body.len(),
        };
        message.to_json(encoding, body_bytes_max).line()
    }

    #[test]
    fn a_body_is_text_where_it_can_be() {
        let (none, head) = (
            Properties::default(),
            r#""redelivered":true,"exchange":"x","routing_key":"k","message_count":4,"properties":{}"#,
        );
        for (body, encoding, max, payload, name) in [
            ("Grüße".as_bytes(), PayloadEncoding::Auto, None, "Grüße", "string"),
            (b"abc", PayloadEncoding::Base64, None, "YWJj", "base64"),
            (b"\xff", PayloadEncoding::Auto, None, "/w==", "base64"),
            (b"abc", PayloadEncoding::Auto, Some(2), "ab", "string"),
            (b"", PayloadEncoding::Auto, Some(2), "", "string"),
            // Cut within a letter, it is no text.
            ("aü".as_bytes(), PayloadEncoding::Auto, Some(2), "YcM=", "base64"),
        ] {
            let bytes = body.len();
            let expect =
                format!(r#"{{"payload_bytes":{bytes},{head},"payload":"{payload}","payload_encoding":"{name}"}}"#);
            assert_eq!(json(&none, body, encoding, max), expect);
        }
    }

    #[test]
    fn properties_have_the_names_of_rabbitmq() {
        let short = |text: &str| Some(ShortString::try_from(text).expect("it is short"));
        let properties = Properties {
            content_type: short("text/plain"),
            delivery_mode: Some(2),
            priority: Some(7),
            timestamp: Some(1_700_000_000),
            kind: short("t"),
            headers: Some(Table::new().with("n", Value::I32(-1)).expect("it is short")),
            ..Properties::default()
        };
        let told = json(&properties, b"", PayloadEncoding::Auto, None);
        let expect = r#""properties":{"content_type":"text/plain","type":"t","delivery_mode":2,"priority":7,"timestamp":1700000000,"headers":{"n":-1}}"#;
        assert!(told.contains(expect), "{told}");
    }
}
