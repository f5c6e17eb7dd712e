//! The beginning and the end of a run: the first definitions; then a drain that finds every message that is owed, and the
//! deletion of everything, after which no memory is in use.

use super::FeatureWorkload;
use super::certainty::is_excused;
use super::dead_letters::number_of;
use super::requests::RequestTurn;
use super::rest_checks::{is_blocking, shards};
use crate::commands;
use crate::limits::PATIENCE_ROUNDS;
use crate::simulated_client::{
    ChannelConsumer, ClientRequest, ClientRole, ConnectionState, ConsumerState, Settlement, SimulatedClient,
};
use crate::world::SimulatedWorld;
use link::sim::SimCut;
use wire::DeliveryTag;
use wire::method::{basic, exchange, queue};

/// Requests of the first client: so many exchanges, then so many requests that it draws.
const FIRST_REQUESTS: [u32; 2] = [4, 3];

/// Whether the first channel of a client waits for no answer, if it has a channel.
fn is_answered(client: Option<&SimulatedClient>) -> bool {
    client.and_then(|client| client.channels.first()).is_none_or(|channel| channel.pending.is_none())
}

impl FeatureWorkload {
    /// Declares the exchanges and queues with which every run begins.
    pub fn declare_first(&mut self, world: &mut SimulatedWorld) {
        let Some(uid) = self.connect_with_channel(world) else { return };
        let [exchanges, others] = FIRST_REQUESTS;
        for number in 0..exchanges + others {
            let Some(client) = world.client_by_uid(uid) else { return };
            // The consumer timeout may have closed the channel already.
            if !world.clients[client].channels.first().is_some_and(|channel| channel.is_idle()) {
                return;
            }
            self.model.tick();
            let (model, settings) = (&mut self.model, &self.settings);
            let mut turn = RequestTurn { world, model, settings, client, channel: 0 };
            if number < exchanges {
                turn.send_exchange_declare();
            } else {
                turn.send_any();
            }
            let answered = |world: &SimulatedWorld, _: &Self| {
                is_answered(world.client_by_uid(uid).map(|client| &world.clients[client]))
            };
            if !world.until(self, "a request is answered", answered) {
                return;
            }
        }
    }

    /// A client connects and opens a channel. Returns its uid, unless a crash of the broker cuts it off in the meantime.
    fn connect_with_channel(&mut self, world: &mut SimulatedWorld) -> Option<u32> {
        let client = world.connect(0, ClientRole::Any);
        let uid = world.clients[client].uid;
        let of = move |world: &SimulatedWorld| world.client_by_uid(uid);
        let is_open = |world: &SimulatedWorld, _: &Self| {
            of(world).is_none_or(|client| world.clients[client].state == ConnectionState::Open)
        };
        world.until(self, "a client connects", is_open).then_some(())?;
        let client = of(world)?;
        self.turn(world).open_channel(client);
        let has_channel = |world: &SimulatedWorld, _: &Self| {
            of(world).is_none_or(|client| world.clients[client].channels[0].is_open())
        };
        world.until(self, "a channel is open", has_channel).then_some(())?;
        of(world).map(|_| uid)
    }

    /// The end: all clients go, everything that is owed is found, and nothing is left.
    pub fn drain_and_delete(&mut self, world: &mut SimulatedWorld) {
        if !self.settings.drain_beside {
            for client in 0..world.clients.len() {
                self.disconnect(world, client);
            }
            world.rest(self);
            // Blocked clients go once there is capacity; until then their messages may still arrive.
            self.suspicions.draining = world.clients.is_empty() && world.settings.limits.is_ample();
        }
        let Some(drainer) = self.start_drain(world) else { return };
        world.rest(self);
        if world.trace.has_failed() {
            return;
        }
        for client in (0..world.clients.len()).rev() {
            if world.clients[client].uid != drainer {
                self.disconnect(world, client);
            }
        }
        // Queues that belonged to one connection are free after this.
        world.rest(self);
        self.consume_all(world, drainer);
        self.settle_all(world, drainer);
        if is_blocking(world) {
            // Connections that publish and consume have the deliveries that would have to be settled: the broker reads
            // nothing from them, and nobody else can free that memory. RabbitMQ stops in the same way.
            world.trace.note(|| "blocked for good".into());
            world.tally.blocked_for_good = 1;
            return;
        }
        self.check_owed(world);
        if !world.trace.has_failed() {
            self.delete_all(world, drainer);
        }
    }

