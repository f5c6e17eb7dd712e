//! Direct exchange: the whole routing key must be the same.
//!
//! Enters: an exchange and a routing key.  Leaves: the bindings made with that key.
//! Owns:   one hash table over all direct exchanges, from exchange and key to the first such binding.

use crate::{
    binding::{BindingList, BindingTable, ListHead, NONE, SelectedList},
    limits::CatalogLimits,
};
use foldhash::fast::FixedState;
use hashbrown::{HashTable, hash_table::Entry};
use std::hash::{BuildHasher, Hasher};

pub(crate) struct DirectIndex {
    heads: HashTable<u32>,
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
        Self { heads: HashTable::new(), hash: FixedState::with_seed(limits.hash_seed) }
    }

    pub fn bytes(&self) -> usize {
        self.heads.allocation_size()
    }

    pub fn add(&mut self, bindings: &mut BindingTable, binding: u32) {
        let (exchange, key) = (bindings.get(binding).source, bindings.key(binding));
        let hash = hash_of(&self.hash, exchange, key);
        let state = &self.hash;
        let entry = self.heads.entry(
            hash,
            |&head| bindings.get(head).source == exchange && bindings.key(head) == key,
            |&head| hash_of(state, bindings.get(head).source, bindings.key(head)),
        );
        match entry {
            Entry::Occupied(mut entry) => {
                let mut head = ListHead(*entry.get());
                bindings.link(BindingList::Alike, &mut head, binding);
                *entry.get_mut() = head.0;
            }
            Entry::Vacant(entry) => {
                let mut head = ListHead::default();
                bindings.link(BindingList::Alike, &mut head, binding);
                entry.insert(head.0);
            }
        }
    }

    pub fn remove(&mut self, bindings: &mut BindingTable, binding: u32) {
        let (exchange, key) = (bindings.get(binding).source, bindings.key(binding));
        let hash = hash_of(&self.hash, exchange, key);
        let same = |&head: &u32| bindings.get(head).source == exchange && bindings.key(head) == key;
        match self.heads.find_entry(hash, same) {
            Ok(mut entry) => {
                let mut head = ListHead(*entry.get());
                bindings.unlink(BindingList::Alike, &mut head, binding);
                if head.0 == NONE {
                    entry.remove();
                } else {
                    *entry.get_mut() = head.0;
                }
            }
            Err(_) => unreachable!("every binding of a direct exchange is under its key"),
        }
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
