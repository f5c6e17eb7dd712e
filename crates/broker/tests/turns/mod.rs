//! The budget of work of a turn: whatever a client asks for at once is done in turns between which others are served, and in its
//! order. Nothing here looks at a clock: work is counted.

mod copied_definitions;
mod divided;
mod letters_without_end;
mod long_headers;
mod long_routes;
mod long_transactions;
mod lost_connections;
mod many_consumers;

use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, ack, consume, declare, prefetch, short};
use broker::limits::{QUEUE_REQUEST_WORK, REMOTE_WINDOW_MESSAGES, WORK_PER_TURN};
use divided::{no_turn_is_long, table, turns};
use wire::method::{basic, exchange, queue};
use wire::{ChannelNumber, Table, TableRef, Value};

/// A turn ends with the command that has spent its budget.
const WORK_MAX: u64 = WORK_PER_TURN as u64 * 5 / 4;

/// One shard, an attacker, and a bystander who consumes what he publishes to `by`.
fn world() -> (BrokerWorld, WorldConnection, WorldConnection) {
    let mut world = BrokerWorld::new(1, LIMIT);
    let (attacker, bystander) = (world.connect(0, 1), world.connect(0, 2));
    declare(&mut world, bystander, "by");
    consume(&mut world, bystander, "by", "b", true);
    world.sent(bystander);
    (world, attacker, bystander)
}

/// The bystander is served now, whatever is left undone.
fn is_served(world: &mut BrokerWorld, bystander: WorldConnection) {
    world.shards[0].0.start_turn();
    world.publish(bystander, "", "by", "x");
    let sent = world.sent(bystander);
    assert!(sent.starts_with("b#") && sent.ends_with("=x"), "{sent}");
}

fn census(world: &BrokerWorld, what: &str) -> usize {
    let census = world.shards[0].0.census();
    census.into_iter().find(|(name, _)| *name == what).map_or(0, |(_, count)| count)
}

fn queue_with(world: &mut BrokerWorld, at: WorldConnection, name: &str, arguments: &Table) {
    let bytes = arguments.to_bytes();
    let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, true);
    let (queue, arguments) = (short(name), TableRef::new(&bytes));
    world.command(at, queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments });
}

fn fanout(world: &mut BrokerWorld, at: WorldConnection, queues: &[String], arguments: &Table) {
    let (exchange, kind) = (short("f"), short("fanout"));
    let (passive, durable, auto_delete, internal, no_wait) = (false, false, false, false, true);
    let declare = exchange::Declare {
        exchange,
        kind,
        passive,
        durable,
        auto_delete,
        internal,
        no_wait,
        arguments: TableRef::EMPTY,
    };
    world.command(at, declare);
    for name in queues {
        queue_with(world, at, name, arguments);
        let (queue, routing_key) = (short(name), short(""));
        world.command(at, queue::Bind { queue, exchange, routing_key, no_wait, arguments: TableRef::EMPTY });
    }
    assert_eq!(world.sent(at), "", "no reply was asked for");
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("q{number}")).collect()
}

#[test]
fn one_message_that_becomes_many_dead_letters_holds_nobody() {
    const QUEUES: usize = 7;
    // Whatever a queue keeps no message for: it dies before it waits, or is removed as soon as it does.
    for keeps_nothing in ["x-message-ttl", "x-max-length", "x-max-length-bytes"] {
        let (mut world, attacker, bystander) = world();
        let dies = table(keeps_nothing, Value::I32(0)).with("x-dead-letter-exchange", Value::text("f"));
        fanout(&mut world, attacker, &names(QUEUES), &dies.expect("a short name"));
        world.runs_deferred = false;
        world.publish(attacker, "f", "", "seed");
        let (mut turns, mut most) = (0, 0);
        while world.run_deferred() {
            let broker = &world.shards[0].0;
            assert!(
                !broker.has_deferred() || !broker.may_read(attacker.1),
                "its dead letters go before its next publish"
            );
            is_served(&mut world, bystander);
            most = most.max(census(&world, "dead letters"));
            turns += 1;
        }
        no_turn_is_long(&world);
        let broker = &world.shards[0].0;
        // 7 + 7x6 + 7x6x5 + ... copies, each once a dead letter.
        let work = broker.counters().work;
        assert!(work > 13_699 && turns > 10, "{keeps_nothing}: {work} units in {turns} turns");
        assert!(most <= QUEUES * QUEUES * QUEUES, "{keeps_nothing}: {most} dead letters at once");
        assert!(broker.may_read(attacker.1) && census(&world, "deferred work") == 0);
    }
}

