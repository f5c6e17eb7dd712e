//! What the management API shows of this broker.
//!
//! Enters: a replica of the definitions, reports of the shards.  Leaves: counts and live objects, as of the last round.

use crate::admin_server::IneffectiveDefinitions;
use crate::management::live_tables::{LiveTables, add};
use crate::management::rated::{Rated, Round};
use crate::management::report_reader::ReadStep;
use catalog::{Catalog, ExchangeId, QueueId, VhostId};
use definitions::UnusedSections;
use management::{
    Action, ActionReply, ApiError, BrokerCounts, BrokerFacts, ChurnCounts, ExchangeCounts, GlobalCounts, LiveChannel,
    LiveConnection, LiveConsumer, LiveFederationLink, MessageCounts, NodeResources, QueueCounts, RatedCount, Source,
    VhostCounts, WaitingMessages,
};
use rand::{RngCore, SeedableRng, rngs::StdRng};
use shard::limits::DEFINITION_UPDATES_MAX;
use shard::{AdminHandle, CatalogReplica, SharedState, ShardTotals};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A running broker as a source.
pub struct BrokerSource {
    operator: AdminHandle,
    shared: Arc<SharedState>,
    replica: Box<CatalogReplica>,
    ineffective: IneffectiveDefinitions,
    kept: UnusedSections,
    facts: BrokerFacts,
    steps: Receiver<ReadStep>,
    tables: LiveTables,
    vhosts: HashMap<VhostId, VhostCounts>,
    memory_limit_bytes: u64,
    random: StdRng,
}

impl BrokerSource {
    pub fn new(
        (operator, shared): (AdminHandle, Arc<SharedState>),
        replica: Box<CatalogReplica>,
        ineffective: IneffectiveDefinitions,
        (facts, memory_limit_bytes): (BrokerFacts, u64),
        steps: Receiver<ReadStep>,
        seed: u64,
    ) -> Self {
        let kept = ineffective.get();
        let (tables, vhosts, random) = (LiveTables::default(), HashMap::new(), StdRng::seed_from_u64(seed));
        BrokerSource { operator, shared, replica, ineffective, kept, facts, steps, tables, vhosts, memory_limit_bytes, random }
    }

    /// Makes the changes that have come. A replica that is lost is taken anew.
    fn follow_definitions(&mut self) {
        loop {
            match self.replica.apply(DEFINITION_UPDATES_MAX, |_, _| {}) {
                Ok(made) if made < DEFINITION_UPDATES_MAX => return,
                Ok(_) => {}
                Err(_) => match self.operator.subscribe_definitions() {
                    Some(replica) => self.replica = replica,
                    // The broker ends.
                    None => return,
                },
            }
        }
    }

    fn count_vhosts(&mut self) {
        let (round, catalog) = (self.tables.round(), self.replica.catalog());
        self.vhosts.clear();
        for report in self.tables.queue_reports() {
            let Some(definition) = catalog.queue_definition(report.id) else { continue };
            let counts = self.vhosts.entry(definition.vhost).or_default();
            counts.waiting.ready += report.ready;
            counts.waiting.unacknowledged += report.unacknowledged;
            counts.messages = sum(counts.messages, self.tables.queue_counts(report.id).messages);
        }
        let _round = round;
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

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

impl Source for BrokerSource {
    fn refresh(&mut self) {
        self.follow_definitions();
        loop {
            match self.steps.try_recv() {
                Ok(ReadStep::Report(report)) => self.tables.take(*report),
                Ok(ReadStep::RoundEnds) => {
                    self.tables.end_round(now_us(), self.replica.catalog());
                    self.count_vhosts();
                    self.kept = self.ineffective.get();
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
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
        &self.facts
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
        let mut waiting = WaitingMessages::default();
        let (mut ready_bytes, mut unacknowledged_bytes) = (0, 0);
        for queue in self.tables.queue_reports() {
            waiting.ready += queue.ready;
            waiting.unacknowledged += queue.unacknowledged;
            ready_bytes += queue.ready_bytes;
            unacknowledged_bytes += queue.unacknowledged_bytes;
        }
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
                memory_bytes: slab::resident_bytes(),
                memory_limit_bytes: self.memory_limit_bytes,
                sockets: whole(|all| all.connections),
                message_bytes: whole(|all| all.waiting_bytes),
                ..NodeResources::default()
            },
            has_memory_alarm: self.shared.used_bytes() > self.memory_limit_bytes,
            ..BrokerCounts::default()
        }
    }

    fn vhost_counts(&self, vhost: VhostId) -> VhostCounts {
        self.vhosts.get(&vhost).copied().unwrap_or_default()
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
        &[]
    }

    fn now_ms(&self) -> u64 {
        now_us() / 1_000
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
fn all(shards: &[Rated<ShardTotals>], round: Round, of: fn(&ShardTotals) -> u64) -> RatedCount {
    shards.iter().map(|shard| shard.count(round, of)).fold(RatedCount::default(), add)
}
