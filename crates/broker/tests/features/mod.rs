//! What queues do beyond queueing, on one shard and across shards: every test runs on both.

mod access;
mod arrivals;
mod deaths;
mod delays;
mod federated;
mod memory;
mod policies;
mod replies;
mod stamps;
mod tables;

use crate::world::{BrokerWorld, WorldConnection};
use catalog::CatalogLimits;
use wire::method::{basic, confirm, queue, tx};
use wire::{DeliveryTag, Properties, ShortStr, ShortString, Table, TableRef, Value};

const LIMIT: u64 = 1 << 30;

/// Runs a test with everybody on one shard, and with owner, publisher and consumer each on another.
fn on_one_and_on_three(test: impl Fn(&mut BrokerWorld, WorldConnection, WorldConnection, WorldConnection)) {
    for (shards, homes) in [(1, [0, 0, 0]), (3, [1, 2, 0]), (3, [0, 1, 2]), (2, [1, 0, 1])] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let [owner, publisher, consumer] = [1, 2, 3].map(|slot| world.connect(homes[slot - 1], slot as u32));
        test(&mut world, owner, publisher, consumer);
        for (broker, _) in &world.shards {
            let dead = broker.census().into_iter().find(|(what, _)| *what == "dead letters");
            assert_eq!(dead, Some(("dead letters", 0)), "every dead letter was routed");
        }
    }
}

fn short(text: &str) -> ShortStr<'_> {
    ShortStr::new(text.as_bytes()).expect("a short text")
}

fn declare(world: &mut BrokerWorld, at: WorldConnection, name: &str, arguments: &[(&str, Value)]) {
    let table = arguments
        .iter()
        .fold(Table::default(), |table, (name, value)| table.with(name, value.clone()).expect("a short name"));
    let bytes = table.to_bytes();
    let (queue, arguments) = (short(name), TableRef::new(&bytes));
    // Queues of other types than classic are durable.
    let durable = table.get("x-queue-type").is_some();
    let (passive, exclusive, auto_delete, no_wait) = (false, false, false, false);
    world.command(at, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    let sent = world.sent(at);
    assert!(sent.starts_with(&format!("declare-ok {name} ")), "{sent}");
}

/// Messages and consumers of a queue, as a passive declaration says them.
fn counts(world: &mut BrokerWorld, at: WorldConnection, name: &str) -> String {
    let (queue, arguments) = (short(name), TableRef::EMPTY);
    let (passive, durable, exclusive, auto_delete, no_wait) = (true, false, false, false, false);
    world.command(at, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
    world.sent(at)
}

fn consume(world: &mut BrokerWorld, at: WorldConnection, name: &str, tag: &str, no_ack: bool) {
    let (queue, consumer_tag, arguments) = (short(name), short(tag), TableRef::EMPTY);
    let (no_local, exclusive, no_wait) = (false, false, false);
    world.command(at, basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments });
}

fn cancel(world: &mut BrokerWorld, at: WorldConnection, tag: &str) {
    world.command(at, basic::Cancel { consumer_tag: short(tag), no_wait: false });
}

fn get(world: &mut BrokerWorld, at: WorldConnection, name: &str) -> String {
    world.command(at, basic::Get { queue: short(name), no_ack: true });
    world.sent(at)
}

fn expiration(ms: &str) -> Properties {
    Properties { expiration: Some(ShortString::try_from(ms).expect("short")), ..Properties::default() }
}

/// A queue that takes the dead letters of others, under the key `dead`.
fn to_dead(more: &[(&'static str, Value)]) -> Vec<(&'static str, Value)> {
    let letters = [("x-dead-letter-exchange", Value::text("")), ("x-dead-letter-routing-key", Value::text("dead"))];
    letters.into_iter().chain(more.iter().cloned()).collect()
}

#[test]
fn messages_expire_from_the_head_of_their_queue() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(world, owner, "q", &[("x-message-ttl", Value::I32(100))]);
        world.publish(publisher, "", "q", "a");
        world.advance(60);
        world.publish_with(publisher, "q", "b", &expiration("10"));
        world.publish(publisher, "", "q", "c");
        world.advance(39);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 3/0", "b is over, but stands behind a");
        world.advance(1);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 1/0", "a and b");
        world.advance(59);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 1/0");
        world.advance(1);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/0");
    });
}

