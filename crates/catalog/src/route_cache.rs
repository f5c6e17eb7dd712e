//! The memory of routes: one table over all exchanges, from exchange and routing key to route.
//!
//! Enters: routes that took some finding.  Leaves: the same again, for one lookup.
//! Owns:   the entries, bounded in number and bytes; what was not asked for lately goes first.
//! Never:  answers with a route that is older than the last change to what it went through.
//!
//! Once it is full, a key gets in when it is seen a second time, so that keys that come once do not push out those
//! that come again.

use crate::{
    limits::{CatalogLimits, SEEN_ONCE_PLACES},
    route::{QueueRoute, RoutedQueue},
};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::{
    hash::{BuildHasher, Hasher},
    sync::Arc,
};

#[derive(Clone)]
struct CachedRoute {
    exchange: u32,
    /// Bytes that it counts for.
    bytes: u32,
    hash: u64,
    /// The version of the catalog at which it was found.
    version: u64,
    key: Box<[u8]>,
    route: Arc<QueueRoute>,
    /// Asked for since the hand last came by.
    asked: bool,
}

/// Bytes of an entry besides its key and queues: record, two allocations' overhead, its place in the index, the head
/// of the route.
const ENTRY_BYTES: usize = size_of::<CachedRoute>() + 2 * 16 + 12 + size_of::<QueueRoute>();

/// As `==`, but never compares nothing with nothing: an empty box points nowhere, and reading zero bytes there costs
/// some processors 130 ns (a masked load from an unmapped page, in glibc's `memcmp` for EVEX).
#[inline]
fn same_bytes(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && (left.is_empty() || left == right)
}

#[derive(Clone)]
pub(crate) struct RouteCache {
    entries: Vec<CachedRoute>,
    index: HashTable<u32>,
    bytes: usize,
    /// Where the search for an entry to give up goes on.
    hand: usize,
    /// By hash, the last key that came when there was no room.
    seen_once: Box<[u32]>,
    entries_max: usize,
    bytes_max: usize,
    hash: FixedState,
}

