//! Folders of other versions: what an older one has written is read, what a newer one has written is refused.

use super::broker::{StoredBroker, TestStateFolder};
use client::{Client, ClientChannel, ExchangeOptions, Publish, QueueOptions};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::Command;
use wire::{Properties, RawProperties, Table, Value};

/// A state folder as the format's first version left it; `HARRIER_WRITE_FIXTURE` names the file in which [`fill`] leaves one
/// of this version.
const FORMAT_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/durability/format-1.tar.gz");

/// Messages of the queue `orders`, of which some are acknowledged and some were delivered.
const MESSAGES: u8 = 20;
const ACKNOWLEDGED: u8 = 5;
const DELIVERED: u8 = 8;
/// Bytes of a body that has frames for itself.
const LARGE_BYTES: usize = 200_000;

pub fn connect(broker: &StoredBroker) -> (Client, ClientChannel) {
    let (mut client, channel) = broker.connect();
    client.confirm_select(channel).expect("confirms");
    (client, channel)
}

fn publish(client: &mut Client, channel: ClientChannel, exchange: &str, key: &str, priority: Option<u8>, body: &[u8]) {
    let properties = Properties { delivery_mode: Some(2), priority, ..Properties::default() }.to_bytes();
    let to = Publish { properties: RawProperties::new(&properties), ..Publish::to(exchange, key) };
    client.publish(channel, &to, body).expect("published");
    client.wait_confirms(channel, 0).expect("confirmed");
}

/// Writes everything that a folder can have: each kind of record.
fn fill(folder: &TestStateFolder) {
    let broker = StoredBroker::start(folder, &[]);
    let (mut client, channel) = connect(&broker);
    let durable = ExchangeOptions { durable: true, ..ExchangeOptions::default() };
    client.declare_exchange(channel, "trades", "topic", &durable).expect("an exchange");
    let ranked = Table::new().with("x-max-priority", Value::I32(5)).expect("a short name");
    for (name, arguments) in [("orders", Table::new()), ("ranked", ranked)] {
        let options = QueueOptions { durable: true, arguments, ..QueueOptions::default() };
        client.declare_queue(channel, name, &options).expect("a queue");
        client.bind_queue(channel, name, "trades", &format!("{name}.#"), &Table::new()).expect("a binding");
        client.bind_queue(channel, name, "trades", "all", &Table::new()).expect("a binding");
    }
    (0..MESSAGES).for_each(|number| publish(&mut client, channel, "trades", "orders.new", None, &[number]));
    publish(&mut client, channel, "trades", "all", None, &[7; LARGE_BYTES]);
    publish(&mut client, channel, "trades", "ranked.high", Some(4), b"high");
    for number in 0..DELIVERED {
        let message = client.get(channel, "orders", false).expect("an answer").expect("a message");
        if number < ACKNOWLEDGED {
            client.ack(channel, message.delivery_tag, false).expect("acknowledged");
        }
    }
    let committer = client.open_channel().expect("a channel");
    client.tx_select(committer).expect("transactions");
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    for body in [b"a", b"b"] {
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", "ranked") };
        client.publish(committer, &to, body).expect("published");
    }
    client.tx_commit(committer).expect("committed");
    client.close().expect("closed");
    broker.terminate();
}

/// Compares what a folder has with what [`fill`] has written.
fn check(folder: &TestStateFolder) {
    let broker = StoredBroker::start(folder, &[]);
    let (mut client, channel) = connect(&broker);
    let passive = ExchangeOptions { passive: true, ..ExchangeOptions::default() };
    client.declare_exchange(channel, "trades", "topic", &passive).expect("the exchange is there");
    let mut next = |queue: &str| {
        let message = client.get(channel, queue, true).expect("the queue is there")?;
        Some((message.body().to_vec(), message.redelivered))
    };
    for number in ACKNOWLEDGED..MESSAGES {
        assert_eq!(next("orders"), Some((vec![number], number < DELIVERED)));
    }
    assert_eq!(next("orders"), Some((vec![7; LARGE_BYTES], false)));
    assert_eq!(next("orders"), None);
    for body in [b"high".to_vec(), vec![7; LARGE_BYTES], b"a".to_vec(), b"b".to_vec()] {
        assert_eq!(next("ranked"), Some((body, false)));
    }
    assert_eq!(next("ranked"), None);
    publish(&mut client, channel, "trades", "ranked.low", None, b"bound");
    let message = client.get(channel, "ranked", true).expect("an answer").expect("the binding is there");
    assert_eq!(message.body(), b"bound");
    client.close().expect("closed");
    broker.terminate();
}

pub fn tar(words: &[&str], folder: &TestStateFolder) {
    let tar = Command::new("tar").args(words).arg("-C").arg(folder.root()).arg(".").output().expect("there is tar");
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
}

#[test]
fn what_this_version_writes_it_reads() {
    let folder = TestStateFolder::new("written");
    fill(&folder);
    if let Some(fixture) = std::env::var_os("HARRIER_WRITE_FIXTURE") {
        let fixture = fixture.to_str().expect("UTF-8");
        tar(&["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf", fixture], &folder);
    }
    check(&folder);
}

#[test]
fn a_folder_of_the_first_format_is_read() {
    let folder = TestStateFolder::new("format-1");
    std::fs::create_dir(folder.root()).expect("a folder");
    tar(&["-xzf", FORMAT_1], &folder);
    check(&folder);
}

#[test]
fn a_store_of_a_newer_format_is_refused_with_both_numbers() {
    let folder = TestStateFolder::new("newer-store");
    fill(&folder);
    let text = std::fs::read_to_string(folder.path("store.toml")).expect("a file");
    assert!(text.contains("\nformat = 1\n"), "{text}");
    std::fs::write(folder.path("store.toml"), text.replace("\nformat = 1\n", "\nformat = 2\n")).expect("written");
    let Err((status, log)) = StoredBroker::try_start(&folder, &["--store-lose-damaged"]) else { panic!("it starts") };
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("the store has format 2, and this version reads format 1 only"), "{log}");
}

/// The checksum of a segment's header (CRC-32C).
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn a_segment_of_a_newer_format_is_refused_with_both_numbers() {
    let mut changed = 0;
    for (segment, log_number) in
        [("log/00-00000001.seg", 0), ("log/01-00000001.seg", 1), ("definitions/00-00000001.seg", 0)]
    {
        let folder = TestStateFolder::new("newer-segment");
        fill(&folder);
        let file = OpenOptions::new().read(true).write(true).open(folder.path(segment)).expect("a segment");
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0).expect("a header");
        if header == [0; 64] {
            // No queue lives on this shard.
            continue;
        }
        changed += 1;
        header[8] += 1;
        let crc = crc32c(&header[..60]);
        header[60..].copy_from_slice(&crc.to_le_bytes());
        file.write_all_at(&header, 0).expect("written");
        let Err((status, log)) = StoredBroker::try_start(&folder, &["--store-lose-damaged"]) else {
            panic!("it starts");
        };
        assert_eq!(status.code(), Some(1), "{log}");
        let refusal = format!("segment 1 of log {log_number} has format 2, and this version reads format 1 only");
        assert!(log.contains(&refusal), "{segment}: {log}");
    }
    assert!(changed >= 2, "a log of messages and that of the definitions have been written");
}
