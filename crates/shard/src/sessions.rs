//! The sessions of a shard: each connection with its output and its session in the broker core.
//!
//! Opens and closes them, and answers clients whose commands are refused. Logins (`login`) and federation links use it
//! from above.

use crate::connection::{Connection, ConnectionPhase, HalfClose};
use crate::connection_limits::{LimitReached, Reservation};
use crate::connections::Connections;
use crate::effects::ShardEffects;
use crate::memory_account::MemoryAccount;
use crate::moved_connection::ConnectionMoves;
use crate::shard_options::ShardOptions;
use crate::shared_state::SharedState;
use crate::stamp_check::release_stamps;
use crate::thread_stats::LoginStats;
use crate::tokens::TokenOwner;
use broker::{Broker, ConnectionSlot, Effects};
use catalog::{Refusal, SessionId, UserId};
use link::{AbortReason, Link, LinkError};
use session::heartbeat::HeartbeatAction;
use session::{Capabilities, FaultScope, Greeting, Inbound, Outbound, ProtocolFault, SessionLimits};
use slab::Gather;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use verbs::RdmaToken;
use verbs::limits::TOKEN_BYTES;
use wire::{
    ChannelNumber,
    method::{Method, channel, connection},
};

/// The property of the server's greeting that carries the token (Harrier extension).
const TOKEN_PROPERTY: &str = "harrier.rdma_token";

/// Connections, their outputs and the broker core.
pub(crate) struct Sessions {
    pub options: ShardOptions,
    pub connections: Connections,
    pub broker: Broker,
    pub effects: ShardEffects,
    pub shared: Arc<SharedState>,
    pub memory: MemoryAccount,
    pub logins: LoginStats,
    pub moves: ConnectionMoves,
}

/// What follows from the expired timer of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TimerOutcome {
    /// The connection needs no timer.
    Done,
    RearmAt(Instant),
    Abort(AbortReason),
}

/// A greeting with the token by which the client may connect again over RDMA.
pub(crate) fn greeting_with_token(greeting: &Arc<Greeting>, token: Option<RdmaToken>) -> Arc<Greeting> {
    let Some(RdmaToken(bytes)) = token else { return Arc::clone(greeting) };
    let value = wire::Value::LongStr(bytes.as_slice().into());
    Arc::new(greeting.with_property(TOKEN_PROPERTY, value).expect("a short name"))
}

impl Sessions {
    /// Accepts a link that a client opened; `token_owner` has logged in already, if it connects by a token.
    pub fn accept(&mut self, link: Box<dyn Link>, token_owner: Option<TokenOwner>, now: Instant) -> ConnectionSlot {
        let (slot, peer) = (self.connections.next_slot(), link.peer());
        tracing::debug!(
            shard = self.options.shard.0,
            slot = slot.number(),
            peer = &*peer.address,
            "connection accepted"
        );
        let shape = link.capabilities();
        // The shard opens channels, because the catalog limits them by user.
        let mut limits = SessionLimits { owner_opens_channels: true, ..self.options.session };
        let is_lent_memory = shape.lend_threshold_bytes < usize::MAX;
        if is_lent_memory {
            limits.body_frame_bytes_max = self.options.rdma_frame_bytes_max;
        }
        let token = self.new_token(&*link);
        // A client that a carrier brought logs in by itself: the token is the carrier's.
        let token_owner = token_owner.filter(|owner| !owner.is_carrier);
        let greeting = match &token_owner {
            Some(_) => Arc::new(self.options.greeting.with_mechanisms("EXTERNAL")),
            None => greeting_with_token(&self.options.greeting, token),
        };
        let mut inbound = Inbound::server(&limits, greeting);
        let mut out = Outbound::new();
        if is_lent_memory {
            inbound.lend_from(shape.lend_threshold_bytes);
            out.set_part_bytes_min(shape.lend_threshold_bytes);
        }
        let slot = self.insert(link, inbound, out, now);
        if let Some(connection) = self.connections.get_mut(slot) {
            (connection.token, connection.token_owner) = (token, token_owner);
            connection.lend_threshold_bytes = shape.lend_threshold_bytes;
        }
        slot
    }

