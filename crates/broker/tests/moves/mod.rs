//! A session goes from one shard to another: what of it is bound, what it waits for, and what it has there.

use super::world::{BrokerWorld, WorldConnection};
use super::{LIMIT, consume, declare, declare_with, short};
use broker::{ConnectionSlot, SessionMobility};
use catalog::{SessionId, ShardId};
use wire::DeliveryTag;
use wire::method::{basic, confirm, tx};

fn mobility(world: &BrokerWorld, at: WorldConnection) -> SessionMobility {
    world.shards[at.0].0.mobility(at.1)
}

/// Asks for a fence, and has it answered.
fn fence(world: &mut BrokerWorld, at: WorldConnection, to: u16) {
    let (broker, recorder) = &mut world.shards[at.0];
    broker.ask_fence(at.1, ShardId(to), recorder);
    assert_eq!(broker.fence_reached(at.1), None);
}

/// Moves a session to a slot of another shard.
fn move_to(world: &mut BrokerWorld, at: WorldConnection, to: usize, slot: u32) -> WorldConnection {
    fence(world, at, to as u16);
    world.exchange_batches();
    assert_eq!(world.shards[at.0].0.fence_reached(at.1), Some(true));
    assert_eq!(mobility(world, at), SessionMobility::Quiet);
    let moved = world.shards[at.0].0.depart_session(at.1).expect("it is there");
    let slot = ConnectionSlot::new(slot);
    let (broker, recorder) = &mut world.shards[to];
    let id = SessionId { shard: ShardId(to as u16), slot, serial: 77 };
    broker.arrive_session(slot, id, moved, recorder);
    WorldConnection(to, slot)
}

#[test]
fn a_publisher_goes_on_with_its_numbers_where_it_has_moved_to() {
    let mut world = BrokerWorld::new(3, LIMIT);
    let (owner, publisher) = (world.connect(1, 1), world.connect(0, 2));
    declare(&mut world, owner, "q");
    world.command(publisher, confirm::Select { no_wait: false });
    world.publish(publisher, "", "q", "a");
    world.publish(publisher, "", "q", "b");
    assert_eq!(world.sent(publisher), "confirm.select-ok | ack 1 | ack 2");
    let before = world.shards[0].0.observer().stats();
    let publisher = move_to(&mut world, publisher, 1, 9);
    assert!(!world.shards[0].0.has_channel(ConnectionSlot::new(2), wire::ChannelNumber(1)));
    world.publish(publisher, "", "q", "c");
    assert_eq!(world.sent(publisher), "ack 3");
    let [from, to] = [0, 1].map(|shard| world.shards[shard].0.observer().stats());
    assert_eq!((before.connections_opened, from.connections_opened, to.connections_opened), (1, 1, 1));
    assert_eq!((from.connections_closed, from.channels_closed, to.channels_opened), (0, 0, 1));
    world.disconnect(publisher);
    let to = world.shards[1].0.observer().stats();
    assert_eq!((to.connections_closed, to.channels_closed), (1, 1), "it has ended once");
    let sessions: usize = world.shards.iter().map(|(broker, _)| broker.census()[0].1).sum();
    assert_eq!(sessions, 1, "the owner of the queue");
}

#[test]
fn a_consumer_goes_on_with_its_tags_and_prefetch_count() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (owner, consumer) = (world.connect(1, 1), world.connect(0, 2));
    declare(&mut world, owner, "q");
    world.publish(owner, "", "q", "a");
    world.command(consumer, basic::Qos { prefetch_size: 0, prefetch_count: 1, global: false });
    world.command(consumer, basic::Get { queue: short("q"), no_ack: false });
    assert_eq!(mobility(&world, consumer), SessionMobility::Bound, "a delivery is not settled");
    world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
    world.sent(consumer);
    let consumer = move_to(&mut world, consumer, 1, 5);
    consume(&mut world, consumer, "q", "t", false);
    for body in ["b", "c"] {
        world.publish(owner, "", "q", body);
    }
    assert_eq!(world.sent(consumer), "consume-ok t | t#2=b", "one at a time, and numbered on");
    assert_eq!(mobility(&world, consumer), SessionMobility::Bound);
    world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(2), multiple: false });
    assert_eq!(world.sent(consumer), "t#3=c");
}

#[test]
fn a_fence_is_answered_behind_everything_that_was_sent_before() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (owner, publisher) = (world.connect(1, 1), world.connect(0, 2));
    declare(&mut world, owner, "q");
    let _flow = world.publish_only(publisher, "", "q", "a", &[0, 0], false);
    fence(&mut world, publisher, 1);
    assert_eq!(world.shards[1].0.observer().held().waiting, 0);
    while world.shards[0].0.fence_reached(publisher.1).is_none() {
        assert!(world.carry_batch(0, 1) | world.carry_batch(1, 0), "an answer comes");
    }
    assert_eq!(world.shards[1].0.observer().held().waiting, 1);
    world.shards[0].0.forget_fence(publisher.1);
    assert_eq!(world.shards[0].0.fence_reached(publisher.1), None);
}

#[test]
fn transactions_and_exclusive_queues_stay_where_they_are() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let [transactional, owner, plain] = [1, 2, 3].map(|slot| world.connect(0, slot));
    world.command(transactional, tx::Select {});
    declare_with(&mut world, owner, "mine", true, false);
    let of = [transactional, owner, plain].map(|at| mobility(&world, at));
    assert_eq!(of, [SessionMobility::Bound, SessionMobility::Bound, SessionMobility::Quiet]);
    assert_eq!(mobility(&world, WorldConnection(0, ConnectionSlot::new(9))), SessionMobility::Bound, "nobody");
}

#[test]
fn only_a_queue_of_another_shard_is_elsewhere() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (owner, consumer) = (world.connect(1, 1), world.connect(0, 2));
    declare(&mut world, owner, "q");
    let mut home = |at: WorldConnection, queue| {
        let get = basic::Get { queue: short(queue), no_ack: false };
        world.shards[at.0].0.queue_elsewhere(at.1, wire::ChannelNumber(1), &get.into())
    };
    assert_eq!((home(consumer, "q"), home(owner, "q"), home(consumer, "none")), (Some(ShardId(1)), None, None));
}
