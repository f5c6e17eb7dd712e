//! The federation links of a shard.
//!
//! Enters: commands of the operator, outcomes of dials, events and losses of connections, the time.  Leaves: dials.
//! Owns:   the table of links, the first of their timers, the dials that nobody has picked up.
//!
//! An event of another broker takes one line of calls: the dispatcher's `dispatch_events` sees that the connection belongs to a link and calls
//! [`FederationLinks::receive`]; messages and acknowledgements go to the broker core at once, and everything else to the link's
//! `LinkSession`, whose decisions [`FederationLink::carry_out`] carries out.

use crate::demand_routes::DemandRoutes;
use crate::effects::ShardEffects;
use crate::event_outcome::EventOutcome;
use crate::federation_link::{FederationLink, LinkPhase};
use crate::link_context::LinkContext;
use crate::link_dial::{DialError, DialQueue, DialRequest, DialedLink};
use crate::link_id::FederationLinkId;
use crate::link_status::{join_directions, link_status};
use crate::link_table::LinkTable;
use crate::local_routes::PulledMessage;
use broker::ConnectionSlot;
use federation::limits::BACK_OFF_MIN;
use federation::{AckMode, FederationCommand, LinkDecision, LinkKey, LinkSpec, LinkStatus};
use federation::{RouteDirection, RouteId, RouteSpec};
use link::{AbortReason, Link};
use queues::BodyRef;
use session::{Body, Event, Inbound, Outbound, ProtocolFault};
use std::time::Instant;
use wire::ChannelNumber;
use wire::Method;
use wire::method::basic;

/// The federation links of a shard, their timers and dials.
#[derive(Default)]
pub(crate) struct FederationLinks {
    table: LinkTable,
    demand_routes: DemandRoutes,
    dials: DialQueue,
    /// The first timer of all links.
    next_at: Option<Instant>,
    /// When the next batch of acknowledgements has waited long enough.
    acks_at: Option<Instant>,
}

impl FederationLinks {
    /// Carries out a command of the operator, which `federation::FederationPlan` has checked.
    pub fn apply(&mut self, command: FederationCommand, cx: &mut LinkContext<'_>) {
        let directions = [RouteDirection::Pull, RouteDirection::Push];
        match command {
            FederationCommand::AddLink(spec) => {
                if self.table.find(&spec.key, RouteDirection::Pull).is_none() {
                    self.table.insert(|id| FederationLink::new(id, spec, RouteDirection::Pull, cx));
                }
            }
            FederationCommand::ChangeLink(spec) => {
                for direction in directions {
                    if let Some(id) = self.table.find(&spec.key, direction) {
                        self.change_link(id, spec.clone(), cx);
                    }
                }
            }
            FederationCommand::RestartLink(key) => {
                for direction in directions {
                    if let Some(id) = self.table.find(&key, direction) {
                        self.restart_link(id, "an operator restarts it", cx);
                    }
                }
            }
            FederationCommand::RemoveLink(key) => {
                for direction in directions {
                    if let Some(id) = self.table.find(&key, direction) {
                        self.remove_link(id, cx);
                    }
                }
            }
            FederationCommand::AddRoute(key, spec) => self.add_route(&key, spec, false, cx),
            FederationCommand::ReturnRoute(key, spec) => self.add_route(&key, spec, true, cx),
            FederationCommand::ChangeRoute(key, spec) => {
                if let Some(id) = self.table.find(&key, spec.direction)
                    && self.table.get_mut(id).is_some_and(|link| link.session.routes.change(spec))
                {
                    self.restart_link(id, "a route has other terms", cx);
                }
            }
            FederationCommand::RemoveRoute(key, spec) => {
                if let Some(id) = self.table.find(&key, spec.direction) {
                    self.remove_route(id, &spec, cx);
                }
            }
        }
        self.next_at = self.table.next_due();
    }

    /// The link gets another login. What waits for its routes at either end is kept.
    fn change_link(&mut self, id: FederationLinkId, spec: LinkSpec, cx: &mut LinkContext<'_>) {
        let Some(link) = self.table.get_mut(id) else { return };
        link.spec = spec;
        self.restart_link(id, "it has another login", cx);
    }