#[test]
fn a_requeued_message_keeps_its_expiration() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[]);
        world.publish_with(publisher, "q", "a", &expiration("100"));
        world.advance(50);
        world.command(consumer, basic::Get { queue: short("q"), no_ack: false });
        assert_eq!(world.sent(consumer), "got#1=a (0 left)");
        world.advance(30);
        world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(1), multiple: false, requeue: true });
        world.advance(19);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 1/0");
        world.advance(1);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/0");
        world.publish_with(publisher, "q", "b", &expiration("100"));
        world.command(consumer, basic::Get { queue: short("q"), no_ack: false });
        world.advance(200);
        world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(2), multiple: false, requeue: true });
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/0", "what comes back too late is gone");
    });
}

#[test]
fn a_message_that_expires_at_once_reaches_a_ready_consumer() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "dead", &[]);
        declare(world, owner, "q", &to_dead(&[("x-message-ttl", Value::I32(0))]));
        world.publish(publisher, "", "q", "a");
        assert_eq!(get(world, owner, "dead"), "got#1=a (0 left)");
        consume(world, consumer, "q", "c", true);
        world.publish(publisher, "", "q", "b");
        assert_eq!(world.sent(consumer), "consume-ok c | c#1=b");
        declare(world, owner, "plain", &[]);
        world.publish_with(publisher, "plain", "c", &expiration("0"));
        assert_eq!(counts(world, owner, "plain"), "declare-ok plain 0/0");
    });
}

#[test]
fn an_expired_message_is_never_delivered() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[]);
        world.publish_with(publisher, "q", "a", &expiration("10"));
        world.publish(publisher, "", "q", "b");
        // The shard has not looked at its timers yet.
        for (broker, _) in &mut world.shards {
            broker.set_now(20_000);
        }
        consume(world, consumer, "q", "c", true);
        assert_eq!(world.sent(consumer), "consume-ok c | c#1=b");
    });
}

#[test]
fn an_unused_queue_is_deleted() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        let expires = [("x-expires", Value::I32(100))];
        declare(world, owner, "q", &expires);
        world.publish(publisher, "", "q", "a");
        world.advance(90);
        declare(world, owner, "q", &expires);
        world.advance(90);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 1/0", "a look is use");
        world.advance(90);
        assert_eq!(get(world, consumer, "q"), "got#1=a (0 left)");
        world.advance(90);
        consume(world, consumer, "q", "c", true);
        world.advance(1_000);
        cancel(world, consumer, "c");
        world.sent(consumer);
        world.publish(publisher, "", "q", "b");
        world.advance(99);
        assert!(
            world.shards.iter().any(|(broker, _)| broker.queues().count() == 1),
            "a publish is no use, but it is early"
        );
        world.advance(1);
        assert_eq!(world.shards.iter().map(|(broker, _)| broker.queues().count()).sum::<usize>(), 0);
        assert!(counts(world, owner, "q").contains("NOT_FOUND - no queue 'q'"));
    });
}

#[test]
fn the_oldest_messages_are_dropped_for_new_ones() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "dead", &[]);
        declare(world, owner, "q", &to_dead(&[("x-max-length", Value::I32(2))]));
        declare(world, owner, "b", &[("x-max-length-bytes", Value::I32(10))]);
        for body in ["a", "b", "c", "d"] {
            world.publish(publisher, "", "q", body);
        }
        world.command(consumer, basic::Get { queue: short("q"), no_ack: false });
        assert_eq!(world.sent(consumer), "got#1=c (1 left)");
        world.publish(publisher, "", "q", "e");
        assert_eq!(counts(world, owner, "q"), "declare-ok q 2/0", "what is out does not count");
        world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(1), multiple: false, requeue: true });
        world.publish(publisher, "", "q", "f");
        assert_eq!(get(world, owner, "q"), "got#1=e (1 left)");
        for (tag, expect) in
            [(2, "got#2=a (3 left)"), (3, "got#3=b (2 left)"), (4, "got#4=c! (1 left)"), (5, "got#5=d (0 left)")]
        {
            let got = get(world, owner, "dead");
            assert_eq!(got.replace('!', ""), expect.replace('!', ""), "{tag}");
        }
        for body in ["12345", "12345", "123456", "12345678901"] {
            world.publish(publisher, "", "b", body);
        }
        assert_eq!(counts(world, owner, "b"), "declare-ok b 0/0", "one that is too large for the queue does not stay");
    });
}

