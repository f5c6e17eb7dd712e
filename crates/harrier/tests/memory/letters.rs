//! Dead letters under way: many messages that are refused at once, with letters for many queues.

use super::broker::LimitedBroker;
use super::bystander::Bystander;
use super::size::size;
use super::{PATIENCE, times};
use client::{Client, ClientChannel, ConsumeOptions, ExchangeOptions, Publish, QueueOptions, Table, Value};
use gauge::clock::Deadline;

/// The queue whose messages are refused, and the exchange of its dead letters.
const REFUSED: &str = "refused";
const LETTERS: &str = "letters";
/// Queues that get each letter. They share its message, and each has a reference to it.
const LETTER_QUEUES: usize = 100;

/// The same where these references alone would take several times the limit.
const VERY_MANY_LETTER_QUEUES: usize = 500;

/// Where the letters of a message go by a fanout.
fn letter_queue(number: usize) -> String {
    format!("{LETTERS}.{number}")
}

fn dies_by_letters(more: Table) -> QueueOptions {
    let arguments = more.with("x-dead-letter-exchange", Value::text(LETTERS)).expect("short");
    QueueOptions { arguments, ..QueueOptions::default() }
}

/// A client with a queue whose dead letters go to so many other queues.
fn client_with_letters(broker: &LimitedBroker, queues: usize, options: &QueueOptions) -> (Client, ClientChannel) {
    let mut client = Client::connect(&format!("amqp://{}/%2F", broker.address)).expect("connects");
    let channel = client.open_channel().expect("a channel");
    client.declare_exchange(channel, LETTERS, "fanout", &ExchangeOptions::default()).expect("an exchange");
    for queue in (0..queues).map(letter_queue) {
        client.declare_queue(channel, &queue, options).expect("a queue");
        client.bind_queue(channel, &queue, LETTERS, "", &Table::new()).expect("a binding");
    }
    client.declare_queue(channel, REFUSED, &dies_by_letters(Table::new())).expect("a queue");
    (client, channel)
}

/// Publishes messages, gets them and refuses all of them at once.
fn refuse_messages(client: &mut Client, channel: ClientChannel, messages: usize, body_bytes: usize) {
    client.confirm_select(channel).expect("confirms");
    for _ in 0..messages {
        client.publish(channel, &Publish::to("", REFUSED), &vec![7; body_bytes]).expect("published");
    }
    client.wait_confirms(channel, 0).expect("confirmed");
    client.consume(channel, REFUSED, &ConsumeOptions::default()).expect("consumes");
    let mut last = None;
    for _ in 0..messages {
        let delivery = client.next_delivery(PATIENCE).expect("a connection").expect("a delivery");
        last = Some(delivery.delivery_tag);
    }
    client.nack(channel, last.expect("there are some"), true, false).expect("refused");
    client.flush().expect("sent");
}

/// Takes the letters out of their queues until each has had as many as were refused. Those that wait for memory come when others
/// have left.
fn take_letters(bystander: &mut Bystander, queues: usize, messages: usize, attack: &str) {
    let mut left = vec![messages; queues];
    let deadline = Deadline::after(PATIENCE);
    while left.iter().any(|&left| left > 0) {
        assert!(!deadline.passed(), "{attack}: {} letters have not come", left.iter().sum::<usize>());
        for (number, left) in left.iter_mut().enumerate() {
            let purged = bystander.purge(&letter_queue(number));
            *left = left.checked_sub(purged).expect("no letter comes twice");
        }
    }
}

#[test]
fn letters_of_many_refused_messages_to_many_queues_keep_the_limit() {
    let attack = "dead letters of messages that are refused at once";
    let messages = times(20_000);
    let broker = LimitedBroker::start("letters", times(64));
    let mut bystander = Bystander::new(&broker);
    let (mut client, channel) = client_with_letters(&broker, LETTER_QUEUES, &QueueOptions::default());
    refuse_messages(&mut client, channel, messages, 1_000);
    take_letters(&mut bystander, LETTER_QUEUES, messages, attack);
    broker.has_kept_its_limit(attack);
    (0..LETTER_QUEUES).for_each(|number| bystander.delete(&letter_queue(number)));
    bystander.exchange(attack);
    broker.has_kept_its_limit(attack);
}

#[test]
fn letters_to_very_many_queues_wait_at_the_limit_and_arrive() {
    let attack = "dead letters to very many queues";
    let messages = times(8_000);
    let broker = LimitedBroker::start("very-many-letters", times(16));
    let mut bystander = Bystander::new(&broker);
    let (mut client, channel) = client_with_letters(&broker, VERY_MANY_LETTER_QUEUES, &QueueOptions::default());
    refuse_messages(&mut client, channel, messages, 100);
    broker.await_alarm();
    take_letters(&mut bystander, VERY_MANY_LETTER_QUEUES, messages, attack);
    broker.has_kept_its_limit(attack);
    bystander.exchange(attack);
}

/// Each letter dies at once and has letters for all other queues: one message of eleven queues makes a hundred million letters.
#[test]
fn letters_without_end_of_many_refused_messages_keep_the_limit() {
    let attack = "dead letters without end";
    let broker = LimitedBroker::start("letters-without-end", times(64));
    let mut bystander = Bystander::new(&broker);
    let at_once = Table::new().with("x-message-ttl", Value::I32(0)).expect("short");
    let (mut client, channel) = client_with_letters(&broker, 11, &dies_by_letters(at_once));
    refuse_messages(&mut client, channel, times(20_000), 1_000);
    (0..size(50, 500)).for_each(|_| bystander.exchange(attack));
    broker.has_kept_its_limit(attack);
}
