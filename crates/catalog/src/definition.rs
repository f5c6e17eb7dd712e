//! Definitions: every change of the catalog, as data.
//!
//! Enters: what sessions, consumers and operators ask for.  Leaves: one enum that every replica executes alike.
//! Owns:   the list of what can change.

use crate::{
    exchange::ExchangeKind,
    ids::{ExchangeId, QueueId, QueueUid, SessionId, ShardId, UserId, VhostId},
    name::Name,
    password::Password,
    permission::{Permission, TopicPermission},
    policy::Policy,
    user::UserLimits,
    vhost::VhostLimits,
};
use std::sync::Arc;
use wire::Table;

/// A change of the catalog. The same changes in the same order give every replica the same state and the same ids.
#[derive(Clone, Debug)]
pub enum Definition {
    /// `exchange.declare` that is not passive.
    DeclareExchange {
        /// Where.
        vhost: VhostId,
        name: Name,
        /// The type, from `ExchangeKind::parse`.
        kind: ExchangeKind,
        /// Survives a restart, once there is a store.
        durable: bool,
        /// Goes with its last binding.
        auto_delete: bool,
        /// Takes messages from other exchanges only.
        internal: bool,
        /// `alternate-exchange` has an effect, the rest is kept.
        arguments: Table,
    },
    /// `exchange.delete`. Deleting what does not exist succeeds.
    DeleteExchange {
        /// Where.
        vhost: VhostId,
        name: Name,
        /// Only if nothing is bound to it.
        if_unused: bool,
    },
    /// `exchange.bind`.
    BindExchange {
        /// Where both exchanges are.
        vhost: VhostId,
        /// Messages come from this exchange
        source: Name,
        /// and go to this one
        destination: Name,
        /// when the routing key matches.
        routing_key: Box<[u8]>,
        /// For headers exchanges.
        arguments: Table,
    },
    /// `exchange.unbind`. Unbinding what is not bound succeeds.
    UnbindExchange {
        /// Where both exchanges are.
        vhost: VhostId,
        source: Name,
        destination: Name,
        /// As bound.
        routing_key: Box<[u8]>,
        /// As bound.
        arguments: Table,
    },
    /// `queue.bind`.
    BindQueue {
        /// Where both are.
        vhost: VhostId,
        /// Messages come from this exchange
        exchange: Name,
        /// and go to this queue
        queue: Name,
        /// when the routing key matches.
        routing_key: Box<[u8]>,
        /// For headers exchanges.
        arguments: Table,
        /// Who asks; `None` is an operator, before whom no queue is locked.
        session: Option<SessionId>,
    },
    /// `queue.unbind`. Unbinding what is not bound succeeds.
    UnbindQueue {
        /// Where both are.
        vhost: VhostId,
        exchange: Name,
        queue: Name,
        /// As bound.
        routing_key: Box<[u8]>,
        /// As bound.
        arguments: Table,
        /// Who asks; `None` is an operator, before whom no queue is locked.
        session: Option<SessionId>,
    },
    /// `queue.declare` that is not passive.
    DeclareQueue {
        /// Where.
        vhost: VhostId,
        /// Its name; for a server-named one, the name drawn by the shard that asks.
        name: Name,
        /// The server drew the name, so it may begin with `amq.`.
        server_named: bool,
        /// Survives a restart, once there is a store. Exclusive queues never do.
        durable: bool,
        /// The session that has it to itself.
        exclusive: Option<SessionId>,
        /// Goes with its last consumer.
        auto_delete: bool,
        /// Validated, kept and compared; see `arguments`.
        arguments: Table,
        /// The shard it lives on, unless it exists already.
        home: ShardId,
    },
    /// `queue.delete`. Whether it is unused or empty is for its home to find out first. Deleting what does not
    /// exist succeeds.
    DeleteQueue {
        /// Where.
        vhost: VhostId,
        name: Name,
        /// Who asks; `None` is an operator, before whom no queue is locked.
        session: Option<SessionId>,
    },
    /// The durable queue that is declared next is this one: it had this identity before the broker was started again.
    NextQueueUid(QueueUid),
    /// This very queue goes, if it is still there: its last consumer went (`auto-delete`), or it expired.
    RemoveQueue { id: QueueId },
    /// A session is gone, and its exclusive queues with it.
    SessionGone { session: SessionId },
    /// Goes on with what definitions before it began, to remove or to put under other rules, and
    /// [left unfinished](ExecutedDefinition::unfinished).
    Finish,
    /// Makes a vhost with its predeclared exchanges. One that exists stays as it is.
    CreateVhost { name: Name },
    /// Deletes a vhost with everything in it, permissions included.
    DeleteVhost { name: Name },
    /// Makes a user or changes one; permissions stay.
    PutUser {
        name: Name,
        /// How it proves itself.
        password: Password,
        /// Labels such as `administrator`; they mean something to the management side only.
        tags: Vec<Name>,
        /// Only from loopback, as RabbitMQ's `loopback_users`.
        loopback_only: bool,
    },
    /// Deletes a user with its permissions.
    DeleteUser { name: Name },
    /// Gives a user access to a vhost.
    SetPermission {
        user: Name,
        vhost: Name,
        /// What it may do there.
        permission: Permission,
    },
    /// Says under which routing keys a user may publish to a topic exchange, and bind to it.
    SetTopicPermission {
        user: Name,
        vhost: Name,
        /// The exchange, which need not exist.
        exchange: Name,
        /// Which keys.
        permission: TopicPermission,
    },
    /// A user may use all routing keys of an exchange again.
    ClearTopicPermission { user: Name, vhost: Name, exchange: Name },
    /// Takes a user's access to a vhost away.
    ClearPermission { user: Name, vhost: Name },
    /// Puts these policies in the place of all there are, in every vhost. What is declared from now on is under them; what exists
    /// is once it is [finished](ExecutedDefinition::unfinished).
    SetPolicies {
        policies: Arc<[Policy]>,
        /// The operator's own.
        operator_policies: Arc<[Policy]>,
    },
    /// Says what may be in a vhost. What is in it stays.
    SetVhostLimits {
        vhost: Name,
        /// What may be in it.
        limits: VhostLimits,
    },
    /// Says what a user may have. What it has it keeps.
    SetUserLimits {
        user: Name,
        /// What it may have.
        limits: UserLimits,
    },
}

