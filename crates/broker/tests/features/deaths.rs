//! The history of dead letters (`x-death`) has limits.

use super::{LIMIT, declare, delays::bind, get, short};
use crate::world::{BrokerWorld, WorldConnection};
use wire::method::basic;
use wire::{DeliveryTag, Table, Value};

/// The entries of `x-death` of the only message of a queue, each as its queue and reason, and the bytes of its properties.
fn deaths(world: &mut BrokerWorld, at: WorldConnection, queue: &str) -> Option<(Vec<String>, usize)> {
    world.shards[at.0].1.properties.clear();
    world.command(at, basic::Get { queue: short(queue), no_ack: true });
    world.sent(at);
    let properties = world.shards[at.0].1.properties.pop()?;
    let headers = wire::RawProperties::new(&properties).headers()?.to_table().expect("sound headers");
    let events = headers.get("x-death").and_then(Value::as_list).map(|events| {
        let word = |event: &Value, name: &str| {
            event.as_table().and_then(|event| event.get(name)).and_then(Value::as_str).unwrap_or("-").to_owned()
        };
        events.iter().map(|event| format!("{} {}", word(event, "queue"), word(event, "reason"))).collect()
    });
    Some((events.unwrap_or_default(), properties.len()))
}

/// Queues with long names, whose dead letters go from each to the next.
fn chain(
    world: &mut BrokerWorld,
    at: WorldConnection,
    queues: usize,
    arguments: &[(&'static str, Value)],
) -> Vec<String> {
    let names: Vec<String> = (0..=queues).map(|number| format!("{number:0>200}")).collect();
    declare(world, at, &names[queues], &[]);
    for pair in names.windows(2) {
        let letters =
            [("x-dead-letter-exchange", Value::text("")), ("x-dead-letter-routing-key", Value::text(&pair[1]))];
        declare(world, at, &pair[0], &[&letters, arguments].concat());
    }
    names
}

#[test]
fn a_message_that_dies_of_itself_in_very_many_queues_is_dropped_and_counted() {
    for (queues, arrives) in [(40, true), (400, false)] {
        let mut world = BrokerWorld::new(1, LIMIT);
        let owner = world.connect(0, 1);
        let names = chain(&mut world, owner, queues, &[("x-message-ttl", Value::I32(0))]);
        world.publish(owner, "", &names[0], "a");
        let found = deaths(&mut world, owner, &names[queues]);
        assert_eq!(found.map(|(events, _)| events.len()), arrives.then_some(queues), "{queues} queues");
        assert_eq!(world.shards[0].0.counters().dead_letters_dropped, u64::from(!arrives));
    }
}

#[test]
fn each_dead_letter_says_when_it_died() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let owner = world.connect(0, 1);
    let names = chain(&mut world, owner, 1, &[]);
    let mut times = Vec::new();
    for (tag, later_ms) in [(1, 1_000), (3, 500), (5, 5_500)] {
        world.publish(owner, "", &names[0], "a");
        world.command(owner, basic::Get { queue: short(&names[0]), no_ack: false });
        world.advance(later_ms);
        world.command(owner, basic::Reject { delivery_tag: DeliveryTag(tag), requeue: false });
        world.sent(owner);
        world.shards[0].1.properties.clear();
        world.command(owner, basic::Get { queue: short(&names[1]), no_ack: true });
        let properties = world.shards[0].1.properties.pop().expect("it has arrived");
        let headers = wire::RawProperties::new(&properties).headers().expect("a history").to_table().expect("sound");
        let events = headers.get("x-death").and_then(Value::as_list).expect("a list");
        let event = events.iter().next().and_then(Value::as_table).expect("an entry");
        let Some(Value::Timestamp(time)) = event.get("time") else { panic!("{event:?}") };
        times.push(*time);
    }
    assert_eq!((times[1] - times[0], times[2] - times[0]), (0, 6), "seconds: {times:?}");
}

#[test]
fn dead_letters_that_die_together_go_where_the_headers_of_each_say() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let owner = world.connect(0, 1);
    declare(&mut world, owner, "q", &[("x-dead-letter-exchange", Value::text("amq.headers"))]);
    for name in ["a", "b"] {
        declare(&mut world, owner, name, &[]);
        bind(&mut world, owner, "amq.headers", "", name, &[("h", Value::text(name))]);
    }
    for (body, header) in [("1", "a"), ("2", "b"), ("3", "b"), ("4", "a")] {
        let headers = Table::new().with("h", Value::text(header)).ok();
        world.publish_with(owner, "q", body, &wire::Properties { headers, ..wire::Properties::default() });
        world.command(owner, basic::Get { queue: short("q"), no_ack: false });
    }
    world.command(owner, basic::Nack { delivery_tag: DeliveryTag(4), multiple: true, requeue: false });
    world.sent(owner);
    for (name, bodies) in [("a", ["=1 (1 left)", "=4 (0 left)"]), ("b", ["=2 (1 left)", "=3 (0 left)"])] {
        for body in bodies {
            let got = get(&mut world, owner, name);
            assert!(got.ends_with(body), "{name}: {got}");
        }
    }
}

