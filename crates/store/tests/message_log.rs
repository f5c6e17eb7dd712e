//! A log of messages, step by step: what is written when, and what is not.

use std::rc::Rc;
use store::limits::{
    LAZY_WRITE_BYTES, LAZY_WRITE_US, MARK_DELAY_US, MESSAGE_OVERHEAD_BYTES, PENDING_BYTES_MAX, WHOLE_BODY_BYTES_MAX,
};
use store::{
    Completion, DiskError, DiskErrorKind, Frame, FrameKind, LogId, LoggedMessage, MessageLog, MessageLogEvent,
    MessageLogOptions, Position, QueueUid, Record, RecordReader, RecoveredLog, Request, StoreTag, StoredMessage,
    Ticket,
};

const QUEUE: QueueUid = QueueUid(5);
const OTHER: QueueUid = QueueUid(6);

#[derive(Clone)]
struct Message(Rc<Vec<u8>>);

impl LoggedMessage for Message {
    fn stored(&self) -> StoredMessage<'_> {
        StoredMessage {
            exchange: b"",
            routing_key: b"key",
            properties: &[0, 0],
            bcc: b"",
            arrived_us: 7,
            body: &self.0,
        }
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

fn message(bytes: usize) -> Message {
    Message(Rc::new(vec![b'm'; bytes]))
}

/// A log whose segments are made at once, and what it has written.
struct Log {
    log: MessageLog<Message>,
    /// The write that is under way.
    writing: Option<Completion>,
    /// The records of each group, in words.
    written: Vec<Vec<String>>,
    bytes: usize,
    durable: Option<Ticket>,
}

impl Log {
    fn new() -> Log {
        let log = MessageLog::new(RecoveredLog::empty(StoreTag(1), LogId(0)), MessageLogOptions::default());
        Log { log, writing: None, written: Vec::new(), bytes: 0, durable: None }
    }

    fn poll(&mut self, now_us: u64) -> &mut Self {
        while let Some(request) = self.log.poll(now_us) {
            match request {
                Request::Make { segment, .. } => {
                    assert_eq!(self.log.complete(Completion::Made { segment, result: Ok(()) }, now_us), None);
                }
                Request::Write { segment, block, group } => {
                    let frames =
                        if block.0 == 0 { &group.bytes()[store::limits::BLOCK_BYTES..] } else { group.bytes() };
                    self.written.push(records(frames));
                    self.bytes += frames.len();
                    let write = Completion::Written { segment, group, result: Ok(()) };
                    assert!(self.writing.replace(write).is_none(), "one write at a time");
                }
                Request::Read { .. } | Request::Remove { .. } | Request::Sync { .. } | Request::WriteFooter { .. } => {
                    panic!("{request:?}")
                }
            }
        }
        let event = self.log.take_event();
        self.on_event(event);
        self
    }

    fn complete(&mut self, now_us: u64) -> &mut Self {
        let write = self.writing.take().expect("a write is under way");
        let event = self.log.complete(write, now_us);
        self.on_event(event);
        self
    }

    fn on_event(&mut self, event: Option<MessageLogEvent>) {
        match event {
            Some(MessageLogEvent::Durable(ticket)) => self.durable = Some(ticket),
            Some(event) => panic!("{event:?}"),
            None => {}
        }
    }

    fn append(&mut self, queue: QueueUid, position: u64, bytes: usize) -> Ticket {
        self.log.append(queue, Position(position), message(bytes))
    }

