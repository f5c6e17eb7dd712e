//! The target `store`: segments of any frames, and the records of a frame that checks out, any bytes.
//!
//! Enters: records behind one byte 0; or steps of five bytes and records, of which each makes a block of a segment. The
//! records of a step that begins a segment are the number of the log's first segment and that one's first frame.
//! Leaves: nothing, or a panic.
//! Owns:   a reader of segments in memory. The checksums are right, or a fuzzer would never come further.

use crate::restored_log::{RestoredLog, check_goes_on};
use store::limits::{BLOCK_BYTES, FRAME_HEADER_BYTES};
use store::{
    AlignedBuffer, Block, Damage, DiskError, DiskErrorKind, Frame, FrameHeader, FrameKind, FrameSequence, Group,
    LogEnd, LogId, OnDamage, Position, QueueCursor, QueueUid, Record, RecordReader, RecordVisitor, SegmentHeader,
    SegmentId, SegmentNumber, SegmentReader, SegmentStart, StoreTag, StoredMessage, recover, scan,
};

const STORE: StoreTag = StoreTag(0x5354_4f52);
const LOG: LogId = LogId(0);

/// Panics if a scan reads beyond what is there, reads a frame twice, or does the same differently when it skips damage.
pub fn check(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, records)) => check_records(records),
        Some((_, segments)) => check_segments(segments),
        None => {}
    }
}

fn check_records(records: &[u8]) {
    let header = FrameHeader {
        kind: FrameKind::Data,
        store: STORE,
        log: LOG,
        segment: SegmentNumber(1),
        sequence: FrameSequence(1),
        synced: FrameSequence(0),
        time_base_us: 0,
        previous_crc: 0,
        bytes: records.len() as u32,
        records: records.len() as u32,
    };
    let frame = Frame { header, crc: 0, records };
    let mut reader = RecordReader::new(&frame);
    let mut queues = 0;
    let mut bytes = 0;
    while let Ok(Some(record)) = reader.next_record() {
        bytes += match record {
            Record::Queue { queue, .. } => {
                assert_eq!(queue.0, queues, "the table grows by one");
                queues += 1;
                0
            }
            Record::Message { queue, message, .. } => {
                assert!(queue.0 < queues);
                message.body.len()
            }
            Record::Large { queue, .. }
            | Record::Again { queue, .. }
            | Record::Settled { queue, .. }
            | Record::Seen { queue, .. }
            | Record::Returned { queue, .. } => {
                assert!(queue.0 < queues, "a record refers to a queue of the table");
                0
            }
            Record::Part(part) => part.len(),
            Record::Definition { bytes, .. } => bytes.len(),
            Record::CommitBegin | Record::CommitEnd | Record::CommitAborted => 0,
        };
        assert!(bytes <= records.len(), "no byte is read twice");
    }
}

struct Segments(Vec<Vec<u8>>);

