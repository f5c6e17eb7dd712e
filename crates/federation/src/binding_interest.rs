//! Binding interests: a routing key and arguments, stored once, with the paths by which somebody asks for them.
//!
//! Owns:   the table of one route's interests, found by their encoded key and arguments.

use crate::binding_path::BindingPathId;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
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

/// A routing key with arguments that somebody has bound.
pub(crate) struct BindingInterest {
    /// A length octet, the key, and the encoded arguments without those that propagation adds.
    pub encoded: Box<[u8]>,
    first_origin: Option<InterestOrigin>,
    more_origins: Box<[InterestOrigin]>,
    /// It is on the list of interests to compare with the source.
    pub is_due: bool,
}

const _: () = assert!(size_of::<BindingInterest>() == 48);

impl BindingInterest {
    pub fn origins(&self) -> impl Iterator<Item = &InterestOrigin> {
        self.first_origin.iter().chain(&*self.more_origins)
    }

    pub fn origins_mut(&mut self) -> impl Iterator<Item = &mut InterestOrigin> {
        self.first_origin.iter_mut().chain(&mut *self.more_origins)
    }

    pub fn origin_mut(&mut self, path: BindingPathId) -> Option<&mut InterestOrigin> {
        self.origins_mut().find(|origin| origin.path == path)
    }

    /// Adds the first binding of a path.
    pub fn add_origin(&mut self, path: BindingPathId) {
        let origin = InterestOrigin { path, count: OriginCount(OriginCount::ONE_BINDING) };
        match self.first_origin {
            None => self.first_origin = Some(origin),
            Some(_) => self.more_origins = self.more_origins.iter().copied().chain([origin]).collect(),
        }
    }

    /// Whether no path is left. A free place of the table has none either.
    pub fn is_empty(&self) -> bool {
        self.first_origin.is_none()
    }

    /// Removes the paths without bindings that are not requested, and calls `release` with them.
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
    }

    fn heap_bytes(&self) -> usize {
        self.encoded.len() + self.more_origins.len() * size_of::<InterestOrigin>()
    }
}

/// The interests of one route.
pub(crate) struct InterestTable {
    interests: Vec<BindingInterest>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hash: FixedState,
}

impl InterestTable {
    pub fn new(hash_seed: u64) -> Self {
        InterestTable {
            interests: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
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
        let is_it = |&at: &u32| *self.interests[at as usize].encoded == *encoded;
        self.index.find(hash_of(&self.hash, encoded), is_it).copied().map(InterestId)
    }

    /// Inserts an interest that is not in the table.
    pub fn insert(&mut self, encoded: &[u8]) -> InterestId {
        let interest = BindingInterest {
            encoded: encoded.into(),
            first_origin: None,
            more_origins: Box::default(),
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
        let (interests, hash) = (&self.interests, &self.hash);
        let rehash = |&other: &u32| hash_of(hash, &interests[other as usize].encoded);
        self.index.insert_unique(hash_of(hash, encoded), at, rehash);
        InterestId(at)
    }

    /// Removes an interest without origins.
    pub fn remove(&mut self, id: InterestId) {
        let encoded = std::mem::take(&mut self.get_mut(id).encoded);
        match self.index.find_entry(hash_of(&self.hash, &encoded), |&other| other == id.0) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => unreachable!("every interest is in the index"),
        }
        self.free.push(id.0);
    }

    /// Bytes on the heap, approximately.
    pub fn bytes(&self) -> usize {
        let heap_bytes: usize = self.interests.iter().map(BindingInterest::heap_bytes).sum();
        heap_bytes + self.interests.capacity() * size_of::<BindingInterest>() + self.index.capacity() * 5
    }
}

fn hash_of(hash: &FixedState, encoded: &[u8]) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write(encoded);
    hasher.finish()
}
