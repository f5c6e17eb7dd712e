//! Reads what a broker core has counted and holds, for a reader outside that is told what has changed, in pieces.
//!
//! Each piece draws on the budget of a turn.

use crate::broker_options::BrokerCounters;
use crate::channel::ChannelMode;
use crate::channels::Channels;
use crate::consumer::ConsumerState;
use crate::data_plane::DataPlane;
use crate::ids::{ChannelKey, ConnectionSlot, ShardIdentity};
use crate::limits::{CONSUMERS_REPORTED_MAX, PLACES_PER_WORK};
use crate::message_stats::ShardStats;
use crate::reports::{
    BrokerReport, ChannelReport, ConsumerId, ConsumerReport, ExchangeReport, HeldTotals, QueueHold, QueueReport,
    ReportPart, SessionReport,
};
use crate::sessions::Sessions;
use catalog::QueueId;
use queues::{ChangeList, ConsumerKey, ConsumerRef, PeekedQueue, Queue, RemoteConsumers, WorkBudget};
use std::sync::Arc;

/// What a report reads.
pub struct Observer<'a> {
    pub(crate) identity: ShardIdentity,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) data: &'a mut DataPlane,
}

impl Observer<'_> {
    /// All counts of this shard; of its channels what they had counted when they were last reported or closed.
    pub fn stats(&self) -> ShardStats {
        let dispatcher = &self.data.dispatcher;
        let (queues, counts) = (&dispatcher.queues, &dispatcher.channels.counts);
        ShardStats {
            channels: counts.totals,
            publish_confirm: counts.published_confirm,
            body_sizes: self.data.body_sizes,
            exchanges: counts.exchanges.all,
            dead_lettered: queues.housekeeping.dead_letters.by_reason,
            dropped_dead: queues.housekeeping.dropped_dead,
            delivery_latency: dispatcher.channels.latency.stats,
            connections_opened: self.sessions.opened,
            connections_closed: self.sessions.closed,
            channels_opened: counts.opened,
            channels_closed: counts.closed,
            queues_declared: queues.declared,
            queues_created: queues.created,
            queues_deleted: queues.deleted,
        }
    }

    /// What this shard holds.
    pub fn held(&self) -> HeldTotals {
        let (channels, housekeeping) = (&self.data.dispatcher.channels, &self.data.dispatcher.queues.housekeeping);
        HeldTotals {
            channels: channels.len() as u64,
            consumers: channels.consumers_len() as u64,
            waiting: housekeeping.waiting as u64,
            waiting_bytes: housekeeping.waiting_bytes,
            unacknowledged: channels.unsettled() as u64,
            held_dead_letters: housekeeping.dead_letters.held_len() as u64,
        }
    }

    /// Dead letters that became too many, or had no place for their history, since the start.
    pub fn dropped_dead_letters(&self) -> u64 {
        BrokerCounters::of(self.data).dead_letters_dropped
    }

    /// A reader has come that knows nothing: from now on changes are noted.
    pub fn start(&mut self) {
        let dispatcher = &mut self.data.dispatcher;
        let counts = &mut dispatcher.channels.counts;
        dispatcher.queues.changes.start();
        counts.changes.start();
        counts.consumer_changes.start();
        counts.exchanges.changes.start();
    }

    /// Nobody reads any more.
    pub fn stop(&mut self) {
        let dispatcher = &mut self.data.dispatcher;
        let counts = &mut dispatcher.channels.counts;
        dispatcher.queues.changes.stop();
        counts.changes.stop();
        counts.consumer_changes.stop();
        counts.exchanges.changes.stop();
    }

    /// The next piece of what has changed: so many objects at most, and no more than the budget of the turn allows.
    pub fn report(&mut self, objects_max: usize) -> BrokerReport {
        let mut report = BrokerReport::default();
        let identity = self.identity;
        let dispatcher = &mut self.data.dispatcher;
        let (queues, channels, work) = (&mut dispatcher.queues, &mut dispatcher.channels, &mut dispatcher.work);
        let mut left = objects_max;
        let mut changes = std::mem::take(&mut queues.changes);
        let table = (queues.table.places(), |place| queues.table.at(place).map(|queue| queue.id));
        report.queues = collect(&mut changes, table, &mut left, work, |id: QueueId| {
            let dispatcher = QueueSurroundings { identity, channels, remotes: &dispatcher.remotes };
            queues.table.get(id).map(|queue| dispatcher.report(queue))
        });
        queues.changes = changes;
        for queue in &report.queues.changed {
            if let Some(queue) = queues.table.get_mut(queue.id) {
                queue.is_reported = true;
            }
        }
        let mut changes = std::mem::take(&mut channels.counts.changes);
        let sessions = &*self.sessions;
        report.channels = collect(
            &mut changes,
            (channels.table().places(), |place| channels.table().key_at(place)),
            &mut left,
            work,
            |key| channel_report(channels, sessions, key),
        );
        channels.counts.changes = changes;
        for channel in &report.channels.changed {
            channels.fold_counts(channel.key);
            if let Some(channel) = channels.get_mut(channel.key) {
                channel.is_reported = true;
            }
        }
        let mut changes = std::mem::take(&mut channels.counts.consumer_changes);
        report.consumers = collect(
            &mut changes,
            (channels.consumers().places(), |place| channels.consumers().key_at(place)),
            &mut left,
            work,
            |key| consumer_report(identity, channels, sessions, key),
        );
        channels.counts.consumer_changes = changes;
        let exchanges = &mut channels.counts.exchanges;
        let mut changes = std::mem::take(&mut exchanges.changes);
        let table = (exchanges.places(), |place| exchanges.at(place));
        report.exchanges = collect(&mut changes, table, &mut left, work, |id| {
            exchanges.stats(id).map(|stats| ExchangeReport { id, stats })
        });
        exchanges.changes = changes;
        report.exchanges.changed.iter().for_each(|exchange| exchanges.note_reported(exchange.id));
        report.more = !(queues.changes.is_empty()
            && channels.counts.changes.is_empty()
            && channels.counts.consumer_changes.is_empty()
            && channels.counts.exchanges.changes.is_empty());
        report
    }

    /// A queue of this shard as it is now.
    pub fn queue(&self, id: QueueId) -> Option<QueueReport> {
        let dispatcher = &self.data.dispatcher;
        let surroundings =
            QueueSurroundings { identity: self.identity, channels: &dispatcher.channels, remotes: &dispatcher.remotes };
        dispatcher.queues.table.get(id).map(|queue| surroundings.report(queue))
    }

    /// Copies of the first messages of a queue of this shard, as it would deliver them; it keeps them as they are.
    pub fn peek(&self, id: QueueId, count: usize, body_bytes: usize) -> Option<PeekedQueue> {
        let queue = self.data.dispatcher.queues.table.get(id)?;
        Some(PeekedQueue::of(&queue.ready, count, body_bytes))
    }

    /// A session as it is now, if the connection has one.
    pub fn session(&self, slot: ConnectionSlot) -> Option<SessionReport> {
        let session = self.sessions.get(slot)?;
        Some(SessionReport {
            session: session.identity.session,
            vhost: session.identity.vhost,
            channels: session.channels.len() as u64,
            is_publisher: session.has_published,
            blocked_reason: session.blocked_reason(self.sessions.memory_alarm(), self.sessions.disk_alarm()),
            throttled_by: session.throttled_by,
            blocked_by: session.blocked_by,
            awaits_answer: session.pending.is_some(),
            has_deferred: session.deferred.is_some(),
        })
    }
}

