//! Traces: through which brokers a message has come (header `x-received-from`, as RabbitMQ's federation plugin writes it).
//!
//! Enters: the properties of a message, and where it was received.  Leaves: its properties with that hop in front.
//! Owns:   the form of a hop; the last message's verdict, since the next is mostly alike.
//! Never:  drops a message: it says that one has been here.

use crate::Identity;
use crate::limits::LIKENESS_BYTES_MAX;
use catalog::{MessageStamp, trace};
use wire::{RawProperties, ShortStr, Table, TableRef, Value, ValueRef};

const RECEIVED_FROM: &str = "x-received-from";
const LIST: u8 = b'A';
const TABLE: u8 = b'F';

/// What becomes of a message that another broker sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes on, with these properties.
    On,
    /// It has been here already, or has come too far.
    Over,
}

/// Writes one route's hop into messages.
#[derive(Debug)]
pub struct Tracer {
    own: Identity,
    hops_max: usize,
    /// What goes on is another message than what was published.
    takes_stamps_off: bool,
    /// The hop in wire form, of a message that was delivered before, and of one that was not.
    hop: [Box<[u8]>; 2],
    before: Vec<u8>,
    after: Vec<u8>,
    last: Option<(bool, Verdict)>,
    stamp: Option<MessageStamp>,
}

impl Tracer {
    /// For messages of `exchange` at `peer`, whose address without a password is `uri`.
    pub fn new(own: Identity, peer: &Identity, uri: &str, exchange: &str, hops_max: u16) -> Self {
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
            takes_stamps_off: false,
            hop: [hop(false), hop(true)],
            before: Vec::new(),
            after: Vec::new(),
            last: None,
            stamp: None,
        }
    }

    /// Of messages that are taken from a queue: what comes out of it by this way comes by no other, and clients could have written
    /// their stamps.
    #[must_use]
    pub fn of_queue(self, is_queue: bool) -> Self {
        Tracer { takes_stamps_off: is_queue, ..self }
    }

    /// A message that comes. Its properties are [`properties`](Self::properties) then.
    #[inline]
    pub fn take(&mut self, properties: RawProperties<'_>, redelivered: bool) -> Verdict {
        match self.last {
            Some((was_redelivered, verdict))
                if was_redelivered == redelivered && self.before == properties.as_bytes() =>
            {
                verdict
            }
            _ => self.take_anew(properties, redelivered),
        }
    }

    /// The stamp of the message taken last, if it has one: it may come twice.
    #[inline]
    pub fn stamp(&self) -> Option<MessageStamp> {
        self.stamp
    }

    /// The properties of the message taken last.
    #[inline]
    pub fn properties(&self) -> RawProperties<'_> {
        RawProperties::new(&self.after)
    }

    fn take_anew(&mut self, properties: RawProperties<'_>, redelivered: bool) -> Verdict {
        let bytes = properties.as_bytes();
        self.stamp = MessageStamp::of(properties);
        let unstamped;
        let mut properties = properties;
        if self.takes_stamps_off && self.stamp.take().is_some() {
            unstamped = MessageStamp::take_off(properties);
            properties = RawProperties::new(&unstamped);
        }
        let mut hops = 0;
        let mut verdict = Verdict::On;
        let trace = trace(properties);
        for hop in trace.iter().flat_map(|trace| trace.iter().map_while(Result::ok)) {
            hops += 1;
            if let ValueRef::Table(hop) = hop
                && is(hop, &self.own)
            {
                verdict = Verdict::Over;
            }
        }
        if hops >= self.hops_max {
            verdict = Verdict::Over;
        }
        self.last = (bytes.len() <= LIKENESS_BYTES_MAX).then_some((redelivered, verdict));
        self.before.clear();
        if self.last.is_some() {
            self.before.extend_from_slice(bytes);
        }
        self.after.clear();
        let hop = &self.hop[usize::from(redelivered)];
        properties.rewrite(true, &mut self.after, |headers, out| {
            write_trace(hop, trace.map_or(&[][..], |trace| trace.as_bytes()), out);
            copy_without_trace(headers, out);
        });
        verdict
    }
}

