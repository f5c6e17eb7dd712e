//! Tracer: records in each message which brokers it has passed (header `x-received-from`, in the form of RabbitMQ's federation
//! plugin), and detects messages that have been here before.
//!
//! Enters: the properties of a message.  Leaves: its properties with one more hop, and whether to forward it.
//! Owns:   the form of a hop; the result for the previous message, since the next one is mostly alike.

use crate::BrokerIdentity;
use crate::limits::REPEAT_BYTES_MAX;
use catalog::{MessageStamp, trace};
use wire::{ListRef, RawProperties, ShortStr, Table, TableRef, Value, ValueRef};

const RECEIVED_FROM: &str = "x-received-from";
/// RabbitMQ's shovels put themselves in front of this list, if they are to.
const SHOVELLED: &str = "x-shovelled";
const LIST: u8 = b'A';
const TABLE: u8 = b'F';

/// Whether a message from another broker is forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceVerdict {
    /// With the properties that the tracer has written.
    Forward,
    /// It has been here before, or has passed too many brokers.
    Drop,
    /// With one more hop its properties would not fit a frame.
    TooLarge,
}

/// Adds one route's hop to messages.
#[derive(Debug)]
pub struct Tracer {
    own: BrokerIdentity,
    hops_max: usize,
    /// Bytes of properties that fit a frame.
    properties_bytes_max: usize,
    /// The stamp of the message does not apply on this route: see [`of_queue`](Self::of_queue).
    removes_stamps: bool,
    /// The encoded hop, for a first delivery and for a redelivery.
    hop: [Box<[u8]>; 2],
    /// The header whose list gets the hop; `None`: no list.
    header: Option<&'static str>,
    /// Messages that have been here before are dropped, and those that have passed too many brokers.
    checks: bool,
    before: Vec<u8>,
    after: Vec<u8>,
    /// Properties without their user id.
    anonymous: Vec<u8>,
    last_verdict: Option<(bool, TraceVerdict)>,
    stamp: Option<MessageStamp>,
}

impl Tracer {
    /// For messages of `exchange` at `peer`, whose address without a password is `uri`.
    pub fn new(own: BrokerIdentity, peer: &BrokerIdentity, uri: &str, exchange: &str, hops_max: u16) -> Self {
        let text = Value::text;
        let hop = |redelivered| {
            let entries = [
                ("uri", text(uri)),
                ("exchange", text(exchange)),
                ("redelivered", Value::Bool(redelivered)),
                ("cluster-name", text(&peer.cluster_name)),
                ("vhost", text(&peer.vhost)),
            ];
            let table = entries
                .into_iter()
                .fold(Table::new(), |table, (name, value)| table.with(name, value).expect("the names above are short"));
            let mut bytes = vec![TABLE];
            table.encode(&mut bytes);
            bytes.into_boxed_slice()
        };
        Tracer {
            own,
            hops_max: usize::from(hops_max),
            properties_bytes_max: usize::MAX,
            removes_stamps: false,
            hop: [hop(false), hop(true)],
            header: Some(RECEIVED_FROM),
            checks: true,
            before: Vec::new(),
            after: Vec::new(),
            anonymous: Vec::new(),
            last_verdict: None,
            stamp: None,
        }
    }

    /// For messages consumed from a queue, whose stamps are removed: they arrive by no other path, and clients may have written the
    /// stamps.
    #[must_use]
    pub fn of_queue(self, is_queue: bool) -> Self {
        Tracer { removes_stamps: is_queue, ..self }
    }

    /// For a shovel: forwards every message, with no trace but its own entry in front of `x-shovelled`, if it has one.
    #[must_use]
    pub fn of_shovel(self, entry: Option<&Table>) -> Self {
        let mut hop = vec![TABLE];
        entry.into_iter().for_each(|entry| entry.encode(&mut hop));
        let hop: Box<[u8]> = hop.into();
        Tracer {
            hop: [hop.clone(), hop],
            header: entry.map(|_| SHOVELLED),
            checks: false,
            removes_stamps: true,
            ..self
        }
    }

