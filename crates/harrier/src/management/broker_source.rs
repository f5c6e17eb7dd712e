//! What the management API shows of this broker.
//!
//! Enters: a replica of the definitions, reports of the shards.  Leaves: counts and live objects, as of the last round.

use crate::management::ManagedBroker;
use crate::management::catalog_follower::{CatalogFollower, ReplicaDemand};
use crate::management::clock::{now, now_ms};
use crate::management::live_tables::{LiveTables, add};
use crate::management::log_totals::{disk_messages, io_counts};
use crate::management::management_limits::FIRST_ROUND_TIMEOUT;
use crate::management::node_history::{NodeHistory, NodeSample};
use crate::management::parameter_links::ParameterLinks;
use crate::management::process_resources::ProcessResources;
use crate::management::rated::{Rated, channel_messages};
use crate::management::report_reader::{ReadStep, ReportReader};
use crate::management::route_links::{federation_links, link_key};
use crate::management::runtime_totals::runtime_counts;
use crate::management::session_worker::{SessionAction, SessionTask, SessionWorker};
use broker::{BODY_SIZE_BOUNDS, BODY_SIZE_CLASSES, BodySizeStats, QueueReport};
use catalog::{Catalog, Definition, ExchangeId, QueueId, QueueRoute, RouteQuestion, SessionId, VhostId};
use definitions::{Json, KeptSections};
use federation::{FederationCommand, LinkStatus};
use management::{
    Action, ActionOutcome, ActionReply, AlarmHistory, AlarmKind, ApiError, BrokerCounts, BrokerFacts, ChurnCounts,
    ConnectionsToClose, ExchangeCounts, GlobalCounts, GotMessage, LiveChannel, LiveConnection, LiveConsumer,
    LiveFederationLink, LiveShovel, LoginCounts, MessageCounts, MessagesToPeek, NodeResources, PlannedChange,
    QueueCounts, QueueOwner, QueueTotals, RatedCount, RuntimeCounts, Source, VhostCounts, WaitingMessages, plan,
};
use queues::PeekedMessage;
use rand::{RngCore, SeedableRng, rngs::StdRng};
use shard::{ConnectionSelector, ShardTotals};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::RawProperties;

/// How the API's own logins are counted.
const HTTP: &str = "http";
/// How those of the broker's clients are.
const AMQP: &str = "amqp091";

/// Messages that wait in some queues, and what happened to their messages.
#[derive(Clone, Copy, Default)]
struct QueueSums {
    waiting: WaitingMessages,
    messages: MessageCounts,
    ready_bytes: u64,
    unacknowledged_bytes: u64,
    memory_bytes: u64,
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
        self.memory_bytes += report.in_memory_bytes;
    }
}

/// A running broker as a source.
pub struct BrokerSource {
    broker: ManagedBroker,
    definitions: CatalogFollower,
    kept: KeptSections,
    /// Of what is kept: another one once it has changed.
    kept_version: u64,
    reader: ReportReader,
    sessions: SessionWorker,
    tables: LiveTables,
    /// As of the last round.
    queues: QueueSums,
    vhosts: HashMap<VhostId, QueueSums>,
    links: Vec<LiveFederationLink>,
    shovels: Vec<LiveShovel>,
    link_statuses: Vec<LinkStatus>,
    parameter_links: ParameterLinks,
    /// Definitions or parameters have changed since links were last made of them.
    are_links_stale: bool,
    resources: NodeHistory,
    alarms: AlarmHistory,
    /// Memory alarms of which the history knows.
    memory_alarms_raised: u64,
    /// To the API itself.
    http_logins: LoginCounts,
    /// Those of clients that had been counted when the counts were last reset.
    amqp_logins_reset: LoginCounts,
    random: StdRng,
}

impl BrokerSource {
    /// # Errors
    /// The broker has stopped, or the system has no random numbers.
    pub fn new(broker: ManagedBroker, reader: ReportReader, sessions: SessionWorker) -> io::Result<Self> {
        let random = StdRng::try_from_os_rng().map_err(io::Error::other)?;
        let mut source = BrokerSource {
            kept: broker.kept.get(),
            definitions: CatalogFollower::start(broker.operator.clone())?,
            kept_version: broker.kept.version(),
            parameter_links: ParameterLinks::new(&broker),
            are_links_stale: true,
            shovels: Vec::new(),
            broker,
            reader,
            sessions,
            tables: LiveTables::default(),
            queues: QueueSums::default(),
            vhosts: HashMap::new(),
            links: Vec::new(),
            link_statuses: Vec::new(),
            resources: NodeHistory::default(),
            alarms: AlarmHistory::default(),
            memory_alarms_raised: 0,
            http_logins: LoginCounts { protocol: HTTP, ..LoginCounts::default() },
            amqp_logins_reset: LoginCounts::default(),
            random,
        };
        source.update_links();
        Ok(source)
    }

