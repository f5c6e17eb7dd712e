//! Runs of publishes: clients, counts and budgets see the same as if each message had come alone.

mod letter_runs;
mod model;
mod waiting_runs;

use crate::durability::declare_durable;
use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, ack, consume, declare, prefetch, short};
use broker::{Publish, ReadControl};
use queues::BodyRef;
use wire::method::{basic, confirm, exchange, queue};
use wire::{BodyRun, ChannelNumber, DeliveryTag, Properties, RawProperties, Table, TableRef, Value};

/// Messages that are published on end and differ in their bodies alone.
#[derive(Clone, Copy, Debug)]
struct RepeatedPublish<'a> {
    exchange: &'a str,
    routing_key: &'a str,
    properties: &'a [u8],
    mandatory: bool,
    /// The first body is this number, in so many digits.
    first: usize,
    digits: usize,
    count: usize,
}

const PLAIN: RepeatedPublish<'static> = RepeatedPublish {
    exchange: "",
    routing_key: "q",
    properties: &[0, 0],
    mandatory: false,
    first: 0,
    digits: 4,
    count: 10,
};

/// What a connection does with them in one turn after the other, until one of them has it wait for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct PublishedRun {
    published: usize,
    /// Those that were not looked at by themselves.
    in_runs: usize,
}

/// Publishes one by one, or as runs where that is possible, as a shard does.
fn publish_all(world: &mut BrokerWorld, at: WorldConnection, all: RepeatedPublish<'_>, as_runs: bool) -> PublishedRun {
    const HEADS: &str = "heads";
    let texts =
        (all.first..all.first + all.count).map(|number| format!("{HEADS}{number:0width$}.", width = all.digits));
    let messages: Vec<u8> = texts.flat_map(String::into_bytes).collect();
    let bodies = BodyRun::new(&messages, HEADS.len() + all.digits + 1, HEADS.len(), all.digits);
    let mut done = PublishedRun::default();
    while let Some(rest) = bodies.skip(done.published) {
        let (broker, recorder) = &mut world.shards[at.0];
        let publish = Publish {
            exchange: all.exchange.as_bytes(),
            routing_key: all.routing_key.as_bytes(),
            mandatory: all.mandatory,
            immediate: false,
            properties: RawProperties::new(all.properties),
            body: BodyRef::Small(rest.first()),
        };
        let control = broker.publish(at.1, ChannelNumber(1), publish, recorder).expect("it may be published");
        done.published += 1;
        if control != ReadControl::Continue {
            world.exchange_batches();
            if !world.shards[at.0].0.may_read(at.1) {
                break;
            }
            continue;
        }
        if as_runs
            && !broker.is_turn_over()
            && let Some(repeats) = rest.skip(1)
        {
            let taken = broker.publish_repeats(at.1, ChannelNumber(1), &publish, repeats, recorder);
            done.published += taken;
            done.in_runs += taken;
        }
        // In one batch another shard would find them to be a run.
        if broker.is_turn_over() || !as_runs && world.shards.len() > 1 {
            world.exchange_batches();
        }
    }
    world.exchange_batches();
    done
}

fn bodies(tag: &str, first_tag: usize, numbers: impl Iterator<Item = usize>) -> String {
    let all = numbers.zip(first_tag..).map(|(number, delivery_tag)| format!("{tag}#{delivery_tag}={number:04}"));
    all.collect::<Vec<_>>().join(" | ")
}

fn bind_fanout(world: &mut BrokerWorld, at: WorldConnection, name: &str, queues: &[&str]) {
    let (exchange, kind) = (short(name), short("fanout"));
    let (passive, durable, auto_delete, internal, no_wait) = (false, false, false, false, true);
    let arguments = TableRef::EMPTY;
    world
        .command(at, exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments });
    for name in queues {
        let (queue, routing_key) = (short(name), short(""));
        world.command(at, queue::Bind { queue, exchange, routing_key, no_wait, arguments });
    }
}

/// One shard, a queue `q`, a publisher and two others.
fn world() -> (BrokerWorld, WorldConnection, [WorldConnection; 2]) {
    let mut world = BrokerWorld::new(1, LIMIT);
    let (publisher, others) = (world.connect(0, 1), [2, 3].map(|slot| world.connect(0, slot)));
    declare(&mut world, publisher, "q");
    world.sent(publisher);
    (world, publisher, others)
}

