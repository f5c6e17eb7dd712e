//! The catalog: everything defined, as one deterministic state machine.
//!
//! Enters: definitions, in the same order on every shard.  Leaves: their outcome; ids; routes.
//! Owns:   vhosts, exchanges, queues, bindings, users, permissions, policies, limits, and the memory of routes.
//! Never:  holds a message, knows a connection, reads a clock, draws a random number.
//!
//! Read `Definition` first: it is all that can change here. `routing` is what happens for every message.

mod access;
mod bindings;
mod exchanges;
mod lookup;
mod queues;
mod routing;
mod rules;
mod users;
mod vhosts;
mod watches;

use crate::{
    binding::Bindings,
    definition::{Definition, Executed, Outcome, RemovedQueue},
    exchange::{Exchanges, direct::Direct, topic::Topics},
    ids::{QueueId, SessionId},
    limits::Limits,
    name::{Kind, Name},
    permission::PermissionCache,
    queue::Queues,
    refusal::{Refusal, What},
    route_cache::RouteCache,
    user::Users,
    vhost::Vhosts,
    watch::Watches,
};
pub use lookup::{BindingView, Destination};
use routing::Walk;
use wire::ReplyCode;

/// All definitions: one replica a shard.
pub struct Catalog {
    limits: Limits,
    version: u64,
    vhosts: Vhosts,
    exchanges: Exchanges,
    queues: Queues,
    bindings: Bindings,
    direct: Direct,
    topics: Topics,
    users: Users,
    permissions: PermissionCache,
    /// Somebody's topics are, or were, restricted: only then is anybody's key looked at.
    topics_restricted: bool,
    routes: RouteCache,
    walk: Walk,
    watches: Watches,
    /// Exchanges by which other brokers pull.
    upstreams: u32,
}

impl Catalog {
    /// One with nothing in it, not even a vhost.
    pub fn new(limits: Limits) -> Self {
        Self {
            version: 0,
            vhosts: Vhosts::new(&limits),
            exchanges: Exchanges::new(&limits),
            queues: Queues::new(&limits),
            bindings: Bindings::new(&limits),
            direct: Direct::new(&limits),
            topics: Topics::new(&limits),
            users: Users::new(&limits),
            permissions: PermissionCache::new(&limits),
            topics_restricted: false,
            routes: RouteCache::new(&limits),
            walk: Walk::default(),
            watches: Watches::new(&limits),
            upstreams: 0,
            limits,
        }
    }

    /// Grows with every definition that changed anything. Whatever was looked up holds while it stays.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Executes a definition. A refusal changes nothing.
    pub fn execute(&mut self, definition: &Definition) -> Result<Executed, Refusal> {
        let executed = match definition {
            Definition::DeclareExchange { .. } => self.declare_exchange(definition),
            Definition::DeleteExchange { vhost, name, if_unused } => self.delete_exchange(*vhost, name, *if_unused),
            Definition::BindExchange { .. } | Definition::BindQueue { .. } => self.bind(definition),
            Definition::UnbindExchange { .. } | Definition::UnbindQueue { .. } => self.unbind(definition),
            Definition::DeclareQueue { .. } => self.declare_queue(definition),
            Definition::DeleteQueue { vhost, name, session } => self.delete_queue(*vhost, name, *session),
            Definition::RemoveQueue { id } => Ok(self.remove_queue(*id)),
            Definition::SessionGone { session } => Ok(self.forget_session(*session)),
            Definition::CreateVhost { name } => self.create_vhost(name),
            Definition::DeleteVhost { name } => self.delete_vhost(name),
            Definition::PutUser { name, password, tags, loopback_only } => {
                self.put_user(name, password, tags, *loopback_only)
            }
            Definition::DeleteUser { name } => Ok(self.delete_user(name)),
            Definition::SetPermission { user, vhost, permission } => self.set_permission(user, vhost, permission),
            Definition::SetTopicPermission { user, vhost, exchange, permission } => {
                self.set_topic_permission(user, vhost, exchange, permission)
            }
            Definition::ClearTopicPermission { user, vhost, exchange } => {
                self.clear_topic_permission(user, vhost, exchange)
            }
            Definition::ClearPermission { user, vhost } => self.clear_permission(user, vhost),
            Definition::SetPolicies { policies, operator_policies } => self.set_policies(policies, operator_policies),
            Definition::SetVhostLimits { vhost, limits } => self.set_vhost_limits(vhost, *limits),
            Definition::SetUserLimits { user, limits } => self.set_user_limits(user, *limits),
        }?;
        if executed.changed {
            self.version += 1;
        }
        Ok(executed)
    }

    /// The version that the definition now being executed makes.
    fn next_version(&self) -> u64 {
        self.version + 1
    }
}

/// The definitions with which a broker starts that was told nothing: vhost `/`, and a user `guest` with password
/// `guest` who may do everything there, from loopback.
pub fn default_definitions() -> Vec<Definition> {
    let (vhost, user) = (Name::from("/"), Name::from("guest"));
    vec![
        Definition::CreateVhost { name: vhost.clone() },
        Definition::PutUser {
            name: user.clone(),
            password: crate::password::Password::plain("guest"),
            tags: vec![Name::from("administrator")],
            loopback_only: true,
        },
        Definition::SetPermission { user, vhost, permission: crate::user::Permission::all() },
    ]
}
