//! Users and their permissions come and go.
//!
//! Enters: what operators define.  Leaves: changed tables.
//! Owns:   the rules for them.

use super::*;
use crate::{
    limits::{PASSWORD_BYTES_MAX, TOPIC_PERMISSIONS_MAX},
    password::Password,
    permission::{CompiledPermission, CompiledTopic},
    permission::{Permission, TopicPermission},
    user::{User, UserLimits},
};

impl Catalog {
    pub(super) fn put_user(
        &mut self,
        name: &Name,
        password: &Password,
        tags: &[Name],
        loopback_only: bool,
    ) -> Result<ExecutedDefinition, Refusal> {
        if name.is_empty() {
            return Err(Refusal::precondition("a user needs a name"));
        }
        if matches!(password, Password::Plain(secret) if secret.len() > PASSWORD_BYTES_MAX) {
            return Err(Refusal::precondition(format_args!("password over {PASSWORD_BYTES_MAX} bytes")));
        }
        if let Some(id) = self.users.find(name)
            && let Some(user) = self.users.get_mut(id)
        {
            let same = user.password == *password && user.tags == tags && user.loopback_only == loopback_only;
            user.tags = tags.to_vec();
            user.loopback_only = loopback_only;
            self.users.set_password(id, password);
            return Ok(ExecutedDefinition::new(DefinitionOutcome::User { id }, !same));
        }
        if self.users.len() >= self.limits.users_max {
            return Err(Refusal::precondition(format_args!("user limit of {} is reached", self.limits.users_max)));
        }
        let user = User {
            name: name.clone(),
            tags: tags.to_vec(),
            loopback_only,
            password: password.clone(),
            limits: UserLimits::default(),
            permissions: Vec::new(),
            topics: Vec::new(),
        };
        Ok(ExecutedDefinition::new(DefinitionOutcome::User { id: self.users.insert(user) }, true))
    }

    pub(super) fn delete_user(&mut self, name: &Name) -> ExecutedDefinition {
        let existed = self.users.remove(name);
        self.permissions.forget();
        ExecutedDefinition::new(DefinitionOutcome::Deleted { existed }, existed)
    }

    pub(super) fn set_permission(
        &mut self,
        user: &Name,
        vhost: &Name,
        permission: &Permission,
    ) -> Result<ExecutedDefinition, Refusal> {
        let vhost_id = self.vhosts.find(vhost).ok_or_else(|| unknown(ResourceKind::Vhost, vhost))?;
        let compiled = CompiledPermission::new(permission)?;
        let found = self.users.find(user).and_then(|id| self.users.get_mut(id));
        let found = found.ok_or_else(|| unknown(ResourceKind::User, user))?;
        self.permissions.forget();
        match found.permissions.iter_mut().find(|(on, _)| *on == vhost_id) {
            Some((_, current)) if current.written == *permission => {
                return Ok(ExecutedDefinition::new(DefinitionOutcome::Permitted, false));
            }
            Some((_, current)) => *current = compiled,
            None => found.permissions.push((vhost_id, compiled)),
        }
        Ok(ExecutedDefinition::new(DefinitionOutcome::Permitted, true))
    }

    pub(super) fn set_topic_permission(
        &mut self,
        user: &Name,
        vhost: &Name,
        exchange: &Name,
        permission: &TopicPermission,
    ) -> Result<ExecutedDefinition, Refusal> {
        let vhost_id = self.vhosts.find(vhost).ok_or_else(|| unknown(ResourceKind::Vhost, vhost))?;
        let compiled = CompiledTopic::new(permission, user, vhost)?;
        let found = self.users.find(user).and_then(|id| self.users.get_mut(id));
        let found = found.ok_or_else(|| unknown(ResourceKind::User, user))?;
        self.topics_restricted = true;
        let is_full = found.topics.len() >= TOPIC_PERMISSIONS_MAX;
        match found.topics.iter_mut().find(|(on, name, _)| *on == vhost_id && name == exchange) {
            Some((.., current)) if current.written == *permission => {
                return Ok(ExecutedDefinition::new(DefinitionOutcome::Permitted, false));
            }
            Some((.., current)) => *current = compiled,
            None if is_full => {
                return Err(Refusal::precondition(format_args!(
                    "user '{user}' has {TOPIC_PERMISSIONS_MAX} topic permissions, which are the most"
                )));
            }
            None => found.topics.push((vhost_id, exchange.clone(), compiled)),
        }
        Ok(ExecutedDefinition::new(DefinitionOutcome::Permitted, true))
    }

    pub(super) fn clear_topic_permission(
        &mut self,
        user: &Name,
        vhost: &Name,
        exchange: &Name,
    ) -> Result<ExecutedDefinition, Refusal> {
        let vhost_id = self.vhosts.find(vhost).ok_or_else(|| unknown(ResourceKind::Vhost, vhost))?;
        let found = self.users.find(user).and_then(|id| self.users.get_mut(id));
        let found = found.ok_or_else(|| unknown(ResourceKind::User, user))?;
        let before = found.topics.len();
        found.topics.retain(|(on, name, _)| *on != vhost_id || name != exchange);
        Ok(ExecutedDefinition::new(DefinitionOutcome::Permitted, found.topics.len() != before))
    }

    pub(super) fn clear_permission(&mut self, user: &Name, vhost: &Name) -> Result<ExecutedDefinition, Refusal> {
        let vhost_id = self.vhosts.find(vhost).ok_or_else(|| unknown(ResourceKind::Vhost, vhost))?;
        let found = self.users.find(user).and_then(|id| self.users.get_mut(id));
        let found = found.ok_or_else(|| unknown(ResourceKind::User, user))?;
        let before = found.permissions.len();
        found.permissions.retain(|(on, _)| *on != vhost_id);
        let changed = found.permissions.len() != before;
        self.permissions.forget();
        Ok(ExecutedDefinition::new(DefinitionOutcome::Permitted, changed))
    }
}

pub(super) fn unknown(kind: ResourceKind, name: &str) -> Refusal {
    Refusal::detail(ReplyCode::NotFound, format_args!("no {kind} '{name}'"))
}
