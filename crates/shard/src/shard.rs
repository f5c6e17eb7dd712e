//! A shard: the connections, sessions and part of the broker that one thread serves, and the tick that moves bytes
//! between them.
//!
//! Below it, `dispatcher` reads connections and carries out their events, `sessions` owns the connections, their
//! outputs and the broker core.

use crate::catalog_replica::CatalogReplica;
use crate::connections::Connections;
use crate::definition_copies::DefinitionCopies;
use crate::dispatcher::Dispatcher;
use crate::effects::ShardEffects;
use crate::limits::{
    ANSWER_SHARED_BYTES_MIN, DEFINITION_SUBSCRIBERS_MAX, MAILBOX_BATCHES, MAILBOX_BATCHES_PER_TICK, RECHECK_INTERVAL,
    THROTTLE_TIME,
};
use crate::login::ExternalMechanism;
use crate::mailbox::ShardWaker;
use crate::memory_account::MemoryAccount;
use crate::moved_connection::{ConnectionMoves, MovedConnection};
use crate::password_verifier::PasswordVerifier;
use crate::publisher_throttle::PublisherThrottle;
use crate::read_order::{ReadOrder, WorkSource};
use crate::reports::{CloseRequest, ReportService};
use crate::sessions::Sessions;
use crate::shard_options::ShardOptions;
use crate::shard_report::ShardReport;
use crate::shared_state::SharedState;
use crate::thread_stats::{LoginStats, ThreadStats};
use crate::tokens::TokenOwner;
use broker::{Broker, ConnectionSlot, QueueReport, ReplyAddress};
use catalog::{Definition, Refusal, ShardId};
use durability::DefinitionJournal;
use durability::LogSource;
use durability::MessageStore;
use durability::ShardStoreMetrics;
use link::{AbortReason, Link};
use queues::{BodyRef, MessageStorage, PeekedQueue};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;
use store::{RecoveredLog, ScanError, SegmentReader};

/// When a shard must tick again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TickOutcome {
    /// At once: there is more to do.
    More,
    /// When something arrives, or at this time.
    Idle { until: Option<Instant> },
}

pub struct Shard {
    pub(crate) dispatcher: Dispatcher,
    throttle: PublisherThrottle,
    read_order: ReadOrder,
    reports: ReportService,
    copies: DefinitionCopies,
}

impl Shard {
    /// A shard without connections.
    pub fn new(options: ShardOptions, broker: Broker, effects: ShardEffects, shared: Arc<SharedState>) -> Self {
        let memory = MemoryAccount::new(options.shard);
        let mut broker = broker;
        broker.set_properties_bytes_max(options.session.properties_bytes_max());
        if let Some(share) = shared.definition_share(options.shard, 0) {
            broker.catalog_mut().set_definition_share(share);
        }
        let (connections, logins) = (Connections::default(), LoginStats::default());
        let moves = ConnectionMoves::default();
        let sessions = Sessions { options, connections, broker, effects, shared, memory, logins, moves };
        Shard {
            dispatcher: Dispatcher::new(sessions),
            throttle: PublisherThrottle::default(),
            read_order: ReadOrder::default(),
            reports: ReportService::default(),
            copies: DefinitionCopies::default(),
        }
    }

    /// Makes definitions durable, on shard 0. Its catalog must hold what was recovered, and no client be connected.
    pub fn set_journal(&mut self, journal: DefinitionJournal) {
        let Sessions { effects, shared, .. } = &mut self.dispatcher.sessions;
        effects.journal = Some(Box::new(journal));
        shared.store.set_durable_definitions(None);
    }

    /// Lets clients that show a certificate log in by it (SASL EXTERNAL).
    pub(crate) fn accept_certificates(&mut self, external: ExternalMechanism) {
        self.dispatcher.login.accept_certificates(external);
    }

    /// Has slow passwords verified by other threads, which wake this shard; without them it verifies passwords itself.
    pub(crate) fn set_password_verifier(&mut self, verifier: Arc<PasswordVerifier>, waker: Arc<ShardWaker>) {
        self.dispatcher.login.set_verifier(verifier, waker);
    }

