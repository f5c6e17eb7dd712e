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

/// A message whose body follows in parts.
struct LargeMessage {
    queue: QueueUid,
    position: Position,
    body_bytes: u64,
    missing_bytes: u64,
}

/// Passes on the steps of a log.
pub struct LogSteps<F> {
    on_step: F,
    /// The queues of the frame that is being read.
    frame_queues: Vec<QueueUid>,
    /// The body of the frame's last message.
    last_bytes: Option<u64>,
    large: Option<LargeMessage>,
    /// The steps of a commit that has not ended.
    commit: Option<Vec<LogStep>>,
}

impl<F: FnMut(LogStep)> LogSteps<F> {
    pub fn new(on_step: F) -> Self {
        LogSteps { on_step, frame_queues: Vec::new(), last_bytes: None, large: None, commit: None }
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

    fn on_part(&mut self, bytes: u64) {
        let Some(large) = &mut self.large else { return };
        large.missing_bytes = large.missing_bytes.saturating_sub(bytes);
        if large.missing_bytes == 0
            && let Some(LargeMessage { queue, position, body_bytes, .. }) = self.large.take()
        {
            self.step(LogStep::Arrived { queue, position, body_bytes });
        }
    }
}

impl<F: FnMut(LogStep)> RecordVisitor for LogSteps<F> {
    fn on_frame(&mut self, _segment: SegmentId, _block: Block, _header: &FrameHeader) {
        self.frame_queues.clear();
        self.last_bytes = None;
    }

    fn on_record(&mut self, record: Record<'_>) {
        if let Record::Part(bytes) = record {
            return self.on_part(bytes.len() as u64);
        }
        // A body whose parts do not follow was never written to its end.
        self.large = None;
        match record {
            Record::Queue { uid, .. } => self.frame_queues.push(uid),
            Record::Message { queue, position, message } => {
                let body_bytes = message.body.len() as u64;
                self.last_bytes = Some(body_bytes);
                self.step(LogStep::Arrived { queue: self.uid(queue), position, body_bytes });
            }
            Record::Large { queue, position, body_bytes, .. } => {
                let queue = self.uid(queue);
                self.last_bytes = None;
                self.large = Some(LargeMessage { queue, position, body_bytes, missing_bytes: body_bytes });
            }
            Record::Again { queue, position } => {
                if let Some(body_bytes) = self.last_bytes {
                    self.step(LogStep::Arrived { queue: self.uid(queue), position, body_bytes });
                }
            }
            Record::Settled { queue, first, count } => {
                self.step(LogStep::Settled { queue: self.uid(queue), first, count });
            }
            Record::CommitBegin => self.commit = Some(Vec::new()),
            Record::CommitEnd => self.commit.take().into_iter().flatten().for_each(&mut self.on_step),
            Record::CommitAborted => self.commit = None,
            Record::Seen { .. } | Record::Returned { .. } | Record::Definition { .. } | Record::Part(_) => {}
        }
    }

    /// A commit or a large message of which a part is missing does not count.
    fn on_damage(&mut self, _damage: &Damage) {
        self.commit = None;
        self.large = None;
    }
}
