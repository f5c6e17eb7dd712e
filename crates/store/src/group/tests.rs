//! Groups: what is written is read, what it takes, and what happens at its end.

use super::*;
use crate::footer::{FooterWriter, SegmentEnd};
use crate::frame::Frame;
use crate::ids::Block;
use crate::log_writer::add_group;
use crate::record::{QueuedRecord, Record, RecordFault, RecordReader};
use proptest::prelude::*;

const CHAIN: Chain =
    Chain { store: StoreTag(1), log: LogId(0), next: FrameSequence(1), previous_crc: 0, synced: FrameSequence(0) };

/// What is written, and what must be read.
#[derive(Clone, Debug, PartialEq)]
enum Op {
    Message {
        queue: usize,
        position: u64,
        key: u8,
        arrived_us: u64,
        body: Vec<u8>,
    },
    /// Messages that differ in their bodies alone: they are read as single ones.
    Alike {
        queue: usize,
        first: u64,
        key: u8,
        arrived_us: u64,
        bodies: Vec<Vec<u8>>,
    },
    Again {
        queue: usize,
        position: u64,
    },
    Large {
        queue: usize,
        position: u64,
        body: Vec<u8>,
    },
    Settled {
        queue: usize,
        first: u64,
        count: u64,
    },
    Seen {
        queue: usize,
        position: u64,
    },
    Returned {
        queue: usize,
        position: u64,
        times: u64,
    },
    CommitBegin,
    CommitEnd,
    CommitAborted,
    Definition {
        version: u64,
        bytes: Vec<u8>,
    },
}

fn message<'a>(key: &'a [u8], arrived_us: u64, body: &'a [u8]) -> StoredMessage<'a> {
    StoredMessage { exchange: b"orders", routing_key: key, properties: &[0x10, 0, 2], bcc: b"", arrived_us, body }
}

fn uid(queue: usize) -> QueueUid {
    QueueUid(1_000_000 + queue as u64)
}

/// A log of groups that are written one behind the other.
struct Writer {
    group: Group,
    cursors: Vec<QueueCursor>,
    chain: Chain,
    written: Vec<u8>,
}

impl Writer {
    fn new() -> Self {
        let cursors = (0..4).map(|queue| QueueCursor::new(uid(queue))).collect();
        Writer { group: Group::new(), cursors, chain: CHAIN, written: Vec::new() }
    }

    fn flush(&mut self) {
        let range = self.group.seal(&mut self.chain, SegmentNumber(1), None);
        self.written.extend_from_slice(&self.group.buffer()[range.clone()]);
        assert_eq!(footer(&self.group, range.start, add_group), footer(&self.group, range.start, add_record_by_record));
        self.group.clear();
    }

    fn put(&mut self, mut put: impl FnMut(&mut Group, &mut [QueueCursor]) -> Result<(), GroupFull>) {
        if put(&mut self.group, &mut self.cursors) == Err(GroupFull) {
            self.flush();
            put(&mut self.group, &mut self.cursors).expect("an empty group takes any record");
        }
    }

