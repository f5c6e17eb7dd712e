//! A queue: the messages that wait, and the consumers that take turns.
//!
//! Enters: messages and consumers.  Leaves: which consumer is asked next.
//! Owns:   the list of waiting messages, the order of service, the counts.
//! Never:  knows a connection, decides whether a consumer has room.

use crate::consumer::ConsumerKey;
use crate::death_history::DeadLetterTarget;
use crate::features::FeatureState;
use crate::limits::{MESSAGE_OVERHEAD_BYTES, THROTTLE_BYTES};
use crate::message::{Content, Message};
use crate::ready_messages::ReadyMessages;
use catalog::{QueueId, ShardId, VhostId};
use std::collections::VecDeque;
use std::sync::Arc;

slotmap::new_key_type! {
    /// A consumer on another shard, in the table of its queue's shard.
    pub struct RemoteKey;
}

/// Whom a queue serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConsumerRef {
    /// A consumer of this shard.
    Local(ConsumerKey),
    /// A consumer of another shard.
    Remote(RemoteKey),
}

/// A consumer on another shard, as its queue sees it.
pub struct RemoteConsumer {
    /// Its shard.
    pub shard: ShardId,
    /// It, in that shard's table.
    pub consumer: ConsumerKey,
    /// Deliveries need no acknowledgement.
    pub no_ack: bool,
    /// Served before others with a smaller number.
    pub priority: i32,
    /// Messages it may still be sent.
    pub credit_messages: u32,
    /// Bytes it may still be sent; the last message may exceed it.
    pub credit_bytes: i64,
    /// It is out of credit and not in the order of service.
    pub idle: bool,
}

struct PriorityGroup {
    priority: i32,
    active: VecDeque<ConsumerRef>,
}

/// A queue that lives on this shard.
pub struct Queue {
    /// Its id.
    pub id: QueueId,
    /// Its name.
    pub name: Arc<str>,
    /// Its virtual host.
    pub vhost: VhostId,
    /// It was declared durable.
    pub durable: bool,
    /// It goes when its last consumer goes.
    pub auto_delete: bool,
    /// What waits.
    pub ready: ReadyMessages,
    /// Messages that are out under an acknowledgement.
    pub unsettled: u64,
    /// Who alone may consume.
    pub exclusive_consumer: Option<ConsumerRef>,
    /// All its consumers, those out of credit too.
    pub consumers: Vec<ConsumerRef>,
    groups: Vec<PriorityGroup>,
    /// It is on the list of queues to look at.
    pub due: bool,
    /// It has reached its share of the memory.
    pub full: bool,
    /// Connections that give its consumers a moment.
    pub throttled: Vec<crate::effects::ConnectionSlot>,
    /// Bytes at which publishers are paced: more while pacing them does not help.
    pub throttle_at_bytes: u64,
    /// Bytes it held when a publisher was paced last.
    pub throttled_at_bytes: u64,
    /// What it does beyond queueing.
    pub features: Option<Box<FeatureState>>,
    /// Messages in it may expire.
    pub expiring: bool,
    /// When it will be looked at; zero is not at all.
    pub timer_us: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new(id: QueueId, name: Arc<str>, vhost: VhostId, durable: bool, auto_delete: bool) -> Self {
        Queue {
            id,
            name,
            vhost,
            durable,
            auto_delete,
            ready: ReadyMessages::default(),
            unsettled: 0,
            exclusive_consumer: None,
            consumers: Vec::new(),
            groups: Vec::new(),
            due: false,
            full: false,
            throttled: Vec::new(),
            throttle_at_bytes: THROTTLE_BYTES,
            throttled_at_bytes: 0,
            features: None,
            expiring: false,
            timer_us: 0,
        }
    }

