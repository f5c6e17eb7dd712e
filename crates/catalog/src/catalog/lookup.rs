//! Lookups: what is there, under which id; and the refusals for what is not.
//!
//! Enters: names and ids.  Leaves: ids and definitions.

use super::*;
use crate::{
    binding::BindingList,
    exchange::ExchangeDefinition,
    ids::{ExchangeId, UserId, VhostId},
    policy::Policy,
    queue::QueueDefinition,
    user::{User, UserLimits},
    vhost::VhostLimits,
};
use wire::Table;

/// A binding, for display.
#[derive(Clone, Copy, Debug)]
pub struct BindingView<'a> {
    /// From where.
    pub source: ExchangeId,
    /// To where.
    pub destination: BindingDestination,
    /// With what routing key or pattern.
    pub routing_key: &'a [u8],
    /// With what arguments, sorted by name.
    pub arguments: Option<&'a Table>,
}

/// Where a binding leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingDestination {
    Queue(QueueId),
    Exchange(ExchangeId),
}

impl Catalog {
    /// Whether queues declared as `quorum` or `stream` are taken for classic ones.
    pub fn takes_types_as_classic(&self) -> bool {
        self.limits.queue_types_as_classic
    }

    /// The limits it was made with.
    pub fn limits(&self) -> &CatalogLimits {
        &self.limits
    }

    pub fn vhost_by_name(&self, name: &str) -> Option<VhostId> {
        self.vhosts.find(name)
    }

    /// The name of a vhost; empty once it is deleted.
    pub fn vhost_name(&self, vhost: VhostId) -> &str {
        self.vhosts.get(vhost).map_or("", |vhost| &vhost.name)
    }

    /// Whether there is a virtual host, which is not being deleted.
    pub fn is_vhost(&self, vhost: VhostId) -> bool {
        self.vhosts.get(vhost).is_some()
    }

    /// The exchange of this name; the empty one is the default exchange.
    #[inline]
    pub fn exchange(&self, vhost: VhostId, name: &[u8]) -> Option<ExchangeId> {
        if name.is_empty() {
            return self.vhosts.get(vhost).map(|vhost| vhost.default_exchange);
        }
        self.find_exchange(vhost, name).map(|index| self.exchanges.id(index))
    }

    /// What an exchange was declared to be.
    #[inline]
    pub fn exchange_info(&self, id: ExchangeId) -> Option<&ExchangeDefinition> {
        self.exchanges.get(id).map(|exchange| &exchange.definition)
    }

    /// The queue of this name, whoever may use it.
    #[inline]
    pub fn queue(&self, vhost: VhostId, name: &[u8]) -> Option<QueueId> {
        self.find_queue(vhost, name).map(|index| self.queues.id(index))
    }

    /// What a queue was declared to be.
    #[inline]
    pub fn queue_definition(&self, id: QueueId) -> Option<&QueueDefinition> {
        self.queues.get(id).map(|queue| &queue.definition)
    }

    /// Whether what a queue gives up goes elsewhere.
    pub fn has_dead_letters(&self, id: QueueId) -> bool {
        let Some(definition) = self.queue_definition(id) else { return false };
        let argument =
            definition.arguments.as_ref().and_then(|table| table.get(crate::arguments::DEAD_LETTER_EXCHANGE));
        argument.is_some() || definition.policy.as_ref().is_some_and(|policy| policy.has_dead_letters())
    }

    /// What may be in a vhost.
    pub fn vhost_limits(&self, vhost: VhostId) -> VhostLimits {
        self.vhosts.get(vhost).map(|vhost| vhost.limits).unwrap_or_default()
    }

    /// What a user may have.
    pub fn user_limits(&self, user: UserId) -> UserLimits {
        self.users.get(user).map(|user| user.limits).unwrap_or_default()
    }

    /// All policies, vhost by vhost, those that count first in front; and whether each is an operator's own.
    pub fn policies(&self) -> impl Iterator<Item = (&Policy, bool)> {
        self.vhosts.iter().flat_map(|(_, vhost)| vhost.policies.iter())
    }

