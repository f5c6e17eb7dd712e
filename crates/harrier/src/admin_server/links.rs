//! Admin commands for links and routes to other brokers.
//!
//! Owns the federation plan of this broker and the transfer rates of its routes. A durable change is stored before it
//! is applied; passwords are never shown.

use super::{AdminCommand, AdminError, AdminServer, error};
use crate::plan_file;
use crate::state_folder::{BrokerIdentity, StateFolder};
use catalog::{BindingDestination, Catalog, ExchangeId, VhostId};
use client::{Url, peer};
use definitions::Json;
use federation::{
    FederationCommand, FederationPlan, LinkKey, LinkOrigin, LinkSpec, LinkState, LinkStatus, RouteDirection, RouteKind,
    RouteSpec, RouteStatus, route_spec,
};
use shard::AdminHandle;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Value;

/// Exchange types by virtual host and exchange name.
type ExchangeTypes = HashMap<(Box<str>, Box<str>), &'static str>;

/// Arguments that each command accepts.
pub const LINKS: &[&str] = &["vhost", "exchange"];
pub const LINK_ADD: &[&str] = &["vhost", "url", "user", "durable", "dry_run"];
pub const LINK_DELETE: &[&str] = &["vhost", "url", "dry_run"];
pub const ROUTE_ADD: &[&str] = &[
    "vhost",
    "url",
    "user",
    "exchange",
    "key",
    "queue",
    "direction",
    "ack",
    "credit",
    "hops_max",
    "durable",
    "forced",
    "dead_letter_exchange",
    "dry_run",
];
pub const ROUTE_DELETE: &[&str] =
    &["vhost", "url", "exchange", "key", "queue", "direction", "del_empty_link", "dry_run"];

/// Minimum time between two samples of a rate; a sooner request gets the previous rate.
const RATE_SPAN_MIN: Duration = Duration::from_secs(1);

/// Bindings of one exchange that are scanned for brokers that pull from it.
const BINDINGS_SCANNED_MAX: usize = 10_000;

/// Links and routes of one broker.
pub struct FederationAdmin {
    cluster_name: String,
    persists_name: bool,
    addresses: Vec<String>,
    folder: Option<Arc<StateFolder>>,
    plan: FederationPlan,
    rate_samples: HashMap<(LinkKey, String), RateSample>,
}

/// A route's counters at the last request.
#[derive(Clone, Copy)]
struct RateSample {
    at: Instant,
    messages: u64,
    bytes: u64,
    rate: Option<TransferRate>,
}

/// A route's transfer rate between two requests.
#[derive(Clone, Copy)]
struct TransferRate {
    messages_per_s: f64,
    bytes_per_s: f64,
    over_s: f64,
}

#[expect(clippy::disallowed_methods, reason = "a program may tell how much goes in a second")]
fn now() -> Instant {
    Instant::now()
}

impl FederationAdmin {
    /// Loads the plan from the state folder, if there is one.
    ///
    /// # Errors
    /// The file is not understood.
    pub fn of(state: BrokerIdentity) -> Result<Self, String> {
        let BrokerIdentity { cluster_name, persists_name: keeps_name, folder } = state;
        let plan = folder.as_deref().map(plan_file::load).transpose()?.unwrap_or_default();
        Ok(FederationAdmin {
            cluster_name,
            persists_name: keeps_name,
            addresses: Vec::new(),
            folder,
            plan,
            rate_samples: HashMap::new(),
        })
    }

    /// The broker's state folder, if it has one.
    pub fn folder(&self) -> Option<&StateFolder> {
        self.folder.as_deref()
    }

    /// Sets the addresses that the broker listens on.
    pub fn with_addresses(mut self, addresses: &[String]) -> Self {
        self.addresses = addresses.to_vec();
        self
    }

    /// Applies the stored plan to the broker.
    pub fn restore(&mut self, operator: &AdminHandle) {
        let orders: Vec<_> = self.plan.commands().into_iter().map(as_restored).collect();
        if !orders.is_empty() {
            tracing::info!(links = self.plan.links().len(), "links and routes of the state folder are restored");
        }
        for order in &orders {
            if let FederationCommand::ReturnRoute(key, route) = order {
                self.start_rate(key, route);
            }
        }
        send_commands(operator, orders);
    }

