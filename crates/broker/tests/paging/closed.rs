//! A queue of which messages cannot be read: it is closed, and nothing else is disturbed.

use super::*;
use crate::durability;
use catalog::{ApplyTo, Definition, Policy};
use wire::DeliveryTag;
use wire::Value;
use wire::method::{confirm, tx};

const REFUSAL: &str = "refused NOT_FOUND - queue 'q' in vhost '/' is closed: the disk cannot read some of its messages";

/// The store cannot read messages of a queue, `q` being the first.
fn close(world: &mut BrokerWorld, number: u64) -> bool {
    let (broker, recorder) = &mut world.shards[0];
    let is_closed = broker.close_queue(uid(number), recorder);
    world.run_deferred();
    is_closed
}

fn get(world: &mut BrokerWorld, at: WorldConnection, no_ack: bool) -> String {
    world.command(at, basic::Get { queue: short("q"), no_ack });
    world.sent(at)
}

fn purge(world: &mut BrokerWorld, at: WorldConnection) -> String {
    world.command(at, queue::Purge { queue: short("q"), no_wait: false });
    world.make_durable(0);
    world.sent(at)
}

/// A durable queue of which most messages are on pages, each of which is in the store.
fn world_of_pages(arguments: &Table) -> (BrokerWorld, WorldConnection) {
    let (mut world, client) = world_with(16, arguments);
    publish(&mut world, client, 0..100, &persistent());
    world.make_durable(0);
    assert!(world.shards[0].1.pages.len() > 50);
    (world, client)
}

#[test]
fn its_consumers_are_cancelled_and_whoever_asks_is_refused() {
    let (mut world, client) = world_of_pages(&Table::new());
    let (waiting, other) = (world.connect(0, 2), world.connect(0, 3));
    prefetch(&mut world, client, 1, false);
    consume(&mut world, client, "q", "c", false);
    consume(&mut world, client, "q", "d", false);
    world.answer_pages(0);
    assert_eq!(delivered(&world.sent(client)), [0, 1]);
    assert!(close(&mut world, 1));
    assert_eq!(world.sent(client), "cancel c | cancel d");
    assert_eq!(get(&mut world, waiting, true), REFUSAL);
    assert_eq!(count(&mut world, other, "q"), REFUSAL);
    consume(&mut world, other, "q", "e", false);
    assert_eq!(world.sent(other), REFUSAL);
    assert!(!close(&mut world, 1), "it is closed once");
    assert!(!close(&mut world, 9), "it is not there");
    // What was delivered before is settled, and returns.
    ack(&mut world, client, 1, false);
    world.command(client, basic::Nack { delivery_tag: DeliveryTag(2), multiple: false, requeue: true });
    assert_eq!(world.sent(client), "");
    assert!(!world.live(0).contains("1@0=") && world.live(0).contains("1@1="), "{}", world.live(0));
}

#[test]
fn a_get_that_waits_for_a_page_is_refused_and_answers_to_requests_are_ignored() {
    let (mut world, client) = world_of_pages(&Table::new());
    let other = world.connect(0, 2);
    durability::declare_durable(&mut world, other, "r", &Table::new());
    let mut taken = 0;
    let waits = loop {
        match get(&mut world, client, true).as_str() {
            "" => break client,
            _ => taken += 1,
        }
    };
    assert!(taken < 50 && world.shards[0].1.pages.asked(uid(1)) > 0);
    close(&mut world, 1);
    assert_eq!(world.sent(waits), REFUSAL);
    assert!(world.shards[0].0.may_read(waits.1), "its next command is read");
    let (given, pages) = (world.shards[0].1.pages.given, census(&world, "pages"));
    world.answer_pages(0);
    assert!(world.shards[0].1.pages.given > given);
    assert_eq!((census(&world, "pages"), census(&world, "requests for pages")), (pages, 0));
    // Others get theirs.
    for number in 0..100 {
        world.publish_with(other, "r", &format!("{number:0>100}"), &persistent());
    }
    consume(&mut world, other, "r", "c", true);
    world.answer_pages(0);
    assert_eq!(delivered(&world.sent(other)), (0..100).collect::<Vec<_>>());
}

