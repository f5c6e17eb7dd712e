//! Recovery of the definitions: reads their journal when a broker starts.
//!
//! Enters: the segments of the journal.  Leaves: the durable definitions, where the journal goes on, and what is damaged.
//!
//! Segments in front of a complete snapshot are given back, so the journal may begin anywhere: the headers of its segments say
//! where. What is missing behind that is damage.

use crate::limits::LOST_QUEUE_UIDS_MAX;
use catalog::{Catalog, Definition, QueueUid};
use definitions::{DurableDefinitions, JournalFault, JournalReplay, RestoreFault};
use std::fmt;
use store::{
    Block, Damage, FrameHeader, FrameSequence, LogEnd, LogId, OnDamage, Record, RecordVisitor, ScanError, ScanResult,
    SegmentId, SegmentNumber, SegmentReader, StoreTag, UnreadableEnd, scan,
};

/// The journal's log, in its own folder.
pub const JOURNAL_LOG: LogId = LogId(0);

/// What a journal was found to hold.
#[derive(Debug)]
pub struct RecoveredDefinitions {
    /// What is defined.
    pub definitions: DurableDefinitions,
    /// Where the journal goes on.
    pub end: LogEnd,
    /// What was skipped.
    pub damage: Vec<Damage>,
    /// Where it ends, if a frame begins there that cannot be read.
    pub unreadable_end: Option<UnreadableEnd>,
    /// Nothing has ever been written: the broker starts for the first time.
    pub is_new: bool,
}

impl RecoveredDefinitions {
    /// Defines what was defined, for another life. Its queues get numbers that no queue of the life before can have had: one
    /// whose declaration was lost may have messages in a log, which would be those of whoever had its number next.
    ///
    /// # Errors
    /// The catalog refuses a definition.
    pub fn restore(&self, catalog: &mut Catalog) -> Result<Vec<Definition>, RestoreFault> {
        let mut executed = self.definitions.restore(catalog)?;
        let definition = Definition::NextQueueUid(self.first_new_uid());
        catalog.execute(&definition).expect("any number is taken");
        executed.push(definition);
        Ok(executed)
    }

    /// The number of the first queue that the next life declares. It stands in the journal once the first snapshot of that life
    /// is durable; before, nothing may be written of its queues ([`MessageStore::begin_uids`](crate::MessageStore::begin_uids)).
    pub fn first_new_uid(&self) -> QueueUid {
        let next = self.definitions.next_queue_uid();
        let behind = QueueUid::new(next.number().saturating_add(LOST_QUEUE_UIDS_MAX));
        behind.filter(|_| !self.is_new).unwrap_or(next)
    }
}

/// Why a journal cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DefinitionRecoveryError {
    Scan(ScanError),
    Journal(JournalFault),
}

impl fmt::Display for DefinitionRecoveryError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DefinitionRecoveryError::Scan(error) => write!(to, "the journal of definitions: {error}"),
            DefinitionRecoveryError::Journal(fault) => fault.fmt(to),
        }
    }
}

impl std::error::Error for DefinitionRecoveryError {}

impl From<ScanError> for DefinitionRecoveryError {
    fn from(error: ScanError) -> Self {
        DefinitionRecoveryError::Scan(error)
    }
}

impl From<JournalFault> for DefinitionRecoveryError {
    fn from(fault: JournalFault) -> Self {
        DefinitionRecoveryError::Journal(fault)
    }
}

/// Reads the journal of a store in these segments, the only ones of its folder.
///
/// # Errors
/// It cannot be read, is damaged and damage is not to be skipped, or does not say what is defined.
pub fn recover_definitions(
    store: StoreTag,
    segments: Vec<SegmentNumber>,
    on_damage: OnDamage,
    reader: &mut impl SegmentReader,
) -> Result<RecoveredDefinitions, DefinitionRecoveryError> {
    let start = LogEnd::empty(store, JOURNAL_LOG).chain;
    let mut visitor = ReplayVisitor { start: start.next, replay: None, fault: None };
    let found = scan(start, segments, on_damage, reader, &mut visitor)?;
    let ReplayVisitor { replay, fault, .. } = visitor;
    if let Some(fault) = fault {
        return Err(fault.into());
    }
    let is_new = replay.is_none() && found.damage.is_empty();
    let definitions = replay.unwrap_or_else(|| JournalReplay::new(true)).finish()?;
    let ScanResult { end, damage, unreadable_end, .. } = found;
    Ok(RecoveredDefinitions { definitions, end, damage, unreadable_end, is_new })
}

/// Replays what a scan finds.
struct ReplayVisitor {
    /// The first frame of a journal from which nothing was given back.
    start: FrameSequence,
    /// From the first frame on.
    replay: Option<JournalReplay>,
    /// The first fault.
    fault: Option<JournalFault>,
}

impl RecordVisitor for ReplayVisitor {
    fn on_frame(&mut self, _segment: SegmentId, _block: Block, header: &FrameHeader) {
        self.replay.get_or_insert_with(|| JournalReplay::new(header.sequence == self.start));
    }

    fn on_record(&mut self, record: Record<'_>) {
        // The journal has no other records.
        let (Record::Definition { bytes, .. }, Some(replay)) = (record, &mut self.replay) else { return };
        if self.fault.is_none() {
            self.fault = replay.push(bytes).err();
        }
    }

    fn on_damage(&mut self, _damage: &Damage) {
        self.replay.get_or_insert_with(|| JournalReplay::new(false)).skip();
    }
}