/// Definitions that are refused are work of the turn that asked for them, and not of the next one that asks the catalog anything.
#[test]
fn what_is_refused_is_paid_by_who_asked_for_it() {
    let (mut world, attacker, bystander) = world();
    declare(&mut world, attacker, "q");
    let others = table("x-other", Value::text(&"x".repeat(20_000))).with("x-max-length", Value::I32(5));
    let others = others.expect("a short name");
    let started = |world: &mut BrokerWorld| {
        world.shards[0].0.start_turn();
        world.shards[0].0.counters().work
    };
    let before = started(&mut world);
    (0..50).for_each(|_| queue_with(&mut world, attacker, "q", &others));
    assert!(world.sent(attacker).contains("refused PRECONDITION_FAILED"), "it is declared without arguments");
    let asked = started(&mut world);
    assert!(asked - before > 50 * 300, "{} units for what was refused", asked - before);
    world.publish(bystander, "amq.topic", "nowhere", "m");
    let work = started(&mut world) - asked;
    assert!(work < 100, "{work} units for a publish");
}

#[test]
fn requests_of_a_queue_end_the_turn() {
    let (mut world, attacker, _) = world();
    declare(&mut world, attacker, "q");
    let get = |world: &mut BrokerWorld, _| {
        let _flow = world.command_only(attacker, basic::Get { queue: short("q"), no_ack: true });
    };
    let come = |world: &mut BrokerWorld, number: usize| {
        let (queue, tag, arguments) = (short("q"), number.to_string(), TableRef::EMPTY);
        let (no_local, no_ack, exclusive, no_wait) = (false, true, false, true);
        let consumer_tag = short(&tag);
        let consume = basic::Consume { queue, consumer_tag, no_local, no_ack, exclusive, no_wait, arguments };
        let _flow = world.command_only(attacker, consume);
    };
    let go = |world: &mut BrokerWorld, number: usize| {
        let tag = number.to_string();
        let _flow = world.command_only(attacker, basic::Cancel { consumer_tag: short(&tag), no_wait: true });
    };
    let most = WORK_PER_TURN as usize / QUEUE_REQUEST_WORK;
    let in_one_turn = |world: &mut BrokerWorld, request: &dyn Fn(&mut BrokerWorld, usize)| {
        world.shards[0].0.start_turn();
        let is_over = (0..most).find(|&number| {
            request(world, number);
            world.shards[0].0.is_turn_over()
        });
        is_over.expect("a turn that ends")
    };
    let (gets, consumes) = (in_one_turn(&mut world, &get), in_one_turn(&mut world, &come));
    (consumes + 1..most).for_each(|number| come(&mut world, number));
    let cancels = in_one_turn(&mut world, &go);
    assert!(consumes < gets && cancels < gets, "{consumes} consumes and {cancels} cancels in a turn of {gets} gets");
}

#[test]
fn consumers_that_leave_together_leave_in_turns() {
    const CONSUMERS: usize = 20_000;
    for is_channel in [false, true] {
        let (mut world, attacker, bystander) = world();
        declare(&mut world, attacker, "q");
        for number in 0..CONSUMERS {
            consume(&mut world, attacker, "q", &number.to_string(), true);
        }
        world.runs_deferred = false;
        let (broker, recorder) = &mut world.shards[0];
        broker.start_turn();
        if is_channel {
            broker.close_channel(attacker.1, ChannelNumber(1), recorder);
            assert!(!broker.may_read(attacker.1), "they leave before its next command");
        } else {
            broker.close_session(attacker.1, recorder);
        }
        assert!(census(&world, "consumers") > 1, "some are left for later turns");
        // None of those that are left gets a delivery: their channel is closed.
        is_served(&mut world, bystander);
        world.publish(bystander, "", "q", "kept");
        let turns = turns(&mut world, bystander);
        assert!(turns >= 3, "{turns} turns");
        no_turn_is_long(&world);
        assert_eq!(census(&world, "consumers"), 1, "the bystander's");
        assert!(!is_channel || world.shards[0].0.may_read(attacker.1));
        world.command(bystander, basic::Get { queue: short("q"), no_ack: true });
        assert!(world.sent(bystander).contains("=kept (0 left)"));
    }
}