    /// A client that is connected closes its connection, or is cut.
    fn disconnect(&mut self, world: &mut SimulatedWorld, client: usize) {
        if world.clients[client].state != ConnectionState::Open {
            return;
        }
        self.model.tick();
        if world.settings.faults.client_cuts && world.chance.permille(400) {
            let client = &mut world.clients[client];
            world.trace.note(|| format!("client {} is reset at the end", client.uid));
            client.cable.cut(SimCut::Reset);
            client.cut = true;
        } else {
            self.turn(world).leave(client);
        }
    }

    /// A client consumes from every queue and settles everything. Returns its uid.
    fn start_drain(&mut self, world: &mut SimulatedWorld) -> Option<u32> {
        let uid = self.connect_with_channel(world)?;
        world.trace.note(|| format!("client {uid} drains"));
        self.consume_all(world, uid);
        self.settle_all(world, uid);
        (!world.trace.has_failed() && world.client_by_uid(uid).is_some()).then_some(uid)
    }

    /// The drainer consumes from every queue from which it does not consume.
    fn consume_all(&mut self, world: &mut SimulatedWorld, drainer: u32) {
        for queue in 0..self.model.queues.len() {
            let is_consuming = world.client_by_uid(drainer).is_some_and(|client| {
                let mut consumers = world.clients[client].channels.iter().flat_map(|channel| &channel.consumers);
                consumers.any(|consumer| consumer.queue == queue && consumer.state == ConsumerState::Active)
            });
            if is_consuming || !self.is_usable(world, queue) {
                continue;
            }
            let Some(client) = world.client_by_uid(drainer) else { return };
            self.consume(world, client, queue);
            let answered = |world: &SimulatedWorld, _: &Self| {
                is_answered(world.client_by_uid(drainer).map(|client| &world.clients[client]))
            };
            if !world.until(self, "a queue is drained", answered) {
                return;
            }
            // The request was refused because of an exclusive consumer: the drainer needs another channel.
            let Some(client) = world.client_by_uid(drainer) else { return };
            if world.clients[client].channels.is_empty() {
                self.turn(world).open_channel(client);
                let is_open = |world: &SimulatedWorld, _: &Self| {
                    world.client_by_uid(drainer).is_none_or(|client| world.clients[client].has_open_channel())
                };
                if !world.until(self, "the drain has another channel", is_open) {
                    return;
                }
            }
        }
    }

    fn consume(&mut self, world: &mut SimulatedWorld, client: usize, queue: usize) {
        self.model.tick();
        // The drainer settles only when nothing moves any more, which may be too late for the consumer timeout.
        let no_ack = world.settings.limits.consumer_timeout_ms > 0;
        let uid = world.uid();
        let (name, tag) = (self.model.queues[queue].name.clone(), format!("d{uid}"));
        world.send(client, 0, commands::consume(&name, &tag, no_ack));
        let channel = &mut world.clients[client].channels[0];
        channel.consumers.push(ChannelConsumer {
            uid,
            tag,
            queue,
            no_ack,
            exclusive: false,
            prefetch: 0,
            unsettled: 0,
            state: ConsumerState::Requested,
        });
        let request = ClientRequest::Consume(channel.consumers.len() - 1);
        channel.await_reply(request, self.model.now);
    }

