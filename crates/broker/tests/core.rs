//! The broker core's promises, on one shard and across shards: every test runs on both.

mod durability;
mod features;
mod journal;
mod moves;
mod paging;
mod runs;
mod stats;
mod turns;
mod world;

use broker::{ConnectionSlot, ReadControl};
use queues::BodyRef;
use wire::method::{Method, basic, confirm, exchange, queue, tx};
use wire::{ChannelNumber, DeliveryTag, ShortStr, Table, TableRef, Value};
use world::{BrokerWorld, WorldConnection};

const LIMIT: u64 = 1 << 30;

/// Runs a test with everybody on one shard, and with queue, publisher and consumer each on another.
fn on_one_and_on_three(test: impl Fn(&mut BrokerWorld, WorldConnection, WorldConnection, WorldConnection)) {
    for (shards, homes) in [(1, [0, 0, 0]), (3, [1, 2, 0]), (3, [0, 1, 2]), (2, [1, 0, 1])] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let owner = world.connect(homes[0], 1);
        let publisher = world.connect(homes[1], 2);
        let consumer = world.connect(homes[2], 3);
        declare(&mut world, owner, "q");
        assert_eq!(world.sent(owner), "declare-ok q 0/0");
        test(&mut world, owner, publisher, consumer);
    }
}

fn short(text: &str) -> ShortStr<'_> {
    ShortStr::new(text.as_bytes()).expect("a short text")
}

fn declare(world: &mut BrokerWorld, at: WorldConnection, name: &str) {
    declare_with(world, at, name, false, false);
}

fn declare_with(world: &mut BrokerWorld, at: WorldConnection, name: &str, exclusive: bool, auto_delete: bool) {
    let arguments = TableRef::new(&[]);
    let declare = queue::Declare {
        queue: short(name),
        passive: false,
        durable: false,
        exclusive,
        auto_delete,
        no_wait: false,
        arguments,
    };
    world.command(at, declare);
}

fn consume(world: &mut BrokerWorld, at: WorldConnection, name: &str, tag: &str, no_ack: bool) {
    consume_with(world, at, name, tag, no_ack, false, &Table::default());
}

fn consume_with(
    world: &mut BrokerWorld,
    at: WorldConnection,
    name: &str,
    tag: &str,
    no_ack: bool,
    exclusive: bool,
    arguments: &Table,
) {
    let bytes = arguments.to_bytes();
    let (queue, consumer_tag, arguments) = (short(name), short(tag), TableRef::new(&bytes));
    world.command(
        at,
        basic::Consume { queue, consumer_tag, no_local: false, no_ack, exclusive, no_wait: false, arguments },
    );
}

fn ack(world: &mut BrokerWorld, at: WorldConnection, delivery_tag: u64, multiple: bool) {
    world.command(at, basic::Ack { delivery_tag: DeliveryTag(delivery_tag), multiple });
}

fn prefetch(world: &mut BrokerWorld, at: WorldConnection, prefetch_count: u16, global: bool) {
    world.command(at, basic::Qos { prefetch_size: 0, prefetch_count, global });
    world.sent(at);
}

#[test]
fn what_is_published_is_delivered_in_order() {
    on_one_and_on_three(|world, _, publisher, consumer| {
        world.publish(publisher, "", "q", "a");
        consume(world, consumer, "q", "c", true);
        world.publish(publisher, "", "q", "b");
        assert_eq!(world.sent(consumer), "consume-ok c | c#1=a | c#2=b");
    });
}

#[test]
fn a_requeued_message_returns_to_its_position() {
    on_one_and_on_three(|world, _, publisher, consumer| {
        prefetch(world, consumer, 3, false);
        consume(world, consumer, "q", "c", false);
        for body in ["a", "b", "c", "d"] {
            world.publish(publisher, "", "q", body);
        }
        assert_eq!(world.sent(consumer), "consume-ok c | c#1=a | c#2=b | c#3=c");
        world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(2), multiple: true, requeue: true });
        assert_eq!(world.sent(consumer), "c#4=a! | c#5=b!", "before d, which waits for prefetch");
        ack(world, consumer, 0, true);
        assert_eq!(world.sent(consumer), "c#6=d");
        ack(world, consumer, 5, false);
        assert!(world.sent(consumer).contains("unknown delivery tag 5"));
    });
}

