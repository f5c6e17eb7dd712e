//! Rests: what must be so when nothing moves.
//!
//! Enters: a run that does nothing more.  Leaves: broken promises about progress, loss and bindings.
//! Owns:   how long anything may take; the comparison of what sources have with what is wanted of them.
//! Never:  looks into a broker to decide what is right.

use crate::federation::Run;
use crate::federation::book::Route;
use crate::federation::place::Seat;
use crate::federation::setting::Edge;
use crate::limits::{REST_QUIET_ROUNDS, REST_QUIET_STEP_US, REST_ROUNDS_MAX};
use catalog::arguments::X_BOUND_FROM;
use catalog::{BindingDestination, BindingView, Catalog};
use federation::{LinkState, LinkStatus};
use link::sim::SimSide;
use std::collections::BTreeSet;
use wire::Value;

/// How the names of what federation makes begin.
pub const MADE: &str = "federation: ";
/// How long the world may take to come to rest: as long as links wait between two tries, a few times.
const REST_S_MAX: u64 = 240;

impl Run {
    /// Nothing is done until nothing moves any more; then the book is compared.
    pub(super) fn rest(&mut self) {
        if self.is_broken() {
            return;
        }
        self.come_to_rest();
        if !self.is_broken() {
            self.note(|_| "at rest".into());
            self.check_clients();
            self.check_messages();
            self.check_bindings();
        }
        self.book.calm = false;
        self.book.end_period();
    }

    /// Lets everything go on until nothing does.
    pub(super) fn come_to_rest(&mut self) {
        self.resting = true;
        let began = self.now;
        let mut quiet = 0;
        for _ in 0..REST_ROUNDS_MAX {
            if self.is_broken() {
                break;
            }
            let moved = self.go_on();
            if moved {
                quiet = 0;
                let us = self.chance.below(100);
                self.pass(us);
                continue;
            }
            if self.now.duration_since(began).as_secs() > REST_S_MAX {
                break;
            }
            quiet = if self.links_run().is_none() && self.unnoticed().is_none() { quiet + 1 } else { 0 };
            if quiet > REST_QUIET_ROUNDS {
                self.resting = false;
                return;
            }
            self.pass(REST_QUIET_STEP_US);
        }
        let busy: Vec<_> = self.places.iter().flat_map(|place| place.world.busy()).collect();
        let links = [self.links_run(), self.unnoticed()].map(Option::unwrap_or_default).join(" ");
        self.broken(format!("the brokers do not come to rest: {links} {}", busy.join(", ")));
    }

    /// A round without deeds. Answers whether anything moved.
    pub(super) fn go_on(&mut self) -> bool {
        for cable in &self.cables {
            cable.limit_rate(SimSide::Left, None);
            cable.limit_rate(SimSide::Right, None);
            cable.step();
        }
        let mut moved = false;
        for place in 0..self.places.len() {
            let one = &mut self.places[place];
            one.taker.iter_mut().chain(&mut one.teller).for_each(Seat::let_go);
            moved |= self.pump(place);
            let world = &mut self.places[place].world;
            for node in 0..world.nodes.len() {
                if self.chance.permille(800) {
                    world.run(node);
                }
            }
            moved |= world.is_busy();
        }
        moved |= self.dials();
        self.check_credit();
        self.sweep();
        moved || !self.dialling.is_empty()
    }

    /// Why a link or a route does not run, if one does not.
    fn links_run(&mut self) -> Option<String> {
        for (place, link) in self.links() {
            let of = &link.spec.key.peer;
            if link.state != LinkState::Running {
                return Some(format!("b{place}'s link to {of} is {:?}, last error {:?};", link.state, link.last_error));
            }
            if let Some(route) = link.routes.iter().find(|route| !route.is_running || route.error.is_some()) {
                return Some(format!(
                    "b{place}'s route of {of} {} does not run: {:?};",
                    route.spec.title(),
                    route.error
                ));
            }
        }
        None
    }

