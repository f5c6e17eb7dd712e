//! Connections follow their queue: one whose messages go to or come from one other shard moves there, so that they cost no mail.
//!
//! A connection is not read any more once it is to move, and leaves at a quiet point: when its publishes are confirmed, nothing
//! waits in its output, and every other shard has carried out what this one has sent it ([`Broker::ask_fence`]). So nothing can
//! overtake what it has done here. Who does not become quiet in time stays.
//!
//! [`Broker::ask_fence`]: broker::Broker::ask_fence

use crate::connection::{ConnectionPhase, HalfClose};
use crate::dispatcher::Dispatcher;
use crate::move_state::PendingMove;
use crate::moved_connection::MovedConnection;
use crate::sessions::Sessions;
use broker::{ConnectionSlot, SessionMobility};
use catalog::{SessionId, ShardId};
use session::BodyRoom;
use std::time::Instant;
use wire::ChannelNumber;

/// How a move goes on.
enum MoveStep {
    /// Something is under way.
    Wait,
    /// The other shards are asked whether something is.
    Ask,
    Depart,
    /// The connection stays.
    GiveUp,
    /// It is gone, or about to end.
    Drop,
}

impl Sessions {
    /// Whether a connection may leave this shard now, as far as its own past is concerned.
    #[inline]
    pub fn may_follow(&self, slot: ConnectionSlot, now: Instant) -> bool {
        self.shared.moves.is_enabled
            && self.shared.shards() > 1
            && self.connections.get(slot).is_some_and(|connection| connection.moves.may_begin(now))
    }

    /// A connection has published: it may belong elsewhere.
    #[inline]
    pub fn note_mail(&mut self, slot: ConnectionSlot, now: Instant) {
        let tally = self.broker.take_mail_tally();
        if tally.published == 0 || !self.may_follow(slot, now) {
            return;
        }
        let window_messages = self.shared.moves.window_messages;
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if let Some(to) = connection.moves.note(tally, window_messages) {
            self.begin_move(slot, to, now);
        }
    }

    /// A connection is to move to another shard, unless it belongs here or there are too many there. It is not read any more.
    #[cold]
    pub fn begin_move(&mut self, slot: ConnectionSlot, to: ShardId, now: Instant) -> bool {
        let is_bound = self.broker.mobility(slot) == SessionMobility::Bound;
        let is_crowded = !self.shared.has_place_for_move(to);
        let options = self.shared.moves;
        let Some(connection) = self.connections.get_mut(slot) else { return false };
        let may_move = !is_bound
            && !is_crowded
            && connection.federation_link.is_none()
            && matches!(connection.link.capabilities().name, "tcp" | "tls" | "unix" | "sim");
        if !may_move {
            connection.moves.stay_until(now + options.rest);
            return false;
        }
        let give_up_at = now + options.patience;
        connection.moves.pending = Some(PendingMove { to, give_up_at, is_fenced: false });
        self.moves.pending.push(slot);
        true
    }

    /// Goes on with the moves that have begun, when a tick has flushed its outputs.
    #[inline]
    pub fn proceed_moves(&mut self, now: Instant) {
        if !self.moves.pending.is_empty() {
            self.proceed_some_moves(now);
        }
    }

    #[cold]
    fn proceed_some_moves(&mut self, now: Instant) {
        for slot in std::mem::take(&mut self.moves.pending) {
            let Some(pending) = self.connections.get(slot).and_then(|connection| connection.moves.pending) else {
                continue;
            };
            match self.next_step(slot, pending, now) {
                MoveStep::Wait => self.moves.pending.push(slot),
                MoveStep::Ask => {
                    self.broker.ask_fence(slot, pending.to, &mut self.effects);
                    if let Some(connection) = self.connections.get_mut(slot) {
                        connection.moves.pending = Some(PendingMove { is_fenced: true, ..pending });
                    }
                    self.moves.pending.push(slot);
                }
                MoveStep::Depart => self.depart(slot, pending.to, now),
                step @ (MoveStep::GiveUp | MoveStep::Drop) => {
                    self.moves.stats.given_up += u64::from(matches!(step, MoveStep::GiveUp));
                    self.end_move(slot, now);
                }
            }
        }
    }

