//! Rules: policies, and limits of vhosts and users, as an operator sets them.
//!
//! Enters: the whole of the policies, one vhost's or user's limits.  Leaves: queues and exchanges under them; who changed.
//! Owns:   that what exists is under the rules at once.

use super::exchanges::alternate_of;
use super::users::unknown;
use super::*;
use crate::{
    ids::{UserId, VhostId},
    limits::POLICIES_MAX,
    named::Named,
    policy::{Policy, PolicyTable},
    user::UserLimits,
    vhost::{Vhost, VhostLimits},
};
use std::collections::BTreeMap;
use std::fmt;

impl Catalog {
    pub(super) fn set_policies(
        &mut self,
        policies: &[Policy],
        operator: &[Policy],
    ) -> Result<ExecutedDefinition, Refusal> {
        if policies.len() + operator.len() > POLICIES_MAX {
            return Err(Refusal::precondition(format_args!("{POLICIES_MAX} policies are the most")));
        }
        let mut all: BTreeMap<VhostId, PolicyTable> = BTreeMap::new();
        let both = policies.iter().map(|policy| (policy, false)).chain(operator.iter().map(|policy| (policy, true)));
        for (policy, is_operator) in both {
            let vhost = self.vhosts.find(&policy.vhost).ok_or_else(|| unknown(ResourceKind::Vhost, &policy.vhost))?;
            let added = all.entry(vhost).or_default().add(policy, is_operator);
            added.map_err(|fault| Refusal::precondition(format_args!("policy '{}': {fault}", policy.name)))?;
        }
        let same = self.vhosts.iter().all(|(id, vhost)| match all.get(&id) {
            Some(policies) => policies.iter().eq(vhost.policies.iter()),
            None => vhost.policies.iter().next().is_none(),
        });
        if same {
            return Ok(ExecutedDefinition::new(DefinitionOutcome::Governed, false));
        }
        let vhosts: Vec<VhostId> = self.vhosts.iter().map(|(id, _)| id).collect();
        for vhost in vhosts {
            self.vhosts.set_policies(vhost, all.remove(&vhost).unwrap_or_default());
        }
        let mut executed = ExecutedDefinition::new(DefinitionOutcome::Governed, true);
        executed.queues_changed = self.renew_queues();
        self.renew_exchanges();
        Ok(executed)
    }

    /// Holds every queue against the policies. Answers those that do something else now.
    fn renew_queues(&mut self) -> Vec<QueueId> {
        let (mut changed, vhosts) = (Vec::new(), &mut self.vhosts);
        for (index, queue) in self.queues.table.iter_mut() {
            let definition = &mut queue.definition;
            let policies = &mut vhosts.at_mut(definition.vhost).policies;
            let policy = policies.of_queue(&definition.name, definition.arguments.as_deref());
            if policy.is_none() && definition.policy.is_none() {
                continue;
            }
            let before = definition.features();
            definition.policy = policy;
            if definition.features() != before {
                changed.push(QueueId { index, serial: queue.serial });
            }
        }
        changed
    }

    /// Holds every exchange against the policies: it may have another alternate now.
    fn renew_exchanges(&mut self) {
        let version = self.next_version();
        let (mut before, mut now) = (0, 0);
        for (_, exchange) in self.exchanges.0.iter_mut() {
            let vhost = self.vhosts.at_mut(exchange.definition.vhost);
            exchange.definition.policy = vhost.policies.of_exchange(&exchange.definition.name);
            let alternate = alternate_of(&exchange.definition);
            if alternate == exchange.alternate {
                continue;
            }
            vhost.alternates += u32::from(alternate.is_some());
            vhost.alternates -= u32::from(exchange.alternate.is_some());
            vhost.version = version;
            exchange.version = version;
            before += exchange.heap_bytes();
            exchange.alternate = alternate;
            now += exchange.heap_bytes();
        }
        self.exchanges.0.recount(before, now);
    }

