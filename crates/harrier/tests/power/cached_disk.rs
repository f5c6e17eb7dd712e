//! A disk with a volatile cache, in a file: what was not flushed when its power fails.
//!
//! Enters: writes and flushes.  Leaves: of each sector that was written since the last flush any of its contents since then.

use splitmix::SplitMix64;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// What a disk writes as a whole, as the store believes.
pub const SECTOR_BYTES: usize = 512;
/// What the store's groups begin with: a frame or a segment's header.
const GROUP_BEGINS: [&[u8]; 2] = [b"HRRF", b"HarrSegm"];

/// A sector that was written since the last flush.
#[derive(Clone, Default)]
struct UnflushedSector {
    /// What it had before each write: the oldest first.
    contents: Vec<[u8; SECTOR_BYTES]>,
    /// The store wrote it: the write may be torn here.
    is_store: bool,
}

pub struct CachedDisk {
    /// What is read from the disk.
    file: File,
    unflushed: BTreeMap<u64, UnflushedSector>,
    /// What a disk writes as a whole, as its file system believes: it changes its superblocks in place.
    block_sectors: u64,
}

impl CachedDisk {
    /// A disk with nothing in its cache. What its file system writes is torn by blocks of so many bytes, what the store writes by
    /// sectors.
    pub fn new(file: File, block_bytes: usize) -> Self {
        CachedDisk { file, unflushed: BTreeMap::new(), block_sectors: (block_bytes / SECTOR_BYTES) as u64 }
    }

    pub fn read(&self, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    /// Writes whole sectors. What is durable needs no flush.
    pub fn write(&mut self, offset: u64, bytes: &[u8], is_durable: bool) -> std::io::Result<()> {
        let is_store = GROUP_BEGINS.iter().any(|begin| bytes.starts_with(begin));
        for (number, _) in (offset / SECTOR_BYTES as u64..).zip(bytes.chunks(SECTOR_BYTES)) {
            if is_durable {
                self.unflushed.remove(&number);
            } else {
                let mut before = [0; SECTOR_BYTES];
                self.file.read_exact_at(&mut before, number * SECTOR_BYTES as u64)?;
                let sector = self.unflushed.entry(number).or_default();
                sector.contents.push(before);
                sector.is_store = is_store;
            }
        }
        self.file.write_all_at(bytes, offset)
    }

    pub fn flush(&mut self) {
        self.unflushed.clear();
    }

    /// A disk in another file that has the same, in its cache too.
    pub fn copy(&self, path: &Path) -> CachedDisk {
        assert!(!path.exists(), "a new file");
        // It leaves out what was never written.
        let from = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&self.file));
        let copied = Command::new("cp").arg("--dereference").arg(from).arg(path).status().expect("cp is installed");
        assert!(copied.success(), "space for a copy");
        let file = File::options().read(true).write(true).open(path).expect("the copy");
        CachedDisk { file, unflushed: self.unflushed.clone(), block_sectors: self.block_sectors }
    }

    /// The power fails: each sector that was written since the last flush has any of its contents since then; those of a block that
    /// the file system wrote lose the same writes.
    pub fn lose_unflushed(&mut self, random: &mut SplitMix64) -> LostSectors {
        let unflushed = std::mem::take(&mut self.unflushed);
        // Now and then all of it is lost, or nothing.
        let (all, nothing) = (random.one_in(6), random.one_in(6));
        let mut lost = LostSectors { sectors: Vec::new(), unflushed: unflushed.keys().copied().collect() };
        let (mut block, mut kept_by_block) = (None, 0);
        for (number, UnflushedSector { contents, is_store }) in unflushed {
            if block != Some(number / self.block_sectors) || is_store {
                block = Some(number / self.block_sectors);
                kept_by_block = random.below(contents.len() as u64 + 1) as usize;
            }
            let kept = match (all, nothing) {
                (true, _) => 0,
                (_, true) => contents.len(),
                _ => kept_by_block,
            };
            if let Some(sector) = contents.get(kept) {
                lost.sectors.push(number);
                let written = self.file.write_all_at(sector, number * SECTOR_BYTES as u64);
                written.expect("the disk's file can be written");
            }
        }
        lost
    }
}

/// What a power cut took.
pub struct LostSectors {
    pub sectors: Vec<u64>,
    /// Those that it could take.
    pub unflushed: Vec<u64>,
}

impl fmt::Display for LostSectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} unflushed sectors lost", self.sectors.len(), self.unflushed.len())
    }
}
