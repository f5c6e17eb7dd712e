//! The clients of a broker, and what they declare before anything is published: exchanges, queues, bindings, consumers.

use super::FederationWorkload;
use crate::commands;
use crate::simulated_client::{ClientRole, PublishMode};
use crate::world::SimulatedWorld;
use federation::RouteKind;
use wire::method::{basic, confirm, exchange, queue};

/// Whether the client of a broker in a role has an open channel, if there is such a client.
fn is_ready(world: &SimulatedWorld, broker: usize, role: ClientRole) -> bool {
    world.client_by_role(broker, role).is_none_or(|client| world.clients[client].has_open_channel())
}

/// The publisher of a broker has its publishes confirmed.
fn select_confirms(world: &mut SimulatedWorld, broker: usize) {
    if let Some(client) = world.client_by_role(broker, ClientRole::Publisher) {
        world.send(client, 0, confirm::Select { no_wait: true });
        world.clients[client].channels[0].mode = PublishMode::Confirm;
    }
}

fn declare_queue(world: &mut SimulatedWorld, broker: usize, name: &str) {
    let declare = queue::Declare { no_wait: true, ..commands::declare_queue(name) };
    world.send_as(broker, ClientRole::Consumer, declare);
}

/// Sends `queue.bind`, which is not answered.
pub fn bind(world: &mut SimulatedWorld, broker: usize, queue: &str, (exchange, key): (usize, &str)) {
    let exchange = format!("x{exchange}");
    let bind = queue::Bind { no_wait: true, ..commands::bind_queue(queue, &exchange, key) };
    world.send_as(broker, ClientRole::Consumer, bind);
}

/// Sends `queue.unbind`, which is answered.
pub fn unbind(world: &mut SimulatedWorld, broker: usize, queue: &str, (exchange, key): (usize, &str)) {
    world.send_as(broker, ClientRole::Consumer, commands::unbind_queue(queue, &format!("x{exchange}"), key));
}

impl FederationWorkload {
    /// A broker that has just started gets its clients, its definitions, and then its routes.
    pub fn set_up_broker(&mut self, world: &mut SimulatedWorld, broker: usize) {
        let roles = [ClientRole::Consumer, ClientRole::Publisher];
        for role in roles {
            world.connect(broker, role);
        }
        let are_ready = |world: &SimulatedWorld, _: &Self| roles.into_iter().all(|role| is_ready(world, broker, role));
        if !world.until(self, "clients connect", are_ready) {
            return;
        }
        select_confirms(world, broker);
        for (number, federated) in self.settings.exchanges.iter().enumerate() {
            let name = format!("x{number}");
            let declare =
                exchange::Declare { no_wait: true, ..commands::declare_exchange(&name, federated.type_name()) };
            world.send_as(broker, ClientRole::Consumer, declare);
        }
        for route in self.settings.routes.iter().filter(|route| route.source == broker) {
            if let (RouteKind::Queue { queue }, Some(key)) = (&route.spec.kind, route.feed) {
                declare_queue(world, broker, queue);
                bind(world, broker, queue, (route.exchange, key));
            }
        }
        if !self.set_up_consumer(world, broker) {
            return;
        }
        for route in 0..self.expectations.routes.len() {
            let known = &self.expectations.routes[route];
            if known.exists && known.settings.ends().0 == broker {
                // A broker that comes back keeps its durable routes.
                let is_restored = world.brokers[broker].lives > 1 && known.settings.spec.durable;
                self.operator(world).configure_route(route, is_restored);
            }
        }
    }

    /// A client whose connection was cut connects again: what it sent last may have been lost.
    pub fn reconnect(&mut self, world: &mut SimulatedWorld, broker: usize, role: ClientRole) {
        world.connect(broker, role);
        if !world.until(self, "a client is back", |world, _| is_ready(world, broker, role)) {
            return;
        }
        if role == ClientRole::Publisher {
            select_confirms(world, broker);
        } else {
            self.set_up_consumer(world, broker);
        }
    }

    /// The queues of a broker, their bindings and their consumers. Returns whether they exist now.
    fn set_up_consumer(&mut self, world: &mut SimulatedWorld, broker: usize) -> bool {
        // The last request is answered, and so is every `queue.unbind`.
        let mut replies = 1;
        let no_ack = !world.settings.faults.client_cuts;
        for (at, queue) in self.expectations.queues.iter().enumerate().filter(|(_, queue)| queue.at == broker) {
            declare_queue(world, broker, &queue.name);
            let former = queue.former.iter().map(|(binding, _)| *binding);
            for binding in former.filter(|binding| !queue.bindings.contains_key(binding)) {
                replies += 1;
                unbind(world, broker, &queue.name, binding);
            }
            for &binding in queue.bindings.keys() {
                bind(world, broker, &queue.name, binding);
            }
            let tag = at.to_string();
            let consume = basic::Consume { no_wait: true, ..commands::consume(&queue.name, &tag, no_ack) };
            world.send_as(broker, ClientRole::Consumer, consume);
        }
        let qos = basic::Qos { prefetch_size: 0, prefetch_count: 0, global: false };
        world.send_as(broker, ClientRole::Consumer, qos);
        let are_answered = |world: &SimulatedWorld, _: &Self| {
            let consumer = world.client_by_role(broker, ClientRole::Consumer);
            consumer.is_none_or(|client| world.clients[client].replies >= replies)
        };
        world.until(self, "definitions exist", are_answered)
    }
}