#[test]
fn all_but_the_first_of_a_run_go_to_a_consumer_at_once() {
    for acknowledges in [false, true] {
        let (mut world, publisher, [consumer, _]) = world();
        consume(&mut world, consumer, "q", "c", !acknowledges);
        world.sent(consumer);
        let done = publish_all(&mut world, publisher, PLAIN, true);
        assert_eq!(done, PublishedRun { published: 10, in_runs: 9 });
        assert_eq!(world.sent(consumer), bodies("c", 1, 0..10));
        if acknowledges {
            ack(&mut world, consumer, 5, true);
            world.disconnect(consumer);
            let (_, recorder) = &world.shards[0];
            assert!(recorder.sent.is_empty(), "nobody consumes");
            consume(&mut world, publisher, "q", "again", true);
            let again: Vec<String> = (5..10).map(|number| format!("again#{}={number:04}!", number - 4)).collect();
            assert_eq!(world.sent(publisher), format!("consume-ok again | {}", again.join(" | ")));
        }
    }
}

#[test]
fn a_prefetch_count_ends_a_run_and_the_rest_waits() {
    for global in [false, true] {
        let (mut world, publisher, [consumer, _]) = world();
        prefetch(&mut world, consumer, 4, global);
        consume(&mut world, consumer, "q", "c", false);
        world.sent(consumer);
        // One finds out that the consumer takes no more, and those behind it wait as a run.
        assert_eq!(publish_all(&mut world, publisher, PLAIN, true), PublishedRun { published: 10, in_runs: 3 + 5 });
        assert_eq!(world.sent(consumer), bodies("c", 1, 0..4));
        ack(&mut world, consumer, 4, true);
        assert_eq!(world.sent(consumer), bodies("c", 5, 4..8));
        ack(&mut world, consumer, 8, true);
        assert_eq!(world.sent(consumer), bodies("c", 9, 8..10));
        ack(&mut world, consumer, 0, true);
        // Now that nothing waits, others follow as a run.
        let more = RepeatedPublish { first: 10, count: 3, ..PLAIN };
        assert_eq!(publish_all(&mut world, publisher, more, true), PublishedRun { published: 3, in_runs: 2 });
        assert_eq!(world.sent(consumer), bodies("c", 11, 10..13));
    }
}

#[test]
fn consumers_of_a_queue_take_turns_within_a_run() {
    let (mut world, publisher, consumers) = world();
    for consumer in consumers {
        consume(&mut world, consumer, "q", "c", true);
        world.sent(consumer);
    }
    publish_all(&mut world, publisher, PLAIN, true);
    assert_eq!(world.sent(consumers[0]), bodies("c", 1, (0..10).step_by(2)));
    assert_eq!(world.sent(consumers[1]), bodies("c", 1, (1..10).step_by(2)));
}

#[test]
fn the_messages_of_a_run_alternate_where_queues_share_a_connection() {
    let (mut world, publisher, [consumer, other]) = world();
    declare(&mut world, publisher, "p");
    bind_fanout(&mut world, publisher, "f", &["q", "p"]);
    let of_fanout = RepeatedPublish { exchange: "f", routing_key: "", count: 3, ..PLAIN };
    for (queue, at) in [("q", consumer), ("p", other)] {
        consume(&mut world, at, queue, queue, true);
        world.sent(at);
    }
    assert_eq!(publish_all(&mut world, publisher, of_fanout, true), PublishedRun { published: 3, in_runs: 2 });
    assert_eq!([consumer, other].map(|at| world.sent(at)), ["q", "p"].map(|tag| bodies(tag, 1, 0..3)));
    world.command(other, basic::Cancel { consumer_tag: short("p"), no_wait: true });
    consume(&mut world, consumer, "p", "p", true);
    world.sent(consumer);
    let done = publish_all(&mut world, publisher, of_fanout, true);
    assert_eq!(done, PublishedRun { published: 3, in_runs: 0 });
    let sent = world.sent(consumer);
    assert_eq!(sent, "q#4=0000 | p#5=0000 | q#6=0001 | p#7=0001 | q#8=0002 | p#9=0002");
}

