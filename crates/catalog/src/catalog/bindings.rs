//! Bindings come and go.
//!
//! Enters: bind and unbind.  Leaves: changed lists and match structures.
//! Owns:   the rules for both, and which routes a change can alter.

use super::*;
use crate::{
    arguments::{self, X_HARRIER_WINDOW},
    binding::{BindingIdentity, BindingList, BindingTarget, ListHead},
    exchange::{RoutingTable, consistent_hash, headers},
    ids::VhostId,
    limits::ARGUMENTS_BYTES_MAX,
    watch::UNWATCHED,
};
use wire::{Table, Value};

/// What `bind` and `unbind` for queues and exchanges have in common.
struct BindingRequest<'a> {
    vhost: VhostId,
    source: &'a Name,
    kind: ResourceKind,
    destination: &'a Name,
    key: &'a [u8],
    arguments: &'a Table,
    session: Option<SessionId>,
}

impl<'a> BindingRequest<'a> {
    fn of(definition: &'a Definition) -> Self {
        match definition {
            Definition::BindExchange { vhost, source, destination, routing_key, arguments }
            | Definition::UnbindExchange { vhost, source, destination, routing_key, arguments } => Self {
                vhost: *vhost,
                source,
                kind: ResourceKind::Exchange,
                destination,
                key: routing_key,
                arguments,
                session: None,
            },
            Definition::BindQueue { vhost, exchange, queue, routing_key, arguments, session }
            | Definition::UnbindQueue { vhost, exchange, queue, routing_key, arguments, session } => Self {
                vhost: *vhost,
                source: exchange,
                kind: ResourceKind::Queue,
                destination: queue,
                key: routing_key,
                arguments,
                session: *session,
            },
            _ => unreachable!("the caller matched the variants"),
        }
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.source.is_empty() || (self.kind == ResourceKind::Exchange && self.destination.is_empty()) {
            return Err(Refusal::default_exchange());
        }
        if self.key.len() > crate::limits::NAME_BYTES_MAX {
            return Err(Refusal::precondition(format_args!("routing key of {} bytes", self.key.len())));
        }
        Ok(())
    }
}

impl Catalog {
    pub(super) fn bind(&mut self, definition: &Definition) -> Result<ExecutedDefinition, Refusal> {
        let asked = BindingRequest::of(definition);
        asked.check()?;
        let source = self
            .find_exchange(asked.vhost, asked.source.as_bytes())
            .ok_or_else(|| self.no_exchange(asked.vhost, asked.source.as_bytes()))?;
        let target = self.target(&asked).ok_or_else(|| match asked.kind {
            ResourceKind::Queue => self.no_queue(asked.vhost, asked.destination.as_bytes()),
            _ => self.no_exchange(asked.vhost, asked.destination.as_bytes()),
        })?;
        let what =
            ResourceName { kind: ResourceKind::Exchange, name: asked.source, vhost: self.vhost_name(asked.vhost) };
        match self.exchanges.0.at(source).matching {
            RoutingTable::Headers { .. } => headers::check(asked.arguments)?,
            RoutingTable::ConsistentHash(_) => drop(consistent_hash::weight(asked.key)?),
            RoutingTable::Direct | RoutingTable::Fanout | RoutingTable::Topic | RoutingTable::FederationUpstream(_) => {
            }
        }
        if target.as_exchange().is_none() {
            self.check_lock(target.index(), asked.session)?;
        }
        arguments::check_size(what, asked.arguments)?;
        let sorted = arguments::sorted(asked.arguments);
        let said = BindingIdentity { source, target, key: asked.key, arguments: &sorted };
        let mut work = 0;
        let known = self.bindings.find(&said, &mut work);
        let is_full = self.bindings.len() >= self.limits.bindings_max;
        if known.is_none() && is_full {
            return Err(Refusal::precondition(format_args!(
                "cannot bind to {what}: binding limit of {} is reached",
                self.limits.bindings_max
            )));
        }
        if known.is_none() {
            self.check_share(format_args!("bind to {what}"))?;
        }
        self.work += work;
        if known.is_some() {
            return Ok(ExecutedDefinition::new(DefinitionOutcome::Bound { created: false }, false));
        }
        let binding = self.bindings.add(&said);
        self.link(binding, source, target);
        Ok(ExecutedDefinition::new(DefinitionOutcome::Bound { created: true }, true))
    }

    pub(super) fn unbind(&mut self, definition: &Definition) -> Result<ExecutedDefinition, Refusal> {
        let asked = BindingRequest::of(definition);
        asked.check()?;
        let nothing = ExecutedDefinition::new(DefinitionOutcome::Unbound { existed: false }, false);
        let (Some(source), Some(target)) =
            (self.find_exchange(asked.vhost, asked.source.as_bytes()), self.target(&asked))
        else {
            return Ok(nothing);
        };
        if asked.arguments.encoded_len() > ARGUMENTS_BYTES_MAX {
            // No binding has so large ones.
            return Ok(nothing);
        }
        let sorted = arguments::sorted(asked.arguments);
        let said = BindingIdentity { source, target, key: asked.key, arguments: &sorted };
        let Some(binding) = self.bindings.find(&said, &mut self.work) else { return Ok(nothing) };
        if target.as_exchange().is_none() {
            self.check_lock(target.index(), asked.session)?;
        }
        let mut executed = ExecutedDefinition::new(DefinitionOutcome::Unbound { existed: true }, true);
        if let Some(source) = self.remove_binding(binding) {
            self.begin_exchange_removal(source, &mut executed);
        }
        Ok(executed)
    }

