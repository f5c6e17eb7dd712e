//! What waits while memory is low: publishers from the method on, and commands that take memory.

use super::access::permit;
use super::{LIMIT, consume, declare, delays::bind, delays::waiting, get, short};
use crate::world::{BrokerWorld, WorldConnection};
use broker::{MemoryUse, ReadControl};
use catalog::Permission;
use wire::method::{Method, basic, channel, exchange, queue};
use wire::{ChannelNumber, DeliveryTag, ShortStr, TableRef, Value};

const ONE: ChannelNumber = ChannelNumber(1);

fn set_alarm(world: &mut BrokerWorld, on: bool) {
    let (broker, recorder) = &mut world.shards[0];
    broker.set_memory_alarm(on, recorder);
}

/// The content of a publish begins. Whether the connection is read on, or the text of the refusal.
fn begin(world: &mut BrokerWorld, at: WorldConnection, exchange: &str) -> Result<bool, String> {
    let (broker, recorder) = &mut world.shards[at.0];
    let control = broker.begin_publish(at.1, ONE, exchange.as_bytes(), recorder).map_err(|refusal| refusal.text)?;
    Ok(control == ReadControl::Continue)
}

#[test]
fn a_publish_is_refused_and_blocked_when_its_method_comes() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let publisher = world.connect(0, 1);
    let refusal = begin(&mut world, publisher, "nowhere").expect_err("there is no such exchange");
    assert_eq!(refusal, "NOT_FOUND - no exchange 'nowhere' in vhost '/'");
    permit(&mut world, Permission { write: "^nowhere$".to_owned(), ..Permission::all() });
    let refusal = begin(&mut world, publisher, "amq.direct").expect_err("it may not be written to");
    let expected = "ACCESS_REFUSED - access to exchange 'amq.direct' in vhost '/' refused for user 'guest'";
    assert_eq!(refusal, expected);
    permit(&mut world, Permission::all());
    for exchange in ["amq.direct", ""] {
        assert_eq!(begin(&mut world, publisher, exchange), Ok(true));
    }
    set_alarm(&mut world, true);
    assert_eq!(world.sent(publisher), "0:blocked: low on memory", "its message has not come whole");
    assert_eq!(begin(&mut world, publisher, ""), Ok(false));
    let other = world.connect(0, 2);
    assert_eq!(begin(&mut world, other, ""), Ok(false), "the first content of a connection, too");
    assert_eq!(world.sent(other), "0:blocked: low on memory");
    set_alarm(&mut world, false);
    for at in [publisher, other] {
        assert_eq!(world.sent(at), "0:connection.unblocked");
        assert!(world.shards[0].0.may_read(at.1));
    }
}

#[test]
fn a_connection_awaits_memory_until_the_alarm_ends() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let [owner, other] = [1, 2].map(|slot| world.connect(0, slot));
    world.publish(other, "", "nowhere", "it publishes");
    assert!(!world.shards[0].0.is_blocked_by_memory(other.1), "there is no alarm");
    set_alarm(&mut world, true);
    assert!(world.shards[0].0.is_blocked_by_memory(other.1) && !world.shards[0].0.is_blocked_by_memory(owner.1));
    set_alarm(&mut world, false);
    world.sent(other);
    let other = world.connect(0, 3);
    set_alarm(&mut world, true);
    let (broker, recorder) = &mut world.shards[0];
    assert!(broker.may_read(owner.1) && !broker.awaits_memory(owner.1));
    broker.await_memory(owner.1, recorder);
    assert!(!broker.may_read(owner.1) && broker.awaits_memory(owner.1) && broker.is_blocked_by_memory(owner.1));
    assert!(broker.may_read(other.1));
    assert_eq!(world.sent(owner), "0:blocked: low on memory");
    set_alarm(&mut world, false);
    assert_eq!(world.sent(owner), "0:connection.unblocked");
    let broker = &world.shards[0].0;
    assert!(broker.may_read(owner.1) && !broker.awaits_memory(owner.1));
    set_alarm(&mut world, true);
    assert!(world.shards[0].0.may_read(owner.1), "it is no publisher");
}

