//! A connection, as the broker sees it: whose it is, where, and what it waits for.
//!
//! Enters: its login.  Leaves: whether it may be read.
//! Owns:   the numbers of its channels, the question it waits on, why it is held back.
//! Never:  knows a socket.

use crate::channel::ChannelKey;
use crate::consumer::ConsumerKey;
use catalog::{Definition, QueueId, Refusal, SessionId, UserId, VhostId};
use std::sync::Arc;

/// What the client said it can hear.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClientCapabilities {
    /// `basic.cancel` from the broker.
    pub consumer_cancel_notify: bool,
    /// `connection.blocked` and `connection.unblocked`.
    pub connection_blocked: bool,
}

/// A login to a virtual host.
pub struct SessionLogin {
    /// The connection.
    pub session: SessionId,
    /// Its user.
    pub user: UserId,
    /// Its virtual host.
    pub vhost: VhostId,
    /// What the client can hear.
    pub capabilities: ClientCapabilities,
}

/// What happens once an answer has come.
pub(crate) enum PendingReply {
    /// Reply with a method without content of its own, if the client waits for one.
    Reply { no_wait: bool, reply: PlainReply },
    /// The queue is declared: ask for its counts.
    CountQueue { no_wait: bool, name: Arc<str> },
    /// Reply with the counts.
    QueueDeclared { no_wait: bool, name: Arc<str> },
    /// The queue may go: remove its definition.
    DeleteQueue { no_wait: bool, name: Arc<str> },
    /// It is gone.
    QueueDeleted { no_wait: bool, messages: u32 },
    /// Reply with how many messages were dropped.
    QueuePurged { no_wait: bool },
    /// The consumer is in its place.
    Consuming { no_wait: bool, consumer: ConsumerKey },
    /// The consumer is gone; its queue may have taken it along in the meantime, so its tag is here.
    Cancelled { no_wait: bool, consumer: ConsumerKey, tag: Box<[u8]> },
    /// A message, or none.
    Get { no_ack: bool },
    /// The transaction's messages are in their queues.
    Commit,
    /// A run of definitions is made: `methods` are theirs, and `refusal` is of what stood behind it.
    DefinitionBatch { methods: Vec<(u16, u16)>, refusal: Option<Box<Refusal>> },
}

/// Replies that carry nothing.
#[derive(Clone, Copy)]
pub(crate) enum PlainReply {
    ExchangeDeclared,
    ExchangeDeleted,
    ExchangeBound,
    ExchangeUnbound,
    QueueBound,
    QueueUnbound,
}

/// The one question a connection may wait on.
pub(crate) struct PendingCommand {
    pub channel: u16,
    pub method: (u16, u16),
    pub request: u32,
    pub reply: PendingReply,
}

/// Definitions that nobody waits for, not yet on their way.
pub(crate) struct DefinitionBatch {
    pub channel: u16,
    pub definitions: Vec<Definition>,
    pub methods: Vec<(u16, u16)>,
}

/// A connection.
pub(crate) struct SessionState {
    pub session: SessionId,
    pub user: UserId,
    pub vhost: VhostId,
    pub capabilities: ClientCapabilities,
    pub channels: Vec<Option<ChannelKey>>,
    pub pending: Option<PendingCommand>,
    /// It gathers these.
    pub definition_batch: Option<Box<DefinitionBatch>>,
    /// It has published since it connected.
    pub has_published: bool,
    /// A queue it published to is full.
    pub blocked_by: Option<QueueId>,
    /// Its virtual host has as many bytes waiting as it may.
    pub vhost_is_full: bool,
    /// It gives the consumers of this queue a moment.
    pub throttled_by: Option<QueueId>,
    /// It was sent `connection.blocked`.
    pub blocked_notified: bool,
    /// It may have declared exclusive queues.
    pub owns_queues: bool,
    /// Its consumers that wait for room.
    pub idle_consumers: u32,
    /// It is a link to another broker.
    pub is_link: bool,
}

impl SessionState {
    pub fn new(login: SessionLogin) -> Self {
        SessionState {
            session: login.session,
            user: login.user,
            vhost: login.vhost,
            capabilities: login.capabilities,
            channels: Vec::new(),
            pending: None,
            definition_batch: None,
            has_published: false,
            blocked_by: None,
            vhost_is_full: false,
            throttled_by: None,
            blocked_notified: false,
            owns_queues: false,
            idle_consumers: 0,
            is_link: false,
        }
    }

    #[inline]
    pub fn channel(&self, number: u16) -> Option<ChannelKey> {
        self.channels.get(number as usize).copied().flatten()
    }
}
