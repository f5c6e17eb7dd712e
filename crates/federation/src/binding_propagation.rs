//! Propagation of bindings: what a dynamic route requests of its source, so that only messages with a consumer cross the link.
//!
//! Enters: the bindings of the destination's exchange, then their changes.  Leaves: binds and unbinds of the source's exchange.
//! Owns:   which interests exist, by how many bindings and paths, and what was requested of the source.
//!
//! A binding without `x-bound-from` is an interest of this broker; equal bindings are one interest. A binding with it was made by
//! a broker further downstream: it is propagated with this broker prepended to its path, unless the source is on that path
//! already. Bindings propagate along few paths: along this broker's own if there is one, otherwise along the one with the most
//! hops left, the shortest of these; and for each broker that is on all chosen paths, along the best path without it, so that
//! the interest gets around that broker too. In a tree of brokers that makes one or two paths. A path contains no broker twice
//! and ends when its first binding does. An interest that nobody has any more therefore disappears everywhere: nothing counts
//! to infinity.

use crate::binding_interest::{AddedPath, InterestId, InterestOrigin, InterestTable};
use crate::binding_path::{BindingPathId, BindingPaths, OWN_PATH};
use crate::limits::{PATH_BROKERS_MAX, PATHS_PASSED_MAX};
use crate::{BrokerIdentity, RouteSpec};
use catalog::arguments::{X_BOUND_FROM, X_HARRIER_WINDOW};
use catalog::limits::ARGUMENTS_BYTES_MAX;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use wire::{Table, TableRef, Value};

/// The next request to the source: `exchange.bind` or `exchange.unbind` between its exchange and the internal one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BindingOperation<'a> {
    /// Whether it binds; otherwise it removes the binding with the same key and arguments.
    pub bind: bool,
    pub key: &'a [u8],
    /// Those of the interest, `x-bound-from`, and `x-harrier-window` on a forced route.
    pub arguments: TableRef<'a>,
}

/// The bindings that one dynamic route propagates.
pub struct BindingPropagation {
    paths: BindingPaths,
    interests: InterestTable,
    /// Interests whose bindings at the source may be out of date.
    due: VecDeque<InterestId>,
    own: BrokerIdentity,
    exchange: Box<str>,
    stamps_messages: bool,
    /// This broker's entry in the paths it propagates: the table's entries up to `hops`.
    own_hop: Vec<u8>,
    requested: u64,
    unreadable: u64,
    /// The interest that was encoded last.
    encoded: Vec<u8>,
    chosen: Vec<BindingPathId>,
    /// The key and arguments of the last operation.
    operation: Vec<u8>,
}

impl BindingPropagation {
    /// For a route of this broker `own`, without bindings yet. `hash_seed` is drawn at random, because peers choose the keys.
    pub fn new(own: BrokerIdentity, spec: &RouteSpec, hash_seed: u64) -> Self {
        Self {
            paths: BindingPaths::new(own.clone(), spec.hops_max.min(i16::MAX as u16), hash_seed),
            interests: InterestTable::new(hash_seed),
            due: VecDeque::new(),
            own,
            exchange: spec.exchange.clone(),
            stamps_messages: spec.forced,
            own_hop: Vec::new(),
            requested: 0,
            unreadable: 0,
            encoded: Vec::new(),
            chosen: Vec::new(),
            operation: Vec::new(),
        }
    }

    /// Begins again with a source and its new internal exchange, which has no bindings yet. A source without an identity is asked
    /// for its own bindings too, and drops them. `suffix` distinguishes the internal exchange from the one before.
    pub fn begin(&mut self, source: Option<BrokerIdentity>, suffix: char) {
        self.paths.set_source(source);
        self.own_hop.clear();
        let exchange = format!("{}:{} {suffix}", self.own.vhost, self.exchange);
        for (name, text) in
            [("cluster-name", &*self.own.cluster_name), ("vhost", &*self.own.vhost), ("exchange", &exchange)]
        {
            push_name(&mut self.own_hop, name);
            Value::text(text).encode(&mut self.own_hop);
        }
        let limits = self.path_limits();
        for id in self.interests.ids() {
            let interest = self.interests.get_mut(id);
            let encoded_bytes = interest.encoded.len();
            let mut gone = Vec::new();
            interest.reconsider(|path| limits.allow(&self.paths, encoded_bytes, path), |path| gone.push(path));
            gone.into_iter().for_each(|path| self.paths.release(path));
            if interest.is_empty() && !interest.is_due && !interest.encoded.is_empty() {
                self.interests.remove(id);
            }
        }
        self.restart();
    }