#[test]
fn the_confirms_of_a_run_are_one() {
    let (mut world, publisher, [consumer, _]) = world();
    world.command(publisher, confirm::Select { no_wait: true });
    consume(&mut world, consumer, "q", "c", true);
    assert_eq!(publish_all(&mut world, publisher, PLAIN, true).in_runs, 9);
    assert_eq!(world.sent(publisher), "ack 10+");
    assert_eq!(world.shards[0].0.in_flight(publisher.1, ChannelNumber(1)), 0);
    let (broker, recorder) = &mut world.shards[0];
    broker.close_channel(publisher.1, ChannelNumber(1), recorder);
    let publish = Publish {
        exchange: b"",
        routing_key: b"q",
        mandatory: false,
        immediate: false,
        properties: RawProperties::new(&[0, 0]),
        body: BodyRef::Small(b"1"),
    };
    let late = BodyRun::new(b"2.3.", 2, 0, 1);
    assert_eq!(broker.publish_repeats(publisher.1, ChannelNumber(1), &publish, late, recorder), 0, "it is closed");
}

#[test]
fn what_a_queue_does_with_messages_that_wait_ends_no_run() {
    let features = [
        ("x-message-ttl", Value::I32(1_000)),
        ("x-max-length", Value::I32(1)),
        ("x-max-priority", Value::I32(3)),
        ("x-dead-letter-exchange", Value::text("amq.fanout")),
        ("x-single-active-consumer", Value::Bool(true)),
        ("x-queue-type", Value::text("quorum")),
    ];
    let properties = Properties { priority: Some(2), ..Properties::default() }.to_bytes();
    for (name, value) in features {
        let (mut world, publisher, [consumer, _]) = world();
        declare_durable(&mut world, publisher, "f", &Table::new().with(name, value).expect("a short name"));
        consume(&mut world, consumer, "f", "c", false);
        world.sent(consumer);
        let all = RepeatedPublish { routing_key: "f", properties: &properties, ..PLAIN };
        let done = publish_all(&mut world, publisher, all, true);
        assert_eq!(done, PublishedRun { published: 10, in_runs: 9 }, "{name}");
        assert_eq!(world.sent(consumer), bodies("c", 1, 0..10), "{name}");
        // They return as what they are, in their order.
        world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(10), multiple: true, requeue: true });
        assert_eq!(world.sent(consumer), bodies("c", 11, 0..10).replace(" | ", "! | ") + "!", "{name}");
    }
}

#[test]
fn a_run_of_persistent_messages_is_stored_before_it_is_confirmed() {
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let all = RepeatedPublish { routing_key: "d", properties: &persistent, count: 3, ..PLAIN };
    for acknowledges in [true, false] {
        let (mut world, publisher, [consumer, _]) = world();
        world.switch_stores_on();
        declare_durable(&mut world, publisher, "d", &Table::new());
        world.command(publisher, confirm::Select { no_wait: true });
        consume(&mut world, consumer, "d", "c", !acknowledges);
        world.sent(publisher);
        assert_eq!(publish_all(&mut world, publisher, all, true), PublishedRun { published: 3, in_runs: 2 });
        if !acknowledges {
            assert_eq!(
                (world.sent(publisher).as_str(), world.stored(0).as_str()),
                ("ack 3+", ""),
                "nothing is to be kept"
            );
            continue;
        }
        let appended = "append 1@0=0000 | await 1 | append 1@1=0001 | append 1@2=0002 | await 3";
        assert_eq!((world.sent(publisher).as_str(), world.stored(0).as_str()), ("", appended));
        assert_eq!(world.live(0), "1@0=0000! 1@1=0001! 1@2=0002!", "they were handed out");
        for (ticket, confirm) in [(1, ""), (2, ""), (3, "ack 3+")] {
            world.report_durable(0, ticket);
            world.exchange_batches();
            assert_eq!(world.sent(publisher), confirm, "those of a tick are confirmed together");
        }
        ack(&mut world, consumer, 3, true);
        assert_eq!((world.stored(0).as_str(), world.live(0).as_str()), ("forget 1@0+3", ""));
    }
}

