//! A message: where it was published, its properties in wire form, its body, and the keys of `BCC`.
//!
//! A kept message is one counted block that any number of queues and consumers share.

use crate::limits::{BODY_BYTES_CUT_PER_WORK, PROPERTIES_BYTES_COPIED_PER_WORK, SHARED_BODY_BYTES_MIN};
use slab::{HeaderWithTail, Pool, Slice};
use wire::{BodyRun, RawProperties};

/// A body: small ones are copied where they are needed, large ones are shared.
#[derive(Clone, Copy)]
pub enum BodyRef<'a> {
    /// Bytes to copy; they belong to the receive buffer or to the message.
    Small(&'a [u8]),
    /// A counted slice of message memory; cloning it copies no bytes.
    Large(&'a Slice),
}

impl BodyRef<'_> {
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            BodyRef::Small(bytes) => bytes.len(),
            BodyRef::Large(slice) => slice.len(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message, borrowed.
#[derive(Clone, Copy)]
pub struct Content<'a> {
    /// The exchange that it was published to.
    pub exchange: &'a [u8],
    pub routing_key: &'a [u8],
    /// Property flags and values as in the content header.
    pub properties: &'a [u8],
    pub body: BodyRef<'a>,
    /// Routing keys of `BCC`, packed; empty for most. No consumer sees them.
    pub bcc: &'a [u8],
    /// When it was published (or became a dead letter), in microseconds of `Broker::set_now`.
    pub arrived_us: u64,
}

impl<'a> Content<'a> {
    /// Without names, properties and body.
    pub const EMPTY: Content<'static> = Content {
        exchange: b"",
        routing_key: b"",
        properties: RawProperties::EMPTY.as_bytes(),
        body: BodyRef::Small(b""),
        bcc: &[],
        arrived_us: 0,
    };

    #[inline]
    pub fn properties(&self) -> RawProperties<'a> {
        RawProperties::new(self.properties)
    }

    /// Keeps those that differ from it in their bodies alone.
    #[inline]
    pub fn keep_all(&self, bodies: BodyRun<'_>, kept: &mut Vec<Message>, pool: &Pool) {
        let of = |body| Content { body: BodyRef::Small(body), ..*self };
        let first = of(bodies.first()).keep(pool);
        kept.push(first.clone());
        let others = bodies.iter().skip(1);
        match self.bcc.is_empty() {
            true => kept.extend(others.map(|body| first.with_body(body, pool))),
            false => kept.extend(others.map(|body| of(body).keep(pool))),
        }
    }

    /// Whether it is to survive a restart, in a queue that does.
    #[inline]
    pub fn is_persistent(&self) -> bool {
        self.properties().is_persistent()
    }

    /// Units of work to copy the properties of a delivery to an output, and to cut its body into frames. Bodies are shared.
    #[inline]
    pub fn copying_work(&self) -> usize {
        self.properties.len() / PROPERTIES_BYTES_COPIED_PER_WORK + self.body.len() / BODY_BYTES_CUT_PER_WORK
    }

    /// Keeps the content beyond the receive buffer: one block from `pool`.
    pub fn keep(&self, pool: &Pool) -> Message {
        let (inline, large): (&[u8], Option<Slice>) = match self.body {
            BodyRef::Small(bytes) => (bytes, None),
            BodyRef::Large(slice) => (&[], Some(slice.clone())),
        };
        if self.bcc.is_empty() {
            return self.keep_parts(large, [self.exchange, self.routing_key, self.properties, inline], pool);
        }
        self.keep_parts(large, [self.exchange, self.routing_key, self.properties, inline, self.bcc], pool)
    }

    #[inline]
    fn keep_parts<const PARTS: usize>(&self, large: Option<Slice>, parts: [&[u8]; PARTS], pool: &Pool) -> Message {
        let head = MessageHead {
            large,
            arrived_us: self.arrived_us,
            properties_bytes: self.properties.len() as u32,
            exchange_bytes: self.exchange.len() as u8,
            routing_key_bytes: self.routing_key.len() as u8,
            has_bcc: !self.bcc.is_empty(),
            is_persistent: self.is_persistent(),
        };
        let bytes = parts.iter().map(|part| part.len()).sum();
        Message(pool.header_with_tail(head, bytes, |tail| {
            let mut at = 0;
            for part in parts {
                tail[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        }))
    }

    /// A copy of the body in shared memory, if it is long enough to share and not there yet.
    #[inline]
    pub fn share_body(&self, pool: &Pool) -> Option<Slice> {
        match self.body {
            BodyRef::Small(bytes) if bytes.len() >= SHARED_BODY_BYTES_MIN => {
                let mut block = pool.block(bytes.len());
                block.copy_from_slice(bytes);
                Some(block.freeze())
            }
            BodyRef::Small(_) | BodyRef::Large(_) => None,
        }
    }

    /// Bytes of names, properties, body and keys of `BCC`.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.exchange.len() + self.routing_key.len() + self.properties.len() + self.body.len() + self.bcc.len()
    }
}

struct MessageHead {
    large: Option<Slice>,
    arrived_us: u64,
    properties_bytes: u32,
    exchange_bytes: u8,
    routing_key_bytes: u8,
    /// Packed keys of `BCC` follow the body.
    has_bcc: bool,
    /// What its properties say: it is asked whenever a message is settled.
    is_persistent: bool,
}