/// Takes the next objects of one kind that are new, have changed or are gone. `table`: its places, and what is at each.
fn collect<T, K: Copy>(
    changes: &mut ChangeList<K>,
    (places, at): (usize, impl Fn(usize) -> Option<K>),
    left: &mut usize,
    work: &mut WorkBudget,
    report: impl Fn(K) -> Option<T>,
) -> ReportPart<T, K> {
    let mut part = ReportPart { begins_anew: changes.take_begins_anew(), ..ReportPart::default() };
    let mut looked_at = 0;
    while *left > 0
        && !work.is_spent()
        && let Some(place) = changes.next_place(places)
    {
        looked_at += 1;
        if looked_at % PLACES_PER_WORK == 0 {
            work.draw(1);
        }
        if let Some(found) = at(place).and_then(&report) {
            work.draw(1);
            *left -= 1;
            part.changed.push(found);
        }
    }
    while *left > 0
        && !work.is_spent()
        && let Some(key) = changes.next_changed()
    {
        work.draw(1);
        if let Some(found) = report(key) {
            *left -= 1;
            part.changed.push(found);
        }
    }
    while *left > 0
        && !work.is_spent()
        && let Some(key) = changes.next_gone()
    {
        work.draw(1);
        *left -= 1;
        part.gone.push(key);
    }
    part
}

/// What a report of a queue looks at beside it.
struct QueueSurroundings<'a> {
    identity: ShardIdentity,
    channels: &'a Channels,
    remotes: &'a RemoteConsumers,
}

