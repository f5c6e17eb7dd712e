//! Acknowledgements of one route that pulls: when its source is told what is safe here.
//!
//! Enters: delivery tags up to which everything is safe, the time.  Leaves: the tag to acknowledge, when it is time for that.
//! Owns:   the rule that what goes is a share of the route's credit, or has waited its time.
//! Never:  holds back so much that the source could wait for it.
//!
//! A source whose credit is used up sends as many messages as it is told of: told of a few at a time it sends a few at a
//! time, and every one of these costs a turn of both brokers. Told only when all of its credit has been taken in, it has
//! nothing to send meanwhile.

use crate::limits::{ACK_WAIT, ACKS_OF_CREDIT, CREDIT_DEFAULT};
use std::time::Instant;

/// The acknowledgements of one route.
#[derive(Debug)]
pub struct Acks {
    every: u64,
    told: u64,
    safe: u64,
    told_at: Option<Instant>,
}

impl Acks {
    /// Of a route with so much credit; 0: without a limit.
    pub fn new(credit: u16) -> Self {
        Acks { every: Self::every(credit), told: 0, safe: 0, told_at: None }
    }

    /// How many messages are acknowledged together where many come.
    pub fn every(credit: u16) -> u64 {
        let credit = if credit == 0 { CREDIT_DEFAULT } else { credit };
        u64::from((credit / ACKS_OF_CREDIT).max(1))
    }

    /// All up to this tag is safe here, but for what was rejected.
    #[inline]
    pub fn safe(&mut self, tag: u64) {
        self.safe = tag;
    }

    /// Whether there is something that the source was not told.
    #[inline]
    pub fn are_held(&self) -> bool {
        self.safe > self.told
    }

    /// When what is held goes at the latest.
    pub fn due(&self) -> Option<Instant> {
        self.told_at.filter(|_| self.are_held()).map(|at| at + ACK_WAIT)
    }

    /// What the source is to be told at this time, and whether that is more than one message; `None`: all of it, whatever the time.
    pub fn next(&mut self, now: Option<Instant>) -> Option<(u64, bool)> {
        let count = self.safe - self.told;
        let waits = |now| count < self.every && self.due().is_some_and(|due| now < due);
        if count == 0 || now.is_some_and(waits) {
            return None;
        }
        self.told = self.safe;
        self.told_at = now.or(self.told_at);
        Some((self.safe, count > 1))
    }
}

#[cfg(test)]
mod tests {
    use super::Acks;
    use crate::limits::ACK_WAIT;
    use std::time::Instant;

    #[expect(clippy::disallowed_methods, reason = "a time to begin with")]
    fn begin() -> Instant {
        Instant::now()
    }

    #[test]
    fn few_messages_are_acknowledged_at_once_and_many_together() {
        let (mut acks, begin) = (Acks::new(1_000), begin());
        assert_eq!((acks.next(Some(begin)), acks.due()), (None, None));
        acks.safe(1);
        assert_eq!(acks.next(Some(begin)), Some((1, false)), "nothing came for long");
        acks.safe(80);
        assert_eq!(acks.next(Some(begin)), None);
        assert!(acks.are_held());
        acks.safe(1 + Acks::every(1_000));
        assert_eq!(acks.next(Some(begin)), Some((1 + Acks::every(1_000), true)), "a share of the credit");
        assert!(!acks.are_held());
    }

    #[test]
    fn what_is_held_goes_when_its_time_has_come_or_all_must_go() {
        let (mut acks, begin) = (Acks::new(1_000), begin());
        acks.safe(1);
        assert!(acks.next(Some(begin)).is_some());
        acks.safe(3);
        assert_eq!(acks.next(Some(begin + ACK_WAIT / 2)), None);
        assert_eq!(acks.due(), Some(begin + ACK_WAIT));
        assert_eq!(acks.next(Some(begin + ACK_WAIT)), Some((3, true)));
        acks.safe(4);
        assert_eq!(acks.next(None), Some((4, false)));
        assert_eq!((acks.next(None), acks.due()), (None, None));
    }

    #[test]
    fn never_is_all_of_a_credit_held_back() {
        for credit in 1..=u16::MAX {
            // One less than `every` may be held when the next message comes, and with that one it goes.
            assert!(Acks::every(credit) - 1 < u64::from(credit));
        }
        assert_eq!(Acks::every(0), Acks::every(crate::limits::CREDIT_DEFAULT));
    }
}