impl RouteCache {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            entries: Vec::new(),
            index: HashTable::new(),
            bytes: 0,
            hand: 0,
            seen_once: Box::new([]),
            entries_max: limits.cached_routes_max,
            bytes_max: limits.cached_route_bytes_max,
            hash: FixedState::with_seed(limits.hash_seed),
        }
    }

    pub fn bytes(&self) -> usize {
        // Both tables grow by doubling: what is not in use yet is not among the entries' bytes.
        let spare = (self.entries.capacity() - self.entries.len()) * size_of::<CachedRoute>();
        self.bytes + spare + size_of_val(&*self.seen_once)
    }

    #[inline]
    pub fn hash(&self, exchange: u32, key: &[u8]) -> u64 {
        let mut hasher = self.hash.build_hasher();
        hasher.write_u32(exchange);
        hasher.write(key);
        hasher.finish()
    }

    /// The route found at `version` or later.
    #[inline]
    pub fn find(&mut self, hash: u64, exchange: u32, key: &[u8], version: u64) -> Option<Arc<QueueRoute>> {
        let entries = &self.entries;
        let same = |&entry: &u32| {
            let entry = &entries[entry as usize];
            entry.exchange == exchange && same_bytes(&entry.key, key)
        };
        let at = *self.index.find(hash, same)? as usize;
        let entry = &mut self.entries[at];
        if entry.version < version {
            self.remove(at);
            return None;
        }
        entry.asked = true;
        Some(Arc::clone(&entry.route))
    }

    /// Remembers a route found at `version`, which `find` has just missed.
    pub fn insert(&mut self, hash: u64, exchange: u32, key: &[u8], version: u64, route: &Arc<QueueRoute>) {
        let bytes = ENTRY_BYTES + key.len() + route.queues.len() * size_of::<RoutedQueue>();
        // One route to very many queues must not push out everything else.
        if bytes > self.bytes_max / 4 || self.entries_max == 0 {
            return;
        }
        if !self.has_capacity(bytes) {
            if !self.note_miss(hash) {
                return;
            }
            while !self.has_capacity(bytes) {
                self.evict_one();
            }
        }
        let entry = CachedRoute {
            exchange,
            bytes: bytes as u32,
            hash,
            version,
            key: key.into(),
            route: Arc::clone(route),
            asked: false,
        };
        self.bytes += bytes;
        self.entries.push(entry);
        let entries = &self.entries;
        self.index.insert_unique(hash, (entries.len() - 1) as u32, |&entry| entries[entry as usize].hash);
    }

    fn has_capacity(&self, bytes: usize) -> bool {
        self.entries.len() < self.entries_max && self.bytes + bytes <= self.bytes_max
    }

    fn note_miss(&mut self, hash: u64) -> bool {
        if self.seen_once.is_empty() {
            self.seen_once = vec![0; SEEN_ONCE_PLACES].into_boxed_slice();
        }
        // The place from the low bits, the tag from the high ones; 0 means nothing was seen.
        let tag = (hash >> 32) as u32 | 1;
        let place = &mut self.seen_once[hash as usize & (SEEN_ONCE_PLACES - 1)];
        if *place == tag {
            *place = 0;
            return true;
        }
        *place = tag;
        false
    }

    /// Gives up the next entry that nobody asked for since the hand came by; asked ones are passed over once.
    fn evict_one(&mut self) {
        loop {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let Some(entry) = self.entries.get_mut(self.hand) else { return };
            if !std::mem::take(&mut entry.asked) {
                return self.remove(self.hand);
            }
            self.hand += 1;
        }
    }

    fn remove(&mut self, at: usize) {
        let forget = |index: &mut HashTable<u32>, hash: u64, entry: usize| match index
            .find_entry(hash, |&e| e as usize == entry)
        {
            Ok(found) => drop(found.remove()),
            Err(_) => unreachable!("every remembered route is in the index"),
        };
        let entry = self.entries.swap_remove(at);
        forget(&mut self.index, entry.hash, at);
        self.bytes -= entry.bytes as usize;
        // The last entry has moved to the gap.
        if let Some(moved) = self.entries.get(at) {
            forget(&mut self.index, moved.hash, self.entries.len());
            let entries = &self.entries;
            self.index.insert_unique(moved.hash, at as u32, |&entry| entries[entry as usize].hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY_BYTES, RouteCache};
    use crate::{
        ids::{QueueId, ShardId},
        limits::CatalogLimits,
        route::{QueueRoute, RouteDependence, RoutedQueue},
    };
    use std::sync::Arc;

    fn route(queues: usize) -> Arc<QueueRoute> {
        let queue = |index| RoutedQueue { id: QueueId { index: index as u32, serial: 1 }, home: ShardId(0) };
        Arc::new(QueueRoute {
            queues: (0..queues).map(queue).collect(),
            held: Box::default(),
            decided: RouteDependence::ByKey,
            stamped: false,
        })
    }

    struct CacheUnderTest {
        cache: RouteCache,
        inserted: usize,
    }

    impl CacheUnderTest {
        /// What a route costs: a lookup, and an insertion if that missed.
        fn ask(&mut self, key: &str, version: u64, queues: usize) -> bool {
            let hash = self.cache.hash(1, key.as_bytes());
            if let Some(found) = self.cache.find(hash, 1, key.as_bytes(), version) {
                assert_eq!(found.queues.len(), queues, "{key}");
                return true;
            }
            self.cache.insert(hash, 1, key.as_bytes(), version, &route(queues));
            self.inserted += 1;
            assert!(self.cache.entries.len() <= self.cache.entries_max && self.cache.bytes <= self.cache.bytes_max);
            assert_eq!(self.cache.bytes, self.cache.entries.iter().map(|entry| entry.bytes as usize).sum::<usize>());
            assert_eq!(self.cache.index.len(), self.cache.entries.len());
            false
        }
    }

    fn cached(cached_routes_max: usize, cached_route_bytes_max: usize) -> CacheUnderTest {
        let limits = CatalogLimits { cached_routes_max, cached_route_bytes_max, ..CatalogLimits::default() };
        CacheUnderTest { cache: RouteCache::new(&limits), inserted: 0 }
    }

    #[test]
    fn a_thousand_keys_in_turn_are_found_from_the_second_turn_on() {
        let mut cached = cached(1000, 1 << 20);
        for turn in 0..3 {
            for number in 0..1000 {
                assert_eq!(cached.ask(&format!("key.{number}"), 1, number % 3), turn > 0);
            }
        }
    }

    #[test]
    fn keys_that_come_once_do_not_push_out_those_that_come_again() {
        let mut cached = cached(64, 1 << 20);
        for round in 0..1000 {
            let found = (0..32).filter(|number| cached.ask(&format!("again.{number}"), 1, 1)).count();
            assert!(round == 0 || found == 32, "{found} in round {round}");
            for number in 0..32 {
                cached.ask(&format!("once.{round}.{number}"), 1, 1);
            }
        }
    }

    #[test]
    fn bytes_are_bounded_as_well_as_entries() {
        let mut cached = cached(1000, 20_000);
        for number in 0..10_000usize {
            cached.ask(&format!("key.{}", number % 150), 1, number % 150);
        }
        assert!(!cached.ask("large", 1, 10_000) && !cached.ask("large", 1, 10_000), "too large to be remembered");
        assert!(cached.cache.entries.len() > 5);
    }

    #[test]
    fn the_largest_route_that_is_remembered_takes_a_quarter_of_the_bytes() {
        let bytes = 4 * (ENTRY_BYTES + "key".len());
        for (bytes_max, remembered) in [(bytes, true), (bytes - 4, false)] {
            let mut cached = cached(10, bytes_max);
            assert!(!cached.ask("key", 1, 0));
            assert_eq!(cached.ask("key", 1, 0), remembered, "{bytes_max}");
        }
    }

    #[test]
    fn keys_and_exchanges_have_hashes_of_their_own() {
        let cached = cached(4, 1 << 20);
        let hashes = [(1, "a"), (2, "a"), (1, "b"), (1, "")].map(|(at, key)| cached.cache.hash(at, key.as_bytes()));
        assert!((1..4).all(|at| !hashes[..at].contains(&hashes[at])), "{hashes:?}");
    }

    #[test]
    fn what_was_asked_for_is_passed_over_once() {
        let mut cached = cached(4, 1 << 20);
        ["a", "b", "c", "d"].into_iter().for_each(|key| assert!(!cached.ask(key, 1, 1)));
        assert!(cached.ask("a", 1, 1) && cached.ask("b", 1, 1) && cached.ask("d", 1, 1));
        assert!(!cached.ask("e", 1, 1) && !cached.ask("e", 1, 1), "who comes once pushes out nobody");
        assert!(["a", "b", "d", "e"].into_iter().all(|key| cached.ask(key, 1, 1)), "c has gone");
    }

    #[test]
    fn what_is_older_than_a_change_is_forgotten() {
        let mut cached = cached(8, 1 << 20);
        for number in 0..8 {
            cached.ask(&format!("{number}"), 1, 1);
        }
        assert!(cached.ask("3", 1, 1) && !cached.ask("3", 2, 2) && cached.ask("3", 2, 2));
        assert!(cached.ask("7", 1, 1) && cached.ask("0", 1, 1));
        assert_eq!(cached.inserted, 9);
    }
}
