//! Bytes in: read, split into events, carry out.
//!
//! Enters: a connection that may have something to read.  Leaves: commands to the broker, their refusals to the client.
//! Owns:   whose turn lasts how long.
//! Never:  keeps a buffer for a connection that has nothing half read.

use crate::connection::{HalfClose, ConnectionPhase};
use crate::effects::ShardEffects;
use crate::federate::hear;
use crate::handshake::greeting_with;
use crate::limits::TURN_BYTES;
use crate::shard::Shard;
use crate::shared_state::SharedState;
use crate::connection_stamps::is_duplicate;
use broker::{BodyRef, Broker, Flow, Publish, Slot};
use catalog::Refusal;
use link::{LinkError, Received};
use session::{Body, Event, Fault, Scope};
use std::io;
use std::time::Instant;
use wire::Method;
use wire::method::{basic, connection};

/// What an event comes to, once it borrows nothing any more.
pub(crate) enum EventOutcome {
    /// The next event.
    Continue,
    /// The next event; but the other broker, which has sent a part of what it may, is to hear what is safe of it.
    AcknowledgeEarly,
    /// The connection must wait.
    Wait,
    /// Definitions may go on; behind them the connection must wait.
    Gather { channel: u16 },
    /// The client's command is refused.
    Refuse { channel: u16, refusal: Refusal, method: (u16, u16) },
    /// A login.
    LogIn(crate::handshake::LoginRequest),
    /// A virtual host was chosen.
    OpenVhost { vhost: Vec<u8> },
    /// The client opens a channel.
    OpenChannel { channel: u16 },
    /// The client has closed a channel.
    CloseChannel { channel: u16 },
    /// Limits are settled.
    Tuned(session::Tuning),
    /// A new secret.
    UpdateSecret,
    /// The peer has ended the session.
    Close,
    /// Another broker, whose client this one is, has said something.
    Federation(federation::Hear),
}

impl Shard {
    /// Reads a connection for one turn.
    pub(crate) fn serve(&mut self, slot: Slot, now: Instant) {
        self.go_on_tied(slot, now);
        let mut have = 0;
        let mut turn_bytes = 0;
        let mut fresh = false;
        if let Some(connection) = self.connections.get_mut(slot) {
            have = connection.unconsumed.len();
            self.scratch[..have].copy_from_slice(&connection.unconsumed);
            connection.unconsumed = Vec::new();
            fresh = std::mem::take(&mut connection.has_unparsed);
        }
        loop {
            let may_read = self.may_serve(slot);
            if !may_read && self.is_closed(slot) && (self.broker.holds_its_own(slot) || self.comes_again(slot)) {
                self.lose(slot, "the other broker closed the connection", now);
                self.remove_connection(slot);
                return;
            }
            let Some(connection) = self.connections.get_mut(slot) else { return };
            if !may_read {
                // Whoever lets it go on looks at this alone, and bytes may wait in the link too.
                connection.has_unparsed = true;
                break;
            }
            if !fresh {
                if !connection.readable && !connection.peer_closed {
                    break;
                }
                if turn_bytes >= TURN_BYTES || self.effects.mailbox.is_congested() {
                    self.connections.enqueue(slot);
                    break;
                }
                match self.receive(slot, &mut have, now) {
                    Some(bytes) => turn_bytes += bytes,
                    None => return,
                }
            }
            fresh = false;
            let stopped = self.parse(slot, &mut have, now);
            self.broker.end_of_batch(&mut self.effects);
            self.effects.send_acks(slot, Some(now));
            self.run_deferred(now);
            self.flush(now);
            let Some(connection) = self.connections.get_mut(slot) else { return };
            if stopped {
                connection.has_unparsed = true;
                if self.may_serve(slot) {
                    self.connections.enqueue(slot);
                }
                break;
            }
        }
        if let Some(connection) = self.connections.get_mut(slot)
            && have > 0
        {
            connection.unconsumed = self.scratch[..have].to_vec();
        }
    }

    /// Whether the peer has closed the link, or it is broken.
    fn is_closed(&self, slot: Slot) -> bool {
        self.connections.get(slot).is_some_and(|connection| connection.peer_closed)
    }

