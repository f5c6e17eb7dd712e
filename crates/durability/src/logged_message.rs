//! A message as the store's log takes it: its parts are borrowed when they are encoded, and it is counted until then.

use queues::{BodyRef, Content, Message};
use slab::Pool;
use store::StoredMessage;

/// A message that waits to be written, or was read.
#[derive(Clone)]
pub(crate) struct QueuedMessage(pub Message);

impl QueuedMessage {
    /// Copies a message that was read into message memory.
    pub fn read(message: &StoredMessage<'_>, pool: &Pool) -> Self {
        let content = content_of(message);
        QueuedMessage(match content.share_body(pool) {
            Some(shared) => Content { body: BodyRef::Large(&shared), ..content }.keep(pool),
            None => content.keep(pool),
        })
    }
}

/// A message that was read, where it was read.
pub(crate) fn content_of<'a>(message: &StoredMessage<'a>) -> Content<'a> {
    let &StoredMessage { exchange, routing_key, properties, bcc, arrived_us, body } = message;
    Content { exchange, routing_key, properties, body: BodyRef::Small(body), bcc, arrived_us }
}

impl store::LoggedMessage for QueuedMessage {
    fn stored(&self) -> StoredMessage<'_> {
        let content = self.0.content();
        let body = match content.body {
            BodyRef::Small(bytes) => bytes,
            BodyRef::Large(slice) => slice,
        };
        StoredMessage {
            exchange: content.exchange,
            routing_key: content.routing_key,
            properties: content.properties,
            bcc: content.bcc,
            arrived_us: content.arrived_us,
            body,
        }
    }

    #[inline]
    fn body(&self) -> &[u8] {
        self.0.inline_body().unwrap_or_else(|| self.stored().body)
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Whether both are references to one block of message memory.
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.0.content().properties, other.0.content().properties)
    }
}
