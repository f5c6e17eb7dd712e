//! The broker's state of one connection: who it is, its channels, the command it waits for, and why it may not be read.

use crate::deferred_work::{ConnectionEnd, DeferredKey};
use crate::fence::Fence;
use crate::ids::{ChannelKey, SessionIdentity};
use crate::session_channels::SessionChannels;
use catalog::{Definition, QueueId, Refusal, SessionId, UserId, VhostId};
use queues::ConsumerKey;
use std::sync::Arc;
use wire::ChannelNumber;

/// Whether the connection's next command may be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum ReadControl {
    Continue,
    /// Stop reading until [`Effects::resume`](crate::Effects::resume).
    Pause,
    /// Read on as long as [`Broker::may_batch`](crate::Broker::may_batch) allows, on the same channel; then call
    /// [`Broker::flush_definitions`](crate::Broker::flush_definitions) and stop reading.
    Batch,
}

/// The client capabilities that the broker uses.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClientCapabilities {
    /// The client accepts `basic.cancel`.
    pub consumer_cancel_notify: bool,
    /// It accepts `connection.blocked` and `connection.unblocked`.
    pub connection_blocked: bool,
}

/// A login to a virtual host.
pub struct SessionLogin {
    pub session: SessionId,
    pub user: UserId,
    pub vhost: VhostId,
    pub capabilities: ClientCapabilities,
}

/// The reply to a pending command, sent once its response has come.
pub(crate) enum PendingReply {
    /// A method without content.
    Plain {
        no_wait: bool,
        reply: PlainReply,
    },
    /// The queue is declared: next, request its counts.
    CountQueue {
        no_wait: bool,
        name: Arc<str>,
    },
    /// `queue.declare-ok` with the counts.
    QueueDeclared {
        no_wait: bool,
        name: Arc<str>,
    },
    /// The queue may be deleted: next, remove its definition.
    DeleteQueue {
        no_wait: bool,
        name: Arc<str>,
    },
    /// `queue.delete-ok`, then `basic.cancel` for the channel's own consumers of the queue: clients that do not expect it before
    /// the reply fail.
    QueueDeleted {
        no_wait: bool,
        messages: u32,
        /// Their tags.
        cancelled: Vec<Box<[u8]>>,
    },
    QueuePurged {
        no_wait: bool,
    },
    Consuming {
        no_wait: bool,
        consumer: ConsumerKey,
    },
    /// The queue may have been deleted with the consumer in the meantime, so the tag is here.
    Cancelled {
        no_wait: bool,
        consumer: ConsumerKey,
        tag: Box<[u8]>,
    },
    /// `basic.get-ok` or `basic.get-empty`.
    Get {
        no_ack: bool,
    },
    /// `tx.commit-ok`, once the messages are in their queues.
    Commit,
    /// A batch of definitions, whose clients await no reply. `methods` are theirs, and `refusal` is of the method behind them.
    DefinitionBatch {
        methods: Vec<(u16, u16)>,
        refusal: Option<Box<Refusal>>,
    },
}

/// Replies without arguments.
#[derive(Clone, Copy)]
pub(crate) enum PlainReply {
    ExchangeDeclared,
    ExchangeDeleted,
    ExchangeBound,
    ExchangeUnbound,
    QueueBound,
    QueueUnbound,
}

/// The command whose response a connection awaits, one at a time.
pub(crate) struct PendingCommand {
    pub channel: ChannelNumber,
    pub method: (u16, u16),
    pub request: u32,
    pub reply: PendingReply,
}

/// Definitions of one channel that are not on their way to shard 0 yet: their client awaits no reply.
pub(crate) struct DefinitionBatch {
    pub channel: ChannelNumber,
    pub definitions: Vec<Definition>,
    pub methods: Vec<(u16, u16)>,
}

/// The state of a connection.
pub(crate) struct SessionState {
    pub identity: SessionIdentity,
    pub capabilities: ClientCapabilities,
    pub channels: SessionChannels,
    pub pending: Option<PendingCommand>,
    pub definition_batch: Option<Box<DefinitionBatch>>,
    /// It has published since it connected.
    pub has_published: bool,
    /// Its work that turns have left undone: it is not read until that is done.
    pub deferred: Option<DeferredKey>,
    /// Its next command takes memory and waits until the memory alarm is over.
    pub awaits_memory: bool,
    /// A queue it published to is full.
    pub blocked_by: Option<QueueId>,
    /// Its virtual host has reached its quota.
    pub vhost_is_full: bool,
    /// It is throttled until the consumers of this queue catch up.
    pub throttled_by: Option<QueueId>,
    /// It was sent `connection.blocked`.
    pub blocked_notified: bool,
    /// It may have declared exclusive queues.
    pub owns_queues: bool,
    /// It is a link to another broker.
    pub is_link: bool,
    /// The number of the link for which this broker has made it.
    pub link: Option<u32>,
    /// Another broker has made it to push messages, or says so.
    pub pushes: bool,
    /// It is about to leave this shard.
    pub fence: Option<Fence>,
}

impl SessionState {
    pub fn new(login: SessionLogin, vhost_is_full: bool) -> Self {
        let SessionLogin { session, user, vhost, capabilities } = login;
        SessionState {
            identity: SessionIdentity { session, user, vhost },
            capabilities,
            channels: SessionChannels::default(),
            pending: None,
            definition_batch: None,
            has_published: false,
            deferred: None,
            awaits_memory: false,
            blocked_by: None,
            vhost_is_full,
            throttled_by: None,
            blocked_notified: false,
            owns_queues: false,
            is_link: false,
            link: None,
            pushes: false,
            fence: None,
        }
    }

    /// What becomes of its publishes that are not in all their queues when it is gone.
    pub fn end(&self) -> ConnectionEnd {
        match self.link {
            Some(link) => ConnectionEnd::Pull(link),
            None if self.pushes => ConnectionEnd::Push,
            None => ConnectionEnd::Client,
        }
    }

    #[inline]
    pub fn channel(&self, number: ChannelNumber) -> Option<ChannelKey> {
        self.channels.get(number)
    }

    /// If a channel awaits `queue.delete-ok`, its consumer with this tag is cancelled behind that. Returns whether it does.
    pub fn cancel_behind_delete_ok(&mut self, channel: ChannelNumber, tag: &[u8]) -> bool {
        match &mut self.pending {
            Some(PendingCommand { channel: deleting, reply: PendingReply::QueueDeleted { cancelled, .. }, .. })
                if *deleting == channel =>
            {
                cancelled.push(tag.into());
                true
            }
            _ => false,
        }
    }

    /// Why its publishes are not accepted, as `connection.blocked` tells the client.
    pub fn blocked_reason(&self, memory_alarm: bool, disk_alarm: bool) -> Option<&'static str> {
        if memory_alarm && (self.has_published || self.awaits_memory) {
            Some("low on memory")
        } else if disk_alarm && self.has_published {
            Some("low on disk")
        } else if self.vhost_is_full && self.has_published {
            Some("virtual host is full")
        } else if self.blocked_by.is_some() {
            Some("queue is full")
        } else {
            None
        }
    }

    /// Adds a definition to the batch of a channel. Returns how many it holds.
    pub fn batch_definition(&mut self, channel: ChannelNumber, method: (u16, u16), definition: Definition) -> usize {
        let batch = self
            .definition_batch
            .get_or_insert_with(|| Box::new(DefinitionBatch { channel, definitions: vec![], methods: vec![] }));
        assert_eq!(batch.channel, channel, "a batch is of one channel");
        batch.definitions.push(definition);
        batch.methods.push(method);
        batch.definitions.len()
    }
}