    /// Whether the connection's next command may be carried out: it waits for no answer, no memory, and its client reads what it asked for.
    pub(crate) fn may_serve(&self, slot: Slot) -> bool {
        self.broker.may_read(slot) && !self.effects.is_full(slot) && !self.is_verifying_password(slot)
    }

    fn is_verifying_password(&self, slot: Slot) -> bool {
        self.connections.get(slot).is_some_and(|connection| connection.is_verifying_password)
    }

    /// One read. `None` if the connection is over.
    fn receive(&mut self, slot: Slot, have: &mut usize, now: Instant) -> Option<usize> {
        let connection = self.connections.get_mut(slot)?;
        let mut direct_bytes = connection.inbound.direct().len();
        if direct_bytes >= connection.lend_from_bytes {
            connection.lend_memory();
            direct_bytes = connection.inbound.direct().len();
        }
        let room = self.scratch.len() - *have;
        let wanted = connection.receive_bytes_wanted(room);
        let received = connection.link.receive(connection.inbound.direct(), &mut self.scratch[*have..*have + wanted]);
        match received {
            Ok(Received::Bytes { bytes, drained }) => {
                connection.inbound.direct_filled(bytes.min(direct_bytes));
                *have += bytes.saturating_sub(direct_bytes);
                // After the peer's end a drained link must be read on, until it says that it is closed.
                connection.readable = !drained || connection.peer_closed;
                connection.received_at = now;
                let mut taken_back = 0;
                if connection.lend_from_bytes < usize::MAX {
                    let copied;
                    (taken_back, copied) = connection.take_back_memory(bytes.min(direct_bytes));
                    self.effects.copied.bytes_in += copied as u64;
                }
                if connection.phase == ConnectionPhase::Greeting
                    && let Some(external) = &self.external
                    && connection.link.certificate().is_some()
                {
                    connection.inbound.greet_with(greeting_with(&external.greeting, connection.token));
                }
                Some(bytes + taken_back)
            }
            Ok(Received::Idle) => {
                connection.readable = false;
                connection.peer_closed = false;
                Some(0)
            }
            Ok(Received::Closed) => {
                self.lose(slot, "the other broker closed the connection", now);
                self.remove_connection(slot);
                None
            }
            Err(error) => {
                log_link_error(self.options.shard.0, slot, &connection.link.peer().address, &error);
                self.lose(slot, &error.to_string(), now);
                self.remove_connection(slot);
                None
            }
        }
    }

    /// Carries out every event in the buffer. Answers whether it stopped in the middle.
    fn parse(&mut self, slot: Slot, have: &mut usize, now: Instant) -> bool {
        let mut at = 0;
        let mut stopped = false;
        while let Some(connection) = self.connections.get_mut(slot) {
            if connection.phase == ConnectionPhase::Leaving {
                at = *have;
                break;
            }
            let Some((out, pool)) = self.effects.session_writer(slot) else { break };
            let mut input = &self.scratch[at..*have];
            let next = match connection.inbound.next(&mut input, out, pool) {
                Ok(Some(event)) => {
                    let taken = *have - input.len();
                    let next = match connection.federation_link {
                        None => dispatch_event(slot, event, &mut self.broker, &mut self.effects, &self.shared),
                        Some(tie) => {
                            let (ties, shared) = (&mut self.federation_links, &self.shared);
                            hear(ties, tie, slot, event, &mut self.broker, &mut self.effects, shared)
                        }
                    };
                    at = taken;
                    next
                }
                Ok(None) => {
                    at = *have - input.len();
                    break;
                }
                Err(fault) => {
                    at = *have - input.len();
                    self.on_fault(slot, &fault, now);
                    continue;
                }
            };
            let next = match next {
                EventOutcome::AcknowledgeEarly => {
                    self.acknowledge_early(slot, now);
                    EventOutcome::Continue
                }
                next => next,
            };
            match next {
                EventOutcome::Continue if !self.effects.is_full(slot) => {}
                EventOutcome::Gather { channel } if self.continues_gather(slot, channel, at, *have) => {}
                EventOutcome::Gather { .. } => {
                    self.broker.end_run(slot, &mut self.effects);
                    stopped = true;
                    break;
                }
                EventOutcome::Continue | EventOutcome::Wait => {
                    stopped = true;
                    break;
                }
                other => {
                    self.apply_outcome(slot, other, now);
                    if self.is_verifying_password(slot) {
                        stopped = true;
                        break;
                    }
                }
            }
        }
        if self.effects.output(slot).is_some_and(|output| !output.out.is_empty()) {
            self.effects.make_dirty(slot);
        }
        if let Some(connection) = self.connections.get_mut(slot) {
            self.effects.copied.bytes_in += connection.inbound.take_copied_bytes();
        }
        self.scratch.copy_within(at..*have, 0);
        *have -= at;
        stopped
    }