    /// Begins again with an internal exchange without bindings.
    pub fn restart(&mut self) {
        self.requested = 0;
        for id in self.interests.ids() {
            self.interests.get_mut(id).origins_mut().for_each(|origin| origin.count.clear_requested());
            self.mark_due(id);
        }
    }

    /// Replaces all bindings of the exchange by these: the difference is requested of the source.
    pub fn resync<'a>(&mut self, bindings: impl IntoIterator<Item = (&'a [u8], Option<&'a Table>)>) {
        self.unreadable = 0;
        for id in self.interests.ids() {
            self.mark_due(id);
            self.interests.get_mut(id).clear_bindings(|path| self.paths.release(path));
        }
        for (key, arguments) in bindings {
            self.add(key, arguments);
        }
    }

    pub fn add(&mut self, key: &[u8], arguments: Option<&Table>) {
        let path = match arguments.and_then(|arguments| arguments.get(X_BOUND_FROM)) {
            None => OWN_PATH,
            Some(argument) => match self.paths.acquire(argument) {
                Ok(path) => path,
                // It is propagated no further. If it counted as this broker's own, it would travel around a ring forever in which a
                // broker writes what others cannot read.
                Err(_) => return self.unreadable += 1,
            },
        };
        self.encode_interest(key, arguments);
        let id = match self.interests.find(&self.encoded) {
            Some(id) => id,
            None => self.interests.insert(&self.encoded),
        };
        let is_eligible = self.path_limits().allow(&self.paths, self.encoded.len(), path);
        let interest = self.interests.get_mut(id);
        let is_first = match interest.origin_mut(path) {
            Some(origin) => {
                let is_first = origin.count.bindings() == 0;
                origin.count.add_binding();
                self.paths.release(path);
                is_first
            }
            None => match interest.add_path(path, is_eligible) {
                AddedPath::ToChooseFrom => true,
                AddedPath::Waits => false,
                AddedPath::Known => {
                    self.paths.release(path);
                    false
                }
            },
        };
        if is_first {
            self.mark_due(id);
        }
    }

    /// A binding was removed. Returns whether it was known; if not, a change was missed and a `resync` is due.
    #[must_use]
    pub fn remove(&mut self, key: &[u8], arguments: Option<&Table>) -> bool {
        let path = match arguments.and_then(|arguments| arguments.get(X_BOUND_FROM)) {
            None => OWN_PATH,
            Some(argument) => match self.paths.look_up(argument) {
                Ok(Some(path)) => path,
                Ok(None) => return false,
                Err(_) => {
                    let was_known = self.unreadable > 0;
                    self.unreadable -= u64::from(was_known);
                    return was_known;
                }
            },
        };
        self.encode_interest(key, arguments);
        let Some(id) = self.interests.find(&self.encoded) else { return false };
        let interest = self.interests.get_mut(id);
        let Some(origin) = interest.origin_mut(path).filter(|origin| origin.count.bindings() > 0) else {
            let removed = interest.remove_waiting(path);
            if removed == Some(true) {
                self.paths.release(path);
                if interest.is_empty() && !interest.is_due {
                    self.interests.remove(id);
                }
            }
            return removed.is_some();
        };
        origin.count.remove_binding();
        if origin.count.bindings() == 0 {
            self.mark_due(id);
        }
        true
    }

    /// The next request to the source, in the order of the changes. A new path of an interest is bound before an old one is unbound;
    /// bindings that were added and removed in the meantime are left out. Without one nothing is due, or so much work is done:
    /// brokers of paths compared, and interests looked at.
    pub fn next_operation(&mut self, work_left: &mut u64) -> Option<BindingOperation<'_>> {
        while *work_left > 0
            && let Some(&id) = self.due.front()
        {
            self.interests.get_mut(id).prune(|path| self.paths.release(path));
            *work_left = work_left.saturating_sub(self.choose_paths(id));
            let interest = self.interests.get_mut(id);
            let is_chosen = |origin: &InterestOrigin| self.chosen.contains(&origin.path);
            let origins = || interest.origins();
            let out_of_date = origins()
                .find(|origin| is_chosen(origin) && !origin.count.is_requested())
                .or_else(|| origins().find(|origin| !is_chosen(origin) && origin.count.is_requested()));
            if let Some(&InterestOrigin { path, .. }) = out_of_date {
                return Some(self.toggle_request(id, path));
            }
            self.due.pop_front();
            interest.is_due = false;
            if interest.is_empty() {
                self.interests.remove(id);
            }
        }
        None
    }

    /// Whether there may be requests to send.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// How many bindings are requested of the source.
    pub fn requested(&self) -> u64 {
        self.requested
    }

    /// How many interests there are, whether they may be propagated or not.
    pub fn interests(&self) -> usize {
        self.interests.len()
    }

    /// How many bindings have an `x-bound-from` that cannot be read. They are not propagated.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Bytes on the heap, approximately.
    pub fn bytes(&self) -> usize {
        self.interests.bytes() + self.due.capacity() * size_of::<InterestId>() + self.paths.bytes()
    }

    fn path_limits(&self) -> PathLimits {
        PathLimits { own_hop_bytes: self.own_hop.len() }
    }

    /// Chooses the paths along which an interest is propagated. Returns the work.
    fn choose_paths(&mut self, id: InterestId) -> u64 {
        self.chosen.clear();
        let (interest, paths) = (self.interests.get(id), &self.paths);
        let is_eligible = |origin: &&InterestOrigin| origin.count.bindings() > 0;
        let order = |origin: &InterestOrigin| {
            (Reverse(paths.hops(origin.path)), paths.length(origin.path), !origin.count.is_requested(), origin.path)
        };
        let mut work = 1 + interest.origins_len() as u64;
        let Some(first) = interest.origins().filter(is_eligible).min_by_key(|origin| order(origin)) else {
            return work;
        };
        self.chosen.push(first.path);
        if paths.length(first.path) == 0 || interest.origins_len() == 1 {
            return work;
        }
        let brokers: Vec<&[u8]> = paths.brokers(first.path).collect();
        let numbers: HashMap<&[u8], usize> =
            brokers.iter().enumerate().map(|(number, &broker)| (broker, number)).collect();
        let candidates: Vec<(&InterestOrigin, BrokerSet)> = interest
            .origins()
            .filter(is_eligible)
            .map(|origin| {
                work += u64::from(paths.length(origin.path));
                let shared = paths.brokers(origin.path).filter_map(|broker| numbers.get(broker).copied());
                (origin, BrokerSet::from_iter(shared))
            })
            .collect();
        let mut on_all_chosen = BrokerSet::from_iter(numbers.values().copied());
        for broker in brokers {
            let number = numbers[broker];
            if !on_all_chosen.contains(number) || self.chosen.len() == PATHS_PASSED_MAX {
                continue;
            }
            let avoiding = candidates.iter().filter(|(_, shared)| !shared.contains(number));
            if let Some((around, shared)) = avoiding.min_by_key(|(origin, _)| order(origin)) {
                self.chosen.push(around.path);
                on_all_chosen.intersect(shared);
            }
        }
        work
    }

    /// Requests an interest along a path, or withdraws the request.
    fn toggle_request(&mut self, id: InterestId, path: BindingPathId) -> BindingOperation<'_> {
        let Self { paths, interests, operation, own_hop, .. } = self;
        let interest = interests.get_mut(id);
        let Some(origin) = interest.origin_mut(path) else { unreachable!("the path was found among the origins") };
        origin.count.toggle_requested();
        let bind = origin.count.is_requested();
        if bind {
            self.requested += 1;
        } else {
            self.requested -= 1;
        }
        operation.clear();
        let (&key_bytes, encoded) = interest.encoded.split_first().unwrap_or((&0, &[]));
        operation.extend_from_slice(encoded);
        push_name(operation, X_BOUND_FROM);
        operation.push(b'A');
        let hop_bytes = own_hop.len() + HOPS_BYTES;
        push_length(operation, 5 + hop_bytes + paths.list(path).len());
        operation.push(b'F');
        push_length(operation, hop_bytes);
        operation.extend_from_slice(own_hop);
        push_name(operation, "hops");
        Value::I16(paths.hops(path).cast_signed()).encode(operation);
        operation.extend_from_slice(paths.list(path));
        if self.stamps_messages {
            push_name(operation, X_HARRIER_WINDOW);
            Value::Bool(true).encode(operation);
        }
        let (key, arguments) = operation.split_at(usize::from(key_bytes));
        BindingOperation { bind, key, arguments: TableRef::new(arguments) }
    }

    /// Encodes the interest of a binding, without the arguments that propagation adds, into `self.encoded`.
    fn encode_interest(&mut self, key: &[u8], arguments: Option<&Table>) {
        let encoded = &mut self.encoded;
        encoded.clear();
        // A routing key is a short string.
        encoded.push(key.len() as u8);
        encoded.extend_from_slice(key);
        for (name, value) in arguments.into_iter().flat_map(Table::iter) {
            if name == X_BOUND_FROM || (self.stamps_messages && name == X_HARRIER_WINDOW) {
                continue;
            }
            encoded.push(name.len() as u8);
            encoded.extend_from_slice(name.as_bytes());
            value.encode(encoded);
        }
    }

    fn mark_due(&mut self, id: InterestId) {
        let interest = self.interests.get_mut(id);
        if !interest.is_due && !interest.is_empty() {
            interest.is_due = true;
            self.due.push_back(id);
        }
    }
}