#[test]
fn deliveries_of_a_lost_connection_return_to_their_queues() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        consume(world, consumer, "q", "c", false);
        for body in ["a", "b", "c"] {
            world.publish(publisher, "", "q", body);
        }
        ack(world, consumer, 2, false);
        world.disconnect(consumer);
        consume(world, owner, "q", "o", true);
        assert_eq!(world.sent(owner), "consume-ok o | o#1=a! | o#2=c!");
    });
}

#[test]
fn prefetch_limits_each_consumer_or_the_whole_channel() {
    on_one_and_on_three(|world, _, publisher, consumer| {
        prefetch(world, consumer, 1, false);
        consume(world, consumer, "q", "c", false);
        consume(world, consumer, "q", "d", false);
        world.sent(consumer);
        for body in ["1", "2", "3"] {
            world.publish(publisher, "", "q", body);
        }
        assert_eq!(world.sent(consumer), "c#1=1 | d#2=2");
        ack(world, consumer, 2, false);
        assert_eq!(world.sent(consumer), "d#3=3");
        world.command(consumer, basic::Recover { requeue: true });
        assert_eq!(world.sent(consumer).matches('!').count(), 2);
    });
    on_one_and_on_three(|world, _, publisher, consumer| {
        prefetch(world, consumer, 1, true);
        consume(world, consumer, "q", "c", false);
        consume(world, consumer, "q", "d", false);
        world.sent(consumer);
        for body in ["1", "2", "3"] {
            world.publish(publisher, "", "q", body);
        }
        assert_eq!(world.sent(consumer).matches('#').count(), 1, "one for both");
        ack(world, consumer, 1, false);
        assert_eq!(world.sent(consumer).matches('#').count(), 1);
    });
}

#[test]
fn a_full_output_stops_its_queue_alone() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        consume(world, consumer, "q", "c", true);
        declare(world, owner, "other");
        consume(world, owner, "other", "o", true);
        world.sent(owner);
        world.sent(consumer);
        world.set_output_capacity(consumer, false);
        for body in ["1", "2", "3"] {
            world.publish(publisher, "", "q", body);
            world.publish(publisher, "", "other", body);
        }
        assert_eq!(world.sent(consumer), "");
        assert_eq!(world.sent(owner), "o#1=1 | o#2=2 | o#3=3");
        world.set_output_capacity(consumer, true);
        assert_eq!(world.sent(consumer), "c#1=1 | c#2=2 | c#3=3");
    });
}

#[test]
fn a_publish_is_confirmed_once_it_is_in_its_queue() {
    on_one_and_on_three(|world, owner, publisher, _| {
        world.command(publisher, confirm::Select { no_wait: false });
        world.sent(publisher);
        for body in ["1", "2", "3"] {
            let _flow = world.publish_only(publisher, "", "q", body, &[0, 0], false);
        }
        world.exchange_batches();
        assert_eq!(world.sent(publisher), "ack 3+");
        world.publish_mandatory(publisher, "nowhere", "4");
        assert_eq!(world.sent(publisher), "returned NO_ROUTE 4 | ack 4");
        world.command(owner, queue::Purge { queue: short("q"), no_wait: false });
        assert_eq!(world.sent(owner), "purge-ok 3");
    });
}

#[test]
fn a_transaction_takes_effect_at_commit() {
    on_one_and_on_three(|world, owner, publisher, _| {
        world.command(publisher, tx::Select {});
        world.publish(publisher, "", "q", "a");
        world.command(publisher, tx::Rollback {});
        world.publish(publisher, "", "q", "b");
        world.command(owner, basic::Get { queue: short("q"), no_ack: true });
        assert_eq!(world.sent(owner), "basic.get-empty");
        world.command(publisher, tx::Commit {});
        assert_eq!(world.sent(publisher), "tx.select-ok | tx.rollback-ok | tx.commit-ok");
        world.command(owner, basic::Get { queue: short("q"), no_ack: true });
        assert_eq!(world.sent(owner), "got#1=b (0 left)");
    });
}

