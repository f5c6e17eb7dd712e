//! A copy of the catalog for somebody else, made in pieces: a million bindings in one piece hold everybody for 40 ms.
//!
//! Enters: a catalog that stays as it is.  Leaves: another one that says the same and gives the same ids.
//! Never:  copies what routing remembers, or who watches: these are no definitions.

use super::*;
use crate::{
    copy_budget::CopyBudget,
    exchange::{ExchangeEntry, RoutingTable},
};

/// A copy under way.
pub struct CatalogCopy {
    copy: Catalog,
    /// The exchange whose seats are copied next, if it chooses by a hash.
    next_ring: usize,
}

impl CatalogCopy {
    /// Begins to copy a catalog in which all definitions are finished. No definition may be executed before the copy is complete.
    pub fn new(catalog: &Catalog) -> Self {
        assert!(!catalog.has_unfinished(), "a catalog is copied between definitions");
        let Catalog { share, version, next_queue_uid, rings_bytes, topics_restricted, upstreams, .. } = *catalog;
        let limits = catalog.limits.clone();
        let copy = Catalog {
            version,
            vhosts: catalog.vhosts.begin_copy(),
            exchanges: ExchangeTable(catalog.exchanges.0.begin_copy()),
            queues: catalog.queues.begin_copy(),
            next_queue_uid,
            bindings: catalog.bindings.begin_copy(),
            direct: catalog.direct.begin_copy(),
            topics: catalog.topics.begin_copy(),
            headers: catalog.headers.begin_copy(),
            rings_bytes,
            users: catalog.users.begin_copy(),
            permissions: PermissionCache::new(&limits),
            topics_restricted,
            routes: RouteCache::new(&limits),
            walk: RouteSearch::default(),
            watches: BindingSubscriptions::new(&limits),
            upstreams,
            removals: Vec::new(),
            removals_without_routes: 0,
            renewal: None,
            work: 0,
            share,
            limits,
        };
        CatalogCopy { copy, next_ring: 0 }
    }

    /// Copies about so many bytes more of the same catalog. Returns whether the copy is complete.
    pub fn proceed(&mut self, catalog: &Catalog, bytes: usize) -> bool {
        assert_eq!(catalog.version, self.copy.version, "no definition is executed before a copy is complete");
        let (copy, budget) = (&mut self.copy, &mut CopyBudget::new(bytes));
        catalog.vhosts.copy_part(&mut copy.vhosts, budget)
            && catalog.users.copy_part(&mut copy.users, budget)
            && catalog.exchanges.0.copy_part(&mut copy.exchanges.0, budget, ExchangeEntry::begin_copy)
            && self.copy_rings(catalog, budget)
            && catalog.queues.copy_part(&mut self.copy.queues, budget)
            && catalog.bindings.copy_part(&mut self.copy.bindings, budget)
            && catalog.direct.copy_part(&mut self.copy.direct, budget)
            && catalog.topics.copy_part(&mut self.copy.topics, budget)
            && catalog.headers.copy_part(&mut self.copy.headers, budget)
    }

    /// Seats of consistent-hash exchanges: one may have as many as there are bindings.
    fn copy_rings(&mut self, catalog: &Catalog, budget: &mut CopyBudget) -> bool {
        while self.next_ring < catalog.exchanges.0.end() as usize {
            let index = self.next_ring as u32;
            if let Some(RoutingTable::ConsistentHash(ring)) = catalog.exchanges.0.get(index).map(|from| &from.matching)
                && let RoutingTable::ConsistentHash(copy) = &mut self.copy.exchanges.0.at_mut(index).matching
                && !ring.copy_part(copy, budget)
            {
                return false;
            }
            self.next_ring += 1;
            budget.draw(size_of::<u32>());
            if budget.is_spent() {
                return false;
            }
        }
        true
    }

    /// The complete copy.
    pub fn into_catalog(self) -> Catalog {
        self.copy
    }
}