    /// Whether a queue exists at every shard of the broker and any connection may use it. The declaration of a client that was
    /// blocked may just be on its way to the others.
    fn is_usable(&self, world: &SimulatedWorld, queue: usize) -> bool {
        let known = &self.model.queues[queue];
        let is_newest = self.model.queues[queue + 1..].iter().all(|other| other.name != known.name);
        is_newest
            && world.brokers[0].shards.iter().all(|node| {
                let catalog = node.shard.broker().catalog();
                let found = catalog.vhost_by_name("/").and_then(|vhost| catalog.queue(vhost, known.name.as_bytes()));
                let definition = found.and_then(|id| catalog.queue_definition(id));
                definition.is_some_and(|definition| definition.exclusive.is_none())
            })
    }

    /// The drainer settles its deliveries until there are no more.
    fn settle_all(&mut self, world: &mut SimulatedWorld, drainer: u32) {
        for _ in 0..PATIENCE_ROUNDS {
            world.rest(self);
            if world.trace.has_failed() {
                return;
            }
            let Some(client) = world.client_by_uid(drainer) else { return };
            let mut has_settled = false;
            for channel in 0..world.clients[client].channels.len() {
                let tags: Vec<u64> = world.clients[client].channels[channel].unsettled.keys().copied().collect();
                let Some(&last) = tags.last() else { continue };
                has_settled = true;
                self.model.tick();
                world.send(client, channel, basic::Ack { delivery_tag: DeliveryTag(last), multiple: true });
                world.tally.drained += tags.len() as u64;
                for tag in tags {
                    self.model.settle(&mut world.clients[client].channels[channel], tag, Settlement::Done);
                }
            }
            if !has_settled {
                return;
            }
        }
    }

    /// Every message that the broker confirmed and nobody received must have been drained.
    fn check_owed(&mut self, world: &mut SimulatedWorld) {
        let now = self.model.now;
        let must_deliver = |at: usize, id: u64| {
            let queue = &self.model.queues[at];
            let is_there = queue.life.surely_spans(now, now) && queue.owner.is_none() && !queue.may_lose_messages;
            is_there && number_of(id) > queue.forgiven
        };
        let owed =
            self.model.queues.iter().enumerate().flat_map(|(at, queue)| queue.owed.iter().map(move |&id| (at, id)));
        let missing: Vec<_> = owed.filter(|&(at, id)| must_deliver(at, id)).collect();
        let mut alternatives = self.model.pending_alternatives();
        alternatives.extend(self.model.undecided_commits());
        alternatives.retain(|both| both.iter().all(|&(at, id)| must_deliver(at, id)));
        let mut is_missing = |(at, id): (usize, u64)| !is_excused(world, &mut self.model, at, id);
        let lost = missing.into_iter().find(|&one| is_missing(one));
        let lost =
            lost.or_else(|| Some(alternatives.into_iter().find(|both| both.iter().all(|&one| is_missing(one)))?[0]));
        if let Some((at, id)) = lost {
            world.trace.fail(format!("message {id} is lost: {} never delivered it", self.model.queues[at].name));
        }
    }

    /// Everything is deleted and closed: what is left is a leak.
    fn delete_all(&mut self, world: &mut SimulatedWorld, drainer: u32) {
        let Some(client) = world.client_by_uid(drainer) else { return };
        // Also queues whose names no client has received.
        let queues = shards(world).flat_map(|node| node.shard.broker().queues());
        let queues: Vec<String> = queues.map(|queue| queue.name.to_string()).collect();
        let exchanges: Vec<String> = self.model.exchanges[1..].iter().map(|exchange| exchange.name.clone()).collect();
        let now = self.model.tick();
        for queue in &mut self.model.queues {
            queue.life.may_end(now);
        }
        for exchange in &mut self.model.exchanges {
            exchange.life.may_end(now);
        }
        for name in &queues {
            world.send(client, 0, queue::Delete { no_wait: true, ..commands::delete_queue(name) });
        }
        for name in &exchanges {
            world.send(client, 0, exchange::Delete { no_wait: true, ..commands::delete_exchange(name) });
        }
        world.rest(self);
        if let Some(client) = world.client_by_uid(drainer) {
            self.turn(world).leave(client);
        }
        world.rest(self);
        world.check_nothing_left();
    }
}
