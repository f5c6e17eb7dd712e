//! Delaying exchanges, and the keys of `BCC` of delayed messages and dead letters.

use super::*;
use wire::DeliveryTag;
use wire::method::exchange;

pub fn exchange(world: &mut BrokerWorld, at: WorldConnection, name: &str, kind: &str, arguments: &[(&str, Value)]) {
    let table = arguments
        .iter()
        .fold(Table::default(), |table, (name, value)| table.with(name, value.clone()).expect("a short name"));
    let bytes = table.to_bytes();
    let (exchange, kind, arguments) = (short(name), short(kind), TableRef::new(&bytes));
    let (passive, durable, auto_delete, internal, no_wait) = (false, false, false, false, false);
    let declare = exchange::Declare { exchange, kind, passive, durable, auto_delete, internal, no_wait, arguments };
    world.command(at, declare);
    assert_eq!(world.sent(at), "exchange.declare-ok");
}

fn delayed_exchange(world: &mut BrokerWorld, at: WorldConnection, name: &str, kind: &str) {
    exchange(world, at, name, "x-delayed-message", &[("x-delayed-type", Value::text(kind))]);
}

fn delete_exchange(world: &mut BrokerWorld, at: WorldConnection, name: &str) {
    world.command(at, exchange::Delete { exchange: short(name), if_unused: false, no_wait: false });
    assert_eq!(world.sent(at), "exchange.delete-ok");
}

pub fn bind(
    world: &mut BrokerWorld,
    at: WorldConnection,
    exchange: &str,
    key: &str,
    queue: &str,
    arguments: &[(&str, Value)],
) {
    let table = arguments
        .iter()
        .fold(Table::default(), |table, (name, value)| table.with(name, value.clone()).expect("a short name"));
    let bytes = table.to_bytes();
    let (queue, exchange, routing_key) = (short(queue), short(exchange), short(key));
    world.command(at, queue::Bind { queue, exchange, routing_key, no_wait: false, arguments: TableRef::new(&bytes) });
    assert_eq!(world.sent(at), "queue.bind-ok");
}

fn unbind(world: &mut BrokerWorld, at: WorldConnection, exchange: &str, key: &str, queue: &str) {
    let (queue, exchange, routing_key) = (short(queue), short(exchange), short(key));
    world.command(at, queue::Unbind { queue, exchange, routing_key, arguments: TableRef::EMPTY });
    assert_eq!(world.sent(at), "queue.unbind-ok");
}

pub fn with_headers(headers: &[(&str, Value)]) -> Properties {
    let headers = headers
        .iter()
        .fold(Table::default(), |table, (name, value)| table.with(name, value.clone()).expect("a short name"));
    Properties { headers: Some(headers), ..Properties::default() }
}

pub fn publish(
    world: &mut BrokerWorld,
    at: WorldConnection,
    exchange: &str,
    key: &str,
    body: &str,
    properties: &Properties,
    mandatory: bool,
) {
    let _flow = world.publish_only(at, exchange, key, body, &properties.to_bytes(), mandatory);
    world.exchange_batches();
}

fn publish_delayed(world: &mut BrokerWorld, at: WorldConnection, exchange: &str, key: &str, body: &str, ms: i32) {
    publish(world, at, exchange, key, body, &with_headers(&[("x-delay", Value::I32(ms))]), false);
}

pub(super) fn waiting(world: &mut BrokerWorld, at: WorldConnection, queue: &str) -> String {
    counts(world, at, queue).strip_prefix(&format!("declare-ok {queue} ")).unwrap_or("?").to_owned()
}

#[test]
fn delayed_messages_that_no_queue_gets_are_counted() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let client = world.connect(0, 1);
    for (name, kind) in [("gone", "direct"), ("unbound", "fanout")] {
        delayed_exchange(&mut world, client, name, kind);
    }
    for (at_ms, name) in [(1, "gone"), (2, "gone"), (3, "unbound"), (4, "unbound")] {
        publish_delayed(&mut world, client, name, "k", "m", at_ms);
    }
    delete_exchange(&mut world, client, "gone");
    for unroutable in 1..=4 {
        world.advance(1);
        assert_eq!(world.shards[0].0.counters().unroutable, unroutable);
    }
    nothing_waits(&world);
}

/// Nothing is delayed any more, and nothing costs anything.
fn nothing_waits(world: &BrokerWorld) {
    for (broker, _) in &world.shards {
        let census = broker.census();
        assert!(census.contains(&("delayed messages", 0)) && census.contains(&("timers", 0)), "{census:?}");
        assert_eq!(broker.next_timer(), None);
    }
}

