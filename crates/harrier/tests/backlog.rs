//! A backlog that is larger than the memory of its broker, which nobody consumes at first: publishers are never blocked, the
//! broker stays within its limit, and all messages come in their order.
//!
//! `HARRIER_BACKLOG=full` makes it 10 GB in 512 MiB, `HARRIER_BIN` names another program.

#[path = "durability/broker.rs"]
#[expect(dead_code, reason = "shared with the tests of durability")]
mod broker;
#[path = "memory/resident_limit.rs"]
mod resident_limit;

use broker::{StoredBroker, TestStateFolder};
use client::{ConsumeOptions, Publish, QueueOptions};
use resident_limit::ResidentLimit;
use std::time::{Duration, Instant};
use wire::{Properties, RawProperties};

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

const QUEUE: &str = "backlog";
const BODY_BYTES: usize = 16 << 10;
/// Publishes without a confirm.
const UNCONFIRMED_MAX: u64 = 256;

/// How much waits, and what the broker may take.
#[derive(Clone, Copy)]
struct Size {
    messages: u64,
    limit_mib: u64,
}

fn size() -> Size {
    match std::env::var("HARRIER_BACKLOG").is_ok_and(|size| size == "full") {
        true => Size { messages: 10_000_000_000 / BODY_BYTES as u64, limit_mib: 512 },
        false => Size { messages: (256 << 20) / BODY_BYTES as u64, limit_mib: 64 },
    }
}

fn start(folder: &TestStateFolder, size: Size) -> (StoredBroker, ResidentLimit) {
    let options = ["--memory-limit", &format!("{}MiB", size.limit_mib), "--segment-bytes", "64MiB"];
    let broker = StoredBroker::start(folder, &options);
    let limit = ResidentLimit::at_rest(broker.pid(), size.limit_mib);
    (broker, limit)
}

fn body(number: u64) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    body.resize(BODY_BYTES, number as u8);
    body
}

#[expect(clippy::disallowed_methods, reason = "a rate is printed")]
fn now() -> Instant {
    Instant::now()
}

fn tell(what: &str, size: Size, since: Instant, broker: &StoredBroker) {
    let megabytes = (size.messages * BODY_BYTES as u64) as f64 / 1e6;
    let seconds = since.elapsed().as_secs_f64();
    println!("{what}: {:.0} MB/s, the peak of resident memory is {} KiB", megabytes / seconds, broker.peak_kib());
}

fn publish(broker: &StoredBroker, size: Size, is_persistent: bool) {
    let (mut client, channel) = broker.connect();
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    client.declare_queue(channel, QUEUE, &durable).expect("a queue");
    client.confirm_select(channel).expect("confirms");
    let delivery_mode = Some(if is_persistent { 2 } else { 1 });
    let properties = Properties { delivery_mode, ..Properties::default() }.to_bytes();
    let since = now();
    for number in 0..size.messages {
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", QUEUE) };
        client.publish(channel, &to, &body(number)).expect("published");
        client.wait_confirms(channel, UNCONFIRMED_MAX).expect("confirmed");
        assert_eq!(client.blocked(), None, "after {number} messages");
    }
    client.wait_confirms(channel, 0).expect("confirmed");
    assert_eq!(client.take_refused(channel).expect("a channel"), Vec::<u64>::new());
    assert_eq!(client.blocked(), None);
    tell("published", size, since, broker);
    client.close().expect("closed");
}

fn drain(broker: &StoredBroker, size: Size) {
    let (mut client, channel) = broker.connect();
    client.qos(channel, 500, false).expect("a prefetch");
    client.consume(channel, QUEUE, &ConsumeOptions::default()).expect("a consumer");
    let since = now();
    for number in 0..size.messages {
        let delivery = client.next_delivery(PATIENCE).expect("connected").expect("the next message");
        assert!(delivery.body() == body(number), "message {number} is the next one");
        let tag = delivery.delivery_tag;
        if number % 100 == 99 || number + 1 == size.messages {
            client.ack(channel, tag, true).expect("acknowledged");
        }
    }
    tell("drained", size, since, broker);
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    let left = client.declare_queue(channel, QUEUE, &durable).expect("a queue").messages;
    assert_eq!(left, 0);
    client.close().expect("closed");
}

#[test]
fn a_backlog_of_transient_messages_leaves_the_memory_and_comes_back_in_order() {
    let (size, folder) = (size(), TestStateFolder::new("transient-backlog"));
    let (broker, limit) = start(&folder, size);
    publish(&broker, size, false);
    drain(&broker, size);
    limit.check("a backlog");
    broker.terminate();
}

#[test]
fn a_backlog_of_persistent_messages_leaves_the_memory_and_comes_back_in_order() {
    let (size, folder) = (size(), TestStateFolder::new("persistent-backlog"));
    let (broker, limit) = start(&folder, size);
    publish(&broker, size, true);
    drain(&broker, size);
    limit.check("a backlog");
    broker.terminate();
}

#[test]
fn a_backlog_of_persistent_messages_is_there_after_a_kill() {
    let (size, folder) = (size(), TestStateFolder::new("killed-backlog"));
    let (broker, limit) = start(&folder, size);
    publish(&broker, size, true);
    limit.check("a backlog");
    broker.kill();
    let (broker, limit) = start(&folder, size);
    drain(&broker, size);
    limit.check("a backlog");
    broker.terminate();
}
