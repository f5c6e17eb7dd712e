//! A disk of a guest over the kernel's device mapper, whose table is changed while the guest runs.

use super::PATIENCE;
use super::file_system::FileSystem;
use super::guest_broker::GuestDisk;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// The device that is mounted.
const DEVICE: &str = "disk";
/// There is no udev in the guest: `dmsetup` makes the device's file.
const LINEAR: &str = r#"
    export DM_DISABLE_UDEV=1 && modprobe -a dm-mod dm-flakey &&
        dmsetup create disk --table "0 $(blockdev --getsz /dev/vda) linear /dev/vda 0" && dmsetup mknodes && device=/dev/mapper/disk
"#;
const RECORDED: &str = r#"
    export DM_DISABLE_UDEV=1 && modprobe -a dm-mod dm-log-writes &&
        dmsetup create disk --table "0 $(blockdev --getsz /dev/vda) log-writes /dev/vda /dev/vdb" &&
        dmsetup mknodes && device=/dev/mapper/disk
"#;
/// The log is complete when the device is gone.
const END_OF_RECORD: &str = "umount /disk && dmsetup remove disk || status=98";
/// A file that shows that the file system took writes when the broker had ended.
pub const WRITTEN_BEHIND: &str = "behind";
const WRITE_BEHIND: &str = "echo written >/disk/behind; sync /disk/behind";

/// What a part of a disk does wrong.
#[derive(Clone, Copy)]
pub enum MappedFault {
    /// Writes fail, from now on.
    WriteErrors,
    WriteErrorsEveryOtherSecond,
    /// Writes are said to be done, and are not.
    LosesWrites,
    /// Reads and writes fail.
    Errors,
}

impl MappedFault {
    /// A line of a table, for so many sectors at the same place of the disk below. For `flakey` the numbers are seconds without and
    /// with the fault.
    fn target(self, start: u64) -> String {
        match self {
            MappedFault::WriteErrors => format!("flakey /dev/vda {start} 0 3600 1 error_writes"),
            MappedFault::WriteErrorsEveryOtherSecond => format!("flakey /dev/vda {start} 1 1 1 error_writes"),
            MappedFault::LosesWrites => format!("flakey /dev/vda {start} 0 3600 1 drop_writes"),
            MappedFault::Errors => "error".to_owned(),
        }
    }
}

/// A part of a disk, in sectors of 512 bytes.
#[derive(Clone, Copy)]
pub struct Extent {
    start: u64,
    sectors: u64,
}

pub struct MappedDisk {
    folder: PathBuf,
    file_system: FileSystem,
    sectors: u64,
    is_recorded: bool,
    options: &'static str,
    listener: UnixListener,
    /// To the guest, once it has started.
    control: Mutex<Option<BufReader<UnixStream>>>,
}

impl MappedDisk {
    /// A disk with an empty file system, in this folder.
    pub fn new(folder: &Path, file_system: FileSystem, options: &'static str) -> Self {
        let listener = UnixListener::bind(folder.join("control")).expect("a socket in the folder");
        let disk = MappedDisk {
            folder: folder.to_owned(),
            file_system,
            sectors: file_system.bytes() / 512,
            is_recorded: false,
            options,
            listener,
            control: Mutex::new(None),
        };
        let file = std::fs::File::create_new(disk.path()).expect("a new file");
        file.set_len(file_system.bytes()).expect("space for the disk");
        file_system.make(&disk.path());
        disk
    }

    /// The same, where a second disk of so many bytes has a log of everything that is written to the first one.
    pub fn recorded(folder: &Path, file_system: FileSystem, log_bytes: u64) -> Self {
        let disk = MappedDisk { is_recorded: true, ..MappedDisk::new(folder, file_system, "") };
        let log = std::fs::File::create_new(disk.log_path()).expect("a new file");
        log.set_len(log_bytes).expect("space for a log");
        disk
    }

    /// The file with what the disk has.
    pub fn path(&self) -> PathBuf {
        self.folder.join("disk")
    }

