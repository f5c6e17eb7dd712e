//! A shard as the worker of a reactor thread: its ticks, its RDMA ports, its dials and how it waits.

use crate::cpu_latency_guard::CpuLatencyGuard;
use crate::disk_signal::DiskSignal;
use crate::inbox::{InboxMessage, ShardInbox};
use crate::link_dial::{DialCallback, DialError, DialProgress, DialRequest, DialedLink};
use crate::mailbox::ShardWaker;
use crate::rdma_options::RdmaPoll;
use crate::rdma_ports::{PortHandler, RdmaPorts};
use crate::shard::{Shard, TickOutcome};
use crate::shared_state::SharedState;
use crate::thread_stats::ThreadStats;
use crate::tokens::TokenOwner;
use broker::ConnectionSlot;
use catalog::{Definition, Refusal};
use link::Link;
use mio::{Registry, Token};
use reactor::{AdaptiveSpin, IdleStrategy, SocketReadiness, Worker};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use verbs::ReadinessEdges;
use verbs::limits::DEADLINE_CHECK_INTERVAL;

/// Connects to other brokers.
pub trait BrokerDialler: Send + Sync {
    /// Connects to an address as clients write it, on some other thread, and calls `tell` with the outcome.
    fn dial(&self, url: &str, tell: DialCallback);
}

pub(crate) struct ShardWorker {
    pub shard: Shard,
    pub waker: Arc<ShardWaker>,
    pub shared: Arc<SharedState>,
    pub spins: ShardSpins,
    pub latency_guard: CpuLatencyGuard,
    /// Without it the broker dials nobody.
    pub dialler: Option<Arc<dyn BrokerDialler>>,
    /// The inbox of this shard itself, for outcomes of dials.
    pub inbox: ShardInbox,
    /// The inboxes of all shards, for connections that move.
    pub inboxes: Arc<[ShardInbox]>,
    pub ports: RdmaPorts,
    /// Without it everything is kept in memory.
    pub disk_signal: Option<Arc<DiskSignal>>,
    /// Of shard 0: operators whose changes are not durable yet. Each waits for its answer before it sends more.
    pub waiting_operators: VecDeque<WaitingOperator>,
    /// Of shard 0: changes of operators that wait for a copy of the definitions.
    pub held_changes: VecDeque<HeldChanges>,
    pub stats: ThreadStats,
}

/// Changes that an operator wants, and who is told what was refused.
pub(crate) struct HeldChanges {
    definitions: Vec<Definition>,
    reply: Sender<Vec<Refusal>>,
}

/// An operator who is told what was refused once the rest is durable.
pub(crate) struct WaitingOperator {
    /// The version of the definitions that it waits for.
    version: u64,
    refusals: Vec<Refusal>,
    reply: Sender<Vec<Refusal>>,
}

/// How long the shard spins before it sleeps.
pub(crate) struct ShardSpins {
    /// Without connections over RDMA.
    sockets: AdaptiveSpin,
    /// With connections over RDMA.
    ports: AdaptiveSpin,
    /// Which of the two the current wait began with.
    uses_ports: bool,
}

impl ShardSpins {
    pub fn new(sockets: Duration, ports: Duration) -> Self {
        ShardSpins { sockets: AdaptiveSpin::new(sockets), ports: AdaptiveSpin::new(ports), uses_ports: false }
    }

    fn choose(&mut self, has_rdma_connections: bool) -> &AdaptiveSpin {
        self.uses_ports = has_rdma_connections;
        if has_rdma_connections { &self.ports } else { &self.sockets }
    }

    fn on_wait_end(&mut self, elapsed: Duration) {
        let spin = if self.uses_ports { &mut self.ports } else { &mut self.sockets };
        spin.on_wait_end(elapsed);
    }
}

/// The poll's token of a connection's link.
#[inline]
fn poll_token(slot: ConnectionSlot) -> Token {
    Token(slot.index())
}

