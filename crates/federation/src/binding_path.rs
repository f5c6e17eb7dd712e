//! Paths: through which brokers a want has come, as the binding argument `x-bound-from` says.
//!
//! Enters: the argument as a peer sent it.  Leaves: a number for each path, the same for the same brokers; what is passed on.
//! Owns:   the paths of one mirror, each kept once, and which of them may go on to the source, with how many hops.
//! Never:  trusts the argument: what cannot be read leads nowhere.
//!
//! The argument is a list of tables, the nearest broker first, each with `cluster-name`, `vhost`, `exchange` and `hops`, which is
//! RabbitMQ's form. The exchange is a label that changes with every connection, so it makes no difference here.

use crate::{BrokerIdentity, limits::PATH_BROKERS_MAX};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};
use wire::{Table, Value};

/// A path of one mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BindingPathId(u32);

/// Of a want of this broker's own.
pub(crate) const OWN_PATH: BindingPathId = BindingPathId(0);

/// The argument says nothing that can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreadablePath;

/// What stands for a virtual host that is not named: older RabbitMQs name none.
const NO_VHOST: u32 = u32::MAX;

struct BindingPath {
    /// Its brokers, each as two texts with their lengths in front, and the hops that its last broker gave it.
    encoded: Box<[u8]>,
    /// The values of the list as they came: they are passed on behind this broker's own.
    list: Box<[u8]>,
    brokers: u16,
    /// With how many hops it goes on to the source; 0: not at all.
    hops: u16,
    references: u32,
}

/// The paths of one mirror.
pub(crate) struct BindingPaths {
    paths: Vec<BindingPath>,
    free: Vec<u32>,
    index: HashTable<u32>,
    hash: FixedState,
    own: BrokerIdentity,
    source: Option<BrokerIdentity>,
    hops_max: u16,
    scratch: Vec<u8>,
}

impl BindingPaths {
    pub fn new(own: BrokerIdentity, hops_max: u16, hash_seed: u64) -> Self {
        let nowhere = BindingPath { encoded: Box::default(), list: Box::default(), brokers: 0, hops: hops_max, references: 1 };
        Self {
            paths: vec![nowhere],
            free: Vec::new(),
            index: HashTable::new(),
            hash: FixedState::with_seed(hash_seed),
            own,
            source: None,
            hops_max,
            scratch: Vec::new(),
        }
    }

    /// To whom they go on, which decides whether they do.
    pub fn set_source(&mut self, source: Option<BrokerIdentity>) {
        self.source = source;
        for at in 1..self.paths.len() {
            self.paths[at].hops = self.hops_of(&self.paths[at].encoded);
        }
    }

    /// The path that an argument says, held once more.
    pub fn acquire(&mut self, argument: &Value) -> Result<BindingPathId, UnreadablePath> {
        let mut said = std::mem::take(&mut self.scratch);
        let read = encode_path(argument, &mut said);
        let found = read.map(|brokers| match self.find(&said) {
            Some(id) => id,
            None => self.insert(&said, brokers, argument),
        });
        self.scratch = said;
        let id = found?;
        self.paths[id.0 as usize].references += 1;
        Ok(id)
    }

    /// The path that an argument says, if it is held.
    pub fn look_up(&mut self, argument: &Value) -> Result<Option<BindingPathId>, UnreadablePath> {
        let mut said = std::mem::take(&mut self.scratch);
        let found = encode_path(argument, &mut said).map(|_| self.find(&said));
        self.scratch = said;
        found
    }

