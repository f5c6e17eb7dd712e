//! Journal records: changes of what survives a restart, by names.
//!
//! Leaves: one enum, in which nothing depends on the ids of a running broker.
//! Owns:   the list of what can change in the durable definitions.
//!
//! A record states what is from then on, and may be applied twice. It says nothing of what goes with it: what is deleted takes
//! its bindings, its permissions or everything in it along.

use catalog::{ExchangeKind, Name, Password, Permission, Policy, QueueUid, TopicPermission, UserLimits, VhostLimits};
use wire::Table;

/// A password as it is stored: a hash, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PasswordHash(Password);

impl PasswordHash {
    /// Of what a catalog holds: a secret that is kept as it is, is hashed with `salt`.
    pub fn new(password: &Password, salt: impl FnOnce() -> [u8; 4]) -> Self {
        match password.secret() {
            Some(secret) => PasswordHash(Password::sha256(secret, salt())),
            None => PasswordHash(password.clone()),
        }
    }

    pub fn password(&self) -> &Password {
        &self.0
    }

    /// As [`Password::hashed`] reads it.
    pub(crate) fn text(&self) -> String {
        self.0.written().unwrap_or_default()
    }
}

/// An exchange that survives a restart.
#[derive(Clone, PartialEq, Debug)]
pub struct DurableExchange {
    pub kind: ExchangeKind,
    pub auto_delete: bool,
    pub internal: bool,
    pub arguments: Table,
}

/// A queue that survives a restart.
#[derive(Clone, PartialEq, Debug)]
pub struct DurableQueue {
    pub uid: QueueUid,
    /// The shard it lives on, and the number of the log that has its messages.
    pub home: u16,
    pub auto_delete: bool,
    pub arguments: Table,
}

/// A binding between an exchange and a queue or exchange that survive a restart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DurableBinding {
    pub source: Name,
    pub destination: Name,
    pub is_to_queue: bool,
    pub routing_key: Box<[u8]>,
    /// A table as on the wire, its entries in the order of their names.
    pub arguments: Box<[u8]>,
}

/// A user.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredUser {
    pub password: PasswordHash,
    pub tags: Vec<Name>,
    pub loopback_only: bool,
}

/// A change of the durable definitions.
#[derive(Clone, PartialEq, Debug)]
pub enum JournalRecord {
    /// Everything that is defined follows, among later changes.
    SnapshotBegin,
    /// What stands behind the beginning is all that is defined: what stands before it counts no more.
    SnapshotEnd,
    PutVhost {
        name: Name,
    },
    DeleteVhost {
        name: Name,
    },
    SetVhostLimits {
        vhost: Name,
        limits: VhostLimits,
    },
    /// Makes a user or changes one, who keeps limits and permissions.
    PutUser {
        name: Name,
        user: StoredUser,
    },
    DeleteUser {
        name: Name,
    },
    SetUserLimits {
        user: Name,
        limits: UserLimits,
    },
    SetPermission {
        user: Name,
        vhost: Name,
        permission: Permission,
    },
    ClearPermission {
        user: Name,
        vhost: Name,
    },
    SetTopicPermission {
        user: Name,
        vhost: Name,
        exchange: Name,
        permission: TopicPermission,
    },
    ClearTopicPermission {
        user: Name,
        vhost: Name,
        exchange: Name,
    },
    /// No policy is left, in any vhost.
    ClearPolicies,
    PutPolicy {
        policy: Policy,
        is_operator: bool,
    },
    PutExchange {
        vhost: Name,
        name: Name,
        exchange: DurableExchange,
    },
    DeleteExchange {
        vhost: Name,
        name: Name,
    },
    PutQueue {
        vhost: Name,
        name: Name,
        queue: DurableQueue,
    },
    DeleteQueue {
        vhost: Name,
        name: Name,
    },
    /// The binding is there, behind all others unless it is there already.
    PutBinding {
        vhost: Name,
        binding: DurableBinding,
    },
    /// The binding is there, before all others unless it is there already: a snapshot has the newest ones first.
    PutOlderBinding {
        vhost: Name,
        binding: DurableBinding,
    },
    DeleteBinding {
        vhost: Name,
        binding: DurableBinding,
    },
    /// No queue had this uid yet, nor a greater one.
    NextQueueUid(QueueUid),
}
