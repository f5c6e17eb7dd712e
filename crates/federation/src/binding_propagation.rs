//! A mirror: what a dynamic route asks the source for, so that unwanted messages never cross.
//!
//! Enters: the bindings of the destination's exchange, all of them and then their changes.  Leaves: bindings for the source's
//!         exchange, and those to be taken back.
//! Owns:   every want (a key with arguments) once, how often and by which paths it came, and what the source was asked for.
//! Never:  sends anything, or waits for an answer; asks a source for what it has said itself.
//!
//! A binding without `x-bound-from` is a want of this broker; all that say the same are one. A binding with it was made by a
//! broker further down: it goes on with this broker in front of its path, unless the source is on the path already. Of many
//! paths of one want few go on: this broker's own alone, else the one with most hops left, the shortest of these; and for each broker
//! that is on all chosen ones the best path without it, if there is one, so that the want gets around that broker too. Where
//! brokers form a tree one or two of them do. Paths contain no broker twice and a path ends where its first binding does, so a
//! want that nobody has any more disappears everywhere: nothing counts to infinity.

use crate::{
    BrokerIdentity, RouteSpec,
    limits::PATHS_PASSED_MAX,
    binding_path::{OWN_PATH, BindingPathId, BindingPaths},
};
use catalog::{
    arguments::{X_BOUND_FROM, X_HARRIER_WINDOW},
    limits::ARGUMENTS_BYTES_MAX,
};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::{
    cmp::Reverse,
    collections::VecDeque,
    hash::{BuildHasher, Hasher},
};
use wire::{Table, TableRef, Value};

/// What to write to the source next: `exchange.bind` or `exchange.unbind` of its exchange towards the internal one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BindingOperation<'a> {
    /// It is a bind, or an unbind of what was bound with the same key and arguments.
    pub bind: bool,
    /// The routing key.
    pub key: &'a [u8],
    /// The arguments: those of the want, `x-bound-from`, and `x-harrier-window` where that is asked for.
    pub arguments: TableRef<'a>,
}

/// By which path a want came, and how often. 8 bytes.
#[derive(Clone, Copy)]
struct InterestOrigin {
    path: BindingPathId,
    count: OriginCount,
}

/// How many bindings say it, and in the lowest bit whether the source was asked for it.
#[derive(Clone, Copy)]
struct OriginCount(u32);

impl OriginCount {
    const ONE: u32 = 2;
    fn bindings(self) -> u32 {
        self.0 >> 1
    }
    fn is_requested(self) -> bool {
        self.0 & 1 != 0
    }
    fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// A key with arguments that somebody wants.
struct BindingInterest {
    /// A length octet, the key, the arguments encoded without the two that mirrors write.
    encoded: Box<[u8]>,
    first_origin: Option<InterestOrigin>,
    more_origins: Box<[InterestOrigin]>,
    /// It is on the list of those to look at.
    due: bool,
}

const _: () = assert!(size_of::<BindingInterest>() == 48);

impl BindingInterest {
    fn origins(&self) -> impl Iterator<Item = &InterestOrigin> {
        self.first_origin.iter().chain(&*self.more_origins)
    }

    fn origin_mut(&mut self, path: BindingPathId) -> Option<&mut InterestOrigin> {
        self.first_origin.iter_mut().chain(&mut *self.more_origins).find(|origin| origin.path == path)
    }

    fn push(&mut self, origin: InterestOrigin) {
        match self.first_origin {
            None => self.first_origin = Some(origin),
            Some(_) => self.more_origins = self.more_origins.iter().copied().chain([origin]).collect(),
        }
    }