    /// Starts counting a route's transfers.
    fn start_rate(&mut self, key: &LinkKey, route: &RouteSpec) {
        let mark = RateSample { at: now(), messages: 0, bytes: 0, rate: None };
        self.rate_samples.entry((key.clone(), route.title())).or_insert(mark);
    }

    /// A route's current transfer rate.
    fn rate(&mut self, key: &LinkKey, status: &RouteStatus, now: Instant) -> Option<TransferRate> {
        let place = (key.clone(), status.spec.title());
        let fresh = RateSample { at: now, messages: status.messages, bytes: status.bytes, rate: None };
        let mark = self.rate_samples.entry(place).or_insert(fresh);
        mark.update(fresh);
        mark.rate
    }
}

impl RateSample {
    /// Replaces the sample with a newer one.
    fn update(&mut self, fresh: RateSample) {
        let span = fresh.at.saturating_duration_since(self.at);
        // A route that was recreated counts from zero.
        if fresh.messages < self.messages {
            *self = fresh;
        } else if span >= RATE_SPAN_MIN {
            let over_s = span.as_secs_f64();
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / over_s;
            let (messages_per_s, bytes_per_s) = (rate(fresh.messages, self.messages), rate(fresh.bytes, self.bytes));
            *self = RateSample { rate: Some(TransferRate { messages_per_s, bytes_per_s, over_s }), ..fresh };
        }
    }
}

/// Converts a command for a change into one for a stored link or route.
fn as_restored(order: FederationCommand) -> FederationCommand {
    match order {
        FederationCommand::AddRoute(key, route) => FederationCommand::ReturnRoute(key, route),
        order => order,
    }
}

/// A stopping broker drops its commands, and needs none.
fn send_commands(operator: &AdminHandle, orders: Vec<FederationCommand>) {
    for order in orders {
        let _stopped = operator.change_links(order);
    }
}

/// What has made a link, in words.
fn origin_text(origin: &LinkOrigin) -> String {
    match origin {
        LinkOrigin::Operator => "operator".to_owned(),
        LinkOrigin::Upstream(name) => format!("upstream {name}"),
        LinkOrigin::Shovel { vhost, name } => format!("shovel {name} of {vhost}"),
    }
}

impl AdminServer {
    /// The state of all links, or of those of one virtual host.
    pub(super) fn links(&mut self, asked: &AdminCommand<'_>) -> Result<Json, AdminError> {
        let vhost = asked.text("vhost")?;
        let stopping = || error("stopping", "the broker stops");
        let statuses = self.operator.link_statuses().ok_or_else(stopping)?;
        let only = vhost.map(str::to_owned);
        let types = self.exchange_types().ok_or_else(stopping)?;
        let downstreams = self.operator.with_catalog(move |catalog| downstreams(catalog, only.as_deref()));
        let mut links = Vec::new();
        let planned = self.federation.plan.links().to_vec();
        for planned in planned.iter().filter(|planned| vhost.is_none_or(|vhost| *planned.link.key.vhost == *vhost)) {
            // A command may still be under way.
            let known = statuses.iter().find(|status| status.spec.key == planned.link.key);
            let status = known.cloned().unwrap_or_else(|| LinkStatus {
                spec: planned.link.clone(),
                state: LinkState::Connecting,
                state_for: Duration::ZERO,
                peer: None,
                transport: "",
                connections: 0,
                last_error: None,
                routes: Vec::new(),
            });
            links.push(self.link(&planned.link, &planned.routes, &status, &types));
        }
        // What parameters ask for is changed by parameters: those who change links by routes see it in a list of its own.
        let of_parameters = statuses.iter().filter(|status| status.spec.key.origin != LinkOrigin::Operator);
        let mut parameter_links = Vec::new();
        for status in of_parameters.filter(|status| vhost.is_none_or(|vhost| *status.spec.key.vhost == *vhost)) {
            let routes: Vec<RouteSpec> = status.routes.iter().map(|route| route.spec.clone()).collect();
            parameter_links.push(self.link(&status.spec, &routes, status, &types));
        }
        let text = |text: &String| Json::text(text);
        let mut entries = vec![
            ("cluster_name", Json::text(&self.federation.cluster_name)),
            ("is_kept", Json::Bool(self.federation.folder.is_some())),
            ("addresses", Json::List(self.federation.addresses.iter().map(text).collect())),
            ("links", Json::List(links)),
            ("parameter_links", Json::List(parameter_links)),
            ("downstreams", Json::List(downstreams.ok_or_else(stopping)?)),
        ];
        if let Some(exchange) = asked.text("exchange")? {
            let place = (Box::from(vhost.unwrap_or("/")), Box::from(exchange));
            let types = self.types_of(HashSet::from([place.clone()])).ok_or_else(stopping)?;
            entries.push(("exchange_type", optional_text(types.get(&place).copied())));
        }
        Ok(object(entries))
    }