#[test]
fn a_full_queue_refuses_publishes_in_order() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        let full = [("x-max-length", Value::I32(2)), ("x-overflow", Value::text("reject-publish-dlx"))];
        declare(world, owner, "dead", &[]);
        declare(world, owner, "q", &to_dead(&full));
        declare(world, owner, "free", &[]);
        world.command(publisher, confirm::Select { no_wait: false });
        world.sent(publisher);
        for (at, key) in ["q", "free", "q", "q", "free", "free", "q"].into_iter().enumerate() {
            let _flow = world.publish_only(publisher, "", key, &at.to_string(), &[0, 0], false);
        }
        world.exchange_batches();
        let sent = world.sent(publisher);
        let answers: Vec<&str> = sent.split(" | ").collect();
        assert_eq!(
            answers.iter().filter(|answer| answer.starts_with("nack")).collect::<Vec<_>>(),
            [&"nack 4", &"nack 7"]
        );
        let mut told = 0;
        for answer in answers {
            let (word, number) = answer.split_once(' ').expect("a word and a number");
            let multiple = number.ends_with('+');
            let number: u64 = number.trim_end_matches('+').parse().expect("a number");
            assert!(number == told + 1 || (word == "ack" && multiple && number > told), "{answer} after {told}");
            assert!(word == "nack" || ![4, 7].iter().any(|nacked| (told + 1..=number).contains(nacked)), "{answer}");
            told = number;
        }
        assert_eq!(told, 7);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 2/0");
        assert_eq!(get(world, owner, "dead"), "got#1=3 (1 left)");
        consume(world, consumer, "q", "c", true);
        assert_eq!(world.sent(consumer), "consume-ok c | c#1=0 | c#2=2");
    });
}

#[test]
fn a_commit_with_a_refused_message_fails() {
    on_one_and_on_three(|world, owner, publisher, _| {
        let full = [("x-max-length", Value::I32(1)), ("x-overflow", Value::text("reject-publish"))];
        declare(world, owner, "q", &full);
        world.command(publisher, tx::Select {});
        world.publish(publisher, "", "q", "a");
        world.command(publisher, tx::Commit {});
        world.publish(publisher, "", "q", "b");
        world.command(publisher, tx::Commit {});
        assert_eq!(
            world.sent(publisher),
            "tx.select-ok | tx.commit-ok | refused PRECONDITION_FAILED - partial tx completion"
        );
    });
}

#[test]
fn a_rejected_message_is_a_dead_letter() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "dead", &[]);
        declare(world, owner, "q", &to_dead(&[]));
        consume(world, consumer, "q", "c", false);
        for body in ["a", "b", "c", "d"] {
            world.publish(publisher, "", "q", body);
        }
        world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
        world.command(consumer, basic::Reject { delivery_tag: DeliveryTag(2), requeue: false });
        world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(4), multiple: true, requeue: false });
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/1");
        let all: Vec<String> = (0..3).map(|_| get(world, owner, "dead")).collect();
        assert_eq!(all, ["got#1=b (2 left)", "got#2=c (1 left)", "got#3=d (0 left)"]);
    });
}

#[test]
fn dead_letters_cycle_once() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        let letters =
            |key| [("x-dead-letter-exchange", Value::text("")), ("x-dead-letter-routing-key", Value::text(key))];
        let ttl = |key| letters(key).into_iter().chain([("x-message-ttl", Value::I32(10))]).collect::<Vec<_>>();
        declare(world, owner, "q", &ttl("r"));
        declare(world, owner, "r", &ttl("q"));
        world.publish(publisher, "", "q", "a");
        world.advance(10);
        assert_eq!(counts(world, owner, "r"), "declare-ok r 1/0");
        world.advance(10);
        assert_eq!(
            (counts(world, owner, "q"), counts(world, owner, "r")),
            ("declare-ok q 0/0".into(), "declare-ok r 0/0".into())
        );
        // A consumer that rejects it sends it round again.
        declare(world, owner, "work", &letters("wait"));
        declare(world, owner, "wait", &ttl("work"));
        world.publish(publisher, "", "work", "b");
        for round in 1..4 {
            world.command(consumer, basic::Get { queue: short("work"), no_ack: false });
            assert_eq!(world.sent(consumer), format!("got#{round}=b (0 left)"));
            world.command(consumer, basic::Reject { delivery_tag: DeliveryTag(round), requeue: false });
            assert_eq!(counts(world, owner, "wait"), "declare-ok wait 1/0");
            world.advance(10);
        }
    });
}

