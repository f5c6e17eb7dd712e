//! A thread of the proxy as the worker of a reactor: its connections, their turns, their deadlines and the totals.

use crate::dialler::{DialOutcome, DialOutput, ProxyInbox};
use crate::limits::CHECK_INTERVAL;
use crate::proxied_connection::{DisconnectReason, ProxiedConnection, TurnOutcome, UpstreamState};
use crate::proxy_slot::ProxySlot;
use crate::totals::{ProxyTotals, SharedTotals};
use crate::upstream::Upstream;
use link::Link;
use mio::{Registry, Token};
use reactor::{SocketReadiness, Worker};
use slab::Pool;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbs::ReadinessEdges;

pub(crate) struct ProxyWorker {
    pub thread: u16,
    pub pool: Pool,
    /// The inbox of this thread, for outcomes of dials.
    pub inbox: ProxyInbox,
    pub upstream: Upstream,
    pub shared: Arc<SharedTotals>,
    pub totals: ProxyTotals,
    pub dial_timeout: Duration,
    /// How often the totals are logged, and when next; on the first thread.
    pub stats: Option<(Duration, Instant)>,
    pub table: ConnectionTable,
}

/// The connections of a thread.
#[derive(Default)]
pub(crate) struct ConnectionTable {
    slots: Vec<Option<ProxiedConnection>>,
    free: Vec<ProxySlot>,
    /// Those that are queued for a turn.
    ready: Vec<ProxySlot>,
    /// Those with a deadline, and some that had one.
    timed: Vec<ProxySlot>,
    last_dial_id: u64,
    next_deadline_check: Option<Instant>,
    /// ReadinessEdges of links of the RDMA port.
    readiness: Vec<(ProxySlot, ReadinessEdges)>,
}

impl ConnectionTable {
    fn get_mut(&mut self, slot: ProxySlot) -> Option<&mut ProxiedConnection> {
        self.slots.get_mut(slot.index())?.as_mut()
    }

    fn next_slot(&self) -> ProxySlot {
        self.free.last().copied().unwrap_or(ProxySlot::new(self.slots.len() as u32))
    }

    fn insert(&mut self, connection: ProxiedConnection) -> ProxySlot {
        let slot = self.next_slot();
        match self.free.pop() {
            Some(_) => self.slots[slot.index()] = Some(connection),
            None => self.slots.push(Some(connection)),
        }
        slot
    }

    fn remove(&mut self, slot: ProxySlot) -> Option<ProxiedConnection> {
        let connection = self.slots[slot.index()].take()?;
        self.free.push(slot);
        Some(connection)
    }

    /// Queues a connection for a turn, unless it is queued already.
    fn enqueue(&mut self, slot: ProxySlot) {
        if let Some(connection) = self.slots.get_mut(slot.index()).and_then(Option::as_mut)
            && !std::mem::replace(&mut connection.is_queued, true)
        {
            self.ready.push(slot);
        }
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}

impl Worker<DialOutcome> for ProxyWorker {
    fn next_token(&self) -> Token {
        self.table.next_slot().client_token()
    }

    fn adopt(&mut self, client: Box<dyn Link>, registry: &Registry, now: Instant) {
        self.totals.accepted += 1;
        self.table.last_dial_id += 1;
        let (slot, dial_id) = (self.table.next_slot(), self.table.last_dial_id);
        tracing::debug!(client = &*client.peer().address, "accepted");
        let begun = self.upstream.begin((slot, dial_id), &self.inbox, &self.pool, registry);
        let deadline = now + self.dial_timeout;
        match begun {
            Ok((upstream, link_id)) => {
                let mut connection = ProxiedConnection::new(client, upstream, dial_id, now, deadline);
                connection.link_id = link_id;
                self.table.insert(connection);
                self.table.timed.push(slot);
            }
            Err(why) => {
                let upstream = UpstreamState::Dialling(Arc::default());
                self.table.insert(ProxiedConnection::new(client, upstream, dial_id, now, deadline));
                self.disconnect(slot, &DisconnectReason::Unreachable(why), registry, now);
            }
        }
    }