    /// The link connects again, at once. What waits for its routes at either end is kept.
    fn restart_link(&mut self, id: FederationLinkId, why: &str, cx: &mut LinkContext<'_>) {
        let Some(link) = self.table.get_mut(id) else { return };
        match link.phase {
            LinkPhase::Idle => {}
            LinkPhase::Waiting { .. } => link.phase = LinkPhase::Waiting { until: cx.now, refused: false },
            // The outcome of the dial under way is no longer awaited.
            LinkPhase::Dialing { .. } => {
                link.phase = LinkPhase::Dialing { serial: self.dials.request(id, link.next_url()) };
            }
            LinkPhase::Connected { slot } => link.reconnect(slot, why, cx),
        }
    }

    /// Removes a link: at once, or when its connection, whose end the session awaits, is over.
    fn remove_link(&mut self, id: FederationLinkId, cx: &mut LinkContext<'_>) {
        let Some(link) = self.table.get_mut(id) else { return };
        link.is_removed = true;
        let routes: Vec<_> = link.session.routes.iter().map(|(_, spec)| spec.clone()).collect();
        for spec in routes {
            self.remove_route(id, &spec, cx);
        }
        self.finish(id, cx);
    }

    fn remove_route(&mut self, id: FederationLinkId, spec: &RouteSpec, cx: &mut LinkContext<'_>) {
        let Some(link) = self.table.get_mut(id) else { return };
        if let Some(route) = link.session.routes.find(spec) {
            self.demand_routes.remove(&link.spec.key, spec, (id, route));
        }
        link.remove_route(spec, cx);
    }

    fn add_route(&mut self, key: &LinkKey, spec: RouteSpec, delayed: bool, cx: &mut LinkContext<'_>) {
        let Some(pull) = self.table.find(key, RouteDirection::Pull) else { return };
        let id = match self.table.find(key, spec.direction) {
            Some(id) => id,
            None => {
                let Some(link) = self.table.get_mut(pull).map(|link| link.spec.clone()) else { return };
                self.table.insert(|id| FederationLink::new(id, link, spec.direction, cx))
            }
        };
        let Some(link) = self.table.get_mut(id) else { return };
        let Some(route) = link.add_route(spec.clone(), delayed, cx.now) else { return };
        self.demand_routes.add(key, &spec, (id, route));
        if let LinkPhase::Connected { slot } = link.phase
            && link.session.is_open()
        {
            self.begin_routes(id, &[route], slot, cx);
        }
    }

    /// Begins routes on an open connection.
    fn begin_routes(
        &mut self,
        id: FederationLinkId,
        routes: &[RouteId],
        slot: ConnectionSlot,
        cx: &mut LinkContext<'_>,
    ) {
        for &route in routes {
            if self.table.get_mut(id).is_some_and(|link| link.starts_watch(route, slot, cx)) {
                // The changes so far must not reach the new watch: it begins with all bindings.
                self.propagate_bindings(cx);
            }
            if let Some(link) = self.table.get_mut(id) {
                link.begin_route(route, slot, cx);
                link.update_holds(cx);
            }
        }
    }

    /// The next connection to make. Pass its outcome to [`on_dial_outcome`](Self::on_dial_outcome).
    pub fn next_dial(&mut self) -> Option<DialRequest> {
        self.dials.next()
    }

    /// Whether links wait for somebody to dial.
    pub fn has_dials(&self) -> bool {
        !self.dials.is_empty()
    }

    /// A dial has succeeded or failed. Returns what the connection table needs if its link still waits for it; pass the slot to
    /// [`on_connected`](Self::on_connected).
    pub fn on_dial_outcome(
        &mut self,
        dial: &DialRequest,
        outcome: Result<DialedLink, DialError>,
        cx: &mut LinkContext<'_>,
    ) -> Option<(Box<dyn Link>, Inbound, Outbound)> {
        let awaited = LinkPhase::Dialing { serial: dial.serial };
        let link = self.table.get_mut(dial.link).filter(|link| link.phase == awaited);
        match (outcome, link) {
            (Ok(dialed), Some(link)) if !cx.draining => {
                if cx.shared.add_connection(cx.options.shard) {
                    return Some(link.start_session(dialed, cx));
                }
                let mut dialed = dialed;
                dialed.link.abort(AbortReason::Limit);
                let why = "this broker has reached its limit of connections";
                link.lost(Some(why.into()), false, false, cx);
            }
            (Ok(mut dialed), _) => dialed.link.abort(AbortReason::Shutdown),
            (Err(DialError { text, is_refusal }), Some(link)) => link.lost(Some(text), is_refusal, false, cx),
            (Err(_), None) => {}
        }
        self.finish(dial.link, cx);
        None
    }

