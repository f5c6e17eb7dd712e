//! Paths of bindings: the brokers that a binding has passed, from its argument `x-bound-from`.
//!
//! Enters: the argument as a peer sent it.  Leaves: an id that is the same for the same brokers; what to propagate.
//! Owns:   the paths of one route, each stored once, and with how many hops each may be propagated to the source.
//!
//! The argument is a list of tables, the nearest broker first, each with `cluster-name`, `vhost`, `exchange` and `hops`, as RabbitMQ
//! has it. The exchange is a label that changes with every connection, so two paths that differ in it alone are the same. Peers are
//! not trusted: an argument that cannot be read is not propagated.

use crate::{BrokerIdentity, limits::PATH_BROKERS_MAX};
use foldhash::fast::FixedState;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};
use wire::{Table, Value};

/// Identifies a path of one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BindingPathId(u32);

/// The empty path of this broker's own bindings.
pub(crate) const OWN_PATH: BindingPathId = BindingPathId(0);

/// The argument is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreadablePath;

/// Length that stands for a missing virtual host: older versions of RabbitMQ send none.
const NO_VHOST: u32 = u32::MAX;

struct BindingPath {
    /// Its brokers, each as two texts prefixed by their lengths, and the hops that the nearest broker gave it.
    encoded: Box<[u8]>,
    /// The encoded values of the list, which are propagated behind this broker's own.
    list: Box<[u8]>,
    brokers: u16,
    /// With how many hops it is propagated to the source; 0: not at all.
    hops: u16,
    references: u32,
}

/// The paths of one route.
pub(crate) struct BindingPaths {
    paths: Vec<BindingPath>,
    free: Vec<u32>,
    /// Hash and place of each. A tree: of a hash table all would be hashed anew at once.
    index: BTreeSet<(u64, u32)>,
    hash: FixedState,
    own: BrokerIdentity,
    source: Option<BrokerIdentity>,
    hops_max: u16,
    scratch: Vec<u8>,
}

impl BindingPaths {
    pub fn new(own: BrokerIdentity, hops_max: u16, hash_seed: u64) -> Self {
        let own_path =
            BindingPath { encoded: Box::default(), list: Box::default(), brokers: 0, hops: hops_max, references: 1 };
        Self {
            paths: vec![own_path],
            free: Vec::new(),
            index: BTreeSet::new(),
            hash: FixedState::with_seed(hash_seed),
            own,
            source: None,
            hops_max,
            scratch: Vec::new(),
        }
    }

    /// Sets the source, which decides which paths are propagated.
    pub fn set_source(&mut self, source: Option<BrokerIdentity>) {
        self.source = source;
        for at in 1..self.paths.len() {
            self.paths[at].hops = self.hops_of(&self.paths[at].encoded);
        }
    }

    /// The path of an argument, with one reference more.
    pub fn acquire(&mut self, argument: &Value) -> Result<BindingPathId, UnreadablePath> {
        let mut encoded = std::mem::take(&mut self.scratch);
        let read = encode_path(argument, &mut encoded);
        let found = read.map(|brokers| match self.find(&encoded) {
            Some(id) => id,
            None => self.insert(&encoded, brokers, argument),
        });
        self.scratch = encoded;
        let id = found?;
        self.paths[id.0 as usize].references += 1;
        Ok(id)
    }

    /// The path of an argument, if it is in the table.
    pub fn look_up(&mut self, argument: &Value) -> Result<Option<BindingPathId>, UnreadablePath> {
        let mut encoded = std::mem::take(&mut self.scratch);
        let found = encode_path(argument, &mut encoded).map(|_| self.find(&encoded));
        self.scratch = encoded;
        found
    }

    /// Drops a reference.
    pub fn release(&mut self, id: BindingPathId) {
        if id == OWN_PATH {
            return;
        }
        let path = &mut self.paths[id.0 as usize];
        path.references -= 1;
        if path.references > 0 {
            return;
        }
        let (encoded, _) = (std::mem::take(&mut path.encoded), std::mem::take(&mut path.list));
        let removed = self.index.remove(&(hash_of(&self.hash, &encoded), id.0));
        assert!(removed, "every path is in the index");
        self.free.push(id.0);
    }

    /// With how many hops it is propagated to the source; 0: not at all.
    #[inline]
    pub fn hops(&self, id: BindingPathId) -> u16 {
        self.paths[id.0 as usize].hops
    }

    /// How many brokers are on it, without this one.
    #[inline]
    pub fn length(&self, id: BindingPathId) -> u16 {
        self.paths[id.0 as usize].brokers
    }

    /// What is propagated behind this broker's own entry: encoded values of a list.
    pub fn list(&self, id: BindingPathId) -> &[u8] {
        &self.paths[id.0 as usize].list
    }

    /// Its brokers, the nearest first, in a form that can be compared.
    pub fn brokers(&self, id: BindingPathId) -> impl Iterator<Item = &[u8]> {
        PathBrokers(&self.paths[id.0 as usize].encoded)
    }

