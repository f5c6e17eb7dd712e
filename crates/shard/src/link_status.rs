//! The status of a link for operators: its state, and what it and its routes have done.
//!
//! Owns:   which of several reasons for not running is reported.

use crate::federation_link::{FederationLink, LinkPhase};
use crate::link_context::LinkContext;
use broker::Effects;
use federation::{LinkState, LinkStatus, RouteId, RouteStatus};

pub(crate) fn link_status(link: &mut FederationLink, cx: &mut LinkContext<'_>) -> LinkStatus {
    let state = link_state(link, cx);
    if link.record.state.0 != state.name() {
        link.record.state = (state.name(), cx.now);
    }
    let all: Vec<_> = link.session.routes.iter().map(|(route, _)| route).collect();
    let routes = all.into_iter().filter_map(|route| route_status(link, route, cx)).collect();
    LinkStatus {
        spec: link.spec.clone(),
        state,
        state_for: cx.now.saturating_duration_since(link.record.state.1),
        peer: link.session.peer().cloned(),
        transport: link.record.transport,
        connections: link.record.connections,
        last_error: link.record.last_error.clone(),
        routes,
    }
}

fn route_status(link: &mut FederationLink, route: RouteId, cx: &mut LinkContext<'_>) -> Option<RouteStatus> {
    let progress = link.session.routes.progress(route);
    let mut counts = link.routes.get(route).map(|route| route.counts).unwrap_or_default();
    let mut unacknowledged = 0;
    if let LinkPhase::Connected { slot } = link.phase
        && let Some(channel) = link.session.routes.channel(route)
    {
        unacknowledged = cx.broker.in_flight(slot, channel);
        if let Some(pushed) = cx.link_output(slot).and_then(|output| output.push_route(channel)) {
            counts.add(pushed.counts);
        }
    }
    let is_complete = match link.routes.get_mut(route) {
        Some(local) => local.left.check_complete(unacknowledged),
        None => false,
    };
    Some(RouteStatus {
        spec: link.session.routes.spec(route)?.clone(),
        is_running: progress.is_running,
        error: progress.error.map(Into::into),
        messages: counts.messages,
        bytes: counts.bytes,
        redelivered: counts.redelivered,
        dropped: counts.dropped,
        given_up: counts.given_up.total(),
        unacknowledged,
        is_complete,
        lag: progress.lag,
        bindings: link.session.routes.requested_bindings(route),
    })
}

fn link_state(link: &FederationLink, cx: &LinkContext<'_>) -> LinkState {
    match link.phase {
        LinkPhase::Idle | LinkPhase::Dialing { .. } => LinkState::Connecting,
        LinkPhase::Waiting { until, refused } => {
            let next_in = until.saturating_duration_since(cx.now);
            if refused { LinkState::Refused { next_in } } else { LinkState::BackingOff { next_in } }
        }
        LinkPhase::Connected { slot } => match link.session.state() {
            LinkState::Running if !cx.broker.may_read(slot) => LinkState::BlockedHere,
            LinkState::Running if cx.effects.is_full(slot) || !cx.effects.has_capacity(slot) => {
                LinkState::BlockedThere { reason: "it does not read".into() }
            }
            state => state,
        },
    }
}

/// Joins the statuses of a link's two directions, of which the one that does not run decides the state.
pub(crate) fn join_directions(link: &mut LinkStatus, mut other: LinkStatus) {
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