#[test]
fn acknowledgements_do_not_search_idle_consumers() {
    const CONSUMERS: usize = 2_000;
    let (mut world, attacker, _) = world();
    prefetch(&mut world, attacker, 1, false);
    declare(&mut world, attacker, "idle");
    for number in 0..CONSUMERS {
        consume(&mut world, attacker, "idle", &number.to_string(), false);
        world.publish(attacker, "", "idle", "unsettled");
    }
    prefetch(&mut world, attacker, 0, false);
    declare(&mut world, attacker, "q");
    consume(&mut world, attacker, "q", "c", false);
    let before = world.shards[0].0.counters().work;
    for number in 0..CONSUMERS as u64 {
        world.publish(attacker, "", "q", "m");
        ack(&mut world, attacker, CONSUMERS as u64 + 1 + number, false);
    }
    let each = (world.shards[0].0.counters().work - before) / CONSUMERS as u64;
    assert!(each <= 8, "{each} units for a publish and its acknowledgement");
    assert!(world.sent(attacker).ends_with(&format!("c#{}=m", 2 * CONSUMERS)));
}

#[test]
fn a_publish_to_very_many_queues_is_divided_and_nothing_overtakes_it() {
    const QUEUES: usize = 50_000;
    let (mut world, attacker, bystander) = world();
    let names = names(QUEUES);
    fanout(&mut world, attacker, &names, &Table::new());
    world.command(attacker, wire::method::confirm::Select { no_wait: true });
    world.runs_deferred = false;
    world.publish(attacker, "f", "", "1");
    assert!(!world.shards[0].0.may_read(attacker.1), "the rest of its queues come first");
    assert_eq!(world.sent(attacker), "", "it is not confirmed yet");
    is_served(&mut world, bystander);
    let mut turns = 0;
    while world.run_deferred() {
        is_served(&mut world, bystander);
        turns += 1;
    }
    assert!(turns >= 1, "{turns} turns");
    assert_eq!(world.sent(attacker), "ack 1");
    let (may_read, most) = (world.shards[0].0.may_read(attacker.1), world.shards[0].0.counters().work_per_turn_max);
    assert!(may_read && most <= WORK_MAX, "{most} units");
    assert!(world.shards[0].0.queues().filter(|queue| queue.name.starts_with('q')).all(|queue| queue.ready.len() == 1));
}

#[test]
fn many_publishes_to_many_queues_end_the_turn() {
    let (mut world, attacker, bystander) = world();
    let at_most_one = Table::new().with("x-max-length", Value::I32(1)).expect("a short name");
    fanout(&mut world, attacker, &names(5_000), &at_most_one);
    world.shards[0].0.start_turn();
    let mut publishes = 0;
    while !world.shards[0].0.is_turn_over() {
        let _flow = world.publish_only(attacker, "f", "", "m", &[0, 0], false);
        publishes += 1;
    }
    assert!(publishes < 10, "{publishes} publishes of 5,000 copies in one turn");
    is_served(&mut world, bystander);
    assert!(world.shards[0].0.counters().work_per_turn_max <= WORK_MAX);
}