#[test]
fn a_transaction_settles_the_deliveries_of_its_acknowledgements() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        for body in ["a", "b", "c"] {
            world.publish(publisher, "", "q", body);
        }
        let get = basic::Get { queue: short("q"), no_ack: false };
        world.command(consumer, tx::Select {});
        world.command(consumer, get);
        world.command(consumer, get);
        world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(0), multiple: true });
        world.command(consumer, tx::Rollback {});
        world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(2), multiple: false });
        world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(0), multiple: true });
        world.command(consumer, get);
        world.command(consumer, tx::Commit {});
        let got = "got#1=a (2 left) | got#2=b (1 left)";
        let sent = format!("tx.select-ok | {got} | tx.rollback-ok | got#3=c (0 left) | tx.commit-ok");
        assert_eq!(world.sent(consumer), sent);
        world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(3), multiple: false });
        world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(3), multiple: false });
        assert_eq!(world.sent(consumer), "refused PRECONDITION_FAILED - unknown delivery tag 3");
        // What was not committed has not happened.
        world.disconnect(consumer);
        world.command(owner, basic::Get { queue: short("q"), no_ack: true });
        assert_eq!(world.sent(owner), "got#1=c! (0 left)");
    });
}

#[test]
fn get_takes_one_message_and_its_connection_may_requeue_it() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        world.publish(publisher, "", "q", "a");
        world.publish(publisher, "", "q", "b");
        world.command(consumer, basic::Get { queue: short("q"), no_ack: false });
        assert_eq!(world.sent(consumer), "got#1=a (1 left)");
        world.disconnect(consumer);
        world.command(owner, basic::Get { queue: short("q"), no_ack: true });
        assert_eq!(world.sent(owner), "got#1=a! (1 left)");
    });
}

#[test]
fn arguments_of_consumers_are_checked() {
    let invalid = "PRECONDITION_FAILED - invalid arg";
    for (name, value, expect) in [
        ("x-priority", Value::U16(5), "consume-ok c".to_owned()),
        ("x-cancel-on-ha-failover", Value::Bool(true), "consume-ok c".to_owned()),
        ("x-mine", Value::Void, "consume-ok c".to_owned()),
        (
            "x-priority",
            Value::F64(5.0),
            format!("refused {invalid} 'x-priority' for queue 'q' in vhost '/': \"expected integer, got double\""),
        ),
        (
            "x-cancel-on-ha-failover",
            Value::I32(1),
            format!(
                "refused {invalid} 'x-cancel-on-ha-failover' for queue 'q' in vhost '/': {{unacceptable_type,signedint}}"
            ),
        ),
        (
            "x-stream-offset",
            Value::text("first"),
            format!(
                "refused {invalid} 'x-stream-offset' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
            ),
        ),
    ] {
        let mut world = BrokerWorld::new(1, LIMIT);
        let at = world.connect(0, 1);
        declare(&mut world, at, "q");
        world.sent(at);
        let arguments = Table::default().with(name, value).expect("a short name");
        consume_with(&mut world, at, "q", "c", false, false, &arguments);
        assert_eq!(world.sent(at), expect);
    }
}

#[test]
fn a_faulty_message_is_refused_only_if_its_exchange_exists() {
    let soon = wire::ShortString::try_from("soon").expect("short");
    let properties = wire::Properties { expiration: Some(soon), ..wire::Properties::default() };
    let mut world = BrokerWorld::new(1, LIMIT);
    let at = world.connect(0, 1);
    world.publish_with(at, "q", "x", &properties);
    assert_eq!(world.sent(at), "refused PRECONDITION_FAILED - invalid expiration 'soon': no_integer");
    let at = world.connect(0, 2);
    let _flow = world.publish_only(at, "nowhere", "q", "x", &properties.to_bytes(), false);
    assert_eq!(world.sent(at), "refused NOT_FOUND - no exchange 'nowhere' in vhost '/'");
}

#[test]
fn consumers_are_cancelled_when_their_queue_is_deleted() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        consume(world, consumer, "q", "c", true);
        world.sent(consumer);
        world.command(owner, queue::Delete { queue: short("q"), if_unused: true, if_empty: true, no_wait: false });
        assert_eq!(world.sent(owner), "refused PRECONDITION_FAILED - queue 'q' in vhost '/' in use");
        world.command(owner, queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: false });
        assert_eq!(world.sent(owner), "delete-ok 0");
        assert_eq!(world.sent(consumer), "cancel c");
        world.publish(publisher, "", "q", "lost");
        declare(world, owner, "q");
        assert_eq!(world.sent(owner), "declare-ok q 0/0");
    });
}

