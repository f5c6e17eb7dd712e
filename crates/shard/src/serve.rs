//! Bytes in: read, split into events, carry out.
//!
//! Enters: a connection that may have something to read.  Leaves: commands to the broker, their refusals to the client.
//! Owns:   whose turn lasts how long.
//! Never:  keeps a buffer for a connection that has nothing half read.

use crate::connection::{Farewell, Phase};
use crate::desk::Desk;
use crate::federate::hear;
use crate::handshake::greeting_with;
use crate::household::Household;
use crate::limits::TURN_BYTES;
use crate::shard::Shard;
use crate::stamped::was_here;
use broker::{BodyRef, Broker, ReadControl, Publish, ConnectionSlot};
use catalog::Refusal;
use link::{LinkError, Received};
use session::{Body, Event, Fault, Scope};
use std::io;
use std::time::Instant;
use wire::Method;
use wire::method::{basic, connection};

/// What an event comes to, once it borrows nothing any more.
pub(crate) enum Next {
    /// The next event.
    Go,
    /// The next event; but the other broker, which has sent a part of what it may, is to hear what is safe of it.
    Acknowledge,
    /// The connection must wait.
    Wait,
    /// Definitions may go on; behind them the connection must wait.
    Gather { channel: u16 },
    /// The client's command is refused.
    Refuse { channel: u16, refusal: Refusal, method: (u16, u16) },
    /// A login.
    Login(crate::handshake::Login),
    /// A virtual host was chosen.
    Open { vhost: Vec<u8> },
    /// The client opens a channel.
    OpenChannel { channel: u16 },
    /// The client has closed a channel.
    CloseChannel { channel: u16 },
    /// Limits are settled.
    Tuned(session::Tuning),
    /// A new secret.
    Secret,
    /// The peer has ended the session.
    Leave,
    /// Another broker, whose client this one is, has said something.
    Heard(federation::Hear),
}

