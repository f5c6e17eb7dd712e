//! A message is forgotten once its dead letter is where it goes: a crash may leave both, and never neither.

use super::{LIMIT, declare_durable, get, publish};
use crate::world::{BrokerWorld, WorldConnection};
use wire::method::{basic, queue};
use wire::{DeliveryTag, Table, Value};

/// Arguments of a queue whose dead letters go to `dead`.
fn to_dead() -> Table {
    Table::new()
        .with("x-dead-letter-exchange", Value::text(""))
        .and_then(|table| table.with("x-dead-letter-routing-key", Value::text("dead")))
        .expect("short")
}

/// Shards with stores; `q` (1) on shard 0 and the queue of its dead letters `dead` (2) on the last, each with its owner.
fn world_with(shards: u16, arguments: &Table) -> (BrokerWorld, WorldConnection, WorldConnection) {
    let mut world = BrokerWorld::new(shards, LIMIT);
    world.switch_stores_on();
    let owner = world.connect(0, 1);
    declare_durable(&mut world, owner, "q", arguments);
    let other = world.connect(usize::from(shards) - 1, 2);
    declare_durable(&mut world, other, "dead", &Table::new());
    (world, owner, other)
}

fn reject(world: &mut BrokerWorld, at: WorldConnection, delivery_tag: u64) {
    world.command(at, basic::Get { queue: super::short("q"), no_ack: false });
    world.command(at, basic::Reject { delivery_tag: DeliveryTag(delivery_tag), requeue: false });
}

#[test]
fn the_letter_is_appended_before_its_message_is_forgotten() {
    let (mut world, owner, _) = world_with(1, &to_dead());
    publish(&mut world, owner, "q", "a");
    world.stored(0);
    reject(&mut world, owner, 1);
    assert_eq!(world.stored(0), "append 2@0=a | forget 1@0+1");
}

#[test]
fn a_message_is_kept_until_another_shard_has_its_letter_durably() {
    let (mut world, owner, other) = world_with(2, &to_dead());
    for body in ["a", "b"] {
        publish(&mut world, owner, "q", body);
    }
    world.stored(0);
    reject(&mut world, owner, 1);
    reject(&mut world, other, 1);
    assert_eq!((world.stored(0).as_str(), world.live(0).as_str()), ("", "1@0=a! 1@1=b!"));
    assert_eq!(world.stored(1), "append 2@0=a | await 1 | append 2@1=b | await 2");
    world.report_durable(1, 1);
    world.exchange_batches();
    assert_eq!(world.stored(0), "forget 1@0+1");
    world.make_durable(1);
    assert_eq!((world.live(0).as_str(), world.live(1).as_str()), ("", "2@0=a 2@1=b"));
}

#[test]
fn what_expires_at_once_is_confirmed_when_it_or_its_letter_is_durable() {
    let arguments = to_dead().with("x-message-ttl", Value::I32(0)).expect("short");
    let (mut world, owner, _) = world_with(1, &arguments);
    world.command(owner, wire::method::confirm::Select { no_wait: true });
    publish(&mut world, owner, "q", "a");
    assert_eq!(world.stored(0), "append 1@0=a | await 1 | append 2@0=a | forget 1@0+1");
    assert_eq!(world.sent(owner), "");
    world.make_durable(0);
    assert_eq!((world.sent(owner).as_str(), world.live(0).as_str()), ("ack 1", "2@0=a"));
    // On its way to another shard it is in its queue's log: a crash now leaves it there.
    let (mut world, owner, _) = world_with(2, &arguments);
    world.command(owner, wire::method::confirm::Select { no_wait: true });
    publish(&mut world, owner, "q", "a");
    assert_eq!((world.sent(owner).as_str(), world.live(0).as_str()), ("", "1@0=a"));
    world.make_durable(0);
    assert_eq!((world.sent(owner).as_str(), world.live(0).as_str()), ("ack 1", "1@0=a"));
    world.make_durable(1);
    assert_eq!((world.live(0).as_str(), world.live(1).as_str()), ("", "2@0=a"));
}

#[test]
fn letters_and_publishes_of_a_shard_are_answered_in_their_order() {
    let (mut world, owner, _) = world_with(2, &to_dead());
    world.command(owner, wire::method::confirm::Select { no_wait: true });
    publish(&mut world, owner, "q", "a");
    world.make_durable(0);
    assert_eq!(world.sent(owner), "ack 1");
    publish(&mut world, owner, "dead", "first");
    reject(&mut world, owner, 1);
    publish(&mut world, owner, "dead", "second");
    world.sent(owner);
    world.report_durable(1, 1);
    world.exchange_batches();
    assert_eq!((world.sent(owner).as_str(), world.live(0).as_str()), ("ack 2", "1@0=a!"));
    world.report_durable(1, 2);
    world.exchange_batches();
    assert_eq!((world.sent(owner).as_str(), world.live(0).as_str()), ("", ""));
    world.make_durable(1);
    assert_eq!(world.sent(owner), "ack 3");
}

#[test]
fn letters_that_go_nowhere_are_forgotten_at_once() {
    let nowhere = Table::new().with("x-dead-letter-exchange", Value::text("none")).expect("short");
    for arguments in [Table::new(), nowhere] {
        let (mut world, owner, _) = world_with(2, &arguments);
        publish(&mut world, owner, "q", "a");
        reject(&mut world, owner, 1);
        assert_eq!(world.live(0), "");
    }
    // Nor is a letter kept whose queue has gone, or that would come back to its own queue for ever.
    let (mut world, owner, other) = world_with(2, &to_dead());
    publish(&mut world, owner, "q", "a");
    world.command(
        other,
        queue::Delete { queue: super::short("dead"), if_unused: false, if_empty: false, no_wait: false },
    );
    reject(&mut world, owner, 1);
    assert_eq!(world.live(0), "");
    let to_itself = Table::new()
        .with("x-dead-letter-exchange", Value::text(""))
        .and_then(|table| table.with("x-message-ttl", Value::I32(5)))
        .expect("short");
    let (mut world, owner, _) = world_with(1, &to_itself);
    publish(&mut world, owner, "q", "a");
    world.advance(6);
    assert_eq!((world.live(0).as_str(), get(&mut world, owner, "q").as_str()), ("", "basic.get-empty"));
}

#[test]
fn stored_and_transient_letters_keep_their_order() {
    let arguments = to_dead().with("x-max-length", Value::I32(1)).expect("short");
    let (mut world, owner, other) = world_with(2, &arguments);
    for body in ["a", "b"] {
        publish(&mut world, owner, "q", body);
        world.publish(owner, "", "q", &body.to_uppercase());
    }
    publish(&mut world, owner, "q", "last");
    let letters: Vec<String> = (0..4).map(|_| get(&mut world, other, "dead")).collect();
    assert_eq!(letters, ["got#1=a (3 left)", "got#2=A (2 left)", "got#3=b (1 left)", "got#4=B (0 left)"]);
    world.make_durable(1);
    assert_eq!((world.live(0).as_str(), world.live(1).as_str()), ("1@4=last", ""));
}