/// The connection whose link has that token at the poll.
#[inline]
fn slot_of_token(token: Token) -> ConnectionSlot {
    ConnectionSlot::new(token.0 as u32)
}

impl Worker<InboxMessage> for ShardWorker {
    fn next_token(&self) -> Token {
        poll_token(self.shard.next_slot())
    }

    fn adopt(&mut self, link: Box<dyn Link>, _registry: &Registry, now: Instant) {
        self.shard.accept(link, now);
    }

    fn on_message(&mut self, message: InboxMessage, registry: &Registry, now: Instant) {
        // A requester that has gone needs no reply.
        match message {
            InboxMessage::Define(definitions, reply) if self.holds_changes() => {
                self.held_changes.push_back(HeldChanges { definitions, reply });
            }
            InboxMessage::Define(definitions, reply) => self.define(HeldChanges { definitions, reply }, now),
            InboxMessage::ReadCatalog(read) => read(self.shard.broker().catalog()),
            InboxMessage::Answer { to, properties, body } => self.shard.respond(to, &properties, &body, now),
            InboxMessage::Federate(order, done) => {
                self.shard.federate(order, now);
                let _sent = done.send(());
            }
            InboxMessage::ListLinks(reply) => {
                let _sent = reply.send(self.shard.link_statuses(now));
            }
            InboxMessage::ReadStore(reply) => {
                if let Some(metrics) = self.shard.store_metrics() {
                    let _sent = reply.send(metrics);
                }
            }
            InboxMessage::Subscribe(reply) => self.shard.subscribe_definitions(reply),
            InboxMessage::Report(reply) => self.shard.request_report(self.thread_stats(), reply),
            InboxMessage::ReadQueue { vhost, name, reply } => {
                if let Some(queue) = self.shard.queue_report(&vhost, &name) {
                    let _sent = reply.send(queue);
                }
            }
            InboxMessage::PeekQueue { vhost, name, count, body_bytes, reply } => {
                if let Some(queue) = self.shard.peek_queue(&vhost, &name, count, body_bytes) {
                    let _sent = reply.send(queue);
                }
            }
            InboxMessage::CloseConnections(request) => self.shard.close_connections(request),
            InboxMessage::Connect { link, user } => self.on_connect(link, &user, registry, now),
            InboxMessage::Arrive(moved) => {
                let slot = self.shard.arrive(*moved, now);
                self.register(slot, registry, now);
            }
            InboxMessage::Dialled(dial, outcome) => self.on_dialled(dial, outcome, registry, now),
        }
    }

    #[inline]
    fn on_ready(&mut self, token: Token, SocketReadiness { readable, writable, closed }: SocketReadiness) {
        self.shard.on_readiness(slot_of_token(token), readable, writable, closed);
    }

    fn on_async_event(&mut self) {
        self.ports.on_async_event();
    }

    #[inline]
    fn has_devices(&self) -> bool {
        !self.ports.is_empty()
    }

    #[inline]
    fn poll_devices(&mut self, _registry: &Registry, now: Instant) -> bool {
        !self.ports.is_empty() && self.ports.poll(&mut self.shard, now)
    }

    fn flush_devices(&mut self, registry: &Registry) {
        self.ports.flush(registry);
    }

    fn tick(&mut self, registry: &Registry, now: Instant) -> Option<Duration> {
        if let Some(signal) = &self.disk_signal {
            signal.clear();
        }
        self.make_held_changes(now);
        let work = self.shard.tick(now);
        self.send_departed(registry);
        self.answer_operators();
        while let Some(dial) = self.shard.next_dial() {
            self.dial(dial, now);
        }
        let mut wait = match work {
            TickOutcome::More => Some(Duration::ZERO),
            TickOutcome::Idle { .. } if self.has_released_changes() => Some(Duration::ZERO),
            TickOutcome::Idle { until } => until.map(|until| until.saturating_duration_since(now)),
        };
        let counters = self.shard.broker().counters();
        if let Some(until) = self.latency_guard.update(counters.published + counters.delivered, now) {
            wait = Some(wait.unwrap_or(Duration::MAX).min(until.saturating_duration_since(now)));
        }
        if !self.ports.is_empty() {
            self.ports.flush(registry);
            if self.ports.connections() > 0 {
                // A port checks the deadlines of its connections when it is polled.
                wait = Some(wait.unwrap_or(DEADLINE_CHECK_INTERVAL).min(DEADLINE_CHECK_INTERVAL));
            }
        }
        wait
    }