    /// Has the broker make the links that parameters ask for.
    fn update_links(&mut self) {
        self.are_links_stale |= self.definitions.take_changed();
        if std::mem::take(&mut self.are_links_stale) {
            self.parameter_links.update(self.definitions.catalog(), &self.kept);
            self.show_links();
        }
    }

    /// What the API shows of links, as of the last round.
    fn show_links(&mut self) {
        let (links, shovels) = self.parameter_links.shown(&self.link_statuses, now_ms());
        self.links = federation_links(&self.link_statuses, now_ms());
        self.links.extend(links);
        self.shovels = shovels;
    }

    /// The parameters as they are now: a reload may have changed them.
    fn follow_parameters(&mut self) {
        let version = self.broker.kept.version();
        if self.kept_version != version {
            (self.kept, self.kept_version, self.are_links_stale) = (self.broker.kept.get(), version, true);
        }
    }

    fn take_steps(&mut self) {
        while let Ok(step) = self.reader.try_next() {
            self.take(step);
        }
        self.note_alarms();
    }

    fn note_alarms(&mut self) {
        let shared = &self.broker.shared;
        let raised = shared.memory_alarms_raised();
        let was_raised = std::mem::replace(&mut self.memory_alarms_raised, raised) != raised;
        self.alarms.note(AlarmKind::Memory, was_raised, shared.has_memory_alarm(), now_ms());
        let is_disk_short = self.resources.is_disk_short(self.broker.disk_free_limit_bytes);
        self.alarms.note(AlarmKind::Disk, false, is_disk_short, now_ms());
    }

    /// Takes a step of the reader. True at the end of a round.
    fn take(&mut self, step: ReadStep) -> bool {
        match step {
            ReadStep::DiskFree(bytes) => {
                self.resources.set_disk_free(bytes);
                false
            }
            ReadStep::Report(report) => {
                self.tables.take(*report);
                false
            }
            ReadStep::RoundEnds(end) => {
                self.tables.end_round(self.definitions.catalog());
                self.sum_queues();
                self.link_statuses = end.links;
                self.show_links();
                let sockets = self.tables.totals().iter().map(|shard| shard.now().connections).sum();
                let memory_bytes = slab::resident_bytes().map_or(0, |bytes| bytes as u64);
                self.resources.update(NodeSample { resources: end.resources, sockets, memory_bytes, at_ms: now_ms() });
                self.follow_parameters();
                self.broker.note_certificates();
                true
            }
        }
    }

    /// Begins an action.
    ///
    /// Definitions are waited for here: they are answered once they are on the disk, and the next request finds them.
    fn carry_out(&mut self, action: &Action, reply: ActionReply) {
        self.follow_parameters();
        self.definitions.follow(ReplicaDemand::Change);
        let mut is_second = false;
        let outcome = loop {
            let change = match plan(self, action) {
                Ok(change) => change,
                Err(error) => break Err(error),
            };
            match change {
                PlannedChange::Define { definitions, kept, outcome } => {
                    break self.define(definitions).and_then(|()| self.keep(kept)).map(|()| outcome);
                }
                PlannedChange::DefineFirst(_) if is_second => {
                    break Err(ApiError::unavailable("what was defined first is gone again"));
                }
                PlannedChange::DefineFirst(definitions) => match self.define(definitions) {
                    Ok(()) => is_second = true,
                    Err(error) => break Err(error),
                },
                PlannedChange::CloseConnections { connections, reason } => {
                    break self.close_connections(&connections, &reason);
                }
                PlannedChange::Publish(message) => {
                    return self.in_session(action, message.vhost, reply, SessionAction::Publish(message));
                }
                PlannedChange::Get(wanted) => {
                    return self.in_session(action, wanted.vhost, reply, SessionAction::Get(wanted));
                }
                PlannedChange::Peek(wanted) => break self.peek(&wanted),
                PlannedChange::Purge { vhost, queue } => {
                    let queue = queue.to_string();
                    return self.in_session(action, vhost, reply, SessionAction::Purge { queue });
                }
                PlannedChange::DeleteQueue(deletion) => {
                    return self.in_session(action, deletion.vhost, reply, SessionAction::DeleteQueue(deletion));
                }
                PlannedChange::TestAliveness { vhost } => {
                    return self.in_session(action, vhost, reply, SessionAction::TestAliveness);
                }
                PlannedChange::RestartFederationLink { vhost, id } => {
                    break self.restart_link(&vhost, &id);
                }
                PlannedChange::RestartShovel { vhost, name } => break self.restart_shovel(&vhost, &name),
                PlannedChange::ResetLoginCounts => {
                    let whole = |of: fn(&ShardTotals) -> u64| all(self.tables.totals(), 0, of).total;
                    let (failed, succeeded) = (whole(|all| all.logins.refused), whole(|all| all.logins.accepted));
                    self.amqp_logins_reset = LoginCounts { protocol: AMQP, failed, succeeded };
                    self.http_logins = LoginCounts { protocol: HTTP, ..LoginCounts::default() };
                    break Ok(ActionOutcome::Done);
                }
            }
        };
        self.update_links();
        reply.send(outcome);
    }

