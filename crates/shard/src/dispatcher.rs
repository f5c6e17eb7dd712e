//! The dispatcher: reads connections, splits their bytes into events, and hands each to the broker core, a login or a
//! federation link. Then it flushes what they wrote.
//!
//! A connection has a turn of at most `TURN_BYTES`; it keeps a buffer of its own only while something is half read.

use crate::abort_text::abort_reason;
use crate::access_review::AccessReview;
use crate::connection::ConnectionPhase;
use crate::event_dispatch::dispatch_event;
use crate::event_outcome::EventOutcome;
use crate::federation_links::FederationLinks;
use crate::flush::{FlushOutcome, flush_output};
use crate::limits::{
    BACKLOG_FLUSHES_PER_TICK, FLUSH_BYTES_MAX, FLUSHES_PER_BATCH, GREETING_TURNS_PER_TICK, RECEIVE_BUFFER_BYTES,
    RECEIVED_BYTES_MIN, TURN_BYTES,
};
use crate::link_context::LinkContext;
use crate::login::LoginService;
use crate::receive_buffer::ReceiveBuffer;
use crate::sessions::{Sessions, TimerOutcome};
use crate::work_sampler::WorkSampler;
use broker::ConnectionSlot;
use catalog::Refusal;
use link::{AbortReason, LinkError, ReceiveOutcome};
use queues::MessageStorage;
use session::ProtocolFault;
use std::time::Instant;
use wire::ChannelNumber;
use wire::Method;
use wire::method::connection;

/// Reads the connections of a shard, and carries out their events.
pub(crate) struct Dispatcher {
    pub sessions: Sessions,
    pub login: LoginService,
    pub federation_links: FederationLinks,
    access_review: AccessReview,
    receive_buffer: ReceiveBuffer,
    work: WorkSampler,
    pub draining: bool,
}

impl Dispatcher {
    pub fn new(sessions: Sessions) -> Self {
        let receive_buffer_bytes = RECEIVE_BUFFER_BYTES.max(2 * sessions.options.session.frame_bytes_max as usize);
        Dispatcher {
            work: WorkSampler::new(sessions.options.clock),
            sessions,
            login: LoginService::default(),
            federation_links: FederationLinks::default(),
            access_review: AccessReview::default(),
            receive_buffer: ReceiveBuffer::new(receive_buffer_bytes),
            draining: false,
        }
    }

    /// Gives a turn to each connection that waits for one, unless it is held for the disk.
    pub fn serve_ready(&mut self, now: Instant) {
        let Some(turns) = self.sessions.start_turns() else { return };
        let (mut greetings, mut later) = (0, Vec::new());
        for (at, &slot) in turns.iter().enumerate() {
            if self.sessions.effects.holds_all() {
                self.sessions.connections.postpone_turns(&turns[at..]);
                break;
            }
            if self.sessions.is_held(slot) {
                self.sessions.connections.hold(slot);
                continue;
            }
            if self
                .sessions
                .connections
                .get(slot)
                .is_some_and(|connection| connection.phase == ConnectionPhase::Greeting)
            {
                greetings += 1;
                if greetings > GREETING_TURNS_PER_TICK {
                    later.push(slot);
                    continue;
                }
            }
            if self.sessions.connections.start_turn(slot) {
                self.work.begin_turn();
                self.serve(slot, now);
                if let Some(worked) = self.work.end_turn() {
                    self.sessions.connections.add_work(slot, worked);
                }
                self.sessions.check_memory_growth(now);
                self.sessions.effects.mailbox.send(false);
            }
        }
        self.sessions.connections.postpone_turns(&later);
        self.sessions.connections.finish_turns(turns);
    }

