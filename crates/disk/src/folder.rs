//! The folder of a store's segments: names, listing, and what is done to one file.
//!
//! A segment has its name only when all its blocks have been written and are durable. Files are opened without following
//! links, and nobody else may read them.

use crate::error::disk_error;
use crate::limits::MAKE_BYTES;
use crate::write_gate::WriteGate;
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::limits::{BLOCK_BYTES, FOOTER_BYTES_MAX};
use store::{AlignedBuffer, Block, DiskError, DiskErrorKind, LogId, SegmentId, SegmentNumber, SegmentReader};

/// The end of a segment's name, of its footer's, and of one that is being made.
const SEGMENT_SUFFIX: &str = ".seg";
const FOOTER_SUFFIX: &str = ".foot";
const NEW_SUFFIX: &str = ".new";

/// When what is written to a folder is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncMode {
    /// When the write returns.
    EachWrite,
    /// When the disk was asked to sync.
    OnRequest,
    /// Never: nothing in it is needed after this process.
    Never,
}

/// A folder with segments of any number of logs.
#[derive(Clone)]
pub struct SegmentFolder {
    path: Arc<Path>,
    /// The folder itself: names in it are made durable by syncing it, and no link can be put in its place.
    folder: Arc<File>,
    is_direct: bool,
    sync: SyncMode,
    gate: WriteGate,
    /// The segments that were made since it was opened, with the bytes that were written to them.
    made: Arc<Mutex<BTreeMap<SegmentId, u64>>>,
}

impl SegmentFolder {
    /// Opens a folder that exists, and removes segments from it that were never made to the end, and footers without segments.
    pub fn open(path: &Path) -> Result<SegmentFolder, DiskError> {
        let mut folder = SegmentFolder::open_to_read(path)?;
        folder.remove_unfinished()?;
        folder.is_direct = folder.probe_direct()?;
        Ok(folder)
    }

    /// Opens a folder that exists for segments that no other process will read, and removes all that are there. What is written
    /// is not synced.
    pub fn open_volatile(path: &Path) -> Result<SegmentFolder, DiskError> {
        let mut folder = SegmentFolder::open(path)?;
        for segment in folder.list(SEGMENT_SUFFIX)? {
            folder.remove_footer(segment)?;
            folder.unlink(&file_name(segment, SEGMENT_SUFFIX))?;
        }
        folder.sync = SyncMode::Never;
        Ok(folder)
    }

