//! What clients and operators do in a federation: publish, bind and unbind, configure and remove routes.

use super::expectations::PublishedMessage;
use super::{FederationWorkload, StoppedBroker, declarations};
use crate::faults::Faults;
use crate::simulated_client::ClientRole;
use crate::world::{NewMessage, SimulatedWorld};

/// Bytes of a body before its padding: the number of the message.
pub const NUMBER_BYTES: usize = 8;
/// Properties in wire form: none.
const NO_PROPERTIES: [u8; 2] = [0, 0];

impl FederationWorkload {
    /// One step of a storm: everything at once.
    pub fn act_in_storm(&mut self, world: &mut SimulatedWorld, step: u32) {
        if world.chance.permille(self.rates.publish_permille) {
            let broker = world.chance.below(world.brokers.len() as u64) as usize;
            for _ in 0..world.chance.between(1, 8) {
                self.publish(world, broker);
            }
        }
        if world.chance.permille(self.rates.rebind_permille) {
            self.rebind(world);
        }
        Faults::draw_cuts(world, self);
        Faults::draw_slowness(world);
        if world.settings.faults.reroutes && world.chance.permille(10) {
            self.operator(world).reroute();
        }
        match self.stopped {
            Some(StoppedBroker { until_step, .. }) if step >= until_step => self.restart(world),
            None if world.settings.faults.stops && world.chance.permille(8) => self.stop(world, step),
            _ => {}
        }
    }

    /// At the end of a storm every broker runs and every route is configured.
    pub fn end_storm(&mut self, world: &mut SimulatedWorld) {
        Faults::cut_marked_links(world);
        self.restart(world);
        for route in 0..self.expectations.routes.len() {
            if !self.expectations.routes[route].exists {
                self.operator(world).restore_route(route);
            }
        }
    }

    /// A broker may stop, once in a period.
    fn stop(&mut self, world: &mut SimulatedWorld, step: u32) {
        let broker = world.chance.below(world.brokers.len() as u64) as usize;
        if self.expectations.stopped[broker] < self.expectations.period {
            world.stop_broker(broker);
            self.expectations.stop_broker(broker);
            let until_step = step + world.chance.between(0, 100) as u32;
            self.stopped = Some(StoppedBroker { broker, until_step });
        }
    }

    /// The broker that is stopped starts again.
    fn restart(&mut self, world: &mut SimulatedWorld) {
        if let Some(StoppedBroker { broker, .. }) = self.stopped.take() {
            world.start_broker(broker);
            self.set_up_broker(world, broker);
        }
    }

    /// The publisher of a broker publishes a message.
    pub fn publish(&mut self, world: &mut SimulatedWorld, broker: usize) {
        let publisher = world.client_by_role(broker, ClientRole::Publisher);
        let Some(client) = publisher.filter(|&client| world.clients[client].has_open_channel()) else { return };
        let exchange = world.chance.below(self.settings.exchanges.len() as u64) as usize;
        let keys = self.settings.exchanges[exchange].keys();
        let key = keys[world.chance.below(keys.len() as u64) as usize];
        self.messages += 1;
        let id = self.messages;
        let padding = if world.chance.permille(50) { world.chance.below(9_000) } else { world.chance.below(40) };
        let mut body = vec![id as u8; NUMBER_BYTES + padding as usize];
        body[..NUMBER_BYTES].copy_from_slice(&id.to_le_bytes());
        let publisher = u64::from(world.clients[client].uid);
        let (name, properties) = (format!("x{exchange}"), &NO_PROPERTIES);
        let message = NewMessage { id, exchange: &name, routing_key: key, mandatory: false, properties, body: &body };
        world.publish(client, 0, &message);
        let (period, away) = (self.expectations.period, self.stopped.map(|stopped| stopped.broker));
        self.expectations.sent.push(PublishedMessage {
            id,
            at: broker,
            publisher,
            exchange,
            key,
            period,
            away,
            is_unsure: false,
        });
    }

    /// The consumer of a broker binds a queue, or unbinds it.
    fn rebind(&mut self, world: &mut SimulatedWorld) {
        let at = world.chance.below(self.expectations.queues.len() as u64) as usize;
        let (broker, name) = (self.expectations.queues[at].at, self.expectations.queues[at].name.clone());
        let consumer = world.client_by_role(broker, ClientRole::Consumer);
        if !consumer.is_some_and(|client| world.clients[client].has_open_channel()) {
            return;
        }
        let binding = self.settings.draw_binding(&mut world.chance);
        let is_new = self.expectations.toggle_binding(at, binding);
        world.tally.bindings += 1;
        let verb = if is_new { "bound by" } else { "no longer bound by" };
        world.trace.note(|| format!("{name} at b{broker} is {verb} {binding:?}"));
        if is_new {
            declarations::bind(world, broker, &name, binding);
        } else {
            declarations::unbind(world, broker, &name, binding);
        }
    }
}
