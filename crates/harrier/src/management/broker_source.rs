//! What the management API shows of this broker.
//!
//! Enters: a replica of the definitions, reports of the shards.  Leaves: counts and live objects, as of the last round.

use crate::management::ManagedBroker;
use crate::management::clock::now_ms;
use crate::management::live_tables::{LiveTables, add};
use crate::management::management_limits::FIRST_ROUND_TIMEOUT;
use crate::management::process_resources::ProcessResources;
use crate::management::rated::Rated;
use crate::management::report_reader::{ReadStep, ReportReader};
use crate::management::route_links::federation_links;
use broker::QueueReport;
use catalog::{Catalog, ExchangeId, QueueId, VhostId};
use definitions::UnusedSections;
use management::{
    Action, ActionReply, ApiError, BrokerCounts, BrokerFacts, ChurnCounts, ExchangeCounts, GlobalCounts, LiveChannel,
    LiveConnection, LiveConsumer, LiveFederationLink, MessageCounts, NodeResources, QueueCounts, RatedCount, Source,
    VhostCounts, WaitingMessages,
};
use rand::{RngCore, SeedableRng, rngs::StdRng};
use shard::limits::DEFINITION_UPDATES_MAX;
use shard::{CatalogReplica, ShardTotals};
use std::collections::HashMap;
use std::io;

/// Messages that wait in some queues, and what happened to their messages.
#[derive(Clone, Copy, Default)]
struct QueueSums {
    waiting: WaitingMessages,
    messages: MessageCounts,
    ready_bytes: u64,
    unacknowledged_bytes: u64,
}

impl QueueSums {
    fn add(&mut self, report: &QueueReport, waiting: WaitingMessages, messages: MessageCounts) {
        self.waiting.ready += waiting.ready;
        self.waiting.ready_rate += waiting.ready_rate;
        self.waiting.unacknowledged += waiting.unacknowledged;
        self.waiting.unacknowledged_rate += waiting.unacknowledged_rate;
        self.messages = sum(self.messages, messages);
        self.ready_bytes += report.ready_bytes;
        self.unacknowledged_bytes += report.unacknowledged_bytes;
    }
}

/// A running broker as a source.
pub struct BrokerSource {
    broker: ManagedBroker,
    replica: Box<CatalogReplica>,
    kept: UnusedSections,
    reader: ReportReader,
    tables: LiveTables,
    /// As of the last round.
    queues: QueueSums,
    vhosts: HashMap<VhostId, QueueSums>,
    links: Vec<LiveFederationLink>,
    resources: ProcessResources,
    random: StdRng,
}

impl BrokerSource {
    /// # Errors
    /// The broker has stopped, or the system has no random numbers.
    pub fn new(broker: ManagedBroker, reader: ReportReader) -> io::Result<Self> {
        let replica = broker.operator.subscribe_definitions();
        let replica = replica.ok_or_else(|| io::Error::other("the definitions are not to be had"))?;
        let random = StdRng::try_from_os_rng().map_err(io::Error::other)?;
        Ok(BrokerSource {
            kept: broker.ineffective.get(),
            broker,
            replica,
            reader,
            tables: LiveTables::default(),
            queues: QueueSums::default(),
            vhosts: HashMap::new(),
            links: Vec::new(),
            resources: ProcessResources::default(),
            random,
        })
    }

    /// Makes the changes that have come. A replica that is lost is taken anew.
    fn follow_definitions(&mut self) {
        loop {
            match self.replica.apply(DEFINITION_UPDATES_MAX, |_, _| {}) {
                Ok(made) if made < DEFINITION_UPDATES_MAX => return,
                Ok(_) => {}
                Err(_) => match self.broker.operator.subscribe_definitions() {
                    Some(replica) => self.replica = replica,
                    // The broker ends.
                    None => return,
                },
            }
        }
    }

    /// Takes a step of the reader. True at the end of a round.
    fn take(&mut self, step: ReadStep) -> bool {
        match step {
            ReadStep::Report(report) => {
                self.tables.take(*report);
                false
            }
            ReadStep::RoundEnds(end) => {
                self.tables.end_round(self.replica.catalog());
                self.sum_queues();
                self.links = federation_links(&end.links, now_ms());
                self.resources = end.resources;
                self.kept = self.broker.ineffective.get();
                true
            }
        }
    }

    fn sum_queues(&mut self) {
        (self.queues, self.vhosts) = (QueueSums::default(), HashMap::new());
        for (report, waiting, messages) in self.tables.queues() {
            let Some(definition) = self.replica.catalog().queue_definition(report.id) else { continue };
            self.queues.add(report, waiting, messages);
            self.vhosts.entry(definition.vhost).or_default().add(report, waiting, messages);
        }
    }
}

fn sum(a: MessageCounts, b: MessageCounts) -> MessageCounts {
    MessageCounts {
        publish: add(a.publish, b.publish),
        confirm: add(a.confirm, b.confirm),
        deliver: add(a.deliver, b.deliver),
        deliver_no_ack: add(a.deliver_no_ack, b.deliver_no_ack),
        get: add(a.get, b.get),
        get_no_ack: add(a.get_no_ack, b.get_no_ack),
        get_empty: add(a.get_empty, b.get_empty),
        redeliver: add(a.redeliver, b.redeliver),
        ack: add(a.ack, b.ack),
        return_unroutable: add(a.return_unroutable, b.return_unroutable),
        drop_unroutable: add(a.drop_unroutable, b.drop_unroutable),
    }
}

impl Source for BrokerSource {
    fn refresh(&mut self) {
        self.follow_definitions();
        while let Ok(step) = self.reader.try_next() {
            self.take(step);
        }
    }