    /// The types of the local exchanges of all routes.
    fn exchange_types(&self) -> Option<ExchangeTypes> {
        let planned = self.federation.plan.links().iter();
        let places = planned.flat_map(|planned| {
            let vhost = &planned.link.key.vhost;
            planned.routes.iter().map(move |route| (vhost.clone(), route.exchange.clone()))
        });
        self.types_of(places.collect())
    }

    fn types_of(&self, places: HashSet<(Box<str>, Box<str>)>) -> Option<ExchangeTypes> {
        self.operator.with_catalog(move |catalog| {
            let type_of = |vhost: &str, exchange: &str| {
                let id = catalog.exchange(catalog.vhost_by_name(vhost)?, exchange.as_bytes())?;
                Some(catalog.exchange_info(id)?.kind.name())
            };
            let known = places.into_iter().filter_map(|place| {
                let kind = type_of(&place.0, &place.1)?;
                Some((place, kind))
            });
            known.collect()
        })
    }

    fn link(&mut self, spec: &LinkSpec, routes: &[RouteSpec], status: &LinkStatus, types: &ExchangeTypes) -> Json {
        let (why, next_in) = match &status.state {
            LinkState::BlockedThere { reason } => (Some(&**reason), None),
            LinkState::BackingOff { next_in } | LinkState::Refused { next_in } => {
                (status.last_error.as_deref(), Some(*next_in))
            }
            LinkState::Connecting | LinkState::Running | LinkState::BlockedHere => (None, None),
        };
        let told = routes.iter().map(|route| {
            let known = status.routes.iter().find(|status| status.spec.carries_same(route)).cloned();
            let status = known.unwrap_or_else(|| RouteStatus {
                spec: route.clone(),
                is_running: false,
                error: None,
                messages: 0,
                bytes: 0,
                redelivered: 0,
                dropped: 0,
                given_up: 0,
                unacknowledged: 0,
                is_complete: false,
                lag: None,
                bindings: 0,
            });
            self.route(&spec.key, &status, types)
        });
        let told = told.collect();
        object(vec![
            ("vhost", Json::text(&spec.key.vhost)),
            ("peer", Json::text(&spec.key.peer)),
            ("origin", Json::text(&origin_text(&spec.key.origin))),
            ("user", Json::text(&spec.user)),
            ("durable", Json::Bool(spec.durable)),
            // A link connects once it has a route.
            ("state", Json::text(if routes.is_empty() { "idle" } else { status.state.name() })),
            ("why", optional_text(why)),
            ("next_in_s", next_in.map_or(Json::Null, seconds)),
            ("state_for_s", seconds(status.state_for)),
            ("cluster_name", optional_text(status.peer.as_ref().map(|peer| &*peer.cluster_name))),
            ("peer_vhost", optional_text(status.peer.as_ref().map(|peer| &*peer.vhost))),
            ("transport", Json::text(status.transport)),
            ("connections", count(status.connections)),
            ("last_error", optional_text(status.last_error.as_deref())),
            ("routes", Json::List(told)),
        ])
    }

