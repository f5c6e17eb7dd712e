//! What the reports of the shards say of connections, channels, consumers, queues and exchanges.
//!
//! Enters: reports, in rounds.  Leaves: counts of queues and exchanges, and lists of live objects as of the last round.

use crate::management::listed_objects::{ListedObjects, Listing};
use crate::management::rated::{Rated, Round, WaitingStats};
use crate::management::vhost_traffic::VhostTraffic;
use broker::{ChannelKey, ChannelReport, ChannelStats, ConsumerId, ConsumerReport, ExchangeStats, QueueReport};
use catalog::{Catalog, ExchangeId, QueueId, SessionId, VhostId};
use definitions::{Json, table_to_json};
use link::TlsParameters;
use management::{
    ExchangeCounts, LiveCertificate, LiveChannel, LiveConnection, LiveConsumer, LiveTls, MessageCounts, ObjectSums,
    QueueCounts, QueueOwner, QueueTotals, RatedCount, WaitingMessages,
};
use queues::QueueStats;
use shard::{ConnectionReport, ConnectionTraffic, ShardReport, ShardTotals, TlsReport};
use std::collections::HashMap;
use std::hash::Hash;
use wire::TableRef;

/// A queue as its home has told.
struct KnownQueue {
    home: u16,
    report: QueueReport,
    stats: Rated<QueueStats>,
    waiting: Rated<WaitingStats>,
    /// When it last changed.
    active_us: u64,
}

struct KnownChannel {
    report: ChannelReport,
    stats: Rated<ChannelStats>,
    active_us: u64,
}

struct KnownConnection {
    report: ConnectionReport,
    traffic: Rated<ConnectionTraffic>,
}

/// When a shard has told for the first time in a round, by its own clock.
#[derive(Default)]
struct ShardClock {
    round: Round,
    told_us: u64,
    /// The round in which it last told everything anew: what is told of then for the first time may be old.
    anew_in: u64,
}

impl ShardClock {
    /// The round of a report of this time.
    fn round(&mut self, number: u64, time_us: u64) -> Round {
        if self.round.number != number {
            let seconds = match self.told_us {
                0 => 0.0,
                before => time_us.saturating_sub(before) as f64 / 1e6,
            };
            (self.round, self.told_us) = (Round { number, seconds }, time_us);
        }
        self.round
    }
}

/// All that is known of live objects.
#[derive(Default)]
pub struct LiveTables {
    /// The last round that has ended.
    round: u64,
    totals: Vec<Rated<ShardTotals>>,
    clocks: Vec<ShardClock>,
    queues: HashMap<QueueId, KnownQueue>,
    channels: HashMap<(u16, ChannelKey), KnownChannel>,
    consumers: HashMap<ConsumerId, ConsumerReport>,
    connections: HashMap<SessionId, KnownConnection>,
    /// Of each shard: an exchange counts where its publishers are.
    exchanges: HashMap<(u16, ExchangeId), Rated<ExchangeStats>>,
    vhost_traffic: VhostTraffic,
    /// By name.
    connection_list: ListedObjects<SessionId, LiveConnection>,
    channel_list: ListedObjects<(u16, ChannelKey), LiveChannel>,
    consumer_list: ListedObjects<ConsumerId, LiveConsumer>,
    sums: ObjectSums,
    /// Channels that have published.
    publishers: u64,
}

