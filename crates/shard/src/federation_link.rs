//! One federation link of a shard, from one connection to the next.
//!
//! Enters: the outcome of its dials, what its session decides, timers.  Leaves: commands for the broker core, bytes for the other
//!         broker.
//! Owns:   its phase, its routes at both ends, and the rule that a channel has the same number on both sides of the link.

use crate::binding_watch::BindingWatch;
use crate::close_count::CloseCount;
use crate::connection::ConnectionPhase;
use crate::effects::ShardEffects;
use crate::link_context::LinkContext;
use crate::link_dial::DialedLink;
use crate::link_id::FederationLinkId;
use crate::link_record::LinkRecord;
use crate::link_timers::LinkTimers;
use crate::local_routes::LocalRoutes;
use crate::push_probe::AfterRefusal;
use broker::{ConnectionSlot, Effects};
use catalog::{BindingChange, SessionId};
use federation::{AckBatcher, AckMode, LinkDecision, LinkSession, LocalSetup, SessionEnd};
use federation::{BrokerIdentity, LinkSpec, QueueHop, RouteDirection, RouteId, RouteKind, RouteSpec, Tracer};
use link::Link;
use queues::MessageStorage;
use session::{Inbound, Outbound, Tuning};
use std::any::Any;
use std::time::Instant;
use wire::{ChannelNumber, method::confirm};

/// How far a link has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkPhase {
    /// It has no routes.
    Idle,
    /// It dials then.
    Waiting {
        until: Instant,
        refused: bool,
    },
    /// The dial with this serial is under way.
    Dialing {
        serial: u64,
    },
    Connected {
        slot: ConnectionSlot,
    },
}

/// A federation link in one direction.
pub(crate) struct FederationLink {
    id: FederationLinkId,
    pub spec: LinkSpec,
    /// The direction of all its routes. A link has a connection for each direction: while the other broker throttles what is
    /// pushed it reads nothing from that connection, but must still read the requests of routes that pull.
    pub direction: RouteDirection,
    pub session: LinkSession,
    pub phase: LinkPhase,
    pub routes: LocalRoutes,
    pub record: LinkRecord,
    timers: LinkTimers,
    /// See [`DialedLink::bootstrap`].
    bootstrap: Option<Box<dyn Any + Send>>,
    /// How often it has dialed: it tries its addresses in turn.
    dials: usize,
    /// Which message the other broker may close its connections for.
    pub close_count: CloseCount,
    /// The operator has removed it; it is dropped when its connection is over.
    pub is_removed: bool,
    /// This broker has closed the last connection, which is not over. The other broker may still be busy with what it was sent
    /// there, and messages sent on a new connection would overtake those.
    pub is_closing: bool,
}

impl FederationLink {
    pub fn new(id: FederationLinkId, spec: LinkSpec, direction: RouteDirection, cx: &LinkContext<'_>) -> Self {
        let own = BrokerIdentity { cluster_name: cx.options.cluster_name.clone(), vhost: spec.key.vhost.clone() };
        FederationLink {
            id,
            spec,
            direction,
            session: LinkSession::new(own, cx.session_limits(false), cx.effects.output_bytes_max()),
            phase: LinkPhase::Idle,
            routes: LocalRoutes::default(),
            record: LinkRecord::new(cx.now),
            timers: LinkTimers::new(cx.now),
            bootstrap: None,
            dials: 0,
            close_count: CloseCount::default(),
            is_removed: false,
            is_closing: false,
        }
    }

    /// Whether nothing is left of a link that was removed.
    pub fn is_finished(&self) -> bool {
        let has_duties = match self.phase {
            LinkPhase::Idle => false,
            LinkPhase::Waiting { .. } | LinkPhase::Dialing { .. } => self.session.has_left_queues(),
            LinkPhase::Connected { .. } => true,
        };
        self.is_removed && !self.is_closing && !has_duties
    }

    /// The next timer of the link.
    pub fn due(&self) -> Option<Instant> {
        match self.phase {
            LinkPhase::Idle | LinkPhase::Dialing { .. } => None,
            LinkPhase::Waiting { .. } if self.is_closing => None,
            LinkPhase::Waiting { until, .. } => Some(until),
            LinkPhase::Connected { .. } => {
                let link_timer = self.timers.next();
                Some(self.routes.next_retry().map_or(link_timer, |retry| retry.min(link_timer)))
            }
        }
    }

