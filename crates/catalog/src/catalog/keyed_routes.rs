//! Routes that are found a piece at a time: by several routing keys (RabbitMQ's `CC` and `BCC`), or to very many queues.
//!
//! Enters: an exchange, routing keys, properties.  Leaves: the queues, each once.
//! Owns:   a search that can stop after any key of any exchange, any node of its patterns and any binding, and go on when definitions have changed.

use super::newer_rounds::NewerRounds;
use super::routing::Selection;
use super::visited_exchanges::VisitedExchanges;
use super::*;
use crate::{
    binding::{BindingList, BindingMark, BindingTarget, SelectedList},
    exchange::{RoutingTable, selection_cursor::SelectionCursor},
    ids::ExchangeId,
    index_set::IndexSet,
    limits::SELECTION_WORK_MAX,
    queue::QueueEntry,
    route::{QueueRoute, RouteDependence, RoutedQueue},
};
use std::sync::Arc;
use wire::RawProperties;

/// A list of bindings that a search walks, at the binding where it goes on.
#[derive(Clone, Copy)]
struct ListCursor {
    list: BindingList,
    at: BindingMark,
}

/// The exchange whose turn it is, and the key for which it is asked.
#[derive(Clone, Copy)]
struct KeyLookup {
    exchange: ExchangeId,
    key: usize,
    /// This key is being looked for.
    is_begun: bool,
    /// The exchange is asked for other keys too.
    by_keys: bool,
    /// A key has led anywhere.
    any: bool,
}

/// The search for where a message goes: wherever one of its keys leads, each queue once. The first key alone counts where one
/// queue is chosen by a hash of it, as in RabbitMQ.
///
/// It holds what it has found so that it may go on after any change of definitions: a queue or exchange that is gone by then
/// gets nothing, and one that is new may get the message or not. If a binding that it was about to look at is gone, it looks for
/// the key at that exchange anew, by larger pieces. Where definitions have changed before it has looked at all bindings, it ends
/// with those that are newer (`NewerRounds`): one binding may have replaced another, and it would have come upon neither.
pub struct KeyedRoute {
    /// One behind the other.
    keys: Vec<u8>,
    /// The end of each key.
    ends: Vec<u32>,
    from: ExchangeId,
    visited: VisitedExchanges,
    to_visit: Vec<ExchangeId>,
    current: Option<KeyLookup>,
    /// How far that exchange has come in selecting bindings for that key.
    cursor: SelectionCursor,
    /// How far it had come when it selected the lists that are being walked.
    lists_from: SelectionCursor,
    lists: Vec<ListCursor>,
    /// Indexes of queues.
    found: IndexSet,
    /// The queues of the route, once all are found.
    queues: Vec<RoutedQueue>,
    /// Indexes below this are among them.
    next_queue: u32,
    held: Vec<ExchangeId>,
    stamped: bool,
    decided: RouteDependence,
    /// The version of the catalog and the last serial of a queue when it began.
    began: Option<(u64, u32)>,
    pub(super) newer: NewerRounds,
}

