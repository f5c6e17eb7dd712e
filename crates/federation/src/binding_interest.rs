//! Binding interests: a routing key and arguments, stored once, with the paths by which somebody asks for them.
//!
//! Owns:   the table of one route's interests, found by their encoded key and arguments.

use crate::binding_path::{BindingPathId, OWN_PATH};
use crate::limits::ORIGINS_MAX;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};

/// Identifies an interest of one route. The id of a removed interest is used again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterestId(u32);

/// A path by which an interest arrived. 8 bytes.
#[derive(Clone, Copy)]
pub(crate) struct InterestOrigin {
    pub path: BindingPathId,
    pub count: OriginCount,
}

/// How many bindings express the interest, and in the lowest bit whether it is requested of the source.
#[derive(Clone, Copy)]
pub(crate) struct OriginCount(u32);

impl OriginCount {
    const ONE_BINDING: u32 = 2;
    const REQUESTED: u32 = 1;

    pub fn bindings(self) -> u32 {
        self.0 / Self::ONE_BINDING
    }

    pub fn is_requested(self) -> bool {
        self.0 & Self::REQUESTED != 0
    }

    fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub fn add_binding(&mut self) {
        self.0 += Self::ONE_BINDING;
    }

    pub fn remove_binding(&mut self) {
        self.0 -= Self::ONE_BINDING;
    }

    pub fn clear_bindings(&mut self) {
        self.0 &= Self::REQUESTED;
    }

    pub fn toggle_requested(&mut self) {
        self.0 ^= Self::REQUESTED;
    }

    pub fn clear_requested(&mut self) {
        self.0 &= !Self::REQUESTED;
    }
}

/// What has become of a path with its first binding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddedPath {
    /// It is one of those among which is chosen.
    ToChooseFrom,
    /// It waits: there are too many, or it may not be propagated.
    Waits,
    /// It waited already.
    Known,
}

/// A routing key with arguments that somebody has bound.
pub(crate) struct BindingInterest {
    /// A length octet, the key, and the encoded arguments without those that propagation adds.
    pub encoded: Box<[u8]>,
    first_origin: Option<InterestOrigin>,
    more_origins: Box<[InterestOrigin]>,
    /// Paths beyond those, with how many bindings express the interest; behind them such as may not be propagated, which are barred.
    /// None of them is requested.
    waiting: BTreeMap<(bool, BindingPathId), u32>,
    /// It is on the list of interests to compare with the source.
    pub is_due: bool,
}

const _: () = assert!(size_of::<BindingInterest>() == 72);

impl BindingInterest {
    pub fn origins(&self) -> impl Iterator<Item = &InterestOrigin> {
        self.first_origin.iter().chain(&*self.more_origins)
    }

    pub fn origins_mut(&mut self) -> impl Iterator<Item = &mut InterestOrigin> {
        self.first_origin.iter_mut().chain(&mut *self.more_origins)
    }

    /// How many paths there are, but for those that wait.
    pub fn origins_len(&self) -> usize {
        usize::from(self.first_origin.is_some()) + self.more_origins.len()
    }

    pub fn origin_mut(&mut self, path: BindingPathId) -> Option<&mut InterestOrigin> {
        self.origins_mut().find(|origin| origin.path == path)
    }

    /// Counts one binding more by a path that is not among those to choose from. One that may not be propagated never is.
    pub fn add_path(&mut self, path: BindingPathId, is_eligible: bool) -> AddedPath {
        for is_barred in [false, true] {
            if let Some(bindings) = self.waiting.get_mut(&(is_barred, path)) {
                *bindings += 1;
                return AddedPath::Known;
            }
        }
        self.place(path, 1, is_eligible)
    }

    fn place(&mut self, path: BindingPathId, bindings: u32, is_eligible: bool) -> AddedPath {
        if is_eligible && (path == OWN_PATH || self.origins_len() < ORIGINS_MAX) {
            self.add_origin(path, bindings);
            return AddedPath::ToChooseFrom;
        }
        self.waiting.insert((!is_eligible, path), bindings);
        AddedPath::Waits
    }

    /// Takes one binding away by a path that waits. Returns whether that was the last one, if there was any.
    pub fn remove_waiting(&mut self, path: BindingPathId) -> Option<bool> {
        let key = [(false, path), (true, path)].into_iter().find(|key| self.waiting.contains_key(key))?;
        let bindings = self.waiting.get_mut(&key)?;
        *bindings -= 1;
        let is_last = *bindings == 0;
        if is_last {
            self.waiting.remove(&key);
        }
        Some(is_last)
    }

    /// Where half of the paths have gone, those that wait and may be propagated take their place.
    fn take_waiting(&mut self) {
        if self.origins_len() >= ORIGINS_MAX / 2 {
            return;
        }
        while self.origins_len() < ORIGINS_MAX
            && let Some(first) = self.waiting.first_entry().filter(|first| !first.key().0)
        {
            let ((_, path), bindings) = first.remove_entry();
            self.add_origin(path, bindings);
        }
    }