#[test]
fn what_is_published_to_it_is_refused_and_other_queues_have_it() {
    let (mut world, client) = world_of_pages(&Table::new());
    let consumer = world.connect(0, 3);
    crate::declare(&mut world, consumer, "healthy");
    for name in ["q", "healthy"] {
        let (exchange, routing_key, arguments) = (short("amq.fanout"), short(""), TableRef::EMPTY);
        world.command(consumer, queue::Bind { queue: short(name), exchange, routing_key, no_wait: true, arguments });
    }
    consume(&mut world, consumer, "healthy", "c", true);
    world.sent(consumer);
    close(&mut world, 1);
    let live = world.live(0);
    world.publish_mandatory(client, "q", "unconfirmed");
    assert_eq!(world.sent(client), "", "it has a queue");
    world.command(client, confirm::Select { no_wait: true });
    durability::publish(&mut world, client, "q", "a");
    assert_eq!(world.sent(client), "nack 1");
    world.publish(client, "amq.fanout", "", "b");
    assert_eq!((world.sent(client).as_str(), world.sent(consumer).as_str()), ("nack 2", "c#1=b"));
    let transactional = world.connect(0, 2);
    world.command(transactional, tx::Select {});
    durability::publish(&mut world, transactional, "q", "c");
    world.command(transactional, tx::Commit {});
    world.make_durable(0);
    assert_eq!(world.sent(transactional), "tx.select-ok | refused PRECONDITION_FAILED - partial tx completion");
    assert_eq!(world.live(0), live, "the store has none of it");
}

#[test]
fn it_is_open_again_when_it_is_purged_and_can_be_deleted() {
    let (mut world, client) = world_of_pages(&Table::new());
    close(&mut world, 1);
    assert_eq!(purge(&mut world, client), "purge-ok 100");
    assert_eq!((world.shards[0].1.pages.len(), census(&world, "pages")), (0, 0));
    publish(&mut world, client, 7..9, &persistent());
    consume(&mut world, client, "q", "c", true);
    assert_eq!(delivered(&world.sent(client)), [7, 8]);
    publish(&mut world, client, 0..100, &persistent());
    close(&mut world, 1);
    assert_eq!(world.sent(client).rsplit(" | ").next(), Some("cancel c"));
    world.command(client, queue::Delete { queue: short("q"), if_unused: true, if_empty: false, no_wait: false });
    assert!(world.sent(client).starts_with("delete-ok "));
    assert_eq!((world.live(0).as_str(), census(&world, "pages")), ("", 0));
    durability::declare_durable(&mut world, client, "q", &Table::new());
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 0/0");
}

#[test]
fn nothing_of_it_expires_and_it_does_not_until_it_is_open() {
    let arguments = Table::new()
        .with("x-message-ttl", Value::I32(1_000))
        .and_then(|table| table.with("x-expires", Value::I32(5_000)))
        .expect("short");
    let (mut world, client) = world_of_pages(&arguments);
    let live = world.live(0);
    close(&mut world, 1);
    // Another policy does not open it.
    let policy = Policy {
        vhost: "/".into(),
        name: "short".into(),
        pattern: "q".into(),
        apply_to: ApplyTo::All,
        priority: 1,
        definition: Table::new().with("max-length", Value::I64(3)).expect("short"),
    };
    let definition = Definition::SetPolicies { policies: [policy].into(), operator_policies: [].into() };
    let (broker, recorder) = &mut world.shards[0];
    broker.define_as_operator(definition, recorder).expect("a policy");
    world.advance(60_000);
    assert_eq!((world.live(0), count(&mut world, client, "q").as_str()), (live, REFUSAL));
    assert_eq!(purge(&mut world, client), "purge-ok 100");
    publish(&mut world, client, 0..1, &persistent());
    world.advance(1_001);
    assert_eq!(count(&mut world, client, "q"), "declare-ok q 0/0", "its messages expire again");
    world.advance(10_000);
    assert!(count(&mut world, client, "q").contains("no queue 'q'"), "and so does it");
}

/// On one shard, and with the closed queue on another.
#[test]
fn a_message_whose_dead_letter_it_would_get_stays_in_the_store() {
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        world.switch_stores_on();
        let owner = world.connect(0, 1);
        durability::declare_durable(&mut world, owner, "q", &Table::new());
        let other = world.connect(usize::from(shards) - 1, 2);
        let to_closed = Table::new()
            .with("x-dead-letter-exchange", Value::text(""))
            .and_then(|table| table.with("x-dead-letter-routing-key", Value::text("q")))
            .expect("short");
        durability::declare_durable(&mut world, other, "source", &to_closed);
        for body in ["a", "b"] {
            durability::publish(&mut world, other, "source", body);
        }
        let shard = usize::from(shards) - 1;
        world.make_durable(shard);
        let reject = |world: &mut BrokerWorld, delivery_tag| {
            world.command(other, basic::Get { queue: short("source"), no_ack: false });
            world.command(other, basic::Reject { delivery_tag: DeliveryTag(delivery_tag), requeue: false });
            world.make_durable(0);
            world.make_durable(shard);
        };
        close(&mut world, 1);
        reject(&mut world, 1);
        assert!(world.live(shard).contains("2@0=a"), "{shards} shards: {}", world.live(shard));
        assert_eq!(purge(&mut world, owner), "purge-ok 0");
        reject(&mut world, 2);
        assert!(world.live(shard).contains("2@0=a"), "it waits for the next start: {}", world.live(shard));
        assert!(!world.live(shard).contains("2@1=b") && world.live(0).contains("1@0=b"), "{}", world.live(0));
    }
}
