//! A broker with a store: what it confirmed is there when it is started again.

#[expect(dead_code, reason = "others join brokers")]
mod brokers;

use brokers::server_options;
use catalog::{Definition, Name, ShardId, VhostId};
use client::{Client, ClientChannel, ConsumeOptions, Publish, QueueOptions, ReceivedMessage};
use durability::{StoreOptions, StoreSync};
use shard::{Server, ServerOptions};
use std::path::Path;
use wire::{Properties, RawProperties, Table};

const QUEUES: [&str; 2] = ["a", "b"];
const SHARDS: u16 = 2;

fn queue(number: u16) -> Definition {
    Definition::DeclareQueue {
        vhost: VhostId(0),
        name: Name::from(QUEUES[usize::from(number)]),
        server_named: false,
        durable: true,
        exclusive: None,
        auto_delete: false,
        arguments: Table::new(),
        home: ShardId(number),
    }
}

/// A broker with a durable queue on each shard, and its store in a folder.
fn options(folder: &Path, store: impl FnOnce(StoreOptions) -> StoreOptions) -> ServerOptions {
    let mut options = server_options("stored", SHARDS);
    options.definitions.extend([queue(0), queue(1)]);
    let [definitions_folder, log_folder, spill_folder] = ["definitions", "log", "spill"].map(|name| folder.join(name));
    for folder in [&definitions_folder, &log_folder, &spill_folder] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    let store = store(StoreOptions {
        definitions_folder,
        log_folder,
        spill_folder,
        id: 7,
        logs: SHARDS,
        segment_bytes: 4 << 20,
        sync: StoreSync::Always,
        group_delay_us: 0,
        disk_free_limit: 0,
        scrub: None,
        loses_damaged: false,
        definitions: options.definitions.clone(),
    });
    options.store = Some(store);
    options
}

fn start(folder: &Path) -> Server {
    Server::start(options(folder, |store| store)).expect("a broker")
}

fn stop(server: Server) {
    server.stop();
    server.join().expect("a clean end");
}

fn connect(server: &Server) -> (Client, ClientChannel) {
    let mut client = Client::connect(&format!("amqp://guest:guest@{}/%2F", server.addresses()[0])).expect("a client");
    let channel = client.open_channel().expect("a channel");
    client.confirm_select(channel).expect("confirms");
    (client, channel)
}

fn publish(client: &mut Client, channel: ClientChannel, queue: &str, delivery_mode: u8, body: &[u8]) {
    let properties = Properties { delivery_mode: Some(delivery_mode), ..Properties::default() }.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", queue) };
    client.publish(channel, &to, body).expect("published");
}

/// A body by which a message is known, of very different sizes.
fn body(number: usize) -> Vec<u8> {
    let bytes = if number.is_multiple_of(50) { 700_000 } else { 8 + number * 7 };
    let mut body = vec![number as u8; bytes];
    body[..8].copy_from_slice(&(number as u64).to_le_bytes());
    body
}

fn get(client: &mut Client, channel: ClientChannel, queue: &str) -> Option<ReceivedMessage> {
    client.get(channel, queue, false).expect("an answer")
}

#[test]
fn what_was_confirmed_is_there_once_and_in_order_after_a_restart() {
    const MESSAGES: usize = 120;
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path());
    let (mut client, channel) = connect(&server);
    for number in 0..MESSAGES {
        for queue in QUEUES {
            publish(&mut client, channel, queue, 2, &body(number));
            publish(&mut client, channel, queue, 1, b"transient");
        }
    }
    assert_eq!(client.wait_confirms(channel, 0).expect("confirmed"), 0, "nothing is refused");
    for queue in QUEUES {
        // Acknowledged: the first three messages and the transient ones behind them. Handed out: one more.
        let channel = client.open_channel().expect("a channel");
        let taken: Vec<_> = (0..7).map(|_| get(&mut client, channel, queue).expect("a message")).collect();
        client.ack(channel, taken[5].delivery_tag, true).expect("acknowledged");
    }
    client.close().expect("closed");
    stop(server);

    for life in 0..2 {
        let server = start(folder.path());
        let (mut client, channel) = connect(&server);
        for queue in QUEUES {
            for number in 3..MESSAGES {
                let message = get(&mut client, channel, queue).expect("a message");
                assert!(message.body() == body(number), "message {number} of {queue}");
                let was_delivered = number == 3 || life > 0;
                assert_eq!(message.redelivered, was_delivered, "message {number} of {queue} in life {life}");
            }
            assert!(get(&mut client, channel, queue).is_none(), "no more, and nothing transient");
        }
        drop(client);
        stop(server);
    }
}

