//! Death history: the headers `x-death`, `x-first-death-*` and `x-last-death-*` of a dead letter (RabbitMQ extension).

use crate::dead_letter_reason::DeadLetterReason;
use crate::death_events::{
    DeathEvents, HistoryExtent, copy_entries, is, with_length, write_count, write_counted, write_long, write_name,
    write_text,
};
use crate::limits::{
    DEAD_LETTER_WORK, DEATH_CACHE_PROPERTIES_BYTES_MAX, DEATH_HISTORY_BYTES_MAX, DEATH_HISTORY_ENTRY_WORK,
    PROPERTIES_BYTES_PER_WORK,
};
use crate::message::Message;
use catalog::{QueueRoute, VhostId, arguments::X_HARRIER_ID};
use std::sync::Arc;
use wire::{ListRef, RawProperties, TableRef, ValueRef};

const X_DEATH: &str = "x-death";
const CC: &[u8] = b"CC";
/// What the names of the headers about the first and the last death begin with.
const FIRST: &[u8] = b"x-first-death-";
const LAST: &[u8] = b"x-last-death-";

/// Where a queue sends its dead letters.
#[derive(Debug)]
pub struct DeadLetterTarget {
    pub vhost: VhostId,
    pub queue: Arc<str>,
    pub exchange: Box<[u8]>,
    /// Replaces the routing keys of the message, if there is one.
    pub routing_key: Option<Box<[u8]>>,
}

/// A message that left its queue without a consumer.
#[derive(Clone, Copy)]
pub struct DeadLetter<'a> {
    pub message: &'a Message,
    pub reason: DeadLetterReason,
    pub target: &'a Arc<DeadLetterTarget>,
}

/// What a dead letter's history came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeathHistory {
    /// It is the message's first death.
    First,
    /// It has died before.
    Continued,
    /// It has died of itself in so many queues that there is no room to tell them: it must be dropped, as in a cycle.
    Full,
}

/// Writes the death history of dead letters. They often differ in nothing but their bodies, so that the headers and the route of
/// the last serve the next.
#[derive(Default)]
pub struct DeathHistoryWriter {
    target: Option<Arc<DeadLetterTarget>>,
    reason: Option<DeadLetterReason>,
    now_s: u64,
    exchange: Vec<u8>,
    key: Vec<u8>,
    expiration: Option<Vec<u8>>,
    /// The headers that a first death adds.
    headers: Vec<u8>,
    /// The properties of the last message, if they are short enough to compare, and those of its dead letter.
    before: Option<Vec<u8>>,
    after: Vec<u8>,
    /// Units of work of the last, by what was read and written.
    work: usize,
    route: Option<CachedDeadLetterRoute>,
}

/// The route of dead letters of one target and routing key, as long as no definition changes.
pub struct CachedDeadLetterRoute {
    /// The catalog's version.
    pub version: u64,
    pub route: Arc<QueueRoute>,
}

impl DeathHistoryWriter {
    fn is_like(&self, death: &DeathEvent<'_>) -> bool {
        self.target.as_ref().is_some_and(|target| Arc::ptr_eq(target, death.dead_letter.target))
            && self.reason == Some(death.dead_letter.reason)
            && self.now_s == death.now_s
            && self.exchange == death.exchange
            && self.key == death.key
            && self.expiration.as_deref() == death.expiration
    }

    fn set(&mut self, death: &DeathEvent<'_>) {
        if self.target.as_ref().is_none_or(|target| !Arc::ptr_eq(target, death.dead_letter.target))
            || self.key != death.key
        {
            self.route = None;
        }
        self.before = None;
        self.target = Some(Arc::clone(death.dead_letter.target));
        self.reason = Some(death.dead_letter.reason);
        self.now_s = death.now_s;
        self.exchange.clear();
        self.exchange.extend_from_slice(death.exchange);
        self.key.clear();
        self.key.extend_from_slice(death.key);
        self.expiration = death.expiration.map(<[u8]>::to_vec);
        self.headers.clear();
        death.write_new(&mut self.headers);
    }