    /// Bytes that its waiting messages hold, with what comes with them.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.ready.bytes() + self.ready.len() as u64 * MESSAGE_OVERHEAD_BYTES
    }

    /// Where its dead letters go.
    #[inline]
    pub fn dead_letter_target(&self) -> Option<&Arc<DeadLetterTarget>> {
        self.features.as_ref()?.dead_letter_target.as_ref()
    }

    /// Whether all its messages expire.
    #[inline]
    pub fn has_ttl(&self) -> bool {
        self.features.as_ref().is_some_and(|features| features.ttl_us.is_some())
    }

    /// How long a message may wait in it: the shorter of the queue's time and the message's own.
    #[inline]
    pub fn time_to_live_us(&self, content: &Content<'_>) -> Option<u64> {
        let ttl_us = self.features.as_ref().and_then(|features| features.ttl_us);
        if !content.properties().has_expiration() {
            return ttl_us;
        }
        let own_us = crate::expiration::time_to_live_us(content.properties());
        ttl_us.into_iter().chain(own_us).min()
    }

    /// When a message that waits in it expires. It counts from its publish, so what comes back has no new time.
    #[inline]
    pub fn deadline_us(&self, message: &Message) -> u64 {
        let ttl_us = self.features.as_ref().and_then(|features| features.ttl_us);
        let life_us = if message.has_expiration() { self.time_to_live_us(&message.content()) } else { ttl_us };
        life_us.map_or(u64::MAX, |life_us| message.arrived_us().saturating_add(life_us))
    }

    /// When it goes, if nobody uses it until then.
    pub fn unused_deadline_us(&self) -> Option<u64> {
        let features = self.features.as_ref().filter(|_| self.consumers.is_empty())?;
        Some(features.used_us.saturating_add(features.expires_us?))
    }

    /// Whether nobody has used it for so long that it goes.
    pub fn is_unused_since(&self, now_us: u64) -> bool {
        self.unused_deadline_us().is_some_and(|deadline_us| deadline_us <= now_us)
    }

    /// Adds a consumer. Where one at a time is served, the first that came is.
    pub fn add_consumer(&mut self, taker: ConsumerRef, priority: i32, exclusive: bool) {
        if exclusive {
            self.exclusive_consumer = Some(taker);
        }
        self.consumers.push(taker);
        if !self.is_single_active() || self.consumers.len() == 1 {
            self.activate(taker, priority);
        }
    }

    /// Whether one consumer at a time is served (`x-single-active-consumer`).
    #[inline]
    pub fn is_single_active(&self) -> bool {
        self.features.as_ref().is_some_and(|features| features.single_active)
    }

    /// The consumer that is served next, after this one has left a queue that serves one at a time.
    pub fn successor(&self, left: usize) -> Option<ConsumerRef> {
        if left == 0 && self.is_single_active() { self.consumers.first().copied() } else { None }
    }

    /// Removes a consumer. Answers its place in the order of subscription.
    pub fn remove_consumer(&mut self, taker: ConsumerRef) -> Option<usize> {
        let at = self.consumers.iter().position(|&t| t == taker)?;
        self.consumers.remove(at);
        if self.exclusive_consumer == Some(taker) {
            self.exclusive_consumer = None;
        }
        for group in &mut self.groups {
            group.active.retain(|&t| t != taker);
        }
        self.groups.retain(|group| !group.active.is_empty());
        if self.consumers.is_empty() {
            self.consumers = Vec::new();
            self.groups = Vec::new();
        }
        Some(at)
    }

    /// Puts a consumer (back) in the order of service, behind those of its priority.
    pub fn activate(&mut self, taker: ConsumerRef, priority: i32) {
        let at = self.groups.partition_point(|group| group.priority > priority);
        match self.groups.get_mut(at) {
            Some(group) if group.priority == priority => group.active.push_back(taker),
            _ => self.groups.insert(at, PriorityGroup { priority, active: VecDeque::from([taker]) }),
        }
    }

    /// The consumer whose turn it is: the first, by priority and then in turn, that `can_take`; those that can't leave the order and are reported to `idle`.
    #[inline]
    pub fn next_consumer(
        &mut self,
        mut can_take: impl FnMut(ConsumerRef) -> bool,
        mut idle: impl FnMut(ConsumerRef),
    ) -> Option<ConsumerRef> {
        for group in &mut self.groups {
            while let Some(&taker) = group.active.front() {
                if can_take(taker) {
                    if group.active.len() > 1 {
                        group.active.rotate_left(1);
                    }
                    return Some(taker);
                }
                group.active.pop_front();
                idle(taker);
            }
        }
        None
    }
}
