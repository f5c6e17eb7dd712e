//! A bit that the disk has changed while the broker was stopped.

use super::broker::{StoredBroker, TestStateFolder, harrier};
use super::check_store;
use super::random_flips::copy;
use super::shards::{STAGES, Stage, has_reached, line};
use client::{Publish, QueueOptions};
use disk::SegmentFolder;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use store::limits::BLOCK_BYTES;
use store::{Block, Damage, FrameHeader, LogEnd, LogId, OnDamage, Record, RecordVisitor, SegmentId, StoreTag, scan};
use wire::{Properties, RawProperties};

const QUEUE: &str = "kept";
const MESSAGES: u8 = 40;

/// The messages of a log by the frames that have them.
#[derive(Default)]
struct FramesOfMessages {
    frame: Option<(SegmentId, Block)>,
    bodies: BTreeMap<(SegmentId, Block), Vec<u8>>,
}

impl RecordVisitor for FramesOfMessages {
    fn on_frame(&mut self, segment: SegmentId, block: Block, _header: &FrameHeader) {
        self.frame = Some((segment, block));
    }
    fn on_record(&mut self, record: Record<'_>) {
        if let (Some(frame), Record::Message { message, .. }) = (self.frame, record) {
            self.bodies.entry(frame).or_default().push(message.body[0]);
        }
    }
    fn on_damage(&mut self, damage: &Damage) {
        panic!("{damage}");
    }
}

/// Publishes messages one after the other, and stops the broker.
fn fill(folder: &TestStateFolder) {
    let broker = StoredBroker::start(folder, &[]);
    let (mut client, channel) = broker.connect();
    let durable = QueueOptions { durable: true, ..QueueOptions::default() };
    client.declare_queue(channel, QUEUE, &durable).expect("a queue");
    client.confirm_select(channel).expect("confirms");
    let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
    for number in 0..MESSAGES {
        let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", QUEUE) };
        client.publish(channel, &to, &[number; 100]).expect("published");
        client.wait_confirms(channel, 0).expect("confirmed");
    }
    client.close().expect("closed");
    broker.terminate();
}

/// Flips a bit in the middle of the log that has the messages. Returns what is damaged, and whose messages it has.
fn flip(folder: &TestStateFolder) -> (SegmentId, Block, Vec<u8>) {
    let text = std::fs::read_to_string(folder.path("store.toml")).expect("a store");
    let id = text.lines().find_map(|line| line.strip_prefix("id = \"")).expect("its id").trim_end_matches('"');
    let store = StoreTag::of(u128::from_str_radix(id, 16).expect("hexadecimal"));
    let mut files = SegmentFolder::open(&folder.path("log")).expect("a folder");
    let mut found = FramesOfMessages::default();
    for log in files.logs().expect("logs") {
        let segments = files.segments(log).expect("segments");
        scan(LogEnd::empty(store, log).chain, segments, OnDamage::Fail, &mut files, &mut found).expect("a sound log");
    }
    let all: Vec<u8> = found.bodies.values().flatten().copied().collect();
    assert_eq!(all, (0..MESSAGES).collect::<Vec<_>>(), "each message is in the log once");
    let (&(segment, block), bodies) = found.bodies.iter().nth(found.bodies.len() / 2).expect("several frames");
    let path = files.segment_path(segment);
    let file = OpenOptions::new().read(true).write(true).open(path).expect("a segment");
    let at = u64::from(block.0) * BLOCK_BYTES as u64 + 70;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("written");
    (segment, block, bodies.clone())
}

/// The number of the queue, and the position of its first message.
fn shown(folder: &TestStateFolder) -> (u64, u64) {
    let show = harrier().args(["store", "show", "--json"]).arg(folder.path("")).output().expect("it runs");
    let text = String::from_utf8_lossy(&show.stdout).into_owned();
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let queue = &shown["queues"][0];
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("{text}"));
    (number(&queue["queue"]), number(&queue["first"]["position"]))
}

#[test]
fn a_broker_refuses_a_damaged_store_and_names_the_place_unless_it_may_lose_it() {
    let folder = TestStateFolder::new("flips");
    fill(&folder);
    let (queue, first) = shown(&folder);
    let (segment, block, lost) = flip(&folder);
    let place = format!("{segment} is damaged at block {}: ", block.0);
    let Err((status, log)) = StoredBroker::try_start(&folder, &[]) else { panic!("it starts on a damaged store") };
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains(&place) && log.contains("--store-lose-damaged"), "{log}");
    // The frames in front and behind say which message is missing.
    let [number] = lost[..] else { panic!("each message has a frame of its own: {lost:?}") };
    let loss = format!(
        "{segment} at block {}: queue {queue} ({QUEUE:?} in \"/\") has lost message {}, as far as it was written and not settled",
        block.0,
        first + u64::from(number)
    );
    assert!(log.contains(&loss), "{log}\n{loss}");
    let check = harrier().args(["store", "check"]).arg(folder.path("")).output().expect("it runs");
    let errors = String::from_utf8_lossy(&check.stderr);
    assert_eq!(check.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&place) && errors.contains(&loss), "{errors}");

    let broker = StoredBroker::start(&folder, &["--store-lose-damaged"]);
    assert!(broker.start_log.contains(&place), "{}", broker.start_log);
    assert!(broker.start_log.contains("the store is written anew"), "{}", broker.start_log);
    assert!(broker.start_log.contains("damage has taken messages"), "{}", broker.start_log);
    everything_but(&broker, &lost);
    broker.terminate();
    // The damage is gone, and with it the reason to be asked again.
    check_store(&folder);
    let broker = StoredBroker::start(&folder, &["--store-lose-damaged"]);
    assert!(!broker.start_log.contains("the store is written anew"), "{}", broker.start_log);
    everything_but(&broker, &lost);
    broker.kill();
    let broker = StoredBroker::start(&folder, &[]);
    everything_but(&broker, &lost);
    broker.terminate();
}

