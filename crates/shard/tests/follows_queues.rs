//! Connections over TCP follow the queue that they use to the shard where it lives: nothing that a client sees changes.

#[expect(dead_code, reason = "others join brokers by links")]
mod brokers;

use brokers::{TestBroker, eventually, server_options};
use catalog::ShardId;
use client::{Client, ClientChannel, ConsumeOptions, Publish, QueueOptions};
use shard::{ConnectionReport, MoveOptions, MoveStats, Server, ServerOptions};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const MESSAGES: u64 = 10_000;

/// A broker of two shards that has as many connections as it may, with a queue on shard 0 and its publisher and consumer on shard 1.
struct Misplaced {
    broker: TestBroker,
    declarer: (Client, ClientChannel),
    publisher: (Client, ClientChannel),
    consumer: (Client, ClientChannel),
    _filler: (Client, ClientChannel),
}

fn enabled() -> MoveOptions {
    MoveOptions { is_enabled: true, ..MoveOptions::default() }
}

fn start(moves: MoveOptions, exclusive: bool) -> Misplaced {
    let options = ServerOptions { moves, connections_max: 4, ..server_options("followed", 2) };
    let server = Server::start(options).expect("a broker");
    let broker = TestBroker { server, name: "followed", over: None };
    let mut declarer = broker.client();
    let mut publisher = broker.client();
    let filler = broker.client();
    let mut consumer = broker.client();
    declarer.0.declare_queue(declarer.1, "q", &QueueOptions::default()).expect("declared");
    publisher.0.confirm_select(publisher.1).expect("confirms");
    consumer.0.qos(consumer.1, 500, false).expect("a prefetch count");
    if exclusive {
        let options = QueueOptions { exclusive: true, ..QueueOptions::default() };
        for (client, channel) in [&mut publisher, &mut consumer] {
            client.declare_queue(*channel, "", &options).expect("declared");
        }
    }
    Misplaced { broker, declarer, publisher, consumer, _filler: filler }
}

impl Misplaced {
    /// Everything that a reader is told who knows nothing.
    fn connections(&self) -> (Vec<ConnectionReport>, MoveStats, u64) {
        let admin = self.broker.server.admin();
        let (mut connections, mut moves, mut mail) = (Vec::new(), MoveStats::default(), 0);
        for shard in (0..admin.shards()).map(ShardId) {
            // A reader that has begun anew is told everything.
            let mut known = std::collections::BTreeMap::new();
            loop {
                let report = admin.report(shard).expect("it runs");
                known.extend(report.connections.changed.into_iter().map(|connection| (connection.id, connection)));
                report.connections.gone.iter().for_each(|id| _ = known.remove(id));
                if !report.more {
                    moves.moved += report.totals.moves.moved;
                    moves.given_up += report.totals.moves.given_up;
                    mail += report.totals.mail.messages;
                    break;
                }
            }
            connections.extend(known.into_values());
        }
        (connections, moves, mail)
    }

    /// Publishes numbered messages, and acknowledges them as they arrive in their order.
    fn pass(&mut self, numbers: std::ops::Range<u64>) {
        let (publisher, channel) = &mut self.publisher;
        let mut received = numbers.start;
        for number in numbers.clone() {
            let tag = publisher.publish(*channel, &Publish::to("", "q"), &number.to_be_bytes()).expect("published");
            assert_eq!(tag, number + 1, "confirms are numbered on");
            if number % 100 == 99 {
                publisher.wait_confirms(*channel, 50).expect("confirmed");
                receive(&mut self.consumer, received..number - 50);
                received = number - 50;
            }
        }
        publisher.wait_confirms(*channel, 0).expect("confirmed");
        receive(&mut self.consumer, received..numbers.end);
        assert_eq!(publisher.confirmed_up_to(*channel), numbers.end);
    }
}

