//! Access: who may log in, and who may do what.
//!
//! Enters: credentials; a user, an operation and a name.  Leaves: yes, or a refusal.
//! Owns:   the rules that RabbitMQ's clients meet.

use super::*;
use crate::{
    arguments::{self, ALTERNATE_EXCHANGE, DEAD_LETTER_EXCHANGE},
    exchange::ExchangeKind,
    ids::{ExchangeId, UserId, VhostId},
    password_claim::PasswordClaim,
    permission::{PermissionKind, Resource},
    user::LoginRefused,
};

/// The tag of users who may ask the broker itself for something.
const ADMINISTRATOR: &str = "administrator";
/// The tag of users by whose tokens others come over RDMA (Harrier extension).
const CARRIER: &str = "carrier";
/// The tag of users that are other brokers.
const FEDERATION: &str = "federation";

impl Catalog {
    /// The user of these credentials. The error is for the log; tell the client `LoginRefused::refusal`. It may take
    /// as long as a password's proof does; who cannot wait for a slow one asks for the `claim`.
    pub fn authenticate(&self, user: &[u8], password: &[u8], from_loopback: bool) -> Result<UserId, LoginRefused> {
        let claim = self.claim(user, from_loopback);
        if claim.verify(password) {
            self.admit(claim.user, from_loopback)
        } else {
            Err(LoginRefused::InvalidCredentials)
        }
    }

    /// A login by password, to be verified. One for a name that nobody has is refused at the same cost.
    pub fn claim(&self, user: &[u8], from_loopback: bool) -> PasswordClaim {
        self.users.claim(user, from_loopback)
    }

    /// Whether a user who has proved itself may come in.
    pub fn admit(&self, user: Option<UserId>, from_loopback: bool) -> Result<UserId, LoginRefused> {
        self.users.admit(user, from_loopback)
    }

    /// The user whom a verified certificate names (`EXTERNAL`).
    pub fn authenticate_external(&self, user: &[u8], from_loopback: bool) -> Result<UserId, LoginRefused> {
        self.users.authenticate_external(user, from_loopback)
    }

    /// The name of a user; empty once it is deleted.
    pub fn user_name(&self, user: UserId) -> &str {
        self.users.get(user).map_or("", |user| &user.name)
    }

    /// Whether a user is an administrator: has RabbitMQ's tag `administrator`. One that was deleted is none.
    pub fn is_administrator(&self, user: UserId) -> bool {
        self.has_tag(user, ADMINISTRATOR)
    }

    /// Whether a user may bring others over RDMA, who log in by themselves: has the tag `carrier`.
    pub fn is_carrier(&self, user: UserId) -> bool {
        self.has_tag(user, CARRIER)
    }

    /// Whether a user may be another broker: has the tag `federation`, or is an administrator. What such a one says of messages,
    /// that they have been here already, makes this broker drop those of others.
    pub fn is_federation(&self, user: UserId) -> bool {
        self.has_tag(user, FEDERATION) || self.is_administrator(user)
    }

    fn has_tag(&self, user: UserId, wanted: &str) -> bool {
        self.users.get(user).is_some_and(|user| user.tags.iter().any(|tag| **tag == *wanted))
    }

    /// Why a connection that was opened by a user in a virtual host must end (320), unless both still allow it.
    pub fn revoked_access(&self, user: UserId, vhost: VhostId) -> Option<Refusal> {
        let text = match self.users.get(user) {
            None => "CONNECTION_FORCED - user was deleted".to_owned(),
            Some(found) if found.on(vhost).is_none() => {
                format!("CONNECTION_FORCED - access to vhost was taken from user '{}'", found.name)
            }
            Some(_) => return None,
        };
        Some(Refusal::connection(ReplyCode::ConnectionForced, text))
    }