#[test]
fn delete_ok_precedes_the_cancels_of_the_deleters_own_consumers() {
    on_one_and_on_three(|world, owner, _, consumer| {
        for (at, tag) in [(owner, "a"), (owner, "b"), (consumer, "c"), (owner, "d")] {
            consume(world, at, "q", tag, true);
        }
        for at in [owner, consumer] {
            world.sent(at);
        }
        world.publish(owner, "", "nowhere", "x");
        world.command(owner, queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: false });
        let sent = world.sent(owner);
        let mut words: Vec<_> = sent.split(" | ").collect();
        assert_eq!(words.remove(0), "delete-ok 0", "{sent}");
        words.sort_unstable();
        assert_eq!(words, ["cancel a", "cancel b", "cancel d"]);
        assert_eq!(world.sent(consumer), "cancel c");
        // Nobody awaits a reply: the next deletion cancels as usual.
        declare(world, owner, "q");
        consume(world, owner, "q", "e", true);
        world.sent(owner);
        world.command(consumer, queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: true });
        assert_eq!((world.sent(owner).as_str(), world.sent(consumer).as_str()), ("cancel e", ""));
    });
}

#[test]
fn exclusive_and_auto_delete_queues_are_deleted_with_their_users() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare_with(world, consumer, "mine", true, false);
        world.sent(consumer);
        consume(world, publisher, "mine", "p", true);
        assert!(world.sent(publisher).starts_with("refused RESOURCE_LOCKED"));
        declare_with(world, owner, "brief", false, true);
        world.sent(owner);
        consume(world, consumer, "brief", "c", true);
        world.disconnect(consumer);
        for gone in ["mine", "brief"] {
            world.publish_mandatory(publisher, gone, "x");
            assert_eq!(world.sent(publisher), "returned NO_ROUTE x", "{gone}");
        }
    });
}

#[test]
fn exclusive_consumers_and_priorities() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        let high = Table::default().with("x-priority", Value::I32(10)).expect("a short name");
        prefetch(world, consumer, 1, false);
        consume(world, owner, "q", "low", false);
        consume_with(world, consumer, "q", "high", false, false, &high);
        world.sent(owner);
        world.sent(consumer);
        for body in ["1", "2", "3"] {
            world.publish(publisher, "", "q", body);
        }
        assert_eq!((&*world.sent(consumer), &*world.sent(owner)), ("high#1=1", "low#1=2 | low#2=3"));
        consume_with(world, publisher, "q", "alone", false, true, &Table::default());
        assert_eq!(world.sent(publisher), "refused ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use");
    });
}

#[test]
fn a_cancel_returns_messages_that_were_not_delivered() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        consume(world, consumer, "q", "c", true);
        world.sent(consumer);
        world.set_output_capacity(consumer, false);
        for body in ["1", "2"] {
            world.publish(publisher, "", "q", body);
        }
        world.command(consumer, basic::Cancel { consumer_tag: short("c"), no_wait: false });
        assert_eq!(world.sent(consumer), "cancel-ok c");
        consume(world, owner, "q", "o", true);
        assert_eq!(world.sent(owner), "consume-ok o | o#1=1 | o#2=2");
    });
}

#[test]
fn a_full_queue_blocks_its_publishers_alone() {
    for (shards, homes) in [(1, [0, 0, 0]), (3, [0, 1, 2])] {
        let mut world = BrokerWorld::new(shards, 1_000);
        let [owner, publisher, other] = [1, 2, 3].map(|slot| world.connect(homes[slot as usize - 1], slot));
        declare(&mut world, owner, "q");
        declare(&mut world, owner, "free");
        world.sent(owner);
        let body = "x".repeat(100);
        let sent = (0..100).take_while(|_| world.publish(publisher, "", "q", &body)).count();
        assert!((4..12).contains(&sent), "{sent}");
        assert_eq!(world.sent(publisher), "0:blocked: queue is full");
        assert!(world.publish(other, "", "free", "x"));
        assert!(!world.shards[publisher.0].0.may_read(publisher.1));
        consume(&mut world, owner, "q", "o", true);
        assert_eq!(world.sent(publisher), "0:connection.unblocked");
        assert!(world.shards[publisher.0].0.may_read(publisher.1));
        assert_eq!(world.sent(owner).matches('#').count(), sent + 1, "nothing was lost");
    }
}

#[test]
fn a_blocked_publisher_is_notified_even_if_its_first_publish_was_refused() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let [owner, publisher] = [1, 2].map(|slot| world.connect(0, slot));
    declare(&mut world, owner, "q");
    let (broker, recorder) = &mut world.shards[0];
    broker.set_memory_alarm(true, recorder);
    world.publish(publisher, "no-such-exchange", "q", "a");
    assert!(world.sent(publisher).starts_with("refused NOT_FOUND"));
    assert!(world.shards[0].0.may_read(publisher.1), "nothing of it was taken");
    assert!(!world.publish(publisher, "", "q", "b"));
    assert_eq!(world.sent(publisher), "0:blocked: low on memory");
    assert!(!world.shards[0].0.may_read(publisher.1));
    let (broker, recorder) = &mut world.shards[0];
    broker.set_memory_alarm(false, recorder);
    assert_eq!(world.sent(publisher), "0:connection.unblocked");
}