#[test]
fn unsettled_deliveries_return_and_are_settled_in_turns() {
    const DELIVERIES: usize = 150_000;
    let (mut world, attacker, bystander) = world();
    declare(&mut world, attacker, "q");
    consume(&mut world, attacker, "q", "c", false);
    for _ in 0..DELIVERIES {
        world.publish(attacker, "", "q", "m");
    }
    world.sent(attacker);
    world.runs_deferred = false;
    for (count, turns_min) in [(DELIVERIES as u64 / 2, 2), (0, 2)] {
        // All up to one, then the rest with the connection's end.
        world.shards[0].0.start_turn();
        match count {
            0 => world.disconnect(attacker),
            count => {
                ack(&mut world, attacker, count, true);
                assert!(!world.shards[0].0.may_read(attacker.1), "the rest is settled first");
            }
        }
        let mut turns = 0;
        while world.run_deferred() {
            is_served(&mut world, bystander);
            turns += 1;
        }
        assert!(turns >= turns_min, "{turns} turns");
    }
    assert!(
        world.shards[0].0.counters().work_per_turn_max <= WORK_MAX,
        "{} units",
        world.shards[0].0.counters().work_per_turn_max
    );
    let waiting: Vec<_> = world.shards[0].0.queues().filter(|queue| &*queue.name == "q").collect();
    assert_eq!((waiting[0].ready.len(), waiting[0].unsettled), (DELIVERIES / 2, 0));
    // Dropping them is divided too.
    world.runs_deferred = true;
    world.command(bystander, queue::Purge { queue: short("q"), no_wait: false });
    assert_eq!(world.sent(bystander).rsplit(" | ").next(), Some(&*format!("purge-ok {}", DELIVERIES / 2)));
    assert!(world.shards[0].0.counters().work_per_turn_max <= WORK_MAX);
}

#[test]
fn a_queue_that_is_deleted_is_taken_apart_in_turns() {
    const CONSUMERS: usize = 12_000;
    let (mut world, attacker, bystander) = world();
    declare(&mut world, attacker, "q");
    for number in 0..CONSUMERS {
        consume(&mut world, attacker, "q", &number.to_string(), true);
    }
    world.sent(attacker);
    world.runs_deferred = false;
    world.shards[0].0.start_turn();
    world.command(bystander, queue::Delete { queue: short("q"), if_unused: false, if_empty: false, no_wait: false });
    assert_eq!(world.sent(bystander), "delete-ok 0");
    while world.run_deferred() {
        is_served(&mut world, bystander);
    }
    let cancelled = world.sent(attacker).split(" | ").filter(|text| text.starts_with("cancel ")).count();
    assert_eq!((cancelled, census(&world, "consumers")), (CONSUMERS, 1));
    assert!(
        world.shards[0].0.counters().work_per_turn_max <= WORK_MAX,
        "{} units",
        world.shards[0].0.counters().work_per_turn_max
    );
}

#[test]
fn consumers_of_a_channel_with_a_shared_prefetch_count_take_turns() {
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let (owner, consumer) = (world.connect(0, 1), world.connect(usize::from(shards) - 1, 2));
        prefetch(&mut world, consumer, 1, true);
        for name in ["a", "b", "c"] {
            declare(&mut world, owner, name);
            (0..30).for_each(|_| _ = world.publish(owner, "", name, name));
        }
        // Two of one queue, and one each of two others.
        for (name, tag) in [("a", "a1"), ("a", "a2"), ("b", "b1"), ("c", "c1")] {
            consume(&mut world, consumer, name, tag, false);
        }
        let mut counts = std::collections::BTreeMap::new();
        for tag in 1..=40 {
            let sent = world.sent(consumer);
            let mut deliveries = sent.split(" | ").filter_map(|text| text.split_once('#'));
            let (tag_served, _) = deliveries.next().expect("a delivery");
            assert!(deliveries.next().is_none(), "one at a time");
            *counts.entry(tag_served.to_owned()).or_insert(0) += 1;
            ack(&mut world, consumer, tag, false);
        }
        // The first subscribed before the others.
        assert!(counts.len() == 4 && counts.values().all(|count| (9..=11).contains(count)), "{shards}: {counts:?}");
    }
}

#[test]
fn queues_take_turns_for_the_output_of_a_connection() {
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let (owner, consumer) = (world.connect(0, 1), world.connect(usize::from(shards) - 1, 2));
        for name in ["a", "b", "c"] {
            declare(&mut world, owner, name);
            consume(&mut world, consumer, name, name, true);
        }
        world.sent(consumer);
        world.set_output_capacity(consumer, false);
        for name in ["a", "b", "c"] {
            (0..9).for_each(|_| _ = world.publish(owner, "", name, name));
        }
        // The output has capacity for one delivery at a time.
        let mut order = String::new();
        for _ in 0..9 {
            world.shards[consumer.0].1.capacity = Some(1);
            world.set_output_capacity(consumer, true);
            let sent = world.sent(consumer);
            order.push_str(sent.split('#').next().unwrap_or_default());
            world.set_output_capacity(consumer, false);
        }
        assert_eq!(order, "abcabcabc", "{shards} shards");
    }
}

