//! The bindings that were made while a divided search was under way.
//!
//! Enters: the exchanges at which the search has looked.  Leaves: where their newer bindings lead; alternate exchanges where none
//!         leads anywhere.
//! Owns:   when a search is complete: once it has looked at every binding that is there, whenever that was made. It has come upon
//!         each then that was there all the time, or has replaced one that says the same.

use super::keyed_routes::KeyedRoute;
use super::newer_rounds::{NewerRound, SearchedExchange};
use super::routing::search_work;
use super::*;
use crate::{
    binding::BindingList,
    exchange::{RoutingTable, federation_upstream, topic},
};
use wire::RawProperties;

/// Comparisons of a routing key with a binding's that are made in one unit of work.
const KEYS_A_UNIT: u64 = 8;

impl Catalog {
    /// Looks at bindings that are newer than the search as far as the work goes, after all others. Answers whether there was
    /// anything left to look at.
    pub(super) fn look_at_newer(
        &mut self,
        search: &mut KeyedRoute,
        properties: RawProperties<'_>,
        work_end: u64,
    ) -> bool {
        if search.newer.is_complete {
            return false;
        }
        let last = self.bindings.last_serial();
        let mut round = match search.newer.round.take() {
            Some(round) => round,
            None if search.newer.seen == last => {
                let any = self.visit_alternates(search, work_end);
                search.newer.is_complete = !any;
                return any;
            }
            None => {
                search.newer.setbacks += 1;
                NewerRound { end: last, at: 0, mark: None }
            }
        };
        while let Some(SearchedExchange { id, any }) = search.newer.searched.get(round.at).copied() {
            if self.work >= work_end {
                search.newer.round = Some(round);
                return true;
            }
            self.work += 1;
            let mut any = any;
            let mut next = None;
            // Of an exchange that is gone nothing is left to look at.
            let mark = round.mark.take();
            if let Some(exchange) = self.exchanges.get(id) {
                let marked = mark.map(|mark| self.bindings.find_mark(mark));
                // If that one is gone, its exchange has its turn anew.
                search.newer.setbacks += u32::from(marked == Some(None));
                next = marked.flatten().or(exchange.from.first());
            }
            while let Some(binding) = next.filter(|&binding| self.bindings.is_newer(binding, search.newer.seen)) {
                if self.work >= work_end {
                    round.mark = Some(self.bindings.mark(binding));
                    break;
                }
                if self.selects(binding, search, properties) {
                    let target = self.bindings.get(binding).target;
                    any |= self.follow(search, target);
                }
                next = self.bindings.next(BindingList::Source, binding);
            }
            search.newer.searched[round.at].any = any;
            if round.mark.is_some() {
                search.newer.round = Some(round);
                return true;
            }
            round.at += 1;
        }
        search.newer.seen = round.end;
        true
    }

    /// Goes on with the alternate exchanges of those that lead nowhere, as far as the work goes. Answers whether there is one, or
    /// may be.
    fn visit_alternates(&mut self, search: &mut KeyedRoute, work_end: u64) -> bool {
        let mut has_one = false;
        while let Some(id) = search.newer.next_without_way() {
            self.work += 1;
            if self.exchanges.get(id).is_some()
                && let Some(alternate) = self.alternate(id.index)
            {
                search.visit(self.exchanges.id(alternate));
                has_one = true;
            }
            if self.work >= work_end {
                return true;
            }
        }
        has_one
    }

    /// Whether a binding is for the message of a search, which its exchange does not hold back. A consistent-hash exchange has
    /// chosen one of those that were there.
    fn selects(&mut self, binding: u32, search: &KeyedRoute, properties: RawProperties<'_>) -> bool {
        let exchange = self.exchanges.0.at(self.bindings.get(binding).source);
        self.work += 1;
        match &exchange.matching {
            RoutingTable::Fanout => true,
            RoutingTable::ConsistentHash(_) => false,
            RoutingTable::Direct => {
                let wanted = self.bindings.key(binding);
                let mut keys = 0;
                let is_one = search.keys().inspect(|_| keys += 1).any(|key| key == wanted);
                self.work += keys / KEYS_A_UNIT;
                is_one
            }
            RoutingTable::Topic => {
                let (pattern, mut words) = (self.bindings.key(binding), 0);
                let is_one = search.keys().any(|key| topic::matches(pattern, key, &mut words));
                self.work += words / KEYS_A_UNIT;
                is_one
            }
            RoutingTable::Headers { .. } => {
                let headers = properties.headers().unwrap_or_default();
                self.headers.is_satisfied(&self.bindings, binding, headers, &mut self.work)
            }
            RoutingTable::FederationUpstream(downstream) => {
                self.work += search_work(properties);
                downstream.wants(federation_upstream::trace(properties))
            }
        }
    }
}
