//! The `disk` command: how fast a disk makes groups durable that are written as the store writes them.
//!
//! One group is written at a time, by the store's own disk, to a segment that was written through before.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use disk::{Disk, FileDisk, SegmentFolder};
use gauge::clock::now_ns;
use gauge::{LatencyHistogram, ProcessMeter, validity};
use report::document::{LoopMode, MeasuredRun, MeasuredSeries, SeriesPoint, TargetFacts};
use report::stdout::put;
use report::{OsuTable, ProgressLine};
use store::limits::{BLOCK_BYTES, GROUP_BYTES_MAX};
use store::{Block, Completion, Group, LogEnd, LogId, Request, SealedGroup, SegmentId, SegmentNumber, StoreTag};

use crate::arguments::{OptionSpec, ParsedOptions, UsageError, help_with, option};
use crate::failure::CommandFailure;
use crate::limits::{
    DISK_FREE_BYTES_MIN, DISK_GROUPS_DEFAULT, DISK_GROUPS_MAX, DISK_SEGMENT_BYTES, DISK_WRITTEN_BYTES_DEFAULT,
    DISK_WRITTEN_BYTES_MAX,
};
use crate::measure_options::{EFFORT, MeasureOptions, OUTPUT};
use crate::role_protocol::MessageCounts;
use crate::run_recorder::{RunRecorder, check_interrupted};

const OWN: &[OptionSpec] = &[
    option("dir", Some('d'), "FOLDER", "a folder on the disk to measure (default: the current one)"),
    option("bytes", Some('m'), "N,…", "bytes of a group: multiples of 4096 up to 1 MiB (default 4096,65536,1048576)"),
    option("groups", Some('n'), "N", "groups of each size (default 2000, and 1 GiB at most)"),
];

const ABOUT: &str = "\
Writes groups as a log of the store does: one at a time, each durable before the next one, by direct, synced writes over
blocks that were written before. An operation is one group. This is the floor of a persistent message's confirm on this
disk. It makes a folder with a segment of 64 MiB in the given folder, and removes it at the end. A folder in memory
(tmpfs) says nothing about a disk.";

const EXAMPLES: &[(&str, &str)] = &[
    ("disk --dir /var/lib/harrier", "the disk of a broker's state folder, groups of 4 KiB, 64 KiB and 1 MiB"),
    ("disk --bytes 4096 --groups 20000 --runs 5", "lone messages on the current folder's disk, with medians"),
    ("disk --dir /mnt/nvme --json nvme.json", "a document for harrier bench compare"),
];

/// The name of the folder that is made, before the process id.
const FOLDER: &str = "harrier-bench-disk";
/// The target's name in tables.
const TARGET: &str = "disk";
/// How often the progress line is drawn.
const PROGRESS_INTERVAL_NS: u64 = 100_000_000;
/// The only segment.
const SEGMENT: SegmentId = SegmentId { log: LogId(0), number: SegmentNumber(1) };
const SEGMENT_BLOCKS: u32 = (DISK_SEGMENT_BYTES / BLOCK_BYTES as u64) as u32;

/// The options of `disk` itself.
#[derive(Debug, PartialEq, Eq)]
struct DiskOptions {
    dir: PathBuf,
    bytes: Vec<usize>,
    /// As many as the default allows if not given.
    groups: Option<u64>,
}

impl DiskOptions {
    fn read(given: &ParsedOptions) -> Result<Self, UsageError> {
        let bytes = given.list("bytes", &[4_096, 65_536, 1_048_576], BLOCK_BYTES, GROUP_BYTES_MAX)?;
        if let Some(odd) = bytes.iter().find(|bytes| !bytes.is_multiple_of(BLOCK_BYTES)) {
            return Err(UsageError(format!("--bytes: {odd} is not a multiple of {BLOCK_BYTES}")));
        }
        let groups = given.number_if_given("groups", 1, DISK_GROUPS_MAX)?;
        let largest = bytes.iter().copied().max().unwrap_or(BLOCK_BYTES) as u64;
        if groups.is_some_and(|groups| groups * largest > DISK_WRITTEN_BYTES_MAX) {
            let most = DISK_WRITTEN_BYTES_MAX / largest;
            return Err(UsageError(format!("--groups: at most {most} of {largest} bytes, which are 256 GiB")));
        }
        Ok(Self { dir: given.text("dir").unwrap_or(".").into(), bytes, groups })
    }