    /// The address to dial now.
    pub fn next_url(&mut self) -> &str {
        let others = &self.spec.options.other_urls;
        let at = self.dials % (others.len() + 1);
        self.dials = self.dials.wrapping_add(1);
        at.checked_sub(1).map_or(&*self.spec.url, |at| &*others[at])
    }

    /// Starts a session over a link that was dialed. Returns what the connection table needs.
    pub fn start_session(&mut self, dialed: DialedLink, cx: &LinkContext<'_>) -> (Box<dyn Link>, Inbound, Outbound) {
        let DialedLink { link, login, bootstrap } = dialed;
        let shape = link.capabilities();
        let limits = cx.session_limits(shape.lend_threshold_bytes < usize::MAX);
        let (inbound, mut out) = (Inbound::client(&limits), Outbound::new());
        self.session.begin(login, limits, &mut out, cx.effects.pool());
        self.bootstrap = bootstrap;
        self.record.connected(shape.name);
        self.timers.start_lag_interval(cx.now);
        (link, inbound, out)
    }

    /// The connection has got its slot.
    pub fn connected(&mut self, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        if let Some(connection) = cx.connections.get_mut(slot) {
            connection.federation_link = Some(self.id);
        }
        if let Some(output) = cx.effects.output(slot) {
            output.link_output = Some(Box::default());
        }
        self.phase = LinkPhase::Connected { slot };
        cx.effects.make_dirty(slot);
        cx.timers_changed = true;
    }

    /// The connection is gone, or could not be made: waits for the next try.
    pub fn lost(&mut self, why: Option<Box<str>>, refused: bool, at_once: bool, cx: &mut LinkContext<'_>) {
        let chance = cx.effects.random();
        if let LinkPhase::Connected { slot } = self.phase {
            self.routes.keep_counts(&self.session, slot, None, cx);
            if let Some(connection) = cx.connections.get_mut(slot) {
                connection.federation_link = None;
            }
        }
        if self.session.routes.is_empty() && !at_once {
            self.session.give_up_left_queues(why.as_deref().unwrap_or("the link is not connected"));
            self.report_given_up_queues();
        }
        self.record.disconnected(why);
        self.session.disconnect();
        self.bootstrap = None;
        self.routes.disconnect();
        let until = cx.now + self.timers.next_retry(refused, at_once, self.spec.options.reconnect_delay, chance);
        self.phase = LinkPhase::Waiting { until, refused };
        let error = self.record.last_error.as_deref();
        tracing::warn!(link = &*self.spec.key.peer, error, "a federation link is not connected");
        cx.timers_changed = true;
    }

    /// Closes the connection, for a reason that another one later may not meet.
    pub fn close(&mut self, slot: ConnectionSlot, why: &str, refused: bool, cx: &mut LinkContext<'_>) {
        self.send_close(slot, cx);
        self.lost(Some(why.into()), refused, false, cx);
    }

    /// Closes the connection and dials again at once.
    pub fn reconnect(&mut self, slot: ConnectionSlot, why: &str, cx: &mut LinkContext<'_>) {
        let is_open = self.session.is_open();
        if is_open {
            self.send_close(slot, cx);
        }
        self.lost(Some(why.into()), false, true, cx);
        if !is_open {
            cx.close_when_sent(slot);
        }
    }

    /// Whether it has nothing to do at the other broker.
    pub fn is_unused(&self) -> bool {
        self.session.routes.is_empty() && !self.session.has_left_queues()
    }

    /// Closes a connection that has nothing to do.
    pub fn close_if_unused(&mut self, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        if self.session.is_open() && self.is_unused() {
            self.close(slot, "it has no routes", false, cx);
        }
    }

    /// Begins to delete what removed routes have left at the other broker.
    pub fn clean_up(&mut self, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        if let Some(connection) = cx.connections.get_mut(slot)
            && let Some((out, pool)) = cx.effects.writer(slot)
        {
            self.session.clean_up(&mut connection.inbound, out, pool);
        }
    }

