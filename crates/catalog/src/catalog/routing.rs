//! Routing: what happens for every message.
//!
//! Enters: an exchange, a routing key, properties.  Leaves: the queues, each once.
//! Owns:   the walk from exchange to exchange, and its scratch.

use super::*;
use crate::{
    binding::{BindingList, BindingTarget, NONE, SelectedList},
    exchange::{
        ExchangeEntry, ExchangeKind, RoutingTable, delayed, fanout, federation_upstream,
        selection_cursor::SelectionCursor,
    },
    ids::ExchangeId,
    limits::{HEADER_BYTES_SEARCHED_PER_WORK, SCRATCH_ENTRIES_MAX},
    route::{QueueRoute, RouteDependence, RoutedQueue},
};
use std::sync::Arc;
use wire::RawProperties;

/// What an exchange selects for a message: lists of bindings, which are yet to be walked, or where single bindings lead.
#[derive(Clone, Default)]
pub(super) struct Selection {
    pub lists: Vec<SelectedList>,
    pub targets: Vec<BindingTarget>,
}

impl Selection {
    pub fn clear(&mut self) {
        self.lists.clear();
        self.targets.clear();
    }
}

/// Scratch of a walk. Kept, so that walking allocates only while it grows.
#[derive(Clone)]
pub(super) struct RouteSearch {
    /// Tells the exchanges that this walk has seen from those of walks before.
    number: u32,
    to_visit: Vec<u32>,
    pub selected: Selection,
    pub cursor: SelectionCursor,
    /// Indexes of queues.
    queues: Vec<u32>,
    routed: Vec<RoutedQueue>,
    /// Indexes of exchanges that hold the message back.
    held: Vec<u32>,
    /// By what decided.
    nowhere: [Arc<QueueRoute>; 3],
    /// The last route to several queues, by what decided: the next one is often the same.
    last: [Arc<QueueRoute>; 3],
}

impl Default for RouteSearch {
    fn default() -> Self {
        let nowhere =
            [RouteDependence::ByKey, RouteDependence::ByKeyAndTrace, RouteDependence::ByMessage].map(|decided| {
                Arc::new(QueueRoute { queues: Box::default(), held: Box::default(), decided, stamped: false })
            });
        Self {
            number: 0,
            to_visit: Vec::new(),
            selected: Selection::default(),
            cursor: SelectionCursor::default(),
            queues: Vec::new(),
            routed: Vec::new(),
            held: Vec::new(),
            last: nowhere.clone(),
            nowhere,
        }
    }
}

impl RouteSearch {
    pub fn bytes(&self) -> usize {
        let scratch =
            self.to_visit.capacity() + self.selected.targets.capacity() + self.queues.capacity() + self.held.capacity();
        let lists = self.selected.lists.capacity() * size_of::<SelectedList>();
        let last: usize = self.last.iter().map(|route| size_of_val(&*route.queues)).sum();
        scratch * size_of::<u32>()
            + self.routed.capacity() * size_of::<RoutedQueue>()
            + lists
            + last
            + self.cursor.bytes()
    }

    #[inline]
    pub fn nowhere(&self, decided: RouteDependence) -> Arc<QueueRoute> {
        Arc::clone(&self.nowhere[decided as usize])
    }
}

impl Catalog {
    /// Where a message goes: bindings from exchange to exchange are followed, alternate exchanges where one finds no
    /// place, and each queue comes once. Nowhere if the exchange is gone.
    pub fn route(&mut self, id: ExchangeId, routing_key: &[u8], properties: RawProperties<'_>) -> Arc<QueueRoute> {
        match self.route_within(id, routing_key, properties, u64::MAX) {
            Ok(route) => route,
            Err(_) => unreachable!("a search without a limit ends"),
        }
    }

    /// Where a message goes, if that is found with so much [work](Self::take_work) or little more. Otherwise the search for it,
    /// which is to be [continued](Self::continue_route).
    #[inline]
    pub fn route_within(
        &mut self,
        id: ExchangeId,
        routing_key: &[u8],
        properties: RawProperties<'_>,
        work_max: u64,
    ) -> Result<Arc<QueueRoute>, Box<KeyedRoute>> {
        if let Some(route) = self.known_route(id, routing_key, properties) {
            return Ok(route);
        }
        let route = self.walk_or_search(id, routing_key, properties, work_max)?;
        self.remember(id, routing_key, properties, &route);
        Ok(route)
    }

