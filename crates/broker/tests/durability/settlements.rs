//! What the store is told when messages leave their queues, or return to them.

use super::{LIMIT, ack, consume, declare_durable, get, publish};
use crate::world::{BrokerWorld, WorldConnection};
use wire::method::{basic, queue};
use wire::{DeliveryTag, Table, Value};

/// Shards with stores; a queue `q` on shard 0, and a client on the last shard.
fn world_with(shards: u16, arguments: &Table) -> (BrokerWorld, WorldConnection, WorldConnection) {
    let mut world = BrokerWorld::new(shards, LIMIT);
    world.switch_stores_on();
    let owner = world.connect(0, 1);
    declare_durable(&mut world, owner, "q", arguments);
    let client = world.connect(usize::from(shards) - 1, 2);
    (world, owner, client)
}

#[test]
fn what_was_taken_without_acknowledgement_does_not_come_back() {
    for shards in [1, 2] {
        let (mut world, owner, client) = world_with(shards, &Table::new());
        for body in ["a", "b", "c"] {
            publish(&mut world, owner, "q", body);
        }
        world.publish(owner, "", "q", "transient");
        assert!(get(&mut world, client, "q").contains("=a"));
        assert_eq!(world.live(0), "1@1=b 1@2=c");
        consume(&mut world, client, "q", "c", true);
        assert_eq!(world.sent(client), "consume-ok c | c#2=b | c#3=c | c#4=transient");
        assert_eq!(world.live(0), "", "{shards} shards");
        publish(&mut world, owner, "q", "d");
        assert!(world.sent(client).contains("=d"));
        assert_eq!(world.live(0), "");
    }
}

#[test]
fn what_is_on_its_way_to_a_consumer_without_acknowledgements_is_kept_until_it_has_it() {
    let (mut world, owner, client) = world_with(2, &Table::new());
    consume(&mut world, client, "q", "c", true);
    world.set_output_capacity(client, false);
    publish(&mut world, owner, "q", "a");
    publish(&mut world, owner, "q", "b");
    assert_eq!((world.sent(client).as_str(), world.live(0).as_str()), ("consume-ok c", "1@0=a! 1@1=b!"));
    world.shards[1].1.capacity = Some(1);
    world.set_output_capacity(client, true);
    assert_eq!((world.sent(client).as_str(), world.live(0).as_str()), ("c#1=a", "1@1=b!"));
    world.disconnect(client);
    assert_eq!(world.live(0), "1@1=b!", "it has returned");
    assert!(get(&mut world, owner, "q").contains("=b"));
    assert_eq!(world.live(0), "");
}

#[test]
fn what_was_handed_out_is_marked_and_forgotten_once_it_is_acknowledged() {
    for shards in [1, 2] {
        let (mut world, owner, client) = world_with(shards, &Table::new());
        publish(&mut world, owner, "q", "a");
        consume(&mut world, client, "q", "c", false);
        for body in ["b", "c"] {
            publish(&mut world, owner, "q", body);
        }
        world.command(client, basic::Cancel { consumer_tag: super::short("c"), no_wait: false });
        publish(&mut world, owner, "q", "d");
        assert_eq!(world.live(0), "1@0=a! 1@1=b! 1@2=c! 1@3=d");
        ack(&mut world, client, 2, false);
        world.command(client, basic::Reject { delivery_tag: DeliveryTag(3), requeue: false });
        assert_eq!(world.live(0), "1@0=a! 1@3=d");
        world.command(client, basic::Reject { delivery_tag: DeliveryTag(1), requeue: true });
        world.command(client, basic::Get { queue: super::short("q"), no_ack: false });
        world.command(client, basic::Get { queue: super::short("q"), no_ack: false });
        assert_eq!(world.live(0), "1@0=a! 1@3=d!");
        ack(&mut world, client, 0, true);
        assert_eq!(world.live(0), "", "{shards} shards");
    }
}

