//! A copy of a log at one moment: links to the segments that are not written any more, and a copy of the one that is.
//!
//! Enters: a closed gate.  Leaves: segments in another folder of the same file system.

use crate::error::disk_error;
use crate::folder::SegmentFolder;
use crate::write_gate::ClosedGate;
use std::fs::File;
use std::io::{Read, Write, copy};
use std::path::{Path, PathBuf};
use store::limits::BLOCK_BYTES;
use store::{DiskError, SegmentId};

/// A segment that is written to: so much of it belongs to the backup.
struct OpenSegment {
    /// A link to it, which keeps it from being made into another one.
    link: PathBuf,
    to: PathBuf,
    bytes: u64,
    segment_bytes: u64,
}

/// A backup that is complete when what was written last is copied, too.
pub struct SegmentBackup {
    open: Vec<OpenSegment>,
    links: Vec<PathBuf>,
    /// Segments of the backup.
    pub segments: u64,
}

impl SegmentFolder {
    /// Begins a backup in a folder that has nothing in it: all that is durable while the gate is closed.
    ///
    /// # Errors
    /// The system refuses it, as it does for a folder of another file system.
    pub fn begin_backup(&self, _gate: &ClosedGate<'_>, to: &Path) -> Result<SegmentBackup, DiskError> {
        let mut backup = SegmentBackup { open: Vec::new(), links: Vec::new(), segments: 0 };
        for log in self.logs()? {
            let last = self.last_written(log);
            for number in self.segments(log)? {
                let segment = SegmentId { log, number };
                let path = self.segment_path(segment);
                let name = path.file_name().unwrap_or_default();
                let link = |link: PathBuf| {
                    let linked = std::fs::hard_link(&path, &link);
                    linked.map(|()| link).map_err(|error| disk_error("link", &path, error))
                };
                match self.written(segment) {
                    // Made ahead, perhaps of one whose header shows where the log begins: it is overwritten soon.
                    Some(0) => {
                        if !copy_header(&path, &to.join(name))? {
                            continue;
                        }
                    }
                    Some(bytes) if Some(number) == last => {
                        let mut open_name = name.to_owned();
                        open_name.push(".open");
                        let metadata = path.metadata().map_err(|error| disk_error("look at", &path, error))?;
                        let (link, segment_bytes) = (link(to.join(open_name))?, metadata.len());
                        backup.open.push(OpenSegment { link, to: to.join(name), bytes, segment_bytes });
                    }
                    Some(_) | None => backup.links.push(link(to.join(name))?),
                }
                backup.segments += 1;
            }
        }
        Ok(backup)
    }
}

/// Copies the header of a segment that was made of another one. Returns whether there is one.
fn copy_header(path: &Path, to: &Path) -> Result<bool, DiskError> {
    let mut header = [0; BLOCK_BYTES];
    let mut source = File::open(path).map_err(|error| disk_error("open", path, error))?;
    source.read_exact(&mut header).map_err(|error| disk_error("read", path, error))?;
    if header.iter().all(|byte| *byte == 0) {
        return Ok(false);
    }
    let segment_bytes = source.metadata().map_err(|error| disk_error("look at", path, error))?.len();
    let made = File::options().write(true).create_new(true).open(to).and_then(|mut target| {
        target.write_all(&header)?;
        target.set_len(segment_bytes)?;
        target.sync_all()
    });
    made.map(|()| true).map_err(|error| disk_error("write", to, error))
}

impl SegmentBackup {
    /// Copies what was written last. The gate may be open again: what is written never changes.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn complete(self) -> Result<(), DiskError> {
        // A broker that syncs now and then has perhaps not synced them.
        for link in &self.links {
            let synced = File::open(link).and_then(|segment| segment.sync_all());
            synced.map_err(|error| disk_error("sync", link, error))?;
        }
        for OpenSegment { link, to, bytes, segment_bytes } in self.open {
            let source = File::open(&link).map_err(|error| disk_error("open", &link, error))?;
            let failed = |error: std::io::Error| disk_error("write", &to, error);
            let mut target = File::options().write(true).create_new(true).open(&to).map_err(failed)?;
            copy(&mut source.take(bytes), &mut target).map_err(failed)?;
            // The rest is as in a segment that was just made.
            target.set_len(segment_bytes).and_then(|()| target.sync_all()).map_err(failed)?;
            std::fs::remove_file(&link).map_err(|error| disk_error("remove", &link, error))?;
        }
        Ok(())
    }
}
