//! The rounds of a divided search over the bindings that were made since it began.
//!
//! Enters: the exchanges at which it has looked.  Leaves: where the next step goes on.

use crate::{binding::BindingMark, ids::ExchangeId, limits::SEARCH_DOUBLINGS_MAX};

/// An exchange at which the search has looked.
#[derive(Clone, Copy)]
pub(super) struct SearchedExchange {
    pub id: ExchangeId,
    /// It leads the message somewhere, if only to its alternate exchange.
    pub any: bool,
}

/// A round over the newer bindings of all exchanges at which the search has looked.
pub(super) struct NewerRound {
    /// The serial of the last change when it began.
    pub end: u32,
    /// The exchange whose turn it is.
    pub at: usize,
    /// Where its bindings go on.
    pub mark: Option<BindingMark>,
}

/// How far a search has come with the bindings that were made since it began.
#[derive(Default)]
pub(super) struct NewerRounds {
    pub searched: Vec<SearchedExchange>,
    /// Those before this one go nowhere or have had their alternate exchange.
    settled: usize,
    /// All bindings up to this serial were looked at, or are by the search itself.
    pub seen: u32,
    pub round: Option<NewerRound>,
    /// How often it had to look for something anew, or for newer bindings once more.
    pub setbacks: u32,
    /// Every binding that was there at one moment was looked at.
    pub is_complete: bool,
}

impl NewerRounds {
    /// A search begins after the change with this serial.
    pub fn begin(&mut self, serial: u32) {
        self.seen = serial;
    }

    /// The search has looked at an exchange, which leads the message somewhere or not.
    pub fn add_exchange(&mut self, id: ExchangeId, any: bool) {
        self.searched.push(SearchedExchange { id, any });
    }

    /// The next exchange that leads the message nowhere, and to its alternate exchange from now on. However often it is asked, it
    /// looks at each exchange once: a chain of alternate exchanges is as long as a client makes it.
    pub fn next_without_way(&mut self) -> Option<ExchangeId> {
        while let Some(searched) = self.searched.get_mut(self.settled) {
            self.settled += 1;
            if !std::mem::replace(&mut searched.any, true) {
                return Some(searched.id);
            }
        }
        None
    }

    /// What a piece does in any case: twice as much after each setback.
    pub fn work_min(&self) -> u64 {
        1 << self.setbacks.min(SEARCH_DOUBLINGS_MAX)
    }

    pub fn bytes(&self) -> usize {
        self.searched.capacity() * size_of::<SearchedExchange>()
    }
}

#[cfg(test)]
mod tests {
    use super::NewerRounds;
    use crate::ids::ExchangeId;

    #[test]
    fn each_exchange_is_looked_at_once_for_its_alternate() {
        let ids: Vec<ExchangeId> = (0..4).map(|index| ExchangeId { index, serial: 1 }).collect();
        let mut rounds = NewerRounds::default();
        rounds.add_exchange(ids[0], false);
        rounds.add_exchange(ids[1], true);
        rounds.add_exchange(ids[2], false);
        assert_eq!([(); 3].map(|()| rounds.next_without_way()), [Some(ids[0]), Some(ids[2]), None]);
        assert!(
            rounds.searched.iter().all(|exchange| exchange.any),
            "each leads the message on, if only by its alternate"
        );
        rounds.add_exchange(ids[3], false);
        // However many there were before: a chain of alternate exchanges is asked about once for each of its exchanges.
        assert_eq!(rounds.settled, 3);
        assert_eq!([(); 2].map(|()| rounds.next_without_way()), [Some(ids[3]), None]);
    }
}
