//! What shards count and tell of queues, channels, consumers and exchanges.

use crate::world::{BrokerWorld, WorldConnection};
use crate::{LIMIT, ack, consume, declare, prefetch, short};
use broker::{BrokerReport, ChannelStats, ConnectionSlot, ExchangeStats, QueueHold, QueueReport, ShardStats};
use queues::{DeadLetterReason, QueueStats};
use wire::method::{basic, confirm};
use wire::{DeliveryTag, Table, TableRef, Value};

/// Everything that a shard has to tell.
fn drain(world: &mut BrokerWorld, shard: usize) -> BrokerReport {
    let mut all = BrokerReport::default();
    loop {
        let broker = &mut world.shards[shard].0;
        broker.start_turn();
        let mut piece = broker.observer().report(3);
        assert!(piece.len() <= 3, "{} objects at once", piece.len());
        all.queues.changed.append(&mut piece.queues.changed);
        all.queues.gone.append(&mut piece.queues.gone);
        all.channels.changed.append(&mut piece.channels.changed);
        all.channels.gone.append(&mut piece.channels.gone);
        all.consumers.changed.append(&mut piece.consumers.changed);
        all.consumers.gone.append(&mut piece.consumers.gone);
        all.exchanges.changed.append(&mut piece.exchanges.changed);
        all.queues.begins_anew |= piece.queues.begins_anew;
        if !piece.more {
            return all;
        }
    }
}

fn queue_report(world: &mut BrokerWorld, name: &str) -> QueueReport {
    let catalog = world.shards[0].0.catalog();
    let id = catalog.queue(catalog.vhost_by_name("/").expect("the default"), name.as_bytes()).expect("declared");
    let mut reports = world.shards.iter_mut().filter_map(|(broker, _)| broker.observer().queue(id));
    reports.next().expect("it lives on one shard")
}

/// The counts of all shards.
/// The counts of each shard, once everything is reported.
fn all_stats(world: &mut BrokerWorld) -> Vec<ShardStats> {
    let stats = world.shards.iter_mut().map(|(broker, _)| {
        broker.observer().start();
        assert!(!broker.observer().report(usize::MAX).more);
        broker.observer().stats()
    });
    stats.collect()
}

fn channel_stats(world: &mut BrokerWorld) -> ChannelStats {
    all_stats(world).iter().fold(ChannelStats::default(), |mut sum, stats| {
        sum += stats.channels;
        sum
    })
}

fn select_confirms(world: &mut BrokerWorld, at: WorldConnection) {
    world.command(at, confirm::Select { no_wait: true });
}

fn get(world: &mut BrokerWorld, at: WorldConnection, name: &str, no_ack: bool) {
    world.command(at, basic::Get { queue: short(name), no_ack });
}

fn reject(world: &mut BrokerWorld, at: WorldConnection, tag: u64, requeue: bool) {
    world.command(at, basic::Reject { delivery_tag: DeliveryTag(tag), requeue });
}

