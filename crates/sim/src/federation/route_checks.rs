//! Checks of a federation: credit at every moment; at rest also deliveries, bindings, clients and links.

use super::expectations::{Expectations, ExpectedRoute};
use super::topology::{FederationSettings, RouteSettings};
use crate::world::SimulatedWorld;
use catalog::arguments::X_BOUND_FROM;
use catalog::{BindingDestination, BindingView, Catalog};
use federation::{LinkState, LinkStatus};
use std::collections::BTreeSet;
use wire::{ChannelNumber, Value};

/// The prefix of the names of everything that federation declares.
pub const FEDERATION_PREFIX: &str = "federation: ";

/// Compares a world with the expectations.
pub struct RouteChecker<'a> {
    pub world: &'a mut SimulatedWorld,
    pub expectations: &'a Expectations,
    pub settings: &'a FederationSettings,
}

impl RouteChecker<'_> {
    /// Everything that must be true at rest.
    pub fn check_rest(&mut self) {
        self.check_clients();
        self.check_links();
        self.check_messages();
        self.check_bindings();
    }

    /// Why a link or a route does not run, if one does not.
    pub fn broken_link(&mut self) -> Option<String> {
        for (broker, link) in self.links() {
            let of = &link.spec.key.peer;
            if link.state != LinkState::Running {
                return Some(format!(
                    "b{broker}'s link to {of} is {:?}, last error {:?};",
                    link.state, link.last_error
                ));
            }
            if let Some(route) = link.routes.iter().find(|route| !route.is_running || route.error.is_some()) {
                return Some(format!(
                    "b{broker}'s route of {of} {} does not run: {:?};",
                    route.spec.title(),
                    route.error
                ));
            }
        }
        None
    }

    /// The state of every link of every broker.
    fn links(&mut self) -> Vec<(usize, LinkStatus)> {
        let now = self.world.clock.now;
        let brokers = self.world.brokers.iter_mut().enumerate();
        let shards = brokers.flat_map(|(number, broker)| broker.shards.iter_mut().map(move |node| (number, node)));
        shards
            .flat_map(|(broker, node)| node.shard.link_statuses(now).into_iter().map(move |link| (broker, link)))
            .collect()
    }

    /// No more deliveries are under way on a link than its routes have credit.
    pub fn check_credit(&mut self) {
        let mut violation = None;
        for link in &self.world.links.open {
            let [near, far] = link.ends;
            let routes = self.expectations.routes.iter().map(|route| &route.settings);
            let routes = routes.filter(|route| route.ends() == (near.broker, far.broker));
            let credits: Vec<_> = routes.map(|route| if route.keeps() { route.spec.credit } else { 0 }).collect();
            if credits.is_empty() || credits.contains(&0) {
                continue;
            }
            let most = u64::from(credits.iter().copied().max().unwrap_or(0));
            for end in link.ends {
                let broker = &self.world.brokers[end.broker];
                if !broker.is_up || broker.lives != end.life {
                    continue;
                }
                let Some((shard, slot)) = broker.end_of(&link.cable) else { continue };
                let (at, from, to) = (end.broker, near.broker, far.broker);
                for channel in 1..=credits.len() as u16 {
                    let under_way = broker.shards[shard].shard.broker().in_flight(slot, ChannelNumber(channel));
                    if under_way > most {
                        violation = Some(format!(
                            "{under_way} messages are under way at b{at} on channel {channel} of the link of b{from} to b{to}, \
                             whose credit is {most}"
                        ));
                    }
                }
            }
        }
        violation.into_iter().for_each(|violation| self.world.trace.fail(violation));
    }

    /// No client waits for anything.
    fn check_clients(&mut self) {
        let violation = self.world.clients.iter().find_map(|client| {
            let (name, broker) = (client.role.name(), client.broker);
            client.waits_for().map(|what| format!("at rest: the {name} of b{broker} {what}"))
        });
        violation.into_iter().for_each(|violation| self.world.trace.fail(violation));
    }

    /// Deliveries of routes are acknowledged.
    fn check_links(&mut self) {
        let waiting = self.links().into_iter().find_map(|(broker, link)| {
            let route = link.routes.iter().find(|route| route.unacknowledged > 0)?;
            let title = route.spec.title();
            Some(format!("at rest: {} are not acknowledged on b{broker}'s {title}", route.unacknowledged))
        });
        waiting.into_iter().for_each(|violation| self.world.trace.fail(violation));
    }

    /// Everything that was owed is delivered, and after a calm nothing else.
    fn check_messages(&mut self) {
        let mut owed = 0;
        let mut complaint = None;
        for sent in &self.expectations.sent {
            for queue in &self.expectations.queues {
                let times = queue.deliveries.get(&sent.id).copied().unwrap_or_default();
                let must = self.expectations.must_deliver(sent, queue);
                owed += u64::from(must);
                let (id, name, from, at) = (sent.id, &queue.name, sent.at, queue.at);
                if must && times == 0 {
                    complaint = Some(format!("message {id} of b{from} was never delivered to {name} at b{at}"));
                } else if self.expectations.calm && times > 0 && !must {
                    complaint =
                        Some(format!("message {id} of b{from} was delivered to {name} at b{at}, and there is no path"));
                }
            }
            if complaint.is_some() {
                break;
            }
        }
        self.world.tally.owed += owed;
        complaint.into_iter().for_each(|what| self.world.trace.fail(what));
    }

    /// Sources have the bindings that downstream brokers are interested in, and nothing else of federation.
    fn check_bindings(&mut self) {
        let mut complaint = None;
        for (at, broker) in self.world.brokers.iter().enumerate() {
            for (shard, node) in broker.shards.iter().enumerate() {
                let catalog = node.shard.broker().catalog();
                let found = self.check_catalog(at, catalog);
                complaint = complaint.or(found.map(|what| format!("at rest: b{at}, shard {shard}: {what}")));
            }
        }
        complaint.into_iter().for_each(|what| self.world.trace.fail(what));
    }

    fn check_catalog(&self, at: usize, catalog: &Catalog) -> Option<String> {
        let is_source = |route: &&ExpectedRoute| route.exists && route.settings.source == at;
        let routes: Vec<_> = self.expectations.routes.iter().filter(is_source).map(|route| &route.settings).collect();
        let exchange_routes: Vec<_> = routes.iter().filter(|route| route.feed.is_none()).collect();
        let exchanges: Vec<_> =
            catalog.exchanges().filter(|(_, one)| one.name.starts_with(FEDERATION_PREFIX)).collect();
        if exchanges.len() != exchange_routes.len() {
            let names: Vec<_> = exchanges.iter().map(|(_, one)| one.name.to_string()).collect();
            return Some(format!("{} internal exchanges for {} routes: {names:?}", names.len(), exchange_routes.len()));
        }
        let consumed = self.expectations.queues.iter().filter(|queue| queue.at == at).count();
        let feeds = self.settings.routes.iter().filter(|route| route.source == at && route.feed.is_some()).count();
        if catalog.queues_count() != consumed + feeds + exchange_routes.len() {
            let names: Vec<_> = catalog.queues().map(|(_, queue)| queue.name.to_string()).collect();
            return Some(format!("{} routes need a queue, and the queues are {names:?}", exchange_routes.len()));
        }
        let vhost = catalog.vhost_by_name("/")?;
        for number in 0..self.settings.exchanges.len() {
            let Some(exchange) = catalog.exchange(vhost, format!("x{number}").as_bytes()) else {
                return Some(format!("x{number} is gone"));
            };
            let mut had = BTreeSet::new();
            for binding in catalog.bindings_from(exchange) {
                let BindingDestination::Exchange(to) = binding.destination else { continue };
                let Some(internal) = catalog.exchange_info(to) else { return Some("a binding leads nowhere".into()) };
                let arguments = internal.arguments.as_deref();
                let Some(down) = arguments.and_then(|table| broker_of(table.get("x-downstream-name"))) else {
                    return Some(format!("{} does not name its downstream broker", internal.name));
                };
                let key = String::from_utf8_lossy(binding.routing_key).into_owned();
                match self.check_path(at, down, number, &key, &binding) {
                    Ok(is_dynamic) => _ = had.insert((down, is_dynamic, key)),
                    Err(what) => return Some(format!("x{number} is bound by '{key}' for b{down}: {what}")),
                }
            }
            let of_exchange = routes.iter().filter(|route| route.exchange == number && route.feed.is_none());
            let expected: BTreeSet<_> = of_exchange
                .flat_map(|route| match route.pattern() {
                    Some(key) => vec![(route.destination, false, key.to_owned())],
                    None => self.interest_of(route),
                })
                .collect();
            if had != expected {
                let (more, less): (Vec<_>, Vec<_>) =
                    (had.difference(&expected).collect(), expected.difference(&had).collect());
                return Some(format!(
                    "x{number} has bindings without interest {more:?}, and interest without bindings {less:?}"
                ));
            }
        }
        None
    }

    fn interest_of(&self, route: &RouteSettings) -> Vec<(usize, bool, String)> {
        self.expectations
            .expected_interest(route, false)
            .into_iter()
            .map(|key| (route.destination, true, key.to_owned()))
            .collect()
    }

    /// Whether a binding of a route names the brokers through which it propagated, and these are a path of routes to a broker
    /// that is interested in it, with hops left. Returns whether it names a path at all.
    fn check_path(
        &self,
        at: usize,
        down: usize,
        exchange: usize,
        key: &str,
        binding: &BindingView<'_>,
    ) -> Result<bool, String> {
        let Some(argument) = binding.arguments.and_then(|arguments| arguments.get(X_BOUND_FROM)) else {
            return Ok(false);
        };
        let Value::List(list) = argument else { return Err("its path is no list".into()) };
        let mut path = vec![at];
        for (passed, hop) in list.iter().enumerate() {
            let Value::Table(hop) = hop else { return Err("its path has no tables".into()) };
            let Some(broker) = broker_of(hop.get("cluster-name")) else {
                return Err("its path names no broker".into());
            };
            let left = usize::from(self.settings.hops_max) + 1 + passed;
            let hops = hop.get("hops").and_then(Value::as_i64).unwrap_or_default();
            if hops != (left - list.len()) as i64 || hops < 1 {
                return Err(format!("{hops} hops at b{broker} in a path of {}", list.len()));
            }
            let from = *path.last().unwrap_or(&at);
            if path.contains(&broker) || !self.expectations.downstream(from, exchange, false).any(|one| one == broker) {
                return Err(format!("its path has no route from {path:?} to b{broker}"));
            }
            path.push(broker);
        }
        let last = *path.last().unwrap_or(&at);
        if path.get(1) != Some(&down) || !self.expectations.local_interest(last, exchange, false).contains(key) {
            return Err(format!("its path {path:?} does not begin with it, or its last broker has no such binding"));
        }
        Ok(true)
    }
}

fn broker_of(name: Option<&Value>) -> Option<usize> {
    std::str::from_utf8(name?.as_bytes()?).ok()?.strip_prefix('b')?.parse().ok()
}