    /// Serves a connection for one turn.
    fn serve(&mut self, slot: ConnectionSlot, now: Instant) {
        self.sessions.broker.start_turn();
        self.sessions.start_disk_turn(slot);
        let (links, mut cx) = self.federation(now);
        links.resume(slot, &mut cx);
        let mut turn_bytes = 0;
        let mut has_unparsed = false;
        if let Some(connection) = self.sessions.connections.get_mut(slot) {
            self.receive_buffer.load(&std::mem::take(&mut connection.unconsumed));
            has_unparsed = std::mem::take(&mut connection.has_unparsed);
        }
        if has_unparsed && self.is_broken_push(slot) {
            return self.on_peer_closed(slot, now);
        }
        loop {
            let may_serve = self.sessions.may_serve(slot);
            if !may_serve && self.sessions.is_closed(slot) && self.is_given_up(slot) {
                return self.on_peer_closed(slot, now);
            }
            let Some(connection) = self.sessions.connections.get_mut(slot) else { return };
            if !may_serve {
                connection.time.hold(now);
                // The connection is resumed by this flag alone, although more bytes may wait in the link.
                connection.has_unparsed = true;
                break;
            }
            connection.time.release(now);
            if !has_unparsed {
                if !connection.readable && !connection.peer_closed {
                    break;
                }
                if turn_bytes >= TURN_BYTES || self.sessions.is_held(slot) {
                    self.sessions.connections.enqueue(slot);
                    break;
                }
                match self.receive(slot, now) {
                    Some(bytes) => turn_bytes += bytes.max(RECEIVED_BYTES_MIN),
                    None => return,
                }
            }
            has_unparsed = false;
            let pending_before = self.sessions.effects.disk_pending_bytes();
            let is_stopped = self.dispatch_events(slot, now);
            self.sessions.note_stored(slot, pending_before);
            self.sessions.broker.flush_batch(&mut self.sessions.effects);
            self.propagate_demand(now);
            self.sessions.effects.send_acks(slot, Some(now));
            self.run_deferred(now);
            self.flush(now);
            let Some(connection) = self.sessions.connections.get_mut(slot) else { return };
            if is_stopped {
                connection.has_unparsed = true;
                if self.sessions.may_serve(slot) {
                    self.sessions.connections.enqueue(slot);
                } else if let Some(connection) = self.sessions.connections.get_mut(slot) {
                    connection.time.hold(now);
                }
                break;
            }
        }
        if self.is_broken_push(slot) {
            return self.on_peer_closed(slot, now);
        }
        if let Some(connection) = self.sessions.connections.get_mut(slot)
            && !self.receive_buffer.filled().is_empty()
        {
            connection.unconsumed = self.receive_buffer.filled().to_vec();
        }
        self.sessions.connections.note_body_room(slot);
    }

    /// One read. Returns how many bytes arrived, or `None` if the connection is over.
    fn receive(&mut self, slot: ConnectionSlot, now: Instant) -> Option<usize> {
        let connection = self.sessions.connections.get_mut(slot)?;
        let mut direct_bytes = connection.inbound.direct().len();
        if direct_bytes >= connection.lend_threshold_bytes {
            let pinned_bytes_max = self.sessions.shared.pinned_bytes_max();
            connection.lend_memory(pinned_bytes_max, self.sessions.effects.pool());
            direct_bytes = connection.inbound.direct().len();
        }
        let free = self.receive_buffer.free();
        let wanted = connection.receive_bytes_wanted(free.len());
        let wanted = wanted.min(self.sessions.memory.pressure().receive_bytes_max());
        let received = connection.link.receive(connection.inbound.direct(), &mut free[..wanted]);
        match received {
            Ok(ReceiveOutcome::Bytes { bytes, drained }) => {
                connection.inbound.direct_filled(bytes.min(direct_bytes));
                self.receive_buffer.add_filled(bytes.saturating_sub(direct_bytes));
                // After the peer's end a drained link must be read on, until it reports that it is closed.
                connection.readable = !drained || connection.peer_closed;
                connection.received_at = now;
                let mut lent_bytes = 0;
                if connection.lend_threshold_bytes < usize::MAX {
                    let copied;
                    (lent_bytes, copied) = connection.take_back_memory(bytes.min(direct_bytes));
                    self.sessions.effects.copied.bytes_in += copied as u64;
                }
                if connection.phase == ConnectionPhase::Greeting
                    && connection.link.certificate().is_some()
                    && let Some(greeting) = self.login.certificate_greeting(connection.token)
                {
                    connection.inbound.greet_with(greeting);
                }
                connection.traffic.count_received(bytes + lent_bytes);
                Some(bytes + lent_bytes)
            }
            Ok(ReceiveOutcome::Idle) => {
                connection.readable = false;
                connection.peer_closed = false;
                Some(0)
            }
            Ok(ReceiveOutcome::Closed) => {
                self.on_peer_closed(slot, now);
                None
            }
            Err(error) => {
                self.on_link_error(slot, &error, now);
                None
            }
        }
    }