    fn begin_request(&mut self) {
        let is_old = self.reader.look();
        self.refresh();
        if is_old {
            // The reader does not pause before its first round; a step that does not come in time comes with the next request.
            while let Ok(step) = self.reader.next_within(FIRST_ROUND_TIMEOUT) {
                if self.take(step) {
                    return;
                }
            }
        }
    }

    fn catalog(&self) -> &Catalog {
        self.replica.catalog()
    }

    fn kept(&self) -> &UnusedSections {
        &self.kept
    }

    fn facts(&self) -> &BrokerFacts {
        &self.broker.facts
    }

    fn counts(&self) -> BrokerCounts {
        let round = self.tables.round();
        let total = |of: fn(&ShardTotals) -> u64| all(self.tables.totals(), round, of);
        let whole = |of: fn(&ShardTotals) -> u64| total(of).total;
        let messages = MessageCounts {
            publish: total(|all| all.stats.channels.publish),
            confirm: total(|all| all.stats.channels.confirm),
            deliver: total(|all| all.stats.channels.deliver),
            deliver_no_ack: total(|all| all.stats.channels.deliver_no_ack),
            get: total(|all| all.stats.channels.get),
            get_no_ack: total(|all| all.stats.channels.get_no_ack),
            get_empty: total(|all| all.stats.channels.get_empty),
            redeliver: total(|all| all.stats.channels.redeliver),
            ack: total(|all| all.stats.channels.ack),
            return_unroutable: total(|all| all.stats.channels.return_unroutable),
            drop_unroutable: total(|all| all.stats.channels.drop_unroutable),
        };
        let QueueSums { waiting, ready_bytes, unacknowledged_bytes, .. } = self.queues;
        let limit = self.broker.memory_limit_bytes;
        let ProcessResources { descriptors, descriptors_max, threads, threads_max, disk_free_bytes } = self.resources;
        let disk_free_limit_bytes = self.broker.disk_free_limit_bytes;
        use broker::DeadLetterReason::{DeliveryLimit, Expired, MaxLength, Rejected};
        BrokerCounts {
            waiting,
            messages,
            ready_bytes,
            unacknowledged_bytes,
            churn: ChurnCounts {
                connection_created: total(|all| all.stats.connections_opened),
                connection_closed: total(|all| all.stats.connections_closed),
                channel_created: total(|all| all.stats.channels_opened),
                channel_closed: total(|all| all.stats.channels_closed),
                queue_declared: total(|all| all.stats.queues_declared),
                queue_created: total(|all| all.stats.queues_created),
                queue_deleted: total(|all| all.stats.queues_deleted),
            },
            global: GlobalCounts {
                received: messages.publish.total,
                received_confirm: whole(|all| all.stats.publish_confirm),
                routed: whole(|all| all.stats.exchanges.publish_out),
                confirmed: messages.confirm.total,
                unroutable_dropped: messages.drop_unroutable.total,
                unroutable_returned: messages.return_unroutable.total,
                acknowledged: messages.ack.total,
                delivered_consume_auto_ack: messages.deliver_no_ack.total,
                delivered_consume_manual_ack: messages.deliver.total,
                delivered_get_auto_ack: messages.get_no_ack.total,
                delivered_get_manual_ack: messages.get.total,
                get_empty: messages.get_empty.total,
                redelivered: messages.redeliver.total,
                dead_lettered_maxlen: whole(|all| all.stats.dead_lettered.of(MaxLength)),
                dead_lettered_expired: whole(|all| all.stats.dead_lettered.of(Expired)),
                dead_lettered_rejected: whole(|all| all.stats.dead_lettered.of(Rejected)),
                dead_lettered_delivery_limit: whole(|all| all.stats.dead_lettered.of(DeliveryLimit)),
                ..GlobalCounts::default()
            },
            resources: NodeResources {
                memory_bytes: slab::resident_bytes().map_or(0, |bytes| bytes as u64),
                memory_limit_bytes: limit,
                disk_free_bytes,
                disk_free_limit_bytes,
                descriptors,
                descriptors_max,
                sockets: whole(|all| all.connections),
                threads,
                threads_max,
                message_bytes: whole(|all| all.waiting_bytes),
                ..NodeResources::default()
            },
            has_memory_alarm: self.broker.shared.used_bytes() > limit,
            has_disk_alarm: disk_free_limit_bytes > 0 && disk_free_bytes < disk_free_limit_bytes,
            is_draining: self.broker.shared.is_stopping(),
            ..BrokerCounts::default()
        }
    }

    fn vhost_counts(&self, vhost: VhostId) -> VhostCounts {
        let sums = self.vhosts.get(&vhost).copied().unwrap_or_default();
        VhostCounts { waiting: sums.waiting, messages: sums.messages, ..VhostCounts::default() }
    }

    fn exchange_counts(&self, exchange: ExchangeId) -> ExchangeCounts {
        self.tables.exchange_counts(exchange)
    }

    fn queue_counts(&self, queue: QueueId) -> QueueCounts {
        self.tables.queue_counts(queue)
    }

    fn connections(&self) -> &[LiveConnection] {
        &self.tables.connection_list
    }

    fn channels(&self) -> &[LiveChannel] {
        &self.tables.channel_list
    }

    fn consumers(&self) -> &[LiveConsumer] {
        &self.tables.consumer_list
    }

    fn federation_links(&self) -> &[LiveFederationLink] {
        &self.links
    }

    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn act(&mut self, action: Action, reply: ActionReply) {
        let _action = action;
        reply.send(Err(ApiError::new(501, "not_implemented", "changes over HTTP are not made yet")));
    }
}

/// A count of all shards.
fn all(shards: &[Rated<ShardTotals>], round: u64, of: fn(&ShardTotals) -> u64) -> RatedCount {
    shards.iter().map(|shard| shard.count(round, of)).fold(RatedCount::default(), add)
}
