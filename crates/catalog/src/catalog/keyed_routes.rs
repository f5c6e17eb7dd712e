//! Routes by several routing keys, found a piece at a time (RabbitMQ's `CC` and `BCC`).
//!
//! Enters: an exchange, routing keys, properties.  Leaves: the queues, each once.
//! Owns:   a search that can stop after any key of any exchange, and go on when definitions have changed.

use super::*;
use crate::{
    binding::BindingTarget,
    exchange::RoutingTable,
    ids::ExchangeId,
    limits::ROUTED_QUEUES_SPARE,
    route::{QueueRoute, RouteDependence, RoutedQueue},
};
use hashbrown::HashSet;
use std::sync::Arc;
use wire::RawProperties;

/// The search for where a message goes that has several routing keys: wherever one of them leads, each queue once. The first
/// key alone counts where one queue is chosen by a hash of it, as in RabbitMQ.
///
/// It holds what it has found by id, so that it may go on after any change of definitions: a queue or exchange that is gone
/// by then gets nothing, and one that is new may get the message or not.
pub struct KeyedRoute {
    /// One behind the other.
    keys: Vec<u8>,
    /// The end of each key.
    ends: Vec<u32>,
    visited: HashSet<ExchangeId>,
    to_visit: Vec<ExchangeId>,
    /// The exchange whose turn it is, the next key to ask it for, and whether one before led anywhere.
    current: Option<(ExchangeId, usize, bool)>,
    queues: Vec<RoutedQueue>,
    /// How many queues there were when equal ones were taken out last.
    distinct: usize,
    held: Vec<ExchangeId>,
    stamped: bool,
}

impl KeyedRoute {
    /// A search from an exchange. Keys that come twice are looked for once.
    pub fn new<'a>(from: ExchangeId, keys: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut all: Vec<(usize, &[u8])> = keys.into_iter().enumerate().collect();
        all.sort_unstable_by_key(|&(number, key)| (key, number));
        all.dedup_by_key(|&mut (_, key)| key);
        all.sort_unstable_by_key(|&(number, _)| number);
        let mut search = Self {
            keys: Vec::with_capacity(all.iter().map(|(_, key)| key.len()).sum()),
            ends: Vec::with_capacity(all.len()),
            visited: HashSet::from([from]),
            to_visit: vec![from],
            current: None,
            queues: Vec::new(),
            distinct: 0,
            held: Vec::new(),
            stamped: false,
        };
        for (_, key) in all {
            search.keys.extend_from_slice(key);
            // The keys of a message fit its headers.
            search.ends.push(search.keys.len() as u32);
        }
        search
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.keys.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.visited.allocation_size()
            + (self.to_visit.capacity() + self.held.capacity()) * size_of::<ExchangeId>()
            + self.queues.capacity() * size_of::<RoutedQueue>()
    }

    fn key(&self, number: usize) -> Option<std::ops::Range<usize>> {
        let end = *self.ends.get(number)? as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(start..end)
    }

    fn visit(&mut self, exchange: ExchangeId) {
        if self.visited.insert(exchange) {
            self.to_visit.push(exchange);
        }
    }

    /// Queues that come up for many keys are kept once, or little more.
    fn push(&mut self, queue: RoutedQueue) {
        self.queues.push(queue);
        if self.queues.len() > 2 * self.distinct + ROUTED_QUEUES_SPARE {
            self.merge();
        }
    }

    fn merge(&mut self) {
        self.queues.sort_unstable();
        self.queues.dedup();
        self.distinct = self.queues.len();
    }
}

impl Catalog {
    /// Where a message goes that has several routing keys: all of a [`KeyedRoute`] at once. Such routes are not remembered.
    pub fn route_all(&mut self, id: ExchangeId, keys: &[&[u8]], properties: RawProperties<'_>) -> Arc<QueueRoute> {
        let mut search = KeyedRoute::new(id, keys.iter().copied());
        loop {
            if let Some(route) = self.continue_route(&mut search, properties, u64::MAX) {
                return route;
            }
        }
    }

    /// Goes on with a search until it is done, or has done so much [work](Self::take_work); one key of one exchange is looked
    /// for in any case. The properties are the same each time.
    pub fn continue_route(
        &mut self,
        search: &mut KeyedRoute,
        properties: RawProperties<'_>,
        work_max: u64,
    ) -> Option<Arc<QueueRoute>> {
        let mut targets = std::mem::take(&mut self.walk.targets);
        self.headers.begin();
        let before = self.work;
        let is_done = loop {
            if !self.look_for_next(search, properties, &mut targets) {
                break true;
            }
            if self.work - before >= work_max {
                break false;
            }
        };
        self.walk.targets = targets;
        is_done.then(|| self.found_by_keys(search))
    }

    /// Looks for one key at one exchange. Answers whether there was anything left to look for.
    fn look_for_next(
        &mut self,
        search: &mut KeyedRoute,
        properties: RawProperties<'_>,
        targets: &mut Vec<BindingTarget>,
    ) -> bool {
        let Some((id, number, any_before)) = search.current.take().or_else(|| Some((search.to_visit.pop()?, 0, false)))
        else {
            return false;
        };
        let (Some(exchange), Some(key)) = (self.exchanges.get(id), search.key(number)) else { return true };
        targets.clear();
        let key = &search.keys[key];
        let by_keys = match &exchange.matching {
            RoutingTable::Direct if exchange.definition.is_default() => {
                self.work += 1;
                targets.extend(self.queues.table.find(exchange.definition.vhost, key).map(BindingTarget::queue));
                true
            }
            matching => {
                let by_keys = matches!(matching, RoutingTable::Direct | RoutingTable::Topic);
                if self.targets(id.index, key, properties, targets).is_none() {
                    search.held.push(id);
                    return true;
                }
                by_keys
            }
        };
        self.work += targets.len() as u64;
        let any = any_before || !targets.is_empty();
        for target in targets.iter() {
            match target.as_exchange() {
                Some(index) => {
                    search.stamped |= self.exchanges.0.at(index).stamped > 0;
                    search.visit(self.exchanges.id(index));
                }
                None => search.push(self.queues.routed(target.index())),
            }
        }
        if by_keys && number + 1 < search.ends.len() {
            search.current = Some((id, number + 1, any));
        } else if !any && let Some(alternate) = self.alternate(id.index) {
            search.visit(self.exchanges.id(alternate));
        }
        true
    }

    fn found_by_keys(&mut self, search: &mut KeyedRoute) -> Arc<QueueRoute> {
        search.merge();
        let mut queues = std::mem::take(&mut search.queues);
        self.work += queues.len() as u64;
        // Some may have gone since they were found.
        queues.retain(|queue| self.queues.get(queue.id).is_some());
        let held = std::mem::take(&mut search.held);
        if queues.is_empty() && held.is_empty() {
            return self.walk.nowhere(RouteDependence::ByMessage);
        }
        let (queues, held) = (queues.into_boxed_slice(), held.into_boxed_slice());
        Arc::new(QueueRoute { queues, held, decided: RouteDependence::ByMessage, stamped: search.stamped })
    }
}
