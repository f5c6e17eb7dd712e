//! Deeds: what clients, operators and misfortune do to brokers in a storm.
//!
//! Enters: chance.  Leaves: methods, orders, faults; entries in the book.
//! Owns:   how often each is done.
//! Never:  does anything while a run rests.

use crate::federation::Run;
use crate::federation::book::{Box, Sent};
use crate::federation::settle::CHANNEL;
use crate::terms::Terms;
use crate::world::World;
use federation::FederationCommand;
use link::sim::SimSide;
use wire::method::Method;

/// Bytes of a body before its padding: the number of the message.
pub const NUMBER_BYTES: usize = 8;

impl Run {
    /// What a broker of this run is.
    pub(super) fn terms(&mut self, place: usize) -> Terms {
        let (shards, bounds) = (self.setting.shards[place], self.setting.bounds);
        Terms { name: format!("b{place}").into(), seed: self.chance.next_u64(), shards, bounds, now: self.now }
    }

    /// The queues of the run, with their first bindings.
    pub(super) fn draw_boxes(&mut self) {
        for place in 0..self.places.len() {
            for _ in 0..self.chance.between(1, 2) {
                let name = format!("q{}", self.book.boxes.len());
                let mut queue = Box { name, at: place, ..Box::default() };
                for _ in 0..self.chance.below(4) {
                    queue.bindings.insert(self.draw_binding(), 0);
                }
                self.book.boxes.push(queue);
            }
        }
    }

    fn draw_binding(&mut self) -> (usize, &'static str) {
        let exchange = self.chance.below(self.setting.exchanges.len() as u64) as usize;
        let patterns = self.setting.exchanges[exchange].patterns();
        (exchange, patterns[self.chance.below(patterns.len() as u64) as usize])
    }

