//! Checks at rest: no client waits, every shard knows the same, limits hold, and suspicions are decided.

use super::delivery_checks::Suspicions;
use super::shadow_model::ShadowModel;
use crate::simulated_broker::SimulatedShard;
use crate::simulated_client::{
    ChannelState, ClientChannel, ClientRequest, ConnectionState, ConsumerState, SimulatedClient, UnsettledDelivery,
};
use crate::world::SimulatedWorld;
use wire::frame::HEARTBEAT_FRAME;

/// Microseconds by which a channel may be closed late for the consumer timeout, beside a quarter of the timeout.
const OVERDUE_SLACK_US: u64 = 60_000;

/// Whether a limit blocks publishers.
pub fn is_blocking(world: &SimulatedWorld) -> bool {
    let mut brokers = shards(world).map(|node| node.shard.broker());
    brokers.any(|broker| broker.memory_alarm() || broker.queues().any(|queue| queue.full)) || is_disk_full(world)
}

/// Whether a disk is full.
fn is_disk_full(world: &SimulatedWorld) -> bool {
    shards(world).any(|node| node.shard.broker().disk_alarm())
}

/// Whether the answer to a request waits for the disk.
fn awaits_disk(request: &ClientRequest) -> bool {
    !matches!(
        request,
        ClientRequest::Consume(_)
            | ClientRequest::Cancel(_)
            | ClientRequest::Get(..)
            | ClientRequest::Prefetch(_)
            | ClientRequest::PrefetchShared(_)
            | ClientRequest::Flow(_)
            | ClientRequest::Recover
            | ClientRequest::Select(_)
    )
}

/// The request that a channel waits for, or that its close is behind.
fn unanswered(channel: &ClientChannel) -> Option<&ClientRequest> {
    match channel.state {
        ChannelState::Closing => channel.closed_behind.as_ref(),
        _ => channel.pending.as_ref().map(|pending| &pending.request),
    }
}

/// The shards of all brokers.
pub fn shards(world: &SimulatedWorld) -> impl Iterator<Item = &SimulatedShard> {
    world.brokers.iter().flat_map(|broker| &broker.shards)
}

/// Compares a world at rest with the model.
pub struct RestChecker<'a> {
    world: &'a SimulatedWorld,
    model: &'a ShadowModel,
    suspicions: &'a Suspicions,
    /// Whether a limit blocks publishers.
    is_blocking: bool,
}

impl<'a> RestChecker<'a> {
    /// For a world at rest.
    pub fn new(world: &'a SimulatedWorld, model: &'a ShadowModel, suspicions: &'a Suspicions) -> Self {
        RestChecker { world, model, suspicions, is_blocking: is_blocking(world) }
    }

    /// The first violation.
    pub fn violation(&self) -> Option<String> {
        let mut first = None;
        let mut report = |violation: String| first = first.take().or(Some(violation));
        self.world.clients.iter().for_each(|client| self.check_client(client, &mut report));
        self.check_output(&mut report);
        self.check_dispatch(&mut report);
        self.check_limits(&mut report);
        self.check_space(&mut report);
        self.check_replicas(&mut report);
        self.decide_suspicions(&mut report);
        first
    }

    /// A client waits for nothing.
    fn check_client(&self, client: &SimulatedClient, report: &mut impl FnMut(String)) {
        let uid = client.uid;
        if client.blocked && !self.is_blocking && client.state == ConnectionState::Open {
            report(format!("at rest: client {uid} is blocked, and no limit is reached"));
        }
        let mut requests = client.channels.iter().filter_map(unanswered);
        let awaits_disk = is_disk_full(self.world) && requests.any(awaits_disk);
        let is_held = shards(self.world).all(|node| node.shard.broker().disk_alarm());
        let is_publishing = client.channels.iter().any(|channel| channel.is_open() && channel.has_published);
        // What a client sent behind a request that awaits the disk has not been looked at.
        let is_read = !client.cut && !awaits_disk && client.state == ConnectionState::Open;
        if is_held && is_publishing && is_read && !client.blocked {
            report(format!("at rest: a disk is full, and client {uid} publishes and is not told"));
        }
        // A client that has closed its connection does not learn that it is blocked.
        if self.is_blocking && (client.blocked || client.state == ConnectionState::Closing) {
            return;
        }
        if let Some(what) = client.waits_for().filter(|_| !awaits_disk) {
            report(format!("at rest: client {uid} {what}"));
        }
        for channel in &client.channels {
            let number = channel.uid;
            if let Some((_, what)) = channel.suspicions.first() {
                report(what.clone());
            }
            let timeout_us = self.world.settings.limits.consumer_timeout_ms * 1_000;
            let now_us = self.world.clock.us();
            // Deliveries that a transaction settles do not time out, committed or not, as in RabbitMQ.
            let late = |held: &&UnsettledDelivery| {
                timeout_us > 0 && !held.staged && held.since_us + timeout_us / 8 * 10 + OVERDUE_SLACK_US < now_us
            };
            if let Some(held) = channel.unsettled.values().find(late).filter(|_| !client.cut) {
                let since_us = now_us - held.since_us;
                report(format!("at rest: channel {number} has had message {} for {since_us} us", held.message));
            }
        }
    }

