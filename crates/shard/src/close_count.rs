//! How often in succession the destination has closed a link's connection while one and the same message alone was in flight.
//!
//! The end of a connection says neither which message it means nor whether it means one. After the first one the routes of the link
//! send one message at a time, one route after the other, once everything else is set up. A message that is alone in flight again and
//! again when the connection is closed is taken for the reason.
//!
//! Enters: the message that was alone in flight.  Leaves: whether it is to be given up.

use federation::limits::CLOSED_CONNECTIONS_MAX;
use queues::OldestDelivery;

/// The count of a link.
#[derive(Default, Debug)]
pub(crate) struct CloseCount {
    message: Option<OldestDelivery>,
    connections: u32,
}

impl CloseCount {
    /// A connection was closed while this message was all that was in flight. Returns whether it is the reason; then the count
    /// begins anew.
    pub fn add(&mut self, message: OldestDelivery) -> bool {
        let is_same = self.message.is_some_and(|last| (last.queue, last.position) == (message.queue, message.position));
        self.connections = if is_same { self.connections + 1 } else { 1 };
        self.message = Some(message);
        let is_reason = self.connections >= CLOSED_CONNECTIONS_MAX;
        if is_reason {
            self.reset();
        }
        is_reason
    }

    /// A connection was closed while several messages were in flight, or none: there may be another reason.
    pub fn reset(&mut self) {
        *self = CloseCount::default();
    }
}

#[cfg(test)]
mod tests {
    use super::CloseCount;
    use catalog::QueueId;
    use federation::limits::CLOSED_CONNECTIONS_MAX;
    use queues::{OldestDelivery, QueuePosition};
    use wire::DeliveryTag;

    fn message(queue: u32, position: u64, tag: u64) -> OldestDelivery {
        let queue = QueueId { index: queue, serial: 0 };
        OldestDelivery { tag: DeliveryTag(tag), queue, position: QueuePosition(position) }
    }

    #[test]
    fn only_the_same_message_in_succession_is_the_reason() {
        let mut count = CloseCount::default();
        // Each connection numbers its deliveries anew.
        for closed in 1..CLOSED_CONNECTIONS_MAX {
            assert!(!count.add(message(1, 7, closed.into())));
        }
        assert!(!count.add(message(1, 8, 1)), "another message of the queue");
        assert!(!count.add(message(2, 7, 1)), "the same position of another queue");
        for _ in 1..CLOSED_CONNECTIONS_MAX {
            assert!(!count.add(message(1, 7, 1)));
        }
        assert!(count.add(message(1, 7, 1)));
        assert!(!count.add(message(1, 7, 1)), "it begins anew");
        for _ in 2..CLOSED_CONNECTIONS_MAX {
            assert!(!count.add(message(1, 7, 1)));
        }
        count.reset();
        assert!(!count.add(message(1, 7, 1)), "there was another reason");
    }
}
