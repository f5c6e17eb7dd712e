//! The brokers that can be found from a few, and what flows between them.
//!
//! Enters: addresses; what each broker answers about its links.  Leaves: brokers, flows, a second path if a route would make one.
//! Owns:   who is the same broker under two addresses: whoever says the same name, in the same virtual host.
//! Never:  changes anything; goes on for ever.

use super::listing::{carried, flag, list, named, text};
use super::broker_address::BrokerAddress;
use super::second_path::{self, RouteEdge};
use crate::admin_connection::{AdminConnection, RequestError, RequestErrorKind};
use crate::peer;
use client::Url;
use definitions::Json;
use std::collections::BTreeSet;
use std::time::Duration;
use topology::KeyMatching;

/// Brokers that are looked at: a net of more is not drawn by hand.
const BROKERS_MAX: usize = 256;

/// A broker of the net, by its number; one that turns out to be another keeps its number.
pub type BrokerIndex = usize;

/// A broker as far as it is known.
pub struct DiscoveredBroker {
    /// Its addresses, without logins.
    pub addresses: Vec<String>,
    /// Its name and virtual host.
    pub identity: Option<(String, String)>,
    /// What came of asking it, if it was.
    pub outcome: Option<Result<(), RequestError>>,
    /// It is another one of these.
    alias_of: Option<BrokerIndex>,
}

/// Something that flows from one broker to another.
#[derive(Clone, Debug)]
pub struct DiscoveredFlow {
    /// From here.
    pub from: BrokerIndex,
    /// To there.
    pub to: BrokerIndex,
    /// The exchange: the destination's, of a queue route.
    pub exchange: String,
    /// A key, `<dynamic>` or a queue, as listings have it.
    pub carries: String,
    /// Dynamic, static or queue.
    pub kind: String,
    /// The key of a static route.
    pub key: Option<String>,
    /// Of which type the exchange is, as the one says that dials; empty if nobody does.
    pub exchange_type: String,
    /// What comes twice by it is dropped.
    pub forced: bool,
    /// The source has dialled.
    pub pushed: bool,
    /// Messages go as they come.
    pub runs: bool,
}

/// Brokers and flows.
pub struct BrokerNetwork {
    wait: Duration,
    brokers: Vec<DiscoveredBroker>,
    flows: Vec<DiscoveredFlow>,
    /// Who dials whom.
    links: Vec<(BrokerIndex, BrokerIndex)>,
    /// Brokers that pull from another, of which no address is known: the source, the exchange, who they say they are.
    announced_pulls: Vec<(BrokerIndex, String, (String, String))>,
}

impl BrokerNetwork {
    /// Nothing yet; each broker is waited for so long.
    pub fn new(wait: Duration) -> Self {
        BrokerNetwork { wait, brokers: Vec::new(), flows: Vec::new(), links: Vec::new(), announced_pulls: Vec::new() }
    }

    /// Asks a broker, unless it was asked before.
    pub fn probe(&mut self, at: &BrokerAddress) -> BrokerIndex {
        let number = self.index_of(&at.peer());
        if self.brokers[number].outcome.is_none() {
            self.ask(number, at);
        }
        number
    }

    /// Asks a broker that did not answer with another login; if that is no better, what it said first stands.
    pub fn probe_with_login(&mut self, number: BrokerIndex, login: &Url) {
        let number = self.canonical(number);
        let Some(peer) = self.brokers[number].addresses.first() else { return };
        let Ok(place) = BrokerAddress::of(peer::with_login(peer, login)) else { return };
        let before = self.brokers[number].outcome.take();
        self.ask(number, &place);
        if matches!(self.brokers[number].outcome, Some(Err(_))) {
            self.brokers[number].outcome = before;
        }
    }

