//! Symbolic links in the folder of a store: whoever can put one there has nothing else written or read through it.

use disk::{Disk, FileDisk, SegmentFolder};
use std::fs::FileType;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use store::limits::{BLOCK_BYTES, SEGMENT_BYTES_MIN};
use store::{AlignedBuffer, Block, Completion, DiskError, LogId, Request, SegmentId, SegmentNumber, SegmentReader};

const SEGMENT: SegmentId = SegmentId { log: LogId(3), number: SegmentNumber(1) };
const SEGMENT_FILE: &str = "03-00000001.seg";
const FOOTER_FILE: &str = "03-00000001.foot";
const NEW_FILE: &str = "03-00000001.new";
const PROBE_FILE: &str = "direct-io.probe";

/// What is in the file that links lead to.
const UNTOUCHED: &[u8] = b"somebody else's";

/// Longer than anything here takes on a loaded machine: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

type OpenFolder = fn(&Path) -> Result<SegmentFolder, DiskError>;

/// A folder for a store, and beside it a file that links lead to.
struct LinkedFolder {
    folder: tempfile::TempDir,
    target: PathBuf,
}

impl LinkedFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("target");
        std::fs::write(&target, UNTOUCHED).expect("written");
        std::fs::create_dir(folder.path().join("log")).expect("a folder");
        LinkedFolder { folder, target }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn link(&self, name: &str) {
        symlink(&self.target, self.log().join(name)).expect("a link");
    }

    /// What of a name is there, and no link is followed.
    fn file_type(&self, name: &str) -> Option<FileType> {
        Some(std::fs::symlink_metadata(self.log().join(name)).ok()?.file_type())
    }

    fn target_is_untouched(&self) {
        assert_eq!(std::fs::read(&self.target).expect("it is there"), UNTOUCHED);
    }
}

/// A disk and what wakes its owner.
struct WokenDisk {
    disk: FileDisk,
    woken: Receiver<()>,
}

impl WokenDisk {
    fn start(open: OpenFolder, path: &Path) -> Self {
        let (wake, woken) = channel();
        let segments = open(path).expect("a folder that can be opened");
        // Once the test is over nobody listens.
        let wake = Box::new(move || wake.send(()).unwrap_or_default());
        WokenDisk { disk: FileDisk::start(segments, "disk-3", wake).expect("a thread"), woken }
    }

    fn carry_out(&mut self, request: Request) -> Completion {
        self.disk.submit(request);
        loop {
            if let Some(completion) = self.disk.poll() {
                return completion;
            }
            self.woken.recv_timeout(PATIENCE).expect("its thread wakes its owner");
        }
    }

    fn make(&mut self) -> Result<(), DiskError> {
        let blocks = (SEGMENT_BYTES_MIN / BLOCK_BYTES as u64) as u32;
        let made = self.carry_out(Request::Make { segment: SEGMENT, blocks, from: None });
        let Completion::Made { result, .. } = made else { panic!("another completion") };
        result
    }
}

/// The ways in which a broker opens a folder that it writes to.
const WAYS: [OpenFolder; 2] = [SegmentFolder::open, SegmentFolder::open_volatile];

#[test]
fn a_link_at_the_name_of_a_new_segment_is_refused_and_removed() {
    for open in WAYS {
        let folder = LinkedFolder::new();
        let mut disk = WokenDisk::start(open, &folder.log());
        folder.link(NEW_FILE);
        disk.make().expect_err("the link is not followed");
        folder.target_is_untouched();
        assert!(folder.file_type(NEW_FILE).is_none() && folder.file_type(SEGMENT_FILE).is_none());
        disk.make().expect("the next one is made");
        assert!(folder.file_type(SEGMENT_FILE).is_some_and(|kind| kind.is_file()));
    }
}

#[test]
fn links_that_are_there_when_a_folder_is_opened_are_not_followed() {
    for open in WAYS {
        // A segment that was never made to the end is removed, and so is a link of its name.
        let folder = LinkedFolder::new();
        folder.link(NEW_FILE);
        open(&folder.log()).expect("it is opened");
        assert!(folder.file_type(NEW_FILE).is_none());
        folder.target_is_untouched();
        // The file that tells whether direct writes are possible is the folder's own.
        folder.link(PROBE_FILE);
        let error = open(&folder.log()).err().expect("refused");
        assert!(error.to_string().contains(PROBE_FILE), "{error}");
        folder.target_is_untouched();
        open(&folder.log()).expect("the link is gone");
        folder.target_is_untouched();
    }
}

#[test]
fn a_link_at_the_name_of_a_segment_or_its_footer_is_no_segment_and_no_footer() {
    let folder = LinkedFolder::new();
    let mut disk = WokenDisk::start(SegmentFolder::open, &folder.log());
    folder.link(SEGMENT_FILE);
    for is_direct in [false, true] {
        let (block, buffer) = (Block(0), AlignedBuffer::new(BLOCK_BYTES));
        let read = disk.carry_out(Request::Read { segment: SEGMENT, block, buffer, is_direct });
        assert!(matches!(read, Completion::Read { result: Err(_), .. }), "{read:?}");
    }
    let footer = || Request::WriteFooter { segment: SEGMENT, bytes: b"a footer".to_vec() };
    let refused = disk.carry_out(footer());
    assert!(matches!(refused, Completion::FooterWritten { result: Err(_), .. }), "{refused:?}");
    // A segment that is made takes the place of the link, and so does its footer.
    disk.make().expect("a segment");
    folder.link(FOOTER_FILE);
    let mut segments = SegmentFolder::open_to_read(&folder.log()).expect("the folder");
    segments.read_footer(SEGMENT).expect_err("the link is not followed");
    let written = disk.carry_out(footer());
    assert!(matches!(written, Completion::FooterWritten { result: Ok(()), .. }), "{written:?}");
    for name in [SEGMENT_FILE, FOOTER_FILE] {
        assert!(folder.file_type(name).is_some_and(|kind| kind.is_file()), "{name}");
    }
    folder.target_is_untouched();
}