#[test]
fn a_dead_letter_without_a_queue_is_dropped() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(
            world,
            owner,
            "q",
            &[("x-dead-letter-exchange", Value::text("nowhere")), ("x-max-length", Value::I32(0))],
        );
        declare(world, owner, "r", &[("x-dead-letter-exchange", Value::text("")), ("x-max-length", Value::I32(0))]);
        world.publish(publisher, "", "q", "a");
        world.publish(publisher, "", "r", "a");
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/0");
        assert_eq!(counts(world, owner, "r"), "declare-ok r 0/0", "its own queue is a cycle");
    });
}

#[test]
fn a_million_messages_of_different_times_wait_for_one_timer() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let owner = world.connect(0, 1);
    declare(&mut world, owner, "q", &[]);
    let properties: Vec<Vec<u8>> = (0..100).map(|n| expiration(&(1_000 + n * 10).to_string()).to_bytes()).collect();
    for number in 0..20_000 {
        let _flow = world.publish_only(owner, "", "q", "x", &properties[number * 37 % 100], false);
    }
    let timers = |world: &BrokerWorld| world.shards[0].0.census().into_iter().find(|(what, _)| *what == "timers");
    assert_eq!(timers(&world), Some(("timers", 1)));
    world.advance(999);
    assert_eq!(counts(&mut world, owner, "q"), "declare-ok q 20000/0");
    world.advance(1_001);
    assert_eq!(counts(&mut world, owner, "q"), "declare-ok q 0/0");
    assert_eq!(timers(&world), Some(("timers", 0)));
}

#[test]
fn higher_priorities_are_served_first_and_keep_their_positions() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[("x-max-priority", Value::I32(5))]);
        for (body, priority) in
            [("a", None), ("b", Some(3)), ("c", Some(9)), ("d", Some(5)), ("e", Some(0)), ("f", Some(3))]
        {
            world.publish_with(publisher, "q", body, &Properties { priority, ..Properties::default() });
        }
        world.command(consumer, basic::Qos { prefetch_size: 0, prefetch_count: 3, global: false });
        consume(world, consumer, "q", "c", false);
        assert_eq!(world.sent(consumer), "basic.qos-ok | consume-ok c | c#1=c | c#2=d | c#3=b");
        world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(3), multiple: true, requeue: true });
        assert_eq!(world.sent(consumer), "c#4=c! | c#5=d! | c#6=b!");
        world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(6), multiple: true });
        assert_eq!(world.sent(consumer), "c#7=f | c#8=a | c#9=e");
    });
}

#[test]
fn one_consumer_at_a_time_in_the_order_of_subscription() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[("x-single-active-consumer", Value::Bool(true))]);
        let second = world.connect(0, 9);
        consume(world, consumer, "q", "first", false);
        consume(world, second, "q", "second", false);
        consume(world, owner, "q", "third", true);
        for body in ["a", "b"] {
            world.publish(publisher, "", "q", body);
        }
        assert_eq!(world.sent(consumer), "consume-ok first | first#1=a | first#2=b");
        cancel(world, second, "second");
        assert_eq!(world.sent(second), "consume-ok second | cancel-ok second", "one that waited leaves nothing behind");
        consume(world, second, "q", "fourth", false);
        world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
        world.disconnect(consumer);
        world.publish(publisher, "", "q", "c");
        assert_eq!(world.sent(owner), "consume-ok third | third#1=b! | third#2=c");
        cancel(world, owner, "third");
        world.sent(owner);
        world.publish(publisher, "", "q", "d");
        assert_eq!(world.sent(second), "consume-ok fourth | fourth#1=d");
        let (queue, consumer_tag, arguments) = (short("q"), short("x"), TableRef::EMPTY);
        let (no_local, no_ack, exclusive, no_wait) = (false, false, true, false);
        world.command(owner, basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments });
        assert_eq!(world.sent(owner), "refused ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use");
    });
}

