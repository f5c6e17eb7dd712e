//! Transactions are whole in the store, and answered once they are durable.

use super::{LIMIT, declare_durable, publish};
use crate::world::{BrokerWorld, WorldConnection};
use broker::ReadControl;
use wire::DeliveryTag;
use wire::method::{basic, queue, tx};
use wire::{Table, Value};

/// Shards with stores; `q` (1) on shard 0 and `r` (2) on the last one, and a client of the first with transactions.
fn world_with(shards: u16) -> (BrokerWorld, WorldConnection, WorldConnection) {
    let mut world = BrokerWorld::new(shards, LIMIT);
    world.switch_stores_on();
    let client = world.connect(0, 1);
    declare_durable(&mut world, client, "q", &Table::new());
    let other = world.connect(usize::from(shards) - 1, 2);
    declare_durable(&mut world, other, "r", &Table::new());
    world.command(client, tx::Select {});
    assert_eq!(world.sent(client), "tx.select-ok");
    (world, client, other)
}

fn get(world: &mut BrokerWorld, at: WorldConnection, queue: &str) {
    world.command(at, basic::Get { queue: super::short(queue), no_ack: false });
    assert!(world.sent(at).starts_with("got#"), "a message waits");
}

#[test]
fn a_commit_is_one_of_the_store_and_answered_once_it_is_durable() {
    let (mut world, client, other) = world_with(1);
    publish(&mut world, other, "q", "before");
    get(&mut world, client, "q");
    world.stored(0);
    publish(&mut world, client, "q", "a");
    publish(&mut world, client, "r", "b");
    world.command(client, basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
    assert_eq!(world.stored(0), "", "nothing before the commit");
    world.command(client, tx::Commit {});
    let stored = world.stored(0);
    assert_eq!(
        stored.replace(" | await 2", ""),
        "begin | append 1@1=a | append 2@0=b | forget 1@0+1 | end",
        "with its settlements"
    );
    assert_eq!(world.sent(client), "");
    assert!(!world.shards[0].0.may_read(client.1));
    world.make_durable(0);
    assert_eq!(world.sent(client), "tx.commit-ok");
    assert!(world.shards[0].0.may_read(client.1));
}

#[test]
fn settlements_alone_are_awaited_too() {
    let (mut world, client, other) = world_with(1);
    publish(&mut world, other, "q", "a");
    get(&mut world, client, "q");
    world.stored(0);
    world.command(client, basic::Reject { delivery_tag: DeliveryTag(1), requeue: false });
    world.command(client, tx::Commit {});
    assert_eq!((world.stored(0).as_str(), world.sent(client).as_str()), ("begin | forget 1@0+1 | end | await 2", ""));
    world.make_durable(0);
    assert_eq!(world.sent(client), "tx.commit-ok");
}

#[test]
fn a_commit_waits_for_its_parts_on_other_shards() {
    let (mut world, client, other) = world_with(2);
    publish(&mut world, other, "r", "before");
    get(&mut world, client, "r");
    world.stored(1);
    for (body, durable_first) in [("a", 0), ("b", 1)] {
        publish(&mut world, client, "q", body);
        publish(&mut world, client, "r", body);
        world.command(client, tx::Commit {});
        assert_eq!(world.sent(client), "");
        world.make_durable(durable_first);
        assert_eq!(world.sent(client), "", "one shard has its part");
        world.make_durable(1 - durable_first);
        assert_eq!(world.sent(client), "tx.commit-ok");
    }
    let stored = world.stored(1);
    let stored: Vec<&str> = stored.split(" | ").filter(|told| !told.starts_with("await")).collect();
    assert_eq!(stored, ["begin", "append 2@1=a", "end", "begin", "append 2@2=b", "end"]);
    // Settlements alone.
    world.command(client, basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
    world.command(client, tx::Commit {});
    assert_eq!(world.stored(1), "begin | forget 2@0+1 | end | await 4");
    world.make_durable(0);
    assert_eq!(world.sent(client), "");
    world.make_durable(1);
    assert_eq!(world.sent(client), "tx.commit-ok");
}

#[test]
fn a_commit_of_transient_messages_waits_for_nothing() {
    for shards in [1, 2] {
        let (mut world, client, _) = world_with(shards);
        for queue in ["q", "r"] {
            world.publish(client, "", queue, "a");
        }
        world.command(client, tx::Commit {});
        assert_eq!(world.sent(client), "tx.commit-ok");
        assert_eq!((0..shards).map(|shard| world.stored(shard.into())).collect::<String>(), "");
        publish(&mut world, client, "q", "a");
        world.command(client, tx::Rollback {});
        assert_eq!(world.sent(client), "tx.rollback-ok");
        world.command(client, tx::Commit {});
        assert_eq!(world.sent(client), "tx.commit-ok", "nothing of what was rolled back");
    }
}

#[test]
fn the_dead_letters_of_a_commit_are_part_of_it() {
    let mut world = BrokerWorld::new(1, LIMIT);
    world.switch_stores_on();
    let client = world.connect(0, 1);
    let arguments = Table::new()
        .with("x-dead-letter-exchange", Value::text(""))
        .and_then(|table| table.with("x-dead-letter-routing-key", Value::text("dead")))
        .expect("short");
    declare_durable(&mut world, client, "q", &arguments);
    declare_durable(&mut world, client, "dead", &Table::new());
    publish(&mut world, client, "q", "a");
    get(&mut world, client, "q");
    world.command(client, tx::Select {});
    world.stored(0);
    world.command(client, basic::Reject { delivery_tag: DeliveryTag(1), requeue: false });
    world.command(client, tx::Commit {});
    assert_eq!(world.stored(0), "begin | append 2@0=a | forget 1@0+1 | end | await 2");
}

/// More than a turn does: each turn's part is whole, and the answer waits for the last.
#[test]
fn a_long_commit_is_whole_in_each_turn() {
    for (shards, queue) in [(1, "q"), (2, "r")] {
        let (mut world, client, _) = world_with(shards);
        let home = usize::from(shards) - 1;
        let messages = broker::limits::WORK_PER_TURN as usize + 10;
        for _ in 0..messages {
            publish(&mut world, client, queue, "m");
        }
        world.command(client, tx::Commit {});
        let stored = world.stored(home);
        let mut in_commit = false;
        for told in stored.split(" | ") {
            match told {
                "begin" => assert!(!std::mem::replace(&mut in_commit, true)),
                "end" => assert!(std::mem::take(&mut in_commit)),
                told => assert!(in_commit || told.starts_with("await"), "{told}"),
            }
        }
        assert!(!in_commit && stored.matches("begin").count() >= 2);
        assert_eq!(stored.matches("append").count(), messages);
        (0..=home).for_each(|shard| world.make_durable(shard));
        assert_eq!(world.sent(client), "tx.commit-ok", "{shards} shards");
    }
}

#[test]
fn the_commit_of_a_connection_that_leaves_is_ended() {
    let (mut world, client, other) = world_with(2);
    publish(&mut world, client, "r", "a");
    assert_eq!(world.command_only(client, tx::Commit {}), ReadControl::Pause);
    world.disconnect(client);
    assert_eq!(world.stored(1), "begin | append 2@0=a | await 1 | end | await 1");
    world.make_durable(1);
    let name = super::short("r");
    world.command(other, queue::Delete { queue: name, if_unused: false, if_empty: false, no_wait: false });
    assert!(world.sent(other).ends_with("delete-ok 1"));
    for (broker, _) in &world.shards {
        let what = "publishes that other shards have not accepted";
        assert!(broker.census().contains(&(what, 0)));
    }
}