#[test]
fn delayed_messages_are_routed_in_the_order_of_their_time() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[]);
        delayed_exchange(world, owner, "x", "direct");
        bind(world, owner, "x", "k", "q", &[]);
        consume(world, consumer, "q", "c", true);
        world.sent(consumer);
        for (body, ms) in [("late", 5_000), ("early", 1_000), ("at once", 0), ("past", -10), ("early too", 1_000)] {
            publish_delayed(world, publisher, "x", "k", body, ms);
        }
        assert_eq!(world.sent(consumer), "c#1=at once | c#2=past");
        world.advance(999);
        assert_eq!(world.sent(consumer), "");
        world.advance(1);
        assert_eq!(world.sent(consumer), "c#3=early | c#4=early too");
        // Its publisher need not be there any more.
        world.disconnect(publisher);
        world.advance(4_000);
        assert_eq!(world.sent(consumer), "c#5=late");
        nothing_waits(world);
    });
}

#[test]
fn a_delayed_message_has_a_negated_delay() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(world, owner, "q", &[]);
        delayed_exchange(world, owner, "x", "headers");
        let past = [("x-match", Value::text("all-with-x")), ("x-delay", Value::I32(-1_500)), ("a", Value::I32(1))];
        bind(world, owner, "x", "", "q", &past);
        let headers = [("a", Value::I32(1)), ("x-delay", Value::text("1500"))];
        publish(world, publisher, "x", "k", "m", &with_headers(&headers), false);
        world.advance(1_500);
        assert_eq!(waiting(world, owner, "q"), "1/0");
        nothing_waits(world);
    });
}

#[test]
fn a_delayed_message_is_confirmed_at_once_and_never_returned() {
    on_one_and_on_three(|world, owner, publisher, _| {
        declare(world, owner, "q", &[]);
        delayed_exchange(world, owner, "x", "fanout");
        world.command(publisher, confirm::Select { no_wait: false });
        world.sent(publisher);
        publish(world, publisher, "x", "k", "a", &with_headers(&[("x-delay", Value::I32(100))]), true);
        assert_eq!(world.sent(publisher), "ack 1");
        world.advance(100);
        assert_eq!(world.sent(publisher), "", "no queue was bound, and nobody hears of it");
        publish(world, publisher, "x", "k", "b", &with_headers(&[("x-delay", Value::I32(-100))]), true);
        assert_eq!(world.sent(publisher), "returned NO_ROUTE b | ack 2", "what is not delayed is returned");
        nothing_waits(world);
    });
}

#[test]
fn a_delayed_message_is_routed_by_the_definitions_at_its_time() {
    on_one_and_on_three(|world, owner, publisher, _| {
        for name in ["before", "after", "again"] {
            declare(world, owner, name, &[]);
        }
        delayed_exchange(world, owner, "x", "direct");
        bind(world, owner, "x", "k", "before", &[]);
        publish_delayed(world, publisher, "x", "k", "a", 100);
        unbind(world, owner, "x", "k", "before");
        bind(world, owner, "x", "k", "after", &[]);
        world.advance(100);
        assert_eq!((waiting(world, owner, "before"), waiting(world, owner, "after")), ("0/0".into(), "1/0".into()));
        // Without its exchange it is dropped, unless there is another of that name by then.
        publish_delayed(world, publisher, "x", "k", "lost", 100);
        publish_delayed(world, publisher, "x", "k", "kept", 200);
        delete_exchange(world, owner, "x");
        world.advance(100);
        exchange(world, owner, "x", "direct", &[]);
        bind(world, owner, "x", "k", "again", &[]);
        world.advance(100);
        assert_eq!(get(world, owner, "again"), "got#1=kept (0 left)");
        assert_eq!(waiting(world, owner, "after"), "1/0");
        // The queue may go as well.
        publish_delayed(world, publisher, "x", "k", "not delayed by a direct exchange", 100);
        assert_eq!(waiting(world, owner, "again"), "1/0");
        nothing_waits(world);
    });
}

#[test]
fn exchanges_delay_messages_of_every_origin() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        for name in ["now", "later", "dead"] {
            declare(world, owner, name, &[]);
        }
        exchange(world, owner, "in", "fanout", &[]);
        delayed_exchange(world, owner, "x", "topic");
        bind(world, owner, "in", "", "now", &[]);
        bind(world, owner, "x", "#", "later", &[]);
        let (destination, source, routing_key) = (short("x"), short("in"), short(""));
        world.command(
            owner,
            exchange::Bind { destination, source, routing_key, no_wait: false, arguments: TableRef::EMPTY },
        );
        assert_eq!(world.sent(owner), "exchange.bind-ok");
        publish_delayed(world, publisher, "in", "k", "a", 50);
        assert_eq!((waiting(world, owner, "now"), waiting(world, owner, "later")), ("1/0".into(), "0/0".into()));
        world.advance(50);
        assert_eq!((waiting(world, owner, "now"), waiting(world, owner, "later")), ("1/0".into(), "1/0".into()));
        // Dead letters are delayed too, and so is what a transaction publishes, from its commit on.
        declare(world, owner, "q", &[("x-dead-letter-exchange", Value::text("x")), ("x-message-ttl", Value::I32(10))]);
        publish_delayed(world, publisher, "", "q", "b", 20);
        world.advance(29);
        assert_eq!(waiting(world, owner, "later"), "1/0");
        world.advance(1);
        assert_eq!(waiting(world, owner, "later"), "2/0");
        world.command(publisher, tx::Select {});
        publish_delayed(world, publisher, "x", "k", "c", 100);
        world.advance(90);
        world.command(publisher, tx::Commit {});
        assert_eq!(world.sent(publisher), "tx.select-ok | tx.commit-ok");
        world.advance(99);
        assert_eq!(waiting(world, owner, "later"), "2/0");
        world.advance(1);
        // Its own time begins when it is in a queue.
        let mortal =
            Properties { expiration: ShortString::try_from("30").ok(), ..with_headers(&[("x-delay", Value::I32(40))]) };
        publish(world, owner, "x", "k", "d", &mortal, false);
        world.advance(69);
        assert_eq!(waiting(world, owner, "later"), "4/0");
        consume(world, consumer, "later", "c", true);
        assert_eq!(world.sent(consumer), "consume-ok c | c#1=a | c#2=b | c#3=c | c#4=d");
        world.advance(1);
        nothing_waits(world);
    });
}