    fn has_messages(&self) -> bool {
        self.shard.has_messages() || self.disk_signal.as_ref().is_some_and(|signal| signal.is_set())
    }

    fn idle_strategy(&mut self, wait: Option<Duration>) -> IdleStrategy {
        if self.ports.is_empty() {
            let spin = self.spins.choose(false);
            if !spin.is_enabled() {
                return IdleStrategy::Sleep;
            }
            let window = spin.window();
            self.stats.spins += u64::from(!window.is_zero());
            return IdleStrategy::Spin(window);
        }
        let has_connections = self.ports.connections() > 0;
        let spin = self.spins.choose(has_connections);
        match self.ports.poll_mode() {
            RdmaPoll::Busy if has_connections => {
                self.stats.spins += 1;
                IdleStrategy::BusyPoll
            }
            RdmaPoll::Event if has_connections => IdleStrategy::Sleep,
            _ => {
                let window = spin.window().min(wait.unwrap_or(Duration::MAX));
                self.stats.spins += u64::from(!window.is_zero());
                IdleStrategy::Spin(window)
            }
        }
    }

    fn on_wait_end(&mut self, elapsed: Duration) {
        self.spins.on_wait_end(elapsed);
    }

    fn before_sleep(&mut self, registry: &Registry, now: Instant) -> Option<Duration> {
        self.waker.will_sleep();
        let is_idle = self.ports.is_empty() || self.ports.arm(&mut self.shard, registry, now);
        (!is_idle || self.has_messages()).then_some(Duration::ZERO)
    }

    fn on_round_end(&mut self, busy: Duration, waited: Duration) {
        self.stats.count_round(busy, waited);
    }

    fn after_sleep(&mut self) {
        self.stats.sleeps += 1;
        self.waker.is_awake();
    }

    fn drain(&mut self, now: Instant) {
        self.ports.stop();
        self.shard.drain(now);
    }

    fn is_drained(&self) -> bool {
        // Ports still flush output of connections that their shard has closed.
        self.shared.connections() == 0 && self.ports.connections() == 0
    }

    fn finish(&mut self, _registry: &Registry, now: Instant) {
        self.shard.tick(now);
        if let Some(signal) = &self.disk_signal {
            self.shard.close_store(now, || signal.wait());
        }
        self.shard.record_copied_bytes();
        self.ports.counters().into_iter().for_each(|counters| self.shared.add_port_counters(counters));
    }
}

impl PortHandler for Shard {
    fn on_accept(&mut self, link: Box<dyn Link>, owner: Option<TokenOwner>, now: Instant) -> ConnectionSlot {
        self.accept_with_token(link, owner, now)
    }

    fn on_connect(&mut self, dial: &DialRequest, dialled: DialedLink, now: Instant) -> Option<ConnectionSlot> {
        self.on_dial_outcome(dial, Ok(dialled), now)
    }

    #[inline]
    fn on_ready(&mut self, slot: ConnectionSlot, readiness: ReadinessEdges) {
        self.on_readiness(slot, readiness.readable, readiness.writable, readiness.closed);
    }
}

impl ShardWorker {
    fn thread_stats(&self) -> ThreadStats {
        ThreadStats { rdma_connections: self.ports.connections() as u64, rdma: self.ports.counters(), ..self.stats }
    }