    /// Its number among the shards of the broker.
    pub fn id(&self) -> ShardId {
        self.dispatcher.sessions.options.shard
    }

    /// The slot that the next connection will get: its token at the poll.
    pub(crate) fn next_slot(&self) -> ConnectionSlot {
        self.dispatcher.sessions.connections.next_slot()
    }

    /// Accepts a link that a client opened.
    pub fn accept(&mut self, link: Box<dyn Link>, now: Instant) -> ConnectionSlot {
        self.dispatcher.sessions.accept(link, None, now)
    }

    /// Accepts a link of a client that may have logged in over TCP or TLS already and connects by the token it was
    /// given there.
    pub(crate) fn accept_with_token(
        &mut self,
        link: Box<dyn Link>,
        owner: Option<TokenOwner>,
        now: Instant,
    ) -> ConnectionSlot {
        self.dispatcher.sessions.accept(link, owner, now)
    }

    /// Accepts a link within the process of a user who has proved itself to the program. `None`: there are too many connections.
    pub(crate) fn accept_in_process(
        &mut self,
        link: Box<dyn Link>,
        user: &str,
        now: Instant,
    ) -> Option<ConnectionSlot> {
        let sessions = &mut self.dispatcher.sessions;
        let owner = TokenOwner { user: user.into(), is_loopback: true, is_carrier: false };
        sessions.shared.add_connection(sessions.options.shard).then(|| sessions.accept(link, Some(owner), now))
    }

    /// A connection that has left this shard, with the slot that it had. Its link is to be registered elsewhere, where it is given to
    /// [`Shard::arrive`].
    pub fn next_departed(&mut self) -> Option<(ConnectionSlot, MovedConnection)> {
        self.dispatcher.sessions.moves.departed.pop_front()
    }

    /// Adds a connection that comes from another shard.
    pub fn arrive(&mut self, moved: MovedConnection, now: Instant) -> ConnectionSlot {
        self.dispatcher.arrive(moved, now)
    }

    /// The link of a connection, to be registered at a poll.
    pub fn link(&mut self, slot: ConnectionSlot) -> Option<&mut Box<dyn Link>> {
        Some(&mut self.dispatcher.sessions.connections.get_mut(slot)?.link)
    }

    /// Handles readiness edges of a link.
    pub fn on_readiness(&mut self, slot: ConnectionSlot, readable: bool, writable: bool, closed: bool) {
        self.dispatcher.sessions.on_readiness(slot, readable, writable, closed);
    }

    /// One round: mailbox, connections, timers, sending. The order is the walk of a message (ARCHITECTURE.md).
    pub fn tick(&mut self, now: Instant) -> TickOutcome {
        self.set_broker_time(now);
        self.dispatcher.sessions.complete_writes(now);
        if self.dispatcher.sessions.shared.disk_failure().is_some() {
            self.dispatcher.drain(now);
        }
        let has_capacity = !self.dispatcher.sessions.effects.is_disk_congested();
        let first = self.read_order.first(|source| self.has_work(source));
        if first == WorkSource::Mail {
            self.receive_mailbox(now);
        }
        self.dispatcher.finish_verifications(now);
        self.dispatcher.review_access(now);
        self.resume_throttled(now);
        self.dispatcher.run_link_timers(now);
        // While the disk is behind, those are read who add little.
        if first <= WorkSource::Connections || !has_capacity {
            self.dispatcher.serve_ready(now);
        }
        self.run_queue_timers();
        self.run_deferred_work(now);
        if has_capacity {
            self.end_reading(first);
        }
        self.dispatcher.propagate_bindings(now);
        self.dispatcher.sessions.poll_journal(now);
        self.dispatcher.run_deferred(now);
        self.dispatcher.run_timers(now);
        self.dispatcher.sessions.check_memory(now);
        self.reports.serve(&mut self.dispatcher, now);
        self.copies.proceed(&mut self.dispatcher.sessions);
        self.dispatcher.propagate_demand(now);
        self.dispatcher.acknowledge(now);
        self.dispatcher.flush(now);
        self.dispatcher.flush_backlog(now);
        self.dispatcher.sessions.proceed_moves(now);
        self.dispatcher.sessions.effects.mailbox.send(true);
        self.dispatcher.sessions.submit_writes(now);
        self.outcome(now)
    }