impl KeyedRoute {
    /// A search from an exchange. Keys that come twice are looked for once.
    pub fn new<'a>(from: ExchangeId, keys: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut all: Vec<(usize, &[u8])> = keys.into_iter().enumerate().collect();
        let is_one = all.len() == 1;
        all.sort_unstable_by_key(|&(number, key)| (key, number));
        all.dedup_by_key(|&mut (_, key)| key);
        all.sort_unstable_by_key(|&(number, _)| number);
        let mut visited = VisitedExchanges::default();
        visited.insert(from);
        let mut search = Self {
            keys: Vec::with_capacity(all.iter().map(|(_, key)| key.len()).sum()),
            ends: Vec::with_capacity(all.len()),
            from,
            visited,
            to_visit: vec![from],
            current: None,
            cursor: SelectionCursor::default(),
            lists_from: SelectionCursor::default(),
            lists: Vec::new(),
            found: IndexSet::default(),
            queues: Vec::new(),
            next_queue: 0,
            held: Vec::new(),
            stamped: false,
            // The further keys are headers.
            decided: if is_one { RouteDependence::ByKey } else { RouteDependence::ByMessage },
            began: None,
            newer: NewerRounds::default(),
        };
        for (_, key) in all {
            search.keys.extend_from_slice(key);
            // The keys of a message fit its headers.
            search.ends.push(search.keys.len() as u32);
        }
        search
    }

    /// The exchange from which it began.
    pub fn exchange(&self) -> ExchangeId {
        self.from
    }

    /// Whether no definition has changed since it began, so that its route holds for as long as none does.
    pub fn holds_at(&self, version: u64) -> bool {
        self.began.is_some_and(|(began, _)| began == version)
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.keys.capacity()
            + self.ends.capacity() * size_of::<u32>()
            + self.visited.bytes()
            + self.found.bytes()
            + (self.to_visit.capacity() + self.held.capacity()) * size_of::<ExchangeId>()
            + self.lists.capacity() * size_of::<ListCursor>()
            + self.cursor.bytes()
            + self.lists_from.bytes()
            + self.queues.capacity() * size_of::<RoutedQueue>()
            + self.newer.bytes()
    }

    /// All keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).filter_map(|number| Some(&self.keys[self.key(number)?]))
    }

    fn key(&self, number: usize) -> Option<std::ops::Range<usize>> {
        let end = *self.ends.get(number)? as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(start..end)
    }

    pub(super) fn visit(&mut self, exchange: ExchangeId) {
        if self.visited.insert(exchange) {
            self.to_visit.push(exchange);
        }
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

    /// Goes on with a search until it is done, or has done so much [work](Self::take_work). One key of one exchange is looked
    /// for, one binding looked at or one queue added in any case. The properties are the same each time.
    pub fn continue_route(
        &mut self,
        search: &mut KeyedRoute,
        properties: RawProperties<'_>,
        work_max: u64,
    ) -> Option<Arc<QueueRoute>> {
        let (_, last_serial) = *search.began.get_or_insert_with(|| {
            search.newer.begin(self.bindings.last_serial());
            (self.version, self.queues.table.last_serial())
        });
        let work_end = self.work.saturating_add(work_max.max(search.newer.work_min()));
        let mut selected = std::mem::take(&mut self.walk.selected);
        self.headers.begin();
        let is_done = loop {
            if !self.look_further(search, properties, work_end, &mut selected)
                && !self.look_at_newer(search, properties, work_end)
                && !self.add_queues(search, last_serial, work_end)
            {
                break true;
            }
            if self.work >= work_end {
                break false;
            }
        };
        self.walk.selected = selected;
        let route = is_done.then(|| self.found_by_keys(search))?;
        if let [end] = search.ends[..]
            && search.holds_at(self.version)
        {
            self.remember(search.from, &search.keys[..end as usize], properties, &route);
        }
        Some(route)
    }

    /// Looks for one key at one exchange, or at bindings that it has selected. Answers whether there was anything left to look
    /// for.
    fn look_further(
        &mut self,
        search: &mut KeyedRoute,
        properties: RawProperties<'_>,
        work_end: u64,
        selected: &mut Selection,
    ) -> bool {
        let mut lookup = match search.current.take() {
            Some(lookup) => lookup,
            None => {
                let Some(exchange) = search.to_visit.pop() else { return false };
                KeyLookup { exchange, key: 0, is_begun: false, by_keys: false, any: false }
            }
        };
        if self.exchanges.get(lookup.exchange).is_none() {
            search.lists.clear();
            return true;
        }
        if !lookup.is_begun {
            search.lists.clear();
            search.cursor.clear();
            lookup.is_begun = true;
        }
        if search.lists.is_empty() {
            search.lists_from.clone_from(&search.cursor);
            // Noting where the bindings lead is as much again.
            let work_max = (work_end.saturating_sub(self.work) / 2).min(SELECTION_WORK_MAX);
            if !self.select_by_key(search, &mut lookup, properties, work_max, selected) {
                return true;
            }
        } else if !self.walk_lists(search, &mut lookup, work_end) {
            // A binding that it was to look at is gone: what was selected with it is selected anew.
            search.newer.setbacks += 1;
            search.lists.clear();
            search.cursor.clone_from(&search.lists_from);
        }
        if search.cursor.is_done && search.lists.is_empty() {
            let is_last = !lookup.by_keys || lookup.key + 1 >= search.ends.len();
            if is_last {
                search.newer.add_exchange(lookup.exchange, lookup.any);
                return true;
            }
            (lookup.key, lookup.is_begun) = (lookup.key + 1, false);
        }
        search.current = Some(lookup);
        true
    }

    /// Has an exchange go on with selecting bindings for a key, until so much work is done. Answers whether it leads the message anywhere now: not if it holds it back.
    fn select_by_key(
        &mut self,
        search: &mut KeyedRoute,
        lookup: &mut KeyLookup,
        properties: RawProperties<'_>,
        work_max: u64,
        selected: &mut Selection,
    ) -> bool {
        let (Some(exchange), Some(key)) = (self.exchanges.get(lookup.exchange), search.key(lookup.key)) else {
            return false;
        };
        let key = &search.keys[key];
        match &exchange.matching {
            RoutingTable::Direct if exchange.definition.is_default() => {
                self.work += 1;
                lookup.by_keys = true;
                selected.clear();
                search.cursor.is_done = true;
                let queue = self.queues.table.find(exchange.definition.vhost, key);
                selected.targets.extend(queue.map(BindingTarget::queue));
            }
            matching => {
                lookup.by_keys = matches!(matching, RoutingTable::Direct | RoutingTable::Topic);
                let restarts = search.cursor.restarts();
                let limits = (&mut search.cursor, work_max);
                let decided = self.select(lookup.exchange.index, key, properties, limits, selected);
                search.newer.setbacks += search.cursor.restarts().wrapping_sub(restarts);
                match decided {
                    Some(decided) => search.decided = search.decided.max(decided),
                    None => {
                        search.held.push(lookup.exchange);
                        return false;
                    }
                }
            }
        }
        self.work += selected.targets.len() as u64;
        for &target in &selected.targets {
            lookup.any |= self.follow(search, target);
        }
        // The last is walked first.
        let cursor = |&SelectedList { list, first }: &SelectedList| ListCursor { list, at: self.bindings.mark(first) };
        search.lists.extend(selected.lists.iter().rev().map(cursor));
        true
    }

    /// Looks at the bindings of selected lists as far as the work goes, at one of them at least. Answers whether all of them
    /// are still there.
    fn walk_lists(&mut self, search: &mut KeyedRoute, lookup: &mut KeyLookup, work_end: u64) -> bool {
        while let Some(ListCursor { list, at }) = search.lists.pop() {
            let mut next = self.bindings.find_mark(at);
            if next.is_none() {
                return false;
            }
            while let Some(binding) = next {
                if self.work >= work_end {
                    search.lists.push(ListCursor { list, at: self.bindings.mark(binding) });
                    return true;
                }
                self.work += 1;
                let target = self.bindings.get(binding).target;
                lookup.any |= self.follow(search, target);
                next = self.bindings.next(list, binding);
            }
        }
        true
    }

    /// Notes where a binding leads. Answers whether that is anywhere.
    pub(super) fn follow(&mut self, search: &mut KeyedRoute, target: BindingTarget) -> bool {
        if !self.removals.is_empty() && self.is_leaving(target) {
            return false;
        }
        match target.as_exchange() {
            Some(index) => {
                search.stamped |= self.exchanges.0.at(index).stamped > 0;
                search.visit(self.exchanges.id(index));
            }
            None => _ = search.found.insert(target.index()),
        }
        true
    }

    /// Adds queues that were found to the route. Answers whether there was one left to add.
    fn add_queues(&mut self, search: &mut KeyedRoute, last_serial: u32, work_end: u64) -> bool {
        if search.queues.capacity() == 0 {
            search.queues.reserve_exact(search.found.len());
        }
        let mut any = false;
        while let Some(index) = search.found.next(search.next_queue) {
            if any && self.work >= work_end {
                return true;
            }
            any = true;
            self.work += 1;
            search.next_queue = index + 1;
            // The queue that was found may be gone, and its index another queue's.
            let queue = self.queues.table.get(index);
            let stays = |queue: &&QueueEntry| !queue.leaving && (queue.serial.wrapping_sub(last_serial) as i32) <= 0;
            if queue.filter(stays).is_some() {
                search.queues.push(self.queues.routed(index));
            }
        }
        any
    }

    fn found_by_keys(&mut self, search: &mut KeyedRoute) -> Arc<QueueRoute> {
        let (queues, held) = (std::mem::take(&mut search.queues), std::mem::take(&mut search.held));
        let decided = if held.is_empty() { search.decided } else { RouteDependence::ByMessage };
        if queues.is_empty() && held.is_empty() {
            return self.walk.nowhere(decided);
        }
        let (queues, held) = (queues.into_boxed_slice(), held.into_boxed_slice());
        Arc::new(QueueRoute { queues, held, decided, stamped: search.stamped })
    }
}
