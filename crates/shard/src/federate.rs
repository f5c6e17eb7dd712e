//! The shard's calls into its federation links, and those of the reactor.

use crate::federation_links::FederationLinks;
use crate::link_context::LinkContext;
use crate::link_dial::{DialError, DialRequest, DialedLink};
use crate::link_table::FederationLinkId;
use crate::shard::Shard;
use broker::Slot;
use federation::{FederationCommand, LinkStatus};
use link::Abort;
use std::time::Instant;

/// Why this broker has aborted a connection to another one, for operators.
pub(crate) fn abort_reason(why: Abort) -> &'static str {
    match why {
        Abort::Silent => "closed: the other broker was silent for two heartbeats",
        Abort::Overdue => "closed: the other broker did not answer as expected in time",
        Abort::Slow => "closed: the other broker does not read",
        other => other.as_str(),
    }
}

impl Shard {
    /// The links, and what they borrow of this shard.
    pub(crate) fn federation(&mut self, now: Instant) -> (&mut FederationLinks, LinkContext<'_>) {
        let cx = LinkContext {
            broker: &mut self.broker,
            effects: &mut self.effects,
            connections: &mut self.connections,
            shared: &self.shared,
            options: &self.options,
            draining: self.draining,
            now,
            timers_changed: false,
        };
        (&mut self.links, cx)
    }

    /// Carries out a command, which `federation::FederationPlan` has checked.
    pub fn federate(&mut self, command: FederationCommand, now: Instant) {
        let (links, mut cx) = self.federation(now);
        links.apply(command, &mut cx);
    }

    /// The next connection to make. Whoever makes it, or fails to, calls [`on_dial_outcome`](Self::on_dial_outcome).
    pub fn next_dial(&mut self) -> Option<DialRequest> {
        self.links.next_dial()
    }

    /// A dial has succeeded or failed. Returns the slot of the connection, whose link is to be registered.
    pub fn on_dial_outcome(
        &mut self,
        dial: &DialRequest,
        outcome: Result<DialedLink, DialError>,
        now: Instant,
    ) -> Option<Slot> {
        let (links, mut cx) = self.federation(now);
        let (link, inbound, out) = links.on_dial_outcome(dial, outcome, &mut cx)?;
        let slot = self.place(link, inbound, out, now);
        let (links, mut cx) = self.federation(now);
        links.on_connected(dial.link, slot, &mut cx);
        Some(slot)
    }

    /// The status of every link of this shard.
    pub fn link_statuses(&mut self, now: Instant) -> Vec<LinkStatus> {
        let (links, mut cx) = self.federation(now);
        links.statuses(&mut cx)
    }

    /// The federation link that a connection was made for.
    pub(crate) fn federation_link(&self, slot: Slot) -> Option<FederationLinkId> {
        self.connections.get(slot)?.federation_link
    }

    /// Whether all messages that a connection brings come from another broker, which keeps them until they are acknowledged. One
    /// that is throttled here and broken may be given up at once: nobody else would take what waits at the source.
    pub(crate) fn is_redelivered(&self, slot: Slot) -> bool {
        self.federation_link(slot).is_some_and(|link| self.links.is_redelivered(link))
    }

    /// A connection is lost: if it belongs to a link, that dials again later.
    pub(crate) fn lose(&mut self, slot: Slot, why: &str, now: Instant) {
        let (links, mut cx) = self.federation(now);
        links.on_connection_lost(slot, why, &mut cx);
    }
}