#[test]
fn consumers_of_a_queue_with_a_prefetch_count_each_share_it_equally() {
    const ROUNDS: u64 = 20;
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let (owner, consumer) = (world.connect(0, 1), world.connect(usize::from(shards) - 1, 2));
        declare(&mut world, owner, "q");
        prefetch(&mut world, consumer, 1, false);
        for tag in ["a", "b"] {
            consume(&mut world, consumer, "q", tag, false);
        }
        world.sent(consumer);
        // Whoever has had the last message is free again before the next one comes, and behind the other all the same.
        let mut order = String::new();
        for tag in 1..=2 * ROUNDS {
            world.publish(owner, "", "q", "m");
            order.push_str(world.sent(consumer).split('#').next().unwrap_or_default());
            ack(&mut world, consumer, tag, false);
        }
        assert_eq!(order, "ab".repeat(ROUNDS as usize), "{shards} shards");
        // Of those that wait, each has the next when it has settled its last, and no more.
        (0..2 * ROUNDS).for_each(|_| _ = world.publish(owner, "", "q", "m"));
        let mut order = world.sent(consumer);
        for tag in 2 * ROUNDS + 1..=4 * ROUNDS - 2 {
            ack(&mut world, consumer, tag, false);
            order = format!("{order} | {}", world.sent(consumer));
        }
        let order: String = order.split(" | ").filter_map(|text| text.split('#').next()).collect();
        assert_eq!(order, "ab".repeat(ROUNDS as usize), "{shards} shards");
    }
}

#[test]
fn consumers_of_another_shard_whose_credit_ends_are_both_served() {
    const MESSAGES: usize = 3 * REMOTE_WINDOW_MESSAGES as usize;
    let mut world = BrokerWorld::new(2, LIMIT);
    let owner = world.connect(0, 1);
    declare(&mut world, owner, "q");
    let consumers = [2, 3].map(|slot| world.connect(1, slot));
    for at in consumers {
        consume(&mut world, at, "q", "c", true);
        world.sent(at);
        world.set_output_capacity(at, false);
    }
    (0..MESSAGES).for_each(|_| _ = world.publish(owner, "", "q", "m"));
    // What was sent ahead has used up the credit of both; the rest waits.
    let waiting = |world: &BrokerWorld| world.shards[0].0.queues().map(|queue| queue.ready.len()).sum::<usize>();
    assert_eq!(waiting(&world), MESSAGES - 2 * REMOTE_WINDOW_MESSAGES as usize);
    let mut counts = [0; 2];
    while waiting(&world) > 0 {
        let before = counts;
        for (at, count) in consumers.into_iter().zip(&mut counts) {
            world.set_room(at, Some(100));
            world.set_output_capacity(at, true);
            *count += world.sent(at).matches('#').count();
            world.set_output_capacity(at, false);
        }
        assert!(counts.iter().zip(before).all(|(count, before)| *count == before + 100), "{counts:?}");
    }
    for (at, count) in consumers.into_iter().zip(&mut counts) {
        world.set_room(at, None);
        world.set_output_capacity(at, true);
        *count += world.sent(at).matches('#').count();
    }
    assert_eq!(counts, [MESSAGES / 2; 2]);
}

#[test]
fn a_consumer_without_acknowledgements_waits_for_the_shared_prefetch_count() {
    for shards in [1, 2] {
        let mut world = BrokerWorld::new(shards, LIMIT);
        let (owner, consumer) = (world.connect(0, 1), world.connect(usize::from(shards) - 1, 2));
        declare(&mut world, owner, "q");
        declare(&mut world, owner, "n");
        prefetch(&mut world, consumer, 1, true);
        consume(&mut world, consumer, "q", "acks", false);
        consume(&mut world, consumer, "n", "none", true);
        world.publish(owner, "", "n", "1");
        world.publish(owner, "", "q", "2");
        world.publish(owner, "", "n", "3");
        let expected = "consume-ok acks | consume-ok none | none#1=1 | acks#2=2";
        assert_eq!(world.sent(consumer), expected, "as in RabbitMQ, {shards} shards");
        ack(&mut world, consumer, 2, false);
        assert_eq!(world.sent(consumer), "none#3=3", "{shards} shards");
    }
}