    /// Adds the connection of a link, whichever side opened it.
    pub fn insert(&mut self, link: Box<dyn Link>, inbound: Inbound, out: Outbound, now: Instant) -> ConnectionSlot {
        let copy_threshold_bytes = link.capabilities().copy_threshold_bytes;
        let deadline = now + self.options.login_timeout;
        let slot = self.connections.insert(Box::new(Connection::new(link, inbound, deadline, now)));
        self.effects.outputs.open(slot, out, copy_threshold_bytes);
        self.connections.enqueue(slot);
        slot
    }

    /// Removes a connection: its session ends, its slot is free.
    pub fn remove(&mut self, slot: ConnectionSlot) -> Option<Box<Connection>> {
        let connection = self.connections.remove(slot)?;
        tracing::debug!(
            shard = self.options.shard.0,
            slot = slot.number(),
            peer = &*connection.link.peer().address,
            "connection closed"
        );
        connection.token.iter().for_each(|token| self.shared.tokens.remove_unused(token));
        release_stamps(&self.shared, &mut self.effects, slot, None);
        self.broker.close_session(slot, &mut self.effects);
        self.effects.outputs.close(slot);
        if let Some(vhost) = connection.vhost {
            let catalog = self.broker.catalog();
            self.connections.closed_traffic.add(vhost, connection.traffic, |vhost| catalog.is_vhost(vhost));
        }
        self.shared.connection_closed(self.options.shard);
        Some(connection)
    }

    /// A token that nobody can guess, for a client that may connect again over RDMA.
    fn new_token(&mut self, link: &dyn Link) -> Option<RdmaToken> {
        if !self.shared.tokens.are_enabled() || link.capabilities().name == "rdma" {
            return None;
        }
        let mut bytes = [0; TOKEN_BYTES];
        let (first, second) = bytes.split_at_mut(TOKEN_BYTES / 2);
        first.copy_from_slice(&self.effects.random().to_ne_bytes());
        second.copy_from_slice(&self.effects.random().to_ne_bytes());
        Some(RdmaToken(bytes))
    }