/// Only its owner can empty an exclusive queue: a client that fills its own and disconnects must not stay blocked.
#[test]
fn a_connection_blocked_by_its_own_queue_is_recognised() {
    let mut world = BrokerWorld::new(1, 1_000);
    let [owner, other] = [1, 2].map(|slot| world.connect(0, slot));
    declare_with(&mut world, owner, "mine", true, false);
    declare(&mut world, other, "shared");
    let body = "x".repeat(600);
    for (at, queue) in [(owner, "mine"), (other, "shared")] {
        while world.publish(at, "", queue, &body) {}
    }
    let broker = &world.shards[0].0;
    assert_eq!((broker.is_blocked_by_own_queues(owner.1), broker.is_blocked_by_own_queues(other.1)), (true, false));
    world.disconnect(owner);
    world.publish_mandatory(other, "mine", "x");
    assert!(world.sent(other).contains("returned NO_ROUTE x"));
}

/// A consumer that never reads is given a moment, again and again, but does not keep its publishers from their other work.
#[test]
fn a_consumer_that_reads_nothing_throttles_its_publishers_briefly() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let [consumer, publisher] = [1, 2].map(|slot| world.connect(0, slot));
    declare(&mut world, consumer, "q");
    consume(&mut world, consumer, "q", "c", true);
    world.set_output_capacity(consumer, false);
    let body = "x".repeat(10_000);
    let mut moments = 0;
    for _ in 0..(50 * queues::limits::THROTTLE_BYTES / 10_000) {
        if !world.publish(publisher, "", "q", &body) {
            moments += 1;
            let (broker, recorder) = &mut world.shards[0];
            assert!(!broker.may_read(publisher.1));
            broker.end_throttle(publisher.1, recorder);
            assert!(broker.may_read(publisher.1));
        }
    }
    assert!((40..=50).contains(&moments), "{moments} moments for fifty times the bytes of one");
    // Once the consumer has received everything, its publishers are throttled again.
    world.set_output_capacity(consumer, true);
    world.set_output_capacity(consumer, false);
    let sent = (0..1000).take_while(|_| world.publish(publisher, "", "q", &body)).count() as u64;
    assert!(sent * 10_000 < queues::limits::THROTTLE_BYTES + 20_000, "{sent} before a pause");
}

#[test]
fn a_publish_for_a_queue_not_yet_declared_here_waits_for_it() {
    let mut world = BrokerWorld::new(3, LIMIT);
    let [owner, publisher] = [world.connect(2, 1), world.connect(1, 2)];
    let declare = queue::Declare {
        queue: short("q"),
        passive: false,
        durable: false,
        exclusive: false,
        auto_delete: false,
        no_wait: false,
        arguments: TableRef::new(&[]),
    };
    let _flow = world.command_only(owner, declare);
    world.carry_batch(2, 0);
    world.carry_batch(0, 1);
    // Shard 1 knows the queue, its home on shard 2 does not yet.
    let _flow = world.publish_only(publisher, "", "q", "early", &[0, 0], true);
    world.carry_batch(1, 2);
    world.exchange_batches();
    assert_eq!(world.sent(publisher), "");
    assert_eq!(world.sent(owner), "declare-ok q 1/0");
}

#[test]
fn direct_replies_reach_their_requester() {
    on_one_and_on_three(|world, _, publisher, consumer| {
        consume(world, consumer, "amq.rabbitmq.reply-to", "r", true);
        assert_eq!(world.sent(consumer), "consume-ok r");
        let reply_to = Some(short("amq.rabbitmq.reply-to").to_owned());
        let properties = wire::Properties { reply_to, ..Default::default() };
        let _flow = world.publish_only(consumer, "", "q", "request", &properties.to_bytes(), false);
        world.exchange_batches();
        assert_eq!(world.sent(consumer), "");
        let _flow = world.publish_only(publisher, "", "q", "stray", &properties.to_bytes(), false);
        assert_eq!(world.sent(publisher), "refused PRECONDITION_FAILED - fast reply consumer does not exist");
        world.publish(publisher, "", "amq.rabbitmq.reply-to.made.up", "guess");
        assert_eq!(world.sent(consumer), "");
    });
}

