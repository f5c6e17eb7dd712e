//! The store in a state folder that no broker uses, to be read.

use crate::state_folder::StateFolder;
use disk::SegmentFolder;
use std::path::Path;
use store::limits::BLOCK_BYTES;
use store::{
    AlignedBuffer, Block, Chain, Damage, DiskError, LogEnd, LogId, OnDamage, RecordVisitor, ScanError, ScanResult,
    SegmentHeader, SegmentId, SegmentNumber, SegmentReader, StoreTag, scan,
};

/// The folders of a store.
const FOLDERS: [&str; 2] = ["definitions", "log"];

/// A store that nobody writes to while this exists.
pub struct StoppedStore {
    logs: Vec<StoredLog>,
    /// Keeps brokers out.
    _folder: StateFolder,
}

impl StoppedStore {
    /// Opens the store of a state folder.
    pub fn open(state: &Path) -> Result<StoppedStore, String> {
        let named = |why: String| format!("{}: {why}", state.display());
        let folder = StateFolder::lock_to_read(state).map_err(named)?;
        let mut logs = Vec::new();
        for name in FOLDERS.into_iter().filter(|name| state.join(name).is_dir()) {
            let files = SegmentFolder::open_to_read(&state.join(name)).map_err(|error| error.text)?;
            for id in files.logs().map_err(|error| error.text)? {
                let segments = files.segments(id).map_err(|error| error.text)?;
                logs.push(StoredLog { folder: name.to_owned(), files: files.clone(), id, segments });
            }
        }
        if logs.is_empty() {
            return Err(named("there is no store in this folder".to_owned()));
        }
        Ok(StoppedStore { logs, _folder: folder })
    }

    pub fn logs(&self) -> &[StoredLog] {
        &self.logs
    }
}

/// A log in its folder.
pub struct StoredLog {
    /// The folder's name in the state folder.
    folder: String,
    files: SegmentFolder,
    id: LogId,
    segments: Vec<SegmentNumber>,
}

impl StoredLog {
    /// How it is named to people: the log of the definitions is the only one in its folder.
    pub fn name(&self) -> String {
        if self.folder == FOLDERS[0] { self.folder.clone() } else { format!("{} {}", self.folder, self.id.0) }
    }

    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Reads all of it.
    pub fn scan(&self, visitor: &mut impl RecordVisitor) -> Result<ScanResult, ScanError> {
        let mut files = self.files.clone();
        let start = self.start(&mut files)?;
        scan(start, self.segments.clone(), OnDamage::Skip, &mut files, visitor)
    }

    /// Where the log begins. Its store is that of the first segment that says so.
    fn start(&self, files: &mut SegmentFolder) -> Result<Chain, DiskError> {
        let mut block = AlignedBuffer::new(BLOCK_BYTES);
        for &number in &self.segments {
            let filled = files.read(SegmentId { log: self.id, number }, Block(0), &mut block)?;
            if let Ok(header) = SegmentHeader::read(&block[..filled]) {
                return Ok(LogEnd::empty(header.store, self.id).chain);
            }
        }
        Ok(LogEnd::empty(StoreTag(0), self.id).chain)
    }

    /// What is damaged, with the file.
    pub fn describe(&self, damage: &Damage) -> String {
        format!("{}: {damage}", self.files.segment_path(damage.segment).display())
    }
}
