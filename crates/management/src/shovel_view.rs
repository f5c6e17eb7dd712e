//! A shovel as an object of the API.

use crate::json_object::{JsonObject, iso_time};
use crate::live_shovel::{LiveShovel, LiveShovelEnd};
use crate::source::Source;
use definitions::Json;

/// A shovel, as RabbitMQ shows it, with counts beside.
pub fn shovel(source: &dyn Source, of: &LiveShovel) -> Json {
    let object = JsonObject::new()
        .text("node", &source.facts().node)
        .text("timestamp", &iso_time(of.since_ms))
        .text("name", &of.name)
        .text("vhost", &of.vhost)
        .text("type", "dynamic")
        .text("state", of.state);
    let object = end(object, "src", &of.source);
    let object = end(object, "dest", &of.destination);
    let object = object.int("messages", of.messages).int("messages_unacknowledged", of.unacknowledged);
    match &of.reason {
        Some(reason) => object.text("reason", reason).build(),
        None => object.build(),
    }
}

fn end(object: JsonObject, side: &str, end: &LiveShovelEnd) -> JsonObject {
    let object = object.text(&format!("{side}_uri"), &end.uri).text(&format!("{side}_protocol"), "amqp091");
    let named = [("queue", &end.queue), ("exchange", &end.exchange), ("exchange_key", &end.key)];
    named.into_iter().fold(object, |object, (key, value)| match value {
        Some(value) => object.text(&format!("{side}_{key}"), value),
        None => object,
    })
}
