//! Publisher confirms of one channel.

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// Publishes that were appended within one tick: a group of the store has all of them, mostly, so that none waits for another.
struct StoredRun {
    /// Number of the first. The run ends where the next one begins.
    first: u64,
    /// Ticket of the first that is not durable.
    first_ticket: u64,
    last_ticket: u64,
}

/// Those of a channel, in their order.
#[derive(Default)]
struct StoredRuns(VecDeque<StoredRun>);

/// The publishes of a channel that its client awaits, in order, so that one confirm covers many.
#[derive(Default)]
pub struct ChannelConfirms {
    /// Number of the last publish.
    pub published: u64,
    /// Number up to which the client was sent confirms.
    pub confirmed: u64,
    /// Publishes that wait for other shards: the number of each, and how many answers it lacks.
    pub pending: VecDeque<(u64, u32)>,
    /// Publishes that wait for the store, in runs that follow one another. Most channels never have any.
    stored: Option<Box<StoredRuns>>,
    /// Publishes that a queue refused, and that the client was not sent a `basic.nack` for yet.
    pub refused: BTreeSet<u64>,
    /// The channel is on the list of those whose confirms are due.
    pub due: bool,
}

impl ChannelConfirms {
    /// Every publish up to this number is safe.
    pub fn last_safe(&self) -> u64 {
        let answered = self.pending.front().map_or(self.published, |&(number, _)| number - 1);
        let durable = self.first_stored().map_or(self.published, |run| run.first - 1);
        answered.min(durable)
    }

    #[inline]
    fn first_stored(&self) -> Option<&StoredRun> {
        self.stored.as_ref()?.0.front()
    }

    /// Whether no publish waits for other shards or the store.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.first_stored().is_none()
    }

    /// Publishes, the last ones or one whose forwarding goes on, wait for tickets of the store; `number` is the first. Those that
    /// wait for tickets behind `sealed` are one run. Returns whether they begin one.
    #[inline]
    pub fn await_tickets(&mut self, number: u64, tickets: RangeInclusive<u64>, sealed: u64) -> bool {
        let StoredRuns(stored) = &mut **self.stored.get_or_insert_default();
        let (first_ticket, last_ticket) = tickets.into_inner();
        if let Some(run) = stored.back_mut()
            && (run.last_ticket > sealed || run.last_ticket >= first_ticket)
        {
            run.last_ticket = run.last_ticket.max(last_ticket);
            return false;
        }
        stored.push_back(StoredRun { first: number, first_ticket, last_ticket });
        true
    }

    /// The store has made everything up to this ticket durable. If a run waits for further ones, returns the next.
    pub fn on_durable(&mut self, ticket: u64) -> Option<u64> {
        let StoredRuns(stored) = &mut **self.stored.as_mut()?;
        while stored.front().is_some_and(|run| run.last_ticket <= ticket) {
            stored.pop_front();
        }
        let run = stored.front_mut().filter(|run| run.first_ticket <= ticket)?;
        run.first_ticket = ticket + 1;
        Some(run.first_ticket)
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
    fn publishes_of_a_tick_are_one_run_and_safe_together() {
        let mut confirms = ChannelConfirms { published: 7, ..ChannelConfirms::default() };
        let first = [(2, 10..=11), (3, 12..=12), (5, 13..=13)]
            .map(|(number, tickets)| confirms.await_tickets(number, tickets, 9));
        assert_eq!(first, [true, false, false]);
        // The next tick.
        let first = [(5, 13..=13), (5, 14..=14), (6, 15..=15)]
            .map(|(number, tickets)| confirms.await_tickets(number, tickets, 13));
        assert_eq!(first, [false, true, false]);
        assert_eq!(
            (confirms.last_safe(), confirms.stored.as_ref().map_or(0, |runs| runs.0.len()), confirms.is_idle()),
            (1, 2, false)
        );
        assert_eq!((confirms.on_durable(11), confirms.last_safe()), (Some(12), 1));
        assert_eq!(
            (confirms.on_durable(13), confirms.last_safe()),
            (None, 4),
            "5 is in two queues, and waits for both"
        );
        confirms.pending.push_back((6, 1));
        assert_eq!(confirms.on_durable(15), None);
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
