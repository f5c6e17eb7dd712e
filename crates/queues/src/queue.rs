//! A queue that lives on this shard: its waiting messages, its consumers, its counts.

use crate::change_list::ChangeList;
use crate::consumer_rotation::ConsumerRotation;
use crate::death_history::DeadLetterTarget;
use crate::expiry_turns::ExpiryTurn;
use crate::features::FeatureState;
use crate::ids::ConsumerRef;
use crate::limits::{MESSAGE_OVERHEAD_BYTES, THROTTLE_BYTES};
use crate::message::{Content, Message};
use crate::page::PageSummary;
use crate::queue_entry::QueueEntry;
use crate::queue_stats::QueueStats;
use crate::ready_messages::ReadyMessages;
use catalog::ConnectionSlot;
use catalog::{QueueId, QueueUid, VhostId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The publishers of a queue that wait until its consumers have caught up.
pub struct QueueThrottle {
    pub connections: BTreeSet<ConnectionSlot>,
    /// Waiting bytes at which a publisher is throttled: more while throttling does not help.
    pub at_bytes: u64,
    /// Waiting bytes when the last publisher was throttled.
    pub since_bytes: u64,
}

/// A queue that lives on this shard.
pub struct Queue {
    pub id: QueueId,
    pub name: Arc<str>,
    pub vhost: VhostId,
    /// Only a durable queue has one, and only if there is a store.
    pub uid: Option<QueueUid>,
    /// The number of one that is not, once messages of it were paged out.
    pub spill_uid: Option<QueueUid>,
    /// The queue is deleted with its last consumer.
    pub auto_delete: bool,
    /// The messages that wait.
    pub ready: ReadyMessages,
    /// Messages that were delivered and await an acknowledgement.
    pub unsettled: u64,
    /// Bytes of the bodies of these.
    pub unsettled_bytes: u64,
    pub stats: QueueStats,
    /// A reader of reports knows it as it is.
    pub is_reported: bool,
    pub consumers: ConsumerRotation,
    /// The queue is on the list of queues to dispatch.
    pub due: bool,
    /// The queue has reached the limit of `BrokerOptions::queue_bytes_max`.
    pub full: bool,
    /// All shards know that it wants messages of its upstreams.
    pub wants_messages: bool,
    pub throttle: QueueThrottle,
    /// State of what it does beyond queueing.
    pub features: Option<Box<FeatureState>>,
    /// Messages in it may expire.
    pub expiring: bool,
    /// When its timer fires; zero without a timer.
    pub timer_us: u64,
    /// Whether it may give up what has expired.
    pub(crate) expiry: ExpiryTurn,
}

impl Queue {
    pub fn new(id: QueueId, name: Arc<str>, vhost: VhostId, uid: Option<QueueUid>, auto_delete: bool) -> Self {
        Queue {
            id,
            name,
            vhost,
            uid,
            spill_uid: None,
            auto_delete,
            ready: ReadyMessages::default(),
            unsettled: 0,
            unsettled_bytes: 0,
            stats: QueueStats::default(),
            is_reported: false,
            consumers: ConsumerRotation::default(),
            due: false,
            full: false,
            wants_messages: false,
            throttle: QueueThrottle { connections: BTreeSet::new(), at_bytes: THROTTLE_BYTES, since_bytes: 0 },
            features: None,
            expiring: false,
            timer_us: 0,
            expiry: ExpiryTurn::Free,
        }
    }

    /// The number by which the store knows its pages.
    pub fn paged_uid(&self) -> Option<QueueUid> {
        self.uid.or(self.spill_uid)
    }

    /// Bytes of its waiting messages that are in memory, with their overhead.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.ready.memory_bytes()
    }

    /// Bytes of its waiting messages, in memory or not, with their overhead.
    #[inline]
    pub fn waiting_bytes(&self) -> u64 {
        self.ready.bytes() + self.ready.len() as u64 * MESSAGE_OVERHEAD_BYTES
    }

    /// Whether messages of it cannot be read.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.features.as_ref().is_some_and(|features| features.is_closed)
    }

    /// Whether what it wants of upstreams is to be looked at, or withdrawn.
    #[inline]
    pub fn has_upstreams(&self) -> bool {
        self.wants_messages || self.features.as_ref().is_some_and(|features| features.is_federated)
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

    /// How long a message may wait: the shorter of the queue's `x-message-ttl` and the message's own expiration.
    #[inline]
    pub fn time_to_live_us(&self, content: &Content<'_>) -> Option<u64> {
        let ttl_us = self.features.as_ref().and_then(|features| features.ttl_us);
        if !content.properties().has_expiration() {
            return ttl_us;
        }
        let own_us = crate::expiration::time_to_live_us(content.properties());
        ttl_us.into_iter().chain(own_us).min()
    }

    /// Whether a message that comes is lost unless a consumer takes it at once.
    pub fn keeps_nothing(&self, content: &Content<'_>) -> bool {
        self.time_to_live_us(content) == Some(0)
            || self.features.as_ref().is_some_and(|features| features.drops_alone(content))
    }

    /// When a waiting message expires. Its time counts from the publish, so requeueing does not extend it.
    #[inline]
    pub fn deadline_us(&self, message: &Message) -> u64 {
        let ttl_us = self.features.as_ref().and_then(|features| features.ttl_us);
        let time_to_live_us = if message.has_expiration() { self.time_to_live_us(&message.content()) } else { ttl_us };
        time_to_live_us.map_or(u64::MAX, |us| message.arrived_us().saturating_add(us))
    }

    /// Whether its next message has expired.
    #[inline]
    pub fn has_expired(&self, now_us: u64) -> bool {
        self.ready.front().is_some_and(|head| self.deadline_us(head) <= now_us)
    }

    /// When the first message of a page may expire: not before this. `None` if any time is possible, and never if none expires.
    pub(crate) fn page_deadline_us(&self, page: &PageSummary) -> Option<u64> {
        if page.may_have_expiration {
            return None;
        }
        let ttl_us = self.features.as_ref().and_then(|features| features.ttl_us);
        Some(ttl_us.map_or(u64::MAX, |us| page.first_arrived_us.saturating_add(us)))
    }

    /// Whether the first message of a page may have expired.
    pub(crate) fn may_have_expired(&self, page: &PageSummary, now_us: u64) -> bool {
        self.page_deadline_us(page).is_none_or(|deadline_us| deadline_us <= now_us)
    }

    /// Whether its next message has expired and becomes a dead letter, or may do so: it is on a page.
    pub(crate) fn has_expired_letters(&self, now_us: u64) -> bool {
        let may_have_expired = |page: &PageSummary| self.may_have_expired(page, now_us);
        self.expiring
            && self.dead_letter_target().is_some()
            && (self.has_expired(now_us)
                || self.ready.awaits_page() && self.ready.head_page().is_none_or(may_have_expired))
    }

    /// Whether it keeps what has expired until it has its turn to give that up.
    #[inline]
    pub fn awaits_expiry(&self) -> bool {
        self.expiry == ExpiryTurn::Waits
    }

    /// Whether it has asked for its next message, which may have expired and becomes a dead letter then.
    pub(crate) fn reads_expired(&self) -> bool {
        self.expiring
            && self.dead_letter_target().is_some()
            && self.ready.awaits_page()
            && (self.ready.awaits_turn() || self.ready.head_page().is_none())
    }

    /// When the queue is deleted unless it is used before (`x-expires`).
    pub(crate) fn unused_deadline_us(&self) -> Option<u64> {
        let features = self.features.as_ref().filter(|_| self.consumers.is_empty())?;
        Some(features.used_us.saturating_add(features.expires_us?))
    }

    /// Whether the queue has been unused for so long that it is deleted.
    pub(crate) fn is_unused_since(&self, now_us: u64) -> bool {
        self.unused_deadline_us().is_some_and(|deadline_us| deadline_us <= now_us)
    }

    /// It has changed: whoever knew it as it was is to be told.
    #[inline]
    pub fn note_change(&mut self, changes: &mut ChangeList<QueueId>) {
        if self.is_reported {
            self.is_reported = false;
            changes.note(self.id);
        }
    }

    /// A message leaves it for a consumer.
    #[inline]
    pub fn count_delivery(&mut self, ack_required: bool, body_bytes: usize) {
        self.count_deliveries(ack_required, 1, body_bytes);
    }

    /// So many messages leave it for a consumer, each with a body of so many bytes.
    #[inline]
    pub fn count_deliveries(&mut self, ack_required: bool, messages: usize, body_bytes: usize) {
        if ack_required {
            self.unsettled += messages as u64;
            self.unsettled_bytes += (messages * body_bytes) as u64;
            self.stats.deliver += messages as u64;
        } else {
            self.stats.deliver_no_ack += messages as u64;
        }
    }

    /// `basic.get` takes a message.
    pub(crate) fn note_get(&mut self, entry: &QueueEntry, no_ack: bool) {
        self.stats.redeliver += u64::from(entry.redelivered);
        if no_ack {
            self.stats.get_no_ack += 1;
        } else {
            self.stats.get += 1;
            self.unsettled_bytes += entry.message.body_bytes() as u64;
        }
    }

    pub fn add_consumer(&mut self, consumer: ConsumerRef, priority: i32, exclusive: bool) {
        let single_active = self.is_single_active();
        self.consumers.add(consumer, priority, exclusive, single_active);
    }

    /// Whether one consumer at a time is served (`x-single-active-consumer`).
    #[inline]
    pub fn is_single_active(&self) -> bool {
        self.features.as_ref().is_some_and(|features| features.single_active)
    }

    /// The consumer to activate after another has left, if the queue serves one at a time and the other was the first.
    pub fn successor(&self, removed_first: bool) -> Option<ConsumerRef> {
        if removed_first && self.is_single_active() { self.consumers.iter().next() } else { None }
    }
}
