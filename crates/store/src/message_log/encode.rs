//! Fills a group with what is unwritten.
//!
//! Settlements are gathered, so that neighbours become one record, and follow the messages that came before them: what
//! replaces a message is never behind its settlement.

use super::mover::{Mover, Target};
use super::pending::{Entry, PendingList};
use super::queues::{Level, QueueTable};
use super::segments::SegmentUses;
use super::tickets::Tickets;
use super::{LoggedMessage, MessageLog};
use crate::group::{Group, GroupFull};
use crate::ids::Position;
use crate::limits::{
    GROUP_BYTES_MAX, MESSAGE_OVERHEAD_BYTES, MOVE_GROUP_BYTES, MOVE_SHARES_MAX, RECORD_OVERHEAD_BYTES_MAX,
    SEGMENTS_UNMOVED, SETTLEMENT_RESERVE_BYTES, SETTLEMENT_RUNS_MAX, WHOLE_BODY_BYTES_MAX,
};

/// The runs of settlements that are gathered: the levels that have one.
#[derive(Default)]
pub(super) struct Settlements {
    levels: Vec<(u32, u8)>,
}

impl Settlements {
    /// Gathers a settlement. The group has capacity for those that are gathered.
    fn gather(&mut self, group: &mut Group, queues: &mut QueueTable, queue: u32, first: Position, count: u64) {
        let level = queues.level(queue, first);
        let end = first.0 + count;
        match &mut level.settled {
            Some((_, run_end)) if *run_end == first.0 => *run_end = end,
            Some((run_first, _)) if *run_first == end => *run_first = first.0,
            Some(run) => {
                let (run_first, run_end) = std::mem::replace(run, (first.0, end));
                put_settled(group, level, run_first, run_end);
            }
            None => {
                level.settled = Some((first.0, end));
                self.levels.push((queue, first.level()));
                if self.levels.len() == SETTLEMENT_RUNS_MAX {
                    self.flush(group, queues);
                }
            }
        }
    }

    /// Writes what is gathered.
    pub fn flush(&mut self, group: &mut Group, queues: &mut QueueTable) {
        for (queue, number) in self.levels.drain(..) {
            let state = queues.get(queue);
            if state.is_dropped {
                continue;
            }
            let Some(level) = state.level(number) else { continue };
            if let Some((first, end)) = level.settled.take() {
                put_settled(group, level, first, end);
            }
        }
    }
}

fn put_settled(group: &mut Group, level: &mut Level, first: u64, end: u64) {
    group.settled(&mut level.cursor, Position(first), end - first).expect("messages left capacity for settlements");
}

/// Where a group ends, but for the settlements that are gathered.
pub(super) const GROUP_END: usize = GROUP_BYTES_MAX - SETTLEMENT_RESERVE_BYTES;

/// Whether a group that ends there has capacity for so many bytes.
pub(super) fn has_capacity(group: &Group, bytes: usize, end: usize) -> bool {
    group.bytes() + bytes + RECORD_OVERHEAD_BYTES_MAX <= end
}

/// Why no more entries are put into a group.
pub(super) enum Stop {
    /// It is full, or the list is empty.
    Done,
    /// It ends within the body of a large message: nothing else may follow.
    WithinBody,
}

impl<M: LoggedMessage + Clone> MessageLog<M> {
    /// Puts what is unwritten into the group that is being filled, as much as there is capacity for.
    pub(super) fn fill_group(&mut self) {
        if std::mem::take(&mut self.has_aborted_commit) {
            self.writer.filling().commit_aborted().expect("the group is empty");
        }
        if let Stop::Done = self.fill_begun() {
            self.fill_seen();
        }
    }

    /// Everything that may be within a large body at the group's end.
    fn fill_begun(&mut self) -> Stop {
        if let Some(mover) = &mut self.mover
            && let Stop::WithinBody = mover.fill_body(self.writer.filling())
        {
            return Stop::WithinBody;
        }
        if let Stop::WithinBody = self.fill_entries() {
            return Stop::WithinBody;
        }
        self.settlements.flush(self.writer.filling(), &mut self.queues);
        if self.is_within_commit {
            return Stop::Done;
        }
        self.fill_moved()
    }

