//! A shard: the connections, sessions and part of the broker that one thread serves, and the tick that moves bytes between them.
//!
//! Neighbours: `serve` (bytes in), `flush` (bytes out), `sessions` (what a connection has), `login`, `federation_links`.

use crate::connection::ConnectionPhase;
use crate::connections::Connections;
use crate::effects::ShardEffects;
use crate::federate::abort_reason;
use crate::federation_links::FederationLinks;
use crate::limits::{
    ANSWER_SHARED_BYTES_MIN, MAILBOX_BATCHES, MAILBOX_BATCHES_PER_TICK, RECEIVE_BUFFER_BYTES, RECHECK_INTERVAL,
    THROTTLE_TIME,
};
use crate::login::{ExternalMechanism, LoginService};
use crate::mailbox::ShardWaker;
use crate::memory_account::MemoryAccount;
use crate::password_verifier::PasswordVerifier;
use crate::publisher_throttle::PublisherThrottle;
use crate::receive_buffer::ReceiveBuffer;
use crate::sessions::{Sessions, TimerOutcome};
use crate::shared_state::SharedState;
use crate::tokens::TokenOwner;
use broker::{Address, BodyRef, Broker, Effects, Slot};
use catalog::{Definition, Refusal, ShardId};
use link::{AbortReason, Link};
use session::{Greeting, SessionLimits};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a shard is set up.
#[derive(Clone)]
pub struct ShardOptions {
    pub shard: ShardId,
    /// What connections may use.
    pub session: SessionLimits,
    /// The frame bound proposed over links that take memory for bodies, in bytes.
    pub rdma_frame_bytes_max: u32,
    /// The greeting that every connection gets.
    pub greeting: Arc<Greeting>,
    /// How long a client may take to log in and open its virtual host.
    pub login_timeout: Duration,
    /// The instant from which the broker core counts its time: the same for all shards.
    pub epoch: Instant,
    /// The name by which other brokers know this one.
    pub cluster_name: Box<str>,
}

/// When a shard must tick again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TickOutcome {
    /// At once: there is more to do.
    More,
    /// When something arrives, or at this time.
    Idle { until: Option<Instant> },
}

/// One shard.
pub struct Shard {
    pub(crate) sessions: Sessions,
    pub(crate) login: LoginService,
    pub(crate) federation_links: FederationLinks,
    pub(crate) receive_buffer: ReceiveBuffer,
    memory: MemoryAccount,
    throttle: PublisherThrottle,
    pub(crate) draining: bool,
}

impl Shard {
    /// A shard without connections.
    pub fn new(options: ShardOptions, broker: Broker, effects: ShardEffects, shared: Arc<SharedState>) -> Self {
        let receive_buffer_bytes = RECEIVE_BUFFER_BYTES.max(2 * options.session.frame_bytes_max as usize);
        let memory = MemoryAccount::new(options.shard);
        Shard {
            sessions: Sessions { options, connections: Connections::default(), broker, effects, shared },
            login: LoginService::default(),
            federation_links: FederationLinks::default(),
            receive_buffer: ReceiveBuffer::new(receive_buffer_bytes),
            memory,
            throttle: PublisherThrottle::default(),
            draining: false,
        }
    }

    /// Lets clients that show a certificate log in by it (SASL EXTERNAL).
    pub fn accept_certificates(&mut self, external: ExternalMechanism) {
        self.login.accept_certificates(external);
    }

    /// Has slow passwords verified by other threads, which wake this shard; without them it verifies passwords itself.
    pub fn set_password_verifier(&mut self, verifier: Arc<PasswordVerifier>, waker: Arc<ShardWaker>) {
        self.login.set_verifier(verifier, waker);
    }

    pub fn id(&self) -> u16 {
        self.sessions.options.shard.0
    }

    /// The slot that the next connection will get: its token at the poll.
    pub fn next_slot(&self) -> Slot {
        self.sessions.connections.next_slot()
    }

    /// Accepts a link that a client opened.
    pub fn accept(&mut self, link: Box<dyn Link>, now: Instant) -> Slot {
        self.sessions.accept(link, None, now)
    }

    /// Accepts a link of a client that may have logged in over TCP or TLS already and connects by the token it was given there.
    pub(crate) fn accept_with_token(&mut self, link: Box<dyn Link>, owner: Option<TokenOwner>, now: Instant) -> Slot {
        self.sessions.accept(link, owner, now)
    }

    /// The link of a connection, to be registered at a poll.
    pub fn link(&mut self, slot: Slot) -> Option<&mut Box<dyn Link>> {
        Some(&mut self.sessions.connections.get_mut(slot)?.link)
    }

    /// Handles readiness edges of a link.
    pub fn on_readiness(&mut self, slot: Slot, readable: bool, writable: bool, closed: bool) {
        self.sessions.on_readiness(slot, readable, writable, closed);
    }

