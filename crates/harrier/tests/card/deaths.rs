//! `kill -9` in the middle of a rendezvous: of a publisher, of a consumer, of the broker.

use super::fixture::{
    CardBroker, LoggedProcess, MIB, PATIENCE, PINNED_SLACK_BYTES, body, connect, consume, fresh, get, next, now,
    number, try_connect,
};
use super::peers::{QUEUE, WINDOW};
use client::{Client, Publish};
use std::sync::mpsc::{Receiver, Sender, channel};

const MESSAGES: usize = 24;
const ROUNDS: usize = 3;
const CLIENTS: usize = 3;

#[test]
fn of_a_publisher_whose_body_is_being_read() {
    let Some(place) = fresh() else { return };
    let broker = CardBroker::start(&place, &[]);
    let (mut other, channel) = connect(&broker.direct(), QUEUE);
    // A publisher may get any distance before it is killed, so message memory is grown beyond that first.
    other.confirm_select(channel).expect("confirms");
    for number in 0..MESSAGES {
        other.publish(channel, &Publish::to("", QUEUE), &body(number, MIB)).expect("published");
    }
    other.wait_confirms(channel, 0).expect("confirmed");
    assert_eq!(other.purge_queue(channel, QUEUE).expect("purged") as usize, MESSAGES);
    let (mut pinned, mut most) = (Vec::new(), MESSAGES);
    for _ in 0..ROUNDS {
        let mut publisher = LoggedProcess::peer("publishes_without_end", &broker.direct());
        publisher.await_line("confirmed 4");
        publisher.kill();
        // The kernel closes its connection, and the log records the end.
        let why = broker.process.await_line("connection lost");
        println!("{why}");
        // Received bodies are whole and in order, and include all confirmed ones; a body that was being read is
        // missing.
        let got: Vec<_> =
            std::iter::from_fn(|| get(&mut other, channel, QUEUE)).map(|message| number(message.body())).collect();
        assert!(got.len() >= 4 && got.iter().copied().eq(0..got.len()), "{got:?}");
        most = most.max(got.len() + WINDOW as usize);
        pinned.push(broker.pinned_bytes());
    }
    println!("pinned after each death: {pinned:?}");
    let growth = (most - MESSAGES) * 2 * MIB;
    assert!(pinned[ROUNDS - 1] <= pinned[0] + growth + PINNED_SLACK_BYTES, "{pinned:?}, for {most} messages");
    other.close().expect("the others live");
    broker.end();
}

#[test]
fn of_a_consumer_that_is_reading() {
    let Some(place) = fresh() else { return };
    let broker = CardBroker::start(&place, &[]);
    let (mut other, channel) = connect(&broker.direct(), QUEUE);
    other.confirm_select(channel).expect("confirms");
    for number in 0..MESSAGES {
        other.publish(channel, &Publish::to("", QUEUE), &body(number, MIB)).expect("published");
    }
    other.wait_confirms(channel, 0).expect("confirmed");
    let mut pinned = Vec::new();
    for _ in 0..ROUNDS {
        let mut consumer = LoggedProcess::peer("consumes_without_end_and_acknowledges_nothing", &broker.direct());
        // The others are in flight.
        consumer.await_line("got one");
        consumer.kill();
        println!("{}", broker.process.await_line("connection lost"));
        pinned.push(broker.pinned_bytes());
    }
    println!("pinned after each death: {pinned:?}");
    assert!(pinned[ROUNDS - 1] <= pinned[0] + PINNED_SLACK_BYTES, "{pinned:?}");
    // All of it goes to another consumer, in order; the first was delivered before.
    consume(&mut other, channel, QUEUE, false);
    for at in 0..MESSAGES {
        let message = next(&mut other, "what a dead consumer had");
        assert_eq!(number(message.body()), at);
        assert!(at > 0 || message.redelivered, "nobody is told that it was delivered before");
        other.ack(channel, message.delivery_tag, false).expect("written");
    }
    other.close().expect("the others live");
    broker.end();
}

/// Publishes with confirms until the broker is gone; then, once there is another, until all of `MESSAGES` are
/// confirmed.
fn publish_on(url: &str, busy: &Sender<()>, back: &Receiver<()>) -> String {
    let (mut client, channel) = connect(url, QUEUE);
    client.confirm_select(channel).expect("confirms");
    let mut lost = None;
    for number in 0.. {
        let published = client
            .publish(channel, &Publish::to("", QUEUE), &body(number, MIB))
            .and_then(|_| client.wait_confirms(channel, WINDOW));
        match published {
            Ok(_) if number == 2 * WINDOW as usize => busy.send(()).expect("somebody waits for it"),
            Ok(_) => {}
            Err(error) => {
                lost = Some(error.to_string());
                break;
            }
        }
    }
    back.recv_timeout(PATIENCE).expect("a new broker");
    let (mut client, channel) = connect(url, QUEUE);
    client.confirm_select(channel).expect("confirms");
    for number in 0..MESSAGES {
        client.publish(channel, &Publish::to("", QUEUE), &body(number, MIB)).expect("published");
    }
    assert_eq!(client.wait_confirms(channel, 0).expect("confirmed"), 0);
    client.close().expect("an orderly end");
    lost.expect("it ended")
}

#[test]
fn of_the_broker_and_its_clients_go_on_with_the_next() {
    let Some(place) = fresh() else { return };
    // In this process no file limit applies to the queue.
    let limits = ["--memory-limit", "400MiB"];
    let mut broker = CardBroker::start(&place, &limits);
    let url = broker.direct();
    let (busy, are_busy) = channel();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let (url, busy, (again, back)) = (url.clone(), busy.clone(), channel());
        clients.push((again, std::thread::spawn(move || publish_on(&url, &busy, &back))));
    }
    let mut drain = drained(&url);
    for _ in 0..CLIENTS {
        while are_busy.try_recv().is_err() {
            next(&mut drain, "a message");
        }
    }
    broker.process.kill();
    let killed = now();
    let lost = std::iter::from_fn(|| drain.next_delivery(PATIENCE).err()).next();
    println!(
        "a consumer: {}, after {:?}",
        lost.map_or_else(|| "what was read".to_owned(), |error| error.to_string()),
        now() - killed
    );
    drop(drain);
    let broker = CardBroker::start(&place, &limits);
    clients.iter().for_each(|(again, _)| again.send(()).expect("it waits"));
    let mut drain = drained(&url);
    for _ in 0..CLIENTS * MESSAGES {
        number(next(&mut drain, "what was published anew").body());
    }
    for (_, client) in clients {
        println!("a publisher: {}", client.join().expect("it went on"));
    }
    drain.close().expect("an orderly end");
    broker.end();
}

/// A client that consumes everything.
fn drained(url: &str) -> Client {
    let mut client = try_connect(url).expect("a connection");
    let channel = client.open_channel().expect("a channel");
    client.declare_queue(channel, QUEUE, &client::QueueOptions::default()).expect("a queue");
    consume(&mut client, channel, QUEUE, true);
    client
}
