//! Whether a store that nobody uses is damaged: every frame of every log is read.

use crate::definition_recovery::JOURNAL_LOG;
use crate::lossy_reader::LossyReader;
use crate::store_opening::StoreOpenError;
use crate::store_options::StoreOptions;
use disk::SegmentFolder;
use std::path::Path;
use store::{Block, Damage, FrameHeader, LogEnd, LogId, OnDamage, Record, RecordVisitor, SegmentId, scan};

/// Is not interested in what a log has.
struct Unheeded;

impl RecordVisitor for Unheeded {
    fn on_frame(&mut self, _segment: SegmentId, _block: Block, _header: &FrameHeader) {}
    fn on_record(&mut self, _record: Record<'_>) {}
    fn on_damage(&mut self, _damage: &Damage) {}
}

/// Whether something of a store had been durable and cannot be read.
///
/// # Errors
/// It cannot be read at all, or is no store of this kind.
pub fn is_store_damaged(options: &StoreOptions) -> Result<bool, StoreOpenError> {
    if is_log_damaged(options, &options.definitions_folder, JOURNAL_LOG)? {
        return Ok(true);
    }
    for number in 0..options.logs {
        if is_log_damaged(options, &options.log_folder, LogId(number.into()))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_log_damaged(options: &StoreOptions, folder: &Path, log: LogId) -> Result<bool, StoreOpenError> {
    let files = SegmentFolder::open(folder)?;
    let segments = files.segments(log)?;
    let mut reader = LossyReader::new(files, OnDamage::Skip);
    let start = LogEnd::empty(options.tag(), log).chain;
    let found = scan(start, segments, OnDamage::Skip, &mut reader, &mut Unheeded);
    let found = found.map_err(|error| StoreOpenError::Log { folder: folder.display().to_string(), error })?;
    Ok(!found.damage.is_empty() || reader.has_unreadable())
}
