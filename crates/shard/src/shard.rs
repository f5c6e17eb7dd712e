//! A shard: connections, their sessions, the broker core, and one tick loop that moves bytes between them.
//!
//! Enters: links, readiness, mail, the time.  Leaves: bytes and mail.
//! Owns:   everything of one thread of the broker.
//! Never:  waits, reads a clock, shares anything that changes (but counts, see `household`).
//!
//! Its neighbours: `serve` (bytes in), `handshake` (logins), `flush` (bytes out and farewells).

use crate::connection::{Connection, Farewell, Phase};
use crate::desk::Desk;
use crate::federate::given_up;
use crate::handshake::{External, greeting_with};
use crate::household::Household;
use crate::limits::{
    ANSWER_SHARED_BYTES_MIN, FAREWELL, HEAP_FREED_BYTES, HEAP_REST, LOOK_UP, MAIL_BATCHES, MAIL_BATCHES_PER_TICK,
    MEMORY_CHECK, PACE, SCRATCH_BYTES,
};
use crate::mail::Doorbell;
use crate::proofs::{Proofs, Prover};
use crate::stamped;
use crate::ties::Ties;
use crate::timers::Timers;
use crate::tokens::Ticket;
use broker::{ReplyAddress, BodyRef, Broker, Effects, ConnectionSlot};
use catalog::{Definition, Refusal, ShardId, VhostId};
use link::{Abort, Link};
use session::heartbeat::Due;
use session::{Greeting, Inbound, Outbound, SessionLimits};
use slab::Gather;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a shard is set up.
#[derive(Clone)]
pub struct ShardOptions {
    /// Which one it is.
    pub shard: ShardId,
    /// What connections may use.
    pub session: SessionLimits,
    /// The frame bound proposed over links that take memory for bodies, in bytes.
    pub rdma_frame_bytes_max: u32,
    /// The greeting that every connection gets.
    pub greeting: Arc<Greeting>,
    /// How long a client may take to log in and open its virtual host.
    pub login_timeout: Duration,
    /// The moment from which the broker core counts its time: the same for all shards.
    pub epoch: Instant,
    /// What this broker calls itself to others.
    pub cluster_name: Box<str>,
}

/// How much a tick has left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Tick again at once.
    More,
    /// Nothing until something arrives, or until this time.
    Idle {
        /// When to tick again at the latest.
        until: Option<Instant>,
    },
}

/// One shard.
pub struct Shard {
    pub(crate) options: ShardOptions,
    pub(crate) external: Option<External>,
    pub(crate) proofs: Proofs,
    pub(crate) connections: Vec<Option<Box<Connection>>>,
    free: Vec<ConnectionSlot>,
    serial: u32,
    pub(crate) broker: Broker,
    pub(crate) desk: Desk,
    pub(crate) scratch: Box<[u8]>,
    pub(crate) ready: Vec<ConnectionSlot>,
    turns: Vec<ConnectionSlot>,
    pub(crate) timers: Timers,
    pub(crate) household: Arc<Household>,
    memory_checked: Option<Instant>,
    /// The longest that the lists of messages were since heap memory was given back, and when that was.
    room_bytes_most: usize,
    heap_given_back: Option<Instant>,
    heap_waits: bool,
    /// What waits here for virtual hosts whose bytes are counted, as the others know it.
    vhosts_noted: Vec<(VhostId, u64)>,
    /// Publishers that give consumers a moment, in the order in which theirs is over.
    paced: VecDeque<(Instant, ConnectionSlot)>,
    pub(crate) draining: bool,
    /// Links to other brokers.
    pub(crate) ties: Ties,
    /// When acknowledgements to other brokers have waited long enough.
    acks_at: Option<Instant>,
}

impl Shard {
    /// A shard without connections.
    pub fn new(options: ShardOptions, broker: Broker, desk: Desk, household: Arc<Household>) -> Self {
        let scratch_bytes = SCRATCH_BYTES.max(2 * options.session.frame_bytes_max as usize);
        Shard {
            options,
            external: None,
            proofs: Proofs::new(),
            connections: Vec::new(),
            free: Vec::new(),
            serial: 0,
            broker,
            desk,
            scratch: vec![0; scratch_bytes].into(),
            ready: Vec::new(),
            turns: Vec::new(),
            timers: Timers::default(),
            household,
            memory_checked: None,
            room_bytes_most: 0,
            heap_given_back: None,
            heap_waits: false,
            vhosts_noted: Vec::new(),
            paced: VecDeque::new(),
            draining: false,
            ties: Ties::default(),
            acks_at: None,
        }
    }

