//! Unconfirmed definitions by the thousand from both shards: later commands see them.

use super::BrokerProcess;
use client::{Client, ExchangeOptions, Publish, QueueOptions, Table};

/// More than one run, and more than one read, holds.
const BINDINGS: usize = 6_000;

#[test]
fn what_follows_a_run_of_definitions_finds_them_made() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2"]);
    let connect = || Client::connect(&format!("amqp://{}", broker.address)).expect("it listens");
    let (mut clients, keys) = ([connect(), connect()], |index: usize| format!("key.{index}"));
    for (which, client) in clients.iter_mut().enumerate() {
        let channel = client.open_channel().expect("a channel");
        let (queue, exchange) = (format!("q{which}"), format!("x{which}"));
        client.declare_exchange(channel, &exchange, "direct", &ExchangeOptions::default()).expect("an exchange");
        client.declare_queue(channel, &queue, &QueueOptions::default()).expect("a queue");
        for index in 0..BINDINGS {
            client.bind_queue_unanswered(channel, &queue, &exchange, &keys(index), &Table::new()).expect("written");
            if index % 2_000 == 1_999 {
                client.publish(channel, &Publish::to(&exchange, &keys(index)), b"behind them").expect("written");
            }
        }
        for _ in 0..3 {
            let got = client.get(channel, &queue, true).expect("an answer").expect("it was routed by the last of them");
            assert_eq!(got.body(), b"behind them");
        }
    }
    // Each shard routes by the bindings of the other's client.
    for (which, client) in clients.iter_mut().enumerate() {
        let channel = client.open_channel().expect("a channel");
        let (queue, exchange) = (format!("q{}", 1 - which), format!("x{}", 1 - which));
        client.publish(channel, &Publish::to(&exchange, &keys(BINDINGS - 1)), b"from afar").expect("written");
        let got = client.get(channel, &queue, true).expect("an answer").expect("it was routed");
        assert_eq!(got.body(), b"from afar");
    }
    // A refused one closes its channel, naming it, whatever follows.
    let [client, _] = &mut clients;
    let channel = client.open_channel().expect("a channel");
    for exchange in ["x0", "nowhere", "x0"] {
        client.bind_queue_unanswered(channel, "q0", exchange, "late", &Table::new()).expect("written");
    }
    let error = client.get(channel, "q0", true).expect_err("the channel is closed");
    assert!(error.to_string().contains("404 NOT_FOUND - no exchange 'nowhere' in vhost '/'"), "{error}");
}

#[test]
fn queues_that_nobody_waited_for_are_there_when_a_later_command_is_answered() {
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--shards", "2", "--state", "none"]);
    let mut client = Client::connect(&format!("amqp://{}", broker.address)).expect("it listens");
    let channel = client.open_channel().expect("a channel");
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    for index in 0..3_000 {
        client.declare_queue_unanswered(channel, &format!("q{index}"), &durable).expect("written");
    }
    client.declare_queue(channel, "last", &durable).expect("an answer");
    for index in [0, 1_500, 2_999] {
        let passive = QueueOptions { passive: true, ..QueueOptions::default() };
        let found = client.declare_queue(channel, &format!("q{index}"), &passive).expect("it is there");
        assert_eq!(found.messages, 0);
    }
    // A refused one closes the channel, naming it.
    client.declare_queue_unanswered(channel, "q0", &QueueOptions::default()).expect("written");
    let error = client.declare_queue(channel, "another", &durable).expect_err("the channel is closed");
    assert!(error.to_string().contains("406 PRECONDITION_FAILED"), "{error}");
}
