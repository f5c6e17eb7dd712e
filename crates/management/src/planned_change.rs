//! A change before it is made: what a request comes to, with every argument checked.
//!
//! Leaves: definitions, and typed arguments of what only a broker can do.

use crate::source::ActionOutcome;
use catalog::{Definition, Name, VhostId};
use definitions::KeptSections;
use wire::Properties;

/// What is to be done for an [`Action`](crate::Action).
#[derive(Clone, Debug)]
pub enum PlannedChange {
    /// Definitions, to be made in this order by the shard that makes changes, and what takes the place of the parameters that are
    /// kept without an effect. If no definition is refused, this is the outcome; without definitions and parameters, it is so
    /// already.
    Define {
        definitions: Vec<Definition>,
        kept: Option<KeptSections>,
        outcome: ActionOutcome,
    },
    /// Definitions that are to be made first. Once the replica has them, the action is planned again: what comes then knows the
    /// ids that they gave.
    DefineFirst(Vec<Definition>),
    /// Names the cluster.
    CloseConnections {
        connections: ConnectionsToClose,
        /// For the text of `connection.close`.
        reason: String,
    },
    DeleteQueue(ConditionalDeletion),
    /// Drops the messages that wait in a queue.
    Purge {
        vhost: VhostId,
        queue: Name,
    },
    Publish(Box<MessageToPublish>),
    Get(MessagesToGet),
    /// Shows messages, which stay where they are.
    Peek(MessagesToPeek),
    /// Publishes a message, and gets it back.
    TestAliveness {
        vhost: VhostId,
    },
    RestartFederationLink {
        vhost: Name,
        id: String,
    },
    /// Has a shovel connect again.
    RestartShovel {
        vhost: Name,
        name: String,
    },
    /// Sets the counts of logins to zero.
    ResetLoginCounts,
}

impl PlannedChange {
    /// Definitions alone.
    pub fn define(definitions: impl Into<Vec<Definition>>, outcome: ActionOutcome) -> Self {
        Self::Define { definitions: definitions.into(), kept: None, outcome }
    }

    /// Parameters alone.
    pub fn keep(kept: KeptSections, outcome: ActionOutcome) -> Self {
        Self::Define { definitions: Vec::new(), kept: Some(kept), outcome }
    }

    /// It is already so.
    pub fn nothing() -> Self {
        Self::define([], ActionOutcome::Done)
    }
}

/// Which connections are to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionsToClose {
    Named(String),
    OfUser(Name),
}

/// Deletes a queue, if its home finds it unused or empty. One that goes in any case is a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalDeletion {
    pub vhost: VhostId,
    pub queue: Name,
    pub if_unused: bool,
    pub if_empty: bool,
}

/// A message to be published with the rights of the user, which were looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageToPublish {
    pub vhost: VhostId,
    pub exchange: Name,
    /// At most 255 bytes.
    pub routing_key: Box<[u8]>,
    pub properties: Properties,
    pub body: Vec<u8>,
}

/// What becomes of a message that was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GetAckMode {
    /// Acknowledged; the messages are gone.
    Acknowledge,
    /// Rejected: dead-lettered or gone.
    Reject,
    /// Back to its place, as one that was delivered before.
    Requeue,
    /// Rejected with requeueing: counts as a delivery that failed.
    RejectRequeue,
}

/// How a body is written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadEncoding {
    /// As text if it is UTF-8, else in base64.
    Auto,
    Base64,
}

/// Messages to be got from a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagesToGet {
    pub vhost: VhostId,
    pub queue: Name,
    /// At most `limits::MESSAGES_GOT_MAX`.
    pub count: usize,
    pub ack_mode: GetAckMode,
    pub encoding: PayloadEncoding,
    /// Bytes of a body that are answered; the rest is cut off.
    pub body_bytes_max: Option<usize>,
}

/// Messages of a queue to be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagesToPeek {
    pub vhost: VhostId,
    pub queue: Name,
    /// At most `limits::MESSAGES_GOT_MAX`; a broker may show fewer.
    pub count: usize,
    pub encoding: PayloadEncoding,
    /// Bytes of a body that are answered; the rest is cut off.
    pub body_bytes_max: Option<usize>,
}