    fn on_refused(&mut self) {
        self.totals.refused += 1;
    }

    fn on_message(&mut self, DialOutcome { slot, dial_id, outcome }: DialOutcome, registry: &Registry, now: Instant) {
        let Some(connection) = self.table.get_mut(slot) else { return };
        if connection.dial_id != dial_id {
            return;
        }
        let connected = outcome.and_then(|output| {
            match output {
                DialOutput::Link(mut link) => {
                    link.register(registry, slot.upstream_token())?;
                    connection.set_connected(link);
                }
                DialOutput::Token(token, guard) => {
                    let begun = self.upstream.connect_with_token(slot, token, &self.pool, registry);
                    let (endpoint, id) = begun.map_err(io::Error::other)?;
                    connection.set_connecting(endpoint, id, guard);
                }
            }
            Ok(())
        });
        match connected {
            Ok(()) => self.table.enqueue(slot),
            Err(error) => self.disconnect(slot, &DisconnectReason::Unreachable(error.to_string()), registry, now),
        }
    }

    fn on_ready(&mut self, token: Token, SocketReadiness { readable, writable, closed }: SocketReadiness) {
        let slot = ProxySlot::of_token(token);
        if let Some(connection) = self.table.get_mut(slot) {
            if token == slot.client_token() {
                connection.on_client_ready(readable, writable, closed);
            } else {
                connection.on_upstream_ready(readable, writable, closed);
            }
        }
        self.table.enqueue(slot);
    }

    fn has_devices(&self) -> bool {
        self.upstream.has_device()
    }

    /// Never lets the next round skip the poll: every connection has a client's socket there.
    fn poll_devices(&mut self, registry: &Registry, _now: Instant) -> bool {
        self.upstream.poll(registry, &mut self.table.readiness);
        let mut ready = std::mem::take(&mut self.table.readiness);
        for (slot, ReadinessEdges { readable, writable, closed }) in ready.drain(..) {
            if let Some(connection) = self.table.get_mut(slot) {
                connection.on_upstream_ready(readable, writable, closed);
            }
            self.table.enqueue(slot);
        }
        self.table.readiness = ready;
        false
    }

    fn tick(&mut self, registry: &Registry, now: Instant) -> Option<Duration> {
        self.run_turns(registry, now);
        self.check_deadlines(registry, now);
        self.upstream.flush();
        self.publish_totals();
        self.log_totals(now);
        if !self.table.ready.is_empty() || (self.shared.reactor.is_stopping() && self.is_drained()) {
            return Some(Duration::ZERO);
        }
        let deadlines = (!self.table.timed.is_empty()).then_some(CHECK_INTERVAL);
        let stats = self.stats.map(|(_, at)| at.saturating_duration_since(now));
        deadlines.into_iter().chain(stats).min()
    }

    fn before_sleep(&mut self, registry: &Registry, _now: Instant) -> Option<Duration> {
        let bound = self.upstream.arm(registry, &mut self.table.readiness);
        if self.table.readiness.is_empty() { bound } else { Some(Duration::ZERO) }
    }

    /// Connections go on: they end by themselves, or at the drain timeout.
    fn drain(&mut self, _now: Instant) {}

    fn is_drained(&self) -> bool {
        self.table.is_empty() && self.upstream.is_quiet()
    }

    fn finish(&mut self, registry: &Registry, now: Instant) {
        self.run_turns(registry, now);
        for slot in (0..self.table.slots.len() as u32).map(ProxySlot::new) {
            self.disconnect(slot, &DisconnectReason::ProxyStopped, registry, now);
        }
        self.upstream.flush();
        self.publish_totals();
    }
}

impl ProxyWorker {
    fn publish_totals(&mut self) {
        self.upstream.count(&mut self.totals);
        self.shared.publish(self.thread, self.totals);
    }

