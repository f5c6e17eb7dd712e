//! Dead letters: what a message carries with it when its queue gives it up (RabbitMQ extension).
//!
//! Enters: a message, the queue it leaves and why.  Leaves: its properties as a dead letter; whether a queue has given it up before.
//! Owns:   the form of `x-death`, `x-first-death-*` and `x-last-death-*`.
//! Never:  routes.

use crate::message::Message;
use catalog::VhostId;
use std::sync::Arc;
use wire::{List, ShortString, Table, TableRef, Value};

const X_DEATH: &str = "x-death";

/// Where a queue's dead letters go.
#[derive(Debug)]
pub struct Grave {
    /// The queue's virtual host.
    pub vhost: VhostId,
    /// The queue's name.
    pub queue: Arc<str>,
    /// The exchange that takes them.
    pub exchange: Box<[u8]>,
    /// Their routing key, if it is not their own.
    pub routing_key: Option<Box<[u8]>>,
}

/// Why a queue gave a message up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A consumer did not want it.
    Rejected,
    /// Its time was over.
    Expired,
    /// There was no room.
    MaxLength,
    /// It came back too often.
    DeliveryLimit,
}

impl Reason {
    /// As the headers name it.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Rejected => "rejected",
            Reason::Expired => "expired",
            Reason::MaxLength => "maxlen",
            Reason::DeliveryLimit => "delivery_limit",
        }
    }
}

/// A message that its queue gave up.
pub struct Dead {
    /// The message.
    pub message: Message,
    /// Why.
    pub reason: Reason,
    /// Which queue, and where it goes.
    pub grave: Arc<Grave>,
}

/// The headers of the last first death: dead letters come in runs that differ in nothing here, and thirty small pieces cost
/// more than one copy (a sixth of a dead letter, measured).
#[derive(Default)]
pub struct LastDeath {
    grave: Option<Arc<Grave>>,
    reason: Option<Reason>,
    now_s: u64,
    exchange: Vec<u8>,
    key: Vec<u8>,
    expiration: Option<Vec<u8>>,
    headers: Vec<u8>,
}

impl LastDeath {
    fn is_like(&self, death: &Death<'_>) -> bool {
        self.grave.as_ref().is_some_and(|grave| Arc::ptr_eq(grave, &death.dead.grave))
            && self.reason == Some(death.dead.reason)
            && self.now_s == death.now_s
            && self.exchange == death.exchange
            && self.key == death.key
            && self.expiration.as_deref() == death.expiration
    }

    fn set(&mut self, death: &Death<'_>) {
        self.grave = Some(Arc::clone(&death.dead.grave));
        self.reason = Some(death.dead.reason);
        self.now_s = death.now_s;
        self.exchange.clear();
        self.exchange.extend_from_slice(death.exchange);
        self.key.clear();
        self.key.extend_from_slice(death.key);
        self.expiration = death.expiration.map(<[u8]>::to_vec);
        self.headers.clear();
        death.first(&mut self.headers);
    }
}

/// Which queues gave a message up, the last first, and whether because a consumer did not want it. Empty for a first death.
#[derive(Default)]
pub struct Deaths(Vec<(Box<[u8]>, bool)>);

impl Deaths {
    /// Whether a queue gave the message up, and no consumer rejected it since.
    fn come_round(&self, queue: &str) -> bool {
        self.0.iter().take_while(|(_, rejected)| !rejected).any(|(name, _)| **name == *queue.as_bytes())
    }
}

impl Dead {
    /// Whether a queue would get a message again that went round by itself: no consumer rejected it since it was there.
    pub fn is_cycle(&self, deaths: &Deaths, queue: &str) -> bool {
        self.reason != Reason::Rejected && (*self.grave.queue == *queue || deaths.come_round(queue))
    }

