//! Messages that had been written and cannot be read: how they are named, which of them a part of the log has, and the scrub that
//! looks for them.

use super::queues::QueueTable;
use super::segments::SegmentUses;
use super::{LoggedMessage, MessageLog, MessageLogEvent};
use crate::ids::{Block, LogId, Position, QueueUid, SegmentId};
use crate::limits::SCRUB_PATIENCE_US;
use crate::request::Request;
use crate::scrub::ScrubbedDamage;
use std::fmt;
use std::ops::Range;

/// Messages of one level of a queue that had been written and cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageDamage {
    pub segment: SegmentId,
    /// Where the group begins that has the first of them.
    pub block: Block,
    pub queue: QueueUid,
    /// The first of them, and the position behind the last.
    pub first: Position,
    pub end: Position,
}

impl fmt::Display for MessageDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MessageDamage { segment, block, queue, first, end } = self;
        let (block, queue, first, last) = (block.0, queue.0, first.0, end.0 - 1);
        write!(
            f,
            "{segment} is damaged at block {block}: of queue {queue} messages {first} to {last} cannot all be read"
        )
    }
}

impl<M: LoggedMessage + Clone> MessageLog<M> {
    /// The next damage that was found.
    pub(super) fn take_damage(&mut self) -> Option<MessageLogEvent> {
        if let Some(damage) = self.fetcher.take_damage() {
            self.damage_found += 1;
            return Some(MessageLogEvent::Damaged(damage));
        }
        if let Some(lost) = self.lost.pop_front() {
            return Some(MessageLogEvent::Lost(lost));
        }
        let ScrubbedDamage { damage, blocks } = self.scrub.take_damage()?;
        self.damage_found += 1;
        self.tell_lost(self.segments.groups_within(damage.segment.number, &blocks));
        Some(MessageLogEvent::Scrubbed(damage))
    }

    /// When the scrub goes on: at once if nothing is to be written, and a moment later in any case.
    pub(super) fn scrub_us(&self) -> Option<u64> {
        let is_quiet = self.writer.is_idle() && self.list.is_empty();
        Some(self.scrub.timer_us()? + if is_quiet { 0 } else { SCRUB_PATIENCE_US })
    }

    /// What the scrub reads.
    pub(super) fn poll_scrub(&mut self, now_us: u64) -> Option<Request> {
        if self.scrub_us().is_some_and(|scrub_us| now_us < scrub_us) {
            return None;
        }
        self.scrub.poll(&self.writer, now_us)
    }

    /// Tells which messages that are alive some groups have, which cannot be read. Every run of the log is looked at: a place is
    /// found to be damaged once.
    pub(super) fn tell_lost(&mut self, groups: Range<u64>) {
        let log = self.writer.chain().log;
        self.lost.extend(alive_in(log, &self.queues, &self.segments, &groups));
    }
}

/// What is alive of some groups, by queues and levels.
fn alive_in(
    log: LogId,
    queues: &QueueTable,
    segments: &SegmentUses,
    groups: &Range<u64>,
) -> impl Iterator<Item = MessageDamage> {
    queues.levels().filter_map(move |(queue, level)| {
        let mut runs = level.live.iter().filter(|run| groups.contains(&run.group));
        let first = runs.next()?;
        let end = runs.last().unwrap_or(first).end();
        let place = segments.place_of(first.group, first.group, 0)?;
        let segment = SegmentId { log, number: place.segment };
        let (first, end) = (Position(first.first), Position(end));
        Some(MessageDamage { segment, block: Block(place.blocks.start), queue, first, end })
    })
}