    fn next_step(&mut self, slot: ConnectionSlot, pending: PendingMove, now: Instant) -> MoveStep {
        let mobility = self.broker.mobility(slot);
        let is_refused = self.effects.refusals.iter().any(|refusal| refusal.slot == slot);
        let Some(connection) = self.connections.get_mut(slot) else { return MoveStep::Drop };
        let is_open = matches!(connection.phase, ConnectionPhase::Open { .. });
        if !is_open || connection.peer_closed || connection.half_close != HalfClose::Open || self.shared.is_stopping() {
            return MoveStep::Drop;
        }
        if now >= pending.give_up_at || mobility == SessionMobility::Bound {
            return MoveStep::GiveUp;
        }
        let is_receiving = connection.lent_bytes > 0
            || !connection.inbound.direct().is_empty()
            || connection.inbound.body_room() != BodyRoom::default();
        let is_sent = self.effects.outputs.get(slot).is_some_and(|output| {
            output.out.is_empty() && !output.blocked && output.stamps.is_none() && output.link_output.is_none()
        });
        let is_quiet = mobility == SessionMobility::Quiet
            && !is_refused
            && !is_receiving
            && is_sent
            && !connection.link.has_pending_output();
        if !is_quiet {
            return MoveStep::Wait;
        }
        if !pending.is_fenced {
            return MoveStep::Ask;
        }
        match self.broker.fence_reached(slot) {
            None => MoveStep::Wait,
            // The other shard lacks definitions that this one has: it is asked again.
            Some(false) => MoveStep::Ask,
            Some(true) => MoveStep::Depart,
        }
    }

    /// A connection stays, at least for a while, and is read again.
    fn end_move(&mut self, slot: ConnectionSlot, now: Instant) {
        self.broker.forget_fence(slot);
        let stays_until = now + self.shared.moves.rest;
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.moves.stay_until(stays_until);
            // Nobody read what the client sent meanwhile: that is not silence.
            connection.received_at = now;
            self.connections.enqueue(slot);
        }
    }

    fn depart(&mut self, slot: ConnectionSlot, to: ShardId, now: Instant) {
        let Some(mut connection) = self.connections.remove(slot) else { return };
        let id = SessionId { shard: self.options.shard, slot, serial: connection.serial };
        connection.first_id.get_or_insert(id);
        connection.moves.stay_until(now + self.shared.moves.rest);
        connection.is_queued = false;
        connection.is_reported = false;
        connection.timer_at = None;
        connection.stored_bytes = 0;
        connection.body_room = BodyRoom::default();
        let (session, output) = (self.broker.depart_session(slot), self.effects.outputs.take(slot));
        let (Some(session), Some(output)) = (session, output) else { return };
        self.shared.move_connection(self.options.shard, to);
        self.moves.stats.moved += 1;
        tracing::debug!(
            shard = self.options.shard.0,
            slot = slot.number(),
            peer = &*connection.link.peer().address,
            to = to.0,
            "connection follows its queue"
        );
        let copy_threshold_bytes = output.copy_threshold_bytes;
        let moved = MovedConnection { to, connection, out: output.out, copy_threshold_bytes, session };
        self.moves.departed.push_back((slot, moved));
    }

    /// When the first of the moves that have begun is given up.
    pub fn next_move_end(&self) -> Option<Instant> {
        let pending = self.moves.pending.iter().filter_map(|&slot| self.connections.get(slot)?.moves.pending);
        pending.map(|pending| pending.give_up_at).min()
    }

    /// Adds a connection that comes from another shard, for which it is counted here already.
    fn arrive(&mut self, moved: MovedConnection, now: Instant) -> ConnectionSlot {
        let MovedConnection { mut connection, out, copy_threshold_bytes, session, .. } = moved;
        connection.received_at = now;
        // Its link is registered anew, and edges of the time between are lost.
        connection.readable = true;
        connection.has_unparsed |= !connection.unconsumed.is_empty();
        let slot = self.connections.insert(connection);
        self.effects.outputs.open(slot, out, copy_threshold_bytes);
        let serial = self.connections.get(slot).map_or(0, |connection| connection.serial);
        let id = SessionId { shard: self.options.shard, slot, serial };
        self.broker.arrive_session(slot, id, session, &mut self.effects);
        self.connections.set_timer(slot, now);
        self.connections.enqueue(slot);
        slot
    }
}

impl Dispatcher {
    /// Adds a connection that comes from another shard. What has happened on the way may end it.
    pub fn arrive(&mut self, moved: MovedConnection, now: Instant) -> ConnectionSlot {
        let slot = self.sessions.arrive(moved, now);
        let refusal = match self.draining {
            true => Some(self.sessions.shared.end_refusal()),
            false => crate::access_review::revoked_access(slot, &self.sessions),
        };
        if let Some(refusal) = refusal {
            self.refuse(slot, ChannelNumber::CONNECTION, refusal, (0, 0), now);
        }
        slot
    }
}