    /// Appends the dead letter's properties to `out`. An expiration is gone from them: it would end the letter again.
    pub fn properties(&self, now_s: u64, last: &mut LastDeath, out: &mut Vec<u8>) -> Deaths {
        let content = self.message.content();
        let properties = content.properties();
        let expiration = properties.expiration().map(|text| text.as_bytes());
        let mut deaths = Deaths::default();
        properties.rewrite(false, out, |headers, out| {
            let death = Death { dead: self, now_s, exchange: content.exchange, key: content.routing_key, expiration };
            if TableRef::new(headers).iter().any(|entry| entry.is_ok_and(|(name, _)| is_ours(name.as_bytes()))) {
                deaths = death.join(headers, out);
            } else {
                if !last.is_like(&death) {
                    last.set(&death);
                }
                out.extend_from_slice(headers);
                out.extend_from_slice(&last.headers);
            }
        });
        deaths
    }
}

/// Names of headers that a death changes or reads.
fn is_ours(name: &[u8]) -> bool {
    name == b"CC" || name.starts_with(b"x-death") || name.starts_with(b"x-first-") || name.starts_with(b"x-last-")
}

/// One death of a message.
struct Death<'a> {
    dead: &'a Dead,
    now_s: u64,
    exchange: &'a [u8],
    key: &'a [u8],
    expiration: Option<&'a [u8]>,
}

impl Death<'_> {
    /// The headers of a message that never died before, written as they go out.
    fn first(&self, out: &mut Vec<u8>) {
        let (queue, reason) = (self.dead.grave.queue.as_bytes(), self.dead.reason.name().as_bytes());
        name(out, X_DEATH);
        out.push(b'A');
        with_length(out, |out| {
            out.push(b'F');
            with_length(out, |out| {
                name(out, "count");
                out.push(b'l');
                out.extend_from_slice(&1_u64.to_be_bytes());
                text(out, "reason", reason);
                text(out, "queue", queue);
                name(out, "time");
                out.push(b'T');
                out.extend_from_slice(&self.now_s.to_be_bytes());
                text(out, "exchange", self.exchange);
                name(out, "routing-keys");
                out.push(b'A');
                with_length(out, |out| {
                    out.push(b'S');
                    with_length(out, |out| out.extend_from_slice(self.key));
                });
                if let Some(expiration) = self.expiration {
                    text(out, "original-expiration", expiration);
                }
            });
        });
        text(out, "x-first-death-exchange", self.exchange);
        text(out, "x-first-death-queue", queue);
        text(out, "x-first-death-reason", reason);
        text(out, "x-last-death-exchange", self.exchange);
        text(out, "x-last-death-queue", queue);
        text(out, "x-last-death-reason", reason);
    }

    /// The headers of a message that has some of these names already.
    fn join(&self, headers: &[u8], out: &mut Vec<u8>) -> Deaths {
        // Properties are validated where they come in.
        let mut table = TableRef::new(headers).to_table().unwrap_or_default();
        let mut keys = vec![long(self.key)];
        if let Some(Value::List(copies)) = table.get("CC") {
            keys.extend(copies.iter().filter(|key| matches!(key, Value::LongStr(_))).cloned());
        }
        if self.dead.grave.routing_key.is_some() {
            table.remove("CC");
        }
        let (queue, reason) = (self.dead.grave.queue.as_bytes(), self.dead.reason.name().as_bytes());
        let known = table.remove(X_DEATH);
        if known.is_none() {
            set(&mut table, "x-first-death-exchange", long(self.exchange));
            set(&mut table, "x-first-death-queue", long(queue));
            set(&mut table, "x-first-death-reason", long(reason));
        }
        set(&mut table, "x-last-death-exchange", long(self.exchange));
        set(&mut table, "x-last-death-queue", long(queue));
        set(&mut table, "x-last-death-reason", long(reason));
        let events = match &known {
            Some(Value::List(events)) => events.iter().filter_map(Value::as_table).cloned().collect(),
            _ => Vec::new(),
        };
        let same = |event: &Table| {
            let is = |name: &str, value: &[u8]| event.get(name).and_then(Value::as_bytes) == Some(value);
            is("queue", queue) && is("reason", reason)
        };
        let (before, others): (Vec<Table>, Vec<Table>) = events.into_iter().partition(same);
        let count = |event: &Table| event.get("count").and_then(Value::as_i64).unwrap_or(0);
        let count = before.iter().map(count).fold(1_i64, i64::saturating_add);
        // The first time and keys of this queue and reason stay, as in RabbitMQ.
        let mut event = before.into_iter().next().unwrap_or_else(|| self.event(keys));
        set(&mut event, "count", Value::I64(count));
        let events: Vec<Table> = std::iter::once(event).chain(others).collect();
        let deaths = events.iter().filter_map(|event| {
            let rejected = event.get("reason").and_then(Value::as_bytes) == Some(Reason::Rejected.name().as_bytes());
            Some((event.get("queue")?.as_bytes()?.into(), rejected))
        });
        let deaths = Deaths(deaths.collect());
        set(&mut table, X_DEATH, Value::List(events.into_iter().map(Value::Table).collect::<List>()));
        out.extend_from_slice(&table.to_bytes());
        deaths
    }

    fn event(&self, keys: Vec<Value>) -> Table {
        let mut event = Table::new();
        set(&mut event, "count", Value::I64(1));
        set(&mut event, "reason", Value::text(self.dead.reason.name()));
        set(&mut event, "queue", long(self.dead.grave.queue.as_bytes()));
        set(&mut event, "time", Value::Timestamp(self.now_s));
        set(&mut event, "exchange", long(self.exchange));
        set(&mut event, "routing-keys", Value::List(keys.into_iter().collect::<List>()));
        if let Some(expiration) = self.expiration {
            set(&mut event, "original-expiration", long(expiration));
        }
        event
    }
}

