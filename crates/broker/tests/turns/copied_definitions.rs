//! Changes of definitions while somebody copies them: they wait, in their order, and nothing else does.

use super::divided::no_turn_is_long;
use super::{is_served, queue_with};
use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, bind, consume, declare, short};
use broker::limits::HELD_DEFINITION_BYTES_MAX;
use wire::method::{basic, queue};
use wire::{Table, TableRef, Value};

fn start(world: &mut BrokerWorld) -> WorldConnection {
    let bystander = world.connect(0, 9);
    declare(world, bystander, "by");
    consume(world, bystander, "by", "b", true);
    world.sent(bystander);
    assert!(world.shards[0].0.begin_definition_copy() && world.shards[0].0.holds_definitions());
    bystander
}

fn end(world: &mut BrokerWorld) {
    world.shards[0].0.end_definition_copy();
    assert!(!world.shards[0].0.begin_definition_copy(), "the changes that have waited come first");
    while world.run_deferred() {}
    assert!(!world.shards[0].0.holds_definitions() && world.shards[0].0.may_copy_definitions());
}

#[test]
fn changes_wait_for_a_copy_in_their_order_and_messages_do_not() {
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let clients: Vec<_> = (0..shards).map(|shard| world.connect(shard.into(), u32::from(shard))).collect();
        declare(&mut world, clients[0], "old");
        world.sent(clients[0]);
        let bystander = start(&mut world);
        let version = world.shards[0].0.catalog().version();
        for &client in &clients {
            declare(&mut world, client, &format!("new-{client:?}"));
        }
        is_served(&mut world, bystander);
        // What is only looked for is found as it is.
        let (queue, arguments) = (short("old"), TableRef::EMPTY);
        let (passive, durable, exclusive, auto_delete, no_wait) = (true, false, false, false, false);
        let looks = world.connect(0, 7);
        world.command(looks, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
        assert!(world.sent(looks).contains("old"));
        assert!(clients.iter().all(|&client| world.sent(client).is_empty()));
        assert_eq!(world.shards[0].0.catalog().version(), version, "it is copied as it is");
        end(&mut world);
        for &client in &clients {
            let sent = world.sent(client);
            assert!(sent.contains("queue.declare-ok") || sent.contains("new-"), "{sent}");
        }
        assert_eq!(world.shards[0].0.catalog().version(), version + u64::from(shards));
        for (broker, _) in &world.shards {
            assert_eq!(broker.catalog().version(), version + u64::from(shards));
        }
    }
}

#[test]
fn a_queue_that_goes_with_its_last_consumer_is_gone_when_that_is_answered() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let client = world.connect(0, 1);
    let (queue, arguments) = (short("q"), TableRef::EMPTY);
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, true, true);
    world.command(client, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    consume(&mut world, client, "q", "c", true);
    world.sent(client);
    start(&mut world);
    world.command(client, basic::Cancel { consumer_tag: short("c"), no_wait: false });
    assert_eq!(world.sent(client), "");
    end(&mut world);
    assert!(!world.sent(client).is_empty(), "it is answered");
    let catalog = world.shards[0].0.catalog();
    let vhost = catalog.vhost_by_name("/").expect("the default");
    assert!(catalog.queue(vhost, b"q").is_none());
}

#[test]
fn what_a_connection_leaves_while_definitions_are_copied_goes_afterwards() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let client = world.connect(0, 1);
    let (queue, arguments) = (short("own"), TableRef::EMPTY);
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, true, false, true);
    world.command(client, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    let bystander = start(&mut world);
    world.disconnect(client);
    is_served(&mut world, bystander);
    let queues = |world: &BrokerWorld| world.shards[0].0.catalog().queues().count();
    assert_eq!(queues(&world), 2);
    end(&mut world);
    assert_eq!(queues(&world), 1);
}

#[test]
fn very_many_changes_that_have_waited_are_made_in_turns() {
    const CLIENTS: u32 = 6_000;
    let mut world = BrokerWorld::new(1, LIMIT);
    let clients: Vec<_> = (0..CLIENTS).map(|slot| world.connect(0, 10 + slot)).collect();
    queue_with(&mut world, clients[0], "q", &Table::new());
    let bystander = start(&mut world);
    world.runs_deferred = false;
    for (number, &client) in clients.iter().enumerate() {
        world.shards[0].0.start_turn();
        let _flow = world.command_only(client, bind("amq.topic", &format!("key.{number}")));
    }
    world.shards[0].0.end_definition_copy();
    let mut turns = 0;
    while world.run_deferred() {
        is_served(&mut world, bystander);
        turns += 1;
    }
    assert!(turns >= 2, "{turns} turns");
    let catalog = world.shards[0].0.catalog();
    let topic =
        catalog.vhost_by_name("/").and_then(|vhost| catalog.exchange(vhost, b"amq.topic")).expect("predeclared");
    assert_eq!(catalog.bindings_from(topic).count(), CLIENTS as usize);
    no_turn_is_long(&world);
}

/// On the shard that makes the changes and on another.
#[test]
fn what_waits_for_a_copy_has_a_limit_and_what_is_refused_for_it_concerns_nobody_else() {
    const BYTES: usize = 50_000;
    let arguments = Table::new().with("x", Value::text(&"y".repeat(BYTES))).expect("a short name");
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let clients: Vec<_> = (0..400).map(|slot| world.connect((shards - 1).into(), 10 + slot)).collect();
        start(&mut world);
        for (number, &client) in clients.iter().enumerate() {
            queue_with(&mut world, client, &format!("q{number}"), &arguments);
        }
        let refused: Vec<_> = clients.iter().map(|&client| world.sent(client)).collect();
        let first = refused.iter().position(|sent| !sent.is_empty()).expect("one is refused");
        assert!(first.abs_diff(HELD_DEFINITION_BYTES_MAX / BYTES) < 3, "{first} wait");
        let is_refusal = |sent: &String| sent.starts_with("refused RESOURCE_ERROR - the definitions are being copied");
        assert!(refused[first..].iter().all(is_refusal), "{}", refused[first]);
        // What needs nothing goes on waiting.
        let other = world.connect((shards - 1).into(), 9_000);
        queue_with(&mut world, other, "plain", &Table::new());
        end(&mut world);
        let made: String = clients[..first].iter().map(|&client| world.sent(client)).collect();
        assert_eq!(made, "", "nobody else is refused");
        let names = world.shards[0].0.catalog().queues().filter(|(_, queue)| queue.name.starts_with('q')).count();
        assert_eq!(names, first);
    }
}