    fn write(&mut self, op: &Op) {
        match op {
            Op::Message { queue, position, key, arrived_us, body } => {
                let key = [*key];
                self.put(|group, cursors| {
                    group.message(&mut cursors[*queue], Position(*position), &message(&key, *arrived_us, body))
                });
            }
            Op::Alike { queue, first, key, arrived_us, bodies } => {
                let (key, mut put) = ([*key], 0);
                while let Some(body) = bodies.get(put) {
                    let position = Position(first + put as u64);
                    self.put(|group, cursors| {
                        group.message(&mut cursors[*queue], position, &message(&key, *arrived_us, body))
                    });
                    put += 1;
                    let rest = bodies[put..].iter().map(|body| &body[..]);
                    put += self.group.alike(&mut self.cursors[*queue], rest, GROUP_BYTES_MAX).records as usize;
                }
            }
            Op::Again { queue, position } => {
                self.put(|group, cursors| group.again(&mut cursors[*queue], Position(*position)));
            }
            Op::Large { queue, position, body } => {
                let head = message(b"large", 5, b"");
                let len = body.len() as u64;
                self.put(|group, cursors| group.large_message(&mut cursors[*queue], Position(*position), &head, len));
                let mut rest = &body[..];
                while !rest.is_empty() {
                    self.put(|group, _| group.part(&mut rest));
                }
            }
            Op::Settled { queue, first, count } => {
                self.put(|group, cursors| group.settled(&mut cursors[*queue], Position(*first), *count));
            }
            Op::Seen { queue, position } => {
                self.put(|group, cursors| group.seen(&mut cursors[*queue], Position(*position)));
            }
            Op::Returned { queue, position, times } => {
                self.put(|group, cursors| group.returned(&mut cursors[*queue], Position(*position), *times));
            }
            Op::CommitBegin => self.put(|group, _| group.commit_begin()),
            Op::CommitEnd => self.put(|group, _| group.commit_end()),
            Op::CommitAborted => self.put(|group, _| group.commit_aborted()),
            Op::Definition { version, bytes } => self.put(|group, _| group.definition(*version, bytes)),
        }
    }
}

/// The footer of a segment that has one group, from this byte of its buffer on.
fn footer(group: &Group, from: usize, add: impl FnOnce(&mut FooterWriter, &Group, Block, usize)) -> Vec<u8> {
    let mut footer = FooterWriter::new(CHAIN.store, CHAIN.log);
    footer.begin(SegmentStart { number: SegmentNumber(1), first: FrameSequence(1), previous_crc: 0 });
    add(&mut footer, group, Block(1), from);
    footer.finish(SegmentEnd { next: FrameSequence(2), last_crc: 0, block: Block(300) }).expect("a footer")
}

/// Every record is read.
fn add_record_by_record(footer: &mut FooterWriter, group: &Group, block: Block, from: usize) {
    for SealedFrame { start, mut records, .. } in group.frames() {
        footer.begin_frame(Block(block.0 + ((start - from) / BLOCK_BYTES) as u32));
        while let Some(record) = records.next_record().expect("records that parse") {
            footer.add(&record);
        }
    }
}

/// Operations as they are read.
fn one_by_one(ops: &[Op]) -> Vec<Op> {
    let each = ops.iter().flat_map(|op| match op.clone() {
        Op::Alike { queue, first, key, arrived_us, bodies } => (first..)
            .zip(bodies)
            .map(|(position, body)| Op::Message { queue, position, key, arrived_us, body })
            .collect(),
        op => vec![op],
    });
    each.collect()
}

/// Reads frames one behind the other, and what they say.
fn read(mut bytes: &[u8]) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut expected = CHAIN;
    let mut large_left = 0;
    while !bytes.is_empty() {
        let frame = Frame::read(bytes).expect("a frame");
        assert_eq!((frame.header.sequence, frame.header.previous_crc), (expected.next, expected.previous_crc));
        (expected.next, expected.previous_crc) = (expected.next.next(), frame.crc);
        let mut reader = RecordReader::new(&frame);
        let mut table = Vec::new();
        while let Some(record) = reader.next_record().expect("records that parse") {
            let number =
                |queue: crate::record::FrameQueue, table: &[QueueUid]| (table[queue.0 as usize].0 - 1_000_000) as usize;
            ops.push(match record {
                Record::Queue { queue, uid, .. } => {
                    assert_eq!(queue.0 as usize, table.len());
                    table.push(uid);
                    continue;
                }
                Record::Message { queue, position, message } => {
                    assert_eq!((message.exchange, message.properties), (&b"orders"[..], &[0x10, 0, 2][..]));
                    Op::Message {
                        queue: number(queue, &table),
                        position: position.0,
                        key: message.routing_key[0],
                        arrived_us: message.arrived_us,
                        body: message.body.to_vec(),
                    }
                }
                Record::Large { queue, position, body_bytes, head } => {
                    assert_eq!(head.routing_key, b"large");
                    large_left = body_bytes;
                    Op::Large { queue: number(queue, &table), position: position.0, body: Vec::new() }
                }
                Record::Part(part) => {
                    let Some(Op::Large { body, .. }) = ops.last_mut() else { panic!("a part of what?") };
                    body.extend_from_slice(part);
                    large_left -= part.len() as u64;
                    continue;
                }
                Record::Again { queue, position } => Op::Again { queue: number(queue, &table), position: position.0 },
                Record::Settled { queue, first, count } => {
                    Op::Settled { queue: number(queue, &table), first: first.0, count }
                }
                Record::Seen { queue, position } => Op::Seen { queue: number(queue, &table), position: position.0 },
                Record::Returned { queue, position, times } => {
                    Op::Returned { queue: number(queue, &table), position: position.0, times }
                }
                Record::CommitBegin => Op::CommitBegin,
                Record::CommitEnd => Op::CommitEnd,
                Record::CommitAborted => Op::CommitAborted,
                Record::Definition { version, bytes } => Op::Definition { version, bytes: bytes.to_vec() },
            });
        }
        bytes = &bytes[frame.header.blocks() as usize * BLOCK_BYTES..];
    }
    assert_eq!(large_left, 0, "all parts of a body are there");
    ops
}

