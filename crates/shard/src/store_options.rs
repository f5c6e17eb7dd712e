//! Where the store of a broker is, and how it is used.

use crate::message_store::{MessageStoreOptions, StoreSync};
use catalog::Definition;
use std::path::PathBuf;
use store::{OnDamage, StoreTag};

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
    /// Free bytes of the disk below which publishers are held back.
    pub disk_free_limit: u64,
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

    pub(crate) fn messages(&self) -> MessageStoreOptions {
        MessageStoreOptions {
            segment_bytes: self.segment_bytes,
            sync: self.sync,
            disk_free_limit: self.disk_free_limit,
        }
    }
}