    /// Whether a queue is one that another replica has and this one has yet to declare.
    pub fn is_declared_ahead(&self, id: QueueId) -> bool {
        self.queues.table.is_future_serial(id.serial)
    }

    /// The queue of this name for this session: 404 if there is none, 405 if another session has it to itself.
    /// Passive declarations, consume, get and purge all ask this.
    pub fn queue_for(&self, vhost: VhostId, name: &[u8], session: SessionId) -> Result<QueueId, Refusal> {
        let index = self.find_queue(vhost, name).ok_or_else(|| self.no_queue(vhost, name))?;
        self.check_lock(index, Some(session))?;
        Ok(self.queues.id(index))
    }

    /// The exchange of this name for a passive declaration: 403 for the default one, 404 if there is none.
    pub fn exchange_for(&self, vhost: VhostId, name: &[u8]) -> Result<ExchangeId, Refusal> {
        if name.is_empty() {
            return Err(Refusal::default_exchange());
        }
        self.exchange(vhost, name).ok_or_else(|| self.no_exchange(vhost, name))
    }

    /// Whether clients may publish to an exchange: not to an internal one (403).
    #[inline]
    pub fn check_publishable(&self, id: ExchangeId) -> Result<(), Refusal> {
        match self.exchange_info(id) {
            Some(exchange) if exchange.internal => {
                Err(Refusal::internal_exchange(&exchange.name, self.vhost_name(exchange.vhost)))
            }
            _ => Ok(()),
        }
    }

    /// That there is no exchange of this name (404).
    pub fn no_exchange(&self, vhost: VhostId, name: &[u8]) -> Refusal {
        let name = &String::from_utf8_lossy(name);
        Refusal::not_found(ResourceName { kind: ResourceKind::Exchange, name, vhost: self.vhost_name(vhost) })
    }

    /// That there is no queue of this name (404).
    pub fn no_queue(&self, vhost: VhostId, name: &[u8]) -> Refusal {
        let name = &String::from_utf8_lossy(name);
        Refusal::not_found(ResourceName { kind: ResourceKind::Queue, name, vhost: self.vhost_name(vhost) })
    }

    /// That a queue went while something was asked of it (404).
    pub fn queue_is_gone(&self, id: QueueId) -> Refusal {
        match self.queue_definition(id) {
            Some(queue) => self.no_queue(queue.vhost, queue.name.as_bytes()),
            None => Refusal::detail(ReplyCode::NotFound, "the queue was deleted in the meantime"),
        }
    }

    /// Whether another broker pulls from here: there is an exchange of type `x-federation-upstream`.
    #[inline]
    pub fn is_pulled_from(&self) -> bool {
        self.upstreams > 0
    }

    /// Whether somebody who takes from an exchange may get messages twice, and wants to see that: a binding from it to another
    /// exchange asks for stamps.
    pub fn asks_for_stamps(&self, id: ExchangeId) -> bool {
        self.exchanges.get(id).is_some_and(|exchange| exchange.asks > 0)
    }

    /// How many bindings there are, those that are being removed included; the implicit ones to the default exchange do not
    /// count.
    pub fn bindings_count(&self) -> usize {
        self.bindings.len()
    }

    pub fn queues_count(&self) -> usize {
        self.queues.table.len()
    }

    pub fn exchanges_count(&self) -> usize {
        self.exchanges.0.len()
    }

    /// All vhosts in the order of their making.
    pub fn vhosts(&self) -> impl Iterator<Item = (VhostId, &Name)> {
        self.vhosts.iter().map(|(id, vhost)| (id, &vhost.name))
    }

    /// All exchanges in the order of their indexes.
    pub fn exchanges(&self) -> impl Iterator<Item = (ExchangeId, &ExchangeDefinition)> {
        self.exchanges
            .0
            .iter()
            .map(|(index, exchange)| (ExchangeId { index, serial: exchange.serial }, &exchange.definition))
    }

    /// All queues in the order of their indexes.
    pub fn queues(&self) -> impl Iterator<Item = (QueueId, &QueueDefinition)> {
        self.queues.table.iter().map(|(index, queue)| (QueueId { index, serial: queue.serial }, &queue.definition))
    }

