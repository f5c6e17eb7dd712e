//! Queues: their definitions, and the table that finds them.
//!
//! Enters: names of a vhost.  Leaves: queues and their ids.
//! Owns:   what a queue was declared to be, and which session has which queues to itself.

use crate::{
    binding::{ListHead, NONE},
    copy_budget::CopyBudget,
    features::QueueFeatures,
    heap::{allocated, boxed_table, shared},
    ids::{QueueId, QueueUid, SessionId, ShardId, VhostId},
    limits::CatalogLimits,
    name::Name,
    named::{NameTable, Named, hidden_serial},
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
    /// Only a durable queue has one: it survives a restart, if there is a store.
    pub uid: Option<QueueUid>,
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
    /// Whether it survives a restart, if there is a store.
    pub fn is_durable(&self) -> bool {
        self.uid.is_some()
    }

    /// What it does beyond queueing; `None` for a plain queue.
    pub fn features(&self) -> Option<QueueFeatures> {
        QueueFeatures::of(self.arguments.as_deref(), self.policy.as_deref())
    }
}

#[derive(Clone)]
pub(crate) struct QueueEntry {
    pub definition: QueueDefinition,
    pub serial: u32,
    /// Bindings to it.
    pub into: ListHead,
    /// The route to this queue alone, once it was needed.
    pub route: Option<Arc<QueueRoute>>,
    /// It is being removed.
    pub leaving: bool,
    /// The queues of its session before and after it.
    previous: u32,
    next: u32,
}

/// The queues that a session has to itself, in the order in which it declared them.
#[derive(Clone)]
struct ExclusiveQueues {
    first: u32,
    last: u32,
}

/// Bytes of the route to one queue.
const ROUTE_BYTES: usize = shared(size_of::<QueueRoute>()) + allocated(size_of::<RoutedQueue>());

impl Named for QueueEntry {
    fn vhost(&self) -> VhostId {
        self.definition.vhost
    }
    fn name(&self) -> &str {
        &self.definition.name
    }
    fn heap_bytes(&self) -> usize {
        shared(self.definition.name.len()) + boxed_table(self.definition.arguments.as_deref())
    }
    fn is_leaving(&self) -> bool {
        self.leaving
    }
}

#[derive(Clone)]
pub(crate) struct QueueTable {
    pub table: NameTable<QueueEntry>,
    exclusive: HashMap<SessionId, ExclusiveQueues, FixedState>,
    /// Queues that have their route.
    routes: usize,
}

impl QueueTable {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            table: NameTable::new(limits.hash_seed),
            exclusive: HashMap::with_hasher(FixedState::with_seed(limits.hash_seed)),
            routes: 0,
        }
    }

    /// One without queues, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        Self { table: self.table.begin_copy(), exclusive: self.exclusive.clone(), routes: 0 }
    }

    /// Copies more queues, without the routes to them alone. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        self.table.copy_part(&mut copy.table, budget, |queue| QueueEntry { route: None, ..queue.clone() })
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
        self.routes += 1;
        route
    }

    pub fn insert(&mut self, definition: QueueDefinition) -> QueueId {
        let serial = self.table.next_serial();
        let exclusive = definition.exclusive;
        let index = self.table.insert(QueueEntry {
            definition,
            serial,
            into: ListHead::default(),
            route: None,
            leaving: false,
            previous: NONE,
            next: NONE,
        });
        if let Some(session) = exclusive {
            let queues = self.exclusive.entry(session).or_insert(ExclusiveQueues { first: index, last: index });
            let last = std::mem::replace(&mut queues.last, index);
            if last != index {
                self.table.at_mut(index).previous = last;
                self.table.at_mut(last).next = index;
            }
        }
        QueueId { index, serial }
    }

    /// Begins to remove a queue: neither its name nor its id nor its session finds it any more.
    pub fn hide(&mut self, index: u32) {
        self.table.hide(index);
        let queue = self.table.at_mut(index);
        (queue.serial, queue.leaving) = (hidden_serial(queue.serial), true);
        if queue.route.take().is_some() {
            self.routes -= 1;
        }
        let queue = self.table.at(index);
        if let Some(session) = queue.definition.exclusive {
            self.disown(session, queue.previous, queue.next);
        }
    }

    /// Takes a queue off its session's list, where it is between these two.
    fn disown(&mut self, session: SessionId, previous: u32, next: u32) {
        if previous != NONE {
            self.table.at_mut(previous).next = next;
        }
        if next != NONE {
            self.table.at_mut(next).previous = previous;
        }
        let Some(queues) = self.exclusive.get_mut(&session) else {
            unreachable!("an exclusive queue is on its session's list")
        };
        match (previous, next) {
            (NONE, NONE) => drop(self.exclusive.remove(&session)),
            (NONE, next) => queues.first = next,
            (previous, NONE) => queues.last = previous,
            _ => {}
        }
    }

    /// The first of the queues that a session has to itself.
    pub fn of_session(&self, session: SessionId) -> Option<u32> {
        self.exclusive.get(&session).map(|queues| queues.first)
    }

    /// Bytes of all queues.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.exclusive.allocation_size() + self.routes * ROUTE_BYTES
    }
}
