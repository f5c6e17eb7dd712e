//! Discovers the brokers that are reachable from a few, and the flows between them.
//!
//! Two addresses are the same broker if both report the same name and virtual host. The search is bounded and changes
//! nothing.

use crate::broker_address::BrokerAddress;
use crate::limits::BROKERS_MAX;
use crate::listing::{carried, flag, list, named, text};
use crate::second_path::{self, RouteEdge};
use admin::{AdminConnection, RequestError, RequestErrorKind};
use client::{Url, peer};
use definitions::Json;
use std::collections::BTreeSet;
use std::time::Duration;
use topology::KeyMatching;

/// Index of a broker; an alias keeps its index.
pub type BrokerIndex = usize;

/// What is known of a broker.
pub struct DiscoveredBroker {
    /// Its addresses, without logins.
    pub addresses: Vec<String>,
    /// Its name and virtual host.
    pub identity: Option<(String, String)>,
    /// The outcome of its probe, if it was probed.
    pub outcome: Option<Result<(), RequestError>>,
    alias_of: Option<BrokerIndex>,
}

/// A flow of messages from one broker to another.
#[derive(Clone, Debug)]
pub struct DiscoveredFlow {
    pub from: BrokerIndex,
    pub to: BrokerIndex,
    /// The exchange; of a queue route, the destination's.
    pub exchange: String,
    /// A key, `<dynamic>` or a queue, as listings show it.
    pub carries: String,
    /// Dynamic, static or queue.
    pub kind: String,
    /// The key of a static route.
    pub key: Option<String>,
    /// The exchange's type as reported by the broker that dials; empty if unknown.
    pub exchange_type: String,
    /// Duplicates that arrive by it are dropped.
    pub forced: bool,
    /// The source dials.
    pub pushed: bool,
    /// The route is running.
    pub runs: bool,
}

pub struct BrokerNetwork {
    wait: Duration,
    brokers: Vec<DiscoveredBroker>,
    flows: Vec<DiscoveredFlow>,
    /// Links, as the dialling and the dialled broker.
    links: Vec<(BrokerIndex, BrokerIndex)>,
    /// Brokers that pull from another and whose address is unknown: the source, the exchange, and the announced
    /// identity.
    announced_pulls: Vec<(BrokerIndex, String, (String, String))>,
}

impl BrokerNetwork {
    /// An empty network, with a time limit for each probe.
    pub fn new(wait: Duration) -> Self {
        BrokerNetwork { wait, brokers: Vec::new(), flows: Vec::new(), links: Vec::new(), announced_pulls: Vec::new() }
    }

    /// Probes a broker, unless it was probed before.
    pub fn probe(&mut self, at: &BrokerAddress) -> BrokerIndex {
        let number = self.index_of(&at.peer());
        if self.brokers[number].outcome.is_none() {
            self.query(number, at);
        }
        number
    }

    /// Probes again with another login; if that fails as well, the first outcome stays.
    pub fn probe_with_login(&mut self, number: BrokerIndex, login: &Url) {
        let number = self.canonical(number);
        let Some(peer) = self.brokers[number].addresses.first() else { return };
        let Ok(place) = BrokerAddress::of(peer::with_login(peer, login)) else { return };
        let before = self.brokers[number].outcome.take();
        self.query(number, &place);
        if matches!(self.brokers[number].outcome, Some(Err(_))) {
            self.brokers[number].outcome = before;
        }
    }

    /// Probes all discovered brokers with one login.
    pub fn explore(&mut self, login: &Url) {
        let mut number = 0;
        while number < self.brokers.len().min(BROKERS_MAX) {
            let broker = &self.brokers[number];
            if broker.outcome.is_none()
                && broker.alias_of.is_none()
                && let Some(peer) = broker.addresses.first()
            {
                match BrokerAddress::of(peer::with_login(peer, login)) {
                    Ok(place) => self.query(number, &place),
                    Err(text) => self.mark_failed(number, RequestError { kind: RequestErrorKind::Other, text }),
                }
            }
            number += 1;
        }
        // A broker that was announced but not reached has no address.
        for (from, exchange, identity) in std::mem::take(&mut self.announced_pulls) {
            let known = self.brokers.iter().position(|broker| broker.identity.as_ref() == Some(&identity));
            let to = known.unwrap_or_else(|| {
                let unmet =
                    DiscoveredBroker { addresses: Vec::new(), identity: Some(identity), outcome: None, alias_of: None };
                self.brokers.push(unmet);
                self.brokers.len() - 1
            });
            // A broker that was probed has reported the flow itself, and so has one that pushes there under the same
            // identity.
            let (there, here) = (self.canonical(to), self.canonical(from));
            let is_pushed = self.flows().any(|flow| {
                flow.pushed
                    && (flow.from, flow.to) == (here, there)
                    && flow.exchange == exchange
                    && flow.kind == "static"
            });
            if !is_pushed && !matches!(self.brokers[there].outcome, Some(Ok(()))) {
                self.flows.push(DiscoveredFlow {
                    from,
                    to,
                    exchange,
                    carries: "<pulled>".to_owned(),
                    kind: "dynamic".to_owned(),
                    key: None,
                    exchange_type: String::new(),
                    forced: false,
                    pushed: false,
                    runs: true,
                });
            }
        }
    }