    /// Where a message goes, if that takes no search and no [work](Self::take_work): from an exchange where one lookup decides,
    /// or by a route that is remembered.
    #[inline]
    pub fn known_route(
        &mut self,
        id: ExchangeId,
        routing_key: &[u8],
        properties: RawProperties<'_>,
    ) -> Option<Arc<QueueRoute>> {
        let Some(exchange) = self.exchanges.get(id) else { return Some(self.walk.nowhere(RouteDependence::ByKey)) };
        match exchange.definition.kind {
            ExchangeKind::Direct if exchange.definition.is_default() => {
                return Some(match self.queues.table.find(exchange.definition.vhost, routing_key) {
                    Some(queue) => self.queues.route(queue),
                    None => self.walk.nowhere(RouteDependence::ByKey),
                });
            }
            ExchangeKind::Direct => {
                // Most keys of a direct exchange lead to one queue, which is found no slower than a remembered route.
                if let Some(binding) = self.direct.find(&self.bindings, id.index, routing_key)
                    && self.bindings.next(BindingList::Alike, binding).is_none()
                    && let target = self.bindings.get(binding).target
                    && target.as_exchange().is_none()
                    && self.removals.is_empty()
                {
                    return Some(self.queues.route(target.index()));
                }
            }
            _ if !is_remembered(exchange) => return None,
            _ => {}
        }
        let (hash, key, version) = self.cache_place(exchange, id, routing_key);
        self.routes.find(hash, id.index, key, version).filter(|route| is_for(route, properties))
    }