    /// Tells the operator which queues stay at the other broker.
    pub fn report_given_up_queues(&mut self) {
        for queue in self.session.take_given_up_queues() {
            let (name, why) = (&*String::from_utf8_lossy(&queue.name), &*queue.why);
            let link = &*self.spec.key.peer;
            tracing::warn!(
                link,
                queue = name,
                why,
                "the queue of a removed federation route stays at the other broker"
            );
        }
    }

    fn send_close(&mut self, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        self.routes.keep_counts(&self.session, slot, None, cx);
        // What is safe here is not sent again.
        cx.effects.send_acks(slot, None);
        if let Some(connection) = cx.connections.get_mut(slot)
            && let Some((out, pool)) = cx.effects.writer(slot)
        {
            connection.inbound.close(wire::ReplyCode::Success.number(), "Goodbye", out, pool);
        }
        cx.close_session(slot);
        cx.connections.enter_closing_phase(slot, ConnectionPhase::Closing, cx.now);
        self.is_closing |= cx.mark_closing(slot, self.id);
    }

    /// The other broker violates the protocol, or speaks another one.
    pub fn on_fault(&mut self, slot: ConnectionSlot, fault: &session::ProtocolFault, cx: &mut LinkContext<'_>) {
        let no_amqp = if self.session.is_identified() { "" } else { "it does not speak AMQP 0-9-1: " };
        self.is_closing |= cx.mark_closing(slot, self.id);
        self.lost(Some(format!("{no_amqp}{fault}").into()), true, false, cx);
        if let Some(connection) = cx.connections.get_mut(slot)
            && let Some((out, pool)) = cx.effects.writer(slot)
        {
            connection.inbound.fail(fault, out, pool);
        }
        cx.close_when_sent(slot);
    }

    /// Runs the timers of a connected link. Returns the routes to begin again.
    pub fn run_timers(&mut self, slot: ConnectionSlot, cx: &mut LinkContext<'_>) -> Vec<RouteId> {
        if self.timers.lag_expired(cx.now) {
            if let Some((out, pool)) = cx.effects.writer(slot) {
                self.session.routes.request_lags(out, pool);
            }
            self.check_searches(slot, cx);
        }
        if self.timers.delay_expired(cx.now) {
            self.session.end_delays(cx.effects.writer(slot));
        }
        let FederationLink { session, routes, .. } = self;
        let all = session.routes.iter().map(|(route, _)| route);
        all.filter(|route| routes.take_retry(*route, cx.now)).collect()
    }

    /// Carries out a decision of the session, but for `Open`, which begins all routes.
    pub fn carry_out(&mut self, decision: LinkDecision, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        let Some(connection) = cx.connections.get_mut(slot) else { return };
        let Some((out, pool)) = cx.effects.writer(slot) else { return };
        let inbound = &mut connection.inbound;
        match decision {
            LinkDecision::LogIn => self.session.log_in(inbound, out, pool),
            LinkDecision::Tune(tune) => {
                let tuning = self.session.tune(&tune, inbound, out, pool);
                apply_tuning(slot, &tuning, cx);
            }
            LinkDecision::Open => {}
            LinkDecision::OpenChannel(route) => self.session.open_channel(route, inbound, out, pool),
            LinkDecision::SetUpLocalSide(route) => self.set_up_local_side(route, slot, cx),
            LinkDecision::RouteRuns(route) => {
                self.timers.reset_attempts();
                self.record.last_error = None;
                self.routes.entry(route).reset_attempts();
                tracing::info!(link = &*self.spec.key.peer, route = route.index(), "a federation route runs");
            }
            LinkDecision::RouteClosed { route, channel, text, refuses_message } => {
                let after = match refuses_message {
                    true => self.on_message_refused(route, slot, channel, &text, cx),
                    false => AfterRefusal::Fail,
                };
                if channel > ChannelNumber::CONNECTION {
                    self.end_local_channel(slot, channel, after == AfterRefusal::GiveUp, cx);
                }
                if after != AfterRefusal::Fail {
                    self.routes.entry(route).resume(cx.now);
                    cx.timers_changed = true;
                } else {
                    self.fail_route(route, &text, cx);
                }
            }
            LinkDecision::DeleteLeftQueues => {
                self.session.delete_left_queues(inbound, out, pool);
                self.close_if_unused(slot, cx);
            }
            LinkDecision::RouteCancelled { route, channel } => {
                let text = "the queue of the route was deleted at the source";
                self.session.close_channel(route, text, inbound, out, pool);
                self.close_local_channel(slot, channel, cx);
                self.fail_route(route, text, cx);
            }
            LinkDecision::End(SessionEnd { text, is_refusal, at_once, suspects_messages }) => {
                if suspects_messages {
                    self.on_closed_for_message(slot, &text, cx);
                }
                self.lost(Some(text), is_refusal, at_once, cx);
                cx.close_when_sent(slot);
            }
        }
    }