/// Whether a hop is this broker's virtual host.
fn is(hop: TableRef<'_>, own: &Identity) -> bool {
    let says = |name, own: &str| hop.get(name).and_then(ValueRef::as_bytes) == Some(own.as_bytes());
    says("cluster-name", &own.cluster_name) && says("vhost", &own.vhost)
}

fn write_trace(hop: &[u8], others: &[u8], out: &mut Vec<u8>) {
    let name = RECEIVED_FROM.as_bytes();
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    out.push(LIST);
    // A header fits a frame, whose bound has 32 bits.
    out.extend_from_slice(&((hop.len() + others.len()) as u32).to_be_bytes());
    out.extend_from_slice(hop);
    out.extend_from_slice(others);
}

fn copy_without_trace(headers: &[u8], out: &mut Vec<u8>) {
    let is_trace = |name: ShortStr<'_>| name == RECEIVED_FROM;
    let table = TableRef::new(headers);
    if !table.iter().map_while(Result::ok).any(|(name, _)| is_trace(name)) {
        return out.extend_from_slice(headers);
    }
    // Properties of a message are validated when it comes.
    let mut table = table.to_table().unwrap_or_default();
    while table.remove(RECEIVED_FROM).is_some() {}
    out.extend_from_slice(&table.to_bytes());
}

#[cfg(test)]
mod tests {
    use super::{Tracer, Verdict};
    use crate::Identity;
    use wire::{Properties, RawProperties, Table, Value};

    fn identity(name: &str) -> Identity {
        Identity { cluster_name: name.into(), vhost: "/".into() }
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
    fn what_comes_from_a_queue_has_no_stamp() {
        let stamped = catalog::MessageStamp::new(1, 2, 3).put_on(RawProperties::EMPTY);
        for is_queue in [false, true] {
            let mut tracer = tracer("d", "r", 8).of_queue(is_queue);
            // The second is alike.
            for _ in 0..2 {
                assert_eq!(tracer.take(RawProperties::new(&stamped), false), Verdict::On);
                assert_eq!(tracer.stamp().is_none(), is_queue);
                assert_eq!(catalog::MessageStamp::of(tracer.properties()).is_none(), is_queue);
                assert_eq!(names(tracer.properties()), ["r"]);
            }
        }
    }

    #[test]
    fn hops_stand_in_front_of_those_before_and_other_headers_stay() {
        let headers = Table::new().with("colour", Value::text("red")).expect("short");
        let first = Properties { headers: Some(headers), priority: Some(4), ..Properties::default() }.to_bytes();
        let mut at_b = tracer("b", "a", 9);
        for _ in 0..2 {
            assert_eq!(at_b.take(RawProperties::new(&first), false), Verdict::On);
            let after = at_b.properties();
            assert_eq!(after.validate(), Ok(()));
            assert_eq!((names(after), after.priority()), (vec!["a".to_owned()], Some(4)));
            let colour = after.headers().expect("headers").get("colour");
            assert_eq!(colour.and_then(|value| value.as_bytes()), Some(&b"red"[..]));
        }
        let mut at_c = tracer("c", "b", 9);
        assert_eq!(at_c.take(at_b.properties(), true), Verdict::On);
        assert_eq!(names(at_c.properties()), ["b", "a"]);
        assert_eq!(at_c.properties().validate(), Ok(()));
        assert_eq!(tracer("a", "c", 9).take(at_c.properties(), false), Verdict::Over, "it began there");
        assert_eq!(tracer("d", "c", 2).take(at_c.properties(), false), Verdict::Over, "two brokers are enough");
        assert_eq!(tracer("d", "c", 3).take(at_c.properties(), false), Verdict::On);
    }

    #[test]
    fn what_is_no_trace_is_replaced_by_one() {
        let headers = Table::new().with("x-received-from", Value::Bool(true)).expect("short");
        let first = Properties { headers: Some(headers), ..Properties::default() }.to_bytes();
        let mut at_b = tracer("b", "a", 9);
        assert_eq!(at_b.take(RawProperties::new(&first), false), Verdict::On);
        assert_eq!(names(at_b.properties()), ["a"]);
        assert_eq!(at_b.properties().headers().expect("headers").iter().count(), 1);
    }
}