    /// Handles readiness edges of a link.
    pub fn on_readiness(&mut self, slot: ConnectionSlot, readable: bool, writable: bool, closed: bool) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        // The link sends bytes of its own first; an error shows at the next read or write.
        if writable && connection.link.has_pending_output() {
            let _shown_later = connection.link.send(&mut Gather::new());
        }
        if readable || closed {
            connection.readable = true;
            connection.received_since_check |= readable;
            connection.peer_closed |= closed;
            self.connections.enqueue(slot);
        }
        if writable && let Some(output) = self.effects.outputs.get_dirty(slot) {
            output.blocked = false;
        }
    }

    /// Whether the peer has closed the link, or the link is broken.
    pub fn is_closed(&self, slot: ConnectionSlot) -> bool {
        self.connections.get(slot).is_some_and(|connection| connection.peer_closed)
    }

    /// Whether the next command of a connection may be carried out: it waits for no answer and no memory, and its
    /// client reads what it asked for.
    pub fn may_serve(&self, slot: ConnectionSlot) -> bool {
        self.broker.may_read(slot) && !self.effects.is_full(slot) && !self.is_paused(slot)
    }

    /// The connections that wait for a turn, unless nobody may have one.
    pub fn start_turns(&mut self) -> Option<Vec<ConnectionSlot>> {
        if self.effects.holds_all() {
            return None;
        }
        if self.connections.has_held() && !self.effects.is_disk_congested() {
            self.connections.release_held();
        }
        self.connections.has_ready().then(|| self.connections.start_turns())
    }

    /// Whether a connection must not be read before the disk, or other shards, have taken some of what waits for them.
    pub fn is_held(&self, slot: ConnectionSlot) -> bool {
        self.effects.holds(self.connections.get(slot).map_or(0, |connection| connection.stored_bytes))
    }

    /// A connection has a turn: what it has published counts anew if the disk has room.
    pub fn start_disk_turn(&mut self, slot: ConnectionSlot) {
        if !self.effects.is_disk_congested()
            && let Some(connection) = self.connections.get_mut(slot)
        {
            connection.stored_bytes = 0;
        }
    }

    /// Counts what waits for the disk by the events of a connection, before which so many bytes did.
    #[inline]
    pub fn note_stored(&mut self, slot: ConnectionSlot, pending_before: usize) {
        let stored_bytes = self.effects.disk_pending_bytes().saturating_sub(pending_before);
        if stored_bytes > 0
            && let Some(connection) = self.connections.get_mut(slot)
        {
            connection.stored_bytes += stored_bytes;
        }
    }

    /// Whether a connection waits for the verification of its password, or is about to leave this shard.
    #[inline]
    fn is_paused(&self, slot: ConnectionSlot) -> bool {
        let connection = self.connections.get(slot);
        connection.is_some_and(|connection| connection.is_verifying_password || connection.moves.pending.is_some())
    }

    pub fn is_verifying_password(&self, slot: ConnectionSlot) -> bool {
        self.connections.get(slot).is_some_and(|connection| connection.is_verifying_password)
    }

    /// Continues after a connection's output was flushed: requests that waited for that, and deliveries.
    #[inline]
    pub fn after_flush(&mut self, slot: ConnectionSlot) {
        let has_unparsed = self.connections.get(slot).is_some_and(|connection| connection.has_unparsed);
        if has_unparsed && self.may_serve(slot) {
            self.connections.enqueue(slot);
        }
        // Idle consumers fill the output again, which makes it dirty again.
        self.broker.output_ready(slot, &mut self.effects);
    }

    /// Checks a connection whose timer has expired: its heartbeat while its session is open, its deadline before and
    /// after that.
    pub fn check_timer(&mut self, slot: ConnectionSlot, now: Instant) -> TimerOutcome {
        let Some(connection) = self.connections.get_mut(slot) else { return TimerOutcome::Done };
        let ConnectionPhase::Open { .. } = connection.phase else {
            if now < connection.deadline {
                return TimerOutcome::RearmAt(connection.deadline);
            }
            let phase = connection.phase;
            tracing::info!(
                shard = self.options.shard.0,
                slot = slot.number(),
                ?phase,
                "connection was too slow and is ended"
            );
            return TimerOutcome::Abort(AbortReason::Overdue);
        };
        let Some(heartbeat) = connection.heartbeat else { return TimerOutcome::Done };
        let has_received = std::mem::take(&mut connection.received_since_check);
        if !self.broker.may_read(slot) || (has_received && self.effects.is_full(slot)) {
            // The broker itself does not read the connection, so that silence is no sign of a dead peer. A peer that
            // reads nothing must send something in this time, read or not, or its output would stay here for ever.
            connection.received_at = now;
        }
        match heartbeat.due(now, connection.received_at, connection.sent_at) {
            HeartbeatAction::Dead => {
                let peer = &*connection.link.peer().address;
                tracing::warn!(
                    shard = self.options.shard.0,
                    slot = slot.number(),
                    peer,
                    "missed heartbeats from client"
                );
                TimerOutcome::Abort(AbortReason::Silent)
            }
            HeartbeatAction::Send => {
                connection.sent_at = now;
                if let Some((out, pool)) = self.effects.writer(slot) {
                    out.heartbeat(pool);
                }
                match heartbeat.due(now, connection.received_at, now) {
                    HeartbeatAction::Wait { until } => TimerOutcome::RearmAt(until),
                    HeartbeatAction::Send | HeartbeatAction::Dead => TimerOutcome::RearmAt(now),
                }
            }
            HeartbeatAction::Wait { until } => TimerOutcome::RearmAt(until),
        }
    }

    /// Opens the virtual host that a client has chosen.
    pub fn open_vhost(&mut self, slot: ConnectionSlot, name: &[u8], now: Instant) {
        if let Err(refusal) = self.try_open_vhost(slot, name, now) {
            self.refuse_client(slot, ChannelNumber::CONNECTION, refusal, connection::Open::ID, now);
        }
    }

    fn try_open_vhost(&mut self, slot: ConnectionSlot, name: &[u8], now: Instant) -> Result<(), Refusal> {
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        let ConnectionPhase::LoggedIn { user } = connection.phase else { return Ok(()) };
        let session = SessionId { shard: self.options.shard, slot, serial: connection.serial };
        let catalog = self.broker.catalog();
        // RabbitMQ counts before it checks whether the user may open the virtual host.
        let mut reservation = reserve_connection(&self.broker, &self.shared, user, name)?;
        let pinned_bytes = connection.link.capabilities().pinned_bytes as u64;
        if let Some(reservation) = &mut reservation
            && !reservation.pin(pinned_bytes, self.shared.pinned_bytes_max())
        {
            return Err(catalog.is_user_at_pinned_share(user, self.shared.pinned_bytes_max()));
        }
        let vhost = catalog.open_vhost(user, name)?;
        let is_carrier = connection.capabilities.has(Capabilities::RDMA_CARRIER);
        if is_carrier && !catalog.is_carrier(user) {
            return Err(catalog.is_no_carrier(user));
        }
        connection.open(user, vhost);
        let may_return = is_carrier || connection.capabilities.has(Capabilities::RDMA_TOKEN);
        if let Some(token) = connection.token.filter(|_| may_return) {
            let is_loopback = connection.link.peer().is_loopback;
            let owner = TokenOwner { user: catalog.user_name(user).into(), is_loopback, is_carrier };
            self.shared.tokens.insert(token, owner, now);
        }
        connection.reservation = reservation;
        let capabilities = broker::ClientCapabilities {
            consumer_cancel_notify: connection.capabilities.has(Capabilities::CONSUMER_CANCEL_NOTIFY),
            connection_blocked: connection.capabilities.has(Capabilities::CONNECTION_BLOCKED),
        };
        self.broker.open_session(slot, broker::SessionLogin { session, user, vhost, capabilities });
        if let Some((out, pool)) = self.effects.writer(slot) {
            connection.inbound.open_accepted(out, pool);
        }
        self.connections.set_timer(slot, now);
        Ok(())
    }

    /// Opens a channel for a client, unless its user has as many as it may.
    pub fn open_channel(&mut self, slot: ConnectionSlot, channel: ChannelNumber, now: Instant) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let ConnectionPhase::Open { user, .. } = connection.phase else { return };
        let Some(reservation) = &mut connection.reservation else { return };
        let catalog = self.broker.catalog();
        if let Err(channels_max) = reservation.open_channel(catalog.user_limits(user).channels_max) {
            let refusal = catalog.user_has_its_channels(user, channels_max);
            return self.refuse_client(slot, channel, refusal, (0, 0), now);
        }
        if let Some((out, pool)) = self.effects.writer(slot) {
            out.method(pool, channel, &Method::ChannelOpenOk(channel::OpenOk {}));
        }
        self.broker.open_channel(slot, channel);
    }

    /// Closes a channel and returns it to the limit of its user.
    pub fn close_channel(&mut self, slot: ConnectionSlot, channel: ChannelNumber) {
        if let Some(connection) = self.connections.get_mut(slot)
            && let Some(reservation) = &mut connection.reservation
        {
            reservation.close_channel();
        }
        release_stamps(&self.shared, &mut self.effects, slot, Some(channel));
        self.broker.close_channel(slot, channel, &mut self.effects);
    }

    /// Closes a session in the broker core, and returns it to the limits of its virtual host and user.
    pub fn close_session(&mut self, slot: ConnectionSlot) {
        release_stamps(&self.shared, &mut self.effects, slot, None);
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.reservation = None;
        }
        self.broker.close_session(slot, &mut self.effects);
    }

    /// Closes the session; pending output is flushed, then the link is closed.
    pub fn close_after_flush(&mut self, slot: ConnectionSlot, now: Instant) {
        self.close_session(slot);
        self.enter_closing_phase(slot, ConnectionPhase::Leaving, now);
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.half_close = HalfClose::Pending;
        }
        self.effects.make_dirty(slot);
    }

    /// Enters a phase that must end within [`CLOSE_TIMEOUT`].
    pub fn enter_closing_phase(&mut self, slot: ConnectionSlot, phase: ConnectionPhase, now: Instant) {
        self.connections.enter_closing_phase(slot, phase, now);
    }

    /// Refuses a client's command: its channel or its connection is closed.
    pub fn refuse_client(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        refusal: Refusal,
        (class_id, method_id): (u16, u16),
        now: Instant,
    ) {
        let scope = match refusal.scope {
            catalog::RefusalScope::Channel if channel > ChannelNumber::CONNECTION => FaultScope::Channel,
            _ => FaultScope::Connection,
        };
        let fault =
            ProtocolFault { code: refusal.code, scope, channel, class_id, method_id, text: session::cut(refusal.text) };
        self.on_client_fault(slot, &fault, now);
    }

    /// Reports a client's fault to it, and closes the channel or the connection.
    pub fn on_client_fault(&mut self, slot: ConnectionSlot, fault: &ProtocolFault, now: Instant) {
        self.log_fault(slot, fault);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some((out, pool)) = self.effects.writer(slot) else { return };
        let is_done = connection.inbound.fail(fault, out, pool);
        match fault.scope {
            _ if is_done => self.close_after_flush(slot, now),
            FaultScope::Channel => self.close_channel(slot, fault.channel),
            FaultScope::Connection => {
                self.close_session(slot);
                self.enter_closing_phase(slot, ConnectionPhase::Closing, now);
            }
            FaultScope::Link => self.close_after_flush(slot, now),
        }
    }

    pub fn log_fault(&self, slot: ConnectionSlot, fault: &ProtocolFault) {
        let Some(connection) = self.connections.get(slot) else { return };
        let peer = &*connection.link.peer().address;
        match fault.code {
            wire::ReplyCode::ConnectionForced => {
                tracing::debug!(
                    shard = self.options.shard.0,
                    slot = slot.number(),
                    peer,
                    fault = %fault,
                    "the broker closes the connection"
                )
            }
            _ => tracing::info!(shard = self.options.shard.0, slot = slot.number(), peer, fault = %fault, "refused"),
        }
    }

    /// Logs that a link has failed. An operator must know of offences and timeouts of a peer, but not that it has gone.
    #[cold]
    pub fn log_link_error(&self, slot: ConnectionSlot, error: &LinkError) {
        let Some(connection) = self.connections.get(slot) else { return };
        let (shard, peer) = (self.options.shard.0, &*connection.link.peer().address);
        let is_offence = match error {
            LinkError::Tls(_) => true,
            LinkError::Lost(error) => matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::TimedOut),
            LinkError::Closed => false,
        };
        if is_offence {
            tracing::info!(shard, slot = slot.number(), peer, %error, "refused");
        } else {
            tracing::debug!(shard, slot = slot.number(), peer, %error, "connection lost");
        }
    }
}

