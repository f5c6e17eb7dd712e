//! A byte anywhere in the files of a stopped broker that the disk has changed: it is named, or it does not matter.

use super::broker::{StoredBroker, TestStateFolder, harrier};
use super::number_of;
use client::{Client, ClientChannel, ClientError, Publish, QueueOptions};
use disk::SegmentFolder;
use splitmix::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use store::limits::BLOCK_BYTES;
use store::{
    Block, Damage, FrameHeader, FrameSequence, LogEnd, LogId, OnDamage, Record, RecordVisitor, SegmentId, StoreTag,
    scan,
};
use wire::{Properties, RawProperties};

/// Flips, unless `HARRIER_FLIPS` says otherwise.
const FLIPS: u64 = 20;
/// So many times more are made at most.
const MORE_FLIPS_MAX: u64 = 10;
const QUEUES: [&str; 3] = ["one", "two", "three"];
/// Messages of each queue; the first ones are acknowledged.
const MESSAGES: u8 = 30;
const ACKNOWLEDGED: u8 = 10;

/// A message by its queue, of [`QUEUES`], and its number.
type MessageId = (u8, u8);

/// The messages of the logs by their frames.
#[derive(Default)]
struct MessagesOfFrames {
    frame: Option<(LogId, FrameSequence)>,
    messages: BTreeMap<(LogId, FrameSequence), Vec<MessageId>>,
}

impl RecordVisitor for MessagesOfFrames {
    fn on_frame(&mut self, segment: SegmentId, _block: Block, header: &FrameHeader) {
        self.frame = Some((segment.log, header.sequence));
    }
    fn on_record(&mut self, record: Record<'_>) {
        if let (Some(frame), Record::Message { message, .. }) = (self.frame, record) {
            self.messages.entry(frame).or_default().push((message.body[0], message.body[1]));
        }
    }
    fn on_damage(&mut self, damage: &Damage) {
        panic!("{damage}");
    }
}

/// Publishes messages one after the other, has another life acknowledge some, which makes footers for the first one's segments, and
/// stops the broker.
fn fill(folder: &TestStateFolder) {
    let broker = StoredBroker::start(folder, &[]);
    let (mut client, channel) = broker.connect();
    client.confirm_select(channel).expect("confirms");
    for (queue, name) in (0..).zip(QUEUES) {
        let durable = QueueOptions { durable: true, ..QueueOptions::default() };
        client.declare_queue(channel, name, &durable).expect("a queue");
        for number in 0..MESSAGES {
            let properties = Properties { delivery_mode: Some(2), ..Properties::default() }.to_bytes();
            let to = Publish { properties: RawProperties::new(&properties), ..Publish::to("", name) };
            client.publish(channel, &to, &[[queue, number]; 200].concat()).expect("published");
            // Several groups, and several messages in most.
            client.wait_confirms(channel, u64::from(number) % 4).expect("confirmed");
        }
    }
    client.close().expect("closed");
    broker.terminate();
    let broker = StoredBroker::start(folder, &[]);
    let (mut client, channel) = broker.connect();
    for name in QUEUES {
        for _ in 0..ACKNOWLEDGED {
            let message = client.get(channel, name, false).expect("an answer").expect("a message");
            client.ack(channel, message.delivery_tag, false).expect("acknowledged");
        }
    }
    client.close().expect("closed");
    broker.terminate();
}

/// What each frame of the sound logs has.
fn messages_of_frames(folder: &TestStateFolder) -> BTreeMap<(LogId, FrameSequence), Vec<MessageId>> {
    let text = std::fs::read_to_string(folder.path("store.toml")).expect("a store");
    let id = text.lines().find_map(|line| line.strip_prefix("id = \"")).expect("its id").trim_end_matches('"');
    let store = StoreTag::of(u128::from_str_radix(id, 16).expect("hexadecimal"));
    let mut files = SegmentFolder::open(&folder.path("log")).expect("a folder");
    let mut found = MessagesOfFrames::default();
    for log in files.logs().expect("logs") {
        let segments = files.segments(log).expect("segments");
        scan(LogEnd::empty(store, log).chain, segments, OnDamage::Fail, &mut files, &mut found).expect("a sound log");
    }
    assert!(found.messages.len() > 20, "several frames");
    found.messages
}

/// The files of a folder and of those in it, in the order of their names.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    entries.into_iter().flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

/// Copies the files of a stopped broker.
pub fn copy(from: &TestStateFolder, to: &TestStateFolder) {
    for file in files_in(from.root()) {
        let copy = to.root().join(file.strip_prefix(from.root()).expect("a file of the folder"));
        std::fs::create_dir_all(copy.parent().expect("a folder")).expect("made");
        std::fs::copy(&file, &copy).expect("copied");
    }
}

