//! Rules: policies, and limits of vhosts and users, as an operator sets them.
//!
//! Enters: the whole of the policies, one vhost's or user's limits.  Leaves: queues and exchanges under them; who changed.
//! Owns:   the rules; `renewals` puts under them what exists.

use super::users::unknown;
use super::*;
use crate::{
    ids::{UserId, VhostId},
    limits::{POLICIES_MAX, POLICY_WORK},
    policy::{Policy, PolicyTable},
    user::UserLimits,
    vhost::{Vhost, VhostLimits},
};
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
        let both = policies.iter().map(|policy| (policy, false)).chain(operator.iter().map(|policy| (policy, true)));
        let placed = both.map(|(policy, is_operator)| {
            let vhost = self.vhosts.find(&policy.vhost).ok_or_else(|| unknown(ResourceKind::Vhost, &policy.vhost))?;
            Ok((vhost, policy, is_operator))
        });
        let placed = placed.collect::<Result<Vec<_>, Refusal>>()?;
        self.work += placed.len() as u64 * POLICY_WORK;
        let mut all = PolicyTable::by_vhost(placed)
            .map_err(|(policy, fault)| Refusal::precondition(format_args!("policy '{}': {fault}", policy.name)))?;
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
        self.begin_renewal(None);
        Ok(ExecutedDefinition::new(DefinitionOutcome::Governed, true))
    }

    pub(super) fn set_vhost_limits(
        &mut self,
        vhost: &Name,
        limits: VhostLimits,
    ) -> Result<ExecutedDefinition, Refusal> {
        let id = self.vhosts.find(vhost).ok_or_else(|| unknown(ResourceKind::Vhost, vhost))?;
        let before = std::mem::replace(&mut self.vhosts.at_mut(id).limits, limits);
        if before.queue_bytes_max.is_some() != limits.queue_bytes_max.is_some() {
            self.begin_renewal(Some(id));
        }
        Ok(ExecutedDefinition::new(DefinitionOutcome::Limited, before != limits))
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
