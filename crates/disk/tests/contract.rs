//! The contract that every disk keeps.

#[path = "contract/order.rs"]
mod order;

use disk::{Disk, DiskFaults, DiskMetrics, FileDisk, SegmentFolder, SimulatedDisk};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use store::limits::BLOCK_BYTES;
use store::{
    AlignedBuffer, Block, Chain, Completion, DiskErrorKind, FrameSequence, LogEnd, LogEvent, LogId, LogWriter,
    OnDamage, Record, RecordVisitor, Request, ScanError, SegmentId, SegmentNumber, SegmentReader, StoreTag, scan,
};

const LOG: LogId = LogId(3);
const STORE: StoreTag = StoreTag(77);
const SEGMENT_BYTES: u64 = store::limits::SEGMENT_BYTES_MIN;
const SEGMENT_BLOCKS: u32 = (SEGMENT_BYTES / BLOCK_BYTES as u64) as u32;

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Reads a block of a segment, and returns how many bytes were read.
type ReadBlocks = Box<dyn FnMut(SegmentId, Block, &mut AlignedBuffer) -> usize>;

/// A disk whose owner waits for completions.
trait TestDisk: Disk {
    /// The footer of a segment at the next start.
    fn footer(&mut self, number: u64) -> Option<Vec<u8>>;
    /// Waits until there may be a completion.
    fn wait(&mut self);
    /// What reads the segments at the next start, and which there are.
    fn reopen(&mut self) -> (ReadBlocks, Vec<SegmentNumber>);
}

struct TestFileDisk {
    disk: FileDisk,
    woken: Receiver<()>,
    path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl TestFileDisk {
    fn new() -> Self {
        TestFileDisk::with(|folder| folder)
    }

    /// A disk on a folder that is written in another way.
    fn with(way: impl Fn(SegmentFolder) -> SegmentFolder) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let segments = way(SegmentFolder::open(folder.path()).expect("a folder that can be opened"));
        TestFileDisk::in_folder(folder, segments)
    }

    /// One that syncs nothing.
    fn volatile() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let segments = SegmentFolder::open_volatile(folder.path()).expect("a folder that can be opened");
        TestFileDisk::in_folder(folder, segments)
    }

    fn in_folder(folder: tempfile::TempDir, segments: SegmentFolder) -> Self {
        let path = folder.path().to_path_buf();
        let (wake, woken) = channel();
        // Once the test is over nobody listens.
        let wake = Box::new(move || wake.send(()).unwrap_or_default());
        let disk = FileDisk::start(segments, "disk-3", wake).expect("a thread");
        TestFileDisk { disk, woken, path, _folder: folder }
    }
}

impl Disk for TestFileDisk {
    fn submit(&mut self, request: Request) {
        self.disk.submit(request);
    }
    fn poll(&mut self) -> Option<Completion> {
        self.disk.poll()
    }
    fn under_way(&self) -> usize {
        self.disk.under_way()
    }
    fn free_bytes(&self) -> Result<u64, store::DiskError> {
        self.disk.free_bytes()
    }
    fn metrics(&self) -> DiskMetrics {
        self.disk.metrics()
    }
}

impl TestDisk for TestFileDisk {
    fn footer(&mut self, number: u64) -> Option<Vec<u8>> {
        let mut folder = SegmentFolder::open(&self.path).expect("the folder is there");
        folder.read_footer(segment(number)).expect("a footer or none")
    }
    fn wait(&mut self) {
        self.woken.recv_timeout(PATIENCE).expect("its threads wake their owner for each completion");
    }
    fn reopen(&mut self) -> (ReadBlocks, Vec<SegmentNumber>) {
        let mut folder = SegmentFolder::open(&self.path).expect("the folder is there");
        folder.sync(LOG).expect("a sync");
        let segments = folder.segments(LOG).expect("a listing");
        (Box::new(move |segment, block, buffer| folder.read(segment, block, buffer).expect("a segment")), segments)
    }
}