    /// Whether a run of definitions goes on with what is next in the buffer.
    fn continues_gather(&self, slot: Slot, channel: u16, at: usize, have: usize) -> bool {
        let Some(connection) = self.connections.get(slot) else { return false };
        let next = connection.inbound.next_method(channel, &self.scratch[at..have]);
        next.is_some_and(|method| self.broker.gathers(slot, &method))
    }

    fn apply_outcome(&mut self, slot: Slot, next: EventOutcome, now: Instant) {
        match next {
            EventOutcome::Continue | EventOutcome::AcknowledgeEarly | EventOutcome::Wait | EventOutcome::Gather { .. } => {}
            EventOutcome::Refuse { channel, refusal, method } => self.refuse(slot, channel, refusal, method, now),
            EventOutcome::LogIn(login) => self.log_in(slot, login, now),
            EventOutcome::OpenVhost { vhost } => self.open_vhost(slot, &vhost, now),
            EventOutcome::OpenChannel { channel } => self.open_channel(slot, channel, now),
            EventOutcome::CloseChannel { channel } => self.close_channel(slot, channel),
            EventOutcome::Tuned(tuning) => {
                if let Some(connection) = self.connections.get_mut(slot) {
                    connection.heartbeat = session::Heartbeat::new(tuning.heartbeat_s);
                }
            }
            EventOutcome::UpdateSecret => {
                if let Some((out, pool)) = self.effects.writer(slot) {
                    out.method(pool, 0, &Method::ConnectionUpdateSecretOk(connection::UpdateSecretOk {}));
                }
            }
            EventOutcome::Close => self.close_after_flush(slot, now),
            EventOutcome::Federation(hear) => self.heard(slot, hear, now),
        }
    }

    /// A command is refused: its channel or its connection ends.
    pub(crate) fn refuse(
        &mut self,
        slot: Slot,
        channel: u16,
        refusal: Refusal,
        (class_id, method_id): (u16, u16),
        now: Instant,
    ) {
        if self.is_tied(slot) {
            return self.route_refused(slot, channel, &refusal.text, now);
        }
        let scope = match refusal.scope {
            catalog::Scope::Channel if channel > 0 => Scope::Channel,
            _ => Scope::Connection,
        };
        let fault = Fault { code: refusal.code, scope, channel, class_id, method_id, text: session::cut(refusal.text) };
        self.on_fault(slot, &fault, now);
    }

    /// The peer did something wrong: it is told, and what it reaches ends.
    pub(crate) fn on_fault(&mut self, slot: Slot, fault: &Fault, now: Instant) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let peer = &*connection.link.peer().address;
        match fault.code {
            wire::ReplyCode::ConnectionForced => {
                tracing::debug!(shard = self.options.shard.0, slot, peer, fault = %fault, "told to leave")
            }
            _ => tracing::info!(shard = self.options.shard.0, slot, peer, fault = %fault, "refused"),
        }
        if let Some(tie) = connection.federation_link {
            return self.tie_failed(tie, slot, fault, now);
        }
        let Some((out, pool)) = self.effects.writer(slot) else { return };
        let done = connection.inbound.fail(fault, out, pool);
        match fault.scope {
            _ if done => self.close_after_flush(slot, now),
            Scope::Channel => self.close_channel(slot, fault.channel),
            Scope::Connection => {
                self.close_session(slot);
                self.enter_closing_phase(slot, ConnectionPhase::Closing, now);
            }
            Scope::Link => self.close_after_flush(slot, now),
        }
    }

    /// The session is over: what is written still goes out, then the link ends.
    pub(crate) fn close_after_flush(&mut self, slot: Slot, now: Instant) {
        self.close_session(slot);
        self.enter_closing_phase(slot, ConnectionPhase::Leaving, now);
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.half_close = HalfClose::Pending;
        }
        self.effects.make_dirty(slot);
    }
}