    pub(super) fn set_vhost_limits(
        &mut self,
        vhost: &Name,
        limits: VhostLimits,
    ) -> Result<ExecutedDefinition, Refusal> {
        let id = self.vhosts.find(vhost).ok_or_else(|| unknown(ResourceKind::Vhost, vhost))?;
        let before = std::mem::replace(&mut self.vhosts.at_mut(id).limits, limits);
        let mut executed = ExecutedDefinition::new(DefinitionOutcome::Limited, before != limits);
        if before.queue_bytes_max.is_some() != limits.queue_bytes_max.is_some() {
            executed.queues_changed = self.queues.table.in_vhost(id).map(|index| self.queues.id(index)).collect();
        }
        Ok(executed)
    }

    pub(super) fn set_user_limits(&mut self, user: &Name, limits: UserLimits) -> Result<ExecutedDefinition, Refusal> {
        let found = self.users.find(user).and_then(|id| self.users.get_mut(id));
        let found = found.ok_or_else(|| unknown(ResourceKind::User, user))?;
        let before = std::mem::replace(&mut found.limits, limits);
        Ok(ExecutedDefinition::new(DefinitionOutcome::Limited, before != limits))
    }

    /// Limits what exchanges, queues and bindings take together. For the catalog that executes definitions first: those that
    /// follow it must refuse nothing.
    pub fn set_definition_share(&mut self, share: DefinitionShare) {
        self.share = share;
    }

    /// Bytes that definitions take on all shards.
    pub fn shared_definition_bytes(&self) -> usize {
        self.definition_bytes() * self.share.replicas + self.queues.table.len() * self.share.queue_bytes
    }

    /// Refuses one definition more when they have taken their share (506).
    pub(super) fn check_share(&self, refused: fmt::Arguments<'_>) -> Result<(), Refusal> {
        let (bytes, bytes_max) = (self.shared_definition_bytes(), self.share.bytes_max);
        if bytes < bytes_max {
            return Ok(());
        }
        Err(Refusal::detail(
            ReplyCode::ResourceError,
            format_args!(
                "cannot {refused}: definitions take {bytes} bytes, and their share of the memory limit is {bytes_max}"
            ),
        ))
    }

    /// Refuses one queue more than a vhost may have (406).
    pub(super) fn check_queue_limit(&self, vhost: VhostId, name: &Name) -> Result<(), Refusal> {
        let Some(Vhost { limits: VhostLimits { queues_max: Some(most), .. }, queues, name: vhost, .. }) =
            self.vhosts.get(vhost)
        else {
            return Ok(());
        };
        if queues < most {
            return Ok(());
        }
        Err(Refusal::precondition(format_args!(
            "cannot declare queue '{name}': queue limit in vhost '{vhost}' ({most}) is reached"
        )))
    }

    /// That a vhost has as many connections as it may have (530).
    pub fn is_vhost_at_limit(&self, user: UserId, vhost: &str, most: u32) -> Refusal {
        Refusal::detail(
            ReplyCode::NotAllowed,
            format_args!(
                "access to vhost '{vhost}' refused for user '{}': connection limit ({most}) is reached",
                self.user_name(user)
            ),
        )
    }

    /// That a user has as many connections as it may have (530).
    pub fn is_user_at_limit(&self, user: UserId, most: u32) -> Refusal {
        Refusal::detail(
            ReplyCode::NotAllowed,
            format_args!(
                "connection refused for user '{}': user connection limit ({most}) is reached",
                self.user_name(user)
            ),
        )
    }

    /// That as much memory is pinned for the connections of a user over RDMA as may be (506).
    pub fn is_user_at_pinned_share(&self, user: UserId, bytes_max: u64) -> Refusal {
        Refusal::detail(
            ReplyCode::ResourceError,
            format_args!(
                "connection refused for user '{}': its share of memory that is pinned for RDMA ({bytes_max} bytes) is reached",
                self.user_name(user)
            ),
        )
    }

    /// That a user may not bring others over RDMA (403).
    pub fn is_no_carrier(&self, user: UserId) -> Refusal {
        Refusal::detail(
            ReplyCode::AccessRefused,
            format_args!("user '{}' has no tag 'carrier' and brings nobody over RDMA", self.user_name(user)),
        )
    }

    /// That a user has as many channels as it may have (530).
    pub fn user_has_its_channels(&self, user: UserId, most: u32) -> Refusal {
        Refusal::detail(
            ReplyCode::NotAllowed,
            format_args!(
                "number of channels opened for user '{}' has reached the maximum allowed user limit of ({most})",
                self.user_name(user)
            ),
        )
    }
}
