//! The store in a state folder that no broker uses, to be read.

use crate::state_folder::StateFolder;
use crate::store_file::StoreFile;
use definitions::DurableDefinitions;
use disk::SegmentFolder;
use durability::{DefinitionRecoveryError, QueueNames, RecoveredDefinitions};
use std::path::{Path, PathBuf};
use store::{
    Chain, Damage, DiskError, LogEnd, LogId, OnDamage, RecordVisitor, ScanError, ScanResult, SegmentId, SegmentNumber,
    SegmentReader, StoreTag, scan,
};

/// A store that nobody writes to while this exists.
pub struct StoppedStore {
    /// That of the definitions first.
    logs: Vec<StoredLog>,
    /// Keeps brokers out.
    _folder: StateFolder,
}

impl StoppedStore {
    /// Opens the store of a state folder.
    pub fn open(state: &Path) -> Result<StoppedStore, String> {
        let named = |why: String| format!("{}: {why}", state.display());
        let folder = StateFolder::lock_to_read(state).map_err(named)?;
        let file = StoreFile::load(&folder).map_err(named)?;
        let file = file.ok_or_else(|| named("there is no store in this folder".to_owned()))?;
        let store = StoreTag::of(file.id);
        let definitions = SegmentFolder::open_to_read(&file.definitions_path(&folder)).map_err(|error| error.text)?;
        let messages = SegmentFolder::open_to_read(&file.log_path(&folder)).map_err(|error| error.text)?;
        let mut ids = messages.logs().map_err(|error| error.text)?;
        ids.extend((0..file.logs).map(|log| LogId(log.into())));
        ids.sort_unstable();
        ids.dedup();
        let mut logs = vec![StoredLog::open("definitions".to_owned(), &definitions, store, durability::JOURNAL_LOG)?];
        for id in ids {
            logs.push(StoredLog::open(format!("{} {}", file.log_folder, id.0), &messages, store, id)?);
        }
        Ok(StoppedStore { logs, _folder: folder })
    }

    /// What the journal of the definitions comes to, as far as it can be read.
    pub fn definitions(&self) -> Result<DurableDefinitions, String> {
        self.recover_definitions().map(|found| found.definitions).map_err(|error| error.to_string())
    }

    /// The queues that messages may be of, with their names as far as these are known.
    pub fn queue_names(&self) -> QueueNames {
        let found = self.recover_definitions();
        found
            .map_or_else(|_| QueueNames::unknown(), |found| QueueNames::of(&found.definitions, found.damage.is_empty()))
    }

    fn recover_definitions(&self) -> Result<RecoveredDefinitions, DefinitionRecoveryError> {
        let StoredLog { files, segments, start, .. } = &self.logs[0];
        durability::recover_definitions(start.store, segments.clone(), OnDamage::Skip, &mut files.clone())
    }

    pub fn logs(&self) -> &[StoredLog] {
        &self.logs
    }
}

/// A log in its folder.
pub struct StoredLog {
    name: String,
    files: SegmentFolder,
    start: Chain,
    segments: Vec<SegmentNumber>,
}

impl StoredLog {
    fn open(name: String, files: &SegmentFolder, store: StoreTag, id: LogId) -> Result<StoredLog, String> {
        let segments = files.segments(id).map_err(|error| error.text)?;
        Ok(StoredLog { name, files: files.clone(), start: LogEnd::empty(store, id).chain, segments })
    }

    /// How it is named to people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number. The log of the definitions has that of the first log of messages, and no messages.
    pub fn id(&self) -> LogId {
        self.start.log
    }

    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Reads all of it.
    pub fn scan(&self, visitor: &mut impl RecordVisitor) -> Result<ScanResult, ScanError> {
        scan(self.start, self.segments.clone(), OnDamage::Skip, &mut self.files.clone(), visitor)
    }

    /// What its damage has taken, if it has messages.
    pub fn losses(&self, names: &QueueNames) -> Result<Vec<String>, ScanError> {
        let (Chain { store, log, .. }, mut files) = (self.start, self.files.clone());
        durability::describe_losses(&mut files, store, log, self.segments.clone(), names)
    }

    /// Where it begins.
    pub fn start(&self) -> &Chain {
        &self.start
    }

    /// The bytes of a segment's footer, if it has one.
    pub fn footer(&self, segment: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        self.files.clone().read_footer(segment)
    }

    pub fn footer_path(&self, segment: SegmentId) -> PathBuf {
        self.files.footer_path(segment)
    }

    /// What is damaged, with the file.
    pub fn describe(&self, damage: &Damage) -> String {
        format!("{}: {damage}", self.files.segment_path(damage.segment).display())
    }
}
