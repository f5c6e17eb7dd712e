//! What a log says about messages, step by step: which arrived, and which their queue is done with.
//!
//! Enters: the records of a scan.  Leaves: steps, those of a commit only when all of it is there.
//!
//! A large message has arrived when all its parts have.

use store::{Block, SegmentId};
use store::{Damage, FrameHeader, FrameQueue, Position, QueueUid, Record, RecordVisitor};

/// A step of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogStep {
    /// A message with a body of so many bytes is at this position.
    Arrived { queue: QueueUid, position: Position, body_bytes: u64 },
    /// The queue is done with so many positions.
    Settled { queue: QueueUid, first: Position, count: u64 },
}

/// Parts of a message that are still to come.
struct LargeMessage {
    body_bytes: u64,
    missing_bytes: u64,
    /// The queues that it arrives in.
    entries: Vec<(QueueUid, Position)>,
}

/// Passes on the steps of a log.
pub struct LogSteps<F> {
    on_step: F,
    /// The queues of the frame that is being read.
    frame_queues: Vec<QueueUid>,
    /// The steps of a commit that has not ended.
    commit: Option<Vec<LogStep>>,
    large: Option<LargeMessage>,
    /// The body of the last message.
    last_bytes: u64,
}

impl<F: FnMut(LogStep)> LogSteps<F> {
    pub fn new(on_step: F) -> Self {
        LogSteps { on_step, frame_queues: Vec::new(), commit: None, large: None, last_bytes: 0 }
    }

    fn step(&mut self, step: LogStep) {
        match &mut self.commit {
            Some(steps) => steps.push(step),
            None => (self.on_step)(step),
        }
    }

    /// A queue of the table of this frame; the reader has checked that it is there.
    fn uid(&self, queue: FrameQueue) -> QueueUid {
        self.frame_queues[queue.0 as usize]
    }

    fn arrived(&mut self, queue: QueueUid, position: Position) {
        self.step(LogStep::Arrived { queue, position, body_bytes: self.last_bytes });
    }

    fn on_part(&mut self, bytes: u64) {
        let Some(large) = &mut self.large else { return };
        large.missing_bytes = large.missing_bytes.saturating_sub(bytes);
        if large.missing_bytes > 0 {
            return;
        }
        let Some(LargeMessage { body_bytes, entries, .. }) = self.large.take() else { return };
        self.last_bytes = body_bytes;
        for (queue, position) in entries {
            self.arrived(queue, position);
        }
    }
}

impl<F: FnMut(LogStep)> RecordVisitor for LogSteps<F> {
    fn on_frame(&mut self, _segment: SegmentId, _block: Block, _header: &FrameHeader) {
        self.frame_queues.clear();
    }

    fn on_record(&mut self, record: Record<'_>) {
        match record {
            Record::Queue { uid, .. } => self.frame_queues.push(uid),
            Record::Message { queue, position, message } => {
                self.large = None;
                self.last_bytes = message.body.len() as u64;
                self.arrived(self.uid(queue), position);
            }
            Record::Large { queue, position, body_bytes, .. } => {
                let entries = vec![(self.uid(queue), position)];
                self.large = Some(LargeMessage { body_bytes, missing_bytes: body_bytes, entries });
                self.on_part(0);
            }
            Record::Again { queue, position } => {
                let uid = self.uid(queue);
                match &mut self.large {
                    Some(large) => large.entries.push((uid, position)),
                    None => self.arrived(uid, position),
                }
            }
            Record::Part(bytes) => self.on_part(bytes.len() as u64),
            Record::Settled { queue, first, count } => {
                self.step(LogStep::Settled { queue: self.uid(queue), first, count });
            }
            // What was not ended does not count.
            Record::CommitBegin => self.commit = Some(Vec::new()),
            Record::CommitEnd => self.commit.take().into_iter().flatten().for_each(&mut self.on_step),
            Record::Seen { .. } | Record::Returned { .. } | Record::Definition { .. } => {}
        }
    }

    /// A commit or a large message of which a part is missing does not count.
    fn on_damage(&mut self, _damage: &Damage) {
        self.commit = None;
        self.large = None;
    }
}
