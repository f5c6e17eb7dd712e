//! A route as JSON or TOML entries: in requests, in the state folder, in declared topologies.
//!
//! Owns the names of the entries and their defaults.

use crate::limits::{CREDIT_DEFAULT, HOPS_DEFAULT};
use crate::{AckMode, RouteDirection, RouteKind, RouteSpec};
use definitions::Json;

/// Entries of a route. One with `key` is static, one with `queue` drains that queue, any other is dynamic.
pub const ENTRIES: [&str; 10] =
    ["exchange", "key", "queue", "direction", "ack", "credit", "hops_max", "durable", "forced", DEAD_LETTER_EXCHANGE];

const DEAD_LETTER_EXCHANGE: &str = "dead_letter_exchange";

/// Bytes of a name or a key (AMQP 0-9-1 §4.2.5.3).
const SHORT_BYTES_MAX: usize = 255;

/// Reads a route, and ignores other entries.
///
/// # Errors
/// What is wrong, beginning with the entry's name.
pub fn read(from: &Json) -> Result<RouteSpec, String> {
    let key = text(from, "key")?;
    let queue = text(from, "queue")?;
    let kind = match (key, queue) {
        (None, None) => RouteKind::Dynamic,
        (Some(key), None) => RouteKind::Static { key: key.into() },
        (None, Some(queue)) => RouteKind::Queue { queue: queue.into() },
        (Some(_), Some(_)) => return Err("key: a route has a key or a queue, not both".to_owned()),
    };
    let direction = match text(from, "direction")? {
        None | Some("pull") => RouteDirection::Pull,
        Some("push") => RouteDirection::Push,
        Some(other) => return Err(format!("direction: it is pull or push, not '{other}'")),
    };
    let ack = match text(from, "ack")? {
        None | Some("confirm") => AckMode::Confirm,
        Some("none") => AckMode::None,
        Some(other) => return Err(format!("ack: it is confirm or none, not '{other}'")),
    };
    let hops_max = number(from, "hops_max")?.unwrap_or(HOPS_DEFAULT);
    if hops_max == 0 {
        return Err("hops_max: a message comes through one broker at least".to_owned());
    }
    let route = RouteSpec {
        exchange: text(from, "exchange")?.ok_or("exchange: a route has one")?.into(),
        kind,
        direction,
        ack,
        credit: number(from, "credit")?.unwrap_or(CREDIT_DEFAULT),
        hops_max,
        durable: flag(from, "durable")?,
        forced: flag(from, "forced")?,
        dead_letter_exchange: text(from, DEAD_LETTER_EXCHANGE)?.map(Into::into),
        options: Default::default(),
    };
    check(&route).map_err(|why| format!("{DEAD_LETTER_EXCHANGE}: {why}"))?;
    Ok(route)
}

/// Checks that a route may have a dead letter exchange, if it has one.
///
/// # Errors
/// Why not.
pub fn check(route: &RouteSpec) -> Result<(), String> {
    match (&route.dead_letter_exchange, &route.kind, route.ack) {
        (Some(_), RouteKind::Queue { .. }, _) => {
            Err("a queue route has none: give one to its queue, by an argument or a policy".to_owned())
        }
        (Some(_), _, AckMode::None) => {
            Err("without acknowledgements the source forgets messages before they are given up".to_owned())
        }
        _ => Ok(()),
    }
}

/// The entries of a route.
pub fn entries(route: &RouteSpec) -> Vec<(&'static str, Json)> {
    let mut entries = vec![("exchange", Json::text(&route.exchange))];
    match &route.kind {
        RouteKind::Dynamic => {}
        RouteKind::Static { key } => entries.push(("key", Json::text(key))),
        RouteKind::Queue { queue } => entries.push(("queue", Json::text(queue))),
    }
    let direction = if route.direction == RouteDirection::Push { "push" } else { "pull" };
    let ack = if route.ack == AckMode::Confirm { "confirm" } else { "none" };
    entries.extend([
        ("direction", Json::text(direction)),
        ("ack", Json::text(ack)),
        ("credit", Json::Int(route.credit.into())),
        ("hops_max", Json::Int(route.hops_max.into())),
        ("durable", Json::Bool(route.durable)),
        ("forced", Json::Bool(route.forced)),
    ]);
    if let Some(exchange) = &route.dead_letter_exchange {
        entries.push((DEAD_LETTER_EXCHANGE, Json::text(exchange)));
    }
    entries
}