impl TestDisk for SimulatedDisk {
    fn footer(&mut self, number: u64) -> Option<Vec<u8>> {
        self.read_footer(segment(number)).expect("a footer or none")
    }
    fn wait(&mut self) {
        let due_us = self.due_us().expect("something is under way");
        self.set_now(due_us);
    }
    fn reopen(&mut self) -> (ReadBlocks, Vec<SegmentNumber>) {
        let segments = self.segments(LOG);
        let mut copies = std::collections::HashMap::new();
        for &number in &segments {
            let mut buffer = AlignedBuffer::new(SEGMENT_BYTES as usize);
            self.read(SegmentId { log: LOG, number }, Block(0), &mut buffer).expect("a segment");
            copies.insert(number, buffer);
        }
        let read = move |segment: SegmentId, block: Block, buffer: &mut AlignedBuffer| {
            let from = &copies[&segment.number][block.0 as usize * BLOCK_BYTES..];
            let len = from.len().min(buffer.len());
            buffer[..len].copy_from_slice(&from[..len]);
            len
        };
        (Box::new(read), segments)
    }
}

fn each_disk(test: impl Fn(&mut dyn TestDisk)) {
    test(&mut TestFileDisk::new());
    test(&mut TestFileDisk::with(SegmentFolder::syncing_later));
    test(&mut TestFileDisk::volatile());
    test(&mut SimulatedDisk::new(1, DiskFaults::default()));
}

fn complete(disk: &mut dyn TestDisk) -> Completion {
    loop {
        if let Some(completion) = disk.poll() {
            return completion;
        }
        disk.wait();
    }
}

fn segment(number: u64) -> SegmentId {
    SegmentId { log: LOG, number: SegmentNumber(number) }
}

fn make(disk: &mut dyn TestDisk, number: u64, from: Option<u64>) {
    disk.submit(Request::Make { segment: segment(number), blocks: SEGMENT_BLOCKS, from: from.map(SegmentNumber) });
    let Completion::Made { segment: made, result } = complete(disk) else { panic!("another completion") };
    assert_eq!((made, result), (segment(number), Ok(())));
}

/// What is read, from whatever cache and from the disk itself.
fn read(disk: &mut dyn TestDisk, number: u64, block: u32, bytes: usize) -> Result<Vec<u8>, DiskErrorKind> {
    let [cached, direct] = [false, true].map(|is_direct| {
        let (segment, block, buffer) = (segment(number), Block(block), AlignedBuffer::new(bytes));
        disk.submit(Request::Read { segment, block, buffer, is_direct });
        let Completion::Read { buffer, result, .. } = complete(disk) else { panic!("another completion") };
        result.map(|filled| buffer[..filled].to_vec()).map_err(|error| error.kind)
    });
    assert_eq!(cached, direct);
    direct
}

/// Appends numbers to a log, each in a group of its own.
fn append(disk: &mut dyn TestDisk, end: LogEnd, numbers: std::ops::Range<u64>) {
    let mut writer = LogWriter::new(end, SEGMENT_BYTES);
    for number in numbers {
        let wanted = writer.append(|group| group.definition(number, &[number as u8; 100_000]));
        loop {
            while let Some(request) = writer.poll(0, true) {
                disk.submit(request);
            }
            match writer.complete(complete(disk), 0) {
                Some(LogEvent::Durable(group)) if group >= wanted => break,
                Some(LogEvent::Durable(_)) | None => {}
                Some(event) => panic!("{event:?}"),
            }
        }
    }
    while disk.under_way() > 0 {
        complete(disk);
    }
}

struct Reader(ReadBlocks);

impl SegmentReader for Reader {
    fn read(
        &mut self,
        segment: SegmentId,
        block: Block,
        buffer: &mut AlignedBuffer,
    ) -> Result<usize, store::DiskError> {
        Ok((self.0)(segment, block, buffer))
    }