    fn route(&mut self, key: &LinkKey, status: &RouteStatus, types: &ExchangeTypes) -> Json {
        let rate = self.federation.rate(key, status, now());
        let kind = match status.spec.kind {
            RouteKind::Dynamic => "dynamic",
            RouteKind::Static { .. } => "static",
            RouteKind::Queue { .. } => "queue",
        };
        let mut entries = vec![("kind", Json::text(kind))];
        entries.extend(route_spec::entries(&status.spec));
        let kind = types.get(&(key.vhost.clone(), status.spec.exchange.clone()));
        entries.push(("exchange_type", optional_text(kind.copied())));
        let of_rate = |value: fn(&TransferRate) -> f64| rate.as_ref().map_or(Json::Null, |rate| rounded(value(rate)));
        entries.extend([
            ("runs", Json::Bool(status.is_running)),
            ("error", optional_text(status.error.as_deref())),
            ("messages", count(status.messages)),
            ("bytes", count(status.bytes)),
            ("messages_per_s", of_rate(|rate| rate.messages_per_s)),
            ("bytes_per_s", of_rate(|rate| rate.bytes_per_s)),
            ("over_s", of_rate(|rate| rate.over_s)),
            ("redelivered", count(status.redelivered)),
            ("dropped", count(status.dropped)),
            ("given_up", count(status.given_up)),
            ("unacknowledged", count(status.unacknowledged)),
            ("lag", status.lag.map_or(Json::Null, count)),
            ("bindings", count(status.bindings)),
        ]);
        object(entries)
    }

    /// Adds a link, or changes the login of an existing one.
    pub(super) fn link_add(&mut self, asked: &AdminCommand<'_>) -> Result<Json, AdminError> {
        let mut link = self.requested_link(asked)?;
        // The same address may be written differently.
        if let Some(there) = self.federation.plan.link(&link.key)
            && Url::parse(&there.link.url).ok() == Url::parse(&link.url).ok()
        {
            link.url = there.link.url.clone();
        }
        let own = peer::own_names(&self.federation.addresses, &link.key.vhost);
        let is_durable = link.durable;
        self.change(asked, is_durable, |plan| plan.add_link(link, &own))
    }

    /// Removes a link with its routes.
    pub(super) fn link_delete(&mut self, asked: &AdminCommand<'_>) -> Result<Json, AdminError> {
        let (key, _) = key_of(asked)?;
        self.change(asked, false, |plan| plan.remove_link(&key))
    }

    /// Adds a route, and its link if there is none. An existing link keeps its login, so that the user need not know
    /// it.
    pub(super) fn route_add(&mut self, asked: &AdminCommand<'_>) -> Result<Json, AdminError> {
        let route = route_spec::read(asked.arguments).map_err(|why| error("malformed", why))?;
        let link = self.requested_link(asked)?;
        let (vhost, at) = (link.key.vhost.to_string(), route.clone());
        let place = self.operator.with_catalog(move |catalog| check_local_end(catalog, &vhost, &at));
        place.ok_or_else(|| error("stopping", "the broker stops"))??;
        let own = peer::own_names(&self.federation.addresses, &link.key.vhost);
        let (key, is_durable) = (link.key.clone(), link.durable);
        self.change(asked, is_durable, |plan| {
            let mut orders = if plan.link(&key).is_none() { plan.add_link(link, &own)? } else { Vec::new() };
            orders.extend(plan.add_route(&key, route)?);
            Ok(orders)
        })
    }

    pub(super) fn route_delete(&mut self, asked: &AdminCommand<'_>) -> Result<Json, AdminError> {
        let (key, _) = key_of(asked)?;
        let route = route_spec::read(asked.arguments).map_err(|why| error("malformed", why))?;
        let and_empty_link = asked.flag("del_empty_link")?;
        self.change(asked, false, |plan| plan.remove_route(&key, &route, and_empty_link))
    }

    /// The link that a request names. Its user is the one who asks unless the request names another.
    fn requested_link(&self, asked: &AdminCommand<'_>) -> Result<LinkSpec, AdminError> {
        let (key, url) = key_of(asked)?;
        let user = asked.text("user")?.unwrap_or(asked.user).to_owned();
        let (vhost, name) = (key.vhost.to_string(), user.clone());
        let is_there = self.operator.with_catalog(move |catalog| {
            let has_vhost = catalog.vhost_by_name(&vhost).is_some();
            (has_vhost, catalog.users().any(|(_, user)| *user.name == *name))
        });
        let (has_vhost, has_user) = is_there.ok_or_else(|| error("stopping", "the broker stops"))?;
        match (has_vhost, has_user) {
            (false, _) => Err(error("not-found", format!("there is no virtual host '{}'", key.vhost))),
            (_, false) => Err(error("not-found", format!("there is no user '{user}'"))),
            (true, true) => Ok(LinkSpec {
                key,
                url: url.into(),
                user: user.into(),
                durable: asked.flag("durable")?,
                options: Default::default(),
            }),
        }
    }

