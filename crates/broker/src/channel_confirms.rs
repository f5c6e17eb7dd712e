//! Publisher confirms of one channel.

use std::collections::{BTreeSet, VecDeque};

/// The publishes of a channel that its client awaits, in order, so that one confirm covers many.
#[derive(Default)]
pub struct ChannelConfirms {
    /// Number of the last publish.
    pub published: u64,
    /// Number up to which the client was sent confirms.
    pub confirmed: u64,
    /// Publishes that wait for other shards: the number of each, and how many answers it lacks.
    pub pending: VecDeque<(u64, u32)>,
    /// The store's tickets that publishes wait for: each with the number of the first that waits for it. Tickets grow with the
    /// numbers, so that one entry is for all publishes of a group.
    tickets: VecDeque<(u64, u64)>,
    /// Publishes that a queue refused, and that the client was not sent a `basic.nack` for yet.
    pub refused: BTreeSet<u64>,
    /// The channel is on the list of those whose confirms are due.
    pub due: bool,
}

impl ChannelConfirms {
    /// Every publish up to this number is safe.
    pub fn last_safe(&self) -> u64 {
        let answered = self.pending.front().map_or(self.published, |&(number, _)| number - 1);
        let durable = self.tickets.front().map_or(self.published, |&(number, _)| number - 1);
        answered.min(durable)
    }

    /// Whether no publish waits for other shards or the store.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.tickets.is_empty()
    }

    /// A publish, the last or one whose forwarding goes on, waits for a ticket of the store. Returns whether it is the first of
    /// this channel that does.
    #[inline]
    pub fn await_ticket(&mut self, number: u64, ticket: u64) -> bool {
        if self.tickets.back().is_some_and(|&(_, last)| last >= ticket) {
            return false;
        }
        self.tickets.push_back((number, ticket));
        true
    }

    /// The store has made everything up to this ticket durable.
    pub fn on_durable(&mut self, ticket: u64) {
        while self.tickets.front().is_some_and(|&(_, first)| first <= ticket) {
            self.tickets.pop_front();
        }
    }

    /// Takes the next publish that a queue refused, of those up to a number.
    pub fn next_refused(&mut self, safe: u64) -> Option<u64> {
        let first = self.refused.first().copied().filter(|&number| number <= safe)?;
        self.refused.pop_first();
        Some(first)
    }

    /// A publish that is pending waits for more answers.
    pub fn await_more(&mut self, number: u64, answers: u32) {
        if let Ok(at) = self.pending.binary_search_by_key(&number, |&(n, _)| n) {
            self.pending[at].1 += answers;
        }
    }

    /// One answer for a publish arrived.
    pub fn on_answer(&mut self, number: u64) {
        if let Ok(at) = self.pending.binary_search_by_key(&number, |&(n, _)| n) {
            self.pending[at].1 -= 1;
        }
        while let Some(&(_, 0)) = self.pending.front() {
            self.pending.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ChannelConfirms;

    #[test]
    fn a_ticket_has_one_entry_however_many_publishes_wait_for_it() {
        let mut confirms = ChannelConfirms { published: 7, ..ChannelConfirms::default() };
        let first =
            [(2, 10), (3, 10), (5, 10), (5, 11), (6, 11)].map(|(number, ticket)| confirms.await_ticket(number, ticket));
        assert_eq!(first, [true, false, false, true, false]);
        assert_eq!((confirms.last_safe(), confirms.tickets.len(), confirms.is_idle()), (1, 2, false));
        confirms.on_durable(10);
        assert_eq!(confirms.last_safe(), 4, "5 is in two queues, and waits for both");
        confirms.pending.push_back((6, 1));
        confirms.on_durable(11);
        assert_eq!((confirms.last_safe(), confirms.is_idle()), (5, false));
        confirms.on_answer(6);
        assert_eq!((confirms.last_safe(), confirms.is_idle()), (7, true));
    }

    #[test]
    fn publishes_are_safe_in_their_order() {
        let mut confirms = ChannelConfirms { published: 5, ..ChannelConfirms::default() };
        confirms.pending.extend([(2, 1), (4, 2)]);
        assert_eq!(confirms.last_safe(), 1);
        confirms.on_answer(4);
        confirms.on_answer(2);
        assert_eq!(confirms.last_safe(), 3);
        confirms.on_answer(9);
        confirms.on_answer(4);
        assert_eq!(confirms.last_safe(), 5);
        confirms.refused.extend([3, 5]);
        assert_eq!(
            (confirms.next_refused(4), confirms.next_refused(4), confirms.next_refused(5)),
            (Some(3), None, Some(5))
        );
    }
}