    /// Opens a folder that exists, and changes nothing in it.
    pub fn open_to_read(path: &Path) -> Result<SegmentFolder, DiskError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| disk_error("open", path, error))?;
        Ok(SegmentFolder {
            path: path.into(),
            folder: Arc::new(File::from(folder)),
            is_direct: true,
            sync: SyncMode::EachWrite,
            gate: WriteGate::default(),
            made: Arc::default(),
        })
    }

    /// Whether writes go past the page cache. Some file systems, as that of memory, refuse it; then each write is followed by
    /// a sync.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// The same folder for a disk that syncs when it is asked to ([`store::Request::Sync`]).
    pub fn syncing_later(self) -> SegmentFolder {
        SegmentFolder { sync: SyncMode::OnRequest, ..self }
    }

    pub(crate) fn sync_mode(&self) -> SyncMode {
        self.sync
    }

    /// The logs that have segments here, in their order.
    pub fn logs(&self) -> Result<Vec<LogId>, DiskError> {
        let mut logs: Vec<LogId> = self.list(SEGMENT_SUFFIX)?.into_iter().map(|segment| segment.log).collect();
        logs.sort_unstable();
        logs.dedup();
        Ok(logs)
    }

    /// The segments of a log, in their order.
    pub fn segments(&self, log: LogId) -> Result<Vec<SegmentNumber>, DiskError> {
        let segments = self.list(SEGMENT_SUFFIX)?.into_iter().filter(|segment| segment.log == log);
        let mut numbers: Vec<SegmentNumber> = segments.map(|segment| segment.number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Makes what was written before this process began durable, so that what a scan reads is what the disk has.
    pub fn sync(&self, log: LogId) -> Result<(), DiskError> {
        for number in self.segments(log)? {
            let segment = SegmentId { log, number };
            self.open_segment(segment, OFlags::RDONLY)?
                .sync_all()
                .map_err(|error| disk_error("sync", &self.segment_path(segment), error))?;
        }
        self.sync_names()
    }

    /// Bytes that can still be written.
    pub fn free_bytes(&self) -> Result<u64, DiskError> {
        let statistics = rustix::fs::fstatvfs(&self.folder)
            .map_err(|error| disk_error("ask for the free space of", &self.path, error))?;
        Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }

    /// What is written passes this gate.
    #[must_use]
    pub fn with_gate(self, gate: WriteGate) -> SegmentFolder {
        SegmentFolder { gate, ..self }
    }

    /// What every change passes.
    pub(crate) fn gate(&self) -> &WriteGate {
        &self.gate
    }

    /// Bytes that were written to a segment that was made since the folder was opened.
    pub(crate) fn written(&self, segment: SegmentId) -> Option<u64> {
        self.made().get(&segment).copied()
    }

    /// The segment of a log that is being written to.
    pub(crate) fn last_written(&self, log: LogId) -> Option<SegmentNumber> {
        let of_log = SegmentId { log, number: SegmentNumber(0) }..=SegmentId { log, number: SegmentNumber(u64::MAX) };
        let made = self.made();
        let last = made.range(of_log).rfind(|(_, bytes)| **bytes > 0);
        last.map(|(segment, _)| segment.number)
    }

    /// A segment has so many bytes.
    pub(crate) fn set_written(&self, segment: SegmentId, bytes: u64) {
        self.made().insert(segment, bytes);
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<SegmentId, u64>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a segment's footer is, if it has one.
    pub fn footer_path(&self, segment: SegmentId) -> PathBuf {
        self.path.join(file_name(segment, FOOTER_SUFFIX))
    }

    /// Where a segment is.
    pub fn segment_path(&self, segment: SegmentId) -> PathBuf {
        self.path.join(file_name(segment, SEGMENT_SUFFIX))
    }

    /// Opens a segment for writing: what has been written is durable when the call returns, or when the file is synced.
    pub(crate) fn open_for_writing(&self, segment: SegmentId) -> Result<File, DiskError> {
        let direct = if self.is_direct { OFlags::DIRECT } else { OFlags::empty() };
        let sync = if self.sync == SyncMode::EachWrite { OFlags::DSYNC } else { OFlags::empty() };
        self.open_segment(segment, OFlags::WRONLY | direct | sync)
    }

    /// Makes a segment, from another one if that has the same size and nobody else holds it. What changes segments and their
    /// names passes the gate; while a new one is written, which has no name of a segment yet, a gate may be closed.
    pub(crate) fn make(&self, segment: SegmentId, blocks: u32, from: Option<SegmentNumber>) -> Result<(), DiskError> {
        let bytes = u64::from(blocks) * BLOCK_BYTES as u64;
        if let Some(number) = from {
            let _passage = self.gate.enter();
            let old = SegmentId { log: segment.log, number };
            if self.is_recyclable(old, bytes)? {
                self.remove_footer(old)?;
                self.rename(&file_name(old, SEGMENT_SUFFIX), segment)?;
                self.made().remove(&old);
                self.set_written(segment, 0);
                return Ok(());
            }
            self.remove(old)?;
        }
        let new = file_name(segment, NEW_SUFFIX);
        let made = match self.sync {
            SyncMode::Never => self.reserve(&new, bytes),
            SyncMode::EachWrite | SyncMode::OnRequest => self.write_through(&new, bytes),
        };
        if made.is_err() {
            // Its blocks are given back; if that fails too, the next start does it.
            let _unremoved = rustix::fs::unlinkat(&self.folder, &new, AtFlags::empty());
        }
        made?;
        let _passage = self.gate.enter();
        self.rename(&new, segment)?;
        self.set_written(segment, 0);
        Ok(())
    }

    /// Removes a segment and its footer; they may be gone already.
    pub(crate) fn remove(&self, segment: SegmentId) -> Result<(), DiskError> {
        self.remove_footer(segment)?;
        self.made().remove(&segment);
        self.unlink(&file_name(segment, SEGMENT_SUFFIX))?;
        self.sync_names()
    }

    fn remove_footer(&self, segment: SegmentId) -> Result<(), DiskError> {
        self.unlink(&file_name(segment, FOOTER_SUFFIX))
    }

    /// Removes a file, which may be gone already.
    fn unlink(&self, name: &str) -> Result<(), DiskError> {
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(disk_error("remove", &self.path.join(name), error)),
        }
    }

    /// Writes the footer of a segment, as a new file: a backup may have linked the old one.
    pub(crate) fn write_footer(&self, segment: SegmentId, bytes: &[u8]) -> Result<(), DiskError> {
        self.open_segment(segment, OFlags::RDONLY)?;
        self.remove_footer(segment)?;
        let (name, path) = (file_name(segment, FOOTER_SUFFIX), self.footer_path(segment));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| disk_error("create", &path, error))?;
        let written = File::from(file).write_all_at(bytes, 0).map_err(|error| disk_error("write", &path, error));
        if written.is_err() {
            // A part of a footer is none: if it cannot be removed either, its checksum says so.
            let _unremoved = self.remove_footer(segment);
        }
        written
    }

    /// A backup may have linked a segment: its bytes must not change then.
    fn is_recyclable(&self, segment: SegmentId, bytes: u64) -> Result<bool, DiskError> {
        let path = self.segment_path(segment);
        match self.open_segment(segment, OFlags::RDONLY) {
            Ok(file) => {
                let metadata = file.metadata().map_err(|error| disk_error("look at", &path, error))?;
                Ok(metadata.len() == bytes && metadata.nlink() == 1)
            }
            Err(error) if error.kind == DiskErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates a file whose blocks are reserved, so that no later write lacks space.
    fn reserve(&self, name: &str, bytes: u64) -> Result<(), DiskError> {
        let (file, path) = self.create(name)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            // A file system that cannot reserve.
            Err(Errno::OPNOTSUPP) => self.write_through(name, bytes),
            Err(error) => Err(disk_error("reserve the blocks of", &path, error)),
        }
    }

    fn create(&self, name: &str) -> Result<(File, PathBuf), DiskError> {
        let path = self.path.join(name);
        let direct = if self.is_direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC | direct;
        let file = rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| disk_error("create", &path, error))?;
        Ok((File::from(file), path))
    }

    /// Creates a file and writes all of it, so that its blocks exist and are not marked as unwritten.
    fn write_through(&self, name: &str, bytes: u64) -> Result<(), DiskError> {
        let (file, path) = self.create(name)?;
        let zeros = AlignedBuffer::new(MAKE_BYTES);
        let mut at = 0;
        while at < bytes {
            let len = (bytes - at).min(MAKE_BYTES as u64);
            file.write_all_at(&zeros[..len as usize], at).map_err(|error| disk_error("write", &path, error))?;
            at += len;
        }
        file.sync_all().map_err(|error| disk_error("sync", &path, error))
    }

    fn rename(&self, from: &str, to: SegmentId) -> Result<(), DiskError> {
        let name = file_name(to, SEGMENT_SUFFIX);
        rustix::fs::renameat(&self.folder, from, &self.folder, &name)
            .map_err(|error| disk_error("rename", &self.path.join(from), error))?;
        self.sync_names()
    }

    /// Makes the names in the folder durable.
    pub fn sync_names(&self) -> Result<(), DiskError> {
        if self.sync == SyncMode::Never {
            return Ok(());
        }
        self.folder.sync_all().map_err(|error| disk_error("sync", &self.path, error))
    }

    fn open_segment(&self, segment: SegmentId, flags: OFlags) -> Result<File, DiskError> {
        let name = file_name(segment, SEGMENT_SUFFIX);
        rustix::fs::openat(&self.folder, &name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(|error| disk_error("open", &self.path.join(name), error))
    }

    fn remove_unfinished(&self) -> Result<(), DiskError> {
        for segment in self.list(NEW_SUFFIX)? {
            self.unlink(&file_name(segment, NEW_SUFFIX))?;
        }
        let segments: BTreeSet<SegmentId> = self.list(SEGMENT_SUFFIX)?.into_iter().collect();
        for segment in self.list(FOOTER_SUFFIX)?.into_iter().filter(|segment| !segments.contains(segment)) {
            self.remove_footer(segment)?;
        }
        Ok(())
    }

    /// Whether the file system takes direct writes of whole blocks.
    fn probe_direct(&self) -> Result<bool, DiskError> {
        let name = "direct-io.probe";
        let path = self.path.join(name);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::DIRECT;
        let opened = rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR).map(File::from);
        let written = opened
            .map_err(std::io::Error::from)
            .and_then(|file| file.write_all_at(&AlignedBuffer::new(BLOCK_BYTES), 0));
        match rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(disk_error("remove", &path, error)),
        }
        match written {
            Ok(()) => Ok(true),
            // What a file system says that has no direct I/O.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(false),
            Err(error) => Err(disk_error("write", &path, error)),
        }
    }

    /// The segments with names of this kind. Other files are none of ours.
    fn list(&self, suffix: &str) -> Result<Vec<SegmentId>, DiskError> {
        let failed = |error: std::io::Error| disk_error("list", &self.path, error);
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            segments.extend(name.to_str().and_then(|name| parse_name(name, suffix)));
        }
        Ok(segments)
    }
}