    /// Changes the plan, stores the durable part, and applies the change; a dry run only validates it.
    fn change(
        &mut self,
        asked: &AdminCommand<'_>,
        is_durable: bool,
        change: impl FnOnce(&mut FederationPlan) -> Result<Vec<FederationCommand>, federation::PlanError>,
    ) -> Result<Json, AdminError> {
        let state = &mut self.federation;
        let mut plan = state.plan.clone();
        let orders = change(&mut plan).map_err(|why| error(why.code(), why.to_string()))?;
        let is_added = orders.iter().any(|order| matches!(order, FederationCommand::AddLink(_)));
        let mut warnings = Vec::new();
        match &state.folder {
            None if is_durable => {
                let why = "durable links and routes need a state folder: start the broker with --state DIR";
                return Err(error("no-state", why));
            }
            None if is_added => {
                let mut warning =
                    "the broker has no state folder (--state DIR): links and routes end with it".to_owned();
                if !state.persists_name {
                    let name = &state.cluster_name;
                    warning.push_str(&format!(", and its name, {name}, is another when it starts again"));
                }
                warnings.push(Json::Text(warning));
            }
            _ => {}
        }
        let is_changed = plan != state.plan;
        if !asked.flag("dry_run")? {
            if let Some(folder) = &state.folder
                && plan.durable() != state.plan.durable()
            {
                plan_file::store(folder, &plan).map_err(|why| error("failed", why))?;
            }
            state.plan = plan;
            for order in &orders {
                if let FederationCommand::AddRoute(key, route) = order {
                    state.start_rate(key, route);
                }
            }
            let planned = state.plan.links();
            let is_there = |key: &LinkKey, title: &String| {
                let link = planned.iter().find(|planned| planned.link.key == *key);
                link.is_some_and(|planned| planned.routes.iter().any(|route| route.title() == *title))
            };
            state.rate_samples.retain(|(key, title), _| is_there(key, title));
            send_commands(&self.operator, orders);
        }
        Ok(object(vec![("changed", Json::Bool(is_changed)), ("warnings", Json::List(warnings))]))
    }
}

/// The key of the link that a request names, and the other broker's address as written in the request.
fn key_of<'a>(asked: &'a AdminCommand<'_>) -> Result<(LinkKey, &'a str), AdminError> {
    let text = asked.text("url")?.ok_or_else(|| error("malformed", "argument 'url' is missing"))?;
    // The error leaves the address out, since it may contain a password.
    let url = Url::parse(text).map_err(|why| error("malformed", why.to_string().replace(text, "the address")))?;
    let vhost = asked.text("vhost")?.unwrap_or("/");
    Ok((LinkKey::of_operator(vhost.into(), peer::peer(&url).into()), text))
}

/// Checks that the local end of a route exists, and accepts or provides messages.
fn check_local_end(catalog: &Catalog, vhost: &str, route: &RouteSpec) -> Result<(), AdminError> {
    let Some(id) = catalog.vhost_by_name(vhost) else {
        return Err(error("not-found", format!("there is no virtual host '{vhost}'")));
    };
    let is_queue = match (&route.kind, route.direction) {
        (RouteKind::Queue { queue }, RouteDirection::Push) => {
            return match catalog.queue(id, queue.as_bytes()) {
                Some(_) => Ok(()),
                None => Err(error("not-found", format!("there is no queue '{queue}' in virtual host '{vhost}'"))),
            };
        }
        (RouteKind::Queue { .. }, RouteDirection::Pull) => true,
        (RouteKind::Dynamic | RouteKind::Static { .. }, _) => false,
    };
    let name = &route.exchange;
    if name.is_empty() && !is_queue {
        return Err(error(
            "not-permitted",
            "the default exchange has no bindings of its own, and only queue routes lead to it",
        ));
    }
    let found = catalog.exchange(id, name.as_bytes()).and_then(|id| catalog.exchange_info(id));
    match found {
        None => Err(error("not-found", format!("there is no exchange '{name}' in virtual host '{vhost}'"))),
        Some(exchange) if exchange.internal => {
            Err(error("not-permitted", format!("exchange '{name}' is internal, and takes no messages of routes")))
        }
        Some(_) => Ok(()),
    }
}