#[test]
fn what_one_acknowledgement_settles_is_forgotten_in_runs() {
    let (mut world, owner, client) = world_with(1, &Table::new());
    declare_durable(&mut world, owner, "other", &Table::new());
    consume(&mut world, client, "q", "c", false);
    consume(&mut world, client, "other", "d", false);
    for (queue, body) in [("q", "a"), ("q", "b"), ("other", "c"), ("q", "d"), ("q", "e"), ("q", "f")] {
        publish(&mut world, owner, queue, body);
    }
    world.publish(owner, "", "q", "transient");
    publish(&mut world, owner, "q", "g");
    world.stored(0);
    ack(&mut world, client, 5, true);
    assert_eq!(world.stored(0), "forget 1@0+2 | forget 2@0+1 | forget 1@2+2");
    ack(&mut world, client, 0, true);
    assert_eq!(world.stored(0), "forget 1@4+1 | forget 1@6+1");
    assert_eq!(world.live(0), "");
}

#[test]
fn the_store_is_not_told_of_transient_messages() {
    let (mut world, owner, client) = world_with(1, &Table::new().with("x-max-length", Value::I32(2)).expect("short"));
    consume(&mut world, client, "q", "c", false);
    world.publish(owner, "", "q", "a");
    ack(&mut world, client, 1, false);
    world.publish(owner, "", "q", "b");
    world.command(client, basic::Reject { delivery_tag: DeliveryTag(2), requeue: false });
    world.command(client, basic::Cancel { consumer_tag: super::short("c"), no_wait: false });
    for body in ["c", "d", "e"] {
        world.publish(owner, "", "q", body);
    }
    get(&mut world, client, "q");
    world.command(client, queue::Purge { queue: super::short("q"), no_wait: false });
    assert_eq!(world.stored(0), "");
}

#[test]
fn a_queue_that_ends_with_its_connection_has_nothing_stored() {
    let (mut world, owner, _) = world_with(1, &Table::new());
    let arguments = wire::TableRef::new(&[]);
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, true, true, false, false);
    let queue = super::short("mine");
    world.command(owner, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    publish(&mut world, owner, "mine", "a");
    get(&mut world, owner, "mine");
    world.disconnect(owner);
    assert_eq!(world.stored(0), "");
}

#[test]
fn an_acknowledgement_passes_over_what_was_rejected_or_has_come_back() {
    let quorum = Table::new().with("x-queue-type", Value::text("quorum"));
    let limit = quorum.and_then(|table| table.with("x-delivery-limit", Value::I32(3))).expect("short");
    for (arguments, returned) in [(Table::new(), ""), (limit, "x1")] {
        for shards in [1, 2] {
            let (mut world, owner, client) = world_with(shards, &arguments);
            consume(&mut world, client, "q", "c", false);
            for body in ["a", "b", "c", "d", "e", "f", "g", "h"] {
                publish(&mut world, owner, "q", body);
            }
            world.command(client, basic::Reject { delivery_tag: DeliveryTag(3), requeue: false });
            world.sent(client);
            world.command(client, basic::Nack { delivery_tag: DeliveryTag(5), multiple: false, requeue: true });
            assert_eq!(world.sent(client), "c#9=e!", "{shards} shards");
            world.stored(0);
            ack(&mut world, client, 7, true);
            assert_eq!(world.stored(0), "forget 1@0+2 | forget 1@3+1 | forget 1@5+2", "{shards} shards");
            assert_eq!(world.live(0), format!("1@4=e!{returned} 1@7=h!"), "{shards} shards");
            // The tag that has returned, and the one that was rejected, are none any more.
            for tag in [5, 3] {
                ack(&mut world, client, tag, true);
                let refused = format!("refused PRECONDITION_FAILED - unknown delivery tag {tag}");
                assert_eq!((world.sent(client), world.stored(0)), (refused, String::new()));
            }
            ack(&mut world, client, 0, true);
            assert_eq!(world.stored(0), "forget 1@7+1 | forget 1@4+1", "{shards} shards");
            assert_eq!(world.live(0), "", "{shards} shards");
        }
    }
}

