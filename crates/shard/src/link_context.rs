//! What federation links borrow of their shard while one of them works.

use crate::connection::{ConnectionPhase, HalfClose};
use crate::connections::Connections;
use crate::effects::ShardEffects;
use crate::link_id::FederationLinkId;
use crate::link_output::LinkOutput;
use crate::sessions::Sessions;
use crate::shard_options::ShardOptions;
use crate::shared_state::SharedState;
use crate::stamp_check::release_stamps;
use broker::{Broker, ConnectionSlot};
use catalog::{ExchangeId, QueueId, VhostId};
use federation::{LinkSpec, RouteSpec};
use session::SessionLimits;
use std::time::Instant;

/// The broker core, the connections and their outputs, for as long as a call into the links takes.
pub(crate) struct LinkContext<'a> {
    pub broker: &'a mut Broker,
    pub effects: &'a mut ShardEffects,
    pub connections: &'a mut Connections,
    pub shared: &'a SharedState,
    pub options: &'a ShardOptions,
    pub draining: bool,
    pub now: Instant,
    /// A link's next timer may have changed: the table looks for the first one again.
    pub timers_changed: bool,
}

impl<'a> LinkContext<'a> {
    pub fn new(sessions: &'a mut Sessions, draining: bool, now: Instant) -> Self {
        let Sessions { options, connections, broker, effects, shared, .. } = sessions;
        LinkContext { broker, effects, connections, shared, options, draining, now, timers_changed: false }
    }

    /// The limits of a connection to another broker, which may lend memory for bodies.
    pub fn session_limits(&self, lends_memory: bool) -> SessionLimits {
        let body_frame_bytes_max = if lends_memory { self.options.rdma_frame_bytes_max } else { 0 };
        let passes_over_contents = true;
        SessionLimits {
            owner_opens_channels: false,
            body_frame_bytes_max,
            passes_over_contents,
            ..self.options.session
        }
    }

    /// Bytes of properties that fit a header frame of a connection: what this broker takes, and the other one.
    pub fn properties_bytes_max(&mut self, slot: ConnectionSlot) -> usize {
        let own = self.options.session.properties_bytes_max();
        let theirs = self.effects.output(slot).map(|output| output.out.properties_bytes_max());
        theirs.map_or(own, |theirs| theirs.min(own))
    }

    pub fn link_output(&mut self, slot: ConnectionSlot) -> Option<&mut LinkOutput> {
        self.effects.output(slot)?.link_output.as_deref_mut()
    }

    /// The virtual host of a link at this broker.
    pub fn vhost(&self, link: &LinkSpec) -> Option<VhostId> {
        self.broker.catalog().vhost_by_name(&link.key.vhost)
    }

    /// The exchange of a route at this broker, in the virtual host that its connection has opened.
    pub fn local_exchange(&self, slot: ConnectionSlot, route: &RouteSpec) -> Option<ExchangeId> {
        let ConnectionPhase::Open { vhost, .. } = self.connections.get(slot)?.phase else { return None };
        self.broker.catalog().exchange(vhost, route.local_exchange().as_bytes())
    }

    /// A queue in the virtual host of a link at this broker.
    pub fn local_queue(&self, link: &LinkSpec, name: &str) -> Option<QueueId> {
        self.broker.catalog().queue(self.vhost(link)?, name.as_bytes())
    }

    /// Ends the session of a connection in the broker core.
    pub fn close_session(&mut self, slot: ConnectionSlot) {
        release_stamps(self.shared, self.effects, slot, None);
        self.broker.close_session(slot, self.effects);
    }

    /// Has a link dial again only when this connection is over, so that what was sent on it arrives first. Returns false if it is
    /// over already.
    pub fn mark_closing(&mut self, slot: ConnectionSlot, link: FederationLinkId) -> bool {
        self.connections.get_mut(slot).map(|connection| connection.closes_link = Some(link)).is_some()
    }

    /// Ends a connection once everything written has been sent.
    pub fn close_when_sent(&mut self, slot: ConnectionSlot) {
        self.close_session(slot);
        self.connections.enter_closing_phase(slot, ConnectionPhase::Leaving, self.now);
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.half_close = HalfClose::Pending;
        }
        self.effects.make_dirty(slot);
    }
}