    /// A shard whose disk had no room for a segment holds publishers back.
    fn check_space(&self, report: &mut impl FnMut(String)) {
        let broker = &self.world.brokers[0];
        let Some(disks) = &broker.disks else { return };
        for (at, _) in disks.all().enumerate().filter(|(_, disk)| disk.peek(|disk| disk.has_refused())) {
            // The disk of the definitions is the first shard's.
            let shard = if at < broker.shards.len() { at } else { 0 };
            if !broker.shards[shard].shard.broker().disk_alarm() {
                report(format!("at rest: disk {at} is full, and shard {shard} holds nobody back"));
            }
        }
    }

    /// Every shard has sent its output.
    fn check_output(&self, report: &mut impl FnMut(String)) {
        for (shard, node) in shards(self.world).enumerate() {
            // A heartbeat may be under way at any moment.
            let heartbeats = if self.world.settings.limits.heartbeat_s > 0 {
                node.shard.connections() * HEARTBEAT_FRAME.len()
            } else {
                0
            };
            let bytes = node.shard.effects().output_bytes().saturating_sub(heartbeats);
            // A blocked connection that becomes silent is not closed, as in RabbitMQ.
            if bytes > 0 && !self.is_blocking {
                report(format!("at rest: shard {shard} has {bytes} bytes that it does not send"));
            }
        }
    }

    /// Violations that nothing has excused.
    fn decide_suspicions(&self, report: &mut impl FnMut(String)) {
        let draining = self.suspicions.draining;
        for (queue, period, what) in &self.suspicions.disorder {
            if draining || self.model.queues[*queue].departed.is_none_or(|departed| departed < *period) {
                report(what.clone());
            }
        }
        for (queue, what) in &self.suspicions.unexplained_flags {
            if !self.model.queues[*queue].disturbed {
                report(what.clone());
            }
        }
    }

    /// A queue with messages has no consumer that could receive one.
    fn check_dispatch(&self, report: &mut impl FnMut(String)) {
        let queues = shards(self.world).flat_map(|node| node.shard.broker().queues());
        for queue in queues.filter(|queue| !queue.ready.is_empty()) {
            let mut idle = 0;
            let mut free = None;
            // The broker does not read the settlements of blocked clients.
            for (blocked, channel) in
                self.world.clients.iter().flat_map(|client| client.channels.iter().map(|c| (client.blocked, c)))
            {
                let shared = channel.prefetch_shared;
                for consumer in &channel.consumers {
                    // The shared prefetch count holds back consumers without acknowledgements too.
                    let has_capacity =
                        (consumer.no_ack || consumer.prefetch == 0 || consumer.unsettled < consumer.prefetch)
                            && (shared == 0 || channel.consumers_unsettled < shared);
                    if self.model.queues[consumer.queue].name != *queue.name || consumer.state != ConsumerState::Active
                    {
                        continue;
                    }
                    if channel.flow && has_capacity && !blocked {
                        idle += 1;
                        free = Some(&consumer.tag);
                    }
                }
            }
            // A single active consumer may be any one, also one whose connection is silent.
            if let Some(tag) = free.filter(|_| idle == queue.consumers.len() || !queue.is_single_active()) {
                let (name, messages) = (&queue.name, queue.ready.len());
                report(format!("at rest: {name} has {messages} messages, and consumer {tag} receives none"));
            }
        }
    }

    /// Every shard has the definitions that were confirmed.
    fn check_replicas(&self, report: &mut impl FnMut(String)) {
        let now = self.model.now;
        for (shard, node) in shards(self.world).enumerate() {
            let catalog = node.shard.broker().catalog();
            let Some(vhost) = catalog.vhost_by_name("/") else {
                report(format!("shard {shard} has no virtual host"));
                continue;
            };
            for queue in &self.model.queues {
                let there = catalog.queue(vhost, queue.name.as_bytes()).is_some();
                let is_replaced =
                    self.model.queues.iter().any(|other| other.name == queue.name && other.life.ended.is_none());
                if (queue.life.surely_spans(now, now) && !there)
                    || (queue.life.ended.is_some() && there && !is_replaced)
                {
                    report(format!("at rest: queue {} on shard {shard}: {there}", queue.name));
                }
            }
            for (at, exchange) in self.model.exchanges.iter().enumerate() {
                let there = catalog.exchange(vhost, exchange.name.as_bytes()).is_some();
                let gone = exchange.life.ended.is_some() || self.model.is_still_bound(at) == Some(false);
                if (self.model.is_exchange(at, now, now) && !there) || (gone && there) {
                    report(format!("at rest: exchange {} on shard {shard}: {there}", exchange.name));
                }
            }
        }
    }

    /// CatalogLimits hold, and expired messages are gone.
    fn check_limits(&self, report: &mut impl FnMut(String)) {
        let now_us = self.world.clock.us();
        for queue in shards(self.world).flat_map(|node| node.shard.broker().queues()) {
            let Some(known) = self.model.queues.iter().rev().find(|known| *known.name == *queue.name) else { continue };
            let (name, ready) = (&queue.name, &queue.ready);
            let (messages, bytes) = known.traits.length.unwrap_or((u64::MAX, u64::MAX));
            // Requeued messages are not refused.
            let came_back = known.disturbed || known.departed.is_some();
            if !(known.traits.refuses && came_back) && (ready.len() as u64 > messages || ready.body_bytes() > bytes) {
                report(format!("at rest: {name} has {} messages of {} bytes", ready.len(), ready.body_bytes()));
            }
            let over_us = ready.front().map_or(0, |head| now_us.saturating_sub(queue.deadline_us(head)));
            if over_us > 1_000 {
                report(format!("at rest: the first message of {name} expired {over_us} us ago"));
            }
        }
    }
}