    /// Goes on with moving a segment.
    fn fill_moved(&mut self) -> Stop {
        let share = self.overdue_shares().max(1) * MOVE_GROUP_BYTES;
        let Self { writer, queues, segments, settlements, mover, moved, .. } = self;
        let Some(mover) = mover else { return Stop::Done };
        let (group, starts) = writer.filling_and_segments();
        let mut target = Target { group, queues, segments, settlements, moved };
        mover.fill(&mut target, starts, share)
    }

    /// Bytes of the group that what clients append leaves to what is moved. Without them a log would grow for as long as they fill
    /// every group.
    fn reserved_for_moving(&self) -> usize {
        let is_ready = self.mover.as_ref().is_some_and(Mover::is_ready);
        if is_ready { self.overdue_shares() * MOVE_GROUP_BYTES } else { 0 }
    }

    /// Whether the next group waits for a piece that is being read, so that it has something of it.
    pub(super) fn awaits_moving(&self) -> bool {
        self.mover.as_ref().is_some_and(Mover::is_reading_piece) && self.overdue_shares() == MOVE_SHARES_MAX
    }

    /// By how many segments moving is behind.
    fn overdue_shares(&self) -> usize {
        let dead_bytes = self.log_bytes().saturating_sub(2 * self.live_bytes());
        let segments = usize::try_from(dead_bytes / self.writer.segment_bytes()).unwrap_or(usize::MAX);
        segments.saturating_sub(SEGMENTS_UNMOVED + 1).min(MOVE_SHARES_MAX)
    }

    fn fill_entries(&mut self) -> Stop {
        let reserved = self.reserved_for_moving();
        let end = GROUP_END - reserved;
        let Self { writer, list, queues, segments, tickets, settlements, .. } = self;
        let group = writer.filling();
        let begun = group.bytes();
        let mut last: Option<M> = None;
        while let Some(entry) = list.front() {
            match entry {
                // A commit settled it, and then its queue was dropped.
                Entry::Message { queue, message, .. } if list.body_at().is_none() && queues.get(*queue).is_dropped => {
                    let bytes = message.bytes();
                    list.subtract(bytes);
                }
                Entry::Message { queue, position, message, .. } => {
                    let stored = message.stored();
                    let (queue, position) = (*queue, *position);
                    let is_large = stored.body.len() > WHOLE_BODY_BYTES_MAX;
                    if is_large {
                        let body_at = match list.body_at() {
                            Some(body_at) => body_at,
                            None => {
                                let head = stored.properties.len() + stored.exchange.len() + stored.routing_key.len();
                                // Nothing is moved before the body's end.
                                let is_kept_back = reserved > 0 && group.bytes() > begun;
                                if is_kept_back || !has_capacity(group, head + stored.bcc.len(), end) {
                                    return Stop::Done;
                                }
                                settlements.flush(group, queues);
                                let level = queues.level(queue, position);
                                let body_bytes = stored.body.len() as u64;
                                group
                                    .large_message(&mut level.cursor, position, &stored, body_bytes)
                                    .expect("the group has capacity");
                                let live = body_bytes + MESSAGE_OVERHEAD_BYTES;
                                let run = segments.add(position.0, 1, live);
                                segments.count_runs(level.live.push(run));
                                0
                            }
                        };
                        let mut rest = &stored.body[body_at..];
                        let is_full = put_parts(group, &mut rest).is_err();
                        let body_at = stored.body.len() - rest.len();
                        if is_full {
                            list.set_body_at(body_at);
                            return Stop::WithinBody;
                        }
                    } else {
                        let bytes = stored.properties.len()
                            + stored.exchange.len()
                            + stored.routing_key.len()
                            + stored.bcc.len()
                            + stored.body.len();
                        if !has_capacity(group, bytes, end) {
                            return Stop::Done;
                        }
                        let level = queues.level(queue, position);
                        let is_again =
                            last.as_ref().is_some_and(|last| last.is_same(message)) && group.last_is_message();
                        let put = match is_again {
                            true => group.again(&mut level.cursor, position),
                            false => group.message(&mut level.cursor, position, &stored),
                        };
                        put.expect("the group has capacity");
                        let live = if is_again { 0 } else { stored.body.len() as u64 } + MESSAGE_OVERHEAD_BYTES;
                        let run = segments.add(position.0, 1, live);
                        segments.count_runs(level.live.push(run));
                        if position.0 < level.seen_end && !level.is_seen_dirty {
                            level.is_seen_dirty = true;
                            self.seen.push_back((queue, position.level()));
                        }
                    }
                    let Some(Entry::Message { message, .. }) = list.pop() else { break };
                    let bytes = message.bytes();
                    list.subtract(bytes);
                    tickets.encode();
                    if !is_large && list.alike().next().is_some() {
                        let level = queues.level(queue, position);
                        let head_bytes = bytes - message.body().len();
                        let put = put_alike(group, end, level, (position.0 + 1, head_bytes), list, segments, tickets);
                        last = put.or(Some(message));
                    } else {
                        last = Some(message).filter(|_| !is_large);
                    }
                    continue;
                }
                &Entry::Unwritten { settled_behind } => {
                    list.pop();
                    tickets.pass_over(settled_behind);
                    continue;
                }
                &Entry::Settled { queue, first, count } => {
                    if !has_capacity(group, 0, end) {
                        return Stop::Done;
                    }
                    if !queues.get(queue).is_dropped {
                        settlements.gather(group, queues, queue, first, count);
                        // What was unwritten when a commit settled it.
                        let by = tickets.encoded() + 1;
                        let level = queues.level(queue, first);
                        let change = level.live.remove(first.0, first.0 + count, |run| segments.settle(&run, by));
                        segments.count_runs(change);
                    }
                }
                &Entry::Returned { queue, position, times } => {
                    if !has_capacity(group, 0, end) {
                        return Stop::Done;
                    }
                    if !queues.get(queue).is_dropped {
                        // Whatever settled the message may be behind this, and not be durable.
                        let cursor = &mut queues.level(queue, position).cursor;
                        group.returned(cursor, position, times.into()).expect("the group has capacity");
                    }
                }
                Entry::CommitBegin => {
                    let is_open = self.open_commit.is_some_and(|begin| begin == tickets.encoded() + 1);
                    if is_open || !has_capacity(group, 0, end) {
                        return Stop::Done;
                    }
                    settlements.flush(group, queues);
                    group.commit_begin().expect("the group has capacity");
                    self.is_within_commit = true;
                }
                Entry::CommitEnd => {
                    if !has_capacity(group, 0, end) {
                        return Stop::Done;
                    }
                    settlements.flush(group, queues);
                    group.commit_end().expect("the group has capacity");
                    self.is_within_commit = false;
                }
                &Entry::Dropped { queue } => queues.free(queue),
            }
            list.pop();
            tickets.encode();
        }
        Stop::Done
    }