    /// Gives up messages whose properties would have more bytes.
    #[must_use]
    pub fn within(self, properties_bytes_max: usize) -> Self {
        Tracer { properties_bytes_max, ..self }
    }

    /// Traces a message. [`properties`](Self::properties) has its new properties afterwards.
    #[inline]
    pub fn trace(&mut self, properties: RawProperties<'_>, redelivered: bool) -> TraceVerdict {
        match self.last_verdict {
            Some((was_redelivered, verdict))
                if was_redelivered == redelivered && self.before == properties.as_bytes() =>
            {
                verdict
            }
            _ => self.trace_changed(properties, redelivered),
        }
    }

    /// The stamp of the last message, if it may arrive twice.
    #[inline]
    pub fn stamp(&self) -> Option<MessageStamp> {
        self.stamp
    }

    /// The properties of the last message, with this route's hop.
    #[inline]
    pub fn properties(&self) -> RawProperties<'_> {
        RawProperties::new(&self.after)
    }

    fn trace_changed(&mut self, properties: RawProperties<'_>, redelivered: bool) -> TraceVerdict {
        let bytes = properties.as_bytes();
        self.stamp = MessageStamp::of(properties);
        let unstamped;
        let mut properties = properties;
        if properties.user_id().is_some() {
            // The user is one of the other broker: nobody here has checked it (RabbitMQ's federation does the same).
            self.anonymous.clear();
            properties.without_user_id(&mut self.anonymous);
            properties = RawProperties::new(&self.anonymous);
        }
        if self.removes_stamps && self.stamp.take().is_some() {
            unstamped = MessageStamp::take_off(properties);
            properties = RawProperties::new(&unstamped);
        }
        let mut hops = 0;
        let mut verdict = TraceVerdict::Forward;
        let trace = match self.header {
            Some(RECEIVED_FROM) => trace(properties),
            Some(name) => list(properties, name),
            None => None,
        };
        let checked = trace.iter().filter(|_| self.checks);
        for hop in checked.flat_map(|trace| trace.iter().map_while(Result::ok)) {
            hops += 1;
            if let ValueRef::Table(hop) = hop
                && is_own_hop(hop, &self.own)
            {
                verdict = TraceVerdict::Drop;
            }
        }
        if self.checks && hops >= self.hops_max {
            verdict = TraceVerdict::Drop;
        }
        self.after.clear();
        let hop = &self.hop[usize::from(redelivered)];
        match self.header {
            Some(name) => properties.rewrite(true, &mut self.after, |headers, out| {
                write_trace(name, hop, trace.map_or(&[][..], |trace| trace.as_bytes()), out);
                copy_without(name, headers, out);
            }),
            None => self.after.extend_from_slice(properties.as_bytes()),
        }
        if verdict == TraceVerdict::Forward && self.after.len() > self.properties_bytes_max {
            verdict = TraceVerdict::TooLarge;
        }
        self.last_verdict = (bytes.len() <= REPEAT_BYTES_MAX).then_some((redelivered, verdict));
        self.before.clear();
        if self.last_verdict.is_some() {
            self.before.extend_from_slice(bytes);
        }
        verdict
    }
}

/// Whether a hop of the trace is this broker's virtual host.
fn is_own_hop(hop: TableRef<'_>, own: &BrokerIdentity) -> bool {
    let has = |name, own: &str| hop.get(name).and_then(ValueRef::as_bytes) == Some(own.as_bytes());
    has("cluster-name", &own.cluster_name) && has("vhost", &own.vhost)
}

/// The list of a header.
fn list<'a>(properties: RawProperties<'a>, name: &str) -> Option<ListRef<'a>> {
    match properties.headers()?.get(name)? {
        ValueRef::List(list) => Some(list),
        _ => None,
    }
}