impl SegmentReader for SegmentFolder {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        self.read_as(OFlags::RDONLY, segment, block, buffer)
    }

    fn read_footer(&mut self, segment: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        let (name, path) = (file_name(segment, FOOTER_SUFFIX), self.footer_path(segment));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.folder, &name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(disk_error("open", &path, error)),
        };
        let mut bytes = Vec::new();
        // A longer one is not read to its end, and so is none.
        let read = file.take(FOOTER_BYTES_MAX as u64).read_to_end(&mut bytes);
        read.map_err(|error| disk_error("read", &path, error))?;
        Ok(Some(bytes))
    }
}

impl SegmentFolder {
    /// Reads past the page cache, where the file system can.
    pub(crate) fn read_direct(
        &self,
        segment: SegmentId,
        block: Block,
        buffer: &mut AlignedBuffer,
    ) -> Result<usize, DiskError> {
        let direct = if self.is_direct { OFlags::DIRECT } else { OFlags::empty() };
        self.read_as(OFlags::RDONLY | direct, segment, block, buffer)
    }

    fn read_as(
        &self,
        flags: OFlags,
        segment: SegmentId,
        block: Block,
        buffer: &mut AlignedBuffer,
    ) -> Result<usize, DiskError> {
        let file = self.open_segment(segment, flags)?;
        let at = u64::from(block.0) * BLOCK_BYTES as u64;
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(disk_error(&format!("read block {} of", block.0), &self.segment_path(segment), error));
                }
            }
        }
        Ok(filled)
    }
}

/// `LL-SSSSSSSS.seg`: log and number, padded so that a listing is in order.
fn file_name(segment: SegmentId, suffix: &str) -> String {
    format!("{:02}-{:08}{suffix}", segment.log.0, segment.number.0)
}

fn parse_name(name: &str, suffix: &str) -> Option<SegmentId> {
    let (log, number) = name.strip_suffix(suffix)?.split_once('-')?;
    let segment = SegmentId { log: LogId(log.parse().ok()?), number: SegmentNumber(number.parse().ok()?) };
    (file_name(segment, suffix) == name).then_some(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_one_segment() {
        for (log, number) in [(0, 1), (7, 12_345_678), (123, 123_456_789_012)] {
            let segment = SegmentId { log: LogId(log), number: SegmentNumber(number) };
            assert_eq!(parse_name(&file_name(segment, SEGMENT_SUFFIX), SEGMENT_SUFFIX), Some(segment));
        }
        for name in
            ["", ".seg", "-.seg", "0-1.seg", "00-1.seg", "+0-00000001.seg", "00-00000001.new", "00-00000001.seg~"]
        {
            assert_eq!(parse_name(name, SEGMENT_SUFFIX), None, "{name}");
        }
    }
}