    /// A connection that was dialed has got its slot.
    pub fn on_connected(&mut self, id: FederationLinkId, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        if let Some(link) = self.table.get_mut(id) {
            link.connected(slot, cx);
        }
        self.finish(id, cx);
    }

    /// Runs the timers that have expired.
    pub fn run_timers(&mut self, cx: &mut LinkContext<'_>) {
        if self.next_at.is_none_or(|at| at > cx.now) {
            return;
        }
        for id in self.table.ids() {
            let predecessor_closes = self.table.has_predecessor(id);
            let Some(link) = self.table.get_mut(id) else { continue };
            if link.due().is_none_or(|at| at > cx.now) {
                continue;
            }
            match link.phase {
                LinkPhase::Waiting { .. } if cx.draining || link.is_unused() => {
                    link.phase = LinkPhase::Idle;
                }
                LinkPhase::Waiting { refused, .. } if predecessor_closes => {
                    link.phase = LinkPhase::Waiting { until: cx.now + BACK_OFF_MIN, refused };
                }
                LinkPhase::Waiting { .. } => {
                    link.phase = LinkPhase::Dialing { serial: self.dials.request(id, link.next_url()) };
                }
                LinkPhase::Connected { slot } => {
                    let routes = link.run_timers(slot, cx);
                    self.begin_routes(id, &routes, slot, cx);
                }
                LinkPhase::Idle | LinkPhase::Dialing { .. } => {}
            }
        }
        self.next_at = self.table.next_due();
    }

    /// Parses the next event of a connection to another broker and carries it out. `None`: the input holds no whole event.
    ///
    /// # Errors
    /// The other broker violates the protocol.
    #[inline]
    pub fn receive(
        &mut self,
        id: FederationLinkId,
        slot: ConnectionSlot,
        input: &mut &[u8],
        cx: &mut LinkContext<'_>,
    ) -> Result<Option<EventOutcome>, ProtocolFault> {
        let Some(link) = self.table.get_mut(id) else { return Ok(Some(EventOutcome::Close)) };
        let Some(connection) = cx.connections.get_mut(slot) else { return Ok(None) };
        let Some((out, pool)) = cx.effects.session_writer(slot) else { return Ok(None) };
        let Some(event) = connection.inbound.next(input, out, pool)? else { return Ok(None) };
        match event {
            Event::Deliver { channel, delivery_tag, redelivered, exchange, routing_key, properties, body, .. } => {
                let FederationLink { session, routes, spec, .. } = link;
                let Some(route) = session.routes.on_channel(channel) else { return Ok(Some(EventOutcome::Continue)) };
                let (Some(local), Some(route)) = (routes.get_mut(route), session.routes.spec(route)) else {
                    return Ok(Some(EventOutcome::Continue));
                };
                let body = match &body {
                    Body::Small(bytes) => BodyRef::Small(bytes),
                    Body::Large(slice) => BodyRef::Large(slice),
                };
                let message =
                    PulledMessage { channel, delivery_tag, redelivered, exchange, routing_key, properties, body };
                let core = (&mut *cx.broker, &mut *cx.effects, cx.shared);
                return Ok(Some(local.publish(route, spec, slot, message, core)));
            }
            Event::Method { channel, method: Method::BasicAck(ack) } => {
                return Ok(Some(link.settle(slot, channel, ack.into(), cx)));
            }
            Event::Method { channel, method: Method::BasicNack(nack) } => {
                let nack = basic::Nack { requeue: true, ..nack }.into();
                return Ok(Some(link.settle(slot, channel, nack, cx)));
            }
            Event::PassedOver { channel, defect } => return Ok(Some(link.pass_over(slot, channel, defect, cx))),
            event => {
                if let Some((out, pool)) = cx.effects.writer(slot) {
                    link.session.on_event(&event, out, pool);
                }
            }
        }
        self.carry_out_decisions(id, slot, cx);
        Ok(Some(EventOutcome::Handled))
    }

