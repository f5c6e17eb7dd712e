//! `harrier store`: what is in the store of a broker that is stopped, and what of it is damaged.

use super::{BrokerProcess, TempFolder, output};
use catalog::{Name, ResourceKind};
use definitions::{DurableQueue, JournalEntryWriter, JournalRecord};
use disk::{Disk, FileDisk, SegmentFolder};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::channel;
use store::limits::{BLOCK_BYTES, SEGMENT_BYTES_MIN};
use store::{
    Block, Damage, FrameHeader, LogEnd, LogId, LogWriter, LoggedMessage, MessageLog, MessageLogEvent,
    MessageLogOptions, OnDamage, Position, QueueCursor, QueueUid, Record, RecordVisitor, RecoveredLog, SegmentId,
    SegmentNumber, StoreTag, StoredMessage, scan,
};
use wire::Table;

const STORE: StoreTag = StoreTag(77);

/// The file that says which store is in a state folder: the one with this tag.
const STORE_FILE: &str = "format = 1\nid = \"4d\"\nlogs = 2\nlog_folder = \"log\"\n";

/// A log that a test writes, a group at a time.
struct TestLog {
    // Dropped in this order: the folder is the test's.
    disk: FileDisk,
    done: std::sync::mpsc::Receiver<()>,
    writer: LogWriter,
}

impl TestLog {
    /// A new log in a folder, which is made.
    fn new(folder: &Path, log: LogId) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        let (wake, done) = channel();
        let files = SegmentFolder::open(folder).expect("a folder");
        // Nobody listens once the log is dropped.
        let disk = FileDisk::start(files, "disk", Box::new(move || wake.send(()).unwrap_or_default()));
        let writer = LogWriter::new(LogEnd::empty(STORE, log), SEGMENT_BYTES_MIN);
        TestLog { disk: disk.expect("a thread"), done, writer }
    }

    /// Appends a group, which is durable when this returns.
    fn group(&mut self, append: impl FnOnce(&mut LogWriter)) {
        append(&mut self.writer);
        loop {
            while let Some(request) = self.writer.poll(0, true) {
                self.disk.submit(request);
            }
            if self.disk.under_way() == 0 {
                return;
            }
            self.done.recv().expect("the thread lives");
            while let Some(completion) = self.disk.poll() {
                self.writer.complete(completion, 0);
            }
        }
    }
}

fn message(body: &[u8]) -> StoredMessage<'_> {
    StoredMessage { exchange: b"x", routing_key: b"k", properties: &[0, 0], bcc: b"", arrived_us: 1, body }
}

/// Appends messages to a queue from a position on.
fn put(writer: &mut LogWriter, queue: u64, first: u64, bodies: &[&[u8]]) {
    let mut cursor = QueueCursor::new(QueueUid(queue));
    for (position, body) in (first..).zip(bodies) {
        writer.append(|group| group.message(&mut cursor, Position(position), &message(body)));
    }
}

/// Appends a large body, in parts.
fn put_parts(writer: &mut LogWriter, mut body: &[u8]) {
    while !body.is_empty() {
        writer.append(|group| group.part(&mut body));
    }
}

fn settle(writer: &mut LogWriter, queue: u64, first: u64, count: u64) {
    let mut cursor = QueueCursor::new(QueueUid(queue));
    writer.append(|group| group.settled(&mut cursor, Position(first), count));
}

/// A state folder as a stopped broker leaves it.
fn state(name: &str) -> TempFolder {
    state_with(name, &[(7, "orders"), (9, "quotes")])
}

