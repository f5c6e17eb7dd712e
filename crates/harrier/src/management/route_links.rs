//! Links and routes to other brokers, as RabbitMQ's tools know federation links, one a route, and shovels.

use crate::management::shovel_route::PlannedShovel;
use crate::management::upstream_routes::FederatedObject;
use federation::{LinkKey, LinkOrigin, LinkState, LinkStatus, RouteDirection, RouteKind, RouteStatus};
use management::{LiveFederationLink, LiveShovel};

/// What a link without a connection is waiting for.
const STARTING: &str = "starting";
const RUNNING: &str = "running";

/// The routes of all links that operators have made; a link without routes is one by itself.
pub fn federation_links(links: &[LinkStatus], now_ms: u64) -> Vec<LiveFederationLink> {
    let mut listed = Vec::new();
    for link in links.iter().filter(|link| link.spec.key.origin == LinkOrigin::Operator) {
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
    let is_operators = |link: &&LinkStatus| link.spec.key.origin == LinkOrigin::Operator;
    links
        .iter()
        .filter(is_operators)
        .filter(|link| *link.spec.key.vhost == *vhost)
        .find(has)
        .map(|link| link.spec.key.clone())
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

/// The id of a federated object's link.
pub fn object_id(object: &FederatedObject) -> String {
    format!("{:08x}", crc32c::crc32c(object.identity().as_bytes()))
}

/// The link of a federated object.
pub fn federated_link(object: &FederatedObject, statuses: &[LinkStatus], now_ms: u64) -> LiveFederationLink {
    let status = object.route.as_ref().ok().and_then(|(link, route)| {
        let link = statuses.iter().find(|status| status.spec.key == link.key)?;
        Some((link, link.routes.iter().find(|status| status.spec.carries_same(route))?))
    });
    let known = status.map(|(link, route)| federation_link(link, Some(route), now_ms));
    let refused = object.route.as_ref().err();
    let other = || LiveFederationLink {
        status: if refused.is_some() { "error" } else { STARTING },
        error: refused.cloned(),
        since_ms: now_ms,
        ..LiveFederationLink::default()
    };
    LiveFederationLink {
        id: object_id(object),
        vhost: object.vhost.clone(),
        uri: object.uri.clone(),
        upstream: object.upstream.clone(),
        is_of_queue: object.is_of_queue,
        exchange: object.name.clone(),
        upstream_exchange: object.upstream_name.clone(),
        ..known.unwrap_or_else(other)
    }
}

/// A shovel as it stands.
pub fn live_shovel(shovel: &PlannedShovel, statuses: &[LinkStatus], now_ms: u64) -> LiveShovel {
    let key = shovel.route.as_ref().ok().map(|route| &route.link.key);
    let status = statuses.iter().find(|status| Some(&status.spec.key) == key && !shovel.is_paused);
    let link = status.and_then(|link| Some(federation_link(link, Some(link.routes.first()?), now_ms)));
    let (state, reason) = match (&shovel.route, &link) {
        _ if shovel.is_paused => ("paused", None),
        (Err(why), _) => ("terminated", Some(why.clone())),
        (Ok(_), Some(link)) if link.status == RUNNING => (RUNNING, None),
        (Ok(_), Some(link)) if link.status == "error" => ("terminated", link.error.clone()),
        (Ok(_), _) => (STARTING, None),
    };
    LiveShovel {
        vhost: shovel.vhost.clone(),
        name: shovel.name.clone(),
        state,
        reason,
        source: shovel.source.clone(),
        destination: shovel.destination.clone(),
        since_ms: link.as_ref().map_or(now_ms, |link| link.since_ms),
        messages: link.as_ref().map_or(0, |link| link.messages),
        unacknowledged: link.as_ref().map_or(0, |link| link.unacknowledged),
    }
}

fn federation_link(link: &LinkStatus, route: Option<&RouteStatus>, now_ms: u64) -> LiveFederationLink {
    let exchange = route.map_or("", |route| &*route.spec.exchange);
    let is_running = route.is_none_or(|route| route.is_running);
    let status = match &link.state {
        LinkState::Running | LinkState::BlockedHere | LinkState::BlockedThere { .. } if is_running => RUNNING,
        LinkState::Running | LinkState::Connecting => STARTING,
        LinkState::BlockedHere | LinkState::BlockedThere { .. } => STARTING,
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
        is_of_queue: false,
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