impl Shard {
    /// Reads a connection for one turn.
    pub(crate) fn serve(&mut self, slot: ConnectionSlot, now: Instant) {
        self.go_on_tied(slot, now);
        let mut have = 0;
        let mut turn_bytes = 0;
        let mut fresh = false;
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
            have = connection.kept.len();
            self.scratch[..have].copy_from_slice(&connection.kept);
            connection.kept = Vec::new();
            fresh = std::mem::take(&mut connection.unparsed);
        }
        loop {
            let may_read = self.may_serve(slot);
            if !may_read && self.is_closed(slot) && (self.broker.is_blocked_by_own_queues(slot) || self.comes_again(slot)) {
                self.lose(slot, "the other broker closed the connection", now);
                self.remove(slot);
                return;
            }
            let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
            if !may_read {
                // Whoever lets it go on looks at this alone, and bytes may wait in the link too.
                connection.unparsed = true;
                break;
            }
            if !fresh {
                if !connection.readable && !connection.peer_closed {
                    break;
                }
                if turn_bytes >= TURN_BYTES || self.desk.mail.is_congested() {
                    self.enqueue(slot);
                    break;
                }
                match self.read(slot, &mut have, now) {
                    Some(bytes) => turn_bytes += bytes,
                    None => return,
                }
            }
            fresh = false;
            let stopped = self.parse(slot, &mut have, now);
            self.broker.flush_batch(&mut self.desk);
            self.desk.acknowledge(slot, Some(now));
            self.desk_work(now);
            self.flush(now);
            let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
            if stopped {
                connection.unparsed = true;
                if self.may_serve(slot) {
                    self.enqueue(slot);
                }
                break;
            }
        }
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize)
            && have > 0
        {
            connection.kept = self.scratch[..have].to_vec();
        }
    }

    /// Whether the peer has closed the link, or it is broken.
    fn is_closed(&self, slot: ConnectionSlot) -> bool {
        matches!(self.connections.get(slot as usize), Some(Some(connection)) if connection.peer_closed)
    }

    /// Whether the connection's next command may be carried out: it waits for no answer, no memory, and its client reads what it asked for.
    pub(crate) fn may_serve(&self, slot: ConnectionSlot) -> bool {
        self.broker.may_read(slot) && !self.desk.is_full(slot) && !self.is_proving(slot)
    }

    fn is_proving(&self, slot: ConnectionSlot) -> bool {
        matches!(self.connections.get(slot as usize), Some(Some(connection)) if connection.proving)
    }

    /// One read. `None` if the connection is over.
    fn read(&mut self, slot: ConnectionSlot, have: &mut usize, now: Instant) -> Option<usize> {
        let connection = self.connections.get_mut(slot as usize)?.as_mut()?;
        let mut direct_bytes = connection.inbound.direct().len();
        if direct_bytes >= connection.lend_from_bytes {
            connection.lend();
            direct_bytes = connection.inbound.direct().len();
        }
        let room = self.scratch.len() - *have;
        let wanted = connection.inbound_wanted(room);
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
                    (taken_back, copied) = connection.settle(bytes.min(direct_bytes));
                    self.desk.copied.bytes_in += copied as u64;
                }
                if connection.phase == Phase::Greeting
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
                self.remove(slot);
                None
            }
            Err(error) => {
                tell_of_end(self.options.shard.0, slot, &connection.link.peer().address, &error);
                self.lose(slot, &error.to_string(), now);
                self.remove(slot);
                None
            }
        }
    }

    /// Carries out every event in the buffer. Answers whether it stopped in the middle.
    fn parse(&mut self, slot: ConnectionSlot, have: &mut usize, now: Instant) -> bool {
        let mut at = 0;
        let mut stopped = false;
        while let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
            if connection.phase == Phase::Leaving {
                at = *have;
                break;
            }
            let Some((out, pool)) = self.desk.session_writer(slot) else { break };
            let mut input = &self.scratch[at..*have];
            let next = match connection.inbound.next(&mut input, out, pool) {
                Ok(Some(event)) => {
                    let taken = *have - input.len();
                    let next = match connection.tie {
                        None => carry_out(slot, event, &mut self.broker, &mut self.desk, &self.household),
                        Some(tie) => {
                            let (ties, household) = (&mut self.ties, &self.household);
                            hear(ties, tie, slot, event, &mut self.broker, &mut self.desk, household)
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
                    self.fail(slot, &fault, now);
                    continue;
                }
            };
            let next = match next {
                Next::Acknowledge => {
                    self.acknowledge_early(slot, now);
                    Next::Go
                }
                next => next,
            };
            match next {
                Next::Go if !self.desk.is_full(slot) => {}
                Next::Gather { channel } if self.gathers_on(slot, channel, at, *have) => {}
                Next::Gather { .. } => {
                    self.broker.flush_definitions(slot, &mut self.desk);
                    stopped = true;
                    break;
                }
                Next::Go | Next::Wait => {
                    stopped = true;
                    break;
                }
                other => {
                    self.act(slot, other, now);
                    if self.is_proving(slot) {
                        stopped = true;
                        break;
                    }
                }
            }
        }
        if self.desk.outlet(slot).is_some_and(|outlet| !outlet.out.is_empty()) {
            self.desk.make_dirty(slot);
        }
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
            self.desk.copied.bytes_in += connection.inbound.take_copied_bytes();
        }
        self.scratch.copy_within(at..*have, 0);
        *have -= at;
        stopped
    }

    /// Whether a run of definitions goes on with what is next in the buffer.
    fn gathers_on(&self, slot: ConnectionSlot, channel: u16, at: usize, have: usize) -> bool {
        let Some(Some(connection)) = self.connections.get(slot as usize) else { return false };
        let next = connection.inbound.next_method(channel, &self.scratch[at..have]);
        next.is_some_and(|method| self.broker.may_batch(slot, &method))
    }

    fn act(&mut self, slot: ConnectionSlot, next: Next, now: Instant) {
        match next {
            Next::Go | Next::Acknowledge | Next::Wait | Next::Gather { .. } => {}
            Next::Refuse { channel, refusal, method } => self.refuse(slot, channel, refusal, method, now),
            Next::Login(login) => self.log_in(slot, login, now),
            Next::Open { vhost } => self.open_vhost(slot, &vhost, now),
            Next::OpenChannel { channel } => self.open_channel(slot, channel, now),
            Next::CloseChannel { channel } => self.close_channel(slot, channel),
            Next::Tuned(tuning) => {
                if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
                    connection.heartbeat = session::Heartbeat::new(tuning.heartbeat_s);
                }
            }
            Next::Secret => {
                if let Some((out, pool)) = self.desk.writer(slot) {
                    out.method(pool, 0, &Method::ConnectionUpdateSecretOk(connection::UpdateSecretOk {}));
                }
            }
            Next::Leave => self.leave(slot, now),
            Next::Heard(hear) => self.heard(slot, hear, now),
        }
    }

    /// A command is refused: its channel or its connection ends.
    pub(crate) fn refuse(
        &mut self,
        slot: ConnectionSlot,
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
        self.fail(slot, &fault, now);
    }

    /// The peer did something wrong: it is told, and what it reaches ends.
    pub(crate) fn fail(&mut self, slot: ConnectionSlot, fault: &Fault, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        let peer = &*connection.link.peer().address;
        match fault.code {
            wire::ReplyCode::ConnectionForced => {
                tracing::debug!(shard = self.options.shard.0, slot, peer, fault = %fault, "told to leave")
            }
            _ => tracing::info!(shard = self.options.shard.0, slot, peer, fault = %fault, "refused"),
        }
        if let Some(tie) = connection.tie {
            return self.tie_failed(tie, slot, fault, now);
        }
        let Some((out, pool)) = self.desk.writer(slot) else { return };
        let done = connection.inbound.fail(fault, out, pool);
        match fault.scope {
            _ if done => self.leave(slot, now),
            Scope::Channel => self.close_channel(slot, fault.channel),
            Scope::Connection => {
                self.close_session(slot);
                self.limit_phase(slot, Phase::Closing, now);
            }
            Scope::Link => self.leave(slot, now),
        }
    }

    /// The session is over: what is written still goes out, then the link ends.
    pub(crate) fn leave(&mut self, slot: ConnectionSlot, now: Instant) {
        self.close_session(slot);
        self.limit_phase(slot, Phase::Leaving, now);
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
            connection.farewell = Farewell::WhenSent;
        }
        self.desk.make_dirty(slot);
    }
}

