//! Access: who may log in, and who may do what.
//!
//! Enters: credentials; a user, an operation and a name.  Leaves: yes, or a refusal.
//! Owns:   the rules that RabbitMQ's clients meet.
//! Never:  changes a definition.

use super::*;
use crate::{
    ids::{UserId, VhostId},
    permission::{Operation, Resource},
    user::LoginRefused,
};

impl Catalog {
    /// The user of these credentials. The error is for the log; tell the client `LoginRefused::refusal`.
    pub fn authenticate(&self, user: &[u8], password: &[u8], from_loopback: bool) -> Result<UserId, LoginRefused> {
        self.users.authenticate(user, password, from_loopback)
    }

    /// The user whom a verified certificate names (`EXTERNAL`).
    pub fn authenticate_external(&self, user: &[u8], from_loopback: bool) -> Result<UserId, LoginRefused> {
        self.users.authenticate_external(user, from_loopback)
    }

    /// The name of a user; empty once it is deleted.
    pub fn user_name(&self, user: UserId) -> &str {
        self.users.get(user).map_or("", |user| &user.name)
    }

    /// Whether a user may do something to the exchange or queue of this name, which need not exist (403 if not).
    /// The default exchange counts as `amq.default`.
    #[inline]
    pub fn check(
        &mut self,
        user: UserId,
        vhost: VhostId,
        operation: Operation,
        resource: Resource,
        name: &[u8],
    ) -> Result<(), Refusal> {
        let asked = if name.is_empty() && resource == Resource::Exchange { b"amq.default" } else { name };
        let permitted = match self.users.get(user).and_then(|user| user.on(vhost)) {
            Some(compiled) => self.permissions.permits(compiled, user, vhost, operation, asked),
            None => false,
        };
        if permitted { Ok(()) } else { Err(self.access_refused(user, vhost, resource, asked)) }
    }

    #[cold]
    fn access_refused(&self, user: UserId, vhost: VhostId, resource: Resource, name: &[u8]) -> Refusal {
        let kind = match resource {
            Resource::Exchange => Kind::Exchange,
            Resource::Queue => Kind::Queue,
        };
        let what = What { kind, name: &String::from_utf8_lossy(name), vhost: self.vhost_name(vhost) };
        Refusal::detail(
            ReplyCode::AccessRefused,
            format_args!("access to {what} refused for user '{}'", self.user_name(user)),
        )
    }
}