#[test]
fn messages_count_alike_while_they_wait_and_while_they_are_unsettled() {
    const COUNT: usize = 10;
    let mut world = BrokerWorld::new(1, LIMIT);
    let owner = world.connect(0, 1);
    declare(&mut world, owner, "q", &[]);
    let counted = |world: &BrokerWorld| {
        let broker = &world.shards[0].0;
        (broker.list_overhead_bytes(), broker.settlement_bytes())
    };
    assert_eq!(counted(&world), (0, 0));
    (0..COUNT).for_each(|_| _ = world.publish(owner, "", "q", "x"));
    let (waiting, settlements) = counted(&world);
    let (each, of_settlement) = (waiting / COUNT, settlements / COUNT);
    assert!(each > of_settlement && of_settlement >= size_of::<u64>() && each < 256, "{each}, {of_settlement}");
    assert_eq!((waiting, settlements), (each * COUNT, of_settlement * COUNT));
    consume(&mut world, owner, "q", "c", false);
    assert_eq!(counted(&world), (waiting, 0), "all are delivered");
}

/// What consumers need is let in: they free memory.
#[test]
fn commands_that_take_memory_are_told_from_those_that_consumers_need() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let owner = world.connect(0, 1);
    declare(&mut world, owner, "q", &[]);
    let (arguments, no_wait) = (TableRef::EMPTY, false);
    let bind = |key| queue::Bind {
        queue: short("q"),
        exchange: short("amq.direct"),
        routing_key: short(key),
        no_wait,
        arguments,
    };
    world.command(owner, bind("bound"));
    let declare_queue = |name, passive| {
        let (durable, exclusive, auto_delete) = (false, false, false);
        queue::Declare { queue: short(name), passive, durable, exclusive, auto_delete, no_wait, arguments }
    };
    let declare_exchange = |name| exchange::Declare {
        exchange: short(name),
        kind: short("direct"),
        passive: false,
        durable: false,
        auto_delete: false,
        internal: false,
        no_wait,
        arguments,
    };
    let publish = |routing_key| {
        let (exchange, mandatory, immediate) = (ShortStr::literal(""), false, false);
        basic::Publish { exchange, routing_key: short(routing_key), mandatory, immediate }
    };
    let consume_queue = || {
        let (no_local, no_ack, exclusive) = (false, false, false);
        basic::Consume { queue: short("q"), consumer_tag: short("c"), no_local, no_ack, exclusive, no_wait, arguments }
    };
    let definition = Some(MemoryUse::Definition);
    let cases: [(ChannelNumber, Method<'_>, Option<MemoryUse>); 13] = [
        (ONE, publish("q").into(), Some(MemoryUse::Message)),
        (ONE, publish("amq.harrier.requests").into(), Some(MemoryUse::Message)),
        (ONE, declare_queue("new", false).into(), definition),
        (ONE, declare_queue("new", true).into(), None),
        (ONE, declare_queue("q", false).into(), None),
        (ONE, declare_exchange("new").into(), definition),
        (ONE, declare_exchange("amq.direct").into(), None),
        (ONE, bind("new").into(), definition),
        (ONE, bind("bound").into(), None),
        (ChannelNumber(4), channel::Open {}.into(), None),
        (ChannelNumber(5), channel::Open {}.into(), definition),
        (ONE, consume_queue().into(), None),
        (ONE, basic::Get { queue: short("q"), no_ack: true }.into(), None),
    ];
    for (number, method, expected) in cases {
        assert_eq!(world.shards[0].0.memory_use(owner.1, number, &method), expected, "{}", method.name());
    }
    (0..4).for_each(|number| consume(&mut world, owner, "q", &number.to_string(), true));
    assert_eq!(world.shards[0].0.memory_use(owner.1, ONE, &consume_queue().into()), definition);
}

/// Gets so many messages of a queue, and rejects them.
fn reject(world: &mut BrokerWorld, at: WorldConnection, queue: &str, messages: usize) {
    for _ in 0..messages {
        world.command(at, basic::Get { queue: short(queue), no_ack: false });
    }
    world.command(at, basic::Nack { delivery_tag: DeliveryTag(0), multiple: true, requeue: false });
    world.sent(at);
}