    /// Has definitions made, durably. The others are made if some are refused, and the first refusal is told.
    fn define(&mut self, definitions: Vec<Definition>) -> Result<(), ApiError> {
        if definitions.is_empty() {
            return Ok(());
        }
        let refusals = self.broker.operator.define(definitions);
        let refusals = refusals.ok_or_else(|| ApiError::unavailable("the broker stops"))?;
        self.definitions.follow(ReplicaDemand::Change);
        refusals.first().map_or(Ok(()), |refusal| Err(ApiError::of_refusal(refusal)))
    }

    /// Keeps what the catalog has no objects for, durably.
    fn keep(&mut self, kept: Option<KeptSections>) -> Result<(), ApiError> {
        let Some(kept) = kept else { return Ok(()) };
        self.broker.kept.change(|_| kept).map_err(ApiError::unavailable)?;
        self.follow_parameters();
        Ok(())
    }

    fn close_connections(&self, connections: &ConnectionsToClose, reason: &str) -> Result<ActionOutcome, ApiError> {
        let selector = match connections {
            ConnectionsToClose::Named(name) => ConnectionSelector::Name(name.as_str().into()),
            ConnectionsToClose::OfUser(user) => ConnectionSelector::User((**user).into()),
        };
        let closed = self.broker.operator.close_connections(&selector, reason);
        match (closed, connections) {
            (None, _) => Err(ApiError::unavailable("the broker stops")),
            (Some(0), ConnectionsToClose::Named(_)) => Err(ApiError::not_found()),
            (Some(_), _) => Ok(ActionOutcome::Done),
        }
    }

    /// Shows messages of a queue as they wait.
    fn peek(&self, wanted: &MessagesToPeek) -> Result<ActionOutcome, ApiError> {
        let vhost = self.definitions.catalog().vhost_name(wanted.vhost);
        let body_bytes = wanted.body_bytes_max.unwrap_or(usize::MAX);
        let peeked = self.broker.operator.peek_queue(vhost, wanted.queue.as_bytes(), wanted.count, body_bytes);
        let peeked = peeked.ok_or_else(ApiError::not_found)?;
        let message = |(index, message): (usize, &PeekedMessage)| {
            let left = peeked.ready.saturating_sub(index + 1);
            let got = GotMessage {
                exchange: &message.exchange,
                routing_key: &message.routing_key,
                redelivered: message.redelivered,
                messages_left: u32::try_from(left).unwrap_or(u32::MAX),
                properties: RawProperties::new(&message.properties),
                body: &message.body,
                body_bytes: message.body_bytes,
            };
            got.to_json(wanted.encoding, None)
        };
        Ok(ActionOutcome::Answer(Json::List(peeked.messages.iter().enumerate().map(message).collect())))
    }