    /// Writes the history of a dead letter: `properties` are those of the letter then, of at most `properties_bytes_max` bytes
    /// unless they had more. The letter has no expiration, which would end it again.
    pub fn write(&mut self, dead_letter: DeadLetter<'_>, now_s: u64, properties_bytes_max: usize) -> DeathHistory {
        let content = dead_letter.message.content();
        let properties = content.properties();
        let expiration = properties.expiration().map(|text| text.as_bytes());
        let death = DeathEvent { dead_letter, now_s, exchange: content.exchange, key: content.routing_key, expiration };
        if !self.is_like(&death) {
            self.set(&death);
        }
        if self.before.as_deref() == Some(content.properties) {
            return DeathHistory::First;
        }
        // Of a first death, nothing can be left out but all of it.
        let (mut history, mut extent) = (DeathHistory::First, HistoryExtent::default());
        let DeathHistoryWriter { headers: ours, after, .. } = self;
        after.clear();
        properties.rewrite(false, after, |headers, out| {
            if TableRef::new(headers).iter().any(|entry| entry.is_ok_and(|(name, _)| is_death_header(name.as_bytes())))
            {
                history = DeathHistory::Continued;
                extent = death.write_merged(headers, DEATH_HISTORY_BYTES_MAX, out);
            } else {
                out.extend_from_slice(headers);
                out.extend_from_slice(ours);
            }
        });
        if after.len() > properties_bytes_max {
            history = DeathHistory::Continued;
            let history_bytes_max = (extent.bytes + properties_bytes_max).saturating_sub(after.len());
            extent = death.shorten(properties, history_bytes_max, properties_bytes_max, after);
        }
        if extent.is_shortened && !extent.has_rejection {
            history = DeathHistory::Full;
        }
        let bytes = content.properties.len().max(after.len());
        self.work =
            DEAD_LETTER_WORK + bytes / PROPERTIES_BYTES_PER_WORK + extent.entries_read * DEATH_HISTORY_ENTRY_WORK;
        let worth_it = history == DeathHistory::First && content.properties.len() <= DEATH_CACHE_PROPERTIES_BYTES_MAX;
        match (&mut self.before, worth_it) {
            (Some(before), true) => {
                before.clear();
                before.extend_from_slice(content.properties);
            }
            (before, true) => *before = Some(content.properties.to_vec()),
            (before, false) => *before = None,
        }
        history
    }

    /// The properties of the dead letter written last.
    #[inline]
    pub fn properties(&self) -> &[u8] {
        &self.after
    }

    /// The work of the dead letter written last, beside that of its queues.
    #[inline]
    pub fn work(&self) -> usize {
        self.work
    }

    /// Whether what it wrote last serves messages that differ from the last in their bodies alone.
    #[inline]
    pub fn serves_repeats(&self) -> bool {
        self.before.is_some()
    }

    /// Its route, if that is known.
    #[inline]
    pub fn cached_route(&self, version: u64) -> Option<&Arc<QueueRoute>> {
        self.route.as_ref().filter(|cached| cached.version == version).map(|cached| &cached.route)
    }

    pub fn cache_route(&mut self, cached: Option<CachedDeadLetterRoute>) {
        self.route = cached;
    }
}

impl DeadLetter<'_> {
    /// Whether a queue would get a message again that cycles by itself: no consumer rejected it since it was in that queue.
    /// `properties` are those of the dead letter, if the message has died before.
    pub fn is_cycle(&self, properties: Option<RawProperties<'_>>, queue: &str) -> bool {
        if self.reason == DeadLetterReason::Rejected {
            return false;
        }
        let deaths =
            properties.and_then(|properties| properties.headers()?.get(X_DEATH)?.as_list()).unwrap_or_default();
        let deaths = deaths.iter().filter_map(|event| event.ok()?.as_table());
        let rejected = |event: &TableRef<'_>| is(*event, "reason", DeadLetterReason::Rejected.name().as_bytes());
        *self.target.queue == *queue
            || deaths.take_while(|event| !rejected(event)).any(|event| is(event, "queue", queue.as_bytes()))
    }
}

/// Whether a death changes or reads a header.
fn is_death_header(name: &[u8]) -> bool {
    name == CC
        || name == X_DEATH.as_bytes()
        || name == X_HARRIER_ID.as_bytes()
        || is_about(name, FIRST)
        || is_about(name, LAST)
}