    /// Asks all brokers whose addresses are found, with the same login.
    pub fn explore(&mut self, login: &Url) {
        let mut number = 0;
        while number < self.brokers.len().min(BROKERS_MAX) {
            let broker = &self.brokers[number];
            if broker.outcome.is_none()
                && broker.alias_of.is_none()
                && let Some(peer) = broker.addresses.first()
            {
                match BrokerAddress::of(peer::with_login(peer, login)) {
                    Ok(place) => self.ask(number, &place),
                    Err(text) => self.fail(number, RequestError { kind: RequestErrorKind::Other, text }),
                }
            }
            number += 1;
        }
        // Whoever was heard of and not met is a broker without an address.
        for (from, exchange, identity) in std::mem::take(&mut self.announced_pulls) {
            let known = self.brokers.iter().position(|broker| broker.identity.as_ref() == Some(&identity));
            let to = known.unwrap_or_else(|| {
                let unmet = DiscoveredBroker { addresses: Vec::new(), identity: Some(identity), outcome: None, alias_of: None };
                self.brokers.push(unmet);
                self.brokers.len() - 1
            });
            // One that was asked has said so itself, and so has one that pushes there: it has the same in it as one that is
            // pulled from.
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

    /// What came of asking.
    pub fn outcome(&self, number: BrokerIndex) -> Result<(), &RequestError> {
        match &self.brokers[number].outcome {
            Some(Err(none)) => Err(none),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Whether one has a link to another, with whatever login.
    pub fn is_linked(&self, near: BrokerIndex, far: BrokerIndex) -> bool {
        let (near, far) = (self.canonical(near), self.canonical(far));
        self.links.iter().any(|(from, to)| (self.canonical(*from), self.canonical(*to)) == (near, far))
    }

    /// Whether two are the same broker.
    pub fn are_same(&self, left: BrokerIndex, right: BrokerIndex) -> bool {
        self.canonical(left) == self.canonical(right)
    }

    /// The broker that a number has come to mean.
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

    /// What flows.
    pub fn flows(&self) -> impl Iterator<Item = DiscoveredFlow> {
        self.flows.iter().map(|flow| DiscoveredFlow { from: self.canonical(flow.from), to: self.canonical(flow.to), ..flow.clone() })
    }

    /// Brokers that could not be looked at, and why.
    pub fn unreachable(&self) -> Vec<(BrokerIndex, String)> {
        let mut unseen: Vec<_> = self
            .brokers()
            .filter_map(|(number, broker)| match &broker.outcome {
                Some(Err(none)) => Some((number, none.text.clone())),
                _ => None,
            })
            .collect();
        if self.brokers.len() > BROKERS_MAX {
            unseen.push((BROKERS_MAX, format!("there are more than {BROKERS_MAX} brokers, and not all are looked at")));
        }
        unseen
    }

    /// What a broker is called: by its name, or its address if it has told none.
    pub fn title(&self, number: BrokerIndex) -> String {
        let broker = &self.brokers[self.canonical(number)];
        match (&broker.identity, broker.addresses.first()) {
            (Some((name, vhost)), _) => named(name, vhost),
            (None, Some(place)) => peer::shown(place).to_owned(),
            (None, None) => "an unknown broker".to_owned(),
        }
    }

    /// Where a broker is, or who, if that is all that is known.
    pub fn location(&self, number: BrokerIndex) -> String {
        let broker = &self.brokers[self.canonical(number)];
        broker.addresses.first().map_or_else(|| self.title(number), |place| peer::shown(place).to_owned())
    }

    /// Why a route would be a second path between two brokers, if it would.
    pub fn second_path(&self, exchange: &str, new: RouteEdge<BrokerIndex>) -> Option<String> {
        let flows: Vec<_> = self.flows().filter(|flow| flow.exchange == exchange && flow.kind != "queue").collect();
        let types: BTreeSet<_> =
            flows.iter().map(|flow| &*flow.exchange_type).filter(|kind| !kind.is_empty()).collect();
        // Where brokers do not agree, anything may be.
        let kind = if types.len() == 1 { types.first().copied().unwrap_or_default() } else { "" };
        let leg = |flow: &DiscoveredFlow| {
            let DiscoveredFlow { from, to, key, pushed, forced, .. } = flow.clone();
            RouteEdge { from, to, key, pushed, forced }
        };
        let legs: Vec<_> = flows.iter().map(leg).collect();
        let new = RouteEdge { from: self.canonical(new.from), to: self.canonical(new.to), ..new };
        let marks =
            |at: &BrokerIndex| !matches!(&self.brokers[*at].outcome, Some(Err(none)) if none.kind == RequestErrorKind::NotHarrier);
        let wrong = second_path::check_second_path(&legs, &new, KeyMatching::of_exchange_type(kind), marks)?;
        Some(wrong.describe(exchange, "--force adds it, and drops what comes twice", |at| self.title(*at)))
    }

    /// The broker at an address.
    fn index_of(&mut self, place: &str) -> BrokerIndex {
        let known = self.brokers.iter().position(|broker| broker.addresses.iter().any(|known| known == place));
        known.unwrap_or_else(|| {
            self.brokers.push(DiscoveredBroker { addresses: vec![place.to_owned()], identity: None, outcome: None, alias_of: None });
            self.brokers.len() - 1
        })
    }

    fn fail(&mut self, number: BrokerIndex, none: RequestError) {
        self.brokers[number].outcome = Some(Err(none));
    }

    fn ask(&mut self, number: BrokerIndex, at: &BrokerAddress) {
        let conversation = match AdminConnection::begin(&at.url, "harrier route", self.wait) {
            Ok(conversation) => conversation,
            Err(none) => return self.fail(number, none),
        };
        if let Some(name) = conversation.server_property("cluster_name") {
            let identity = (name, at.url.vhost.clone());
            // Another address of a broker that is known. What it is joined with may have been told before.
            let other = self.brokers.iter().position(|broker| broker.identity.as_ref() == Some(&identity));
            if let Some(other) = other.map(|other| self.canonical(other)).filter(|other| *other != number) {
                let places = std::mem::take(&mut self.brokers[number].addresses);
                self.brokers[other].addresses.extend(places.clone());
                self.brokers[number] = DiscoveredBroker { addresses: places, identity: None, outcome: Some(Ok(())), alias_of: Some(other) };
                if self.brokers[other].outcome.is_some() {
                    return conversation.end();
                }
                return self.add_links(other, conversation, at);
            }
            self.brokers[number].identity = Some(identity);
        }
        self.add_links(number, conversation, at);
    }

    fn add_links(&mut self, number: BrokerIndex, mut conversation: AdminConnection, at: &BrokerAddress) {
        let answer = conversation.ask("links", vec![("vhost", Json::text(&at.url.vhost))]);
        conversation.end();
        let found = match answer {
            Ok(found) => found,
            Err(none) => return self.fail(number, none),
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

    /// Whom a link leads to. A broker that has told its name is known by it wherever it is.
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
            // An address that leads elsewhere from there, such as 127.0.0.1: who is meant is known, but not where.
            self.brokers.push(DiscoveredBroker { addresses: Vec::new(), identity, outcome: None, alias_of: None });
            return self.brokers.len() - 1;
        }
        if identity.is_some() {
            self.brokers[number].identity = identity;
        }
        number
    }
}