    /// The file with the log.
    pub fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn control(&self) -> MutexGuard<'_, Option<BufReader<UnixStream>>> {
        self.control.lock().expect("nobody panics with it")
    }

    /// Runs a command in the guest, which must succeed. Returns the lines of its output.
    pub fn run(&self, command: &str) -> Vec<String> {
        let mut control = self.control();
        let stream = control.as_mut().expect("the guest runs");
        stream.get_mut().write_all(format!("{command}\n").as_bytes()).expect("the guest runs");
        let mut answer = String::new();
        stream.read_line(&mut answer).expect("the guest answers");
        let mut words = answer.trim_end_matches('\n').split('\t').map(str::to_owned);
        assert_eq!(words.next().as_deref(), Some("0"), "{command}: {answer}");
        words.collect()
    }

    /// Marks this moment in the log: what was done before is in the log before.
    pub fn mark(&self, name: &str) {
        self.run(&format!("dmsetup message {DEVICE} 0 mark {name}"));
    }

    /// Kills the broker. Another one follows with so many shards, if any.
    pub fn kill_broker(&self, then_shards: Option<u16>) {
        let again = then_shards.map(|shards| format!("echo {shards} >/run/again; ")).unwrap_or_default();
        self.run(&format!("{again}kill -9 $(cat /run/broker)"));
    }

    /// Where files of the disk are.
    pub fn extents(&self, files: &str) -> Vec<Extent> {
        let lines = self.run(&format!("filefrag -v -b512 {files}"));
        // `  0:        0..    8191:      65536..     73727:   8192:             last,unwritten,eof`
        let extent = |line: &String| {
            let columns: Vec<&str> = line.split(':').collect();
            let _number: u64 = columns.first()?.trim().parse().ok()?;
            let start = columns.get(2)?.split("..").next()?.trim().parse().ok()?;
            let sectors = columns.get(3)?.trim().parse().ok()?;
            Some(Extent { start, sectors })
        };
        let mut extents: Vec<Extent> = lines.iter().filter_map(extent).collect();
        extents.sort_by_key(|extent| extent.start);
        assert!(!extents.is_empty(), "{files} are somewhere: {lines:?}");
        extents
    }

    /// All of it.
    pub fn whole(&self) -> Vec<Extent> {
        vec![Extent { start: 0, sectors: self.sectors }]
    }

    /// From now on these parts have a fault, and the rest is as it should be.
    pub fn map(&self, extents: &[Extent], fault: MappedFault) {
        let mut lines = Vec::new();
        let mut at = 0;
        for &Extent { start, sectors } in extents {
            if start > at {
                lines.push(format!("{at} {} linear /dev/vda {at}", start - at));
            }
            lines.push(format!("{start} {sectors} {}", fault.target(start)));
            at = start + sectors;
        }
        if at < self.sectors {
            lines.push(format!("{at} {} linear /dev/vda {at}", self.sectors - at));
        }
        let table = lines.join("\\n");
        // What the file system has not written yet waits for the table.
        self.run(&format!(
            "printf '{table}\\n' | dmsetup load {DEVICE} && dmsetup suspend --nolockfs {DEVICE} && dmsetup resume {DEVICE}"
        ));
    }

    /// Everything is as it should be again.
    pub fn heal(&self) {
        self.map(&[], MappedFault::Errors);
    }
}

impl GuestDisk for MappedDisk {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn disks(&self) -> Vec<PathBuf> {
        if self.is_recorded { vec![self.path(), self.log_path()] } else { vec![self.path()] }
    }

    fn file_system(&self) -> &str {
        self.file_system.name()
    }

    fn options(&self) -> &str {
        self.options
    }

    fn control(&self) -> Option<PathBuf> {
        Some(self.folder.join("control"))
    }

    fn prepare(&self) -> &str {
        if self.is_recorded { RECORDED } else { LINEAR }
    }

    fn finish(&self) -> &str {
        if self.is_recorded { END_OF_RECORD } else { WRITE_BEHIND }
    }

    fn is_used(&self) {
        // The guest has connected before it began.
        let (stream, _) = self.listener.accept().expect("a guest");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        *self.control() = Some(BufReader::new(stream));
    }

    /// Its processes hold its files until they are gone.
    fn after_kill(&self) {
        let mut stream = self.control().take().expect("the guest ran");
        let mut rest = String::new();
        while stream.read_line(&mut rest).is_ok_and(|bytes| bytes > 0) {}
    }
}
