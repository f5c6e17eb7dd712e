//! Users: who may log in.
//!
//! Enters: names and secrets.  Leaves: user ids, or why not.
//! Owns:   users, their passwords and their permissions on vhosts.

use crate::{
    copy_budget::CopyBudget,
    ids::{UserId, VhostId},
    limits::CatalogLimits,
    name::Name,
    password::Password,
    password_claim::{DecoyTable, PasswordClaim},
    permission::{CompiledPermission, CompiledTopic, Permission, TopicPermission},
    refusal::Refusal,
};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::fmt;
use wire::ReplyCode;

/// What a user may have, as an operator says; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// Connections at one time (RabbitMQ's `max-connections`).
    pub connections_max: Option<u32>,
    /// Channels of all its connections (RabbitMQ's `max-channels`).
    pub channels_max: Option<u32>,
}

/// Why a login failed. For the log; the client hears `refusal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefused {
    /// No user has that name, or the password is not its.
    InvalidCredentials,
    /// The user may come from loopback only.
    OnlyFromLoopback,
}

impl LoginRefused {
    /// What a client that asked to be told hears, whatever the reason was (403, connection).
    pub fn refusal(self, mechanism: &str) -> Refusal {
        Refusal::connection(
            ReplyCode::AccessRefused,
            format!(
                "ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. For details see the \
                 broker logfile."
            ),
        )
    }
}

impl fmt::Display for LoginRefused {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::InvalidCredentials => "invalid credentials",
            Self::OnlyFromLoopback => "can only connect via localhost",
        })
    }
}

impl std::error::Error for LoginRefused {}

#[derive(Clone, Debug)]
pub struct User {
    pub name: Name,
    /// Labels for the management side.
    pub tags: Vec<Name>,
    pub loopback_only: bool,
    /// How it proves itself.
    pub password: Password,
    /// What it may have.
    pub limits: UserLimits,
    /// By vhost.
    pub(crate) permissions: Vec<(VhostId, CompiledPermission)>,
    /// By vhost and exchange.
    pub(crate) topics: Vec<(VhostId, Name, CompiledTopic)>,
}

impl User {
    pub(crate) fn on(&self, vhost: VhostId) -> Option<&CompiledPermission> {
        self.permissions.iter().find(|(on, _)| *on == vhost).map(|(_, compiled)| compiled)
    }

    /// Its permission on the topics of an exchange, if it has one.
    pub(crate) fn on_topics(&self, vhost: VhostId, exchange: &str) -> Option<&CompiledTopic> {
        let on = |(on, name, _): &&(VhostId, Name, CompiledTopic)| *on == vhost && **name == *exchange;
        self.topics.iter().find(on).map(|(.., compiled)| compiled)
    }

    /// What it may do: vhost, patterns.
    pub fn permissions(&self) -> impl Iterator<Item = (VhostId, &Permission)> {
        self.permissions.iter().map(|(vhost, compiled)| (*vhost, &compiled.written))
    }

    /// Its permissions on topics: vhost, exchange, patterns.
    pub fn topic_permissions(&self) -> impl Iterator<Item = (VhostId, &Name, &TopicPermission)> {
        self.topics.iter().map(|(vhost, exchange, compiled)| (*vhost, exchange, &compiled.written))
    }

    /// Whether it proves itself likewise and may do the same as another one.
    pub fn is_like(&self, other: &User) -> bool {
        let all = |user: &User| (user.name.clone(), user.tags.clone(), user.loopback_only, user.limits);
        all(self) == all(other)
            && self.password == other.password
            && self.permissions().eq(other.permissions())
            && self.topic_permissions().eq(other.topic_permissions())
    }

    /// What it may do in a vhost, if it may open it at all.
    pub fn permission(&self, vhost: VhostId) -> Option<&Permission> {
        self.on(vhost).map(|compiled| &compiled.written)
    }
}

#[derive(Clone)]
pub(crate) struct UserTable {
    users: Vec<Option<User>>,
    by_name: HashMap<Name, UserId, FixedState>,
    /// What every refused login costs.
    decoys: DecoyTable,
}