    /// Has a link connect again, with all of its routes.
    fn restart_link(&self, vhost: &str, id: &str) -> Result<ActionOutcome, ApiError> {
        let of_parameter = self.parameter_links.link_of(vhost, id).cloned();
        let key = of_parameter.or_else(|| link_key(&self.link_statuses, vhost, id)).ok_or_else(ApiError::not_found)?;
        let restarted = self.broker.operator.change_links(FederationCommand::RestartLink(key));
        restarted.map(|()| ActionOutcome::Done).ok_or_else(|| ApiError::unavailable("the broker stops"))
    }

    /// Has the link of a shovel connect again. One that could not be made is tried again.
    fn restart_shovel(&mut self, vhost: &str, name: &str) -> Result<ActionOutcome, ApiError> {
        self.are_links_stale = true;
        self.update_links();
        let Some(key) = self.parameter_links.link_of_shovel(vhost, name) else { return Ok(ActionOutcome::Done) };
        let restarted = self.broker.operator.change_links(FederationCommand::RestartLink(key.clone()));
        restarted.map(|()| ActionOutcome::Done).ok_or_else(|| ApiError::unavailable("the broker stops"))
    }

    /// Hands over what needs a session of the user in a virtual host.
    fn in_session(&self, by: &Action, vhost: VhostId, reply: ActionReply, action: SessionAction) {
        let vhost = self.definitions.catalog().vhost_name(vhost).to_string();
        self.sessions.begin(SessionTask { user: by.user_name.to_string(), vhost, action, reply });
    }

    fn sum_queues(&mut self) {
        (self.queues, self.vhosts) = (QueueSums::default(), HashMap::new());
        for (report, waiting, messages) in self.tables.queues() {
            let Some(definition) = self.definitions.catalog().queue_definition(report.id) else { continue };
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
        // What parameters ask for depends on definitions.
        let needs_replica = ParameterLinks::are_wanted(&self.kept);
        self.definitions.follow(if needs_replica { ReplicaDemand::Reading } else { ReplicaDemand::None });
        self.take_steps();
        self.parameter_links.end_complete();
        self.follow_parameters();
        self.update_links();
    }

    fn follow(&mut self) {
        self.definitions.follow(ReplicaDemand::Change);
    }

    fn follow_user(&mut self, name: &[u8]) -> Result<(), ApiError> {
        self.definitions.follow_user(name)
    }

    fn begin_request(&mut self) {
        let is_old = self.reader.look();
        self.definitions.follow(ReplicaDemand::Reading);
        self.take_steps();
        if is_old {
            // The reader does not pause before its first round; a step that does not come in time comes with the next request.
            let deadline = now() + FIRST_ROUND_TIMEOUT;
            while let Ok(step) = self.reader.next_within(deadline.saturating_duration_since(now())) {
                if self.take(step) {
                    return;
                }
            }
        }
    }

    fn catalog(&self) -> &Catalog {
        self.definitions.catalog()
    }

    fn kept(&self) -> &KeptSections {
        &self.kept
    }

    fn facts(&self) -> &BrokerFacts {
        &self.broker.facts
    }

    fn counts(&self) -> BrokerCounts {
        let round = self.tables.round();
        let total = |of: fn(&ShardTotals) -> u64| all(self.tables.totals(), round, of);
        let whole = |of: fn(&ShardTotals) -> u64| total(of).total;
        let messages = channel_messages(|of| all(self.tables.totals(), round, |totals| of(&totals.stats.channels)));
        let QueueSums { waiting, ready_bytes, unacknowledged_bytes, memory_bytes: queue_memory_bytes, .. } =
            self.queues;
        let mut sizes = BodySizeStats::default();
        self.tables.totals().iter().for_each(|shard| sizes.add(&shard.now().stats.body_sizes));
        let limit = self.broker.memory_limit_bytes;
        let NodeSample { resources, sockets, memory_bytes, .. } = *self.resources.now();
        let ProcessResources { descriptors, descriptors_max, threads, threads_max, disk_free_bytes } = resources;
        let disk_free_limit_bytes = self.broker.disk_free_limit_bytes;
        let amqp_logins = LoginCounts {
            protocol: AMQP,
            failed: whole(|all| all.logins.refused).saturating_sub(self.amqp_logins_reset.failed),
            succeeded: whole(|all| all.logins.accepted).saturating_sub(self.amqp_logins_reset.succeeded),
        };
        let (disk_reads, disk_writes) = disk_messages(|of| all(self.tables.totals(), round, of));
        use queues::DeadLetterReason::{DeliveryLimit, Expired, MaxLength, Rejected};
        BrokerCounts {
            waiting,
            messages,
            ready_bytes,
            unacknowledged_bytes,
            queue_memory_bytes,
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
                publishers: self.tables.publishers(),
                body_sizes: BODY_SIZE_BOUNDS.into_iter().zip(sizes.classes).collect(),
                larger_bodies: sizes.classes[BODY_SIZE_CLASSES - 1],
                body_bytes: sizes.sum_bytes,
            },
            resources: NodeResources {
                memory_bytes,
                memory_limit_bytes: limit,
                disk_free_bytes: disk_free_bytes.unwrap_or(0),
                disk_free_limit_bytes,
                descriptors,
                descriptors_max,
                sockets,
                threads,
                threads_max,
                message_bytes: whole(|all| all.waiting_bytes),
            },
            disk_reads,
            disk_writes,
            sums: self.tables.sums(),
            io: io_counts(|of| all(self.tables.totals(), round, of)),
            resource_rates: self.resources.rates(),
            has_memory_alarm: self.broker.shared.has_memory_alarm(),
            has_disk_alarm: self.resources.is_disk_short(disk_free_limit_bytes),
            is_draining: self.broker.shared.is_stopping(),
            logins: vec![amqp_logins, self.http_logins],
        }
    }

