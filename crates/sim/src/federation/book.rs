//! The book: what was published, what came where, and what is wanted of whom, beside the brokers.
//!
//! Enters: bindings, publishes, faults, deliveries.  Leaves: where a message must come, and what a source must be asked for.
//! Owns:   the rules of routes, paths and hops, as the documents say them; periods, which end when nothing moves.
//! Never:  asks a broker.

use crate::federation::setting::{Edge, Setting};
use std::collections::{BTreeMap, BTreeSet};

/// An exchange's number, and a key or pattern.
pub type Binding = (usize, &'static str);

/// A message.
#[derive(Debug)]
pub struct Sent {
    /// Its number.
    pub id: u64,
    /// Where it was published.
    pub at: usize,
    /// The publisher: the broker's, of one of its lives.
    pub publisher: u64,
    /// To which exchange.
    pub exchange: usize,
    /// With this key.
    pub key: &'static str,
    /// When.
    pub period: u32,
    /// The broker that was away then.
    pub away: Option<usize>,
    /// Its publisher's connection broke before the broker had answered for it.
    pub is_unsure: bool,
}

/// A queue of clients.
#[derive(Debug, Default)]
pub struct Box {
    /// Its name.
    pub name: String,
    /// At this broker.
    pub at: usize,
    /// Its bindings, and since which period.
    pub bindings: BTreeMap<Binding, u32>,
    /// Those that it had, and until when.
    pub former: Vec<(Binding, u32)>,
    /// When the connection of its client broke last; 0: never.
    pub cut: u32,
    /// How often a message came.
    pub came: BTreeMap<u64, u32>,
    /// The last new message of a publisher to an exchange, by a way.
    pub last: BTreeMap<(u64, usize, Vec<usize>), u64>,
}

/// How a route stands.
#[derive(Clone, Debug)]
pub struct Route {
    /// What it is.
    pub edge: Edge,
    /// It was ordered.
    pub is_there: bool,
    /// Since which period without a pause.
    pub since: u32,
    /// Its link was cut last.
    pub cut: u32,
}

/// Everything that is known.
pub struct Book {
    /// The period.
    pub period: u32,
    /// The routes.
    pub routes: Vec<Route>,
    /// The queues.
    pub boxes: Vec<Box>,
    /// The messages of this period and of the one before.
    pub sent: Vec<Sent>,
    /// The period in which a broker stopped last; 0: never.
    pub stopped: Vec<u32>,
    /// A link was cut, a broker stopped or a route changed, ever.
    pub disturbed: bool,
    /// In this period nothing but publishing is done.
    pub calm: bool,
    setting: Setting,
}

impl Book {
    /// An empty one.
    pub fn new(setting: &Setting) -> Self {
        let route = |edge: &Edge| Route { edge: edge.clone(), is_there: true, since: 0, cut: 0 };
        Book {
            period: 1,
            routes: setting.edges.iter().map(route).collect(),
            boxes: Vec::new(),
            sent: Vec::new(),
            stopped: vec![0; setting.shards.len()],
            disturbed: false,
            calm: false,
            setting: setting.clone(),
        }
    }

    /// What a broker's own bindings to an exchange want; those alone that have been there since the last rest (`surely`), or
    /// all that there are.
    pub fn own_wants(&self, at: usize, exchange: usize, surely: bool) -> BTreeSet<&str> {
        let boxes = self.boxes.iter().filter(|queue| queue.at == at).flat_map(|queue| &queue.bindings);
        let boxes = boxes.filter(|((of, _), since)| *of == exchange && (!surely || **since < self.period));
        let routes = self.routes.iter().filter(|route| route.edge.source == at && route.edge.exchange == exchange);
        // A queue that feeds a route stays bound when the route has gone.
        let there = routes.filter(|route| route.edge.feed.is_some() || self.is_there(route, surely));
        boxes.map(|((_, key), _)| *key).chain(there.filter_map(|route| route.edge.pattern())).collect()
    }

    fn is_there(&self, route: &Route, surely: bool) -> bool {
        route.is_there && (!surely || route.since < self.period)
    }

    /// Every key that the source of a dynamic route is to be asked for: what brokers down any way without the source want, if
    /// it has hops enough.
    pub fn asked(&self, edge: &Edge, surely: bool) -> BTreeSet<&str> {
        let mut keys = BTreeSet::new();
        let mut path = vec![edge.source, edge.destination];
        self.gather(edge.exchange, surely, &mut path, &mut keys);
        keys
    }

    fn gather<'a>(&'a self, exchange: usize, surely: bool, path: &mut Vec<usize>, keys: &mut BTreeSet<&'a str>) {
        if path.len() > usize::from(self.setting.hops_max) + 1 {
            return;
        }
        let Some(&at) = path.last() else { return };
        keys.extend(self.own_wants(at, exchange, surely));
        for next in self.downstream(at, exchange, surely) {
            if !path.contains(&next) {
                path.push(next);
                self.gather(exchange, surely, path, keys);
                path.pop();
            }
        }
    }

    /// The brokers that pull dynamically from one.
    pub fn downstream(&self, at: usize, exchange: usize, surely: bool) -> impl Iterator<Item = usize> {
        let routes = self.routes.iter().filter(move |route| {
            let edge = &route.edge;
            edge.source == at && edge.exchange == exchange && edge.is_dynamic() && self.is_there(route, surely)
        });
        routes.map(|route| route.edge.destination)
    }

    /// Whether a route carries a key: surely, or as things are now.
    fn carries(&self, route: &Route, key: &str, surely: bool) -> bool {
        if !self.is_there(route, surely) {
            return false;
        }
        let kind = self.setting.exchanges[route.edge.exchange];
        match route.edge.pattern() {
            Some(pattern) => kind.matches(pattern, key),
            None => self.asked(&route.edge, surely).iter().any(|pattern| kind.matches(pattern, key)),
        }
    }

    /// Whether a message must come to a queue: there is a way by routes that have carried it since the last rest, and nothing
    /// has happened on it that may lose a message.
    pub fn must(&self, sent: &Sent, queue: &Box) -> bool {
        let kind = self.setting.exchanges[sent.exchange];
        let mut bindings = queue.bindings.iter().filter(|(_, since)| **since < self.period);
        if !bindings.any(|(&(exchange, pattern), _)| exchange == sent.exchange && kind.matches(pattern, sent.key)) {
            return false;
        }
        if self.stopped[sent.at] == self.period || sent.is_unsure {
            return false;
        }
        let mut been = vec![sent.at];
        let mut front = vec![sent.at];
        for _ in 0..=self.setting.hops_max {
            if front.contains(&queue.at) {
                return true;
            }
            let mut next = Vec::new();
            for route in self.routes.iter().filter(|route| route.edge.exchange == sent.exchange) {
                let (from, to) = (route.edge.source, route.edge.destination);
                let holds = || self.holds(route, sent, queue.at) && self.carries(route, sent.key, true);
                if front.contains(&from) && !been.contains(&to) && holds() {
                    been.push(to);
                    next.push(to);
                }
            }
            front = next;
        }
        false
    }

    /// Whether a route has lost nothing of a message that it was to carry in this period.
    fn holds(&self, route: &Route, sent: &Sent, last: usize) -> bool {
        let edge = &route.edge;
        if !edge.keeps() && route.cut == self.period {
            return false;
        }
        // Who comes back with the route that brings this leaves it where it is until those below have dialled again.
        let returns = |middle: usize| sent.away == Some(middle) && self.lets_ask(middle, sent.exchange);
        if self.stopped[edge.source] == self.period && !returns(edge.source) {
            return false;
        }
        // What is sent for a broker that is away waits for it: it asks for it when its queues are there again. Who pushes
        // does not know when that is, and without acknowledgements there is no queue that waits.
        let waits = edge.destination == last && sent.away == Some(last) && edge.ends().0 == last && edge.keeps();
        let comes_by = edge.keeps() && edge.spec.durable && edge.ends().0 == edge.destination;
        self.stopped[edge.destination] != self.period || waits || (comes_by && returns(edge.destination))
    }

    /// Whether all that a broker pulls of an exchange waits there when it comes back, and all that pull from it dial again in that
    /// time: no dial fails but for its being away.
    fn lets_ask(&self, middle: usize, exchange: usize) -> bool {
        let is_quiet = !self.setting.cuts && !self.setting.silences && !self.setting.refusals && !self.setting.reroutes;
        let mut to = self.routes.iter().map(|route| &route.edge);
        is_quiet && to.all(|edge| edge.destination != middle || edge.exchange != exchange || edge.spec.durable)
    }

    /// Whether a message may come to a queue at all.
    pub fn may(&self, sent: &Sent, queue: &Box) -> bool {
        let kind = self.setting.exchanges[sent.exchange];
        let lets = |(exchange, pattern): &Binding| *exchange == sent.exchange && kind.matches(pattern, sent.key);
        queue.bindings.keys().any(lets)
            || queue.former.iter().any(|(binding, until)| *until >= sent.period && lets(binding))
    }

    /// A message by its number.
    pub fn message(&self, id: u64) -> Option<&Sent> {
        let at = self.sent.partition_point(|sent| sent.id < id);
        self.sent.get(at).filter(|sent| sent.id == id)
    }

    /// A connection that one broker has made to another is gone.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.disturbed = true;
        for route in self.routes.iter_mut().filter(|route| route.edge.ends() == (from, to)) {
            route.cut = self.period;
        }
    }

    /// Nothing has happened in this period that lets a message come twice where it came once.
    pub fn is_undisturbed(&self) -> bool {
        self.stopped.iter().chain(self.routes.iter().map(|route| &route.cut)).all(|at| *at < self.period)
    }

    /// The connection of a publisher is gone: whether these were published is not known.
    pub fn doubt(&mut self, messages: impl Iterator<Item = u64>) {
        for id in messages {
            let at = self.sent.partition_point(|sent| sent.id < id);
            if let Some(sent) = self.sent.get_mut(at).filter(|sent| sent.id == id) {
                sent.is_unsure = true;
            }
        }
    }

    /// Nothing moves any more: what is known of single messages may go.
    pub fn end_period(&mut self) {
        self.sent.clear();
        for queue in &mut self.boxes {
            queue.came.clear();
            queue.former.clear();
        }
        self.period += 1;
    }
}