impl LiveTables {
    /// Takes a piece of what a shard tells.
    pub fn take(&mut self, report: ShardReport) {
        let shard = report.shard.0;
        let time_us = report.time_us;
        let at = usize::from(shard);
        if self.totals.len() <= at {
            self.totals.resize_with(at + 1, || Rated::begin(ShardTotals::default()));
            self.clocks.resize_with(at + 1, ShardClock::default);
        }
        let round = self.clocks[at].round(self.round + 1, time_us);
        self.totals[at].update(report.totals, round);
        let clock = &mut self.clocks[at];
        if report.connections.begins_anew || report.broker.queues.begins_anew || report.broker.channels.begins_anew {
            clock.anew_in = round.number;
        }
        let is_new = clock.anew_in != round.number;
        if report.connections.begins_anew {
            forget(&mut self.connections, &mut self.connection_list, |id| id.shard.0 == shard);
        }
        for connection in report.connections.changed {
            let traffic = connection.traffic;
            self.connection_list.mark(connection.id);
            match self.connections.get_mut(&connection.id) {
                Some(known) => {
                    known.traffic.update(traffic, round);
                    known.report = connection;
                }
                None => {
                    let known = KnownConnection { traffic: first(traffic, round, is_new), report: connection };
                    self.connections.insert(known.report.id, known);
                }
            }
        }
        for id in report.connections.gone {
            self.connections.remove(&id);
            self.connection_list.mark(id);
        }
        self.vhost_traffic.take_closed(shard, report.closed_traffic);
        let broker = report.broker;
        if broker.queues.begins_anew {
            self.queues.retain(|_, known| known.home != shard);
        }
        // Which of its consumers are active is the queue's to tell; it changes rarely.
        let mut is_other_single = false;
        for queue in broker.queues.changed {
            match self.queues.get_mut(&queue.id) {
                Some(known) => {
                    is_other_single |= known.report.single_active != queue.single_active;
                    known.stats.update(queue.stats, round);
                    known.waiting.update(WaitingStats::of(&queue), round);
                    known.active_us = time_us;
                    known.report = queue;
                }
                None => {
                    is_other_single |= queue.single_active.is_some();
                    let known = KnownQueue {
                        home: shard,
                        stats: first(queue.stats, round, is_new),
                        waiting: first(WaitingStats::of(&queue), round, is_new),
                        active_us: time_us,
                        report: queue,
                    };
                    self.queues.insert(known.report.id, known);
                }
            }
        }
        if is_other_single {
            self.consumer_list.mark_all();
        }
        for id in broker.queues.gone {
            self.queues.remove(&id);
        }
        if broker.channels.begins_anew {
            forget(&mut self.channels, &mut self.channel_list, |key| key.0 == shard);
        }
        for channel in broker.channels.changed {
            self.channel_list.mark((shard, channel.key));
            match self.channels.get_mut(&(shard, channel.key)) {
                Some(known) => {
                    known.stats.update(channel.stats, round);
                    known.active_us = time_us;
                    known.report = channel;
                }
                None => {
                    let stats = first(channel.stats, round, is_new);
                    let key = (shard, channel.key);
                    self.channels.insert(key, KnownChannel { report: channel, stats, active_us: time_us });
                }
            }
        }
        for key in broker.channels.gone {
            self.channels.remove(&(shard, key));
            self.channel_list.mark((shard, key));
        }
        if broker.consumers.begins_anew {
            forget(&mut self.consumers, &mut self.consumer_list, |id| id.shard.0 == shard);
        }
        for consumer in broker.consumers.changed {
            self.consumer_list.mark(consumer.id);
            self.consumers.insert(consumer.id, consumer);
        }
        for key in broker.consumers.gone {
            let id = ConsumerId { shard: report.shard, key };
            self.consumers.remove(&id);
            self.consumer_list.mark(id);
        }
        for exchange in broker.exchanges.changed {
            let known = self.exchanges.entry((shard, exchange.id));
            known.or_insert_with(|| Rated::begin(ExchangeStats::default())).update(exchange.stats, round);
        }
    }

    /// Every shard has told what had changed.
    pub fn end_round(&mut self, catalog: &Catalog) {
        self.round += 1;
        self.exchanges.retain(|(_, id), _| catalog.exchange_info(*id).is_some());
        self.sum_vhost_traffic(catalog);
        self.list(catalog);
        self.sum_objects();
    }

    fn sum_vhost_traffic(&mut self, catalog: &Catalog) {
        let reports = self.connections.values().map(|known| &known.report);
        let open = reports.filter_map(|report| Some((report.id.shard.0, report.vhost?, report.traffic)));
        let rounds: Vec<(Round, bool)> =
            self.clocks.iter().map(|clock| (clock.round, clock.anew_in != clock.round.number)).collect();
        self.vhost_traffic.end_round(open, &rounds, |vhost| catalog.is_vhost(vhost));
    }