fn write_trace(name: &str, hop: &[u8], others: &[u8], out: &mut Vec<u8>) {
    let name = name.as_bytes();
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    out.push(LIST);
    // A header fits a frame, whose bound has 32 bits.
    out.extend_from_slice(&((hop.len() + others.len()) as u32).to_be_bytes());
    out.extend_from_slice(hop);
    out.extend_from_slice(others);
}

fn copy_without(list: &str, headers: &[u8], out: &mut Vec<u8>) {
    let is_trace = |name: ShortStr<'_>| name == list;
    let table = TableRef::new(headers);
    if !table.iter().map_while(Result::ok).any(|(name, _)| is_trace(name)) {
        return out.extend_from_slice(headers);
    }
    // Properties of a message are validated when it arrives.
    let mut table = table.to_table().unwrap_or_default();
    while table.remove(list).is_some() {}
    out.extend_from_slice(&table.to_bytes());
}

#[cfg(test)]
mod tests {
    use super::{TraceVerdict, Tracer};
    use crate::BrokerIdentity;
    use wire::{Properties, RawProperties, Table, Value};

    fn identity(name: &str) -> BrokerIdentity {
        BrokerIdentity { cluster_name: name.into(), vhost: "/".into() }
    }

    fn tracer(own: &str, peer: &str, hops_max: u16) -> Tracer {
        Tracer::new(identity(own), &identity(peer), "amqp://peer:5672", "trades", hops_max)
    }

    fn names(properties: RawProperties<'_>) -> Vec<String> {
        let trace = catalog::trace(properties).expect("a trace");
        let name = |hop: wire::ValueRef<'_>| hop.as_table()?.get("cluster-name")?.as_bytes().map(<[u8]>::to_vec);
        trace.iter().map(|hop| String::from_utf8(name(hop.expect("sound")).expect("a name")).expect("text")).collect()
    }

    #[test]
    fn messages_of_a_queue_lose_their_stamp() {
        let stamped = catalog::MessageStamp::new(1, 2, 3).put_on(RawProperties::EMPTY);
        for is_queue in [false, true] {
            let mut tracer = tracer("d", "r", 8).of_queue(is_queue);
            // The second message has the same properties.
            for _ in 0..2 {
                assert_eq!(tracer.trace(RawProperties::new(&stamped), false), TraceVerdict::Forward);
                assert_eq!(tracer.stamp().is_none(), is_queue);
                assert_eq!(catalog::MessageStamp::of(tracer.properties()).is_none(), is_queue);
                assert_eq!(names(tracer.properties()), ["r"]);
            }
        }
    }

    #[test]
    fn a_shovel_forwards_what_has_been_here_and_names_itself_only_if_it_is_to() {
        let mut at_b = tracer("b", "a", 9);
        assert_eq!(at_b.trace(RawProperties::EMPTY, false), TraceVerdict::Forward);
        let traced = at_b.properties().as_bytes().to_vec();
        let user_id = "mallory".try_into().ok();
        let named = Properties { user_id, priority: Some(4), ..Properties::default() }.to_bytes();
        let mut plain = tracer("a", "b", 1).of_shovel(None);
        for _ in 0..2 {
            assert_eq!(plain.trace(RawProperties::new(&traced), true), TraceVerdict::Forward);
            assert_eq!(plain.properties().as_bytes(), traced, "as it was");
        }
        assert_eq!(plain.trace(RawProperties::new(&named), false), TraceVerdict::Forward);
        assert_eq!((plain.properties().user_id(), plain.properties().priority()), (None, Some(4)));
        let entry = Table::new().with("shovel-name", Value::text("s")).expect("short");
        let mut naming = tracer("a", "b", 1).of_shovel(Some(&entry));
        assert_eq!(naming.trace(RawProperties::new(&traced), false), TraceVerdict::Forward);
        let once = naming.properties().as_bytes().to_vec();
        assert_eq!(naming.trace(RawProperties::new(&once), false), TraceVerdict::Forward);
        let after = naming.properties();
        assert_eq!((after.validate(), names(after)), (Ok(()), vec!["a".to_owned()]));
        let shovelled = super::list(after, "x-shovelled").expect("a list");
        let of = |hop: wire::ValueRef<'_>| hop.as_table()?.get("shovel-name")?.as_bytes().map(<[u8]>::to_vec);
        let found: Vec<_> = shovelled.iter().map(|hop| of(hop.expect("sound"))).collect();
        assert_eq!(found, [Some(b"s".to_vec()), Some(b"s".to_vec())]);
    }