/// Whether a header is about the first or the last death.
fn is_about(name: &[u8], which: &[u8]) -> bool {
    name.strip_prefix(which).is_some_and(|what| [b"exchange".as_slice(), b"queue", b"reason"].contains(&what))
}

/// One death of a message.
struct DeathEvent<'a> {
    dead_letter: DeadLetter<'a>,
    now_s: u64,
    exchange: &'a [u8],
    key: &'a [u8],
    expiration: Option<&'a [u8]>,
}

impl DeathEvent<'_> {
    fn queue(&self) -> &[u8] {
        self.dead_letter.target.queue.as_bytes()
    }

    fn reason(&self) -> &[u8] {
        self.dead_letter.reason.name().as_bytes()
    }

    /// The headers of a message that never died before.
    fn write_new(&self, out: &mut Vec<u8>) {
        write_name(out, X_DEATH);
        out.push(b'A');
        with_length(out, |out| self.write_event(None, out));
        self.write_first_death(out);
        self.write_last_death(out);
    }

    fn write_first_death(&self, out: &mut Vec<u8>) {
        write_text(out, "x-first-death-exchange", self.exchange);
        write_text(out, "x-first-death-queue", self.queue());
        write_text(out, "x-first-death-reason", self.reason());
    }

    fn write_last_death(&self, out: &mut Vec<u8>) {
        write_text(out, "x-last-death-exchange", self.exchange);
        write_text(out, "x-last-death-queue", self.queue());
        write_text(out, "x-last-death-reason", self.reason());
    }

    /// The entry of `x-death`; `copies` are further routing keys of the message.
    fn write_event(&self, copies: Option<ListRef<'_>>, out: &mut Vec<u8>) {
        out.push(b'F');
        with_length(out, |out| {
            write_count(out, 1);
            write_text(out, "reason", self.reason());
            write_text(out, "queue", self.queue());
            write_name(out, "time");
            out.push(b'T');
            out.extend_from_slice(&self.now_s.to_be_bytes());
            write_text(out, "exchange", self.exchange);
            write_name(out, "routing-keys");
            out.push(b'A');
            with_length(out, |out| {
                write_long(out, self.key);
                for value in copies.unwrap_or_default().iter() {
                    if let Ok(ValueRef::LongStr(key)) = value {
                        write_long(out, key);
                    }
                }
            });
            if let Some(expiration) = self.expiration {
                write_text(out, "original-expiration", expiration);
            }
        });
    }

    /// Writes the headers of a message that has some of these names already; the others are copied as they are. The history has
    /// at most `history_bytes_max` bytes.
    fn write_merged(&self, headers: &[u8], history_bytes_max: usize, out: &mut Vec<u8>) -> HistoryExtent {
        let headers = TableRef::new(headers);
        let (known, copies) = (headers.get(X_DEATH), headers.get("CC"));
        let drops = |header: &[u8]| {
            // A dead letter is a message of its own, with a stamp of its own.
            header == X_DEATH.as_bytes()
                || header == X_HARRIER_ID.as_bytes()
                || is_about(header, LAST)
                || (known.is_none() && is_about(header, FIRST))
                || (self.dead_letter.target.routing_key.is_some() && header == CC)
        };
        copy_entries(headers, out, |header| !drops(header));
        if known.is_none() {
            self.write_first_death(out);
        }
        self.write_last_death(out);
        let events = DeathEvents::of(known.and_then(ValueRef::as_list).unwrap_or_default());
        let entries_read = events.read;
        let copies = copies.and_then(ValueRef::as_list);
        let mut extent = HistoryExtent::default();
        let start = out.len();
        write_name(out, X_DEATH);
        out.push(b'A');
        with_length(out, |out| extent = self.write_events(events, copies, history_bytes_max, out));
        if extent.bytes == 0 {
            out.truncate(start);
        }
        HistoryExtent { entries_read, ..extent }
    }

    /// The list of deaths with this one in front: counted up if there was one of this queue and reason. That one's time and
    /// keys stay, as in RabbitMQ.
    fn write_events(
        &self,
        mut events: DeathEvents<'_>,
        copies: Option<ListRef<'_>>,
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> HistoryExtent {
        let start = out.len();
        match events.take(self.queue(), self.reason()) {
            None => self.write_event(copies, out),
            Some((event, deaths)) => write_counted(event, deaths.saturating_add(1), out),
        }
        let has_rejection = self.dead_letter.reason == DeadLetterReason::Rejected;
        let bytes = out.len() - start;
        if bytes > bytes_max {
            out.truncate(start);
            return HistoryExtent { is_shortened: true, has_rejection, ..HistoryExtent::default() };
        }
        events.write(bytes_max, HistoryExtent { bytes, has_rejection, ..HistoryExtent::default() }, out)
    }

    /// Writes the properties again, with a shorter history; without any of its headers if even they do not fit.
    #[cold]
    fn shorten(
        &self,
        properties: RawProperties<'_>,
        history_bytes_max: usize,
        properties_bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> HistoryExtent {
        let mut extent = HistoryExtent::default();
        out.clear();
        properties.rewrite(false, out, |headers, out| extent = self.write_merged(headers, history_bytes_max, out));
        if out.len() > properties_bytes_max {
            out.clear();
            properties.rewrite(false, out, |headers, out| {
                copy_entries(TableRef::new(headers), out, |header| {
                    header != X_DEATH.as_bytes() && header != X_HARRIER_ID.as_bytes()
                });
            });
        }
        extent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{BodyRef, Content};
    use slab::{Pool, PoolOptions};
    use wire::{List, Properties, RawProperties, ShortString, Table, Value};

    /// The properties of a message after these deaths, the first of them first.
    fn die(properties: Properties, deaths: &[(&str, DeadLetterReason)]) -> (Properties, impl Fn(&str) -> bool) {
        let pool = Pool::new(PoolOptions::default());
        let mut bytes = properties.to_bytes();
        let mut last = None;
        let mut writer = DeathHistoryWriter::default();
        for (now_s, &(queue, reason)) in deaths.iter().enumerate() {
            let body = BodyRef::Small(b"x");
            let content = Content { exchange: b"e", routing_key: b"k", properties: &bytes, body, ..Content::EMPTY };
            let target = DeadLetterTarget {
                vhost: VhostId(0),
                queue: queue.into(),
                exchange: b"d".as_slice().into(),
                routing_key: None,
            };
            let (message, target) = (content.keep(&pool), Arc::new(target));
            let dead = DeadLetter { message: &message, reason, target: &target };
            let history = writer.write(dead, now_s as u64, DEATH_HISTORY_BYTES_MAX);
            assert_eq!(
                writer.write(dead, now_s as u64, DEATH_HISTORY_BYTES_MAX),
                history,
                "the same death again changes nothing"
            );
            let first = history == DeathHistory::First;
            bytes = writer.properties().to_vec();
            last = Some((message, reason, target, first));
        }
        let (message, reason, target, first) = last.expect("a death");
        let after = RawProperties::new(&bytes).to_properties().expect("well formed");
        (after, move |queue: &str| {
            let dead = DeadLetter { message: &message, reason, target: &target };
            dead.is_cycle((!first).then_some(RawProperties::new(&bytes)), queue)
        })
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
        let (after, _) = die(before.clone(), &[("q", DeadLetterReason::Expired)]);
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
        let deaths = [
            ("q", DeadLetterReason::Rejected),
            ("r", DeadLetterReason::Expired),
            ("q", DeadLetterReason::Rejected),
            ("r", DeadLetterReason::MaxLength),
        ];
        let (after, _) = die(Properties::default(), &deaths);
        assert_eq!(events(&after), ["r maxlen 1 -", "q rejected 2 -", "r expired 1 -"]);
        let headers = after.headers.expect("headers");
        let word = |name| headers.get(name).and_then(Value::as_str);
        assert_eq!((word("x-first-death-queue"), word("x-last-death-queue")), (Some("q"), Some("r")));
        assert_eq!((word("x-first-death-reason"), word("x-last-death-reason")), (Some("rejected"), Some("maxlen")));
    }

    #[test]
    fn a_cycle_has_no_rejection_in_it() {
        use DeadLetterReason::{Expired, Rejected};
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
            let (after, _) = die(
                Properties { headers: Some(headers), ..Properties::default() },
                &[("q", DeadLetterReason::Rejected)],
            );
            assert_eq!(events(&after), [expect]);
        }
    }
}