    /// Starts a dial, whose outcome comes to the inbox.
    fn dial(&mut self, dial: DialRequest, now: Instant) {
        let Some(dialler) = &self.dialler else {
            let error = DialError { text: "this broker dials nobody".into(), is_refusal: true };
            self.shard.on_dial_outcome(&dial, Err(error), now);
            return;
        };
        let url = dial.url.clone();
        dialler.dial(&url, self.dial_callback(dial));
    }

    /// Sends the outcome of a dial to the inbox, from any thread.
    fn dial_callback(&self, dial: DialRequest) -> DialCallback {
        let inbox = self.inbox.clone();
        Box::new(move |outcome| {
            // A shard that has ended needs no connection.
            let _sent = inbox.send(InboxMessage::Dialled(dial, outcome));
        })
    }

    /// Whether changes of operators wait, like those before them, for a copy of the definitions.
    fn holds_changes(&self) -> bool {
        self.shard.holds_definitions() || !self.held_changes.is_empty()
    }

    fn has_released_changes(&self) -> bool {
        !self.held_changes.is_empty() && !self.shard.holds_definitions()
    }

    /// Makes changes that have waited for a copy of the definitions.
    fn make_held_changes(&mut self, now: Instant) {
        while self.has_released_changes()
            && let Some(changes) = self.held_changes.pop_front()
        {
            self.define(changes, now);
        }
    }

    fn define(&mut self, changes: HeldChanges, now: Instant) {
        let refusals = self.shard.define(changes.definitions, now);
        let version = self.shard.broker().definitions_version();
        self.waiting_operators.push_back(WaitingOperator { version, refusals, reply: changes.reply });
    }

    /// Tells operators whose changes are durable.
    fn answer_operators(&mut self) {
        let first_undurable = self.shared.store.first_undurable();
        while let Some(operator) = self.waiting_operators.pop_front_if(|waiting| waiting.version < first_undurable) {
            // A requester that has gone needs no reply.
            let _sent = operator.reply.send(operator.refusals);
        }
    }

    fn on_dialled(
        &mut self,
        dial: DialRequest,
        outcome: Result<DialProgress, DialError>,
        registry: &Registry,
        now: Instant,
    ) {
        let outcome = match outcome {
            Ok(DialProgress::Rdma(asked)) => {
                let tell = self.dial_callback(dial.clone());
                return self.ports.connect(dial, *asked, tell, registry);
            }
            Ok(DialProgress::Connected(dialled)) => Ok(dialled),
            Err(error) => Err(error),
        };
        if let Some(slot) = self.shard.on_dial_outcome(&dial, outcome, now) {
            self.register(slot, registry, now);
        }
    }

    /// Accepts a connection within the process. If there are too many, its other end finds it closed.
    fn on_connect(&mut self, link: Box<dyn Link>, user: &str, registry: &Registry, now: Instant) {
        match self.shard.accept_in_process(link, user, now) {
            Some(slot) => self.register(slot, registry, now),
            None => tracing::warn!("connection limit reached: a connection within the process is refused"),
        }
    }

    /// Sends connections that have left to their new shards.
    fn send_departed(&mut self, registry: &Registry) {
        while let Some((_, mut moved)) = self.shard.next_departed() {
            let to = moved.to();
            if let Err(error) = moved.link().deregister(registry) {
                tracing::warn!(%error, "cannot move a connection: it is closed");
                self.shared.connection_closed(to);
            } else if !self.inboxes[usize::from(to.0)].send(InboxMessage::Arrive(Box::new(moved))) {
                // The thread of that shard has ended, and so do all others.
                self.shared.connection_closed(to);
            }
        }
    }

    fn register(&mut self, slot: ConnectionSlot, registry: &Registry, now: Instant) {
        let registered = self.shard.link(slot).map(|link| link.register(registry, poll_token(slot)));
        if let Some(Err(error)) = registered {
            tracing::warn!(%error, "cannot wait for a new connection");
            self.shard.reject(slot, now);
        }
    }
}
