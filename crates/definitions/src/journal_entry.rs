//! Journal entries: the records of one change, in pieces that a log takes.
//!
//! Enters: records; pieces in the order of the log.  Leaves: pieces; the records of an entry once all its pieces are there.
//! Owns:   the format number and the first bytes of a piece.
//!
//! The records of an entry count together or not at all. A piece is a format number, what of its entry it is, and bytes; most
//! entries are one piece.

use crate::journal_codec::RecordFault;
use crate::journal_record::JournalRecord;
use crate::limits::{JOURNAL_ENTRY_BYTES_MAX, JOURNAL_PIECE_BYTES_MAX};
use std::fmt;

/// The number of the format of journals that this crate writes.
pub const JOURNAL_FORMAT: u8 = 1;

/// An entry begins with this piece.
const FIRST: u8 = 1;
/// And ends with this one, which may be the same.
const LAST: u8 = 2;

/// Bytes in front of a piece.
const HEAD_BYTES: usize = 2;

/// A piece of a journal that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalFault {
    /// A format that this program does not know.
    UnknownFormat(u8),
    /// It is too short to be a piece.
    NoPiece,
    /// It goes on with an entry that was not begun.
    NoBeginning,
    /// Its entry is longer than entries are.
    TooLong,
    Record(RecordFault),
    /// What was before the first piece is missing, and nothing says what that was.
    NoSnapshot,
}

impl fmt::Display for JournalFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalFault::UnknownFormat(format) => {
                write!(
                    to,
                    "the journal of definitions has format {format}, and this version reads format {JOURNAL_FORMAT} only"
                )
            }
            JournalFault::NoPiece => to.write_str("the journal of definitions has a piece that is too short"),
            JournalFault::NoBeginning => to.write_str("the journal of definitions has an entry without its beginning"),
            JournalFault::TooLong => {
                write!(to, "the journal of definitions has an entry of more than {JOURNAL_ENTRY_BYTES_MAX} bytes")
            }
            JournalFault::Record(fault) => write!(to, "the journal of definitions has {fault}"),
            JournalFault::NoSnapshot => to
                .write_str("the journal of definitions has lost its beginning, and has no complete snapshot behind it"),
        }
    }
}

impl std::error::Error for JournalFault {}

impl From<RecordFault> for JournalFault {
    fn from(fault: RecordFault) -> Self {
        JournalFault::Record(fault)
    }
}

/// Makes the pieces of an entry.
#[derive(Default)]
pub struct JournalEntryWriter {
    records: Vec<u8>,
    piece: Vec<u8>,
}

impl JournalEntryWriter {
    /// Adds a record to the entry.
    pub fn push(&mut self, record: &JournalRecord) {
        record.encode(&mut self.records);
    }

    /// Bytes of the entry's records.
    pub fn bytes(&self) -> usize {
        self.records.len()
    }

    /// Ends the entry: gives its pieces to `put`, in their order. Another entry may follow.
    pub fn finish(&mut self, mut put: impl FnMut(&[u8])) {
        let mut rest = &self.records[..];
        let mut flags = FIRST;
        while flags & LAST == 0 {
            let (part, behind) = rest.split_at(rest.len().min(JOURNAL_PIECE_BYTES_MAX - HEAD_BYTES));
            flags |= if behind.is_empty() { LAST } else { 0 };
            self.piece.clear();
            self.piece.extend_from_slice(&[JOURNAL_FORMAT, flags]);
            self.piece.extend_from_slice(part);
            put(&self.piece);
            rest = behind;
            flags &= LAST;
        }
        self.records.clear();
        // An entry as large as that of many policies is rare.
        self.records.shrink_to(JOURNAL_PIECE_BYTES_MAX);
    }
}

/// Puts entries together from their pieces.
#[derive(Default)]
pub struct JournalEntryReader {
    /// The pieces of an entry that has not ended.
    begun: Option<Vec<u8>>,
    /// What was in front of the next piece is not known: it may go on with an entry whose beginning is missing.
    is_cut: bool,
}

impl JournalEntryReader {
    /// Takes the next piece. Returns the records of the entry that it ends.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<JournalRecord>, JournalFault> {
        let (&[format, flags], bytes) = piece.split_first_chunk().ok_or(JournalFault::NoPiece)?;
        if format != JOURNAL_FORMAT {
            return Err(JournalFault::UnknownFormat(format));
        }
        if flags & FIRST != 0 {
            // Where the writer stopped in the middle of an entry, that does not count.
            self.skip();
            self.is_cut = false;
            if flags & LAST != 0 {
                return decode_all(bytes);
            }
            self.begun = Some(Vec::new());
        }
        if self.is_cut {
            return Ok(Vec::new());
        }
        let begun = self.begun.as_mut().ok_or(JournalFault::NoBeginning)?;
        if begun.len() + bytes.len() > JOURNAL_ENTRY_BYTES_MAX {
            return Err(JournalFault::TooLong);
        }
        begun.extend_from_slice(bytes);
        if flags & LAST == 0 {
            return Ok(Vec::new());
        }
        decode_all(&self.begun.take().unwrap_or_default())
    }

    /// What is in front of the next piece is missing.
    pub fn skip(&mut self) {
        self.begun = None;
        self.is_cut = true;
    }
}

fn decode_all(mut bytes: &[u8]) -> Result<Vec<JournalRecord>, JournalFault> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        records.push(JournalRecord::decode(&mut bytes)?);
    }
    Ok(records)
}