    fn set_broker_time(&mut self, now: Instant) {
        let Sessions { options, broker, .. } = &mut self.dispatcher.sessions;
        broker.set_now(options.time_us(now));
    }

    /// Whether there is something to read there; of mail it is not asked.
    fn has_work(&self, source: WorkSource) -> bool {
        let Sessions { connections, broker, .. } = &self.dispatcher.sessions;
        match source {
            WorkSource::Mail => true,
            WorkSource::Connections => connections.has_ready() || connections.has_held(),
            WorkSource::Deferred => broker.has_deferred(),
        }
    }

    /// A tick has read what there was room for.
    fn end_reading(&mut self, first: WorkSource) {
        let is_congested = self.dispatcher.sessions.effects.is_disk_congested();
        let mut order = std::mem::take(&mut self.read_order);
        order.end_tick(first, is_congested, |source| self.has_work(source));
        self.read_order = order;
    }

    fn receive_mailbox(&mut self, now: Instant) {
        let mut left_out = None;
        for from in self.read_order.senders(self.dispatcher.sessions.effects.mailbox.shards().count()) {
            self.dispatcher.sessions.broker.start_turn();
            for received in 0..MAILBOX_BATCHES_PER_TICK {
                let Sessions { broker, effects, .. } = &mut self.dispatcher.sessions;
                // The rest comes once the connections of this shard had their turns, or the declaration that it waits for.
                if broker.is_turn_over() || broker.holds_back(from) || effects.is_disk_congested() {
                    if received > 0 {
                        effects.mailbox.notify_space(from);
                    } else if effects.is_disk_congested() {
                        left_out = left_out.or(Some(from));
                    }
                    break;
                }
                let Some(mut batch) = effects.mailbox.next(from) else {
                    if received > 0 {
                        effects.mailbox.notify_space(from);
                    }
                    break;
                };
                if received == MAILBOX_BATCHES / 2 {
                    // Early enough that both sides work at the same time.
                    effects.mailbox.notify_space(from);
                }
                broker.receive(from, &mut batch, effects);
                effects.mailbox.return_batch(from, batch);
                broker.flush_batch(effects);
                self.dispatcher.flush(now);
                self.dispatcher.sessions.check_memory_growth(now);
                self.dispatcher.sessions.effects.mailbox.send(false);
            }
        }
        if let Some(sender) = left_out {
            self.read_order.leave_out(sender);
        }
    }

    /// Does what turns have left undone, for one turn.
    fn run_deferred_work(&mut self, now: Instant) {
        let Sessions { broker, effects, .. } = &mut self.dispatcher.sessions;
        if !broker.has_deferred() || effects.is_congested() {
            return;
        }
        broker.start_turn();
        broker.run_deferred(effects);
        broker.flush_batch(effects);
        self.dispatcher.flush(now);
        self.dispatcher.sessions.effects.mailbox.send(false);
    }

    fn resume_throttled(&mut self, now: Instant) {
        let Sessions { broker, effects, .. } = &mut self.dispatcher.sessions;
        self.throttle.add(effects.throttled.drain(..), now);
        while let Some(slot) = self.throttle.next_expired(now) {
            broker.end_throttle(slot, effects);
        }
        self.dispatcher.run_deferred(now);
    }

    /// Publishes how many bytes of bodies this shard has copied.
    pub(crate) fn record_copied_bytes(&self) {
        self.dispatcher.sessions.record_copied_bytes();
    }

    /// Runs the timers of queues and messages, and ends the batch of what was served.
    fn run_queue_timers(&mut self) {
        let Sessions { broker, effects, .. } = &mut self.dispatcher.sessions;
        broker.start_turn();
        broker.run_timers(effects);
        broker.flush_batch(effects);
    }

