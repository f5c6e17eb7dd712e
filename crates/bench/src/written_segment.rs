//! A segment on the disk that is measured, and groups written to it one at a time, as the store writes them.
//!
//! It is in a folder of its own, which is removed with it.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use disk::{Disk, FileDisk, SegmentFolder};
use gauge::clock::now_ns;
use gauge::{LatencyHistogram, ProcessMeter};
use report::document::{MeasuredRun, TargetFacts};
use store::limits::BLOCK_BYTES;
use store::{Block, Completion, Group, LogEnd, LogId, Request, SealedGroup, SegmentId, SegmentNumber, StoreTag};

use crate::limits::{DISK_FREE_BYTES_MIN, DISK_SEGMENT_BYTES};
use harness::failure::CommandFailure;
use harness::interrupt;
use harness::role_protocol::MessageCounts;

/// The name of the folder that is made, before the process id.
const FOLDER: &str = "harrier-bench-disk";
/// The target's name in tables.
pub(crate) const TARGET: &str = "disk";
/// How often progress is told.
const PROGRESS_INTERVAL_NS: u64 = 100_000_000;
/// The only segment.
const SEGMENT: SegmentId = SegmentId { log: LogId(0), number: SegmentNumber(1) };
const SEGMENT_BLOCKS: u32 = (DISK_SEGMENT_BYTES / BLOCK_BYTES as u64) as u32;

/// What a disk allows: groups of a size, one after the other.
///
/// # Errors
/// A folder that cannot be written, too little space, a write that failed.
pub(crate) fn floor(dir: &Path, bytes: usize, groups: u64) -> Result<MeasuredRun, String> {
    let mut segment = WrittenSegment::make(dir, DISK_FREE_BYTES_MIN)?;
    let counts = MessageCounts::with_tenth(groups);
    let go_on = |_| if interrupt::requested() { Err(CommandFailure::Interrupted) } else { Ok(()) };
    let mut write = |count: u64| segment.write_groups(bytes, count, go_on).map_err(|failure| failure.to_string());
    write(counts.warm_up)?;
    write(counts.measured)
}

/// A segment in a folder of its own, which is removed with it.
pub(crate) struct WrittenSegment {
    // Dropped in this order: the files are removed when the thread has ended.
    disk: FileDisk,
    done: Receiver<()>,
    is_direct: bool,
    next_block: u32,
    _folder: OwnFolder,
}

impl WrittenSegment {
    /// Makes a segment and writes it through, if so much is free.
    ///
    /// # Errors
    /// A folder that cannot be written, or too little space.
    pub fn make(dir: &Path, free_bytes_min: u64) -> Result<Self, String> {
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

    pub fn facts(&self) -> TargetFacts {
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

    /// Writes groups of a size one after the other; `progress` gets the share now and then, and may end it.
    pub fn write_groups(
        &mut self,
        bytes: usize,
        count: u64,
        mut progress: impl FnMut(f64) -> Result<(), CommandFailure>,
    ) -> Result<MeasuredRun, CommandFailure> {
        let blocks = (bytes / BLOCK_BYTES) as u32;
        let mut group = sealed_group(blocks)?;
        let mut latencies = LatencyHistogram::default();
        let meter = ProcessMeter::of_self();
        let began_ns = now_ns();
        let mut shown_ns = 0;
        for index in 0..count {
            let block = self.next_blocks(blocks);
            let mut submitted_ns = now_ns();
            if submitted_ns - shown_ns >= PROGRESS_INTERVAL_NS {
                progress(index as f64 / count as f64)?;
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
            cli::print_error(&format!("harrier bench: cannot remove {}: {error}", self.0.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_each_size_go_round_the_segment_and_its_folder_is_removed() {
        let dir = std::env::temp_dir();
        let mut segment = WrittenSegment::make(&dir, 0).expect("a segment");
        let folder = segment._folder.0.clone();
        segment.next_block = SEGMENT_BLOCKS - 2;
        for (blocks, next_block) in [(1, SEGMENT_BLOCKS - 1), (1, SEGMENT_BLOCKS), (1, 2), (256, 258)] {
            let run = segment.write_groups(blocks * BLOCK_BYTES, 1, |_| Ok(())).expect("it is written");
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
