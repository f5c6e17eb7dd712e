//! Virtual hosts.
//!
//! Enters: names.  Leaves: vhosts and their ids.
//! Owns:   what is kept per vhost.

use crate::{
    copy_budget::CopyBudget,
    heap::shared,
    ids::{ExchangeId, VhostId},
    limits::CatalogLimits,
    name::Name,
    policy::PolicyTable,
};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// What may be in a vhost, as an operator says; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VhostLimits {
    /// Connections at one time (RabbitMQ's `max-connections`).
    pub connections_max: Option<u32>,
    /// Queues (RabbitMQ's `max-queues`).
    pub queues_max: Option<u32>,
    /// Bytes that wait in its queues, as the memory limit counts them. RabbitMQ has no such limit.
    pub queue_bytes_max: Option<u64>,
}

/// Bytes of a vhost's name, as they are counted: operators give them, and there are few.
const NAME_BYTES_MEAN: usize = 16;

#[derive(Clone)]
pub(crate) struct Vhost {
    pub name: Name,
    pub default_exchange: ExchangeId,
    /// Exchanges that have an alternate; while there are any, a change at one exchange can alter routes from others.
    pub alternates: u32,
    /// When something last changed that can alter routes from more than one exchange.
    pub version: u64,
    /// What operators say of its queues and exchanges.
    pub policies: PolicyTable,
    /// What may be in it.
    pub limits: VhostLimits,
    pub queues: u32,
    /// It is being removed.
    pub leaving: bool,
}

#[derive(Clone)]
pub(crate) struct VhostTable {
    vhosts: Vec<Option<Vhost>>,
    by_name: HashMap<Name, VhostId, FixedState>,
    /// How many are being removed.
    leaving: usize,
    /// Bytes of all policies.
    policies_bytes: usize,
}

impl VhostTable {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            vhosts: Vec::new(),
            by_name: HashMap::with_hasher(FixedState::with_seed(limits.hash_seed)),
            leaving: 0,
            policies_bytes: 0,
        }
    }

    /// One without vhosts, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        let by_name = HashMap::with_capacity_and_hasher(self.by_name.len(), self.by_name.hasher().clone());
        let VhostTable { leaving, policies_bytes, .. } = *self;
        Self { vhosts: Vec::new(), by_name, leaving, policies_bytes }
    }

    /// Copies more vhosts. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        let VhostTable { vhosts, by_name, .. } = copy;
        budget.copy_each(&self.vhosts, vhosts, |vhost| {
            if let Some(name) = vhost.as_ref().filter(|vhost| !vhost.leaving).map(|vhost| &vhost.name) {
                by_name.extend(self.by_name.get_key_value(name).map(|(name, &id)| (name.clone(), id)));
            }
            (vhost.clone(), vhost.as_ref().map_or(0, |vhost| vhost.policies.bytes()))
        })
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn find(&self, name: &str) -> Option<VhostId> {
        self.by_name.get(name).copied()
    }

    pub fn get(&self, id: VhostId) -> Option<&Vhost> {
        self.vhosts.get(id.0 as usize)?.as_ref().filter(|vhost| !vhost.leaving)
    }

    /// A vhost in which something is, so that it must be there, though it may be leaving.
    pub fn at(&self, id: VhostId) -> &Vhost {
        self.vhosts[id.0 as usize].as_ref().expect("a vhost goes after everything in it")
    }

    /// Whether a vhost is being removed: what is still in it is found no more.
    #[inline]
    pub fn is_leaving(&self, id: VhostId) -> bool {
        self.leaving != 0 && self.get(id).is_none()
    }

    pub fn at_mut(&mut self, id: VhostId) -> &mut Vhost {
        self.vhosts[id.0 as usize].as_mut().expect("a vhost goes after everything in it")
    }

    /// The id that the next vhost gets.
    pub fn next_id(&self) -> VhostId {
        VhostId(self.vhosts.len() as u32)
    }

    pub fn insert(&mut self, vhost: Vhost) -> VhostId {
        let id = self.next_id();
        self.by_name.insert(vhost.name.clone(), id);
        self.vhosts.push(Some(vhost));
        id
    }

    /// Begins to remove a vhost: neither its name nor its id finds it any more.
    pub fn hide(&mut self, id: VhostId) {
        let vhost = self.at_mut(id);
        vhost.leaving = true;
        let name = vhost.name.clone();
        self.by_name.remove(&name);
        self.leaving += 1;
    }

    /// Removes a vhost that is hidden, and in which nothing is left.
    pub fn remove(&mut self, id: VhostId) {
        self.policies_bytes -= self.at(id).policies.bytes();
        self.vhosts[id.0 as usize] = None;
        self.leaving -= 1;
    }

    /// Puts these policies in the place of a vhost's.
    pub fn set_policies(&mut self, id: VhostId, policies: PolicyTable) {
        let bytes = policies.bytes();
        let before = std::mem::replace(&mut self.at_mut(id).policies, policies);
        self.policies_bytes = self.policies_bytes + bytes - before.bytes();
    }

    pub fn bytes(&self) -> usize {
        let names = self.by_name.len() * shared(NAME_BYTES_MEAN);
        self.vhosts.capacity() * size_of::<Option<Vhost>>()
            + self.by_name.allocation_size()
            + names
            + self.policies_bytes
    }

    pub fn iter(&self) -> impl Iterator<Item = (VhostId, &Vhost)> {
        self.vhosts
            .iter()
            .enumerate()
            .filter_map(|(id, vhost)| Some((VhostId(id as u32), vhost.as_ref().filter(|vhost| !vhost.leaving)?)))
    }
}
