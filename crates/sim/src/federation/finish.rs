//! The end: links, queues and clients go, and nothing is left.
//!
//! Enters: a run at rest.  Leaves: what is left, as a broken promise.
//! Owns:   the order in which everybody goes.
//! Never:  deletes what federation made: it goes with its routes.

use crate::federation::Run;
use crate::federation::rest::MADE;
use crate::limits::{REST_QUIET_ROUNDS, REST_QUIET_STEP_US, REST_ROUNDS_MAX};
use federation::FederationCommand;
use federation::limits::QUEUE_EXPIRES;
use wire::ShortStr;
use wire::method::{exchange, queue};

impl Run {
    /// Routes go, then definitions, then clients.
    pub(super) fn finish(&mut self) {
        if self.is_broken() {
            return;
        }
        for route in 0..self.book.routes.len() {
            let edge = self.book.routes[route].edge.clone();
            let (place, key) = (edge.ends().0, edge.link().key);
            let whole = self.chance.permille(500);
            let world = &mut self.places[place].world;
            let shard = edge.ends().1 % world.nodes.len();
            let order = if whole { FederationCommand::RemoveLink(key) } else { FederationCommand::RemoveRoute(key, edge.spec) };
            world.wake(shard, |shard, now| shard.federate(order, now));
            self.shift();
        }
        for place in &mut self.places {
            place.taker.iter_mut().chain(&mut place.teller).for_each(|seat| seat.is_leaving = true);
        }
        for place in 0..self.places.len() {
            let feeds = self.setting.edges.iter().filter(|edge| edge.source == place);
            let feeds = feeds.filter_map(|edge| match &edge.spec.kind {
                federation::RouteKind::Queue { queue } => Some(queue.to_string()),
                _ => None,
            });
            let boxes = self.book.boxes.iter().filter(|queue| queue.at == place).map(|queue| queue.name.clone());
            for name in feeds.chain(boxes).collect::<Vec<_>>() {
                let queue = ShortStr::truncated(&name);
                self.say(place, false, queue::Delete { queue, if_unused: false, if_empty: false, no_wait: true });
            }
        }
        self.fall_silent();
        self.check_made();
        for place in 0..self.places.len() {
            for number in 0..self.setting.exchanges.len() {
                let name = format!("x{number}");
                let exchange = ShortStr::truncated(&name);
                self.say(place, false, exchange::Delete { exchange, if_unused: false, no_wait: true });
            }
        }
        self.fall_silent();
        for place in &mut self.places {
            for seat in [&mut place.taker, &mut place.teller].into_iter().flatten() {
                seat.client.close(&self.pool);
            }
        }
        self.fall_silent();
        self.check_left();
    }

    /// As long as a queue of a route that was removed while its link was down may live.
    fn fall_silent(&mut self) {
        let rounds = (QUEUE_EXPIRES.as_micros() as u64 / REST_QUIET_STEP_US) as u32;
        let leftovers = |run: &Run| {
            let mut nodes = run.places.iter().flat_map(|place| &place.world.nodes);
            nodes.any(|node| node.shard.broker().catalog().queues().any(|(_, queue)| queue.name.starts_with(MADE)))
        };
        let mut quiet = 0;
        for _ in 0..REST_ROUNDS_MAX {
            if self.is_broken() {
                return;
            }
            if self.go_on() {
                let us = self.chance.below(100);
                self.pass(us);
                continue;
            }
            quiet += 1;
            if quiet > REST_QUIET_ROUNDS && (!leftovers(self) || quiet > rounds + REST_QUIET_ROUNDS) {
                return;
            }
            self.pass(REST_QUIET_STEP_US);
        }
        self.broken("everybody goes, and the brokers do not come to rest".into());
    }

    /// Without routes there is nothing that they have made.
    fn check_made(&mut self) {
        let mut left = Vec::new();
        for (at, place) in self.places.iter_mut().enumerate() {
            for (shard, node) in place.world.nodes.iter_mut().enumerate() {
                let links = node.shard.link_statuses(self.now);
                let catalog = node.shard.broker().catalog();
                let exchanges = catalog.exchanges().map(|(_, one)| one.name.to_string());
                let queues = catalog.queues().map(|(_, one)| one.name.to_string());
                let names: Vec<_> = exchanges.filter(|name| name.starts_with(MADE)).chain(queues).collect();
                if !links.is_empty() && links.iter().any(|link| !link.routes.is_empty()) {
                    left.push(format!("b{at}, shard {shard} has {links:?}"));
                }
                if !names.is_empty() {
                    left.push(format!("b{at}, shard {shard} has {names:?}"));
                }
            }
        }
        if !left.is_empty() {
            self.broken(format!("all routes are gone, and left: {}", left.join("; ")));
        }
    }

    fn check_left(&mut self) {
        let mut left = Vec::new();
        for (at, place) in self.places.iter_mut().enumerate() {
            if place.world.household.connections() > 0 {
                left.push(format!("{} connections of b{at}", place.world.household.connections()));
            }
            left.extend(place.world.left().into_iter().map(|what| format!("{what} of b{at}")));
        }
        if self.pool.used_bytes() > 0 {
            left.push(format!("{} bytes of the clients' memory", self.pool.used_bytes()));
        }
        if !left.is_empty() {
            self.broken(format!("everybody has gone, and left: {}", left.join(", ")));
        }
    }
}
