//! What a recovery costs: a log of waiting messages is written, and found again with footers and without them.
//!
//! ```sh
//! cargo run --release -p harrier-disk --example recovery -- FOLDER MESSAGES BODY_BYTES
//! ```
//!
//! The folder must be empty, and is emptied again. What is found is kept in a list, as in the queue of a broker.
#![expect(clippy::disallowed_methods, reason = "a program that measures reads the clock")]

use disk::{Disk, FileDisk, SegmentFolder};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use store::{
    AlignedBuffer, Block, Damage, DiskError, FoundMessage, FoundPage, LiveTotals, LogId, LoggedMessage, MessageLog,
    MessageLogEvent, MessageLogOptions, OnDamage, Position, QueueUid, RecoveredLog, RecoverySink, SegmentId,
    SegmentReader, StoreTag, StoredMessage, recover,
};

const STORE: StoreTag = StoreTag(7);
const LOG: LogId = LogId(0);
const QUEUE: QueueUid = QueueUid(1);
/// Messages that are appended at a time.
const TICK: u64 = 1000;

#[derive(Clone)]
struct WrittenMessage(Rc<Vec<u8>>);

impl LoggedMessage for WrittenMessage {
    fn stored(&self) -> StoredMessage<'_> {
        StoredMessage {
            exchange: b"",
            routing_key: b"queue",
            properties: &[0x10, 0, 2],
            bcc: b"",
            arrived_us: 1_700_000_000_000_000,
            body: &self.0,
        }
    }
    fn bytes(&self) -> usize {
        self.0.len()
    }
    fn is_same(&self, _: &Self) -> bool {
        false
    }
}

/// Writes the log. The process "is killed" when all is durable: the last segment has no footer.
fn write(folder: &SegmentFolder, messages: u64, body_bytes: usize) {
    let (wake, done) = channel();
    // Nobody listens once all is written.
    let wake = Box::new(move || wake.send(()).unwrap_or_default());
    let mut disk = FileDisk::start(folder.clone(), "disk", wake).expect("a thread");
    let mut log = MessageLog::new(RecoveredLog::empty(STORE, LOG), MessageLogOptions::default());
    let body = Rc::new(vec![b'x'; body_bytes]);
    let (mut appended, mut durable) = (0, 0);
    while durable < messages {
        while appended < messages && !log.is_congested() && appended < durable + 50 * TICK {
            for _ in 0..TICK.min(messages - appended) {
                appended += 1;
                let ticket = log.append(QUEUE, Position(appended), WrittenMessage(Rc::clone(&body)));
                log.await_durable(ticket);
            }
        }
        while let Some(request) = log.poll(0) {
            disk.submit(request);
        }
        done.recv().expect("the thread lives");
        while let Some(completion) = disk.poll() {
            match log.complete(completion, 0) {
                Some(MessageLogEvent::Durable(ticket)) => durable = ticket.0,
                Some(event) => panic!("{event:?}"),
                None => {}
            }
        }
    }
}

/// What is found, whether it is read or not.
#[derive(Default)]
struct FoundMessages {
    is_paged: bool,
    messages: Vec<Rc<[u8]>>,
    pages: Vec<FoundPage>,
}

impl RecoverySink for FoundMessages {
    type Message = Rc<[u8]>;
    fn is_there(&mut self, _: QueueUid) -> bool {
        true
    }
    fn is_loaded(&mut self, _: QueueUid, _: LiveTotals, _: LiveTotals) -> bool {
        !self.is_paged
    }
    fn message(&mut self, message: &StoredMessage<'_>) -> Rc<[u8]> {
        message.body.into()
    }
    fn restore(&mut self, _: QueueUid, _: Position, message: Rc<[u8]>, _: FoundMessage) {
        self.messages.push(message);
    }
    fn restore_page(&mut self, _: QueueUid, page: FoundPage) {
        self.pages.push(page);
    }
    fn finish(&mut self, _: QueueUid, _: &[Position]) {}
    fn on_damage(&mut self, damage: &Damage) {
        panic!("{damage}");
    }
}

/// A folder whose footers are not there.
struct FramesOnly(SegmentFolder);

impl SegmentReader for FramesOnly {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        self.0.read(segment, block, buffer)
    }

    fn read_footer(&mut self, _: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        Ok(None)
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let ns = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(ns.expect("a number"))
}

fn measure(name: &str, folder: &SegmentFolder, reader: &mut impl SegmentReader, is_paged: bool) {
    let (begun, before) = (Instant::now(), processor_time());
    folder.sync(LOG).expect("a sync");
    let segments = folder.segments(LOG).expect("segments");
    let mut found = FoundMessages { is_paged, ..FoundMessages::default() };
    let recovered = recover(reader, STORE, LOG, segments, OnDamage::Fail, &mut found).expect("a sound log");
    let (took, processor) = (begun.elapsed().as_secs_f64(), (processor_time() - before).as_secs_f64());
    println!(
        "{name:<32} {took:6.3} s, {processor:6.3} s of processor time: {} messages, {} read, {} pages, {} footers",
        recovered.messages,
        found.messages.len(),
        found.pages.len(),
        recovered.footers_used,
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, messages, body_bytes] = &arguments[..] else { panic!("FOLDER MESSAGES BODY_BYTES") };
    let (messages, body_bytes) = (messages.parse().expect("a number"), body_bytes.parse().expect("a number"));
    let path = Path::new(path);
    assert!(std::fs::read_dir(path).expect("a folder").next().is_none(), "the folder is empty");
    let folder = SegmentFolder::open(path).expect("a folder");
    write(&folder, messages, body_bytes);
    let bytes = |end: &str| -> u64 {
        let files = std::fs::read_dir(path).expect("a folder").map(|entry| entry.expect("a file"));
        let files = files.filter(|file| file.file_name().to_string_lossy().ends_with(end));
        files.map(|file| file.metadata().expect("a file").len()).sum()
    };
    println!("{messages} messages of {body_bytes} bytes: {} of segments, {} of footers", bytes(".seg"), bytes(".foot"));
    measure("pages, by footers", &folder, &mut folder.clone(), true);
    measure("pages, by frames", &folder, &mut FramesOnly(folder.clone()), true);
    measure("messages, by footers", &folder, &mut folder.clone(), false);
    measure("messages, by frames", &folder, &mut FramesOnly(folder.clone()), false);
    for entry in std::fs::read_dir(path).expect("a folder") {
        std::fs::remove_file(entry.expect("a file").path()).expect("removed");
    }
}
