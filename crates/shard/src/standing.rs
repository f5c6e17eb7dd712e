//! How links stand, for an operator.
//!
//! Enters: the time.  Leaves: the state of every link and route of this shard, and what they did.
//! Owns:   which of several reasons for standing still is told.
//! Never:  changes what a link does.

use crate::shard::Shard;
use crate::tie::Stage;
use broker::Effects;
use federation::{LinkState, LinkStatus, RouteStatus};
use std::time::Instant;

impl Shard {
    /// How every link of this shard stands.
    pub fn links(&mut self, now: Instant) -> Vec<LinkStatus> {
        let mut all = Vec::new();
        for number in self.ties.numbers() {
            let state = self.tie_state(number, now);
            let Some(tie) = self.ties.get(number) else { continue };
            if tie.leaves {
                continue;
            }
            if tie.state.0 != state.name() {
                tie.state = (state.name(), now);
            }
            let slot = match tie.stage {
                Stage::Connected { slot } => Some(slot),
                _ => None,
            };
            let routes: Vec<_> = tie.peering.routes().map(|(number, spec)| (number, spec.clone())).collect();
            let routes = routes.into_iter().map(|(number, spec)| {
                let here = tie.routes.get(number);
                let (runs, error, lag) = tie.peering.route_state(number);
                let channel = tie.peering.channel(number);
                let mut status = RouteStatus {
                    spec,
                    runs,
                    error: error.map(Into::into),
                    messages: here.map_or(0, |here| here.messages),
                    bytes: here.map_or(0, |here| here.bytes),
                    redelivered: here.map_or(0, |here| here.redelivered),
                    dropped: here.map_or(0, |here| here.dropped),
                    unacknowledged: 0,
                    lag,
                    bindings: tie.peering.mirrored(number),
                };
                if let (Some(slot), Some(channel)) = (slot, channel) {
                    status.unacknowledged = self.broker.in_flight(slot, channel);
                    if let Some(pushed) =
                        self.desk.outlet(slot).and_then(|outlet| outlet.tie.as_mut()).and_then(|tie| tie.route(channel))
                    {
                        status.messages += pushed.messages;
                        status.bytes += pushed.bytes;
                        status.redelivered += pushed.redelivered;
                        status.dropped += pushed.dropped;
                    }
                }
                status
            });
            let routes = routes.collect();
            let status = LinkStatus {
                spec: tie.spec.clone(),
                state,
                state_for: now.saturating_duration_since(tie.state.1),
                peer: tie.peering.peer().cloned(),
                transport: tie.transport,
                connections: tie.connections,
                last_error: tie.last_error.clone(),
                routes,
            };
            match all.iter_mut().find(|link: &&mut LinkStatus| link.spec.key == status.spec.key) {
                Some(link) => join(link, status),
                None => all.push(status),
            }
        }
        all
    }

    pub(crate) fn tie_state(&mut self, number: u32, now: Instant) -> LinkState {
        let Some(tie) = self.ties.get(number) else { return LinkState::Connecting };
        match tie.stage {
            Stage::Idle | Stage::Dialling => LinkState::Connecting,
            Stage::Waiting { until, refused } => {
                let next_in = until.saturating_duration_since(now);
                if refused { LinkState::Refused { next_in } } else { LinkState::BackingOff { next_in } }
            }
            Stage::Connected { slot } => match tie.peering.state() {
                LinkState::Running if !self.broker.may_read(slot) => LinkState::BlockedHere,
                LinkState::Running if self.desk.is_full(slot) || !self.desk.has_capacity(slot) => {
                    LinkState::BlockedThere { reason: "it does not read".into() }
                }
                state => state,
            },
        }
    }
}

/// A link has a connection for each direction, of which it shows the one that is worse off.
fn join(link: &mut LinkStatus, mut other: LinkStatus) {
    if other.routes.is_empty() {
        return;
    }
    let connections = link.connections + other.connections;
    let is_worse = link.routes.is_empty() || (link.state == LinkState::Running && other.state != LinkState::Running);
    if is_worse {
        std::mem::swap(link, &mut other);
    }
    link.connections = connections;
    link.last_error = link.last_error.take().or(other.last_error);
    link.routes.append(&mut other.routes);
}
