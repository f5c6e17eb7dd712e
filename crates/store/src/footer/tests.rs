use super::*;
use crate::ids::{Position, QueueUid};
use crate::limits::{EXTENT_BLOCKS, MESSAGE_OVERHEAD_BYTES};
use crate::record::{FrameQueue, StoredMessage};
use proptest::prelude::*;

const START: SegmentStart = SegmentStart { number: SegmentNumber(7), first: FrameSequence(100), previous_crc: 0xabcd };
const FIRST_US: u64 = 1_700_000_000_000_000;

fn end(block: u32) -> SegmentEnd {
    SegmentEnd { next: FrameSequence(200), last_crc: 0x1234, block: Block(block) }
}

fn writer() -> FooterWriter {
    let mut writer = FooterWriter::new(StoreTag(9), LogId(2));
    writer.begin(START);
    writer
}

fn entries(bytes: &[u8]) -> Vec<FooterEntry> {
    Footer::read(bytes).expect("a footer").entries().collect()
}

fn message(queue: u32, position: u64, body: &[u8]) -> Record<'_> {
    let message = StoredMessage {
        exchange: b"",
        routing_key: b"key",
        properties: &[1, 2, 3],
        bcc: b"",
        arrived_us: FIRST_US + position,
        body,
    };
    Record::Message { queue: FrameQueue(queue), position: Position(position), message }
}

fn queue(queue: u32, uid: u64, next: u64) -> Record<'static> {
    Record::Queue { queue: FrameQueue(queue), uid: QueueUid(uid), next: Position(next) }
}

/// The run of messages with bodies of so many bytes.
fn run(first: u64, count: u64, body_bytes: u64) -> MessageRun {
    MessageRun {
        first: Position(first),
        count,
        log_bytes: body_bytes + count * MESSAGE_OVERHEAD_BYTES,
        body_bytes,
        first_arrived_us: FIRST_US + first,
        last_arrived_us: FIRST_US + first + count - 1,
        flags: 0x0102,
    }
}

#[test]
fn messages_of_a_queue_are_one_entry_until_something_else_is_said_of_it() {
    let mut writer = writer();
    writer.begin_frame(Block(1));
    let (mine, other) = (FrameQueue(0), FrameQueue(1));
    for record in [
        queue(0, 5, 10),
        message(0, 10, b"a body"),
        queue(1, 6, 1),
        message(1, 1, b""),
        Record::Again { queue: mine, position: Position(11) },
        message(0, 12, b"and another"),
        Record::Settled { queue: mine, first: Position(10), count: 2 },
        message(0, 13, b"z"),
        message(1, 2, b"z"),
        Record::CommitBegin,
        message(1, 3, b"z"),
        Record::CommitEnd,
        Record::Seen { queue: other, position: Position(3) },
        Record::Returned { queue: other, position: Position(3), times: 4 },
    ] {
        writer.add(&record);
    }
    // The next frame is in the same extent, and has a table of its own.
    writer.begin_frame(Block(1 + EXTENT_BLOCKS - 1));
    writer.add(&queue(0, 6, 4));
    writer.add(&message(0, 4, b"zz"));
    writer.begin_frame(Block(1 + EXTENT_BLOCKS));
    writer.add(&queue(0, 6, 5));
    writer.add(&message(0, 5, b"zz"));
    let bytes = writer.finish(end(100)).expect("a footer");
    let (mine, other) = (FooterQueue(0), FooterQueue(1));
    // The body of the message that was entered again counts for both queues, and once in the log.
    let shared = MessageRun { first_arrived_us: FIRST_US + 1, last_arrived_us: FIRST_US + 12, ..run(10, 3, 17) };
    let expected = [
        FooterEntry::Extent { block: Block(1) },
        FooterEntry::Queue { uid: QueueUid(5), level: 0 },
        FooterEntry::Messages { queue: mine, run: shared },
        FooterEntry::Queue { uid: QueueUid(6), level: 0 },
        FooterEntry::Messages { queue: other, run: run(1, 2, 1) },
        FooterEntry::Settled { queue: mine, first: Position(10), count: 2 },
        FooterEntry::Messages { queue: mine, run: run(13, 1, 1) },
        FooterEntry::CommitBegin,
        FooterEntry::Messages { queue: other, run: run(3, 1, 1) },
        FooterEntry::CommitEnd,
        FooterEntry::Seen { queue: other, position: Position(3) },
        FooterEntry::Returned { queue: other, position: Position(3), times: 4 },
        FooterEntry::Messages { queue: other, run: run(4, 1, 2) },
        FooterEntry::Extent { block: Block(1 + EXTENT_BLOCKS) },
        FooterEntry::Messages { queue: other, run: run(5, 1, 2) },
    ];
    assert_eq!(entries(&bytes), expected);
    let footer = Footer::read(&bytes).expect("a footer");
    assert_eq!(
        (footer.store, footer.segment().log, footer.start, footer.end),
        (StoreTag(9), LogId(2), START, end(100))
    );
    assert_eq!(footer.frames(), 100);
}

