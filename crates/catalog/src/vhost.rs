//! Virtual hosts.
//!
//! Enters: names.  Leaves: vhosts and their ids.
//! Owns:   what is kept per vhost.

use crate::{
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
}

pub(crate) struct VhostTable {
    vhosts: Vec<Option<Vhost>>,
    by_name: HashMap<Name, VhostId, FixedState>,
}

impl VhostTable {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self { vhosts: Vec::new(), by_name: HashMap::with_hasher(FixedState::with_seed(limits.hash_seed)) }
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn find(&self, name: &str) -> Option<VhostId> {
        self.by_name.get(name).copied()
    }

    pub fn get(&self, id: VhostId) -> Option<&Vhost> {
        self.vhosts.get(id.0 as usize)?.as_ref()
    }

    /// A vhost in which something is, so that it must be there.
    pub fn at(&self, id: VhostId) -> &Vhost {
        self.get(id).expect("a vhost goes after everything in it")
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

    pub fn remove(&mut self, id: VhostId) {
        if let Some(vhost) = self.vhosts.get_mut(id.0 as usize).and_then(Option::take) {
            self.by_name.remove(&vhost.name);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (VhostId, &Vhost)> {
        self.vhosts.iter().enumerate().filter_map(|(id, vhost)| Some((VhostId(id as u32), vhost.as_ref()?)))
    }
}
