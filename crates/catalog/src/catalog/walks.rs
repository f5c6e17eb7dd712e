//! Walks through everything that is defined, in pieces, while it changes.
//!
//! Enters: how far a walk has come.  Leaves: the next queues, exchanges and bindings, and how far it has come then.
//!
//! Queues and exchanges are walked by their indexes, the bindings of an exchange by their list, the newest first. What is
//! declared or bound behind the walk is not met: whoever walks has to hear of changes otherwise.

use super::*;
use crate::{
    binding::{BindingList, BindingMark},
    exchange::ExchangeDefinition,
    ids::{ExchangeId, UserId},
    named::Named,
    queue::QueueDefinition,
    user::User,
};

/// A binding that a walk has come to. It is told from those that have its place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingPlace(BindingMark);

impl Catalog {
    /// All queues are at indexes below this.
    pub fn queues_end(&self) -> u32 {
        self.queues.table.end()
    }

    /// The queue at an index, if there is one.
    pub fn queue_at(&self, index: u32) -> Option<(QueueId, &QueueDefinition)> {
        let queue = self.queues.table.get(index).filter(|queue| !queue.is_leaving())?;
        Some((QueueId { index, serial: queue.serial }, &queue.definition))
    }

    /// All exchanges are at indexes below this.
    pub fn exchanges_end(&self) -> u32 {
        self.exchanges.0.end()
    }

    /// The exchange at an index, if there is one.
    pub fn exchange_at(&self, index: u32) -> Option<(ExchangeId, &ExchangeDefinition)> {
        let exchange = self.exchanges.0.get(index).filter(|exchange| !exchange.is_leaving())?;
        Some((ExchangeId { index, serial: exchange.serial }, &exchange.definition))
    }

    /// All users have ids below this.
    pub fn users_end(&self) -> u32 {
        self.users.end()
    }

    /// The user of an id, if there is one.
    pub fn user_at(&self, id: UserId) -> Option<&User> {
        self.users.get(id)
    }

    /// The uid that the next durable queue gets.
    pub fn next_queue_uid(&self) -> QueueUid {
        self.next_queue_uid
    }

    /// The first binding of a walk through those from an exchange.
    pub fn first_binding_from(&self, id: ExchangeId) -> Option<BindingPlace> {
        self.exchanges.get(id)?.from.first().map(|binding| self.place_of(binding))
    }

    /// The binding at a place, unless one of its ends is being removed, and the next place. Without a result the binding has
    /// gone in the meantime: a walk begins anew.
    pub fn binding_at(&self, place: BindingPlace) -> Option<(Option<BindingView<'_>>, Option<BindingPlace>)> {
        let binding = self.bindings.find_mark(place.0)?;
        let view = self.stays(binding).then(|| self.view(binding));
        let next = self.bindings.next(BindingList::Source, binding).map(|next| self.place_of(next));
        Some((view, next))
    }

    /// Begins the walk through the bindings from an exchange, the newest first. There is one such walk at a time: it comes to each
    /// that stays, whatever else comes and goes.
    pub fn begin_binding_walk(&mut self, id: ExchangeId) {
        let from = self.exchanges.get(id).map_or_else(Default::default, |exchange| exchange.from);
        self.bindings.begin_walk(from);
    }

    /// The next binding of the walk.
    pub fn walk_on(&mut self) -> Option<BindingPlace> {
        self.bindings.walk_on().map(|binding| self.place_of(binding))
    }

    fn place_of(&self, binding: u32) -> BindingPlace {
        BindingPlace(self.bindings.mark(binding))
    }
}
