//! A message as the store's log takes it: its parts are borrowed when they are encoded, and it is counted until then.

use broker::{BodyRef, Content, Message};
use slab::Pool;
use store::StoredMessage;

/// A message that waits to be written, or was read.
#[derive(Clone)]
pub(crate) struct QueuedMessage(pub Message);

impl QueuedMessage {
    /// Copies a message that was read into message memory.
    pub fn read(message: &StoredMessage<'_>, pool: &Pool) -> Self {
        let &StoredMessage { exchange, routing_key, properties, bcc, arrived_us, body } = message;
        let content = Content { exchange, routing_key, properties, body: BodyRef::Small(body), bcc, arrived_us };
        QueuedMessage(match content.share_body(pool) {
            Some(shared) => Content { body: BodyRef::Large(&shared), ..content }.keep(pool),
            None => content.keep(pool),
        })
    }
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
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Whether both are references to one block of message memory.
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.0.content().properties, other.0.content().properties)
    }
}