    fn read_footer(&mut self, _: SegmentId) -> Result<Option<Vec<u8>>, store::DiskError> {
        Ok(None)
    }
}

#[derive(Default)]
struct Numbers(Vec<u64>);

impl RecordVisitor for Numbers {
    fn on_frame(&mut self, _: SegmentId, _: Block, _: &store::FrameHeader) {}
    fn on_record(&mut self, record: Record<'_>) {
        let Record::Definition { version, .. } = record else { panic!("{record:?}") };
        self.0.push(version);
    }
    fn on_damage(&mut self, damage: &store::Damage) {
        panic!("{damage}");
    }
}

fn recover(disk: &mut dyn TestDisk) -> Result<(LogEnd, Vec<u64>), ScanError> {
    let (read, segments) = disk.reopen();
    let mut numbers = Numbers::default();
    let result = scan(LogEnd::empty(STORE, LOG).chain, segments, OnDamage::Fail, &mut Reader(read), &mut numbers)?;
    Ok((result.end, numbers.0))
}

#[test]
fn what_was_written_is_there_at_the_next_start_and_the_log_goes_on() {
    each_disk(|disk| {
        append(disk, LogEnd::empty(STORE, LOG), 0..50);
        let (end, numbers) = recover(disk).expect("a log");
        assert_eq!(numbers, (0..50).collect::<Vec<_>>());
        let chain = Chain { store: STORE, log: LOG, ..end.chain };
        assert_eq!((end.chain, end.chain.synced), (chain, FrameSequence(50)));
        assert!(!end.unused.is_empty(), "the segment made ahead is used again");
        append(disk, end, 50..120);
        let (end, numbers) = recover(disk).expect("a log");
        assert_eq!(numbers, (0..120).collect::<Vec<_>>());
        assert_eq!(end.chain.next, FrameSequence(121));
    });
}

#[test]
fn a_new_segment_has_all_its_blocks_and_they_are_zero() {
    each_disk(|disk| {
        make(disk, 1, None);
        let bytes = read(disk, 1, 0, SEGMENT_BYTES as usize + BLOCK_BYTES).expect("a segment");
        assert_eq!(bytes.len() as u64, SEGMENT_BYTES, "a read ends with the segment");
        assert!(bytes.iter().all(|&byte| byte == 0));
        assert_eq!(read(disk, 1, SEGMENT_BLOCKS - 1, 3 * BLOCK_BYTES).expect("its last block").len(), BLOCK_BYTES);
        assert_eq!(read(disk, 1, SEGMENT_BLOCKS, BLOCK_BYTES).expect("nothing is behind it"), b"");
    });
}

#[test]
fn a_recycled_segment_has_its_new_name_alone() {
    each_disk(|disk| {
        append(disk, LogEnd::empty(STORE, LOG), 0..1);
        let old = read(disk, 1, 0, SEGMENT_BYTES as usize).expect("a segment");
        make(disk, 9, Some(1));
        assert_eq!(read(disk, 1, 0, BLOCK_BYTES), Err(DiskErrorKind::NotFound));
        assert_eq!(read(disk, 9, 0, SEGMENT_BYTES as usize).expect("the same bytes"), old);
        let (_, numbers) = recover(disk).expect("frames of the old number are no frames");
        assert_eq!(numbers, []);
    });
}

#[test]
fn a_segment_of_another_size_is_not_recycled_but_replaced() {
    each_disk(|disk| {
        append(disk, LogEnd::empty(STORE, LOG), 0..1);
        let blocks = SEGMENT_BLOCKS / 2;
        disk.submit(Request::Make { segment: segment(9), blocks, from: Some(SegmentNumber(1)) });
        let Completion::Made { result, .. } = complete(disk) else { panic!("another completion") };
        assert_eq!(result, Ok(()));
        assert_eq!(read(disk, 1, 0, BLOCK_BYTES), Err(DiskErrorKind::NotFound));
        let bytes = read(disk, 9, 0, SEGMENT_BYTES as usize).expect("a new segment");
        assert!(bytes.len() == blocks as usize * BLOCK_BYTES && bytes.iter().all(|&byte| byte == 0));
    });
}

