//! A message as the store's log takes it: its parts are borrowed when they are encoded, and it is counted until then.

use broker::{BodyRef, Message};
use store::StoredMessage;

/// A message that waits to be written.
pub(crate) struct QueuedMessage(pub Message);

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