    /// One round: mailbox, connections, timers, sending. The order is the walk of a message (ARCHITECTURE.md).
    pub fn tick(&mut self, now: Instant) -> TickOutcome {
        self.set_broker_time(now);
        self.receive_mailbox(now);
        self.finish_verifications(now);
        self.resume_throttled(now);
        let (links, mut cx) = self.federation(now);
        links.run_timers(&mut cx);
        self.serve_ready(now);
        self.sessions.broker.fire(&mut self.sessions.effects);
        self.sessions.broker.end_of_batch(&mut self.sessions.effects);
        let (links, mut cx) = self.federation(now);
        links.propagate_bindings(&mut cx);
        self.run_deferred(now);
        self.run_timers(now);
        self.check_memory(now);
        self.federation_links.acknowledge(&mut self.sessions.effects, now);
        self.flush(now);
        self.sessions.effects.mailbox.send(true);
        self.outcome(now)
    }

    fn set_broker_time(&mut self, now: Instant) {
        let Sessions { options, broker, .. } = &mut self.sessions;
        broker.set_now(now.saturating_duration_since(options.epoch).as_micros() as u64);
    }

    fn receive_mailbox(&mut self, now: Instant) {
        for from in 0..self.sessions.effects.mailbox.shards() {
            for received in 0..MAILBOX_BATCHES_PER_TICK {
                let Sessions { broker, effects, .. } = &mut self.sessions;
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
                broker.receive(ShardId(from), &mut batch, effects);
                effects.mailbox.return_batch(from, batch);
                broker.end_of_batch(effects);
                self.flush(now);
                self.sessions.effects.mailbox.send(false);
            }
        }
    }

    fn finish_verifications(&mut self, now: Instant) {
        if self.login.is_waiting() {
            self.login.finish_verifications(&mut self.sessions, now);
        }
    }

    fn resume_throttled(&mut self, now: Instant) {
        let Sessions { broker, effects, .. } = &mut self.sessions;
        self.throttle.add(effects.throttled.drain(..), now);
        while let Some(slot) = self.throttle.next_expired(now) {
            broker.end_pace(slot, effects);
        }
        self.run_deferred(now);
    }

    /// Gives a turn to each connection that waits for one.
    fn serve_ready(&mut self, now: Instant) {
        if !self.sessions.connections.has_ready() || self.sessions.effects.mailbox.is_congested() {
            return;
        }
        let turns = self.sessions.connections.start_turns();
        for &slot in &turns {
            if self.sessions.connections.start_turn(slot) {
                self.serve(slot, now);
                self.sessions.effects.mailbox.send(false);
            }
        }
        self.sessions.connections.finish_turns(turns);
    }

    /// Carries out what concerns other connections than the one just served: refusals that other shards sent, connections that
    /// may continue.
    pub(crate) fn run_deferred(&mut self, now: Instant) {
        while let Some(deferred) = self.sessions.effects.refusals.pop() {
            // A channel may be refused several times at once, and is closed once.
            if deferred.channel > 0 && !self.sessions.broker.has_channel(deferred.slot, deferred.channel) {
                continue;
            }
            self.refuse(deferred.slot, deferred.channel, deferred.refusal, deferred.method, now);
        }
        while let Some(slot) = self.sessions.effects.resumed.pop() {
            let Some(connection) = self.sessions.connections.get_mut(slot) else { continue };
            // Nobody read what the client sent meanwhile: that is not silence.
            connection.received_at = now;
            if connection.has_unparsed || connection.readable {
                self.sessions.connections.enqueue(slot);
            }
        }
    }

    fn run_timers(&mut self, now: Instant) {
        while let Some(slot) = self.sessions.connections.next_expired(now) {
            match self.sessions.check_timer(slot, now) {
                TimerOutcome::Done => {}
                TimerOutcome::RearmAt(at) => self.sessions.connections.set_timer(slot, at),
                TimerOutcome::Abort(why) => self.abort_connection(slot, why, now),
            }
        }
    }

    fn check_memory(&mut self, now: Instant) {
        if !self.memory.start_check(now) {
            return;
        }
        self.record_copied_bytes();
        let Sessions { options, broker, effects, shared, .. } = &mut self.sessions;
        let (shard, pool) = (options.shard.0, effects.pool());
        pool.collect();
        let list_bytes = broker.room_bytes();
        let is_short = self.memory.record_held(pool.mapped_bytes() + list_bytes, shared);
        if is_short {
            pool.trim();
        }
        let used_bytes = pool.used_bytes() + list_bytes;
        if self.memory.should_trim_heap(list_bytes, is_short, now) {
            slab::trim_heap();
        }
        if let Some(over) = self.memory.record_used(used_bytes, broker.memory_alarm(), shared) {
            tracing::warn!(shard, over, bytes = shared.used_bytes(), "memory limit");
            broker.set_memory_alarm(over, effects);
        }
        let changed = self.memory.record_vhosts(broker.counted_vhosts(), |vhost| broker.is_vhost_full(vhost), shared);
        for vhost in changed {
            let (full, vhost_name) = (vhost.is_full, broker.catalog().vhost_name(vhost.vhost));
            tracing::warn!(shard, vhost = vhost_name, full, bytes = vhost.bytes, "limit of a virtual host's queues");
            broker.set_vhost_full(vhost.vhost, full, effects);
        }
    }