    /// Whether a user may do something to the exchange or queue of this name, which need not exist (403 if not).
    /// The default exchange counts as `amq.default`.
    #[inline]
    pub fn check(
        &mut self,
        user: UserId,
        vhost: VhostId,
        operation: PermissionKind,
        resource: Resource,
        name: &[u8],
    ) -> Result<(), Refusal> {
        let asked = permission_name(resource, name);
        let permitted = match self.users.get(user).and_then(|user| user.on(vhost)) {
            Some(compiled) => self.permissions.permits(compiled, user, vhost, operation, asked),
            None => false,
        };
        if permitted { Ok(()) } else { Err(self.access_refused(user, vhost, resource, asked)) }
    }

    /// The same by the patterns alone, for those who seldom ask: nothing is remembered of it.
    pub fn check_anew(
        &self,
        user: UserId,
        vhost: VhostId,
        operation: PermissionKind,
        resource: Resource,
        name: &[u8],
    ) -> Result<(), Refusal> {
        let asked = permission_name(resource, name);
        let compiled = self.users.get(user).and_then(|user| user.on(vhost));
        if compiled.is_some_and(|compiled| compiled.permits(operation, asked)) {
            return Ok(());
        }
        Err(self.access_refused(user, vhost, resource, asked))
    }

    /// Whether a user may have this definition executed. Asks everything that RabbitMQ asks before it looks whether the
    /// definition can be executed, and in its order, so that a client without permission hears 403 where it would
    /// hear it there. What operators define is not asked about.
    pub fn authorize(&self, user: UserId, definition: &Definition) -> Result<(), Refusal> {
        use PermissionKind::{Configure, Read, Write};
        use Resource::{Exchange, Queue};
        let not_default = |name: &Name| if name.is_empty() { Err(Refusal::default_exchange()) } else { Ok(()) };
        match definition {
            Definition::DeclareExchange { vhost, name, arguments, .. } => {
                not_default(name)?;
                self.check_anew(user, *vhost, Configure, Exchange, name.as_bytes())?;
                if self.exchange(*vhost, name.as_bytes()).is_some() {
                    return Ok(());
                }
                if name.starts_with("amq.") {
                    return Err(Refusal::reserved(ResourceKind::Exchange, name));
                }
                let what = ResourceName { kind: ResourceKind::Exchange, name, vhost: self.vhost_name(*vhost) };
                if let Some(alternate) = arguments::long_string(what, arguments, ALTERNATE_EXCHANGE)? {
                    self.check_anew(user, *vhost, Read, Exchange, name.as_bytes())?;
                    self.check_anew(user, *vhost, Write, Exchange, alternate)?;
                }
                Ok(())
            }
            Definition::DeleteExchange { vhost, name, .. } => {
                not_default(name)?;
                self.check_exchange_deletable(*vhost, name)?;
                self.check_anew(user, *vhost, Configure, Exchange, name.as_bytes())
            }
            Definition::BindExchange { vhost, source, destination, routing_key, .. }
            | Definition::UnbindExchange { vhost, source, destination, routing_key, .. } => {
                self.check_anew(user, *vhost, Write, Exchange, destination.as_bytes())?;
                not_default(destination)?;
                not_default(source)?;
                self.check_anew(user, *vhost, Read, Exchange, source.as_bytes())?;
                self.check_binding_topic(user, *vhost, source, routing_key)
            }
            Definition::BindQueue { vhost, exchange, queue, routing_key, .. }
            | Definition::UnbindQueue { vhost, exchange, queue, routing_key, .. } => {
                self.check_anew(user, *vhost, Write, Queue, queue.as_bytes())?;
                not_default(exchange)?;
                self.check_anew(user, *vhost, Read, Exchange, exchange.as_bytes())?;
                self.check_binding_topic(user, *vhost, exchange, routing_key)
            }
            Definition::DeclareQueue { vhost, name, server_named, arguments, .. } => {
                if name.starts_with("amq.") && !server_named {
                    return Err(Refusal::reserved(ResourceKind::Queue, name));
                }
                self.check_anew(user, *vhost, Configure, Queue, name.as_bytes())?;
                if self.queue(*vhost, name.as_bytes()).is_some() {
                    return Ok(());
                }
                self.check_queue_limit(*vhost, name)?;
                let what = ResourceName { kind: ResourceKind::Queue, name, vhost: self.vhost_name(*vhost) };
                if let Some(dead_letters) = arguments::long_string(what, arguments, DEAD_LETTER_EXCHANGE)? {
                    self.check_anew(user, *vhost, Read, Queue, name.as_bytes())?;
                    self.check_anew(user, *vhost, Write, Exchange, dead_letters)?;
                }
                Ok(())
            }
            Definition::DeleteQueue { vhost, name, .. } => {
                self.check_anew(user, *vhost, Configure, Queue, name.as_bytes())
            }
            Definition::NextQueueUid(_)
            | Definition::RemoveQueue { .. }
            | Definition::Finish
            | Definition::SessionGone { .. }
            | Definition::CreateVhost { .. }
            | Definition::DeleteVhost { .. }
            | Definition::PutUser { .. }
            | Definition::DeleteUser { .. }
            | Definition::SetPermission { .. }
            | Definition::SetTopicPermission { .. }
            | Definition::ClearTopicPermission { .. }
            | Definition::ClearPermission { .. }
            | Definition::SetPolicies { .. }
            | Definition::SetVhostLimits { .. }
            | Definition::SetUserLimits { .. } => Ok(()),
        }
    }