/// Receives the messages up to a number, in their order.
fn receive((client, channel): &mut (Client, ClientChannel), numbers: std::ops::Range<u64>) {
    for expected in numbers {
        let delivery = client.next_delivery(PATIENCE).expect("a connection").expect("a message");
        assert_eq!((delivery.body(), delivery.redelivered), (&expected.to_be_bytes()[..], false));
        let tag = delivery.delivery_tag;
        assert_eq!(tag.0, expected + 1, "deliveries are numbered on");
        client.ack(*channel, tag, false).expect("acknowledged");
    }
}

fn on_shard(connections: &[ConnectionReport], shard: u16) -> usize {
    connections.iter().filter(|connection| connection.id.shard == ShardId(shard)).count()
}

#[test]
fn publisher_and_consumer_move_to_the_shard_of_their_queue_and_nothing_is_lost_or_overtaken() {
    let mut world = start(enabled(), false);
    let (before, moves, _) = world.connections();
    assert_eq!((on_shard(&before, 0), on_shard(&before, 1), moves), (2, 2, MoveStats::default()));
    let (client, channel) = &mut world.consumer;
    client.consume(*channel, "q", &ConsumeOptions::default()).expect("consumed");
    world.pass(0..MESSAGES);
    let (_, moves, _) = world.connections();
    assert_eq!(moves, MoveStats { moved: 2, given_up: 0 });
    // What passes now costs no mail.
    let (_, _, mail_before) = world.connections();
    world.pass(MESSAGES..2 * MESSAGES);
    let (_, _, mail) = world.connections();
    assert!(mail - mail_before < 100, "{} messages between shards", mail - mail_before);
    assert_eq!(world.broker.server.shared().connections(), 4, "as many as there may be");
    assert!(Client::connect(&world.broker.tcp()).is_err(), "no more than there may be");
    // The clients go on with everything else that they had.
    let (client, channel) = &mut world.consumer;
    let second = client.open_channel().expect("another channel");
    assert_eq!(client.get(second, "q", true).expect("an answer").map(|_| ()), None);
    client.close_channel(second).expect("closed");
    assert!(client.qos(*channel, 1, false).is_ok());
    let Misplaced { broker, declarer, publisher, consumer, _filler: filler } = world;
    for (client, _) in [declarer, publisher, consumer, filler] {
        client.close().expect("closed in order");
    }
    eventually("all have gone", || broker.server.shared().connections() == 0, String::new);
}

#[test]
fn who_has_exclusive_queues_stays() {
    let mut world = start(enabled(), true);
    let (client, channel) = &mut world.consumer;
    client.consume(*channel, "q", &ConsumeOptions::default()).expect("consumed");
    world.pass(0..MESSAGES);
    assert_eq!(world.connections().1, MoveStats::default());
}

#[test]
fn nobody_moves_where_that_is_off() {
    let mut world = start(MoveOptions::default(), false);
    let (client, channel) = &mut world.consumer;
    client.consume(*channel, "q", &ConsumeOptions::default()).expect("consumed");
    world.pass(0..MESSAGES);
    assert_eq!(world.connections().1, MoveStats::default());
}

#[test]
fn whoever_gets_a_message_moves_first_and_keeps_what_it_cannot_be_told_twice() {
    let mut world = start(enabled(), false);
    let (publisher, channel) = &mut world.declarer;
    for body in [b"a", b"b"] {
        publisher.publish(*channel, &Publish::to("", "q"), body).expect("published");
    }
    // An answered command: the messages are in the queue.
    publisher.declare_queue(*channel, "q", &QueueOptions::default()).expect("declared");
    let (client, channel) = &mut world.consumer;
    let first = client.get(*channel, "q", false).expect("an answer").expect("a message");
    assert_eq!((first.body(), first.delivery_tag.0), (&b"a"[..], 1));
    let second = client.get(*channel, "q", false).expect("an answer").expect("a message");
    assert_eq!((second.body(), second.delivery_tag.0), (&b"b"[..], 2));
    client.ack(*channel, second.delivery_tag, true).expect("acknowledged");
    assert!(client.get(*channel, "q", false).expect("an answer").is_none());
    assert_eq!(world.connections().1, MoveStats { moved: 1, given_up: 0 });
}
