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

    /// What a piece does in any case: twice as much after each setback.
    pub fn work_min(&self) -> u64 {
        1 << self.setbacks.min(SEARCH_DOUBLINGS_MAX)
    }

    pub fn bytes(&self) -> usize {
        self.searched.capacity() * size_of::<SearchedExchange>()
    }
}