    /// The connection is open: opens a session in the broker core. Returns whether routes may begin.
    pub fn open_session(&mut self, slot: ConnectionSlot, cx: &mut LinkContext<'_>) -> bool {
        self.bootstrap = None;
        let (vhost, user) = (&*self.spec.key.vhost, &*self.spec.user);
        let catalog = cx.broker.catalog();
        let known = catalog.users().find(|(_, known)| *known.name == *user).map(|(id, _)| id);
        let opened = match known {
            Some(id) => catalog.open_vhost(id, vhost.as_bytes()).map(|vhost| (id, vhost)).map_err(|why| why.text),
            None => Err(format!("there is no user '{user}' here any more")),
        };
        let (user, vhost) = match opened {
            Ok(opened) => opened,
            Err(text) => {
                self.close(slot, &text, true, cx);
                return false;
            }
        };
        let Some(connection) = cx.connections.get_mut(slot) else { return false };
        connection.open(user, vhost);
        let session = SessionId { shard: cx.options.shard, slot, serial: connection.serial };
        let capabilities = broker::ClientCapabilities::default();
        cx.broker.open_session(slot, broker::SessionLogin { session, user, vhost, capabilities });
        cx.broker.mark_link(slot, self.id.0);
        cx.connections.set_timer(slot, cx.now);
        true
    }

    /// Adds a route. Returns its id unless there is one that carries the same.
    pub fn add_route(&mut self, spec: RouteSpec, delayed: bool, now: Instant) -> Option<RouteId> {
        if self.session.routes.find(&spec).is_some() {
            return None;
        }
        let route = self.session.add_route(spec, delayed);
        if delayed {
            self.timers.delay_routes(now);
        }
        self.routes.reset(route);
        if self.phase == LinkPhase::Idle {
            self.phase = LinkPhase::Waiting { until: now, refused: false };
        }
        Some(route)
    }

    /// Whether a route that begins now starts to watch the bindings of its exchange.
    pub fn starts_watch(&self, route: RouteId, slot: ConnectionSlot, cx: &LinkContext<'_>) -> bool {
        let watched = self.routes.get(route).and_then(|route| route.watch.as_ref()).map(|watch| watch.vhost);
        let is_watching = watched.is_some() && watched == cx.vhost(&self.spec);
        let Some(spec) = self.session.routes.spec(route).filter(|_| self.session.peer().is_some()) else {
            return false;
        };
        !is_watching
            && BindingWatch::concerns(spec)
            && cx.local_exchange(slot, spec).is_some()
            && cx.vhost(&self.spec).is_some()
    }

