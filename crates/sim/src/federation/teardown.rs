//! The end of a run: routes, definitions and clients go, and nothing is left.
//!
//! Clients delete only what they have declared; what federation has declared must go with its routes.

use super::FederationWorkload;
use super::route_checks::FEDERATION_PREFIX;
use crate::commands;
use crate::limits::REST_QUIET_STEP_US;
use crate::simulated_client::{ClientRole, ConnectionState};
use crate::world::SimulatedWorld;
use federation::limits::QUEUE_EXPIRES;
use federation::{FederationCommand, RouteKind};
use wire::method::{exchange, queue};

/// Quiet rounds in which the queue of a route expires that was removed while its link was down.
pub fn expiry_rounds() -> u32 {
    (QUEUE_EXPIRES.as_micros() as u64 / REST_QUIET_STEP_US) as u32
}

/// Whether a broker has a queue that federation has declared.
pub fn has_federation_queues(world: &SimulatedWorld) -> bool {
    let mut shards = world.brokers.iter().flat_map(|broker| &broker.shards);
    shards.any(|node| {
        let mut queues = node.shard.broker().catalog().queues();
        queues.any(|(_, queue)| queue.name.starts_with(FEDERATION_PREFIX))
    })
}

impl FederationWorkload {
    /// Routes go, then definitions, then clients.
    pub fn tear_down(&mut self, world: &mut SimulatedWorld) {
        for route in 0..self.expectations.routes.len() {
            let settings = self.expectations.routes[route].settings.clone();
            let ((broker, peer), key) = (settings.ends(), settings.link().key);
            let is_whole_link = world.chance.permille(500);
            let now = world.clock.now;
            let broker = &mut world.brokers[broker];
            let shard = peer % broker.shards.len();
            let order = if is_whole_link {
                FederationCommand::RemoveLink(key)
            } else {
                FederationCommand::RemoveRoute(key, settings.spec)
            };
            broker.wake(shard, |shard| shard.federate(order, now));
            world.advance(self);
        }
        world.clients.iter_mut().for_each(|client| client.state = ConnectionState::Closing);
        for broker in 0..world.brokers.len() {
            let routes = self.settings.routes.iter().filter(|route| route.source == broker);
            let feeds = routes.filter_map(|route| match &route.spec.kind {
                RouteKind::Queue { queue } => Some(&**queue),
                _ => None,
            });
            let queues = self.expectations.queues.iter().filter(|queue| queue.at == broker);
            for name in feeds.chain(queues.map(|queue| &*queue.name)) {
                let delete = queue::Delete { no_wait: true, ..commands::delete_queue(name) };
                world.send_as(broker, ClientRole::Consumer, delete);
            }
        }
        self.is_finishing = true;
        world.run_until_quiet(self);
        check_no_routes(world);
        for broker in 0..world.brokers.len() {
            for number in 0..self.settings.exchanges.len() {
                let name = format!("x{number}");
                let delete = exchange::Delete { no_wait: true, ..commands::delete_exchange(&name) };
                world.send_as(broker, ClientRole::Consumer, delete);
            }
        }
        world.run_until_quiet(self);
        for client in &mut world.clients {
            client.connection.close(&world.memory.pool);
        }
        world.run_until_quiet(self);
        world.check_nothing_left();
    }
}

/// Without routes there is nothing that federation has declared.
fn check_no_routes(world: &mut SimulatedWorld) {
    let mut left = Vec::new();
    for (at, broker) in world.brokers.iter_mut().enumerate() {
        for (shard, node) in broker.shards.iter_mut().enumerate() {
            let links = node.shard.link_statuses(world.clock.now);
            let catalog = node.shard.broker().catalog();
            let exchanges = catalog.exchanges().map(|(_, one)| one.name.to_string());
            let queues = catalog.queues().map(|(_, one)| one.name.to_string());
            let names: Vec<_> = exchanges.filter(|name| name.starts_with(FEDERATION_PREFIX)).chain(queues).collect();
            if links.iter().any(|link| !link.routes.is_empty()) {
                left.push(format!("b{at}, shard {shard} has {links:?}"));
            }
            if !names.is_empty() {
                left.push(format!("b{at}, shard {shard} has {names:?}"));
            }
        }
    }
    if !left.is_empty() {
        world.trace.fail(format!("all routes are gone, and left: {}", left.join("; ")));
    }
}