    /// The outcome of a probe.
    pub fn outcome(&self, number: BrokerIndex) -> Result<(), &RequestError> {
        match &self.brokers[number].outcome {
            Some(Err(none)) => Err(none),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Whether one broker has a link to another, with any login.
    pub fn is_linked(&self, near: BrokerIndex, far: BrokerIndex) -> bool {
        let (near, far) = (self.canonical(near), self.canonical(far));
        self.links.iter().any(|(from, to)| (self.canonical(*from), self.canonical(*to)) == (near, far))
    }

    pub fn are_same(&self, left: BrokerIndex, right: BrokerIndex) -> bool {
        self.canonical(left) == self.canonical(right)
    }

    /// The broker that an index stands for, aliases resolved.
    pub fn canonical(&self, number: BrokerIndex) -> BrokerIndex {
        let mut at = number;
        while let Some(other) = self.brokers[at].alias_of {
            at = other;
        }
        at
    }

    /// Every broker, once.
    pub fn brokers(&self) -> impl Iterator<Item = (BrokerIndex, &DiscoveredBroker)> {
        self.brokers.iter().enumerate().filter(|(_, broker)| broker.alias_of.is_none())
    }

    /// Every flow.
    pub fn flows(&self) -> impl Iterator<Item = DiscoveredFlow> {
        self.flows.iter().map(|flow| DiscoveredFlow {
            from: self.canonical(flow.from),
            to: self.canonical(flow.to),
            ..flow.clone()
        })
    }

    /// Brokers that could not be probed, and why.
    pub fn unreachable(&self) -> Vec<(BrokerIndex, String)> {
        let mut unseen: Vec<_> = self
            .brokers()
            .filter_map(|(number, broker)| match &broker.outcome {
                Some(Err(none)) => Some((number, none.text.clone())),
                _ => None,
            })
            .collect();
        if self.brokers.len() > BROKERS_MAX {
            unseen.push((BROKERS_MAX, format!("there are more than {BROKERS_MAX} brokers, and not all are probed")));
        }
        unseen
    }

    /// A broker's name, or its address if the name is unknown.
    pub fn title(&self, number: BrokerIndex) -> String {
        let broker = &self.brokers[self.canonical(number)];
        match (&broker.identity, broker.addresses.first()) {
            (Some((name, vhost)), _) => named(name, vhost),
            (None, Some(place)) => peer::short_name(place).to_owned(),
            (None, None) => "an unknown broker".to_owned(),
        }
    }

    /// A broker's address, or its name if the address is unknown.
    pub fn location(&self, number: BrokerIndex) -> String {
        let broker = &self.brokers[self.canonical(number)];
        broker.addresses.first().map_or_else(|| self.title(number), |place| peer::short_name(place).to_owned())
    }

    /// Why a route would create a second path between two brokers, if it would.
    pub fn second_path(&self, exchange: &str, new: RouteEdge<BrokerIndex>) -> Option<String> {
        let flows: Vec<_> = self.flows().filter(|flow| flow.exchange == exchange && flow.kind != "queue").collect();
        let types: BTreeSet<_> =
            flows.iter().map(|flow| &*flow.exchange_type).filter(|kind| !kind.is_empty()).collect();
        // If the brokers disagree, any key may match.
        let kind = if types.len() == 1 { types.first().copied().unwrap_or_default() } else { "" };
        let leg = |flow: &DiscoveredFlow| {
            let DiscoveredFlow { from, to, key, pushed, forced, .. } = flow.clone();
            RouteEdge { from, to, key, pushed, forced }
        };
        let legs: Vec<_> = flows.iter().map(leg).collect();
        let new = RouteEdge { from: self.canonical(new.from), to: self.canonical(new.to), ..new };
        let marks = |at: &BrokerIndex| !matches!(&self.brokers[*at].outcome, Some(Err(none)) if none.kind == RequestErrorKind::NotHarrier);
        let wrong = second_path::check_second_path(&legs, &new, KeyMatching::of_exchange_type(kind), marks)?;
        Some(wrong.describe(exchange, "--force adds it, and duplicates are dropped", |at| self.title(*at)))
    }

    /// The broker at an address.
    fn index_of(&mut self, place: &str) -> BrokerIndex {
        let known = self.brokers.iter().position(|broker| broker.addresses.iter().any(|known| known == place));
        known.unwrap_or_else(|| {
            self.brokers.push(DiscoveredBroker {
                addresses: vec![place.to_owned()],
                identity: None,
                outcome: None,
                alias_of: None,
            });
            self.brokers.len() - 1
        })
    }

    fn mark_failed(&mut self, number: BrokerIndex, none: RequestError) {
        self.brokers[number].outcome = Some(Err(none));
    }

    fn query(&mut self, number: BrokerIndex, at: &BrokerAddress) {
        let connection = match AdminConnection::begin(&at.url, "harrier route", self.wait) {
            Ok(connection) => connection,
            Err(none) => return self.mark_failed(number, none),
        };
        if let Some(name) = connection.server_property("cluster_name") {
            let identity = (name, at.url.vhost.clone());
            // This is another address of a known broker, whose links may be known already.
            let other = self.brokers.iter().position(|broker| broker.identity.as_ref() == Some(&identity));
            if let Some(other) = other.map(|other| self.canonical(other)).filter(|other| *other != number) {
                let places = std::mem::take(&mut self.brokers[number].addresses);
                self.brokers[other].addresses.extend(places.clone());
                self.brokers[number] = DiscoveredBroker {
                    addresses: places,
                    identity: None,
                    outcome: Some(Ok(())),
                    alias_of: Some(other),
                };
                if self.brokers[other].outcome.is_some() {
                    return connection.end();
                }
                return self.add_links(other, connection, at);
            }
            self.brokers[number].identity = Some(identity);
        }
        self.add_links(number, connection, at);
    }

    fn add_links(&mut self, number: BrokerIndex, mut connection: AdminConnection, at: &BrokerAddress) {
        let answer = connection.ask("links", vec![("vhost", Json::text(&at.url.vhost))]);
        connection.end();
        let found = match answer {
            Ok(found) => found,
            Err(none) => return self.mark_failed(number, none),
        };
        self.brokers[number].outcome = Some(Ok(()));
        for link in list(&found, "links") {
            let far = self.far_end(link);
            self.links.push((number, far));
            for route in list(link, "routes") {
                let pushed = text(route, "direction") == "push";
                let (from, to) = if pushed { (number, far) } else { (far, number) };
                self.flows.push(DiscoveredFlow {
                    from,
                    to,
                    exchange: text(route, "exchange").to_owned(),
                    carries: carried(route),
                    kind: text(route, "kind").to_owned(),
                    key: route.get("key").map(|_| text(route, "key").to_owned()),
                    exchange_type: text(route, "exchange_type").to_owned(),
                    forced: flag(route, "forced"),
                    pushed,
                    runs: flag(route, "runs"),
                });
            }
        }
        for downstream in list(&found, "downstreams") {
            let said = |name: &str| text(downstream, name).to_owned();
            self.announced_pulls.push((number, said("exchange"), (said("cluster_name"), said("peer_vhost"))));
        }
    }

    /// The broker at the far end of a link. One whose name is known is identified by it.
    fn far_end(&mut self, link: &Json) -> BrokerIndex {
        let place = text(link, "peer");
        let identity = match (text(link, "cluster_name"), text(link, "peer_vhost")) {
            ("", _) => None,
            (name, vhost) => Some((name.to_owned(), vhost.to_owned())),
        };
        if identity.is_some()
            && let Some(known) = self.brokers.iter().position(|broker| broker.identity == identity)
        {
            let known = self.canonical(known);
            if !self.brokers[known].addresses.iter().any(|there| there == place) {
                self.brokers[known].addresses.push(place.to_owned());
            }
            return known;
        }
        let number = self.index_of(place);
        let known = &self.brokers[self.canonical(number)].identity;
        if identity.is_some() && known.is_some() {
            // An address such as 127.0.0.1 means another host from there: the identity is known, the address is not.
            self.brokers.push(DiscoveredBroker { addresses: Vec::new(), identity, outcome: None, alias_of: None });
            return self.brokers.len() - 1;
        }
        if identity.is_some() {
            self.brokers[number].identity = identity;
        }
        number
    }
}