    /// All users in the order of their making.
    pub fn users(&self) -> impl Iterator<Item = (UserId, &User)> {
        self.users.iter()
    }

    /// The bindings from an exchange, the newest first.
    pub fn bindings_from(&self, id: ExchangeId) -> impl Iterator<Item = BindingView<'_>> {
        let from = self.exchanges.get(id).map(|exchange| exchange.from).unwrap_or_default();
        let bindings = self.bindings.iter(BindingList::Source, from);
        bindings.filter(|&binding| self.stays(binding)).map(|binding| self.view(binding))
    }

    /// The bindings to a queue, the newest first.
    pub fn bindings_to(&self, id: QueueId) -> impl Iterator<Item = BindingView<'_>> {
        self.newest_bindings_to(id, usize::MAX)
    }

    /// The same, but of so many at most: those that are being removed count as well.
    pub fn newest_bindings_to(&self, id: QueueId, count_max: usize) -> impl Iterator<Item = BindingView<'_>> {
        let into = self.queues.get(id).map(|queue| queue.into).unwrap_or_default();
        let bindings = self.bindings.iter(BindingList::Destination, into).take(count_max);
        bindings.filter(|&binding| self.stays(binding)).map(|binding| self.view(binding))
    }

    /// The bindings to an exchange, the newest first.
    pub fn bindings_to_exchange(&self, id: ExchangeId) -> impl Iterator<Item = BindingView<'_>> {
        let into = self.exchanges.get(id).map(|exchange| exchange.into).unwrap_or_default();
        let bindings = self.bindings.iter(BindingList::Destination, into);
        bindings.filter(|&binding| self.stays(binding)).map(|binding| self.view(binding))
    }

    /// The user of this name.
    pub fn user_by_name(&self, name: &str) -> Option<(UserId, &User)> {
        let id = self.users.find(name)?;
        Some((id, self.users.get(id)?))
    }

    /// The exchange of this name, but for the default exchange.
    #[inline]
    pub(super) fn find_exchange(&self, vhost: VhostId, name: &[u8]) -> Option<u32> {
        if self.vhosts.is_leaving(vhost) { None } else { self.exchanges.0.find(vhost, name) }
    }

    #[inline]
    pub(super) fn find_queue(&self, vhost: VhostId, name: &[u8]) -> Option<u32> {
        if self.vhosts.is_leaving(vhost) { None } else { self.queues.table.find(vhost, name) }
    }

    /// Whether neither end of a binding is being removed.
    pub(super) fn stays(&self, binding: u32) -> bool {
        let record = self.bindings.get(binding);
        self.removals.is_empty() || !(self.is_leaving(record.target) || self.exchanges.0.at(record.source).leaving)
    }

    pub(super) fn view(&self, binding: u32) -> BindingView<'_> {
        let record = self.bindings.get(binding);
        BindingView {
            source: self.exchanges.id(record.source),
            destination: match record.target.as_exchange() {
                Some(index) => BindingDestination::Exchange(self.exchanges.id(index)),
                None => BindingDestination::Queue(self.queues.id(record.target.index())),
            },
            routing_key: self.bindings.key(binding),
            arguments: self.bindings.arguments(binding),
        }
    }

    /// Refuses a queue that another session has to itself (405). Before `None` nothing is locked.
    pub(super) fn check_lock(&self, index: u32, session: Option<SessionId>) -> Result<(), Refusal> {
        let queue = &self.queues.table.at(index).definition;
        match (queue.exclusive, session) {
            (Some(owner), Some(session)) if owner != session => Err(Refusal::locked(ResourceName {
                kind: ResourceKind::Queue,
                name: &queue.name,
                vhost: self.vhost_name(queue.vhost),
            })),
            _ => Ok(()),
        }
    }

    /// A vhost that a session has open. It may have been deleted under it.
    pub(super) fn check_vhost(&self, vhost: VhostId) -> Result<(), Refusal> {
        match self.vhosts.get(vhost) {
            Some(_) => Ok(()),
            None => Err(Refusal::detail(ReplyCode::NotAllowed, "the vhost was deleted")),
        }
    }
}
