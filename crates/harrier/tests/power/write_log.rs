//! The log of the kernel's device-mapper target `log-writes` (Linux, Documentation/admin-guide/device-mapper/log-writes.rst and
//! drivers/md/dm-log-writes.c): everything that was written to a disk, and when it was flushed.
//!
//! Enters: the device that has the log.  Leaves: entries in their order, and where the marks are.
//! A write enters it when it is done if it is forced to the disk by itself, and else with the flush that came next: what a disk
//! may lose at an entry are the writes before it that no flush follows. Writes that are in the log behind an entry may have been
//! done before it; they are left out, as a disk may lose them.

use super::cached_disk::CachedDisk;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const HEADER_BYTES: usize = 28;
const ENTRY_BYTES: usize = 32;
const FLUSH: u64 = 1;
const FORCE_UNIT_ACCESS: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;
/// What the target writes last of all: all that was done to the disk is in the log.
const END_MARK: &str = "dm-log-writes-end";
/// A test's log has fewer.
const ENTRIES_MAX: u64 = 1_000_000;
/// A write of the guest is shorter.
const WRITE_BYTES_MAX: u64 = 32 << 20;

struct LoggedWrite {
    /// Where on the disk, and how much.
    offset: u64,
    bytes: u64,
    /// Where in the log's file.
    logged_at: u64,
    is_flush: bool,
    is_durable: bool,
}

pub struct WriteLog {
    file: File,
    entries: Vec<LoggedWrite>,
    /// The number of the entry that each is.
    marks: BTreeMap<String, usize>,
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl WriteLog {
    /// Reads a log that is complete.
    pub fn open(path: &Path) -> Self {
        let file = File::open(path).expect("the log");
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).expect("a log's header");
        assert_eq!((number(&header, 0), number(&header, 8)), (MAGIC, VERSION), "a log of a version that is known");
        let entries = number(&header, 16);
        assert!(entries < ENTRIES_MAX, "{entries} entries");
        let sector_bytes = u64::from(u32::from_le_bytes(header[24..].try_into().expect("four bytes")));
        let mut log = WriteLog { file, entries: Vec::new(), marks: BTreeMap::new() };
        let mut at = sector_bytes;
        for index in 0..entries as usize {
            let mut entry = [0; ENTRY_BYTES];
            log.file.read_exact_at(&mut entry, at).expect("an entry");
            let [sector, sectors, flags, mark_bytes] = [0, 8, 16, 24].map(|field| number(&entry, field));
            assert!(
                flags & DISCARD == 0,
                "entry {index}: nothing is discarded on a disk whose file system is not told to"
            );
            let bytes = sectors * sector_bytes;
            assert!(bytes <= WRITE_BYTES_MAX, "entry {index} of {bytes} bytes");
            if flags & MARK != 0 {
                assert!(ENTRY_BYTES as u64 + mark_bytes <= sector_bytes, "entry {index}: a mark has a sector");
                let mut mark = vec![0; mark_bytes as usize];
                log.file.read_exact_at(&mut mark, at + ENTRY_BYTES as u64).expect("a mark");
                let mark = String::from_utf8_lossy(&mark).trim_end_matches('\0').to_owned();
                assert!(log.marks.insert(mark, index).is_none(), "entry {index}: each mark is there once");
            }
            log.entries.push(LoggedWrite {
                offset: sector * sector_bytes,
                bytes,
                logged_at: at + sector_bytes,
                is_flush: flags & FLUSH != 0,
                is_durable: flags & FORCE_UNIT_ACCESS != 0,
            });
            at += sector_bytes + bytes;
        }
        assert!(log.marks.remove(END_MARK) == Some(log.entries.len() - 1), "the log had space for everything");
        log
    }

    /// Its entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry that a mark is.
    pub fn mark(&self, name: &str) -> usize {
        *self.marks.get(name).unwrap_or_else(|| panic!("mark {name} is in the log: {:?}", self.marks))
    }

    /// Writes that are forced to the disk by themselves, flushes, and other writes.
    pub fn told(&self) -> String {
        let writes = self.entries.iter().filter(|entry| entry.bytes > 0);
        let (durable, other): (Vec<_>, Vec<_>) = writes.partition(|entry| entry.is_durable);
        let flushes = self.entries.iter().filter(|entry| entry.is_flush).count();
        format!("{} forced writes, {} others, {flushes} flushes", durable.len(), other.len())
    }

    /// Does to a disk what an entry tells of.
    pub fn replay(&self, entry: usize, disk: &mut CachedDisk) {
        let LoggedWrite { is_flush, is_durable, .. } = self.entries[entry];
        if is_flush {
            disk.flush();
        }
        self.write(entry, disk, is_durable);
    }

    /// Does what an entry tells of, and the power fails before that is certain.
    pub fn replay_without_end(&self, entry: usize, disk: &mut CachedDisk) {
        self.write(entry, disk, false);
    }

    fn write(&self, entry: usize, disk: &mut CachedDisk, is_durable: bool) {
        let LoggedWrite { offset, bytes, logged_at, .. } = self.entries[entry];
        if bytes > 0 {
            let mut written = vec![0; bytes as usize];
            self.file.read_exact_at(&mut written, logged_at).expect("what was written");
            disk.write(offset, &written, is_durable).expect("the disk is as large as the one that was recorded");
        }
    }
}