    /// How every link of every broker stands.
    pub(super) fn links(&mut self) -> Vec<(usize, LinkStatus)> {
        let now = self.now;
        let places = self.places.iter_mut().enumerate();
        let nodes = places.flat_map(|(place, one)| one.world.nodes.iter_mut().map(move |node| (place, node)));
        nodes.flat_map(|(place, node)| node.shard.link_statuses(now).into_iter().map(move |link| (place, link))).collect()
    }

    fn check_clients(&mut self) {
        for place in 0..self.places.len() {
            let seats = [("taker", &self.places[place].taker), ("teller", &self.places[place].teller)];
            let seats = seats.into_iter().filter_map(|(name, seat)| Some((name, seat.as_ref()?)));
            let waits = seats.filter(|(_, seat)| !seat.client.out.is_empty() || !seat.unconfirmed.is_empty());
            let waits = waits.map(|(name, seat)| {
                let (bytes, first) = (seat.client.out.bytes(), seat.unconfirmed.first_key_value());
                format!("at rest: the {name} of b{place} has {bytes} bytes to send, and waits for confirm {first:?}")
            });
            if let Some(what) = waits.collect::<Vec<_>>().into_iter().next() {
                self.broken(what);
            }
        }
        let waiting = self.links().into_iter().find_map(|(place, link)| {
            let route = link.routes.iter().find(|route| route.unacknowledged > 0)?;
            Some(format!("at rest: {} are not acknowledged on b{place}'s {}", route.unacknowledged, route.spec.title()))
        });
        waiting.into_iter().for_each(|what| self.broken(what));
    }

    /// Everything that had to come is there, and after a calm nothing else.
    fn check_messages(&mut self) {
        let mut owed = 0;
        let mut complaint = None;
        for sent in &self.book.sent {
            for queue in &self.book.boxes {
                let came = queue.came.get(&sent.id).copied().unwrap_or_default();
                let must = self.book.must(sent, queue);
                owed += u64::from(must);
                let (id, name, from, at) = (sent.id, &queue.name, sent.at, queue.at);
                if must && came == 0 {
                    complaint = Some(format!("message {id} of b{from} never came to {name} at b{at}"));
                } else if self.book.calm && came > 0 && !must {
                    complaint =
                        Some(format!("message {id} of b{from} came to {name} at b{at}, by no way that there is"));
                }
            }
            if complaint.is_some() {
                break;
            }
        }
        self.tally.owed += owed;
        complaint.into_iter().for_each(|what| self.broken(what));
    }

    /// Sources have the bindings that they were to be asked for, and nothing else of federation.
    fn check_bindings(&mut self) {
        let mut complaint = None;
        for (at, place) in self.places.iter().enumerate() {
            for (shard, node) in place.world.nodes.iter().enumerate() {
                let catalog = node.shard.broker().catalog();
                let found = self.check_catalog(at, catalog);
                complaint = complaint.or(found.map(|what| format!("at rest: b{at}, shard {shard}: {what}")));
            }
        }
        complaint.into_iter().for_each(|what| self.broken(what));
    }