#[test]
fn admin_requests_reach_the_program_and_are_answered() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        let queue = catalog::REQUEST_QUEUE;
        let asking = |reply_to: &str| wire::Properties {
            reply_to: Some(short(reply_to).to_owned()),
            correlation_id: Some(short("id").to_owned()),
            ..Default::default()
        };
        let replies = asking("amq.rabbitmq.reply-to");
        consume(world, consumer, "amq.rabbitmq.reply-to", "r", true);
        world.publish_with(consumer, queue, "a", &replies);
        let refused =
            "refused ACCESS_REFUSED - user 'guest' is no administrator, and 'amq.harrier.requests' hears no others";
        assert_eq!(world.sent(consumer), format!("consume-ok r | {refused}"));
        let (name, password) = ("guest".into(), catalog::Password::plain("guest"));
        let tags = vec!["administrator".into()];
        let administrator = catalog::Definition::PutUser { name, password, tags, loopback_only: true };
        let (broker, recorder) = &mut world.shards[0];
        broker.define_as_operator(administrator, recorder).expect("it is taken");
        world.exchange_batches();
        // The answer goes to the channel of the request, and to no other.
        let wrong =
            "refused PRECONDITION_FAILED - the reply-to of a request is 'amq.rabbitmq.reply-to' of its own channel";
        world.publish_with(publisher, queue, "a", &Default::default());
        world.publish_with(publisher, queue, "a", &asking("q"));
        assert_eq!(world.sent(publisher), format!("{wrong} | {wrong}"));
        world.publish_with(consumer, queue, "question", &replies);
        let request = world.shards[consumer.0].1.requests.pop().expect("a request");
        assert_eq!((&*request.user, &*request.body), ("guest", &b"question"[..]));
        assert_eq!(request.correlation_id.as_deref(), Some(&b"id"[..]));
        world.publish_with(publisher, queue, "a", &asking(&request.reply_to.name()));
        assert_eq!(world.sent(publisher), wrong, "it must not go to others");
        let properties = replies.to_bytes();
        let answer = |world: &mut BrokerWorld, text: &str| {
            let (broker, recorder) = &mut world.shards[consumer.0];
            broker.answer_admin_request(request.reply_to, &properties, BodyRef::Small(text.as_bytes()), recorder);
        };
        answer(world, "answer");
        assert_eq!(world.sent(consumer), "r#1=answer");
        assert_eq!(world.shards[consumer.0].1.delivered_properties, properties);
        world.set_output_capacity(consumer, false);
        answer(world, "much");
        assert_eq!(world.sent(consumer), "refused RESOURCE_ERROR - answers to requests are not read");
        world.set_output_capacity(consumer, true);
        // What is refused is not confirmed, and what waits has its bounds.
        world.command(consumer, confirm::Select { no_wait: true });
        for _ in 0..3 {
            world.publish_with(consumer, queue, "a", &replies);
        }
        let busy = "refused RESOURCE_ERROR - too many requests wait to be answered";
        assert_eq!(world.sent(consumer), format!("ack 1 | ack 2 | {busy} | nack 3"));
        world.publish_with(consumer, queue, &"x".repeat(65_537), &replies);
        let long = "refused PRECONDITION_FAILED - a request of 65537 bytes; 65536 are the most";
        assert_eq!(world.sent(consumer), format!("{long} | nack 4"));
        // Nobody can have a queue of this name.
        declare(world, owner, queue);
        let reserved = "refused ACCESS_REFUSED - queue name 'amq.harrier.requests' contains reserved prefix 'amq.*'";
        assert_eq!(world.sent(owner), reserved);
        // What comes over a link of an administrator was published by others.
        world.shards[publisher.0].0.mark_link(publisher.1, 0);
        world.publish_with(publisher, queue, "a", &Default::default());
        assert_eq!(world.sent(publisher), "");
        world.disconnect(consumer);
        answer(world, "late");
        assert_eq!(world.sent(consumer), "");
    });
}

#[test]
fn replies_precede_the_deliveries_they_cause() {
    on_one_and_on_three(|world, _, publisher, consumer| {
        prefetch(world, consumer, 1, true);
        consume(world, consumer, "q", "c", false);
        for body in ["a", "b", "c"] {
            world.publish(publisher, "", "q", body);
        }
        assert_eq!(world.sent(consumer), "consume-ok c | c#1=a");
        world.command(consumer, basic::Qos { prefetch_size: 0, prefetch_count: 2, global: true });
        assert_eq!(world.sent(consumer), "basic.qos-ok | c#2=b");
        world.command(consumer, basic::Recover { requeue: true });
        let sent = world.sent(consumer);
        assert!(sent.starts_with("basic.recover-ok | c#3="), "{sent}");
    });
}

