//! Watches: who asks to be told how the bindings of an exchange change.
//!
//! Enters: names to watch; bindings and exchanges that come and go.  Leaves: the changes, in their order, once.
//! Owns:   the watches, counted, and the changes that nobody has taken, bounded in number and bytes.

use crate::{
    heap::shared,
    ids::VhostId,
    limits::{BINDING_CHANGE_BYTES_MAX, BINDING_CHANGES_MAX, CatalogLimits},
    name::Name,
    named::{NameTable, Named},
};
use wire::Table;

/// No watch: what an exchange carries that nobody watches.
pub(crate) const UNWATCHED: u32 = u32::MAX;

/// A watch on the bindings of the exchange of one name, whether there is such an exchange at the moment or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId {
    /// Its place, from 0 and as low as is free.
    pub index: u32,
    /// Which user of that place.
    pub serial: u32,
}

/// What happened to a watched exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingChange {
    /// Whose watch it concerns: that of all who watch this name.
    pub watch: WatchId,
    /// What happened.
    pub what: BindingEvent,
}

/// The kinds of change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingEvent {
    /// A binding from it is new.
    Bound {
        /// Its routing key or pattern.
        routing_key: Box<[u8]>,
        /// Its arguments, sorted by name.
        arguments: Option<Box<Table>>,
    },
    /// A binding from it is gone, whatever the reason.
    Unbound {
        /// Its routing key or pattern.
        routing_key: Box<[u8]>,
        /// Its arguments, sorted by name.
        arguments: Option<Box<Table>>,
    },
    /// The exchange is gone, and all bindings from it: of these nothing more is said.
    Gone,
    /// There is an exchange of this name, which was not there before. It has no bindings yet.
    Made,
    /// More happened than is kept: look at everything anew, at the exchange and at its bindings.
    Resync,
}

#[derive(Clone)]
struct BindingSubscription {
    vhost: VhostId,
    name: Name,
    serial: u32,
    /// How often it is watched.
    count: u32,
    /// Changes of it were given up: it is told so instead of more changes.
    lost: bool,
}

impl Named for BindingSubscription {
    fn vhost(&self) -> VhostId {
        self.vhost
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn heap_bytes(&self) -> usize {
        shared(self.name.len())
    }
}

/// All watches of one replica, and what they have to say. Replicas are watched one by one: this is no definition.
#[derive(Clone)]
pub(crate) struct BindingSubscriptions {
    table: NameTable<BindingSubscription>,
    changes: Vec<BindingChange>,
    /// Bytes of their keys and arguments.
    bytes: usize,
}

impl BindingSubscriptions {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self { table: NameTable::new(limits.hash_seed), changes: Vec::new(), bytes: 0 }
    }

    /// The watch on a name, counted once more.
    pub fn add(&mut self, vhost: VhostId, name: &Name) -> WatchId {
        let index = match self.table.find(vhost, name.as_bytes()) {
            Some(index) => index,
            None => {
                let serial = self.table.next_serial();
                self.table.insert(BindingSubscription { vhost, name: name.clone(), serial, count: 0, lost: false })
            }
        };
        let watch = self.table.at_mut(index);
        watch.count += 1;
        WatchId { index, serial: watch.serial }
    }

    /// Ends it where it was counted once: then of which name it was. What it had to say is forgotten.
    pub fn remove(&mut self, id: WatchId) -> Option<(VhostId, Name)> {
        let is_there = self.table.get(id.index).is_some_and(|watch| watch.serial == id.serial);
        assert!(is_there, "a watch is given up as often as it was taken");
        let watch = self.table.at_mut(id.index);
        watch.count -= 1;
        if watch.count > 0 {
            return None;
        }
        self.table.hide(id.index);
        let watch = self.table.remove(id.index);
        self.changes.retain(|change| change.watch != id);
        self.bytes = self.changes.iter().map(|change| change.what.bytes()).sum();
        Some((watch.vhost, watch.name))
    }

    /// The watch on a name, if there is one.
    pub fn find(&self, vhost: VhostId, name: &[u8]) -> Option<u32> {
        if self.table.len() == 0 { None } else { self.table.find(vhost, name) }
    }

    /// Notes what happened.
    pub fn note(&mut self, index: u32, what: BindingEvent) {
        let watch = self.table.at(index);
        if watch.lost {
            return;
        }
        let id = WatchId { index, serial: watch.serial };
        self.bytes += what.bytes();
        self.changes.push(BindingChange { watch: id, what });
        if self.changes.len() > BINDING_CHANGES_MAX || self.bytes > BINDING_CHANGE_BYTES_MAX {
            self.give_up();
        }
    }

    /// Forgets all changes: whoever they concerned is told to look for himself.
    fn give_up(&mut self) {
        self.bytes = 0;
        let mut told = Vec::new();
        for change in std::mem::take(&mut self.changes) {
            let watch = self.table.at_mut(change.watch.index);
            if !std::mem::replace(&mut watch.lost, true) || change.what == BindingEvent::Resync {
                told.push(BindingChange { watch: change.watch, what: BindingEvent::Resync });
            }
        }
        self.changes = told;
    }

    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.changes.capacity() * size_of::<BindingChange>() + self.bytes
    }

    /// Whether there is anything to take.
    #[inline]
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// All changes, in their order.
    pub fn take(&mut self) -> std::vec::IntoIter<BindingChange> {
        self.bytes = 0;
        let changes = std::mem::take(&mut self.changes);
        for change in changes.iter().filter(|change| change.what == BindingEvent::Resync) {
            self.table.at_mut(change.watch.index).lost = false;
        }
        changes.into_iter()
    }
}

impl BindingEvent {
    fn bytes(&self) -> usize {
        match self {
            BindingEvent::Bound { routing_key, arguments } | BindingEvent::Unbound { routing_key, arguments } => {
                routing_key.len() + arguments.as_ref().map_or(0, |arguments| arguments.encoded_len())
            }
            BindingEvent::Gone | BindingEvent::Made | BindingEvent::Resync => 0,
        }
    }
}
