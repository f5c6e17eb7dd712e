//! The exchanges that a divided search has come upon.
//!
//! Enters: exchanges, each as often as bindings lead there.  Leaves: whether it is the first time.
//! Owns:   their ids, and not their indexes alone: an index may be another exchange's before the search ends.

use crate::{ids::ExchangeId, segmented_table::SegmentedTable};
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// A set of exchanges, which never has to grow in one piece.
#[derive(Default)]
pub(super) struct VisitedExchanges(SegmentedTable<ExchangeId>);

fn hash_of(exchange: &ExchangeId) -> u64 {
    // No peer chooses indexes or serials.
    FixedState::default().hash_one(exchange)
}

impl VisitedExchanges {
    /// Adds an exchange. Answers whether it was new.
    pub fn insert(&mut self, exchange: ExchangeId) -> bool {
        let hash = hash_of(&exchange);
        if self.0.find(hash, |&other| other == exchange).is_some() {
            return false;
        }
        self.0.insert_unique(hash, exchange, hash_of);
        true
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.0.allocation_size()
    }
}