#[test]
fn each_count_is_kept_once_wherever_queue_publisher_and_consumer_are() {
    for (home, publisher, consumer) in [(0, 0, 0), (0, 1, 2), (2, 0, 2), (1, 1, 0)] {
        let mut world = BrokerWorld::new(3, LIMIT);
        let owner = world.connect(home, 1);
        declare(&mut world, owner, "q");
        let publisher = world.connect(publisher, 2);
        select_confirms(&mut world, publisher);
        let reader = world.connect(consumer, 3);
        get(&mut world, reader, "q", false);
        for body in ["a", "bc", "def", "g"] {
            world.publish(publisher, "", "q", body);
        }
        world.publish_mandatory(publisher, "nowhere", "x");
        world.publish(publisher, "", "nowhere", "x");
        get(&mut world, reader, "q", true);
        get(&mut world, reader, "q", false);
        consume(&mut world, reader, "q", "c", false);
        let held = queue_report(&mut world, "q");
        assert_eq!((held.ready, held.unacknowledged, held.unacknowledged_bytes), (0, 3, 6), "{home}");
        reject(&mut world, reader, 3, true);
        reject(&mut world, reader, 4, false);
        ack(&mut world, reader, 2, false);
        let left = queue_report(&mut world, "q");
        assert_eq!((left.ready, left.unacknowledged, left.unacknowledged_bytes, left.consumers), (0, 1, 3, 1));
        let queue = QueueStats {
            publish: 4,
            deliver: 3,
            deliver_no_ack: 0,
            get: 1,
            get_no_ack: 1,
            get_empty: 1,
            redeliver: 1,
            ack: 1,
            returned_unseen: 0,
        };
        assert_eq!(left.stats, queue, "home {home}");
        let channels = ChannelStats {
            publish: 6,
            confirm: 6,
            return_unroutable: 1,
            drop_unroutable: 1,
            deliver: 3,
            deliver_no_ack: 0,
            get: 1,
            get_no_ack: 1,
            get_empty: 1,
            redeliver: 1,
            ack: 1,
        };
        assert_eq!(channel_stats(&mut world), channels, "home {home}");
        let all = all_stats(&mut world);
        let sum = |of: fn(&ShardStats) -> u64| all.iter().map(of).sum::<u64>();
        assert_eq!((sum(|all| all.exchanges.publish_in), sum(|all| all.exchanges.publish_out)), (6, 4));
        assert_eq!((sum(|all| all.publish_confirm), sum(|all| all.queues_declared)), (6, 1));
        assert_eq!((sum(|all| all.body_sizes.classes[0]), sum(|all| all.body_sizes.sum_bytes)), (6, 9));
        assert_eq!(sum(|all| all.dropped_dead.of(DeadLetterReason::Rejected)), 1);
        assert_eq!((sum(|all| all.connections_opened), sum(|all| all.channels_opened)), (3, 3));
        for at in [owner, publisher, reader] {
            world.disconnect(at);
        }
        let all = all_stats(&mut world);
        let sum = |of: fn(&ShardStats) -> u64| all.iter().map(of).sum::<u64>();
        assert_eq!((sum(|all| all.connections_closed), sum(|all| all.channels_closed)), (3, 3));
        assert_eq!(channel_stats(&mut world), channels, "what is closed still counts");
    }
}

#[test]
fn the_latency_of_a_sample_of_first_deliveries_is_kept_where_they_are_delivered() {
    for (home, consumer) in [(0, 0), (0, 1)] {
        let mut world = BrokerWorld::new(2, LIMIT);
        let owner = world.connect(home, 1);
        declare(&mut world, owner, "q");
        let publishes = 4 * broker::limits::DELIVERIES_PER_SAMPLE;
        (0..publishes).for_each(|_| _ = world.publish(owner, "", "q", "m"));
        world.advance(1);
        let reader = world.connect(consumer, 2);
        consume(&mut world, reader, "q", "c", true);
        let all = all_stats(&mut world);
        let samples = |shard: usize| all[shard].delivery_latency.classes.iter().sum::<u64>();
        assert!((2..=8).contains(&samples(consumer)), "{}", samples(consumer));
        assert_eq!(samples(1 - consumer), 0, "the client is elsewhere");
        let sum_us = all[consumer].delivery_latency.sum_us;
        assert!(sum_us >= 1_000 * samples(consumer), "{sum_us}");
    }
}

#[test]
fn what_a_channel_publishes_before_it_asks_for_confirms_is_not_counted_as_confirmed() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let at = world.connect(0, 1);
    declare(&mut world, at, "q");
    (0..3).for_each(|_| _ = world.publish(at, "", "q", "m"));
    select_confirms(&mut world, at);
    _ = world.publish(at, "amq.fanout", "", "m");
    let stats = all_stats(&mut world)[0];
    assert_eq!((stats.channels.publish, stats.publish_confirm), (4, 1));
    // Three to the default exchange, with a queue each, and one to another exchange that has none.
    assert_eq!(stats.exchanges, ExchangeStats { publish_in: 4, publish_out: 3 });
}

