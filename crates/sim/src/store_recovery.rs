//! A life of a broker with a store begins: definitions and messages are recovered from its disks, as the program does it.

use catalog::{Catalog, Definition};
use durability::{
    DefinitionJournal, JOURNAL_LOG, LogSource, MessageStore, MessageStoreOptions, RecoveredDefinitions, StoreSync,
    recover_definitions,
};
use shard::Shard;
use simdisks::{BrokerDisks, SharedDisk, store_tag};
use std::time::Instant;
use store::limits::SEGMENT_BYTES_MIN;
use store::{LogId, OnDamage, RecoveredLog};

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
    let journal =
        recover_definitions(store_tag(), segments, OnDamage::Fail, &mut disk).map_err(|error| error.to_string())?;
    let definitions = journal.restore(&mut catalog).map_err(|fault| fault.to_string())?;
    let definitions = (!journal.definitions.is_empty()).then_some(definitions);
    Ok(RecoveredCatalog { definitions, journal })
}

/// Gives the shards what their logs have, and the disks for what is to come.
pub fn attach<'a>(
    shards: impl Iterator<Item = &'a mut Shard>,
    disks: &BrokerDisks,
    recovered: &RecoveredCatalog,
    sync: StoreSync,
    now: Instant,
) -> Result<(), String> {
    let disks_of_shards = disks.messages.iter().zip(&disks.spills);
    for (number, (shard, (disk, spill))) in shards.zip(disks_of_shards).enumerate() {
        let options = message_options(disks.options().free_limit, sync);
        disk.with(|disk| disk.sync_later(matches!(sync, StoreSync::Later { .. })));
        let store = recover_log(shard, number, disk, now)?;
        let mut messages = MessageStore::new(store, Box::new(disk.clone()), options);
        messages.begin_uids(recovered.journal.first_new_uid());
        let scrub = disks.options().scrub;
        scrub.into_iter().for_each(|scrub| messages.set_scrub(scrub));
        let spill = spill.clone();
        messages.set_spill(Box::new(move || Ok(Box::new(spill.clone()))));
        shard.set_store(messages);
        if number == 0 {
            let definitions = Box::new(disks.definitions.clone());
            let mut journal = DefinitionJournal::new(&recovered.journal, definitions);
            scrub.into_iter().for_each(|scrub| journal.set_scrub(scrub));
            shard.set_journal(journal);
        }
    }
    Ok(())
}

/// What is alive in the log of a shard, and where it goes on.
fn recover_log(shard: &mut Shard, number: usize, disk: &SharedDisk, now: Instant) -> Result<RecoveredLog, String> {
    let (mut reader, log) = (disk.clone(), LogId(number as u32));
    let segments = disk.segments(log);
    let paging_threshold = shard.paging_threshold();
    let (store, on_damage) = (store_tag(), OnDamage::Fail);
    let source = LogSource { reader: &mut reader, store, log, segments, on_damage, paging_threshold };
    shard.recover_messages(source, now).map_err(|error| format!("the log of shard {number}: {error}"))
}

/// How the logs of messages are written.
pub fn message_options(disk_free_limit: u64, sync: StoreSync) -> MessageStoreOptions {
    MessageStoreOptions { segment_bytes: SEGMENT_BYTES_MIN, sync, group_delay_us: 0, disk_free_limit }
}