#[test]
fn a_long_acknowledgement_is_divided_by_the_budget_of_a_turn() {
    let mut world = BrokerWorld::with_work(8);
    world.switch_stores_on();
    let owner = world.connect(0, 1);
    declare_durable(&mut world, owner, "q", &Table::new());
    let client = world.connect(0, 2);
    consume(&mut world, client, "q", "c", false);
    for number in 0..30 {
        publish(&mut world, owner, "q", &number.to_string());
        while world.run_deferred() {}
    }
    world.stored(0);
    let _flow = world.command_only(client, basic::Ack { delivery_tag: DeliveryTag(30), multiple: true });
    let (mut parts, mut settled) = (0, 0);
    loop {
        let told = world.stored(0);
        for part in told.split(" | ").filter(|part| !part.is_empty()) {
            let run = part.strip_prefix("forget 1@").and_then(|run| run.split_once('+')).expect("forgotten");
            let [first, count] = [run.0, run.1].map(|number| number.parse::<u64>().expect("a number"));
            assert_eq!((first, count <= 8), (settled, true), "{told}");
            (parts, settled) = (parts + 1, settled + count);
        }
        if !world.run_deferred() && told.is_empty() {
            break;
        }
    }
    assert_eq!((settled, parts >= 4, world.live(0).as_str()), (30, true, ""), "{parts} parts");
}

#[test]
fn a_purge_forgets_what_waits_in_runs_and_keeps_what_is_unsettled() {
    let (mut world, owner, client) = world_with(1, &Table::new());
    for body in ["a", "b", "c", "d", "e"] {
        publish(&mut world, owner, "q", body);
    }
    world.publish(owner, "", "q", "transient");
    publish(&mut world, owner, "q", "f");
    for _ in 0..3 {
        world.command(client, basic::Get { queue: super::short("q"), no_ack: false });
    }
    world.command(client, basic::Nack { delivery_tag: DeliveryTag(1), multiple: false, requeue: true });
    world.sent(client);
    world.stored(0);
    world.command(client, queue::Purge { queue: super::short("q"), no_wait: false });
    assert_eq!(world.sent(client), "", "it is not durable");
    assert!(world.stored(0).starts_with("forget 1@0+1 | forget 1@3+4 | await "));
    world.make_durable(0);
    assert_eq!(world.sent(client), "purge-ok 5");
    assert_eq!(world.live(0), "1@1=b! 1@2=c!");
    world
        .command(client, queue::Delete { queue: super::short("q"), if_unused: false, if_empty: false, no_wait: false });
    assert_eq!((world.stored(0).as_str(), world.live(0).as_str()), ("drop 1", ""));
}

#[test]
fn a_long_purge_is_forgotten_in_turns() {
    let (mut world, owner, client) = world_with(1, &Table::new());
    let messages = broker::limits::WORK_PER_TURN as usize + 10;
    for _ in 0..messages {
        publish(&mut world, owner, "q", "m");
    }
    world.stored(0);
    world.command(client, queue::Purge { queue: super::short("q"), no_wait: false });
    assert_eq!((world.live(0).as_str(), world.stored(0).matches("forget").count()), ("", 2));
    assert_eq!(world.sent(client), "", "it is not durable");
    world.make_durable(0);
    assert_eq!(world.sent(client), format!("purge-ok {messages}"));
}

#[test]
fn a_purge_that_finds_nothing_waits_for_what_others_have_taken() {
    for shards in [1, 2] {
        let (mut world, owner, client) = world_with(shards, &Table::new());
        publish(&mut world, owner, "q", "a");
        world.make_durable(0);
        world.sent(owner);
        for at in [owner, client] {
            world.command(at, queue::Purge { queue: super::short("q"), no_wait: false });
        }
        assert_eq!(world.live(0), "");
        assert_eq!((world.sent(owner).as_str(), world.sent(client).as_str()), ("", ""), "the first is not durable");
        world.make_durable(0);
        assert_eq!((world.sent(owner).as_str(), world.sent(client).as_str()), ("purge-ok 1", "purge-ok 0"));
    }
}