/// Three queues' letters: of `many` all go to `x` and `y`, of `few` to `one`.
fn declare_letters(world: &mut BrokerWorld, at: WorldConnection) {
    for queue in ["x", "y", "one"] {
        declare(world, at, queue, &[]);
    }
    for queue in ["x", "y"] {
        bind(world, at, "amq.fanout", "", queue, &[]);
    }
    declare(world, at, "many", &[("x-dead-letter-exchange", Value::text("amq.fanout"))]);
    let one = [("x-dead-letter-exchange", Value::text("")), ("x-dead-letter-routing-key", Value::text("one"))];
    declare(world, at, "few", &one);
}

#[test]
fn letters_for_several_queues_wait_while_memory_is_spent_and_others_do_not() {
    for is_paging in [false, true] {
        let mut world = BrokerWorld::new(1, LIMIT);
        if is_paging {
            world.switch_stores_on();
            world.switch_paging_on(1 << 20);
        }
        let at = world.connect(0, 1);
        declare_letters(&mut world, at);
        for (queue, body) in [("many", "1"), ("many", "2"), ("few", "3"), ("many", "4"), ("few", "5")] {
            world.publish(at, "", queue, body);
        }
        world.shards[0].0.hold_dead_letters(true);
        reject(&mut world, at, "many", 3);
        reject(&mut world, at, "few", 2);
        let lengths = |world: &mut BrokerWorld| ["x", "y", "one"].map(|queue| waiting(world, at, queue));
        let expected = if is_paging { ["3/0", "3/0", "2/0"] } else { ["0/0", "0/0", "2/0"] };
        assert_eq!(lengths(&mut world), expected, "paging: {is_paging}");
        assert!(!world.shards[0].0.has_deferred(), "what waits for memory keeps nobody busy");
        world.publish(at, "", "many", "6");
        reject(&mut world, at, "many", 1);
        world.shards[0].0.hold_dead_letters(false);
        assert_eq!(world.shards[0].0.has_deferred(), !is_paging, "paging: {is_paging}");
        while world.run_deferred() {}
        assert_eq!(lengths(&mut world), ["4/0", "4/0", "2/0"], "paging: {is_paging}");
        for (queue, bodies) in [("x", "1 2 4 6"), ("y", "1 2 4 6"), ("one", "3 5")] {
            let taken = bodies.split(' ').map(|_| get(&mut world, at, queue));
            let taken: Vec<String> =
                taken.map(|got| got.split(['=', ' ']).nth(1).expect("a body").to_owned()).collect();
            assert_eq!(taken.join(" "), bodies, "{queue}, paging: {is_paging}");
        }
    }
}

/// The letters of a queue follow those that wait, whose key went to several queues, also where their own goes to one.
#[test]
fn no_letter_overtakes_one_of_its_queue_that_waits_for_memory() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let at = world.connect(0, 1);
    for queue in ["x", "y"] {
        declare(&mut world, at, queue, &[]);
        bind(&mut world, at, "amq.topic", "both", queue, &[]);
    }
    bind(&mut world, at, "amq.topic", "x", "x", &[]);
    declare(&mut world, at, "q", &[("x-dead-letter-exchange", Value::text("amq.topic"))]);
    for key in ["both", "x"] {
        bind(&mut world, at, "amq.direct", key, "q", &[]);
    }
    for (key, body) in [("x", "1"), ("both", "2"), ("x", "3")] {
        world.publish(at, "amq.direct", key, body);
    }
    world.shards[0].0.hold_dead_letters(true);
    reject(&mut world, at, "q", 3);
    assert_eq!(["x", "y"].map(|queue| waiting(&mut world, at, queue)), ["1/0", "0/0"]);
    world.shards[0].0.hold_dead_letters(false);
    while world.run_deferred() {}
    let taken = ["x", "x", "x", "y"].map(|queue| get(&mut world, at, queue));
    assert_eq!(taken, ["got#4=1 (2 left)", "got#5=2 (1 left)", "got#6=3 (0 left)", "got#7=2 (0 left)"]);
}
