//! Tickets of a log that are durable, but whose messages may lie in queues that are not: they wait for the definitions.

use crate::limits::GATED_TICKETS_MAX;
use std::collections::VecDeque;

/// Messages up to a ticket, and the definitions that they may depend on.
#[derive(Clone, Copy)]
struct GatedTicket {
    ticket: u64,
    version: u64,
}

/// The durable tickets that wait for definitions, in their order.
#[derive(Default)]
pub(crate) struct DurabilityGate {
    /// The version that the group depends on which is being written.
    writing_version: u64,
    waiting: VecDeque<GatedTicket>,
}

impl DurabilityGate {
    /// A group is written. What it has was appended when definitions had this version or an earlier one.
    pub fn on_write(&mut self, version: u64) {
        self.writing_version = version;
    }

    /// Messages up to a ticket are durable.
    pub fn on_durable(&mut self, ticket: u64) {
        let version = self.writing_version;
        let is_full = self.waiting.len() >= GATED_TICKETS_MAX;
        match self.waiting.back_mut() {
            // Beyond the limit earlier tickets wait for the definitions of later ones.
            Some(last) if last.version == version || is_full => *last = GatedTicket { ticket, version },
            _ => self.waiting.push_back(GatedTicket { ticket, version }),
        }
    }

    /// Whether a ticket waits for nothing any more, where definitions before this version are durable.
    #[inline]
    pub fn is_open(&self, first_undurable: u64) -> bool {
        self.waiting.front().is_some_and(|gated| gated.version < first_undurable)
    }

    /// How many groups wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The last of the tickets that wait for nothing any more.
    pub fn release(&mut self, first_undurable: u64) -> Option<u64> {
        let mut last = None;
        while self.is_open(first_undurable) {
            last = self.waiting.pop_front().map(|gated| gated.ticket);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::DurabilityGate;
    use crate::limits::GATED_TICKETS_MAX;

    #[test]
    fn a_ticket_waits_for_the_definitions_of_its_group() {
        let mut gate = DurabilityGate::default();
        assert_eq!(gate.release(0), None);
        for (version, ticket) in [(0, 1), (2, 5), (2, 6), (3, 9)] {
            gate.on_write(version);
            gate.on_durable(ticket);
        }
        assert_eq!((gate.release(0), gate.release(2), gate.is_open(2), gate.release(2)), (None, Some(1), false, None));
        assert_eq!((gate.release(3), gate.release(9), gate.release(9)), (Some(6), Some(9), None));
    }

    #[test]
    fn few_tickets_are_kept_and_none_is_released_early() {
        let mut gate = DurabilityGate::default();
        let groups = 3 * GATED_TICKETS_MAX as u64;
        for version in 1..=groups {
            gate.on_write(version);
            gate.on_durable(10 * version);
        }
        let mut released = 0;
        for version in 0..groups {
            released = gate.release(version + 1).unwrap_or(released);
            assert!(released <= 10 * version, "{released} by {version}");
        }
        assert_eq!(gate.release(groups + 1), Some(10 * groups));
    }
}