#[test]
fn what_is_more_than_may_wait_in_memory_is_there_in_order_after_a_restart() {
    const MESSAGES: usize = 600;
    let folder = tempfile::tempdir().expect("a folder");
    let start = || {
        let mut options = options(folder.path(), |store| store);
        // Half of it may wait, on two shards.
        options.memory_bytes_max = 32 << 20;
        Server::start(options).expect("a broker")
    };
    let body = |number: usize| [&number.to_le_bytes()[..], &[number as u8; 40_000]].concat();
    let server = start();
    let (mut client, channel) = connect(&server);
    for number in 0..MESSAGES {
        publish(&mut client, channel, "a", 2, &body(number));
    }
    assert_eq!(client.wait_confirms(channel, 0).expect("confirmed"), 0, "nothing is refused");
    client.close().expect("closed");
    stop(server);
    let files = std::fs::read_dir(folder.path().join("log")).expect("a folder");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("UTF-8"));
    assert!(names.filter(|name| name.ends_with(".foot")).count() > 3, "complete segments have footers");
    for numbers in [0..200, 200..MESSAGES] {
        let is_last = numbers.end == MESSAGES;
        let server = start();
        let (mut client, channel) = connect(&server);
        for number in numbers {
            let message = get(&mut client, channel, "a").expect("a message");
            assert!(message.body() == body(number), "message {number}");
            client.ack(channel, message.delivery_tag, false).expect("acknowledged");
        }
        assert_eq!(get(&mut client, channel, "a").is_none(), is_last);
        client.close().expect("closed");
        stop(server);
    }
}

#[test]
fn a_queue_that_was_emptied_stays_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    for life in 0..3 {
        let server = start(folder.path());
        let (mut client, channel) = connect(&server);
        for queue in QUEUES {
            assert!(get(&mut client, channel, queue).is_none(), "life {life}");
            (0..10).for_each(|number| publish(&mut client, channel, queue, 2, &body(number)));
        }
        client.wait_confirms(channel, 0).expect("confirmed");
        assert_eq!(client.purge_queue(channel, "a").expect("purged"), 10);
        for _ in 0..10 {
            client.get(channel, "b", true).expect("an answer").expect("a message");
        }
        client.close().expect("closed");
        stop(server);
    }
}

#[test]
fn after_a_clean_stop_even_the_last_group_is_known_to_have_been_durable() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path());
    let (mut client, channel) = connect(&server);
    publish(&mut client, channel, "a", 2, b"the only one");
    client.wait_confirms(channel, 0).expect("confirmed");
    client.close().expect("closed");
    stop(server);
    let segment = folder.path().join("log/00-00000001.seg");
    let mut bytes = std::fs::read(&segment).expect("a segment");
    bytes[4096 + 70] ^= 1;
    std::fs::write(&segment, bytes).expect("written");
    let error = Server::start(options(folder.path(), |store| store)).err().expect("it is damaged").to_string();
    assert!(error.contains("segment 1 of log 0 is damaged at block 1"), "{error}");
}

#[test]
fn what_nobody_waited_for_is_written_before_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path());
    let (mut client, channel) = connect(&server);
    let options = QueueOptions { durable: true, auto_delete: true, ..QueueOptions::default() };
    client.declare_queue(channel, "gone", &options).expect("a queue");
    client.declare_queue(channel, "kept", &QueueOptions { durable: true, ..QueueOptions::default() }).expect("a queue");
    let tag = client.consume(channel, "gone", &ConsumeOptions::default()).expect("a consumer");
    let without_confirms = client.open_channel().expect("a channel");
    (0..10).for_each(|number| publish(&mut client, without_confirms, "kept", 2, &body(number)));
    // Its last consumer takes the queue along.
    client.cancel(channel, &tag).expect("cancelled");
    client.close().expect("closed");
    stop(server);

    let server = start(folder.path());
    let (mut client, channel) = connect(&server);
    for number in 0..10 {
        assert!(get(&mut client, channel, "kept").expect("a message").body() == body(number));
    }
    let passive = QueueOptions { passive: true, ..QueueOptions::default() };
    let error = client.declare_queue(channel, "gone", &passive).expect_err("it is gone").to_string();
    assert!(error.contains("404") || error.contains("NOT_FOUND"), "{error}");
    drop(client);
    stop(server);
}

#[test]
fn a_broker_does_not_start_on_a_damaged_log_unless_it_may_lose_what_is_damaged() {
    const MESSAGES: usize = 40;
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path());
    let (mut client, channel) = connect(&server);
    for number in 1..MESSAGES {
        publish(&mut client, channel, "a", 2, &body(number));
        client.wait_confirms(channel, 0).expect("confirmed");
    }
    client.close().expect("closed");
    stop(server);
    // A byte of the second group.
    let segment = folder.path().join("log/00-00000001.seg");
    let mut bytes = std::fs::read(&segment).expect("a segment");
    bytes[2 * 4096 + 100] ^= 1;
    std::fs::write(&segment, bytes).expect("written");

    let error = Server::start(options(folder.path(), |store| store)).err().expect("it is damaged").to_string();
    let expect = "segment 1 of log 0 is damaged at block 2: frames";
    assert!(error.contains(expect) && error.contains("--store-lose-damaged"), "{error}");

    let server = Server::start(options(folder.path(), |store| StoreOptions { loses_damaged: true, ..store }));
    let server = server.expect("a broker");
    let (mut client, channel) = connect(&server);
    let mut found: Vec<u64> = Vec::new();
    while let Some(message) = get(&mut client, channel, "a") {
        found.push(u64::from_le_bytes(message.body()[..8].try_into().expect("eight bytes")));
    }
    assert!(found.is_sorted() && found.len() < MESSAGES - 1 && found.len() > MESSAGES / 2, "{found:?}");
    drop(client);
    stop(server);
}
