//! Follows the records of a log, and holds those of a commit back until its end.

use super::level::Placed;
use super::{Extent, FoundLevel, FoundMessage, FoundQueue, RecoveredLevel, RecoveredLog, RecoverySink};
use crate::frame::FrameHeader;
use crate::ids::{Block, Position, QueueUid, SegmentId};
use crate::large_message::LargeMessage;
use crate::limits::MESSAGE_OVERHEAD_BYTES;
use crate::live_runs::LiveRuns;
use crate::log_writer::LogEnd;
use crate::record::{FrameQueue, Record, StoredMessage};
use crate::scan::{Damage, RecordVisitor};
use crate::uid_map::UidMap;
use std::collections::BTreeMap;

/// A queue of the log.
struct Queue<M> {
    uid: QueueUid,
    is_there: bool,
    levels: Vec<RecoveredLevel<M>>,
}

impl<M> Queue<M> {
    fn level(&mut self, position: Position) -> &mut RecoveredLevel<M> {
        let number = position.level();
        let at = match self.levels.iter().position(|level| level.number == number) {
            Some(at) => at,
            None => {
                self.levels.push(RecoveredLevel::new(number));
                self.levels.len() - 1
            }
        };
        &mut self.levels[at]
    }
}

/// What a record does to a queue.
enum Change<M> {
    Message { position: Position, placed: Placed<M> },
    Settled { first: Position, count: u64 },
    Seen { position: Position },
    Returned { position: Position, times: u64 },
}

/// A large message whose body is being read.
struct Large {
    queue: usize,
    position: Position,
    extent: u32,
    message: LargeMessage,
}

/// What has been read.
pub(super) struct Recovery<'a, S: RecoverySink> {
    sink: &'a mut S,
    by_uid: UidMap<usize>,
    queues: Vec<Queue<S::Message>>,
    extents: Vec<Extent>,
    /// The table of the frame: indexes of `queues`.
    frame_queues: Vec<usize>,
    /// The last message of the frame, for a record that enters it into another queue, once it was built.
    last_message: Option<S::Message>,
    large: Option<Large>,
    /// What a commit without an end has so far.
    commit: Option<Vec<(usize, Change<S::Message>)>>,
}

impl<'a, S: RecoverySink> Recovery<'a, S> {
    pub fn new(sink: &'a mut S) -> Self {
        Recovery {
            sink,
            by_uid: UidMap::default(),
            queues: Vec::new(),
            extents: Vec::new(),
            frame_queues: Vec::new(),
            last_message: None,
            large: None,
            commit: None,
        }
    }

    fn enter(&mut self, uid: QueueUid, next: Position) {
        let index = match self.by_uid.get(&uid) {
            Some(&index) => index,
            None => {
                self.queues.push(Queue { uid, is_there: self.sink.is_there(uid), levels: Vec::new() });
                self.by_uid.insert(uid, self.queues.len() - 1);
                self.queues.len() - 1
            }
        };
        if self.queues[index].is_there {
            let level = self.queues[index].level(next);
            level.next = level.next.max(next.0);
        }
        self.frame_queues.push(index);
    }

    fn change(&mut self, queue: usize, change: Change<S::Message>) {
        if !self.queues[queue].is_there {
            return;
        }
        match &mut self.commit {
            Some(changes) => changes.push((queue, change)),
            None => self.apply(queue, change),
        }
    }

    fn apply(&mut self, queue: usize, change: Change<S::Message>) {
        let queue = &mut self.queues[queue];
        match change {
            Change::Message { position, placed } => queue.level(position).insert(position.0, placed),
            Change::Settled { first, count } => queue.level(first).settle(first.0, first.0.saturating_add(count)),
            Change::Seen { position } => {
                let level = queue.level(position);
                level.seen_end = level.seen_end.max(position.0.saturating_add(1));
                level.next = level.next.max(level.seen_end);
            }
            Change::Returned { position, times } => {
                let level = queue.level(position);
                level.returned.insert(position.0, u32::try_from(times).unwrap_or(u32::MAX));
                // The message may never have been written: its position is used up all the same.
                level.next = level.next.max(position.0.saturating_add(1));
            }
        }
    }

    fn message(&mut self, queue: usize, position: Position, message: &StoredMessage<'_>) {
        // Another record may enter it into a queue that is there.
        let built = self.sink.message(self.queues[queue].uid, message);
        self.last_message = Some(built.clone());
        let extent = self.extent();
        let bytes = message.body.len() as u64 + MESSAGE_OVERHEAD_BYTES;
        self.change(queue, Change::Message { position, placed: Placed { message: built, extent, bytes } });
    }

