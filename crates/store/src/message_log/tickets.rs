//! Which tickets are durable.
//!
//! A message that was settled before it was written has its ticket's turn with the entries that came before its
//! settlement: among them may be what replaces it, a dead letter or a commit.

use crate::ids::Ticket;
use std::collections::VecDeque;

/// An entry that was settled before it was written.
#[derive(Clone, Copy)]
struct Unwritten {
    entry: u64,
    /// The last entry before its settlement.
    settled_behind: u64,
}

#[derive(Default)]
pub(super) struct Tickets {
    /// The last entry that is in a group, or need not be.
    encoded: u64,
    /// The last entry whose group is durable.
    durable: u64,
    /// What is encoded and waits for entries behind it.
    unwritten: VecDeque<Unwritten>,
    told: u64,
    awaited: u64,
}

impl Tickets {
    pub fn encoded(&self) -> u64 {
        self.encoded
    }

    /// Somebody waits for this one.
    #[inline]
    pub fn wait_for(&mut self, ticket: Ticket) {
        self.awaited = self.awaited.max(ticket.0);
    }

    /// Whether somebody waits for what is not in a group.
    pub fn is_awaited(&self) -> bool {
        self.awaited > self.encoded || (self.awaited > self.told && !self.unwritten.is_empty())
    }

    /// Whether this one was told to be durable.
    pub fn is_told(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.told
    }

    /// The last one that was told to be durable.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// The next entry is in a group.
    #[inline]
    pub fn encode(&mut self) {
        self.encode_all(1);
    }

    /// So many entries that come next are in a group.
    #[inline]
    pub fn encode_all(&mut self, entries: u64) {
        self.encoded += entries;
    }

    /// Whether entries that need not be written have been passed over since the last group was durable.
    pub fn has_passed(&self) -> bool {
        self.encoded > self.durable
    }

    /// The next entry was settled before it was written.
    #[inline]
    pub fn pass_over(&mut self, settled_behind: u64) {
        self.encoded += 1;
        let is_later = self.unwritten.back().is_none_or(|last| last.settled_behind < settled_behind);
        if is_later && settled_behind > self.encoded {
            self.unwritten.push_back(Unwritten { entry: self.encoded, settled_behind });
        }
    }

    /// All groups are durable. Returns the last ticket that is, if it has not been told.
    pub fn complete(&mut self) -> Option<Ticket> {
        self.durable = self.encoded;
        while self.unwritten.front().is_some_and(|first| first.settled_behind <= self.durable) {
            self.unwritten.pop_front();
        }
        let last = self.unwritten.front().map_or(self.durable, |first| first.entry - 1);
        if last <= self.told {
            return None;
        }
        self.told = last;
        Some(Ticket(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_settled_unwritten_waits_for_what_came_before_its_settlement() {
        let mut tickets = Tickets::default();
        // 1 is settled behind 3 (its dead letter), 2 is written.
        tickets.pass_over(3);
        tickets.encode();
        assert_eq!(tickets.complete(), None);
        tickets.encode();
        assert_eq!(tickets.complete(), Some(Ticket(3)));
        assert_eq!(tickets.complete(), None, "a ticket is told once");
    }

    #[test]
    fn what_is_settled_last_of_all_is_durable_at_once() {
        let mut tickets = Tickets::default();
        tickets.encode();
        tickets.pass_over(2);
        tickets.pass_over(3);
        assert_eq!(tickets.complete(), Some(Ticket(3)));
    }

    #[test]
    fn what_nobody_waits_for_is_not_awaited() {
        let mut tickets = Tickets::default();
        assert!(!tickets.is_awaited());
        tickets.wait_for(Ticket(1));
        assert!(tickets.is_awaited());
        tickets.encode();
        assert!(!tickets.is_awaited(), "it is in a group");
    }
}
