//! The shard's calls into its federation links, and those of the reactor.

use crate::dispatcher::Dispatcher;
use crate::federation_links::FederationLinks;
use crate::link_context::LinkContext;
use crate::link_dial::{DialError, DialRequest, DialedLink};
use crate::link_id::FederationLinkId;
use crate::shard::Shard;
use broker::ConnectionSlot;
use federation::{FederationCommand, LinkStatus};
use std::time::Instant;

impl Shard {
    /// Carries out a command, which `federation::FederationPlan` has checked.
    pub fn federate(&mut self, command: FederationCommand, now: Instant) {
        let (links, mut cx) = self.dispatcher.federation(now);
        links.apply(command, &mut cx);
    }

    /// The next connection to make. Whoever makes it, or fails to, calls [`on_dial_outcome`](Self::on_dial_outcome).
    pub fn next_dial(&mut self) -> Option<DialRequest> {
        self.dispatcher.federation_links.next_dial()
    }

    /// A dial has succeeded or failed. Returns the slot of the connection, whose link is to be registered.
    pub fn on_dial_outcome(
        &mut self,
        dial: &DialRequest,
        outcome: Result<DialedLink, DialError>,
        now: Instant,
    ) -> Option<ConnectionSlot> {
        let (links, mut cx) = self.dispatcher.federation(now);
        let (link, inbound, out) = links.on_dial_outcome(dial, outcome, &mut cx)?;
        let slot = self.dispatcher.sessions.insert(link, inbound, out, now);
        let (links, mut cx) = self.dispatcher.federation(now);
        links.on_connected(dial.link, slot, &mut cx);
        Some(slot)
    }

    /// The status of every link of this shard.
    pub fn link_statuses(&mut self, now: Instant) -> Vec<LinkStatus> {
        let (links, mut cx) = self.dispatcher.federation(now);
        links.statuses(&mut cx)
    }
}

impl Dispatcher {
    /// The links, and what they borrow.
    pub fn federation(&mut self, now: Instant) -> (&mut FederationLinks, LinkContext<'_>) {
        let cx = LinkContext::new(&mut self.sessions, self.draining, now);
        (&mut self.federation_links, cx)
    }

    pub fn run_link_timers(&mut self, now: Instant) {
        let (links, mut cx) = self.federation(now);
        links.run_timers(&mut cx);
    }

    pub fn propagate_bindings(&mut self, now: Instant) {
        let (links, mut cx) = self.federation(now);
        links.propagate_bindings(&mut cx);
    }

    /// Tells the upstreams of federated queues which of these want messages, before acknowledgements let them send more.
    #[inline]
    pub fn propagate_demand(&mut self, now: Instant) {
        if self.sessions.broker.has_demand_change() {
            let (links, mut cx) = self.federation(now);
            links.propagate_demand(&mut cx);
        }
    }

    /// Sends other brokers the acknowledgements that are due.
    pub fn acknowledge(&mut self, now: Instant) {
        self.federation_links.acknowledge(&mut self.sessions.effects, now);
    }

    /// The federation link that a connection was made for.
    pub fn federation_link(&self, slot: ConnectionSlot) -> Option<FederationLinkId> {
        self.sessions.connections.get(slot)?.federation_link
    }

    /// Whether all messages that a connection brings come from another broker, which keeps them until they are acknowledged. One
    /// that is throttled here and broken may be given up at once: nobody else would take what waits at the source.
    pub fn is_redelivered(&self, slot: ConnectionSlot) -> bool {
        self.federation_link(slot).is_some_and(|link| self.federation_links.is_redelivered(link))
    }

    /// Whether a connection that another broker made to push messages has broken. It has no turn after this one, and none if
    /// something of it was held back: the source connects again at once, and what is carried out of this connection then would come
    /// behind what the next one brings.
    pub fn is_broken_push(&self, slot: ConnectionSlot) -> bool {
        self.sessions.is_closed(slot) && self.sessions.broker.is_push(slot)
    }

    /// A connection is lost: if it belongs to a link, that dials again later.
    pub fn lose(&mut self, slot: ConnectionSlot, why: &str, now: Instant) {
        let (links, mut cx) = self.federation(now);
        links.on_connection_lost(slot, why, &mut cx);
    }
}