    /// Nothing is requested any more, and other paths may be propagated. Calls `release` with those that have no binding.
    pub fn reconsider(&mut self, is_eligible: impl Fn(BindingPathId) -> bool, mut release: impl FnMut(BindingPathId)) {
        let mut all: Vec<_> = self.origins().map(|origin| (origin.path, origin.count.bindings())).collect();
        all.extend(std::mem::take(&mut self.waiting).into_iter().map(|((_, path), bindings)| (path, bindings)));
        (self.first_origin, self.more_origins) = (None, Box::default());
        for (path, bindings) in all {
            match bindings {
                0 => release(path),
                bindings => _ = self.place(path, bindings, is_eligible(path)),
            }
        }
    }

    /// Forgets all bindings: only what is requested is left. Calls `release` with the paths that go.
    pub fn clear_bindings(&mut self, mut release: impl FnMut(BindingPathId)) {
        std::mem::take(&mut self.waiting).into_keys().for_each(|(_, path)| release(path));
        self.origins_mut().for_each(|origin| origin.count.clear_bindings());
        self.prune(release);
    }

    fn add_origin(&mut self, path: BindingPathId, bindings: u32) {
        let origin = InterestOrigin { path, count: OriginCount(OriginCount::ONE_BINDING * bindings) };
        match self.first_origin {
            None => self.first_origin = Some(origin),
            Some(_) => self.more_origins = self.more_origins.iter().copied().chain([origin]).collect(),
        }
    }

    /// Whether no path is left. A free place of the table has none either.
    pub fn is_empty(&self) -> bool {
        self.first_origin.is_none() && self.waiting.is_empty()
    }

    /// Removes the paths without bindings that are not requested, and calls `release` with them. Others have their turn then.
    pub fn prune(&mut self, mut release: impl FnMut(BindingPathId)) {
        if self.origins().all(|origin| !origin.count.is_zero()) {
            return;
        }
        for origin in self.origins().filter(|origin| origin.count.is_zero()) {
            release(origin.path);
        }
        let mut left = self.origins().copied().filter(|origin| !origin.count.is_zero());
        let first = left.next();
        let more = left.collect();
        (self.first_origin, self.more_origins) = (first, more);
        self.take_waiting();
    }

    fn heap_bytes(&self) -> usize {
        self.encoded.len()
            + self.more_origins.len() * size_of::<InterestOrigin>()
            + self.waiting.len() * size_of::<((bool, BindingPathId), u32)>() * 3 / 2
    }
}

/// The interests of one route.
pub(crate) struct InterestTable {
    interests: Vec<BindingInterest>,
    free: Vec<u32>,
    /// Hash and place of each. A tree: of a hash table all would be hashed anew at once.
    index: BTreeSet<(u64, u32)>,
    hash: FixedState,
}

impl InterestTable {
    pub fn new(hash_seed: u64) -> Self {
        InterestTable {
            interests: Vec::new(),
            free: Vec::new(),
            index: BTreeSet::new(),
            hash: FixedState::with_seed(hash_seed),
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Every id that was ever in use.
    pub fn ids(&self) -> impl Iterator<Item = InterestId> + use<> {
        (0..self.interests.len() as u32).map(InterestId)
    }

    pub fn get(&self, id: InterestId) -> &BindingInterest {
        &self.interests[id.0 as usize]
    }

    pub fn get_mut(&mut self, id: InterestId) -> &mut BindingInterest {
        &mut self.interests[id.0 as usize]
    }

    pub fn find(&self, encoded: &[u8]) -> Option<InterestId> {
        let hash = hash_of(&self.hash, encoded);
        let mut alike = self.index.range((hash, 0)..=(hash, u32::MAX)).map(|&(_, at)| at);
        alike.find(|&at| *self.interests[at as usize].encoded == *encoded).map(InterestId)
    }

    /// Inserts an interest that is not in the table.
    pub fn insert(&mut self, encoded: &[u8]) -> InterestId {
        let interest = BindingInterest {
            encoded: encoded.into(),
            first_origin: None,
            more_origins: Box::default(),
            waiting: BTreeMap::new(),
            is_due: false,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.interests[at as usize] = interest;
                at
            }
            None => {
                self.interests.push(interest);
                (self.interests.len() - 1) as u32
            }
        };
        self.index.insert((hash_of(&self.hash, encoded), at));
        InterestId(at)
    }

    /// Removes an interest without origins.
    pub fn remove(&mut self, id: InterestId) {
        let encoded = std::mem::take(&mut self.get_mut(id).encoded);
        let removed = self.index.remove(&(hash_of(&self.hash, &encoded), id.0));
        assert!(removed, "every interest is in the index");
        self.free.push(id.0);
    }

    /// Bytes on the heap, approximately.
    pub fn bytes(&self) -> usize {
        let heap_bytes: usize = self.interests.iter().map(BindingInterest::heap_bytes).sum();
        heap_bytes + self.interests.capacity() * size_of::<BindingInterest>() + self.index.len() * INDEX_ENTRY_BYTES
    }
}

/// Bytes of an entry of the tree, a third of which is free on average.
const INDEX_ENTRY_BYTES: usize = size_of::<(u64, u32)>() * 3 / 2;

fn hash_of(hash: &FixedState, encoded: &[u8]) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write(encoded);
    hasher.finish()
}