    /// Clients that show a certificate may log in by it (SASL EXTERNAL).
    pub fn accept_certificates(&mut self, external: External) {
        self.external = Some(external);
    }

    /// Passwords that take long to check are checked there; without it, here.
    pub fn prove_with(&mut self, prover: Arc<Prover>, bell: Arc<Doorbell>) {
        self.proofs.set_prover(prover, bell);
    }

    /// Which one it is.
    pub fn number(&self) -> u16 {
        self.options.shard.0
    }

    /// The slot that the next connection will get: its token at the poll.
    pub fn next_slot(&self) -> ConnectionSlot {
        self.free.last().copied().unwrap_or(self.connections.len() as ConnectionSlot)
    }

    /// Takes over a link that a client opened.
    pub fn accept(&mut self, link: Box<dyn Link>, now: Instant) -> ConnectionSlot {
        self.accept_known(link, None, now)
    }

    /// Takes over a link of a client that is known already, by the token that it has come with, or is not.
    pub(crate) fn accept_known(&mut self, link: Box<dyn Link>, ticket: Option<Ticket>, now: Instant) -> ConnectionSlot {
        let (slot, peer) = (self.next_slot(), link.peer());
        tracing::debug!(shard = self.options.shard.0, slot, peer = &*peer.address, "connection accepted");
        let shape = link.shape();
        // A user may have as many channels as it may have.
        let mut limits = SessionLimits { owner_opens_channels: true, ..self.options.session };
        let is_lent_memory = shape.lend_from_bytes < usize::MAX;
        if is_lent_memory {
            limits.body_frame_bytes_max = self.options.rdma_frame_bytes_max;
        }
        let token = self.token_for(&*link);
        // Who was brought by another says for himself who he is, and the token says nothing of that.
        let ticket = ticket.filter(|ticket| !ticket.carries);
        let greeting = match &ticket {
            Some(_) => Arc::new(self.options.greeting.with_mechanisms("EXTERNAL")),
            None => greeting_with(&self.options.greeting, token),
        };
        let mut inbound = Inbound::server(&limits, greeting);
        let mut out = Outbound::new();
        if is_lent_memory {
            inbound.lend_from(shape.lend_from_bytes);
            out.set_part_bytes_min(shape.lend_from_bytes);
        }
        let slot = self.place(link, inbound, out, now);
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
            (connection.token, connection.ticket) = (token, ticket);
            connection.lend_from_bytes = shape.lend_from_bytes;
        }
        slot
    }

    /// A link gets its slot, whoever opened it.
    pub(crate) fn place(&mut self, link: Box<dyn Link>, inbound: Inbound, out: Outbound, now: Instant) -> ConnectionSlot {
        let slot = self.next_slot();
        self.free.pop();
        self.serial = self.serial.wrapping_add(1);
        let copy_below_bytes = link.shape().copy_below_bytes;
        let connection = Connection {
            link,
            inbound,
            kept: Vec::new(),
            unparsed: false,
            serial: self.serial,
            proving: false,
            phase: Phase::Greeting,
            farewell: Farewell::None,
            deadline: now + self.options.login_timeout,
            received_at: now,
            sent_at: now,
            heartbeat: None,
            readable: true,
            heard: false,
            peer_closed: false,
            queued: false,
            capabilities: Default::default(),
            token: None,
            ticket: None,
            seat: None,
            lend_from_bytes: usize::MAX,
            tie: None,
            ends: None,
            timer_at: None,
        };
        let deadline = connection.deadline;
        let index = slot as usize;
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(Box::new(connection));
        self.set_timer(slot, deadline);
        self.desk.open(slot, out, copy_below_bytes);
        self.enqueue(slot);
        slot
    }

    /// A connection, for whoever registers its link.
    pub fn link(&mut self, slot: ConnectionSlot) -> Option<&mut Box<dyn Link>> {
        Some(&mut self.connections.get_mut(slot as usize)?.as_mut()?.link)
    }

    /// Readiness edges of a link.
    pub fn edge(&mut self, slot: ConnectionSlot, readable: bool, writable: bool, closed: bool) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        // What the link has to say by itself comes first; an error shows at the next read or write.
        if writable && connection.link.owes_bytes() {
            let _told_later = connection.link.send(&mut Gather::new());
        }
        if readable || closed {
            connection.readable = true;
            connection.heard |= readable;
            connection.peer_closed |= closed;
            self.enqueue(slot);
        }
        if writable {
            if let Some(outlet) = self.desk.outlet(slot) {
                outlet.blocked = false;
            }
            self.desk.make_dirty(slot);
        }
    }

    /// One round: mail, connections, timers, sending. The order is the walk of a message (ARCHITECTURE.md).
    pub fn tick(&mut self, now: Instant) -> Work {
        self.broker.set_now(now.saturating_duration_since(self.options.epoch).as_micros() as u64);
        self.take_mail(now);
        if self.proofs.are_awaited() {
            self.take_proofs(now);
        }
        self.unpace(now);
        self.tend_ties(now);
        self.serve_ready(now);
        self.broker.run_timers(&mut self.desk);
        self.broker.flush_batch(&mut self.desk);
        self.tell_wants();
        self.desk_work(now);
        self.fire_timers(now);
        self.check_memory(now);
        self.acks_at = self.desk.acknowledge_all(now);
        self.flush(now);
        self.desk.mail.send(true);
        self.outlook(now)
    }

    fn take_mail(&mut self, now: Instant) {
        for from in 0..self.desk.mail.shards() {
            for taken in 0..MAIL_BATCHES_PER_TICK {
                let Some(mut batch) = self.desk.mail.next(from) else {
                    if taken > 0 {
                        self.desk.mail.tell_room(from);
                    }
                    break;
                };
                if taken == MAIL_BATCHES / 2 {
                    // So early that both sides work at the same time.
                    self.desk.mail.tell_room(from);
                }
                self.broker.receive(ShardId(from), &mut batch, &mut self.desk);
                self.desk.mail.give_back(from, batch);
                self.broker.flush_batch(&mut self.desk);
                self.flush(now);
                self.desk.mail.send(false);
            }
        }
    }

    fn unpace(&mut self, now: Instant) {
        self.paced.extend(self.desk.paced.drain(..).map(|slot| (now + PACE, slot)));
        while let Some(&(until, slot)) = self.paced.front()
            && until <= now
        {
            self.paced.pop_front();
            self.broker.end_throttle(slot, &mut self.desk);
        }
        self.desk_work(now);
    }

    fn serve_ready(&mut self, now: Instant) {
        if self.ready.is_empty() || self.desk.mail.is_congested() {
            return;
        }
        std::mem::swap(&mut self.ready, &mut self.turns);
        let turns = std::mem::take(&mut self.turns);
        for &slot in &turns {
            if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
                connection.queued = false;
                self.serve(slot, now);
                self.desk.mail.send(false);
            }
        }
        self.turns = turns;
        self.turns.clear();
    }

    /// Consequences that concern other connections than the one just served: refusals that came by mail, connections that may go on.
    pub(crate) fn desk_work(&mut self, now: Instant) {
        while let Some(late) = self.desk.refusals.pop() {
            // It may have had several at once, and ends once.
            if late.channel > 0 && !self.broker.has_channel(late.slot, late.channel) {
                continue;
            }
            self.refuse(late.slot, late.channel, late.refusal, late.method, now);
        }
        while let Some(slot) = self.desk.resumed.pop() {
            let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { continue };
            // What it sent while nobody read is not silence.
            connection.received_at = now;
            if connection.unparsed || connection.readable {
                self.enqueue(slot);
            }
        }
    }

    pub(crate) fn enqueue(&mut self, slot: ConnectionSlot) {
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize)
            && !connection.queued
        {
            connection.queued = true;
            self.ready.push(slot);
        }
    }

    fn fire_timers(&mut self, now: Instant) {
        while let Some((at, slot, serial)) = self.timers.next_due(now) {
            let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { continue };
            if connection.serial != serial || connection.timer_at != Some(at) {
                continue;
            }
            connection.timer_at = None;
            let again = match connection.phase {
                Phase::Open { .. } => {
                    let Some(heartbeat) = connection.heartbeat else { continue };
                    let heard = std::mem::take(&mut connection.heard);
                    if !self.broker.may_read(slot) || (heard && self.desk.is_full(slot)) {
                        // It is the broker that does not read: that is no sign of a dead peer. One that reads nothing itself must
                        // send something in this time, read or not, or its output would stay here for ever.
                        connection.received_at = now;
                    }
                    match heartbeat.due(now, connection.received_at, connection.sent_at) {
                        Due::Dead => {
                            let peer = &*connection.link.peer().address;
                            tracing::warn!(shard = self.options.shard.0, slot, peer, "missed heartbeats from client");
                            self.abort(slot, Abort::Silent, now);
                            continue;
                        }
                        Due::Send => {
                            connection.sent_at = now;
                            if let Some((out, pool)) = self.desk.writer(slot) {
                                out.heartbeat(pool);
                            }
                            match heartbeat.due(now, connection.received_at, now) {
                                Due::Wait { until } => until,
                                Due::Send | Due::Dead => now,
                            }
                        }
                        Due::Wait { until } => until,
                    }
                }
                _ if now >= connection.deadline => {
                    let phase = connection.phase;
                    tracing::info!(shard = self.options.shard.0, slot, ?phase, "connection was too slow and is ended");
                    self.abort(slot, Abort::Overdue, now);
                    continue;
                }
                _ => connection.deadline,
            };
            self.set_timer(slot, again);
        }
    }

    fn check_memory(&mut self, now: Instant) {
        if self.memory_checked.is_some_and(|at| now < at + MEMORY_CHECK) {
            return;
        }
        self.memory_checked = Some(now);
        self.note_copied();
        let pool = self.desk.pool();
        pool.collect();
        // What one shard keeps for later must not crowd out what another needs now.
        let room_bytes = self.broker.list_overhead_bytes();
        let crowded = self.household.note_held(self.options.shard.0, (pool.held_bytes() + room_bytes) as u64);
        if crowded {
            pool.trim();
        }
        let bytes = pool.used_bytes() + room_bytes;
        self.give_back_heap(room_bytes, crowded, now);
        let was_over = self.broker.memory_alarm();
        let over = self.household.note_memory(self.options.shard.0, bytes as u64, was_over);
        if over != was_over {
            tracing::warn!(shard = self.options.shard.0, over, bytes = self.household.memory_bytes(), "memory limit");
            self.broker.set_memory_alarm(over, &mut self.desk);
        }
        self.check_vhosts();
    }

    /// Tells the others' readers how many bytes of bodies were copied here.
    pub fn note_copied(&self) {
        self.household.note_copied(self.options.shard.0, self.desk.copied);
    }

    /// Looks which virtual hosts have as many bytes waiting as they may. One stays full until a tenth less waits, lest it
    /// flutter.
    fn check_vhosts(&mut self) {
        let shard = self.options.shard.0;
        let counted: Vec<_> = self.broker.vhost_quotas().collect();
        self.vhosts_noted = counted.iter().map(|&(vhost, bytes, _)| (vhost, bytes)).collect();
        for (vhost, bytes, bytes_max) in counted {
            let all = self.household.register.note_waiting(vhost, shard, bytes);
            let was_full = self.broker.is_vhost_full(vhost);
            let full = if was_full { all >= bytes_max - bytes_max / 10 } else { all >= bytes_max };
            if full != was_full {
                let vhost_name = self.broker.catalog().vhost_name(vhost);
                tracing::warn!(shard, vhost = vhost_name, full, bytes = all, "limit of a virtual host's queues");
                self.broker.set_vhost_full(vhost, full, &mut self.desk);
            }
        }
    }

    /// Makes changes of definitions that an operator wants, at shard 0. Answers the refusals; the others are made.
    pub fn operate(&mut self, definitions: Vec<Definition>, now: Instant) -> Vec<Refusal> {
        self.broker.set_now(now.saturating_duration_since(self.options.epoch).as_micros() as u64);
        let made = definitions.into_iter().map(|definition| self.broker.define_as_operator(definition, &mut self.desk));
        made.filter_map(Result::err).collect()
    }

    /// Answers an administrative request.
    pub fn answer(&mut self, to: ReplyAddress, properties: &[u8], body: &[u8], now: Instant) {
        self.broker.set_now(now.saturating_duration_since(self.options.epoch).as_micros() as u64);
        if body.len() < ANSWER_SHARED_BYTES_MIN {
            return self.broker.answer_admin_request(to, properties, BodyRef::Small(body), &mut self.desk);
        }
        let shared = self.desk.pool().copy(body);
        self.broker.answer_admin_request(to, properties, BodyRef::Large(&shared), &mut self.desk);
    }

    /// The lists of messages have become shorter: what they no longer need goes back, at once where memory is short.
    fn give_back_heap(&mut self, room_bytes: usize, crowded: bool, now: Instant) {
        self.room_bytes_most = self.room_bytes_most.max(room_bytes);
        self.heap_waits = self.room_bytes_most - room_bytes >= HEAP_FREED_BYTES;
        let rest = if crowded { LOOK_UP } else { HEAP_REST };
        if self.heap_waits && self.heap_given_back.is_none_or(|at| now >= at + rest) {
            slab::give_back_heap();
            self.heap_given_back = Some(now);
            self.room_bytes_most = room_bytes;
            self.heap_waits = false;
        }
    }

    fn outlook(&mut self, now: Instant) -> Work {
        let mail = &self.desk.mail;
        let congested = mail.is_congested();
        if mail.has_arrived()
            || (!self.ready.is_empty() && !congested)
            || !self.desk.resumed.is_empty()
            || !self.desk.refusals.is_empty()
            || !self.ties.dials.is_empty()
        {
            return Work::More;
        }
        let look_up = (congested || mail.waits() || self.broker.is_alarmed() || self.heap_waits || self.memory_moved())
            .then(|| now + LOOK_UP);
        let paced =
            if self.desk.paced.is_empty() { self.paced.front().map(|(until, _)| *until) } else { Some(now + PACE) };
        let queues = self.broker.next_timer().map(|us| self.options.epoch + Duration::from_micros(us));
        let until =
            [look_up, paced, queues, self.acks_at, self.timers.next(), self.ties.next_at()].into_iter().flatten().min();
        Work::Idle { until }
    }

    /// Whether the memory in use was last added up before it could have changed.
    fn memory_moved(&self) -> bool {
        let bytes = (self.desk.pool().used_bytes() + self.broker.list_overhead_bytes()) as u64;
        // Others wait for what little a virtual host may have.
        bytes.abs_diff(self.household.shard_bytes(self.options.shard.0)) > 1 << 20
            || self
                .broker
                .vhost_quotas()
                .map(|(vhost, bytes, _)| (vhost, bytes))
                .ne(self.vhosts_noted.iter().copied())
    }

    /// Ends a connection at once.
    pub(crate) fn abort(&mut self, slot: ConnectionSlot, why: Abort, now: Instant) {
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
            connection.link.abort(why);
        }
        self.lose(slot, given_up(why), now);
        self.remove(slot);
    }

    /// A connection is over: its session ends, its slot is free.
    pub(crate) fn remove(&mut self, slot: ConnectionSlot) {
        let Some(connection) = self.connections.get_mut(slot as usize).and_then(Option::take) else { return };
        tracing::debug!(
            shard = self.options.shard.0,
            slot,
            peer = &*connection.link.peer().address,
            "connection closed"
        );
        connection.token.iter().for_each(|token| self.household.tokens.forget(token));
        stamped::forget(&self.household, &mut self.desk, slot, None);
        self.broker.close_session(slot, &mut self.desk);
        self.desk.close(slot);
        self.free.push(slot);
        self.household.connection_gone(self.options.shard.0);
        if let Some(number) = connection.ends {
            self.ties.ended(number);
        }
    }

    /// Connections of this shard.
    pub fn connections(&self) -> usize {
        self.connections.iter().flatten().count()
    }

    /// Tells every client that the broker stops, and takes no new ones.
    pub fn drain(&mut self, now: Instant) {
        if std::mem::replace(&mut self.draining, true) {
            return;
        }
        for slot in 0..self.connections.len() as ConnectionSlot {
            let refusal = catalog::Refusal::connection(
                wire::ReplyCode::ConnectionForced,
                "CONNECTION_FORCED - broker is shutting down",
            );
            match self.connections[slot as usize].as_ref().map(|connection| connection.phase) {
                Some(Phase::Open { .. }) => self.refuse(slot, 0, refusal, (0, 0), now),
                Some(Phase::Greeting | Phase::LoggedIn { .. }) => self.abort(slot, Abort::Shutdown, now),
                Some(Phase::Closing | Phase::Leaving) | None => {}
            }
        }
    }

    /// The broker core, to look at.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The desk, to look at.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    pub(crate) fn limit_phase(&mut self, slot: ConnectionSlot, phase: Phase, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        connection.phase = phase;
        connection.deadline = now + FAREWELL;
        self.set_timer(slot, now + FAREWELL);
    }

    /// Looks at a connection then, and not at the time set before.
    pub(crate) fn set_timer(&mut self, slot: ConnectionSlot, at: Instant) {
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
            connection.timer_at = Some(at);
            self.timers.set(at, slot, connection.serial);
        }
    }

    /// Whether mail from other shards has arrived.
    pub fn has_mail(&self) -> bool {
        self.desk.mail.has_arrived()
    }

    /// Ends a connection that cannot be served.
    pub fn give_up(&mut self, slot: ConnectionSlot, now: Instant) {
        self.abort(slot, Abort::Limit, now);
    }
}