#[test]
fn a_message_returned_too_often_is_a_dead_letter() {
    for (shards, limit) in [(1, 2), (2, 2), (1, 20), (2, 20)] {
        let mut world = BrokerWorld::with(shards, LIMIT, 0, CatalogLimits::default());
        let (owner, consumer) = (world.connect(0, 1), world.connect(usize::from(shards) - 1, 2));
        declare(&mut world, owner, "dead", &[]);
        let quorum = [("x-queue-type", Value::text("quorum")), ("x-delivery-limit", Value::I32(2))];
        // Twenty returns are what a quorum queue allows if it does not say.
        let quorum = if limit == 20 { &quorum[..1] } else { &quorum[..] };
        declare(&mut world, owner, "q", &to_dead(quorum));
        world.publish(owner, "", "q", "a");
        for round in 1..=limit + 1 {
            assert_eq!(counts(&mut world, owner, "q"), "declare-ok q 1/0");
            world.command(consumer, basic::Get { queue: short("q"), no_ack: false });
            let again = if round > 1 { "!" } else { "" };
            assert_eq!(world.sent(consumer), format!("got#{round}=a{again} (0 left)"));
            world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(round), multiple: false, requeue: true });
        }
        assert_eq!(counts(&mut world, owner, "q"), "declare-ok q 0/0");
        assert_eq!(get(&mut world, owner, "dead"), "got#1=a (0 left)");
    }
}

#[test]
fn unsettled_messages_keep_their_delivery_count_through_a_purge() {
    for shards in [1, 2] {
        let limits = CatalogLimits { queue_types_as_classic: true, ..CatalogLimits::default() };
        let mut world = BrokerWorld::with(shards, LIMIT, 0, limits);
        let (owner, consumer) = (world.connect(0, 1), world.connect(usize::from(shards) - 1, 2));
        declare(&mut world, owner, "q", &[("x-delivery-limit", Value::I32(1))]);
        world.publish(owner, "", "q", "a");
        for round in 1..=2 {
            world.command(consumer, basic::Get { queue: short("q"), no_ack: false });
            world.command(owner, queue::Purge { queue: short("q"), no_wait: false });
            world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(round), multiple: false, requeue: true });
        }
        world.sent(owner);
        assert_eq!(world.sent(consumer), "got#1=a (0 left) | got#2=a! (0 left)");
        assert_eq!(counts(&mut world, owner, "q"), "declare-ok q 0/0", "it came back twice");
    }
}

#[test]
fn a_message_on_its_way_to_a_leaving_consumer_keeps_its_delivery_count() {
    let limits = CatalogLimits { queue_types_as_classic: true, ..CatalogLimits::default() };
    let mut world = BrokerWorld::with(2, LIMIT, 0, limits);
    let (owner, consumer) = (world.connect(0, 1), world.connect(1, 2));
    declare(&mut world, owner, "q", &[("x-delivery-limit", Value::I32(1))]);
    world.publish(owner, "", "q", "a");
    world.command(owner, basic::Get { queue: short("q"), no_ack: false });
    world.command(owner, basic::Nack { delivery_tag: DeliveryTag(1), multiple: false, requeue: true });
    // It is sent to a shard whose consumer needs no acknowledgement and whose output is full.
    world.set_output_capacity(consumer, false);
    let (queue, consumer_tag, arguments) = (short("q"), short("c"), TableRef::EMPTY);
    let (no_local, no_ack, exclusive, no_wait) = (false, true, false, false);
    world.command(consumer, basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments });
    assert_eq!(counts(&mut world, owner, "q").split(' ').next_back(), Some("0/1"));
    world.disconnect(consumer);
    world.sent(owner);
    world.command(owner, basic::Get { queue: short("q"), no_ack: false });
    assert_eq!(world.sent(owner), "got#2=a! (0 left)");
    world.command(owner, basic::Nack { delivery_tag: DeliveryTag(2), multiple: false, requeue: true });
    assert_eq!(counts(&mut world, owner, "q"), "declare-ok q 0/0", "it came back twice");
}

#[test]
fn a_delivery_that_is_not_acknowledged_in_time_closes_its_channel() {
    let mut world = BrokerWorld::with(1, LIMIT, 1_000, CatalogLimits::default());
    let (owner, consumer) = (world.connect(0, 1), world.connect(0, 2));
    declare(&mut world, owner, "q", &[]);
    consume(&mut world, consumer, "q", "c", false);
    world.publish(owner, "", "q", "a");
    world.advance(900);
    world.publish(owner, "", "q", "b");
    world.command(consumer, basic::Ack { delivery_tag: DeliveryTag(1), multiple: false });
    world.advance(900);
    assert_eq!(world.sent(consumer), "consume-ok c | c#1=a | c#2=b");
    world.advance(300);
    assert_eq!(
        world.sent(consumer),
        "refused PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1000 ms. \
         This timeout value can be configured, see consumers doc guide to learn more"
    );
    world.disconnect(consumer);
    assert_eq!(world.shards[0].0.next_timer(), None, "nothing is out, and nothing is looked at");
}

