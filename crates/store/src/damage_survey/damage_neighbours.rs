//! What the frames in front of damage and behind it say of the messages in between.
//!
//! Enters: the frames and records of a scan that skips damage.  Leaves: where damage begins and ends; gaps between positions;
//! messages that had begun in front of it.
//!
//! A level of a queue appends its messages in the order of their positions. If the last one in front of damage and the first one
//! behind it are no neighbours, those in between were in what is damaged, or were never written: they are transient, or were
//! settled before. Messages that are moved are written again later, with positions that are lower than others: they are passed
//! over.

use crate::frame::FrameHeader;
use crate::ids::{Block, Position, QueueUid, SegmentId, SegmentNumber};
use crate::record::{FrameQueue, Record};
use crate::scan::{Damage, RecordVisitor};
use std::collections::HashMap;
use std::ops::Range;

/// Where frames are missing.
#[derive(Clone, Copy)]
pub(super) struct DamagedPlace {
    pub damage: Damage,
    /// The first frame behind it, if there is one.
    pub next: Option<(SegmentNumber, u32)>,
}

/// Messages of a level that are missing between two others, of the damage with these numbers.
pub(super) struct PositionGap {
    pub damage: Range<usize>,
    pub queue: QueueUid,
    pub positions: Range<u64>,
}

/// Messages, or settlements of messages, that do not count: the end of their commit or the rest of their bodies may be among what
/// is missing.
#[derive(Clone)]
pub(super) struct InterruptedRun {
    pub damage: usize,
    pub queue: QueueUid,
    pub positions: Range<u64>,
    pub is_settlement: bool,
}

struct LevelEnd {
    /// The position behind the highest one.
    end: u64,
    /// How much damage there was in front of that one.
    damage: usize,
}

/// A large message whose body goes on.
struct OpenLarge {
    queue: QueueUid,
    position: Position,
    missing_bytes: u64,
}

/// Follows a scan.
#[derive(Default)]
pub(super) struct DamageNeighbours {
    pub places: Vec<DamagedPlace>,
    pub gaps: Vec<PositionGap>,
    pub interrupted: Vec<InterruptedRun>,
    levels: HashMap<(QueueUid, u8), LevelEnd>,
    /// The table of the frame.
    queues: Vec<QueueUid>,
    large: Option<OpenLarge>,
    /// What the commit has that is open.
    commit: Option<Vec<InterruptedRun>>,
}

fn run_of(position: Position) -> Range<u64> {
    position.0..position.0 + 1
}

impl DamageNeighbours {
    fn in_commit(&mut self, run: InterruptedRun) {
        if let Some(commit) = &mut self.commit {
            commit.push(run);
        }
    }

    fn on_message(&mut self, queue: FrameQueue, position: Position) -> QueueUid {
        let queue = self.queues[queue.0 as usize];
        let damage = self.places.len();
        self.in_commit(InterruptedRun { damage, queue, positions: run_of(position), is_settlement: false });
        let known = self.levels.entry((queue, position.level())).or_insert(LevelEnd { end: position.0, damage });
        if position.0 > known.end && known.damage < damage {
            self.gaps.push(PositionGap { damage: known.damage..damage, queue, positions: known.end..position.0 });
        }
        if position.0 >= known.end {
            *known = LevelEnd { end: position.0 + 1, damage };
        }
        queue
    }
}

impl RecordVisitor for DamageNeighbours {
    fn on_frame(&mut self, segment: SegmentId, block: Block, _header: &FrameHeader) {
        self.queues.clear();
        if let Some(place) = self.places.last_mut() {
            place.next.get_or_insert((segment.number, block.0));
        }
    }

    fn on_record(&mut self, record: Record<'_>) {
        if let Record::Part(bytes) = record {
            if let Some(large) = &mut self.large {
                large.missing_bytes = large.missing_bytes.saturating_sub(bytes.len() as u64);
            }
            self.large.take_if(|large| large.missing_bytes == 0);
            return;
        }
        self.large = None;
        match record {
            Record::Queue { uid, .. } => self.queues.push(uid),
            Record::Message { queue, position, .. } | Record::Again { queue, position } => {
                self.on_message(queue, position);
            }
            Record::Large { queue, position, body_bytes, .. } => {
                let queue = self.on_message(queue, position);
                self.large = Some(OpenLarge { queue, position, missing_bytes: body_bytes });
            }
            Record::Settled { queue, first, count } => {
                let (damage, queue) = (self.places.len(), self.queues[queue.0 as usize]);
                let positions = first.0..first.0.saturating_add(count);
                self.in_commit(InterruptedRun { damage, queue, positions, is_settlement: true });
            }
            Record::CommitBegin => self.commit = Some(Vec::new()),
            Record::CommitEnd | Record::CommitAborted => self.commit = None,
            _ => {}
        }
    }

    fn on_damage(&mut self, damage: &Damage) {
        let number = self.places.len();
        self.places.push(DamagedPlace { damage: *damage, next: None });
        self.interrupted.extend(self.commit.take().unwrap_or_default());
        self.interrupted.extend(self.large.take().map(|OpenLarge { queue, position, .. }| InterruptedRun {
            damage: number,
            queue,
            positions: run_of(position),
            is_settlement: false,
        }));
    }
}