    fn list(&mut self, catalog: &Catalog) {
        let round = self.round;
        let Self { connections, channels, consumers, queues, .. } = self;
        let connection = |id| match connections.get(&id) {
            Some(known) => Listing::Shown(live_connection(known, round, catalog)),
            None => Listing::Gone,
        };
        self.connection_list.end_round(connection, |a, b| a.name.cmp(&b.name));
        let channel = |key| {
            let Some(known) = channels.get(&key) else { return Listing::Gone };
            let connection = connections.get(&known.report.connection);
            connection.map_or(Listing::Hidden, |of| Listing::Shown(live_channel(known, &of.report, round, catalog)))
        };
        self.channel_list.end_round(channel, |a, b| (&a.connection, a.number).cmp(&(&b.connection, b.number)));
        let consumer = |id| {
            let Some(consumer) = consumers.get(&id) else { return Listing::Gone };
            let queue = queues.get(&consumer.queue).map(|known| &known.report);
            let connection = connections.get(&consumer.connection);
            let shown = connection.and_then(|of| live_consumer(consumer, &of.report, queue, catalog));
            shown.map_or(Listing::Hidden, Listing::Shown)
        };
        self.consumer_list
            .end_round(consumer, |a, b| (&a.connection, a.channel, &a.tag).cmp(&(&b.connection, b.channel, &b.tag)));
    }

    /// Adds up what all connections and channels have, once a round and not once a request.
    fn sum_objects(&mut self) {
        let (connections, channels) = (self.connections.values(), self.channels.values());
        let mut sums = ObjectSums::default();
        for KnownConnection { report, traffic } in connections {
            sums.received_bytes += traffic.now().received_bytes;
            sums.sent_bytes += traffic.now().sent_bytes;
            sums.received_packets += traffic.now().receives;
            sums.sent_packets += traffic.now().sends;
            sums.pending_connections += u64::from(report.send_pending_bytes > 0);
        }
        self.publishers = 0;
        for KnownChannel { report, stats, .. } in channels {
            sums.channel_consumers += report.consumers;
            sums.unacknowledged += report.unacknowledged;
            sums.unconfirmed += report.unconfirmed;
            sums.uncommitted += report.uncommitted;
            sums.acks_uncommitted += report.uncommitted_acks;
            sums.prefetch_count += u64::from(report.prefetch);
            sums.global_prefetch_count += u64::from(report.prefetch_shared);
            self.publishers += u64::from(stats.now().publish > 0);
        }
        self.sums = sums;
    }

    /// By name, as of the last round.
    pub fn connections(&self) -> &[LiveConnection] {
        self.connection_list.list()
    }

    /// The connection of a session; nothing if it has not been told of yet, or is gone.
    pub fn queue_owner(&self, session: SessionId) -> Option<QueueOwner> {
        let report = &self.connections.get(&session)?.report;
        let (peer_host, peer_port) = host_and_port(&report.peer_address);
        Some(QueueOwner { connection: report.name.to_string(), peer_host, peer_port })
    }

    pub fn channels(&self) -> &[LiveChannel] {
        self.channel_list.list()
    }

    pub fn consumers(&self) -> &[LiveConsumer] {
        self.consumer_list.list()
    }

    pub fn sums(&self) -> ObjectSums {
        self.sums
    }

    pub fn publishers(&self) -> u64 {
        self.publishers
    }

    pub fn totals(&self) -> &[Rated<ShardTotals>] {
        &self.totals
    }

    /// The number of the last round that has ended.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The counts of a queue; of one that was just declared there are none.
    pub fn queue_counts(&self, id: QueueId) -> QueueCounts {
        let Some(KnownQueue { report, stats, waiting, active_us, .. }) = self.queues.get(&id) else {
            return QueueCounts::default();
        };
        let consumer = |id| self.consumers.get(&id).map(|consumer| String::from_utf8_lossy(&consumer.tag).into_owned());
        QueueCounts {
            waiting: waiting.waiting(self.round),
            messages_ram: report.in_memory + report.unacknowledged,
            messages_paged_out: report.paged_out,
            paged_out_bytes: report.paged_out_bytes,
            ready_bytes: report.ready_bytes,
            unacknowledged_bytes: report.unacknowledged_bytes,
            ram_bytes: report.in_memory_bytes,
            consumers: report.consumers,
            memory: report.in_memory_bytes,
            // Nothing waits, or something moves it.
            consumer_capacity: if report.consumers > 0 && report.hold.is_none() { 1.0 } else { 0.0 },
            messages: stats.messages(self.round),
            idle_since_ms: (!stats.is_moving(self.round)).then_some(active_us / 1_000),
            single_active_consumer_tag: report.single_active.and_then(consumer),
            is_closed: report.hold == Some(broker::QueueHold::Closed),
            ..QueueCounts::default()
        }
    }