/// A text entry, if present.
///
/// # Errors
/// It has another type.
pub fn text<'a>(from: &'a Json, name: &str) -> Result<Option<&'a str>, String> {
    match from.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Text(text)) if SHORT_NAMES.contains(&name) && text.len() > SHORT_BYTES_MAX => {
            Err(format!("{name}: it has {} bytes; {SHORT_BYTES_MAX} are the most", text.len()))
        }
        Some(Json::Text(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{name}: a string is needed, not {}", other.kind())),
    }
}

/// Entries that are short strings on the wire.
const SHORT_NAMES: [&str; 4] = ["exchange", "key", "queue", DEAD_LETTER_EXCHANGE];

/// A Boolean entry; false if absent.
///
/// # Errors
/// It has another type.
pub fn flag(from: &Json, name: &str) -> Result<bool, String> {
    match from.get(name) {
        None | Some(Json::Null) => Ok(false),
        Some(Json::Bool(flag)) => Ok(*flag),
        Some(other) => Err(format!("{name}: a boolean is needed, not {}", other.kind())),
    }
}

fn number(from: &Json, name: &str) -> Result<Option<u16>, String> {
    match from.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Int(number)) => {
            let number = u16::try_from(*number);
            number.map(Some).map_err(|_| format!("{name}: a number from 0 to {} is needed", u16::MAX))
        }
        Some(other) => Err(format!("{name}: a whole number is needed, not {}", other.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRIES, entries, read};
    use definitions::Json;

    #[test]
    fn a_route_is_read_as_it_was_written() {
        for text in [
            r#"{"exchange":"x"}"#,
            r#"{"exchange":"x","key":"a.#","direction":"push","ack":"none","credit":0,"durable":true}"#,
            r#"{"exchange":"","queue":"q","hops_max":3,"forced":true}"#,
            r#"{"exchange":"x","dead_letter_exchange":"dead"}"#,
        ] {
            let route = read(&Json::read(text.as_bytes()).expect("JSON")).expect("a route");
            let entries = entries(&route);
            assert!(entries.iter().all(|(name, _)| ENTRIES.contains(name)));
            let again = Json::Object(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
            assert_eq!(read(&again), Ok(route));
        }
    }

    #[test]
    fn what_is_no_route_is_told() {
        for (text, expect) in [
            ("{}", "exchange: a route has one"),
            (r#"{"exchange":7}"#, "exchange: a string is needed, not a whole number"),
            (r#"{"exchange":"x","key":"a","queue":"q"}"#, "key: a route has a key or a queue, not both"),
            (r#"{"exchange":"x","direction":"up"}"#, "direction: it is pull or push, not 'up'"),
            (r#"{"exchange":"x","ack":true}"#, "ack: a string is needed, not a boolean"),
            (r#"{"exchange":"x","credit":65536}"#, "credit: a number from 0 to 65535 is needed"),
            (r#"{"exchange":"x","hops_max":0}"#, "hops_max: a message comes through one broker at least"),
            (
                r#"{"exchange":"x","queue":"q","dead_letter_exchange":"y"}"#,
                "dead_letter_exchange: a queue route has none: give one to its queue, by an argument or a policy",
            ),
            (
                r#"{"exchange":"x","ack":"none","dead_letter_exchange":"y"}"#,
                "dead_letter_exchange: without acknowledgements the source forgets messages before they are given up",
            ),
            (r#"{"exchange":"x","durable":1}"#, "durable: a boolean is needed, not a whole number"),
        ] {
            assert_eq!(read(&Json::read(text.as_bytes()).expect("JSON")), Err(expect.to_owned()), "{text}");
        }
        let long = format!(r#"{{"exchange":"{}"}}"#, "x".repeat(256));
        assert!(read(&Json::read(long.as_bytes()).expect("JSON")).is_err_and(|why| why.contains("256 bytes")));
    }
}