#[test]
fn messages_due_at_once_arrive_in_their_order() {
    const COUNT: usize = 10_000;
    on_one_and_on_three(|world, owner, publisher, consumer| {
        declare(world, owner, "q", &[]);
        delayed_exchange(world, owner, "x", "fanout");
        bind(world, owner, "x", "", "q", &[]);
        consume(world, consumer, "q", "c", true);
        world.sent(consumer);
        let idle: Vec<usize> = world.shards.iter().map(|(broker, _)| broker.list_overhead_bytes()).collect();
        let properties = with_headers(&[("x-delay", Value::I32(70))]).to_bytes();
        for number in 0..COUNT {
            let _flow = world.publish_only(publisher, "x", "", &number.to_string(), &properties, false);
        }
        world.exchange_batches();
        assert!(
            world.shards[publisher.0].0.list_overhead_bytes() >= idle[publisher.0] + COUNT * 48,
            "they are counted"
        );
        world.advance(100);
        let expected: Vec<String> = (0..COUNT).map(|number| format!("c#{}={number}", number + 1)).collect();
        assert!(world.sent(consumer) == expected.join(" | "), "all of them, in order");
        nothing_waits(world);
        assert_eq!(world.shards.iter().map(|(broker, _)| broker.list_overhead_bytes()).collect::<Vec<_>>(), idle);
    });
}

#[test]
fn keys_of_bcc_survive_dead_letters_and_delays() {
    on_one_and_on_three(|world, owner, publisher, consumer| {
        for name in ["dead", "copy", "bcc"] {
            declare(world, owner, name, &[]);
        }
        exchange(world, owner, "letters", "direct", &[]);
        delayed_exchange(world, owner, "later", "direct");
        for exchange in ["letters", "later"] {
            for (key, queue) in [("q", "dead"), ("c", "copy"), ("b", "bcc")] {
                bind(world, owner, exchange, key, queue, &[]);
            }
        }
        let keys = |keys: &[&str]| Value::List(keys.iter().map(|key| Value::text(key)).collect());
        let both = [("CC", keys(&["c"])), ("BCC", keys(&["b", "elsewhere"]))];
        let all = |world: &mut BrokerWorld| ["dead", "copy", "bcc"].map(|queue| waiting(world, owner, queue)).join(" ");
        // Twice: rejected by a consumer on any shard, then by time.
        declare(
            world,
            owner,
            "r",
            &[("x-dead-letter-exchange", Value::text("letters")), ("x-message-ttl", Value::I32(10))],
        );
        declare(world, owner, "q", &[("x-dead-letter-exchange", Value::text("again"))]);
        exchange(world, owner, "again", "direct", &[]);
        bind(world, owner, "again", "b", "r", &[]);
        publish(world, publisher, "", "q", "m", &with_headers(&both), false);
        consume(world, consumer, "q", "t", false);
        assert_eq!(world.sent(consumer), "consume-ok t | t#1=m");
        world.command(consumer, basic::Nack { delivery_tag: DeliveryTag(1), multiple: false, requeue: false });
        assert_eq!(waiting(world, owner, "r"), "1/0", "by its key of BCC alone");
        world.advance(10);
        assert_eq!(all(world), "1/0 1/0 1/0");
        // The queue's routing key replaces all of them.
        let own = [("x-dead-letter-exchange", Value::text("letters")), ("x-dead-letter-routing-key", Value::text("q"))];
        declare(world, owner, "s", &[own[0].clone(), own[1].clone(), ("x-max-length", Value::I32(0))]);
        publish(world, publisher, "", "s", "n", &with_headers(&both), false);
        assert_eq!(all(world), "2/0 1/0 1/0");
        let late = [both[0].clone(), both[1].clone(), ("x-delay", Value::I32(10))];
        publish(world, publisher, "later", "q", "o", &with_headers(&late), false);
        assert_eq!(all(world), "2/0 1/0 1/0");
        world.advance(10);
        assert_eq!(all(world), "3/0 2/0 2/0");
    });
}