    /// Bytes on the heap, approximately.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.paths.iter().map(|path| path.encoded.len() + path.list.len()).sum();
        texts + self.paths.capacity() * size_of::<BindingPath>() + self.index.len() * size_of::<(u64, u32)>() * 3 / 2
    }

    fn find(&self, encoded: &[u8]) -> Option<BindingPathId> {
        let hash = hash_of(&self.hash, encoded);
        let mut alike = self.index.range((hash, 0)..=(hash, u32::MAX)).map(|&(_, at)| at);
        alike.find(|&at| *self.paths[at as usize].encoded == *encoded).map(BindingPathId)
    }

    fn insert(&mut self, encoded: &[u8], brokers: u16, argument: &Value) -> BindingPathId {
        let mut list = Vec::new();
        for value in argument.as_list().into_iter().flat_map(|list| list.iter()) {
            value.encode(&mut list);
        }
        let path = BindingPath {
            encoded: encoded.into(),
            list: list.into(),
            brokers,
            hops: self.hops_of(encoded),
            references: 0,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.paths[at as usize] = path;
                at
            }
            None => {
                self.paths.push(path);
                (self.paths.len() - 1) as u32
            }
        };
        self.index.insert((hash_of(&self.hash, encoded), at));
        BindingPathId(at)
    }

    /// One hop less than the path has, and at most as many as this route allows; none if it leads to a broker on it.
    fn hops_of(&self, encoded: &[u8]) -> u16 {
        let is_on = |identity: &BrokerIdentity| PathBrokers(encoded).any(|broker| is_broker(broker, identity));
        if is_on(&self.own) || self.source.as_ref().is_some_and(is_on) {
            return 0;
        }
        let hops = encoded.last_chunk().map_or(0, |&hops| u16::from_be_bytes(hops));
        hops.saturating_sub(1).min(self.hops_max)
    }
}

fn hash_of(hash: &FixedState, encoded: &[u8]) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write(encoded);
    hasher.finish()
}

/// Encodes the argument in the form in which paths are stored. Returns the number of brokers.
fn encode_path(argument: &Value, encoded: &mut Vec<u8>) -> Result<u16, UnreadablePath> {
    encoded.clear();
    let list = argument.as_list().ok_or(UnreadablePath)?;
    if list.is_empty() || list.len() > PATH_BROKERS_MAX {
        return Err(UnreadablePath);
    }
    for hop in list.iter() {
        let hop = hop.as_table().ok_or(UnreadablePath)?;
        let name = hop.get("cluster-name").and_then(Value::as_bytes).ok_or(UnreadablePath)?;
        push_text(encoded, name);
        match hop.get("vhost") {
            None => encoded.extend_from_slice(&NO_VHOST.to_be_bytes()),
            Some(vhost) => push_text(encoded, vhost.as_bytes().ok_or(UnreadablePath)?),
        }
    }
    // As in RabbitMQ, the hops of the nearest broker decide. Values beyond 16 bits are cut.
    let nearest: &Table = list.iter().next().and_then(Value::as_table).ok_or(UnreadablePath)?;
    let hops = nearest.get("hops").and_then(Value::as_i64).ok_or(UnreadablePath)?;
    let hops = u16::try_from(hops.max(0)).unwrap_or(u16::MAX);
    encoded.extend_from_slice(&hops.to_be_bytes());
    Ok(list.len() as u16)
}

fn push_text(encoded: &mut Vec<u8>, text: &[u8]) {
    // Arguments are far below 4 GiB (`catalog::limits::ARGUMENTS_BYTES_MAX`).
    let length = u32::try_from(text.len()).unwrap_or(NO_VHOST - 1);
    encoded.extend_from_slice(&length.to_be_bytes());
    encoded.extend_from_slice(&text[..length as usize]);
}

/// Splits a text off that is prefixed by its length.
fn split_text(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    match u32::from_be_bytes(*length) {
        NO_VHOST => Some((None, rest)),
        length => rest.split_at_checked(length as usize).map(|(text, rest)| (Some(text), rest)),
    }
}

/// Iterates over the brokers of a path, each with its lengths.
struct PathBrokers<'a>(&'a [u8]);

impl<'a> Iterator for PathBrokers<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        let (_, rest) = split_text(self.0)?;
        let (_, rest) = split_text(rest)?;
        let broker = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        Some(broker)
    }
}

/// Whether a broker of a path is this one. One without a virtual host matches any.
fn is_broker(broker: &[u8], identity: &BrokerIdentity) -> bool {
    let Some((Some(name), rest)) = split_text(broker) else { return false };
    let vhost = split_text(rest).and_then(|(vhost, _)| vhost);
    name == identity.cluster_name.as_bytes() && vhost.is_none_or(|vhost| vhost == identity.vhost.as_bytes())
}