/// The same, with these queues.
fn state_with(name: &str, queues: &[(u64, &str)]) -> TempFolder {
    let state = TempFolder::new(name);
    std::fs::write(state.path("lock"), "").expect("a file");
    std::fs::write(state.path("store.toml"), STORE_FILE).expect("a file");
    let mut definitions = TestLog::new(Path::new(&state.path("definitions")), LogId(0));
    let vhost = Name::from("/");
    let queue = |(uid, name): &(u64, &str)| {
        let uid = catalog::QueueUid::new(*uid).expect("no queue has 0");
        let queue = DurableQueue { uid, home: 1, auto_delete: false, arguments: Table::new() };
        // As a client's method has it.
        let name = Name::new(ResourceKind::Queue, name.as_bytes()).expect("a name");
        JournalRecord::PutQueue { vhost: vhost.clone(), name, queue }
    };
    let mut entry = JournalEntryWriter::default();
    entry.push(&JournalRecord::PutVhost { name: vhost.clone() });
    queues.iter().for_each(|named| entry.push(&queue(named)));
    definitions.group(|writer| {
        entry.finish(|piece| {
            writer.append(|group| group.definition(1, piece));
        });
    });
    state
}

/// Where the frames of a log are.
#[derive(Default)]
struct Frames(Vec<(SegmentId, Block)>);

