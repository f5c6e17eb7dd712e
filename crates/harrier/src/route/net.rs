//! The brokers that can be found from a few, and what flows between them.
//!
//! Enters: addresses; what each broker answers about its links.  Leaves: brokers, flows, a second path if a route would make one.
//! Owns:   who is the same broker under two addresses: whoever says the same name, in the same virtual host.
//! Never:  changes anything; goes on for ever.

use super::listing::{carried, flag, list, named, text};
use super::place::Place;
use super::second::{self, Leg};
use crate::ask::{Conversation, NoResult, Reason};
use crate::peer;
use client::Url;
use definitions::Json;
use std::collections::BTreeSet;
use std::time::Duration;
use topology::KeyMatching;

/// Brokers that are looked at: a net of more is not drawn by hand.
const BROKERS_MAX: usize = 256;

/// A broker of the net, by its number; one that turns out to be another keeps its number.
pub type Number = usize;

/// A broker as far as it is known.
pub struct Broker {
    /// Its addresses, without logins.
    pub places: Vec<String>,
    /// Its name and virtual host.
    pub identity: Option<(String, String)>,
    /// What came of asking it, if it was.
    pub outcome: Option<Result<(), NoResult>>,
    /// It is another one of these.
    is: Option<Number>,
}

/// Something that flows from one broker to another.
#[derive(Clone, Debug)]
pub struct Flow {
    /// From here.
    pub from: Number,
    /// To there.
    pub to: Number,
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
pub struct Net {
    wait: Duration,
    brokers: Vec<Broker>,
    flows: Vec<Flow>,
    /// Who dials whom.
    links: Vec<(Number, Number)>,
    /// Brokers that pull from another, of which no address is known: the source, the exchange, who they say they are.
    heard: Vec<(Number, String, (String, String))>,
}

impl Net {
    /// Nothing yet; each broker is waited for so long.
    pub fn new(wait: Duration) -> Self {
        Net { wait, brokers: Vec::new(), flows: Vec::new(), links: Vec::new(), heard: Vec::new() }
    }

    /// Asks a broker, unless it was asked before.
    pub fn look(&mut self, at: &Place) -> Number {
        let number = self.at(&at.peer());
        if self.brokers[number].outcome.is_none() {
            self.ask(number, at);
        }
        number
    }