/// All messages but some are there, in their order, and stay.
fn everything_but(broker: &StoredBroker, lost: &[u8]) {
    let (mut client, channel) = broker.connect();
    let mut there = Vec::new();
    while let Some(message) = client.get(channel, QUEUE, false).expect("a queue") {
        there.push(message.body()[0]);
    }
    let expect: Vec<u8> = (0..MESSAGES).filter(|number| !lost.contains(number)).collect();
    assert_eq!(there, expect);
    client.close().expect("closed");
}

/// The last frame of each log.
#[derive(Default)]
struct LastFrames(BTreeMap<LogId, (SegmentId, Block)>);

impl RecordVisitor for LastFrames {
    fn on_frame(&mut self, segment: SegmentId, block: Block, _header: &FrameHeader) {
        self.0.insert(segment.log, (segment, block));
    }
    fn on_record(&mut self, _record: Record<'_>) {}
    fn on_damage(&mut self, damage: &Damage) {
        panic!("{damage}");
    }
}

/// Nothing says that the last frame of a log had been durable: whether it is damaged or was torn cannot be told, and that it is
/// there is.
#[test]
fn a_last_frame_that_cannot_be_read_is_told_and_holds_no_start_up() {
    let folder = TestStateFolder::new("last-flipped");
    fill(&folder);
    let text = folder.text("store.toml");
    let id = text.lines().find_map(|line| line.strip_prefix("id = \"")).expect("its id").trim_end_matches('"');
    let store = StoreTag::of(u128::from_str_radix(id, 16).expect("hexadecimal"));
    let mut files = SegmentFolder::open(&folder.path("log")).expect("a folder");
    let mut last = LastFrames::default();
    for log in files.logs().expect("logs") {
        let segments = files.segments(log).expect("segments");
        scan(LogEnd::empty(store, log).chain, segments, OnDamage::Fail, &mut files, &mut last).expect("a sound log");
    }
    // A mark, which says when it was written.
    let &(segment, block) = last.0.values().next().expect("a log with frames");
    let file = OpenOptions::new().read(true).write(true).open(files.segment_path(segment)).expect("a segment");
    let at = u64::from(block.0) * BLOCK_BYTES as u64 + 41;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("written");
    drop(files);

    let end = format!("{segment} ends at block {} in a frame that cannot be read", block.0);
    let check = harrier().args(["store", "check"]).arg(folder.path("")).output().expect("it runs");
    let errors = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success() && errors.contains(&end), "{}: {errors}", check.status);
    let broker = StoredBroker::start(&folder, &[]);
    let told = broker.start_log.lines().find(|line| line.contains(&end)).expect("it is told");
    assert!(told.contains("\"level\":\"INFO\""), "{told}");
    everything_but(&broker, &[]);
    broker.terminate();
    // This life has begun a segment behind it.
    let broker = StoredBroker::start(&folder, &[]);
    assert!(!broker.start_log.contains(&end), "{}", broker.start_log);
    broker.terminate();
}

#[test]
fn a_kill_while_damage_is_left_out_loses_nothing_else() {
    let damaged = TestStateFolder::new("flipped-killed");
    fill(&damaged);
    let (_, _, lost) = flip(&damaged);
    let before = damaged.text("store.toml");
    let mut interrupted = 0;
    for stage in STAGES.into_iter().chain(STAGES) {
        let folder = TestStateFolder::new("flipped-copy");
        copy(&damaged, &folder);
        let is_reached = || has_reached(&folder, stage, &before);
        interrupted += usize::from(StoredBroker::kill_when(&folder, &["--store-lose-damaged"], is_reached));
        // It is what it was, or has lost what it may lose and nothing else.
        let is_replaced = line(&folder.text("store.toml"), "log_folder") != line(&before, "log_folder");
        assert!(is_replaced || !matches!(stage, Stage::Replaced | Stage::Done), "{stage:?}");
        if is_replaced {
            check_store(&folder);
        } else {
            let Err((status, log)) = StoredBroker::try_start(&folder, &[]) else { panic!("{stage:?}: it starts") };
            assert_eq!(status.code(), Some(1), "{stage:?}: {log}");
            let broker = StoredBroker::start(&folder, &["--store-lose-damaged"]);
            everything_but(&broker, &lost);
            broker.kill();
        }
        let broker = StoredBroker::start(&folder, &[]);
        everything_but(&broker, &lost);
        broker.terminate();
    }
    assert!(interrupted >= STAGES.len(), "{interrupted} starts were interrupted");
}

#[test]
fn a_broker_does_not_take_the_log_of_another_store() {
    let (one, other) = (TestStateFolder::new("one"), TestStateFolder::new("other"));
    fill(&one);
    fill(&other);
    let files = SegmentFolder::open(&one.path("log")).expect("a folder");
    for log in files.logs().expect("logs") {
        copy_segments(&files, &other, log);
    }
    let Err((status, log)) = StoredBroker::try_start(&other, &[]) else { panic!("it starts on another store") };
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("belongs to another store or another log"), "{log}");
}

fn copy_segments(from: &SegmentFolder, to: &TestStateFolder, log: LogId) {
    for number in from.segments(log).expect("segments") {
        let path = from.segment_path(SegmentId { log, number });
        std::fs::copy(&path, to.path("log").join(path.file_name().expect("a name"))).expect("copied");
    }
}