    /// Under which hash and key a route from an exchange is remembered, and since which version it holds.
    #[inline]
    fn cache_place<'a>(&self, exchange: &ExchangeEntry, id: ExchangeId, routing_key: &'a [u8]) -> (u64, &'a [u8], u64) {
        // Where bindings lead to what is being removed, it may turn out to lead nowhere.
        let key = if self.removals.is_empty() && is_deaf(exchange) { b"" } else { routing_key };
        let version = exchange.version.max(self.vhosts.at(exchange.definition.vhost).version);
        (self.routes.hash(id.index, key), key, version)
    }

    /// Remembers a route that a search has found, as a walk would.
    pub(super) fn remember(
        &mut self,
        id: ExchangeId,
        key: &[u8],
        properties: RawProperties<'_>,
        route: &Arc<QueueRoute>,
    ) {
        let Some(exchange) = self.exchanges.get(id) else { return };
        if !is_remembered(exchange) || !is_for(route, properties) {
            return;
        }
        let (hash, key, version) = self.cache_place(exchange, id, key);
        if self.routes.find(hash, id.index, key, version).is_none() {
            self.routes.insert(hash, id.index, key, self.version, route);
        }
    }

    fn walk_or_search(
        &mut self,
        id: ExchangeId,
        key: &[u8],
        properties: RawProperties<'_>,
        work_max: u64,
    ) -> Result<Arc<QueueRoute>, Box<KeyedRoute>> {
        // Most walks are short: only one that is not is begun anew as a search, which can stop anywhere.
        match self.walk_from(id.index, key, properties, work_max) {
            Some(route) => Ok(route),
            None => Err(begin_search(id, key)),
        }
    }

    /// `None` if it takes more work and could be divided.
    fn walk_from(
        &mut self,
        index: u32,
        key: &[u8],
        properties: RawProperties<'_>,
        work_max: u64,
    ) -> Option<Arc<QueueRoute>> {
        let work_end = self.work.saturating_add(work_max);
        let mut walk = std::mem::take(&mut self.walk.to_visit);
        let mut selected = std::mem::take(&mut self.walk.selected);
        let mut cursor = std::mem::take(&mut self.walk.cursor);
        self.walk.queues.clear();
        self.walk.held.clear();
        self.next_walk();
        self.headers.begin();
        let (mut decided, mut stamped) = (RouteDependence::ByKey, false);
        self.visit_once(index, &mut walk);
        let mut is_whole = true;
        while let Some(index) = walk.pop() {
            cursor.clear();
            let work_left = work_end.saturating_sub(self.work);
            match self.select(index, key, properties, (&mut cursor, work_left), &mut selected) {
                Some(dependence) => decided = decided.max(dependence),
                None => {
                    self.walk.held.push(index);
                    continue;
                }
            }
            let Selection { lists, targets } = &mut selected;
            is_whole &= cursor.is_done && lists.iter().all(|&list| self.walk_list(list, work_end, targets));
            if targets.is_empty()
                && let Some(alternate) = self.alternate(index)
            {
                self.visit_once(alternate, &mut walk);
            }
            for target in targets {
                match target.as_exchange() {
                    Some(exchange) => stamped |= self.visit_once(exchange, &mut walk),
                    None => self.walk.queues.push(target.index()),
                }
            }
            is_whole &= walk.is_empty() || self.work <= work_end;
            if !is_whole {
                walk.clear();
            }
        }
        selected.targets.shrink_to(SCRATCH_ENTRIES_MAX);
        selected.lists.shrink_to(SCRATCH_ENTRIES_MAX);
        (self.walk.to_visit, self.walk.selected, self.walk.cursor) = (walk, selected, cursor);
        is_whole.then(|| self.found(decided, stamped))
    }

    /// Appends where the bindings of a list lead. Answers whether that was done before the work had come to its end.
    #[inline]
    fn walk_list(&mut self, list: SelectedList, work_end: u64, targets: &mut Vec<BindingTarget>) -> bool {
        let all_stay = self.removals.is_empty();
        let mut next = Some(list.first);
        while let Some(binding) = next {
            if self.work > work_end {
                return false;
            }
            self.work += 1;
            let target = self.bindings.get(binding).target;
            if all_stay || !self.is_leaving(target) {
                targets.push(target);
            }
            next = self.bindings.next(list.list, binding);
        }
        true
    }

    /// What an exchange selects for a message with this key, from where the cursor is until so much work is done, and what of the
    /// message decided that; `None` if it holds it back.
    pub(super) fn select(
        &mut self,
        index: u32,
        key: &[u8],
        properties: RawProperties<'_>,
        (cursor, work_max): (&mut SelectionCursor, u64),
        Selection { lists, targets }: &mut Selection,
    ) -> Option<RouteDependence> {
        lists.clear();
        targets.clear();
        let exchange = self.exchanges.0.at(index);
        let (from, root, mut work) = (exchange.from, exchange.root, 1);
        let (mut decided, mut is_done) = (RouteDependence::ByKey, true);
        if exchange.definition.kind == ExchangeKind::Delayed {
            decided = RouteDependence::ByMessage;
            work += search_work(properties);
            if delayed::delay_ms(properties).is_some() {
                self.work += work;
                return None;
            }
        }
        match &exchange.matching {
            RoutingTable::Direct => self.direct.route(&self.bindings, index, key, lists),
            RoutingTable::Fanout => fanout::route(from, lists),
            RoutingTable::Topic => {
                let limits = (&mut cursor.topic, work_max);
                let (units, is_whole) = self.topics.route(&self.bindings, root, key, limits, lists);
                (work, is_done) = (work + units, is_whole);
            }
            RoutingTable::ConsistentHash(ring) => {
                if !ring.is_by_key() {
                    decided = RouteDependence::ByMessage;
                    work += search_work(properties);
                }
                let all_stay = self.removals.is_empty();
                let stays = |binding| all_stay || !self.is_leaving(self.bindings.get(binding).target);
                let (message, limits) = ((key, properties), (&mut cursor.hash, work_max));
                let (target, is_drawn) = ring.route(&self.bindings, message, (all_stay, stays), limits, &mut work);
                is_done = is_drawn;
                targets.extend(target);
            }
            RoutingTable::Headers { size } => {
                decided = RouteDependence::ByMessage;
                let headers = properties.headers().unwrap_or_default();
                cursor.headers_restarts += u32::from(self.headers.has_lost(&self.bindings, &cursor.headers));
                let (from, limits) = ((index, from, *size), (&mut cursor.headers, work_max));
                let (units, is_whole) = self.headers.route(&self.bindings, from, headers, limits, targets);
                (work, is_done) = (work + units, is_whole);
            }
            RoutingTable::FederationUpstream(downstream) => {
                decided = decided.max(RouteDependence::ByKeyAndTrace);
                work += search_work(properties);
                if downstream.wants(federation_upstream::trace(properties)) {
                    fanout::route(from, lists);
                }
            }
        }
        if !self.removals.is_empty() {
            targets.retain(|&target| !self.is_leaving(target));
        }
        self.work += work;
        cursor.is_done = is_done;
        Some(decided)
    }

    /// Where messages go that an exchange finds no place for.
    pub(super) fn alternate(&self, index: u32) -> Option<u32> {
        let exchange = self.exchanges.0.at(index);
        self.exchanges.0.find(exchange.definition.vhost, exchange.alternate.as_ref()?.as_bytes())
    }

    /// The route to the queues that a walk has come upon.
    fn found(&mut self, decided: RouteDependence, stamped: bool) -> Arc<QueueRoute> {
        let RouteSearch { queues, routed, last, held, .. } = &mut self.walk;
        self.work += queues.len() as u64;
        if queues.len() > 1 {
            queues.sort_unstable();
            queues.dedup();
        }
        if !held.is_empty() {
            let queues = queues.iter().map(|&queue| self.queues.routed(queue)).collect();
            let held = held.drain(..).map(|index| self.exchanges.id(index)).collect();
            return Arc::new(QueueRoute { queues, held, decided: RouteDependence::ByMessage, stamped });
        }
        match **queues {
            [] => return self.walk.nowhere(decided),
            [queue] if decided == RouteDependence::ByKey && !stamped => return self.queues.route(queue),
            _ => {}
        }
        routed.clear();
        routed.extend(queues.iter().map(|&queue| self.queues.routed(queue)));
        let last = &mut last[decided as usize];
        if *last.queues != **routed || last.stamped != stamped {
            *last = Arc::new(QueueRoute { queues: routed.as_slice().into(), held: Box::default(), decided, stamped });
        }
        Arc::clone(last)
    }

    fn next_walk(&mut self) {
        self.walk.number = match self.walk.number.checked_add(1) {
            Some(number) => number,
            None => {
                self.exchanges.0.iter_mut().for_each(|(_, exchange)| exchange.walk = 0);
                1
            }
        };
    }

    /// Answers whether what goes there is stamped.
    #[inline]
    fn visit_once(&mut self, index: u32, to_visit: &mut Vec<u32>) -> bool {
        let exchange = self.exchanges.0.at_mut(index);
        if exchange.walk != self.walk.number {
            exchange.walk = self.walk.number;
            to_visit.push(index);
        }
        exchange.stamped > 0
    }
}