#[test]
fn without_a_consumer_timeout_deliveries_wait_for_ever() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[]);
        consume(world, consumer, "q", "c", false);
        world.publish(publisher, "", "q", "a");
        for _ in 0..5 {
            world.advance(1_000_000);
        }
        assert_eq!(world.sent(consumer), "consume-ok c | c#1=a");
    });
}

#[test]
fn a_message_goes_to_the_keys_of_cc_and_bcc_and_nobody_sees_bcc() {
    on_one_and_on_three(|world, owner, publisher, _| {
        for name in ["a", "b", "c", "dead"] {
            declare(world, owner, name, &[]);
        }
        let keys = |keys: &[&str]| Value::List(keys.iter().map(|key| Value::text(key)).collect());
        let headers = |name: &str, value: Value| Table::default().with(name, value).expect("short");
        let with = |headers: Table| Properties { headers: Some(headers), ..Properties::default() };
        let both = headers("CC", keys(&["b", "a", "b"])).with("BCC", keys(&["c", "nowhere"])).expect("short");
        world.publish_with(publisher, "a", "x", &with(both.clone()));
        for name in ["a", "b", "c"] {
            assert_eq!(
                get(world, owner, name),
                "got#1=x (0 left)".replace(
                    '1',
                    match name {
                        "a" => "1",
                        "b" => "2",
                        _ => "3",
                    }
                )
            );
        }
        world.command(publisher, tx::Select {});
        world.sent(publisher);
        world.publish_with(publisher, "nowhere", "y", &with(both));
        assert_eq!(counts(world, owner, "b"), "declare-ok b 0/0");
        world.command(publisher, tx::Commit {});
        for name in ["a", "b", "c"] {
            assert_eq!(counts(world, owner, name), format!("declare-ok {name} 1/0"));
        }
        world.sent(publisher);
        world.publish_with(publisher, "a", "z", &with(headers("CC", Value::text("b"))));
        assert_eq!(
            world.sent(publisher),
            "refused PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,\"CC\",longstr}"
        );
    });
}

#[test]
fn messages_that_expire_together_are_dead_lettered_in_order() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "dead", &[]);
        declare(world, owner, "q", &to_dead(&[("x-message-ttl", Value::I32(10))]));
        for number in 0..1_000 {
            world.publish(publisher, "", "q", &number.to_string());
        }
        world.advance(11);
        assert_eq!(counts(world, owner, "q"), "declare-ok q 0/0");
        assert_eq!(counts(world, owner, "dead"), "declare-ok dead 1000/0");
        consume(world, consumer, "dead", "c", true);
        let expect: Vec<String> = (0..1_000).map(|number| format!("c#{}={number}", number + 1)).collect();
        assert_eq!(world.sent(consumer), format!("consume-ok c | {}", expect.join(" | ")));
    });
}

#[test]
fn a_publisher_of_dead_letters_is_throttled_by_their_consumers() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let (owner, publisher, consumer) = (world.connect(0, 1), world.connect(0, 2), world.connect(0, 3));
    declare(&mut world, owner, "dead", &[]);
    declare(&mut world, owner, "q", &to_dead(&[("x-max-length", Value::I32(0))]));
    declare(&mut world, owner, "late", &to_dead(&[("x-message-ttl", Value::I32(5))]));
    consume(&mut world, consumer, "dead", "c", true);
    let body = "x".repeat(1 << 20);
    assert!(world.publish(publisher, "", "q", &body), "the consumer takes it");
    for _ in 0..2 {
        world.publish(publisher, "", "late", &body);
    }
    world.set_output_capacity(consumer, false);
    let throttled_at = (0..6).position(|_| !world.publish(publisher, "", "q", &body));
    assert_eq!(throttled_at, Some(3), "four mebibytes and more wait for the consumer's link");
    // What expires meanwhile waits a moment, and is not forgotten.
    world.advance(5);
    assert_eq!(counts(&mut world, owner, "late"), "declare-ok late 0/0");
    world.set_output_capacity(consumer, true);
    world.advance(5);
    assert_eq!(counts(&mut world, owner, "dead"), "declare-ok dead 0/1");
}
