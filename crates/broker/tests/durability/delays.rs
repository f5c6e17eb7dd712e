//! Delayed messages are durable like those that wait in queues.

use super::{LIMIT, declare_durable, get};
use crate::world::{BrokerWorld, WorldConnection};
use catalog::QueueUid;
use queues::QueuePosition;
use wire::method::{confirm, exchange, queue};
use wire::{Properties, ShortStr, Table, TableRef, Value};

/// The number of the delayed messages of a shard.
fn delayed(shard: u64) -> u64 {
    u64::MAX - shard
}

/// Shards with stores; an exchange `x` that delays, for the queue `q` (1) on the last shard, and a publisher on the first.
fn world_with(shards: u16, durable: bool) -> (BrokerWorld, WorldConnection, WorldConnection) {
    let mut world = BrokerWorld::new(shards, LIMIT);
    world.switch_stores_on();
    let owner = world.connect(usize::from(shards) - 1, 1);
    declare_durable(&mut world, owner, "q", &Table::new());
    let publisher = world.connect(0, 2);
    let arguments = Table::new().with("x-delayed-type", Value::text("fanout")).expect("short").to_bytes();
    let (exchange, kind) = (super::short("x"), super::short("x-delayed-message"));
    let (passive, auto_delete, internal, no_wait) = (false, false, false, false);
    let arguments = TableRef::new(&arguments);
    world.command(
        publisher,
        exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments },
    );
    let (queue, arguments) = (super::short("q"), TableRef::new(&[]));
    world.command(publisher, queue::Bind { queue, exchange, routing_key: ShortStr::EMPTY, no_wait, arguments });
    world.command(publisher, confirm::Select { no_wait: true });
    assert_eq!(world.sent(publisher), "exchange.declare-ok | queue.bind-ok");
    (world, owner, publisher)
}

fn publish(world: &mut BrokerWorld, at: WorldConnection, body: &str, delivery_mode: u8) {
    let headers = Table::new().with("x-delay", Value::I32(5)).expect("short");
    let properties = Properties { headers: Some(headers), delivery_mode: Some(delivery_mode), ..Properties::default() };
    let _flow = world.publish_only(at, "x", "key", body, &properties.to_bytes(), false);
    world.exchange_batches();
}

#[test]
fn a_delayed_message_is_confirmed_once_it_is_durable_and_forgotten_once_its_queue_has_it() {
    let (mut world, owner, publisher) = world_with(1, true);
    publish(&mut world, publisher, "a", 2);
    let uid = delayed(0);
    assert_eq!((world.stored(0), world.sent(publisher)), (format!("append {uid}@0=a | await 1"), String::new()));
    world.make_durable(0);
    assert_eq!(world.sent(publisher), "ack 1");
    world.advance(6);
    assert_eq!(world.stored(0), format!("append 1@0=a | forget {uid}@0+1"));
    assert_eq!(get(&mut world, owner, "q"), "got#1=a (0 left)");
}

#[test]
fn a_delayed_message_is_kept_until_another_shard_has_it_durably() {
    let (mut world, _, publisher) = world_with(2, true);
    for body in ["a", "b"] {
        publish(&mut world, publisher, body, 2);
        world.advance(2);
    }
    world.advance(6);
    let uid = delayed(0);
    assert_eq!((world.live(0), world.live(1)), (format!("{uid}@0=a {uid}@1=b"), "1@0=a 1@1=b".into()));
    world.report_durable(1, 1);
    world.exchange_batches();
    assert_eq!(world.live(0), format!("{uid}@1=b"));
    world.make_durable(1);
    assert_eq!(world.live(0), "");
}

#[test]
fn what_need_not_survive_is_not_stored() {
    for (durable, delivery_mode) in [(false, 2), (true, 1)] {
        let (mut world, _, publisher) = world_with(2, durable);
        publish(&mut world, publisher, "a", delivery_mode);
        assert_eq!((world.stored(0).as_str(), world.sent(publisher).as_str()), ("", "ack 1"));
        world.advance(6);
        assert_eq!(world.stored(0), "");
    }
}

#[test]
fn a_delayed_message_without_a_queue_is_forgotten() {
    let (mut world, owner, publisher) = world_with(1, true);
    publish(&mut world, publisher, "a", 2);
    world.command(owner, exchange::Delete { exchange: super::short("x"), if_unused: false, no_wait: false });
    world.advance(6);
    assert_eq!(world.live(0), "");
}

#[test]
fn delayed_messages_are_restored_to_their_times() {
    let (mut world, _, publisher) = world_with(1, true);
    for body in ["a", "b"] {
        publish(&mut world, publisher, body, 2);
    }
    world.advance(3);
    let kept = world.shards[0].1.store.take_live();
    // The broker has as many shards as before, or another number of them; the messages were of shard 0, or of one that is gone.
    for (shards, from) in [(1, 0), (2, 0), (2, 2)] {
        let (mut world, owner, publisher) = world_with(shards, true);
        let home = usize::from(shards) - 1;
        let uid = QueueUid::new(delayed(from)).expect("not 0");
        let is_there: Vec<bool> = world.shards.iter().map(|(broker, _)| broker.is_there(uid)).collect();
        assert_eq!(is_there, [true, false][..shards.into()], "one shard has them");
        let (broker, recorder) = &mut world.shards[0];
        for (_, position, message) in &kept {
            recorder.store.append(uid, *position, message.clone());
            assert!(broker.restore_message(uid, *position, message.clone(), false, 0, recorder));
        }
        broker.finish_restore(uid, &[QueuePosition(2)], recorder);
        assert_eq!(broker.next_timer(), Some(5_000), "not later than before");
        world.advance(4);
        publish(&mut world, publisher, "c", 2);
        let position = if from == 0 { 2 } else { 0 };
        let next = format!("{}@{position}=c", delayed(0));
        assert!(world.live(0).contains(&next), "positions go on: {}", world.live(0));
        world.advance(2);
        world.make_durable(home);
        let live = world.live(0);
        assert!(live.contains(&next) && !live.contains(&format!("{}@0=a", uid.number())), "{live}");
        for expect in ["got#1=a (1 left)", "got#2=b (0 left)"] {
            assert_eq!(get(&mut world, owner, "q"), expect, "{shards} shards");
        }
        assert_eq!(world.shards[home].1.origins, ["x/key", "x/key"], "as they were published");
        assert_eq!(world.live(0), next, "these are done with");
    }
}