#[test]
fn a_consumer_whose_queue_is_deleted_while_it_is_cancelled_gets_cancel_ok() {
    let mut world = BrokerWorld::new(3, LIMIT);
    let (owner, consumer) = (world.connect(1, 1), world.connect(2, 2));
    declare(&mut world, owner, "q");
    consume(&mut world, consumer, "q", "c", false);
    world.sent(consumer);
    let cancel = basic::Cancel { consumer_tag: short("c"), no_wait: false };
    let _waits = world.command_only(consumer, cancel);
    let delete = queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: false };
    let _waits = world.command_only(owner, delete);
    // The request to cancel is on its way while the queue is deleted everywhere else.
    while world.carry_batch(1, 0) | world.carry_batch(0, 1) | world.carry_batch(0, 2) | world.carry_batch(1, 2) {}
    world.exchange_batches();
    let sent = world.sent(consumer);
    assert!(sent.ends_with("cancel-ok c"), "{sent}");
}

#[test]
fn a_larger_shared_prefetch_reaches_consumers_of_other_shards() {
    on_one_and_on_three(|world, _, publisher, consumer| {
        prefetch(world, consumer, 3, false);
        prefetch(world, consumer, 1, true);
        consume(world, consumer, "q", "c", false);
        for body in ["1", "2", "3", "4"] {
            world.publish(publisher, "", "q", body);
        }
        assert_eq!(world.sent(consumer), "consume-ok c | c#1=1");
        world.command(consumer, basic::Qos { prefetch_size: 0, prefetch_count: 0, global: true });
        assert_eq!(world.sent(consumer), "basic.qos-ok | c#2=2 | c#3=3");
    });
}

fn bind<'a>(exchange: &'a str, routing_key: &'a str) -> Method<'a> {
    let (queue, exchange, routing_key) = (short("q"), short(exchange), short(routing_key));
    queue::Bind { queue, exchange, routing_key, no_wait: true, arguments: TableRef::new(&[]) }.into()
}

fn make<'a>(exchange: &'a str, kind: &'a str) -> Method<'a> {
    let (exchange, kind, arguments) = (short(exchange), short(kind), TableRef::new(&[]));
    let (passive, durable, auto_delete, internal, no_wait) = (false, false, false, false, true);
    exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments }.into()
}

/// What reaches the queue of messages published with these keys.
fn arrived(
    world: &mut BrokerWorld,
    publisher: WorldConnection,
    consumer: WorldConnection,
    exchange: &str,
    keys: &[&str],
) -> String {
    for key in keys {
        world.publish(publisher, exchange, key, key);
    }
    world.sent(consumer)
}

#[test]
fn batched_definitions_are_visible_everywhere_before_their_connection_continues() {
    on_one_and_on_three(|world, _, publisher, consumer| {
        consume(world, consumer, "q", "c", true);
        world.sent(consumer);
        world.command_all(publisher, &[make("x", "direct"), bind("x", "a"), bind("x", "b"), bind("x", "a")]);
        assert_eq!(world.sent(publisher), "", "nobody asked for an answer");
        assert_eq!(arrived(world, publisher, consumer, "x", &["a", "z", "b"]), "c#1=a | c#2=b");
    });
}

#[test]
fn a_batch_of_definitions_ends_at_the_first_that_is_refused() {
    for (shards, homes) in [(3, [1, 2]), (3, [0, 1]), (2, [1, 0])] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let (owner, other) = (world.connect(homes[0], 1), world.connect(homes[1], 2));
        declare(&mut world, owner, "q");
        consume(&mut world, owner, "q", "c", true);
        world.sent(owner);
        let batch = [make("x", "direct"), bind("x", "a"), bind("nowhere", "b"), bind("x", "c")];
        for method in &batch {
            let (broker, recorder) = &mut world.shards[other.0];
            assert!(broker.may_batch(other.1, method));
            assert_eq!(broker.command(other.1, ChannelNumber(1), *method, recorder), Ok(ReadControl::Batch));
        }
        let (broker, recorder) = &mut world.shards[other.0];
        broker.flush_definitions(other.1, recorder);
        assert!(!broker.may_read(other.1), "the connection waits for all of them");
        world.exchange_batches();
        assert!(world.shards[other.0].0.may_read(other.1));
        assert_eq!(world.sent(other), "refused NOT_FOUND - no exchange 'nowhere' in vhost '/'");
        assert_eq!(arrived(&mut world, owner, owner, "x", &["a", "c"]), "c#1=a", "{shards} {homes:?}");
    }
}