impl Definition {
    /// The arguments of what it declares, binds or unbinds.
    pub(crate) fn arguments(&self) -> Option<&Table> {
        match self {
            Definition::DeclareExchange { arguments, .. }
            | Definition::DeclareQueue { arguments, .. }
            | Definition::BindExchange { arguments, .. }
            | Definition::UnbindExchange { arguments, .. }
            | Definition::BindQueue { arguments, .. }
            | Definition::UnbindQueue { arguments, .. } => Some(arguments),
            _ => None,
        }
    }

    /// Bytes of its arguments.
    pub fn argument_bytes(&self) -> usize {
        self.arguments().map_or(0, Table::heap_bytes)
    }

    /// Whether a user may lose access by it, to a virtual host or to a queue.
    pub fn narrows_access(&self) -> bool {
        matches!(
            self,
            Definition::DeleteUser { .. }
                | Definition::DeleteVhost { .. }
                | Definition::SetPermission { .. }
                | Definition::ClearPermission { .. }
        )
    }
}

/// What came of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionOutcome {
    Exchange {
        id: ExchangeId,
        /// It was not there before.
        created: bool,
    },
    Queue {
        id: QueueId,
        /// Where it lives.
        home: ShardId,
        /// It was not there before.
        created: bool,
    },
    /// The binding is there.
    Bound {
        /// It was not there before.
        created: bool,
    },
    /// The binding is not there.
    Unbound {
        /// It was there before.
        existed: bool,
    },
    /// What was to go is not there.
    Deleted {
        /// It was there before.
        existed: bool,
    },
    Vhost {
        id: VhostId,
        /// It was not there before.
        created: bool,
    },
    User {
        id: UserId,
    },
    /// Permissions are as asked.
    Permitted,
    /// The next durable queue has its uid.
    QueuesNumbered,
    /// The session's exclusive queues, if any, are gone.
    SessionForgotten,
    /// Policies are as asked.
    Governed,
    /// Limits are as asked.
    Limited,
}

/// A queue that a definition removed; its home drops the messages and tells the consumers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedQueue {
    pub id: QueueId,
    /// Where it lives.
    pub home: ShardId,
    /// Where it was defined.
    pub vhost: VhostId,
    /// What it was called.
    pub name: Name,
    /// Only a durable queue has one.
    pub uid: Option<QueueUid>,
}

/// An exchange that a definition removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedExchange {
    /// Where it was defined; its name is empty if the vhost is being removed, too.
    pub vhost: VhostId,
    /// What it was called.
    pub name: Name,
    /// It would have survived a restart, if there is a store.
    pub durable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedDefinition {
    /// What to answer.
    pub outcome: DefinitionOutcome,
    /// The queues that went with it.
    pub queues_removed: Vec<RemovedQueue>,
    /// The exchanges that went with it: what was deleted, and `auto-delete` ones with their last binding.
    pub exchanges_removed: Vec<RemovedExchange>,
    /// The queues that do something else now beyond queueing, or whose bytes their vhost begins or ends to count.
    pub queues_changed: Vec<QueueId>,
    /// Whether anything is different now.
    pub changed: bool,
    /// Not all of it is done. What it removes is found no more, and no message goes there, but it is not removed yet; of the queues
    /// and exchanges, some do not know their policies yet. `Definition::Finish` is to be executed until that says the same no
    /// more. Who asked is answered then.
    pub unfinished: bool,
}

impl ExecutedDefinition {
    pub(crate) fn new(outcome: DefinitionOutcome, changed: bool) -> Self {
        Self {
            outcome,
            queues_removed: Vec::new(),
            exchanges_removed: Vec::new(),
            queues_changed: Vec::new(),
            changed,
            unfinished: false,
        }
    }
}