/// One event of a client.
#[inline]
fn dispatch_event(
    slot: Slot,
    event: Event<'_>,
    broker: &mut Broker,
    effects: &mut ShardEffects,
    shared: &SharedState,
) -> EventOutcome {
    match event {
        Event::Publish { channel, exchange, routing_key, mandatory, immediate, properties, body } => {
            let body = match &body {
                Body::Small(bytes) => BodyRef::Small(bytes),
                Body::Large(slice) => BodyRef::Large(slice),
            };
            let publish = Publish { exchange, routing_key, mandatory, immediate, properties, body };
            let is_twice = properties.has_headers()
                && broker.is_link(slot)
                && is_duplicate(slot, channel, &publish, broker, effects, shared);
            let published = match is_twice {
                false => broker.publish(slot, channel, publish, effects),
                true => broker.publish_nowhere(slot, channel),
            };
            match published {
                Ok(Flow::Go) => EventOutcome::Continue,
                Ok(Flow::Wait | Flow::Gather) => EventOutcome::Wait,
                Err(refusal) => EventOutcome::Refuse { channel, refusal, method: basic::Publish::ID },
            }
        }
        Event::Method { method: Method::ConnectionUpdateSecret(_), .. } => EventOutcome::UpdateSecret,
        Event::Method { channel, method } => {
            let id = method.id();
            match broker.command(slot, channel, method, effects) {
                Ok(Flow::Go) => EventOutcome::Continue,
                Ok(Flow::Wait) => EventOutcome::Wait,
                Ok(Flow::Gather) => EventOutcome::Gather { channel },
                Err(refusal) => EventOutcome::Refuse { channel, refusal, method: id },
            }
        }
        Event::ChannelOpened { channel } => EventOutcome::OpenChannel { channel },
        Event::ChannelClosed { channel, .. } => EventOutcome::CloseChannel { channel },
        Event::Login { mechanism, response, capabilities, .. } => EventOutcome::LogIn(crate::handshake::LoginRequest {
            mechanism: mechanism.as_bytes().into(),
            response: response.into(),
            capabilities,
        }),
        Event::Open { vhost } => EventOutcome::OpenVhost { vhost: vhost.as_bytes().into() },
        Event::Tuned(tuning) => EventOutcome::Tuned(tuning),
        Event::CloseRequested { .. } | Event::CloseOk => EventOutcome::Close,
        Event::ChannelCloseOk { .. } => EventOutcome::Continue,
        // A challenge is never sent, and the rest is for clients.
        Event::LoginResponse { .. }
        | Event::Deliver { .. }
        | Event::GetOk { .. }
        | Event::Return { .. }
        | Event::Start(_)
        | Event::Secure { .. }
        | Event::Tune(_)
        | Event::OpenOk
        | Event::Blocked { .. }
        | Event::Unblocked => EventOutcome::Close,
    }
}

/// A link has broken. What a peer did wrong, or for too long, is for an operator to know; that it went is not.
#[cold]
pub(crate) fn log_link_error(shard: u16, slot: Slot, peer: &str, error: &LinkError) {
    let is_offence = match error {
        LinkError::Tls(_) => true,
        LinkError::Lost(error) => matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::TimedOut),
        LinkError::Closed => false,
    };
    if is_offence {
        tracing::info!(shard, slot, peer, %error, "refused");
    } else {
        tracing::debug!(shard, slot, peer, %error, "connection lost");
    }
}
