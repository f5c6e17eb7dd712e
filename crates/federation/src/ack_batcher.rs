//! Acknowledgements of one route that pulls: when its source is told what is safe here.
//!
//! Enters: delivery tags up to which everything is safe, the time.  Leaves: the tag to acknowledge, when it is time for that.
//! Owns:   the rule that what goes is a share of the route's credit, or has waited its time.
//! Never:  holds back so much that the source could wait for it.
//!
//! A source whose credit is used up sends as many messages as it is told of: told of a few at a time it sends a few at a
//! time, and every one of these costs a turn of both brokers. Told only when all of its credit has been taken in, it has
//! nothing to send meanwhile.

use crate::limits::{ACK_WAIT, ACKS_PER_CREDIT, CREDIT_DEFAULT};
use std::time::Instant;

/// The acknowledgements of one route.
#[derive(Debug)]
pub struct AckBatcher {
    batch_size: u64,
    acked: u64,
    accepted: u64,
    acked_at: Option<Instant>,
}

impl AckBatcher {
    /// Of a route with so much credit; 0: without a limit.
    pub fn new(credit: u16) -> Self {
        AckBatcher { batch_size: Self::batch_size(credit), acked: 0, accepted: 0, acked_at: None }
    }

    /// How many messages are acknowledged together where many come.
    pub fn batch_size(credit: u16) -> u64 {
        let credit = if credit == 0 { CREDIT_DEFAULT } else { credit };
        u64::from((credit / ACKS_PER_CREDIT).max(1))
    }

    /// All up to this tag is safe here, but for what was rejected.
    #[inline]
    pub fn accepted_up_to(&mut self, tag: u64) {
        self.accepted = tag;
    }

    /// Whether there is something that the source was not told.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.accepted > self.acked
    }

    /// When what is held goes at the latest.
    pub fn due(&self) -> Option<Instant> {
        self.acked_at.filter(|_| self.is_pending()).map(|at| at + ACK_WAIT)
    }

    /// What the source is to be told at this time, and whether that is more than one message; `None`: all of it, whatever the time.
    pub fn next_ack(&mut self, now: Option<Instant>) -> Option<(u64, bool)> {
        let count = self.accepted - self.acked;
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

    #[expect(clippy::disallowed_methods, reason = "a time to begin with")]
    fn begin() -> Instant {
        Instant::now()
    }

    #[test]
    fn few_messages_are_acknowledged_at_once_and_many_together() {
        let (mut acks, begin) = (AckBatcher::new(1_000), begin());
        assert_eq!((acks.next_ack(Some(begin)), acks.due()), (None, None));
        acks.accepted_up_to(1);
        assert_eq!(acks.next_ack(Some(begin)), Some((1, false)), "nothing came for long");
        acks.accepted_up_to(80);
        assert_eq!(acks.next_ack(Some(begin)), None);
        assert!(acks.is_pending());
        acks.accepted_up_to(1 + AckBatcher::batch_size(1_000));
        assert_eq!(acks.next_ack(Some(begin)), Some((1 + AckBatcher::batch_size(1_000), true)), "a share of the credit");
        assert!(!acks.is_pending());
    }

    #[test]
    fn what_is_held_goes_when_its_time_has_come_or_all_must_go() {
        let (mut acks, begin) = (AckBatcher::new(1_000), begin());
        acks.accepted_up_to(1);
        assert!(acks.next_ack(Some(begin)).is_some());
        acks.accepted_up_to(3);
        assert_eq!(acks.next_ack(Some(begin + ACK_WAIT / 2)), None);
        assert_eq!(acks.due(), Some(begin + ACK_WAIT));
        assert_eq!(acks.next_ack(Some(begin + ACK_WAIT)), Some((3, true)));
        acks.accepted_up_to(4);
        assert_eq!(acks.next_ack(None), Some((4, false)));
        assert_eq!((acks.next_ack(None), acks.due()), (None, None));
    }

    #[test]
    fn never_is_all_of_a_credit_held_back() {
        for credit in 1..=u16::MAX {
            // One less than `every` may be held when the next message comes, and with that one it goes.
            assert!(AckBatcher::batch_size(credit) - 1 < u64::from(credit));
        }
        assert_eq!(AckBatcher::batch_size(0), AckBatcher::batch_size(crate::limits::CREDIT_DEFAULT));
    }
}