    fn check_binding_topic(&self, user: UserId, vhost: VhostId, exchange: &Name, key: &[u8]) -> Result<(), Refusal> {
        match self.exchange(vhost, exchange.as_bytes()) {
            Some(id) if self.topics_restricted => self.check_topic(user, id, PermissionKind::Read, key),
            _ => Ok(()),
        }
    }

    /// Whether the topics of any user have ever been restricted: if not, `check_topic` need not be asked.
    #[inline]
    pub fn restricts_topics(&self) -> bool {
        self.topics_restricted
    }

    /// Whether a user may publish to an exchange, or bind to it, with this routing key (403 if not). Only those of topic
    /// exchanges count, as in RabbitMQ.
    pub fn check_topic(
        &self,
        user: UserId,
        exchange: ExchangeId,
        operation: PermissionKind,
        routing_key: &[u8],
    ) -> Result<(), Refusal> {
        let Some(definition) = self.exchange_info(exchange) else { return Ok(()) };
        if definition.kind != ExchangeKind::Topic {
            return Ok(());
        }
        let restricted = self.users.get(user).and_then(|user| user.on_topics(definition.vhost, &definition.name));
        if restricted.is_none_or(|topics| topics.permits(operation, routing_key)) {
            return Ok(());
        }
        let what = ResourceName {
            kind: ResourceKind::Exchange,
            name: &definition.name,
            vhost: self.vhost_name(definition.vhost),
        };
        let key = String::from_utf8_lossy(routing_key);
        Err(Refusal::detail(
            ReplyCode::AccessRefused,
            format_args!("access to topic '{key}' in {what} refused for user '{}'", self.user_name(user)),
        ))
    }

    /// Refuses the predeclared exchanges and all that could be among them (403).
    pub(super) fn check_exchange_deletable(&self, vhost: VhostId, name: &Name) -> Result<(), Refusal> {
        if !name.starts_with("amq.") {
            return Ok(());
        }
        let what = ResourceName { kind: ResourceKind::Exchange, name, vhost: self.vhost_name(vhost) };
        Err(Refusal::detail(ReplyCode::AccessRefused, format_args!("deletion of system {what} not allowed")))
    }

    #[cold]
    fn access_refused(&self, user: UserId, vhost: VhostId, resource: Resource, name: &[u8]) -> Refusal {
        let kind = match resource {
            Resource::Exchange => ResourceKind::Exchange,
            Resource::Queue => ResourceKind::Queue,
        };
        let what = ResourceName { kind, name: &String::from_utf8_lossy(name), vhost: self.vhost_name(vhost) };
        Refusal::detail(
            ReplyCode::AccessRefused,
            format_args!("access to {what} refused for user '{}'", self.user_name(user)),
        )
    }
}

/// The name that patterns are held against: the default exchange has none of its own.
#[inline]
fn permission_name(resource: Resource, name: &[u8]) -> &[u8] {
    if name.is_empty() && resource == Resource::Exchange { b"amq.default" } else { name }
}