/// A file below a folder, and the places of its blocks that have been written.
struct WrittenFile {
    name: PathBuf,
    bytes: usize,
    blocks: Vec<usize>,
}

fn written_files(folder: &TestStateFolder) -> Vec<WrittenFile> {
    let written = |path: PathBuf| {
        let bytes = std::fs::read(&path).expect("a file");
        let blocks = bytes.chunks(BLOCK_BYTES).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0));
        let blocks = blocks.map(|(block, _)| block * BLOCK_BYTES).collect();
        let name = path.strip_prefix(folder.root()).expect("a file of the folder").to_owned();
        WrittenFile { name, bytes: bytes.len(), blocks }
    };
    files_in(folder.root()).into_iter().map(written).collect()
}

/// Changes a byte of a file, in most cases of a segment's block that has been written. Returns the file and the byte's place.
fn flip(folder: &TestStateFolder, files: &[WrittenFile], random: &mut SplitMix64) -> (String, usize) {
    let anywhere = random.one_in(4);
    let is_used =
        |file: &&WrittenFile| !file.blocks.is_empty() && file.name.extension().is_some_and(|end| end == "seg");
    let files: Vec<&WrittenFile> = files.iter().filter(|file| anywhere || is_used(file)).collect();
    let WrittenFile { name, bytes, blocks } = files[random.below(files.len() as u64) as usize];
    let at = if anywhere {
        random.below(*bytes as u64) as usize
    } else {
        let block = blocks[random.below(blocks.len() as u64) as usize];
        // A header, or anywhere in the block.
        let within = BLOCK_BYTES.min(bytes - block).min(if random.one_in(2) { 128 } else { BLOCK_BYTES });
        block + random.below(within as u64) as usize
    };
    let file = OpenOptions::new().read(true).write(true).open(folder.root().join(name)).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).expect("read");
    file.write_all_at(&[byte[0] ^ (1 << random.below(8))], at as u64).expect("written");
    (name.display().to_string(), at)
}

/// The damage that lines name: log, first and last frame.
fn frames_of(damage: &str) -> Option<(LogId, std::ops::RangeInclusive<u64>)> {
    let (place, frames) = damage.split_once(": frames ")?;
    let log = place.rsplit_once(" of log ")?.1.split_once(' ')?.0;
    let (first, last) = frames.split_once(" cannot")?.0.split_once(" to ")?;
    Some((LogId(log.parse().ok()?), first.parse().ok()?..=last.parse().ok()?))
}

/// The messages of each queue; `None` for one that is not there.
fn found(broker: &StoredBroker) -> Vec<Option<BTreeSet<MessageId>>> {
    let (mut client, _) = broker.connect();
    let get = |name: &str| {
        let channel: ClientChannel = client.open_channel().expect("a channel");
        messages_in(&mut client, channel, name)
    };
    QUEUES.map(get).into()
}