    /// Writes how far queues were handed out, where that matters.
    fn fill_seen(&mut self) {
        // Messages that are settled by what is in no group yet count as well.
        let has_more = !self.list.is_empty();
        let group = self.writer.filling();
        while let Some(&(queue, number)) = self.seen.front() {
            if !has_capacity(group, 0, GROUP_END) {
                return;
            }
            self.seen.pop_front();
            let Some(level) = self.queues.get(queue).level(number) else { continue };
            if !std::mem::take(&mut level.is_seen_dirty) {
                continue;
            }
            let end = level.seen_end;
            if has_more || level.live.first().is_some_and(|first| first < end) {
                group.seen(&mut level.cursor, Position(end - 1)).expect("the group has capacity");
            }
        }
    }
}

/// Puts messages at the front of the list into the group that differ in their bodies alone from the one before them, which was
/// put there last: as many as there is capacity for, from this position on, each with so many bytes beside its body. Returns the
/// last of them.
fn put_alike<M: LoggedMessage>(
    group: &mut Group,
    end: usize,
    level: &mut Level,
    (first, head_bytes): (u64, usize),
    list: &mut PendingList<M>,
    segments: &mut SegmentUses,
    tickets: &mut Tickets,
) -> Option<M> {
    let bodies = list.alike().map(LoggedMessage::body);
    let written = group.alike(&mut level.cursor, bodies, end);
    let count = u64::from(written.records);
    if count == 0 {
        return None;
    }
    // That they were seen is noted, if they were: so was the one before them.
    let live = written.body_bytes + count * MESSAGE_OVERHEAD_BYTES;
    let run = segments.add(first, count, live);
    segments.count_runs(level.live.push(run));
    tickets.encode_all(count);
    let records = written.records as usize;
    list.pop_alike(records, records * head_bytes + written.body_bytes as usize)
}

pub(super) fn put_parts(group: &mut Group, rest: &mut &[u8]) -> Result<(), GroupFull> {
    while !rest.is_empty() {
        group.part(rest)?;
    }
    Ok(())
}