    fn check_catalog(&self, at: usize, catalog: &Catalog) -> Option<String> {
        let from_here = |route: &&Route| route.is_there && route.edge.source == at;
        let routes: Vec<_> = self.book.routes.iter().filter(from_here).map(|route| &route.edge).collect();
        let makes: Vec<_> = routes.iter().filter(|edge| edge.feed.is_none()).collect();
        let exchanges: Vec<_> = catalog.exchanges().filter(|(_, one)| one.name.starts_with(MADE)).collect();
        if exchanges.len() != makes.len() {
            let names: Vec<_> = exchanges.iter().map(|(_, one)| one.name.to_string()).collect();
            return Some(format!("{} internal exchanges for {} routes: {names:?}", names.len(), makes.len()));
        }
        let of_clients = self.book.boxes.iter().filter(|queue| queue.at == at).count();
        let feeds = self.setting.edges.iter().filter(|edge| edge.source == at && edge.feed.is_some()).count();
        if catalog.queues_count() != of_clients + feeds + makes.len() {
            let names: Vec<_> = catalog.queues().map(|(_, queue)| queue.name.to_string()).collect();
            return Some(format!("{} routes need a queue, and there are {names:?}", makes.len()));
        }
        let vhost = catalog.vhost_by_name("/")?;
        for number in 0..self.setting.exchanges.len() {
            let Some(exchange) = catalog.exchange(vhost, format!("x{number}").as_bytes()) else {
                return Some(format!("x{number} is gone"));
            };
            let mut had = BTreeSet::new();
            for binding in catalog.bindings_from(exchange) {
                let BindingDestination::Exchange(to) = binding.destination else { continue };
                let Some(internal) = catalog.exchange_info(to) else { return Some("a binding leads nowhere".into()) };
                let arguments = internal.arguments.as_deref();
                let Some(down) = arguments.and_then(|table| broker_of(table.get("x-downstream-name"))) else {
                    return Some(format!("{} does not say whose it is", internal.name));
                };
                let key = String::from_utf8_lossy(binding.routing_key).into_owned();
                match self.check_path(at, down, number, &key, &binding) {
                    Ok(is_dynamic) => _ = had.insert((down, is_dynamic, key)),
                    Err(what) => return Some(format!("x{number} is bound by '{key}' for b{down}: {what}")),
                }
            }
            let of_exchange = routes.iter().filter(|edge| edge.exchange == number && edge.feed.is_none());
            let wanted: BTreeSet<_> = of_exchange
                .flat_map(|edge| match edge.pattern() {
                    Some(key) => vec![(edge.destination, false, key.to_owned())],
                    None => self.asked_of(edge),
                })
                .collect();
            if had != wanted {
                let (more, less): (Vec<_>, Vec<_>) =
                    (had.difference(&wanted).collect(), wanted.difference(&had).collect());
                return Some(format!("of x{number} are bound and not wanted {more:?}, wanted and not bound {less:?}"));
            }
        }
        None
    }

    fn asked_of(&self, edge: &Edge) -> Vec<(usize, bool, String)> {
        self.book.asked(edge, false).into_iter().map(|key| (edge.destination, true, key.to_owned())).collect()
    }

    /// Whether a binding of a route says by which brokers it came, and they exist, in this order, want it, and have hops left.
    /// Answers whether it says so at all.
    fn check_path(
        &self,
        at: usize,
        down: usize,
        exchange: usize,
        key: &str,
        binding: &BindingView<'_>,
    ) -> Result<bool, String> {
        let Some(said) = binding.arguments.and_then(|arguments| arguments.get(X_BOUND_FROM)) else { return Ok(false) };
        let Value::List(list) = said else { return Err("its path is no list".into()) };
        let mut path = vec![at];
        for (passed, hop) in list.iter().enumerate() {
            let Value::Table(hop) = hop else { return Err("its path has no tables".into()) };
            let Some(broker) = broker_of(hop.get("cluster-name")) else { return Err("its path names nobody".into()) };
            let left = usize::from(self.setting.hops_max) + 1 + passed;
            let hops = hop.get("hops").and_then(Value::as_i64).unwrap_or_default();
            if hops != (left - list.len()) as i64 || hops < 1 {
                return Err(format!("{hops} hops at b{broker} in a path of {}", list.len()));
            }
            let from = *path.last().unwrap_or(&at);
            if path.contains(&broker) || !self.book.downstream(from, exchange, false).any(|one| one == broker) {
                return Err(format!("its path goes by {path:?} to b{broker}"));
            }
            path.push(broker);
        }
        let last = *path.last().unwrap_or(&at);
        if path.get(1) != Some(&down) || !self.book.own_wants(last, exchange, false).contains(key) {
            return Err(format!("its path {path:?} does not begin with it, or the last does not want it"));
        }
        Ok(true)
    }
}

fn broker_of(name: Option<&Value>) -> Option<usize> {
    std::str::from_utf8(name?.as_bytes()?).ok()?.strip_prefix('b')?.parse().ok()
}
