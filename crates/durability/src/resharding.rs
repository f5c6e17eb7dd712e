//! Resharding: the definitions and messages of a store that nobody uses are written anew, for another number of shards, or
//! without what is damaged.
//!
//! Enters: the logs as they are, one after another.  Leaves: a log for each shard, and a journal with the queues' new homes.
//! Owns:   the new logs until they are durable.
//!
//! The old store is only read: until the new one is named in its place, nothing has happened.

use crate::definition_journal::{DefinitionJournal, JournalEvent};
use crate::definition_recovery::{JOURNAL_LOG, RecoveredDefinitions};
use crate::limits::LOSSES_LOGGED_MAX;
use crate::logged_message::QueuedMessage;
use crate::lossy_reader::LossyReader;
use crate::lost_messages::{QueueNames, describe_losses};
use crate::message_recovery::LogSource;
use crate::message_store::{MessageStore, MessageStoreOptions, StoreSync, queue_of};
use crate::store_opening::{StoreOpenError, read_definitions};
use crate::store_options::StoreOptions;
use catalog::{Catalog, CatalogLimits, QueueUid};
use definitions::DurableDefinitions;
use disk::{Disk, FileDisk, SegmentFolder};
use queues::delayed_record::delaying_shard;
use queues::{AppendResult, Message, QueuePosition};
use slab::{Pool, PoolOptions};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use store::limits::MARK_DELAY_US;
use store::{
    Damage, DiskError, DiskErrorKind, FoundMessage, FoundPage, LiveTotals, LogEnd, LogId, OnDamage, Position,
    RecoveredLog, RecoverySink, ScanError, SegmentReader, StoreTag, StoredMessage, recover,
};

/// Where a store is written anew: empty folders.
#[derive(Clone, Debug)]
pub struct ReshardTarget {
    pub definitions_folder: PathBuf,
    pub log_folder: PathBuf,
    /// One for each shard.
    pub logs: u16,
}

/// The new logs while messages are copied to them.
pub struct Resharding {
    stores: Vec<MessageStore>,
    /// The log of each queue that exists.
    homes: HashMap<QueueUid, usize>,
    pool: Pool,
    messages: u64,
}

impl Resharding {
    /// Copies messages to these logs, which are empty, for queues with the homes that the definitions give them.
    pub fn new(stores: Vec<MessageStore>, definitions: &DurableDefinitions) -> Self {
        let homes = definitions.queues().map(|(_, _, queue)| (queue.uid, usize::from(queue.home))).collect();
        Resharding { stores, homes, pool: Pool::new(PoolOptions::default()), messages: 0 }
    }

    /// The log of a queue; delayed messages go where the shard of this number will look for them.
    fn home(&self, queue: store::QueueUid) -> Option<usize> {
        let uid = queue_of(queue)?;
        let delayed = || Some(usize::from(delaying_shard(uid)?.0) % self.stores.len());
        self.homes.get(&uid).copied().or_else(delayed)
    }

    /// Copies what is alive of a log; `wait` waits until a disk has done something.
    ///
    /// # Errors
    /// The log cannot be read, or is damaged and damage is not to be skipped. What a new log could not take is told at the end.
    pub fn copy<R: SegmentReader>(
        &mut self,
        source: LogSource<'_, R>,
        wait: &mut dyn FnMut(),
    ) -> Result<RecoveredLog, ScanError> {
        let LogSource { reader, store, log, segments, on_damage, paging_threshold: _ } = source;
        recover(reader, store, log, segments, on_damage, &mut LogCopy { to: self, wait })
    }

    /// Makes the copies durable. Returns how many messages there are.
    ///
    /// # Errors
    /// A disk has failed, or is full.
    pub fn finish(mut self, wait: &mut dyn FnMut()) -> Result<u64, DiskError> {
        for store in &mut self.stores {
            if !store.close(0, 0, &mut *wait) {
                let text = "there is no space for the new logs".to_owned();
                return Err(store.failure().cloned().unwrap_or(DiskError { kind: DiskErrorKind::NoSpace, text }));
            }
        }
        Ok(self.messages)
    }
}

/// Copies what is found in one log.
struct LogCopy<'a> {
    to: &'a mut Resharding,
    wait: &'a mut dyn FnMut(),
}

impl RecoverySink for LogCopy<'_> {
    type Message = Message;

    fn is_there(&mut self, queue: store::QueueUid) -> bool {
        self.to.home(queue).is_some()
    }

    /// All of them: pages cannot be copied.
    fn is_loaded(&mut self, _: store::QueueUid, _: LiveTotals, _: LiveTotals) -> bool {
        true
    }

    fn message(&mut self, message: &StoredMessage<'_>) -> Message {
        QueuedMessage::read(message, &self.to.pool).0
    }

    fn restore(&mut self, queue: store::QueueUid, position: Position, message: Message, found: FoundMessage) {
        let (Some(uid), Some(home)) = (queue_of(queue), self.to.home(queue)) else { return };
        let (store, position) = (&mut self.to.stores[home], QueuePosition(position.0));
        if let AppendResult::Pending(ticket) = store.append(uid, position, message) {
            store.await_durable(ticket);
        }
        if found.was_delivered {
            store.mark_delivered(uid, position, 1);
        }
        if found.times_returned > 0 {
            store.mark_returned(uid, position, found.times_returned);
        }
        self.to.messages += 1;
        while store.is_congested() {
            store.complete(0);
            store.submit(0, 0);
            if store.is_congested() {
                (self.wait)();
            }
        }
    }

    fn restore_page(&mut self, queue: store::QueueUid, _: FoundPage) {
        unreachable!("the messages of {queue:?} are loaded");
    }

    /// Positions go on behind those that are alive: the new log knows no others.
    fn finish(&mut self, _queue: store::QueueUid, _next: &[Position]) {}

    fn on_damage(&mut self, damage: &Damage) {
        tracing::error!(%damage, "messages are lost");
    }
}