fn messages_in(client: &mut Client, channel: ClientChannel, name: &str) -> Option<BTreeSet<MessageId>> {
    let mut messages = BTreeSet::new();
    loop {
        match client.get(channel, name, true) {
            Ok(Some(message)) => assert!(messages.insert((message.body()[0], message.body()[1])), "each once"),
            Ok(None) => return Some(messages),
            Err(ClientError::ChannelClosed { code: 404, .. }) => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Starts a broker on a folder that is sound as far as anybody can see: everything is there.
fn starts_with_everything(folder: &TestStateFolder, what: &str) {
    let broker = StoredBroker::try_start(folder, &[]);
    let broker = broker.unwrap_or_else(|(_, log)| panic!("{what}: the check finds nothing, and the broker: {log}"));
    everything_is_there(broker, what);
}

/// Nothing that is damaged is missed.
fn everything_is_there(broker: StoredBroker, what: &str) {
    for (queue, messages) in (0..).zip(found(&broker)) {
        let expect: BTreeSet<MessageId> = (ACKNOWLEDGED..MESSAGES).map(|number| (queue, number)).collect();
        assert_eq!(messages, Some(expect), "{what}: nothing that is alive is damaged");
    }
    broker.terminate();
}

/// Starts a broker that may lose what is damaged. It says what that is, and exactly that is missing.
fn what_is_lost_is_said(
    folder: &TestStateFolder,
    frames: &BTreeMap<(LogId, FrameSequence), Vec<MessageId>>,
    what: &str,
) {
    let broker = match StoredBroker::try_start(folder, &["--store-lose-damaged"]) {
        Ok(broker) => broker,
        // Without any definition there would be no message, either: a backup is better.
        Err((_, log)) => {
            let is_named = log.contains("the journal of definitions has lost its beginning");
            assert!(is_named && what.contains("definitions"), "{what}: {log}");
            return;
        }
    };
    let lines = broker.start_log.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<serde_json::Value> = lines.collect();
    let damage = |message: &str| {
        let lines = lines.iter().filter(|line| line["message"] == message);
        lines.map(|line| frames_of(line["damage"].as_str().expect("damage")).expect("frames")).collect::<Vec<_>>()
    };
    let lost_frames = damage("messages are lost");
    let lost_definitions = damage("definitions are lost");
    assert!(!(lost_frames.is_empty() && lost_definitions.is_empty()), "{what}: {}", broker.start_log);
    let is_lost = |(log, sequence): &(LogId, FrameSequence)| {
        lost_frames.iter().any(|(damaged, frames)| damaged == log && frames.contains(&sequence.0))
    };
    let lost: BTreeSet<MessageId> =
        frames.iter().filter(|(frame, _)| is_lost(frame)).flat_map(|(_, messages)| messages.clone()).collect();
    for (queue, messages) in (0..).zip(found(&broker)) {
        let Some(messages) = messages else {
            assert!(!lost_definitions.is_empty(), "{what}: queue {queue} is gone, and nobody says so");
            continue;
        };
        for number in 0..MESSAGES {
            let message = (queue, number);
            match (lost.contains(&message), messages.contains(&message)) {
                (true, true) => panic!("{what}: message {message:?} is said to be lost, and is there"),
                (false, false) if number >= ACKNOWLEDGED => {
                    panic!("{what}: message {message:?} is lost, and nobody says so")
                }
                // What says that it was acknowledged may be lost.
                (false, true) if number < ACKNOWLEDGED => {
                    assert!(!lost_frames.is_empty(), "{what}: {message:?} is back")
                }
                _ => {}
            }
        }
    }
    broker.terminate();
}

#[test]
fn a_byte_that_the_disk_has_changed_is_named_or_does_not_matter() {
    let sound = TestStateFolder::new("sound");
    fill(&sound);
    let frames = messages_of_frames(&sound);
    let files = written_files(&sound);
    let first = number_of("HARRIER_SEED", 1);
    assert!(files.iter().any(|file| file.name.extension().is_some_and(|end| end == "foot")), "footers");
    let (mut damaged, mut unnoticed) = (0, 0);
    let flips = number_of("HARRIER_FLIPS", FLIPS);
    for seed in first..first + flips * MORE_FLIPS_MAX {
        // More of them until a start has noticed one: most do not hit what is alive.
        if seed >= first + flips && damaged > unnoticed {
            break;
        }
        let folder = TestStateFolder::new("flipped");
        copy(&sound, &folder);
        let (name, at) = flip(&folder, &files, &mut SplitMix64::new(seed));
        let what = format!("seed {seed}: byte {at} of {name}");
        let check = harrier().args(["store", "check"]).arg(folder.root()).output().expect("it runs");
        let errors = String::from_utf8_lossy(&check.stderr).into_owned();
        println!("{what}: {} {errors}", check.status);
        let is_segment = name.ends_with(".seg");
        if check.status.success() && is_segment {
            starts_with_everything(&folder, &what);
            continue;
        }
        if is_segment {
            damaged += 1;
            assert_eq!(check.status.code(), Some(1), "{what}: {errors}");
            let file = name.rsplit('/').next().expect("a name");
            assert!(errors.contains(file), "{what}: the check does not name it: {errors}");
        }
        // The other files are text, which may say something else now: that is noticed, or does not matter to messages.
        let started = StoredBroker::try_start(&folder, &[]);
        let (status, log) = match started {
            Ok(broker) if !is_segment && check.status.success() => {
                broker.terminate();
                starts_with_everything(&folder, &what);
                continue;
            }
            // A footer stood for what is damaged, and nothing of that is alive.
            Ok(broker) if is_segment => {
                unnoticed += 1;
                everything_is_there(broker, &what);
                continue;
            }
            Ok(_) => panic!("{what}: the broker starts, and the check says {errors}"),
            Err(refused) => refused,
        };
        assert_eq!(status.code(), Some(1), "{what}: {log}");
        if is_segment {
            what_is_lost_is_said(&folder, &frames, &what);
        } else {
            let names = ["store.toml", "identity.toml", "belongs to another store", "the store has "];
            assert!(names.iter().any(|name| log.contains(name)), "{what}: {log}");
        }
    }
    println!("{damaged} flips did damage, and starts by footers did not read {unnoticed} of them");
    assert!(damaged > unnoticed, "no flip did any damage that a start must notice");
}
