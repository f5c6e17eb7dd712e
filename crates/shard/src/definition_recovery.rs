//! Recovery of the definitions: reads their journal when a broker starts.
//!
//! Enters: the segments of the journal.  Leaves: the durable definitions, where the journal goes on, and what is damaged.
//!
//! Segments in front of a complete snapshot are removed, so the first segment that is there may begin anywhere: its header says
//! where. Whether too many are missing shows in that there is no complete snapshot.

use definitions::{DurableDefinitions, JournalFault, JournalReplay};
use std::fmt;
use store::limits::{BLOCK_BYTES, FRAME_BYTES_MAX};
use store::{
    AlignedBuffer, Block, Chain, Damage, Frame, FrameHeader, FrameSequence, LogEnd, LogId, OnDamage, Record,
    RecordVisitor, ScanError, SegmentHeader, SegmentId, SegmentNumber, SegmentReader, StoreTag, scan,
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
    /// The segments that it has, the oldest first.
    pub segments: Vec<SegmentNumber>,
    /// What was skipped.
    pub damage: Vec<Damage>,
    /// Nothing has ever been written: the broker starts for the first time.
    pub is_new: bool,
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
    mut segments: Vec<SegmentNumber>,
    on_damage: OnDamage,
    reader: &mut impl SegmentReader,
) -> Result<RecoveredDefinitions, DefinitionRecoveryError> {
    segments.sort_unstable();
    let start = start_of(store, &segments, reader)?;
    let from_beginning = start.next == LogEnd::empty(store, JOURNAL_LOG).chain.next;
    let mut visitor = ReplayVisitor { replay: JournalReplay::new(from_beginning), fault: None };
    let found = scan(start, segments.clone(), on_damage, reader, &mut visitor)?;
    let ReplayVisitor { replay, fault } = visitor;
    if let Some(fault) = fault {
        return Err(fault.into());
    }
    let definitions = replay.finish()?;
    segments.retain(|segment| !found.end.unused.contains(segment));
    let is_new = from_beginning && found.frames == 0 && found.damage.is_empty();
    Ok(RecoveredDefinitions { definitions, end: found.end, segments, damage: found.damage, is_new })
}

/// Where a journal starts that has these segments: with the first one to which anything was written. A life that ended before
/// its first write was durable leaves segments in between that hold nothing.
fn start_of(
    store: StoreTag,
    segments: &[SegmentNumber],
    reader: &mut impl SegmentReader,
) -> Result<Chain, DefinitionRecoveryError> {
    let empty = LogEnd::empty(store, JOURNAL_LOG).chain;
    let mut buffer = AlignedBuffer::new(BLOCK_BYTES + FRAME_BYTES_MAX);
    for &number in segments {
        let segment = SegmentId { log: JOURNAL_LOG, number };
        let filled = reader.read(segment, Block(0), &mut buffer).map_err(ScanError::from)?;
        let (header, frames) = buffer[..filled].split_at(filled.min(BLOCK_BYTES));
        let header = SegmentHeader::read(header).ok().filter(|header| header.number == number);
        // Where the header is damaged, the first frame says the same.
        let frame = Frame::read(frames).ok().filter(|frame| frame.header.segment == number);
        let first = header.map(|header| (header.first, header.previous_crc));
        let first = first.or_else(|| frame.map(|frame| (frame.header.sequence, frame.header.previous_crc)));
        if let Some((next, previous_crc)) = first {
            let synced = FrameSequence(next.0.saturating_sub(1));
            return Ok(Chain { next, previous_crc, synced, ..empty });
        }
    }
    Ok(empty)
}

/// Replays what a scan finds.
struct ReplayVisitor {
    replay: JournalReplay,
    /// The first fault.
    fault: Option<JournalFault>,
}

impl RecordVisitor for ReplayVisitor {
    fn on_frame(&mut self, _segment: SegmentId, _block: Block, _header: &FrameHeader) {}

    fn on_record(&mut self, record: Record<'_>) {
        // The journal has no other records.
        let Record::Definition { bytes, .. } = record else { return };
        if self.fault.is_none() {
            self.fault = self.replay.push(bytes).err();
        }
    }

    fn on_damage(&mut self, _damage: &Damage) {
        self.replay.skip();
    }
}