#[test]
fn a_purge_stands_behind_a_longer_one_of_its_queue() {
    let (mut world, owner, client) = world_with(1, &Table::new());
    let messages = broker::limits::WORK_PER_TURN as usize + 10;
    for _ in 0..messages {
        publish(&mut world, owner, "q", "m");
    }
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    for at in [owner, client] {
        world.command(at, queue::Purge { queue: super::short("q"), no_wait: false });
    }
    assert_ne!(world.live(0), "", "some are left for other turns");
    world.sent(owner);
    // Everything that the first turn has told the store is durable, and no more.
    world.make_durable(0);
    assert_eq!((world.sent(owner).as_str(), world.sent(client).as_str()), ("", ""));
    while world.run_deferred() {}
    world.make_durable(0);
    assert_eq!(world.live(0), "");
    assert_eq!((world.sent(owner), world.sent(client).as_str()), (format!("purge-ok {messages}"), "purge-ok 0"));
}

#[test]
fn purges_of_a_transient_queue_do_not_gather_behind_a_longer_one() {
    let (mut world, owner, client) = world_with(1, &Table::new());
    let arguments = wire::TableRef::new(&[]);
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, false);
    let queue = super::short("transient");
    world.command(owner, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    for _ in 0..broker::limits::WORK_PER_TURN * 3 {
        world.publish(owner, "", "transient", "m");
    }
    world.runs_deferred = false;
    for _ in 0..100 {
        world.shards[0].0.start_turn();
        world.command(client, queue::Purge { queue: super::short("transient"), no_wait: false });
    }
    let census = world.shards[0].0.census();
    let purges = census.iter().find(|(name, _)| name.starts_with("purges")).expect("purges are counted");
    assert_eq!(purges.1, 1, "the first alone has messages left");
    assert_eq!(world.sent(client).matches("purge-ok").count(), 100);
}

#[test]
fn a_purge_from_another_shard_is_answered_when_it_is_durable_and_that_of_a_transient_queue_at_once() {
    let (mut world, owner, client) = world_with(2, &Table::new());
    let arguments = wire::TableRef::new(&[]);
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, false);
    let queue = super::short("transient");
    world.command(owner, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    for queue in ["q", "transient"] {
        publish(&mut world, owner, queue, "a");
    }
    world.sent(client);
    world.command(client, queue::Purge { queue: super::short("transient"), no_wait: false });
    assert_eq!(world.sent(client), "purge-ok 1");
    world.command(client, queue::Purge { queue: super::short("q"), no_wait: false });
    assert_eq!(world.sent(client), "");
    // Somebody who has gone is told nothing.
    world.command(owner, queue::Purge { queue: super::short("q"), no_wait: false });
    world.disconnect(owner);
    world.make_durable(0);
    assert_eq!(world.sent(client), "purge-ok 1");
}

#[test]
fn returns_are_counted_in_the_store_and_what_was_appended_stays_as_it_was() {
    let arguments = Table::new()
        .with("x-queue-type", Value::text("quorum"))
        .and_then(|table| table.with("x-delivery-limit", Value::I32(2)))
        .expect("short");
    let (mut world, owner, client) = world_with(2, &arguments);
    publish(&mut world, owner, "q", "a");
    for times in 1..=2 {
        world.command(client, basic::Get { queue: super::short("q"), no_ack: false });
        world.command(client, basic::Reject { delivery_tag: DeliveryTag(times), requeue: true });
        assert_eq!(world.live(0), format!("1@0=a!x{times}"));
    }
    assert_eq!(world.stored(0), "append 1@0=a", "once");
    world.command(client, basic::Get { queue: super::short("q"), no_ack: false });
    world.command(client, basic::Reject { delivery_tag: DeliveryTag(3), requeue: true });
    assert_eq!((world.stored(0).as_str(), world.live(0).as_str()), ("forget 1@0+1", ""), "too often");
}