    fn alarms(&self) -> &AlarmHistory {
        &self.alarms
    }

    fn vhost_counts(&self, vhost: VhostId) -> VhostCounts {
        let sums = self.vhosts.get(&vhost).copied().unwrap_or_default();
        let (received_bytes, sent_bytes) = self.tables.vhost_bytes(vhost);
        VhostCounts { waiting: sums.waiting, messages: sums.messages, received_bytes, sent_bytes }
    }

    fn exchange_counts(&self, exchange: ExchangeId) -> ExchangeCounts {
        self.tables.exchange_counts(exchange)
    }

    fn queue_counts(&self, queue: QueueId) -> QueueCounts {
        self.tables.queue_counts(queue)
    }

    fn queue_totals(&self, queue: QueueId) -> QueueTotals {
        self.tables.queue_totals(queue)
    }

    fn connections(&self) -> &[LiveConnection] {
        self.tables.connections()
    }

    fn round_trip(&self, connection: &LiveConnection) -> Option<Duration> {
        if !matches!(connection.transport, "tcp" | "tls") {
            return None;
        }
        let local = SocketAddr::new(connection.host.parse().ok()?, connection.port);
        let remote = SocketAddr::new(connection.peer_host.parse().ok()?, connection.peer_port);
        let found = gauge::tcp_round_trip(local, remote);
        found.inspect_err(|error| tracing::debug!(%error, "the system does not tell of a connection")).ok().flatten()
    }

    fn queue_owner(&self, session: SessionId) -> Option<QueueOwner> {
        self.tables.queue_owner(session)
    }

    fn channels(&self) -> &[LiveChannel] {
        self.tables.channels()
    }

    fn consumers(&self) -> &[LiveConsumer] {
        self.tables.consumers()
    }

    fn runtime(&self) -> RuntimeCounts {
        let totals = self.tables.totals().iter().map(Rated::now);
        runtime_counts(totals, &self.broker.shared, self.resources.now().memory_bytes)
    }

    fn federation_links(&self) -> &[LiveFederationLink] {
        &self.links
    }

    fn shovels(&self) -> &[LiveShovel] {
        &self.shovels
    }

    fn check_parameter(&self, component: &str, vhost: &str, user: &str, value: &Json) -> Result<(), String> {
        self.parameter_links.check(self.definitions.catalog(), (component, vhost, user), value)
    }

    fn find_route(&mut self, message: RouteQuestion<'_>) -> Option<Arc<QueueRoute>> {
        self.definitions.find_route(message)
    }

    fn counted_ms(&self) -> u64 {
        self.resources.now().at_ms
    }

    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn count_login(&mut self, is_right: bool) {
        self.http_logins.count(is_right);
    }

    fn act(&mut self, action: Action, reply: ActionReply) {
        self.carry_out(&action, reply);
    }
}

/// A count of all shards.
fn all(shards: &[Rated<ShardTotals>], round: u64, of: impl Fn(&ShardTotals) -> u64) -> RatedCount {
    shards.iter().map(|shard| shard.count(round, &of)).fold(RatedCount::default(), add)
}