/// One event of a client.
#[inline]
fn carry_out(slot: ConnectionSlot, event: Event<'_>, broker: &mut Broker, desk: &mut Desk, household: &Household) -> Next {
    match event {
        Event::Publish { channel, exchange, routing_key, mandatory, immediate, properties, body } => {
            let body = match &body {
                Body::Small(bytes) => BodyRef::Small(bytes),
                Body::Large(slice) => BodyRef::Large(slice),
            };
            let publish = Publish { exchange, routing_key, mandatory, immediate, properties, body };
            let is_twice = properties.has_headers()
                && broker.is_link(slot)
                && was_here(slot, channel, &publish, broker, desk, household);
            let published = match is_twice {
                false => broker.publish(slot, channel, publish, desk),
                true => broker.publish_duplicate(slot, channel),
            };
            match published {
                Ok(ReadControl::Continue) => Next::Go,
                Ok(ReadControl::Pause | ReadControl::Batch) => Next::Wait,
                Err(refusal) => Next::Refuse { channel, refusal, method: basic::Publish::ID },
            }
        }
        Event::Method { method: Method::ConnectionUpdateSecret(_), .. } => Next::Secret,
        Event::Method { channel, method } => {
            let id = method.id();
            match broker.command(slot, channel, method, desk) {
                Ok(ReadControl::Continue) => Next::Go,
                Ok(ReadControl::Pause) => Next::Wait,
                Ok(ReadControl::Batch) => Next::Gather { channel },
                Err(refusal) => Next::Refuse { channel, refusal, method: id },
            }
        }
        Event::ChannelOpened { channel } => Next::OpenChannel { channel },
        Event::ChannelClosed { channel, .. } => Next::CloseChannel { channel },
        Event::Login { mechanism, response, capabilities, .. } => Next::Login(crate::handshake::Login {
            mechanism: mechanism.as_bytes().into(),
            response: response.into(),
            capabilities,
        }),
        Event::Open { vhost } => Next::Open { vhost: vhost.as_bytes().into() },
        Event::Tuned(tuning) => Next::Tuned(tuning),
        Event::CloseRequested { .. } | Event::CloseOk => Next::Leave,
        Event::ChannelCloseOk { .. } => Next::Go,
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
        | Event::Unblocked => Next::Leave,
    }
}

/// A link has broken. What a peer did wrong, or for too long, is for an operator to know; that it went is not.
#[cold]
pub(crate) fn tell_of_end(shard: u16, slot: ConnectionSlot, peer: &str, error: &LinkError) {
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