impl RecordVisitor for Frames {
    fn on_frame(&mut self, segment: SegmentId, block: Block, _header: &FrameHeader) {
        self.0.push((segment, block));
    }
    fn on_record(&mut self, _record: Record<'_>) {}
    fn on_damage(&mut self, damage: &Damage) {
        panic!("{damage}");
    }
}

/// Flips a bit of a frame's header, and returns where that is: the file and the block.
fn flip(folder: &str, log: LogId, frame: usize) -> (String, u32) {
    let mut files = SegmentFolder::open(Path::new(folder)).expect("a folder");
    let (mut frames, segments) = (Frames::default(), files.segments(log).expect("segments"));
    scan(LogEnd::empty(STORE, log).chain, segments, OnDamage::Fail, &mut files, &mut frames).expect("a sound log");
    let (segment, block) = frames.0[frame];
    let path = files.segment_path(segment);
    let file = OpenOptions::new().read(true).write(true).open(&path).expect("a segment");
    let at = u64::from(block.0) * BLOCK_BYTES as u64 + 40;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
    (path.to_string_lossy().into_owned(), block.0)
}

/// Runs `harrier store COMMAND STATE`: its status, output and errors.
fn run(command: &[&str], state: &TempFolder) -> (Option<i32>, String, String) {
    let folder = state.0.to_string_lossy();
    let output = output(&[&["store"], command, &[&folder]].concat());
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Four groups: frames 1 to 3 of one frame each, and two frames in the last one.
fn write_log(state: &TempFolder) -> String {
    let folder = state.path("log");
    let mut log = TestLog::new(Path::new(&folder), LogId(1));
    log.group(|writer| put(writer, 7, 0, &[b"one", b"two", b"three"]));
    log.group(|writer| put(writer, 9, 100, &[&[1; 1_000]]));
    log.group(|writer| settle(writer, 7, 0, 2));
    log.group(|writer| put(writer, 7, 3, &[&[2; 40_000], &[3; 40_000]]));
    folder
}

#[test]
fn a_sound_store_is_counted() {
    let state = state("sound");
    write_log(&state);
    let expect = "\
log          segments  footers  frames  records  messages  settled  last sequence  torn  damaged
definitions         2        0       1        1         0        0              1     0        0
log 0               0        0       0        0         0        0              0     0        0
log 1               2        0       5       12         6        2              5     0        0
sound
";
    assert_eq!(run(&["check"], &state), (Some(0), expect.to_owned(), String::new()));
}

#[test]
fn a_flipped_bit_in_the_middle_is_damage_and_is_named() {
    let state = state("flipped");
    let (path, block) = flip(&write_log(&state), LogId(1), 1);
    let (status, text, errors) = run(&["check"], &state);
    let expect = format!(
        "harrier store: {path}: segment 1 of log 1 is damaged at block {block}: frames 2 to 2 cannot be read\n"
    );
    // The message that the frame had is named by what is left of it.
    let loss = format!(
        "harrier store: segment 1 of log 1 at block {block}: queue 9 (\"quotes\" in \"/\") has lost message 100, \
         as far as it was written and not settled\n"
    );
    assert_eq!((status, errors), (Some(1), format!("{expect}{loss}")));
    let row = text.lines().find(|line| line.starts_with("log 1")).expect("a row");
    let numbers: Vec<&str> = row.split_whitespace().skip(2).collect();
    assert_eq!(numbers, ["2", "0", "4", "10", "5", "2", "5", "0", "1"], "{text}");
    assert!(!text.contains("sound"), "{text}");
    let (status, text, errors) = run(&["show"], &state);
    assert_eq!((status, errors.as_str()), (Some(1), expect.as_str()));
    assert!(text.contains("\n7        1         3  80005      2     4  /             orders\n"), "{text}");
}

#[test]
fn a_torn_tail_is_no_damage() {
    let state = state("torn");
    // The first frame of the group that was written last: nothing says that it had been durable.
    let (_, block) = flip(&write_log(&state), LogId(1), 3);
    let (status, text, errors) = run(&["check"], &state);
    let end = format!(
        "harrier store: segment 1 of log 1 ends at block {block} in a frame that cannot be read: \
         it was being written when the broker ended, or is damaged\n"
    );
    assert_eq!((status, errors), (Some(0), end), "{text}");
    let row = text.lines().find(|line| line.starts_with("log 1")).expect("a row");
    let numbers: Vec<&str> = row.split_whitespace().skip(2).collect();
    assert_eq!(numbers, ["2", "0", "3", "8", "4", "2", "3", "1", "0"], "{text}");
}

#[derive(Clone)]
struct Body(Vec<u8>);

impl LoggedMessage for Body {
    fn stored(&self) -> StoredMessage<'_> {
        message(&self.0)
    }
    fn bytes(&self) -> usize {
        self.0.len()
    }
    fn is_same(&self, _: &Self) -> bool {
        false
    }
}

/// Two segments and a part of a third one. Returns the folder.
fn write_segments(state: &TempFolder) -> String {
    let folder = state.path("log");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (wake, done) = channel();
    let files = SegmentFolder::open(Path::new(&folder)).expect("a folder");
    let wake = Box::new(move || wake.send(()).unwrap_or_default());
    let mut disk = FileDisk::start(files, "disk", wake).expect("a thread");
    let options = MessageLogOptions { segment_bytes: SEGMENT_BYTES_MIN, ..MessageLogOptions::default() };
    let mut log = MessageLog::new(RecoveredLog::empty(STORE, LogId(1)), options);
    let bodies = 5 * SEGMENT_BYTES_MIN / 2 / 200_000;
    for position in 1..=bodies {
        let ticket = log.append(QueueUid(7), Position(position), Body(vec![1; 200_000]));
        log.await_durable(ticket);
        loop {
            while let Some(request) = log.poll(0) {
                disk.submit(request);
            }
            if disk.under_way() == 0 {
                break;
            }
            done.recv().expect("the thread lives");
            while let Some(completion) = disk.poll() {
                let event = log.complete(completion, 0);
                assert!(matches!(event, Some(MessageLogEvent::Durable(_)) | None), "{event:?}");
            }
        }
    }
    folder
}

#[test]
fn footers_are_compared_with_their_segments_and_a_wrong_one_is_named_and_no_damage() {
    let state = state("footers");
    let folder = write_segments(&state);
    let footers = || {
        let (status, text, errors) = run(&["check"], &state);
        let row = text.lines().find(|line| line.starts_with("log 1")).expect("a row");
        let number = row.split_whitespace().nth(3).map(str::to_owned);
        assert_eq!((status, text.ends_with("sound\n")), (Some(0), true), "{text}{errors}");
        (number.expect("a number"), errors)
    };
    assert_eq!(footers(), ("2".to_owned(), String::new()));
    let folder = SegmentFolder::open(Path::new(&folder)).expect("a folder");
    let [first, second] =
        [1, 2].map(|number| folder.footer_path(SegmentId { log: LogId(1), number: SegmentNumber(number) }));
    let bytes = std::fs::read(&first).expect("a footer");
    std::fs::write(&first, &bytes[..bytes.len() - 1]).expect("written");
    let line = |path: &Path, why: &str| {
        format!("harrier store: {}: {why}; the broker reads the segment when it starts\n", path.display())
    };
    assert_eq!(footers(), ("1".to_owned(), line(&first, "the footer is damaged")));
    std::fs::write(&second, &bytes).expect("written");
    std::fs::remove_file(&first).expect("it is there");
    assert_eq!(footers(), ("0".to_owned(), line(&second, "the footer is not that of its segment")));
    let (status, text, errors) = run(&["show"], &state);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(text.contains(" orders\n"), "{text}");
}

#[test]
fn a_segment_that_was_made_of_the_oldest_one_on_a_full_disk_is_in_its_place() {
    let state = state("remade");
    let folder = state.path("definitions");
    std::fs::remove_dir_all(&folder).expect("there is a log");
    std::fs::create_dir(state.path("log")).expect("a folder");
    let mut log = TestLog::new(Path::new(&folder), LogId(0));
    for position in 0..SEGMENT_BYTES_MIN / 40_000 + 1 {
        log.group(|writer| put(writer, 7, position, &[&[1; 40_000]]));
    }
    let mut snapshot = JournalEntryWriter::default();
    snapshot.push(&JournalRecord::SnapshotBegin);
    snapshot.push(&JournalRecord::SnapshotEnd);
    log.group(|writer| {
        snapshot.finish(|piece| {
            writer.append(|group| group.definition(1, piece));
        });
    });
    drop(log);
    let files = SegmentFolder::open(Path::new(&folder)).expect("a folder");
    let mut segments = files.segments(LogId(0)).expect("segments");
    let (oldest, last) = (segments.remove(0), segments.pop().expect("several segments"));
    let path = |number| files.segment_path(SegmentId { log: LogId(0), number });
    // The broker does this before a later segment says that the log begins behind it.
    std::fs::rename(path(oldest), path(SegmentNumber(last.0 + 1))).expect("renamed");
    let (status, text, errors) = run(&["check"], &state);
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{text}");
}

#[test]
fn what_is_alive_is_shown_by_queue() {
    let state = state("shown");
    let mut log = TestLog::new(Path::new(&state.path("log")), LogId(0));
    log.group(|writer| {
        put(writer, 7, 0, &[b"one", b"two", b"three"]);
        let mut other = QueueCursor::new(QueueUid(9));
        writer.append(|group| group.again(&mut other, Position(5 << 56)));
    });
    log.group(|writer| {
        // A body in parts, in two queues.
        let (mut cursor, body) = (QueueCursor::new(QueueUid(8)), vec![4; 3 << 20]);
        let bytes = body.len() as u64;
        writer.append(|group| group.large_message(&mut cursor, Position(1), &message(b""), bytes));
        put_parts(writer, &body);
    });
    log.group(|writer| settle(writer, 7, 0, 1));
    log.group(|writer| {
        writer.append(|group| group.commit_begin());
        put(writer, 7, 3, &[b"four"]);
        settle(writer, 7, 1, 1);
        writer.append(|group| group.commit_end());
    });
    log.group(|writer| put(writer, 11, 0, &[b"done with"]));
    log.group(|writer| settle(writer, 11, 0, 1));
    let mut second = TestLog::new(Path::new(&state.path("log")), LogId(1));
    second.group(|writer| put(writer, 10, 4, &[b"elsewhere"]));
    drop(second);
    // A commit and a body without their ends.
    log.group(|writer| {
        writer.append(|group| group.commit_begin());
        put(writer, 7, 4, &[b"five"]);
        settle(writer, 7, 2, 1);
        let mut cursor = QueueCursor::new(QueueUid(12));
        writer.append(|group| group.large_message(&mut cursor, Position(1), &message(b""), 10));
        put_parts(writer, b"some");
    });
    drop(log);
    let expect = "\
queue  log  messages    bytes  first  last  virtual host  name
7        0         2        9      2     3  /             orders
8        0         1  3145728      1     1                (deleted)
9        0         1        5    5/0   5/0  /             quotes
10       1         1        9      4     4                (deleted)
all                5  3145751
";
    assert_eq!(run(&["show"], &state), (Some(0), expect.to_owned(), String::new()));
    let (status, text, _) = run(&["show", "--json"], &state);
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let place = |priority, position| serde_json::json!({"priority": priority, "position": position});
    let expect = serde_json::json!({"version": 1, "queues": [
        {"queue": 7, "log": 0, "vhost": "/", "name": "orders", "messages": 2, "bytes": 9,
         "first": place(0, 2), "last": place(0, 3)},
        {"queue": 8, "log": 0, "vhost": null, "name": null, "messages": 1, "bytes": 3 << 20,
         "first": place(0, 1), "last": place(0, 1)},
        {"queue": 9, "log": 0, "vhost": "/", "name": "quotes", "messages": 1, "bytes": 5,
         "first": place(5, 0), "last": place(5, 0)},
        {"queue": 10, "log": 1, "vhost": null, "name": null, "messages": 1, "bytes": 9,
         "first": place(0, 4), "last": place(0, 4)},
    ]});
    assert_eq!((status, found), (Some(0), expect));
}

/// What clients may name a queue, and how it is shown: in one row, and so that a terminal does nothing.
#[test]
fn hostile_names_of_queues_stay_in_their_rows() {
    let names = [
        "\u{1b}]0;owned\u{7}",
        "a\n8        0         9        9      0     0  /             forged",
        "\u{202e}txt\tb",
        "\u{9b}2J",
    ];
    let queues: Vec<(u64, &str)> = (7..).zip(names).collect();
    let state = state_with("hostile-names", &queues);
    let mut log = TestLog::new(Path::new(&state.path("log")), LogId(0));
    log.group(|writer| queues.iter().for_each(|(uid, _)| put(writer, *uid, 0, &[b"one"])));
    drop(log);
    let expect = "\
queue  log  messages  bytes  first  last  virtual host  name
7        0         1      3      0     0  /             \\u001b]0;owned\\u0007
8        0         1      3      0     0  /             a8        0         9        9      0     0  /             forged
9        0         1      3      0     0  /             \\u202etxt\\tb
10       0         1      3      0     0  /             \\u009b2J
all                4     12
";
    assert_eq!(run(&["show"], &state), (Some(0), expect.to_owned(), String::new()));
    let (status, text, errors) = run(&["show", "--json"], &state);
    assert_eq!((status, &*errors), (Some(0), ""));
    let is_harmful = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    assert!(!text.contains(is_harmful), "{text}");
    let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let shown: Vec<_> = found["queues"].as_array().expect("queues").iter().map(|queue| &queue["name"]).collect();
    let expect: Vec<String> = names.iter().map(|name| name.replace('\n', "")).collect();
    assert_eq!(shown, expect.iter().collect::<Vec<_>>());
}

#[test]
fn the_store_of_a_broker_that_runs_is_not_read() {
    let folder = TempFolder::new("running");
    let broker = BrokerProcess::start(&["--listen", "127.0.0.1:0", "--state", &folder.path("state")]);
    let state = TempFolder(folder.0.join("state"));
    for command in ["check", "show"] {
        let (status, text, errors) = run(&[command], &state);
        let expect = format!("harrier store: {}: a broker uses this folder; stop it first\n", state.0.display());
        assert_eq!((status, text.as_str(), errors), (Some(1), "", expect));
    }
    drop(broker);
}

#[test]
fn a_folder_without_a_store_is_refused_and_left_as_it_is() {
    let folder = TempFolder::new("no-store");
    let expect = format!("harrier store: {}: this is no state folder of a broker\n", folder.0.display());
    assert_eq!(run(&["check"], &folder), (Some(1), String::new(), expect));
    assert_eq!(std::fs::read_dir(&folder.0).expect("the folder").count(), 0);
    std::fs::write(folder.path("lock"), "").expect("a file");
    let expect = format!("harrier store: {}: there is no store in this folder\n", folder.0.display());
    assert_eq!(run(&["show"], &folder), (Some(1), String::new(), expect));
}