    /// Gives one up that was held.
    pub fn release(&mut self, id: BindingPathId) {
        if id == OWN_PATH {
            return;
        }
        let path = &mut self.paths[id.0 as usize];
        path.references -= 1;
        if path.references > 0 {
            return;
        }
        let (said, _) = (std::mem::take(&mut path.encoded), std::mem::take(&mut path.list));
        match self.index.find_entry(hash_of(&self.hash, &said), |&other| other == id.0) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => unreachable!("every path is in the index"),
        }
        self.free.push(id.0);
    }

    /// With how many hops it goes on to the source; 0: not at all.
    #[inline]
    pub fn hops(&self, id: BindingPathId) -> u16 {
        self.paths[id.0 as usize].hops
    }

    /// How many brokers there are on it, this one not counted.
    #[inline]
    pub fn length(&self, id: BindingPathId) -> u16 {
        self.paths[id.0 as usize].brokers
    }

    /// What is passed on behind this broker's own entry: values of a list, encoded.
    pub fn list(&self, id: BindingPathId) -> &[u8] {
        &self.paths[id.0 as usize].list
    }

    /// Its brokers, the nearest first: bytes that compare.
    pub fn brokers(&self, id: BindingPathId) -> impl Iterator<Item = &[u8]> {
        PathBrokers(&self.paths[id.0 as usize].encoded)
    }

    /// Bytes held, but for what a hash table spares.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.paths.iter().map(|path| path.encoded.len() + path.list.len()).sum();
        texts + self.paths.capacity() * size_of::<BindingPath>() + self.index.capacity() * 5
    }

    fn find(&self, said: &[u8]) -> Option<BindingPathId> {
        let same = |&at: &u32| *self.paths[at as usize].encoded == *said;
        self.index.find(hash_of(&self.hash, said), same).map(|&at| BindingPathId(at))
    }

    fn insert(&mut self, said: &[u8], brokers: u16, argument: &Value) -> BindingPathId {
        let mut list = Vec::new();
        for value in argument.as_list().into_iter().flat_map(|list| list.iter()) {
            value.encode(&mut list);
        }
        let path = BindingPath { encoded: said.into(), list: list.into(), brokers, hops: self.hops_of(said), references: 0 };
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
        let (paths, hash) = (&self.paths, &self.hash);
        self.index.insert_unique(hash_of(hash, said), at, |&other| hash_of(hash, &paths[other as usize].encoded));
        BindingPathId(at)
    }

    /// One less than it had, and no more than this route grants; none where it has been already.
    fn hops_of(&self, said: &[u8]) -> u16 {
        let is_on = |identity: &BrokerIdentity| PathBrokers(said).any(|broker| is_broker(broker, identity));
        if is_on(&self.own) || self.source.as_ref().is_some_and(is_on) {
            return 0;
        }
        let hops = said.last_chunk().map_or(0, |&hops| u16::from_be_bytes(hops));
        hops.saturating_sub(1).min(self.hops_max)
    }
}

fn hash_of(hash: &FixedState, said: &[u8]) -> u64 {
    let mut hasher = hash.build_hasher();
    hasher.write(said);
    hasher.finish()
}

/// Reads the argument into the form in which paths are kept. Answers how many brokers there are.
fn encode_path(argument: &Value, said: &mut Vec<u8>) -> Result<u16, UnreadablePath> {
    said.clear();
    let list = argument.as_list().ok_or(UnreadablePath)?;
    if list.is_empty() || list.len() > PATH_BROKERS_MAX {
        return Err(UnreadablePath);
    }
    for hop in list.iter() {
        let hop = hop.as_table().ok_or(UnreadablePath)?;
        let name = hop.get("cluster-name").and_then(Value::as_bytes).ok_or(UnreadablePath)?;
        push_text(said, name);
        match hop.get("vhost") {
            None => said.extend_from_slice(&NO_VHOST.to_be_bytes()),
            Some(vhost) => push_text(said, vhost.as_bytes().ok_or(UnreadablePath)?),
        }
    }
    // That of the nearest broker alone counts, as in RabbitMQ. More than anybody grants is as good as that.
    let nearest: &Table = list.iter().next().and_then(Value::as_table).ok_or(UnreadablePath)?;
    let hops = nearest.get("hops").and_then(Value::as_i64).ok_or(UnreadablePath)?;
    let hops = u16::try_from(hops.max(0)).unwrap_or(u16::MAX);
    said.extend_from_slice(&hops.to_be_bytes());
    Ok(list.len() as u16)
}

fn push_text(said: &mut Vec<u8>, text: &[u8]) {
    // Arguments are far below 4 GiB (`catalog::limits::ARGUMENTS_BYTES_MAX`), but saying so is no reason to panic.
    let length = u32::try_from(text.len()).unwrap_or(NO_VHOST - 1);
    said.extend_from_slice(&length.to_be_bytes());
    said.extend_from_slice(&text[..length as usize]);
}

/// A length and what it is the length of, and the rest.
fn split_text(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    match u32::from_be_bytes(*length) {
        NO_VHOST => Some((None, rest)),
        length => rest.split_at_checked(length as usize).map(|(text, rest)| (Some(text), rest)),
    }
}

/// The brokers of a path, each with both of its lengths.
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

/// Whether a broker of a path is this one. One that names no virtual host may be any.
fn is_broker(broker: &[u8], identity: &BrokerIdentity) -> bool {
    let Some((Some(name), rest)) = split_text(broker) else { return false };
    let vhost = split_text(rest).and_then(|(vhost, _)| vhost);
    name == identity.cluster_name.as_bytes() && vhost.is_none_or(|vhost| vhost == identity.vhost.as_bytes())
}