#[cold]
fn begin_search(id: ExchangeId, key: &[u8]) -> Box<KeyedRoute> {
    Box::new(KeyedRoute::new(id, std::iter::once(key)))
}

/// Whether a route is for other messages with this key, too. Those that depend on traces are remembered for messages without
/// one.
#[inline]
fn is_for(route: &QueueRoute, properties: RawProperties<'_>) -> bool {
    match route.decided {
        RouteDependence::ByKey => true,
        RouteDependence::ByKeyAndTrace => federation_upstream::trace(properties).is_none(),
        RouteDependence::ByMessage => false,
    }
}

/// Whether routes from an exchange are remembered by their routing key.
#[inline]
fn is_remembered(exchange: &ExchangeEntry) -> bool {
    match exchange.definition.kind {
        ExchangeKind::Direct | ExchangeKind::Fanout | ExchangeKind::Topic => true,
        ExchangeKind::ConsistentHash => is_by_key(exchange),
        ExchangeKind::Headers | ExchangeKind::Delayed | ExchangeKind::FederationUpstream => false,
    }
}

/// Whether nothing of a message but its routing key makes a difference to a consistent-hash exchange.
fn is_by_key(exchange: &ExchangeEntry) -> bool {
    matches!(&exchange.matching, RoutingTable::ConsistentHash(ring) if ring.is_by_key())
}

/// Whether the routing key makes no difference: a fanout exchange that leads to queues alone.
fn is_deaf(exchange: &ExchangeEntry) -> bool {
    exchange.definition.kind == ExchangeKind::Fanout
        && exchange.to_exchanges == 0
        && (exchange.from.0 != NONE || exchange.alternate.is_none())
}

/// Units of work of those that look through the headers of a message anew.
pub(super) fn search_work(properties: RawProperties<'_>) -> u64 {
    let bytes = properties.headers().map_or(0, |headers| headers.as_bytes().len());
    (bytes / HEADER_BYTES_SEARCHED_PER_WORK) as u64
}