    /// Forgets the origins that say nothing any more.
    fn prune(&mut self, mut release: impl FnMut(BindingPathId)) {
        if self.origins().all(|origin| !origin.count.is_zero()) {
            return;
        }
        for origin in self.origins().filter(|origin| origin.count.is_zero()) {
            release(origin.path);
        }
        let mut left = self.first_origin.iter().chain(&*self.more_origins).copied().filter(|origin| !origin.count.is_zero());
        let first = left.next();
        let more = left.collect();
        (self.first_origin, self.more_origins) = (first, more);
    }
}

/// What one dynamic route asks for.
pub struct BindingPropagation {
    paths: BindingPaths,
    interests: Vec<BindingInterest>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hash: FixedState,
    /// Wants whose bindings at the source may not be what they should.
    due: VecDeque<u32>,
    own: BrokerIdentity,
    exchange: Box<str>,
    window: bool,
    /// This broker's entry in the paths it passes on: the table's entries up to `hops`.
    own_hop: Vec<u8>,
    requested: u64,
    unreadable: u64,
    encoded: Vec<u8>,
    chosen: Vec<BindingPathId>,
    written: Vec<u8>,
}

impl BindingPropagation {
    /// That of a route of this broker, with nothing to ask for yet. `hash_seed` is drawn at random, as the catalog's.
    pub fn new(own: BrokerIdentity, spec: &RouteSpec, hash_seed: u64) -> Self {
        Self {
            paths: BindingPaths::new(own.clone(), spec.hops_max.min(i16::MAX as u16), hash_seed),
            interests: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hash: FixedState::with_seed(hash_seed),
            due: VecDeque::new(),
            own,
            exchange: spec.exchange.clone(),
            window: spec.forced,
            own_hop: Vec::new(),
            requested: 0,
            unreadable: 0,
            encoded: Vec::new(),
            chosen: Vec::new(),
            written: Vec::new(),
        }
    }

    /// The source is known, and a fresh internal exchange that nothing leads to yet: everything is to be asked for anew. A source
    /// that does not say who it is gets what it said itself, and drops it. `suffix` tells this internal exchange from the
    /// one before.
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
        self.restart();
    }

    /// Everything is to be asked for anew, of an internal exchange that nothing leads to.
    pub fn restart(&mut self) {
        self.requested = 0;
        for at in 0..self.interests.len() {
            let BindingInterest { first_origin: first, more_origins: more, .. } = &mut self.interests[at];
            for origin in first.iter_mut().chain(&mut **more) {
                origin.count.0 &= !1;
            }
            self.mark_due(at as u32);
        }
    }

