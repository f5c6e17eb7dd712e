//! Connections to other brokers, from the link that was dialled to the last word, and the two sides of each route.
//!
//! Enters: links, what other brokers say, times that are over.  Leaves: methods for them, channels here, the next try.
//! Owns:   the rule that a channel has the same number on both sides of a link, and a session of its own in the core.
//! Never:  knows what an operator wants; `federate` does.

use crate::connection::Phase;
use crate::push::BEGUN;
use crate::shard::Shard;
use crate::stamped;
use crate::tie::Stage;
use crate::ties::Dialled;
use broker::{Effects, ConnectionSlot};
use catalog::{ExchangeId, SessionId};
use federation::limits::{BACK_OFF_MIN, LAG_EVERY};
use federation::{Ack, Acks, Direction, End, RouteKind, RouteSpec, Told, Tracer};
use session::{Inbound, Outbound, SessionLimits};
use std::time::Instant;
use wire::method::confirm;

impl Shard {
    /// What a connection to another broker may use.
    pub(crate) fn tie_limits(&self, lends: Option<bool>) -> SessionLimits {
        let body_frame_bytes_max = if lends == Some(true) { self.options.rdma_frame_bytes_max } else { 0 };
        SessionLimits { owner_opens_channels: false, body_frame_bytes_max, ..self.options.session }
    }

