//! Opening the store of a broker: its folders, and the log of each shard.

use crate::disk_signal::DiskSignal;
use crate::message_recovery::LogSource;
use crate::message_store::MessageStore;
use crate::shard::Shard;
use crate::store_options::StoreOptions;
use disk::{FileDisk, SegmentFolder};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{DiskError, LogId, ScanError};

/// Why a store cannot be used.
#[derive(Debug)]
pub enum StoreOpenError {
    /// A log is damaged, or is not this store's.
    Log {
        folder: String,
        error: ScanError,
    },
    Disk(DiskError),
    /// The broker has another number of shards than the store has logs.
    Logs {
        logs: u16,
        shards: u16,
    },
}

impl std::fmt::Display for StoreOpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreOpenError::Log { folder, error: ScanError::Damaged(damage) } => {
                write!(f, "{folder}: {damage} (--store-lose-damaged starts without what they had)")
            }
            StoreOpenError::Log { folder, error } => write!(f, "{folder}: {error}"),
            StoreOpenError::Disk(error) => error.fmt(f),
            StoreOpenError::Logs { logs, shards } => write!(
                f,
                "the store has {logs} logs, one for each shard, and the broker is to have {shards}: this cannot be changed yet"
            ),
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
pub(crate) struct RecoveryTotals {
    messages: AtomicU64,
}

/// The store of a broker, opened: every shard recovers its own log.
#[derive(Clone)]
pub(crate) struct OpenStore {
    options: Arc<StoreOptions>,
    folder: SegmentFolder,
    totals: Arc<RecoveryTotals>,
}

impl OpenStore {
    /// Opens the folders.
    pub fn open(options: StoreOptions, shards: u16) -> Result<Self, StoreOpenError> {
        if options.logs != shards {
            return Err(StoreOpenError::Logs { logs: options.logs, shards });
        }
        let folder = SegmentFolder::open(&options.log_folder)?;
        Ok(OpenStore { options: Arc::new(options), folder, totals: Arc::default() })
    }

    /// Recovers the log of a shard, on the shard's own thread, and appends to it from then on.
    pub fn attach(&self, shard: &mut Shard, signal: &Arc<DiskSignal>, now: Instant) -> Result<(), StoreOpenError> {
        let OpenStore { options, folder, totals } = self;
        let log = LogId(shard.id().0.into());
        folder.sync(log)?;
        let segments = folder.segments(log)?;
        let (store, on_damage) = (options.tag(), options.on_damage());
        let mut reader = folder.clone();
        let source = LogSource { reader: &mut reader, store, log, segments, on_damage };
        let recovered = shard
            .recover_messages(source, now)
            .map_err(|error| StoreOpenError::Log { folder: options.log_folder.display().to_string(), error })?;
        totals.messages.fetch_add(recovered.messages, Ordering::Relaxed);
        let disk = FileDisk::start(folder.clone(), &format!("disk-{}", log.0), signal.callback())?;
        shard.set_store(MessageStore::new(recovered, Box::new(disk), options.messages()));
        Ok(())
    }

    /// Logs what was found, once all shards have recovered.
    pub fn log_recovery(&self, took: Duration) {
        let messages = self.totals.messages.load(Ordering::Relaxed);
        let (folder, took_us) = (self.options.log_folder.display(), took.as_micros() as u64);
        tracing::info!(%folder, messages, took_us, "the store is open");
    }
}