#[test]
fn a_fanout_of_persistent_messages_goes_message_by_message() {
    let (mut world, publisher, consumers) = world();
    world.switch_stores_on();
    for (name, at) in ["d", "e"].into_iter().zip(consumers) {
        declare_durable(&mut world, publisher, name, &Table::new());
        consume(&mut world, at, name, "c", false);
    }
    bind_fanout(&mut world, publisher, "f", &["d", "e"]);
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let all = RepeatedPublish { exchange: "f", routing_key: "", properties: &persistent, count: 2, ..PLAIN };
    assert_eq!(publish_all(&mut world, publisher, all, true), PublishedRun { published: 2, in_runs: 0 });
    let stored = "append 1@0=0000 | append 2@0=0000 | append 1@1=0001 | append 2@1=0001";
    assert_eq!(world.stored(0), stored, "the store has each body once");
}

/// Two shards with stores: a publisher with confirms on the second, and a consumer's connection on the first, which owns the
/// durable queue `d`.
fn two_shards(arguments: &Table) -> (BrokerWorld, WorldConnection, WorldConnection) {
    let mut world = BrokerWorld::new(2, LIMIT);
    world.switch_stores_on();
    let (consumer, publisher) = (world.connect(0, 1), world.connect(1, 2));
    declare_durable(&mut world, consumer, "d", arguments);
    world.command(publisher, confirm::Select { no_wait: true });
    (world, publisher, consumer)
}

const TO_D: RepeatedPublish<'static> = RepeatedPublish { routing_key: "d", ..PLAIN };

#[test]
fn a_run_crosses_to_the_shard_of_its_queue_and_is_one_there() {
    let (mut world, publisher, consumer) = two_shards(&Table::new());
    consume(&mut world, consumer, "d", "c", true);
    world.sent(consumer);
    assert_eq!(publish_all(&mut world, publisher, TO_D, true), PublishedRun { published: 10, in_runs: 9 });
    assert_eq!((world.sent(consumer), world.sent(publisher).as_str()), (bodies("c", 1, 0..10), "ack 10+"));
    let stats = world.shards[0].0.queues().next().expect("one queue").stats;
    assert_eq!((stats.publish, stats.deliver_no_ack), (10, 10));
}

#[test]
fn what_a_consumer_does_not_take_of_a_run_from_another_shard_waits_in_order() {
    let (mut world, publisher, consumer) = two_shards(&Table::new());
    prefetch(&mut world, consumer, 4, false);
    consume(&mut world, consumer, "d", "c", false);
    world.sent(consumer);
    assert_eq!(publish_all(&mut world, publisher, TO_D, true).in_runs, 9);
    assert_eq!(world.sent(consumer), bodies("c", 1, 0..4));
    ack(&mut world, consumer, 4, true);
    assert_eq!(world.sent(consumer), bodies("c", 5, 4..8));
    ack(&mut world, consumer, 8, true);
    assert_eq!((world.sent(consumer), world.sent(publisher).as_str()), (bodies("c", 9, 8..10), "ack 10+"));
}

#[test]
fn a_run_from_another_shard_is_confirmed_once_it_is_stored() {
    let persistent = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    let all = RepeatedPublish { properties: &persistent, count: 3, ..TO_D };
    let (mut world, publisher, consumer) = two_shards(&Table::new());
    consume(&mut world, consumer, "d", "c", false);
    assert_eq!(publish_all(&mut world, publisher, all, true), PublishedRun { published: 3, in_runs: 2 });
    assert_eq!(world.live(0), "1@0=0000! 1@1=0001! 1@2=0002!");
    assert_eq!(world.sent(publisher), "");
    world.make_durable(0);
    assert_eq!(world.sent(publisher), "ack 3+");
}

#[test]
fn a_full_queue_of_another_shard_refuses_what_is_behind_its_limit() {
    let limit = Table::new().with("x-max-length", Value::I32(3)).expect("a short name");
    let (mut world, publisher, _) =
        two_shards(&limit.with("x-overflow", Value::text("reject-publish")).expect("short"));
    let all = RepeatedPublish { count: 5, ..TO_D };
    assert_eq!(publish_all(&mut world, publisher, all, true), PublishedRun { published: 5, in_runs: 4 });
    assert_eq!(world.sent(publisher), "ack 3+ | nack 4 | nack 5");
}