/// Brokers that pull from local exchanges, as they announced themselves.
fn downstreams(catalog: &Catalog, vhost: Option<&str>) -> Vec<Json> {
    let id = vhost.and_then(|name| catalog.vhost_by_name(name));
    let exchanges = catalog.exchanges().filter(|(_, exchange)| vhost.is_none() || id == Some(exchange.vhost));
    let mut found: Vec<Json> = Vec::new();
    for (own, exchange) in exchanges {
        let Some(arguments) = exchange.arguments.as_deref() else { continue };
        let said = |name: &str| match arguments.get(name) {
            Some(Value::LongStr(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        let (Some(name), Some(there)) = (said("x-downstream-name"), said("x-downstream-vhost")) else { continue };
        // The format of RabbitMQ's plugin: `federation: EXCHANGE -> NAME`, and more. Other downstreams are recognised
        // by their bindings.
        let title = exchange.name.strip_prefix("federation: ");
        let titled = title.and_then(|title| title.split_once(&*format!(" -> {name}")));
        let source = titled.map(|(source, _)| source.to_owned()).or_else(|| source_of(catalog, own, exchange.vhost));
        let Some(source) = source else { continue };
        let downstream = object(vec![
            ("vhost", Json::text(catalog.vhost_name(exchange.vhost))),
            ("exchange", Json::Text(source)),
            ("cluster_name", Json::Text(name)),
            ("peer_vhost", Json::Text(there)),
        ]);
        if !found.contains(&downstream) {
            found.push(downstream);
        }
    }
    found
}

/// The exchange whose bindings lead to another exchange.
fn source_of(catalog: &Catalog, to: ExchangeId, vhost: VhostId) -> Option<String> {
    let leads = |from: ExchangeId| {
        // Newest first, because this runs on a shard's thread.
        let mut bindings = catalog.bindings_from(from).take(BINDINGS_SCANNED_MAX);
        bindings.any(|binding| matches!(binding.destination, BindingDestination::Exchange(id) if id == to))
    };
    let mut sources = catalog.exchanges().filter(|(_, exchange)| exchange.vhost == vhost && !exchange.internal);
    sources.find(|(from, _)| leads(*from)).map(|(_, exchange)| exchange.name.to_string())
}

fn object(entries: Vec<(&str, Json)>) -> Json {
    Json::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn optional_text(text: Option<&str>) -> Json {
    text.map_or(Json::Null, Json::text)
}

fn count(number: u64) -> Json {
    Json::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn seconds(span: Duration) -> Json {
    rounded(span.as_secs_f64())
}

/// Rounds to thousandths.
fn rounded(number: f64) -> Json {
    Json::Float((number * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::{RateSample, TransferRate, now};
    use std::time::Duration;

    #[test]
    fn a_rate_is_what_came_between_two_looks() {
        let begun = now();
        let seen = |after_ms: u64, messages, bytes| {
            let at = begun + Duration::from_millis(after_ms);
            RateSample { at, messages, bytes, rate: None }
        };
        let mut mark = seen(0, 0, 0);
        let mut told = |look: RateSample| {
            mark.update(look);
            mark.rate.map(|TransferRate { messages_per_s, bytes_per_s, over_s }| (messages_per_s, bytes_per_s, over_s))
        };
        assert_eq!(told(seen(500, 100, 1000)), None, "too soon");
        assert_eq!(told(seen(2000, 100, 1000)), Some((50.0, 500.0, 2.0)));
        assert_eq!(told(seen(2500, 900, 9000)), Some((50.0, 500.0, 2.0)), "too soon, so as before");
        assert_eq!(told(seen(6000, 500, 1000)), Some((100.0, 0.0, 4.0)));
        assert_eq!(told(seen(9000, 10, 10)), None, "made anew");
        assert_eq!(told(seen(10000, 10, 10)), Some((0.0, 0.0, 1.0)));
    }
}