    /// A client says something: the one that tells, or the one that takes.
    pub(super) fn say<'a>(&mut self, place: usize, tells: bool, method: impl Into<Method<'a>>) {
        let seat = if tells { &mut self.places[place].teller } else { &mut self.places[place].taker };
        if let Some(seat) = seat {
            seat.client.say(CHANNEL, method.into(), &self.pool);
        }
    }

    /// An operator orders a link, unless it is there, and a route.
    pub(super) fn order_route(&mut self, route: usize, returns: bool) {
        let edge = self.book.routes[route].edge.clone();
        let (place, link) = (edge.ends().0, edge.link());
        self.forget_failures(place, &link.url);
        let key = link.key.clone();
        self.note(|_| format!("b{place} is ordered a route of b{}: {}", edge.ends().1, edge.spec.title()));
        let world = &mut self.places[place].world;
        // The shards of all routes of a link are the same.
        let shard = edge.ends().1 % world.nodes.len();
        world.wake(shard, |shard, now| {
            shard.federate(FederationCommand::AddLink(link), now);
            let order = if returns { FederationCommand::ReturnRoute(key, edge.spec) } else { FederationCommand::AddRoute(key, edge.spec) };
            shard.federate(order, now);
        });
    }

    fn remove_route(&mut self, route: usize) {
        let edge = self.book.routes[route].edge.clone();
        let (place, link) = (edge.ends().0, edge.link());
        self.forget_failures(place, &link.url);
        self.note(|_| format!("b{place} loses its route of b{}: {}", edge.ends().1, edge.spec.title()));
        let world = &mut self.places[place].world;
        let shard = edge.ends().1 % world.nodes.len();
        world.wake(shard, |shard, now| shard.federate(FederationCommand::RemoveRoute(link.key, edge.spec), now));
    }

    /// Everything at once.
    pub(super) fn storm(&mut self) {
        let mut away: Option<(usize, u32)> = None;
        let [publishes, rebinds] = [self.chance.between(50, 500) as u32, self.chance.between(0, 200) as u32];
        for step in 0..self.setting.steps {
            if self.is_broken() {
                return;
            }
            self.shift();
            if self.chance.permille(publishes) {
                let place = self.chance.below(self.places.len() as u64) as usize;
                for _ in 0..self.chance.between(1, 8) {
                    self.publish(place, away.map(|(place, _)| place));
                }
            }
            if self.chance.permille(rebinds) {
                self.rebind();
            }
            self.misfortune();
            if self.setting.slow && self.chance.permille(40) {
                self.slow();
            }
            if self.setting.reroutes && self.chance.permille(10) {
                self.reroute();
            }
            match away {
                Some((place, until)) if step >= until => {
                    away = None;
                    self.places[place].start();
                    self.note(|_| format!("b{place} is back"));
                    self.settle_in(place);
                }
                None if self.setting.stops && self.chance.permille(8) => {
                    let place = self.chance.below(self.places.len() as u64) as usize;
                    if self.book.stopped[place] < self.book.period {
                        self.stop(place);
                        away = Some((place, step + self.chance.between(0, 100) as u32));
                    }
                }
                _ => {}
            }
        }
        self.cut_doomed();
        if let Some((place, _)) = away {
            self.places[place].start();
            self.note(|_| format!("b{place} is back"));
            self.settle_in(place);
        }
        for route in 0..self.book.routes.len() {
            if !self.book.routes[route].is_there {
                self.put_back(route);
            }
        }
    }

    /// Nothing but publishing: what comes where is known.
    pub(super) fn calm(&mut self) {
        if self.is_broken() {
            return;
        }
        self.book.calm = true;
        for _ in 0..self.chance.between(10, 60) {
            let place = self.chance.below(self.places.len() as u64) as usize;
            self.publish(place, None);
            self.shift();
        }
    }

    fn stop(&mut self, place: usize) {
        self.note(|_| format!("b{place} is killed"));
        self.tally.stops += 1;
        self.tally.ticks += self.places[place].world.ticks;
        let terms = self.terms(place);
        self.places[place].stop(World::new(&terms));
        self.forget_calls(place);
        self.book.stopped[place] = self.book.period;
        self.book.disturbed = true;
        for route in &mut self.book.routes {
            if route.edge.source == place || route.edge.destination == place {
                route.cut = self.book.period;
            }
        }
    }

    fn publish(&mut self, place: usize, away: Option<usize>) {
        let Some(seat) = &mut self.places[place].teller else { return };
        if !seat.is_open {
            return;
        }
        let exchange = self.chance.below(self.setting.exchanges.len() as u64) as usize;
        let keys = self.setting.exchanges[exchange].keys();
        let key = keys[self.chance.below(keys.len() as u64) as usize];
        self.messages += 1;
        let id = self.messages;
        let bytes = NUMBER_BYTES
            + if self.chance.permille(50) { self.chance.below(9_000) } else { self.chance.below(40) } as usize;
        let mut body = vec![id as u8; bytes];
        body[..NUMBER_BYTES].copy_from_slice(&id.to_le_bytes());
        seat.published += 1;
        seat.unconfirmed.insert(seat.published, id);
        let publisher = seat.uid;
        // No property at all.
        let properties = [0, 0];
        seat.client.publish(CHANNEL, &format!("x{exchange}"), key, false, &properties, &body, &self.pool);
        self.tally.published += 1;
        let period = self.book.period;
        let is_unsure = false;
        self.book.sent.push(Sent { id, at: place, publisher, exchange, key, period, away, is_unsure });
        self.note(|_| format!("message {id} is published at b{place} to x{exchange} with '{key}'"));
    }

    fn rebind(&mut self) {
        let at = self.chance.below(self.book.boxes.len() as u64) as usize;
        let (place, name) = (self.book.boxes[at].at, self.book.boxes[at].name.clone());
        if !self.places[place].taker.as_ref().is_some_and(|taker| taker.is_open) {
            return;
        }
        let binding = self.draw_binding();
        let period = self.book.period;
        let queue = &mut self.book.boxes[at];
        let bind = queue.bindings.remove(&binding).is_none();
        if bind {
            queue.bindings.insert(binding, period);
        } else {
            queue.former.push((binding, period));
        }
        self.tally.bindings += 1;
        self.note(|_| {
            format!("{name} at b{place} is {} {binding:?}", if bind { "bound by" } else { "no longer bound by" })
        });
        self.bind(place, &name, binding, bind);
    }

    fn slow(&mut self) {
        let pace = [None, Some(0), Some(1), Some(100)][self.chance.below(4) as usize];
        let side = if self.chance.permille(500) { SimSide::Left } else { SimSide::Right };
        if self.chance.permille(700) && !self.roads.is_empty() {
            let road = self.chance.below(self.roads.len() as u64) as usize;
            self.roads[road].cable.limit_rate(side, pace);
            return;
        }
        let place = self.chance.below(self.places.len() as u64) as usize;
        if let Some(taker) = &mut self.places[place].taker {
            taker.client.paused = pace.is_some();
        }
    }

    fn reroute(&mut self) {
        let route = self.chance.below(self.book.routes.len() as u64) as usize;
        if !self.book.routes[route].is_there {
            return self.put_back(route);
        }
        let place = self.book.routes[route].edge.ends().0;
        if !self.places[place].is_up {
            return;
        }
        self.tally.reroutes += 1;
        self.book.disturbed = true;
        let period = self.book.period;
        let known = &mut self.book.routes[route];
        (known.is_there, known.since, known.cut) = (false, period, period);
        self.remove_route(route);
    }

    fn put_back(&mut self, route: usize) {
        let place = self.book.routes[route].edge.ends().0;
        if self.places[place].is_up {
            let period = self.book.period;
            let known = &mut self.book.routes[route];
            (known.is_there, known.since) = (true, period);
            self.order_route(route, false);
        }
    }
}
