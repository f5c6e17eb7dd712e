//! A life of a broker with a store begins: definitions and messages are recovered from its disks, as the program does it.

use crate::broker_disks::{BrokerDisks, SharedDisk};
use catalog::{Catalog, Definition};
use shard::{
    DefinitionJournal, JOURNAL_LOG, LogSource, MessageStore, MessageStoreOptions, RecoveredDefinitions, Shard,
    StoreSync, recover_definitions,
};
use std::time::Instant;
use store::limits::SEGMENT_BYTES_MIN;
use store::{LogId, OnDamage, StoreTag};

/// Tells the segments of one store from those of others.
const STORE_ID: u128 = 0x5EED;

/// What the journal of a broker says is defined.
pub struct RecoveredCatalog {
    /// What every shard executes; `None` if the broker has never come so far as to store any definition.
    pub definitions: Option<Vec<Definition>>,
    journal: RecoveredDefinitions,
}

/// Reads the journal. `catalog` is empty, and of no use afterwards.
pub fn recover_catalog(disks: &BrokerDisks, mut catalog: Catalog) -> Result<RecoveredCatalog, String> {
    let mut disk = disks.definitions.clone();
    let segments = disk.segments(JOURNAL_LOG);
    let journal = recover_definitions(StoreTag::of(STORE_ID), segments, OnDamage::Fail, &mut disk)
        .map_err(|error| error.to_string())?;
    let definitions = journal.definitions.restore(&mut catalog).map_err(|fault| fault.to_string())?;
    let definitions = (!journal.definitions.is_empty()).then_some(definitions);
    Ok(RecoveredCatalog { definitions, journal })
}

/// Gives the shards what their logs have, and the disks for what is to come.
pub fn attach<'a>(
    shards: impl Iterator<Item = &'a mut Shard>,
    disks: &BrokerDisks,
    recovered: &RecoveredCatalog,
    now: Instant,
) -> Result<(), String> {
    for (number, (shard, disk)) in shards.zip(&disks.messages).enumerate() {
        attach_log(shard, number, disk.clone(), now)?;
        if number == 0 {
            let definitions = Box::new(disks.definitions.clone());
            shard.set_journal(DefinitionJournal::new(&recovered.journal, definitions));
        }
    }
    Ok(())
}

fn attach_log(shard: &mut Shard, number: usize, mut disk: SharedDisk, now: Instant) -> Result<(), String> {
    let log = LogId(number as u32);
    let (store, segments) = (StoreTag::of(STORE_ID), disk.segments(log));
    let source = LogSource { reader: &mut disk, store, log, segments, on_damage: OnDamage::Fail, paging_threshold: 0 };
    let recovered = shard.recover_messages(source, now);
    let recovered = recovered.map_err(|error| format!("the log of shard {number}: {error}"))?;
    let options = MessageStoreOptions { segment_bytes: SEGMENT_BYTES_MIN, sync: StoreSync::Always, disk_free_limit: 0 };
    shard.set_store(MessageStore::new(recovered, Box::new(disk), options));
    Ok(())
}
