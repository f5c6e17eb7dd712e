//! Exchanges come and go.
//!
//! Enters: declare and delete.  Leaves: changed tables; a cascade of auto-delete exchanges.
//! Owns:   the rules for both.

use super::*;
use crate::{
    arguments::{self, ALTERNATE_EXCHANGE},
    binding::ListHead,
    exchange::{ExchangeDefinition, ExchangeEntry, ExchangeKind, RoutingTable},
    ids::VhostId,
    watch::UNWATCHED,
};

impl Catalog {
    pub(super) fn declare_exchange(&mut self, definition: &Definition) -> Result<ExecutedDefinition, Refusal> {
        let Definition::DeclareExchange { vhost, name, kind, durable, auto_delete, internal, arguments } = definition
        else {
            unreachable!("the caller matched the variant")
        };
        self.check_vhost(*vhost)?;
        if name.is_empty() {
            return Err(Refusal::default_exchange());
        }
        let what = ResourceName { kind: ResourceKind::Exchange, name, vhost: self.vhost_name(*vhost) };
        if let Some(index) = self.find_exchange(*vhost, name.as_bytes()) {
            let current = &self.exchanges.0.at(index).definition;
            let same = |argument: &str, received: &str, current: &str| {
                if received == current {
                    return Ok(());
                }
                Err(Refusal::inequivalent(what, argument, &format!("'{received}'"), &format!("'{current}'")))
            };
            same("type", kind.name(), current.kind.name())?;
            same("durable", truth(*durable), truth(current.durable))?;
            same("auto_delete", truth(*auto_delete), truth(current.auto_delete))?;
            same("internal", truth(*internal), truth(current.internal))?;
            arguments::check_exchange_equivalence(what, current.arguments.as_deref(), arguments)?;
            return Ok(ExecutedDefinition::new(
                DefinitionOutcome::Exchange { id: self.exchanges.id(index), created: false },
                false,
            ));
        }
        if name.starts_with("amq.") {
            return Err(Refusal::reserved(ResourceKind::Exchange, name));
        }
        if let Some(name) = arguments::long_string(what, arguments, ALTERNATE_EXCHANGE)? {
            Name::new(ResourceKind::Exchange, name)?;
        }
        let matching = RoutingTable::of(what, *kind, arguments, self.limits.hash_seed)?;
        arguments::check_size(what, arguments)?;
        if self.exchanges.0.len() >= self.limits.exchanges_max {
            return Err(Refusal::precondition(format_args!(
                "cannot declare {what}: exchange limit of {} is reached",
                self.limits.exchanges_max
            )));
        }
        self.check_share(format_args!("declare {what}"))?;
        let definition = ExchangeDefinition {
            name: name.clone(),
            vhost: *vhost,
            kind: *kind,
            durable: *durable,
            auto_delete: *auto_delete,
            internal: *internal,
            arguments: arguments::boxed(arguments),
            policy: None,
        };
        let index = self.add_exchange(definition, matching);
        Ok(ExecutedDefinition::new(DefinitionOutcome::Exchange { id: self.exchanges.id(index), created: true }, true))
    }

    /// Makes an exchange that may be made.
    pub(super) fn add_exchange(&mut self, mut definition: ExchangeDefinition, matching: RoutingTable) -> u32 {
        let version = self.next_version();
        let vhost = self.vhosts.at_mut(definition.vhost);
        definition.policy = vhost.policies.of_exchange(&definition.name);
        self.work += vhost.policies.steps(&definition.name);
        let alternate = alternate_of(&definition);
        self.upstreams += u32::from(definition.kind == ExchangeKind::FederationUpstream);
        // It may be the alternate that others look for.
        if vhost.alternates != 0 {
            vhost.version = version;
        }
        vhost.alternates += u32::from(alternate.is_some());
        if let RoutingTable::ConsistentHash(ring) = &matching {
            self.rings_bytes += ring.bytes();
        }
        let root = if let RoutingTable::Topic = matching { self.topics.insert() } else { u32::MAX };
        let serial = self.exchanges.0.next_serial();
        let index = self.exchanges.0.insert(ExchangeEntry {
            definition,
            serial,
            matching,
            alternate,
            from: ListHead::default(),
            to_exchanges: 0,
            into: ListHead::default(),
            stamped: 0,
            asks: 0,
            root,
            version,
            walk: 0,
            watch: UNWATCHED,
            leaving: false,
        });
        self.note_exchange(index);
        index
    }

    pub(super) fn delete_exchange(
        &mut self,
        vhost: VhostId,
        name: &Name,
        if_unused: bool,
    ) -> Result<ExecutedDefinition, Refusal> {
        if name.is_empty() {
            return Err(Refusal::default_exchange());
        }
        self.check_exchange_deletable(vhost, name)?;
        let what = ResourceName { kind: ResourceKind::Exchange, name, vhost: self.vhost_name(vhost) };
        let Some(index) = self.find_exchange(vhost, name.as_bytes()) else {
            return Ok(ExecutedDefinition::new(DefinitionOutcome::Deleted { existed: false }, false));
        };
        if if_unused && self.exchanges.0.at(index).from != ListHead::default() {
            return Err(Refusal::precondition(format_args!("{what} in use")));
        }
        let mut executed = ExecutedDefinition::new(DefinitionOutcome::Deleted { existed: true }, true);
        self.begin_exchange_removal(index, &mut executed);
        Ok(executed)
    }
}

/// Where messages go that an exchange finds no place for: as its argument says, else as its policy does. The default exchange
/// needs none.
pub(super) fn alternate_of(definition: &ExchangeDefinition) -> Option<Name> {
    let argument = definition.arguments.as_ref().and_then(|arguments| arguments.get(ALTERNATE_EXCHANGE)?.as_bytes());
    let name = argument.or_else(|| definition.policy.as_ref()?.alternate()).filter(|_| !definition.is_default())?;
    // As the alternate of another, the default exchange takes nothing: RabbitMQ's has no bindings to look at. What is no name
    // is none of an exchange either.
    if name.is_empty() { None } else { Name::new(ResourceKind::Exchange, name).ok() }
}

pub(super) const fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