    /// Asks a broker that did not answer with another login; if that is no better, what it said first stands.
    pub fn look_again(&mut self, number: Number, login: &Url) {
        let number = self.the(number);
        let Some(peer) = self.brokers[number].places.first() else { return };
        let Ok(place) = Place::of(peer::with_login(peer, login)) else { return };
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
                && broker.is.is_none()
                && let Some(peer) = broker.places.first()
            {
                match Place::of(peer::with_login(peer, login)) {
                    Ok(place) => self.ask(number, &place),
                    Err(text) => self.fail(number, NoResult { kind: Reason::Other, text }),
                }
            }
            number += 1;
        }
        // Whoever was heard of and not met is a broker without an address.
        for (from, exchange, identity) in std::mem::take(&mut self.heard) {
            let known = self.brokers.iter().position(|broker| broker.identity.as_ref() == Some(&identity));
            let to = known.unwrap_or_else(|| {
                let unmet = Broker { places: Vec::new(), identity: Some(identity), outcome: None, is: None };
                self.brokers.push(unmet);
                self.brokers.len() - 1
            });
            // One that was asked has said so itself, and so has one that pushes there: it has the same in it as one that is
            // pulled from.
            let (there, here) = (self.the(to), self.the(from));
            let is_pushed = self.flows().any(|flow| {
                flow.pushed
                    && (flow.from, flow.to) == (here, there)
                    && flow.exchange == exchange
                    && flow.kind == "static"
            });
            if !is_pushed && !matches!(self.brokers[there].outcome, Some(Ok(()))) {
                self.flows.push(Flow {
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
    pub fn outcome(&self, number: Number) -> Result<(), &NoResult> {
        match &self.brokers[number].outcome {
            Some(Err(none)) => Err(none),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Whether one has a link to another, with whatever login.
    pub fn is_linked(&self, near: Number, far: Number) -> bool {
        let (near, far) = (self.the(near), self.the(far));
        self.links.iter().any(|(from, to)| (self.the(*from), self.the(*to)) == (near, far))
    }

    /// Whether two are the same broker.
    pub fn are_one(&self, left: Number, right: Number) -> bool {
        self.the(left) == self.the(right)
    }

    /// The broker that a number has come to mean.
    pub fn the(&self, number: Number) -> Number {
        let mut at = number;
        while let Some(other) = self.brokers[at].is {
            at = other;
        }
        at
    }

    /// Every broker, once.
    pub fn brokers(&self) -> impl Iterator<Item = (Number, &Broker)> {
        self.brokers.iter().enumerate().filter(|(_, broker)| broker.is.is_none())
    }

    /// What flows.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        self.flows.iter().map(|flow| Flow { from: self.the(flow.from), to: self.the(flow.to), ..flow.clone() })
    }

    /// Brokers that could not be looked at, and why.
    pub fn unseen(&self) -> Vec<(Number, String)> {
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
    pub fn title(&self, number: Number) -> String {
        let broker = &self.brokers[self.the(number)];
        match (&broker.identity, broker.places.first()) {
            (Some((name, vhost)), _) => named(name, vhost),
            (None, Some(place)) => peer::shown(place).to_owned(),
            (None, None) => "an unknown broker".to_owned(),
        }
    }

    /// Where a broker is, or who, if that is all that is known.
    pub fn place(&self, number: Number) -> String {
        let broker = &self.brokers[self.the(number)];
        broker.places.first().map_or_else(|| self.title(number), |place| peer::shown(place).to_owned())
    }

    /// Why a route would be a second path between two brokers, if it would.
    pub fn second_path(&self, exchange: &str, new: Leg<Number>) -> Option<String> {
        let flows: Vec<_> = self.flows().filter(|flow| flow.exchange == exchange && flow.kind != "queue").collect();
        let types: BTreeSet<_> =
            flows.iter().map(|flow| &*flow.exchange_type).filter(|kind| !kind.is_empty()).collect();
        // Where brokers do not agree, anything may be.
        let kind = if types.len() == 1 { types.first().copied().unwrap_or_default() } else { "" };
        let leg = |flow: &Flow| {
            let Flow { from, to, key, pushed, forced, .. } = flow.clone();
            Leg { from, to, key, pushed, forced }
        };
        let legs: Vec<_> = flows.iter().map(leg).collect();
        let new = Leg { from: self.the(new.from), to: self.the(new.to), ..new };
        let marks =
            |at: &Number| !matches!(&self.brokers[*at].outcome, Some(Err(none)) if none.kind == Reason::NotHarrier);
        let wrong = second::look(&legs, &new, KeyMatching::of_exchange_type(kind), marks)?;
        Some(wrong.tell(exchange, "--force adds it, and drops what comes twice", |at| self.title(*at)))
    }

    /// The broker at an address.
    fn at(&mut self, place: &str) -> Number {
        let known = self.brokers.iter().position(|broker| broker.places.iter().any(|known| known == place));
        known.unwrap_or_else(|| {
            self.brokers.push(Broker { places: vec![place.to_owned()], identity: None, outcome: None, is: None });
            self.brokers.len() - 1
        })
    }

    fn fail(&mut self, number: Number, none: NoResult) {
        self.brokers[number].outcome = Some(Err(none));
    }

    fn ask(&mut self, number: Number, at: &Place) {
        let conversation = match Conversation::begin(&at.url, "harrier route", self.wait) {
            Ok(conversation) => conversation,
            Err(none) => return self.fail(number, none),
        };
        if let Some(name) = conversation.said("cluster_name") {
            let identity = (name, at.url.vhost.clone());
            // Another address of a broker that is known. What it is joined with may have been told before.
            let other = self.brokers.iter().position(|broker| broker.identity.as_ref() == Some(&identity));
            if let Some(other) = other.map(|other| self.the(other)).filter(|other| *other != number) {
                let places = std::mem::take(&mut self.brokers[number].places);
                self.brokers[other].places.extend(places.clone());
                self.brokers[number] = Broker { places, identity: None, outcome: Some(Ok(())), is: Some(other) };
                if self.brokers[other].outcome.is_some() {
                    return conversation.end();
                }
                return self.take_in(other, conversation, at);
            }
            self.brokers[number].identity = Some(identity);
        }
        self.take_in(number, conversation, at);
    }

    fn take_in(&mut self, number: Number, mut conversation: Conversation, at: &Place) {
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
                self.flows.push(Flow {
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
            self.heard.push((number, said("exchange"), (said("cluster_name"), said("peer_vhost"))));
        }
    }

    /// Whom a link leads to. A broker that has told its name is known by it wherever it is.
    fn far_end(&mut self, link: &Json) -> Number {
        let place = text(link, "peer");
        let identity = match (text(link, "cluster_name"), text(link, "peer_vhost")) {
            ("", _) => None,
            (name, vhost) => Some((name.to_owned(), vhost.to_owned())),
        };
        if identity.is_some()
            && let Some(known) = self.brokers.iter().position(|broker| broker.identity == identity)
        {
            let known = self.the(known);
            if !self.brokers[known].places.iter().any(|there| there == place) {
                self.brokers[known].places.push(place.to_owned());
            }
            return known;
        }
        let number = self.at(place);
        let known = &self.brokers[self.the(number)].identity;
        if identity.is_some() && known.is_some() {
            // An address that leads elsewhere from there, such as 127.0.0.1: who is meant is known, but not where.
            self.brokers.push(Broker { places: Vec::new(), identity, outcome: None, is: None });
            return self.brokers.len() - 1;
        }
        if identity.is_some() {
            self.brokers[number].identity = identity;
        }
        number
    }
}