/// Reserves a connection of a user in a virtual host. A virtual host that does not exist is refused elsewhere.
fn reserve_connection(
    broker: &Broker,
    shared: &SharedState,
    user: UserId,
    vhost_name: &[u8],
) -> Result<Option<Reservation>, Refusal> {
    let catalog = broker.catalog();
    let Ok(vhost_name) = std::str::from_utf8(vhost_name) else { return Ok(None) };
    let Some(vhost) = catalog.vhost_by_name(vhost_name) else { return Ok(None) };
    let vhost_max = catalog.vhost_limits(vhost).connections_max;
    let user_max = catalog.user_limits(user).connections_max;
    match shared.connection_limits.reserve((vhost, vhost_max), (user, user_max)) {
        Ok(reservation) => Ok(Some(reservation)),
        Err(LimitReached::Vhost(connections_max)) => Err(catalog.is_vhost_at_limit(user, vhost_name, connections_max)),
        Err(LimitReached::User(connections_max)) => Err(catalog.is_user_at_limit(user, connections_max)),
    }
}

#[cfg(test)]
mod tests {
    use super::TimerOutcome;
    use crate::connection::{ConnectionPhase, HalfClose};
    use crate::limits::CLOSE_TIMEOUT;
    use crate::login::LoginService;
    use crate::test_sessions::{LoginClient, sessions};
    use link::AbortReason;
    use wire::ChannelNumber;