    /// How many groups of a size are written.
    fn counts(&self, bytes: usize) -> MessageCounts {
        let usual = DISK_GROUPS_DEFAULT.min(DISK_WRITTEN_BYTES_DEFAULT / bytes as u64);
        MessageCounts::with_tenth(self.groups.unwrap_or(usual))
    }
}

/// Runs the command.
///
/// # Errors
/// A usage error, a folder that cannot be written, too little space, a write that failed.
pub fn run(words: &[String]) -> Result<(), CommandFailure> {
    let lists = [OWN, EFFORT.split_at(1).0, OUTPUT];
    let given = ParsedOptions::parse(words, &lists)?;
    if given.has("help") {
        return Ok(put(&help_with("harrier bench disk [OPTIONS]", ABOUT, &lists, EXAMPLES))?);
    }
    let (setup, options) = (MeasureOptions::read(&given)?, DiskOptions::read(&given)?);
    if !options.dir.is_dir() {
        return Err(UsageError(format!("--dir: there is no folder {}", options.dir.display())).into());
    }
    setup.output.prepare()?;
    let mut segment = WrittenSegment::make(&options.dir, DISK_FREE_BYTES_MIN)?;
    let mut record = RunRecorder::begin("disk", words, &given, &setup, &[]);
    record.document.targets.push(segment.facts());
    let list: Vec<String> = options.bytes.iter().map(usize::to_string).collect();
    record.note_option("bytes", list.join(","));
    record.note_option("groups", "2000, and 1 GiB at most");
    let outcome = measure(&mut record, &setup, &options, &mut segment);
    record.end(outcome)
}

fn measure(
    record: &mut RunRecorder,
    setup: &MeasureOptions,
    options: &DiskOptions,
    segment: &mut WrittenSegment,
) -> Result<(), CommandFailure> {
    let progress = ProgressLine::begin();
    record.document.series.push(MeasuredSeries {
        benchmark: "disk".to_owned(),
        target: TARGET.to_owned(),
        pace: LoopMode::Closed,
        parameters: BTreeMap::new(),
        axis: "size_bytes".to_owned(),
        points: Vec::new(),
    });
    let table = match setup.output.format.is_incremental() {
        true => Some(OsuTable::begin(&record.document, &[&record.document.series[0]], setup.output.full)?),
        false => None,
    };
    let all = (options.bytes.len() * setup.runs) as f64;
    let mut done = 0.0;
    for &bytes in &options.bytes {
        let mut point = SeriesPoint { at: bytes as f64, size_bytes: bytes as f64, runs: Vec::new() };
        let MessageCounts { measured, warm_up } = options.counts(bytes);
        for run in 1..=setup.runs {
            let what = format!("groups of {bytes} bytes, run {run} of {}", setup.runs);
            segment.write_groups(bytes, warm_up, |_| progress.show(done / all, &what))?;
            let mut result =
                segment.write_groups(bytes, measured, |share| progress.show((done + share) / all, &what))?;
            result.invalid.extend(validity::unoptimised(&record.document.environment));
            point.runs.push(result);
            done += 1.0;
        }
        progress.clear();
        if let Some(table) = &table {
            table.row(&[&point])?;
        }
        record.document.series[0].points.push(point);
    }
    Ok(())
}

/// A segment in a folder of its own, which is removed with it.
struct WrittenSegment {
    // Dropped in this order: the files are removed when the thread has ended.
    disk: FileDisk,
    done: Receiver<()>,
    is_direct: bool,
    next_block: u32,
    _folder: OwnFolder,
}

