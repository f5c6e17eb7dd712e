//! Opening the store of a broker: its folders, and the log of each shard.

use crate::definition_journal::DefinitionJournal;
use crate::definition_recovery::{DefinitionRecoveryError, JOURNAL_LOG, RecoveredDefinitions, recover_definitions};
use crate::limits::LOSSES_IN_ERROR_MAX;
use crate::lossy_reader::LossyReader;
use crate::lost_messages::{QueueNames, describe_losses};
use crate::message_recovery::LogSource;
use crate::message_store::MessageStore;
use crate::store_backup::StoreBackup;
use crate::store_options::StoreOptions;
use catalog::{Catalog, Definition, ShardId};
use definitions::RestoreFault;
use disk::{FileDisk, SegmentFolder, WriteGate};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::{DiskError, LogId, RecoveredLog, ScanError};

/// Why a store cannot be used.
#[derive(Debug)]
pub enum StoreOpenError {
    /// A log is damaged, or is not this store's.
    Log {
        folder: String,
        error: ScanError,
    },
    /// A log of messages is damaged, which concerns these.
    Messages {
        folder: String,
        error: ScanError,
        losses: Vec<String>,
    },
    Disk(DiskError),
    /// The journal of definitions is damaged, or does not say what is defined.
    Definitions {
        folder: String,
        error: DefinitionRecoveryError,
    },
    /// What was defined cannot be defined any more.
    Restore(RestoreFault),
}

impl std::fmt::Display for StoreOpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreOpenError::Log { folder, error: ScanError::Damaged(damage) } => {
                write!(f, "{folder}: {damage} (--store-lose-damaged starts without what they had)")
            }
            StoreOpenError::Log { folder, error: ScanError::Disk(error) } => {
                write!(f, "{folder}: {error} (--store-lose-damaged starts without what cannot be read)")
            }
            StoreOpenError::Log { folder, error } => write!(f, "{folder}: {error}"),
            StoreOpenError::Messages { folder, error, losses } => {
                write!(f, "{folder}: {error} (--store-lose-damaged starts without what they had)")?;
                losses.iter().take(LOSSES_IN_ERROR_MAX).try_for_each(|loss| write!(f, "; {loss}"))?;
                let more = losses.len().saturating_sub(LOSSES_IN_ERROR_MAX);
                if more > 0 { write!(f, "; and {more} more, which harrier store check names") } else { Ok(()) }
            }
            StoreOpenError::Disk(error) => error.fmt(f),
            StoreOpenError::Definitions { folder, error } => write!(f, "{folder}: {error}"),
            StoreOpenError::Restore(fault) => fault.fmt(f),
        }
    }
}

impl From<DiskError> for StoreOpenError {
    fn from(error: DiskError) -> Self {
        StoreOpenError::Disk(error)
    }
}

/// What all shards have found.
#[derive(Default)]
struct RecoveryTotals {
    messages: AtomicU64,
}

/// What the journal of a store says is defined.
pub(crate) fn read_definitions(
    options: &StoreOptions,
    folder: &SegmentFolder,
) -> Result<RecoveredDefinitions, StoreOpenError> {
    folder.sync(JOURNAL_LOG)?;
    let segments = folder.segments(JOURNAL_LOG)?;
    let mut reader = LossyReader::new(folder.clone(), options.on_damage());
    recover_definitions(options.tag(), segments, options.on_damage(), &mut reader).map_err(|error| {
        StoreOpenError::Definitions { folder: options.definitions_folder.display().to_string(), error }
    })
}

/// What a shard has of a store.
pub struct ShardStore {
    pub messages: MessageStore,
    /// Of definitions, on shard 0.
    pub journal: Option<DefinitionJournal>,
}

/// The store of a broker, opened: every shard recovers its own log.
#[derive(Clone)]
pub struct OpenStore {
    options: Arc<StoreOptions>,
    definitions_folder: SegmentFolder,
    definitions: Arc<RecoveredDefinitions>,
    folder: SegmentFolder,
    spill_folder: SegmentFolder,
    totals: Arc<RecoveryTotals>,
    gate: WriteGate,
}

impl OpenStore {
    /// Opens the folders, and reads the definitions.
    pub fn open(options: StoreOptions, shards: u16) -> Result<Self, StoreOpenError> {
        assert_eq!(options.logs, shards, "a store that has logs for another number of shards is resharded first");
        let gate = WriteGate::default();
        let definitions_folder = SegmentFolder::open(&options.definitions_folder)?.with_gate(gate.clone());
        let definitions = read_definitions(&options, &definitions_folder)?;
        for damage in &definitions.damage {
            tracing::error!(%damage, "definitions are lost");
        }
        if let Some(end) = definitions.unreadable_end {
            tracing::info!(%end, "the journal of definitions ends before a frame that is not whole");
        }
        let folder = SegmentFolder::open(&options.log_folder)?.with_gate(gate.clone());
        let spill_folder = SegmentFolder::open_volatile(&options.spill_folder)?;
        let (options, definitions) = (Arc::new(options), Arc::new(definitions));
        Ok(OpenStore { options, definitions_folder, definitions, folder, spill_folder, totals: Arc::default(), gate })
    }