#[test]
fn a_full_segment_of_one_queue_has_a_footer_of_a_few_kilobytes() {
    let mut writer = writer();
    let (frames, messages_per_frame) = (1023, 900);
    for frame in 0..frames {
        writer.begin_frame(Block(1 + 16 * frame));
        let first = u64::from(frame) * messages_per_frame;
        writer.add(&queue(0, 77, first));
        for position in first..first + messages_per_frame {
            writer.add(&message(0, position, &[0; 64]));
        }
    }
    let bytes = writer.finish(end(1 + 16 * frames)).expect("a footer");
    assert!(bytes.len() < 6 << 10, "{} bytes", bytes.len());
    let messages = entries(&bytes).into_iter().map(|entry| match entry {
        FooterEntry::Messages { run, .. } => run.count,
        _ => 0,
    });
    assert_eq!(messages.sum::<u64>(), u64::from(frames) * messages_per_frame);
}

#[test]
fn a_segment_that_would_need_too_large_a_footer_has_none_and_the_next_one_has_one() {
    let mut writer = writer();
    let mut position = 0;
    let mut block = 1;
    while writer.segment().is_some() {
        assert!(block < 1 << 20, "a footer has a limit");
        writer.begin_frame(Block(block));
        block += EXTENT_BLOCKS;
        writer.add(&queue(0, 1, 0));
        for _ in 0..10_000 {
            // No two are neighbours.
            position += 2;
            writer.add(&message(0, position, b""));
        }
    }
    assert_eq!(writer.finish(end(block)), None);
    writer.begin(START);
    writer.begin_frame(Block(1));
    assert_eq!(entries(&writer.finish(end(2)).expect("a footer")), [FooterEntry::Extent { block: Block(1) }]);
}

#[test]
fn each_flipped_bit_and_each_missing_byte_of_a_footer_is_found() {
    let mut writer = writer();
    writer.begin_frame(Block(1));
    writer.add(&queue(0, 5, 10));
    writer.add(&message(0, 10, b"a body"));
    let bytes = writer.finish(end(2)).expect("a footer");
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Footer::read(&flipped), Err(FooterFault::Damaged), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert_eq!(Footer::read(&bytes[..len]), Err(FooterFault::Damaged), "{len} bytes");
    }
}

#[test]
fn a_footer_of_another_format_is_told_from_damage() {
    let mut bytes = writer().finish(end(2)).expect("a footer");
    bytes[8] += 1;
    let crc = checksum(&bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Footer::read(&bytes), Err(FooterFault::UnknownFormat(FOOTER_FORMAT + 1)));
}