impl QueueSurroundings<'_> {
    fn report(&self, queue: &Queue) -> QueueReport {
        let (in_memory, in_memory_bytes) = queue.ready.in_memory();
        let ready = queue.ready.len();
        let first = queue.consumers.iter().next().filter(|_| queue.is_single_active());
        QueueReport {
            id: queue.id,
            stats: queue.stats,
            ready: ready as u64,
            ready_bytes: queue.ready.body_bytes(),
            unacknowledged: queue.unsettled,
            unacknowledged_bytes: queue.unsettled_bytes,
            in_memory: in_memory as u64,
            in_memory_bytes,
            paged_out: (ready - in_memory) as u64,
            paged_out_bytes: queue.ready.bytes() - in_memory_bytes,
            consumers: queue.consumers.len() as u64,
            single_active: first.and_then(|consumer| self.consumer_id(consumer)),
            hold: self.hold(queue),
            is_full: queue.full,
            throttled_publishers: queue.throttle.connections.len() as u64,
        }
    }

    fn consumer_id(&self, consumer: ConsumerRef) -> Option<ConsumerId> {
        match consumer {
            ConsumerRef::Local(key) => Some(ConsumerId { shard: self.identity.shard, key }),
            ConsumerRef::Remote(key) => {
                self.remotes.get(key).map(|remote| ConsumerId { shard: remote.shard, key: remote.consumer })
            }
        }
    }

    /// Why its messages wait.
    fn hold(&self, queue: &Queue) -> Option<QueueHold> {
        if queue.is_closed() {
            return Some(QueueHold::Closed);
        }
        if queue.ready.is_empty() {
            return None;
        }
        if queue.consumers.is_empty() {
            return Some(QueueHold::NoConsumers);
        }
        if queue.ready.awaits_page() {
            return Some(QueueHold::AwaitsPage);
        }
        let mut holds =
            queue.consumers.iter().take(CONSUMERS_REPORTED_MAX).map(|consumer| self.consumer_hold(consumer));
        let first = holds.next().flatten()?;
        // Any that is not held back moves the queue. What holds most of them back is not counted.
        holds.all(|hold| hold.is_some()).then_some(first)
    }

    /// Why a consumer accepts nothing; `None` if it does, or is about to.
    fn consumer_hold(&self, consumer: ConsumerRef) -> Option<QueueHold> {
        match consumer {
            ConsumerRef::Remote(key) => self.remotes.get(key)?.idle.then_some(QueueHold::RemoteWindow),
            ConsumerRef::Local(key) => {
                let consumer = self.channels.consumer(key)?;
                match consumer.state {
                    ConsumerState::Active => None,
                    ConsumerState::AwaitsSettlement => Some(QueueHold::AtPrefetch),
                    ConsumerState::AwaitsChannel => {
                        let channel = self.channels.get(consumer.channel)?;
                        Some(if channel.allows_delivery() { QueueHold::OutputFull } else { QueueHold::AtPrefetch })
                    }
                }
            }
        }
    }
}

fn channel_report(channels: &Channels, sessions: &Sessions, key: ChannelKey) -> Option<ChannelReport> {
    let channel = channels.get(key).filter(|channel| !channel.closing)?;
    let (uncommitted, uncommitted_acks) = match &channel.mode {
        ChannelMode::Transaction(transaction) => transaction.counts(),
        ChannelMode::Plain | ChannelMode::Confirm => (0, 0),
    };
    let confirms = matches!(channel.mode, ChannelMode::Confirm);
    Some(ChannelReport {
        key,
        connection: sessions.session_id(channel.slot),
        number: channel.number,
        stats: channel.all_stats(),
        consumers: channel.consumers.len() as u64,
        confirms,
        is_transactional: matches!(channel.mode, ChannelMode::Transaction(_)),
        prefetch: channel.prefetch,
        prefetch_shared: channel.prefetch_shared,
        unacknowledged: channel.ledger.unsettled() as u64,
        unconfirmed: if confirms { channel.confirms.published - channel.confirms.confirmed } else { 0 },
        uncommitted,
        uncommitted_acks,
        has_flow: channel.flow,
    })
}

fn consumer_report(
    identity: ShardIdentity,
    channels: &Channels,
    sessions: &Sessions,
    key: ConsumerKey,
) -> Option<ConsumerReport> {
    let consumer = channels.consumer(key)?;
    let channel = channels.get(consumer.channel)?;
    Some(ConsumerReport {
        id: ConsumerId { shard: identity.shard, key },
        tag: Arc::clone(&consumer.tag),
        queue: consumer.queue,
        channel: consumer.channel,
        connection: sessions.session_id(channel.slot),
        channel_number: channel.number,
        ack_required: !consumer.no_ack,
        is_exclusive: consumer.exclusive,
        prefetch: consumer.prefetch,
        priority: consumer.priority,
        arguments: consumer.arguments.clone(),
    })
}
