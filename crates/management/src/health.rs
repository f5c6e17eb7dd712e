//! Health checks: 200 with `ok`, or 503 with what is missing.

use crate::answer::{Answer, AnswerBody};
use crate::api_error::ApiError;
use crate::json_object::{JsonObject, texts};
use crate::route_path::RouteMatch;
use crate::source::Source;
use definitions::Json;

fn ok() -> Answer {
    answer(200, JsonObject::new().text("status", "ok"))
}

fn failed(reason: &str, more: JsonObject) -> Answer {
    answer(503, JsonObject::new().text("status", "failed").text("reason", reason).with(more))
}

fn answer(status: u16, object: JsonObject) -> Answer {
    Answer { status, headers: Vec::new(), body: AnswerBody::Text(object.build().line().into_bytes()) }
}

/// Whether an alarm is in effect.
pub fn alarms(source: &dyn Source) -> Answer {
    let counts = source.counts();
    let node = &source.facts().node;
    let resources = [("memory", counts.has_memory_alarm), ("disk", counts.has_disk_alarm)];
    let found: Vec<Json> = resources
        .into_iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(resource, _)| JsonObject::new().text("node", node).text("resource", resource).build())
        .collect();
    match found.is_empty() {
        true => ok(),
        false => {
            failed("There are alarms in effect in the cluster", JsonObject::new().put("alarms", Json::List(found)))
        }
    }
}

/// Whether the broker serves.
pub fn in_service(source: &dyn Source) -> Answer {
    match source.counts().is_draining {
        false => ok(),
        true => failed("the broker is being drained", JsonObject::new()),
    }
}

/// No other node needs this one.
pub fn single_node() -> Answer {
    answer(200, JsonObject::new().text("status", "ok").text("reason", "single node cluster"))
}

/// All virtual hosts that there are run.
pub fn vhosts() -> Answer {
    ok()
}

/// Whether there is a listener at a port.
pub fn port_listener(source: &dyn Source, matched: &RouteMatch) -> Result<Answer, ApiError> {
    let wanted: u16 =
        matched.at("port").parse().map_err(|_| ApiError::bad_request("a port is a number up to 65535"))?;
    let ports = source.facts().listeners.iter().map(|listener| listener.port);
    if ports.clone().any(|port| port == wanted) {
        return Ok(answer(200, JsonObject::new().text("status", "ok").int("port", wanted)));
    }
    let ports = Json::List(ports.map(|port| Json::Int(port.into())).collect());
    Ok(failed("No active listener", JsonObject::new().int("missing", wanted).put("ports", ports)))
}

/// The protocol that a name means; `None` if no RabbitMQ has it.
fn protocol(name: &str) -> Option<&str> {
    match name {
        "amqp" | "amqp091" | "amqp0.9.1" | "amqp10" | "amqp1.0" => Some("amqp"),
        "amqps" | "amqp/ssl" | "amqp091/ssl" | "tls" => Some("amqp/ssl"),
        "https" => Some("https"),
        "http" | "http/prometheus" | "https/prometheus" | "clustering" | "mqtt" | "mqtt/ssl" | "stomp"
        | "stomp/ssl" | "stream" | "stream/ssl" | "http/web-mqtt" | "http/web-stomp" => Some(name),
        _ => None,
    }
}

/// Whether there is a listener for each of the protocols of a list with commas.
pub fn protocol_listener(source: &dyn Source, matched: &RouteMatch) -> Result<Answer, ApiError> {
    let text = matched.at("protocol");
    let mut missing = Vec::new();
    for name in text.split(',') {
        let Some(wanted) = protocol(name) else {
            return Err(ApiError::bad_request(format!("unknown protocol '{name}'")));
        };
        if !source.facts().listeners.iter().any(|listener| listener.protocol == wanted) {
            missing.push(name);
        }
    }
    if missing.is_empty() {
        return Ok(answer(200, JsonObject::new().text("status", "ok").text("protocol", text)));
    }
    let protocols = texts(source.facts().listeners.iter().map(|listener| listener.protocol));
    let missing = if text.contains(',') { texts(missing) } else { Json::text(text) };
    Ok(failed("No active listener", JsonObject::new().put("missing", missing).put("protocols", protocols)))
}

/// Whether a certificate expires within some days, weeks, months or years.
pub fn certificate_expiration(source: &dyn Source, matched: &RouteMatch) -> Result<Answer, ApiError> {
    let days = match matched.at("unit") {
        "day" | "days" => 1,
        "week" | "weeks" => 7,
        "month" | "months" => 30,
        "year" | "years" => 365,
        other => return Err(ApiError::bad_request(format!("'{other}' is none of days, weeks, months and years"))),
    };
    let within: u32 = matched.at("within").parse().map_err(|_| ApiError::bad_request("it takes a whole number"))?;
    let until = source.now_ms() / 1_000 + u64::from(within) * days * 86_400;
    let listeners = source.facts().listeners.iter();
    let expired: Vec<Json> = listeners
        .filter(|listener| listener.certificate_expires_s.is_some_and(|expires| expires <= until))
        .map(|listener| {
            JsonObject::new()
                .text("node", &source.facts().node)
                .text("protocol", listener.protocol)
                .text("interface", &listener.ip_address)
                .int("port", listener.port)
                .build()
        })
        .collect();
    match expired.is_empty() {
        true => Ok(ok()),
        false => Ok(failed("Certificates expiring", JsonObject::new().put("expired", Json::List(expired)))),
    }
}