    /// All bindings of the exchange as they are now: what changes at the source is the difference.
    pub fn resync<'a>(&mut self, bindings: impl IntoIterator<Item = (&'a [u8], Option<&'a Table>)>) {
        self.unreadable = 0;
        for at in 0..self.interests.len() {
            let BindingInterest { first_origin: first, more_origins: more, .. } = &mut self.interests[at];
            for origin in first.iter_mut().chain(&mut **more) {
                origin.count.0 &= 1;
            }
            self.mark_due(at as u32);
        }
        for (key, arguments) in bindings {
            self.add(key, arguments);
        }
    }

    /// A binding is new.
    pub fn add(&mut self, key: &[u8], arguments: Option<&Table>) {
        let path = match arguments.and_then(|arguments| arguments.get(X_BOUND_FROM)) {
            None => OWN_PATH,
            Some(argument) => match self.paths.acquire(argument) {
                Ok(path) => path,
                // It ends here. To take it for a want of this broker's own would let it come round again, and stay for ever,
                // where a broker in a ring writes what others cannot read.
                Err(_) => return self.unreadable += 1,
            },
        };
        self.encode_interest(key, arguments);
        let at = match self.find(&self.encoded) {
            Some(at) => at,
            None => self.insert_interest(),
        };
        let want = &mut self.interests[at as usize];
        let is_first = match want.origin_mut(path) {
            Some(origin) => {
                let is_first = origin.count.bindings() == 0;
                origin.count.0 += OriginCount::ONE;
                self.paths.release(path);
                is_first
            }
            None => {
                want.push(InterestOrigin { path, count: OriginCount(OriginCount::ONE) });
                true
            }
        };
        if is_first {
            self.mark_due(at);
        }
    }

    /// A binding is gone. Answers whether it was known: if not, something was missed, and a `resync` is due.
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
        let Some(at) = self.find(&self.encoded) else { return false };
        let origin = self.interests[at as usize].origin_mut(path).filter(|origin| origin.count.bindings() > 0);
        let Some(origin) = origin else { return false };
        origin.count.0 -= OriginCount::ONE;
        if origin.count.bindings() == 0 {
            self.mark_due(at);
        }
        true
    }

    /// What to write next, until there is nothing: a new path of a want is bound before an old one is unbound. The order is that of
    /// the changes; what came and went in the meantime is not said.
    pub fn next_operation(&mut self) -> Option<BindingOperation<'_>> {
        while let Some(&at) = self.due.front() {
            self.choose_paths(at);
            let want = &mut self.interests[at as usize];
            let is_chosen = |origin: &InterestOrigin| self.chosen.contains(&origin.path);
            let origins = || want.origins();
            let to_do = origins()
                .find(|origin| is_chosen(origin) && !origin.count.is_requested())
                .or_else(|| origins().find(|origin| !is_chosen(origin) && origin.count.is_requested()));
            if let Some(&InterestOrigin { path, .. }) = to_do {
                return Some(self.toggle_request(at, path));
            }
            self.due.pop_front();
            want.due = false;
            want.prune(|path| self.paths.release(path));
            if want.first_origin.is_none() {
                self.remove_interest(at);
            }
        }
        None
    }

    /// Whether there may be something to write.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Bindings that the source was asked for.
    pub fn requested(&self) -> u64 {
        self.requested
    }

    /// Keys with arguments that somebody wants, whether they may be asked for or not.
    pub fn interests(&self) -> usize {
        self.index.len()
    }

    /// Bindings whose `x-bound-from` cannot be read: they lead here, and no further.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Bytes that it holds, about.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.interests.iter().map(|want| want.encoded.len() + want.more_origins.len() * size_of::<InterestOrigin>()).sum();
        let tables = self.interests.capacity() * size_of::<BindingInterest>() + self.index.capacity() * 5 + self.due.capacity() * 4;
        texts + tables + self.paths.bytes()
    }

    /// The paths by which the source is to be asked for a want.
    fn choose_paths(&mut self, at: u32) {
        self.chosen.clear();
        let (want, paths) = (&self.interests[at as usize], &self.paths);
        let room = ARGUMENTS_BYTES_MAX.checked_sub(want.encoded.len() + self.own_hop.len() + OVERHEAD_BYTES);
        // What would be too large for the source to take is not asked for.
        let may_go = |origin: &&InterestOrigin| {
            origin.count.bindings() > 0
                && paths.hops(origin.path) > 0
                && room.is_some_and(|room| paths.list(origin.path).len() <= room)
        };
        let best = |without: &[u8]| {
            let mut rank =
                want.origins().filter(may_go).filter(|origin| paths.brokers(origin.path).all(|b| b != without));
            let first = rank.next()?;
            let order = |origin: &&InterestOrigin| {
                (Reverse(paths.hops(origin.path)), paths.length(origin.path), !origin.count.is_requested(), origin.path)
            };
            Some(rank.fold(first, |best, other| if order(&other) < order(&best) { other } else { best }).path)
        };
        let Some(first) = best(&[]) else { return };
        self.chosen.push(first);
        for broker in paths.brokers(first) {
            let is_avoided = self.chosen.iter().any(|&path| paths.brokers(path).all(|other| other != broker));
            if !is_avoided
                && self.chosen.len() < PATHS_PASSED_MAX
                && let Some(around) = best(broker)
            {
                self.chosen.push(around);
            }
        }
    }

    /// Asks for a want by a path, or no longer.
    fn toggle_request(&mut self, at: u32, path: BindingPathId) -> BindingOperation<'_> {
        let Self { paths, interests: wants, written, own_hop: hop, .. } = self;
        let want = &mut wants[at as usize];
        let Some(origin) = want.origin_mut(path) else { unreachable!("the path was found among the origins") };
        origin.count.0 ^= 1;
        let bind = origin.count.is_requested();
        if bind {
            self.requested += 1;
        } else {
            self.requested -= 1;
        }
        written.clear();
        let (&key_bytes, said) = want.encoded.split_first().unwrap_or((&0, &[]));
        written.extend_from_slice(said);
        push_name(written, X_BOUND_FROM);
        written.push(b'A');
        let hop_bytes = hop.len() + HOPS_BYTES;
        push_length(written, 5 + hop_bytes + paths.list(path).len());
        written.push(b'F');
        push_length(written, hop_bytes);
        written.extend_from_slice(hop);
        push_name(written, "hops");
        Value::I16(paths.hops(path).cast_signed()).encode(written);
        written.extend_from_slice(paths.list(path));
        if self.window {
            push_name(written, X_HARRIER_WINDOW);
            Value::Bool(true).encode(written);
        }
        let (key, arguments) = written.split_at(usize::from(key_bytes));
        BindingOperation { bind, key, arguments: TableRef::new(arguments) }
    }

    /// What a binding says, but for what mirrors write, into `self.said`.
    fn encode_interest(&mut self, key: &[u8], arguments: Option<&Table>) {
        let said = &mut self.encoded;
        said.clear();
        // A routing key is a short string.
        said.push(key.len() as u8);
        said.extend_from_slice(key);
        for (name, value) in arguments.into_iter().flat_map(Table::iter) {
            if name == X_BOUND_FROM || (self.window && name == X_HARRIER_WINDOW) {
                continue;
            }
            said.push(name.len() as u8);
            said.extend_from_slice(name.as_bytes());
            value.encode(said);
        }
    }

    fn find(&self, said: &[u8]) -> Option<u32> {
        let same = |&at: &u32| *self.interests[at as usize].encoded == *said;
        self.index.find(hash_of(&self.hash, said), same).copied()
    }

    /// A want that says `self.said`, which nothing says yet.
    fn insert_interest(&mut self) -> u32 {
        let want = BindingInterest { encoded: self.encoded.as_slice().into(), first_origin: None, more_origins: Box::default(), due: false };
        let at = match self.free.pop() {
            Some(at) => {
                self.interests[at as usize] = want;
                at
            }
            None => {
                self.interests.push(want);
                (self.interests.len() - 1) as u32
            }
        };
        let (wants, hash) = (&self.interests, &self.hash);
        self.index.insert_unique(hash_of(hash, &self.encoded), at, |&other| hash_of(hash, &wants[other as usize].encoded));
        at
    }

    /// One that nobody says any more, and the source was not asked for.
    fn remove_interest(&mut self, at: u32) {
        let said = std::mem::take(&mut self.interests[at as usize].encoded);
        match self.index.find_entry(hash_of(&self.hash, &said), |&other| other == at) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => unreachable!("every want is in the index"),
        }
        self.free.push(at);
    }

    fn mark_due(&mut self, at: u32) {
        let want = &mut self.interests[at as usize];
        // A free place says nothing.
        if !want.due && want.first_origin.is_some() {
            want.due = true;
            self.due.push_back(at);
        }
    }
}

/// Bytes of `hops` in a table.
const HOPS_BYTES: usize = 1 + 4 + 3;

/// What a mirrored binding's arguments have besides the want's, the path and this broker's hop.
const OVERHEAD_BYTES: usize = 4 + (1 + X_BOUND_FROM.len() + 5) + (5 + HOPS_BYTES) + (1 + X_HARRIER_WINDOW.len() + 2);

fn hash_of(hash: &FixedState, said: &[u8]) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write(said);
    hasher.finish()
}

fn push_name(out: &mut Vec<u8>, name: &str) {
    // Names of this file, which are short.
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

fn push_length(out: &mut Vec<u8>, bytes: usize) {
    // `choose` sees to it that arguments stay below their limit.
    out.extend_from_slice(&(bytes as u32).to_be_bytes());
}