#[test]
fn the_history_of_a_message_that_consumers_reject_again_and_again_keeps_the_latest_deaths() {
    const QUEUES: usize = 300;
    let mut world = BrokerWorld::new(1, LIMIT);
    let owner = world.connect(0, 1);
    let names = chain(&mut world, owner, QUEUES, &[]);
    world.publish(owner, "", &names[0], "a");
    for (tag, name) in (1..).zip(&names[..QUEUES]) {
        world.command(owner, basic::Get { queue: short(name), no_ack: false });
        world.command(owner, basic::Reject { delivery_tag: DeliveryTag(tag), requeue: false });
    }
    let (events, bytes) = deaths(&mut world, owner, &names[QUEUES]).expect("it has arrived");
    assert!(bytes < queues::limits::DEATH_HISTORY_BYTES_MAX + 2_000, "{bytes} bytes of properties");
    assert!(events.len() > 50 && events.len() < QUEUES, "{} entries", events.len());
    for (event, name) in events.iter().zip(names[..QUEUES].iter().rev()) {
        assert_eq!(*event, format!("{name} rejected"));
    }
}

#[test]
fn the_properties_of_dead_letters_fit_a_frame() {
    const FRAME_BYTES: usize = 4_096;
    for (filler_bytes, rejected, expect) in [
        // There is room for the history of both deaths, of one, of none.
        (2_000, true, Some(2)),
        (2_700, true, Some(1)),
        (3_780, true, Some(0)),
        (2_000, false, Some(2)),
        (3_100, false, None),
    ] {
        let mut world = BrokerWorld::new(1, LIMIT);
        world.shards[0].0.set_properties_bytes_max(FRAME_BYTES);
        let owner = world.connect(0, 1);
        let ttl = [("x-message-ttl", Value::I32(0))];
        let names = chain(&mut world, owner, 2, if rejected { &[] } else { &ttl });
        let headers = Table::new().with("filler", Value::text(&"x".repeat(filler_bytes))).ok();
        world.publish_with(owner, &names[0], "a", &wire::Properties { headers, ..wire::Properties::default() });
        for (tag, name) in (1..).zip(&names[..2]).filter(|_| rejected) {
            world.command(owner, basic::Get { queue: short(name), no_ack: false });
            world.command(owner, basic::Reject { delivery_tag: DeliveryTag(tag), requeue: false });
        }
        let found = deaths(&mut world, owner, &names[2]);
        assert_eq!(
            found.as_ref().map(|(events, _)| events.len()),
            expect,
            "{filler_bytes} bytes, rejected: {rejected}"
        );
        assert!(found.is_none_or(|(_, bytes)| bytes <= FRAME_BYTES));
    }
}

#[test]
fn what_expires_waits_a_moment_for_slow_consumers_of_its_dead_letters() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let (publisher, consumer) = (world.connect(0, 1), world.connect(0, 2));
    declare(&mut world, publisher, "dead", &[]);
    declare(&mut world, publisher, "q", &super::to_dead(&[("x-message-ttl", Value::I32(5))]));
    crate::consume(&mut world, consumer, "dead", "c", true);
    world.set_output_capacity(consumer, false);
    let body = "x".repeat(1 << 20);
    for _ in 0..6 {
        world.publish(publisher, "", "q", &body);
    }
    world.advance(2);
    world.publish(publisher, "", "q", "last");
    // Six mebibytes of dead letters wait for the consumer's link when the last message expires.
    world.advance(5);
    let next_us = 7_000 + broker::limits::DEAD_LETTER_THROTTLE_US;
    let waiting = |world: &BrokerWorld| world.shards[0].0.queues().map(|queue| queue.ready.len()).collect::<Vec<_>>();
    assert_eq!((world.shards[0].0.next_timer(), waiting(&world)), (Some(next_us), vec![6, 1]));
    world.advance(1);
    assert_eq!((world.shards[0].0.next_timer(), waiting(&world)), (None, vec![7, 0]));
}

/// Who publishes to a queue faster than what expires in it can be removed is throttled: it does not grow while the consumers of
/// its dead letters read.
#[test]
fn publishers_wait_for_slow_consumers_of_their_dead_letters() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let (publisher, consumer) = (world.connect(0, 1), world.connect(0, 2));
    declare(&mut world, publisher, "dead", &[]);
    declare(&mut world, publisher, "q", &super::to_dead(&[("x-message-ttl", Value::I32(1))]));
    crate::consume(&mut world, consumer, "dead", "c", true);
    world.set_output_capacity(consumer, false);
    let body = "x".repeat(1 << 20);
    let waiting = |world: &BrokerWorld| world.shards[0].0.queues().map(|queue| queue.ready.len()).collect::<Vec<_>>();
    let publish = |world: &mut BrokerWorld| (0..20).take_while(|_| world.publish(publisher, "", "q", &body)).count();
    assert_eq!(publish(&mut world), 20, "nothing has expired, so that nobody is waited for");
    world.advance(2);
    assert_eq!(waiting(&world), [20, 0], "what had expired before anybody was slow");
    assert_eq!(publish(&mut world), 20, "these wait for their own time");
    world.advance(2);
    world.publish(publisher, "", "q", "and one that finds their letters waiting");
    world.advance(1);
    assert_eq!(waiting(&world)[1], 1);
    assert!(publish(&mut world) <= 5, "as many as a queue takes before it throttles");
    assert!(!world.shards[0].0.may_read(publisher.1));
    // The consumer reads: the letters leave, what has expired follows, and the publisher continues.
    world.set_output_capacity(consumer, true);
    world.advance(2);
    assert_eq!(waiting(&world), [0, 0]);
    assert!(world.shards[0].0.may_read(publisher.1));
}
