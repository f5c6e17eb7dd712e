//! A large message while its body is put together from the parts that follow it in the log.

use crate::record::StoredMessage;

/// A message whose body is being read.
pub(crate) struct LargeMessage {
    exchange: Vec<u8>,
    routing_key: Vec<u8>,
    properties: Vec<u8>,
    bcc: Vec<u8>,
    arrived_us: u64,
    body: Vec<u8>,
    body_bytes: u64,
}

impl LargeMessage {
    pub fn new(head: &StoredMessage<'_>, body_bytes: u64) -> Self {
        LargeMessage {
            exchange: head.exchange.to_vec(),
            routing_key: head.routing_key.to_vec(),
            properties: head.properties.to_vec(),
            bcc: head.bcc.to_vec(),
            arrived_us: head.arrived_us,
            body: Vec::new(),
            body_bytes,
        }
    }

    /// The next bytes of the body.
    pub fn push(&mut self, part: &[u8]) {
        self.body.extend_from_slice(part);
    }

    /// Whether all of the body was read.
    pub fn is_whole(&self) -> bool {
        self.body.len() as u64 >= self.body_bytes
    }

    /// Bytes of the whole body.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Bytes that it takes so far.
    pub fn heap_bytes(&self) -> usize {
        self.body.capacity() + self.exchange.len() + self.routing_key.len() + self.properties.len() + self.bcc.len()
    }

    /// The message, with as much of its body as was read.
    pub fn stored(&self) -> StoredMessage<'_> {
        StoredMessage {
            exchange: &self.exchange,
            routing_key: &self.routing_key,
            properties: &self.properties,
            bcc: &self.bcc,
            arrived_us: self.arrived_us,
            body: &self.body,
        }
    }
}