    #[test]
    fn a_session_is_opened_and_closed_and_its_slot_is_free_again() {
        let mut sessions = sessions();
        let now = sessions.options.epoch;
        let mut client = LoginClient::connect(&mut sessions, None);
        let slot = client.slot;
        let deadline = now + sessions.options.login_timeout;
        assert_eq!(sessions.check_timer(slot, now), TimerOutcome::RearmAt(deadline));
        assert_eq!(sessions.check_timer(slot, deadline), TimerOutcome::Abort(AbortReason::Overdue));

        let request = client.start(&mut sessions, "PLAIN", b"\0guest\0guest");
        LoginService::default().log_in(&mut sessions, slot, request, now);
        client.open(&mut sessions);
        sessions.open_vhost(slot, b"/", now);
        let connection = sessions.connections.get(slot).expect("it is there");
        assert!(matches!(connection.phase, ConnectionPhase::Open { .. }) && connection.reservation.is_some());
        sessions.open_channel(slot, ChannelNumber(1), now);
        assert!(sessions.broker.has_channel(slot, ChannelNumber(1)));
        assert!(sessions.may_serve(slot) && !sessions.is_closed(slot));
        assert_eq!(sessions.check_timer(slot, deadline), TimerOutcome::Done, "no heartbeat was negotiated");

        sessions.close_after_flush(slot, now);
        let connection = sessions.connections.get(slot).expect("its output is not flushed");
        assert_eq!((connection.phase, connection.half_close), (ConnectionPhase::Leaving, HalfClose::Pending));
        assert!(connection.reservation.is_none() && !sessions.broker.has_channel(slot, ChannelNumber(1)));
        assert_eq!(sessions.check_timer(slot, now), TimerOutcome::RearmAt(now + CLOSE_TIMEOUT));
        assert!(sessions.remove(slot).is_some() && sessions.remove(slot).is_none());
        assert_eq!((sessions.connections.next_slot(), sessions.shared.connections()), (slot, 0));
        assert!(sessions.effects.output(slot).is_none());
    }

    #[test]
    fn a_virtual_host_that_is_not_there_is_refused() {
        let mut sessions = sessions();
        let now = sessions.options.epoch;
        let mut client = LoginClient::connect(&mut sessions, None);
        let request = client.start(&mut sessions, "PLAIN", b"\0guest\0guest");
        LoginService::default().log_in(&mut sessions, client.slot, request, now);
        client.open(&mut sessions);
        sessions.open_vhost(client.slot, b"nowhere", now);
        let connection = sessions.connections.get(client.slot).expect("it is there");
        assert_eq!(connection.phase, ConnectionPhase::Closing);
        assert!(connection.reservation.is_none() && !sessions.broker.has_channel(client.slot, ChannelNumber(1)));
    }
}
