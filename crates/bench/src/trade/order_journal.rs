//! The journal of a matching engine: what it has accepted, in the order in which it was accepted, before anybody is told.
//!
//! Enters: orders as they came, how many answers are confirmed.  Leaves: all of it again, after a crash.
//! Owns:   one file: records of a kind, a length, bytes and a checksum; what is torn at its end is cut off.
//! Never:  reports an order as kept that a crash of the machine could lose: `sync` comes first.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What a file of this form begins with.
const MAGIC: &[u8; 8] = b"HARMKT01";
/// Kind, length.
const HEAD_BYTES: usize = 5;
const SUM_BYTES: usize = 4;
/// Longest record.
const RECORD_BYTES_MAX: usize = 1 << 20;

const ORDER: u8 = 1;
const CONFIRMED: u8 = 2;
const CLOSED: u8 = 3;

/// What was found in a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RecoveredOrders {
    /// The orders, as they came.
    pub orders: Vec<Vec<u8>>,
    /// Answers that the broker has confirmed, at least.
    pub confirmed: u64,
    /// Bytes at the end that were no whole record.
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
    /// Opens a journal, or makes one. One whose market is over begins anew.
    ///
    /// # Errors
    /// A file that cannot be used, or that is no journal.
    pub(super) fn open(path: &Path) -> Result<(Self, RecoveredOrders), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(wrong)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(wrong)?;
        let (kept, whole) = match bytes.strip_prefix(MAGIC) {
            Some(records) => read(records).map_or((RecoveredOrders::default(), 0), |(kept, whole)| (kept, MAGIC.len() + whole)),
            // Less than the beginning: it was torn when it was made.
            None if MAGIC.starts_with(&bytes) => (RecoveredOrders::default(), 0),
            None => return Err(format!("{}: this is no journal of a matching engine", path.display())),
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

    /// Writes an order down.
    pub(super) fn order(&mut self, body: &[u8]) {
        // What is longer than any order is none; its beginning is rejected just so.
        self.record(ORDER, &body[..body.len().min(RECORD_BYTES_MAX)]);
    }

    /// Writes down that so many answers are confirmed. It need not be synced: a mark that is lost has answers sent again.
    pub(super) fn confirmed(&mut self, answers: u64) {
        self.record(CONFIRMED, &answers.to_le_bytes());
    }

    /// Writes down that the market is over.
    ///
    /// # Errors
    /// What the system says.
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

    /// Has everything that was written down survive a crash.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn sync(&mut self) -> Result<(), String> {
        let outcome = self.file.write_all(&self.written).and_then(|()| self.file.sync_data());
        self.written.clear();
        outcome.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// The whole records, and how many bytes they are; `None` if they end with a market that is over.
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
            // What is left there harms nobody.
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
                cut => RecoveredOrders { orders: orders()[..2].to_vec(), confirmed: 7, torn_bytes: (last - cut) as u64 },
            };
            let (mut journal, kept) = OrderJournal::open(&scratch.0).expect("a journal");
            assert_eq!(kept, expected, "{cut}");
            // It goes on where it is whole.
            journal.order(b"next");
            journal.sync().expect("written");
            let (_, kept) = OrderJournal::open(&scratch.0).expect("a journal");
            assert_eq!(kept.orders.last().map(Vec::as_slice), Some(&b"next"[..]), "{cut}");
            assert_eq!(kept.torn_bytes, 0);
        }
        // A byte that changed ends it there.
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
        assert!(why.ends_with("this is no journal of a matching engine"), "{why}");
        assert_eq!(std::fs::read(&scratch.0).expect("a file"), b"somebody's letter");
    }
}
