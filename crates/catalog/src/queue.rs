//! Queues: their definitions, and the table that finds them.
//!
//! Enters: names of a vhost.  Leaves: queues and their ids.
//! Owns:   what a queue was declared to be, and which session has which queues to itself.

use crate::{
    binding::ListHead,
    features::QueueFeatures,
    ids::{QueueId, SessionId, ShardId, VhostId},
    limits::CatalogLimits,
    name::Name,
    named::{NameTable, Named},
    policy::EffectivePolicy,
    route::{QueueRoute, RouteDependence, RoutedQueue},
};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::sync::Arc;
use wire::Table;

/// What a queue was declared to be.
#[derive(Clone, Debug)]
pub struct QueueDefinition {
    pub name: Name,
    /// Where it is defined.
    pub vhost: VhostId,
    /// Survives a restart, once there is a store.
    pub durable: bool,
    /// Goes with its last consumer.
    pub auto_delete: bool,
    /// The shard on which its messages are.
    pub home: ShardId,
    /// The session that has it to itself, and with which it goes.
    pub exclusive: Option<SessionId>,
    /// As declared.
    pub arguments: Option<Box<Table>>,
    /// What policies say of it for now. It is no argument: a queue declared again is not asked about it.
    pub policy: Option<Arc<EffectivePolicy>>,
}

impl QueueDefinition {
    /// What it does beyond queueing; `None` for a plain queue.
    pub fn features(&self) -> Option<QueueFeatures> {
        QueueFeatures::of(self.arguments.as_deref(), self.policy.as_deref())
    }
}

pub(crate) struct QueueEntry {
    pub definition: QueueDefinition,
    pub serial: u32,
    /// Bindings to it.
    pub into: ListHead,
    /// The route to this queue alone, once it was needed.
    pub route: Option<Arc<QueueRoute>>,
}

impl Named for QueueEntry {
    fn vhost(&self) -> VhostId {
        self.definition.vhost
    }
    fn name(&self) -> &str {
        &self.definition.name
    }
}

pub(crate) struct QueueTable {
    pub table: NameTable<QueueEntry>,
    exclusive: HashMap<SessionId, Vec<u32>, FixedState>,
}

impl QueueTable {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            table: NameTable::new(limits.hash_seed),
            exclusive: HashMap::with_hasher(FixedState::with_seed(limits.hash_seed)),
        }
    }

    #[inline]
    pub fn get(&self, id: QueueId) -> Option<&QueueEntry> {
        self.table.get(id.index).filter(|queue| queue.serial == id.serial)
    }

    #[inline]
    pub fn id(&self, index: u32) -> QueueId {
        QueueId { index, serial: self.table.at(index).serial }
    }

    #[inline]
    pub fn routed(&self, index: u32) -> RoutedQueue {
        let queue = self.table.at(index);
        RoutedQueue { id: QueueId { index, serial: queue.serial }, home: queue.definition.home }
    }

    /// The route to this queue alone.
    #[inline]
    pub fn route(&mut self, index: u32) -> Arc<QueueRoute> {
        if let Some(route) = &self.table.at(index).route {
            return Arc::clone(route);
        }
        let queues = Box::new([self.routed(index)]);
        let route =
            Arc::new(QueueRoute { queues, held: Box::default(), decided: RouteDependence::ByKey, stamped: false });
        self.table.at_mut(index).route = Some(Arc::clone(&route));
        route
    }

    pub fn insert(&mut self, definition: QueueDefinition) -> QueueId {
        let serial = self.table.next_serial();
        let exclusive = definition.exclusive;
        let index = self.table.insert(QueueEntry { definition, serial, into: ListHead::default(), route: None });
        if let Some(session) = exclusive {
            self.exclusive.entry(session).or_default().push(index);
        }
        QueueId { index, serial }
    }

    pub fn remove(&mut self, index: u32) -> QueueEntry {
        let queue = self.table.remove(index);
        if let Some(session) = queue.definition.exclusive
            && let Some(queues) = self.exclusive.get_mut(&session)
        {
            queues.retain(|&other| other != index);
            if queues.is_empty() {
                self.exclusive.remove(&session);
            }
        }
        queue
    }

    /// The queues that a session has to itself, in the order it declared them.
    pub fn of_session(&self, session: SessionId) -> Vec<u32> {
        self.exclusive.get(&session).cloned().unwrap_or_default()
    }
}