    pub(crate) fn tie_up(&mut self, number: u32, Dialled { link, login, first }: Dialled, now: Instant) -> ConnectionSlot {
        let shape = link.shape();
        let limits = self.tie_limits(Some(shape.lend_from_bytes < usize::MAX));
        let (inbound, mut out) = (Inbound::client(&limits), Outbound::new());
        if let Some(tie) = self.ties.get(number) {
            tie.peering.begin(login, limits, &mut out, self.desk.pool());
            tie.transport = shape.name;
            tie.first = first;
            tie.connections += 1;
            tie.lag_at = now + LAG_EVERY;
        }
        let slot = self.place(link, inbound, out, now);
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
            connection.tie = Some(number);
        }
        if let Some(outlet) = self.desk.outlet(slot) {
            outlet.tie = Some(Box::default());
        }
        if let Some(tie) = self.ties.get(number) {
            tie.stage = Stage::Connected { slot };
        }
        self.desk.make_dirty(slot);
        self.ties.plan();
        slot
    }

    /// Looks at every tie that is due.
    pub(crate) fn tend_ties(&mut self, now: Instant) {
        if self.ties.next_at().is_none_or(|at| at > now) {
            return;
        }
        for number in self.ties.numbers() {
            let (draining, waits) = (self.draining, self.ties.has_forerunner(number));
            let Some(tie) = self.ties.get(number) else { continue };
            if tie.due().is_none_or(|at| at > now) {
                continue;
            }
            match tie.stage {
                Stage::Waiting { .. } if draining || tie.peering.routes().next().is_none() => tie.stage = Stage::Idle,
                Stage::Waiting { refused, .. } if waits => {
                    tie.stage = Stage::Waiting { until: now + BACK_OFF_MIN, refused };
                }
                Stage::Waiting { .. } => {
                    tie.stage = Stage::Dialling;
                    self.ties.dial(number);
                }
                Stage::Connected { slot } => self.tend_connected(number, slot, now),
                Stage::Idle | Stage::Dialling => {}
            }
        }
        self.ties.plan();
    }

    pub(crate) fn tend_connected(&mut self, number: u32, slot: ConnectionSlot, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        if tie.lag_at <= now {
            tie.lag_at = now + LAG_EVERY;
            if let Some((out, pool)) = self.desk.writer(slot) {
                tie.peering.ask_lag(out, pool);
            }
        }
        if let Some(tie) = self.ties.get(number)
            && tie.waits_until.is_some_and(|until| until <= now)
        {
            tie.waits_until = None;
            tie.peering.wait_is_over(self.desk.writer(slot));
        }
        let Some(tie) = self.ties.get(number) else { return };
        let due = |at: &Option<Instant>| at.is_some_and(|at| at <= now);
        let again: Vec<_> = tie.routes.iter().enumerate().filter(|(_, route)| due(&route.retry_at)).collect();
        let again: Vec<_> = again.into_iter().map(|(route, _)| route).collect();
        for route in again {
            if let Some(tie) = self.ties.get(number) {
                tie.route(route).retry_at = None;
            }
            self.begin_route(number, route, slot, now);
        }
    }

    /// What the other broker has said comes to this.
    pub(crate) fn heard(&mut self, slot: ConnectionSlot, hear: federation::Hear, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        let Some(tie) = connection.tie.and_then(|number| self.ties.get(number)) else { return };
        let Some((out, pool)) = self.desk.writer(slot) else { return };
        tie.peering.answer(hear, &mut connection.inbound, out, pool);
        self.carry_out_told(slot, now);
    }

    pub(crate) fn carry_out_told(&mut self, slot: ConnectionSlot, now: Instant) {
        loop {
            let Some(number) = self.tie_of(slot) else { return };
            let Some(told) = self.ties.get(number).and_then(|tie| tie.peering.next_told()) else { return };
            match told {
                Told::Tuned(tuning) => self.tuned(slot, tuning),
                Told::Open => self.tie_opened(number, slot, now),
                Told::Here(route) => self.make_here(number, route, slot, now),
                Told::Runs(route) => {
                    if let Some(tie) = self.ties.get(number) {
                        tie.runs(route);
                        tracing::info!(link = &*tie.spec.key.peer, route, "a federation route runs");
                    }
                }
                Told::RouteOver { route, channel, text } => {
                    if channel > 0 {
                        self.close_here(slot, channel);
                    }
                    self.route_over(number, route, text.as_deref(), now);
                }
                Told::Over(End { text, is_refusal, at_once }) => {
                    self.tie_lost(number, Some(text), is_refusal, at_once, now);
                    self.leave(slot, now);
                }
            }
        }
    }

    /// Whether this broker is the client of a connection.
    pub(crate) fn is_tied(&self, slot: ConnectionSlot) -> bool {
        self.tie_of(slot).is_some()
    }

    /// Whether all that a connection to another broker brings is kept there until it is acknowledged: one that is held back here and
    /// broken is lost at once, for what waits at the source does not wait for ever without anybody who takes it.
    pub(crate) fn comes_again(&self, slot: ConnectionSlot) -> bool {
        let tie = self.tie_of(slot).and_then(|number| self.ties.find_number(number));
        tie.is_some_and(|tie| tie.peering.routes().all(|(_, spec)| spec.ack == Ack::Confirm))
    }

    /// A turn of a connection begins: a route whose side here waited for an answer may go on.
    pub(crate) fn go_on_tied(&mut self, slot: ConnectionSlot, now: Instant) {
        if let Some(number) = self.tie_of(slot) {
            self.go_on_here(number, slot, now);
        }
    }

    /// A connection to another broker is gone, and why.
    pub(crate) fn lose(&mut self, slot: ConnectionSlot, why: &str, now: Instant) {
        if let Some(number) = self.tie_of(slot) {
            self.tie_lost(number, Some(why.into()), false, false, now);
        }
    }

    /// The other broker breaks the protocol, or speaks another.
    pub(crate) fn tie_failed(&mut self, number: u32, slot: ConnectionSlot, fault: &session::Fault, now: Instant) {
        let has_said_who = self.ties.get(number).is_none_or(|tie| tie.peering.has_said_who());
        let no_amqp = if has_said_who { "" } else { "it does not speak AMQP 0-9-1: " };
        self.wait_for_the_end(number, slot);
        self.tie_lost(number, Some(format!("{no_amqp}{fault}").into()), true, false, now);
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize)
            && let Some((out, pool)) = self.desk.writer(slot)
        {
            connection.inbound.fail(fault, out, pool);
        }
        self.leave(slot, now);
    }

    pub(crate) fn tie_of(&self, slot: ConnectionSlot) -> Option<u32> {
        self.connections.get(slot as usize)?.as_ref()?.tie
    }

    pub(crate) fn tuned(&mut self, slot: ConnectionSlot, tuning: session::Tuning) {
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        connection.heartbeat = session::Heartbeat::new(tuning.heartbeat_s);
        // Only now is it known what suits a link on which both ends have a say.
        connection.lend_from_bytes = connection.link.shape().lend_from_bytes;
        if connection.lend_from_bytes < usize::MAX {
            connection.inbound.lend_from(connection.lend_from_bytes);
            if let Some(outlet) = self.desk.outlet(slot) {
                outlet.out.set_part_bytes_min(connection.lend_from_bytes);
            }
        }
    }

    /// The connection is open: its session here opens too, and the routes begin.
    pub(crate) fn tie_opened(&mut self, number: u32, slot: ConnectionSlot, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        tie.first = None;
        let (vhost, user) = (tie.spec.key.vhost.clone(), tie.spec.user.clone());
        let catalog = self.broker.catalog();
        let found = catalog.users().find(|(_, known)| *known.name == *user).map(|(user, _)| user);
        let opened = match found {
            Some(user) => catalog.open_vhost(user, vhost.as_bytes()).map(|vhost| (user, vhost)).map_err(|why| why.text),
            None => Err(format!("there is no user '{user}' here any more")),
        };
        let (user, vhost) = match opened {
            Ok(opened) => opened,
            Err(text) => return self.end_tie(number, slot, &text, true, now),
        };
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        connection.phase = Phase::Open { user, vhost };
        let session = SessionId { shard: self.options.shard, slot, serial: connection.serial };
        let capabilities = broker::ClientCapabilities::default();
        self.broker.open_session(slot, broker::SessionLogin { session, user, vhost, capabilities });
        self.broker.mark_link(slot);
        self.set_timer(slot, now);
        let routes: Vec<_> =
            self.ties.get(number).into_iter().flat_map(|tie| tie.peering.routes()).map(|route| route.0).collect();
        for route in routes {
            self.begin_route(number, route, slot, now);
        }
        // Its last route may have been removed meanwhile.
        self.end_empty(number, slot, now);
    }

    /// The exchange of a route, here.
    pub(crate) fn exchange_here(&self, spec: &RouteSpec, slot: ConnectionSlot) -> Option<ExchangeId> {
        let Some(Some(connection)) = self.connections.get(slot as usize) else { return None };
        let Phase::Open { vhost, .. } = connection.phase else { return None };
        self.broker.catalog().exchange(vhost, spec.exchange.as_bytes())
    }

    pub(crate) fn begin_route(&mut self, number: u32, route: usize, slot: ConnectionSlot, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        let (Some(spec), Some(peer)) = (tie.peering.spec(route).cloned(), tie.peering.peer().cloned()) else { return };
        let found = self.exchange_here(&spec, slot);
        let pulls_or_taps = spec.direction == Direction::Pull || !matches!(spec.kind, RouteKind::Queue { .. });
        if found.is_none() && pulls_or_taps {
            let text = format!("there is no exchange '{}' here", spec.exchange);
            if let Some(tie) = self.ties.get(number) {
                tie.peering.route_failed(route, &text);
            }
            return self.route_over(number, route, Some(&text), now);
        }
        let like = found.and_then(|id| self.broker.catalog().exchange_info(id)).cloned();
        if let Some(vhost) = self.vhost_of_tie(number) {
            self.watch_wants(number, route, &spec, vhost);
        }
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        let Some(tie) = self.ties.get(number) else { return };
        let own = tie.peering.own().clone();
        if spec.direction == Direction::Pull {
            let uri = tie.spec.key.peer.clone();
            let source = match &spec.kind {
                RouteKind::Queue { queue } => queue,
                _ => &spec.exchange,
            };
            let tracer = Tracer::new(own, &peer, &uri, source, spec.hops_max);
            tie.route(route).tracer = Some(tracer.of_queue(matches!(spec.kind, RouteKind::Queue { .. })));
        }
        if let Some((out, pool)) = self.desk.writer(slot) {
            tie.peering.begin_route(route, like, &mut connection.inbound, out, pool);
        }
        self.ties.plan();
    }

    /// The side here of a route: a channel of the same number.
    pub(crate) fn make_here(&mut self, number: u32, route: usize, slot: ConnectionSlot, now: Instant) {
        let Some(tie) = self.ties.get(number) else { return };
        let (Some(spec), Some(channel)) = (tie.peering.spec(route).cloned(), tie.peering.channel(route)) else {
            return;
        };
        if !self.broker.has_channel(slot, channel) {
            self.broker.open_channel(slot, channel);
        }
        match spec.direction {
            Direction::Pull => {
                if spec.ack == Ack::Confirm {
                    let select = confirm::Select { no_wait: true }.into();
                    if let Err(refusal) = self.broker.command(slot, channel, select, &mut self.desk) {
                        return self.route_refused(slot, channel, &refusal.text, now);
                    }
                    if let Some(tie) = self.ties.get(number) {
                        tie.route(route).ack_every = Acks::every(spec.credit);
                    }
                    if let Some(out) = self.desk.outlet(slot).and_then(|outlet| outlet.tie.as_mut()) {
                        out.acknowledge(channel, Some(Acks::new(spec.credit)));
                    }
                }
                self.here_is_made(number, route, slot);
            }
            Direction::Push => {
                if let Some(tie) = self.ties.get(number) {
                    tie.route(route).made = BEGUN;
                }
                self.make_push(number, route, slot, now);
            }
        }
    }

    /// Both sides of a route are there.
    pub(crate) fn here_is_made(&mut self, number: u32, route: usize, slot: ConnectionSlot) {
        let Some(tie) = self.ties.get(number) else { return };
        if let Some((out, pool)) = self.desk.writer(slot) {
            tie.peering.here(route, out, pool);
        }
    }

    /// A command of a route was refused here, now or by another shard.
    pub(crate) fn route_refused(&mut self, slot: ConnectionSlot, channel: u16, text: &str, now: Instant) {
        let Some(number) = self.tie_of(slot) else { return };
        let route = self.ties.get(number).and_then(|tie| tie.peering.route_of(channel));
        let Some(route) = route else { return self.end_tie(number, slot, text, false, now) };
        self.desk.acknowledge(slot, None);
        self.close_here(slot, channel);
        let Some(Some(connection)) = self.connections.get_mut(slot as usize) else { return };
        if let (Some(tie), Some((out, pool))) = (self.ties.get(number), self.desk.writer(slot)) {
            tie.peering.end_channel(route, text, &mut connection.inbound, out, pool);
        }
        self.route_over(number, route, Some(text), now);
    }

    /// The channel here of a route goes; what was pushed on it and not acknowledged goes back to its queue.
    pub(crate) fn close_here(&mut self, slot: ConnectionSlot, channel: u16) {
        self.keep_counts(slot, Some(channel));
        if let Some(out) = self.desk.outlet(slot).and_then(|outlet| outlet.tie.as_mut()) {
            out.acknowledge(channel, None);
        }
        self.broker.close_channel(slot, channel, &mut self.desk);
    }

    /// What routes have pushed on a connection is kept beyond it.
    pub(crate) fn keep_counts(&mut self, slot: ConnectionSlot, only: Option<u16>) {
        stamped::forget(&self.household, &mut self.desk, slot, only);
        let Some(tie) = self.tie_of(slot).and_then(|number| self.ties.get(number)) else { return };
        let Some(out) = self.desk.outlet(slot).and_then(|outlet| outlet.tie.as_mut()) else { return };
        let channels: Vec<_> =
            tie.peering.routes().filter_map(|(route, _)| Some((route, tie.peering.channel(route)?))).collect();
        for (route, channel) in channels {
            if only.is_none_or(|only| only == channel)
                && let Some(pushed) = out.push(channel, None)
            {
                let here = tie.route(route);
                here.messages += pushed.messages;
                here.bytes += pushed.bytes;
                here.redelivered += pushed.redelivered;
                here.dropped += pushed.dropped;
            }
        }
    }

    pub(crate) fn route_over(&mut self, number: u32, route: usize, text: Option<&str>, now: Instant) {
        let chance = self.desk.random();
        if let Some(tie) = self.ties.get(number) {
            tracing::warn!(link = &*tie.spec.key.peer, route, text, "a federation route does not run");
            tie.route_over(route, chance, now);
        }
        self.ties.plan();
    }

    /// A connection to another broker makes no sense any more: it is told, and another may be made later.
    pub(crate) fn end_tie(&mut self, number: u32, slot: ConnectionSlot, text: &str, refused: bool, now: Instant) {
        self.say_goodbye(number, slot, now);
        self.tie_lost(number, Some(text.into()), refused, false, now);
    }

    /// A connection to another broker ends, and another is made at once.
    pub(crate) fn dial_anew(&mut self, number: u32, slot: ConnectionSlot, text: &str, now: Instant) {
        let is_open = self.ties.get(number).is_some_and(|tie| tie.peering.is_open());
        if is_open {
            self.say_goodbye(number, slot, now);
        }
        self.tie_lost(number, Some(text.into()), false, true, now);
        if !is_open {
            self.leave(slot, now);
        }
    }

    fn say_goodbye(&mut self, number: u32, slot: ConnectionSlot, now: Instant) {
        self.keep_counts(slot, None);
        // What is safe here does not come again.
        self.desk.acknowledge(slot, None);
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize)
            && let Some((out, pool)) = self.desk.writer(slot)
        {
            connection.inbound.close(wire::ReplyCode::Success.number(), "Goodbye", out, pool);
        }
        self.close_session(slot);
        self.limit_phase(slot, Phase::Closing, now);
        self.wait_for_the_end(number, slot);
    }

    /// This broker ends a connection: the next one is made when it is over, so that what was sent on it comes first.
    fn wait_for_the_end(&mut self, number: u32, slot: ConnectionSlot) {
        if let Some(Some(connection)) = self.connections.get_mut(slot as usize)
            && let Some(tie) = self.ties.get(number)
        {
            connection.ends = Some(number);
            tie.ending = true;
        }
    }

    /// There is no connection any more, or none could be made.
    pub(crate) fn tie_lost(&mut self, number: u32, why: Option<Box<str>>, refused: bool, at_once: bool, now: Instant) {
        let chance = self.desk.random();
        if let Some(tie) = self.ties.get(number) {
            if let Stage::Connected { slot } = tie.stage {
                self.keep_counts(slot, None);
                if let Some(Some(connection)) = self.connections.get_mut(slot as usize) {
                    connection.tie = None;
                }
            }
            let Some(tie) = self.ties.get(number) else { return };
            tie.lost(why, refused, at_once, chance, now);
            let error = tie.last_error.as_deref();
            tracing::warn!(link = &*tie.spec.key.peer, error, "a federation link is not connected");
            if tie.leaves && !tie.ending {
                self.ties.remove(number);
            }
        }
        self.ties.plan();
    }
}
