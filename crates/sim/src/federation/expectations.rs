//! Expected deliveries and bindings of a federation: what was published, what arrived, and what every source must forward.
//!
//! The rules of routes, paths and hops are those of docs/operations/federation.md. A period ends when the world is at rest.

use super::topology::{FederationSettings, RouteSettings};
use crate::settings::{FaultSettings, Settings};
use splitmix::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};

/// An exchange's number, and a key or pattern.
pub type QueueBinding = (usize, &'static str);

#[derive(Debug)]
pub struct PublishedMessage {
    /// Its number.
    pub id: u64,
    /// The broker at which it was published.
    pub at: usize,
    /// The uid of the publisher's connection.
    pub publisher: u64,
    pub exchange: usize,
    pub key: &'static str,
    pub period: u32,
    /// The broker that was stopped then.
    pub away: Option<usize>,
    /// Its publisher's connection was cut before the broker had confirmed it.
    pub is_unsure: bool,
}

/// A queue of a consumer.
#[derive(Debug, Default)]
pub struct ExpectedQueue {
    pub name: String,
    /// Its broker.
    pub at: usize,
    /// Its bindings, and the periods in which they were added.
    pub bindings: BTreeMap<QueueBinding, u32>,
    /// Bindings that were removed, and in which period.
    pub former: Vec<(QueueBinding, u32)>,
    /// The period in which its consumer's connection was cut last; 0: never.
    pub cut: u32,
    /// How often each message was delivered.
    pub deliveries: BTreeMap<u64, u32>,
    /// The last new message of a publisher to an exchange, by path.
    pub last: BTreeMap<(u64, usize, Vec<usize>), u64>,
}

/// A route and what has happened to it.
#[derive(Clone, Debug)]
pub struct ExpectedRoute {
    pub settings: RouteSettings,
    /// Whether it is configured.
    pub exists: bool,
    /// The period in which it was configured last.
    pub since: u32,
    /// The period in which its link was lost last.
    pub cut: u32,
}

/// The expectations of a run.
pub struct Expectations {
    pub period: u32,
    pub routes: Vec<ExpectedRoute>,
    pub queues: Vec<ExpectedQueue>,
    /// The messages of this period and of the one before.
    pub sent: Vec<PublishedMessage>,
    /// The period in which a broker stopped last; 0: never.
    pub stopped: Vec<u32>,
    /// Whether a link was cut, a broker stopped or a route changed, ever.
    pub disturbed: bool,
    /// In this period clients publish, and do nothing else.
    pub calm: bool,
    settings: FederationSettings,
    faults: FaultSettings,
}

impl Expectations {
    /// The expectations before the first message.
    pub fn new(run: &Settings, settings: &FederationSettings) -> Self {
        let route =
            |settings: &RouteSettings| ExpectedRoute { settings: settings.clone(), exists: true, since: 0, cut: 0 };
        Expectations {
            period: 1,
            routes: settings.routes.iter().map(route).collect(),
            queues: Vec::new(),
            sent: Vec::new(),
            stopped: vec![0; run.shards.len()],
            disturbed: false,
            calm: false,
            settings: settings.clone(),
            faults: run.faults,
        }
    }

    /// Draws the queues of the run, with their first bindings.
    pub fn draw_queues(&mut self, chance: &mut SplitMix64) {
        for at in 0..self.stopped.len() {
            for _ in 0..chance.between(1, 2) {
                let name = format!("q{}", self.queues.len());
                let mut queue = ExpectedQueue { name, at, ..ExpectedQueue::default() };
                for _ in 0..chance.below(4) {
                    queue.bindings.insert(self.settings.draw_binding(chance), 0);
                }
                self.queues.push(queue);
            }
        }
    }

    /// The keys with which queues and fixed routes are bound to an exchange of a broker: those alone that have existed since
    /// the last rest (`surely`), or all.
    pub fn local_interest(&self, at: usize, exchange: usize, surely: bool) -> BTreeSet<&str> {
        let queues = self.queues.iter().filter(|queue| queue.at == at).flat_map(|queue| &queue.bindings);
        let queues = queues.filter(|((of, _), since)| *of == exchange && (!surely || **since < self.period));
        let routes =
            self.routes.iter().filter(|route| route.settings.source == at && route.settings.exchange == exchange);
        // The queue of a route stays bound when the route is removed.
        let there = routes.filter(|route| route.settings.feed.is_some() || self.exists(route, surely));
        queues.map(|((_, key), _)| *key).chain(there.filter_map(|route| route.settings.pattern())).collect()
    }

    fn exists(&self, route: &ExpectedRoute, surely: bool) -> bool {
        route.exists && (!surely || route.since < self.period)
    }

    /// The keys that the bindings of a dynamic route must have at its source: those that brokers on any path downstream are
    /// interested in, as far as hops allow.
    pub fn expected_interest(&self, route: &RouteSettings, surely: bool) -> BTreeSet<&str> {
        let mut keys = BTreeSet::new();
        let mut path = vec![route.source, route.destination];
        self.collect_interest(route.exchange, surely, &mut path, &mut keys);
        keys
    }

    fn collect_interest<'a>(
        &'a self,
        exchange: usize,
        surely: bool,
        path: &mut Vec<usize>,
        keys: &mut BTreeSet<&'a str>,
    ) {
        if path.len() > usize::from(self.settings.hops_max) + 1 {
            return;
        }
        let Some(&at) = path.last() else { return };
        keys.extend(self.local_interest(at, exchange, surely));
        for next in self.downstream(at, exchange, surely) {
            if !path.contains(&next) {
                path.push(next);
                self.collect_interest(exchange, surely, path, keys);
                path.pop();
            }
        }
    }

    /// The brokers that pull from one by dynamic routes.
    pub fn downstream(&self, at: usize, exchange: usize, surely: bool) -> impl Iterator<Item = usize> {
        let routes = self.routes.iter().filter(move |route| {
            let settings = &route.settings;
            settings.source == at
                && settings.exchange == exchange
                && settings.is_dynamic()
                && self.exists(route, surely)
        });
        routes.map(|route| route.settings.destination)
    }

    /// Whether a route forwards messages of a key: surely, or as it is now.
    fn carries(&self, route: &ExpectedRoute, key: &str, surely: bool) -> bool {
        if !self.exists(route, surely) {
            return false;
        }
        let kind = self.settings.exchanges[route.settings.exchange];
        match route.settings.pattern() {
            Some(pattern) => kind.matches(pattern, key),
            None => self.expected_interest(&route.settings, surely).iter().any(|pattern| kind.matches(pattern, key)),
        }
    }

    /// Whether a message must be delivered to a queue: there is a path of routes that have forwarded its key since the last
    /// rest, and nothing has happened on it that may lose a message.
    pub fn must_deliver(&self, sent: &PublishedMessage, queue: &ExpectedQueue) -> bool {
        let kind = self.settings.exchanges[sent.exchange];
        let mut bindings = queue.bindings.iter().filter(|(_, since)| **since < self.period);
        if !bindings.any(|(&(exchange, pattern), _)| exchange == sent.exchange && kind.matches(pattern, sent.key)) {
            return false;
        }
        if self.stopped[sent.at] == self.period || sent.is_unsure {
            return false;
        }
        let mut visited = vec![sent.at];
        let mut frontier = vec![sent.at];
        for _ in 0..=self.settings.hops_max {
            if frontier.contains(&queue.at) {
                return true;
            }
            let mut next = Vec::new();
            for route in self.routes.iter().filter(|route| route.settings.exchange == sent.exchange) {
                let (from, to) = (route.settings.source, route.settings.destination);
                let keeps = || self.keeps(route, sent, queue.at) && self.carries(route, sent.key, true);
                if frontier.contains(&from) && !visited.contains(&to) && keeps() {
                    visited.push(to);
                    next.push(to);
                }
            }
            frontier = next;
        }
        false
    }

    /// Whether a route loses no message that it must forward in this period.
    fn keeps(&self, route: &ExpectedRoute, sent: &PublishedMessage, last: usize) -> bool {
        let settings = &route.settings;
        if !settings.keeps() && route.cut == self.period {
            return false;
        }
        // A broker that restarts together with the route to it leaves messages upstream until the brokers downstream have
        // dialled again.
        let returns = |middle: usize| sent.away == Some(middle) && self.resumes_alone(middle, sent.exchange);
        if self.stopped[settings.source] == self.period && !returns(settings.source) {
            return false;
        }
        // Messages for a broker that is stopped are kept until it dials again, which it does when its queues exist again. A
        // route that pushes does not know when that is, and one without acknowledgements has no queue that keeps them.
        let waits =
            settings.destination == last && sent.away == Some(last) && settings.ends().0 == last && settings.keeps();
        let comes_by = settings.keeps() && settings.spec.durable && settings.ends().0 == settings.destination;
        self.stopped[settings.destination] != self.period || waits || (comes_by && returns(settings.destination))
    }

    /// Whether a broker that restarts finds everything that it pulls of an exchange kept, and all that pull from it dial again
    /// in that time: no dial fails, except because it is stopped.
    fn resumes_alone(&self, middle: usize, exchange: usize) -> bool {
        let faults = &self.faults;
        let is_quiet = !faults.link_cuts && !faults.silences && !faults.refusals && !faults.reroutes;
        let mut to = self.routes.iter().map(|route| &route.settings);
        is_quiet && to.all(|route| route.destination != middle || route.exchange != exchange || route.spec.durable)
    }

    /// Whether a message may be delivered to a queue at all.
    pub fn may_deliver(&self, sent: &PublishedMessage, queue: &ExpectedQueue) -> bool {
        let kind = self.settings.exchanges[sent.exchange];
        let lets = |(exchange, pattern): &QueueBinding| *exchange == sent.exchange && kind.matches(pattern, sent.key);
        queue.bindings.keys().any(lets)
            || queue.former.iter().any(|(binding, until)| *until >= sent.period && lets(binding))
    }

    /// A message by its number.
    pub fn message(&self, id: u64) -> Option<&PublishedMessage> {
        let at = self.sent.partition_point(|sent| sent.id < id);
        self.sent.get(at).filter(|sent| sent.id == id)
    }

    /// A connection that one broker has dialled to another is lost.
    pub fn lose_link(&mut self, from: usize, to: usize) {
        self.disturbed = true;
        for route in self.routes.iter_mut().filter(|route| route.settings.ends() == (from, to)) {
            route.cut = self.period;
        }
    }

    /// The connection of a broker's consumer is lost: what it has not acknowledged is delivered again.
    pub fn lose_consumer(&mut self, broker: usize) {
        let period = self.period;
        self.queues.iter_mut().filter(|queue| queue.at == broker).for_each(|queue| queue.cut = period);
    }

    /// A broker stops, and so do all its routes.
    pub fn stop_broker(&mut self, broker: usize) {
        let period = self.period;
        self.stopped[broker] = period;
        self.disturbed = true;
        let is_end = |route: &&mut ExpectedRoute| [route.settings.source, route.settings.destination].contains(&broker);
        self.routes.iter_mut().filter(is_end).for_each(|route| route.cut = period);
    }

    pub fn remove_route(&mut self, route: usize) {
        let period = self.period;
        self.disturbed = true;
        let route = &mut self.routes[route];
        (route.exists, route.since, route.cut) = (false, period, period);
    }

    /// A route is configured again.
    pub fn restore_route(&mut self, route: usize) {
        let period = self.period;
        let route = &mut self.routes[route];
        (route.exists, route.since) = (true, period);
    }

    /// Adds a binding to a queue, or removes it if the queue has it. Returns whether it is new.
    pub fn toggle_binding(&mut self, queue: usize, binding: QueueBinding) -> bool {
        let period = self.period;
        let queue = &mut self.queues[queue];
        let is_new = queue.bindings.remove(&binding).is_none();
        if is_new {
            queue.bindings.insert(binding, period);
        } else {
            queue.former.push((binding, period));
        }
        is_new
    }

    /// Whether nothing has happened in this period that duplicates messages.
    pub fn is_undisturbed(&self) -> bool {
        self.stopped.iter().chain(self.routes.iter().map(|route| &route.cut)).all(|at| *at < self.period)
    }

    /// The connection of a publisher is lost: whether the broker has received these is not known.
    pub fn mark_unsure(&mut self, messages: impl Iterator<Item = u64>) {
        for id in messages {
            let at = self.sent.partition_point(|sent| sent.id < id);
            if let Some(sent) = self.sent.get_mut(at).filter(|sent| sent.id == id) {
                sent.is_unsure = true;
            }
        }
    }

    /// The world is at rest: single messages are forgotten.
    pub fn end_period(&mut self) {
        self.sent.clear();
        for queue in &mut self.queues {
            queue.deliveries.clear();
            queue.former.clear();
        }
        self.period += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Expectations, PublishedMessage};
    use crate::settings::{Mode, Settings, WorkloadSettings};
    use splitmix::SplitMix64;

    /// Expectations of a run whose first queue has one binding to the first exchange, from the period before.
    fn with_one_binding() -> (Expectations, &'static str) {
        let settings = Settings::of(Mode::Federation, 3);
        let WorkloadSettings::Federation(federation) = &settings.workload else { panic!("it is a federation") };
        let mut expectations = Expectations::new(&settings, federation);
        expectations.draw_queues(&mut SplitMix64::new(1));
        let key = federation.exchanges[0].keys()[0];
        expectations.queues[0].bindings.clear();
        assert!(expectations.toggle_binding(0, (0, key)));
        expectations.end_period();
        (expectations, key)
    }

    fn message(expectations: &Expectations, key: &'static str) -> PublishedMessage {
        let (at, period) = (expectations.queues[0].at, expectations.period);
        PublishedMessage { id: 1, at, publisher: 1, exchange: 0, key, period, away: None, is_unsure: false }
    }

    #[test]
    fn a_message_is_owed_to_a_queue_of_its_broker_unless_something_may_lose_it() {
        let (mut expectations, key) = with_one_binding();
        let mut sent = message(&expectations, key);
        assert!(expectations.must_deliver(&sent, &expectations.queues[0]));
        sent.is_unsure = true;
        assert!(!expectations.must_deliver(&sent, &expectations.queues[0]));
        sent.is_unsure = false;
        expectations.stop_broker(sent.at);
        assert!(!expectations.must_deliver(&sent, &expectations.queues[0]) && !expectations.is_undisturbed());
    }

    #[test]
    fn a_removed_binding_allows_deliveries_until_the_period_ends() {
        let (mut expectations, key) = with_one_binding();
        assert!(!expectations.toggle_binding(0, (0, key)));
        let sent = message(&expectations, key);
        assert!(expectations.may_deliver(&sent, &expectations.queues[0]));
        assert!(!expectations.must_deliver(&sent, &expectations.queues[0]));
        expectations.end_period();
        assert!(!expectations.may_deliver(&sent, &expectations.queues[0]));
    }
}