/// Which paths may be propagated.
#[derive(Clone, Copy)]
struct PathLimits {
    own_hop_bytes: usize,
}

impl PathLimits {
    /// Whether an interest that is encoded with so many bytes may be propagated along a path.
    fn allow(self, paths: &BindingPaths, encoded_bytes: usize, path: BindingPathId) -> bool {
        // The source would refuse larger arguments.
        let bytes_max = ARGUMENTS_BYTES_MAX.checked_sub(encoded_bytes + self.own_hop_bytes + OVERHEAD_BYTES);
        paths.hops(path) > 0 && bytes_max.is_some_and(|bytes_max| paths.list(path).len() <= bytes_max)
    }
}

/// Which brokers of a path are on another one, by their numbers: a path has [`PATH_BROKERS_MAX`] of them.
#[derive(Clone, Copy, Default)]
struct BrokerSet([u64; 4]);

const _: () = assert!(PATH_BROKERS_MAX <= 4 * u64::BITS as usize);

impl BrokerSet {
    fn from_iter(numbers: impl Iterator<Item = usize>) -> Self {
        let mut set = BrokerSet::default();
        numbers.for_each(|number| set.0[number / 64] |= 1 << (number % 64));
        set
    }

    fn contains(&self, number: usize) -> bool {
        self.0[number / 64] & 1 << (number % 64) != 0
    }

    fn intersect(&mut self, other: &BrokerSet) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
    }
}

/// Bytes of `hops` in a table.
const HOPS_BYTES: usize = 1 + 4 + 3;

/// Bytes of a propagated binding's arguments beside the interest's, the path and this broker's hop.
const OVERHEAD_BYTES: usize = 4 + (1 + X_BOUND_FROM.len() + 5) + (5 + HOPS_BYTES) + (1 + X_HARRIER_WINDOW.len() + 2);

fn push_name(out: &mut Vec<u8>, name: &str) {
    // The names in this file are short.
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

fn push_length(out: &mut Vec<u8>, bytes: usize) {
    // `choose_paths` keeps arguments below their limit.
    out.extend_from_slice(&(bytes as u32).to_be_bytes());
}
