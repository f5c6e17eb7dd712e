//! The journal of a matching engine: accepted orders in the order of acceptance, synced before any answer is sent.
//!
//! One file of records: kind, length, bytes and checksum. A torn record at the end is cut off.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Magic bytes of the file.
const MAGIC: &[u8; 8] = b"HARMKT01";
/// Kind and length.
const HEAD_BYTES: usize = 5;
const SUM_BYTES: usize = 4;
/// Longest record.
const RECORD_BYTES_MAX: usize = 1 << 20;

const ORDER: u8 = 1;
const CONFIRMED: u8 = 2;
const CLOSED: u8 = 3;

/// The content of a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RecoveredOrders {
    /// The orders, as they arrived.
    pub orders: Vec<Vec<u8>>,
    /// At least this many answers are confirmed by the broker.
    pub confirmed: u64,
    /// Bytes of a torn record at the end.
    pub torn_bytes: u64,
}

/// An open journal.
#[derive(Debug)]
pub(super) struct OrderJournal {
    path: PathBuf,
    file: File,
    written: Vec<u8>,
}

impl OrderJournal {
    /// Opens or creates a journal. One whose market has closed starts anew.
    ///
    /// # Errors
    /// The file cannot be used, or is not a journal.
    pub(super) fn open(path: &Path) -> Result<(Self, RecoveredOrders), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(wrong)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(wrong)?;
        let (kept, whole) = match bytes.strip_prefix(MAGIC) {
            Some(records) => {
                read(records).map_or((RecoveredOrders::default(), 0), |(kept, whole)| (kept, MAGIC.len() + whole))
            }
            // Shorter than the header: it was torn at its creation.
            None if MAGIC.starts_with(&bytes) => (RecoveredOrders::default(), 0),
            None => return Err(format!("{}: not the journal of a matching engine", path.display())),
        };
        file.set_len(whole as u64).map_err(wrong)?;
        file.seek(SeekFrom::End(0)).map_err(wrong)?;
        let mut journal = Self { path: path.to_owned(), file, written: Vec::new() };
        if whole == 0 {
            journal.written.extend_from_slice(MAGIC);
            journal.sync()?;
        }
        Ok((journal, kept))
    }

    /// Appends an order.
    pub(super) fn order(&mut self, body: &[u8]) {
        // Longer input is not an order; its beginning is rejected for the same reason.
        self.record(ORDER, &body[..body.len().min(RECORD_BYTES_MAX)]);
    }

    /// Appends the number of confirmed answers. It need not be synced: without it, answers are sent again.
    pub(super) fn confirmed(&mut self, answers: u64) {
        self.record(CONFIRMED, &answers.to_le_bytes());
    }

    /// Marks the market as closed.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn mark_closed(&mut self) -> Result<(), String> {
        self.record(CLOSED, &[]);
        self.sync()
    }

    fn record(&mut self, kind: u8, body: &[u8]) {
        let begin = self.written.len();
        self.written.push(kind);
        self.written.extend_from_slice(&(body.len() as u32).to_le_bytes());
        self.written.extend_from_slice(body);
        let sum = crc32fast::hash(&self.written[begin..]);
        self.written.extend_from_slice(&sum.to_le_bytes());
    }

    /// Syncs everything that was appended, so that it survives a crash.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn sync(&mut self) -> Result<(), String> {
        let outcome = self.file.write_all(&self.written).and_then(|()| self.file.sync_data());
        self.written.clear();
        outcome.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// The complete records, and their length in bytes; `None` if the last one closes the market.
fn read(bytes: &[u8]) -> Option<(RecoveredOrders, usize)> {
    let mut kept = RecoveredOrders::default();
    let mut rest = bytes;
    while let Some((kind, body, behind)) = record(rest) {
        match kind {
            ORDER => kept.orders.push(body.to_vec()),
            CONFIRMED => kept.confirmed = body.try_into().map_or(kept.confirmed, u64::from_le_bytes),
            CLOSED => return None,
            _ => break,
        }
        rest = behind;
    }
    kept.torn_bytes = rest.len() as u64;
    Some((kept, bytes.len() - rest.len()))
}

fn record(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let length = u32::from_le_bytes(head[1..].try_into().ok()?) as usize;
    let (body, rest) = rest.split_at_checked(length)?;
    let (sum, rest) = rest.split_at_checked(SUM_BYTES)?;
    let is_whole = crc32fast::hash(&bytes[..HEAD_BYTES + length]) == u32::from_le_bytes(sum.try_into().ok()?);
    is_whole.then_some((head[0], body, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TempJournal(PathBuf);

    impl TempJournal {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("harrier-journal-{name}-{}", std::process::id())))
        }
    }

    impl Drop for TempJournal {
        fn drop(&mut self) {
            // A remaining file does no harm.
            let _left = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn what_was_synced_is_there_again_and_what_is_torn_is_cut_off() {
        let scratch = TempJournal::new("torn");
        let (mut journal, kept) = OrderJournal::open(&scratch.0).expect("a new one");
        assert_eq!(kept, RecoveredOrders::default());
        journal.order(b"one");
        journal.order(b"");
        journal.confirmed(7);
        journal.order(b"three");
        journal.sync().expect("written");
        drop(journal);
        let whole = std::fs::read(&scratch.0).expect("a file");
        let orders = || vec![b"one".to_vec(), Vec::new(), b"three".to_vec()];
        let last = HEAD_BYTES + 5 + SUM_BYTES;
        for cut in 0..last {
            std::fs::write(&scratch.0, &whole[..whole.len() - cut]).expect("written");
            let expected = match cut {
                0 => RecoveredOrders { orders: orders(), confirmed: 7, torn_bytes: 0 },
                cut => {
                    RecoveredOrders { orders: orders()[..2].to_vec(), confirmed: 7, torn_bytes: (last - cut) as u64 }
                }
            };
            let (mut journal, kept) = OrderJournal::open(&scratch.0).expect("a journal");
            assert_eq!(kept, expected, "{cut}");
            // Appending continues after the last complete record.
            journal.order(b"next");
            journal.sync().expect("written");
            let (_, kept) = OrderJournal::open(&scratch.0).expect("a journal");
            assert_eq!(kept.orders.last().map(Vec::as_slice), Some(&b"next"[..]), "{cut}");
            assert_eq!(kept.torn_bytes, 0);
        }
        // A changed byte ends the journal there.
        let mut changed = whole.clone();
        changed[MAGIC.len() + HEAD_BYTES] ^= 1;
        std::fs::write(&scratch.0, &changed).expect("written");
        let (_, kept) = OrderJournal::open(&scratch.0).expect("a journal");
        assert!(kept.orders.is_empty() && kept.torn_bytes > 0, "{kept:?}");
    }

    #[test]
    fn a_market_that_is_over_begins_anew_and_another_file_is_left_alone() {
        let scratch = TempJournal::new("over");
        let (mut journal, _) = OrderJournal::open(&scratch.0).expect("a new one");
        journal.order(b"one");
        journal.mark_closed().expect("written");
        drop(journal);
        let (_, kept) = OrderJournal::open(&scratch.0).expect("a journal");
        assert_eq!(kept, RecoveredOrders::default());
        std::fs::write(&scratch.0, b"somebody's letter").expect("written");
        let why = OrderJournal::open(&scratch.0).expect_err("no journal");
        assert!(why.ends_with("not the journal of a matching engine"), "{why}");
        assert_eq!(std::fs::read(&scratch.0).expect("a file"), b"somebody's letter");
    }
}
