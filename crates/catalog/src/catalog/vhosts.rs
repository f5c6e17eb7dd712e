//! Virtual hosts come and go.
//!
//! Enters: create and delete.  Leaves: changed tables, and the queues that went.
//! Owns:   the rules for both.

use super::*;
use crate::{
    catalog::removals::Removal,
    exchange::{ExchangeDefinition, PREDECLARED, RoutingTable},
    ids::{ExchangeId, VhostId},
    policy::PolicyTable,
    vhost::{Vhost, VhostLimits},
};
use wire::Table;

impl Catalog {
    pub(super) fn create_vhost(&mut self, name: &Name) -> Result<ExecutedDefinition, Refusal> {
        if let Some(id) = self.vhosts.find(name) {
            return Ok(ExecutedDefinition::new(DefinitionOutcome::Vhost { id, created: false }, false));
        }
        if name.is_empty() {
            return Err(Refusal::precondition("a vhost needs a name"));
        }
        if self.vhosts.len() >= self.limits.vhosts_max
            || self.exchanges.0.len() + PREDECLARED.len() > self.limits.exchanges_max
        {
            return Err(Refusal::precondition(format_args!(
                "cannot create vhost '{name}': vhost limit of {} or exchange limit of {} is reached",
                self.limits.vhosts_max, self.limits.exchanges_max
            )));
        }
        let unknown = ExchangeId { index: u32::MAX, serial: 0 };
        let vhost = Vhost {
            name: name.clone(),
            default_exchange: unknown,
            alternates: 0,
            version: 0,
            policies: PolicyTable::default(),
            limits: VhostLimits::default(),
            queues: 0,
            leaving: false,
        };
        let id = self.vhosts.insert(vhost);
        for (name, kind, internal) in PREDECLARED {
            let definition = ExchangeDefinition {
                name: name.into(),
                vhost: id,
                kind,
                durable: true,
                auto_delete: false,
                internal,
                arguments: None,
                policy: None,
            };
            let what = ResourceName { kind: ResourceKind::Exchange, name, vhost: "" };
            let matching = RoutingTable::of(what, kind, &Table::new(), self.limits.hash_seed)?;
            let index = self.add_exchange(definition, matching);
            if name.is_empty() {
                self.vhosts.at_mut(id).default_exchange = self.exchanges.id(index);
            }
        }
        Ok(ExecutedDefinition::new(DefinitionOutcome::Vhost { id, created: true }, true))
    }

    pub(super) fn delete_vhost(&mut self, name: &Name) -> Result<ExecutedDefinition, Refusal> {
        let Some(id) = self.vhosts.find(name) else {
            return Ok(ExecutedDefinition::new(DefinitionOutcome::Deleted { existed: false }, false));
        };
        self.vhosts.hide(id);
        self.users.forget_vhost(id);
        self.permissions.forget();
        self.removals.push(Removal::Vhost { id, next_queue: 0, next_exchange: 0 });
        Ok(ExecutedDefinition::new(DefinitionOutcome::Deleted { existed: true }, true))
    }

    /// Opens a vhost for a user, as `connection.open` does: 530 if it does not exist or is not the user's.
    pub fn open_vhost(&self, user: crate::ids::UserId, name: &[u8]) -> Result<VhostId, Refusal> {
        let shown = String::from_utf8_lossy(name);
        let vhost = std::str::from_utf8(name)
            .ok()
            .and_then(|name| self.vhosts.find(name))
            .ok_or_else(|| Refusal::detail(ReplyCode::NotAllowed, format_args!("vhost {shown} not found")))?;
        match self.users.get(user).and_then(|user| user.on(vhost)) {
            Some(_) => Ok(vhost),
            None => Err(Refusal::detail(
                ReplyCode::NotAllowed,
                format_args!("access to vhost '{shown}' refused for user '{}'", self.user_name(user)),
            )),
        }
    }
}