#[test]
fn a_refusal_behind_a_batch_of_definitions_comes_after_its_outcome() {
    for (bad, expect) in [
        (bind("x", "a"), "refused COMMAND_INVALID - unknown exchange type 'none-such'"),
        (bind("nowhere", "a"), "refused NOT_FOUND - no exchange 'nowhere' in vhost '/'"),
    ] {
        let mut world = BrokerWorld::new(3, LIMIT);
        let (owner, other) = (world.connect(1, 1), world.connect(2, 2));
        declare(&mut world, owner, "q");
        world.command_all(owner, &[make("x", "direct")]);
        world.sent(owner);
        for method in [bad, make("y", "none-such")] {
            let (broker, recorder) = &mut world.shards[other.0];
            let _flow =
                broker.command(other.1, ChannelNumber(1), method, recorder).expect("what is wrong is sent in its turn");
        }
        world.exchange_batches();
        assert_eq!(world.sent(other), expect);
    }
}

#[test]
fn a_batch_of_definitions_outlives_its_connection() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let (owner, other) = (world.connect(0, 1), world.connect(1, 2));
    declare(&mut world, owner, "q");
    consume(&mut world, owner, "q", "c", true);
    world.sent(owner);
    for method in [make("x", "direct"), bind("x", "a")] {
        let (broker, recorder) = &mut world.shards[other.0];
        assert_eq!(broker.command(other.1, ChannelNumber(1), method, recorder), Ok(ReadControl::Batch));
    }
    world.disconnect(other);
    assert_eq!(arrived(&mut world, owner, owner, "x", &["a"]), "c#1=a");
}

#[test]
fn only_additions_without_a_reply_are_batched() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let at = world.connect(1, 1);
    declare(&mut world, at, "q");
    let declare = |name, passive, no_wait| -> Method<'_> {
        let (durable, exclusive, auto_delete, arguments) = (false, false, false, TableRef::new(&[]));
        queue::Declare { queue: short(name), passive, durable, exclusive, auto_delete, no_wait, arguments }.into()
    };
    let delete = queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: true };
    for (method, expect) in [
        (declare("new", false, true), true),
        (declare("new", false, false), false),
        (declare("new", true, true), false),
        (declare("q", false, true), false),
        (declare("amq.rabbitmq.reply-to", false, true), false),
        (delete.into(), false),
        (bind("x", "a"), true),
        (make("x", "topic"), true),
        (basic::Ack { delivery_tag: DeliveryTag(1), multiple: false }.into(), false),
    ] {
        assert_eq!(world.shards[1].0.may_batch(ConnectionSlot::new(1), &method), expect, "{method:?}");
    }
}

#[test]
fn a_deletion_of_many_bindings_is_answered_when_every_shard_has_finished_it() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        consume(world, consumer, "q", "c", true);
        world.command_all(publisher, &[make("x", "direct"), make("all", "fanout"), bind("all", "")]);
        let keys: Vec<String> = (0..catalog::limits::DEFINITION_STEPS_MAX + 5_000).map(|key| key.to_string()).collect();
        for keys in keys.chunks(1_000) {
            world.command_all(publisher, &keys.iter().map(|key| bind("x", key)).collect::<Vec<_>>());
        }
        let bindings = |world: &BrokerWorld| -> Vec<usize> {
            world.shards.iter().map(|(broker, _)| broker.catalog().bindings_count()).collect()
        };
        let shards = world.shards.len();
        assert_eq!(bindings(world), vec![keys.len() + 1; shards]);
        assert_eq!(arrived(world, publisher, consumer, "x", &["7"]), "consume-ok c | c#1=7");
        world.command(owner, exchange::Delete { exchange: short("x"), if_unused: false, no_wait: false });
        assert_eq!(world.sent(owner), "exchange.delete-ok");
        assert_eq!(bindings(world), vec![1; shards]);
        world.command_all(publisher, &[make("x", "direct"), bind("x", "8")]);
        assert_eq!(arrived(world, publisher, consumer, "x", &["7", "8"]), "c#2=8");
    });
}