#[test]
fn entries_that_no_segment_can_have_are_refused() {
    let read = |entries: &[FooterEntry]| {
        let mut encoder = EntryEncoder::default();
        entries.iter().for_each(|entry| encoder.put(entry));
        let bytes = Footer::new(StoreTag(9), LogId(2), START, end(100), encoder.bytes()).write();
        Footer::read(&bytes).map(|_| ())
    };
    let extent = |block| FooterEntry::Extent { block: Block(block) };
    let queue = FooterEntry::Queue { uid: QueueUid(1), level: 0 };
    let messages = |run| FooterEntry::Messages { queue: FooterQueue(0), run };
    let of_two_levels = MessageRun { count: 2, ..run((1 << 56) - 1, 1, 0) };
    assert_eq!(read(&[extent(1), extent(99), queue, messages(run(1, 10, 10))]), Ok(()));
    for bad in [
        &[queue, extent(1)][..],
        &[extent(0)],
        &[extent(5), extent(5)],
        &[extent(100)],
        &[extent(1), queue, messages(MessageRun { count: 0, ..run(1, 1, 0) })],
        &[extent(1), queue, messages(of_two_levels)],
        &[extent(1), queue, messages(run(1, 1 << 40, 0))],
        &[extent(1), queue, messages(run(1, 1, NAMED_BYTES_MAX))],
        &[extent(1), queue, FooterEntry::Large { queue: FooterQueue(0), run: run(1, 2, 5) }],
    ] {
        assert_eq!(read(bad), Err(FooterFault::BadEntries), "{bad:?}");
    }
    let unknown = Footer::new(StoreTag(9), LogId(2), START, end(100), &[1, 1, 99]).write();
    assert_eq!(Footer::read(&unknown), Err(FooterFault::BadEntries));
}

fn any_entry() -> impl Strategy<Value = FooterEntry> {
    let queue = (0u32..3).prop_map(FooterQueue);
    let run = (queue.clone(), 0u64..1 << 40, 1u64..50, 0u64..9000, 0u64..9000, any::<u32>(), any::<u16>());
    let run = run.prop_map(|(queue, first, count, body_bytes, log_bytes, us, flags)| {
        let first = Position(u64::from(queue.0) << 56 | first);
        let first_arrived_us = us.into();
        let last_arrived_us = first_arrived_us + log_bytes;
        (queue, MessageRun { first, count, log_bytes, body_bytes, first_arrived_us, last_arrived_us, flags })
    });
    let position = any::<u64>().prop_map(Position);
    prop_oneof![
        run.clone().prop_map(|(queue, run)| FooterEntry::Messages { queue, run }),
        run.prop_map(|(queue, run)| FooterEntry::Large { queue, run: MessageRun { count: 1, ..run } }),
        (0u64..1 << 40).prop_map(|bytes| FooterEntry::Part { bytes }),
        (queue.clone(), 0u64..1 << 40, any::<u32>()).prop_map(|(queue, first, count)| FooterEntry::Settled {
            queue,
            first: Position(first),
            count: count.into()
        }),
        (queue.clone(), position.clone()).prop_map(|(queue, position)| FooterEntry::Seen { queue, position }),
        (queue, position, any::<u64>()).prop_map(|(queue, position, times)| FooterEntry::Returned {
            queue,
            position,
            times
        }),
        Just(FooterEntry::CommitBegin),
        Just(FooterEntry::CommitEnd),
        Just(FooterEntry::CommitAborted),
    ]
}

proptest! {
    #[test]
    fn entries_are_read_as_they_were_written(
        first in prop::collection::vec(any_entry(), 0..40),
        second in prop::collection::vec(any_entry(), 0..40),
    ) {
        let queues = (0..3).map(|level| FooterEntry::Queue { uid: QueueUid(500 + u64::from(level)), level });
        let extent = |block| FooterEntry::Extent { block: Block(block) };
        let expected: Vec<_> = [extent(1)].into_iter().chain(queues).chain(first).chain([extent(70)]).chain(second).collect();
        let mut encoder = EntryEncoder::default();
        expected.iter().for_each(|entry| encoder.put(entry));
        let bytes = Footer::new(StoreTag(9), LogId(2), START, end(100), encoder.bytes()).write();
        prop_assert_eq!(entries(&bytes), expected);
    }
}