impl MessageHead {
    /// Bytes of names and properties, which stand before the body.
    #[inline]
    fn body_at(&self) -> usize {
        usize::from(self.exchange_bytes) + usize::from(self.routing_key_bytes) + self.properties_bytes as usize
    }
}

/// A kept message: a counted reference of eight bytes. Cloning it copies no bytes.
#[derive(Clone)]
pub struct Message(HeaderWithTail<MessageHead>);

impl Message {
    /// The parts, borrowed.
    #[inline]
    pub fn content(&self) -> Content<'_> {
        let head = self.0.header();
        let (exchange, rest) = self.0.tail().split_at(head.exchange_bytes as usize);
        let (routing_key, rest) = rest.split_at(head.routing_key_bytes as usize);
        let (properties, rest) = rest.split_at(head.properties_bytes as usize);
        let (inline, bcc) = if head.has_bcc { crate::bcc::split(rest) } else { (rest, &[][..]) };
        let body = match &head.large {
            Some(slice) => BodyRef::Large(slice),
            None => BodyRef::Small(inline),
        };
        Content { exchange, routing_key, properties, body, bcc, arrived_us: head.arrived_us }
    }

    /// Bytes of names, properties, body and keys of `BCC`, as limits count them.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.0.tail().len() + self.0.header().large.as_ref().map_or(0, |slice| slice.len())
    }

    /// The body, unless it is shared or keys of `BCC` follow it.
    #[inline]
    pub fn inline_body(&self) -> Option<&[u8]> {
        let head = self.0.header();
        let inline = self.0.tail().get(head.body_at()..)?;
        (head.large.is_none() && !head.has_bcc).then_some(inline)
    }

    /// A message with another body, which is copied, and without keys of `BCC`.
    #[inline]
    fn with_body(&self, body: &[u8], pool: &Pool) -> Message {
        let head = MessageHead { large: None, has_bcc: false, ..*self.0.header() };
        let before = &self.0.tail()[..head.body_at()];
        Message(pool.header_with_tail(head, before.len() + body.len(), |tail| {
            let (names, inline) = tail.split_at_mut(before.len());
            names.copy_from_slice(before);
            inline.copy_from_slice(body);
        }))
    }

    #[inline]
    pub fn body_bytes(&self) -> usize {
        let head = self.0.header();
        match &head.large {
            Some(slice) => slice.len(),
            None if head.has_bcc => self.content().body.len(),
            None => self.0.tail().len() - head.body_at(),
        }
    }

    #[inline]
    pub fn arrived_us(&self) -> u64 {
        self.0.header().arrived_us
    }

    /// Whether it differs from another in its body alone, which is as long, and is not shared with others.
    #[inline]
    pub fn repeats(&self, other: &Message) -> bool {
        let (head, theirs) = (self.0.header(), other.0.header());
        let lengths = |head: &MessageHead| (head.exchange_bytes, head.routing_key_bytes, head.properties_bytes);
        let (tail, other_tail) = (self.0.tail(), other.0.tail());
        let is_whole = |head: &MessageHead| head.large.is_none() && !head.has_bcc;
        if lengths(head) != lengths(theirs) || tail.len() != other_tail.len() || !is_whole(head) || !is_whole(theirs) {
            return false;
        }
        let same_bytes = head.body_at();
        tail[..same_bytes] == other_tail[..same_bytes]
    }

    /// Whether it has an expiration of its own.
    #[inline]
    pub fn has_expiration(&self) -> bool {
        self.properties_on().has_expiration()
    }

    /// Whether a durable queue has it appended to the store.
    #[inline]
    pub fn is_persistent(&self) -> bool {
        self.0.header().is_persistent
    }

    /// Its properties, and what follows them, which their readers do not look at.
    #[inline]
    fn properties_on(&self) -> RawProperties<'_> {
        let head = self.0.header();
        let at = usize::from(head.exchange_bytes) + usize::from(head.routing_key_bytes);
        RawProperties::new(self.0.tail().get(at..).unwrap_or_default())
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Message({} bytes)", self.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slab::PoolOptions;

    #[test]
    fn messages_that_are_kept_together_are_those_that_are_kept_alone() {
        let pool = Pool::new(PoolOptions::default());
        let names = Content { exchange: b"orders", routing_key: b"key", arrived_us: 7, ..Content::EMPTY };
        let bcc = crate::bcc::pack([&b"other"[..]].into_iter());
        for content in [names, Content::EMPTY, Content { bcc: &bcc, ..names }] {
            for bodies in [&b"[ab][cd][ef]"[..], b"[ab]"] {
                let bodies = BodyRun::new(bodies, 4, 1, 2);
                let mut kept = vec![content.keep(&pool)];
                content.keep_all(bodies, &mut kept, &pool);
                assert_eq!(kept.len(), 1 + bodies.len());
                for (message, body) in kept[1..].iter().zip(bodies.iter()) {
                    let alone = Content { body: BodyRef::Small(body), ..content }.keep(&pool);
                    let parts = |message: &Message| {
                        let Content { exchange, routing_key, properties, body, bcc, arrived_us } = message.content();
                        let BodyRef::Small(body) = body else { panic!("a shared body") };
                        format!("{:?}", (exchange, routing_key, properties, body, bcc, arrived_us))
                    };
                    assert_eq!((parts(message), message.bytes()), (parts(&alone), alone.bytes()));
                    assert_eq!(message.inline_body(), content.bcc.is_empty().then_some(body));
                }
            }
        }
    }
}
