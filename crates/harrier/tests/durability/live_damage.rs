//! A segment whose bytes the disk changes while a broker runs that has the messages of two queues on pages.

use super::broker::{StoredBroker, TestStateFolder};
use super::check_store;
use super::numbered_messages::{BODY_BYTES, consume, is_not_found, number_of, publish};
use client::QueueOptions;
use disk::SegmentFolder;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use store::SegmentId;
use store::limits::BLOCK_BYTES;

/// Much more than a shard keeps in memory.
const MEMORY_LIMIT: &str = "64MiB";
const MESSAGES: u32 = 2_500;
/// Messages that a segment has at most.
const SEGMENT_MESSAGES: usize = (4 << 20) / BODY_BYTES;

fn start(folder: &TestStateFolder, options: &[&str]) -> StoredBroker {
    StoredBroker::start(folder, &[&["--memory-limit", MEMORY_LIMIT], options].concat())
}

/// Changes a bit in every block of a segment in the middle of the log that has most of them.
fn flip(folder: &TestStateFolder) -> SegmentId {
    let files = SegmentFolder::open_to_read(&folder.path("log")).expect("a folder");
    let logs = files.logs().expect("logs");
    let of_log = |&log: &_| files.segments(log).expect("segments").len();
    let log = logs.into_iter().max_by_key(of_log).expect("a log");
    let numbers = files.segments(log).expect("segments");
    assert!(numbers.len() > 16, "both queues have several");
    // The first queue has the first half of them, and its first messages are in memory.
    let segment = SegmentId { log, number: numbers[4] };
    let file = OpenOptions::new().read(true).write(true).open(files.segment_path(segment)).expect("a segment");
    let bytes = file.metadata().expect("a file").len();
    for at in (0..bytes).step_by(BLOCK_BYTES).skip(1).map(|block| block + 100) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("read");
        file.write_all_at(&[byte[0] ^ 1], at).expect("written");
    }
    segment
}

#[test]
fn a_queue_whose_pages_are_damaged_is_closed_and_nothing_else_is_disturbed() {
    let folder = TestStateFolder::new("live-damage");
    let broker = start(&folder, &[]);
    let (mut client, channel) = broker.connect();
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    client.confirm_select(channel).expect("confirms");
    for queue in ["damaged", "healthy"] {
        client.declare_queue(channel, queue, &durable).expect("a queue");
        assert_eq!(publish(&mut client, channel, queue, MESSAGES), 0);
    }
    let segment = flip(&folder);

    let (taken, is_cancelled) = consume(&mut client, "damaged", MESSAGES);
    assert!(is_cancelled && taken > 0 && taken < MESSAGES, "{taken} messages");
    assert_eq!(publish(&mut client, channel, "damaged", 3), 3, "it is closed");
    let other = client.open_channel().expect("a channel");
    assert!(is_not_found(client.get(other, "damaged", true)));
    let other = client.open_channel().expect("a channel");
    assert!(is_not_found(client.declare_queue(other, "damaged", &durable)));
    assert_eq!(consume(&mut client, "healthy", MESSAGES), (MESSAGES, false));
    assert_eq!(publish(&mut client, channel, "healthy", 10), 0);
    client.close().expect("closed");
    broker.tell_to_end();
    let (status, log) = broker.await_end();
    assert!(status.success(), "{status}: {log}");
    let closed = log.lines().find(|line| line.contains("a queue is closed")).expect("it is logged");
    let damage = format!("{segment} is damaged at block ");
    assert!(closed.contains(&damage) && closed.contains("\"queue\":\"damaged\""), "{closed}");
    assert!(closed.contains("\"vhost\":\"/\"") && closed.contains("\"level\":\"ERROR\""), "{closed}");

    let Err((status, log)) = StoredBroker::try_start(&folder, &[]) else { panic!("it starts on a damaged store") };
    assert!(status.code() == Some(1) && log.contains(&damage), "{log}");
    let broker = start(&folder, &["--store-lose-damaged"]);
    let (mut client, channel) = broker.connect();
    let mut there = Vec::new();
    while let Some(message) = client.get(channel, "damaged", true).expect("it is open") {
        there.push(number_of(message.body()));
    }
    // What was in the segment is missing; acknowledgements that were there may be, too.
    let rest: Vec<u32> = there.iter().copied().filter(|&number| number >= taken).collect();
    let missing: Vec<u32> = (taken..MESSAGES).filter(|number| !rest.contains(number)).collect();
    assert!(!missing.is_empty() && missing.len() <= SEGMENT_MESSAGES, "{} of {}", missing.len(), rest.len());
    assert!(rest.is_sorted() && missing.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{missing:?}");
    let healthy = client.declare_queue(channel, "healthy", &durable).expect("a queue");
    assert_eq!(healthy.messages, 10);
    client.close().expect("closed");
    broker.terminate();
    check_store(&folder);
}

/// A scrub that begins at once.
#[test]
fn damage_in_a_segment_that_nobody_reads_is_found_by_the_scrub() {
    let folder = TestStateFolder::new("scrubbed");
    let broker = start(&folder, &["--store-scrub-interval-s", "1", "--store-scrub-rate", "1GiB"]);
    let (mut client, channel) = broker.connect();
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    client.confirm_select(channel).expect("confirms");
    client.declare_queue(channel, "kept", &durable).expect("a queue");
    assert_eq!(publish(&mut client, channel, "kept", 2 * MESSAGES), 0);
    let segment = flip(&folder);
    let damage = format!("{segment} is damaged at block ");
    let is_found = |line: &str| line.contains("a part of the store is damaged") && line.contains(&damage);
    broker.await_line("the damage", is_found);
    // The broker goes on, and has what it keeps in memory.
    let message = client.get(channel, "kept", false).expect("it is open").expect("the first message");
    assert_eq!(number_of(message.body()), 0);
    client.close().expect("closed");
    broker.terminate();
}
