//! Watching bindings: how a federation's link learns what is wanted of it.
//!
//! Enters: the name of an exchange.  Leaves: what happens to its bindings, for as long as somebody watches.
//! Owns:   the tie between an exchange and the watch on its name.

use super::*;
use crate::{
    ids::VhostId,
    watch::{BindingChange, BindingEvent, UNWATCHED, WatchId},
};

impl Catalog {
    /// From now on changes of the bindings from the exchange of this name are kept for
    /// [`take_binding_changes`](Self::take_binding_changes), on this replica, and it is noticed when the exchange goes or
    /// comes: it need not be there. A name that is watched already has the same watch again, counted.
    ///
    /// Who then looks at all bindings ([`bindings_from`](Self::bindings_from)) takes the changes that are there first: what
    /// he sees includes them.
    pub fn watch_bindings(&mut self, vhost: VhostId, name: &Name) -> WatchId {
        let id = self.watches.add(vhost, name);
        if let Some(index) = self.exchanges.0.find(vhost, name.as_bytes()) {
            self.exchanges.0.at_mut(index).watch = id.index;
        }
        id
    }

    /// Ends what `watch_bindings` began, once for each time. Panics if that was done already.
    pub fn unwatch_bindings(&mut self, id: WatchId) {
        if let Some((vhost, name)) = self.watches.remove(id)
            && let Some(index) = self.exchanges.0.find(vhost, name.as_bytes())
        {
            self.exchanges.0.at_mut(index).watch = UNWATCHED;
        }
    }

    /// Whether there are changes to take.
    #[inline]
    pub fn has_binding_changes(&self) -> bool {
        self.watches.has_changes()
    }

    /// What has happened to watched exchanges, in its order, each change once. At most
    /// [`BINDING_CHANGES_MAX`](crate::limits::BINDING_CHANGES_MAX) are kept; beyond that each watch is told to look anew.
    pub fn take_binding_changes(&mut self) -> impl ExactSizeIterator<Item = BindingChange> + use<> {
        self.watches.take()
    }

    /// A binding of a watched exchange came or goes; it is still there in any case.
    #[cold]
    pub(super) fn note_binding(&mut self, watch: u32, binding: u32, is_new: bool) {
        let routing_key = self.bindings.key(binding).into();
        let arguments = self.bindings.arguments(binding).map(|arguments| Box::new(arguments.clone()));
        let what = match is_new {
            true => BindingEvent::Bound { routing_key, arguments },
            false => BindingEvent::Unbound { routing_key, arguments },
        };
        self.watches.note(watch, what);
    }

    /// A new exchange may be one that is watched for.
    pub(super) fn note_exchange(&mut self, index: u32) {
        let definition = &self.exchanges.0.at(index).definition;
        if let Some(watch) = self.watches.find(definition.vhost, definition.name.as_bytes()) {
            self.exchanges.0.at_mut(index).watch = watch;
            self.watches.note(watch, BindingEvent::Made);
        }
    }

    /// An exchange goes: of its bindings, which go with it, nothing is said.
    pub(super) fn note_exchange_gone(&mut self, index: u32) {
        let watch = std::mem::replace(&mut self.exchanges.0.at_mut(index).watch, UNWATCHED);
        if watch != UNWATCHED {
            self.watches.note(watch, BindingEvent::Gone);
        }
    }
}
