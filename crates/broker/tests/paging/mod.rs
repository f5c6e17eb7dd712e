//! Paging: what waits beyond a threshold leaves the memory and comes back when it is wanted, and clients see no difference.

mod closed;
mod model;
mod pages;
mod requests;

use crate::durability::{declare_durable, uid};
use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, ack, consume, prefetch, short};
use wire::method::{basic, queue};
use wire::{Properties, Table, TableRef};

/// Bytes that one message of these tests takes in memory, about.
const MESSAGE_BYTES: u64 = 180;

/// A broker that pages out what is more than so many messages, with one durable queue.
fn world_with(messages: u64, arguments: &Table) -> (BrokerWorld, WorldConnection) {
    let mut world = BrokerWorld::new(1, LIMIT);
    world.switch_stores_on();
    world.switch_paging_on(messages * MESSAGE_BYTES);
    let client = world.connect(0, 1);
    declare_durable(&mut world, client, "q", arguments);
    world.sent(client);
    (world, client)
}

fn persistent() -> Properties {
    Properties { delivery_mode: Some(2), ..Properties::default() }
}

/// Publishes messages with these numbers.
fn publish(world: &mut BrokerWorld, at: WorldConnection, numbers: std::ops::Range<usize>, properties: &Properties) {
    for number in numbers {
        world.publish_with(at, "q", &format!("{number:0>100}"), properties);
    }
}

/// The numbers of the messages that were delivered or taken.
fn delivered(sent: &str) -> Vec<usize> {
    let bodies = sent.split(" | ").filter_map(|event| event.split_once('=')?.1.get(..100));
    bodies.map(|body| body.parse().expect("a number")).collect()
}

/// Messages of a queue, as a passive declaration says them.
fn count(world: &mut BrokerWorld, at: WorldConnection, name: &str) -> String {
    let (queue, arguments) = (short(name), TableRef::EMPTY);
    let (passive, durable, exclusive, auto_delete, no_wait) = (true, false, false, false, false);
    world.command(at, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    world.sent(at)
}

/// Bytes of the messages that wait in memory.
fn memory_bytes(world: &BrokerWorld) -> u64 {
    world.shards.iter().flat_map(|(broker, _)| broker.queues()).map(|queue| queue.memory_bytes()).sum()
}

fn census(world: &BrokerWorld, what: &str) -> usize {
    let census = world.shards[0].0.census();
    census.into_iter().find(|(name, _)| *name == what).map_or(0, |(_, count)| count)
}