    /// Carries out every event in the receive buffer. Returns whether it stopped before the last.
    fn dispatch_events(&mut self, slot: ConnectionSlot, now: Instant) -> bool {
        let mut consumed = 0;
        let mut is_stopped = false;
        let mut follows = self.sessions.may_follow(slot, now);
        self.sessions.broker.start_mail_tally();
        let mut is_memory_low = self.is_memory_low_for(slot);
        loop {
            let filled = self.receive_buffer.filled();
            if is_memory_low && self.sessions.must_await_memory(slot, &filled[consumed..]) {
                is_stopped = true;
                break;
            }
            let Some(connection) = self.sessions.connections.get_mut(slot) else { break };
            if connection.phase == ConnectionPhase::Leaving {
                consumed = filled.len();
                break;
            }
            let mut input = &filled[consumed..];
            let mut left_bytes = 0;
            let outcome = match connection.federation_link {
                None => {
                    let (broker, effects) = (&mut self.sessions.broker, &mut self.sessions.effects);
                    let shared = &self.sessions.shared;
                    let Some((out, pool)) = effects.session_writer(slot) else { break };
                    // While memory is low each publish is looked at before it is taken.
                    let event = match is_memory_low {
                        false => connection.inbound.next_run(&mut input, out, pool),
                        true => connection.inbound.next(&mut input, out, pool),
                    };
                    event.map(|event| {
                        event
                            .map(|event| dispatch_event(slot, event, follows, &mut left_bytes, broker, effects, shared))
                    })
                }
                Some(link) => {
                    let mut cx = LinkContext::new(&mut self.sessions, self.draining, now);
                    self.federation_links.receive(link, slot, &mut input, &mut cx)
                }
            };
            consumed = filled.len() - input.len() - left_bytes;
            let outcome = match outcome {
                Ok(Some(outcome)) => outcome,
                Ok(None) => break,
                Err(fault) => {
                    self.on_fault(slot, &fault, now);
                    continue;
                }
            };
            let outcome = match outcome {
                EventOutcome::AcknowledgeEarly => {
                    self.acknowledge_early(slot, now);
                    EventOutcome::Continue
                }
                EventOutcome::Grow => {
                    is_memory_low = self.check_memory_growth(slot, now);
                    EventOutcome::Continue
                }
                outcome => outcome,
            };
            match outcome {
                EventOutcome::Continue
                    if !self.sessions.effects.is_full(slot) && !self.sessions.broker.is_turn_over() => {}
                EventOutcome::Gather { channel } if self.continues_gather(slot, channel, consumed) => {}
                EventOutcome::Gather { .. } => {
                    self.sessions.broker.flush_definitions(slot, &mut self.sessions.effects);
                    is_stopped = true;
                    break;
                }
                EventOutcome::Continue | EventOutcome::Wait => {
                    is_stopped = true;
                    break;
                }
                EventOutcome::Follow { to } => {
                    // It is presented again, here or there.
                    consumed -= self.method_frame_bytes(slot);
                    follows = false;
                    if self.sessions.begin_move(slot, to, now) {
                        is_stopped = true;
                        break;
                    }
                }
                other => {
                    // What a link carries out draws for what it does.
                    if !matches!(other, EventOutcome::Handled) {
                        self.sessions.broker.draw_outcome();
                    }
                    self.apply_outcome(slot, other, now);
                    is_memory_low = self.check_memory_growth(slot, now);
                    let is_full = self.sessions.effects.is_full(slot);
                    if is_full || self.sessions.broker.is_turn_over() || self.sessions.is_verifying_password(slot) {
                        is_stopped = true;
                        break;
                    }
                }
            }
        }
        if self.sessions.effects.output(slot).is_some_and(|output| !output.out.is_empty()) {
            self.sessions.effects.make_dirty(slot);
        }
        if let Some(connection) = self.sessions.connections.get_mut(slot) {
            self.sessions.effects.copied.bytes_in += connection.inbound.take_copied_bytes();
        }
        self.receive_buffer.consume(consumed);
        self.sessions.note_mail(slot, now);
        is_stopped
    }

    fn method_frame_bytes(&self, slot: ConnectionSlot) -> usize {
        self.sessions.connections.get(slot).map_or(0, |connection| connection.inbound.method_frame_bytes())
    }

    /// Whether a connection whose peer has gone, and which must wait, is given up: it would wait for ever, or for nobody.
    fn is_given_up(&self, slot: ConnectionSlot) -> bool {
        self.sessions.broker.is_blocked_by_own_queues(slot)
            || self.sessions.is_verifying_password(slot)
            || self.is_redelivered(slot)
            || self.sessions.waits_in_vain(slot)
    }

    /// Whether commands of a connection may have to wait for memory. Links of federation carry what clients are waited for.
    fn is_memory_low_for(&self, slot: ConnectionSlot) -> bool {
        self.sessions.memory.pressure().is_low && self.federation_link(slot).is_none()
    }

    /// Checks memory after a command that may have taken much for few bytes. Returns whether the next may have to wait.
    fn check_memory_growth(&mut self, slot: ConnectionSlot, now: Instant) -> bool {
        self.sessions.check_memory_growth(now);
        self.is_memory_low_for(slot)
    }

