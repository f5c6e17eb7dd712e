//! Durable queues and their store: what it is told, what waits for it, and what queues are after a restart.

mod commits;
mod confirms;
mod dead_letters;
mod delays;
mod restoration;
mod settlements;

use super::{LIMIT, ack, consume, prefetch, short};
use crate::world::{BrokerWorld, WorldConnection};
use catalog::QueueUid;
use wire::method::{basic, queue};
use wire::{Properties, Table, TableRef};

/// The number of the queue that a test declares first, and so on.
pub fn uid(number: u64) -> QueueUid {
    QueueUid::new(number).expect("not 0")
}

pub fn declare_durable(world: &mut BrokerWorld, at: WorldConnection, name: &str, arguments: &Table) {
    let bytes = arguments.to_bytes();
    world.command(
        at,
        queue::Declare {
            queue: short(name),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            no_wait: false,
            arguments: TableRef::new(&bytes),
        },
    );
    assert!(world.sent(at).starts_with("declare-ok"), "a new queue");
}

/// Publishes a persistent message to a queue.
pub fn publish(world: &mut BrokerWorld, at: WorldConnection, key: &str, body: &str) {
    world.publish_with(at, key, body, &Properties { delivery_mode: Some(2), ..Properties::default() });
}

/// Takes a message without acknowledgement.
pub fn get(world: &mut BrokerWorld, at: WorldConnection, name: &str) -> String {
    world.command(at, basic::Get { queue: short(name), no_ack: true });
    world.sent(at)
}