#[test]
fn a_run_goes_to_a_consumer_of_another_shard_and_returns_from_it_in_order() {
    for no_ack in [true, false] {
        let (mut world, consumer, owner) = two_shards(&Table::new());
        consume(&mut world, consumer, "d", "c", no_ack);
        world.sent(consumer);
        // The publisher is of the queue's shard.
        assert_eq!(publish_all(&mut world, owner, TO_D, true), PublishedRun { published: 10, in_runs: 9 });
        assert_eq!(world.sent(consumer), bodies("c", 1, 0..10));
        if !no_ack {
            ack(&mut world, consumer, 5, true);
            world.disconnect(consumer);
            consume(&mut world, owner, "d", "again", true);
            let again: Vec<String> = (5..10).map(|number| format!("again#{}={number:04}!", number - 4)).collect();
            assert_eq!(world.sent(owner), format!("consume-ok again | {}", again.join(" | ")));
        }
    }
}

#[test]
fn a_consumer_of_another_shard_gets_no_more_of_a_run_than_it_accepts() {
    let (mut world, consumer, owner) = two_shards(&Table::new());
    prefetch(&mut world, consumer, 4, false);
    consume(&mut world, consumer, "d", "c", false);
    world.sent(consumer);
    assert_eq!(publish_all(&mut world, owner, TO_D, true).in_runs, 3 + 5, "its window, and what waits");
    assert_eq!(world.sent(consumer), bodies("c", 1, 0..4));
    ack(&mut world, consumer, 4, true);
    assert_eq!(world.sent(consumer), bodies("c", 5, 4..8));
    ack(&mut world, consumer, 0, true);
    assert_eq!(world.sent(consumer), bodies("c", 9, 8..10));
    ack(&mut world, consumer, 0, true);
    // Its output is full: what comes is parked, and leaves in its order.
    world.set_room(consumer, Some(2));
    let more = RepeatedPublish { first: 10, count: 4, ..TO_D };
    publish_all(&mut world, owner, more, true);
    assert_eq!(world.sent(consumer), bodies("c", 11, 10..12));
    world.set_room(consumer, None);
    assert_eq!(world.sent(consumer), bodies("c", 13, 12..14));
}

#[test]
fn bodies_without_bytes_cross_as_well() {
    let (mut world, publisher, consumer) = two_shards(&Table::new());
    consume(&mut world, consumer, "d", "c", true);
    world.sent(consumer);
    let properties = RawProperties::new(&[0, 0]);
    let (exchange, routing_key, body) = (&b""[..], &b"d"[..], BodyRef::Small(b""));
    let publish = Publish { exchange, routing_key, mandatory: false, immediate: false, properties, body };
    let (broker, recorder) = &mut world.shards[1];
    assert_eq!(broker.publish(publisher.1, ChannelNumber(1), publish, recorder), Ok(ReadControl::Continue));
    let rest = BodyRun::new(b"--", 1, 1, 0);
    assert_eq!(broker.publish_repeats(publisher.1, ChannelNumber(1), &publish, rest, recorder), 2);
    world.exchange_batches();
    assert_eq!(world.sent(consumer), "c#1= | c#2= | c#3=");
}

/// Publishes a hundred messages in turns with this budget, each to so many queues. Returns the work of all turns and of the longest.
fn work_of_turns(budget: u32, queues: usize, as_runs: bool) -> (u64, u64) {
    let mut world = BrokerWorld::with_work(budget);
    let publisher = world.connect(0, 1);
    let names = ["q", "p"];
    for (slot, &name) in (2..).zip(names.iter().take(queues)) {
        let consumer = world.connect(0, slot);
        declare(&mut world, publisher, name);
        consume(&mut world, consumer, name, "c", true);
    }
    bind_fanout(&mut world, publisher, "f", &names[..queues]);
    let all = RepeatedPublish { exchange: "f", routing_key: "", count: 100, ..PLAIN };
    let done = publish_all(&mut world, publisher, all, as_runs);
    assert_eq!((done.published, done.in_runs > 50), (100, as_runs));
    let counters = world.shards[0].0.counters();
    (counters.work, counters.work_per_turn_max)
}

#[test]
fn a_run_ends_with_the_turn() {
    // More than the definitions before them take, each by itself.
    for (budget, queues) in [(40, 1), (41, 2)] {
        let (work, most) = work_of_turns(budget, queues, true);
        assert_eq!((work, most), work_of_turns(budget, queues, false));
        assert!(work > 100 * queues as u64 && most <= u64::from(budget) * 5 / 4, "{work}, {most} in one turn");
    }
}