/// Writes a journal of these definitions, the first one of its folder.
///
/// # Errors
/// The catalog refuses a definition, or the disk has failed or is full.
pub fn write_definitions(
    definitions: DurableDefinitions,
    store: StoreTag,
    disk: Box<dyn Disk>,
    limits: &CatalogLimits,
    salt: &mut dyn FnMut() -> [u8; 4],
    wait: &mut dyn FnMut(),
) -> Result<(), StoreOpenError> {
    let mut catalog = Catalog::new(limits.clone());
    definitions.restore(&mut catalog).map_err(StoreOpenError::Restore)?;
    let end = LogEnd::empty(store, JOURNAL_LOG);
    let empty = RecoveredDefinitions { definitions, end, damage: Vec::new(), unreadable_end: None, is_new: true };
    let mut journal = DefinitionJournal::new(&empty, disk);
    let mut now_us = 0;
    loop {
        while let Some(event) = journal.poll(&mut catalog, now_us, salt) {
            if let JournalEvent::NoSpace(error) | JournalEvent::Failed(error) = event {
                return Err(error.into());
            }
        }
        if journal.has_work() {
            continue;
        }
        if journal.is_busy() {
            wait();
        } else if now_us == 0 {
            // The mark is due that proves the last group.
            now_us = MARK_DELAY_US;
        } else {
            assert!(journal.durable_version().is_some(), "a journal without requests has written its snapshot");
            return Ok(());
        }
    }
}

/// What the threads of the new logs' disks call, and what waits for it.
fn completions() -> (impl Fn() -> disk::Wake, Receiver<()>) {
    let (sender, receiver) = sync_channel(1);
    let wake = move || {
        let sender = sender.clone();
        // One that has not been seen stands for all.
        Box::new(move || _ = sender.try_send(())) as disk::Wake
    };
    (wake, receiver)
}

fn log_losses(losses: &[String]) {
    for loss in losses.iter().take(LOSSES_LOGGED_MAX) {
        tracing::error!(%loss, "damage has taken messages");
    }
    let more = losses.len().saturating_sub(LOSSES_LOGGED_MAX);
    if more > 0 {
        tracing::error!(more, "damage has taken more messages");
    }
}

/// Writes the store of a broker anew, for another number of shards or without what cannot be read. Returns how many messages it
/// has. `salt` is for passwords that are not hashed yet.
///
/// # Errors
/// The store cannot be read, is damaged and damage is not to be skipped, or the new one cannot be written.
pub fn reshard(
    options: &StoreOptions,
    to: &ReshardTarget,
    limits: &CatalogLimits,
    salt: &mut dyn FnMut() -> [u8; 4],
) -> Result<u64, StoreOpenError> {
    let (wake, receiver) = completions();
    let mut wait = || receiver.recv().expect("it has a sender of its own");
    let found = read_definitions(options, &SegmentFolder::open(&options.definitions_folder)?)?;
    for damage in &found.damage {
        tracing::error!(%damage, "definitions are lost");
    }
    let names = QueueNames::of(&found.definitions, found.damage.is_empty());
    let mut definitions = found.definitions;
    if to.logs != options.logs {
        definitions.spread_over(to.logs);
    }

    let new_folder = SegmentFolder::open(&to.log_folder)?;
    let message_options =
        MessageStoreOptions { sync: StoreSync::Always, group_delay_us: 0, disk_free_limit: 0, ..options.messages() };
    let stores = (0..to.logs).map(|number| {
        let log = LogId(number.into());
        let disk = FileDisk::start(new_folder.clone(), &format!("new-log-{number}"), wake())?;
        Ok(MessageStore::new(RecoveredLog::empty(options.tag(), log), Box::new(disk), message_options))
    });
    let mut resharding = Resharding::new(stores.collect::<Result<_, DiskError>>()?, &definitions);
    let folder = SegmentFolder::open(&options.log_folder)?;
    let (store, on_damage): (StoreTag, OnDamage) = (options.tag(), options.on_damage());
    let mut reader = LossyReader::new(folder.clone(), on_damage);
    for number in 0..options.logs {
        let log = LogId(number.into());
        folder.sync(log)?;
        let segments = folder.segments(log)?;
        let as_error = |error| StoreOpenError::Log { folder: options.log_folder.display().to_string(), error };
        let source =
            LogSource { reader: &mut reader, store, log, segments: segments.clone(), on_damage, paging_threshold: 0 };
        let copied = resharding.copy(source, &mut wait).map_err(as_error)?;
        if !copied.damage.is_empty() {
            let losses = describe_losses(&mut reader, store, log, segments, &names).map_err(as_error)?;
            log_losses(&losses);
        }
    }
    let messages = resharding.finish(&mut wait)?;

    let definitions_folder = SegmentFolder::open(&to.definitions_folder)?;
    let disk = FileDisk::start(definitions_folder, "new-definitions", wake())?;
    write_definitions(definitions, options.tag(), Box::new(disk), limits, salt, &mut wait)?;
    Ok(messages)
}
