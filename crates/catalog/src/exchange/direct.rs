//! Direct exchange: the whole routing key must be the same.
//!
//! Enters: an exchange and a routing key.  Leaves: the bindings made with that key.
//! Owns:   one hash table over all direct exchanges, from exchange and key to the first such binding.

use crate::{
    binding::{BindingList, BindingTable, ListHead, NONE, SelectedList},
    copy_budget::CopyBudget,
    limits::CatalogLimits,
    segmented_table::SegmentedTable,
};
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

#[derive(Clone)]
pub(crate) struct DirectIndex {
    heads: SegmentedTable<u32>,
    hash: FixedState,
}

fn hash_of(hash: &FixedState, exchange: u32, key: &[u8]) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write_u32(exchange);
    hasher.write(key);
    hasher.finish()
}

impl DirectIndex {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self { heads: SegmentedTable::default(), hash: FixedState::with_seed(limits.hash_seed) }
    }

    /// One without bindings, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        Self { heads: self.heads.begin_copy(), hash: self.hash.clone() }
    }

    /// Copies more of it. Returns whether nothing is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        self.heads.copy_part(&mut copy.heads, budget)
    }

    pub fn bytes(&self) -> usize {
        self.heads.allocation_size()
    }

    pub fn add(&mut self, bindings: &mut BindingTable, binding: u32) {
        let (exchange, key) = (bindings.get(binding).source, bindings.key(binding));
        let hash = hash_of(&self.hash, exchange, key);
        let same = |&head: &u32| bindings.get(head).source == exchange && bindings.key(head) == key;
        if let Some(&head) = self.heads.find(hash, same) {
            let mut list = ListHead(head);
            bindings.link(BindingList::Alike, &mut list, binding);
            self.set_head(hash, head, list.0);
            return;
        }
        bindings.link(BindingList::Alike, &mut ListHead::default(), binding);
        let state = &self.hash;
        self.heads.insert_unique(hash, binding, |&head| hash_of(state, bindings.get(head).source, bindings.key(head)));
    }

    fn set_head(&mut self, hash: u64, before: u32, head: u32) {
        match self.heads.find_mut(hash, |&other| other == before) {
            Some(place) => *place = head,
            None => unreachable!("the first binding of a list is in the index"),
        }
    }

    pub fn remove(&mut self, bindings: &mut BindingTable, binding: u32) {
        if bindings.previous(BindingList::Alike, binding).is_some() {
            // Not the first: the list keeps its head.
            return bindings.unlink(BindingList::Alike, &mut ListHead::default(), binding);
        }
        let hash = hash_of(&self.hash, bindings.get(binding).source, bindings.key(binding));
        let mut list = ListHead(binding);
        bindings.unlink(BindingList::Alike, &mut list, binding);
        if list.0 != NONE {
            return self.set_head(hash, binding, list.0);
        }
        let state = &self.hash;
        let hash_of_head = |&head: &u32| hash_of(state, bindings.get(head).source, bindings.key(head));
        let removed = self.heads.remove(hash, |&other| other == binding, hash_of_head);
        assert!(removed.is_some(), "every binding of a direct exchange is under its key");
    }

    /// The first binding with this key; the others are behind it, `Through::Alike`.
    #[inline]
    pub fn find(&self, bindings: &BindingTable, exchange: u32, key: &[u8]) -> Option<u32> {
        let same = |&head: &u32| bindings.get(head).source == exchange && bindings.key(head) == key;
        self.heads.find(hash_of(&self.hash, exchange, key), same).copied()
    }

    /// Selects the bindings with this key.
    pub fn route(&self, bindings: &BindingTable, exchange: u32, key: &[u8], found: &mut Vec<SelectedList>) {
        let first = self.find(bindings, exchange, key);
        found.extend(first.map(|first| SelectedList { list: BindingList::Alike, first }));
    }
}