    #[cold]
    fn carry_out_decisions(&mut self, id: FederationLinkId, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        while let Some(link) = self.table.get_mut(id)
            && let Some(decision) = link.session.next_decision()
        {
            match decision {
                LinkDecision::Open => self.open(id, slot, cx),
                decision => link.carry_out(decision, slot, cx),
            }
        }
        if let Some(link) = self.table.get_mut(id) {
            link.report_given_up_queues();
            link.update_holds(cx);
        }
        self.finish(id, cx);
    }

    fn open(&mut self, id: FederationLinkId, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        let Some(link) = self.table.get_mut(id) else { return };
        if !link.open_session(slot, cx) {
            return;
        }
        let routes: Vec<_> = link.session.routes.iter().map(|(route, _)| route).collect();
        self.begin_routes(id, &routes, slot, cx);
        // The last route may have been removed in the meantime.
        if let Some(link) = self.table.get_mut(id) {
            link.clean_up(slot, cx);
            link.close_if_unused(slot, cx);
        }
    }

    /// A connection's turn begins: routes whose setup here waited for an answer of the broker core go on.
    pub fn resume(&mut self, slot: ConnectionSlot, cx: &mut LinkContext<'_>) {
        self.with_link_of(slot, cx, |link, cx| link.resume_pushes(slot, cx));
    }

    /// The broker core has refused a command of a route.
    pub fn on_refusal(&mut self, slot: ConnectionSlot, channel: ChannelNumber, text: &str, cx: &mut LinkContext<'_>) {
        self.with_link_of(slot, cx, |link, cx| link.on_refusal(slot, channel, text, cx));
    }

    /// The other broker violates the protocol.
    pub fn on_fault(&mut self, slot: ConnectionSlot, fault: &ProtocolFault, cx: &mut LinkContext<'_>) {
        self.with_link_of(slot, cx, |link, cx| link.on_fault(slot, fault, cx));
    }

    /// A connection is lost, which may or may not belong to a link.
    pub fn on_connection_lost(&mut self, slot: ConnectionSlot, why: &str, cx: &mut LinkContext<'_>) {
        self.with_link_of(slot, cx, |link, cx| link.lost(Some(why.into()), false, false, cx));
    }

    /// A connection that this broker has closed is over: its link may dial again, or is dropped if it was removed.
    #[cold]
    pub fn on_closed(&mut self, id: FederationLinkId) {
        if let Some(link) = self.table.get_mut(id) {
            link.is_closing = false;
        }
        self.table.remove_if(id, |link| link.is_removed);
        self.next_at = self.table.next_due();
    }

    /// Whether the source keeps everything that this connection brings until it is acknowledged.
    pub fn is_redelivered(&self, id: FederationLinkId) -> bool {
        self.table.get(id).is_some_and(|link| link.session.routes.iter().all(|(_, spec)| spec.ack == AckMode::Confirm))
    }

    /// Propagates changes of bindings to the sources of the routes that they concern.
    pub fn propagate_bindings(&mut self, cx: &mut LinkContext<'_>) {
        if !cx.broker.catalog().has_binding_changes() {
            return;
        }
        let changes: Vec<_> = cx.broker.catalog_mut().take_binding_changes().collect();
        for link in self.table.iter_mut() {
            link.apply_binding_changes(&changes, cx);
        }
    }

    /// Tells the upstreams of federated queues which of these want messages.
    #[cold]
    pub fn propagate_demand(&mut self, cx: &mut LinkContext<'_>) {
        self.demand_routes.propagate(&mut self.table, cx);
    }

    /// Sends the acknowledgements that have waited long enough.
    pub fn acknowledge(&mut self, effects: &mut ShardEffects, now: Instant) {
        self.acks_at = effects.send_due_acks(now);
    }

    /// When to call [`run_timers`](Self::run_timers) or [`acknowledge`](Self::acknowledge) at the latest.
    pub fn next_timer(&self) -> Option<Instant> {
        self.next_at.into_iter().chain(self.acks_at).min()
    }