    /// Whether the next method in the buffer continues a batch of definitions.
    fn continues_gather(&self, slot: ConnectionSlot, channel: ChannelNumber, consumed: usize) -> bool {
        let Some(connection) = self.sessions.connections.get(slot) else { return false };
        let next = connection.inbound.next_method(channel, &self.receive_buffer.filled()[consumed..]);
        next.is_some_and(|method| self.sessions.broker.may_batch(slot, &method))
    }

    fn apply_outcome(&mut self, slot: ConnectionSlot, outcome: EventOutcome, now: Instant) {
        let sessions = &mut self.sessions;
        match outcome {
            EventOutcome::Continue
            | EventOutcome::Grow
            | EventOutcome::Handled
            | EventOutcome::AcknowledgeEarly
            | EventOutcome::Wait
            | EventOutcome::Follow { .. }
            | EventOutcome::Gather { .. } => {}
            EventOutcome::Refuse { channel, refusal, method } => self.refuse(slot, channel, refusal, method, now),
            EventOutcome::LogIn(request) => self.login.log_in(sessions, slot, request, now),
            EventOutcome::OpenVhost { .. } if self.draining => {
                let refusal = sessions.shared.end_refusal();
                sessions.refuse_client(slot, ChannelNumber::CONNECTION, refusal, connection::Open::ID, now);
            }
            EventOutcome::OpenVhost { vhost } => sessions.open_vhost(slot, &vhost, now),
            EventOutcome::OpenChannel { channel } => sessions.open_channel(slot, channel, now),
            EventOutcome::CloseChannel { channel } => sessions.close_channel(slot, channel),
            EventOutcome::Tuned(tuning) => {
                if let Some(connection) = sessions.connections.get_mut(slot) {
                    connection.heartbeat = session::Heartbeat::new(tuning.heartbeat_s);
                    connection.tuning = Some(tuning);
                }
            }
            EventOutcome::UpdateSecret => {
                if let Some((out, pool)) = sessions.effects.writer(slot) {
                    out.method(
                        pool,
                        ChannelNumber::CONNECTION,
                        &Method::ConnectionUpdateSecretOk(connection::UpdateSecretOk {}),
                    );
                }
            }
            EventOutcome::Close => sessions.close_after_flush(slot, now),
        }
    }

    /// Refuses a command of a client or of a federation route.
    pub fn refuse(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        refusal: Refusal,
        method: (u16, u16),
        now: Instant,
    ) {
        if self.federation_link(slot).is_some() {
            let (links, mut cx) = self.federation(now);
            return links.on_refusal(slot, channel, &refusal.text, &mut cx);
        }
        self.sessions.refuse_client(slot, channel, refusal, method, now);
    }

    /// Handles a protocol fault of the peer: a client, or another broker.
    fn on_fault(&mut self, slot: ConnectionSlot, fault: &ProtocolFault, now: Instant) {
        if self.federation_link(slot).is_none() {
            return self.sessions.on_client_fault(slot, fault, now);
        }
        self.sessions.log_fault(slot, fault);
        let (links, mut cx) = self.federation(now);
        links.on_fault(slot, fault, &mut cx);
    }

    fn on_peer_closed(&mut self, slot: ConnectionSlot, now: Instant) {
        self.lose(slot, "the other broker closed the connection", now);
        self.remove_connection(slot, now);
    }

    fn on_link_error(&mut self, slot: ConnectionSlot, error: &LinkError, now: Instant) {
        self.sessions.log_link_error(slot, error);
        self.lose(slot, &error.to_string(), now);
        self.remove_connection(slot, now);
    }

    /// Flushes the outputs that were written to. Where they are very many, or much is sent, the others are left to the backlog, and so
    /// are those with much while others with much wait there.
    pub fn flush(&mut self, now: Instant) {
        let mut bytes = 0;
        for _ in 0..FLUSHES_PER_BATCH {
            let Some(slot) = self.sessions.effects.outputs.next_dirty() else { return };
            if self.sessions.effects.outputs.joins_backlog(slot) {
                self.sessions.effects.outputs.leave(slot);
                continue;
            }
            bytes += self.flush_connection(slot, now);
            if bytes >= FLUSH_BYTES_MAX {
                break;
            }
        }
        self.sessions.effects.outputs.leave_dirty();
    }

    /// Flushes outputs that earlier batches have left, and those that are written to then.
    pub fn flush_backlog(&mut self, now: Instant) {
        let mut bytes = 0;
        for _ in 0..BACKLOG_FLUSHES_PER_TICK {
            let Some(slot) = self.sessions.effects.outputs.next_in_backlog() else { break };
            bytes += self.flush_connection(slot, now);
            if bytes >= FLUSH_BYTES_MAX {
                break;
            }
        }
        self.flush(now);
    }

