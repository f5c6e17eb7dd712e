//! The catalog: everything defined, as one deterministic state machine.
//!
//! Enters: definitions, in the same order on every shard.  Leaves: their outcome; ids; routes.
//! Owns:   vhosts, exchanges, queues, bindings, users, permissions, policies, limits, and the memory of routes.
//!
//! Read `Definition` first: it is all that can change here. `routing` is what happens for every message.

mod access;
mod bindings;
mod catalog_copy;
mod exchanges;
mod keyed_routes;
mod limits_and_policies;
mod lookup;
mod newer_bindings;
mod newer_rounds;
mod queues;
mod removals;
mod renewals;
mod routing;
mod users;
mod vhosts;
mod visited_exchanges;
mod walks;
mod watches;

use crate::{
    arguments,
    binding::BindingTable,
    definition::{Definition, DefinitionOutcome, ExecutedDefinition, RemovedExchange, RemovedQueue},
    exchange::{ExchangeTable, direct::DirectIndex, headers::HeadersIndex, topic::TopicTrie},
    ids::{QueueId, QueueUid, SessionId},
    limits::{CatalogLimits, DEFINITION_STEPS_MAX, DefinitionShare},
    name::Name,
    permission::PermissionCache,
    queue::QueueTable,
    refusal::{Refusal, ResourceKind, ResourceName},
    route_cache::RouteCache,
    user::UserTable,
    vhost::VhostTable,
    watch::BindingSubscriptions,
};
pub use catalog_copy::CatalogCopy;
pub use keyed_routes::KeyedRoute;
pub use lookup::{BindingDestination, BindingView};
use removals::Removal;
use renewals::Renewal;
use routing::RouteSearch;
pub use walks::BindingPlace;
use wire::ReplyCode;

/// All definitions: one replica a shard.
#[derive(Clone)]
pub struct Catalog {
    limits: CatalogLimits,
    share: DefinitionShare,
    version: u64,
    vhosts: VhostTable,
    exchanges: ExchangeTable,
    queues: QueueTable,
    /// What the next durable queue gets.
    next_queue_uid: QueueUid,
    bindings: BindingTable,
    direct: DirectIndex,
    topics: TopicTrie,
    headers: HeadersIndex,
    /// Bytes of consistent-hash exchanges.
    rings_bytes: usize,
    users: UserTable,
    permissions: PermissionCache,
    /// Somebody's topics are, or were, restricted: only then is anybody's key looked at.
    topics_restricted: bool,
    routes: RouteCache,
    walk: RouteSearch,
    watches: BindingSubscriptions,
    /// Exchanges by which other brokers pull.
    upstreams: u32,
    /// What is still to be removed, the last one begun last.
    removals: Vec<Removal>,
    /// To how many of them, from the first on, no remembered route leads.
    removals_without_routes: usize,
    /// The queues and exchanges that are yet to be held against rules that have changed.
    renewal: Option<Renewal>,
    /// Units of work since somebody asked.
    work: u64,
}

impl Catalog {
    /// One with nothing in it, not even a vhost.
    pub fn new(limits: CatalogLimits) -> Self {
        Self {
            version: 0,
            vhosts: VhostTable::new(&limits),
            exchanges: ExchangeTable::new(&limits),
            queues: QueueTable::new(&limits),
            next_queue_uid: QueueUid::FIRST,
            bindings: BindingTable::new(&limits),
            direct: DirectIndex::new(&limits),
            topics: TopicTrie::new(&limits),
            headers: HeadersIndex::new(&limits),
            rings_bytes: 0,
            users: UserTable::new(&limits),
            permissions: PermissionCache::new(&limits),
            topics_restricted: false,
            routes: RouteCache::new(&limits),
            walk: RouteSearch::default(),
            watches: BindingSubscriptions::new(&limits),
            upstreams: 0,
            removals: Vec::new(),
            removals_without_routes: 0,
            renewal: None,
            work: 0,
            share: DefinitionShare::UNLIMITED,
            limits,
        }
    }

    /// Grows with every definition that changed anything. Whatever was looked up holds while it stays.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Units of work since this was asked last; one is about 100 ns: a binding or a node of a trie that was looked at, a header
    /// that was compared, a queue that was found, a step of a removal. A remembered route is none.
    #[inline]
    pub fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    /// Bytes that the definitions take, with their indexes and the memory of routes: kept as they change, not counted anew.
    /// Users and permissions, which operators make, are not.
    pub fn bytes(&self) -> usize {
        self.definition_bytes() + self.routes.bytes() + self.walk.bytes() + self.watches.bytes()
    }

    /// Bytes that the definitions take with their indexes, without what routing remembers.
    fn definition_bytes(&self) -> usize {
        self.vhosts.bytes()
            + self.exchanges.0.bytes()
            + self.rings_bytes
            + self.queues.bytes()
            + self.bindings.bytes()
            + self.direct.bytes()
            + self.topics.bytes()
            + self.headers.bytes()
    }

    /// Executes a definition, [`DEFINITION_STEPS_MAX`](crate::limits::DEFINITION_STEPS_MAX) steps of it at most. A refusal
    /// changes nothing.
    pub fn execute(&mut self, definition: &Definition) -> Result<ExecutedDefinition, Refusal> {
        let unfinished = self.removals.len();
        self.work += 1 + definition.arguments().map_or(0, arguments::work);
        let mut executed = match definition {
            Definition::DeclareExchange { .. } => self.declare_exchange(definition),
            Definition::DeleteExchange { vhost, name, if_unused } => self.delete_exchange(*vhost, name, *if_unused),
            Definition::BindExchange { .. } | Definition::BindQueue { .. } => self.bind(definition),
            Definition::UnbindExchange { .. } | Definition::UnbindQueue { .. } => self.unbind(definition),
            Definition::DeclareQueue { .. } => self.declare_queue(definition),
            Definition::DeleteQueue { vhost, name, session } => self.delete_queue(*vhost, name, *session),
            Definition::NextQueueUid(uid) => Ok(self.set_next_queue_uid(*uid)),
            Definition::RemoveQueue { id } => Ok(self.remove_queue(*id)),
            Definition::SessionGone { session } => Ok(self.forget_session(*session)),
            Definition::Finish => {
                let existed = self.has_unfinished();
                Ok(ExecutedDefinition::new(DefinitionOutcome::Deleted { existed }, existed))
            }
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
        match definition {
            Definition::Finish => {
                let steps = self.remove(0, &mut executed);
                // Removals that go on and on leave some of the steps to a renewal.
                self.renew(steps.min(DEFINITION_STEPS_MAX / 2), &mut executed);
            }
            // What changes nothing is not executed by the other replicas.
            Definition::SetPolicies { .. } | Definition::SetVhostLimits { .. } if executed.changed => {
                self.renew(0, &mut executed);
            }
            // What others began is left as it is.
            _ => _ = self.remove(unfinished, &mut executed),
        }
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
        Definition::SetPermission { user, vhost, permission: crate::permission::Permission::all() },
    ]
}