#[test]
fn a_message_that_returns_before_its_client_has_it_is_told_apart() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let owner = world.connect(0, 1);
    declare(&mut world, owner, "q");
    let reader = world.connect(1, 2);
    world.set_output_capacity(reader, false);
    consume(&mut world, reader, "q", "c", false);
    world.publish(owner, "", "q", "abc");
    let sent = queue_report(&mut world, "q");
    assert_eq!((sent.stats.deliver, sent.unacknowledged, sent.unacknowledged_bytes), (1, 1, 3));
    assert_eq!(channel_stats(&mut world).deliver, 0, "it is parked");
    world.disconnect(reader);
    let back = queue_report(&mut world, "q");
    assert_eq!((back.ready, back.ready_bytes, back.unacknowledged, back.unacknowledged_bytes), (1, 3, 0, 0));
    assert_eq!((back.stats.deliver, back.stats.returned_unseen, back.stats.redeliver), (1, 1, 0));
}

#[test]
fn deaths_are_counted_by_reason_with_dead_letters_and_without() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let at = world.connect(0, 1);
    declare(&mut world, at, "dead");
    let bounded = Table::new().with("x-max-length", Value::I32(1)).expect("short");
    let lettered = bounded
        .clone()
        .with("x-dead-letter-exchange", Value::text(""))
        .and_then(|table| table.with("x-dead-letter-routing-key", Value::text("dead")))
        .expect("short");
    for (name, arguments) in [("plain", bounded), ("lettered", lettered)] {
        let bytes = arguments.to_bytes();
        let (passive, durable, exclusive, auto_delete, no_wait) = (false, false, false, false, true);
        let (queue, arguments) = (short(name), TableRef::new(&bytes));
        let declare =
            wire::method::queue::Declare { queue, passive, durable, exclusive, auto_delete, no_wait, arguments };
        world.command(at, declare);
        (0..3).for_each(|_| _ = world.publish(at, "", name, "m"));
    }
    get(&mut world, at, "lettered", false);
    reject(&mut world, at, 1, false);
    let stats = world.shards[0].0.observer().stats();
    let counts = |of: queues::DeathStats| {
        use DeadLetterReason::{DeliveryLimit, Expired, MaxLength, Rejected};
        [MaxLength, Expired, Rejected, DeliveryLimit].map(|reason| of.of(reason))
    };
    assert_eq!((counts(stats.dead_lettered), counts(stats.dropped_dead)), ([2, 0, 1, 0], [2, 0, 0, 0]));
    assert_eq!(queue_report(&mut world, "dead").stats.publish, 3, "dead letters arrive like other messages");
}