impl SegmentReader for Segments {
    fn read(&mut self, segment: SegmentId, block: Block, buffer: &mut AlignedBuffer) -> Result<usize, DiskError> {
        let index = segment.number.0 as usize - 1;
        let text = || format!("{segment} does not exist");
        let bytes = self.0.get(index).ok_or_else(|| DiskError { kind: DiskErrorKind::NotFound, text: text() })?;
        let from = bytes.get(block.0 as usize * BLOCK_BYTES..).unwrap_or_default();
        let len = from.len().min(buffer.len());
        buffer[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn read_footer(&mut self, _: SegmentId) -> Result<Option<Vec<u8>>, DiskError> {
        Ok(None)
    }
}

#[derive(Default)]
struct Seen {
    frames: Vec<FrameSequence>,
    damage: usize,
    bytes: usize,
}

impl RecordVisitor for Seen {
    fn on_frame(&mut self, _: SegmentId, _: Block, header: &FrameHeader) {
        assert!(self.frames.last().is_none_or(|&last| last < header.sequence), "frames come in their order");
        self.frames.push(header.sequence);
    }
    fn on_record(&mut self, record: Record<'_>) {
        if let Record::Message { message, .. } = record {
            self.bytes += message.body.len();
        }
    }
    fn on_damage(&mut self, damage: &Damage) {
        assert!(damage.first < damage.next);
        self.damage += 1;
    }
}

/// A block of a segment, as bytes say.
struct Step<'a> {
    what: u8,
    sequence: u8,
    synced: u8,
    chained: u8,
    records: &'a [u8],
}

const SEGMENT: u8 = 1;
const GARBAGE: u8 = 2;

impl<'a> Step<'a> {
    fn take(bytes: &mut &'a [u8]) -> Option<Step<'a>> {
        let (&[what, sequence, synced, chained, len], rest) = bytes.split_first_chunk::<5>()?;
        let (records, rest) = rest.split_at(usize::from(len).min(rest.len()));
        *bytes = rest;
        Some(Step { what, sequence, synced, chained, records })
    }

    fn bytes(&self) -> Vec<u8> {
        [&[self.what, self.sequence, self.synced, self.chained, self.records.len() as u8], self.records].concat()
    }
}

fn segments(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut segments: Vec<Vec<u8>> = Vec::new();
    let mut crc = 0;
    let mut first = None;
    while let Some(step) = Step::take(&mut bytes) {
        let previous_crc = if step.chained == 1 { crc } else { u32::from(step.chained) };
        let sequence = FrameSequence(step.sequence.into());
        let number = SegmentNumber(segments.len() as u64 + u64::from(step.what & SEGMENT > 0));
        let mut block = vec![0; BLOCK_BYTES];
        if step.what & SEGMENT > 0 {
            let start = SegmentStart { number, first: sequence, previous_crc };
            let log_start = match *step.records {
                [number, first, ..] => SegmentStart {
                    number: SegmentNumber(number.into()),
                    first: FrameSequence(first.into()),
                    previous_crc: 0,
                },
                _ => *first.get_or_insert(start),
            };
            SegmentHeader { store: STORE, log: LOG, number, first: sequence, previous_crc, log_start }
                .write(&mut block);
            segments.push(Vec::new());
        } else {
            let len = FRAME_HEADER_BYTES + step.records.len();
            block[FRAME_HEADER_BYTES..len].copy_from_slice(step.records);
            let header = FrameHeader {
                kind: FrameKind::Data,
                store: STORE,
                log: LOG,
                segment: number,
                sequence,
                synced: FrameSequence(step.synced.into()),
                time_base_us: 0,
                previous_crc,
                bytes: step.records.len() as u32,
                records: u32::from(step.what >> 2),
            };
            crc = header.write(&mut block[..len]);
        }
        if step.what & GARBAGE > 0 {
            block[usize::from(step.synced)] ^= 1;
        }
        if let Some(segment) = segments.last_mut() {
            segment.extend_from_slice(&block);
        }
    }
    segments
}

fn check_segments(bytes: &[u8]) {
    let segments = segments(bytes);
    let numbers: Vec<SegmentNumber> = (1..=segments.len() as u64).map(SegmentNumber).collect();
    let total: usize = segments.iter().map(Vec::len).sum();
    let mut segments = Segments(segments);
    let start = LogEnd::empty(STORE, LOG).chain;
    let mut strict = Seen::default();
    let failed = scan(start, numbers.clone(), OnDamage::Fail, &mut segments, &mut strict);
    let mut skipping = Seen::default();
    let skipped = scan(start, numbers.clone(), OnDamage::Skip, &mut segments, &mut skipping);
    assert!(strict.damage == 0 && skipping.frames.starts_with(&strict.frames), "the same up to the damage");
    assert!(skipping.bytes <= total, "no byte is read twice");
    if let Ok(skipped) = skipped {
        assert_eq!(skipped.damage.len(), skipping.damage);
        assert_eq!(skipped.damage.is_empty(), failed.is_ok(), "damage fails a strict scan, and nothing else does");
        assert_eq!(skipped.frames as usize, skipping.frames.len());
        // A segment may begin, in which no frame can be read.
        let last = skipping.frames.last().map_or(FrameSequence(1), |last| last.next());
        assert!(skipped.end.chain.next >= last, "the log goes on behind what was read");
        check_recovery(numbers, &mut segments, skipped.frames);
    }
}

fn check_recovery(numbers: Vec<SegmentNumber>, segments: &mut Segments, frames: u64) {
    // Queues 2 and 6 modulo eight have pages.
    let mut restored = RestoredLog::new(0b1011_1011);
    let recovered = recover(segments, STORE, LOG, numbers, OnDamage::Skip, &mut restored);
    let recovered = recovered.expect("a scan that skips damage has come through");
    assert_eq!((recovered.messages, recovered.frames), (restored.messages, frames));
    check_goes_on(recovered);
}

/// A frame with every record, and logs as they are after a clean end, a torn write, and damage.
pub fn samples() -> Vec<(String, Vec<u8>)> {
    let message = |key: &'static [u8], body: &'static [u8]| StoredMessage {
        exchange: b"e",
        routing_key: key,
        properties: &[0, 0],
        bcc: b"",
        arrived_us: 7,
        body,
    };
    let mut chain = LogEnd::empty(STORE, LOG).chain;
    let mut group = Group::new();
    let mut queue = QueueCursor::new(QueueUid(300));
    let mut other = QueueCursor::new(QueueUid(5));
    let written = group
        .message(&mut queue, Position(1), &message(b"k", b"body"))
        .and_then(|()| group.message(&mut queue, Position(2), &message(b"k", b"another")))
        .and_then(|()| group.again(&mut other, Position(9)))
        .and_then(|()| group.settled(&mut queue, Position(1), 1))
        .and_then(|()| group.seen(&mut queue, Position(2)))
        .and_then(|()| group.returned(&mut other, Position(9), 3))
        .and_then(|()| group.commit_begin())
        .and_then(|()| group.large_message(&mut other, Position(10), &message(b"large", b""), 5))
        .and_then(|()| group.part(&mut &b"parts"[..]))
        .and_then(|()| group.commit_end())
        .and_then(|()| group.commit_aborted())
        .and_then(|()| group.definition(4, b"a definition"));
    assert!(written.is_ok(), "an empty group takes them all");
    let range = group.seal(&mut chain, SegmentNumber(1), None);
    let frame = Frame::read(&group.buffer()[range]).expect("a frame");
    let records = [&[0], frame.records].concat();

    let definition = [13, 4, 1, b'd'];
    let segment = |sequence, chained| Step { what: SEGMENT, sequence, synced: 0, chained, records: b"" }.bytes();
    let frame = |sequence, synced| Step { what: 1 << 2, sequence, synced, chained: 1, records: &definition }.bytes();
    let torn =
        |sequence| Step { what: 1 << 2 | GARBAGE, sequence, synced: 70, chained: 1, records: &definition }.bytes();
    let given_back =
        |sequence| Step { what: SEGMENT, sequence, synced: 0, chained: 1, records: &[2, sequence] }.bytes();
    let log = |steps: &[Vec<u8>]| [vec![1], steps.concat()].concat();
    vec![
        ("records".into(), records),
        ("clean".into(), log(&[segment(1, 1), frame(1, 0), frame(2, 1), segment(3, 1), frame(3, 2)])),
        ("torn".into(), log(&[segment(1, 1), frame(1, 0), torn(2), frame(3, 1)])),
        ("torn-and-gone-on".into(), log(&[segment(1, 1), frame(1, 0), segment(2, 1), torn(2), frame(3, 1)])),
        ("given-back".into(), log(&[segment(1, 1), frame(1, 0), given_back(2), frame(2, 1)])),
        ("damaged".into(), log(&[segment(1, 1), frame(1, 0), torn(2), frame(3, 1), frame(4, 3)])),
    ]
}