#[test]
fn a_segment_that_was_removed_is_gone_and_removing_it_again_is_no_error() {
    each_disk(|disk| {
        make(disk, 1, None);
        for _ in 0..2 {
            disk.submit(Request::Remove { segment: segment(1) });
            let Completion::Removed { result, .. } = complete(disk) else { panic!("another completion") };
            assert_eq!(result, Ok(()));
        }
        assert_eq!(read(disk, 1, 0, BLOCK_BYTES), Err(DiskErrorKind::NotFound));
        assert_eq!(disk.reopen().1, []);
    });
}

#[test]
fn a_write_to_a_segment_that_does_not_exist_fails_and_the_log_says_so_once() {
    each_disk(|disk| {
        let mut writer = LogWriter::new(LogEnd::empty(STORE, LOG), SEGMENT_BYTES);
        writer.append(|group| group.definition(1, b"x"));
        let make = writer.poll(0, true).expect("a segment is made");
        let Request::Make { segment, .. } = make else { panic!("{make:?}") };
        // It says that it has made the segment, and has not.
        assert_eq!(writer.complete(Completion::Made { segment, result: Ok(()) }, 0), None);
        let write =
            std::iter::from_fn(|| writer.poll(0, true)).find(|request| matches!(request, Request::Write { .. }));
        disk.submit(write.expect("a write"));
        let Some(LogEvent::Failed(error)) = writer.complete(complete(disk), 0) else { panic!("a write that failed") };
        assert_eq!(error.kind, DiskErrorKind::NotFound, "{error}");
        assert!(writer.poll(1 << 40, true).is_none(), "nothing is written behind it");
    });
}

#[test]
fn requests_beyond_what_the_thread_holds_are_completed_too() {
    each_disk(|disk| {
        make(disk, 1, None);
        let requests = 3 * disk::limits::REQUESTS_MAX;
        for number in 0..requests {
            let buffer = AlignedBuffer::new(BLOCK_BYTES);
            let (segment, block) = (segment(1), Block(number as u32));
            disk.submit(Request::Read { segment, block, buffer, is_direct: number % 2 == 0 });
        }
        assert_eq!(disk.under_way(), requests);
        let mut blocks: Vec<u32> = (0..requests)
            .map(|_| {
                let Completion::Read { block, result: Ok(_), .. } = complete(disk) else { panic!("a read") };
                block.0
            })
            .collect();
        blocks.sort_unstable();
        assert_eq!(blocks, (0..requests as u32).collect::<Vec<_>>());
        assert_eq!(disk.under_way(), 0);
    });
}

fn write_footer(disk: &mut dyn TestDisk, number: u64, bytes: &[u8]) -> Result<(), DiskErrorKind> {
    disk.submit(Request::WriteFooter { segment: segment(number), bytes: bytes.to_vec() });
    let Completion::FooterWritten { segment: written, result } = complete(disk) else { panic!("another completion") };
    assert_eq!(written, segment(number));
    result.map_err(|error| error.kind)
}

#[test]
fn a_footer_is_read_as_it_was_written_last() {
    each_disk(|disk| {
        make(disk, 1, None);
        assert_eq!(disk.footer(1), None);
        assert_eq!(write_footer(disk, 1, &[7; 5000]), Ok(()));
        assert_eq!(disk.footer(1), Some(vec![7; 5000]));
        assert_eq!(write_footer(disk, 1, b"shorter"), Ok(()));
        assert_eq!(disk.footer(1).as_deref(), Some(&b"shorter"[..]));
        assert_eq!(disk.reopen().1, [SegmentNumber(1)], "a footer is no segment");
    });
}

