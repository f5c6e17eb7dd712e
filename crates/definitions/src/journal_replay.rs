//! Replaying a journal of definitions.
//!
//! Enters: the pieces of a journal, in its order.  Leaves: the durable definitions that they come to.
//! Owns:   what a snapshot means: what stands before a complete one counts no more.

use crate::durable_definitions::DurableDefinitions;
use crate::journal_entry::{JournalEntryReader, JournalFault};
use crate::journal_record::JournalRecord;

/// A journal that is being replayed.
pub struct JournalReplay {
    entries: JournalEntryReader,
    current: DurableDefinitions,
    /// What a snapshot that has begun and not ended comes to.
    snapshot: Option<DurableDefinitions>,
    /// The current definitions are whole: the journal was replayed from its beginning, or has had a complete snapshot.
    is_whole: bool,
}

impl JournalReplay {
    /// Replays a journal from its very beginning, or one whose older part is gone: that must have a complete snapshot.
    pub fn new(from_beginning: bool) -> Self {
        let mut entries = JournalEntryReader::default();
        if !from_beginning {
            entries.skip();
        }
        let current = DurableDefinitions::default();
        JournalReplay { entries, current, snapshot: None, is_whole: from_beginning }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), JournalFault> {
        for record in self.entries.push(piece)? {
            match record {
                JournalRecord::SnapshotBegin => self.snapshot = Some(DurableDefinitions::default()),
                JournalRecord::SnapshotEnd => {
                    if let Some(snapshot) = self.snapshot.take() {
                        (self.current, self.is_whole) = (snapshot, true);
                    }
                }
                record => {
                    if let Some(snapshot) = &mut self.snapshot {
                        snapshot.apply(record.clone());
                    }
                    self.current.apply(record);
                }
            }
        }
        Ok(())
    }

    /// Damage has taken what was in front of the next piece. A snapshot that it belonged to is not complete any more.
    pub fn skip(&mut self) {
        self.entries.skip();
        self.snapshot = None;
    }

    /// The definitions at the end of the journal.
    ///
    /// # Errors
    /// Its beginning is missing, and it has no complete snapshot.
    pub fn finish(self) -> Result<DurableDefinitions, JournalFault> {
        if self.is_whole { Ok(self.current) } else { Err(JournalFault::NoSnapshot) }
    }
}