#[test]
fn a_reader_is_told_everything_once_and_then_what_changes() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let at = world.connect(0, 1);
    for name in ["a", "b", "c", "d", "e"] {
        declare(&mut world, at, name);
    }
    assert!(drain(&mut world, 0).is_empty(), "nobody has asked");
    world.shards[0].0.observer().start();
    consume(&mut world, at, "b", "tag", false);
    let first = drain(&mut world, 0);
    let counts = (first.queues.changed.len(), first.channels.changed.len(), first.consumers.changed.len());
    // What changed since the reader came is in its list and in the table.
    assert!(first.queues.begins_anew && counts.0 >= 5 && counts.1 == 1 && counts.2 >= 1, "{counts:?}");
    assert!(drain(&mut world, 0).is_empty());
    world.publish(at, "", "a", "m");
    world.publish(at, "", "a", "m");
    let second = drain(&mut world, 0);
    let exchange = second.exchanges.changed.iter().map(|exchange| exchange.stats).collect::<Vec<_>>();
    assert_eq!(exchange, [ExchangeStats { publish_in: 2, publish_out: 2 }]);
    let [queue] = &second.queues.changed[..] else { panic!("one has changed: {:?}", second.queues) };
    assert_eq!((queue.ready, queue.ready_bytes, queue.stats.publish), (2, 2, 2));
    assert_eq!((second.channels.changed.len(), second.channels.changed[0].stats.publish), (1, 2));
    assert!(second.consumers.is_empty() && !second.queues.begins_anew);
    let (if_unused, if_empty, no_wait) = (false, false, true);
    world.command(at, wire::method::queue::Delete { queue: short("b"), if_unused, if_empty, no_wait });
    let third = drain(&mut world, 0);
    assert_eq!((third.queues.gone.len(), third.consumers.gone.len()), (1, 1));
    assert_eq!(third.consumers.gone[0], first.consumers.changed[0].id.key);
    world.disconnect(at);
    assert_eq!(drain(&mut world, 0).channels.gone.len(), 1);
    world.shards[0].0.observer().stop();
    let again = world.connect(0, 2);
    world.publish(again, "", "a", "m");
    assert!(drain(&mut world, 0).is_empty(), "nobody reads any more");
    world.shards[0].0.observer().start();
    assert_eq!(drain(&mut world, 0).queues.changed.len(), 4);
}

#[test]
fn a_piece_ends_with_the_budget_of_its_turn() {
    let mut world = BrokerWorld::new(1, LIMIT);
    let at = world.connect(0, 1);
    let queues = 40;
    (0..queues).for_each(|number| declare(&mut world, at, &format!("q{number}")));
    let broker = &mut world.shards[0].0;
    broker.observer().start();
    broker.start_turn();
    let whole = broker.observer().report(usize::MAX);
    assert!(whole.queues.changed.len() == queues && !whole.more && whole.bytes() > queues * size_of::<QueueReport>());
    broker.observer().start();
    let done = broker.counters().work;
    broker.start_turn();
    let piece = broker.observer().report(8);
    assert!(piece.more && piece.len() == 8 && broker.counters().work - done >= 8, "each object is work");
}

#[test]
fn a_queue_says_why_its_messages_wait() {
    let mut world = BrokerWorld::new(2, LIMIT);
    let at = world.connect(0, 1);
    declare(&mut world, at, "q");
    assert_eq!(queue_report(&mut world, "q").hold, None);
    world.publish(at, "", "q", "1");
    assert_eq!(queue_report(&mut world, "q").hold, Some(QueueHold::NoConsumers));
    prefetch(&mut world, at, 1, false);
    consume(&mut world, at, "q", "c", false);
    assert_eq!(queue_report(&mut world, "q").hold, None, "nothing waits");
    world.publish(at, "", "q", "2");
    assert_eq!(queue_report(&mut world, "q").hold, Some(QueueHold::AtPrefetch));
    world.set_output_capacity(at, false);
    ack(&mut world, at, 1, false);
    assert_eq!(queue_report(&mut world, "q").hold, Some(QueueHold::OutputFull));
    world.set_output_capacity(at, true);
    let remote = world.connect(1, 5);
    prefetch(&mut world, remote, 1, false);
    consume(&mut world, remote, "q", "r", false);
    world.publish(at, "", "q", "3");
    world.publish(at, "", "q", "4");
    let report = queue_report(&mut world, "q");
    assert!(matches!(report.hold, Some(QueueHold::AtPrefetch | QueueHold::RemoteWindow)), "{report:?}");
    world.command(at, basic::Cancel { consumer_tag: short("c"), no_wait: true });
    assert_eq!(queue_report(&mut world, "q").hold, Some(QueueHold::RemoteWindow));
    let session = world.shards[1].0.observer().session(ConnectionSlot::new(5)).expect("open");
    assert_eq!((session.channels, session.is_publisher, session.blocked_reason), (1, false, None));
}