#[test]
fn a_footer_goes_with_its_segment() {
    each_disk(|disk| {
        make(disk, 1, None);
        make(disk, 2, None);
        for number in [1, 2] {
            assert_eq!(write_footer(disk, number, b"footer"), Ok(()));
        }
        make(disk, 3, Some(1));
        assert_eq!((disk.footer(1), disk.footer(3)), (None, None), "a recycled segment has none");
        disk.submit(Request::Remove { segment: segment(2) });
        complete(disk);
        make(disk, 2, None);
        assert_eq!(disk.footer(2), None, "nor has one that is made again");
        assert_eq!(write_footer(disk, 9, b"footer"), Err(DiskErrorKind::NotFound));
        assert_eq!(disk.footer(9), None);
    });
}

#[test]
fn a_footer_whose_segment_is_gone_is_removed_at_the_next_start() {
    let mut disk = TestFileDisk::new();
    make(&mut disk, 1, None);
    assert_eq!(write_footer(&mut disk, 1, b"footer"), Ok(()));
    let folder = SegmentFolder::open(&disk.path).expect("the folder is there");
    std::fs::remove_file(folder.segment_path(segment(1))).expect("the segment is there");
    assert!(folder.footer_path(segment(1)).exists());
    assert_eq!(disk.footer(1), None);
    assert!(!folder.footer_path(segment(1)).exists());
}

#[test]
fn there_is_free_space() {
    each_disk(|disk| assert!(disk.free_bytes().expect("a number") > SEGMENT_BYTES));
}

#[test]
fn a_sync_is_complete_also_when_nothing_was_written() {
    each_disk(|disk| {
        for numbers in [0..0, 0..3] {
            append(disk, LogEnd::empty(STORE, LOG), numbers);
            disk.submit(Request::Sync { segment: segment(1) });
            let Completion::Synced { result, .. } = complete(disk) else { panic!("another completion") };
            assert_eq!(result, Ok(()));
        }
    });
}

#[test]
fn a_volatile_folder_begins_empty() {
    let mut disk = TestFileDisk::volatile();
    make(&mut disk, 1, None);
    let open = SegmentFolder::open(&disk.path).expect("a folder that can be opened");
    assert_eq!(open.segments(LOG), Ok(vec![SegmentNumber(1)]));
    let length = std::fs::metadata(open.segment_path(segment(1))).expect("a segment").len();
    assert_eq!(length, SEGMENT_BYTES, "its blocks are reserved");
    let again = SegmentFolder::open_volatile(&disk.path).expect("a folder that can be opened");
    assert_eq!(again.segments(LOG), Ok(Vec::new()));
}

#[test]
fn what_is_done_is_counted_once_it_is_taken() {
    let check = |disk: &mut dyn TestDisk| {
        assert_eq!(disk.metrics(), DiskMetrics::default());
        make(disk, 1, None);
        read(disk, 1, 0, BLOCK_BYTES).expect("a segment");
        let metrics = disk.metrics();
        assert_eq!((metrics.syncs, metrics.segments_made, metrics.write_times.count()), (1, 1, 0));
        // With the system's cache, and without.
        assert_eq!((metrics.reads, metrics.bytes_read), (2, 2 * BLOCK_BYTES as u64));
        let before = disk.metrics().segments_made;
        append(disk, LogEnd::empty(STORE, LOG), 0..10);
        let metrics = disk.metrics();
        assert!(metrics.write_times.count() >= 10 && metrics.write_times.max_us() > 0, "{metrics:?}");
        let made = metrics.segments_made - before;
        assert_eq!(metrics.syncs, 1 + metrics.write_times.count() + made, "{metrics:?}");
        // Each write waits until it is durable.
        assert!(metrics.sync_us >= metrics.write_times.sum_us(), "{metrics:?}");
    };
    check(&mut TestFileDisk::new());
    check(&mut SimulatedDisk::new(1, DiskFaults::default()));
}
