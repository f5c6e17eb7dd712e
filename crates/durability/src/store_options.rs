//! Where the store of a broker is, and how it is used.

use crate::message_store::{MessageStoreOptions, StoreSync};
use catalog::Definition;
use disk::SegmentFolder;
use std::path::PathBuf;
use store::{OnDamage, ScrubOptions, StoreTag};

/// The store of a broker: its folders exist.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub definitions_folder: PathBuf,
    pub log_folder: PathBuf,
    /// Where messages go that leave the memory: what is there is removed.
    pub spill_folder: PathBuf,
    /// Tells its segments from those of other stores.
    pub id: u128,
    /// The logs that it has: one for each shard.
    pub logs: u16,
    pub segment_bytes: u64,
    /// What a confirm waits for.
    pub sync: StoreSync,
    /// How long a group that a confirm waits for is held back, so that it has more.
    pub group_delay_us: u64,
    /// Free bytes of the disk below which publishers are held back.
    pub disk_free_limit: u64,
    /// How the logs of messages and the journal of definitions are checked while the broker runs, all of them together; not at all without it.
    pub scrub: Option<ScrubOptions>,
    /// Starts without what cannot be read. Otherwise damage is an error.
    pub loses_damaged: bool,
    /// What is defined over the definitions of the store, instead of those that a broker begins with, once it has users.
    pub definitions: Vec<Definition>,
}

impl StoreOptions {
    pub(crate) fn tag(&self) -> StoreTag {
        StoreTag::of(self.id)
    }

    pub(crate) fn on_damage(&self) -> OnDamage {
        if self.loses_damaged { OnDamage::Skip } else { OnDamage::Fail }
    }

    /// How one of the logs is scrubbed.
    pub(crate) fn scrub_of_log(&self) -> Option<ScrubOptions> {
        let scrub = self.scrub?;
        // The journal is one more.
        let logs = u64::from(self.logs) + 1;
        Some(ScrubOptions { bytes_per_s: (scrub.bytes_per_s / logs).max(1), ..scrub })
    }

    /// The folder of messages for a disk that syncs as it is to.
    pub(crate) fn written_folder(&self, folder: SegmentFolder) -> SegmentFolder {
        if matches!(self.sync, StoreSync::Later { .. }) { folder.syncing_later() } else { folder }
    }

    pub(crate) fn messages(&self) -> MessageStoreOptions {
        MessageStoreOptions {
            segment_bytes: self.segment_bytes,
            sync: self.sync,
            group_delay_us: self.group_delay_us,
            disk_free_limit: self.disk_free_limit,
        }
    }
}