    /// What metrics have of a queue.
    pub fn queue_totals(&self, id: QueueId) -> QueueTotals {
        let Some(KnownQueue { report, stats, .. }) = self.queues.get(&id) else { return QueueTotals::default() };
        QueueTotals {
            ready: report.ready,
            unacknowledged: report.unacknowledged,
            ready_bytes: report.ready_bytes,
            unacknowledged_bytes: report.unacknowledged_bytes,
            consumers: report.consumers,
            published: stats.now().publish,
            memory: report.in_memory_bytes,
        }
    }

    /// The counts of an exchange on all shards.
    pub fn exchange_counts(&self, id: ExchangeId) -> ExchangeCounts {
        let shards = 0..self.totals.len() as u16;
        let counts = shards.filter_map(|shard| Some(self.exchanges.get(&(shard, id))?.counts(self.round)));
        counts.fold(ExchangeCounts::default(), |sum, counts| ExchangeCounts {
            publish_in: add(sum.publish_in, counts.publish_in),
            publish_out: add(sum.publish_out, counts.publish_out),
        })
    }

    /// Bytes that connections in a virtual host have received and sent.
    pub fn vhost_bytes(&self, vhost: VhostId) -> (RatedCount, RatedCount) {
        let of_shard = |shard| {
            let traffic = self.vhost_traffic.get(shard, vhost)?;
            let received = traffic.count(self.round, |traffic| traffic.received_bytes);
            Some((received, traffic.count(self.round, |traffic| traffic.sent_bytes)))
        };
        let shards = 0..self.totals.len() as u16;
        let nothing = (RatedCount::default(), RatedCount::default());
        shards.filter_map(of_shard).fold(nothing, |sum, of| (add(sum.0, of.0), add(sum.1, of.1)))
    }

    /// Every queue that is known, with the messages that wait in it and what happened to its messages.
    pub fn queues(&self) -> impl Iterator<Item = (&QueueReport, WaitingMessages, MessageCounts)> {
        let counted = |known: &KnownQueue| (known.waiting.waiting(self.round), known.stats.messages(self.round));
        self.queues.values().map(move |known| {
            let (waiting, messages) = counted(known);
            (&known.report, waiting, messages)
        })
    }
}

/// What is known of an object that is told of for the first time.
pub fn first<T: Copy + Default>(stats: T, round: Round, is_new: bool) -> Rated<T> {
    if is_new { Rated::appeared(stats, round) } else { Rated::begin(stats) }
}

pub fn add(a: RatedCount, b: RatedCount) -> RatedCount {
    RatedCount { total: a.total + b.total, rate: a.rate + b.rate }
}

/// `HOST:PORT`; a peer without a port has 0.
fn host_and_port(address: &str) -> (String, u16) {
    match address.rsplit_once(':') {
        Some((host, port)) => match port.parse() {
            Ok(port) => (host.trim_matches(['[', ']']).to_owned(), port),
            Err(_) => (address.to_owned(), 0),
        },
        None => (address.to_owned(), 0),
    }
}

/// A table in wire form as JSON; one that cannot be read is left out.
fn json_of(bytes: &[u8]) -> Option<Json> {
    TableRef::new(bytes).to_table().ok().map(|table| table_to_json(Some(&table)))
}

/// A shard tells of all its objects anew: those that are known are gone unless they come again.
fn forget<K: Copy + Eq + Hash, V, T>(
    known: &mut HashMap<K, V>,
    list: &mut ListedObjects<K, T>,
    is_its: impl Fn(&K) -> bool,
) {
    known.retain(|key, _| {
        let is_gone = is_its(key);
        if is_gone {
            list.mark(*key);
        }
        !is_gone
    });
}

