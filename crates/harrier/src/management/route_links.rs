//! Links and routes to other brokers, as RabbitMQ's tools know federation links: one a route.

use federation::{LinkKey, LinkState, LinkStatus, RouteDirection, RouteKind, RouteStatus};
use management::LiveFederationLink;

/// The routes of all links; a link without routes is one by itself.
pub fn federation_links(links: &[LinkStatus], now_ms: u64) -> Vec<LiveFederationLink> {
    let mut listed = Vec::new();
    for link in links {
        if link.routes.is_empty() {
            listed.push(federation_link(link, None, now_ms));
        }
        listed.extend(link.routes.iter().map(|route| federation_link(link, Some(route), now_ms)));
    }
    listed
}

/// The link to which a route with this id belongs, or which has the id itself.
pub fn link_key(links: &[LinkStatus], vhost: &str, id: &str) -> Option<LinkKey> {
    let has = |link: &&LinkStatus| match &link.routes[..] {
        [] => route_id(link, None) == id,
        routes => routes.iter().any(|route| route_id(link, Some(route)) == id),
    };
    links.iter().filter(|link| *link.spec.key.vhost == *vhost).find(has).map(|link| link.spec.key.clone())
}

fn route_id(link: &LinkStatus, route: Option<&RouteStatus>) -> String {
    let exchange = route.map_or("", |route| &*route.spec.exchange);
    let key = route.map_or_else(String::new, |route| match &route.spec.kind {
        RouteKind::Queue { queue } => format!("{queue} {exchange}"),
        RouteKind::Static { key } => format!("{exchange} {key}"),
        RouteKind::Dynamic => format!("{exchange} "),
    });
    let id = crc32c::crc32c(format!("{} {} {key}", link.spec.key.vhost, link.spec.key.peer).as_bytes());
    format!("{id:08x}")
}

fn federation_link(link: &LinkStatus, route: Option<&RouteStatus>, now_ms: u64) -> LiveFederationLink {
    let exchange = route.map_or("", |route| &*route.spec.exchange);
    let is_running = route.is_none_or(|route| route.is_running);
    let status = match &link.state {
        LinkState::Running | LinkState::BlockedHere | LinkState::BlockedThere { .. } if is_running => "running",
        LinkState::Running | LinkState::Connecting => "starting",
        LinkState::BlockedHere | LinkState::BlockedThere { .. } => "starting",
        LinkState::BackingOff { .. } | LinkState::Refused { .. } => "error",
    };
    let error = route.and_then(|route| route.error.as_deref()).or(link.last_error.as_deref());
    let state_ms = u64::try_from(link.state_for.as_millis()).unwrap_or(u64::MAX);
    LiveFederationLink {
        id: route_id(link, route),
        is_outgoing: route.is_some_and(|route| route.spec.direction == RouteDirection::Push),
        transport: link.transport,
        vhost: link.spec.key.vhost.to_string(),
        // It never has a password.
        uri: link.spec.key.peer.to_string(),
        status: if route.is_some_and(|route| route.error.is_some()) { "error" } else { status },
        upstream: link
            .peer
            .as_ref()
            .map_or_else(|| link.spec.key.peer.to_string(), |peer| peer.cluster_name.to_string()),
        exchange: exchange.to_owned(),
        upstream_exchange: exchange.to_owned(),
        local_connection: String::new(),
        error: error.map(str::to_owned),
        since_ms: now_ms.saturating_sub(state_ms),
        messages: route.map_or(0, |route| route.messages),
        bytes: route.map_or(0, |route| route.bytes),
        dropped: route.map_or(0, |route| route.dropped),
        unacknowledged: route.map_or(0, |route| route.unacknowledged),
        lag: route.and_then(|route| route.lag),
    }
}