impl WrittenSegment {
    /// Makes a segment and writes it through, if so much is free.
    fn make(dir: &Path, free_bytes_min: u64) -> Result<Self, String> {
        let folder = OwnFolder::make(dir)?;
        let files = SegmentFolder::open(&folder.0).map_err(|error| error.text)?;
        let is_direct = files.is_direct();
        let (wake, done) = channel();
        // Nobody listens any more when the disk is being dropped.
        let wake = Box::new(move || wake.send(()).unwrap_or_default());
        let disk = FileDisk::start(files, "bench-disk", wake).map_err(|error| error.text)?;
        let free_bytes = disk.free_bytes().map_err(|error| error.text)?;
        if free_bytes < free_bytes_min {
            return Err(format!(
                "{}: {} MiB are free, and {} MiB must be: a segment takes {} MiB, and others need the disk, too",
                dir.display(),
                free_bytes >> 20,
                free_bytes_min >> 20,
                DISK_SEGMENT_BYTES >> 20
            ));
        }
        let mut segment = Self { disk, done, is_direct, next_block: 1, _folder: folder };
        match segment.carry_out(Request::Make { segment: SEGMENT, blocks: SEGMENT_BLOCKS, from: None })? {
            Completion::Made { result, .. } => result.map_err(|error| error.text)?,
            other => return Err(format!("the disk answered {other:?}")),
        }
        Ok(segment)
    }

    fn facts(&self) -> TargetFacts {
        let way = if self.is_direct { "direct, synced writes" } else { "synced writes through the page cache" };
        TargetFacts {
            name: TARGET.to_owned(),
            transport: "file".to_owned(),
            product: Some(format!("{way}, one at a time")),
            ..TargetFacts::default()
        }
    }

    /// Gives the disk a request and waits until it is done.
    fn carry_out(&mut self, request: Request) -> Result<Completion, String> {
        self.disk.submit(request);
        loop {
            if let Some(completion) = self.disk.poll() {
                return Ok(completion);
            }
            self.done.recv().map_err(|_| "the disk's thread has ended".to_owned())?;
        }
    }

    /// Writes groups of a size one after the other.
    fn write_groups(
        &mut self,
        bytes: usize,
        count: u64,
        mut progress: impl FnMut(f64),
    ) -> Result<MeasuredRun, CommandFailure> {
        let blocks = (bytes / BLOCK_BYTES) as u32;
        let mut group = sealed_group(blocks)?;
        let mut latencies = LatencyHistogram::default();
        let meter = ProcessMeter::of_self();
        let began_ns = now_ns();
        let mut shown_ns = 0;
        for index in 0..count {
            check_interrupted()?;
            let block = self.next_blocks(blocks);
            let mut submitted_ns = now_ns();
            if submitted_ns - shown_ns >= PROGRESS_INTERVAL_NS {
                progress(index as f64 / count as f64);
                shown_ns = submitted_ns;
                submitted_ns = now_ns();
            }
            match self.carry_out(Request::Write { segment: SEGMENT, block, group })? {
                Completion::Written { result, group: written, .. } => {
                    result.map_err(|error| error.text)?;
                    group = written;
                }
                other => return Err(format!("the disk answered {other:?}").into()),
            }
            latencies.record(now_ns() - submitted_ns);
        }
        let elapsed_s = (now_ns() - began_ns).max(1) as f64 / 1e9;
        Ok(MeasuredRun {
            elapsed_s,
            published: count,
            delivered: count,
            delivered_bytes: count * bytes as u64,
            operations: Some(count),
            latencies: BTreeMap::from([("write".to_owned(), latencies.buckets())]),
            broker: meter.stop().known(),
            ..MeasuredRun::default()
        })
    }