    /// Acknowledges to another broker what is safe of its messages, while more of them wait in the receive buffer.
    fn acknowledge_early(&mut self, slot: ConnectionSlot, now: Instant) {
        self.sessions.broker.flush_batch(&mut self.sessions.effects);
        self.propagate_demand(now);
        self.sessions.effects.send_acks(slot, Some(now));
        self.flush_connection(slot, now);
    }

    /// Returns how many bytes the link has taken.
    fn flush_connection(&mut self, slot: ConnectionSlot, now: Instant) -> usize {
        let sample = self.work.begin_send();
        let mut sent = 0;
        let (connections, effects) = (&mut self.sessions.connections, &mut self.sessions.effects);
        match flush_output(connections, &mut effects.outputs, slot, &effects.pool, now) {
            FlushOutcome::Flushed { bytes } => {
                sent = bytes;
                self.sessions.after_flush(slot);
            }
            FlushOutcome::Skipped => {}
            FlushOutcome::Failed(error) => self.on_link_error(slot, &error, now),
        }
        if let Some(began) = sample {
            let worked = self.work.end_send(began);
            self.sessions.connections.add_work(slot, worked);
        }
        sent
    }

    /// Carries out what concerns other connections than the one just served: refusals that other shards sent,
    /// connections that may continue.
    pub fn run_deferred(&mut self, now: Instant) {
        while let Some(deferred) = self.sessions.effects.refusals.pop() {
            // A channel may be refused several times at once, and is closed once.
            if deferred.channel > ChannelNumber::CONNECTION
                && !self.sessions.broker.has_channel(deferred.slot, deferred.channel)
            {
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

    /// Ends connections that are silent or too slow, and sends heartbeats.
    pub fn run_timers(&mut self, now: Instant) {
        while let Some(slot) = self.sessions.connections.next_expired(now) {
            match self.sessions.check_timer(slot, now) {
                TimerOutcome::Done => {}
                TimerOutcome::RearmAt(at) => self.sessions.connections.set_timer(slot, at),
                TimerOutcome::Abort(why) => self.abort_connection(slot, why, now),
            }
        }
    }

    /// Finishes the logins whose passwords were verified meanwhile.
    pub fn finish_verifications(&mut self, now: Instant) {
        if self.login.is_waiting() {
            self.login.finish_verifications(&mut self.sessions, now);
        }
    }

    /// Begins a review of access if it has changed, and continues one that is not complete.
    pub fn review_access(&mut self, now: Instant) {
        for (slot, refusal) in self.access_review.proceed(&mut self.sessions) {
            self.refuse(slot, ChannelNumber::CONNECTION, refusal, (0, 0), now);
        }
    }

    /// Whether a review of access is not complete.
    pub fn reviews_access(&self) -> bool {
        self.access_review.is_under_way(&self.sessions)
    }

    /// Ends a connection at once.
    pub fn abort_connection(&mut self, slot: ConnectionSlot, why: AbortReason, now: Instant) {
        if let Some(connection) = self.sessions.connections.get_mut(slot) {
            connection.link.abort(why);
        }
        self.lose(slot, abort_reason(why), now);
        self.remove_connection(slot, now);
    }

    /// Removes a connection that is over; a federation link that waited for that dials again.
    fn remove_connection(&mut self, slot: ConnectionSlot, now: Instant) {
        let connection = self.sessions.remove(slot);
        if let Some(connection) = &connection {
            self.login.forget(&self.sessions.shared, slot, connection, now);
        }
        if let Some(link) = connection.and_then(|connection| connection.closes_link) {
            self.federation_links.on_closed(link);
        }
    }

    /// Closes every connection because the broker stops, or its disk has failed.
    pub fn drain(&mut self, now: Instant) {
        if std::mem::replace(&mut self.draining, true) {
            return;
        }
        for slot in self.sessions.connections.slots() {
            let refusal = self.sessions.shared.end_refusal();
            match self.sessions.connections.get(slot).map(|connection| connection.phase) {
                Some(ConnectionPhase::Open { .. }) => {
                    self.refuse(slot, ChannelNumber::CONNECTION, refusal, (0, 0), now)
                }
                Some(ConnectionPhase::Greeting | ConnectionPhase::LoggedIn { .. }) => {
                    self.abort_connection(slot, AbortReason::Shutdown, now)
                }
                Some(ConnectionPhase::Closing | ConnectionPhase::Leaving) | None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