    /// Begins a route on the open connection.
    pub fn begin_route(&mut self, route: RouteId, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        let (Some(spec), Some(peer)) = (self.session.routes.spec(route).cloned(), self.session.peer().cloned()) else {
            return;
        };
        let exchange = cx.local_exchange(slot, &spec);
        let is_queue_route = matches!(spec.kind, RouteKind::Queue { .. });
        if exchange.is_none() && (spec.direction == RouteDirection::Pull || !is_queue_route) {
            let text = format!("there is no exchange '{}' here", spec.local_exchange());
            self.session.routes.set_error(route, &text);
            return self.fail_route(route, &text, cx);
        }
        if let Some(queue) = spec.federated_queue() {
            let Some(id) = cx.local_queue(&self.spec, queue) else {
                let text = format!("there is no queue '{queue}' here");
                self.session.routes.set_error(route, &text);
                return self.fail_route(route, &text, cx);
            };
            self.session.routes.set_wanting(route, cx.broker.wants_messages(id), None);
        }
        if self.starts_watch(route, slot, cx)
            && let Some(vhost) = cx.vhost(&self.spec)
        {
            if let Some(of_another) = self.routes.entry(route).watch.take() {
                of_another.stop(cx);
            }
            let watch = BindingWatch::start(&mut self.session, route, &spec, vhost, cx);
            self.routes.entry(route).watch = Some(watch);
        }
        if spec.direction == RouteDirection::Pull {
            let source = match &spec.kind {
                RouteKind::Queue { queue } => queue,
                _ => spec.source_exchange(),
            };
            let tracer = Tracer::new(self.session.own().clone(), &peer, &self.spec.key.peer, source, spec.hops_max);
            let tracer = match &spec.options.shovel {
                Some(shovel) => tracer.of_shovel(shovel.forward_header.as_ref()),
                None if spec.federated_queue().is_some() => tracer.of_shovel(None),
                None => tracer.of_queue(is_queue_route),
            };
            let properties_bytes_max = cx.options.session.properties_bytes_max();
            let hop = || QueueHop::new(&self.spec.key.peer, source, properties_bytes_max);
            self.routes.entry(route).queue_hop = spec.federated_queue().map(|_| hop());
            self.routes.entry(route).tracer = Some(tracer.within(properties_bytes_max));
        }
        // Neither a shovel nor a federated queue declares an exchange.
        let local_exchange =
            exchange.filter(|_| spec.is_traced()).and_then(|id| cx.broker.catalog().exchange_info(id)).cloned();
        if let Some(connection) = cx.connections.get_mut(slot)
            && let Some((out, pool)) = cx.effects.writer(slot)
        {
            self.session.begin_route(route, local_exchange, &mut connection.inbound, out, pool);
        }
        cx.timers_changed = true;
    }

    /// Removes a route and what it has declared at both ends, connected or not.
    pub fn remove_route(&mut self, spec: &RouteSpec, cx: &mut LinkContext<'_>) {
        let Some(route) = self.session.routes.find(spec) else { return };
        let slot = match self.phase {
            LinkPhase::Connected { slot } => Some(slot),
            _ => None,
        };
        if let Some(watch) = self.routes.entry(route).watch.take() {
            watch.stop(cx);
        }
        let peer = self.session.peer();
        let push_queue = peer.and_then(|peer| LocalSetup::declared_queue(spec, peer)).zip(cx.vhost(&self.spec));
        if let Some(slot) = slot {
            // What is safe here is not sent again.
            cx.effects.send_acks(slot, None);
        }
        let mut channel = None;
        if let Some(slot) = slot
            && let Some(connection) = cx.connections.get_mut(slot)
            && let Some((out, pool)) = cx.effects.writer(slot)
        {
            channel = self.session.remove_route(route, Some((&mut connection.inbound, out, pool)));
        } else {
            self.session.remove_route(route, None);
        }
        self.report_given_up_queues();
        self.routes.reset(route);
        if let (Some(slot), Some(channel)) = (slot, channel) {
            self.close_local_channel(slot, channel, cx);
        }
        // The internal exchange is deleted with the queue.
        if let Some((queue, vhost)) = push_queue {
            cx.broker.delete_queue(vhost, &queue, cx.effects);
        }
        match (slot, self.phase) {
            (Some(slot), _) => {
                self.update_holds(cx);
                self.close_if_unused(slot, cx);
            }
            (None, LinkPhase::Dialing { .. } | LinkPhase::Connected { .. } | LinkPhase::Idle) => {}
            (None, LinkPhase::Waiting { .. }) if self.is_unused() => self.phase = LinkPhase::Idle,
            // One try, for what the route has left there.
            (None, LinkPhase::Waiting { refused, .. }) if self.session.routes.is_empty() => {
                self.phase = LinkPhase::Waiting { until: cx.now, refused };
            }
            (None, LinkPhase::Waiting { .. }) => {}
        }
    }

    fn set_up_local_side(&mut self, route: RouteId, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        let routes = &self.session.routes;
        let (Some(spec), Some(channel)) = (routes.spec(route), routes.channel(route)) else { return };
        self.routes.entry(route).left.begin(spec, routes.progress(route).lag);
        if !cx.broker.has_channel(slot, channel) {
            cx.broker.open_channel(slot, channel);
        }
        if spec.direction == RouteDirection::Push {
            return self.begin_push(route, slot, cx);
        }
        if spec.ack == AckMode::Confirm {
            let select = confirm::Select { no_wait: true }.into();
            if let Err(refusal) = cx.broker.command(slot, channel, select, cx.effects) {
                return self.on_refusal(slot, channel, &refusal.text, cx);
            }
            self.routes.entry(route).ack_batch = AckBatcher::batch_size(spec.credit);
            if let Some(output) = cx.link_output(slot) {
                output.set_ack_batcher(channel, Some(AckBatcher::new(spec.credit)));
            }
        }
        if let Some((out, pool)) = cx.effects.writer(slot) {
            self.session.on_local_side_ready(route, out, pool);
        }
    }