impl UserTable {
    pub fn new(limits: &CatalogLimits) -> Self {
        Self {
            users: Vec::new(),
            by_name: HashMap::with_hasher(FixedState::with_seed(limits.hash_seed)),
            decoys: DecoyTable::default(),
        }
    }

    /// One without users, for [`copy_part`](Self::copy_part).
    pub fn begin_copy(&self) -> Self {
        let by_name = HashMap::with_capacity_and_hasher(self.by_name.len(), self.by_name.hasher().clone());
        Self { users: Vec::new(), by_name, decoys: self.decoys.clone() }
    }

    /// Copies more users. Returns whether none is left.
    pub fn copy_part(&self, copy: &mut Self, budget: &mut CopyBudget) -> bool {
        let UserTable { users, by_name, .. } = copy;
        budget.copy_each(&self.users, users, |user| {
            let Some(user) = user else { return (None, 0) };
            by_name.extend(self.by_name.get_key_value(&user.name).map(|(name, &id)| (name.clone(), id)));
            // The patterns are on the heap, written and compiled.
            let permissions = 2 * (size_of_val(&*user.permissions) + size_of_val(&*user.topics));
            (Some(user.clone()), permissions)
        })
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn find(&self, name: &str) -> Option<UserId> {
        self.by_name.get(name).copied()
    }

    pub fn get(&self, id: UserId) -> Option<&User> {
        self.users.get(id.0 as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, id: UserId) -> Option<&mut User> {
        self.users.get_mut(id.0 as usize)?.as_mut()
    }

    /// Ids are below this.
    pub fn end(&self) -> u32 {
        self.users.len() as u32
    }

    pub fn iter(&self) -> impl Iterator<Item = (UserId, &User)> {
        self.users.iter().enumerate().filter_map(|(id, user)| Some((UserId(id as u32), user.as_ref()?)))
    }

    pub fn insert(&mut self, user: User) -> UserId {
        self.decoys.add(&user.password);
        let id = UserId(self.users.len() as u32);
        self.by_name.insert(user.name.clone(), id);
        self.users.push(Some(user));
        id
    }

    pub fn remove(&mut self, name: &str) -> bool {
        let Some(id) = self.by_name.remove(name) else { return false };
        if let Some(user) = self.users[id.0 as usize].take() {
            self.decoys.remove(&user.password);
        }
        true
    }

    /// A user has another password from now on.
    pub fn set_password(&mut self, id: UserId, password: &Password) {
        self.decoys.add(password);
        if let Some(user) = self.get_mut(id) {
            let before = std::mem::replace(&mut user.password, password.clone());
            self.decoys.remove(&before);
        }
    }

    /// Forgets all permissions on a vhost.
    pub fn forget_vhost(&mut self, vhost: VhostId) {
        for user in self.users.iter_mut().flatten() {
            user.permissions.retain(|(on, _)| *on != vhost);
            user.topics.retain(|(on, ..)| *on != vhost);
        }
    }

    /// A claim to be the user of a name, which need not exist.
    pub fn claim(&self, name: &[u8], from_loopback: bool) -> PasswordClaim {
        let found = self.named(name);
        let is_barred = found.is_some_and(|(_, user)| user.loopback_only && !from_loopback);
        PasswordClaim::new(found.map(|(id, user)| (id, user.password.clone())), &self.decoys, is_barred)
    }

    /// The user may come in, if it is one that may come from there.
    pub fn admit(&self, user: Option<UserId>, from_loopback: bool) -> Result<UserId, LoginRefused> {
        let id = user.ok_or(LoginRefused::InvalidCredentials)?;
        let user = self.get(id).ok_or(LoginRefused::InvalidCredentials)?;
        if user.loopback_only && !from_loopback { Err(LoginRefused::OnlyFromLoopback) } else { Ok(id) }
    }

    /// For a user whom a certificate names.
    pub fn authenticate_external(&self, name: &[u8], from_loopback: bool) -> Result<UserId, LoginRefused> {
        self.admit(self.named(name).map(|(id, _)| id), from_loopback)
    }

    fn named(&self, name: &[u8]) -> Option<(UserId, &User)> {
        let id = self.find(std::str::from_utf8(name).ok()?)?;
        Some((id, self.get(id)?))
    }
}