    /// The extent of the frame that is read.
    fn extent(&self) -> u32 {
        self.extents.len() as u32 - 1
    }

    fn part(&mut self, part: &[u8]) {
        let Some(large) = &mut self.large else { return };
        large.message.push(part);
        if !large.message.is_whole() {
            return;
        }
        let Some(large) = self.large.take() else { return };
        let built = self.sink.message(self.queues[large.queue].uid, &large.message.stored());
        let bytes = large.message.body_bytes() + MESSAGE_OVERHEAD_BYTES;
        let placed = Placed { message: built, extent: large.extent, bytes };
        self.change(large.queue, Change::Message { position: large.position, placed });
    }

    fn queue(&self, queue: FrameQueue) -> usize {
        self.frame_queues[queue.0 as usize]
    }

    /// Restores what is alive, queue by queue.
    pub fn finish(self, end: LogEnd) -> RecoveredLog {
        let Recovery { sink, mut queues, extents, commit, .. } = self;
        let has_open_commit = commit.is_some();
        let mut recovered = RecoveredLog { has_open_commit, extents, ..RecoveredLog::from(end) };
        queues.retain(|queue| queue.is_there);
        queues.sort_unstable_by_key(|queue| queue.uid);
        for mut queue in queues {
            queue.levels.sort_unstable_by_key(|level| level.number);
            let mut levels = Vec::new();
            for level in &mut queue.levels {
                let mut live = LiveRuns::default();
                let mut returned = BTreeMap::new();
                let found_returned = std::mem::take(&mut level.returned);
                for (position, placed) in level.take_messages() {
                    recovered.messages += 1;
                    live.push(position, placed.extent.into(), placed.bytes);
                    let found = FoundMessage {
                        was_delivered: position < level.seen_end,
                        times_returned: found_returned.get(&position).copied().unwrap_or(0),
                    };
                    if found.times_returned > 0 {
                        returned.insert(position, found.times_returned);
                    }
                    sink.restore(queue.uid, Position(position), placed.message, found);
                }
                levels.push(FoundLevel { number: level.number, live, seen_end: level.seen_end, returned });
            }
            let next: Vec<Position> = queue.levels.iter().map(|level| Position(level.next)).collect();
            sink.finish(queue.uid, &next);
            recovered.queues.push(FoundQueue { uid: queue.uid, levels });
        }
        recovered
    }
}

impl<S: RecoverySink> RecordVisitor for Recovery<'_, S> {
    fn on_frame(&mut self, segment: SegmentId, block: Block, header: &FrameHeader) {
        self.frame_queues.clear();
        self.last_message = None;
        let end = block.0 + header.blocks();
        match self.extents.last_mut() {
            Some(last) if last.takes(segment.number, block) => last.end = end,
            _ => self.extents.push(Extent { segment: segment.number, block: block.0, end }),
        }
    }

    fn on_record(&mut self, record: Record<'_>) {
        if let Record::Part(part) = record {
            return self.part(part);
        }
        // A body whose parts do not follow was never written to its end.
        self.large = None;
        match record {
            Record::Queue { uid, next, .. } => self.enter(uid, next),
            Record::Message { queue, position, message } => self.message(self.queue(queue), position, &message),
            Record::Large { queue, position, head, body_bytes } => {
                self.last_message = None;
                let message = LargeMessage::new(&head, body_bytes);
                self.large = Some(Large { queue: self.queue(queue), position, extent: self.extent(), message });
            }
            Record::Again { queue, position } => {
                if let Some(message) = self.last_message.clone() {
                    let placed = Placed { message, extent: self.extent(), bytes: MESSAGE_OVERHEAD_BYTES };
                    self.change(self.queue(queue), Change::Message { position, placed });
                }
            }
            Record::Settled { queue, first, count } => {
                self.change(self.queue(queue), Change::Settled { first, count });
            }
            Record::Seen { queue, position } => self.change(self.queue(queue), Change::Seen { position }),
            Record::Returned { queue, position, times } => {
                self.change(self.queue(queue), Change::Returned { position, times });
            }
            Record::CommitBegin => self.commit = Some(Vec::new()),
            Record::CommitEnd => {
                for (queue, change) in self.commit.take().unwrap_or_default() {
                    self.apply(queue, change);
                }
            }
            Record::CommitAborted => self.commit = None,
            Record::Definition { .. } | Record::Part(_) => {}
        }
    }

    fn on_damage(&mut self, damage: &Damage) {
        self.large = None;
        self.commit = None;
        self.sink.on_damage(damage);
    }
}