    /// The broker core has refused a command of a route, at once or after asking another shard.
    pub fn on_refusal(&mut self, slot: ConnectionSlot, channel: ChannelNumber, text: &str, cx: &mut LinkContext<'_>) {
        let Some(route) = self.session.routes.on_channel(channel) else {
            return self.close(slot, text, false, cx);
        };
        cx.effects.send_acks(slot, None);
        self.close_local_channel(slot, channel, cx);
        let Some(connection) = cx.connections.get_mut(slot) else { return };
        if let Some((out, pool)) = cx.effects.writer(slot) {
            self.session.close_channel(route, text, &mut connection.inbound, out, pool);
        }
        self.fail_route(route, text, cx);
    }

    /// Closes the channel of a route in the broker core; pushed messages without an acknowledgement return to their queue.
    fn close_local_channel(&mut self, slot: ConnectionSlot, channel: ChannelNumber, cx: &mut LinkContext<'_>) {
        self.end_local_channel(slot, channel, false, cx);
    }

    /// The same; those messages may also be given up.
    pub fn end_local_channel(
        &mut self,
        slot: ConnectionSlot,
        channel: ChannelNumber,
        gives_up: bool,
        cx: &mut LinkContext<'_>,
    ) {
        self.routes.keep_counts(&self.session, slot, Some(channel), cx);
        if let Some(output) = cx.link_output(slot) {
            output.set_ack_batcher(channel, None);
            output.forget_channel(channel);
        }
        match gives_up {
            true => cx.broker.close_channel_rejecting(slot, channel, cx.effects),
            false => cx.broker.close_channel(slot, channel, cx.effects),
        }
    }

    fn fail_route(&mut self, route: RouteId, text: &str, cx: &mut LinkContext<'_>) {
        let chance = cx.effects.random();
        tracing::warn!(link = &*self.spec.key.peer, route = route.index(), text, "a federation route does not run");
        self.routes.entry(route).fail(chance, cx.now);
        cx.timers_changed = true;
    }

    /// The queue of a route wants messages, or does not any more.
    pub fn set_wanting(&mut self, route: RouteId, is_wanting: bool, effects: &mut ShardEffects) {
        let writer = match self.phase {
            LinkPhase::Connected { slot } => effects.writer(slot),
            _ => None,
        };
        self.session.routes.set_wanting(route, is_wanting, writer);
    }

    /// Propagates changes of bindings on the routes that they concern.
    pub fn apply_binding_changes(&mut self, changes: &[BindingChange], cx: &mut LinkContext<'_>) {
        let vhost = cx.vhost(&self.spec);
        let FederationLink { session, routes, phase, .. } = self;
        let all: Vec<_> = session.routes.iter().map(|(route, _)| route).collect();
        for route in all {
            let Some(watch) = routes.get(route).and_then(|route| route.watch.as_ref()) else { continue };
            if watch.apply(changes, session, route, vhost, cx)
                && let LinkPhase::Connected { slot } = *phase
                && let Some((out, pool)) = cx.effects.writer(slot)
            {
                session.routes.send_bindings(route, out, pool);
            }
        }
    }
}

fn apply_tuning(slot: ConnectionSlot, tuning: &Tuning, cx: &mut LinkContext<'_>) {
    let Some(connection) = cx.connections.get_mut(slot) else { return };
    connection.heartbeat = session::Heartbeat::new(tuning.heartbeat_s);
    // What both ends support is known only now.
    connection.lend_threshold_bytes = connection.link.capabilities().lend_threshold_bytes;
    if connection.lend_threshold_bytes < usize::MAX {
        connection.inbound.lend_from(connection.lend_threshold_bytes);
        if let Some(output) = cx.effects.output(slot) {
            output.out.set_part_bytes_min(connection.lend_threshold_bytes);
        }
    }
}