    /// Publishes how many bytes of bodies this shard has copied.
    pub fn record_copied_bytes(&self) {
        let Sessions { options, effects, shared, .. } = &self.sessions;
        shared.record_copied_bytes(options.shard.0, effects.copied);
    }

    /// Changes definitions for an operator, at shard 0. Returns the refusals; the other changes are made.
    pub fn define(&mut self, definitions: Vec<Definition>, now: Instant) -> Vec<Refusal> {
        self.set_broker_time(now);
        let Sessions { broker, effects, .. } = &mut self.sessions;
        let outcomes = definitions.into_iter().map(|definition| broker.operate(definition, effects));
        outcomes.filter_map(Result::err).collect()
    }

    /// Answers an administrative request.
    pub fn respond(&mut self, to: Address, properties: &[u8], body: &[u8], now: Instant) {
        self.set_broker_time(now);
        let Sessions { broker, effects, .. } = &mut self.sessions;
        if body.len() < ANSWER_SHARED_BYTES_MIN {
            return broker.answer_request(to, properties, BodyRef::Small(body), effects);
        }
        let shared = effects.pool().copy(body);
        broker.answer_request(to, properties, BodyRef::Large(&shared), effects);
    }

    fn outcome(&self, now: Instant) -> TickOutcome {
        let Sessions { options, connections, broker, effects, shared } = &self.sessions;
        let mailbox = &effects.mailbox;
        let is_congested = mailbox.is_congested();
        if mailbox.has_arrived()
            || (connections.has_ready() && !is_congested)
            || !effects.resumed.is_empty()
            || !effects.refusals.is_empty()
            || self.federation_links.has_dials()
        {
            return TickOutcome::More;
        }
        let used_bytes = || effects.pool().used_bytes() + broker.room_bytes();
        let recheck_at = (is_congested
            || mailbox.has_waiting()
            || broker.is_alarmed()
            || self.memory.needs_recheck(used_bytes(), broker.counted_vhosts(), shared))
        .then(|| now + RECHECK_INTERVAL);
        let resume_at =
            if effects.throttled.is_empty() { self.throttle.next_at() } else { Some(now + THROTTLE_TIME) };
        let queues_at = broker.next_timer().map(|us| options.epoch + Duration::from_micros(us));
        let links_at = self.federation_links.next_timer();
        let until = [recheck_at, resume_at, queues_at, connections.next_timer(), links_at];
        TickOutcome::Idle { until: until.into_iter().flatten().min() }
    }

    /// Ends a connection at once.
    pub(crate) fn abort_connection(&mut self, slot: Slot, why: AbortReason, now: Instant) {
        if let Some(connection) = self.sessions.connections.get_mut(slot) {
            connection.link.abort(why);
        }
        self.lose(slot, abort_reason(why), now);
        self.remove_connection(slot);
    }

    /// Removes a connection that is over; a federation link that waited for that dials again.
    pub(crate) fn remove_connection(&mut self, slot: Slot) {
        let connection = self.sessions.remove(slot);
        if let Some(link) = connection.and_then(|connection| connection.closes_link) {
            self.federation_links.on_closed(link);
        }
    }

    /// Connections of this shard.
    pub fn connections(&self) -> usize {
        self.sessions.connections.len()
    }

    /// Closes every connection because the broker stops.
    pub fn drain(&mut self, now: Instant) {
        if std::mem::replace(&mut self.draining, true) {
            return;
        }
        for slot in self.sessions.connections.slots() {
            let refusal = catalog::Refusal::connection(
                wire::ReplyCode::ConnectionForced,
                "CONNECTION_FORCED - broker is shutting down",
            );
            match self.sessions.connections.get(slot).map(|connection| connection.phase) {
                Some(ConnectionPhase::Open { .. }) => self.refuse(slot, 0, refusal, (0, 0), now),
                Some(ConnectionPhase::Greeting | ConnectionPhase::LoggedIn { .. }) => {
                    self.abort_connection(slot, AbortReason::Shutdown, now)
                }
                Some(ConnectionPhase::Closing | ConnectionPhase::Leaving) | None => {}
            }
        }
    }

    /// The broker core, to read.
    pub fn broker(&self) -> &Broker {
        &self.sessions.broker
    }

    /// The effects, to read.
    pub fn effects(&self) -> &ShardEffects {
        &self.sessions.effects
    }

    /// Whether messages of other shards have arrived.
    pub fn has_messages(&self) -> bool {
        self.sessions.effects.mailbox.has_arrived()
    }

    /// Ends a connection that cannot be served.
    pub fn reject(&mut self, slot: Slot, now: Instant) {
        self.abort_connection(slot, AbortReason::Limit, now);
    }
}