    /// Changes definitions for an operator, at shard 0. Returns the refusals; the other changes are made.
    pub fn define(&mut self, definitions: Vec<Definition>, now: Instant) -> Vec<Refusal> {
        self.set_broker_time(now);
        let Sessions { broker, effects, .. } = &mut self.dispatcher.sessions;
        let outcomes = definitions.into_iter().map(|definition| broker.define_as_operator(definition, effects));
        outcomes.filter_map(Result::err).collect()
    }

    /// Answers an administrative request.
    pub fn respond(&mut self, to: ReplyAddress, properties: &[u8], body: &[u8], now: Instant) {
        self.set_broker_time(now);
        let Sessions { broker, effects, .. } = &mut self.dispatcher.sessions;
        if body.len() < ANSWER_SHARED_BYTES_MIN {
            return broker.answer_admin_request(to, properties, BodyRef::Small(body), effects);
        }
        let shared = effects.pool().copy(body);
        broker.answer_admin_request(to, properties, BodyRef::Large(&shared), effects);
    }

    /// The numbers of this shard's store; `None` without one.
    pub fn store_metrics(&self) -> Option<ShardStoreMetrics> {
        self.dispatcher.sessions.store_metrics()
    }

    /// Has the next piece of a report sent with a tick, with what the thread of this shard has counted.
    pub(crate) fn request_report(&mut self, thread: ThreadStats, reply: Sender<ShardReport>) {
        self.reports.thread = thread;
        self.reports.request(reply);
    }

    /// The next piece of a report, for whoever runs this shard on its own thread.
    pub fn report(&mut self, now: Instant) -> ShardReport {
        self.reports.report(&mut self.dispatcher.sessions, now)
    }

    /// A queue as it is now, if it lives here.
    pub fn queue_report(&mut self, vhost: &str, name: &[u8]) -> Option<QueueReport> {
        let broker = &mut self.dispatcher.sessions.broker;
        let id = broker.catalog().queue(broker.catalog().vhost_by_name(vhost)?, name)?;
        broker.observer().queue(id)
    }

    /// Copies of the first messages of a queue, if it is at home here.
    pub fn peek_queue(&mut self, vhost: &str, name: &[u8], count: usize, body_bytes: usize) -> Option<PeekedQueue> {
        let broker = &mut self.dispatcher.sessions.broker;
        let id = broker.catalog().queue(broker.catalog().vhost_by_name(vhost)?, name)?;
        broker.observer().peek(id, count, body_bytes)
    }

    /// Has the definitions of shard 0 copied with the next ticks, for a replica on another thread. If there are too many, the reply is
    /// dropped.
    pub fn subscribe_definitions(&mut self, reply: Sender<Box<CatalogReplica>>) {
        if self.dispatcher.sessions.effects.replicas.subscribers() + self.copies.len() < DEFINITION_SUBSCRIBERS_MAX {
            self.copies.request(reply);
        }
    }

    /// Whether changes of definitions wait for a copy of them.
    pub(crate) fn holds_definitions(&self) -> bool {
        self.dispatcher.sessions.broker.holds_definitions()
    }

    /// Has connections closed with the next ticks.
    pub(crate) fn close_connections(&mut self, request: CloseRequest) {
        self.reports.close_connections(request);
    }

