//! Batches the acknowledgements of one pulled route.
//!
//! Enters: delivery tags up to which everything has been accepted, the time.  Leaves: the tag to acknowledge, when it is due.
//! Owns:   the batch size, a share of the route's credit, and how long an acknowledgement waits at most.
//!
//! A source whose credit is used up sends as many messages as an acknowledgement frees: if it is told of a few at a time, it sends
//! a few at a time, and each of these small rounds costs both brokers a turn. If it is told only when the whole credit is used up,
//! it has nothing to send in the meantime.

use crate::limits::{ACK_WAIT, ACKS_PER_CREDIT, CREDIT_DEFAULT};
use std::time::Instant;
use wire::DeliveryTag;

/// Decides when the messages of one route are acknowledged.
#[derive(Debug)]
pub struct AckBatcher {
    batch_size: u64,
    acked: DeliveryTag,
    accepted: DeliveryTag,
    acked_at: Option<Instant>,
}

impl AckBatcher {
    /// For a route with this credit; 0 means no limit.
    pub fn new(credit: u16) -> Self {
        AckBatcher {
            batch_size: Self::batch_size(credit),
            acked: DeliveryTag(0),
            accepted: DeliveryTag(0),
            acked_at: None,
        }
    }

    /// How many messages are acknowledged together under load.
    pub fn batch_size(credit: u16) -> u64 {
        let credit = if credit == 0 { CREDIT_DEFAULT } else { credit };
        u64::from((credit / ACKS_PER_CREDIT).max(1))
    }

    /// Everything up to this tag has been accepted or rejected.
    #[inline]
    pub fn accepted_up_to(&mut self, tag: DeliveryTag) {
        self.accepted = tag;
    }

    /// Whether accepted messages have not been acknowledged yet.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.accepted > self.acked
    }

    /// When pending acknowledgements are due at the latest.
    pub fn due(&self) -> Option<Instant> {
        self.acked_at.filter(|_| self.is_pending()).map(|at| at + ACK_WAIT)
    }

    /// The tag to acknowledge at this time, and whether it covers several messages. Without a time, everything pending is due.
    pub fn next_ack(&mut self, now: Option<Instant>) -> Option<(DeliveryTag, bool)> {
        let count = self.accepted.0 - self.acked.0;
        let waits = |now| count < self.batch_size && self.due().is_some_and(|due| now < due);
        if count == 0 || now.is_some_and(waits) {
            return None;
        }
        self.acked = self.accepted;
        self.acked_at = now.or(self.acked_at);
        Some((self.accepted, count > 1))
    }
}

#[cfg(test)]
mod tests {
    use super::AckBatcher;
    use crate::limits::ACK_WAIT;
    use std::time::Instant;
    use wire::DeliveryTag;

    #[expect(clippy::disallowed_methods, reason = "a time to begin with")]
    fn begin() -> Instant {
        Instant::now()
    }

    #[test]
    fn few_messages_are_acknowledged_at_once_and_many_together() {
        let (mut batcher, begin) = (AckBatcher::new(1_000), begin());
        assert_eq!((batcher.next_ack(Some(begin)), batcher.due()), (None, None));
        batcher.accepted_up_to(DeliveryTag(1));
        assert_eq!(batcher.next_ack(Some(begin)), Some((DeliveryTag(1), false)), "no message arrived before it");
        batcher.accepted_up_to(DeliveryTag(80));
        assert_eq!(batcher.next_ack(Some(begin)), None);
        assert!(batcher.is_pending());
        batcher.accepted_up_to(DeliveryTag(1 + AckBatcher::batch_size(1_000)));
        assert_eq!(
            batcher.next_ack(Some(begin)),
            Some((DeliveryTag(1 + AckBatcher::batch_size(1_000)), true)),
            "a share of the credit"
        );
        assert!(!batcher.is_pending());
    }

    #[test]
    fn pending_acknowledgements_are_sent_when_due_or_when_all_are_requested() {
        let (mut batcher, begin) = (AckBatcher::new(1_000), begin());
        batcher.accepted_up_to(DeliveryTag(1));
        assert!(batcher.next_ack(Some(begin)).is_some());
        batcher.accepted_up_to(DeliveryTag(3));
        assert_eq!(batcher.next_ack(Some(begin + ACK_WAIT / 2)), None);
        assert_eq!(batcher.due(), Some(begin + ACK_WAIT));
        assert_eq!(batcher.next_ack(Some(begin + ACK_WAIT)), Some((DeliveryTag(3), true)));
        batcher.accepted_up_to(DeliveryTag(4));
        assert_eq!(batcher.next_ack(None), Some((DeliveryTag(4), false)));
        assert_eq!((batcher.next_ack(None), batcher.due()), (None, None));
    }

    #[test]
    fn a_batch_never_withholds_the_whole_credit() {
        for credit in 1..=u16::MAX {
            // One message less than a batch may be pending; the next one completes it.
            assert!(AckBatcher::batch_size(credit) - 1 < u64::from(credit));
        }
        assert_eq!(AckBatcher::batch_size(0), AckBatcher::batch_size(crate::limits::CREDIT_DEFAULT));
    }
}