    /// The next so many blocks, from the segment's beginning again where they do not fit. Block 0 is that of the header.
    fn next_blocks(&mut self, blocks: u32) -> Block {
        if self.next_block + blocks > SEGMENT_BLOCKS {
            self.next_block = 1;
        }
        let block = Block(self.next_block);
        self.next_block += blocks;
        block
    }
}

/// A group of so many blocks: what is in them makes no difference to the disk.
fn sealed_group(blocks: u32) -> Result<SealedGroup, String> {
    let mut group = Group::new();
    for _ in 0..blocks {
        group.mark().map_err(|_| format!("a group has no capacity for {blocks} blocks"))?;
    }
    let mut chain = LogEnd::empty(StoreTag(0), SEGMENT.log).chain;
    let range = group.seal(&mut chain, SEGMENT.number, None);
    Ok(SealedGroup::new(group, range))
}

/// A folder that this process has made, removed when dropped.
struct OwnFolder(PathBuf);

impl OwnFolder {
    fn make(dir: &Path) -> Result<Self, String> {
        let path = dir.join(format!("{FOLDER}-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("cannot make the folder {}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("harrier bench: cannot remove {}: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<DiskOptions, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        DiskOptions::read(&ParsedOptions::parse(&words, &[OWN, OUTPUT])?).map_err(String::from)
    }

    #[test]
    fn options_are_parsed() {
        let usual = options("").expect("nothing is wrong");
        assert_eq!((usual.dir.as_path(), &usual.bytes[..]), (Path::new("."), &[4_096, 65_536, 1_048_576][..]));
        assert_eq!([4_096, 1_048_576].map(|bytes| usual.counts(bytes).measured), [2_000, 1_024]);
        let few = options("--dir /x --bytes 8192 -n 5").expect("nothing is wrong");
        assert_eq!((few.dir.as_path(), &few.bytes[..]), (Path::new("/x"), &[8_192][..]));
        assert_eq!((few.counts(8_192).measured, few.counts(8_192).warm_up), (5, 1));
    }

    #[test]
    fn what_a_log_would_not_write_is_refused() {
        for (line, expected) in [
            ("--bytes 5000", "--bytes: 5000 is not a multiple of 4096"),
            ("--bytes 4096,2097152", "--bytes is a number from 4096 to 1048576, not '2097152'"),
            ("--groups 0", "--groups is a number from 1 to 1000000, not '0'"),
            ("--groups 1000000", "--groups: at most 262144 of 1048576 bytes, which are 256 GiB"),
        ] {
            assert_eq!(options(line).map(|_| ()), Err(expected.to_owned()), "{line}");
        }
    }

    #[test]
    fn groups_of_each_size_go_round_the_segment_and_its_folder_is_removed() {
        let dir = std::env::temp_dir();
        let mut segment = WrittenSegment::make(&dir, 0).expect("a segment");
        let folder = segment._folder.0.clone();
        segment.next_block = SEGMENT_BLOCKS - 2;
        for (blocks, next_block) in [(1, SEGMENT_BLOCKS - 1), (1, SEGMENT_BLOCKS), (1, 2), (256, 258)] {
            let run = segment.write_groups(blocks * BLOCK_BYTES, 1, |_| ()).expect("it is written");
            assert_eq!((run.operations, run.delivered_bytes), (Some(1), (blocks * BLOCK_BYTES) as u64));
            assert_eq!(segment.next_block, next_block);
        }
        assert!(folder.exists());
        drop(segment);
        assert!(!folder.exists());
    }

    #[test]
    fn a_disk_without_space_is_refused_and_nothing_stays_behind() {
        let dir = std::env::temp_dir().join(format!("harrier-full-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a folder");
        let error = WrittenSegment::make(&dir, u64::MAX).err().expect("no disk has that much");
        assert!(error.contains("MiB are free, and 17592186044415 MiB must be: a segment takes 64 MiB"), "{error}");
        assert_eq!(std::fs::read_dir(&dir).expect("the folder").count(), 0);
        std::fs::remove_dir(&dir).expect("it is empty");
    }
}
