//! A copy of the store of a broker that runs: what is durable at one moment.

use disk::{SegmentFolder, WriteGate};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use store::{DiskError, DiskErrorKind};

/// The folders of a store, whose disks pass one gate. Clones are the same store.
#[derive(Clone)]
pub struct StoreBackup {
    gate: WriteGate,
    folders: Vec<SegmentFolder>,
}

impl StoreBackup {
    pub(crate) fn new(gate: WriteGate, folders: Vec<SegmentFolder>) -> Self {
        StoreBackup { gate, folders }
    }

    /// Copies what is durable into a folder of the same file system, and calls `released` when the broker may write again. Until
    /// then nothing is written: of what one log says because of another the copy has both or neither. Returns how many
    /// segments it has.
    ///
    /// # Errors
    /// The system refuses it. What was made is left there.
    pub fn copy_to(&self, to: &Path, released: impl FnOnce()) -> Result<u64, DiskError> {
        let mut targets = Vec::with_capacity(self.folders.len());
        for folder in &self.folders {
            let target = to.join(folder.path().file_name().unwrap_or_default());
            std::fs::DirBuilder::new().mode(0o700).create(&target).map_err(|error| DiskError {
                kind: DiskErrorKind::Failed,
                text: format!("cannot create {}: {error}", target.display()),
            })?;
            targets.push((folder, target));
        }
        let mut begun = Vec::with_capacity(targets.len());
        let gate = self.gate.close();
        for (folder, target) in &targets {
            begun.push(folder.begin_backup(&gate, target)?);
        }
        drop(gate);
        released();
        let segments = begun.iter().map(|backup| backup.segments).sum();
        for backup in begun {
            backup.complete()?;
        }
        for (_, target) in &targets {
            SegmentFolder::open_to_read(target)?.sync_names()?;
        }
        Ok(segments)
    }
}
