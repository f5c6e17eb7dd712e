//! The target `footer`: a sealed segment whose footer has any entries, with the right checksum.
//!
//! Enters: a byte that says which queues are loaded, and the bytes of the entries.  Leaves: nothing, or a panic.
//! Owns:   a log of two segments in memory: of the first one there is nothing but its header and its footer.

use crate::restored_log::{RestoredLog, check_goes_on};
use store::limits::BLOCK_BYTES;
use store::{
    AlignedBuffer, Block, DiskError, Footer, FooterEntry, FooterQueue, FrameSequence, LogId, OnDamage, Position,
    ScanError, SegmentEnd, SegmentHeader, SegmentId, SegmentNumber, SegmentReader, SegmentStart, StoreTag, recover,
};

const STORE: StoreTag = StoreTag(0x5354_4f52);
const LOG: LogId = LogId(0);
const START: SegmentStart = SegmentStart { number: SegmentNumber(1), first: FrameSequence(1), previous_crc: 0 };
const END: SegmentEnd = SegmentEnd { next: FrameSequence(9), last_crc: 5, block: Block(300) };

/// Panics if a footer names what a segment cannot have, or if a recovery follows one that fits into anything but what it says.
pub fn check(bytes: &[u8]) {
    let Some((&loaded, entries)) = bytes.split_first() else { return };
    let footer = Footer::new(STORE, LOG, START, END, entries).write();
    let is_good = check_entries(&footer);
    let mut log = Log { footer };
    let mut restored = RestoredLog::new(loaded);
    let segments = vec![SegmentNumber(1), SegmentNumber(2)];
    match recover(&mut log, STORE, LOG, segments, OnDamage::Fail, &mut restored) {
        Ok(recovered) => {
            assert!(is_good, "a footer that is not good is not used, and its segment is empty");
            assert_eq!((recovered.footers_used, recovered.messages), (1, restored.messages));
            assert_eq!(recovered.end.chain.next, END.next);
            assert_eq!(restored.messages_read, 0, "the segment has no frames");
            check_goes_on(recovered);
        }
        // Its frames are missing: nothing of it was restored that was to be read.
        Err(error) => assert!(matches!(error, ScanError::Damaged(_)) && restored.is_empty(), "{error}"),
    }
}

/// Whether the footer can be used.
fn check_entries(footer: &[u8]) -> bool {
    let Ok(footer) = Footer::read(footer) else { return false };
    let (mut queues, mut last_block) = (0, Block(0));
    for entry in footer.entries() {
        let named = match entry {
            FooterEntry::Extent { block } => {
                assert!(last_block < block && block < END.block, "extents follow one another in the segment");
                last_block = block;
                None
            }
            FooterEntry::Queue { .. } => {
                queues += 1;
                None
            }
            FooterEntry::Messages { queue, run } | FooterEntry::Large { queue, run } => {
                let last = Position(run.end() - 1);
                assert!(run.count > 0 && run.first.level() == last.level(), "a run is one of a level");
                assert!(run.first_arrived_us <= run.last_arrived_us);
                Some(queue)
            }
            FooterEntry::Settled { queue, .. }
            | FooterEntry::Seen { queue, .. }
            | FooterEntry::Returned { queue, .. } => Some(queue),
            FooterEntry::Part { .. }
            | FooterEntry::CommitBegin
            | FooterEntry::CommitEnd
            | FooterEntry::CommitAborted => None,
        };
        assert!(last_block > Block(0), "an entry is about an extent");
        assert!(named.is_none_or(|FooterQueue(queue)| queue < queues), "an entry refers to a level of the table");
    }
    true
}

/// Two segments: their headers and the footer of the first one.
struct Log {
    footer: Vec<u8>,
}

impl SegmentReader for Log {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        if block > Block(0) {
            return Ok(0);
        }
        let start = match segment.number {
            SegmentNumber(1) => START,
            number => SegmentStart { number, first: END.next, previous_crc: END.last_crc },
        };
        let SegmentStart { number, first, previous_crc } = start;
        SegmentHeader { store: STORE, log: LOG, number, first, previous_crc, log_start: START }
            .write(&mut buffer[..BLOCK_BYTES]);
        Ok(BLOCK_BYTES)
    }

    fn read_footer(&mut self, segment: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        Ok((segment.number == START.number).then(|| self.footer.clone()))
    }
}

/// Entries of every kind, with nothing and with something to be loaded.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    // Tags and numbers as `store::footer` writes them.
    let extent = &[1, 1][..];
    let queue = &[2, 5, 0][..];
    let messages = &[3, 0, 20, 10, 100, 0, 0, 9, 0][..];
    let large = &[4, 0, 0, 1, 100, 0, 0, 0, 0, 5, 60, 5, 40][..];
    let settled = &[6, 0, 24, 3][..];
    let history = &[7, 0, 17, 8, 0, 16, 2][..];
    let commit = &[&[9][..], messages, &[10, 9, 6, 0, 2, 1, 11]].concat()[..];
    let all = [extent, queue, messages, settled, history, commit, large, &[1, 64], messages].concat();
    let sample = |loaded: u8, entries: &[u8]| [&[loaded], entries].concat();
    vec![
        ("messages".into(), sample(0, &[extent, queue, messages].concat())),
        ("every-entry".into(), sample(0, &all)),
        ("loaded".into(), sample(0xff, &all)),
        ("nothing-alive".into(), sample(0xff, &[extent, queue, settled].concat())),
    ]
}
