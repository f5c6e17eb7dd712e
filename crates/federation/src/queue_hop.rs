//! What a message of a federated queue tells of its way, in the form of RabbitMQ's federation plugin: by which upstreams it came and
//! how often (`x-received-from`), and how it was published first.
//!
//! Messages go where consumers are, back and forth if these change places: none is dropped for having been somewhere before.

use wire::{List, RawProperties, Table, Value};

const RECEIVED_FROM: &str = "x-received-from";
const VISITS: &str = "visit-count";
/// These would send the message to further queues here.
const COPIES: &str = "CC";
const ORIGINAL_COPIES: &str = "x-original-cc";

/// The hop of one route of a federated queue.
#[derive(Debug)]
pub struct QueueHop {
    uri: Box<str>,
    queue: Box<str>,
    /// Bytes of properties that fit a frame.
    properties_bytes_max: usize,
    written: Vec<u8>,
}

impl QueueHop {
    /// Of messages of a queue at the address `uri`, which has no password.
    pub fn new(uri: &str, queue: &str, properties_bytes_max: usize) -> Self {
        QueueHop { uri: uri.into(), queue: queue.into(), properties_bytes_max, written: Vec::new() }
    }

    /// The properties of the last message, with the hop.
    #[inline]
    pub fn properties(&self) -> RawProperties<'_> {
        RawProperties::new(&self.written)
    }

    /// Adds the hop to the properties of a message that was published to this exchange with this key. Returns whether they fit a
    /// frame.
    pub fn add(&mut self, properties: RawProperties<'_>, (exchange, key): (&[u8], &[u8]), redelivered: bool) -> bool {
        // Properties of a message are validated when it arrives.
        let mut headers = properties.headers().and_then(|headers| headers.to_table().ok()).unwrap_or_default();
        let before = match headers.remove(RECEIVED_FROM) {
            Some(Value::List(hops)) => hops,
            // A client's, if there is any: this is the first hop.
            _ => {
                let bytes = |bytes: &[u8]| Value::LongStr(bytes.into());
                headers = with(headers, "x-original-exchange", bytes(exchange));
                headers = with(headers, "x-original-routing-key", bytes(key));
                List::new()
            }
        };
        if let Some(copies) = headers.remove(COPIES) {
            headers = with(headers, ORIGINAL_COPIES, copies);
        }
        let same = before.iter().find(|hop| self.is_own(hop));
        let visits = same.and_then(Value::as_table).and_then(|hop| hop.get(VISITS)).and_then(Value::as_i64);
        let hop = with(Table::new(), "uri", Value::text(&self.uri));
        let hop = with(hop, "queue", Value::text(&self.queue));
        let hop = with(hop, "redelivered", Value::Bool(redelivered));
        let hop = with(hop, VISITS, Value::I64(visits.unwrap_or(0).saturating_add(1)));
        let mut hops = List::new();
        hops.push(Value::Table(hop));
        before.iter().filter(|hop| !self.is_own(hop)).for_each(|hop| hops.push(hop.clone()));
        let headers = with(headers, RECEIVED_FROM, Value::List(hops)).to_bytes();
        self.written.clear();
        properties.rewrite(true, &mut self.written, |_, out| out.extend_from_slice(&headers));
        self.written.len() <= self.properties_bytes_max
    }

    fn is_own(&self, hop: &Value) -> bool {
        let has = |key: &str, text: &str| {
            hop.as_table().and_then(|hop| hop.get(key)).and_then(Value::as_bytes) == Some(text.as_bytes())
        };
        has("uri", &self.uri) && has("queue", &self.queue)
    }
}

fn with(table: Table, name: &str, value: Value) -> Table {
    table.with(name, value).expect("the names above are short")
}

#[cfg(test)]
mod tests {
    use super::QueueHop;
    use wire::{Properties, RawProperties, Table, Value};

    fn hops(headers: &Table) -> Vec<(String, i64)> {
        let list = headers.get("x-received-from").and_then(Value::as_list).expect("a list");
        let hop = |hop: &Value| {
            let hop = hop.as_table().expect("a table");
            let text = hop.get("uri").and_then(Value::as_str).expect("an address").to_owned();
            (text, hop.get("visit-count").and_then(Value::as_i64).expect("a count"))
        };
        list.iter().map(hop).collect()
    }

    fn headers(properties: RawProperties<'_>) -> Table {
        properties.to_properties().expect("sound").headers.expect("headers")
    }

    fn added(hop: &mut QueueHop, properties: &[u8], source: (&[u8], &[u8]), redelivered: bool) -> Vec<u8> {
        assert!(hop.add(RawProperties::new(properties), source, redelivered));
        hop.properties().as_bytes().to_vec()
    }

    #[test]
    fn a_message_tells_by_which_upstreams_it_came_and_how_it_was_published_first() {
        let [mut a, mut b] = ["amqp://a", "amqp://b"].map(|uri| QueueHop::new(uri, "q", 1_000));
        let copies = Table::new().with("CC", Value::text("x")).expect("short");
        let first = Properties { headers: Some(copies), priority: Some(3), ..Properties::default() }.to_bytes();
        let first = added(&mut a, &first, (b"e", b"\xffk"), false);
        let told = headers(RawProperties::new(&first));
        assert_eq!(told.get("x-original-exchange").and_then(Value::as_bytes), Some(&b"e"[..]));
        assert_eq!(told.get("x-original-routing-key").and_then(Value::as_bytes), Some(&b"\xffk"[..]));
        assert!(told.get("CC").is_none() && told.get("x-original-cc").is_some());
        assert_eq!(RawProperties::new(&first).priority(), Some(3));
        // It goes on, and comes back.
        let second = added(&mut b, &first, (b"", b"q"), false);
        let third = added(&mut a, &second, (b"", b"q"), true);
        let told = headers(RawProperties::new(&third));
        assert_eq!(hops(&told), [("amqp://a".to_owned(), 2), ("amqp://b".to_owned(), 1)]);
        assert_eq!(told.get("x-original-exchange").and_then(Value::as_bytes), Some(&b"e"[..]), "still the first");
    }

    #[test]
    fn what_is_no_list_of_hops_is_replaced() {
        let odd = Table::new().with("x-received-from", Value::I64(1)).expect("short");
        let odd = Properties { headers: Some(odd), ..Properties::default() }.to_bytes();
        let mut hop = QueueHop::new("amqp://a", "q", 1_000);
        for properties in [&*odd, RawProperties::EMPTY.as_bytes()] {
            let told = added(&mut hop, properties, (b"", b"q"), false);
            assert_eq!(hops(&headers(RawProperties::new(&told))), [("amqp://a".to_owned(), 1)]);
        }
        let mut narrow = QueueHop::new("amqp://a", "q", 20);
        assert!(!narrow.add(RawProperties::EMPTY, (b"", b"q"), false), "too large");
    }
}