    fn append_run(&mut self, queue: QueueUid, first: u64, messages: usize, bytes: usize) -> Ticket {
        self.log.append_run(queue, Position(first), Vec::from_iter((0..messages).map(|_| message(bytes))))
    }
}

fn records(mut frames: &[u8]) -> Vec<String> {
    let mut words = Vec::new();
    while !frames.is_empty() {
        let frame = Frame::read(frames).expect("a frame");
        if frame.header.kind == FrameKind::Mark {
            words.push("mark".into());
        }
        let mut reader = RecordReader::new(&frame);
        while let Some(record) = reader.next_record().expect("records that parse") {
            words.push(match record {
                Record::Queue { .. } => continue,
                Record::Message { queue, position, .. } => format!("message {} {}", queue.0, position.0),
                Record::Large { position, .. } => format!("large {}", position.0),
                Record::Part(_) => "part".into(),
                Record::Again { queue, position } => format!("again {} {}", queue.0, position.0),
                Record::Settled { first, count, .. } => format!("settled {} {count}", first.0),
                Record::Seen { position, .. } => format!("seen {}", position.0),
                Record::Returned { position, times, .. } => format!("returned {} {times}", position.0),
                Record::CommitBegin => "begin".into(),
                Record::CommitEnd => "end".into(),
                Record::CommitAborted => "aborted".into(),
                Record::Definition { .. } => "definition".into(),
            });
        }
        frames = &frames[frame.header.blocks() as usize * store::limits::BLOCK_BYTES..];
    }
    words.dedup_by(|a, b| a == "part" && b == "part");
    words
}

#[test]
fn what_somebody_waits_for_is_written_at_once_and_the_rest_with_it() {
    let mut log = Log::new();
    log.append(QUEUE, 1, 10);
    assert!(log.poll(0).written.is_empty(), "nobody waits");
    let ticket = log.append(QUEUE, 2, 10);
    log.log.await_durable(ticket);
    log.poll(0);
    assert_eq!(log.written, [["message 0 1", "message 0 2"]]);
    // What comes while a write is under way waits for it.
    let later = log.append(QUEUE, 3, 10);
    log.log.await_durable(later);
    assert_eq!(log.poll(0).written.len(), 1);
    log.complete(0).poll(0);
    assert_eq!((log.durable, log.written.len()), (Some(ticket), 2));
    assert_eq!(log.complete(0).durable, Some(later));
}

#[test]
fn what_nobody_waits_for_is_written_after_a_while_or_when_it_is_much() {
    let mut log = Log::new();
    log.append(QUEUE, 1, 10);
    assert!(log.poll(100).written.is_empty());
    assert_eq!(log.log.timer_us(), Some(100 + LAZY_WRITE_US));
    assert!(log.poll(99 + LAZY_WRITE_US).written.is_empty());
    assert_eq!(log.poll(100 + LAZY_WRITE_US).written, [["message 0 1"]]);
    log.complete(20_000);
    for position in 2..2 + LAZY_WRITE_BYTES as u64 / 1024 {
        assert_eq!(log.poll(20_000).written.len(), 1);
        log.append(QUEUE, position, 1024);
    }
    assert_eq!(log.poll(20_000).written.len(), 2);
}

#[test]
fn what_is_settled_before_it_is_written_never_is_and_is_durable_in_its_turn() {
    let mut log = Log::new();
    let tickets: Vec<Ticket> = (1..=4).map(|position| log.append(QUEUE, position, 1000)).collect();
    log.log.settle(QUEUE, Position(1), 3);
    assert_eq!(log.log.pending_bytes(), 1000);
    log.log.await_durable(tickets[0]);
    log.poll(0);
    assert_eq!(log.durable, None, "what was appended before the settlement is not durable");
    assert_eq!(log.written, [["message 0 4"]]);
    assert_eq!(log.complete(0).durable, Some(tickets[3]));
    // Nothing at all is to be written.
    let last = log.append(QUEUE, 5, 10);
    log.log.settle(QUEUE, Position(5), 1);
    log.log.await_durable(last);
    log.poll(0);
    assert_eq!((log.durable, log.written.len(), log.log.pending_bytes()), (Some(last), 1, 0));
}

#[test]
fn messages_of_a_run_are_settled_and_durable_one_by_one() {
    let mut log = Log::new();
    log.append(QUEUE, 1, 10);
    assert_eq!(log.append_run(QUEUE, 2, 8, 10), Ticket(2), "the first ticket of the run");
    // The first that is unwritten, one within the run, and all from one on.
    for (first, count) in [(1, 2), (5, 1), (8, 100)] {
        log.log.settle(QUEUE, Position(first), count);
    }
    assert_eq!(log.log.pending_bytes(), 40);
    let last = log.append_run(OTHER, 1, 3, 10);
    assert_eq!(last, Ticket(10));
    log.log.await_durable(Ticket(6));
    log.poll(0);
    // A queue is named anew where positions are left out.
    let expected = [(0, 3), (0, 4), (1, 6), (1, 7), (2, 1), (2, 2), (2, 3)];
    assert_eq!(log.written, [expected.map(|(queue, position)| format!("message {queue} {position}"))]);
    assert_eq!((log.durable, log.log.pending_bytes()), (None, 0), "what came before the settlements is not durable");
    assert_eq!(log.complete(0).durable, Some(Ticket(12)));
    let metrics = log.log.metrics();
    assert_eq!((metrics.messages_written, metrics.live_bytes), (7, 7 * (10 + MESSAGE_OVERHEAD_BYTES)));
    log.log.settle(QUEUE, Position(4), 3);
    log.log.settle(OTHER, Position(1), 1);
    assert_eq!(log.log.live_bytes(), 4 * (10 + MESSAGE_OVERHEAD_BYTES));
}

#[test]
fn a_run_longer_than_a_group_goes_on_in_the_next() {
    let mut log = Log::new();
    let last = log.append_run(QUEUE, 1, 2_000, 1_000).0 + 1_999;
    log.log.await_durable(Ticket(last));
    log.poll(0);
    let first = log.written[0].len() as u64;
    assert!((980..1_030).contains(&first), "{first} messages in a group of 1 MiB");
    assert_eq!(log.complete(0).durable, Some(Ticket(first)));
    while log.poll(0).writing.is_some() {
        log.complete(0);
    }
    let expected = (1..=2_000).map(|position| format!("message 0 {position}"));
    assert!(log.durable == Some(Ticket(last)) && log.written.concat() == Vec::from_iter(expected));
}

#[test]
fn settlements_of_neighbours_are_one_record_behind_what_came_before_them() {
    let mut log = Log::new();
    for position in 1..=20 {
        log.append(QUEUE, position, 10);
    }
    log.poll(0).poll(LAZY_WRITE_US).complete(LAZY_WRITE_US);
    log.log.settle(QUEUE, Position(3), 2);
    log.append(OTHER, 1, 10);
    log.log.settle(QUEUE, Position(5), 4);
    log.log.settle(QUEUE, Position(2), 1);
    log.log.settle(QUEUE, Position(9), 100);
    log.log.settle(QUEUE, Position(9), 100);
    log.log.settle(QueueUid(99), Position(9), 100);
    let begun_us = 2 * LAZY_WRITE_US;
    log.poll(begun_us).poll(begun_us + LAZY_WRITE_US);
    assert_eq!(log.written[1], ["message 0 1", "settled 2 19"]);
    assert_eq!(log.log.live_bytes(), 2 * (10 + store::limits::MESSAGE_OVERHEAD_BYTES));
}

#[test]
fn a_message_for_several_queues_is_written_once() {
    let mut log = Log::new();
    let shared = message(3000);
    for queue in 0..30 {
        log.log.append(QueueUid(queue), Position(1), shared.clone());
    }
    log.append(QUEUE, 2, 3000);
    log.poll(0).poll(LAZY_WRITE_US);
    assert_eq!(log.written[0].iter().filter(|word| word.starts_with("message")).count(), 2);
    assert_eq!(log.written[0].iter().filter(|word| word.starts_with("again")).count(), 29);
    assert!(log.bytes <= 2 * store::limits::BLOCK_BYTES);
}

#[test]
fn nothing_stands_between_the_parts_of_a_large_body_and_the_list_waits_for_them() {
    let mut log = Log::new();
    log.append(QUEUE, 1, 10);
    log.append(QUEUE, 2, 10);
    log.poll(0).poll(LAZY_WRITE_US).complete(LAZY_WRITE_US);
    log.log.settle(QUEUE, Position(1), 1);
    log.log.mark_delivered(QUEUE, Position(2));
    let large = log.append(QUEUE, 3, 5 * WHOLE_BODY_BYTES_MAX);
    let behind = log.append(OTHER, 1, 10);
    log.log.await_durable(behind);
    log.poll(20_000);
    assert_eq!(log.written[1], ["settled 1 1", "large 3", "part"]);
    // It is begun, and settled as one that is written.
    log.log.settle(QUEUE, Position(3), 1);
    log.complete(20_000).poll(20_000);
    assert_eq!(log.durable, Some(Ticket(large.0 - 1)), "the settlement before it");
    assert_eq!(log.written[2], ["part", "message 0 1", "settled 3 1", "seen 2"]);
    assert!(log.complete(20_000).durable >= Some(behind));
}

#[test]
fn how_far_messages_were_handed_out_is_written_with_the_next_group_or_before_a_mark() {
    let mut log = Log::new();
    log.append(QUEUE, 1, 10);
    log.append(QUEUE, 2, 10);
    log.poll(0).poll(LAZY_WRITE_US).complete(LAZY_WRITE_US);
    log.log.mark_delivered(QUEUE, Position(1));
    log.log.mark_delivered(QUEUE, Position(2));
    log.log.mark_delivered(QUEUE, Position(1));
    let begun_us = 20_000;
    assert_eq!(log.poll(begun_us).written.len(), 1);
    let due_us = begun_us + MARK_DELAY_US;
    log.poll(due_us);
    assert_eq!(log.written[1], ["seen 2"]);
    // Where nothing is left nothing is said.
    log.complete(due_us).log.settle(QUEUE, Position(1), 2);
    log.append(OTHER, 1, 10);
    log.log.mark_delivered(QUEUE, Position(2));
    log.log.mark_returned(OTHER, Position(1), 3);
    log.poll(due_us).poll(due_us + LAZY_WRITE_US);
    assert_eq!(log.written[2], ["message 0 1", "returned 1 3", "settled 1 2"]);
}

#[test]
fn a_log_that_ends_writes_how_far_messages_were_handed_out_although_its_clock_stands_still() {
    let mut log = Log::new();
    let ticket = log.append(QUEUE, 0, 1);
    log.log.await_durable(ticket);
    log.poll(10).complete(10);
    log.log.mark_delivered(QUEUE, Position(0));
    log.log.close();
    log.poll(10).complete(10);
    assert_eq!(log.written.last(), Some(&vec!["seen 0".to_owned()]), "{:?}", log.written);
}

#[test]
fn a_log_that_ends_tries_again_to_make_a_segment_and_no_more_than_once() {
    for has_space in [true, false] {
        let mut log = Log::new();
        let no_space = || Err(DiskError { kind: DiskErrorKind::NoSpace, text: "full".to_owned() });
        log.append(QUEUE, 1, 10);
        let Some(Request::Make { segment, .. }) = log.log.poll(0) else { panic!("a segment is made") };
        let event = log.log.complete(Completion::Made { segment, result: no_space() }, 0);
        assert!(matches!(event, Some(MessageLogEvent::NoSpace)), "{event:?}");
        assert!(log.log.poll(LAZY_WRITE_US).is_none(), "it is tried again later");
        log.log.close();
        let Some(Request::Make { segment, .. }) = log.log.poll(LAZY_WRITE_US) else { panic!("it is tried again") };
        let result = if has_space { Ok(()) } else { no_space() };
        let event = log.log.complete(Completion::Made { segment, result }, LAZY_WRITE_US);
        assert_eq!(event, has_space.then_some(MessageLogEvent::Space));
        match has_space {
            true => assert_eq!(log.poll(LAZY_WRITE_US).complete(LAZY_WRITE_US).written, [["message 0 1"]]),
            false => assert!(log.log.poll(LAZY_WRITE_US).is_none(), "nothing waits for space at the end"),
        }
    }
}

#[test]
fn a_commit_settles_what_is_unwritten_by_a_record() {
    let mut log = Log::new();
    log.append(QUEUE, 1, 10);
    log.log.begin_commit();
    log.log.settle(QUEUE, Position(1), 1);
    log.append(OTHER, 1, 10);
    let ticket = log.log.end_commit();
    log.log.await_durable(ticket);
    log.poll(0);
    assert_eq!(log.written[0], ["message 0 1", "begin", "message 1 1", "settled 1 1", "end"]);
    assert_eq!(log.complete(0).durable, Some(ticket));
}

#[test]
fn of_a_dropped_queue_nothing_is_written_and_nothing_is_alive() {
    let mut log = Log::new();
    log.append(QUEUE, 1, 10);
    log.poll(0).poll(LAZY_WRITE_US).complete(LAZY_WRITE_US);
    log.append(QUEUE, 2, 10);
    let kept = log.append(OTHER, 1, 10);
    log.log.drop_queue(QUEUE);
    assert_eq!(log.log.live_bytes(), 0);
    log.log.settle(QUEUE, Position(1), 1);
    log.log.await_durable(kept);
    log.poll(20_000).complete(20_000);
    assert_eq!(log.written[1], ["message 0 1"]);
}

#[test]
fn publishers_stop_when_too_much_is_unwritten() {
    let mut log = Log::new();
    for position in 0..PENDING_BYTES_MAX as u64 / 1024 {
        assert!(!log.log.is_congested());
        log.append(QUEUE, 1 + position, 1024);
    }
    assert!(log.log.is_congested());
    log.poll(0);
    assert!(!log.log.is_congested());
    while log.writing.is_some() {
        log.complete(0).poll(0);
    }
    assert_eq!(log.log.pending_bytes(), 0, "what is left of much is written at once");
}

#[test]
fn a_group_that_is_held_back_has_what_came_meanwhile() {
    let mut log = Log::new();
    log.log.set_group_delay(500);
    let first = log.log.append(QUEUE, Position(1), message(10));
    log.log.await_durable(first);
    assert_eq!(log.poll(1_000).written.len(), 0, "it is held back");
    assert_eq!(log.log.timer_us(), Some(1_500));
    let second = log.log.append(QUEUE, Position(2), message(10));
    log.log.await_durable(second);
    assert_eq!(log.poll(1_499).written.len(), 0);
    assert_eq!(log.poll(1_500).written.len(), 1, "one group for both");
    log.complete(1_600);
    assert_eq!(log.durable, Some(second));
}

#[test]
fn a_log_that_is_held_back_syncs_what_it_has_written_and_writes_nothing_new() {
    let mut log = Log::new();
    log.log.sync_later(1_000);
    let first = log.append(QUEUE, 1, 10);
    log.log.await_durable(first);
    log.poll(0).complete(100);
    log.log.hold_writes(true);
    let second = log.append(OTHER, 1, 10);
    log.log.await_durable(second);
    log.poll(1_099);
    assert_eq!(log.log.timer_us(), Some(1_100), "nothing else has anything to do");
    let Some(Request::Sync { segment }) = log.log.poll(1_100) else { panic!("a sync is due") };
    assert_eq!(log.log.complete(Completion::Synced { segment, result: Ok(()) }, 1_200), None);
    let mark_us = 1_200 + MARK_DELAY_US;
    assert_eq!(log.poll(mark_us - 1).log.timer_us(), Some(mark_us));
    log.poll(mark_us).complete(mark_us);
    assert_eq!(log.written, [vec!["message 0 1"], vec!["mark"]]);
    log.log.hold_writes(false);
    log.poll(mark_us).complete(mark_us);
    assert_eq!((log.written[2].as_slice(), log.durable), (["message 0 1".to_owned()].as_slice(), Some(second)));
}

#[test]
fn what_is_written_is_counted_and_what_is_settled_before_is_not() {
    let mut log = Log::new();
    assert_eq!(log.log.metrics(), store::LogMetrics::default());
    for position in 1..=3 {
        log.append(QUEUE, position, 100);
    }
    log.log.settle(QUEUE, Position(2), 1);
    assert_eq!(log.log.metrics().pending_bytes, 200);
    let ticket = log.append(OTHER, 4, 50);
    log.log.await_durable(ticket);
    let metrics = log.poll(0).log.metrics();
    assert_eq!((metrics.messages_written, metrics.groups_written), (3, 0), "the write is under way");
    let bytes = log.bytes + store::limits::BLOCK_BYTES;
    let metrics = log.complete(10).log.metrics();
    assert_eq!((metrics.messages_written, metrics.groups_written, metrics.marks_written), (3, 1, 0));
    assert_eq!((metrics.bytes_written, metrics.pending_bytes), (bytes as u64, 0), "with the header of the segment");
    assert_eq!((metrics.segments_in_use, metrics.log_bytes), (1, log.log.log_bytes()));
    assert_eq!(metrics.live_bytes, 250 + 3 * store::limits::MESSAGE_OVERHEAD_BYTES);
    let metrics = log.poll(10 + MARK_DELAY_US).complete(20 + MARK_DELAY_US).log.metrics();
    assert_eq!((metrics.groups_written, metrics.marks_written), (1, 1));
    assert_eq!((metrics.messages_moved, metrics.bytes_moved), (0, 0));
}

/// A publisher with so many messages in flight, to whom it takes `answer_us` to send as many as were confirmed. A write takes 100 us.
/// Returns how many messages a group has.
fn messages_a_group(in_flight: u64, answer_us: u64) -> u64 {
    const WRITE_US: u64 = 100;
    const GROUPS: u64 = 60;
    let mut log = Log::new();
    let (mut now_us, mut published, mut confirmed) = (0, 0, 0);
    let mut wanted_at = vec![(now_us, in_flight / 2), (now_us + WRITE_US / 2, in_flight - in_flight / 2)];
    let mut written_at = None;
    while (log.written.len() as u64) < GROUPS {
        now_us += 10;
        if written_at.is_some_and(|at_us| at_us <= now_us) {
            written_at = None;
            log.complete(now_us);
            let durable = log.durable.map_or(0, |ticket| ticket.0);
            wanted_at.push((now_us + answer_us, durable - confirmed));
            confirmed = durable;
        }
        for (_, count) in wanted_at.extract_if(.., |(at_us, _)| *at_us <= now_us) {
            for _ in 0..count {
                published += 1;
                let ticket = log.append(QUEUE, published, 64);
                log.log.await_durable(ticket);
            }
        }
        log.poll(now_us);
        if log.writing.is_some() && written_at.is_none() {
            written_at = Some(now_us + WRITE_US);
        }
    }
    // The last one is being written.
    confirmed / (GROUPS - 1)
}

#[test]
fn groups_wait_for_publishers_that_were_confirmed_and_are_about_to_send_as_much_again() {
    let all = messages_a_group(1_000, 50);
    assert!(all > 850, "nearly all that is in flight is one group: {all}");
    let slow = messages_a_group(1_000, 400);
    assert!(slow < 600, "nobody waits longer than a write takes: {slow}");
    assert_eq!(messages_a_group(2, 50), 1, "few confirms are not held back");
}
