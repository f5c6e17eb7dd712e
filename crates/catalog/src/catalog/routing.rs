//! Routing: what happens for every message.
//!
//! Enters: an exchange, a routing key, properties.  Leaves: the queues, each once.
//! Owns:   the walk from exchange to exchange, and its scratch.

use super::*;
use crate::{
    binding::{BindingList, BindingTarget, NONE},
    exchange::{ExchangeEntry, ExchangeKind, RoutingTable, delayed, fanout, federation_upstream},
    ids::ExchangeId,
    limits::SCRATCH_ENTRIES_MAX,
    route::{QueueRoute, RouteDependence, RoutedQueue},
};
use std::sync::Arc;
use wire::RawProperties;

/// Scratch of a walk. Kept, so that walking allocates only while it grows.
pub(super) struct RouteSearch {
    /// Tells the exchanges that this walk has seen from those of walks before.
    number: u32,
    to_visit: Vec<u32>,
    pub targets: Vec<BindingTarget>,
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
            targets: Vec::new(),
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
            self.to_visit.capacity() + self.targets.capacity() + self.queues.capacity() + self.held.capacity();
        let last: usize = self.last.iter().map(|route| size_of_val(&*route.queues)).sum();
        scratch * size_of::<u32>() + self.routed.capacity() * size_of::<RoutedQueue>() + last
    }

    #[inline]
    pub fn nowhere(&self, decided: RouteDependence) -> Arc<QueueRoute> {
        Arc::clone(&self.nowhere[decided as usize])
    }
}

impl Catalog {
    /// Where a message goes: bindings from exchange to exchange are followed, alternate exchanges where one finds no
    /// place, and each queue comes once. Nowhere if the exchange is gone.
    #[inline]
    pub fn route(&mut self, id: ExchangeId, routing_key: &[u8], properties: RawProperties<'_>) -> Arc<QueueRoute> {
        let Some(exchange) = self.exchanges.get(id) else { return self.walk.nowhere(RouteDependence::ByKey) };
        match exchange.definition.kind {
            ExchangeKind::Direct if exchange.definition.is_default() => {
                return match self.queues.table.find(exchange.definition.vhost, routing_key) {
                    Some(queue) => self.queues.route(queue),
                    None => self.walk.nowhere(RouteDependence::ByKey),
                };
            }
            ExchangeKind::Direct => {
                // Most keys of a direct exchange lead to one queue, which is found no slower than a remembered route.
                if let Some(binding) = self.direct.find(&self.bindings, id.index, routing_key)
                    && self.bindings.next(BindingList::Alike, binding).is_none()
                    && let target = self.bindings.get(binding).target
                    && target.as_exchange().is_none()
                    && self.removals.is_empty()
                {
                    return self.queues.route(target.index());
                }
            }
            ExchangeKind::Headers | ExchangeKind::Delayed | ExchangeKind::FederationUpstream => {
                return self.walk_from(id.index, routing_key, properties);
            }
            ExchangeKind::ConsistentHash if !is_by_key(exchange) => {
                return self.walk_from(id.index, routing_key, properties);
            }
            ExchangeKind::Fanout | ExchangeKind::Topic | ExchangeKind::ConsistentHash => {}
        }
        // Where bindings lead to what is being removed, it may turn out to lead nowhere.
        let key = if self.removals.is_empty() && is_deaf(exchange) { b"" } else { routing_key };
        let version = exchange.version.max(self.vhosts.at(exchange.definition.vhost).version);
        let hash = self.routes.hash(id.index, key);
        let known = self.routes.find(hash, id.index, key, version);
        // Routes that depend on traces are remembered for messages without one.
        let is_first = |route: &QueueRoute| {
            route.decided == RouteDependence::ByKey || federation_upstream::trace(properties).is_none()
        };
        if let Some(route) = known
            && is_first(&route)
        {
            return route;
        }
        let route = self.walk_from(id.index, routing_key, properties);
        if route.decided < RouteDependence::ByMessage && is_first(&route) {
            self.routes.insert(hash, id.index, key, self.version, &route);
        }
        route
    }

    fn walk_from(&mut self, index: u32, key: &[u8], properties: RawProperties<'_>) -> Arc<QueueRoute> {
        let mut walk = std::mem::take(&mut self.walk.to_visit);
        let mut targets = std::mem::take(&mut self.walk.targets);
        self.walk.queues.clear();
        self.next_walk();
        self.headers.begin();
        let (mut decided, mut stamped) = (RouteDependence::ByKey, false);
        self.visit_once(index, &mut walk);
        while let Some(index) = walk.pop() {
            targets.clear();
            match self.targets(index, key, properties, &mut targets) {
                Some(dependence) => decided = decided.max(dependence),
                None => {
                    self.walk.held.push(index);
                    continue;
                }
            }
            if targets.is_empty()
                && let Some(alternate) = self.alternate(index)
            {
                self.visit_once(alternate, &mut walk);
            }
            for target in &targets {
                match target.as_exchange() {
                    Some(exchange) => stamped |= self.visit_once(exchange, &mut walk),
                    None => self.walk.queues.push(target.index()),
                }
            }
        }
        targets.shrink_to(SCRATCH_ENTRIES_MAX);
        (self.walk.to_visit, self.walk.targets) = (walk, targets);
        self.found(decided, stamped)
    }

    /// Where an exchange leads a message with this key, and what of the message decided that; `None` if it holds it back.
    pub(super) fn targets(
        &mut self,
        index: u32,
        key: &[u8],
        properties: RawProperties<'_>,
        targets: &mut Vec<BindingTarget>,
    ) -> Option<RouteDependence> {
        let exchange = self.exchanges.0.at(index);
        let (from, root, mut work) = (exchange.from, exchange.root, 1);
        let mut decided = RouteDependence::ByKey;
        if exchange.definition.kind == ExchangeKind::Delayed {
            decided = RouteDependence::ByMessage;
            if delayed::delay_ms(properties).is_some() {
                return None;
            }
        }
        match &exchange.matching {
            RoutingTable::Direct => work += self.direct.route(&self.bindings, index, key, targets),
            RoutingTable::Fanout => work += fanout::route(&self.bindings, from, targets),
            RoutingTable::Topic => work += self.topics.route(&self.bindings, root, key, targets),
            RoutingTable::ConsistentHash(ring) => {
                if !ring.is_by_key() {
                    decided = RouteDependence::ByMessage;
                }
                let all_stay = self.removals.is_empty();
                let stays = |binding| all_stay || !self.is_leaving(self.bindings.get(binding).target);
                targets.extend(ring.route(&self.bindings, key, properties, stays, &mut work));
            }
            RoutingTable::Headers { size } => {
                decided = RouteDependence::ByMessage;
                let headers = properties.headers().unwrap_or_default();
                work += self.headers.route(&self.bindings, (index, from), *size, headers, targets);
            }
            RoutingTable::FederationUpstream(downstream) => {
                decided = decided.max(RouteDependence::ByKeyAndTrace);
                if downstream.wants(federation_upstream::trace(properties)) {
                    work += fanout::route(&self.bindings, from, targets);
                }
            }
        }
        if !self.removals.is_empty() {
            targets.retain(|&target| !self.is_leaving(target));
        }
        self.work += work;
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