    fn log_totals(&mut self, now: Instant) {
        let Some((every, at)) = &mut self.stats else { return };
        if now < *at {
            return;
        }
        *at = now + *every;
        let (totals, connections) = self.shared.sum();
        let waiting_bytes: usize = self.table.slots.iter().flatten().map(ProxiedConnection::waiting_bytes).sum();
        tracing::info!(
            connections,
            accepted = totals.accepted,
            refused = totals.refused,
            unreachable = totals.unreachable,
            broken = totals.broken,
            to_broker_bytes = totals.to_upstream_bytes,
            to_client_bytes = totals.to_client_bytes,
            copied_bytes = totals.copied_bytes,
            waiting_bytes,
            doorbells = totals.doorbells,
            "totals"
        );
    }

    /// Gives every queued connection a turn. One with more to do is queued again.
    fn run_turns(&mut self, registry: &Registry, now: Instant) {
        let ready = std::mem::take(&mut self.table.ready);
        for slot in ready {
            let Some(connection) = self.table.slots.get_mut(slot.index()).and_then(Option::as_mut) else { continue };
            connection.is_queued = false;
            let had_deadline = connection.deadline.is_some();
            let (to_upstream, to_client) = connection.bytes();
            let outcome = connection.run(now, &self.pool, &mut self.totals);
            let bytes = connection.bytes();
            self.totals.to_upstream_bytes += bytes.0 - to_upstream;
            self.totals.to_client_bytes += bytes.1 - to_client;
            if connection.deadline.is_some() && !had_deadline {
                self.table.timed.push(slot);
            }
            match outcome {
                TurnOutcome::Continue { more: true } => self.table.enqueue(slot),
                TurnOutcome::Continue { more: false } => {}
                TurnOutcome::Disconnect(reason) => self.disconnect(slot, &reason, registry, now),
            }
        }
    }

    /// Ends connections whose deadline has passed.
    fn check_deadlines(&mut self, registry: &Registry, now: Instant) {
        if self.table.timed.is_empty() || self.table.next_deadline_check.is_some_and(|at| now < at) {
            return;
        }
        self.table.next_deadline_check = Some(now + CHECK_INTERVAL);
        let mut expired = Vec::new();
        let ConnectionTable { timed, slots, .. } = &mut self.table;
        timed.retain(|slot| {
            let connection = slots[slot.index()].as_ref();
            let deadline = connection.and_then(|connection| connection.deadline);
            let is_expired = deadline.is_some_and(|deadline| now >= deadline);
            if is_expired {
                expired.push(*slot);
            }
            deadline.is_some() && !is_expired
        });
        // A slot that was reused since may be listed twice.
        timed.sort_unstable();
        timed.dedup();
        for slot in expired {
            if let Some(reason) = self.table.get_mut(slot).map(|connection| connection.timeout_reason()) {
                self.disconnect(slot, &reason, registry, now);
            }
        }
    }

    /// Ends a connection, counts it and logs why.
    fn disconnect(&mut self, slot: ProxySlot, reason: &DisconnectReason, registry: &Registry, now: Instant) {
        let Some(connection) = self.table.remove(slot) else { return };
        self.upstream.forget(connection.link_id);
        self.shared.reactor.connection_closed(self.thread);
        let (to_broker_bytes, to_client_bytes) = connection.bytes();
        let ms = now.saturating_duration_since(connection.began).as_millis() as u64;
        let client = connection.client();
        match reason {
            DisconnectReason::Unreachable(_) => {
                self.totals.unreachable += 1;
                tracing::warn!(client, ms, %reason, "connection refused");
            }
            reason => {
                self.totals.broken += u64::from(!matches!(reason, DisconnectReason::Closed));
                tracing::info!(client, to_broker_bytes, to_client_bytes, ms, %reason, "connection ended");
            }
        }
        connection.end(reason, registry);
    }
}