/// The records of a frame, whole messages by the short way wherever there is one.
fn read_by_the_short_way<'a>(frame: &Frame<'a>) -> Result<Vec<Record<'a>>, RecordFault> {
    let mut reader = RecordReader::new(frame);
    let mut records = Vec::new();
    loop {
        while let Some(record) = reader.next_of_same_queue() {
            let QueuedRecord { queue, position, message } = record?;
            records.push(Record::Message { queue, position, message: *message });
        }
        match reader.next_record()? {
            Some(record) => records.push(record),
            None => return Ok(records),
        }
    }
}

fn read_one_by_one<'a>(frame: &Frame<'a>) -> Result<Vec<Record<'a>>, RecordFault> {
    let mut reader = RecordReader::new(frame);
    std::iter::from_fn(|| reader.next_record().transpose()).collect()
}

fn op() -> impl Strategy<Value = Op> {
    let queue = 0usize..4;
    let position = prop_oneof![0u64..20, Just(1 << 56), any::<u64>().prop_map(|position| position >> 1)];
    let body = prop_oneof![
        8 => proptest::collection::vec(any::<u8>(), 0..300),
        1 => (0usize..=WHOLE_BODY_BYTES_MAX).prop_map(|len| vec![7; len]),
    ];
    prop_oneof![
        6 => (queue.clone(), position.clone(), 0u8..3, any::<u64>(), body.clone()).prop_map(
            |(queue, position, key, arrived_us, body)| Op::Message { queue, position, key, arrived_us, body }
        ),
        4 => (queue.clone(), position.clone(), 0u8..3, any::<u64>(), proptest::collection::vec(body, 1..80)).prop_map(
            |(queue, first, key, arrived_us, bodies)| Op::Alike { queue, first, key, arrived_us, bodies }
        ),
        1 => (queue.clone(), position.clone(), 0usize..3_000_000)
            .prop_map(|(queue, position, len)| Op::Large { queue, position, body: vec![9; len] }),
        2 => (queue.clone(), position.clone(), 0u64..1000)
            .prop_map(|(queue, first, count)| Op::Settled { queue, first, count }),
        1 => (queue.clone(), position.clone()).prop_map(|(queue, position)| Op::Seen { queue, position }),
        1 => (queue, position, any::<u64>())
            .prop_map(|(queue, position, times)| Op::Returned { queue, position, times }),
        1 => Just(Op::CommitBegin),
        1 => Just(Op::CommitEnd),
        1 => Just(Op::CommitAborted),
        1 => (any::<u64>(), proptest::collection::vec(any::<u8>(), 0..100))
            .prop_map(|(version, bytes)| Op::Definition { version, bytes }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn records_are_read_as_they_were_written(ops in proptest::collection::vec(op(), 0..60)) {
        let mut writer = Writer::new();
        ops.iter().for_each(|op| writer.write(op));
        writer.flush();
        prop_assert!(read(&writer.written) == one_by_one(&ops));
        let mut bytes = &writer.written[..];
        while !bytes.is_empty() {
            let frame = Frame::read(bytes).expect("a frame");
            prop_assert!(read_by_the_short_way(&frame) == read_one_by_one(&frame));
            bytes = &bytes[frame.header.blocks() as usize * BLOCK_BYTES..];
        }
    }
}

#[test]
fn a_message_of_64_bytes_takes_68() {
    let mut writer = Writer::new();
    for position in 0..10_000 {
        writer.write(&Op::Message { queue: 0, position, key: 1, arrived_us: position, body: vec![1; 64] });
    }
    writer.flush();
    let each = writer.written.len() as f64 / 10_000.0;
    assert!(each < 68.5, "{each} bytes a message");
}

#[test]
fn messages_that_are_alike_take_what_single_ones_take_and_are_noted_from_some_number_on() {
    let bodies = |count: usize| vec![vec![1; 64]; count];
    let bytes = [ALIKE_MESSAGES_MIN, ALIKE_MESSAGES_MIN + 1].map(|count| {
        let (mut alike, mut single) = (Writer::new(), Writer::new());
        let op = Op::Alike { queue: 0, first: 5, key: 1, arrived_us: 7, bodies: bodies(count) };
        alike.write(&op);
        one_by_one(&[op]).iter().for_each(|op| single.write(op));
        let noted = alike.group.alike.iter().map(|alike| (alike.records_before, alike.records)).collect::<Vec<_>>();
        // Behind the records of the queue, of the head, and of the first message.
        let expected = [(3, ALIKE_MESSAGES_MIN as u32)];
        assert_eq!(noted, expected[..count - ALIKE_MESSAGES_MIN]);
        [alike, single].map(|mut writer| {
            writer.flush();
            writer.written
        })
    });
    assert!(bytes.iter().all(|[alike, single]| alike == single));
}

#[test]
fn nothing_is_alike_before_a_message_of_its_queue_or_beyond_the_capacity_of_a_frame() {
    let mut writer = Writer::new();
    let body = [1; 64];
    let alike = |writer: &mut Writer, queue: usize, bytes_max: usize| {
        let bodies = std::iter::repeat_n(&body[..], 2_000);
        writer.group.alike(&mut writer.cursors[queue], bodies, bytes_max).records
    };
    assert_eq!(alike(&mut writer, 0, GROUP_BYTES_MAX), 0, "there is no frame");
    writer.write(&Op::Settled { queue: 0, first: 1, count: 1 });
    assert_eq!(alike(&mut writer, 0, GROUP_BYTES_MAX), 0, "there is no message");
    writer.write(&Op::Message { queue: 1, position: 1, key: 1, arrived_us: 1, body: body.to_vec() });
    assert_eq!(alike(&mut writer, 0, GROUP_BYTES_MAX), 0, "the last message is of another queue");
    let few = alike(&mut writer, 1, BLOCK_BYTES + 1_000);
    assert!((10..14).contains(&few), "the group takes 1,000 bytes: {few}");
    let frame = few + alike(&mut writer, 1, GROUP_BYTES_MAX);
    assert!((950..980).contains(&frame), "a frame takes 64 KiB: {frame}");
    writer.flush();
    assert_eq!(read(&writer.written).len(), 2 + frame as usize);
}

#[test]
fn messages_share_a_head_only_if_every_part_of_it_is_the_same() {
    let heads: [[&[u8]; 4]; 13] = [
        [b"", b"", b"", b""],
        [b"", b"", b"", b"\x01k"],
        [b"", b"key", b"\x10\x00\x02", b""],
        [b"", b"kez", b"\x10\x00\x02", b""],
        [b"", b"key", b"\x10\x00\x01", b""],
        [b"", b"ke", b"y\x10\x00\x02", b""],
        [b"", b"key", b"\x10\x00", b"\x02"],
        [b"k", b"ey", b"\x10\x00\x02", b""],
        [b"key", b"", b"\x10\x00\x02", b""],
        [b"", b"", b"\x10\x00\x02", b"key"],
        [b"", b"key", b"", b"\x10\x00\x02"],
        [b"", b"", b"\x10\x00\x02", b""],
        [b"", b"key", b"", b""],
    ];
    // Every one behind every other one, and behind itself.
    let pairs = heads.iter().flat_map(|first| heads.iter().flat_map(move |second| [first, second, second]));
    let expected: Vec<_> = pairs.collect();
    let mut writer = Writer::new();
    for (position, parts) in expected.iter().enumerate() {
        let [exchange, routing_key, properties, bcc] = **parts;
        let message = StoredMessage { exchange, routing_key, properties, bcc, arrived_us: 1, body: b"body" };
        writer.put(|group, cursors| group.message(&mut cursors[0], Position(position as u64), &message));
    }
    writer.flush();
    let frame = Frame::read(&writer.written).expect("one frame has them all");
    let mut reader = RecordReader::new(&frame);
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().expect("records that were just written") {
        if let Record::Message { message: StoredMessage { exchange, routing_key, properties, bcc, .. }, .. } = record {
            found.push([exchange, routing_key, properties, bcc]);
        }
    }
    assert!(found.iter().eq(expected.iter().copied()), "{found:?}");
    // What repeats is written once.
    let repeated = heads.len() * heads.len();
    assert!(frame.header.records as usize <= 1 + expected.len() + expected.len() - repeated);
}

#[test]
fn a_body_is_written_once_for_all_its_queues() {
    let mut writer = Writer::new();
    writer.write(&Op::Message { queue: 0, position: 5, key: 1, arrived_us: 9, body: vec![1; 1024] });
    let alone = writer.group.at;
    let ops: Vec<_> = (1..4).map(|queue| Op::Again { queue, position: 7 }).collect();
    ops.iter().for_each(|op| writer.write(op));
    assert!(writer.group.at - alone < 3 * 12, "{} bytes", writer.group.at - alone);
    writer.flush();
    assert_eq!(read(&writer.written)[1..], ops);
}

#[test]
fn a_record_that_does_not_fit_leaves_the_group_as_it_was() {
    let mut writer = Writer::new();
    let body = vec![3; WHOLE_BODY_BYTES_MAX];
    let mut taken = 0;
    while writer.group.message(&mut writer.cursors[0], Position(taken), &message(b"k", 1, &body)).is_ok() {
        taken += 1;
    }
    let full = writer.group.bytes();
    assert!(full > GROUP_BYTES_MAX / 2 && full <= GROUP_BYTES_MAX, "{full} bytes");
    writer.flush();
    assert_eq!(read(&writer.written).len() as u64, taken);
}

#[test]
fn a_frame_whose_records_do_not_parse_is_a_fault() {
    let mut writer = Writer::new();
    for position in [5, 6] {
        writer.write(&Op::Message { queue: 0, position, key: 1, arrived_us: 9, body: vec![1; 20] });
    }
    writer.flush();
    let len = Frame::read(&writer.written).expect("a frame").records.len();
    for cut in 0..len {
        let frame = Frame::read(&writer.written).expect("a frame");
        let cut = Frame { records: &frame.records[..cut], ..frame };
        let read = [read_one_by_one(&cut), read_by_the_short_way(&cut)];
        assert_eq!(read, [Err(RecordFault), Err(RecordFault)], "records of {} bytes", cut.records.len());
    }
    let whole = Frame::read(&writer.written).expect("a frame");
    assert_eq!(read_by_the_short_way(&whole), read_one_by_one(&whole));
    assert_eq!(read_by_the_short_way(&whole).map(|records| records.len()), Ok(3), "a queue and its messages");
}