fn live_connection(known: &KnownConnection, round: u64, catalog: &Catalog) -> LiveConnection {
    let KnownConnection { report, traffic } = known;
    let (peer_host, peer_port) = host_and_port(&report.peer_address);
    let (host, port) = host_and_port(&report.local_address);
    let tuning = report.tuning.as_ref();
    LiveConnection {
        name: report.name.to_string(),
        user: report.user.map_or_else(String::new, |user| catalog.user_name(user).to_owned()),
        vhost: report.vhost.map_or_else(String::new, |vhost| catalog.vhost_name(vhost).to_owned()),
        state: report.state.name(),
        host,
        port,
        peer_host,
        peer_port,
        transport: report.transport,
        auth_mechanism: report.mechanism.to_string(),
        connected_at_ms: report.connected_us / 1_000,
        channels: report.channels as u32,
        channel_max: tuning.map_or(0, |tuning| tuning.channel_max.into()),
        frame_max: tuning.map_or(0, |tuning| tuning.frame_bytes_max),
        heartbeat_s: tuning.map_or(0, |tuning| tuning.heartbeat_s.into()),
        received_bytes: traffic.count(round, |traffic| traffic.received_bytes),
        sent_bytes: traffic.count(round, |traffic| traffic.sent_bytes),
        received_packets: traffic.now().receives,
        sent_packets: traffic.now().sends,
        pending_bytes: report.send_pending_bytes,
        hold: report.hold,
        held_by: report.held_by,
        held_ms: report.held_us / 1_000,
        held_since_ms: report.held_since_us.map(|since| since / 1_000),
        worked_us: report.worked_us,
        tls: report.tls.as_deref().map(live_tls),
        rdma: report.rdma.map_or_else(Vec::new, |usage| usage.named().into()),
        shard: report.id.shard.0.into(),
        client_properties: json_of(&report.client_properties),
    }
}

fn live_tls(report: &TlsReport) -> LiveTls {
    let TlsParameters { protocol, key_exchange, cipher, hash } = report.parameters;
    let certificate = report.certificate.as_ref().map(|of| LiveCertificate {
        subject: of.subject.clone(),
        issuer: of.issuer.clone(),
        validity_s: of.validity_s,
    });
    LiveTls { protocol, key_exchange, cipher, hash, certificate }
}

fn live_channel(known: &KnownChannel, connection: &ConnectionReport, round: u64, catalog: &Catalog) -> LiveChannel {
    let KnownChannel { report, stats, active_us } = known;
    let (peer_host, peer_port) = host_and_port(&connection.peer_address);
    LiveChannel {
        connection: connection.name.to_string(),
        peer_host,
        peer_port,
        number: report.number.0,
        user: connection.user.map_or_else(String::new, |user| catalog.user_name(user).to_owned()),
        vhost: connection.vhost.map_or_else(String::new, |vhost| catalog.vhost_name(vhost).to_owned()),
        consumers: report.consumers,
        has_confirms: report.confirms,
        is_transactional: report.is_transactional,
        prefetch_count: report.prefetch.into(),
        global_prefetch_count: report.prefetch_shared.into(),
        unacknowledged: report.unacknowledged,
        unconfirmed: report.unconfirmed,
        uncommitted: report.uncommitted,
        acks_uncommitted: report.uncommitted_acks,
        idle_since_ms: (!stats.is_moving(round)).then_some(active_us / 1_000),
        messages: stats.messages(round),
    }
}

fn live_consumer(
    consumer: &ConsumerReport,
    connection: &ConnectionReport,
    queue: Option<&QueueReport>,
    catalog: &Catalog,
) -> Option<LiveConsumer> {
    let definition = catalog.queue_definition(consumer.queue)?;
    let (peer_host, peer_port) = host_and_port(&connection.peer_address);
    let single = queue.and_then(|queue| queue.single_active);
    let (is_active, activity) = match single {
        None => (true, "up"),
        Some(active) if active == consumer.id => (true, "single_active"),
        Some(_) => (false, "waiting"),
    };
    Some(LiveConsumer {
        vhost: definition.vhost,
        queue: consumer.queue,
        tag: String::from_utf8_lossy(&consumer.tag).into_owned(),
        is_active,
        activity,
        needs_ack: consumer.ack_required,
        prefetch_count: consumer.prefetch.into(),
        is_exclusive: consumer.is_exclusive,
        arguments: json_of(&consumer.arguments),
        connection: connection.name.to_string(),
        channel: consumer.channel_number.0,
        peer_host,
        peer_port,
        user: connection.user.map_or_else(String::new, |user| catalog.user_name(user).to_owned()),
    })
}