    /// What copies the store while it is used.
    pub fn backup(&self) -> StoreBackup {
        StoreBackup::new(self.gate.clone(), vec![self.definitions_folder.clone(), self.folder.clone()])
    }

    /// What is defined over the definitions of the store; `None` if it has none, as at the first start.
    pub fn definitions_over(&self) -> Option<&[Definition]> {
        (!self.definitions.definitions.is_empty()).then_some(&*self.options.definitions)
    }

    /// Defines what was defined in an earlier life.
    pub fn restore(&self, catalog: &mut Catalog) -> Result<(), StoreOpenError> {
        self.definitions.restore(catalog).map(drop).map_err(StoreOpenError::Restore)
    }

    /// Recovers the log of a shard by `recover`, on the shard's own thread, for what is appended from then on. `wake` makes what the
    /// threads of its disks call.
    pub fn open_log(
        &self,
        shard: ShardId,
        paging_threshold: u64,
        wake: impl Fn() -> disk::Wake + Clone + Send + 'static,
        recover: impl FnOnce(LogSource<'_, SegmentFolder>) -> Result<RecoveredLog, ScanError>,
    ) -> Result<ShardStore, StoreOpenError> {
        let OpenStore { options, folder, totals, .. } = self;
        let log = LogId(shard.0.into());
        folder.sync(log)?;
        let segments = folder.segments(log)?;
        let (store, on_damage) = (options.tag(), options.on_damage());
        let mut reader = folder.clone();
        let source = LogSource { reader: &mut reader, store, log, segments, on_damage, paging_threshold };
        let recovered = recover(source).map_err(|error| self.log_error(log, error))?;
        totals.messages.fetch_add(recovered.messages, Ordering::Relaxed);
        if let Some(end) = recovered.unreadable_end {
            tracing::info!(%end, "a log ends before a frame that is not whole");
        }
        let disk = FileDisk::start(options.written_folder(folder.clone()), &format!("disk-{}", log.0), wake())?;
        let mut messages = MessageStore::new(recovered, Box::new(disk), options.messages());
        if let Some(scrub) = options.scrub_of_log() {
            messages.set_scrub(scrub);
        }
        let (spill_folder, wake_of_spill) = (self.spill_folder.clone(), wake.clone());
        messages.set_spill(Box::new(move || {
            let disk = FileDisk::start(spill_folder.clone(), &format!("spill-{}", log.0), wake_of_spill())?;
            Ok(Box::new(disk))
        }));
        messages.begin_uids(self.definitions.first_new_uid());
        let mut journal = None;
        if shard == ShardId(0) {
            let disk = FileDisk::start(self.definitions_folder.clone(), "disk-definitions", wake())?;
            let journal = journal.insert(DefinitionJournal::new(&self.definitions, Box::new(disk)));
            options.scrub_of_log().into_iter().for_each(|scrub| journal.set_scrub(scrub));
        }
        Ok(ShardStore { messages, journal })
    }

    /// Why a log cannot be recovered, with what its damage concerns.
    fn log_error(&self, log: LogId, error: ScanError) -> StoreOpenError {
        let OpenStore { options, definitions, .. } = self;
        let folder = options.log_folder.display().to_string();
        if !matches!(error, ScanError::Damaged(_)) {
            return StoreOpenError::Log { folder, error };
        }
        let names = QueueNames::of(&definitions.definitions, definitions.damage.is_empty());
        let mut reader = self.folder.clone();
        let segments = reader.segments(log).map_err(ScanError::from);
        let losses = segments.and_then(|segments| describe_losses(&mut reader, options.tag(), log, segments, &names));
        let losses = losses.unwrap_or_else(|error| vec![format!("which messages it had cannot be told: {error}")]);
        StoreOpenError::Messages { folder, error, losses }
    }

    /// Logs what was found, once all shards have recovered.
    pub fn log_recovery(&self, took: Duration) {
        let queues = self.definitions.definitions.counts().into_iter().find(|(what, _)| *what == "queues");
        let queues = queues.map(|(_, count)| count);
        let messages = self.totals.messages.load(Ordering::Relaxed);
        let (folder, took_us) = (self.options.log_folder.display(), took.as_micros() as u64);
        tracing::info!(%folder, queues, messages, took_us, "the store is open");
        if !self.folder.is_direct() {
            tracing::warn!(%folder, "the file system refuses O_DIRECT: what is written takes the system's cache as well");
        }
    }
}