    #[test]
    fn hops_are_prepended_and_other_headers_kept() {
        let headers = Table::new().with("colour", Value::text("red")).expect("short");
        let first = Properties { headers: Some(headers), priority: Some(4), ..Properties::default() }.to_bytes();
        let mut at_b = tracer("b", "a", 9);
        for _ in 0..2 {
            assert_eq!(at_b.trace(RawProperties::new(&first), false), TraceVerdict::Forward);
            let after = at_b.properties();
            assert_eq!(after.validate(), Ok(()));
            assert_eq!((names(after), after.priority()), (vec!["a".to_owned()], Some(4)));
            let colour = after.headers().expect("headers").get("colour");
            assert_eq!(colour.and_then(|value| value.as_bytes()), Some(&b"red"[..]));
        }
        let mut at_c = tracer("c", "b", 9);
        assert_eq!(at_c.trace(at_b.properties(), true), TraceVerdict::Forward);
        assert_eq!(names(at_c.properties()), ["b", "a"]);
        assert_eq!(at_c.properties().validate(), Ok(()));
        assert_eq!(tracer("a", "c", 9).trace(at_c.properties(), false), TraceVerdict::Drop, "it was published there");
        assert_eq!(tracer("d", "c", 2).trace(at_c.properties(), false), TraceVerdict::Drop, "two brokers are enough");
        assert_eq!(tracer("d", "c", 3).trace(at_c.properties(), false), TraceVerdict::Forward);
    }

    #[test]
    fn a_user_of_another_broker_is_not_named() {
        let user_id = "mallory".try_into().ok();
        let named = Properties { user_id, priority: Some(4), ..Properties::default() }.to_bytes();
        let mut tracer = tracer("b", "a", 9);
        for _ in 0..2 {
            assert_eq!(tracer.trace(RawProperties::new(&named), false), TraceVerdict::Forward);
            assert!(tracer.properties().user_id().is_none());
            assert_eq!((names(tracer.properties()), tracer.properties().priority()), (vec!["a".to_owned()], Some(4)));
        }
    }

    #[test]
    fn properties_that_outgrow_a_frame_are_given_up() {
        let mut at_b = tracer("b", "a", 9);
        assert_eq!(at_b.trace(RawProperties::EMPTY, false), TraceVerdict::Forward);
        let bytes = at_b.properties().as_bytes().len();
        for (room, expect) in [(bytes, TraceVerdict::Forward), (bytes - 1, TraceVerdict::TooLarge)] {
            let mut tracer = tracer("b", "a", 9).within(room);
            for _ in 0..2 {
                assert_eq!(tracer.trace(RawProperties::EMPTY, false), expect);
            }
        }
    }

    #[test]
    fn an_invalid_trace_is_replaced() {
        let headers = Table::new().with("x-received-from", Value::Bool(true)).expect("short");
        let first = Properties { headers: Some(headers), ..Properties::default() }.to_bytes();
        let mut at_b = tracer("b", "a", 9);
        assert_eq!(at_b.trace(RawProperties::new(&first), false), TraceVerdict::Forward);
        assert_eq!(names(at_b.properties()), ["a"]);
        assert_eq!(at_b.properties().headers().expect("headers").iter().count(), 1);
    }
}