    fn target(&self, asked: &BindingRequest<'_>) -> Option<BindingTarget> {
        let name = asked.destination.as_bytes();
        match asked.kind {
            ResourceKind::Queue => self.find_queue(asked.vhost, name).map(BindingTarget::queue),
            _ => self.find_exchange(asked.vhost, name).map(BindingTarget::exchange),
        }
    }

    fn head_into(&mut self, target: BindingTarget) -> &mut ListHead {
        match target.as_exchange() {
            Some(index) => &mut self.exchanges.0.at_mut(index).into,
            None => &mut self.queues.table.at_mut(target.index()).into,
        }
    }

    /// Puts a new binding on its lists.
    fn link(&mut self, binding: u32, source: u32, target: BindingTarget) {
        let exchange = self.exchanges.0.at_mut(source);
        let (root, watch) = (exchange.root, exchange.watch);
        self.bindings.link(BindingList::Source, &mut exchange.from, binding);
        exchange.to_exchanges += u32::from(target.as_exchange().is_some());
        self.exchange_stamped(binding, target, 1);
        let mut into = *self.head_into(target);
        self.bindings.link(BindingList::Destination, &mut into, binding);
        *self.head_into(target) = into;
        self.work += 1;
        match &mut self.exchanges.0.at_mut(source).matching {
            RoutingTable::Direct => self.direct.add(&mut self.bindings, binding),
            RoutingTable::Topic => self.work += self.topics.add(&mut self.bindings, root, binding),
            RoutingTable::ConsistentHash(ring) => {
                let before = ring.bytes();
                let is_only = ring.link(&mut self.bindings, binding);
                self.rings_bytes = self.rings_bytes + ring.bytes() - before;
                if is_only {
                    self.add_point(binding, source, target);
                }
            }
            RoutingTable::Headers { size } => {
                let asked = headers::size_of_binding(&self.bindings, binding);
                *size += asked;
                self.work += asked;
                self.headers.add(&mut self.bindings, binding);
            }
            RoutingTable::Fanout | RoutingTable::FederationUpstream(_) => {}
        }
        if watch != UNWATCHED {
            self.note_binding(watch, binding, true);
        }
        self.routes_altered(source);
    }

    /// Gives a binding of a consistent-hash exchange the seat of its destination.
    fn add_point(&mut self, binding: u32, source: u32, target: BindingTarget) {
        let destination = match target.as_exchange() {
            Some(index) => consistent_hash::hash_destination(&self.exchanges.0.at(index).definition.name, false),
            None => consistent_hash::hash_destination(&self.queues.table.at(target.index()).definition.name, true),
        };
        if let RoutingTable::ConsistentHash(ring) = &mut self.exchanges.0.at_mut(source).matching {
            let before = ring.bytes();
            ring.add(&mut self.bindings, binding, destination);
            self.rings_bytes = self.rings_bytes + ring.bytes() - before;
        }
    }

    /// Removes a binding. Answers with its source if that is to be removed with it.
    pub(super) fn remove_binding(&mut self, binding: u32) -> Option<u32> {
        let (source, target) = (self.bindings.get(binding).source, self.bindings.get(binding).target);
        let exchange = self.exchanges.0.at_mut(source);
        let mut heir = None;
        self.work += self.bindings.removal_work(binding);
        match &mut exchange.matching {
            RoutingTable::Direct => self.direct.remove(&mut self.bindings, binding),
            RoutingTable::Topic => self.work += self.topics.remove(&mut self.bindings, binding),
            RoutingTable::ConsistentHash(ring) => {
                let before = ring.bytes();
                heir = ring.unlink(&mut self.bindings, binding);
                self.rings_bytes = self.rings_bytes + ring.bytes() - before;
            }
            RoutingTable::Headers { size } => {
                *size -= headers::size_of_binding(&self.bindings, binding);
                self.headers.remove(&self.bindings, binding);
            }
            RoutingTable::Fanout | RoutingTable::FederationUpstream(_) => {}
        }
        self.bindings.unlink(BindingList::Source, &mut exchange.from, binding);
        exchange.to_exchanges -= u32::from(target.as_exchange().is_some());
        let goes = exchange.definition.auto_delete && exchange.from == ListHead::default() && !exchange.leaving;
        let watch = exchange.watch;
        self.exchange_stamped(binding, target, -1);
        let mut into = *self.head_into(target);
        self.bindings.unlink(BindingList::Destination, &mut into, binding);
        *self.head_into(target) = into;
        if let Some(heir) = heir {
            self.add_point(heir, source, target);
        }
        if watch != UNWATCHED {
            self.note_binding(watch, binding, false);
        }
        self.bindings.remove(binding);
        self.routes_altered(source);
        goes.then_some(source)
    }

    /// Counts a binding to an exchange that asks for stamps.
    fn exchange_stamped(&mut self, binding: u32, target: BindingTarget, by: i32) {
        if let (Some(target), Some(arguments)) = (target.as_exchange(), self.bindings.arguments(binding))
            && arguments.get(X_HARRIER_WINDOW).and_then(Value::as_bool) == Some(true)
        {
            let exchange = self.exchanges.0.at_mut(target);
            exchange.stamped = exchange.stamped.wrapping_add_signed(by);
            let source = self.exchanges.0.at_mut(self.bindings.get(binding).source);
            source.asks = source.asks.wrapping_add_signed(by);
        }
    }

    /// Routes through an exchange may be different now: those from it, and, if messages reach it from other
    /// exchanges, any in its vhost.
    fn routes_altered(&mut self, source: u32) {
        let version = self.next_version();
        let exchange = self.exchanges.0.at_mut(source);
        exchange.version = version;
        let vhost = self.vhosts.at_mut(exchange.definition.vhost);
        if exchange.into != ListHead::default() || vhost.alternates != 0 {
            vhost.version = version;
        }
    }
}