    /// The status of every link, its two directions joined.
    pub fn statuses(&mut self, cx: &mut LinkContext<'_>) -> Vec<LinkStatus> {
        let mut all: Vec<LinkStatus> = Vec::new();
        for link in self.table.iter_mut().filter(|link| !link.is_removed) {
            let status = link_status(link, cx);
            match all.iter_mut().find(|link| link.spec.key == status.spec.key) {
                Some(link) => join_directions(link, status),
                None => all.push(status),
            }
        }
        all
    }

    fn with_link_of(
        &mut self,
        slot: ConnectionSlot,
        cx: &mut LinkContext<'_>,
        act: impl FnOnce(&mut FederationLink, &mut LinkContext<'_>),
    ) {
        let Some(id) = cx.connections.get(slot).and_then(|connection| connection.federation_link) else { return };
        if let Some(link) = self.table.get_mut(id) {
            act(link, cx);
            link.update_holds(cx);
        }
        self.finish(id, cx);
    }

    /// After a call that may have ended a link or changed its timers.
    fn finish(&mut self, id: FederationLinkId, cx: &mut LinkContext<'_>) {
        self.table.remove_if(id, FederationLink::is_finished);
        if std::mem::take(&mut cx.timers_changed) {
            self.next_at = self.table.next_due();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DialError, FederationLinks, LinkContext};
    use crate::connections::Connections;
    use crate::effects::ShardEffects;
    use crate::mailbox::{Mailbox, ShardWaker, WakeTarget};
    use crate::shard_options::ShardOptions;
    use crate::shared_state::SharedState;
    use broker::{Broker, BrokerOptions};
    use catalog::{Catalog, CatalogLimits, ShardId};
    use federation::limits::{BACK_OFF_MIN, REFUSED_WAIT};
    use federation::{AckMode, FederationCommand, LinkKey, LinkSpec, LinkState, RouteDirection, RouteKind, RouteSpec};
    use session::{Greeting, SessionLimits};
    use slab::{Pool, PoolOptions};
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use wire::Table;

    struct IgnoredWake;

    impl WakeTarget for IgnoredWake {
        fn wake(&self) {}
    }

    /// What the links borrow, without a shard.
    struct Surroundings {
        broker: Broker,
        effects: ShardEffects,
        connections: Connections,
        shared: SharedState,
        options: ShardOptions,
        now: Instant,
    }

    impl Surroundings {
        #[expect(clippy::disallowed_methods, reason = "a time to begin with")]
        fn new() -> Self {
            let (shard, now) = (ShardId(0), Instant::now());
            let mailbox = Mailbox::connect(&[ShardWaker::new(Box::new(IgnoredWake))]).pop().expect("one shard's");
            let catalog = Catalog::new(CatalogLimits::default());
            let broker_options = BrokerOptions {
                shard,
                shards: 1,
                queue_bytes_max: 1 << 20,
                epoch_unix_s: 0,
                consumer_timeout_ms: 0,
                work_per_turn: broker::limits::WORK_PER_TURN,
            };
            let options = ShardOptions {
                shard,
                session: SessionLimits::default(),
                rdma_frame_bytes_max: session::limits::BODY_FRAME_BYTES_MAX,
                greeting: Arc::new(Greeting::new(&Table::new(), "PLAIN")),
                login_timeout: Duration::from_secs(10),
                epoch: now,
                epoch_unix_us: 0,
                clock: crate::test_clock::some_instant,
                cluster_name: "here".into(),
            };
            Surroundings {
                broker: Broker::new(broker_options, catalog),
                effects: ShardEffects::new(Pool::new(PoolOptions::default()), mailbox, 1 << 20, [0; 32]),
                connections: Connections::default(),
                shared: SharedState::new(1, 1 << 30, 10),
                options,
                now,
            }
        }

        fn cx(&mut self) -> LinkContext<'_> {
            LinkContext {
                broker: &mut self.broker,
                effects: &mut self.effects,
                connections: &mut self.connections,
                shared: &self.shared,
                options: &self.options,
                draining: false,
                now: self.now,
                timers_changed: false,
            }
        }
    }

    fn key() -> LinkKey {
        LinkKey::of_operator("/".into(), "there".into())
    }

    fn link(url: &str) -> LinkSpec {
        LinkSpec { key: key(), url: url.into(), user: "guest".into(), durable: false, options: Default::default() }
    }

    fn route() -> RouteSpec {
        RouteSpec {
            exchange: "amq.topic".into(),
            kind: RouteKind::Dynamic,
            direction: RouteDirection::Pull,
            ack: AckMode::Confirm,
            credit: 10,
            hops_max: 3,
            durable: false,
            forced: false,
            dead_letter_exchange: None,
            options: Default::default(),
        }
    }

    fn failure(is_refusal: bool) -> DialError {
        DialError { text: "no".into(), is_refusal }
    }

    /// Links with one route that dials, and its first dial.
    fn dialing(around: &mut Surroundings) -> (FederationLinks, crate::DialRequest) {
        let mut links = FederationLinks::default();
        links.apply(FederationCommand::AddLink(link("amqp://there")), &mut around.cx());
        links.run_timers(&mut around.cx());
        assert!(!links.has_dials() && links.next_timer().is_none(), "a link without routes is idle");
        links.apply(FederationCommand::AddRoute(key(), route()), &mut around.cx());
        links.run_timers(&mut around.cx());
        let dial = links.next_dial().expect("it has a route");
        assert_eq!((&*dial.url, links.next_timer()), ("amqp://there", None));
        (links, dial)
    }

    #[test]
    fn a_failed_dial_is_made_again_after_a_wait() {
        let mut around = Surroundings::new();
        let (mut links, dial) = dialing(&mut around);
        assert!(links.on_dial_outcome(&dial, Err(failure(false)), &mut around.cx()).is_none());
        let at = links.next_timer().expect("it waits");
        assert!((BACK_OFF_MIN / 2..=BACK_OFF_MIN).contains(&(at - around.now)));
        links.run_timers(&mut around.cx());
        assert!(!links.has_dials(), "too early");
        around.now = at;
        links.run_timers(&mut around.cx());
        let again = links.next_dial().expect("the wait is over");
        assert!(again.link == dial.link && again.serial != dial.serial);
        // A second outcome of the first dial changes nothing.
        assert!(links.on_dial_outcome(&dial, Err(failure(true)), &mut around.cx()).is_none());
        assert_eq!(links.statuses(&mut around.cx())[0].state, LinkState::Connecting);
        assert!(links.on_dial_outcome(&again, Err(failure(true)), &mut around.cx()).is_none());
        assert!(links.next_timer().expect("it waits") - around.now >= REFUSED_WAIT / 2);
        assert!(matches!(links.statuses(&mut around.cx())[0].state, LinkState::Refused { .. }));
    }

    #[test]
    fn another_login_replaces_the_dial_under_way() {
        let mut around = Surroundings::new();
        let (mut links, before) = dialing(&mut around);
        links.apply(FederationCommand::ChangeLink(link("amqp://a:b@there")), &mut around.cx());
        let after = links.next_dial().expect("with the new login");
        assert_eq!((&*after.url, after.link), ("amqp://a:b@there", before.link));
        links.on_dial_outcome(&before, Err(failure(false)), &mut around.cx());
        assert_eq!(links.next_timer(), None, "nobody waits for it");
        links.on_dial_outcome(&after, Err(failure(false)), &mut around.cx());
        assert!(links.next_timer().is_some());
    }

    #[test]
    fn a_removed_link_is_gone_and_its_id_is_free() {
        let mut around = Surroundings::new();
        let (mut links, dial) = dialing(&mut around);
        links.apply(FederationCommand::RemoveLink(key()), &mut around.cx());
        assert!(links.statuses(&mut around.cx()).is_empty());
        links.on_dial_outcome(&dial, Err(failure(false)), &mut around.cx());
        assert_eq!(links.next_timer(), None);
        links.apply(FederationCommand::AddLink(link("amqp://there")), &mut around.cx());
        links.apply(FederationCommand::AddRoute(key(), route()), &mut around.cx());
        links.run_timers(&mut around.cx());
        let again = links.next_dial().expect("a new link");
        assert!(again.link == dial.link && again.serial > dial.serial);
    }
}