fn long(bytes: &[u8]) -> Value {
    Value::LongStr(bytes.into())
}

fn set(table: &mut Table, name: &str, value: Value) {
    // The names are written above, and short.
    if let Ok(name) = ShortString::try_from(name) {
        table.set(name, value);
    }
}

fn name(out: &mut Vec<u8>, name: &str) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

fn text(out: &mut Vec<u8>, field: &str, value: &[u8]) {
    name(out, field);
    out.push(b'S');
    with_length(out, |out| out.extend_from_slice(value));
}

fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{BodyRef, Content};
    use slab::{Pool, PoolOptions};
    use wire::{Properties, RawProperties};

    /// The properties of a message after these deaths, the first of them first.
    fn die(properties: Properties, deaths: &[(&str, Reason)]) -> (Properties, impl Fn(&str) -> bool) {
        let pool = Pool::new(PoolOptions::default());
        let mut bytes = properties.to_bytes();
        let mut last = None;
        let mut memory = LastDeath::default();
        for (now_s, &(queue, reason)) in deaths.iter().enumerate() {
            let body = BodyRef::Small(b"x");
            let content = Content { exchange: b"e", routing_key: b"k", properties: &bytes, body, ..Content::EMPTY };
            let grave =
                Grave { vhost: VhostId(0), queue: queue.into(), exchange: b"d".as_slice().into(), routing_key: None };
            let dead = Dead { message: content.keep(&pool), reason, grave: Arc::new(grave) };
            let mut out = Vec::new();
            let known = dead.properties(now_s as u64, &mut memory, &mut out);
            last = Some((dead, known));
            bytes = out;
        }
        let (dead, known) = last.expect("a death");
        let after = RawProperties::new(&bytes).to_properties().expect("well formed");
        (after, move |queue: &str| dead.is_cycle(&known, queue))
    }

    fn events(properties: &Properties) -> Vec<String> {
        let headers = properties.headers.as_ref().expect("headers");
        let events = headers.get("x-death").and_then(Value::as_list).expect("a list");
        let event = |event: &Value| {
            let event = event.as_table().expect("a table");
            let word = |name| event.get(name).and_then(Value::as_str).unwrap_or("-");
            let count = event.get("count").and_then(Value::as_i64).expect("a count");
            format!("{} {} {count} {}", word("queue"), word("reason"), word("original-expiration"))
        };
        events.iter().map(event).collect()
    }

    #[test]
    fn a_first_death_is_noted_beside_what_there_was() {
        let text = |text: &str| ShortString::try_from(text).expect("short");
        let before = Properties {
            content_type: Some(text("a/b")),
            headers: Some(Table::new().with("mine", Value::I32(1)).expect("short")),
            priority: Some(4),
            expiration: Some(text("60000")),
            message_id: Some(text("m")),
            ..Properties::default()
        };
        let (after, _) = die(before.clone(), &[("q", Reason::Expired)]);
        assert_eq!(events(&after), ["q expired 1 60000"]);
        let headers = after.headers.clone().expect("headers");
        assert_eq!(headers.get("mine"), Some(&Value::I32(1)));
        for (name, value) in [("exchange", "e"), ("queue", "q"), ("reason", "expired")] {
            for which in ["first", "last"] {
                let header = headers.get(&format!("x-{which}-death-{name}"));
                assert_eq!(header.and_then(Value::as_str), Some(value), "{which} {name}");
            }
        }
        let kept = Properties { headers: before.headers.clone(), ..after };
        assert_eq!(kept, Properties { expiration: None, ..before });
    }

    #[test]
    fn deaths_are_counted_by_queue_and_reason_and_the_last_comes_first() {
        let deaths =
            [("q", Reason::Rejected), ("r", Reason::Expired), ("q", Reason::Rejected), ("r", Reason::MaxLength)];
        let (after, _) = die(Properties::default(), &deaths);
        assert_eq!(events(&after), ["r maxlen 1 -", "q rejected 2 -", "r expired 1 -"]);
        let headers = after.headers.expect("headers");
        let word = |name| headers.get(name).and_then(Value::as_str);
        assert_eq!((word("x-first-death-queue"), word("x-last-death-queue")), (Some("q"), Some("r")));
        assert_eq!((word("x-first-death-reason"), word("x-last-death-reason")), (Some("rejected"), Some("maxlen")));
    }

    #[test]
    fn a_cycle_has_no_rejection_in_it() {
        use Reason::{Expired, Rejected};
        for (deaths, queue, expect) in [
            (&[("q", Expired)][..], "q", true),
            (&[("q", Expired)], "r", false),
            (&[("q", Expired), ("r", Expired)], "q", true),
            (&[("q", Rejected), ("r", Expired)], "q", false),
            (&[("q", Rejected), ("r", Expired)], "r", true),
            (&[("q", Expired), ("s", Rejected), ("r", Expired)], "q", false),
        ] {
            let (_, known) = die(Properties::default(), deaths);
            assert_eq!(known(queue), expect, "{deaths:?} to {queue}");
        }
    }

    #[test]
    fn what_clients_put_there_does_no_harm() {
        let list = |values: Vec<Value>| Value::List(values.into_iter().collect::<List>());
        let event = Table::new().with("queue", Value::text("q")).expect("short");
        let event = event.with("reason", Value::text("rejected")).expect("short");
        let count = event.clone().with("count", Value::I32(7)).expect("short");
        for (forged, expect) in [
            (Value::text("no list"), "q rejected 1 -"),
            (list(vec![Value::I32(1), Value::Void]), "q rejected 1 -"),
            (list(vec![Value::Table(event)]), "q rejected 1 -"),
            (list(vec![Value::Table(count.clone()), Value::Table(count)]), "q rejected 15 -"),
        ] {
            let headers = Table::new().with(X_DEATH, forged).expect("short");
            let (after, _) =
                die(Properties { headers: Some(headers), ..Properties::default() }, &[("q", Reason::Rejected)]);
            assert_eq!(events(&after), [expect]);
        }
    }
}