    fn outcome(&self, now: Instant) -> TickOutcome {
        let sessions = &self.dispatcher.sessions;
        let Sessions { options, connections, broker, effects, shared, memory, .. } = sessions;
        let mailbox = &effects.mailbox;
        let is_congested = effects.is_congested();
        if (mailbox.has_arrived(|from| broker.holds_back(from)) && !effects.is_disk_congested())
            || sessions.has_store_news()
            || (connections.has_ready() && !effects.holds_all())
            || ((connections.has_held() || broker.has_deferred()) && !is_congested)
            || !effects.resumed.is_empty()
            || !effects.refusals.is_empty()
            || effects.outputs.has_backlog()
            || broker.checks_timeouts()
            || broker.has_demand_change()
            || self.dispatcher.reviews_access()
            || self.reports.has_work()
            || self.copies.has_work(broker)
            || self.dispatcher.federation_links.has_dials()
            || effects.journal.as_ref().is_some_and(|journal| journal.has_work())
        {
            return TickOutcome::More;
        }
        let recheck_at = (is_congested
            || mailbox.has_waiting()
            || broker.is_alarmed()
            || memory.needs_recheck(sessions.seen_bytes(), sessions.used_bytes(), broker.vhost_quotas(), shared))
        .then(|| now + RECHECK_INTERVAL);
        let resume_at = if effects.throttled.is_empty() { self.throttle.next_at() } else { Some(now + THROTTLE_TIME) };
        let queues_at = broker.next_timer().map(|time_us| options.instant(time_us));
        let links_at = self.dispatcher.federation_links.next_timer();
        let logins_at = self.dispatcher.login.next_turn();
        let disk_at = effects.store.as_ref().and_then(|store| store.timer_us()).map(|time_us| options.instant(time_us));
        let journal_at =
            effects.journal.as_ref().and_then(|journal| journal.timer_us()).map(|time_us| options.instant(time_us));
        let moves_at = sessions.next_move_end();
        let connections_at = connections.next_timer();
        let until =
            [recheck_at, resume_at, queues_at, connections_at, links_at, logins_at, disk_at, journal_at, moves_at];
        TickOutcome::Idle { until: until.into_iter().flatten().min() }
    }

    pub fn connections(&self) -> usize {
        self.dispatcher.sessions.connections.len()
    }

    /// Bytes that have arrived and wait until their connections are served again: a receive buffer for each at most.
    pub fn unconsumed_bytes(&self) -> usize {
        let connections = &self.dispatcher.sessions.connections;
        connections.slots().filter_map(|slot| connections.get(slot)).map(|connection| connection.unconsumed.len()).sum()
    }

    /// Gives queues the messages that are alive in a log, before any client connects. The definitions are there already. Returns
    /// where the log goes on, for [`Shard::set_store`].
    pub fn recover_messages<R: SegmentReader>(
        &mut self,
        source: LogSource<'_, R>,
        now: Instant,
    ) -> Result<RecoveredLog, ScanError> {
        self.dispatcher.sessions.recover_messages(source, now)
    }

    /// Bytes of waiting messages that the shard keeps in memory, if others may leave it.
    pub fn paging_threshold(&self) -> u64 {
        self.dispatcher.sessions.shared.paging_threshold()
    }

    /// Has messages made durable from now on.
    pub fn set_store(&mut self, store: MessageStore) {
        let Sessions { broker, effects, shared, .. } = &mut self.dispatcher.sessions;
        broker.use_store();
        broker.set_paging_threshold(if store.can_page() { shared.paging_threshold() } else { 0 });
        effects.set_store(store);
    }

    /// Writes what is not durable yet, because the broker stops; `wait` waits until the disk has done something.
    pub fn close_store(&mut self, now: Instant, wait: impl FnMut()) {
        self.dispatcher.sessions.close_store(now, wait);
    }

    /// Closes every connection because the broker stops.
    pub fn drain(&mut self, now: Instant) {
        self.dispatcher.drain(now);
    }

    /// The broker core, to read.
    pub fn broker(&self) -> &Broker {
        &self.dispatcher.sessions.broker
    }

    /// The effects, to read.
    pub fn effects(&self) -> &ShardEffects {
        &self.dispatcher.sessions.effects
    }

    /// Whether messages of other shards have arrived, or those for them have space again.
    pub fn has_messages(&self) -> bool {
        let sessions = &self.dispatcher.sessions;
        let Sessions { broker, effects, shared, .. } = sessions;
        let has_failed = shared.disk_failure().is_some() && !self.dispatcher.draining;
        // The disk wakes a shard that waits for it, and lets no mail in.
        let has_mail = !effects.mailbox.may_sleep(|from| broker.holds_back(from)) && !effects.is_disk_congested();
        has_mail || has_failed || sessions.has_store_news()
    }

    /// Ends a connection that cannot be served.
    pub fn reject(&mut self, slot: ConnectionSlot, now: Instant) {
        self.dispatcher.abort_connection(slot, AbortReason::Limit, now);
    }
}
